//! The state of the server process: its identity, its addresses, and whether it is about to end.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Instant;

use tokio::sync::watch;

use crate::host::clock;
use crate::state::tls::Tls;

/// The server process.
pub struct Process {
    /// 40 hexadecimal digits, different in each process.
    pub run_id: String,
    /// The start, for the uptime.
    pub started: Instant,
    /// The start in Unix milliseconds. Read once: corrections of the clock must not move it.
    pub started_at: u64,
    /// The TCP addresses on which the server listens.
    pub addresses: Vec<SocketAddr>,
    /// The unix socket, if there is one.
    pub unix_path: Option<PathBuf>,
    /// The certificate and settings of TLS connections.
    pub tls: Tls,
    stop: watch::Sender<bool>,
}

impl Process {
    pub(super) fn new(
        run_id: String,
        addresses: Vec<SocketAddr>,
        unix_path: Option<PathBuf>,
    ) -> Self {
        Process {
            run_id,
            started: clock::monotonic(),
            started_at: clock::unix_ms(),
            addresses,
            unix_path,
            tls: Tls::default(),
            stop: watch::Sender::new(false),
        }
    }

    pub(super) fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Whether the server is about to end.
    pub fn is_stopping(&self) -> bool {
        *self.stop.borrow()
    }

    /// Waits until the server is about to end.
    pub async fn stopping(&self) {
        // The sender lives as long as `self`: waiting cannot fail.
        let _ = self.stop.subscribe().wait_for(|stop| *stop).await;
    }
}
