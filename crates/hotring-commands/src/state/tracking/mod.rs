//! Client-side caching (CLIENT TRACKING): records the keys that each connection has read, and sends the connection a
//! message when one of them changes.
//!
//! # Picture
//! ```text
//!   a read by a tracking client --> shards: key -> connections, before the key is read
//!   a change by any client     --> shards, within the change: the key is taken out,
//!                                  and a message goes into the inbox of each connection
//! ```
//! The store reports changes of any cause ([`hotring_store::Observer`]): a command of either protocol, a script, a
//! transaction, expiry, FLUSHALL. It reports only while a client tracks, and the reports cost reads nothing.
//! Connections in broadcast mode are in no shard: they are found by their prefixes.
//!
//! # Why no message is lost
//! * **T1** *The store reports each change that a read of a tracking client may not have seen.* A client that begins
//!   to track must enter the registry first and then hold the entire store for a moment: all later changes are
//!   reported. After the last client has left, the background task holds the entire store as well, checks again that no
//!   client tracks, and then ends the reports.
//! * **T2** *A change finds each read that misses it.* The read must enter its key before it reads the value; the
//!   change must take place before it looks for the key; both use the shard's mutex. If the change locks the mutex
//!   first, the read follows the change and sees it. Broadcasts follow from T1 alone.
//! * **T3** *The message follows the reply.* The message enters the inbox after the key was entered, and the
//!   connection's task must not move messages to its output between entering the key and the reply. (A redirected
//!   message arrives on another connection; the client must order the two, as with Redis. HELLO 2 on that connection
//!   ends its messages.)
//!
//! Hence each reader that is taken out of a shard gets a message after its last reply, also after an eviction. A
//! superfluous message is harmless: the client reads the key again.
//!
//! # Order of locks
//! The store's gate; the registry; a shard or an inbox. A thread must not wait for the gate while it holds another
//! lock.
//!
//! # Bounds
//! `tracking-table-max-keys` bounds the keys. `tracking-table-max-memory`, at most a part of `maxmemory`, bounds
//! their memory together with the lists of their readers. Above a limit, keys are evicted from each shard in turn: a
//! session evicts in proportion to the keys that it has just entered, and the background task approaches a lowered
//! limit step by step.
//!
//! The entries of a client that stops tracking remain in the table. They match no client, because each TRACKING ON gets
//! a new number. A walk in the background drops these entries once they may be a large part of the table, or once no
//! client tracks.

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
use table::{Cursor, ENTRY_LEN, Size, Table};

/// The channel of invalidations for RESP2 connections.
const CHANNEL: &[u8] = b"__redis__:invalidate";

/// A read evicts at most this many keys, plus twice as many as it enters.
const TAKEN_OUT: usize = 16;

/// Entries of clients that stopped tracking are dropped once one entry in this many may be such an entry.
const LEFT_SHARE: usize = 4;

/// The options of a connection that tracks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    /// The number of the connection from TRACKING ON to OFF.
    pub number: u64,
    pub mode: Mode,
    /// The connection gets no messages about its own writes (NOLOOP).
    pub no_loop: bool,
    /// The ID of the connection to which messages are redirected.
    pub redirect: Option<u64>,
    /// The prefixes of broadcast mode.
    pub prefixes: BTreeSet<Box<[u8]>>,
    /// CLIENT CACHING has made the next request an exception to the mode.
    pub caching: bool,
    /// Pairs of a key and this connection in the table.
    pub entered: usize,
}

/// The keys that a connection tracks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The keys that it reads.
    #[default]
    All,
    /// The keys that it reads after CLIENT CACHING YES.
    OptIn,
    /// The keys that it reads, except after CLIENT CACHING NO.
    OptOut,
    /// All keys with the connection's prefixes.
    Broadcast,
}

impl Options {
    /// Whether the keys of the next request must be entered.
    fn enters(&self) -> bool {
        match self.mode {
            Mode::All => true,
            Mode::OptIn => self.caching,
            Mode::OptOut => !self.caching,
            Mode::Broadcast => false,
        }
    }
}

/// The state of client-side caching.
pub struct Tracking {
    table: Table,
    registry: RwLock<Registry>,
    /// The last number given to a connection.
    number_last: AtomicU64,
    /// The number of prefixes in the registry. If it is 0, changes need no lookup of prefixes.
    prefixes: AtomicUsize,
    /// The number of pairs of clients that have stopped tracking, except pairs that a finished walk has dropped.
    left: AtomicUsize,
    key_len_max: AtomicUsize,
    inbox_max: AtomicUsize,
}

/// The tracking connections, by number.
#[derive(Default)]
struct Registry {
    trackers: HashMap<u64, Tracker>,
    prefixes: Prefixes,
}

struct Tracker {
    client: Arc<ClientShared>,
    /// The connection to which messages are redirected.
    redirect: Option<Arc<ClientShared>>,
    no_loop: bool,
}

/// A walk that drops the entries of clients that stopped tracking.
#[derive(Default)]
pub struct Walk {
    cursor: Option<Cursor>,
    /// `Tracking::left` at the start of the walk.
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

    /// Applies changed settings.
    pub(crate) fn set_limits(&self, config: &Config) {
        let memory_max = match (config.tracking_memory_max, memory::part_of(config.memory_max)) {
            (0, usize::MAX) => 0,
            (0, part) => part,
            (max, part) => max.min(part),
        };
        self.table.set_limits(config.tracking_keys_max, memory_max);
        // ORDERING: Relaxed, here and for all counts: limits and figures, through which no other memory is read.
        self.inbox_max.store(config.subscriber_output_max, Ordering::Relaxed);
    }

    /// Whether any client tracks.
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

    /// Registers a connection or changes its options; `added` are its new prefixes. Must be called before the hold of
    /// T1.
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

    /// Removes a connection.
    pub(crate) fn leave(&self, options: &Options) {
        let mut registry = self.registry_mut();
        for prefix in &options.prefixes {
            registry.prefixes.leave(prefix, options.number);
        }
        registry.trackers.remove(&options.number);
        self.publish(&registry);
        self.left.fetch_add(options.entered, Ordering::Relaxed);
    }

    /// Tells all clients to drop all that they keep.
    pub(in crate::state) fn forget_all(&self) {
        self.table.clear();
        let inbox_max = self.inbox_max.load(Ordering::Relaxed);
        self.registry().trackers.values().for_each(|tracker| tracker.invalidate(None, inbox_max));
    }

    /// Evicts up to `count` keys while the table is over a limit.
    pub fn evict_excess(&self, count: usize) {
        for _ in 0..count {
            let Some((key, readers)) = self.table.take_excess() else { return };
            self.invalidate(&key, &readers, false, 0);
        }
    }

    /// Takes one step of a walk that drops the entries of clients that stopped tracking; false if there is nothing to
    /// do.
    pub fn drop_left(&self, walk: &mut Walk) -> bool {
        if walk.cursor.is_none() && self.is_much_left() {
            *walk =
                Walk { cursor: Some(Cursor::default()), left: self.left.load(Ordering::Relaxed) };
        }
        let Some(cursor) = &mut walk.cursor else { return false };
        // The lock prevents clients from beginning to track during this step, so that no dropped entry is in use.
        let registry = self.registry();
        let goes_on =
            self.table.drop_some(cursor, |number| registry.trackers.contains_key(&number));
        if !goes_on {
            walk.cursor = None;
            self.left.fetch_sub(walk.left, Ordering::Relaxed);
        }
        goes_on
    }

    fn is_much_left(&self) -> bool {
        let (left, pairs) = (self.left.load(Ordering::Relaxed), self.table.size().pairs);
        pairs > 0 && (left > pairs / LEFT_SHARE || !self.any())
    }

    /// Reports a change by `actor` to the readers of a key and, if `broadcast`, to connections in broadcast mode.
    fn invalidate(&self, key: &[u8], readers: &[u64], broadcast: bool, actor: u64) {
        if readers.is_empty() && !broadcast {
            return;
        }
        let inbox_max = self.inbox_max.load(Ordering::Relaxed);
        let registry = self.registry();
        let is_told = |tracker: &&Tracker| !(tracker.no_loop && tracker.client.id == actor);
        // Each connection gets the message once: connections in broadcast mode enter no keys, and the prefixes of one
        // connection do not overlap.
        let broadcasters = broadcast.then(|| registry.prefixes.readers_of(key));
        let numbers = readers.iter().copied().chain(broadcasters.into_iter().flatten());
        let trackers = numbers.filter_map(|number| registry.trackers.get(&number));
        trackers.filter(is_told).for_each(|tracker| tracker.invalidate(Some(key), inbox_max));
    }

    fn publish(&self, registry: &Registry) {
        // ORDERING: Relaxed; the hold of T1 orders this store before all changes that must find the clients.
        self.prefixes.store(registry.prefixes.len(), Ordering::Relaxed);
    }

    // A panic during a change leaves the maps consistent.
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
        self.invalidate(key, &readers, self.prefixes.load(Ordering::Relaxed) > 0, actor);
    }

    fn cleared(&self, _: u64) {
        // The client that has cleared the store gets the message as well: NOLOOP applies to single keys only.
        self.forget_all();
    }
}

impl Tracker {
    /// Sends the invalidation of one key, or of all keys (None).
    fn invalidate(&self, key: Option<&[u8]>, inbox_max: usize) {
        let (target, by_channel) = match &self.redirect {
            None => (&self.client, false),
            Some(other) if other.has_left() => return self.report_end(other.id, inbox_max),
            Some(other) => (other, true),
        };
        target.invalidate(inbox_max, by_channel, |w| {
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

    /// Sends, instead of an invalidation, the message that the connection to redirect to has ended.
    fn report_end(&self, other: u64, inbox_max: usize) {
        self.client.note_broken_redirect();
        self.client.invalidate(inbox_max, false, |w| {
            w.push(2);
            w.bulk(b"tracking-redir-broken");
            w.int(other as i64);
        });
    }
}

/// Enters the keys that a request is about to read, if its client tracks.
#[inline]
pub(crate) fn before(spec: &Spec, args: ArgsView<'_>, client: &mut Client, tracking: &Tracking) {
    if let Some(options) = client.tracking_mut() {
        enter_reads(spec, args, options, tracking);
    }
}

#[cold]
fn enter_reads(spec: &Spec, args: ArgsView<'_>, options: &mut Options, tracking: &Tracking) {
    // A script's commands enter their own keys.
    let reads = spec.flags.contains(Flags::READONLY) && spec.group != Group::Scripting;
    if !reads || spec.keys.is_empty() || !options.enters() {
        return;
    }
    let key_len_max = tracking.key_len_max.load(Ordering::Relaxed);
    let (mut entered, mut grown) = (0, 0);
    // Longer keys cannot be stored, so they never change.
    for key in spec.keys_of(args).filter(|key| key.len() <= key_len_max) {
        if let Some(more) = tracking.table.enter(key, options.number) {
            entered += 1;
            grown += more;
        }
    }
    options.entered += entered;
    tracking.evict_excess(2 * (entered + grown / ENTRY_LEN) + TAKEN_OUT);
}
