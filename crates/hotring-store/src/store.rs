//! The store handle that all sessions share: options, opening, settings and statistics.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::task::Waker;

use hotring_index::{AnyIndex, AnySession, Buffer, Checksum, Config, ConfigError, Stalled};
use hotring_log::{Log, Lsn};

use crate::clearing::Clearing;
use crate::container::ContainerOptions;
use crate::databases::{Database, Databases};
use crate::evict::{Eviction, EvictionOptions};
use crate::gate::{Fault, Gate};
use crate::grounds::Grounds;
use crate::history::{HEAD_LEN, HistoryLimits};
use crate::logged::Logged;
use crate::metadata;
use crate::pins::Pinned;
use crate::session::{Limits, Session};
use crate::watch::{Observer, Watchers};
use crate::wheel::Wheels;
use crate::write::Hooks;

/// Settings with which a store is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// Seed of the hash. Draw it at random if clients choose the keys: anyone who knows it can choose
    /// colliding keys. Replaces `index.seed`.
    pub seed: [u64; 2],
    /// Maximum key length in bytes.
    pub key_len_max: usize,
    /// Maximum value length in bytes, also of a value built by appends.
    pub value_len_max: usize,
    /// Number of earlier values kept for each key, for [`Session::history`] and [`Session::roll_back`]; at most 16. 0
    /// keeps none and costs nothing. Otherwise a write copies the kept values, and integers are not updated in place.
    pub history: usize,
    /// Maximum bytes of the earlier values of one key, 12 for each value in addition to its length; the oldest are
    /// dropped first. A value that is too long on its own is not kept, nor are values older than it.
    pub history_bytes_max: usize,
    /// Maximum fields of a packed hash, which is stored as one value. A longer hash becomes an object of its own, and a
    /// change costs the size of the change, not the length of the hash. Without effect if items have checksums, because
    /// a checksum covers one value only.
    pub hash_packed_fields_max: usize,
    /// Maximum bytes of each field and value of a packed hash.
    pub hash_packed_len_max: usize,
    /// Maximum elements of a packed list.
    pub list_packed_elements_max: usize,
    /// Maximum bytes of a packed list, counted as Redis does.
    pub list_packed_bytes_max: usize,
    /// Maximum members of a packed set of integers only. A longer set becomes an object of its own.
    pub set_packed_ints_max: usize,
    /// Maximum members of a packed set with other members than integers.
    pub set_packed_members_max: usize,
    /// Maximum bytes of each member of a packed set.
    pub set_packed_len_max: usize,
    /// Maximum members of a packed sorted set, as [`Options::hash_packed_fields_max`] for hashes.
    pub scored_packed_members_max: usize,
    /// Maximum bytes of each member of a packed sorted set.
    pub scored_packed_len_max: usize,
    /// Maximum length of a string that stays one value when a part of it changes. A longer string becomes an object of
    /// its own, and a change costs the bytes written, not the length of the string. Without effect if items have
    /// checksums, which cover one value only, or if earlier values are kept.
    pub text_plain_max: usize,
    /// Maximum number of watches ([`Session::watch`]) open at the same time.
    pub watches_max: u64,
    /// Maximum items of a database that a clear removes while it holds all keys; 4,096 take about a millisecond. More
    /// become absent at the same moment, and are removed in steps ([`Session::clear_some`]). Without effect on items
    /// with checksums, which are removed at once.
    pub cleared_at_once_max: u64,
    /// [`UniqueNumbers`](crate::UniqueNumbers) begin after this. Clients keep such numbers longer than a store lives,
    /// so it must be greater than all numbers of earlier stores.
    pub unique_base: u64,
    /// Settings of the index. Settings of other engines must be left at their defaults.
    pub index: Config,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            seed: [0x9e37_79b9_7f4a_7c15, 0xd1b5_4a32_d192_ed03],
            key_len_max: 64 << 10,
            value_len_max: 512 << 20,
            history: 0,
            history_bytes_max: 1 << 20,
            hash_packed_fields_max: 512,
            hash_packed_len_max: 64,
            list_packed_elements_max: usize::MAX,
            list_packed_bytes_max: 8 << 10,
            set_packed_ints_max: 512,
            set_packed_members_max: 128,
            set_packed_len_max: 64,
            scored_packed_members_max: 128,
            scored_packed_len_max: 64,
            text_plain_max: 64 << 10,
            watches_max: 1_000,
            cleared_at_once_max: 4096,
            unique_base: 0,
            index: Config::default(),
        }
    }
}

/// Why a store could not be opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// The index refused its settings.
    Index(ConfigError),
    /// A limit is zero or larger than the item layout can hold (4 GiB - 1).
    Limit {
        /// Name of the field in [`Options`].
        name: &'static str,
        /// Its value.
        value: usize,
    },
    /// `history` is above 16, or the maximum lengths of a value and of its earlier values do not fit into one item (4
    /// GiB).
    History {
        /// [`Options::history`].
        values: usize,
        /// [`Options::history_bytes_max`].
        bytes_max: usize,
    },
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Index(cause) => write!(f, "the index refused its settings: {cause}"),
            Self::Limit { name, value } => {
                write!(f, "{name} is {value}, it must be in 1..={}", u32::MAX)
            }
            Self::History { values, bytes_max } => write!(
                f,
                "history is {values}, it must be in 0..={HISTORY_MAX}; history_bytes_max is \
                 {bytes_max}, with value_len_max it must be less than 4 GiB"
            ),
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Index(cause) => Some(cause),
            Self::Limit { .. } | Self::History { .. } => None,
        }
    }
}

/// Maximum of [`Options::history`].
const HISTORY_MAX: usize = 16;

/// Statistics of a running store.
#[derive(Clone, Debug)]
pub struct Stats {
    /// The statistics of the index: items, bytes, visits, head moves.
    pub index: hotring_index::Stats,
    /// Number of times that a multi-key operation held stripes exclusively.
    pub exclusions: u64,
    /// Number of open sessions.
    pub sessions: usize,
    /// Number of open watches.
    pub watches: u64,
    /// Number of evicted keys.
    pub evicted: u64,
    /// Number and size of the pinned keys.
    pub pinned: Pinned,
    /// Bytes of the eviction policy's tables and of the list of pinned keys. They count for the memory limit only if
    /// the owner adds them ([`Store::set_external_memory`]).
    pub eviction_bytes: usize,
    /// Entries of the timing wheels: one for each key that expires, and some stale ones.
    pub expiry_entries: u64,
    /// Bytes of the timing wheels. The owner adds them to [`Store::set_external_memory`].
    pub expiry_bytes: u64,
}

/// An in-memory key-value store. A handle is cheap to clone; all clones are one store.
///
/// All operations go through a [`Session`], one for each thread.
#[derive(Clone)]
pub struct Store {
    pub(crate) index: AnyIndex,
    gate: Arc<Gate>,
    limits: Limits,
    hooks: Hooks,
    pub(crate) eviction: Arc<Eviction>,
    wheels: Arc<Wheels>,
    clearing: Arc<Clearing>,
    pub(crate) logged: Arc<Logged>,
    /// The last number of [`UniqueNumbers`](crate::UniqueNumbers).
    last_unique: Arc<AtomicU64>,
    pub(crate) databases: Arc<Databases>,
    checksum: Checksum,
    containers: Arc<ContainerOptions>,
    /// Seed of the hash that selects a key's stripe.
    seed: u64,
}

impl Store {
    /// Opens an empty store.
    ///
    /// # Errors
    /// The settings are invalid or contradict each other, or the index refuses its settings.
    pub fn new(options: Options) -> Result<Store, OpenError> {
        Self::open_with(options, AnyIndex::hotring)
    }

    /// Opens an empty store on an index that `open` creates. `open` gets the index settings of [`Options`] with the
    /// seed of the store; it is called once for each database.
    ///
    /// # Errors
    /// Those of [`Store::new`].
    pub fn open_with(
        options: Options,
        open: impl Fn(Config) -> Result<AnyIndex, ConfigError> + Send + Sync + 'static,
    ) -> Result<Store, OpenError> {
        Self::with_fault(options, open, Fault::None)
    }

    /// Opens a store whose multi-key atomicity is broken on purpose, so that tests can show that they detect it. Not
    /// for production.
    #[doc(hidden)]
    pub fn with_fault(
        options: Options,
        open: impl Fn(Config) -> Result<AnyIndex, ConfigError> + Send + Sync + 'static,
        fault: Fault,
    ) -> Result<Store, OpenError> {
        let limits =
            Limits { key_len_max: options.key_len_max, value_len_max: options.value_len_max };
        for (name, value) in
            [("key_len_max", limits.key_len_max), ("value_len_max", limits.value_len_max)]
        {
            if value == 0 || u32::try_from(value).is_err() {
                return Err(OpenError::Limit { name, value });
            }
        }
        let history =
            HistoryLimits { values: options.history, bytes_max: options.history_bytes_max };
        check_history(history, limits)?;
        let config = Config { seed: options.seed, ..options.index };
        let checksum = config.checksum;
        let containers = ContainerOptions::new(checksum == Checksum::Off, options.seed);
        containers.hash.set(options.hash_packed_fields_max, options.hash_packed_len_max);
        containers.list.set(options.list_packed_elements_max, options.list_packed_bytes_max);
        containers.set.set(options.set_packed_members_max, options.set_packed_len_max);
        containers.set_ints.set(options.set_packed_ints_max, usize::MAX);
        containers.scored.set(options.scored_packed_members_max, options.scored_packed_len_max);
        if containers.takes_objects && history.is_off() {
            containers.set_text_plain_max(options.text_plain_max);
        }
        let containers = Arc::new(containers);
        let index = open(config.clone()).map_err(OpenError::Index)?;
        let seed = options.seed[0].rotate_left(32) ^ options.seed[1];
        let gate = Arc::new(Gate::new(fault));
        let watchers = Arc::new(Watchers::new(options.watches_max));
        let hooks = Hooks::new(history, watchers.clone());
        let last_unique = Arc::new(AtomicU64::new(options.unique_base));
        let eviction = Arc::new(Eviction::new(seed));
        let wheels = Arc::new(Wheels::new());
        let at_once_max = options.cleared_at_once_max;
        let clearing = Arc::new(Clearing::new(at_once_max));
        let logged = Arc::new(Logged::new(seed, fault));
        let first = Database {
            index: index.clone(),
            eviction: eviction.clone(),
            wheels: wheels.clone(),
            clearing: clearing.clone(),
            watchers,
            seed,
        };
        let watches_max = options.watches_max;
        let databases = Arc::new(Databases::new(first, move |database_id| {
            let apart = u64::from(database_id).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let own = Config { seed: [options.seed[0] ^ apart, options.seed[1]], ..config.clone() };
            Database {
                index: open(own).expect("the first index took these settings"),
                eviction: Arc::new(Eviction::new(seed ^ apart)),
                wheels: Arc::new(Wheels::new()),
                clearing: Arc::new(Clearing::new(at_once_max)),
                watchers: Arc::new(Watchers::new(watches_max)),
                seed: seed ^ apart,
            }
        }));
        Ok(Store {
            index,
            gate,
            limits,
            hooks,
            eviction,
            wheels,
            clearing,
            logged,
            last_unique,
            databases,
            checksum,
            containers,
            seed,
        })
    }

    /// Opens a session for one thread.
    pub fn session(&self) -> Session {
        self.open(None)
    }

    /// Opens a session for one thread, with a name for [`Stalled`], such as the thread's.
    pub fn session_named(&self, name: &str) -> Session {
        self.open(Some(name))
    }

    fn open(&self, name: Option<&str>) -> Session {
        let index: AnySession =
            self.index.try_session(name).expect("`new` has refused such engines");
        let gate = Gate::register(&self.gate);
        Session::new(
            (index, gate),
            self.limits,
            self.hooks.clone(),
            (self.eviction.clone(), self.wheels.clone(), self.clearing.clone()),
            (self.index.clone(), self.containers.clone(), self.databases.clone()),
            (self.logged.clone(), self.last_unique.clone()),
            (self.checksum == Checksum::Verify, self.seed, name),
        )
    }

    /// The session that stays in one operation (most likely in a callback) while removed memory accumulates: at least a
    /// sixteenth of the limit, or 64 MiB.
    pub fn stalled(&self) -> Option<Stalled> {
        self.index.stalled()
    }

    /// Changes [`Config::limbo_max`], the amount of removed memory above which writes are refused while a session is
    /// stalled.
    pub fn set_limbo_max(&self, bytes: u64) {
        self.databases.set("limbo", move |database| database.index.set_limbo_max(bytes));
    }

    /// Sets the memory limit. It covers keys and values, including removed ones that are not free yet, the table, and
    /// [`Store::set_external_memory`]. `u64::MAX`, the default, means no limit. Above the limit, operations that take
    /// memory are refused ([`StoreError::OutOfMemory`](crate::StoreError::OutOfMemory)).
    pub fn set_memory_max(&self, bytes: u64) {
        self.databases.set("memory", move |Database { index, eviction, .. }| {
            let marking = eviction.set_memory_max(bytes);
            // `set_eviction` has checked that the index can record these marks.
            let _ = index.set_noting(marking);
            index.set_memory_max(bytes);
        });
    }

    /// Sets the eviction policy, which chooses victims at the memory limit. By default nothing is evicted, and writes
    /// are refused.
    ///
    /// # Errors
    /// The settings of the index leave no bits to record the accesses that the policy needs.
    pub fn set_eviction(&self, options: EvictionOptions) -> Result<(), OpenError> {
        // Checked even without a memory limit, when nothing is recorded.
        self.index.can_note(options.marking(1)).map_err(OpenError::Index)?;
        self.databases.set("eviction", move |Database { index, eviction, .. }| {
            // Checked above.
            let _ = index.set_noting(eviction.set(options));
        });
        Ok(())
    }

    /// Number of times that the access bits have changed their meaning, by a change of policy or by the first memory
    /// limit. Bits recorded before the last change are meaningless ([`Session::forget_accesses`]).
    pub fn notings(&self) -> u64 {
        self.eviction.marking_changes()
    }

    /// The current tick, by which an LRU policy dates accesses ([`Accesses::Age`](crate::Accesses::Age)).
    pub fn tick(&self) -> u8 {
        self.index.tick()
    }

    /// Sets the maximum memory of pinned keys ([`Session::pin`]). Keys that are pinned already stay pinned.
    pub fn set_pinned_max(&self, bytes: usize) {
        self.databases.set("pins", move |database| database.eviction.pins.set_bytes_max(bytes));
    }

    /// Sets the amount of free memory between items that does not count for the memory limit. Free memory above it
    /// counts once compaction has run. `u64::MAX`, the default: none counts.
    pub fn set_memory_spare(&self, bytes: u64) {
        self.databases.set("spare", move |database| database.index.set_memory_spare(bytes));
    }

    /// Sets the amount of the owner's memory outside the store that counts for the memory limit.
    pub fn set_external_memory(&self, bytes: u64) {
        self.databases.set("beside", move |database| database.index.set_external_memory(bytes));
    }

    /// Allocates a buffer for a long value that is about to arrive, of about this many bytes. It counts like a value
    /// ([`SetOptions::buffer`](crate::SetOptions::buffer)).
    ///
    /// # Errors
    /// The system has no address space left.
    pub fn buffer(&self, capacity: usize) -> std::io::Result<Buffer> {
        self.index.buffer(capacity)
    }

    /// The name of the index's engine.
    pub fn engine(&self) -> &'static str {
        self.index.name()
    }

    /// Changes [`Options::hash_packed_fields_max`] and [`Options::hash_packed_len_max`]. A hash adapts at its next
    /// change; a hash that is an object stays one.
    pub fn set_hash_packed_max(&self, fields: usize, len: usize) {
        self.containers.hash.set(fields, len);
    }

    /// Changes [`Options::list_packed_elements_max`] and [`Options::list_packed_bytes_max`]. A list adapts at its next
    /// change; see [`set_hash_packed_max`](Self::set_hash_packed_max).
    pub fn set_list_packed_max(&self, elements: usize, bytes: usize) {
        self.containers.list.set(elements, bytes);
    }

    /// Changes [`Options::set_packed_ints_max`], [`Options::set_packed_members_max`] and
    /// [`Options::set_packed_len_max`]. A set adapts at its next change; a set that is an object stays one.
    pub fn set_set_packed_max(&self, ints: usize, members: usize, len: usize) {
        self.containers.set.set(members, len);
        self.containers.set_ints.set(ints, usize::MAX);
    }

    /// Changes [`Options::scored_packed_members_max`] and [`Options::scored_packed_len_max`]. A sorted set adapts at
    /// its next change.
    pub fn set_scored_packed_max(&self, members: usize, len: usize) {
        self.containers.scored.set(members, len);
    }

    /// Changes [`Options::text_plain_max`], if strings may be objects. A string adapts at its next change.
    pub fn set_text_plain_max(&self, len: usize) {
        if self.containers.takes_objects && self.hooks.history.is_off() {
            self.containers.set_text_plain_max(len);
        }
    }

    /// Changes [`Options::watches_max`]. Open watches stay.
    pub fn set_watches_max(&self, watches_max: u64) {
        self.databases.set("watches", move |all| all.watchers.set_open_max(watches_max));
    }

    /// Sets the observer of all changes, called while [`Session::observe`] has enabled it. Returns false, without
    /// effect, if there is an observer already.
    pub fn set_observer(&self, observer: Arc<dyn Observer>) -> bool {
        let is_first = self.hooks.watchers.set_observer(observer.clone());
        if is_first {
            self.databases
                .set("observer", move |all| _ = all.watchers.set_observer(observer.clone()));
        }
        is_first
    }

    /// Sets the waker that is called when a key is about to expire before the time for which [`Session::expire_due`]
    /// has asked to be called again. Returns false, without effect, if there is a waker already. The writing thread
    /// calls it within the write, so it must not use the store.
    pub fn set_expiry_waker(&self, waker: Waker) -> bool {
        let is_first = self.wheels.set_waker(waker.clone());
        if is_first {
            self.databases.set("waker", move |all| _ = all.wheels.set_waker(waker.clone()));
        }
        is_first
    }

    /// Sets the log in which writes are recorded while [`Session::switch_log`] has enabled logging. A log cannot be
    /// replaced: returns false, without effect, if there is one already.
    pub fn set_log(&self, log: Arc<Log>) -> bool {
        self.logged.set_log(log)
    }

    /// The present grounds ([`Session::change_grounds`]).
    pub fn grounds(&self) -> Option<Arc<Grounds>> {
        self.logged.grounds.get()
    }

    /// The last record up to which all are applied, if the store is a replica: what it may acknowledge.
    pub fn applied(&self) -> Lsn {
        self.logged.modes.applied()
    }

    /// The checksum setting of the items.
    pub fn checksum(&self) -> Checksum {
        self.checksum
    }

    /// Does the engine's background work on the calling thread until `stop` returns true. Returns at once if the engine
    /// has no such work, or another thread is doing it.
    pub fn maintain(&self, stop: impl Fn() -> bool) {
        self.index.maintain(stop);
    }

    /// Makes the thread in [`Store::maintain`] call its `stop` again.
    pub fn wake_maintenance(&self) {
        self.index.wake_maintenance();
    }

    /// Number of keys in all databases, including expired ones that are not reclaimed yet.
    pub fn len(&self) -> usize {
        self.databases.present().map(|(_, database)| database.counts().0 as usize).sum()
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Current statistics, summed over all databases.
    pub fn stats(&self) -> Stats {
        let mut stats = Stats {
            index: self.index.stats(),
            exclusions: self.gate.exclusions(),
            sessions: self.gate.sessions(),
            watches: 0,
            evicted: 0,
            pinned: Pinned { keys: 0, bytes: 0, ..self.eviction.pins.pinned() },
            eviction_bytes: 0,
            expiry_entries: 0,
            expiry_bytes: 0,
        };
        let (mut items, mut expiring) = (0, 0);
        for (database_id, database) in self.databases.present() {
            if database_id > 0 {
                stats.index.add(&database.index.stats());
            }
            let counts = database.counts();
            (items, expiring) = (items + counts.0, expiring + counts.1);
            let (pinned, (entries, bytes)) =
                (database.eviction.pins.pinned(), database.wheels.size());
            stats.watches += database.watchers.open();
            stats.evicted += database.eviction.evicted();
            stats.pinned.keys += pinned.keys;
            stats.pinned.bytes += pinned.bytes;
            stats.eviction_bytes += database.eviction.bytes();
            stats.expiry_entries += entries;
            stats.expiry_bytes += bytes;
        }
        (stats.index.items, stats.index.expiring) = (items, expiring);
        stats
    }

    /// For each database with keys: its number, its keys, and its keys with an expiry.
    pub fn keyspaces(&self) -> Vec<(u8, u64, u64)> {
        let order = self.databases.order();
        let mut found = Vec::new();
        for (database_id, database) in self.databases.present() {
            let (items, expiring) = database.counts();
            let number =
                order.iter().position(|at| *at == database_id).unwrap_or(database_id.into());
            if items > 0 {
                found.push((number as u8, items, expiring));
            }
        }
        found.sort_unstable();
        found
    }
}

/// Checks that a value and its earlier values fit into one item.
fn check_history(history: HistoryLimits, limits: Limits) -> Result<(), OpenError> {
    let HistoryLimits { values, bytes_max } = history;
    let heads = HEAD_LEN + metadata::LEN_MAX;
    let longest = heads.saturating_add(limits.value_len_max).saturating_add(bytes_max);
    if values > HISTORY_MAX || (values > 0 && u32::try_from(longest).is_err()) {
        return Err(OpenError::History { values, bytes_max });
    }
    Ok(())
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("len", &self.len()).finish_non_exhaustive()
    }
}
