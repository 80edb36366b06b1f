//! The shared state of the write-ahead log, and its effect on requests. The log's threads are in `hotring-server`'s
//! `tasks/write_log.rs`.
//!
//! A reply that depends on the log waits in its connection (`socket`) and must not block a thread. Writes are refused
//! while the log has an error, unless the settings let the server continue without the log.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Poll, Waker};

use hotring_log::{AckWhen, Backlog, Log, LogError, Lsn};

use crate::settings::config::{LogSettings, OnError};
use crate::state::replication::NO_REPLICAS;
use crate::state::snapshots::Snapshots;

/// The write-ahead log, if there is one.
#[derive(Default)]
pub struct Durability {
    /// Set once the log has been read, if there is one.
    parts: OnceLock<Parts>,
    /// The log was abandoned, and the server continues without it.
    is_abandoned: AtomicBool,
}

struct Parts {
    log: Arc<Log>,
    backlog: Arc<Backlog>,
    /// None if the log has no files.
    snapshots: Option<Snapshots>,
}

impl Durability {
    /// The state for a log without a server, for tests.
    #[cfg(feature = "testing")]
    pub fn of(log: Arc<Log>, snapshots: Snapshots) -> Durability {
        let backlog = Arc::new(Backlog::new(0));
        let parts = OnceLock::from(Parts { log, backlog, snapshots: Some(snapshots) });
        Durability { parts, is_abandoned: AtomicBool::new(false) }
    }

    /// Sets the log, its latest records in memory, and its snapshots, once the server has read the previous ones. A log
    /// without files, which exists for replicas only, has no snapshots.
    pub fn begin(&self, log: Arc<Log>, backlog: Arc<Backlog>, snapshots: Option<Snapshots>) {
        let is_first = self.parts.set(Parts { log, backlog, snapshots }).is_ok();
        debug_assert!(is_first, "a server starts once");
    }

    /// Abandons the log; the server continues without it.
    pub fn abandon(&self) {
        // ORDERING: Relaxed, see `is_abandoned`.
        self.is_abandoned.store(true, Ordering::Relaxed);
    }

    /// Applies changed settings.
    pub fn change(&self, new: &LogSettings) {
        if let Some(log) = self.stream() {
            log.set_when(if new.is_on { new.when } else { AckWhen::Handed });
            log.set_unwritten_max(new.queue_max as u64);
        }
    }

    /// The snapshots, if there is a log.
    pub fn snapshots(&self) -> Option<&Snapshots> {
        self.parts.get()?.snapshots.as_ref()
    }

    /// The log, if there is one with files.
    #[inline]
    pub fn log(&self) -> Option<&Arc<Log>> {
        let parts = self.parts.get()?;
        parts.snapshots.as_ref().map(|_| &parts.log)
    }

    /// The stream of writes that replicas get: the log, with or without files. None until the data on disk is read.
    #[inline]
    pub fn stream(&self) -> Option<&Arc<Log>> {
        Some(&self.parts.get()?.log)
    }

    /// The latest records of the stream.
    pub fn backlog(&self) -> Option<&Arc<Backlog>> {
        Some(&self.parts.get()?.backlog)
    }

    /// Closes the log, which then writes and syncs the remaining records. No session may write afterwards.
    pub fn close(&self) {
        if let Some(Parts { log, snapshots, .. }) = self.parts.get() {
            snapshots.iter().for_each(Snapshots::close);
            log.close();
        }
    }

    /// Whether writes up to this record may be acknowledged.
    #[inline]
    pub fn has_reached(&self, lsn: Lsn) -> bool {
        self.stream().is_none_or(|log| log.has_reached(lsn))
    }

    /// Whether replies wait for replicas.
    pub fn awaits_replicas(&self) -> bool {
        self.stream().is_some_and(|log| log.replicated() != Lsn::MAX)
    }

    /// Ready once writes up to this record may be acknowledged, or with the reason why they must not be.
    pub fn poll_reached(&self, lsn: Lsn, waker: &Waker) -> Poll<Result<(), LogError>> {
        let Some(log) = self.stream() else { return Poll::Ready(Ok(())) };
        log.poll_reached(lsn, waker)
    }

    /// The reason why this record cannot be acknowledged at present, if any.
    pub fn error_for(&self, lsn: Lsn) -> Option<LogError> {
        self.stream()?.error_for(lsn)
    }

    /// The reason why the log is not being written; None if it is.
    pub fn error(&self) -> Option<LogError> {
        self.log()?.error()
    }

    /// Whether the log is not synced up to this record yet, but a sync is still possible.
    pub(crate) fn may_sync(&self, lsn: Lsn) -> bool {
        !self.is_abandoned() && self.log().is_some_and(|log| log.synced() < lsn && !log.is_lost())
    }

    /// Whether there is a log that cannot be written, for now or for good.
    pub fn is_failing(&self) -> bool {
        self.log().is_some_and(|log| log.error().is_some())
    }

    /// Whether the queue of unwritten records is full: writes must wait.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.stream().is_some_and(|log| log.is_full() && log.error().is_none())
    }

    /// The error of a write, if writes are refused.
    pub fn refuses(&self, settings: &LogSettings) -> Option<String> {
        let error = self.log()?.error()?;
        (settings.on_error == OnError::Stop && !self.is_abandoned()).then(|| refusal(&error))
    }

    /// Whether requests must be checked one by one, because some must wait or be refused.
    pub(crate) fn is_held_up(&self, settings: &LogSettings) -> bool {
        self.is_full() || self.refuses(settings).is_some()
    }

    /// Whether the log was abandoned.
    pub fn is_abandoned(&self) -> bool {
        // ORDERING: Relaxed; a thread that sees the flag a moment late refuses one more write.
        self.is_abandoned.load(Ordering::Relaxed)
    }
}

/// The error in place of replies that show a write that cannot be logged, or that replicas may lack. The code is
/// Redis's, which clients know.
pub fn refusal(error: &LogError) -> String {
    if error.of_replicas {
        return format!(
            "{NO_REPLICAS} The fate of a write that this reply shows is open: it was applied here"
        );
    }
    let end = match error.is_temporary {
        true => "it is tried again each second",
        false => "restart the server once the disk is in order",
    };
    format!("MISCONF Errors writing to the log: {error}. Writes are refused, reads work; {end}")
}
