//! The shared state of the write-ahead log, and its effect on requests. The log's threads are in `hotring-server`'s
//! `tasks/write_log.rs`.
//!
//! A reply that depends on the log waits in its connection (`socket`) and must not block a thread. Writes are refused
//! while the log is in trouble, unless the settings let the server continue without the log.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Poll, Waker};

use hotring_log::{Log, Lsn, Trouble};

use crate::settings::config::{LogSettings, OnError};
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
    snapshots: Snapshots,
}

impl Durability {
    /// The state for a log without a server, for tests.
    #[cfg(feature = "testing")]
    pub fn of(log: Arc<Log>, snapshots: Snapshots) -> Durability {
        let parts = OnceLock::from(Parts { log, snapshots });
        Durability { parts, is_abandoned: AtomicBool::new(false) }
    }

    /// Sets the log and its snapshots, once the server has read the previous ones.
    pub fn begin(&self, log: Arc<Log>, snapshots: Snapshots) {
        let is_first = self.parts.set(Parts { log, snapshots }).is_ok();
        debug_assert!(is_first, "a server starts once");
    }

    /// Abandons the log; the server continues without it.
    pub fn abandon(&self) {
        // ORDERING: Relaxed, see `is_abandoned`.
        self.is_abandoned.store(true, Ordering::Relaxed);
    }

    /// Applies changed settings.
    pub fn change(&self, new: &LogSettings) {
        if let Some(log) = self.log() {
            log.set_when(new.when);
            log.set_unwritten_max(new.queue_max as u64);
        }
    }

    /// The snapshots, if there is a log.
    pub fn snapshots(&self) -> Option<&Snapshots> {
        Some(&self.parts.get()?.snapshots)
    }

    /// The log, if there is one.
    #[inline]
    pub fn log(&self) -> Option<&Arc<Log>> {
        Some(&self.parts.get()?.log)
    }

    /// Closes the log, which then writes and syncs the remaining records. No session may write afterwards.
    pub fn close(&self) {
        if let Some(Parts { log, snapshots }) = self.parts.get() {
            snapshots.close();
            log.close();
        }
    }

    /// Whether writes up to this record may be acknowledged.
    #[inline]
    pub fn has_reached(&self, lsn: Lsn) -> bool {
        self.log().is_none_or(|log| log.has_reached(lsn))
    }

    /// Ready once writes up to this record may be acknowledged, or with the reason why they must not be.
    pub fn poll_reached(&self, lsn: Lsn, waker: &Waker) -> Poll<Result<(), Trouble>> {
        let Some(log) = self.log() else { return Poll::Ready(Ok(())) };
        log.poll_reached(lsn, waker)
    }

    /// The reason why the log is not being written; None if it is.
    pub fn trouble(&self) -> Option<Trouble> {
        self.log()?.trouble()
    }

    /// Whether the log is not synced up to this record yet, but a sync is still possible.
    pub(crate) fn may_sync(&self, lsn: Lsn) -> bool {
        let may = |log: &Arc<Log>| log.trouble().is_none_or(|trouble| trouble.is_temporary);
        !self.is_abandoned() && self.log().is_some_and(|log| log.synced() < lsn && may(log))
    }

    /// Whether the queue of unwritten records is full: writes must wait.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.log().is_some_and(|log| log.is_full() && log.trouble().is_none())
    }

    /// The error of a write, if writes are refused.
    pub fn refuses(&self, settings: &LogSettings) -> Option<String> {
        let trouble = self.log()?.trouble()?;
        (settings.on_error == OnError::Stop && !self.is_abandoned()).then(|| refusal(&trouble))
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

/// The error reply to a write that cannot be logged. The code is Redis's, which clients know.
pub fn refusal(trouble: &Trouble) -> String {
    let end = match trouble.is_temporary {
        true => "it is tried again each second",
        false => "restart the server once the disk is in order",
    };
    format!("MISCONF Errors writing to the log: {trouble}. Writes are refused, reads work; {end}")
}
