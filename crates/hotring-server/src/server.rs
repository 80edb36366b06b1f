//! What all threads share: the store, the settings, who is connected, and the wish to stop.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::thread::Thread;
use std::time::Instant;

use hotring_protocol::{Spec, quoted, specs};
use hotring_store::Store;
use hotring_store::index::{Full, Stalled};
use tokio::sync::watch;

use crate::acl::{Acl, Reason};
use crate::ages::Ages;
use crate::big_keys::BigKeys;
use crate::bound;
use crate::client::{ClientShared, Inboxes};
use crate::clock;
use crate::config::{Config, LogLevel};
use crate::counters::{CommandTotals, Counter, Counters};
use crate::durability::Durability;
use crate::expirer::Expirer;
use crate::fiber;
use crate::histogram::Distribution;
use crate::hot_keys::HotKeys;
use crate::latency::Latency;
use crate::loading::Loading;
use crate::log::Pause;
use crate::memcached;
use crate::monitors::Monitors;
use crate::pause::ClientPause;
use crate::pubsub::PubSub;
use crate::rates::Rates;
use crate::scripts::Scripts;
use crate::scrub::Scrubber;
use crate::slowlog::SlowLog;
use crate::tls::Tls;
use crate::tracking::Tracking;
use crate::watchdog::Beats;

/// Held by each test that has a stalled thread. Where a log line is met first by a thread that has no
/// log, `tracing` may drop it from then on for all, also for the test that looks for it.
#[cfg(test)]
pub(crate) static STALLING: Mutex<()> = Mutex::new(());

/// One I/O thread as others see it.
#[derive(Debug, Default)]
pub(crate) struct ThreadShared {
    /// What it counts.
    pub counters: Counters,
    /// What it counts of memcached's protocol.
    pub memcached: memcached::Counts,
    /// Connections that it serves, for choosing the least loaded one.
    pub connections: AtomicUsize,
    /// That it still goes round.
    pub beats: Beats,
    /// The keys that it is asked for most.
    pub hot_keys: HotKeys,
}

/// What the accepting thread counts.
#[derive(Debug, Default)]
pub(crate) struct AcceptCounters {
    /// Connections accepted since the start.
    pub accepted: Counter,
    /// Connections refused because of `maxclients`.
    pub rejected: Counter,
    /// Connections refused by protected mode.
    pub protected: Counter,
    /// Connections closed because of `maxmemory-clients`.
    pub evicted: Counter,
}

/// The shared state of one server.
pub(crate) struct Server {
    /// The keys and values.
    pub store: Store,
    /// Every I/O thread's shared part.
    pub threads: Vec<ThreadShared>,
    /// What the accepting thread counts.
    pub accepts: AcceptCounters,
    /// What the background task counts, and the expirer.
    pub background: Counters,
    /// The log, if there is one.
    pub durability: Durability,
    /// How far it is with reading what outlasted the one before.
    pub loading: Loading,
    /// The thread that removes keys when their time has come.
    pub expirer: Expirer,
    /// The thread that looks for stuck ones ([`crate::watchdog`]).
    pub watcher: OnceLock<Thread>,
    /// How often what is noted of accesses had become something else before there was a client.
    pub notings_at_start: u64,
    /// When accesses were, for those who ask.
    pub ages: Ages,
    /// The keys with the largest values.
    pub big_keys: BigKeys,
    pub bound: bound::Found,
    /// What waits for all connections to be fetched.
    pub inboxes: Arc<Inboxes>,
    /// TCP addresses that are really bound.
    pub addresses: Vec<SocketAddr>,
    /// What connections of memcached's protocol share.
    pub memcached: memcached::Shared,
    /// The unix socket, if there is one.
    pub unix_path: Option<PathBuf>,
    /// 40 hexadecimal digits, different in each process.
    pub run_id: String,
    /// Start, for the uptime.
    pub started: Instant,
    /// The same in Unix milliseconds, looked at once: it does not move with corrections of the clock.
    pub started_at: u64,
    config: RwLock<Arc<Config>>,
    config_version: AtomicU64,
    /// Held by who changes the settings, or reads or writes a file that they name, from the look at them to
    /// the end: what is in force is what they say. Requests do not wait for it.
    changing: Mutex<()>,
    clients: Mutex<BTreeMap<u64, Arc<ClientShared>>>,
    client_id_last: AtomicU64,
    /// Users, and what was denied to them.
    pub acl: Acl,
    /// What TLS connections begin with.
    pub tls: Tls,
    counters_base: Mutex<Base>,
    /// How fast the counters have grown lately.
    pub rates: Rates,
    /// Who listens to which channel.
    pub pubsub: PubSub,
    /// Who is shown every request.
    pub monitors: Monitors,
    /// How long requests have to wait.
    pub pause: ClientPause,
    /// Who keeps copies of what it has read.
    pub tracking: Arc<Tracking>,
    /// What has taken long, by kind.
    pub latency: Latency,
    /// The scripts that it knows.
    pub scripts: Scripts,
    /// The walk that SCRUB asked for.
    pub scrubber: Scrubber,
    /// The requests that took longest.
    pub slowlog: SlowLog,
    stalled_log: Pause,
    maxmemory_log: Pause,
    damage_log: Pause,
    login_log: Pause,
    stop: watch::Sender<bool>,
    log_level: Box<dyn Fn(LogLevel) + Send + Sync>,
}

/// Where the counters stood at the last CONFIG RESETSTAT.
#[derive(Debug, Default)]
struct Base {
    totals: Totals,
    /// One for each command by its id; none before the first reset.
    commands: Vec<CommandTotals>,
}

/// What the counters of all threads add up to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Totals {
    pub commands: u64,
    pub errors: u64,
    pub keyspace_hits: u64,
    pub keyspace_misses: u64,
    pub input_bytes: u64,
    pub output_bytes: u64,
    pub reads: u64,
    pub writes: u64,
    pub input_limit_closed: u64,
    pub output_limit_closed: u64,
    pub rejected_stalled: u64,
    pub rejected_maxmemory: u64,
    pub damaged_reads: u64,
    pub expired_keys: u64,
    pub evicted_keys: u64,
    pub expire_lag: Distribution,
    pub accepted: u64,
    pub rejected: u64,
    pub protected: u64,
}

impl Totals {
    fn add(&mut self, c: &Counters) {
        self.commands += c.commands.value();
        self.errors += c.errors.value();
        self.keyspace_hits += c.keyspace_hits.value();
        self.keyspace_misses += c.keyspace_misses.value();
        self.input_bytes += c.input_bytes.value();
        self.output_bytes += c.output_bytes.value();
        self.reads += c.reads.value();
        self.writes += c.writes.value();
        self.input_limit_closed += c.input_limit_closed.value();
        self.output_limit_closed += c.output_limit_closed.value();
        self.rejected_stalled += c.rejected_stalled.value();
        self.rejected_maxmemory += c.rejected_maxmemory.value();
        self.damaged_reads += c.damaged_reads.value();
        self.expired_keys += c.expired_keys.value();
    }

    fn subtract(&mut self, base: &Totals) {
        self.commands = self.commands.saturating_sub(base.commands);
        self.errors = self.errors.saturating_sub(base.errors);
        self.keyspace_hits = self.keyspace_hits.saturating_sub(base.keyspace_hits);
        self.keyspace_misses = self.keyspace_misses.saturating_sub(base.keyspace_misses);
        self.input_bytes = self.input_bytes.saturating_sub(base.input_bytes);
        self.output_bytes = self.output_bytes.saturating_sub(base.output_bytes);
        self.reads = self.reads.saturating_sub(base.reads);
        self.writes = self.writes.saturating_sub(base.writes);
        self.input_limit_closed = self.input_limit_closed.saturating_sub(base.input_limit_closed);
        self.output_limit_closed =
            self.output_limit_closed.saturating_sub(base.output_limit_closed);
        self.rejected_stalled = self.rejected_stalled.saturating_sub(base.rejected_stalled);
        self.rejected_maxmemory = self.rejected_maxmemory.saturating_sub(base.rejected_maxmemory);
        self.damaged_reads = self.damaged_reads.saturating_sub(base.damaged_reads);
        self.expired_keys = self.expired_keys.saturating_sub(base.expired_keys);
        self.evicted_keys = self.evicted_keys.saturating_sub(base.evicted_keys);
        self.expire_lag.subtract(&base.expire_lag);
        self.accepted = self.accepted.saturating_sub(base.accepted);
        self.rejected = self.rejected.saturating_sub(base.rejected);
        self.protected = self.protected.saturating_sub(base.protected);
    }
}

/// What a server is built from.
pub(crate) struct Parts {
    /// The keys and values.
    pub store: Store,
    /// The settings, with real addresses and a real number of threads.
    pub config: Config,
    /// TCP addresses that are really bound.
    pub addresses: Vec<SocketAddr>,
    /// What connections of memcached's protocol share.
    pub memcached: memcached::Shared,
    /// The unix socket, if there is one.
    pub unix_path: Option<PathBuf>,
    /// 40 hexadecimal digits.
    pub run_id: String,
    /// Changes the level of the log.
    pub log_level: Box<dyn Fn(LogLevel) + Send + Sync>,
}

#[cfg(any(test, fuzzing))]
impl Parts {
    /// Those of a server of one thread without sockets.
    pub(crate) fn unconnected(options: hotring_store::Options, config: Config) -> Self {
        Parts {
            store: Store::new(options).expect("an empty store fits into memory"),
            config: Config { threads: 1, ..config },
            addresses: Vec::new(),
            memcached: memcached::Shared::default(),
            unix_path: None,
            run_id: "0".repeat(40),
            log_level: Box::new(|_| {}),
        }
    }
}

impl Server {
    /// A server without connections.
    pub(crate) fn new(parts: Parts) -> Self {
        let config = &parts.config;
        let latency = Latency::new(config.latency_threshold_ms);
        let slowlog = SlowLog::new(config.slowlog_threshold_us, config.slowlog_len_max);
        let acl = Acl::new(&config.requirepass);
        let inboxes = Arc::new(Inboxes::default());
        inboxes.set_max(bound::messages_of(config.memory_max));
        let tracking = Arc::new(Tracking::new(config));
        let is_first = parts.store.set_observer(tracking.clone());
        debug_assert!(is_first, "a store belongs to one server");
        Server {
            notings_at_start: parts.store.notings(),
            store: parts.store,
            threads: (0..parts.config.threads).map(|_| ThreadShared::default()).collect(),
            accepts: AcceptCounters::default(),
            background: Counters::default(),
            durability: Durability::default(),
            loading: Loading::new(parts.config.log.is_on),
            expirer: Expirer::default(),
            watcher: OnceLock::new(),
            ages: Ages::default(),
            big_keys: BigKeys::default(),
            bound: bound::Found::default(),
            inboxes,
            addresses: parts.addresses,
            memcached: parts.memcached,
            unix_path: parts.unix_path,
            run_id: parts.run_id,
            started: clock::monotonic(),
            started_at: clock::unix_ms(),
            config: RwLock::new(Arc::new(parts.config)),
            config_version: AtomicU64::new(0),
            changing: Mutex::default(),
            clients: Mutex::default(),
            client_id_last: AtomicU64::new(0),
            counters_base: Mutex::default(),
            acl,
            tls: Tls::default(),
            rates: Rates::default(),
            pubsub: PubSub::default(),
            monitors: Monitors::default(),
            pause: ClientPause::default(),
            tracking,
            latency,
            scripts: Scripts::default(),
            scrubber: Scrubber::default(),
            slowlog,
            stalled_log: Pause::default(),
            maxmemory_log: Pause::default(),
            damage_log: Pause::default(),
            login_log: Pause::default(),
            stop: watch::Sender::new(false),
            log_level: parts.log_level,
        }
    }

    /// The settings as they are now.
    pub(crate) fn config(&self) -> Arc<Config> {
        self.config.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes with every CONFIG SET, and with who looks on; threads keep a copy of the settings and compare this.
    #[inline]
    pub(crate) fn config_version(&self) -> u64 {
        // ORDERING: Acquire pairs with the Release in `renew`.
        self.config_version.load(Ordering::Acquire)
    }

    /// Applies `change` to the settings, one at a time; nothing changes if it fails.
    pub(crate) fn change_config<E: From<String>>(
        &self,
        change: impl FnOnce(&Config) -> Result<Config, E>,
    ) -> Result<(), E> {
        let _alone = self.lock_changing();
        let config = self.config();
        let changed = change(&config)?;
        if changed.log_level != config.log_level {
            (self.log_level)(changed.log_level);
        }
        let failed = |why| format!("ERR CONFIG SET failed: {why}");
        changed.log.check_after(&config.log).map_err(failed)?;
        changed.limit_memory(&self.store).map_err(failed)?;
        self.durability.change(&changed.log);
        self.store.set_watches_max(changed.waiting_max);
        self.slowlog.set(changed.slowlog_threshold_us, changed.slowlog_len_max);
        self.latency.set_threshold(changed.latency_threshold_ms);
        self.tracking.set_limits(&changed);
        self.inboxes.set_max(bound::messages_of(changed.memory_max));
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(changed);
        self.renew();
        Ok(())
    }

    /// Has all threads look again at the settings, and at who wants to know what they do.
    pub(crate) fn renew(&self) {
        // ORDERING: Release pairs with the Acquire in `config_version`.
        self.config_version.fetch_add(1, Ordering::Release);
    }

    /// Lets all connections look for their users again.
    pub(crate) fn users_changed(&self) {
        self.lock_clients().values().for_each(|client| client.users_changed());
    }

    /// Reads the files anew that the settings name. What is wrong with one is logged, and what was read
    /// before stays.
    pub(crate) fn reload(&self) {
        match self.load_users() {
            Some(Ok(())) => tracing::info!("the ACL file is read anew"),
            Some(Err(why)) => tracing::warn!("{why}"),
            None => {}
        }
        if self.tls.current().is_some() {
            let _alone = self.lock_changing();
            match self.tls.load(&self.config().tls) {
                Ok(()) => tracing::info!("the files of TLS are read anew"),
                Err(why) => tracing::warn!("TLS stays as it is: {why}"),
            }
        }
    }

    /// Reads the file of users, if there is one.
    pub(crate) fn load_users(&self) -> Option<Result<(), String>> {
        let _alone = self.lock_changing();
        let config = self.config();
        let loaded = self.acl.load(config.aclfile.as_ref()?, &config.requirepass);
        if loaded.is_ok() {
            self.users_changed();
        }
        Some(loaded)
    }

    /// Writes the file of users, if there is one.
    pub(crate) fn save_users(&self) -> Option<io::Result<()>> {
        let _alone = self.lock_changing();
        Some(self.acl.save(self.config().aclfile.as_ref()?))
    }

    pub(crate) fn lock_changing(&self) -> MutexGuard<'_, ()> {
        // Some changes wait for those who hold keys.
        fiber::lock(&self.changing)
    }

    /// Whether a connection from there is refused, because anybody would get in who can reach us.
    pub(crate) fn is_protected_from(&self, peer: IpAddr) -> bool {
        self.is_protected_if(self.acl.default_user().is_open(), peer)
    }

    /// As [`is_protected_from`](Self::is_protected_from), of memcached's protocol.
    pub(crate) fn is_memcached_protected_from(&self, peer: IpAddr) -> bool {
        self.is_protected_if(self.memcached.users.is_none(), peer)
    }

    fn is_protected_if(&self, is_open: bool, peer: IpAddr) -> bool {
        !peer.to_canonical().is_loopback() && self.config().protected_mode && is_open
    }

    /// Enters a new connection, served by `thread`. The acceptor has counted it already.
    pub(crate) fn enter(&self, peer: String, local: String, thread: usize) -> Arc<ClientShared> {
        // ORDERING: Relaxed, only uniqueness matters.
        let id = self.client_id_last.fetch_add(1, Ordering::Relaxed) + 1;
        let client = ClientShared::new(id, peer, local, thread, clock::unix_ms());
        let client = Arc::new(client.counted_in(&self.inboxes));
        self.lock_clients().insert(id, client.clone());
        client
    }

    /// Forgets a connection that has ended, if it is not forgotten yet.
    pub(crate) fn leave(&self, client: &ClientShared) {
        client.leave();
        if self.lock_clients().remove(&client.id).is_some() {
            // ORDERING: Relaxed, a hint for balancing.
            self.threads[client.thread].connections.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// All connections, oldest first.
    pub(crate) fn clients(&self) -> Vec<Arc<ClientShared>> {
        self.lock_clients().values().cloned().collect()
    }

    /// The connection of this number.
    pub(crate) fn client(&self, id: u64) -> Option<Arc<ClientShared>> {
        self.lock_clients().get(&id).cloned()
    }

    /// Bytes that the buffers of all connections take.
    pub(crate) fn clients_memory(&self) -> usize {
        self.lock_clients().values().map(|client| client.buffers_memory()).sum()
    }

    /// Of these, bytes that the store does not count.
    pub(crate) fn clients_memory_beside(&self) -> usize {
        self.lock_clients().values().map(|client| client.memory_beside()).sum()
    }

    /// Number of connections.
    pub(crate) fn clients_len(&self) -> usize {
        self.lock_clients().len()
    }

    fn lock_clients(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<ClientShared>>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The counters of all threads since the start or the last CONFIG RESETSTAT.
    pub(crate) fn totals(&self) -> Totals {
        let mut totals = self.totals_ever();
        totals.subtract(&self.base().totals);
        totals
    }

    /// What is counted of each command since the start or the last CONFIG RESETSTAT.
    pub(crate) fn command_totals(&self) -> Vec<(&'static Spec, CommandTotals)> {
        let mut commands = self.command_totals_ever();
        for ((_, totals), base) in commands.iter_mut().zip(&self.base().commands) {
            totals.subtract(base);
        }
        commands
    }

    /// What is counted of each command since the start.
    pub(crate) fn command_totals_ever(&self) -> Vec<(&'static Spec, CommandTotals)> {
        let sum = |spec: &'static Spec| {
            let mut totals = CommandTotals::default();
            self.threads
                .iter()
                .for_each(|t| t.counters.by_command.add_to(spec.id as usize, &mut totals));
            (spec, totals)
        };
        specs().map(sum).collect()
    }

    /// The same of memcached's commands, by their names.
    pub(crate) fn memcached_totals_ever(&self) -> Vec<(&'static str, CommandTotals)> {
        let mut all = vec![CommandTotals::default(); memcached::NAMES.len()];
        for thread in &self.threads {
            let by_command = &thread.memcached.by_command;
            all.iter_mut().enumerate().for_each(|(i, totals)| by_command.add_to(i, totals));
        }
        memcached::NAMES.into_iter().zip(all).collect()
    }

    /// How often requests were answered with which kind of error since the start or the last CONFIG RESETSTAT.
    pub(crate) fn error_kinds(&self) -> BTreeMap<String, u64> {
        let mut kinds = BTreeMap::new();
        self.threads.iter().for_each(|thread| thread.counters.error_kinds.add_to(&mut kinds));
        kinds
    }

    /// Counts from zero again. Each counter belongs to its thread, so that nobody else may set it:
    /// what has been counted so far is subtracted from now on.
    pub(crate) fn reset_totals(&self) {
        self.memcached.reset(&self.threads);
        self.expirer.reset();
        self.threads.iter().for_each(|thread| thread.counters.error_kinds.clear());
        let commands = self.command_totals_ever().into_iter().map(|(_, totals)| totals).collect();
        *self.base() = Base { totals: self.totals_ever(), commands };
    }

    fn base(&self) -> MutexGuard<'_, Base> {
        self.counters_base.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The counters of all threads since the start.
    pub(crate) fn totals_ever(&self) -> Totals {
        let mut totals = Totals {
            accepted: self.accepts.accepted.value(),
            rejected: self.accepts.rejected.value(),
            protected: self.accepts.protected.value(),
            ..Totals::default()
        };
        self.threads.iter().for_each(|t| totals.add(&t.counters));
        totals.add(&self.background);
        totals.expire_lag.add(&self.expirer.lag);
        totals.evicted_keys = self.store.stats().evicted;
        totals
    }

    /// Says in the log, now and then, which thread does not leave its command.
    #[cold]
    pub(crate) fn warn_of_stalled(&self, stalled: &Stalled, now: u64) {
        if !self.stalled_log.is_over(now) {
            return;
        }
        tracing::warn!(
            thread = stalled.session,
            removed_meanwhile = stalled.held_bytes,
            unreclaimed = stalled.limbo_bytes,
            limit = self.config().unreclaimed_max,
            "a thread does not leave its command: what others remove or overwrite meanwhile cannot \
             be freed; while that is more than unreclaimed-limit, writes are refused"
        );
    }

    /// Says in the log, now and then, that writes are refused because `maxmemory` is reached.
    #[cold]
    pub(crate) fn warn_of_maxmemory(&self, full: &Full, now: u64) {
        if self.maxmemory_log.is_over(now) {
            tracing::warn!(
                used = full.used_bytes,
                unreclaimed = full.limbo_bytes,
                limit = full.max,
                policy = self.config().eviction.policy.name(),
                "maxmemory is reached, and nothing may be evicted to make room: writes are refused"
            );
        }
    }

    /// Says in the log, now and then, that somebody gives wrong passwords. The name that was given may be
    /// a password in the wrong place, and is not told.
    #[cold]
    pub(crate) fn warn_of_login(&self, client: &ClientShared, now: u64) {
        if self.login_log.is_over(now) {
            tracing::warn!(
                client = client.id,
                peer = %client.peer,
                refused_so_far = self.acl.log.count(Reason::Auth),
                "a client gave a wrong user name or password; ACL LOG has the last of them"
            );
        }
    }

    /// Says in the log, now and then, that a command has met a damaged item.
    #[cold]
    pub(crate) fn warn_of_damage(&self, key: &[u8], now: u64) {
        if self.damage_log.is_over(now) {
            tracing::error!(
                key = %quoted(key).to_string().escape_debug(),
                "an item fails its checksum: its memory has changed since it was written; SCRUB finds \
                 all such items"
            );
        }
    }

    /// Asks all threads to finish what they have received and end.
    pub(crate) fn stop(&self) {
        self.stop.send_replace(true);
        self.store.wake_maintenance();
        self.expirer.wake();
        self.bound.wake();
        if let Some(watcher) = self.watcher.get() {
            watcher.unpark();
        }
    }

    /// Whether the server is about to end.
    pub(crate) fn is_stopping(&self) -> bool {
        *self.stop.borrow()
    }

    /// Waits until the server is about to end.
    pub(crate) async fn stopping(&self) {
        // The sender lives as long as `self`, so that waiting cannot fail.
        let _ = self.stop.subscribe().wait_for(|stop| *stop).await;
    }
}
