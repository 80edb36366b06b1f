//! Operations on all keys: scanning, sampling, clearing, prefetching and verifying.

use hotring_index::{Entry, Key, Scrub};
use hotring_log::Effect;

use super::read::memory_of;
use crate::container::is_present;
use crate::databases::Database;
use crate::gate::Hold;
use crate::grounds::{Grounds, Standing};
use crate::holds::Keys;
use crate::session::Session;
use crate::value::{ValueRef, view_entry_at};
use hotring_index::AnySession as Index;

/// Keys that are found, and then removed, when not all are cleared.
const FOUND_AT_ONCE: usize = 512;

/// Slots of the table whose clearing takes as long as that of an item.
const SLOTS_PER_ITEM: u64 = 8;

impl Session {
    /// Visits about `count` keys from `cursor` on and returns the next cursor, 0 at the end. Begin with 0. Visits every
    /// key that exists from the first step to the last; a key that is created or removed in the meantime may be
    /// visited. Each key is read atomically; the keys of one step are not a snapshot.
    pub fn scan(
        &mut self,
        cursor: u64,
        count: usize,
        now: u64,
        mut f: impl FnMut(&[u8], ValueRef<'_>),
    ) -> u64 {
        self.scan_index(cursor, count, now, |entry| {
            view_entry_at(&entry, now, |value| f(entry.key, value));
        })
    }

    /// As [`scan`](Self::scan), with the bytes of memory of each key and its value.
    pub fn scan_memory(
        &mut self,
        cursor: u64,
        count: usize,
        now: u64,
        mut f: impl FnMut(&[u8], usize),
    ) -> u64 {
        self.scan_index(cursor, count, now, |entry| {
            if is_present(&entry, now) {
                f(entry.key, memory_of(&entry));
            }
        })
    }

    /// A key near the position that `random` selects; None if the database has none that clients see. First removes
    /// what a clear [has left](Self::clear_some).
    pub fn random_key(&mut self, random: u64, now: u64) -> Option<Vec<u8>> {
        loop {
            while self.clear_some() {}
            if let Some(found) = self.random_among_present(random, now) {
                return found;
            }
        }
    }

    /// As [`random_key`](Self::random_key). None if the database has been cleared meanwhile.
    fn random_among_present(&mut self, random: u64, now: u64) -> Option<Option<Vec<u8>>> {
        let has_observers = self.changes.is_some() || self.is_observed();
        let _reading = self.gate.read_all();
        if self.clearing.is_on() {
            return None;
        }
        let keeps_expired = has_observers || self.logged.modes.get().keeps_expired();
        let grounds = self.logged.grounds.get();
        let sampled = match keeps_expired || grounds.is_some() {
            true => None,
            false => match self.index.sample(random, now, |entry| live_key(&entry, now)) {
                None => return Some(None),
                sampled => sampled.flatten(),
            },
        };
        Some(sampled.or_else(|| next_live_key(&mut self.index, random, now, grounds.as_deref())))
    }

    /// Prefetches the memory of these keys into the processor's cache, as one batch. The keys then include their
    /// hashes, which saves operations that take these keys from computing them again.
    pub fn prefetch(&mut self, keys: &mut [Key<'_>]) {
        self.index.prefetch(keys);
    }

    /// Verifies about `budget` items in a walk over all of them, and moves on
    /// ([`Session::scrub_step`](hotring_index::Session::scrub_step)).
    pub fn scrub_step(&mut self, scrub: &mut Scrub, budget: usize) {
        self.read_all(|index| index.scrub_step(scrub, budget));
    }

    /// Removes every key of the current database, at one moment for every observer. Keys that come from another store
    /// stay ([`Standing::Importing`](crate::Standing)). The items of a large database are freed later: see
    /// [`clear_some`](Self::clear_some).
    pub fn clear(&mut self) {
        let before = self.hold(&Keys::All, Hold::WriteOnce, |session| {
            session.may_write().then(|| session.clear_here())
        });
        // Dropped here, when no session waits for it.
        drop(before);
    }

    /// Like [`clear`](Self::clear), within a hold of all keys. Dropping the result takes time.
    pub(crate) fn clear_here(&mut self) -> impl Sized + use<> {
        let grounds = self.logged.grounds.get().filter(|grounds| grounds.is_importing());
        if let Some(grounds) = grounds.filter(|_| !self.applies) {
            self.clear_all_but(&grounds);
            return None;
        }
        let before = self.clear_items();
        self.log_effect(&Effect::Clear);
        self.hooks.watchers.notify_cleared(self.hooks.origin.actor);
        Some((before, self.eviction.cleared(), self.wheels.clear()))
    }

    fn clear_items(&mut self) -> impl Sized + use<> {
        let stats = self.store.stats();
        let work = stats.items.max(stats.slots / SLOTS_PER_ITEM);
        let is_small = self.clearing.is_small(work);
        // An item with a damaged hash is not among the items of its segment.
        if !is_small && !self.verifies {
            return self.clearing.begin(work, || {
                let stats = self.store.stats();
                (stats.items, stats.expiring)
            });
        }
        self.index.clear();
        self.clearing.end()
    }

    /// Removes about 256 of the items that a clear has left in any database. True if there are more. Operations do so
    /// only where they look for keys, so some session must call this until it returns false.
    pub fn clear_some(&mut self) -> bool {
        let is_on = |database: &Database| database.clearing.is_on();
        let next = self.databases.present().find(|(_, database)| is_on(database));
        let Some((database_id, _)) = next else { return false };
        self.within(database_id, |session| session.clearing.step(&mut session.index));
        self.databases.present().any(|(_, database)| is_on(database))
    }

    /// Removes every key and pin but those that are coming from another store. It takes time for each key, but keys are
    /// seldom cleared while some arrive.
    #[cold]
    fn clear_all_but(&mut self, grounds: &Grounds) {
        let goes = |key: &[u8]| grounds.standing(key) != Standing::Importing;
        let (mut found, mut cursor) = (Vec::new(), 0);
        loop {
            // At time 0 nothing has expired.
            cursor = self.index.scan(cursor, FOUND_AT_ONCE, 0, |entry| {
                if goes(entry.key) {
                    found.push(entry.key.to_vec());
                }
            });
            for key in found.drain(..) {
                self.index.remove(&key[..], 0);
                self.log_effect(&Effect::Remove { key: &key });
            }
            if cursor == 0 {
                break;
            }
        }
        self.index.take_damage();
        for key in self.pinned_keys(None, usize::MAX).iter().filter(|key| goes(key)) {
            self.eviction.pins.unpin(&[key]);
            self.log_effect(&Effect::Unpin { key });
        }
        self.hooks.watchers.notify_cleared(self.hooks.origin.actor);
    }
}

/// The key, unless all its parts have expired.
fn live_key(entry: &Entry<'_>, now: u64) -> Option<Vec<u8>> {
    is_present(entry, now).then(|| entry.key.to_vec())
}

/// The next key from a position on. Does not remove expired keys: the index's own sample does, without telling
/// observers.
fn next_live_key(
    index: &mut Index,
    from: u64,
    now: u64,
    grounds: Option<&Grounds>,
) -> Option<Vec<u8>> {
    let (mut cursor, mut rounds, mut found) = (from, 0, None);
    // At most two passes: to the end and from the start.
    while found.is_none() && rounds < 2 {
        cursor = index.scan(cursor, 1, now, |entry| {
            if found.is_none() && grounds.is_none_or(|grounds| !grounds.hides(entry.key)) {
                found = live_key(&entry, now);
            }
        });
        rounds += u32::from(cursor == 0);
    }
    // Damage found here must not be reported for this operation.
    index.take_damage();
    found
}
