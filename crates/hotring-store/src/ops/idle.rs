//! Dating accesses ([`crate::idle`]).

use crate::databases::Database;
use crate::idle::{ROUND_MS, aged, stamp, stamp_of};
use crate::ops::read::Accesses;
use crate::session::Session;
use crate::store::Store;

impl Store {
    /// Sets the time, so that accesses are dated ([`Accesses::Idle`](crate::Accesses::Idle)) where nothing else
    /// marks them: without a policy that goes by accesses, or without a limit of memory for
    /// [`EvictionPolicy::Heat`](crate::EvictionPolicy::Heat). Whoever begins with it goes on, some times in half a
    /// minute, and calls [`Session::age_some`]. With an index of [`Strategy::Sampling`](crate::index::Strategy), it
    /// does nothing. At first accesses are not dated, which costs nothing.
    pub fn date_accesses(&self, now: u64) {
        self.databases.set("dates", move |Database { index, eviction, .. }| {
            let begins = index.stamp().is_none();
            index.set_stamp(stamp(now));
            if begins {
                // No item is marked from before.
                eviction.dated.begin(if index.is_empty() { 0 } else { now });
            }
        });
    }
}

impl Session {
    /// Replaces the record of accesses to a key by that of another server, if the eviction policy
    /// has a use for it: [`accesses`](Self::accesses) then answers this kind of record, and never a larger one.
    pub fn set_accesses(&mut self, key: &[u8], accesses: Accesses, now: u64) {
        let (policy, tick) = (self.eviction.policy(), self.tick());
        let bits = match accesses {
            Accesses::Frequency(frequency) if policy.is_lfu() => frequency,
            Accesses::Age(age) if policy.is_lru() => tick.wrapping_sub(age),
            Accesses::Idle(ms) if self.dates_accesses() => stamp_of(ms, now),
            _ => return,
        };
        let _reading = self.gate.read(self.gate_hash(key));
        let place = self.index.key_hash(key).reverse_bits();
        // The items of one hash are visited together, from its position on.
        self.index.review(place, 1, |entry, marked| {
            (if entry.key == key { bits } else { marked.bits }, true)
        });
    }

    /// [`age_some`](Self::age_some) must pass all keys within this number of milliseconds.
    pub const AGE_ROUND_MS: u64 = ROUND_MS;

    /// Keeps the dates of about `count` keys from `cursor` on from coming round
    /// ([`Store::date_accesses`](crate::Store::date_accesses)): a walk over all keys in
    /// [`AGE_ROUND_MS`](Self::AGE_ROUND_MS) does so for all. Returns where to go on, 0 at the end, or where accesses
    /// are not dated.
    pub fn age_some(&mut self, cursor: u64, count: usize, now: u64) -> u64 {
        if !self.dates_accesses() {
            return 0;
        }
        self.index.review(cursor, count, |_, marked| (aged(marked.bits, now), true))
    }
}
