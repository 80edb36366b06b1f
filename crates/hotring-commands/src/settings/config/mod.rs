//! The values of all settings of a server. `settings` names each setting and reads the values from their sources.

mod cluster;
mod fabric;
mod list;
mod log;
mod memcached;
pub mod memory;
pub(crate) mod notify;
mod replication;
mod secret;
mod tls;

use std::collections::BTreeSet;
use std::path::PathBuf;

use hotring_store::index::Checksum;
use hotring_store::{EvictionOptions, EvictionPolicy, Store};

use crate::settings::engine::IndexSettings;
use crate::settings::guard::Guard;
use crate::settings::passive::Given;

pub use cluster::{ClusterSettings, CoordinatorAddress, FullDisk};
pub use fabric::FabricSettings;
pub use log::{LogSettings, OnError, SavePoint, SnapshotSettings};
pub use memcached::MemcachedSettings;
pub(crate) use notify::Notify;
pub use replication::{RECORDED, ReplicationSettings, Source, Unknown};
pub use secret::Secret;
pub use tls::{AuthClients, Protocols, TlsSettings};

/// All settings of a server. `settings/` names and explains each.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The configuration file that was read, which CONFIG REWRITE rewrites.
    pub file: Option<PathBuf>,
    /// Whether the server is a node of a cluster, which its start decides.
    pub clustered: bool,
    /// The settings that CONFIG SET has changed, which CONFIG REWRITE must write.
    pub changed: BTreeSet<&'static str>,
    /// `ADDR:PORT` of each listener; empty means `bind` and `port`.
    pub listen: Vec<String>,
    /// The addresses to listen on.
    pub bind: Vec<String>,
    /// The port for `bind`.
    pub port: u16,
    /// The path of the unix socket, if any.
    pub unixsocket: Option<PathBuf>,
    /// The permission bits of the unix socket's file.
    pub unixsocketperm: u32,
    /// Whether to refuse other machines while the default user needs no password.
    pub protected_mode: bool,
    /// The default user's password; empty for none.
    pub requirepass: Secret,
    /// The ACL file.
    pub aclfile: Option<PathBuf>,
    /// The maximum number of entries that ACL LOG keeps.
    pub acllog_len_max: usize,
    /// Milliseconds by which each wrong password delays its connection's replies.
    pub auth_failure_delay_ms: u64,
    /// The access setting for changing settings that name files while the server runs.
    pub enable_protected_configs: Guard,
    /// The settings of TLS.
    pub tls: TlsSettings,
    /// Seconds within which a connection must complete its TLS handshake and authenticate; 0 for no limit.
    pub handshake_timeout_s: u64,
    /// The settings of memcached's protocol.
    pub memcached: MemcachedSettings,
    /// The settings of messages.
    pub fabric: FabricSettings,
    /// The number of threads that serve connections; 0 means one for each available core.
    pub threads: usize,
    /// The maximum number of connections.
    pub maxclients: usize,
    /// The maximum number of connections that wait for keys at the same time.
    pub waiting_max: u64,
    /// The maximum number of keys that one connection may watch.
    pub watched_max: usize,
    /// Idle seconds after which a connection is closed; 0 never.
    pub timeout_s: u64,
    /// Seconds after which a connection with an unfinished request is closed; 0 never.
    pub request_timeout_s: u64,
    /// Seconds of silence before TCP probes; 0 never.
    pub tcp_keepalive_s: u64,
    /// The length of the kernel's queue of connections that are not accepted yet.
    pub tcp_backlog: u32,
    /// The maximum length of an unfinished request, in bytes.
    pub query_buffer_max: usize,
    /// Unsent bytes above which a connection is not read from.
    pub output_soft_max: usize,
    /// Seconds after which a connection is closed whose unsent bytes have exceeded `output_soft_max` for this long
    /// without progress; 0 never.
    pub output_soft_s: u64,
    /// Unsent bytes above which a connection is closed; 0 never.
    pub output_hard_max: usize,
    /// The maximum bytes of the buffers of all connections; 0 for no limit.
    pub client_memory_max: usize,
    /// Unsent bytes above which a connection that receives messages is closed; 0 never.
    pub subscriber_output_max: usize,
    /// The changes of keys that are published.
    pub notify: Notify,
    /// The maximum number of channels and patterns that one connection may subscribe to.
    pub subscriptions_max: usize,
    /// The maximum number of keys in the table of CLIENT TRACKING; 0 for no limit.
    pub tracking_keys_max: usize,
    /// The maximum bytes of the table of CLIENT TRACKING; 0 for no limit.
    pub tracking_memory_max: usize,
    /// Bytes of removed values, waiting for a thread that does not leave its command, above which writes are refused; 0
    /// for no limit.
    pub unreclaimed_max: usize,
    /// Bytes of data, connections and scripts above which keys are evicted or writes are refused; 0 for no limit.
    pub memory_max: usize,
    /// The process contains nothing but this server, so that the process's unaccounted memory counts as well.
    pub owns_process: bool,
    /// The eviction policy at `memory_max`.
    pub eviction: EvictionOptions,
    /// The operator has set the policy. Otherwise a server with a log evicts nothing.
    pub policy_is_chosen: bool,
    /// Minutes after which the access counters of LFU policies decrease by one; 0 never.
    pub lfu_decay_min: u64,
    /// The share of `memory_max` that pinned keys may take, in percent.
    pub pinned_percent: u8,
    /// Whether items have checksums, and the operations that verify them.
    pub checksum: Checksum,
    /// The number of earlier values that are kept of each key; 0 for none.
    pub history: usize,
    /// The maximum bytes of the earlier values of one key.
    pub history_bytes_max: usize,
    /// The number of databases.
    pub databases: usize,
    pub hash_packed_fields_max: usize,
    pub hash_packed_len_max: usize,
    pub set_packed_ints_max: usize,
    pub set_packed_members_max: usize,
    pub set_packed_len_max: usize,
    /// The maximum bytes of a HyperLogLog in its sparse form.
    pub hll_sparse_max: usize,
    /// The given values of settings without effect.
    pub passive: Given,
    /// The given limits of unsent replies that have no effect.
    pub idle_output_limits: IdleOutputLimits,
    pub scored_packed_members_max: usize,
    pub scored_packed_len_max: usize,
    pub text_plain_max: usize,
    /// The limit of a list that is stored as one value: a number of elements, or, as in Redis, -1 to -5 for 4 to 64
    /// KiB.
    pub list_packed_max: i64,
    /// Accepted, without effect.
    pub list_compress_depth: u32,
    /// The maximum length of a key in bytes.
    pub key_len_max: usize,
    /// The maximum length of an argument of a request in bytes.
    pub bulk_len_max: usize,
    /// The maximum number of arguments of a request.
    pub args_max: usize,
    /// The maximum length of an inline request's line in bytes.
    pub inline_len_max: usize,
    /// The maximum run time of a script in milliseconds; 0 for no limit.
    pub lua_time_ms: u64,
    /// Milliseconds after which requests for keys that a script holds are refused with BUSY; 0 never.
    pub busy_reply_ms: u64,
    /// The maximum number of instructions that a script may execute; 0 for no limit.
    pub lua_steps_max: u64,
    /// The maximum number of lines per second that scripts may write to the server's log; 0 for no limit.
    pub lua_log_max: u64,
    /// The maximum memory of each thread's Lua interpreter in bytes.
    pub lua_memory_max: usize,
    /// The maximum memory of the script cache in bytes.
    pub script_cache_max: usize,
    /// The settings of the index.
    pub index: IndexSettings,
    /// The minimum duration in microseconds of a request in SLOWLOG; negative for none.
    pub slowlog_threshold_us: i64,
    /// The maximum number of requests that SLOWLOG keeps.
    pub slowlog_len_max: usize,
    /// The minimum duration in milliseconds of an event in LATENCY; 0 for none.
    pub latency_threshold_ms: u64,
    /// The access setting for DEBUG.
    pub debug_command: Guard,
    /// The settings of the write-ahead log.
    pub log: LogSettings,
    /// The settings of replication.
    pub replication: ReplicationSettings,
    /// The lowest severity of logged messages.
    pub log_level: LogLevel,
    /// The format of logged messages.
    pub log_format: LogFormat,
    /// `ADDR:PORT` for metrics, health checks and the status page, if any.
    pub admin: Option<String>,
    /// Milliseconds without a beat after which a thread is reported as stuck; 0 never.
    pub watchdog_ms: u64,
    /// Seconds after which a process that was asked to end exits even if it still waits for something; 0 never.
    pub shutdown_timeout_s: u64,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            file: None,
            clustered: false,
            changed: BTreeSet::new(),
            listen: Vec::new(),
            bind: vec!["127.0.0.1".to_string()],
            port: 6379,
            unixsocket: None,
            unixsocketperm: 0o700,
            protected_mode: true,
            requirepass: Secret::default(),
            aclfile: None,
            acllog_len_max: 128,
            auth_failure_delay_ms: 250,
            enable_protected_configs: Guard::No,
            tls: TlsSettings::default(),
            handshake_timeout_s: 30,
            memcached: MemcachedSettings::default(),
            fabric: FabricSettings::default(),
            threads: 0,
            maxclients: 10_000,
            waiting_max: 1_000,
            watched_max: 1_000,
            timeout_s: 0,
            request_timeout_s: 30,
            tcp_keepalive_s: 300,
            tcp_backlog: 511,
            query_buffer_max: 1 << 30,
            output_soft_max: 1 << 20,
            output_soft_s: 60,
            output_hard_max: 1 << 30,
            client_memory_max: 2 << 30,
            subscriber_output_max: 32 << 20,
            notify: Notify::default(),
            subscriptions_max: 10_000,
            tracking_keys_max: 1_000_000,
            tracking_memory_max: 128 << 20,
            unreclaimed_max: 1 << 30,
            memory_max: 0,
            owns_process: false,
            policy_is_chosen: false,
            eviction: EvictionOptions {
                policy: EvictionPolicy::Heat,
                ..EvictionOptions::default()
            },
            lfu_decay_min: 1,
            pinned_percent: 25,
            checksum: Checksum::default(),
            history: 0,
            history_bytes_max: 1 << 20,
            databases: 16,
            hash_packed_fields_max: 512,
            hash_packed_len_max: 64,
            set_packed_ints_max: 512,
            set_packed_members_max: 128,
            set_packed_len_max: 64,
            hll_sparse_max: 3000,
            passive: Given::default(),
            idle_output_limits: IdleOutputLimits::default(),
            scored_packed_members_max: 128,
            scored_packed_len_max: 64,
            text_plain_max: 64 << 10,
            list_packed_max: -2,
            list_compress_depth: 0,
            key_len_max: 64 << 10,
            bulk_len_max: 512 << 20,
            args_max: 1 << 20,
            inline_len_max: 64 << 10,
            lua_time_ms: 30_000,
            busy_reply_ms: 5_000,
            lua_steps_max: 0,
            lua_log_max: 100,
            lua_memory_max: 256 << 20,
            script_cache_max: 64 << 20,
            index: IndexSettings::default(),
            slowlog_threshold_us: 10_000,
            slowlog_len_max: 128,
            latency_threshold_ms: 0,
            debug_command: Guard::No,
            log: LogSettings::default(),
            replication: ReplicationSettings::default(),
            log_level: LogLevel::Notice,
            log_format: LogFormat::Human,
            admin: None,
            watchdog_ms: 5_000,
            shutdown_timeout_s: 10,
        }
    }
}

/// The given limits of unsent replies that have no effect: bytes, and for a soft limit also seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdleOutputLimits {
    pub(crate) normal_soft: (usize, u64),
    pub(crate) replica_hard: usize,
    pub(crate) replica_soft: (usize, u64),
    pub(crate) subscriber_soft: (usize, u64),
}

impl Default for IdleOutputLimits {
    /// Redis's limits. Those of replicas have no effect: `repl-backlog` bounds what a primary keeps for them.
    fn default() -> Self {
        IdleOutputLimits {
            normal_soft: (0, 0),
            replica_hard: 256 << 20,
            replica_soft: (64 << 20, 60),
            subscriber_soft: (0, 0),
        }
    }
}

/// The level of the server's log, with Redis's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// Nothing at all.
    Nothing,
    /// Faults that stop the server or lose data.
    Error,
    /// Conditions that need an operator's attention.
    Warning,
    /// Events of normal operation.
    Notice,
    /// Details of clients, for debugging.
    Verbose,
    /// Everything.
    Debug,
}

impl LogLevel {
    const NAMES: [(LogLevel, &'static str, &'static str); 6] = [
        (LogLevel::Nothing, "nothing", "off"),
        (LogLevel::Error, "error", "error"),
        (LogLevel::Warning, "warning", "warn"),
        (LogLevel::Notice, "notice", "info"),
        (LogLevel::Verbose, "verbose", "debug"),
        (LogLevel::Debug, "debug", "trace"),
    ];

    /// Redis's name of the level.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|n| n.0 == self).map_or("notice", |n| n.1)
    }

    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let wanted = text.to_ascii_lowercase();
        // Redis's names go first: its "debug" is the most detailed level.
        let by_name = Self::NAMES.iter().find(|n| n.1 == wanted);
        by_name.or_else(|| Self::NAMES.iter().find(|n| n.2 == wanted)).map(|n| n.0).ok_or_else(
            || {
                "must be one of the following: debug, verbose, notice, warning, error, nothing"
                    .to_string()
            },
        )
    }
}

/// The format of a line in the server's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// A readable line.
    Human,
    /// One JSON object per line.
    Json,
}

impl Config {
    /// Sets the memory limits and the eviction policy of the store.
    ///
    /// # Errors
    /// `maxmemory` is set, and the index cannot record accesses in the way that the policy needs.
    pub fn limit_memory(&self, store: &Store) -> Result<(), String> {
        let bytes = |max| if max == 0 { u64::MAX } else { max as u64 };
        match store.set_eviction(self.eviction) {
            Err(why) if self.memory_max > 0 => return Err(format!("maxmemory-policy: {why}")),
            _ => {}
        }
        store.set_limbo_max(bytes(self.unreclaimed_max));
        store.set_memory_max(bytes(self.memory_max));
        store.set_memory_spare(memory::spare(self));
        let pinned = if self.memory_max == 0 {
            usize::MAX
        } else {
            self.memory_max / 100 * usize::from(self.pinned_percent)
        };
        store.set_pinned_max(pinned);
        Ok(())
    }

    /// The maximum memory of one thread's scripts in bytes.
    pub(crate) fn lua_memory(&self) -> usize {
        self.lua_memory_max.min(memory::part_of(self.memory_max))
    }

    /// The addresses to bind, as text.
    pub fn addresses(&self) -> Vec<String> {
        match (self.listen.as_slice(), self.port) {
            // As in Redis, `port 0` is for servers with only TLS or a unix socket.
            ([], 0) if self.listens_elsewhere() => Vec::new(),
            ([], port) => self.bound_to(port),
            (listen, _) => listen.to_vec(),
        }
    }

    /// Whether the server listens for anything else than plain TCP connections of Redis's protocol.
    fn listens_elsewhere(&self) -> bool {
        let others = [&self.tls_addresses(), &self.memcached.listen, &self.fabric.listen];
        self.unixsocket.is_some() || others.iter().any(|addresses| !addresses.is_empty())
    }

    /// The addresses to bind for TLS, as text.
    pub fn tls_addresses(&self) -> Vec<String> {
        match (self.tls.listen.as_slice(), self.tls.port) {
            ([], 0) => Vec::new(),
            ([], port) => self.bound_to(port),
            (listen, _) => listen.to_vec(),
        }
    }

    /// The addresses of `bind` with a port.
    fn bound_to(&self, port: u16) -> Vec<String> {
        let with_port = |text: &String| {
            // A leading '-' means that the address may be missing. Keep the '-' for the code that binds the address.
            let (optional, address) = match text.strip_prefix('-') {
                Some(address) => ("-", address),
                None => ("", text.as_str()),
            };
            match address {
                "::*" => format!("{optional}[::]:{port}"),
                _ if address.contains(':') => format!("{optional}[{address}]:{port}"),
                _ => format!("{optional}{address}:{port}"),
            }
        };
        self.bind.iter().map(with_port).collect()
    }
}
