//! The mapping of a hash to its page, tag and buckets, and the layout of a slot's word.
//!
//! ```text
//! hash   63 .................. depth + 16 | depth + 15 .. depth | depth - 1 .. 0
//!                                           tag                   the page
//! slot   63 .. 48   47 .... 3   2 .. 0
//!        tag        item        -          0: vacant
//! ```
//!
//! The page and the tag are unmixed bits of the hash. So in the order of bit-reversed hashes a page
//! is one range, and a tag tells in which part of the range an item lies: a scan need not read
//! items that it does not visit. The buckets come from all bits of the hash, mixed once more, so
//! that neighbours in that order are not neighbours in the tables.

/// Bits of a tag.
pub(crate) const TAG_BITS: u32 = 16;
const TAG_SHIFT: u32 = 48;
const ADDRESS: u64 = (1 << TAG_SHIFT) - 1;

/// The two buckets of a key. Buckets are numbered through both tables: those of the first table,
/// then those of the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BucketPair {
    pub(crate) one: u32,
    pub(crate) two: u32,
}

impl BucketPair {
    /// In tables of `buckets` buckets each, a power of two.
    #[inline(always)]
    pub(crate) fn of(hash: u64, buckets: u32) -> Self {
        let mixed = mix(hash);
        let mask = buckets - 1;
        Self { one: mixed as u32 & mask, two: ((mixed >> 32) as u32 & mask) + buckets }
    }

    /// The key's bucket other than `bucket`.
    #[inline(always)]
    pub(crate) fn other(self, bucket: u32) -> u32 {
        if bucket == self.one { self.two } else { self.one }
    }
}

/// A bijection in which each bit depends on all others (the last step of MurmurHash3).
#[inline(always)]
fn mix(mut x: u64) -> u64 {
    x ^= x >> 33;
    x = x.wrapping_mul(0xff51_afd7_ed55_8ccd);
    x ^= x >> 33;
    x = x.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    x ^ x >> 33
}

/// A copy of a slot's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry(pub(crate) u64);

impl Entry {
    #[inline(always)]
    pub(crate) fn new(tag: u64, address: u64) -> Self {
        debug_assert!(address & !ADDRESS == 0 && tag >> TAG_BITS == 0, "both fit");
        Self(tag << TAG_SHIFT | address)
    }

    #[inline(always)]
    pub(crate) fn is_vacant(self) -> bool {
        self.0 == 0
    }

    #[inline(always)]
    pub(crate) fn tag(self) -> u64 {
        self.0 >> TAG_SHIFT
    }

    #[inline(always)]
    pub(crate) fn address(self) -> u64 {
        self.0 & ADDRESS
    }

    /// The tag with its bits reversed: how far into its page's range the item lies.
    #[inline(always)]
    pub(crate) fn position(self) -> u64 {
        u64::from((self.tag() as u16).reverse_bits())
    }
}

/// The tag that a hash has in a page of this depth.
#[inline(always)]
pub(crate) fn tag_of(hash: u64, depth: u32) -> u64 {
    hash >> depth & 0xffff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_one_of_each_table_and_spread() {
        let mut load = vec![0u32; 128];
        for i in 0..6400u64 {
            // Hashes of 48 bits, as those of byte strings are, with equal low bits.
            let at = BucketPair::of(i << 30, 64);
            assert!(at.one < 64 && (64..128).contains(&at.two));
            assert_eq!((at.other(at.one), at.other(at.two)), (at.two, at.one));
            load[at.one as usize] += 1;
            load[at.two as usize] += 1;
        }
        assert!(load.iter().all(|&n| (60..=150).contains(&n)), "{load:?}");
    }

    #[test]
    fn a_tag_says_where_in_the_range_of_its_page_an_item_lies() {
        let (depth, hash) = (5, 0x1234_5678_9abc_u64);
        let entry = Entry::new(tag_of(hash, depth), 0x7fff_ffff_fff8);
        assert_eq!((entry.tag(), entry.address()), (hash >> 5 & 0xffff, 0x7fff_ffff_fff8));
        assert_eq!(entry.position(), hash.reverse_bits() << depth >> 48);
    }
}
