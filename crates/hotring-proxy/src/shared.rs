//! What all threads of a proxy share: settings, the layout of the cluster, counters.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use hotring_commands::state::tls::{self, Tls};
use tokio::sync::Notify;
use tokio_rustls::rustls::ClientConfig;

use crate::counter::Counter;
use crate::foreign::pool::Foreign;
use crate::foreign::server::Server;
use crate::layout::Layout;
use crate::settings::Settings;

/// Whether clients from an address are let in: those of Redis's protocol, or with `true` those of memcached's, who need
/// no password.
pub type Admits = Box<dyn Fn(IpAddr, bool) -> bool + Send + Sync>;

/// The state of a proxy.
pub(crate) struct Shared {
    pub settings: Settings,
    pub admits: Admits,
    /// TLS to the nodes.
    pub tls: Option<Arc<ClientConfig>>,
    /// TLS of clients.
    pub client_tls: Tls,
    /// The pool, if the proxy is one of a pool.
    pub foreign: Option<Foreign>,
    pub counters: Counters,
    pub started: Instant,
    /// Clients that are connected.
    pub clients: AtomicUsize,
    layout: RwLock<Arc<Layout>>,
    /// Raised with each new layout.
    version: AtomicU64,
    /// Tells the task that asks for the layout to ask soon.
    look: Notify,
    is_stopping: AtomicBool,
    stop: Notify,
}

/// What a proxy has done. Each is a number for people, and orders nothing.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub accepted: Counter,
    pub refused: Counter,
    pub requests: Counter,
    pub merged: Counter,
    pub mirrored: Counter,
    pub redirected: Counter,
    pub retried: Counter,
    pub unknown: Counter,
    pub dialled: Counter,
    pub unreachable: Counter,
}

impl Shared {
    /// # Errors
    ///
    /// A text for the operator, if TLS cannot be set up.
    pub(crate) fn new(settings: Settings, admits: Admits) -> Result<Self, String> {
        let foreign = settings.pool.clone().map(Foreign::open).transpose()?;
        let needs_tls = settings.tls_nodes || foreign.as_ref().is_some_and(Foreign::has_tls);
        let tls = needs_tls.then(|| tls::client(&settings.tls)).transpose();
        let client_tls = Tls::default();
        if !settings.tls_listen.is_empty() {
            client_tls.load(&settings.tls).map_err(|why| why.to_string())?;
        }
        let shared = Shared {
            foreign,
            tls: tls.map_err(|why| why.to_string())?,
            client_tls,
            settings,
            admits,
            counters: Counters::default(),
            started: Instant::now(),
            clients: AtomicUsize::new(0),
            layout: RwLock::default(),
            version: AtomicU64::new(0),
            look: Notify::new(),
            is_stopping: AtomicBool::new(false),
            stop: Notify::new(),
        };
        shared.republish();
        Ok(shared)
    }

    /// The number of the present layout.
    pub(crate) fn version(&self) -> u64 {
        // ORDERING: Acquire, pairs with `publish`: who sees the number sees that layout or a later one.
        self.version.load(Ordering::Acquire)
    }

    pub(crate) fn layout(&self) -> Arc<Layout> {
        self.layout.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn publish(&self, layout: Layout) {
        *self.layout.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(layout);
        // ORDERING: Release, pairs with `version`.
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Publishes the layout of the pool, if there is one.
    pub(crate) fn republish(&self) {
        if let Some(pool) = &self.foreign {
            pool.republish(|layout| self.publish(layout));
        }
    }

    /// Notes that a server of the pool has failed.
    pub(crate) fn note_failure(&self, server: &Server, why: &str) {
        let Some(pool) = &self.foreign else { return };
        if server.health.failed(Instant::now(), why, pool.options().eject_after) {
            tracing::warn!(server = server.name, "a server of the pool is ejected: {why}");
            self.republish();
        }
    }

    /// Has the layout asked for soon.
    pub(crate) fn look_again(&self) {
        self.look.notify_one();
    }

    /// Waits until the layout must be asked for.
    pub(crate) async fn looked_for(&self) {
        self.look.notified().await;
    }

    /// Ends the proxy.
    pub(crate) fn stop(&self) {
        // ORDERING: Release, pairs with `stopping`.
        self.is_stopping.store(true, Ordering::Release);
        self.stop.notify_waiters();
    }

    /// Whether the proxy is to end.
    pub(crate) fn is_stopping(&self) -> bool {
        // ORDERING: Acquire, pairs with `stop`.
        self.is_stopping.load(Ordering::Acquire)
    }

    /// Waits until the proxy is to end.
    pub(crate) async fn stopping(&self) {
        let mut stop = std::pin::pin!(self.stop.notified());
        // Before the flag is read: a stop in between is then not missed.
        stop.as_mut().enable();
        if !self.is_stopping() {
            stop.await;
        }
    }
}
