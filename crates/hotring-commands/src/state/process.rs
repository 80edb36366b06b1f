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
    end: watch::Sender<End>,
}

/// How far the end of the server has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// No client and no signal asks for it.
    Far,
    /// The server hands its role over first. This can be cancelled.
    Retires,
    /// The threads finish what has arrived.
    Stops,
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
            end: watch::Sender::new(End::Far),
        }
    }

    pub(super) fn stop(&self) {
        self.end.send_replace(End::Stops);
    }

    /// Asks for a handover before the end.
    pub(super) fn retire(&self) {
        self.change(End::Far, End::Retires);
    }

    /// Cancels [`retire`](Self::retire); false if it was not asked for, or is done.
    pub(crate) fn abort_retirement(&self) -> bool {
        self.change(End::Retires, End::Far)
    }

    fn change(&self, from: End, to: End) -> bool {
        self.end.send_if_modified(|end| {
            let is_there = *end == from;
            if is_there {
                *end = to;
            }
            is_there
        })
    }

    /// Whether the server hands its role over, to end afterwards.
    pub fn is_retiring(&self) -> bool {
        *self.end.borrow() == End::Retires
    }

    /// Waits until the server must hand its role over, to end afterwards.
    pub async fn retiring(&self) {
        self.reached(End::Retires).await;
    }

    /// Whether the server is about to end.
    pub fn is_stopping(&self) -> bool {
        *self.end.borrow() == End::Stops
    }

    /// Waits until the server is about to end.
    pub async fn stopping(&self) {
        self.reached(End::Stops).await;
    }

    async fn reached(&self, wanted: End) {
        // The sender lives as long as `self`: waiting cannot fail.
        let _ = self.end.subscribe().wait_for(|end| *end == wanted).await;
    }
}
