//! Changes of a list, and their effects.

use std::ops::Range;

/// Maximum bytes of the length of an element.
pub(crate) const LEN_MAX: usize = 5;

/// A change of a list. Positions refer to the list before the change. A change at a position that the list does not
/// have is skipped: replay may apply it to a younger list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change<'c> {
    /// Inserts before the first element.
    Front(&'c [u8]),
    /// Inserts after the last element.
    Back(&'c [u8]),
    /// Inserts before the element at a position.
    Insert(usize, &'c [u8]),
    /// Replaces the element at a position.
    Set(usize, &'c [u8]),
    /// Removes these elements. Consecutive removals must go from back to front, so that one pass can apply them.
    Remove(Range<usize>),
}

/// The effect of changes on a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Length of the list after the changes.
    pub(crate) len: usize,
    /// Number of elements added, replaced or removed.
    pub(crate) done: usize,
}

impl Change<'_> {
    /// The length after the change, and the number of affected elements. None if the position does not exist.
    pub(super) fn effect(&self, len: usize) -> Option<Tally> {
        let (len, done) = match self {
            Change::Front(_) | Change::Back(_) => (len + 1, 1),
            Change::Insert(at, _) if *at < len => (len + 1, 1),
            Change::Set(at, _) if *at < len => (len, 1),
            Change::Remove(range) if range.start < range.end.min(len) => {
                let gone = range.end.min(len) - range.start;
                (len - gone, gone)
            }
            _ => return None,
        };
        Some(Tally { len, done })
    }

    pub(super) fn element(&self) -> &[u8] {
        match self {
            Change::Front(element)
            | Change::Back(element)
            | Change::Insert(_, element)
            | Change::Set(_, element) => element,
            Change::Remove(_) => &[],
        }
    }
}

/// The effect of changes on a list of this length.
pub(super) fn tally(len: usize, changes: &[Change<'_>]) -> Tally {
    changes.iter().fold(Tally { len, done: 0 }, |tally, change| match change.effect(tally.len) {
        Some(effect) => Tally { len: effect.len, done: tally.done + effect.done },
        None => tally,
    })
}
