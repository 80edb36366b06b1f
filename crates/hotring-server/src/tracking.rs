//! Which connections keep copies of which keys (CLIENT TRACKING), and how they learn that these are old.
//!
//! # Picture
//! ```text
//!   a read by who keeps copies --> shards: key -> connections, before the key is looked at
//!   a change by anybody        --> shards, within the change: the key is taken out,
//!                                  and a message goes into the inbox of each connection
//! ```
//! The store tells of changes ([`hotring_store::Observer`]), whatever made them: a command of either protocol, a
//! script, a transaction, the end of a key's time, FLUSHALL. It does so while somebody tracks, and asks nothing
//! of reads. Connections that broadcast are in no shard: they are found by the prefixes that they gave.
//!
//! # Why no message is lost
//! * **T1** *The store tells of each change that a read of a tracking client may not have seen.* Who begins to
//!   track is in the registry first, and then holds the whole store for a moment: changes that come later are
//!   told. When the last one has left, the background task ends it, in a hold in which it looks again.
//! * **T2** *A read that misses a change is found by it.* The read enters its key and then looks at it; the
//!   change takes place and then looks for the key; both under the shard's mutex. If the change has it first,
//!   the read comes after the change and shows it. Broadcasts are found by T1 alone.
//! * **T3** *The message comes behind the reply.* It is put into the inbox after the key was entered, and the
//!   connection's task moves nothing from there to its output between entering the key and the reply. (Told in
//!   another one's place, it comes on another connection; the client has to see to that, as with Redis.)
//!
//! Hence whoever is taken out of a shard gets a message for it behind its last reply, also where room was
//! wanted. A message too many is harmless: the client asks again.
//!
//! # Order of locks
//! The store's gate; a shard; the registry; an inbox. Nothing waits for the gate while it has one of the others.
//!
//! # Bounds
//! `tracking-table-max-keys` bounds the pairs of a key and a connection, so that it bounds memory also where many
//! connections read one key. Above it keys are taken out, each shard in turn. Entries of connections that have
//! ended go with their key, or when the list that they are in would grow.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::ops::Bound;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use hotring_protocol::{ArgsView, Flags, Group, Spec, Version};
use hotring_store::Observer;

use crate::client::{Client, ClientShared};
use crate::config::Config;
use crate::server::Server;

/// The channel by which connections in RESP2 are told.
const CHANNEL: &[u8] = b"__redis__:invalidate";

/// Threads that write at the same time rarely meet in one of so many.
const SHARDS: usize = 64;

/// Keys that a read takes out at most for want of room, besides two for each that it enters; a limit that is
/// lowered is reached bit by bit.
const TAKEN_OUT: usize = 16;

/// What a connection has asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    pub mode: Mode,
    /// It is not told of what it writes itself.
    pub no_loop: bool,
    /// The connection that is told in its place.
    pub redirect: Option<u64>,
    /// What it is told of if it broadcasts, read or not.
    pub prefixes: BTreeSet<Box<[u8]>>,
    /// CLIENT CACHING has named the next request an exception.
    pub caching: bool,
}

/// Of which keys a connection is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Those that it reads.
    #[default]
    All,
    /// Those that it reads behind CLIENT CACHING YES.
    OptIn,
    /// Those that it reads, but for those behind CLIENT CACHING NO.
    OptOut,
    /// All with its prefixes.
    Broadcast,
}

impl Options {
    /// Whether the keys of the next request are entered.
    fn enters(&self) -> bool {
        match self.mode {
            Mode::All => true,
            Mode::OptIn => self.caching,
            Mode::OptOut => !self.caching,
            Mode::Broadcast => false,
        }
    }
}

/// Who keeps what.
pub(crate) struct Tracking {
    shards: [Mutex<Keys>; SHARDS],
    hasher: RandomState,
    registry: RwLock<Registry>,
    /// Pairs of a key and a connection in all shards.
    pairs: AtomicUsize,
    pairs_max: AtomicUsize,
    /// Prefixes in the registry: without any, nobody need look for them.
    prefixes: AtomicUsize,
    /// The shard that is next to give room.
    hand: AtomicUsize,
    inbox_max: AtomicUsize,
}

/// One shard.
#[derive(Default)]
struct Keys {
    /// Who has read a key, by number in order.
    readers: BTreeMap<Box<[u8]>, Vec<u64>>,
    /// The key that was taken out last for want of room: the next one follows it.
    taken_out: Box<[u8]>,
}

/// Who tracks.
#[derive(Default)]
struct Registry {
    trackers: HashMap<u64, Tracker>,
    /// By length, so that a key is looked up once for each length that there is.
    prefixes: BTreeMap<usize, HashMap<Box<[u8]>, BTreeSet<u64>>>,
}

struct Tracker {
    own: Arc<ClientShared>,
    /// Who is told in its place.
    redirect: Option<Arc<ClientShared>>,
    no_loop: bool,
    broadcasts: bool,
}

/// Figures for INFO.
pub(crate) struct Counts {
    pub clients: usize,
    pub keys: usize,
    pub pairs: usize,
    pub prefixes: usize,
}

impl Tracking {
    pub(crate) fn new(config: &Config) -> Self {
        let tracking = Tracking {
            shards: std::array::from_fn(|_| Mutex::default()),
            hasher: RandomState::new(),
            registry: RwLock::default(),
            pairs: AtomicUsize::new(0),
            pairs_max: AtomicUsize::new(0),
            prefixes: AtomicUsize::new(0),
            hand: AtomicUsize::new(0),
            inbox_max: AtomicUsize::new(0),
        };
        tracking.set_limits(config);
        tracking
    }

    /// Takes the limits from the settings.
    pub(crate) fn set_limits(&self, config: &Config) {
        // ORDERING: Relaxed, here and for all counts: limits and figures that nothing else is read through.
        self.pairs_max.store(config.tracking_max, Ordering::Relaxed);
        self.inbox_max.store(config.subscriber_output_max, Ordering::Relaxed);
    }

    /// Whether anybody tracks.
    pub(crate) fn any(&self) -> bool {
        !self.registry().trackers.is_empty()
    }

    pub(crate) fn counts(&self) -> Counts {
        let keys = self.shards.iter().map(|shard| lock(shard).readers.len()).sum();
        Counts {
            clients: self.registry().trackers.len(),
            keys,
            pairs: self.pairs.load(Ordering::Relaxed),
            prefixes: self.prefixes.load(Ordering::Relaxed),
        }
    }

    /// Enters a connection, or changes what it has asked for. Before the hold of T1.
    pub(crate) fn enter(
        &self,
        client: &Arc<ClientShared>,
        options: &Options,
        redirect: Option<Arc<ClientShared>>,
    ) {
        let id = client.id;
        let mut registry = self.registry_mut();
        registry.leave_prefixes(id);
        for prefix in &options.prefixes {
            let prefixes = registry.prefixes.entry(prefix.len()).or_default();
            prefixes.entry(prefix.clone()).or_default().insert(id);
        }
        let (own, no_loop) = (Arc::clone(client), options.no_loop);
        let broadcasts = options.mode == Mode::Broadcast;
        registry.trackers.insert(id, Tracker { own, redirect, no_loop, broadcasts });
        self.publish(&registry);
    }

    /// Forgets a connection.
    pub(crate) fn leave(&self, id: u64) {
        let mut registry = self.registry_mut();
        registry.leave_prefixes(id);
        registry.trackers.remove(&id);
        self.publish(&registry);
    }

    /// Enters that a connection is about to read a key.
    fn read(&self, key: &[u8], id: u64) {
        let mut keys = lock(self.shard(key));
        if !keys.readers.contains_key(key) {
            keys.readers.insert(key.into(), Vec::new());
        }
        let Some(ids) = keys.readers.get_mut(key) else { return };
        if ids.binary_search(&id).is_ok() {
            return;
        }
        if !ids.is_empty() && ids.len() == ids.capacity() {
            self.drop_ended(ids);
        }
        let at = ids.partition_point(|other| *other < id);
        ids.insert(at, id);
        self.pairs.fetch_add(1, Ordering::Relaxed);
    }

    /// Drops connections that track no more from a list that has no room, and gives it room for as many as
    /// are left, so that it is long before this is done again.
    #[cold]
    fn drop_ended(&self, ids: &mut Vec<u64>) {
        let before = ids.len();
        let registry = self.registry();
        ids.retain(|id| registry.trackers.contains_key(id));
        self.pairs.fetch_sub(before - ids.len(), Ordering::Relaxed);
        ids.reserve(ids.len());
    }

    /// Takes keys out as long as there are too many, `count` at most.
    pub(crate) fn make_room(&self, count: usize) {
        let max = self.pairs_max.load(Ordering::Relaxed);
        for _ in 0..count {
            if max == 0 || self.pairs.load(Ordering::Relaxed) <= max {
                return;
            }
            let hand = self.hand.fetch_add(1, Ordering::Relaxed);
            let mut shards = (0..SHARDS).map(|i| &self.shards[hand.wrapping_add(i) % SHARDS]);
            let Some((key, ids)) = shards.find_map(|shard| lock(shard).take_next()) else { return };
            self.pairs.fetch_sub(ids.len(), Ordering::Relaxed);
            self.tell(&key, &ids, false, 0);
        }
    }

    /// Tells those who have read a key, and perhaps those who broadcast, that `actor` has changed it.
    fn tell(&self, key: &[u8], ids: &[u64], broadcast: bool, actor: u64) {
        if ids.is_empty() && !broadcast {
            return;
        }
        let inbox_max = self.inbox_max.load(Ordering::Relaxed);
        let registry = self.registry();
        let is_told = |tracker: &&Tracker| !(tracker.no_loop && tracker.own.id == actor);
        let readers = ids.iter().filter_map(|id| registry.trackers.get(id));
        // What it had read before it began to broadcast is no more to it than other keys.
        for tracker in readers.filter(|tracker| !tracker.broadcasts).filter(is_told) {
            tracker.tell(Some(key), inbox_max);
        }
        if broadcast {
            for tracker in registry.broadcasters(key).filter(is_told) {
                tracker.tell(Some(key), inbox_max);
            }
        }
    }

    fn publish(&self, registry: &Registry) {
        let n = registry.prefixes.values().map(HashMap::len).sum();
        // ORDERING: Relaxed; the hold of T1 orders it before all changes that have to find them.
        self.prefixes.store(n, Ordering::Relaxed);
    }

    fn shard(&self, key: &[u8]) -> &Mutex<Keys> {
        &self.shards[self.hasher.hash_one(key) as usize % SHARDS]
    }

    // A change that panicked has left whole maps.
    fn registry(&self) -> RwLockReadGuard<'_, Registry> {
        self.registry.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn registry_mut(&self) -> RwLockWriteGuard<'_, Registry> {
        self.registry.write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn lock(shard: &Mutex<Keys>) -> MutexGuard<'_, Keys> {
    // As for the registry.
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Observer for Tracking {
    fn changed(&self, key: &[u8], actor: u64) {
        let ids = lock(self.shard(key)).readers.remove(key).unwrap_or_default();
        self.pairs.fetch_sub(ids.len(), Ordering::Relaxed);
        // ORDERING: Relaxed, as in `publish`.
        self.tell(key, &ids, self.prefixes.load(Ordering::Relaxed) > 0, actor);
    }

    fn cleared(&self, _: u64) {
        for shard in &self.shards {
            let readers = std::mem::take(&mut lock(shard).readers);
            let pairs = readers.values().map(Vec::len).sum();
            self.pairs.fetch_sub(pairs, Ordering::Relaxed);
        }
        let inbox_max = self.inbox_max.load(Ordering::Relaxed);
        // Also who has done it: that is no key of its own.
        self.registry().trackers.values().for_each(|tracker| tracker.tell(None, inbox_max));
    }
}

impl Keys {
    /// Takes out the key that follows the one that was taken out last.
    fn take_next(&mut self) -> Option<(Box<[u8]>, Vec<u64>)> {
        let behind = (Bound::Excluded(&*self.taken_out), Bound::Unbounded);
        let next = self.readers.range::<[u8], _>(behind).next();
        let (key, _) = next.or_else(|| self.readers.first_key_value())?;
        let key = key.clone();
        let ids = self.readers.remove(&key)?;
        self.taken_out.clone_from(&key);
        Some((key, ids))
    }
}

impl Registry {
    fn leave_prefixes(&mut self, id: u64) {
        if !self.trackers.get(&id).is_some_and(|tracker| tracker.broadcasts) {
            return;
        }
        self.prefixes.retain(|_, prefixes| {
            prefixes.retain(|_, ids| {
                ids.remove(&id);
                !ids.is_empty()
            });
            !prefixes.is_empty()
        });
    }

    /// Those who have asked for a prefix of the key, each once: prefixes of one connection do not overlap.
    fn broadcasters(&self, key: &[u8]) -> impl Iterator<Item = &Tracker> {
        let of_length = self.prefixes.range(..=key.len());
        let ids = of_length.filter_map(|(len, prefixes)| prefixes.get(&key[..*len])).flatten();
        ids.filter_map(|id| self.trackers.get(id))
    }
}

impl Tracker {
    /// Tells of one key, or of all.
    fn tell(&self, key: Option<&[u8]>, inbox_max: usize) {
        let told = match &self.redirect {
            None => &self.own,
            Some(other) if other.has_left() => return self.tell_of_end(other.id, inbox_max),
            Some(other) => other,
        };
        // In RESP2 nothing can come unasked, but for the messages of a connection that listens.
        let by_channel = self.redirect.is_some() && told.listens();
        if told.version() == Version::Resp2 && !by_channel {
            return;
        }
        told.deliver(inbox_max, |w| {
            match w.version() {
                Version::Resp3 => {
                    w.push(2);
                    w.bulk(b"invalidate");
                }
                Version::Resp2 if by_channel => {
                    w.array(3);
                    w.bulk(b"message");
                    w.bulk(CHANNEL);
                }
                Version::Resp2 => return,
            }
            match key {
                Some(key) => {
                    w.array(1);
                    w.bulk(key);
                }
                None => w.null(),
            }
        });
    }

    /// Tells that the connection has ended that was to be told, each time that it would be.
    fn tell_of_end(&self, other: u64, inbox_max: usize) {
        self.own.note_broken_redirect();
        if self.own.version() == Version::Resp3 {
            self.own.deliver(inbox_max, |w| {
                if w.version() == Version::Resp3 {
                    w.push(2);
                    w.bulk(b"tracking-redir-broken");
                    w.int(other as i64);
                }
            });
        }
    }
}

/// Enters the keys that a request is about to read, if its client keeps copies.
#[inline]
pub(crate) fn before(spec: &Spec, args: ArgsView<'_>, client: &Client, server: &Server) {
    if let Some(options) = client.tracking() {
        enter_reads(spec, args, options, client, server);
    }
}

#[cold]
fn enter_reads(
    spec: &Spec,
    args: ArgsView<'_>,
    options: &Options,
    client: &Client,
    server: &Server,
) {
    // Of a script its commands count.
    let reads = spec.flags.contains(Flags::READONLY) && spec.group != Group::Scripting;
    if !reads || spec.keys.is_empty() || !options.enters() {
        return;
    }
    let mut entered = 0;
    for key in spec.keys_of(args) {
        server.tracking.read(key, client.shared.id);
        entered += 1;
    }
    server.tracking.make_room(2 * entered + TAKEN_OUT);
}
