//! What keeps the records of a cluster: names, values, revisions, leases.
//!
//! The rules that all implementations follow:
//!
//! 1. A request that has no answer in time is [`Failure::Unknown`], never a refusal: it may have taken effect, or may
//!    yet.
//! 2. A revision is the coordinator's own number. It grows with each change and is compared, nothing else: it falls
//!    when the coordinator is restored from a backup.
//! 3. A lease detects a death. Nothing may be answered because a lease lives.
//! 4. A watch is a hint. When it ends, its owner reads everything and watches from there.

#![forbid(unsafe_code)]

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use tokio::sync::mpsc;

pub use hotring_cluster::Revision;

/// The number of a lease.
pub type LeaseId = i64;

/// A record with the revision of its last change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The name, without the cluster's prefix.
    pub name: String,
    /// The revision of its last change.
    pub revision: Revision,
    /// The value.
    pub value: Vec<u8>,
}

/// All records of a cluster at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The revision of the moment.
    pub revision: Revision,
    /// The records in the order of their names.
    pub records: Vec<Record>,
}

/// A change of one record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Writes a record, which ends with the lease if there is one.
    Put {
        /// The name.
        name: String,
        /// The value.
        value: Vec<u8>,
        /// The lease under which it exists.
        lease: Option<LeaseId>,
    },
    /// Removes a record.
    Delete {
        /// The name.
        name: String,
    },
}

/// If all these records have these revisions, all these changes are made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    /// Names with the revisions that they must have; 0 if there must be no such record.
    pub expect: Vec<(String, Revision)>,
    /// The changes.
    pub changes: Vec<Change>,
}

/// What became of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is through, at this revision.
    Done(Revision),
    /// A record had another revision: it did not take effect and never will.
    Conflict,
}

/// A lease as the coordinator granted it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Its number.
    pub id: LeaseId,
    /// How long it lives without being kept alive; perhaps longer than asked for.
    pub ttl: Duration,
}

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

/// What a watch saw of one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// The revision.
    pub revision: Revision,
    /// The names with their new values; none for a record that is gone.
    pub records: Vec<(String, Option<Vec<u8>>)>,
}

/// What keeps the records. Reads and transactions are linearizable.
pub trait Coordinator: Send + Sync + 'static {
    /// All records of the cluster.
    fn read(&self) -> Reply<'_, Snapshot>;

    /// Makes changes if the records are as expected.
    fn transact<'a>(&'a self, transaction: &'a Transaction) -> Reply<'a, Outcome>;

    /// Grants a lease of at least this length.
    fn grant(&self, ttl: Duration) -> Reply<'_, Lease>;

    /// Keeps a lease alive. [`Failure::Refused`] if it is over.
    fn keep_alive(&self, lease: LeaseId) -> Reply<'_, ()>;

    /// Ends a lease and removes the records under it.
    fn revoke(&self, lease: LeaseId) -> Reply<'_, ()>;

    /// Watches all records from the revision after this one.
    fn watch(&self, after: Revision) -> Reply<'_, Watch>;
}
