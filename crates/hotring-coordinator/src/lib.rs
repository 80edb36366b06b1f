//! What keeps the records of a cluster: names, values, revisions, leases.
//!
//! The rules that all implementations follow:
//!
//! 1. A request that has no answer in time is [`Failure::Unknown`], never a refusal: it may have taken effect, or may
//!    yet.
//! 2. A revision is the coordinator's own number. It grows with each change and is compared, nothing else: it falls
//!    when the coordinator is restored from a backup.
//! 3. A lease detects a death. Nothing may be answered because a lease lives.
//! 4. A lease is kept alive only behind an answer: one whose owner is heard and hears nothing must end.
//! 5. A watch is a hint. When it ends, its owner reads everything and watches from there.

#![forbid(unsafe_code)]

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use tokio::sync::mpsc;

mod embedded;
mod etcd;
mod heard;
mod log;
mod protocol;
mod remote;
mod serve;
mod wait;

pub use embedded::Embedded;
pub use etcd::{BadAddress, Etcd, EtcdAddress, EtcdOptions};
pub use hotring_cluster::Revision;
pub use hotring_cluster::kept::{
    Change, Changed, Lease, LeaseId, Outcome, Record, Snapshot, Transaction,
};
pub use log::OpenError;
pub use protocol::PROTOCOL_VERSION;
pub use remote::{Remote, Stream};
pub use serve::serve;

/// Why a request has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// There was no answer: the request may have taken effect, or may yet.
    Unknown(String),
    /// The coordinator refused it, which a repetition will not change: a wrong password, or an unknown lease.
    Refused(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Unknown(why) => write!(f, "the coordinator does not answer: {why}"),
            Failure::Refused(why) => write!(f, "the coordinator refuses: {why}"),
        }
    }
}

impl std::error::Error for Failure {}

/// The result of a request, later.
pub type Reply<'a, T> = Pin<Box<dyn Future<Output = Result<T, Failure>> + Send + 'a>>;

/// Changes, in their order. The end of the channel is the end of the watch, for whatever reason.
pub type Watch = mpsc::Receiver<Changed>;

/// What keeps the records. Reads and transactions are linearizable.
pub trait Coordinator: Send + Sync + 'static {
    /// All records of the cluster.
    fn read(&self) -> Reply<'_, Snapshot>;

    /// Makes changes if the records are as expected.
    fn transact<'a>(&'a self, transaction: &'a Transaction) -> Reply<'a, Outcome>;

    /// Grants a lease of at least this length.
    fn grant(&self, ttl: Duration) -> Reply<'_, Lease>;

    /// Keeps a lease alive, once the coordinator has answered. [`Failure::Refused`] if it is over.
    fn keep_alive(&self, lease: LeaseId) -> Reply<'_, ()>;

    /// Ends a lease and removes the records under it.
    fn revoke(&self, lease: LeaseId) -> Reply<'_, ()>;

    /// Watches all records from the revision after this one. If changes since then are no longer there, or the
    /// coordinator has never been at this revision, the watch ends at once.
    fn watch(&self, after: Revision) -> Reply<'_, Watch>;
}
