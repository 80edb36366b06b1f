//! What all threads share: the store, the settings, who is connected, and the wish to stop.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::thread::Thread;
use std::time::Instant;

use hotring_store::Store;
use hotring_store::index::{Full, Stalled};
use tokio::sync::watch;

use crate::acl::{Acl, Reason};
use crate::host::clock;
use crate::host::fiber;
use crate::observe::ages::Ages;
use crate::observe::big_keys::BigKeys;
use crate::observe::by_command::CommandTotals;
use crate::observe::counters::{AcceptCounters, Base, Counters, Totals};
use crate::observe::latency::Latency;
use crate::observe::rates::Rates;
use crate::observe::slowlog::SlowLog;
use crate::observe::throttle::Throttle;
use crate::settings::config::{Config, LogLevel, memory};
use crate::settings::policy_name;
use crate::state::bound;
use crate::state::client::{ClientShared, Inboxes};
use crate::state::durability::Durability;
use crate::state::expirer::Expirer;
use crate::state::loading::Loading;
use crate::state::memcached;
use crate::state::monitors::Monitors;
use crate::state::pause::ClientPause;
use crate::state::pubsub::PubSub;
use crate::state::scripts::Scripts;
use crate::state::scrub::Scrubber;
use crate::state::thread_shared::ThreadShared;
use crate::state::tls::Tls;
use crate::state::tracking::Tracking;
use crate::table::{Spec, quoted, specs};

/// Held by each test that has a stalled thread. Where a log line is met first by a thread that has no
/// log, `tracing` may drop it from then on for all, also for the test that looks for it.
#[cfg(any(test, feature = "testing"))]
pub static STALLING: Mutex<()> = Mutex::new(());

/// The shared state of one server.
pub struct Server {
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
    /// The thread that looks for stuck ones (`hotring-server`'s `tasks/watchdog.rs`).
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
    /// Held by a thread that changes the settings, or reads or writes a file that they name, from the look at them to
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
    stalled_log: Throttle,
    maxmemory_log: Throttle,
    damage_log: Throttle,
    login_log: Throttle,
    stop: watch::Sender<bool>,
    log_level: Box<dyn Fn(LogLevel) + Send + Sync>,
}

/// What a server is built from.
pub struct Parts {
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

#[cfg(any(test, fuzzing, feature = "testing"))]
impl Parts {
    /// Those of a server of one thread without sockets.
    pub fn unconnected(options: hotring_store::Options, config: Config) -> Self {
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
    pub fn new(parts: Parts) -> Self {
        let config = &parts.config;
        let latency = Latency::new(config.latency_threshold_ms);
        let slowlog = SlowLog::new(config.slowlog_threshold_us, config.slowlog_len_max);
        let acl = Acl::new(&config.requirepass);
        let inboxes = Arc::new(Inboxes::default());
        inboxes.set_max(memory::messages_of(config.memory_max));
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
            stalled_log: Throttle::default(),
            maxmemory_log: Throttle::default(),
            damage_log: Throttle::default(),
            login_log: Throttle::default(),
            stop: watch::Sender::new(false),
            log_level: parts.log_level,
        }
    }

    /// The settings as they are now.
    pub fn config(&self) -> Arc<Config> {
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
        self.inboxes.set_max(memory::messages_of(changed.memory_max));
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(changed);
        self.renew();
        Ok(())
    }

    /// Has all threads re-check the settings and the observers.
    pub fn renew(&self) {
        // ORDERING: Release pairs with the Acquire in `config_version`.
        self.config_version.fetch_add(1, Ordering::Release);
    }

    /// Lets all connections look for their users again.
    pub(crate) fn users_changed(&self) {
        self.lock_clients().values().for_each(|client| client.users_changed());
    }

    /// Reloads the files that the settings name. What is wrong with one is logged, and what was read
    /// before stays.
    pub fn reload(&self) {
        match self.load_users() {
            Some(Ok(())) => tracing::info!("the ACL file is reloaded"),
            Some(Err(why)) => tracing::warn!("{why}"),
            None => {}
        }
        if self.tls.current().is_some() {
            let _alone = self.lock_changing();
            match self.tls.load(&self.config().tls) {
                Ok(()) => tracing::info!("the files of TLS are reloaded"),
                Err(why) => tracing::warn!("TLS stays as it is: {why}"),
            }
        }
    }

    /// Reads the file of users, if there is one.
    pub fn load_users(&self) -> Option<Result<(), String>> {
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

    pub fn lock_changing(&self) -> MutexGuard<'_, ()> {
        // Some changes wait for those who hold keys.
        fiber::lock(&self.changing)
    }

    /// Whether a connection from there is refused, because anybody would get in who can reach us.
    pub fn is_protected_from(&self, peer: IpAddr) -> bool {
        self.is_protected_if(self.acl.default_user().is_open(), peer)
    }

    /// As [`is_protected_from`](Self::is_protected_from), of memcached's protocol.
    pub fn is_memcached_protected_from(&self, peer: IpAddr) -> bool {
        self.is_protected_if(self.memcached.users.is_none(), peer)
    }

    fn is_protected_if(&self, is_open: bool, peer: IpAddr) -> bool {
        !peer.to_canonical().is_loopback() && self.config().protected_mode && is_open
    }

    /// Enters a new connection, served by `thread`. The acceptor has counted it already.
    pub fn enter(&self, peer: String, local: String, thread: usize) -> Arc<ClientShared> {
        // ORDERING: Relaxed, only uniqueness matters.
        let id = self.client_id_last.fetch_add(1, Ordering::Relaxed) + 1;
        let client = ClientShared::new(id, peer, local, thread, clock::unix_ms());
        let client = Arc::new(client.counted_in(&self.inboxes));
        self.lock_clients().insert(id, client.clone());
        client
    }

    /// Forgets a connection that has ended, if it is not forgotten yet.
    pub fn leave(&self, client: &ClientShared) {
        client.leave();
        if self.lock_clients().remove(&client.id).is_some() {
            // ORDERING: Relaxed, a hint for balancing.
            self.threads[client.thread].connections.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// All connections, oldest first.
    pub fn clients(&self) -> Vec<Arc<ClientShared>> {
        self.lock_clients().values().cloned().collect()
    }

    /// The connection of this number.
    pub(crate) fn client(&self, id: u64) -> Option<Arc<ClientShared>> {
        self.lock_clients().get(&id).cloned()
    }

    /// Bytes that the buffers of all connections take.
    pub fn clients_memory(&self) -> usize {
        self.lock_clients().values().map(|client| client.buffers_memory()).sum()
    }

    /// Of these, bytes that the store does not count.
    pub fn clients_memory_beside(&self) -> usize {
        self.lock_clients().values().map(|client| client.memory_beside()).sum()
    }

    /// Number of connections.
    pub fn clients_len(&self) -> usize {
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
    pub fn command_totals_ever(&self) -> Vec<(&'static Spec, CommandTotals)> {
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
    pub fn memcached_totals_ever(&self) -> Vec<(&'static str, CommandTotals)> {
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

    /// Counts from zero again. Each counter belongs to its thread, so that no other thread may set it:
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
    pub fn totals_ever(&self) -> Totals {
        let mut totals = Totals::default();
        self.threads.iter().for_each(|t| t.counters.add_to(&mut totals));
        self.background.add_to(&mut totals);
        self.accepts.add_to(&mut totals);
        totals.expire_lag.add(&self.expirer.lag);
        totals.evicted_keys = self.store.stats().evicted;
        totals
    }

    /// Says in the log, now and then, which thread does not leave its command.
    #[cold]
    pub fn warn_of_stalled(&self, stalled: &Stalled, now: u64) {
        if !self.stalled_log.allows(now) {
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
        if self.maxmemory_log.allows(now) {
            tracing::warn!(
                used = full.used_bytes,
                unreclaimed = full.limbo_bytes,
                limit = full.max,
                policy = policy_name(self.config().eviction.policy),
                "maxmemory is reached, and nothing may be evicted to make room: writes are refused"
            );
        }
    }

    /// Says in the log, now and then, that a client gives wrong passwords. The name that was given may be
    /// a password in the wrong place, and is not told.
    #[cold]
    pub(crate) fn warn_of_login(&self, client: &ClientShared, now: u64) {
        if self.login_log.allows(now) {
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
    pub fn warn_of_damage(&self, key: &[u8], now: u64) {
        if self.damage_log.allows(now) {
            tracing::error!(
                key = %quoted(key).to_string().escape_debug(),
                "an item fails its checksum: its memory has changed since it was written; SCRUB finds \
                 all such items"
            );
        }
    }

    /// Asks all threads to finish what they have received and end.
    pub fn stop(&self) {
        self.stop.send_replace(true);
        self.store.wake_maintenance();
        self.expirer.wake();
        self.bound.wake();
        if let Some(watcher) = self.watcher.get() {
            watcher.unpark();
        }
    }

    /// Whether the server is about to end.
    pub fn is_stopping(&self) -> bool {
        *self.stop.borrow()
    }

    /// Waits until the server is about to end.
    pub async fn stopping(&self) {
        // The sender lives as long as `self`, so that waiting cannot fail.
        let _ = self.stop.subscribe().wait_for(|stop| *stop).await;
    }
}
