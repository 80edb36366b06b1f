//! Which keys have come over while a pool's keys are copied to their new servers.
//!
//! 1. From the moment when the new layout holds, a request for a key of a moved slot waits until the copier has brought
//!    the key, or has seen that the old server lacks it. So every command finds what was there, nothing is read from
//!    two servers, and no client writes a key at its new server before it is *settled*: until then the new server has
//!    nothing but old values, which the copier overwrites and deletes.
//! 2. One task brings keys, batch by batch. It never brings a settled key: that is gone from the old server, or is
//!    *cold*, which means that it stays there. Cold keys must never be forgotten.
//! 3. While the copier still *clears* new servers, a key that the old server lacks is deleted at the new one. So
//!    settled keys must not be forgotten until that is over. After that they only save work.

use std::collections::{HashMap, HashSet, VecDeque, hash_map::RandomState};
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hotring_cluster::{Slot, slot_of};
use tokio::sync::Notify;

use super::server::Server;
use crate::counter::Counter;

/// Settled keys that are remembered, and as many cold ones.
const SETTLED_MAX: usize = 1 << 20;

/// Keys that clients may want at once; others wait for room.
const WANTED_MAX: usize = 4_096;

/// Keys that one client wants at once.
const PORTION: usize = 64;

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
    cold: HashSet<u64>,
    /// Whether the copier has cleared the new servers of old values, or cannot go on with that.
    is_cleared: bool,
    wanted: VecDeque<(u64, Vec<u8>)>,
    /// The hashes of those and of keys that are on their way, and the number of clients that wait for each.
    asked: HashMap<u64, usize>,
    /// Servers that are given up.
    given_up: HashSet<Arc<str>>,
    is_stopped: bool,
    is_over: bool,
}

impl Keys {
    fn lacks(&self, way: &Way, hash: u64) -> bool {
        let is_known = self.is_over || self.settled.contains(&hash) || self.cold.contains(&hash);
        !is_known && !self.has_given_up(way)
    }

    fn has_given_up(&self, way: &Way) -> bool {
        self.given_up.contains(&way.from.address) || self.given_up.contains(&way.to.address)
    }
}

/// What a client waits for. It is forgotten with the client.
struct Asked<'c> {
    copying: &'c Copying,
    hashes: Vec<u64>,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        let known = &mut *self.copying.keys();
        let mut is_left = false;
        for hash in &self.hashes {
            if let Some(clients) = known.asked.get_mut(hash) {
                *clients -= 1;
                if *clients == 0 {
                    known.asked.remove(hash);
                    is_left = true;
                }
            }
        }
        if is_left {
            let Keys { wanted, asked, .. } = known;
            wanted.retain(|(hash, _)| asked.contains_key(hash));
            self.copying.settled.notify_waiters();
        }
    }
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
        self.ends(|way| &way.from)
    }

    /// The servers that keys go to.
    pub(crate) fn targets(&self) -> Vec<Arc<Server>> {
        self.ends(|way| &way.to)
    }

    fn ends(&self, end: impl Fn(&Way) -> &Arc<Server>) -> Vec<Arc<Server>> {
        let mut servers: Vec<Arc<Server>> = Vec::new();
        for way in self.ways.values() {
            if !servers.iter().any(|server| server.address == end(way).address) {
                servers.push(end(way).clone());
            }
        }
        servers.sort_by(|a, b| a.name.cmp(&b.name));
        servers
    }

    fn keys(&self) -> MutexGuard<'_, Keys> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether some of these keys have not come over.
    pub(crate) fn lacks<'k>(&self, mut keys: impl Iterator<Item = &'k [u8]>) -> bool {
        keys.any(|key| self.lacks_key(key))
    }

    /// Whether a key has not come over, and may still do so.
    pub(crate) fn lacks_key(&self, key: &[u8]) -> bool {
        self.way_of(key).is_some_and(|way| self.keys().lacks(way, self.hasher.hash_one(key)))
    }

    /// Has these keys brought next, and waits until they have come over. False: they have not by the end of this time.
    pub(crate) async fn bring(self: Arc<Self>, keys: Vec<Vec<u8>>, time: Duration) -> bool {
        let bring = async {
            for keys in keys.chunks(PORTION) {
                self.bring_portion(keys).await;
            }
        };
        tokio::time::timeout(time, bring).await.is_ok()
    }

    async fn bring_portion(&self, keys: &[Vec<u8>]) {
        let mut asked = Asked { copying: self, hashes: Vec::new() };
        // Keys that are done are not looked at again.
        let mut done = 0;
        let mut n_asked = 0;
        while done < keys.len() {
            let mut settled = std::pin::pin!(self.settled.notified());
            // Before the look: keys that settle in between are then not missed.
            settled.as_mut().enable();
            while n_asked < keys.len() && self.ask(&keys[n_asked], &mut asked) {
                n_asked += 1;
            }
            while done < n_asked && !self.lacks_key(&keys[done]) {
                done += 1;
            }
            if done < keys.len() {
                settled.await;
            }
        }
    }

    /// Puts a key among the wanted ones, if it has not come over. False: there is no room.
    fn ask(&self, key: &[u8], asked: &mut Asked<'_>) -> bool {
        let Some(way) = self.way_of(key) else { return true };
        let hash = self.hasher.hash_one(key);
        let known = &mut *self.keys();
        if !known.lacks(way, hash) {
            return true;
        }
        let has_room = known.asked.len() < WANTED_MAX;
        match known.asked.get_mut(&hash) {
            Some(clients) => *clients += 1,
            None if has_room => {
                known.asked.insert(hash, 1);
                known.wanted.push_back((hash, key.to_vec()));
            }
            None => return false,
        }
        asked.hashes.push(hash);
        true
    }

    /// Takes some of the keys that clients want.
    pub(crate) fn take_wanted(&self, max: usize) -> Vec<Vec<u8>> {
        let known = &mut *self.keys();
        let at = known.wanted.len().min(max);
        let taken: Vec<_> = known.wanted.drain(..at).collect();
        // One that was on its way, and was left by its client and wanted again, has come over meanwhile.
        let is_new =
            |(hash, _): &(u64, _)| !known.settled.contains(hash) && !known.cold.contains(hash);
        taken.into_iter().filter(is_new).map(|(_, key)| key).collect()
    }

    /// Notes that these keys have come over, or that their old server lacks them.
    pub(crate) fn settle(&self, keys: &[&[u8]]) {
        let known = &mut *self.keys();
        if known.settled.len() + keys.len() > SETTLED_MAX {
            if !known.is_cleared {
                tracing::warn!("too many keys: old values that no client has wanted may stay");
            }
            known.is_cleared = true;
            known.settled.clear();
        }
        for key in keys {
            let hash = self.hasher.hash_one(*key);
            known.asked.remove(&hash);
            known.settled.insert(hash);
        }
        self.settled.notify_waiters();
    }

    /// Leaves these keys at their old server.
    pub(crate) fn leave(&self, source: &Server, keys: &[&[u8]]) {
        let known = &mut *self.keys();
        for key in keys {
            let hash = self.hasher.hash_one(*key);
            known.asked.remove(&hash);
            if known.cold.len() == SETTLED_MAX {
                // Those that are forgotten would be brought later, over newer values.
                known.given_up.insert(source.address.clone());
            } else if known.cold.insert(hash) {
                self.cold.add(1);
            }
        }
        self.settled.notify_waiters();
    }

    /// Whether a key that the old server lacks must be deleted at the new one.
    pub(crate) fn clears(&self) -> bool {
        !self.keys().is_cleared
    }

    /// Notes that no new server has old values any more.
    pub(crate) fn end_clearing(&self) {
        self.keys().is_cleared = true;
    }

    /// Brings no more keys from or to this server.
    pub(crate) fn give_up(&self, server: &Server) {
        self.keys().given_up.insert(server.address.clone());
        self.settled.notify_waiters();
    }

    /// Whether a server is given up.
    pub(crate) fn has_given_up(&self, server: &Server) -> bool {
        self.keys().given_up.contains(&server.address)
    }

    /// Has the copier end after the keys that it is about. Until then it may still write at the new servers.
    pub(crate) fn stop(&self) {
        self.keys().is_stopped = true;
    }

    /// Whether the copier must end.
    pub(crate) fn is_stopped(&self) -> bool {
        self.keys().is_stopped
    }

    /// Whether no more keys come from or to this server.
    pub(crate) fn has_ended_for(&self, server: &Server) -> bool {
        self.is_stopped() || self.has_given_up(server)
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

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::super::server::Kind;
    use super::*;

    fn server(name: &str) -> Arc<Server> {
        Arc::new(Server {
            name: name.to_string(),
            address: Arc::from(name),
            kind: Kind::Redis,
            weight: 100,
            login: None,
            tls: false,
            health: Arc::default(),
        })
    }

    fn copying() -> Arc<Copying> {
        let way = Way { from: server("a"), to: server("b") };
        let ways = (0..hotring_cluster::SLOTS).map(|slot| (slot, way.clone()));
        Arc::new(Copying::new(ways.collect()))
    }

    fn settle(copying: &Copying, keys: &[Vec<u8>]) {
        let keys: Vec<_> = keys.iter().map(Vec::as_slice).collect();
        copying.settle(&keys);
    }

    /// A client once had all its keys among the wanted ones at once, and they stayed there after its end.
    #[tokio::test]
    async fn what_clients_want_is_bounded_and_ends_with_them() {
        let (copying, cx) = (copying(), &mut Context::from_waker(Waker::noop()));
        let keys =
            |client: usize| (0..1_000).map(|n| format!("{client} {n}").into_bytes()).collect();
        let long = Duration::from_secs(1_000);
        let mut clients: Vec<_> =
            (0..100).map(|n| Box::pin(copying.clone().bring(keys(n), long))).collect();
        for client in &mut clients {
            assert!(client.as_mut().poll(cx).is_pending());
        }
        let wanted = || {
            let known = copying.keys();
            (known.wanted.len(), known.asked.len())
        };
        assert_eq!(wanted(), (WANTED_MAX, WANTED_MAX));
        clients.truncate(1);
        assert_eq!(wanted(), (PORTION, PORTION));
        let mut n = 0;
        while clients[0].as_mut().poll(cx).is_pending() {
            let taken = copying.take_wanted(10);
            n += taken.len();
            settle(&copying, &taken);
            assert!(n <= 1_000 && copying.keys().wanted.len() <= PORTION);
        }
        assert_eq!((n, wanted()), (1_000, (0, 0)));
    }

    #[tokio::test]
    async fn a_client_does_not_wait_for_ever() {
        let copying = copying();
        assert!(!copying.clone().bring(vec![b"k".to_vec()], Duration::from_millis(20)).await);
        assert!(copying.lacks_key(b"k") && copying.take_wanted(1).is_empty());
        copying.give_up(&server("b"));
        assert!(copying.bring(vec![b"k".to_vec()], Duration::from_secs(5)).await);
    }

    /// Brought once more, it would be deleted at its new server.
    #[test]
    fn a_settled_key_is_not_brought_again() {
        let (copying, cx) = (copying(), &mut Context::from_waker(Waker::noop()));
        let keys = vec![b"k".to_vec()];
        let long = Duration::from_secs(1_000);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let _inside = runtime.enter();
        let mut first = Box::pin(copying.clone().bring(keys.clone(), long));
        assert!(first.as_mut().poll(cx).is_pending());
        let taken = copying.take_wanted(1);
        drop(first);
        let mut second = std::pin::pin!(copying.clone().bring(keys, long));
        assert!(second.as_mut().poll(cx).is_pending());
        settle(&copying, &taken);
        assert!(copying.take_wanted(1).is_empty());
        assert_eq!(second.as_mut().poll(cx), Poll::Ready(true));
    }
}
