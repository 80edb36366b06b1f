//! The settings of a proxy.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use hotring_commands::settings::config::TlsSettings;

/// The settings of a proxy.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Addresses for Redis's clients.
    pub listen: Vec<SocketAddr>,
    /// Addresses for Redis's clients that use TLS.
    pub tls_listen: Vec<SocketAddr>,
    /// Addresses for memcached's clients, who need no password.
    pub memcached: Vec<SocketAddr>,
    /// Name and password as which the requests of memcached's clients are done; None for the default user.
    pub memcached_login: Option<(String, String)>,
    /// Longest value of memcached's clients in bytes.
    pub memcached_item_len_max: usize,
    /// Addresses of some nodes, `HOST:PORT`; these name the others.
    pub nodes: Vec<String>,
    /// The file of a pool of servers that know nothing of each other, instead of nodes.
    pub pool: Option<PathBuf>,
    /// The password of Redis's clients of a pool. Nodes of a cluster check their clients themselves.
    pub clients_password: Option<String>,
    /// Name and password by which the proxy asks nodes for the layout of the cluster. Requests of clients never use
    /// them.
    pub login: Option<(String, String)>,
    /// Whether nodes are reached over TLS.
    pub tls_nodes: bool,
    /// The files of TLS, for nodes and clients.
    pub tls: TlsSettings,
    /// Threads.
    pub threads: usize,
    /// Most clients.
    pub clients_max: usize,
    /// How long a read waits to be sent together with reads of the same key.
    pub merge_window: Duration,
    /// How long a request is tried again while its node cannot be reached.
    pub retry_for: Duration,
    /// Silence after which a node that owes a reply is given up.
    pub node_timeout: Duration,
    /// Most requests of a client that are on their way.
    pub pipeline_max: usize,
    /// Longest request in bytes.
    pub request_len_max: usize,
    /// Bytes of replies that a client has not fetched, above which its connection is closed. A node's reply with more
    /// ends the connection to it.
    pub output_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            listen: Vec::new(),
            tls_listen: Vec::new(),
            memcached: Vec::new(),
            memcached_login: None,
            memcached_item_len_max: 1 << 20,
            nodes: Vec::new(),
            pool: None,
            clients_password: None,
            login: None,
            tls_nodes: false,
            tls: TlsSettings::default(),
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            clients_max: 10_000,
            merge_window: Duration::ZERO,
            retry_for: Duration::from_secs(5),
            node_timeout: Duration::from_secs(15),
            pipeline_max: 1_024,
            request_len_max: 512 << 20,
            output_max: 256 << 20,
        }
    }
}
