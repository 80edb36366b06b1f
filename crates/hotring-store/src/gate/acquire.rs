//! The gate's holds: acquiring and releasing keys.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::{GateSession, NOT_GIVEN, stripes_of};
use crate::holds::{Fault, Hold, Keys};
use crate::in_flight::wait_until;
use crate::sync::{barrier, fence};

impl GateSession {
    /// Acquires the keys. False if this session holds them already; otherwise the caller must call `release`.
    pub(crate) fn acquire(&mut self, keys: &Keys, hold: Hold) -> bool {
        if let Some(held) = &self.held {
            let has_all = match keys {
                Keys::All => matches!(held, Keys::All),
                Keys::These(hashes) => hashes.iter().all(|hash| held.has(*hash)),
            };
            assert!(has_all, "{NOT_GIVEN}");
            return false;
        }
        let mask = keys.mask();
        if mask == 0 || self.gate.fault == Fault::NoHold {
            return false;
        }
        self.enter(keys);
        // A panic after this point would leave the keys held; none of the following code can panic.
        self.held = Some(keys.clone());
        // ORDERING: Relaxed, a statistic.
        self.gate.exclusions.fetch_add(1, Relaxed);
        barrier::heavy();
        self.refresh_peers();
        self.drain(mask, hold);
        self.counted = hold != Hold::Read;
        if self.counted {
            for stripe in stripes_of(mask) {
                let counter = &self.record.writes.0[stripe];
                // ORDERING: Relaxed; the fence below orders the store, and only this session writes the word that is
                // loaded.
                counter.store(counter.load(Relaxed) + 1, Relaxed);
            }
        }
        // ORDERING: Release orders `held` and the counters before the changes that follow; pairs with the Acquire
        // fences in `snapshot_end`, `Reading` and `Writing`.
        fence(Release);
        true
    }

    /// Adds all keys to the list of held keys, once none of them is held or requested by an earlier session.
    fn enter(&mut self, keys: &Keys) {
        let (mut ticket, mut round) = (None, 0);
        loop {
            let mut holds = self.gate.holds();
            if !holds.are_wanted(keys, ticket) {
                holds.enter(self.record.session, keys.clone(), self.info);
                if let Some(ticket) = ticket {
                    holds.leave_queue(ticket);
                }
                // ORDERING: Release, as in `publish`; there is no change that waiters could look at yet. The heavy
                // barrier in `acquire` follows.
                self.gate.held.0.store(holds.mask(), Release);
                return;
            }
            let number = *ticket.get_or_insert_with(|| holds.queue(keys));
            drop(holds);
            self.pause(&mut round, |holds| holds.are_wanted(keys, Some(number)));
        }
    }

    /// Waits until no other session is in the middle of an operation that this hold excludes.
    fn drain(&self, mask: u64, hold: Hold) {
        for peer in &self.peers {
            if self.gate.fault != Fault::NoDrain {
                for stripe in stripes_of(mask) {
                    // The number of a session that holds other keys of the stripe is odd until its hold ends, and that
                    // session has no other write in flight.
                    // ORDERING: Acquire pairs with the Release in `Writing::drop`.
                    wait_until(|| {
                        peer.writes.0[stripe].load(Acquire) % 2 == 0
                            || self.gate.holds().is_holder(peer.session, stripe)
                    });
                }
            }
            if hold == Hold::Exclusive && self.gate.fault != Fault::NoReaderDrain {
                // ORDERING: Acquire pairs with the Release in `Reading::drop`.
                wait_until(|| peer.reading.0.load(Acquire) & mask == 0);
            }
        }
    }

    /// Releases the keys of `acquire`.
    pub(crate) fn release(&mut self) {
        let Some(keys) = self.held.take() else { return };
        let mask = keys.mask();
        if self.counted {
            for stripe in stripes_of(mask) {
                let counter = &self.record.writes.0[stripe];
                // ORDERING: Release pairs with the Acquire in `snapshot_begin`: a session that sees the even number
                // sees the changes. The load is Relaxed because only this session writes the word.
                counter.store(counter.load(Relaxed) + 1, Release);
            }
        }
        self.counted = false;
        let mut holds = self.gate.holds();
        holds.leave(self.record.session);
        self.gate.publish(holds, mask);
    }
}
