//! The way to the coordinator that the settings name.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use hotring_coordinator::{
    Coordinator, Embedded, Lease, LeaseId, Outcome, Reply, Revision, Snapshot, Transaction, Watch,
};
use tokio::sync::oneshot;

use hotring_commands::host::start_error::StartError;
use hotring_commands::host::threads::{self, spawn};
use hotring_commands::settings::config::{Config, CoordinatorAddress};

/// The name of the thread of the embedded coordinator.
const THREAD: &str = "hotring-coordinator";

/// The folder of the embedded coordinator, in that of the log.
const FOLDER: &str = "coordinator";

/// The coordinator at this address.
///
/// # Errors
/// It cannot be used.
pub(crate) fn connect(
    address: &CoordinatorAddress,
    config: &Config,
) -> Result<Arc<dyn Coordinator>, StartError> {
    match address {
        CoordinatorAddress::Embedded => {
            let folder = config.log.is_on.then(|| config.log.data.join(FOLDER));
            Ok(Arc::new(Hosted::begin(folder)?))
        }
        CoordinatorAddress::Node(_) | CoordinatorAddress::Etcd(_) => Err(StartError::new(format!(
            "cannot start: the coordinator {address} cannot be reached"
        ))),
    }
}

/// The embedded coordinator on a thread of its own, so that it lives on whatever a server's other threads do.
struct Hosted {
    embedded: Embedded,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Hosted {
    /// Begins it with what the folder has; in memory without one.
    fn begin(folder: Option<PathBuf>) -> Result<Hosted, StartError> {
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
                let embedded = match folder {
                    Some(folder) => Embedded::open(&folder).map_err(|why| why.to_string()),
                    None => Ok(Embedded::in_memory()),
                };
                // The receiver is there until it has this.
                let _ = made.send(embedded);
                let _ = ends.await;
            });
        })?;
        let embedded = take.recv().map_err(|_| failed(&"its thread panicked"))?;
        let embedded = embedded.map_err(|why| failed(&why))?;
        Ok(Hosted { embedded, end: Some(end), thread: Some(thread) })
    }
}

impl Drop for Hosted {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread of the embedded coordinator panicked");
        }
    }
}

impl Coordinator for Hosted {
    fn read(&self) -> Reply<'_, Snapshot> {
        self.embedded.read()
    }

    fn transact<'a>(&'a self, transaction: &'a Transaction) -> Reply<'a, Outcome> {
        self.embedded.transact(transaction)
    }

    fn grant(&self, ttl: Duration) -> Reply<'_, Lease> {
        self.embedded.grant(ttl)
    }

    fn keep_alive(&self, lease: LeaseId) -> Reply<'_, ()> {
        self.embedded.keep_alive(lease)
    }

    fn revoke(&self, lease: LeaseId) -> Reply<'_, ()> {
        self.embedded.revoke(lease)
    }

    fn watch(&self, after: Revision) -> Reply<'_, Watch> {
        self.embedded.watch(after)
    }
}
