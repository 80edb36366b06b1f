//! The words of chains: layout and predicates. Nothing here accesses memory.
//!
//! ```text
//! bucket     63 .. 58    57      56 .. 48  47 ......... 3   2 .. 0
//!            level + 1   FROZEN  -         first item, or 0 -
//! item.next  63 .. 51    50   49   48      47 ......... 3   2  1       0
//!            -           SIGN REPL -       successor, or 0  -  SEALED  MARK
//! ```
//!
//! * A bucket whose word is 0 is not ready: its keys are still in the bucket that it is split from.
//! * FROZEN: the bucket is being split. The word changes only once more, to the next level.
//! * SEALED: the item is leaving its bucket, or has left it if MARK is set. REPL is set with it, as
//!   its key lives on in a copy.
//! * MARK, REPL, SIGN are those of every engine ([`hotring_index::word`]).

use hotring_index::word::{ADDRESS, HINTED};

/// Uses the bit of HINTED, as chains have no hints.
pub(crate) const SEALED: u64 = HINTED;

const FROZEN_BIT: u64 = 1 << 57;
const LEVEL_SHIFT: u32 = 58;

/// The item that a word leads to, 0 for none.
#[inline(always)]
pub(crate) fn address(word: u64) -> u64 {
    word & ADDRESS
}

/// The same flags with another item's address.
#[inline(always)]
pub(crate) fn with_address(word: u64, address: u64) -> u64 {
    debug_assert!(address & !ADDRESS == 0, "an item address");
    word & !ADDRESS | address
}

/// The lowest `level` bits of a hash.
#[inline(always)]
pub(crate) fn low_bits(hash: u64, level: u32) -> u64 {
    hash & ((1 << level) - 1)
}

/// A copy of a bucket's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head(pub(crate) u64);

impl Head {
    pub(crate) const fn new(level: u32, first: u64) -> Self {
        Self((level as u64 + 1) << LEVEL_SHIFT | first)
    }

    #[inline(always)]
    pub(crate) fn is_ready(self) -> bool {
        self.0 != 0
    }

    #[inline(always)]
    pub(crate) fn is_frozen(self) -> bool {
        self.0 & FROZEN_BIT != 0
    }

    /// The number of hash bits that the bucket's items have in common. The bucket must be ready.
    #[inline(always)]
    pub(crate) fn level(self) -> u32 {
        debug_assert!(self.is_ready(), "a bucket that is not ready has no level");
        (self.0 >> LEVEL_SHIFT) as u32 - 1
    }

    #[inline(always)]
    pub(crate) fn first(self) -> u64 {
        address(self.0)
    }

    pub(crate) fn frozen(self) -> Self {
        Self(self.0 | FROZEN_BIT)
    }

    /// The word after the split.
    pub(crate) fn after_split(self) -> Self {
        Self((self.0 & !FROZEN_BIT) + (1 << LEVEL_SHIFT))
    }

    /// Whether a hash belongs to bucket `index` on this level.
    #[inline(always)]
    pub(crate) fn holds(self, index: u64, hash: u64) -> bool {
        low_bits(hash ^ index, self.level()) == 0
    }

    /// The hash bit of items that leave in the split from this level.
    #[inline(always)]
    pub(crate) fn leaving(self) -> u64 {
        1 << self.level()
    }

    /// The second half when bucket `index` is split; the first half is the bucket itself.
    pub(crate) fn sibling(self, index: u64) -> u64 {
        index | self.leaving()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_goes_through_a_split_with_its_first_item() {
        let head = Head::new(3, 0x7fff_ffff_fff8);
        assert!(head.is_ready() && !head.is_frozen());
        assert_eq!((head.level(), head.first()), (3, 0x7fff_ffff_fff8));
        let frozen = head.frozen();
        assert!(frozen.is_frozen() && frozen != head);
        assert_eq!((frozen.level(), frozen.first(), frozen.sibling(5)), (3, head.first(), 13));
        assert_eq!(frozen.after_split(), Head::new(4, head.first()));
        assert!(!Head(0).is_ready() && Head::new(0, 0).is_ready());
        assert_eq!(Head::new(32, 8).after_split().level(), 33);
    }

    #[test]
    fn a_bucket_holds_the_hashes_that_end_in_its_number() {
        let head = Head::new(3, 0);
        assert!(head.holds(5, 0b1101) && head.holds(5, 5) && !head.holds(5, 4));
        assert!(Head::new(0, 0).holds(0, u64::MAX));
        assert_eq!(low_bits(u64::MAX, 33), (1 << 33) - 1);
    }

    #[test]
    fn words_keep_their_flags() {
        assert_eq!(with_address(SEALED | 1 << 50 | 0x10, 0x20), SEALED | 1 << 50 | 0x20);
        assert_eq!(address(Head::new(9, 0x40).frozen().0), 0x40);
    }
}
