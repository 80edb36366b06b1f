//! Which arguments of a request are keys.

use super::Spec;
use crate::args::ArgsView;

/// A run of arguments that are keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// Index of the first key; the command's name has index 0.
    pub first: u8,
    /// Index of the last key; -1 is the last argument.
    pub last: i8,
    /// From one key to the next.
    pub step: u8,
    /// What happens to the keys.
    pub access: Access,
}

/// What a command does with its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads the values.
    Read,
    /// Looks at the keys, not at the values.
    Look,
    /// Reads and changes the values.
    Modify,
    /// As `Modify`, or only one of both, depending on the options.
    Vary,
    /// Reads and removes.
    Take,
    /// Replaces, whatever the value was.
    Overwrite,
    /// Creates, and leaves what is there.
    Create,
    /// Adds to the value without reading it.
    Extend,
    /// Changes a part or a property without reading.
    Adjust,
    /// Removes, whatever the value was.
    Remove,
}

impl Access {
    /// Redis's names for it, as the flags of a key specification.
    pub fn names(self) -> &'static [&'static str] {
        match self {
            Self::Read => &["RO", "access"],
            Self::Look => &["RO"],
            Self::Modify => &["RW", "access", "update"],
            Self::Vary => &["RW", "access", "update", "variable_flags"],
            Self::Take => &["RW", "access", "delete"],
            Self::Overwrite => &["OW", "update"],
            Self::Create => &["OW", "insert"],
            Self::Extend => &["RW", "insert"],
            Self::Adjust => &["RW", "update"],
            Self::Remove => &["RM", "delete"],
        }
    }
}

impl KeyRange {
    /// Index of the last key of a request of `n_args` arguments.
    fn last_idx(self, n_args: usize) -> usize {
        match usize::try_from(self.last) {
            Ok(last) => last,
            Err(_) => n_args.saturating_sub(usize::from(self.last.unsigned_abs())),
        }
    }
}

impl Spec {
    /// First, last and step over all keys, as `COMMAND` gives them; zeros without keys.
    pub fn key_positions(&self) -> (i64, i64, i64) {
        match (self.keys.first(), self.keys.last()) {
            (Some(first), Some(last)) => (first.first.into(), last.last.into(), first.step.into()),
            _ => (0, 0, 0),
        }
    }

    /// The keys of a request of this command, in order; used to prefetch them.
    #[inline]
    pub fn keys_of<'a>(&self, request: ArgsView<'a>) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let n_args = request.len();
        self.keys.iter().flat_map(move |range| {
            let end = (range.last_idx(n_args) + 1).min(n_args);
            (usize::from(range.first)..end)
                .step_by(usize::from(range.step))
                .map(move |i| request.at(i))
        })
    }
}
