//! Operations on the recorded access times of keys ([`crate::idle`]).

use crate::databases::Database;
use crate::idle::{ROUND_MS, aged, stamp, stamp_of};
use crate::ops::read::Accesses;
use crate::session::Session;
use crate::store::Store;

impl Store {
    /// Sets the time by which accesses are dated ([`Accesses::Idle`](crate::Accesses::Idle)), if nothing else uses the
    /// access bits: without an LRU or LFU policy, or without a memory limit for
    /// [`EvictionPolicy::Heat`](crate::EvictionPolicy::Heat). A caller that has begun must continue to call this some
    /// times in half a minute, and must call [`Session::age_some`]. Without effect for an index with
    /// [`Strategy::Sampling`](crate::index::Strategy). By default accesses are not dated, which costs nothing.
    pub fn date_accesses(&self, now: u64) {
        self.databases.set("dates", move |Database { index, eviction, .. }| {
            let begins = index.stamp().is_none();
            index.set_stamp(stamp(now));
            if begins {
                // An empty store has no items with older bits.
                eviction.idle_clock.begin(if index.is_empty() { 0 } else { now });
            }
        });
    }
}

impl Session {
    /// Sets the record of accesses to a key, as received from another server, if the eviction policy uses a record of
    /// this kind: [`accesses`](Self::accesses) then returns it, and never a larger value.
    pub fn set_accesses(&mut self, key: &[u8], accesses: Accesses, now: u64) {
        let (policy, tick) = (self.eviction.policy(), self.tick());
        let bits = match accesses {
            Accesses::Frequency(frequency) if policy.is_lfu() => frequency,
            Accesses::Age(age) if policy.is_lru() => tick.wrapping_sub(age),
            Accesses::Idle(ms) if self.dates_accesses() => stamp_of(ms, now),
            _ => return,
        };
        let _reading = self.gate.read(self.gate_hash(key));
        self.clearing.settle(key.into(), &mut self.index);
        let cursor = self.index.key_hash(key).reverse_bits();
        // A review visits all items of one hash together, from its position on.
        self.index.review(cursor, 1, |entry, marked| {
            (if entry.key == key { bits } else { marked.bits }, true)
        });
    }

    /// Maximum time in milliseconds in which [`age_some`](Self::age_some) must visit all keys.
    pub const AGE_ROUND_MS: u64 = ROUND_MS;

    /// Ages the dates of about `count` keys from `cursor` on, so that they do not wrap around
    /// ([`Store::date_accesses`](crate::Store::date_accesses)): a walk must visit all keys within
    /// [`AGE_ROUND_MS`](Self::AGE_ROUND_MS). Returns the next cursor, 0 at the end or if accesses are not dated.
    pub fn age_some(&mut self, cursor: u64, count: usize, now: u64) -> u64 {
        if !self.dates_accesses() {
            return 0;
        }
        self.index.review(cursor, count, |_, marked| (aged(marked.bits, now), true))
    }
}
