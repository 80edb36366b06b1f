//! Builds a server from its settings, starts its threads, and ends it.
//!
//! All parts meet here, and only here. Except for ACL GENPASS, no other code may ask the machine
//! for random numbers.

mod logger;
mod names;
mod proxy;
mod workers;

use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use hotring_coordinator::Coordinator;
use hotring_log::{Disk, Id, Storage, stored_id};
use hotring_messages::Provider;
use hotring_proxy::Proxy;
use hotring_store::index::Config as IndexConfig;
use hotring_store::{EvictionPolicy, Options, Store};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sd_notify::NotifyState;
use tokio::runtime::LocalRuntime;
use tokio::signal::unix::{SignalKind, signal};

use crate::net::fabric;
use crate::net::listen::{self, Incoming, UnixPath};
use crate::tasks::deadline;
use crate::tasks::load;
use crate::tasks::messages;
use crate::tasks::replicate;
use crate::tasks::write_log;
use hotring_commands::host::clock;
use hotring_commands::host::start_error::StartError;
use hotring_commands::host::threads::{self, spawn};
use hotring_commands::settings::config::{Config, CoordinatorAddress, LogFormat, LogLevel};
use hotring_commands::state::memcached as memcached_state;
use hotring_commands::state::server::{Parts, Server};
pub use logger::log_to_stderr;
use names::{Membership, names, random_id, random_u64, run_id};
use workers::{start_admin, start_threads};

/// File descriptors other than client connections: listeners, signals, standard streams, admin
/// connections; and, for each thread, its event loop.
const FILES_RESERVED: u64 = 128;
const FILES_RESERVED_PER_THREAD: u64 = 8;

/// Compare-and-swap numbers begin with the start time in milliseconds, shifted by this many bits:
/// only at a billion of them per second could they reach those of a process that starts later. They
/// stay below 2^63, as some clients hold them as signed numbers.
const CAS_BITS: u32 = 20;

/// A server that runs in this process.
pub struct Running {
    server: Arc<Server>,
    threads: Vec<JoinHandle<()>>,
    /// Joined after all others.
    log_threads: Vec<JoinHandle<()>>,
    tls_addresses: Vec<SocketAddr>,
    admin: Option<SocketAddr>,
    proxy: Option<Proxy>,
    /// Removes the unix socket's file at the end.
    _unix_path: Option<UnixPath>,
}

impl Running {
    /// The TCP addresses of the server, with real port numbers.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.server.process.addresses
    }

    /// The TLS addresses.
    pub fn tls_addresses(&self) -> &[SocketAddr] {
        &self.tls_addresses
    }

    /// The memcached addresses.
    pub fn memcached_addresses(&self) -> &[SocketAddr] {
        &self.server.memcached.addresses
    }

    /// The addresses on which it serves requests for any key of its cluster.
    pub fn proxy_addresses(&self) -> &[SocketAddr] {
        self.proxy.as_ref().map_or(&[], Proxy::addresses)
    }

    /// The address of the status page and the metrics, if they are served.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin
    }

    /// Asks the server to stop: it accepts nothing more, runs the requests that have arrived and
    /// sends their replies.
    pub fn stop(&self) {
        self.server.stop();
    }

    /// As [`stop`](Self::stop), after a cluster's primary has handed its role over to a replica, if
    /// there is one: so its shard goes on at once.
    pub fn retire(&self) {
        self.server.retire();
    }

    /// Reloads the files that the settings name: users, certificates, keys.
    pub fn reload(&self) {
        self.server.reload();
    }

    /// Whether all data on disk has been loaded ([`start`]).
    pub fn is_loaded(&self) -> bool {
        !self.server.persist.loading.is_on()
    }

    /// Waits until the server has ended.
    ///
    /// # Errors
    ///
    /// The server stopped because its data turned out to be damaged while it was being loaded.
    pub fn wait(self) -> Result<(), StartError> {
        let join = |threads: Vec<JoinHandle<()>>| {
            for thread in threads {
                if thread.join().is_err() {
                    tracing::error!("a thread of the server panicked");
                }
            }
        };
        join(self.threads);
        drop(self.proxy);
        let durability = &self.server.persist.durability;
        durability.close();
        join(self.log_threads);
        let is_whole = durability.log().is_some_and(|log| log.synced() >= log.handed());
        if is_whole && let Err(why) = self.server.reign.close() {
            tracing::warn!("after a restart this node may have to wait for another primary: {why}");
        }
        self.server.persist.loading.failure().map_or(Ok(()), |why| Err(StartError::new(why)))
    }
}

/// Starts a server in this process. Returns when it accepts connections and serves the keys that
/// were hottest when the snapshot was written. Requests for other keys are answered with `-LOADING`
/// until those are loaded ([`Running::is_loaded`]).
pub fn start(config: Config) -> Result<Running, StartError> {
    start_with(config, Box::new(|_| {}), &Disk::open)
}

/// As [`start`], as a node of the cluster whose records this coordinator keeps, whatever the settings name; `open`
/// opens the folder of the log.
pub fn start_in<S: Storage + 'static>(
    config: Config,
    coordinator: Arc<dyn Coordinator>,
    open: &dyn Fn(PathBuf) -> io::Result<S>,
) -> Result<Running, StartError> {
    prepare(config, Box::new(|_| {}), open, Some(coordinator))?.load()
}

/// Runs a server until Ctrl-C, SIGTERM or SHUTDOWN. Starts the server log, writes `notes` to it,
/// and prints a greeting.
pub fn run(config: Config, notes: &[String]) -> Result<(), StartError> {
    let config = Config { owns_process: true, ..config };
    let log_level = logger::start(config.log_level, config.log_format);
    notes.iter().for_each(|note| tracing::warn!("{note}"));
    let log_format = config.log_format;
    serve(prepare(config, log_level, &Disk::open, None)?, log_format)?;
    tracing::info!("bye");
    Ok(())
}

/// Loads the data and serves until the server stops.
pub(crate) fn serve(prepared: Prepared, log_format: LogFormat) -> Result<(), StartError> {
    let server = prepared.running.server.clone();
    let runtime = runtime()?;
    runtime.block_on(async {
        // Before loading, which takes time and must be interruptible.
        stop_on_signal(server.clone(), SignalKind::interrupt(), "Ctrl-C");
        stop_on_signal(server.clone(), SignalKind::terminate(), "SIGTERM");
        tokio::task::spawn_local(reload_on_signal(server.clone()));
        let loaded = tokio::task::spawn_blocking(move || prepared.load()).await;
        let running = loaded.map_err(|_| StartError::new("cannot start: loading panicked"))??;
        if !server.process.is_stopping() {
            greet(&running, log_format);
            tell_service_manager(NotifyState::Ready);
            server.process.stopping().await;
        }
        tell_service_manager(NotifyState::Stopping);
        let _deadline = deadline::begin(&server);
        // The signal tasks keep running: a second signal ends the process at once.
        let ended = tokio::task::spawn_blocking(move || running.wait());
        ended.await.unwrap_or_else(|_| {
            tracing::error!("waiting for the threads failed");
            Ok(())
        })
    })
}

/// Announces that the server accepts connections.
fn greet(running: &Running, log_format: LogFormat) {
    match log_format {
        // The reader of standard error may be gone.
        LogFormat::Human => drop(io::stderr().write_all(greeting(running).as_bytes())),
        LogFormat::Json => {
            let data = promise(&running.server.settings.config());
            let fabric = running.server.settings.config().fabric.listen.join(" ");
            tracing::info!(addresses = ?running.addresses(), fabric, data, "accepting connections");
        }
    }
}

/// Tells systemd, if it started the server, about its state.
fn tell_service_manager(state: NotifyState<'_>) {
    // NOTIFY_SOCKET stays set: this process starts no other that could read it.
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!(%error, "cannot tell the service manager about the state of the server");
    }
}

/// The first signal of this kind stops the server in order, the second at once.
fn stop_on_signal(server: Arc<Server>, kind: SignalKind, name: &'static str) {
    let mut signals = match signal(kind) {
        Ok(signals) => signals,
        Err(error) => return tracing::warn!(%error, "cannot listen for {name}"),
    };
    tokio::task::spawn_local(async move {
        signals.recv().await;
        tracing::info!("{name}: finishing what has arrived; again to stop at once");
        server.retire();
        signals.recv().await;
        std::process::exit(130);
    });
}

async fn reload_on_signal(server: Arc<Server>) {
    let mut signals = match signal(SignalKind::hangup()) {
        Ok(signals) => signals,
        Err(error) => return tracing::warn!(%error, "cannot listen for SIGHUP"),
    };
    while signals.recv().await.is_some() {
        server.reload();
    }
}

/// As [`start`]; `open` opens the folder of the log.
pub(crate) fn start_with<S: Storage + 'static>(
    config: Config,
    log_level: Box<dyn Fn(LogLevel) + Send + Sync>,
    open: &dyn Fn(PathBuf) -> io::Result<S>,
) -> Result<Running, StartError> {
    prepare(config, log_level, open, None)?.load()
}

/// A server whose threads run, but that has not read its data yet.
pub(crate) struct Prepared {
    running: Running,
    /// The disk, and the id of the store, which an empty disk gets.
    disk: Option<(Arc<dyn Storage>, Id)>,
}

impl Prepared {
    /// Loads the data that must be there before the first reply. If the server is stopped
    /// meanwhile, it has ended on return.
    fn load(self) -> Result<Running, StartError> {
        let Prepared { mut running, disk } = self;
        let Some((disk, id)) = disk else {
            running.log_threads = vec![write_log::start_without_files(&running.server)?];
            load::begin_role(&running.server);
            return Ok(running);
        };
        match load::start(&running.server, disk, id) {
            Ok(threads) => running.log_threads = threads,
            Err(error) => {
                running.stop();
                running.wait()?;
                return Err(error);
            }
        }
        Ok(running)
    }
}

/// Builds the server and starts its threads.
pub(crate) fn prepare<S: Storage + 'static>(
    mut config: Config,
    log_level: Box<dyn Fn(LogLevel) + Send + Sync>,
    open: &dyn Fn(PathBuf) -> io::Result<S>,
    coordinator: Option<Arc<dyn Coordinator>>,
) -> Result<Prepared, StartError> {
    if coordinator.is_some() {
        config.replication.cluster.coordinator.get_or_insert(CoordinatorAddress::Embedded);
    }
    if config.threads == 0 {
        config.threads = std::thread::available_parallelism().map_or(1, usize::from);
    }
    if config.log.is_on && !config.policy_is_chosen {
        config.eviction.policy = EvictionPolicy::NoEviction;
    }
    raise_file_limit(&mut config);
    let tcp = listen::bind_tcp(&config.addresses(), &config)?;
    let tls = listen::bind_tcp(&config.tls_addresses(), &config)?;
    let memcached = listen::bind_tcp(&config.memcached.listen, &config)?;
    let unix = config.unixsocket.as_deref().map(|path| listen::bind_unix(path, &config));
    let (unix, unix_path) = unix.transpose()?.unzip();
    let admin = listen::bind_admin(&config)?;
    let fabric = fabric::bind(&mut config)?;
    let addresses = local_addresses(&tcp)?;
    let tls_addresses = local_addresses(&tls)?;
    tell_real_addresses(&mut config, &addresses, &tls_addresses);
    let memcached_addresses = local_addresses(&memcached)?;
    config.memcached.listen = memcached_addresses.iter().map(SocketAddr::to_string).collect();
    let admin_address = local_addresses(admin.as_slice())?.first().copied();
    config.admin = admin_address.map(|address| address.to_string());
    let (engine, index) =
        config.index.resolve().map_err(|why| StartError::new(format!("cannot start: {why}")))?;
    let checked = config.log.check().and_then(|()| config.replication.check(&config.log));
    checked.map_err(|why| StartError::new(format!("cannot start: {why}")))?;
    if !config.log.is_on {
        refuse_unread_data(&config.log.data)?;
    }
    let disk = config.log.is_on.then(|| open(config.log.data.clone())).transpose();
    let disk = disk.map_err(|why| cannot_open(&why))?;
    let membership = Membership::of(&config, coordinator, &addresses, &tls_addresses)?;
    let id = match disk.as_ref().and_then(|disk| stored_id(disk)) {
        Some(id) => id,
        None => replicate::seed_of_primary(&config).map_or_else(random_id, Ok)?,
    };
    let options = Options {
        // A snapshot stores items in hash order. Loading it is faster with the same seed.
        seed: [0, 8].map(|at| u64::from_le_bytes(id[at..at + 8].try_into().expect("eight bytes"))),
        key_len_max: config.key_len_max,
        value_len_max: config.bulk_len_max,
        history: config.history,
        history_bytes_max: config.history_bytes_max,
        hash_packed_fields_max: config.hash_packed_fields_max,
        hash_packed_len_max: config.hash_packed_len_max,
        list_packed_elements_max: config.list_packed_max().0,
        list_packed_bytes_max: config.list_packed_max().1,
        set_packed_ints_max: config.set_packed_ints_max,
        set_packed_members_max: config.set_packed_members_max,
        set_packed_len_max: config.set_packed_len_max,
        scored_packed_members_max: config.scored_packed_members_max,
        scored_packed_len_max: config.scored_packed_len_max,
        text_plain_max: config.text_plain_max,
        watches_max: config.waiting_max,
        unique_base: clock::unix_ms() << CAS_BITS,
        cleared_at_once_max: Options::default().cleared_at_once_max,
        index: IndexConfig { checksum: config.checksum, ..index },
    };
    let store = Store::open_with(options, move |config| engine.open(config))
        .map_err(|e| StartError::new(format!("cannot start: {e}")))?;
    config.limit_memory(&store).map_err(|why| StartError::new(format!("cannot start: {why}")))?;
    store.date_accesses(clock::unix_ms());
    let (names, reign) = names(id, &config)?;
    let server = Arc::new(Server::new(Parts {
        store,
        addresses,
        memcached: memcached_state::Shared::new(memcached_addresses, &config.memcached)?,
        unix_path: config.unixsocket.clone(),
        run_id: run_id()?,
        node: membership.as_ref().map(|_| names.me.node),
        names,
        reign,
        log_level,
        config,
    }));
    if let Some(loaded) = server.load_users() {
        loaded.map_err(|why| StartError::new(format!("cannot start: {why}")))?;
    }
    if !tls.is_empty() {
        let failed = |why| StartError::new(format!("cannot start: {why}"));
        server.process.tls.load(&server.settings.config().tls).map_err(failed)?;
    }
    warn_of_protection(&server, &tls_addresses);
    let plain = tcp.into_iter().map(|listener| (listener, Incoming::Tcp as listen::Spoken));
    let tls = tls.into_iter().map(|listener| (listener, Incoming::Tls as listen::Spoken));
    let other = memcached.into_iter().map(|l| (l, Incoming::Memcached as listen::Spoken));
    let listeners = plain.chain(tls).chain(other).collect();
    let embedded = membership.as_ref().and_then(Membership::embedded);
    let mut threads = start_threads(&server, embedded, listeners, unix)?;
    let first = server.threads.len() - fabric.len();
    for (index, endpoint) in (first..).zip(fabric) {
        let (server, seed) = (server.clone(), random_u64()?);
        let work = move || fabric::run(&server, endpoint, index, seed);
        threads.push(spawn(&threads::io_name(index), work)?);
    }
    if let Some(membership) = membership {
        threads.extend(membership.start(&server)?);
        let linking = server.clone();
        threads.push(spawn(messages::THREAD, move || messages::run(&linking))?);
    }
    if let Some(listener) = admin {
        threads.push(start_admin(&server, listener)?);
    }
    let proxy = proxy::start(&server, &tls_addresses)?;
    let (admin, _unix_path, log_threads) = (admin_address, unix_path, Vec::new());
    let running = Running { server, threads, log_threads, tls_addresses, admin, proxy, _unix_path };
    Ok(Prepared { running, disk: disk.map(|disk| (Arc::new(disk) as Arc<dyn Storage>, id)) })
}

/// Refuses to start empty next to data of an earlier server: its users would find their keys gone.
fn refuse_unread_data(folder: &Path) -> Result<(), StartError> {
    match Disk::holds_data(folder) {
        Ok(false) => Ok(()),
        Ok(true) => Err(StartError::new(format!(
            "cannot start: {0} holds the data of an earlier server, which is not read while the log is off. To keep \
             using it: --log everysec --data {0}. To start without it: --data with another folder",
            folder.display()
        ))),
        // Without a log nothing else would touch the folder.
        Err(error) => {
            tracing::debug!(folder = %folder.display(), %error, "cannot look for earlier data");
            Ok(())
        }
    }
}

/// Explains why the log's folder cannot be opened, and how to fix that.
fn cannot_open(why: &io::Error) -> StartError {
    let advice = match why.kind() {
        io::ErrorKind::ReadOnlyFilesystem => {
            ". The log is written there: mount the file system read-write, or name \
             another folder by --data"
        }
        io::ErrorKind::PermissionDenied => {
            ". The log is written there: let the server's user write to the folder, or name another one \
             by --data"
        }
        _ => "",
    };
    StartError::new(format!("cannot start: {why}{advice}"))
}

/// Warns that protected mode refuses remote clients although the server listens on a remote
/// address.
fn warn_of_protection(server: &Server, tls_addresses: &[SocketAddr]) {
    let fabric = server.settings.config().fabric.listen.clone();
    let fabric = fabric.iter().filter_map(|it| Provider::split(it).1.parse().ok());
    let fabric: Vec<SocketAddr> = fabric.collect();
    let addresses = server.process.addresses.iter().chain(tls_addresses).chain(&fabric);
    for address in addresses.filter(|address| server.is_protected_from(address.ip())) {
        tracing::warn!(
            %address,
            "protected mode: only connections from this machine are accepted until a password is \
             set by requirepass or for the user default, or with protected-mode no"
        );
    }
    for address in &server.memcached.addresses {
        if server.is_memcached_protected_from(address.ip()) {
            tracing::warn!(
                %address,
                "protected mode: only connections from this machine are accepted until \
                 memcached-auth-file names users, or with protected-mode no"
            );
        }
    }
}

fn runtime() -> Result<LocalRuntime, StartError> {
    threads::event_loop().map_err(|e| StartError::new(format!("cannot start an event loop: {e}")))
}

fn local_addresses(listeners: &[TcpListener]) -> Result<Vec<SocketAddr>, StartError> {
    let addresses: Result<_, _> = listeners.iter().map(TcpListener::local_addr).collect();
    addresses.map_err(|e| StartError::new(format!("cannot read the bound address: {e}")))
}

/// Puts the addresses that are really bound into the settings, for CONFIG GET.
fn tell_real_addresses(config: &mut Config, addresses: &[SocketAddr], tls: &[SocketAddr]) {
    config.tls.listen = tls.iter().map(SocketAddr::to_string).collect();
    config.tls.port = tls.first().map_or(0, SocketAddr::port);
    config.listen = addresses.iter().map(SocketAddr::to_string).collect();
    if !addresses.is_empty() {
        config.bind = addresses.iter().map(|a| a.ip().to_string()).collect();
    }
    config.port = addresses.first().map_or(0, SocketAddr::port);
}

/// Raises the limit of open files as `maxclients` requires, or lowers `maxclients`.
fn raise_file_limit(config: &mut Config) {
    let threads = config.threads + config.fabric.listen.len();
    let reserved = FILES_RESERVED + FILES_RESERVED_PER_THREAD * threads as u64;
    let wanted = (config.maxclients as u64).saturating_add(reserved);
    let limit = getrlimit(Resource::Nofile);
    let current = limit.current.unwrap_or(u64::MAX);
    if current >= wanted {
        return;
    }
    let reachable = limit.maximum.unwrap_or(u64::MAX).min(wanted);
    let raised = Rlimit { current: Some(reachable), maximum: limit.maximum };
    let now = if setrlimit(Resource::Nofile, raised).is_ok() { reachable } else { current };
    if now < wanted {
        config.maxclients = usize::try_from(now.saturating_sub(reserved).max(1))
            .expect("smaller than maxclients, which is a usize");
        tracing::warn!(
            "the limit of open files is {now}: maxclients lowered to {}; raise the limit with ulimit -n",
            config.maxclients
        );
    }
}

/// Says whether the data survives the process.
fn promise(config: &Config) -> String {
    match config.log.is_on {
        true => format!("kept in {} (log {})", config.log.data.display(), config.log.name()),
        false => {
            "NOT KEPT: in memory only, lost when the server ends; to keep it: --log everysec --data DIR"
                .to_string()
        }
    }
}

/// The text that people see when the server starts: addresses, data folder, status page.
fn greeting(running: &Running) -> String {
    let server = &running.server;
    let config = server.settings.config();
    let mut text = format!(
        "\n  HotRing {}   pid {}, {} thread{}\n",
        env!("CARGO_PKG_VERSION"),
        std::process::id(),
        config.threads,
        if config.threads == 1 { "" } else { "s" },
    );
    for address in &server.process.addresses {
        text.push_str(&format!("  listening on {address}\n"));
    }
    for address in &server.memcached.addresses {
        text.push_str(&format!("  listening on {address} (memcached)\n"));
    }
    for address in &config.fabric.listen {
        text.push_str(&format!("  listening on {address} (messages)\n"));
    }
    for address in &config.tls.listen {
        text.push_str(&format!("  listening on {address} (TLS)\n"));
    }
    if let Some(path) = &server.process.unix_path {
        text.push_str(&format!("  listening on {}\n", path.display()));
    }
    let connect = match (server.process.addresses.first(), &server.process.unix_path) {
        (Some(a), _) if a.ip().to_string() == "127.0.0.1" => format!("redis-cli -p {}", a.port()),
        (Some(a), _) => format!("redis-cli -h {} -p {}", a.ip(), a.port()),
        (None, Some(path)) => format!("redis-cli -s {}", path.display()),
        (None, None) if config.tls.port > 0 => format!("redis-cli --tls -p {}", config.tls.port),
        (None, None) => match server.memcached.addresses.first() {
            Some(a) => format!("nc {} {}, and then: version", a.ip(), a.port()),
            None => "no address to connect to: set --listen or --unixsocket".to_string(),
        },
    };
    text.push_str(&format!("  connect: {connect}\n"));
    text.push_str(&format!("  data:    {}\n", promise(&config)));
    if let Some(address) = running.admin {
        text.push_str(&format!("  status:  http://{address}/\n"));
    }
    text.push_str("  stop:    Ctrl-C\n\n");
    text
}

#[cfg(test)]
mod power;
#[cfg(test)]
mod read_only;
#[cfg(test)]
mod safe_answers;
#[cfg(test)]
mod tests;
