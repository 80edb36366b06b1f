//! What the server does so that its data outlasts it: reads the log at the start, runs the threads that write it, and
//! says what becomes of writes when that fails.
//!
//! A reply waits for the log in its connection (`socket`), not in a thread. A request that writes is refused while
//! the log is in trouble, unless the settings say that the server is to go on without.

use std::error::Error;
use std::fmt::Display;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Waker};
use std::thread::JoinHandle;
use std::time::Duration;

use hotring_log::{
    Id, Log, Lsn, Options, Recovered, Storage, Syncer, Trouble, When, Writer, prune, recover_behind,
};
use hotring_store::Store;

use crate::clock;
use crate::config::StartError;
use crate::run::spawn;
use crate::server::Server;
use crate::snapshots::{self, SnapshotSettings, Snapshots};

/// What the threads are called that write the log and sync it.
const WRITER: &str = "hotring-log";
const SYNCER: &str = "hotring-sync";

/// How often people are told how far reading has come, and after how many records the clock is asked for that.
const TELL: Duration = Duration::from_secs(1);
const LOOK_RECORDS: u64 = 1 << 14;

/// The settings of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSettings {
    /// Whether there is one.
    pub is_on: bool,
    /// When a write is acknowledged.
    pub when: When,
    /// The folder of its files.
    pub data: PathBuf,
    /// Length of a file at which the next begins, in bytes.
    pub segment_len: usize,
    /// Bytes that may wait to be written, before writes have to wait.
    pub queue_max: usize,
    /// What becomes of writes when nothing can be logged.
    pub on_error: OnError,
    /// How and when snapshots are written.
    pub snapshots: SnapshotSettings,
}

/// What becomes of writes when nothing can be logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnError {
    /// They are refused.
    Stop,
    /// They go on, and are lost when the server ends.
    Continue,
}

impl Default for LogSettings {
    fn default() -> Self {
        LogSettings {
            is_on: false,
            when: When::Written,
            data: PathBuf::from("hotring-data"),
            segment_len: 64 << 20,
            queue_max: 64 << 20,
            on_error: OnError::Stop,
            snapshots: SnapshotSettings::default(),
        }
    }
}

impl LogSettings {
    /// When writes are acknowledged, as the setting has it.
    pub(crate) fn name(&self) -> &'static str {
        match self.when {
            _ if !self.is_on => "off",
            When::Handed => "async",
            When::Written => "everysec",
            When::Synced => "sync",
        }
    }

    /// Whether they may come after these while the server runs.
    pub(crate) fn check_after(&self, old: &LogSettings) -> Result<(), String> {
        if old.is_on != self.is_on {
            return Err("a log can be begun or ended at the start of the server only".to_string());
        }
        self.check()
    }

    /// Whether they go together.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self.is_on || self.snapshots.points.is_empty() {
            true => Ok(()),
            false => Err("save asks for snapshots, which need a log: set log everysec".to_string()),
        }
    }
}

/// What the server knows of its log.
#[derive(Default)]
pub(crate) struct Durability {
    log: Option<Arc<Log>>,
    snapshots: Option<Snapshots>,
    /// It is written no more, and the server goes on without.
    is_abandoned: AtomicBool,
}

impl Durability {
    /// Reads what the disk holds into the store, which is empty, and goes on from there. A disk that holds nothing
    /// gets the id.
    pub(crate) fn open(
        settings: &LogSettings,
        disk: Arc<dyn Storage>,
        store: &Store,
        id: Id,
    ) -> Result<(Durability, (Writer, Syncer)), StartError> {
        let failed =
            |why: &dyn Display| StartError::new(format!("cannot start with the log: {why}"));
        let (recovered, after) = load(&*disk, store).map_err(|why| failed(&why))?;
        let log = Log::new(recovered.last, settings.when, settings.queue_max as u64);
        let log = Arc::new(log);
        let id = recovered.id.unwrap_or(id);
        let options = Options { id, segment_len: settings.segment_len as u64 };
        let work = Writer::new(log.clone(), disk.clone(), options, &recovered);
        store.set_log(log.clone());
        let snapshots = Some(Snapshots::new(disk, id, log.clone(), after));
        Ok((Durability { log: Some(log), snapshots, ..Durability::default() }, work))
    }

    /// Other settings are to hold.
    pub(crate) fn change(&self, new: &LogSettings) {
        if let Some(log) = &self.log {
            log.set_when(new.when);
            log.set_unwritten_max(new.queue_max as u64);
        }
    }

    /// The snapshots, if there is a log.
    pub(crate) fn snapshots(&self) -> Option<&Snapshots> {
        self.snapshots.as_ref()
    }

    /// The log, if there is one.
    pub(crate) fn log(&self) -> Option<&Arc<Log>> {
        self.log.as_ref()
    }

    /// Nobody writes any more: what is still unwritten is to be written and synced.
    pub(crate) fn close(&self) {
        if let Some(snapshots) = &self.snapshots {
            snapshots.close();
        }
        if let Some(log) = &self.log {
            log.close();
        }
    }

    /// Whether writes up to this record may be acknowledged.
    #[inline]
    pub(crate) fn has_reached(&self, lsn: Lsn) -> bool {
        self.log.as_ref().is_none_or(|log| log.has_reached(lsn))
    }

    /// Ready once they may be, or with the reason why they must not be.
    pub(crate) fn poll_reached(&self, lsn: Lsn, waker: &Waker) -> Poll<Result<(), Trouble>> {
        let Some(log) = &self.log else { return Poll::Ready(Ok(())) };
        log.poll_reached(lsn, waker)
    }

    /// Whether more waits to be written than may: writes are to wait.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.log.as_ref().is_some_and(|log| log.is_full() && log.trouble().is_none())
    }

    /// The error of a write, if writes are refused.
    pub(crate) fn refuses(&self, settings: &LogSettings) -> Option<String> {
        let trouble = self.log.as_ref()?.trouble()?;
        (settings.on_error == OnError::Stop && !self.is_abandoned()).then(|| refusal(&trouble))
    }

    /// Whether requests have to be looked at one by one, as some may have to wait or are refused.
    pub(crate) fn is_held_up(&self, settings: &LogSettings) -> bool {
        self.is_full() || self.refuses(settings).is_some()
    }

    /// Whether the log is written no more and writes are taken all the same.
    pub(crate) fn is_abandoned(&self) -> bool {
        // ORDERING: Relaxed; who finds it false a moment too late refuses a write more.
        self.is_abandoned.load(Ordering::Relaxed)
    }
}

/// The error of a write that is not logged. Clients know the code from Redis.
pub(crate) fn refusal(trouble: &Trouble) -> String {
    let end = match trouble.may_pass {
        true => "it is tried again each second",
        false => "the server has to be started anew once the disk is in order",
    };
    format!("MISCONF Errors writing to the log: {trouble}. Writes are refused, reads work; {end}")
}

/// Has the store do what the newest snapshot and the log say. Returns the record behind which the log goes on with the
/// snapshot, too.
fn load(storage: &dyn Storage, store: &Store) -> Result<(Recovered, Lsn), Box<dyn Error>> {
    let snapshot = snapshots::load(storage, store)?;
    let (after, end) = snapshot.as_ref().map_or((0, 0), |s| (s.after(), s.end()));
    let started = clock::monotonic();
    let mut session = store.session();
    let now = clock::unix_ms();
    let (mut unknown, mut told) = (None, started);
    let id = snapshot.map(|snapshot| snapshot.id());
    let recovered = recover_behind(storage, id, (after + 1, end), &mut |lsn, effects| {
        for effect in effects {
            if let Err(form) = session.replay(effect, now) {
                unknown.get_or_insert(form);
            }
        }
        if lsn.is_multiple_of(LOOK_RECORDS) && told.elapsed() >= TELL {
            told = clock::monotonic();
            tracing::info!(records = lsn - after, keys = store.len(), "reading the log");
        }
    })?;
    if let Some(form) = unknown {
        return Err(form.into());
    }
    if recovered.cut > 0 {
        tracing::warn!(
            bytes = recovered.cut,
            "the log ended in the middle of a write, as after a crash: that end is cut off"
        );
    }
    tracing::info!(
        records = recovered.records,
        bytes = recovered.bytes,
        keys = store.len(),
        seconds = started.elapsed().as_secs_f64(),
        "the log is read"
    );
    // A crash may have come before that.
    prune(storage, after)?;
    Ok((recovered, after))
}

/// Starts the threads that write the log and sync it. From here on writes are logged.
pub(crate) fn start(
    server: &Arc<Server>,
    (writer, syncer): (Writer, Syncer),
) -> Result<Vec<JoinHandle<()>>, StartError> {
    let writing = server.clone();
    let threads = vec![
        spawn(WRITER, move || write(&writing, writer))?,
        spawn(SYNCER, move || {
            while syncer.wait() {
                syncer.step();
            }
        })?,
        snapshots::start(server)?,
    ];
    server.store.session().switch_log(true);
    Ok(threads)
}

/// Writes the log until it is closed.
fn write(server: &Server, mut writer: Writer) {
    let log = server.durability.log().expect("there is a writer");
    let (mut was_full, mut known) = (false, None);
    let started = clock::monotonic();
    while writer.step(started.elapsed()) {
        let trouble = log.trouble();
        // Who changes what is to be done about it wants that done.
        let todo = trouble.is_some().then(|| server.config().log.on_error);
        if todo != known {
            known = todo;
            tell(server, trouble.as_ref());
        }
        let is_full = server.durability.is_full();
        if is_full != was_full {
            was_full = is_full;
            server.renew();
        }
        writer.wait();
    }
    let lost = log.handed() - log.written();
    if lost > 0 {
        tracing::error!(
            records = lost,
            "the last writes are not in the log: it could not be written to the end"
        );
    }
}

/// Says that there is trouble, or that it has passed, to people and to the threads.
fn tell(server: &Server, trouble: Option<&Trouble>) {
    match (trouble, server.config().log.on_error) {
        (None, _) => tracing::warn!("the log is written again: writes are taken"),
        (Some(trouble), OnError::Stop) => tracing::error!("{}", refusal(trouble)),
        (Some(trouble), OnError::Continue) => {
            tracing::error!(
                "the log can't be written: {trouble}. log-on-error is continue: from now on writes are \
                 lost when the server ends, until it is started anew"
            );
            server.store.session().switch_log(false);
            // ORDERING: Relaxed, see `is_abandoned`.
            server.durability.is_abandoned.store(true, Ordering::Relaxed);
        }
    }
    server.renew();
}
