//! The embedded coordinator: a keeper in this process, in memory or with a log of its own.
//!
//! A task owns the keeper and takes requests in the order in which they come, a batch at a time: it changes the
//! keeper, waits until the log has the batch, and only then answers and tells the watches. Reads wait with the batch,
//! so no reply shows what a power cut could undo.
//!
//! If the log fails, nothing of the batch is answered but [`Failure::Unknown`], the watches end, and the keeper is read
//! from the disk again, at most once a second, until that works.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hotring_cluster::coded::Coded;
use hotring_cluster::keeper::{Keeper, Refused, Step};
use hotring_log::storage::{Disk, Storage};
use tokio::sync::{mpsc, oneshot};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout_at};

use crate::log::{Log, OpenError};
use crate::{
    Changed, Coordinator, Failure, Lease, LeaseId, Outcome, Reply, Revision, Snapshot, Transaction,
    Watch,
};

/// Most requests that wait for the task, and so of a batch.
const QUEUE: usize = 64;

/// Most changes that a watch may be behind before it ends.
const WATCH_QUEUE: usize = 256;

/// Most watches: several of each node of a large cluster.
const WATCHES_MAX: usize = 16_384;

/// How long a failed log is left alone.
const RETRY: Duration = Duration::from_secs(1);

/// A lease that ends later than it should by this much shows that the whole process stood still.
const STALL: Duration = Duration::from_millis(500);

type Answer<T> = oneshot::Sender<Result<T, Failure>>;

enum Request {
    Read(Answer<Snapshot>),
    Transact(Transaction, Answer<Outcome>),
    Grant(Duration, Answer<Lease>),
    KeepAlive(LeaseId, Answer<()>),
    Revoke(LeaseId, Answer<()>),
    Watch(Revision, Answer<Watch>),
}

/// An answer that waits for the log. It is sent, or the failure instead.
type Waiting = Box<dyn FnOnce(Option<&Failure>) + Send>;

/// A coordinator in this process. Its clones are the same one, which ends with the last of them.
#[derive(Clone, Debug)]
pub struct Embedded {
    requests: mpsc::Sender<Request>,
}

impl Embedded {
    /// A coordinator that forgets everything at its end. Must be called within a runtime, which drives it.
    pub fn in_memory() -> Embedded {
        Embedded::start(fresh(), None)
    }

    /// The coordinator of a folder, which no other process may use. It is created if it does not exist. Must be called
    /// within a runtime, which drives it. Blocks while it reads the folder.
    pub fn open(folder: &Path) -> Result<Embedded, OpenError> {
        Embedded::on(Arc::new(Disk::open(folder)?))
    }

    /// The coordinator of a storage.
    pub(crate) fn on(storage: Arc<dyn Storage>) -> Result<Embedded, OpenError> {
        let (log, keeper) = Log::open(storage.clone(), Duration::ZERO, fresh(), random())?;
        Ok(Embedded::start(keeper, Some(Durable { storage, log: Ok(log) })))
    }

    fn start(keeper: Keeper, durable: Option<Durable>) -> Embedded {
        let (requests, waiting) = mpsc::channel(QUEUE);
        let told = keeper.revision();
        let start = Instant::now();
        let desk = Desk { keeper, durable, requests: waiting, watches: Vec::new(), told, start };
        tokio::spawn(desk.run());
        Embedded { requests }
    }

    async fn ask<T>(&self, request: impl FnOnce(Answer<T>) -> Request) -> Result<T, Failure> {
        let (answer, answered) = oneshot::channel();
        // A send fails, and an answer is dropped, only if the runtime has ended the task.
        let gone = || Failure::Unknown("it has ended with its server".to_owned());
        self.requests.send(request(answer)).await.map_err(|_| gone())?;
        answered.await.map_err(|_| gone())?
    }
}

impl Coordinator for Embedded {
    fn read(&self) -> Reply<'_, Snapshot> {
        Box::pin(self.ask(Request::Read))
    }

    fn transact<'a>(&'a self, transaction: &'a Transaction) -> Reply<'a, Outcome> {
        Box::pin(self.ask(|answer| Request::Transact(transaction.clone(), answer)))
    }

    fn grant(&self, ttl: Duration) -> Reply<'_, Lease> {
        Box::pin(self.ask(move |answer| Request::Grant(ttl, answer)))
    }

    fn keep_alive(&self, lease: LeaseId) -> Reply<'_, ()> {
        Box::pin(self.ask(move |answer| Request::KeepAlive(lease, answer)))
    }

    fn revoke(&self, lease: LeaseId) -> Reply<'_, ()> {
        Box::pin(self.ask(move |answer| Request::Revoke(lease, answer)))
    }

    fn watch(&self, after: Revision) -> Reply<'_, Watch> {
        Box::pin(self.ask(move |answer| Request::Watch(after, answer)))
    }
}

/// Random numbers, for the ids of files.
fn random() -> [u8; 16] {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the system gives random numbers");
    bytes
}

/// A keeper without records, whose leases have no numbers of an earlier one.
fn fresh() -> Keeper {
    let random = i64::read(&mut &random()[..]).expect("16 bytes hold a number");
    // Positive, with room for all that follow.
    Keeper::new((random & (i64::MAX >> 1)).max(1))
}

/// The log, or why it failed and when that was.
struct Durable {
    storage: Arc<dyn Storage>,
    log: Result<Log, (String, Instant)>,
}

/// The task's side.
struct Desk {
    keeper: Keeper,
    /// None in memory.
    durable: Option<Durable>,
    requests: mpsc::Receiver<Request>,
    watches: Vec<mpsc::Sender<Changed>>,
    /// The last revision that the watches have been told of.
    told: Revision,
    /// The zero of the keeper's time.
    start: Instant,
}

/// A batch while it is worked on.
#[derive(Default)]
struct Batch {
    /// The bytes of its steps.
    steps: Vec<u8>,
    waiting: Vec<Waiting>,
    watches: Vec<(Revision, Answer<Watch>)>,
}

impl Batch {
    fn answer<T: Send + 'static>(&mut self, to: Answer<T>, result: Result<T, Refused>) {
        let result = result.map_err(|Refused(why)| Failure::Refused(why));
        // A request that was given up has no receiver.
        let answer = move |failure: Option<&Failure>| {
            drop(to.send(failure.map_or(result, |failure| Err(failure.clone()))));
        };
        self.waiting.push(Box::new(answer));
    }
}

impl Desk {
    async fn run(mut self) {
        while let Some(requests) = self.next().await {
            let mut batch = Batch::default();
            match self.is_sound().await {
                Ok(()) => {
                    requests.into_iter().for_each(|request| self.take(request, &mut batch));
                    self.expire(&mut batch);
                    self.finish(batch).await;
                }
                Err(why) => {
                    requests.into_iter().for_each(|request| refuse(request, &why));
                }
            }
        }
    }

    /// The requests that are there, once there are any or a lease is over; None at the end.
    async fn next(&mut self) -> Option<Vec<Request>> {
        let mut requests = Vec::new();
        match self.keeper.next_end() {
            None => requests.push(self.requests.recv().await?),
            Some(end) => {
                if let Ok(first) = timeout_at(self.start + end, self.requests.recv()).await {
                    requests.push(first?);
                }
            }
        }
        // All of them: those that keep leases alive must come before the ends of leases.
        for _ in 0..self.requests.len() {
            requests.extend(self.requests.try_recv().ok());
        }
        Some(requests)
    }

    /// Opens a log that has failed, once it is time.
    async fn is_sound(&mut self) -> Result<(), Failure> {
        let Some(durable) = &mut self.durable else { return Ok(()) };
        let Err((why, failed)) = &durable.log else { return Ok(()) };
        let left = RETRY.saturating_sub(failed.elapsed());
        if left > Duration::ZERO {
            let why = Failure::Unknown(why.clone());
            // Leases that are over must not make the loop spin meanwhile.
            tokio::time::sleep(left.min(RETRY / 10)).await;
            return Err(why);
        }
        let (storage, now) = (durable.storage.clone(), self.start.elapsed());
        let opened = spawn_blocking(move || Log::open(storage, now, fresh(), random())).await;
        match opened {
            Ok(Ok((log, keeper))) => {
                durable.log = Ok(log);
                self.told = keeper.revision();
                self.keeper = keeper;
                Ok(())
            }
            Ok(Err(error)) => Err(self.fail(error.to_string())),
            Err(_) => Err(self.fail("its log was opened while the server ended".to_owned())),
        }
    }

    fn take(&mut self, request: Request, batch: &mut Batch) {
        let now = self.start.elapsed();
        match request {
            Request::Read(to) => batch.answer(to, Ok(self.keeper.read())),
            Request::Transact(transaction, to) => {
                let before = self.keeper.revision();
                let outcome = self.keeper.transact(&transaction);
                if self.keeper.revision() != before {
                    self.note(Step::Transact(transaction), batch);
                }
                batch.answer(to, outcome);
            }
            Request::Grant(ttl, to) => {
                let lease = self.keeper.grant(now, ttl);
                if let Ok(lease) = &lease {
                    self.note(Step::Grant(lease.ttl), batch);
                }
                batch.answer(to, lease);
            }
            // Not a change: a lease that is read from the log lives for its whole length.
            Request::KeepAlive(lease, to) => batch.answer(to, self.keeper.keep_alive(now, lease)),
            Request::Revoke(lease, to) => {
                let ended = self.keeper.revoke(lease);
                if ended.is_ok() {
                    self.note(Step::End(lease), batch);
                }
                batch.answer(to, ended);
            }
            Request::Watch(after, to) => batch.watches.push((after, to)),
        }
    }

    fn expire(&mut self, batch: &mut Batch) {
        let now = self.start.elapsed();
        if self.keeper.next_end().is_some_and(|end| now > end + STALL) {
            // The task was away, and what kept the leases alive meanwhile has not been read from the sockets.
            self.keeper.renew(now);
        }
        while let Some(lease) = self.keeper.expire(now) {
            self.note(Step::End(lease), batch);
        }
    }

    fn note(&self, step: Step, batch: &mut Batch) {
        if self.durable.is_some() {
            step.write(&mut batch.steps);
        }
    }

    /// Logs a batch, tells the watches, and answers it.
    async fn finish(&mut self, batch: Batch) {
        let logged = self.log(batch.steps).await;
        let logged = logged.map_err(|why| self.fail(why));
        if logged.is_ok() {
            self.tell();
        }
        batch.waiting.into_iter().for_each(|answer| answer(logged.as_ref().err()));
        for (after, to) in batch.watches {
            let watch = logged.clone().and_then(|()| self.watch(after));
            drop(to.send(watch));
        }
    }

    async fn log(&mut self, steps: Vec<u8>) -> Result<(), String> {
        let Some(durable) = &mut self.durable else { return Ok(()) };
        if steps.is_empty() {
            return Ok(());
        }
        let away = Err((String::new(), Instant::now()));
        let mut log = std::mem::replace(&mut durable.log, away).map_err(|(why, _)| why)?;
        let state = log.is_long().then(|| self.keeper.to_bytes());
        let written = spawn_blocking(move || match state {
            // The state holds the batch.
            Some(state) => log.replace(&state),
            None => log.append(&steps).map(|()| log),
        });
        let written =
            written.await.map_err(|_| "its log was written while the server ended".to_owned())?;
        let failed = |error| {
            format!("its log in {} failed: {error}; is the disk full?", durable.storage.location())
        };
        durable.log = Ok(written.map_err(failed)?);
        Ok(())
    }

    /// The changes of the keeper may not be on the disk: it must be read from there before its next answer.
    fn fail(&mut self, why: String) -> Failure {
        self.watches.clear();
        if let Some(durable) = &mut self.durable {
            durable.log = Err((why.clone(), Instant::now()));
        }
        Failure::Unknown(why)
    }

    fn watch(&mut self, after: Revision) -> Result<Watch, Failure> {
        self.watches.retain(|watch| !watch.is_closed());
        if self.watches.len() >= WATCHES_MAX {
            return Err(Failure::Refused(format!("it has {WATCHES_MAX} watches: end some nodes")));
        }
        let Ok(changes) = self.keeper.since(after) else {
            // Ended at once, so its owner reads everything.
            return Ok(mpsc::channel(1).1);
        };
        let missed: Vec<Changed> = changes.cloned().collect();
        let (sender, watch) = mpsc::channel(missed.len() + WATCH_QUEUE);
        missed.into_iter().for_each(|changed| drop(sender.try_send(changed)));
        self.watches.push(sender);
        Ok(watch)
    }

    /// Tells the watches of the batch.
    fn tell(&mut self) {
        match self.keeper.since(self.told) {
            Ok(changes) => changes.for_each(|changed| {
                // A watch whose owner is gone or too slow ends.
                self.watches.retain(|watch| watch.try_send(changed.clone()).is_ok());
            }),
            Err(_) => self.watches.clear(),
        }
        self.told = self.keeper.revision();
    }
}

fn refuse(request: Request, why: &Failure) {
    match request {
        Request::Read(to) => drop(to.send(Err(why.clone()))),
        Request::Transact(_, to) => drop(to.send(Err(why.clone()))),
        Request::Grant(_, to) => drop(to.send(Err(why.clone()))),
        Request::KeepAlive(_, to) | Request::Revoke(_, to) => drop(to.send(Err(why.clone()))),
        Request::Watch(_, to) => drop(to.send(Err(why.clone()))),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

    use hotring_log::storage::Memory;
    use hotring_log::storage::memory::{Cut, Step as DiskStep};

    use super::*;
    use crate::Change;

    fn run<T>(test: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(test)
    }

    fn on(storage: &Memory) -> Embedded {
        Embedded::on(Arc::new(storage.clone())).unwrap()
    }

    async fn set(it: &Embedded, value: u64, len: usize) -> Result<Outcome, Failure> {
        let mut text = value.to_string().into_bytes();
        text.resize(len.max(text.len()), b' ');
        let change = Change::Put { name: "n".into(), value: text, lease: None };
        it.transact(&Transaction { expect: vec![], changes: vec![change] }).await
    }

    /// The number in the record.
    fn value(snapshot: &Snapshot) -> u64 {
        let text = |value: &[u8]| String::from_utf8(value.to_vec()).unwrap();
        snapshot.records.first().map_or(0, |record| text(&record.value).trim().parse().unwrap())
    }

    fn found(storage: Memory) -> u64 {
        let log = Log::open(Arc::new(storage), Duration::ZERO, fresh(), [9; 16]);
        value(&log.expect("the log of any crash can be opened").1.read())
    }

    /// The disk without anything that was not synced.
    fn after_power_cut(storage: &Memory) -> Memory {
        storage.image(&Cut { kept: Vec::new(), torn: None })
    }

    #[test]
    fn no_crash_loses_what_was_acknowledged() {
        let storage = Memory::new();
        let (acknowledged, images) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicUsize::new(0)));
        let (known, tried) = (acknowledged.clone(), images.clone());
        storage.before_each(move |storage, step| {
            let known = known.load(Ordering::SeqCst);
            let cuts = storage.power_cuts(4, known);
            let after_cuts = cuts.iter().map(|cut| storage.image(cut));
            for image in after_cuts.chain([storage.killed()]) {
                let found = found(image);
                assert!(found >= known, "{found} instead of {known} after a crash at {step:?}");
                tried.fetch_add(1, Ordering::SeqCst);
            }
        });
        run(async {
            let it = on(&storage);
            for n in 1..=8 {
                // Long enough that the file is replaced several times.
                set(&it, n, 300_000).await.unwrap();
                acknowledged.store(n, Ordering::SeqCst);
                assert_eq!(found(after_power_cut(&storage)), n);
            }
            let names = storage.list().unwrap();
            assert!(names.iter().all(|name| !name.ends_with("00001.hrc")), "{names:?}");
        });
        assert!(images.load(Ordering::SeqCst) > 50);
    }

    #[test]
    fn a_disk_that_fails_leaves_outcomes_unknown_until_it_works() {
        use DiskStep::{Create, Rename, Sync, SyncDirectory, Write};
        let works_again = |step: DiskStep| {
            let storage = Memory::new();
            run(async {
                let it = on(&storage);
                set(&it, 1, 0).await.unwrap();
                let watch = it.watch(0).await.unwrap();
                storage.fail(step, 0, 1, std::io::ErrorKind::StorageFull);
                let mut seen = None;
                // A file is only created when the old one is long.
                for n in 2..20 {
                    match set(&it, n, 200_000).await {
                        Ok(_) => assert_eq!(value(&it.read().await.unwrap()), n),
                        Err(failure) => {
                            seen = Some((n, failure));
                            break;
                        }
                    }
                }
                let (n, failure) = seen.expect("the fault is seen");
                assert!(
                    matches!(&failure, Failure::Unknown(why) if why.contains("disk full")),
                    "{step:?}: {failure}"
                );
                assert!(it.read().await.is_err(), "{step:?}: what is not on the disk is not read");
                drop(watch);
                let snapshot = loop {
                    match it.read().await {
                        Ok(snapshot) => break snapshot,
                        Err(_) => tokio::time::sleep(RETRY / 10).await,
                    }
                };
                let now = value(&snapshot);
                assert!(now == n || now == n - 1, "{step:?}: {now} after {n} was unknown");
                assert_eq!(
                    found(after_power_cut(&storage)),
                    now,
                    "{step:?}: what is read is on the disk"
                );
                set(&it, 50, 0).await.unwrap();
                assert_eq!(found(after_power_cut(&storage)), 50, "{step:?}");
            });
        };
        // Side by side, since each waits for the next attempt.
        std::thread::scope(|scope| {
            for step in [Write, Sync, Create, Rename, SyncDirectory] {
                scope.spawn(move || works_again(step));
            }
        });
    }

    #[test]
    fn a_watch_ends_with_the_log() {
        let storage = Memory::new();
        run(async {
            let it = on(&storage);
            let mut watch = it.watch(0).await.unwrap();
            storage.fail(DiskStep::Sync, 0, 1, std::io::ErrorKind::Other);
            set(&it, 1, 0).await.unwrap_err();
            assert_eq!(watch.recv().await, None, "it saw what may be undone");
        });
    }
}
