//! Operations on the whole store.

use hotring_index::{Entry, Key, Scrub};
use hotring_log::Effect;

use crate::container::is_there;
use crate::gate::Hold;
use crate::holds::Keys;
use crate::session::Session;
use crate::value::{ValueRef, view_entry_at};
use hotring_index::AnySession as Index;

impl Session {
    /// Visits about `count` keys from `cursor` on and returns the next cursor, 0 at the end.
    /// Start with cursor 0. A key that is present from start to end is visited; one that comes
    /// or goes meanwhile may be. Each key is read atomically, the keys of one step are not a
    /// snapshot.
    pub fn scan(
        &mut self,
        cursor: u64,
        count: usize,
        now: u64,
        mut f: impl FnMut(&[u8], ValueRef<'_>),
    ) -> u64 {
        self.read_all(|index| {
            index.scan(cursor, count, now, |entry| {
                view_entry_at(&entry, now, |value| f(entry.key, value));
            })
        })
    }

    /// Some key, near the place that `random` picks; None if the store is empty.
    pub fn random_key(&mut self, random: u64, now: u64) -> Option<Vec<u8>> {
        let is_told = self.changes.is_some() || self.is_observed();
        self.read_all(|index| {
            let sampled = match is_told {
                true => None,
                false => index.sample(random, now, |entry| there(&entry, now))?,
            };
            sampled.or_else(|| some_key(index, random, now))
        })
    }

    /// Prefetches the memory of these keys into the processor's cache, all at once. The keys
    /// know their hashes from then on, which saves the operations that take them so to compute them again.
    pub fn prefetch(&mut self, keys: &mut [Key<'_>]) {
        self.index.prefetch(keys);
    }

    /// Checks about `budget` items more of a walk over all of them, and moves on
    /// ([`Session::scrub_step`](hotring_index::Session::scrub_step)).
    pub fn scrub_step(&mut self, scrub: &mut Scrub, budget: usize) {
        self.read_all(|index| index.scrub_step(scrub, budget));
    }

    /// Removes every key of the database in which operations are, at one moment for every observer.
    pub fn clear(&mut self) {
        let before = self.hold(&Keys::All, Hold::WriteOnce, Session::clear_here);
        // Now that no session waits for it.
        drop(before);
    }

    /// The same within a hold of all keys. The result takes time to drop.
    pub(crate) fn clear_here(&mut self) -> impl Sized + use<> {
        self.index.clear();
        self.log_effect(&Effect::Clear);
        self.hooks.watchers.tell_cleared(self.hooks.origin.actor);
        (self.eviction.cleared(), self.wheels.clear())
    }
}

/// The key, unless it is as good as absent.
fn there(entry: &Entry<'_>, now: u64) -> Option<Vec<u8>> {
    is_there(entry, now).then(|| entry.key.to_vec())
}

/// The next key behind a place. Expired keys stay: the index's own sample removes it, and tells no observer.
fn some_key(index: &mut Index, from: u64, now: u64) -> Option<Vec<u8>> {
    let (mut cursor, mut rounds, mut found) = (from, 0, None);
    // Once to the end and once from the start.
    while found.is_none() && rounds < 2 {
        cursor = index.scan(cursor, 1, now, |entry| {
            found = found.take().or_else(|| there(&entry, now));
        });
        rounds += u32::from(cursor == 0);
    }
    // A damaged item is none to be told of here.
    index.take_damage();
    found
}
