//! The start of a server that has data on its disk: clients are there already, and are answered by and by.
//!
//! ```text
//!   NOTHING   the hottest part of the snapshot is read, then the log     all that names keys gets -LOADING
//!   HOT       the rest of the snapshot is read                           keys that are there can be read
//!   ALL       it is done, and writes are logged from now on
//! ```
//!
//! Why a key that is there has its last value before the rest has been read: `restore.rs` of the store.

mod replay;
#[cfg(test)]
mod tests;

use std::error::Error;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use hotring_log::{ALL, Effect, HOTTEST, Id, Snapshot, Storage, clean, prune};
use hotring_protocol::{ArgsView, CommandId, Flags, Spec};
use hotring_store::{Ahead, Session, UnknownForm};

use crate::clock;
use crate::config::StartError;
use crate::durability;
use crate::run::spawn;
use crate::server::Server;
use crate::snapshots::Saved;

/// What the thread is called that reads the rest.
const THREAD: &str = "hotring-load";

/// How often people are told how far it is.
const TELL: Duration = Duration::from_secs(1);

/// If the first stage is over so soon, nobody is told of it: who connects waits as long.
const GRACE: Duration = Duration::from_millis(250);
const GRACE_STEP: Duration = Duration::from_millis(1);

/// What a request gets that asks for what is not there yet. Clients know the code from Redis.
pub(crate) const LOADING: &str = "LOADING hotring is loading the dataset in memory";

/// How far a start is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// No key can be asked for.
    Nothing,
    /// Keys that are there can be read.
    Hot,
    /// All is there.
    All,
}

/// What the server knows of its start.
#[derive(Debug)]
pub(crate) struct Loading {
    stage: AtomicU8,
    /// Unix milliseconds.
    since: u64,
    /// Bytes of the snapshot, and how many have been read.
    total: AtomicU64,
    read: AtomicU64,
    /// Records of the log that have been read.
    records: AtomicU64,
    /// Why the rest could not be read.
    failure: Mutex<Option<String>>,
}

/// What is told of a start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoadingStatus {
    pub stage: Stage,
    /// Unix milliseconds.
    pub since: u64,
    pub total: u64,
    pub read: u64,
    pub records: u64,
}

impl LoadingStatus {
    /// How much of the snapshot has been read.
    pub(crate) fn percent(&self) -> f64 {
        self.read as f64 * 100.0 / self.total.max(1) as f64
    }
}

impl Loading {
    /// Of a server that has something to load, or nothing.
    pub(crate) fn new(is_due: bool) -> Loading {
        let stage = if is_due { Stage::Nothing } else { Stage::All };
        Loading {
            stage: AtomicU8::new(stage as u8),
            since: clock::unix_ms(),
            total: AtomicU64::new(0),
            read: AtomicU64::new(0),
            records: AtomicU64::new(0),
            failure: Mutex::new(None),
        }
    }

    /// How far it is.
    pub(crate) fn stage(&self) -> Stage {
        // ORDERING: Acquire pairs with the Release in `reach`: what the stage promises is seen.
        match self.stage.load(Ordering::Acquire) {
            0 => Stage::Nothing,
            1 => Stage::Hot,
            _ => Stage::All,
        }
    }

    /// Whether something is still missing.
    pub(crate) fn is_on(&self) -> bool {
        self.stage() != Stage::All
    }

    /// Waits until there is something to serve, but not long.
    pub(crate) async fn grace(&self) {
        let begun = clock::monotonic();
        while self.stage() == Stage::Nothing && begun.elapsed() < GRACE {
            tokio::time::sleep(GRACE_STEP).await;
        }
    }

    fn reach(&self, stage: Stage) {
        // ORDERING: Release, see `stage`.
        self.stage.store(stage as u8, Ordering::Release);
    }

    /// What INFO and people are told.
    pub(crate) fn status(&self) -> LoadingStatus {
        // ORDERING: Relaxed, figures.
        let figure = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
        let [total, read, records] = [&self.total, &self.read, &self.records].map(figure);
        LoadingStatus { stage: self.stage(), since: self.since, total, read, records }
    }

    fn fail(&self, why: String) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
    }

    /// Why the server has ended, if it could not be loaded.
    pub(crate) fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether this request has to be refused for now. `now` is the time at which it would run: a key whose time is over
    /// by then counts as not there, as some commands remove it, and the rest may have an earlier version.
    #[cold]
    pub(crate) fn refuses(
        &self,
        spec: &Spec,
        args: ArgsView<'_>,
        store: &mut Session,
        now: u64,
    ) -> bool {
        if !self.is_on() {
            return false;
        }
        let names_keys = spec.keys_of(args).next().is_some() || spec.id == CommandId::Debug;
        if spec.flags.contains(Flags::LOADING) && !names_keys {
            return false;
        }
        // Scripts may read more than they say.
        let is_read = spec.flags.contains(Flags::READONLY) && !spec.flags.contains(Flags::NOSCRIPT);
        !is_read || self.misses(spec.keys_of(args), store, now)
    }

    /// Whether a read of these keys has to be refused, in any protocol.
    #[cold]
    pub(crate) fn misses<'k>(
        &self,
        keys: impl IntoIterator<Item = &'k [u8]>,
        store: &mut Session,
        now: u64,
    ) -> bool {
        match self.stage() {
            Stage::Nothing => true,
            Stage::Hot => !has_all(store, keys, now),
            Stage::All => false,
        }
    }
}

/// Whether there are keys, and all of them are in the store. They stay until all is loaded.
fn has_all<'k>(store: &mut Session, keys: impl IntoIterator<Item = &'k [u8]>, now: u64) -> bool {
    let mut keys = keys.into_iter().peekable();
    keys.peek().is_some() && keys.all(|key| store.is_stored(key, now))
}

/// Reads what must be there before anybody is answered, and starts the threads of the log. Another one reads the rest,
/// if there is any. They all are returned, none if the server ends before. A disk that holds nothing gets the id.
pub(crate) fn start(
    server: &Arc<Server>,
    disk: Arc<dyn Storage>,
    id: Id,
) -> Result<Vec<JoinHandle<()>>, StartError> {
    let failed = |why: &dyn Display| StartError::new(format!("cannot start with the log: {why}"));
    let hottest = hottest(server, &*disk).map_err(|why| failed(&why))?;
    let Some((recovered, snapshot, aheads)) = hottest else {
        tracing::info!("the server ends before its data is loaded");
        return Ok(Vec::new());
    };
    let (after, len) = snapshot.as_ref().map_or((0, 0), |s| (s.after(), s.len()));
    let saved = Saved { after, len, log: recovered.needed, log_since: 0 };
    let mut threads = durability::start(server, disk, (recovered, saved), id)?;
    let snapshot = snapshot.filter(|_| aheads.iter().any(|ahead| !ahead.is_over()));
    let Some(snapshot) = snapshot else {
        end(server);
        return Ok(threads);
    };
    server.loading.reach(Stage::Hot);
    let LoadingStatus { records, since, .. } = server.loading.status();
    let (keys, ms) = (server.store.len(), clock::unix_ms().saturating_sub(since));
    tracing::info!(keys, records, ms, "the hottest keys are served, the others are being loaded");
    let server = server.clone();
    threads.push(spawn(THREAD, move || {
        // What the panic has left behind is used no more.
        let work = AssertUnwindSafe(|| rest(&server, &snapshot, &aheads));
        let done = catch_unwind(work).unwrap_or_else(|_| Err("its thread panicked".into()));
        if let Err(error) = done {
            let failure = format!("cannot load the data: {error}");
            tracing::error!("{failure}");
            server.loading.fail(failure);
            server.stop();
        }
    })?);
    Ok(threads)
}

/// Reads what is not hot, unless the server ends.
fn rest(server: &Server, snapshot: &Snapshot, aheads: &[Ahead]) -> Result<(), Box<dyn Error>> {
    // Only now: who asks for what is hot has not waited for it.
    server.store.expect(snapshot.items(), || server.is_stopping());
    read_snapshot(server, snapshot, ALL, &|session, effects, now| {
        session.replay_rest(effects, now, aheads)
    })?;
    if !server.is_stopping() {
        end(server);
    }
    Ok(())
}

/// All is there: from here on writes are taken and logged.
fn end(server: &Server) {
    server.store.session().switch_log(true);
    server.loading.reach(Stage::All);
    server.renew();
    server.expirer.wake();
    let LoadingStatus { since, total, records, .. } = server.loading.status();
    let (keys, ms) = (server.store.len(), clock::unix_ms().saturating_sub(since));
    tracing::info!(keys, records, snapshot_bytes = total, ms, "all data is loaded");
}

type Hottest = (hotring_log::Recovered, Option<Snapshot>, Vec<Ahead>);

/// Has the store do what the hottest part of the newest snapshot says, and then the log. None if the server ends before
/// that is done.
fn hottest(server: &Server, disk: &dyn Storage) -> Result<Option<Hottest>, Box<dyn Error>> {
    if clean(disk)? > 0 {
        tracing::warn!("a snapshot was not finished before the server ended: it is taken away");
    }
    let snapshot = Snapshot::newest(disk)?;
    if let Some(snapshot) = &snapshot {
        // ORDERING: Relaxed, a figure.
        server.loading.total.store(snapshot.len(), Ordering::Relaxed);
        read_snapshot(server, snapshot, HOTTEST, &|session, effects, now| {
            effects.iter().try_for_each(|effect| session.replay(effect, now))
        })?;
    }
    if server.is_stopping() {
        return Ok(None);
    }
    let replayed = replay::replay(server, disk, snapshot.as_ref())?;
    let Some((recovered, aheads)) = replayed else { return Ok(None) };
    if recovered.cut > 0 {
        tracing::warn!(
            bytes = recovered.cut,
            "the log ended in the middle of a write, as after a crash: that end is cut off"
        );
    }
    // A crash may have come before that.
    prune(disk, snapshot.as_ref().map_or(0, Snapshot::after))?;
    Ok(Some((recovered, snapshot, aheads)))
}

/// What is done with items.
type Put<'a> = &'a (dyn Fn(&mut Session, &[Effect<'_>], u64) -> Result<(), UnknownForm> + Sync);

/// Reads a snapshot up to this class, by as many threads as there are cores. If the server ends, so does this.
fn read_snapshot(
    server: &Server,
    snapshot: &Snapshot,
    class: u8,
    put: Put<'_>,
) -> Result<(), Box<dyn Error>> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (done, all_done) = mpsc::channel::<()>();
    let read = std::thread::scope(|scope| {
        let work = || {
            let done = done.clone();
            scope.spawn(move || {
                let result = read_blocks(server, snapshot, class, put);
                drop(done);
                result
            })
        };
        let threads: Vec<_> = (0..threads).map(|_| work()).collect();
        drop(done);
        while all_done.recv_timeout(TELL) == Err(mpsc::RecvTimeoutError::Timeout) {
            let percent = server.loading.status().percent() as u64;
            tracing::info!(percent, keys = server.store.len(), "reading the snapshot");
        }
        let results = threads.into_iter().map(|thread| thread.join().expect("reading panicked"));
        results.collect::<Vec<_>>().into_iter().collect::<Result<(), _>>()
    });
    read.map_err(|error| -> Box<dyn Error> { error })
}

fn read_blocks(
    server: &Server,
    snapshot: &Snapshot,
    class: u8,
    put: Put<'_>,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let (mut session, now) = (server.store.session(), clock::unix_ms());
    let (mut buffer, mut unknown) = (Vec::new(), None);
    while !server.is_stopping() {
        let mut apply = |effects: &[Effect<'_>]| {
            if let Err(form) = put(&mut session, effects, now) {
                unknown.get_or_insert(form);
            }
        };
        let Some(len) = snapshot.read_block(class, &mut buffer, &mut apply)? else { break };
        if let Some(form) = unknown {
            return Err(format!("{}: {form}", snapshot.name()).into());
        }
        // ORDERING: Relaxed, a figure.
        server.loading.read.fetch_add(len, Ordering::Relaxed);
    }
    Ok(())
}
