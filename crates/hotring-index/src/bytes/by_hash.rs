//! Items by their hashes: for callers that know an item by its hash alone, as the list of expiries does. A
//! hash may be that of several items, and of none any more.

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

    /// Calls `f` with each entry that has this hash, those that have expired too. What is damaged is passed
    /// over.
    pub fn with_hash(&mut self, hash: u64, mut f: impl FnMut(Entry<'_>)) {
        // The entries of one hash are visited together, from its position on.
        self.scan_hashes(hash.reverse_bits(), 1, |other, entry| {
            if other == hash {
                f(entry);
            }
        });
    }

    /// Items present, and how many of them have an expiry; exact when no operation is running. O(sessions).
    pub fn counts(&self) -> (u64, u64) {
        let expiring = self.shared().sum(|record| record.expiring.load());
        let number = |count: i64| count.max(0).cast_unsigned();
        (number(self.shared().items()), number(expiring))
    }

    /// As [`Session::scan`], and `f` gets the hashes too. Entries that have expired are shown, what is damaged
    /// is passed over and not noted.
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
