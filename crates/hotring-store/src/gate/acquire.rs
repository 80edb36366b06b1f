//! Holding keys, and giving them back.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::{GateSession, NOT_GIVEN, stripes_of};
use crate::holds::{Fault, Hold, Keys};
use crate::in_flight::wait_until;
use crate::sync::{barrier, fence};

impl GateSession {
    /// Holds the keys. False if they are held already; else `release` must be called.
    pub(crate) fn acquire(&mut self, keys: &Keys, how: Hold) -> bool {
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
        // From here on a panic would leave the keys held; nothing below can.
        self.held = Some(keys.clone());
        // ORDERING: Relaxed, a statistic.
        self.gate.exclusions.fetch_add(1, Relaxed);
        barrier::heavy();
        self.refresh_peers();
        self.drain(mask, how);
        self.counted = how != Hold::Read;
        if self.counted {
            for stripe in stripes_of(mask) {
                let counter = &self.record.writes.0[stripe];
                // ORDERING: Relaxed; the fence below orders it, and the load is of an own word.
                counter.store(counter.load(Relaxed) + 1, Relaxed);
            }
        }
        // ORDERING: Release orders `held` and the counters before the changes that follow; pairs
        // with the Acquire fences in `snapshot_end`, `Reading` and `Writing`.
        fence(Release);
        true
    }

    /// Enters all keys into the list of held ones, once none of them is held or requested by an earlier
    /// session.
    fn enter(&mut self, keys: &Keys) {
        let (mut ticket, mut round) = (None, 0);
        loop {
            let mut holds = self.gate.holds();
            if !holds.are_wanted(keys, ticket) {
                holds.enter(self.record.session, keys.clone(), self.info);
                if let Some(ticket) = ticket {
                    holds.leave_queue(ticket);
                }
                // ORDERING: Release, as in `publish`; waiters have nothing to look at yet. The heavy barrier in
                // `acquire` follows.
                self.gate.held.0.store(holds.mask(), Release);
                return;
            }
            let place = *ticket.get_or_insert_with(|| holds.queue(keys));
            drop(holds);
            self.pause(&mut round, |holds| holds.are_wanted(keys, Some(place)));
        }
    }

    /// Waits until no other session is in the middle of an operation that this hold excludes.
    fn drain(&self, mask: u64, how: Hold) {
        for peer in &self.peers {
            if self.gate.fault != Fault::NoDrain {
                for stripe in stripes_of(mask) {
                    // While other keys of the stripe are held the number is odd until its hold ends, and no other
                    // write of its is in flight.
                    // ORDERING: Acquire pairs with the Release in `Writing::drop`.
                    wait_until(|| {
                        peer.writes.0[stripe].load(Acquire) % 2 == 0
                            || self.gate.holds().is_holder(peer.session, stripe)
                    });
                }
            }
            if how == Hold::Exclusive && self.gate.fault != Fault::NoReaderDrain {
                // ORDERING: Acquire pairs with the Release in `Reading::drop`.
                wait_until(|| peer.reading.0.load(Acquire) & mask == 0);
            }
        }
    }

    /// Releases the hold of `acquire`.
    pub(crate) fn release(&mut self) {
        let Some(keys) = self.held.take() else { return };
        let mask = keys.mask();
        if self.counted {
            for stripe in stripes_of(mask) {
                let counter = &self.record.writes.0[stripe];
                // ORDERING: Release pairs with the Acquire in `collect`: a session that sees the even
                // number sees the changes. The load is of an own word.
                counter.store(counter.load(Relaxed) + 1, Release);
            }
        }
        self.counted = false;
        let mut holds = self.gate.holds();
        holds.leave(self.record.session);
        self.gate.publish(holds, mask);
    }
}
