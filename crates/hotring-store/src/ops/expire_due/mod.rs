//! Removing expired keys and fields: a step with a budget over the timing wheel ([`crate::wheel`]).

use crate::changes::remove_expired;
use crate::container::due_of_value;
use crate::expired::Gone;
use crate::grounds::Standing;
use crate::logged::Logged;
use crate::session::Session;
use crate::sync::Arc;
use crate::wheel::{SHARDS, Taken, Wheels};
use hotring_log::Effect;

/// Steps taken in a shard under its mutex: about 10 µs if all entries move to a lower level.
const STEPS: usize = 512;
/// Items that the walk over all items visits in one call.
const WALK_ITEMS: usize = 512;
/// Milliseconds after which a key is looked at again that is hidden, or held while it moves.
const MOVING_PAUSE: u64 = 250;

/// The result of [`Session::expire_due`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExpiryStep {
    /// Number of removed keys.
    pub removed: usize,
    /// The time of the next call, in Unix milliseconds: not after `now` if there is more to do at once, None if no key
    /// expires. A key may get an earlier expiry in the meantime
    /// ([`Store::set_expiry_waker`](crate::Store::set_expiry_waker)).
    pub next: Option<u64>,
}

impl Session {
    /// Calls `f` with each key that any session's [`Session::expire_due`] has removed and that has not been reported
    /// yet by this function or that one, and with the milliseconds between its expiry and its removal. Concurrent
    /// callers wait. A session must call this before it reports a write, so that earlier expiries are reported first.
    pub fn report_expired(&mut self, mut f: impl FnMut(&[u8], u64)) {
        for Gone { key, late } in self.wheels.expired.lock().drain(..) {
            self.hooks.watchers.notify_observer(&key, 0);
            f(&key, late);
        }
    }

    /// Removes expired keys, and calls `f` with each and with the milliseconds since its expiry, unless another session
    /// has reported the key first with [`Session::report_expired`]. The removals are reported to the store's observer
    /// ([`Session::observe`]), but not recorded in this session's changes. Also removes expired fields of hashes, like
    /// a write of this session ([`Changed::Fields`](crate::Changed::Fields)).
    ///
    /// Takes about `budget` steps: entries of the timing wheel that are due, whether or not their keys still exist, or
    /// that move to a lower level; and occasionally a part of a walk over all items of the same size. A step takes some
    /// microseconds at most.
    pub fn expire_due(
        &mut self,
        now: u64,
        budget: usize,
        mut f: impl FnMut(&[u8], u64),
    ) -> ExpiryStep {
        if self.leaves_expired() {
            return ExpiryStep::default();
        }
        let wheels = Arc::clone(&self.wheels);
        // Outlives the locks of the shards.
        let mut entries: Vec<Taken> = Vec::new();
        let (mut left, mut removed) = (budget.max(1), 0);
        let first = wheels.turn();
        for shard in (first..SHARDS).chain(0..first) {
            let mut is_over = false;
            while left > 0 && !is_over {
                let asked = left.min(STEPS);
                let steps = wheels.take(shard, now, asked, &mut entries);
                is_over = steps < asked;
                left -= steps;
                // A key may have several entries, because each new expiry may add one; one suffices.
                entries.sort_unstable();
                entries.dedup();
                for taken in entries.drain(..) {
                    removed += self.expire_entry(&wheels, taken, now, &mut f);
                }
            }
        }
        self.walk_some(&wheels, now);
        self.collect();
        let totals = wheels.totals();
        if totals.is_worn(|| wheels.with_fields(self.index.counts()), now) {
            wheels.begin_walk(now);
        }
        let next = if left == 0 || wheels.is_walking() { Some(now) } else { totals.next };
        ExpiryStep { removed, next }
    }

    /// Removes the expired items with one entry's hash. Returns the number of removed items.
    fn expire_entry(
        &mut self,
        wheels: &Wheels,
        taken: Taken,
        now: u64,
        f: &mut impl FnMut(&[u8], u64),
    ) -> usize {
        let mut removed = 0;
        loop {
            let (mut key, mut later) = (None, None::<u64>);
            let mut with_fields = None;
            // Outside of the gate, because everything found here is checked again within it.
            self.index.with_hash(taken.hash, |entry| {
                let due = due_of_value(entry.value, entry.block());
                match entry.expire_at {
                    Some(at) if at <= now => key = Some(entry.key.to_vec()),
                    at => {
                        if due.is_some_and(|due| due <= now) {
                            with_fields = Some(entry.key.to_vec());
                        }
                        let first = [later, at, due.filter(|due| *due > now)];
                        later = first.into_iter().flatten().min();
                    }
                }
            });
            let mut is_removed = false;
            if let Some(key) = key {
                let hash = self.gate_hash(&key);
                // A write in the gate, so that no exclusive closure loses a key in the middle.
                let Some(writing) = self.gate.write_unless_held(hash) else {
                    // Other keys must not wait for a script that holds this one.
                    wheels.enter_again(taken, now + 1, now);
                    return removed;
                };
                self.clearing.settle(key[..].into(), &mut self.index);
                let mode = self.logged.modes.get();
                if mode.is_replica() {
                    return removed;
                }
                if !may_expire(&self.logged, &key) {
                    drop(writing);
                    wheels.enter_again(taken, now + MOVING_PAUSE, now);
                    return removed;
                }
                // The record must come before that of a later write of the key.
                let is_logged = mode.is_followed();
                let is_ordered = is_logged && !writing.is_held();
                let _order = if is_ordered { self.logged.order(hash) } else { None };
                let is_marked = is_ordered && mode.is_marked();
                if is_marked {
                    self.logged.marks.begin(hash);
                }
                let mut expired = wheels.expired.lock();
                match remove_expired(&mut self.index, &key, now) {
                    Some(at) if at <= now => {
                        if is_logged {
                            let records = self.logging.of_database(self.database_id);
                            records.push(&Effect::Remove { key: &key });
                        }
                        expired.push(Gone { key, late: now - at });
                        is_removed = true;
                    }
                    // Its expiry has changed in the meantime.
                    at => later = [later, at].into_iter().flatten().min(),
                }
                if is_ordered {
                    let record = self.logging.hand_over(&self.logged);
                    if is_marked {
                        self.logged.marks.end(hash, record);
                    }
                }
            }
            if is_removed {
                removed += 1;
                // Outside of the gate, because there may be many keys to report.
                self.report_expired(&mut *f);
            } else if with_fields.as_ref().is_some_and(|key| !may_expire(&self.logged, key)) {
                wheels.enter_again(taken, now + MOVING_PAUSE, now);
                return removed;
            } else if let Some(key) = with_fields {
                // The new entry takes care of the remaining fields, and of the next expiry.
                let at = if self.remove_due_fields(&key, now, false) { now } else { now + 1 };
                wheels.enter_again(taken, at, now);
                return removed;
            } else {
                if let Some(at) = later {
                    wheels.enter_again(taken, at, now);
                }
                return removed;
            }
            // There may be another expired item with this hash.
        }
    }

    /// Whether the store is a replica, which removes only what its stream removes: then forgets the entries of the
    /// wheels, which are built again when it becomes a primary.
    fn leaves_expired(&mut self) -> bool {
        if !self.logged.modes.get().is_replica() {
            return false;
        }
        // Within the gate, or the entries of a new primary could be forgotten.
        let _reading = self.gate.read_all();
        let is_replica = self.logged.modes.get().is_replica();
        if is_replica {
            drop(self.wheels.clear());
        }
        is_replica
    }

    /// Does a part of the walk that rebuilds the wheels, if one is in progress.
    fn walk_some(&mut self, wheels: &Wheels, now: u64) {
        wheels.walk(|cursor| {
            self.index.scan_hashes(cursor, WALK_ITEMS, |hash, entry| {
                if let Some(at) = entry.expire_at {
                    wheels.enter(hash, at, now);
                }
                if let Some(at) = due_of_value(entry.value, entry.block()) {
                    wheels.enter_part(hash, at, now);
                    wheels.note_fields();
                }
            })
        });
    }
}

/// Whether the key is open, so that it may be removed. Within the gate the answer lasts.
fn may_expire(logged: &Logged, key: &[u8]) -> bool {
    // Without a cluster this is one comparison.
    logged.modes.get().version() == 0
        || logged.grounds.get().is_none_or(|grounds| grounds.standing(key) == Standing::Open)
}

#[cfg(test)]
mod tests;
