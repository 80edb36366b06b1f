//! The way to the coordinator that the settings name.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use hotring_coordinator::{
    Coordinator, Embedded, Etcd, EtcdAddress, EtcdOptions, Failure, Lease, LeaseId, Outcome,
    PROTOCOL_VERSION, Remote, Reply, Revision, Snapshot, Stream, Transaction, Watch, serve,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::oneshot;

use crate::tasks::replicate::dial::dial;
use crate::tasks::replicate::greet::{ask, log_in, refused};
use crate::tasks::replicate::{LinkError, unless};
use hotring_commands::host::start_error::StartError;
use hotring_commands::host::threads::{self, spawn};
use hotring_commands::settings::config::{Config, CoordinatorAddress, Source};
use hotring_commands::state::client::ClientShared;
use hotring_commands::state::server::Server;
use hotring_commands::state::tls;

/// The name of the thread that drives what is in this process of a coordinator.
const THREAD: &str = "hotring-coordinator";

/// The folder of the embedded coordinator, in that of the log.
const FOLDER: &str = "coordinator";

/// For how long a program that is no node waits for an answer: the disk of the coordinator may be busy.
const PATIENCE: Duration = Duration::from_secs(10);

/// A coordinator, and the embedded one if it is that.
pub(crate) type Found = (Arc<dyn Coordinator>, Option<Embedded>);

/// The coordinator that the settings name, for other programs than its nodes. It need not answer yet.
///
/// # Errors
/// The settings name none, or an embedded one, which lives in a node.
pub fn coordinator(config: &Config) -> Result<Arc<dyn Coordinator>, StartError> {
    match &config.replication.cluster.coordinator {
        None | Some(CoordinatorAddress::Embedded) => {
            let why =
                "name the coordinator by the HOST:PORT of its node, or by etcd://HOST:PORT,...";
            Err(StartError::new(why))
        }
        // No lease ends while such a program waits.
        Some(address) => Ok(reach(address, config, config.replication.lease().max(PATIENCE))?.0),
    }
}

/// The coordinator at this address.
///
/// # Errors
/// The embedded one cannot begin. Another one need not answer yet.
pub(crate) fn connect(address: &CoordinatorAddress, config: &Config) -> Result<Found, StartError> {
    reach(address, config, config.replication.lease() / 2)
}

/// Each request to another node's coordinator ends within `limit`.
fn reach(
    address: &CoordinatorAddress,
    config: &Config,
    limit: Duration,
) -> Result<Found, StartError> {
    match address {
        CoordinatorAddress::Embedded => {
            let folder = config.log.is_on.then(|| config.log.data.join(FOLDER));
            let hosted = Hosted::begin(move || embedded(folder))?;
            let embedded = hosted.inner.clone();
            Ok((Arc::new(hosted), Some(embedded)))
        }
        CoordinatorAddress::Node(address) => {
            let (address, config) = (source(address)?, Arc::new(config.clone()));
            let hosted = Hosted::begin(move || {
                let open = move || open(config.clone(), address.clone());
                Ok(Remote::new(open, limit))
            })?;
            Ok((Arc::new(hosted), None))
        }
        CoordinatorAddress::Etcd(address) => Ok((Arc::new(etcd(address, config)?), None)),
    }
}

fn embedded(folder: Option<PathBuf>) -> Result<Embedded, String> {
    match folder {
        Some(folder) => Embedded::open(&folder).map_err(|why| why.to_string()),
        None => Ok(Embedded::in_memory()),
    }
}

fn etcd(address: &str, config: &Config) -> Result<Etcd, StartError> {
    let failed = |why: &dyn std::fmt::Display| StartError::new(format!("cannot start: {why}"));
    let address: EtcdAddress = address.parse().map_err(|why| failed(&why))?;
    let settings = &config.replication.cluster;
    let (user, password) = (settings.user.clone(), settings.password.reveal().to_string());
    let tls = address.tls.then(|| tls::client(&config.tls)).transpose();
    let options = EtcdOptions {
        address,
        cluster: settings.name.clone(),
        user: Some((user, password)).filter(|(user, _)| !user.is_empty()),
        tls: tls.map_err(|why| failed(&why))?,
        limit: config.replication.lease() / 2,
    };
    Etcd::new(options).map_err(|why| failed(&why))
}

/// The address of another node.
fn source(address: &str) -> Result<Source, StartError> {
    let parsed = address.rsplit_once(':').and_then(|(host, port)| {
        let host = host.trim_start_matches('[').trim_end_matches(']').to_string();
        Some(Source { host, port: port.parse().ok()? })
    });
    parsed.ok_or_else(|| StartError::new(format!("cannot start: {address} is no address")))
}

/// Opens a connection to the embedded coordinator of another node, as a replica does to its primary.
async fn open(config: Arc<Config>, address: Source) -> Result<Box<dyn Stream>, Failure> {
    let failed = |why: LinkError| Failure::Unknown(format!("at {address}: {why}"));
    let mut stream = dial(&config, &address).await.map_err(failed)?;
    log_in(&mut stream, &config).await.map_err(failed)?;
    let words = ["HOTRING.COORDINATE", &PROTOCOL_VERSION.to_string()];
    let answered = ask(&mut stream, &words).await.map_err(failed)?;
    answered.map_err(|error| failed(refused(error)))?;
    Ok(Box::new(stream))
}

/// Serves another node until its connection ends.
pub(crate) async fn serve_coordinator<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    server: &Server,
    client: &ClientShared,
    embedded: &Embedded,
) {
    if let Some(Err(why)) = unless(server.process.stopping(), serve(stream, embedded)).await {
        // Each run of a command ends one.
        tracing::debug!(peer = %client.peer, "a connection to the coordinator has ended: {why}");
    }
}

/// A coordinator that a thread of its own drives, so that it lives on whatever a server's other threads do.
struct Hosted<C> {
    inner: C,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl<C: Send + 'static> Hosted<C> {
    /// Begins the thread, and makes the coordinator there.
    fn begin(
        make: impl FnOnce() -> Result<C, String> + Send + 'static,
    ) -> Result<Self, StartError> {
        let (made, take) = mpsc::channel();
        let (end, ends) = oneshot::channel();
        let failed = |why: &dyn std::fmt::Display| {
            StartError::new(format!("cannot start the embedded coordinator: {why}"))
        };
        let thread = spawn(THREAD, move || {
            let runtime = match threads::event_loop() {
                Ok(runtime) => runtime,
                Err(error) => return drop(made.send(Err(error.to_string()))),
            };
            runtime.block_on(async {
                // The receiver is there until it has this.
                let _ = made.send(make());
                let _ = ends.await;
            });
        })?;
        let inner = take.recv().map_err(|_| failed(&"its thread panicked"))?;
        let inner = inner.map_err(|why| failed(&why))?;
        Ok(Hosted { inner, end: Some(end), thread: Some(thread) })
    }
}

impl<C> Drop for Hosted<C> {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread of the coordinator panicked");
        }
    }
}

impl<C: Coordinator> Coordinator for Hosted<C> {
    fn read(&self) -> Reply<'_, Snapshot> {
        self.inner.read()
    }

    fn transact<'a>(&'a self, transaction: &'a Transaction) -> Reply<'a, Outcome> {
        self.inner.transact(transaction)
    }

    fn grant(&self, ttl: Duration) -> Reply<'_, Lease> {
        self.inner.grant(ttl)
    }

    fn keep_alive(&self, lease: LeaseId) -> Reply<'_, ()> {
        self.inner.keep_alive(lease)
    }

    fn revoke(&self, lease: LeaseId) -> Reply<'_, ()> {
        self.inner.revoke(lease)
    }

    fn watch(&self, after: Revision) -> Reply<'_, Watch> {
        self.inner.watch(after)
    }
}
