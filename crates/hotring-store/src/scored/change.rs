//! Changes of a sorted set.

/// A change of members.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Change<'a> {
    /// Sets the score of a member.
    Put(&'a [u8], f64),
    /// Removes a member.
    Remove(&'a [u8]),
    /// Removes the members from the first rank up to the second, which is excluded.
    RemoveRanks(usize, usize),
}

/// The effect of changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// New members.
    pub(crate) added: usize,
    /// Existing members whose score changed.
    pub(crate) moved: usize,
    /// Removed members.
    pub(crate) removed: usize,
}
