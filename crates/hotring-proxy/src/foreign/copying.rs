//! Which keys have come over while a pool's keys are copied to their new servers.
//!
//! 1. From the moment when the new layout holds, a request for a key of a moved slot waits until the copier has brought
//!    the key, or has seen that the old server lacks it. So every command finds what was there, and nothing is read
//!    from two servers.
//! 2. One task brings keys, batch by batch. A key is *settled* only after the batch that has brought it, and it is then
//!    gone from the old server: no later batch can bring an old value back.
//! 3. So the set of settled keys only saves work. It may be emptied at any time.

use std::collections::{HashMap, HashSet, hash_map::RandomState};
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hotring_cluster::{Slot, slot_of};
use tokio::sync::Notify;

use super::server::Server;
use crate::counter::Counter;

/// Settled keys that are remembered.
const SETTLED_MAX: usize = 1 << 20;

/// The old and the new server of a slot.
#[derive(Clone, Debug)]
pub(crate) struct Way {
    pub from: Arc<Server>,
    pub to: Arc<Server>,
}

/// A copy that goes on.
#[derive(Debug, Default)]
pub(crate) struct Copying {
    ways: HashMap<Slot, Way>,
    hasher: RandomState,
    keys: Mutex<Keys>,
    /// Tells clients of settled keys.
    settled: Notify,
    /// Threads whose requests by the old layout all have their replies.
    ready: AtomicUsize,
    pub copied: Counter,
    /// Keys that were left behind, since their new server cannot have them.
    pub cold: Counter,
}

#[derive(Debug, Default)]
struct Keys {
    settled: HashSet<u64>,
    wanted: Vec<Vec<u8>>,
    /// The hashes of those.
    asked: HashSet<u64>,
    /// Old servers that are given up.
    given_up: HashSet<Arc<str>>,
    is_over: bool,
}

impl Copying {
    pub(crate) fn new(ways: HashMap<Slot, Way>) -> Self {
        Copying { ways, ..Copying::default() }
    }

    /// The way of a key; None if its server stays the same.
    pub(crate) fn way_of(&self, key: &[u8]) -> Option<&Way> {
        self.ways.get(&slot_of(key))
    }

    /// Whether a slot goes to another server.
    pub(crate) fn moves(&self, slot: Slot) -> bool {
        self.ways.contains_key(&slot)
    }

    /// The servers that keys come from.
    pub(crate) fn sources(&self) -> Vec<Arc<Server>> {
        let mut sources: Vec<Arc<Server>> = Vec::new();
        for way in self.ways.values() {
            if !sources.iter().any(|source| source.address == way.from.address) {
                sources.push(way.from.clone());
            }
        }
        sources.sort_by(|a, b| a.name.cmp(&b.name));
        sources
    }

    fn keys(&self) -> MutexGuard<'_, Keys> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether some of these keys have not come over. These are brought next.
    pub(crate) fn lacks<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) -> bool {
        let mut lacks = false;
        for key in keys {
            let Some(way) = self.way_of(key) else { continue };
            let hash = self.hasher.hash_one(key);
            let known = &mut *self.keys();
            let is_settled = known.is_over
                || known.settled.contains(&hash)
                || known.given_up.contains(&way.from.address);
            if !is_settled {
                lacks = true;
                if known.asked.insert(hash) {
                    known.wanted.push(key.to_vec());
                }
            }
        }
        lacks
    }

    /// Waits until these keys have come over.
    pub(crate) async fn bring(self: Arc<Self>, keys: Vec<Vec<u8>>) {
        loop {
            let mut settled = std::pin::pin!(self.settled.notified());
            // Before the look: keys that settle in between are then not missed.
            settled.as_mut().enable();
            if !self.lacks(keys.iter().map(Vec::as_slice)) {
                return;
            }
            settled.await;
        }
    }

    /// Takes some of the keys that clients want.
    pub(crate) fn take_wanted(&self, max: usize) -> Vec<Vec<u8>> {
        let known = &mut *self.keys();
        let at = known.wanted.len().min(max);
        known.wanted.drain(..at).collect()
    }

    /// Notes that these keys, which clients wanted, have come over.
    pub(crate) fn settle(&self, keys: &[Vec<u8>]) {
        let known = &mut *self.keys();
        if known.settled.len() + keys.len() > SETTLED_MAX {
            known.settled.clear();
        }
        for key in keys {
            let hash = self.hasher.hash_one(key.as_slice());
            known.asked.remove(&hash);
            known.settled.insert(hash);
        }
        self.settled.notify_waiters();
    }

    /// Leaves what an old server still has.
    pub(crate) fn give_up(&self, source: &Server) {
        self.keys().given_up.insert(source.address.clone());
        self.settled.notify_waiters();
    }

    /// Whether an old server is given up.
    pub(crate) fn has_given_up(&self, source: &Server) -> bool {
        self.keys().given_up.contains(&source.address)
    }

    /// Ends the copy, and lets all requests go.
    pub(crate) fn end(&self) {
        self.keys().is_over = true;
        self.settled.notify_waiters();
    }

    pub(crate) fn is_over(&self) -> bool {
        self.keys().is_over
    }

    /// Notes that a thread has no request by the old layout on its way.
    pub(crate) fn add_ready(&self) {
        // ORDERING: Release, pairs with `ready`: the replies came before.
        self.ready.fetch_add(1, Ordering::Release);
    }

    /// Threads that have none.
    pub(crate) fn ready(&self) -> usize {
        // ORDERING: Acquire, pairs with `add_ready`.
        self.ready.load(Ordering::Acquire)
    }
}
