//! The held keys, the waiting sessions, and their wakers. The gate consults this list, under its mutex, if
//! the summary of stripes says that something is held.
//!
//! Holders come to their turn in the order in which they asked: a session that asks for keys wanted by one that came
//! before waits behind that one.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use crate::gate::{STRIPES_ALL, stripe_of};

/// Which faults to plant. Only the tests of the tests use another than `None`.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// None: the gate works.
    None,
    /// Stripes are never held.
    NoHold,
    /// Holders do not wait for writes in flight.
    NoDrain,
    /// Exclusive holders do not wait for reads in flight.
    NoReaderDrain,
    /// Snapshots are not checked.
    NoRecheck,
    /// Writes of a key come to the log in any order.
    NoOrder,
    /// A stripe of which another key is held is taken for one of which none is.
    NoLook,
    /// Sleepers are not woken.
    NoWake,
    /// A hold's end clears its stripes also while there are other holds in them.
    ClearsAll,
}

/// The plan of a holder of stripes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// Only read.
    Read,
    /// Change each key at most once.
    WriteOnce,
    /// Anything.
    Exclusive,
}

/// Keys, by their hashes ([`crate::stripe::spread`]). Two keys of one hash are taken for one.
#[derive(Clone, Debug)]
pub(crate) enum Keys {
    /// These, in order.
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

    /// Their stripes.
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

/// The description of a hold, besides its keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HoldInfo {
    /// The description given by its session ([`crate::Session::set_hold_info`]).
    pub label: u32,
    /// Since when, as the session has said.
    pub since_ms: u64,
}

struct Held {
    session: u64,
    keys: Keys,
    mask: u64,
    info: HoldInfo,
}

/// A place in the queue.
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

    /// Whether the keys are not to be had yet: held, or wanted by an earlier session.
    pub(crate) fn are_wanted(&self, keys: &Keys, ticket: Option<Ticket>) -> bool {
        let is_before = |other: &Ticket| ticket.is_none_or(|own| *other < own);
        let mut before = self.queue.iter().take_while(|(other, _)| is_before(other));
        self.any_of(keys) || before.any(|(_, wanted)| wanted.meets(keys))
    }

    /// Whether the session holds something of the stripe.
    pub(crate) fn is_holder(&self, session: u64, stripe: usize) -> bool {
        self.held.iter().any(|held| held.session == session && held.mask >> stripe & 1 == 1)
    }

    pub(crate) fn enter(&mut self, session: u64, keys: Keys, info: HoldInfo) {
        self.held.push(Held { session, mask: keys.mask(), keys, info });
    }

    /// Changes the description of a hold.
    pub(crate) fn tell(&mut self, session: u64, info: HoldInfo) {
        self.held
            .iter_mut()
            .filter(|held| held.session == session)
            .for_each(|held| held.info = info);
    }

    pub(crate) fn leave(&mut self, session: u64) {
        self.held.retain(|held| held.session != session);
    }

    /// The stripes in which something is held.
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

    /// The wakers of all waiters.
    pub(crate) fn take_sleepers(&mut self) -> Vec<Waker> {
        std::mem::take(&mut self.sleepers)
    }
}
