//! The list of held keys, waiting sessions and their wakers. The gate consults this list, under its mutex, if the bit
//! mask of stripes says that a key is held.
//!
//! Holders are served in the order of their requests: a session waits behind an earlier session that wants one of the
//! same keys.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use crate::gate::{STRIPES_ALL, stripe_of};

/// A fault planted in the gate, so that tests can show that they detect it. Always `None` in production.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No fault.
    None,
    /// Stripes are never held.
    NoHold,
    /// Holders do not wait for writes in flight.
    NoDrain,
    /// Exclusive holders do not wait for reads in flight.
    NoReaderDrain,
    /// Snapshots of several keys are not validated.
    NoRecheck,
    /// Writes of a key come to the log in any order.
    NoOrder,
    /// A held stripe is taken as free if another key of it is held.
    NoLook,
    /// A write is marked as under way after it has changed the index.
    LateMark,
    /// Sleepers are not woken.
    NoWake,
    /// The end of a hold clears its stripes even if other holds have keys in them.
    ClearsAll,
}

/// The operations that a holder intends; they determine which other sessions must wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// Only reads.
    Read,
    /// Changes each key at most once.
    WriteOnce,
    /// Any operations.
    Exclusive,
}

/// A set of keys, by their hashes ([`crate::stripe::spread`]). Keys with equal hashes count as one key.
#[derive(Clone, Debug)]
pub(crate) enum Keys {
    /// These hashes, sorted.
    These(Arc<[u64]>),
    /// Every key.
    All,
}

impl Keys {
    pub(crate) fn new(hashes: &mut Vec<u64>) -> Keys {
        hashes.sort_unstable();
        hashes.dedup();
        Keys::These(hashes.as_slice().into())
    }

    /// Their stripes, as a bit mask.
    pub(crate) fn mask(&self) -> u64 {
        match self {
            Keys::All => STRIPES_ALL,
            Keys::These(hashes) => hashes.iter().fold(0, |mask, hash| mask | 1 << stripe_of(*hash)),
        }
    }

    pub(crate) fn has(&self, hash: u64) -> bool {
        match self {
            Keys::All => true,
            Keys::These(hashes) => hashes.binary_search(&hash).is_ok(),
        }
    }

    fn meets(&self, others: &Keys) -> bool {
        let (Keys::These(a), Keys::These(b)) = (self, others) else { return true };
        let (few, many) = if a.len() < b.len() { (a, others) } else { (b, self) };
        few.iter().any(|hash| many.has(*hash))
    }
}

/// The public description of a hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HoldInfo {
    /// The description given by its session ([`crate::Session::set_hold_info`]).
    pub label: u32,
    /// The begin of the hold, as given by its session.
    pub since_ms: u64,
}

struct Held {
    session: u64,
    keys: Keys,
    mask: u64,
    info: HoldInfo,
}

/// A position in the queue of waiting sessions.
pub(crate) type Ticket = u64;

#[derive(Default)]
pub(crate) struct Holds {
    held: Vec<Held>,
    queue: VecDeque<(Ticket, Keys)>,
    tickets: Ticket,
    pub(crate) sleepers: Vec<Waker>,
}

impl Holds {
    /// The holder of the key, if any.
    pub(crate) fn of_key(&self, hash: u64) -> Option<HoldInfo> {
        let bit = 1 << stripe_of(hash);
        let mut held = self.held.iter().filter(|held| held.mask & bit != 0);
        held.find(|held| held.keys.has(hash)).map(|held| held.info)
    }

    /// The first hold with this label.
    pub(crate) fn labelled(&self, label: u32) -> Option<HoldInfo> {
        self.held.iter().map(|held| held.info).find(|info| info.label == label)
    }

    /// Whether one of the keys is held.
    pub(crate) fn any_of(&self, keys: &Keys) -> bool {
        self.held.iter().any(|held| held.keys.meets(keys))
    }

    /// Whether the keys are unavailable: held, or wanted by an earlier session in the queue.
    pub(crate) fn are_wanted(&self, keys: &Keys, ticket: Option<Ticket>) -> bool {
        let is_before = |other: &Ticket| ticket.is_none_or(|own| *other < own);
        let mut before = self.queue.iter().take_while(|(other, _)| is_before(other));
        self.any_of(keys) || before.any(|(_, wanted)| wanted.meets(keys))
    }

    /// Whether the session holds a key of the stripe.
    pub(crate) fn is_holder(&self, session: u64, stripe: usize) -> bool {
        self.held.iter().any(|held| held.session == session && held.mask >> stripe & 1 == 1)
    }

    pub(crate) fn enter(&mut self, session: u64, keys: Keys, info: HoldInfo) {
        self.held.push(Held { session, mask: keys.mask(), keys, info });
    }

    /// Changes the description of a hold.
    pub(crate) fn describe(&mut self, session: u64, info: HoldInfo) {
        self.held
            .iter_mut()
            .filter(|held| held.session == session)
            .for_each(|held| held.info = info);
    }

    pub(crate) fn leave(&mut self, session: u64) {
        self.held.retain(|held| held.session != session);
    }

    /// The stripes with held keys, as a bit mask.
    pub(crate) fn mask(&self) -> u64 {
        self.held.iter().fold(0, |mask, held| mask | held.mask)
    }

    pub(crate) fn queue(&mut self, keys: &Keys) -> Ticket {
        self.tickets += 1;
        self.queue.push_back((self.tickets, keys.clone()));
        self.tickets
    }

    pub(crate) fn leave_queue(&mut self, ticket: Ticket) {
        self.queue.retain(|(other, _)| *other != ticket);
    }

    /// Registers a waker for the next change.
    pub(crate) fn sleep(&mut self, waker: Waker) {
        if !self.sleepers.iter().any(|other| other.will_wake(&waker)) {
            self.sleepers.push(waker);
        }
    }

    /// Removes and returns the wakers of all waiters.
    pub(crate) fn take_sleepers(&mut self) -> Vec<Waker> {
        std::mem::take(&mut self.sleepers)
    }
}
