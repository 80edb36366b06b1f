//! Members of a set, and their changes.

use std::borrow::Cow;

/// Maximum bytes of the length of a member.
pub(super) const LEN_MAX: usize = 5;

/// A member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Member<'a> {
    /// The canonical decimal text of this integer.
    Int(i64),
    /// Any text.
    Bytes(&'a [u8]),
}

impl Member<'_> {
    /// Calls `f` with the text.
    pub fn with_bytes<R>(&self, f: impl FnOnce(&[u8]) -> R) -> R {
        match self {
            Member::Int(n) => f(itoa::Buffer::new().format(*n).as_bytes()),
            Member::Bytes(bytes) => f(bytes),
        }
    }

    /// A copy of the text.
    pub fn to_vec(&self) -> Vec<u8> {
        self.with_bytes(<[u8]>::to_vec)
    }
}

/// A change of one member.
#[derive(Clone, Debug)]
pub(crate) struct Change<'a> {
    pub(crate) member: Cow<'a, [u8]>,
    /// Whether the member is added; otherwise it is removed.
    pub(crate) adds: bool,
}

impl<'a> Change<'a> {
    pub(crate) fn add(member: &'a [u8]) -> Change<'a> {
        Change { member: member.into(), adds: true }
    }

    pub(crate) fn remove(member: &'a [u8]) -> Change<'a> {
        Change { member: member.into(), adds: false }
    }
}

/// The effect of changes on a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// New members.
    pub(crate) added: usize,
    /// Removed members.
    pub(crate) removed: usize,
}
