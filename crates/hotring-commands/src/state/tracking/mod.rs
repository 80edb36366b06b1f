//! Which connections keep copies of which keys (CLIENT TRACKING), and how they learn that these are old.
//!
//! # Picture
//! ```text
//!   a read by a tracking client --> shards: key -> connections, before the key is looked at
//!   a change by anybody        --> shards, within the change: the key is taken out,
//!                                  and a message goes into the inbox of each connection
//! ```
//! The store tells of changes ([`hotring_store::Observer`]), whatever made them: a command of either protocol, a
//! script, a transaction, the end of a key's time, FLUSHALL. It does so while a client tracks, and asks nothing
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
//!   another one's place, it comes on another connection; the client has to see to that, as with Redis. HELLO 2 ends
//!   that it is told.)
//!
//! Hence whoever is taken out of a shard gets a message for it behind its last reply, also where room was
//! wanted. A message too many is harmless: the client asks again.
//!
//! # Order of locks
//! The store's gate; the registry; a shard or an inbox. Nothing waits for the gate while it has one of the others.
//!
//! # Bounds
//! `tracking-table-max-keys` bounds the keys. `tracking-table-max-memory`, at most a part of `maxmemory`, bounds
//! their memory together with the lists of their readers. Above a limit each shard in turn gives up keys: a session
//! takes out as many as it has just entered, and the background task reaches a lowered limit bit by bit.
//!
//! A client that stops tracking leaves its entries behind. They match no client, as each start gets a new number.
//! A walk in the background drops them once they may be a good part of the table, or no client tracks. Reads that
//! entered something pay for each step of it.

mod prefixes;
mod table;

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use hotring_protocol::{ArgsView, Version};
use hotring_store::Observer;

use crate::settings::config::{Config, memory};
use crate::state::client::{Client, ClientShared};
use crate::table::{Flags, Group, Spec};
use prefixes::Prefixes;
use table::{ENTRY_LEN, Place, Size, Table};

/// The channel by which connections in RESP2 are told.
const CHANNEL: &[u8] = b"__redis__:invalidate";

/// Keys that a read takes out at most for want of room, besides twice what it enters.
const TAKEN_OUT: usize = 16;

/// The entries of clients that stopped are dropped once they may be one in this many.
const LEFT_SHARE: usize = 4;

/// What a connection has asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    /// What it is known by from TRACKING ON to OFF.
    pub number: u64,
    pub mode: Mode,
    /// It is not told of what it writes itself.
    pub no_loop: bool,
    /// The connection that is told in its place.
    pub redirect: Option<u64>,
    /// What it is told of if it broadcasts, read or not.
    pub prefixes: BTreeSet<Box<[u8]>>,
    /// CLIENT CACHING has named the next request an exception.
    pub caching: bool,
    /// Pairs of a key and this connection that it has entered.
    pub entered: usize,
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
pub struct Tracking {
    table: Table,
    registry: RwLock<Registry>,
    /// The last number that was given.
    number_last: AtomicU64,
    /// Prefixes in the registry: without any, no lookup is needed.
    prefixes: AtomicUsize,
    /// Pairs that have been entered by clients that stopped tracking, since the last walk began that dropped them.
    left: AtomicUsize,
    key_len_max: AtomicUsize,
    inbox_max: AtomicUsize,
}

/// Who tracks, by number.
#[derive(Default)]
struct Registry {
    trackers: HashMap<u64, Tracker>,
    prefixes: Prefixes,
}

struct Tracker {
    client: Arc<ClientShared>,
    /// Who is told in its place.
    redirect: Option<Arc<ClientShared>>,
    no_loop: bool,
}

/// A walk that drops the entries of clients that stopped tracking.
#[derive(Default)]
pub struct Walk {
    place: Option<Place>,
    /// What had been left when it began.
    left: usize,
}

/// Figures for INFO.
pub struct Counts {
    pub clients: usize,
    pub prefixes: usize,
    pub table: Size,
}

impl Tracking {
    pub(crate) fn new(config: &Config) -> Self {
        let tracking = Tracking {
            table: Table::default(),
            registry: RwLock::default(),
            number_last: AtomicU64::new(0),
            prefixes: AtomicUsize::new(0),
            left: AtomicUsize::new(0),
            key_len_max: AtomicUsize::new(config.key_len_max),
            inbox_max: AtomicUsize::new(0),
        };
        tracking.set_limits(config);
        tracking
    }

    /// Takes the limits from the settings.
    pub(crate) fn set_limits(&self, config: &Config) {
        let memory_max = match (config.tracking_memory_max, memory::part_of(config.memory_max)) {
            (0, usize::MAX) => 0,
            (0, part) => part,
            (max, part) => max.min(part),
        };
        self.table.set_limits(config.tracking_keys_max, memory_max);
        // ORDERING: Relaxed, here and for all counts: limits and figures that nothing else is read through.
        self.inbox_max.store(config.subscriber_output_max, Ordering::Relaxed);
    }

    /// Whether anybody tracks.
    pub fn any(&self) -> bool {
        !self.registry().trackers.is_empty()
    }

    pub fn counts(&self) -> Counts {
        Counts {
            clients: self.registry().trackers.len(),
            prefixes: self.prefixes.load(Ordering::Relaxed),
            table: self.table.size(),
        }
    }

    /// A number for a client that begins to track.
    pub(crate) fn next_number(&self) -> u64 {
        // ORDERING: Relaxed, only uniqueness matters.
        self.number_last.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Enters a connection, or changes what it has asked for; `added` are the prefixes among that that are new. Before
    /// the hold of T1.
    pub(crate) fn enter(
        &self,
        client: &Arc<ClientShared>,
        options: &Options,
        added: &[Box<[u8]>],
        redirect: Option<Arc<ClientShared>>,
    ) {
        let mut registry = self.registry_mut();
        for prefix in added {
            registry.prefixes.enter(prefix, options.number);
        }
        let (client, no_loop) = (Arc::clone(client), options.no_loop);
        registry.trackers.insert(options.number, Tracker { client, redirect, no_loop });
        self.publish(&registry);
    }

    /// Forgets a connection.
    pub(crate) fn leave(&self, options: &Options) {
        let mut registry = self.registry_mut();
        for prefix in &options.prefixes {
            registry.prefixes.leave(prefix, options.number);
        }
        registry.trackers.remove(&options.number);
        self.publish(&registry);
        self.left.fetch_add(options.entered, Ordering::Relaxed);
    }

    /// Takes keys out as long as there are too many, `count` at most.
    pub fn evict_excess(&self, count: usize) {
        for _ in 0..count {
            let Some((key, readers)) = self.table.take_excess() else { return };
            self.tell(&key, &readers, false, 0);
        }
    }

    /// Goes on with dropping the entries of clients that stopped tracking; false if there is nothing to do.
    pub fn drop_left(&self, walk: &mut Walk) -> bool {
        if walk.place.is_none() && self.is_much_left() {
            *walk = Walk { place: Some(Place::default()), left: self.left.load(Ordering::Relaxed) };
        }
        let Some(place) = &mut walk.place else { return false };
        // No client begins to track, and enters something, during this step: what it drops belongs to none.
        let registry = self.registry();
        let goes_on = self.table.drop_some(place, |number| registry.trackers.contains_key(&number));
        if !goes_on {
            walk.place = None;
            self.left.fetch_sub(walk.left, Ordering::Relaxed);
        }
        goes_on
    }

    fn is_much_left(&self) -> bool {
        let (left, pairs) = (self.left.load(Ordering::Relaxed), self.table.size().pairs);
        pairs > 0 && (left > pairs / LEFT_SHARE || !self.any())
    }

    /// Tells those who have read a key, and perhaps those who broadcast, that `actor` has changed it.
    fn tell(&self, key: &[u8], readers: &[u64], broadcast: bool, actor: u64) {
        if readers.is_empty() && !broadcast {
            return;
        }
        let inbox_max = self.inbox_max.load(Ordering::Relaxed);
        let registry = self.registry();
        let is_told = |tracker: &&Tracker| !(tracker.no_loop && tracker.client.id == actor);
        // Each once: who broadcasts enters no keys, and its prefixes do not overlap.
        let broadcasters = broadcast.then(|| registry.prefixes.readers_of(key));
        let numbers = readers.iter().copied().chain(broadcasters.into_iter().flatten());
        let trackers = numbers.filter_map(|number| registry.trackers.get(&number));
        trackers.filter(is_told).for_each(|tracker| tracker.tell(Some(key), inbox_max));
    }

    fn publish(&self, registry: &Registry) {
        // ORDERING: Relaxed; the hold of T1 orders it before all changes that have to find them.
        self.prefixes.store(registry.prefixes.len(), Ordering::Relaxed);
    }

    // A change that panicked has left whole maps.
    fn registry(&self) -> RwLockReadGuard<'_, Registry> {
        self.registry.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn registry_mut(&self) -> RwLockWriteGuard<'_, Registry> {
        self.registry.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Tracking {
    fn changed(&self, key: &[u8], actor: u64) {
        let readers = self.table.remove(key);
        // ORDERING: Relaxed, as in `publish`.
        self.tell(key, &readers, self.prefixes.load(Ordering::Relaxed) > 0, actor);
    }

    fn cleared(&self, _: u64) {
        self.table.clear();
        let inbox_max = self.inbox_max.load(Ordering::Relaxed);
        // Also who has done it: that is no key of its own.
        self.registry().trackers.values().for_each(|tracker| tracker.tell(None, inbox_max));
    }
}

impl Tracker {
    /// Tells of one key, or of all.
    fn tell(&self, key: Option<&[u8]>, inbox_max: usize) {
        let (told, by_channel) = match &self.redirect {
            None => (&self.client, false),
            Some(other) if other.has_left() => return self.tell_of_end(other.id, inbox_max),
            Some(other) => (other, true),
        };
        told.invalidate(inbox_max, by_channel, |w| {
            match w.version() {
                Version::Resp3 => {
                    w.push(2);
                    w.bulk(b"invalidate");
                }
                Version::Resp2 => {
                    w.array(3);
                    w.bulk(b"message");
                    w.bulk(CHANNEL);
                }
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
        self.client.note_broken_redirect();
        self.client.invalidate(inbox_max, false, |w| {
            w.push(2);
            w.bulk(b"tracking-redir-broken");
            w.int(other as i64);
        });
    }
}

/// Enters the keys that a request is about to read, if its client keeps copies.
#[inline]
pub(crate) fn before(spec: &Spec, args: ArgsView<'_>, client: &mut Client, tracking: &Tracking) {
    if let Some(options) = client.tracking_mut() {
        enter_reads(spec, args, options, tracking);
    }
}

#[cold]
fn enter_reads(spec: &Spec, args: ArgsView<'_>, options: &mut Options, tracking: &Tracking) {
    // Of a script its commands count.
    let reads = spec.flags.contains(Flags::READONLY) && spec.group != Group::Scripting;
    if !reads || spec.keys.is_empty() || !options.enters() {
        return;
    }
    let key_len_max = tracking.key_len_max.load(Ordering::Relaxed);
    let (mut entered, mut grown) = (0, 0);
    // There is no longer key that could change.
    for key in spec.keys_of(args).filter(|key| key.len() <= key_len_max) {
        if let Some(more) = tracking.table.enter(key, options.number) {
            entered += 1;
            grown += more;
        }
    }
    options.entered += entered;
    tracking.evict_excess(2 * (entered + grown / ENTRY_LEN) + TAKEN_OUT);
}
