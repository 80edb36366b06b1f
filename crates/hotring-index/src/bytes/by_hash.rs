//! Access to items by hash, for callers that keep only hashes, such as the timing wheel. Several items may have
//! the same hash, and the item of a stored hash may be gone.

use crate::bytes::key::Key;
use crate::bytes::{Bytes, Entry};
use crate::core::item::Kind;
use crate::engine::Engine;
use crate::session::Session;

impl<E: Engine> Session<Bytes, E> {
    /// The hash of a key in this index: 48 bits.
    #[inline]
    pub fn key_hash<'k>(&self, key: impl Into<Key<'k>>) -> u64 {
        key.into().hash_or(|bytes| self.shared().kind.hash(bytes))
    }

    /// Calls `f` with each entry of this hash, including expired ones. Damaged items are skipped.
    pub fn with_hash(&mut self, hash: u64, mut f: impl FnMut(Entry<'_>)) {
        // The entries of one hash are visited together, from its position on.
        self.scan_hashes(hash.reverse_bits(), 1, |other, entry| {
            if other == hash {
                f(entry);
            }
        });
    }

    /// The numbers of items present and of items with an expiry. Exact while no operation runs. O(sessions).
    pub fn counts(&self) -> (u64, u64) {
        let expiring = self.shared().sum(|record| record.expiring.load());
        let number = |count: i64| count.max(0).cast_unsigned();
        (number(self.shared().items()), number(expiring))
    }

    /// As [`Session::scan`], with hashes. Includes expired entries, and skips damaged ones without
    /// recording them.
    pub fn scan_hashes(
        &mut self,
        cursor: u64,
        count: usize,
        mut f: impl FnMut(u64, Entry<'_>),
    ) -> u64 {
        self.review(cursor, count, |entry, marked| {
            f(marked.hash, entry);
            (marked.bits, true)
        })
    }
}
