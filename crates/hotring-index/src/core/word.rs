//! The three words of the protocol: their bit layouts, and functions on copies of them. Nothing here accesses
//! shared memory.
//!
//! ```text
//! item.next    63      56 55  52 51  50   49   48     47 ......... 3  2        1      0
//!              counter    debt   -  SIGN REPL ANCHOR successor        UNLINKED HINTED MARK
//! anchor.next  63       62   61 ....... 49 48     47 ......... 3      2        1      0
//!              COMPLETE CAND stamp         ANCHOR successor           -        BUSY   MARK
//! hint         63 .. 48  47 ................... 3                     2 .. 0
//!              tag       item address, 0 if reserved                  votes
//! hint (paper) 63     62 .. 48      47 ......... 3                    2 .. 0
//!              ACTIVE total counter item address                      -
//! ```
//!
//! * MARK: the item is dead; its successor never changes again (I1).
//! * HINTED: claimed by a hint word, or by another session about to store one (I4).
//! * UNLINKED: out of the chain, kept alive by the claim (I5).
//! * ANCHOR: the successor is an anchor, and the successor bits are its slot number.
//! * REPL: dead by replacement; its copy was alive when MARK was set.
//! * SIGN: bit 63 of the item's in-place value, because the value word uses its bit 63 for FROZEN. Constant.
//! * debt: the estimated number of dead versions before this item in the chain. In a dead item: `LEFT` if the
//!   session that replaced the item has left it in the chain (`ring/lazy.rs`).
//! * counter: accesses seen by the sampling strategy; overflow falls off the end. With other strategies,
//!   for byte strings: the access bits of the eviction policy (`bytes/marks.rs`).
//! * BUSY: the slot is being split off and must not be used as a start (I7).
//! * A hint word with votes but no address is *reserved* by an inserter, for the key of its tag.

use std::cmp::Ordering;

pub const MARK: u64 = 1;
pub const HINTED: u64 = 1 << 1;
pub const UNLINKED: u64 = 1 << 2;
/// The same bit as HINTED, but on anchors, which are never hinted.
pub const BUSY: u64 = HINTED;
pub const ANCHOR: u64 = 1 << 48;
pub const REPL: u64 = 1 << 49;
pub const SIGN: u64 = 1 << 50;

pub const ADDRESS: u64 = ((1 << 48) - 1) & !7;
const SUCCESSOR: u64 = ADDRESS | ANCHOR;
const DEBT_SHIFT: u32 = 52;
const DEBT: u64 = 0xf << DEBT_SHIFT;
const COUNTER_SHIFT: u32 = 56;
pub const COUNTER_ONE: u64 = 1 << COUNTER_SHIFT;
pub const COUNTER: u64 = 0xff << COUNTER_SHIFT;
/// The parts of a word that the successor of an item inherits.
pub const MADE_WITH: u64 = SIGN | COUNTER;

pub const COMPLETE: u64 = 1 << 63;
pub const CANDIDATE: u64 = 1 << 62;
/// The number of distinct stamps. Smaller under a checker, so that stamps wrap around within a run.
pub const STAMPS: u64 = if cfg!(any(loom, shuttle)) { 1 << 3 } else { 1 << 13 };
const STAMP_SHIFT: u32 = 49;
const STAMP: u64 = (STAMPS - 1) << STAMP_SHIFT;
/// All bits about the line's completeness.
pub const CONTROL: u64 = COMPLETE | CANDIDATE | STAMP;

/// Bit 63 of an in-place value word: the value never changes again (I6).
pub const FROZEN: u64 = 1 << 63;

/// The successor part of a word: an item's address or an anchor's slot number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Link(u64);

impl Link {
    /// The anchor of slot 0, the end of every search.
    pub const END: Self = Self(ANCHOR);
    /// The end of a chain that has no anchors.
    pub const NONE: Self = Self(0);

    pub fn anchor(slot: u64) -> Self {
        debug_assert!(slot << 3 <= ADDRESS, "slot numbers fit");
        Self(slot << 3 | ANCHOR)
    }

    pub fn item(address: u64) -> Self {
        debug_assert!(address & !ADDRESS == 0 && address != 0, "an item address");
        Self(address)
    }

    #[inline(always)]
    pub fn is_anchor(self) -> bool {
        self.0 & ANCHOR != 0
    }

    /// The slot number of an anchor, the address of an item.
    #[inline(always)]
    pub fn slot(self) -> u64 {
        (self.0 & ADDRESS) >> 3
    }

    #[inline(always)]
    pub fn address(self) -> u64 {
        self.0
    }
}

/// A copy of the `next` word of an item or an anchor.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Next(pub u64);

impl Next {
    #[inline(always)]
    pub fn link(self) -> Link {
        Link(self.0 & SUCCESSOR)
    }

    /// The same flags with another successor.
    #[inline(always)]
    pub fn with(self, link: Link) -> Self {
        Self(self.0 & !SUCCESSOR | link.0)
    }

    #[inline(always)]
    pub fn is(self, flag: u64) -> bool {
        self.0 & flag != 0
    }

    /// Whether this is the word of an anchor that is linked, and so may be a start (I7).
    #[inline(always)]
    pub fn is_start(self) -> bool {
        self.0 != 0 && !self.is(BUSY | MARK)
    }

    pub fn debt(self) -> u64 {
        (self.0 & DEBT) >> DEBT_SHIFT
    }

    pub fn with_debt(self, debt: u64) -> Self {
        Self(self.0 & !DEBT | debt << DEBT_SHIFT & DEBT)
    }

    pub fn count(self) -> u64 {
        self.0 >> COUNTER_SHIFT
    }

    /// The same word with other access bits.
    pub fn with_bits(self, bits: u8) -> Self {
        Self(self.0 & !COUNTER | u64::from(bits) << COUNTER_SHIFT)
    }

    /// The epoch (mod [`STAMPS`]) at which an anchor's line became a candidate.
    pub fn stamp(self) -> u64 {
        (self.0 & STAMP) >> STAMP_SHIFT
    }

    pub fn with_candidate(self, epoch: u64) -> Self {
        Self(self.0 & !CONTROL | CANDIDATE | (epoch % STAMPS) << STAMP_SHIFT)
    }
}

const VOTES: u64 = 7;
pub const VOTES_MAX: u64 = 7;
const TAG_SHIFT: u32 = 48;

/// A copy of a hint word.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Hint(pub u64);

impl Hint {
    pub const EMPTY: Self = Self(0);

    /// The tag of a hash: 16 fixed bits above the bits that index a table of up to 2^32 slots, so that a tag stays
    /// valid when the table doubles.
    #[inline(always)]
    pub fn tag_of(hash: u64) -> u64 {
        (hash >> 32 & 0xffff) << TAG_SHIFT
    }

    /// The tag in its position. The bits below it are arbitrary; tag comparisons ignore them.
    #[inline(always)]
    pub fn tag_and_more(hash: u64) -> u64 {
        hash << (TAG_SHIFT - 32)
    }

    /// The tag in the low 16 bits. The bits above it are arbitrary; tag comparisons ignore them.
    #[cfg(all(target_arch = "x86_64", not(any(loom, shuttle))))]
    #[inline(always)]
    pub fn tag_number(hash: u64) -> u32 {
        (hash >> 32) as u32
    }

    pub fn new(tag: u64, address: u64, votes: u64) -> Self {
        Self(tag | address | votes)
    }

    pub fn reserved(tag: u64) -> Self {
        Self(tag | 1)
    }

    /// Also true of an empty word if the tag happens to be 0.
    #[inline(always)]
    pub fn has_tag(self, tag: u64) -> bool {
        (self.0 ^ tag) >> TAG_SHIFT == 0
    }

    #[inline(always)]
    pub fn address(self) -> u64 {
        self.0 & ADDRESS
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn is_reserved(self) -> bool {
        self.address() == 0 && self.0 != 0
    }

    pub fn votes(self) -> u64 {
        self.0 & VOTES
    }

    pub fn with_votes(self, votes: u64) -> Self {
        Self(self.0 & !VOTES | votes)
    }

    pub fn with_address(self, address: u64) -> Self {
        Self(self.0 & !ADDRESS | address)
    }
}

/// The paper's head word (FAST'20 section 3.2.2, Fig. 6a), used by the sampling strategy.
pub mod head {
    pub const ACTIVE: u64 = 1 << 63;
    const TOTAL_SHIFT: u32 = 48;
    pub const TOTAL_ONE: u64 = 1 << TOTAL_SHIFT;

    /// The number of samples left to take.
    pub fn left(head: u64) -> u64 {
        (head & !ACTIVE) >> TOTAL_SHIFT
    }

    pub fn sampling(head: u64, samples: u64) -> u64 {
        head & (TOTAL_ONE - 1) | ACTIVE | samples << TOTAL_SHIFT
    }

    pub fn idle(head: u64) -> u64 {
        head & (TOTAL_ONE - 1)
    }
}

/// The ring's order of two hashes: it compares their bits from the lowest up, so that the bucket number in a
/// small table is a prefix of the bucket number in a larger one.
#[inline(always)]
pub fn ring_cmp(a: u64, b: u64) -> Ordering {
    let differing = a ^ b;
    let lowest = differing & differing.wrapping_neg();
    if differing == 0 {
        Ordering::Equal
    } else if a & lowest == 0 {
        Ordering::Less
    } else {
        Ordering::Greater
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ring_order_is_that_of_the_reversed_bits() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut last = 0u64;
        for _ in 0..10_000 {
            let x = random.u64(..);
            assert_eq!(ring_cmp(x, last), x.reverse_bits().cmp(&last.reverse_bits()));
            last = x;
        }
        assert_eq!(ring_cmp(5, 5), Ordering::Equal);
    }

    #[test]
    fn links_keep_the_flags() {
        let word = Next(SIGN | HINTED | COUNTER_ONE).with(Link::item(0x7fff_ffff_fff8));
        assert_eq!(word.link().address(), 0x7fff_ffff_fff8);
        assert!(word.is(SIGN) && word.is(HINTED) && !word.is(MARK));
        let word = word.with(Link::anchor(9));
        assert!(word.link().is_anchor());
        assert_eq!((word.link().slot(), word.count()), (9, 1));
        assert_eq!(word.with_debt(15).debt(), 15);
        assert_eq!(word.with_debt(15).with_debt(2).debt(), 2);
    }

    #[test]
    fn hints_tell_empty_reserved_and_tagged_apart() {
        let tag = Hint::tag_of(0xabcd << 32);
        assert!(!Hint::EMPTY.has_tag(tag) && Hint::EMPTY.is_empty() && !Hint::EMPTY.is_reserved());
        assert!(Hint::reserved(tag).is_reserved() && Hint::reserved(tag).has_tag(tag));
        let hint = Hint::new(tag, 0x10_0008, 3);
        assert_eq!((hint.address(), hint.votes()), (0x10_0008, 3));
        assert!(!hint.is_reserved() && hint.has_tag(tag));
        assert!(!hint.has_tag(Hint::tag_of(1 << 32)));
    }

    #[test]
    fn candidate_stamps_wrap() {
        let word = Next(0).with(Link::anchor(3)).with_candidate(3 * STAMPS - 1);
        assert_eq!((word.stamp(), word.link().slot()), (STAMPS - 1, 3));
        assert!(word.is(CANDIDATE) && !word.is(COMPLETE));
    }
}
