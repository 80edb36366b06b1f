//! A session's small cache of recent items in front of the tables (RHKV section 5).
//!
//! The cache remembers the position of an item, not the item, which may have been freed since an earlier
//! pin. Only if the slot, read again under this pin, still holds the same word is the item in the table and
//! may be read. The word may have belonged to another item at the same address in between. That is
//! harmless: the item there now counts, and its key is compared.

use super::bucket_pair::Entry;

#[derive(Clone, Copy, Default)]
pub(crate) struct Recent {
    hash: u64,
    pub(crate) word: u64,
    pub(crate) slot: u32,
}

/// A direct-mapped cache: a hash has one entry, which the last item with that entry occupies.
#[derive(Default)]
pub(crate) struct Cache(Box<[Recent]>);

impl Cache {
    /// A cache with this number of entries, a power of two or none.
    pub(crate) fn new(entries: usize) -> Self {
        Self(vec![Recent::default(); entries].into())
    }

    #[inline(always)]
    pub(crate) fn is_off(&self) -> bool {
        self.0.is_empty()
    }

    /// The entry of a hash, by high bits of a product, as the low bits of hashes choose pages.
    fn index(&self, hash: u64) -> usize {
        (hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & (self.0.len() - 1)
    }

    /// The last known position of the item of this hash.
    pub(crate) fn recall(&self, hash: u64) -> Option<Recent> {
        let recent = self.0[self.index(hash)];
        (recent.hash == hash && recent.word != 0).then_some(recent)
    }

    pub(crate) fn note(&mut self, hash: u64, slot: u32, word: Entry) {
        let index = self.index(hash);
        self.0[index] = Recent { hash, word: word.0, slot };
    }
}
