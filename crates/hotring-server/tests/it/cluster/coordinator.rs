//! A coordinator on a thread of its own, and the doors by which nodes reach it. A door can be shut.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use hotring_cluster::Revision;
use hotring_cluster::directory::{Directory, SLOT_TABLE};
use hotring_coordinator::{
    Coordinator, Embedded, Failure, Lease, LeaseId, Outcome, Reply, Snapshot, Transaction, Watch,
};
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};

/// The coordinator.
pub struct Keeper {
    embedded: Embedded,
    runtime: Runtime,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    pub fn new() -> Keeper {
        let (made, take) = std::sync::mpsc::channel();
        let (end, ends) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                made.send(Embedded::in_memory()).unwrap();
                let _ = ends.await;
            });
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let embedded = take.recv().unwrap();
        Keeper { embedded, runtime, end: Some(end), thread: Some(thread) }
    }

    pub fn door(&self) -> Door {
        Door(Arc::new(Shut {
            embedded: self.embedded.clone(),
            is_shut: Arc::default(),
            panics: AtomicBool::default(),
            loses: AtomicBool::default(),
            are_late: Arc::default(),
            before: Mutex::default(),
            at_commit: Mutex::default(),
            commits: Arc::default(),
            granted: Mutex::default(),
        }))
    }

    pub fn directory(&self) -> Directory {
        let snapshot = self.runtime.block_on(self.embedded.read()).unwrap();
        let records = snapshot.records.iter();
        let records = records.map(|record| (&record.name[..], record.revision, &record.value[..]));
        Directory::read(records).unwrap()
    }

    /// Whether a lease lives; it then lives for its whole length again.
    pub fn keeps(&self, lease: LeaseId) -> bool {
        self.runtime.block_on(self.embedded.keep_alive(lease)).is_ok()
    }

    pub fn transact(&self, transaction: Transaction) -> Result<Outcome, Failure> {
        self.runtime.block_on(self.embedded.transact(&transaction))
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The way of one node to the coordinator.
pub struct Door(Arc<Shut>);

impl Door {
    /// From here on the node gets no answer, and its watches end.
    pub fn shut(&self) {
        // ORDERING: Relaxed, nothing else is read through it.
        self.0.is_shut.store(true, Ordering::Relaxed);
    }

    pub fn open(&self) {
        // ORDERING: Relaxed, as above.
        self.0.is_shut.store(false, Ordering::Relaxed);
    }

    /// The node's next transaction ends in a panic.
    pub fn panic_once(&self) {
        // ORDERING: Relaxed, as above.
        self.0.panics.store(true, Ordering::Relaxed);
    }

    /// The node's next transaction takes effect without an answer.
    pub fn lose_answer_once(&self) {
        // ORDERING: Relaxed, as above.
        self.0.loses.store(true, Ordering::Relaxed);
    }

    /// From here on, or no longer, the node's watches show nothing.
    pub fn delay_watches(&self, are_late: bool) {
        // ORDERING: Relaxed, as above.
        self.0.are_late.store(are_late, Ordering::Relaxed);
    }

    /// This transaction comes just before the node's next change of a shard's record.
    pub fn before_next_claim(&self, transaction: Transaction) {
        *self.0.before.lock().unwrap() = Some(transaction);
    }

    /// This becomes of the node's next change of the table of slots.
    pub fn at_next_commit(&self, at_commit: AtCommit) {
        *self.0.at_commit.lock().unwrap() = Some(at_commit);
    }

    /// How many changes of the table of slots the node has sent.
    pub fn commits(&self) -> usize {
        // ORDERING: Relaxed, as above.
        self.0.commits.load(Ordering::Relaxed)
    }

    /// The leases that the node got.
    pub fn granted(&self) -> Vec<LeaseId> {
        self.0.granted.lock().unwrap().clone()
    }

    pub fn coordinator(&self) -> Arc<dyn Coordinator> {
        self.0.clone()
    }
}

/// What becomes of a change of the table of slots.
#[derive(Clone, Copy, Debug)]
pub enum AtCommit {
    /// It takes effect, and its answer is lost.
    Lost,
    /// It has no answer, and takes effect some time later.
    Late,
    /// It ends in a panic of the node's thread.
    Panics,
    /// Its answer never comes, and it never takes effect.
    Before,
    /// Its answer never comes, and it takes effect.
    Behind,
}

struct Shut {
    embedded: Embedded,
    is_shut: Arc<AtomicBool>,
    panics: AtomicBool,
    loses: AtomicBool,
    are_late: Arc<AtomicBool>,
    before: Mutex<Option<Transaction>>,
    at_commit: Mutex<Option<AtCommit>>,
    commits: Arc<AtomicUsize>,
    granted: Mutex<Vec<LeaseId>>,
}

impl Shut {
    fn is_shut(&self) -> bool {
        // ORDERING: Relaxed, as above.
        self.is_shut.load(Ordering::Relaxed)
    }

    fn pass<'a, T: Send + 'a>(&'a self, reply: Reply<'a, T>) -> Reply<'a, T> {
        Box::pin(async move {
            match self.is_shut() {
                true => Err(Failure::Unknown("the door is shut".to_string())),
                false => reply.await,
            }
        })
    }
}

/// Passes changes on while the door is open.
async fn pass_on(
    door: Arc<AtomicBool>,
    are_late: Arc<AtomicBool>,
    mut from: Watch,
    to: mpsc::Sender<hotring_coordinator::Changed>,
) {
    loop {
        // ORDERING: Relaxed, as above.
        if door.load(Ordering::Relaxed) || to.is_closed() {
            return;
        }
        // ORDERING: Relaxed, as above.
        if are_late.load(Ordering::Relaxed) {
            tokio::time::sleep(Duration::from_millis(5)).await;
            continue;
        }
        match tokio::time::timeout(Duration::from_millis(20), from.recv()).await {
            Ok(Some(changed)) => drop(to.send(changed).await),
            Ok(None) => return,
            Err(_) => {}
        }
    }
}

impl Coordinator for Shut {
    fn read(&self) -> Reply<'_, Snapshot> {
        self.pass(self.embedded.read())
    }

    fn transact<'a>(&'a self, transaction: &'a Transaction) -> Reply<'a, Outcome> {
        // ORDERING: Relaxed, as above.
        assert!(!self.panics.swap(false, Ordering::Relaxed), "the planted panic");
        // ORDERING: Relaxed, as above.
        let loses = self.loses.swap(false, Ordering::Relaxed);
        let mut changes = transaction.changes.iter();
        let claims = changes.any(|change| change.name().starts_with("shards/"));
        let before = claims.then(|| self.before.lock().unwrap().take()).flatten();
        let mut changes = transaction.changes.iter();
        let mut at_commit = None;
        if changes.any(|change| change.name() == SLOT_TABLE) {
            // ORDERING: Relaxed, as above.
            self.commits.fetch_add(1, Ordering::Relaxed);
            at_commit = self.at_commit.lock().unwrap().take();
        }
        let done = self.pass(self.embedded.transact(transaction));
        Box::pin(async move {
            let unknown = || Err(Failure::Unknown("the answer is lost".to_string()));
            match at_commit {
                None => {}
                Some(AtCommit::Lost) => {
                    done.await?;
                    return unknown();
                }
                Some(AtCommit::Late) => {
                    let (embedded, transaction) = (self.embedded.clone(), transaction.clone());
                    std::thread::spawn(move || {
                        std::thread::sleep(Duration::from_millis(150));
                        let runtime = tokio::runtime::Builder::new_current_thread();
                        let runtime = { runtime }.enable_all().build().unwrap();
                        let _ = runtime.block_on(embedded.transact(&transaction));
                    });
                    return unknown();
                }
                Some(AtCommit::Panics) => panic!("the planted panic"),
                Some(AtCommit::Before) => return std::future::pending().await,
                Some(AtCommit::Behind) => {
                    done.await?;
                    return std::future::pending().await;
                }
            }
            if let Some(before) = before {
                self.embedded.transact(&before).await?;
            }
            match done.await {
                Ok(_) if loses => Err(Failure::Unknown("the answer is lost".to_string())),
                done => done,
            }
        })
    }

    fn grant(&self, ttl: Duration) -> Reply<'_, Lease> {
        let granted = self.pass(self.embedded.grant(ttl));
        Box::pin(async move {
            let lease = granted.await?;
            self.granted.lock().unwrap().push(lease.id);
            Ok(lease)
        })
    }

    fn keep_alive(&self, lease: LeaseId) -> Reply<'_, ()> {
        self.pass(self.embedded.keep_alive(lease))
    }

    fn revoke(&self, lease: LeaseId) -> Reply<'_, ()> {
        self.pass(self.embedded.revoke(lease))
    }

    fn watch(&self, after: Revision) -> Reply<'_, Watch> {
        Box::pin(async move {
            let from = self.pass(self.embedded.watch(after)).await?;
            let (to, watch) = mpsc::channel(16);
            tokio::spawn(pass_on(self.is_shut.clone(), self.are_late.clone(), from, to));
            Ok(watch)
        })
    }
}
