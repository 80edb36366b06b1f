//! What the server does so that its data outlasts it: runs the threads that write the log, and says what becomes of
//! writes when that fails.
//!
//! A reply waits for the log in its connection (`socket`), not in a thread. A request that writes is refused while
//! the log is in trouble, unless the settings say that the server is to go on without.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Poll, Waker};
use std::thread::JoinHandle;

use crate::clock;
use crate::config::StartError;
use crate::run::spawn;
use crate::server::Server;
use crate::snapshots::{self, Saved, SnapshotSettings, Snapshots};
use hotring_log::{Id, Log, Lsn, Options, Recovered, Storage, Trouble, When, Writer};

/// What the threads are called that write the log and sync it.
const WRITER: &str = "hotring-log";
const SYNCER: &str = "hotring-sync";

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
    /// There once the log has been read, if there is one.
    parts: OnceLock<Parts>,
    /// It is written no more, and the server goes on without.
    is_abandoned: AtomicBool,
}

struct Parts {
    log: Arc<Log>,
    snapshots: Snapshots,
}

impl Durability {
    /// Of a log, without a server.
    #[cfg(test)]
    pub(crate) fn of(log: Arc<Log>, snapshots: Snapshots) -> Durability {
        let parts = OnceLock::from(Parts { log, snapshots });
        Durability { parts, is_abandoned: AtomicBool::new(false) }
    }

    /// Other settings are to hold.
    pub(crate) fn change(&self, new: &LogSettings) {
        if let Some(log) = self.log() {
            log.set_when(new.when);
            log.set_unwritten_max(new.queue_max as u64);
        }
    }

    /// The snapshots, if there is a log.
    pub(crate) fn snapshots(&self) -> Option<&Snapshots> {
        Some(&self.parts.get()?.snapshots)
    }

    /// The log, if there is one.
    #[inline]
    pub(crate) fn log(&self) -> Option<&Arc<Log>> {
        Some(&self.parts.get()?.log)
    }

    /// Nobody writes any more: what is still unwritten is to be written and synced.
    pub(crate) fn close(&self) {
        if let Some(Parts { log, snapshots }) = self.parts.get() {
            snapshots.close();
            log.close();
        }
    }

    /// Whether writes up to this record may be acknowledged.
    #[inline]
    pub(crate) fn has_reached(&self, lsn: Lsn) -> bool {
        self.log().is_none_or(|log| log.has_reached(lsn))
    }

    /// Ready once they may be, or with the reason why they must not be.
    pub(crate) fn poll_reached(&self, lsn: Lsn, waker: &Waker) -> Poll<Result<(), Trouble>> {
        let Some(log) = self.log() else { return Poll::Ready(Ok(())) };
        log.poll_reached(lsn, waker)
    }

    /// Why nothing is written at present, if so.
    pub(crate) fn trouble(&self) -> Option<Trouble> {
        self.log()?.trouble()
    }

    /// Whether the log is not synced up to this record yet, and may be one day.
    pub(crate) fn may_sync(&self, lsn: Lsn) -> bool {
        let may = |log: &Arc<Log>| log.trouble().is_none_or(|trouble| trouble.may_pass);
        !self.is_abandoned() && self.log().is_some_and(|log| log.synced() < lsn && may(log))
    }

    /// Whether more waits to be written than may: writes are to wait.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.log().is_some_and(|log| log.is_full() && log.trouble().is_none())
    }

    /// The error of a write, if writes are refused.
    pub(crate) fn refuses(&self, settings: &LogSettings) -> Option<String> {
        let trouble = self.log()?.trouble()?;
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

/// Goes on with the log behind what was recovered: starts the threads that write it and sync it, and that of snapshots,
/// of which it is told what there is. Writes are not logged yet. A disk that holds nothing gets the
/// id.
pub(crate) fn start(
    server: &Arc<Server>,
    disk: Arc<dyn Storage>,
    (recovered, saved): (Recovered, Saved),
    id: Id,
) -> Result<Vec<JoinHandle<()>>, StartError> {
    let settings = &server.config().log;
    let log = Log::new(recovered.last, settings.when, settings.queue_max as u64);
    let log = Arc::new(log);
    let id = recovered.id.unwrap_or(id);
    let options = Options { id, segment_len: settings.segment_len as u64 };
    let (writer, syncer) = Writer::new(log.clone(), disk.clone(), options, &recovered);
    server.store.set_log(log.clone());
    let snapshots = Snapshots::new(disk, id, log.clone(), saved);
    let is_first = server.durability.parts.set(Parts { log, snapshots }).is_ok();
    debug_assert!(is_first, "a server starts once");
    // What may have been changed meanwhile.
    let changing = server.lock_changing();
    server.durability.change(&server.config().log);
    drop(changing);
    let writing = server.clone();
    Ok(vec![
        spawn(WRITER, move || write(&writing, writer))?,
        spawn(SYNCER, move || {
            while syncer.wait() {
                syncer.step();
            }
        })?,
        snapshots::start(server)?,
    ])
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
        // It was given up, and is so until the server is started anew.
        (None, _) if server.durability.is_abandoned() => {}
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
