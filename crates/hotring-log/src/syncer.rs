//! Syncing of written files.
//!
//! If writes are acknowledged once they are synced, the writer syncs each group. Otherwise
//! [`Syncer`] does so every second on its own thread, while the writer goes on. When the oldest
//! unsynced bytes are [`OVERDUE`] old the writer waits, so that a power cut never loses more.
//!
//! Only one sync may run at a time: if two syncs wait for the same failed write, the system reports
//! the error to only one of them.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::log::{AckWhen, Log, LogError};
use crate::manifest::Manifest;
use crate::record::Lsn;
use crate::segment::Id;
use crate::storage::{File, Storage};

/// Time between two syncs.
const EACH: Duration = Duration::from_secs(1);

/// The age of unsynced bytes at which the writer waits: the sync is two seconds late.
pub(crate) const OVERDUE: Duration = Duration::from_secs(3);

/// Bytes written since the last sync.
pub(crate) struct Unsynced {
    log: Arc<Log>,
    storage: Arc<dyn Storage>,
    id: Id,
    state: Mutex<State>,
    /// Held while syncing.
    turn: Mutex<()>,
    /// Signals changes of `is_sync_requested` and `closed`.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    files: Vec<Arc<dyn File>>,
    /// Names in the directory have changed.
    directory: bool,
    /// The first record of the newest segment, if the manifest does not include it yet.
    begun: Option<Lsn>,
    /// The last record that was written.
    last: Lsn,
    /// When the oldest unsynced byte was written.
    since: Option<Duration>,
    /// The same for the sync under way.
    syncing: Option<Duration>,
    /// A sync was requested: the syncer must not wait for the next second.
    is_sync_requested: bool,
    closed: bool,
}

impl State {
    fn add(&mut self, file: &Arc<dyn File>) {
        if !self.files.last().is_some_and(|known| Arc::ptr_eq(known, file)) {
            self.files.push(file.clone());
        }
    }
}

impl Unsynced {
    pub(crate) fn new(log: Arc<Log>, storage: Arc<dyn Storage>, id: Id) -> Unsynced {
        let state = Mutex::new(State { last: log.synced(), ..State::default() });
        Unsynced { log, storage, id, state, turn: Mutex::new(()), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code panics while it changes the state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The names in the directory have changed.
    pub(crate) fn directory_changed(&self) {
        self.state().directory = true;
    }

    /// Records that a segment was begun with this record.
    pub(crate) fn begun(&self, first: Lsn) {
        self.state().begun = Some(first);
    }

    /// Records that everything up to `last` was written to this file.
    pub(crate) fn wrote(&self, file: &Arc<dyn File>, last: Lsn, now: Duration) {
        let mut state = self.state();
        // Together: a sync takes the file and the number at once.
        state.add(file);
        state.last = last;
        state.since.get_or_insert(now);
    }

    /// Records a change of this file by a failed write: the file must be synced before later writes
    /// count as synced.
    pub(crate) fn touched(&self, file: &Arc<dyn File>) {
        self.state().add(file);
    }

    /// Whether bytes have been unsynced for too long.
    pub(crate) fn is_overdue(&self, now: Duration) -> bool {
        let state = self.state();
        let oldest = state.syncing.or(state.since);
        oldest.is_some_and(|since| now.saturating_sub(since) >= OVERDUE)
    }

    /// Syncs everything written, after the sync under way. A failure is permanent.
    pub(crate) fn sync(&self) {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        if self.log.is_lost() {
            return;
        }
        let (files, directory, last, begun) = {
            let mut state = self.state();
            state.syncing = state.since.take();
            let directory = std::mem::take(&mut state.directory);
            let last = state.last;
            let begun = state.begun.take_if(|first| *first <= last);
            (std::mem::take(&mut state.files), directory, last, begun)
        };
        if files.is_empty() && !directory && begun.is_none() {
            return;
        }
        let result = self.sync_these(&files, directory).and_then(|()| self.vouch(begun, last));
        self.state().syncing = None;
        match result {
            Ok(()) => self.log.set_synced(last),
            Err(error) => {
                self.log.set_error(Some(error));
                // The writer's owner checks for an error after each step, so this wakes the writer
                // for one.
                self.log.sync_soon();
            }
        }
    }

    fn sync_these(&self, files: &[Arc<dyn File>], directory: bool) -> Result<(), LogError> {
        let lasting = |operation| {
            move |error| LogError {
                operation,
                source: Arc::new(error),
                is_temporary: false,
                of_replicas: false,
            }
        };
        files.iter().try_for_each(|file| file.sync()).map_err(lasting("syncing the log"))?;
        if directory {
            self.storage.sync().map_err(lasting("syncing the log's directory"))?;
        }
        Ok(())
    }

    /// Updates the manifest for a segment with synced records. On a full disk the update is left to
    /// the next sync: the records are safe, and only the loss of the entire segment would go
    /// unnoticed until then.
    fn vouch(&self, begun: Option<Lsn>, synced: Lsn) -> Result<(), LogError> {
        let Some(first) = begun else { return Ok(()) };
        let written = Manifest { id: self.id, synced }.write(&*self.storage);
        match written.map_err(LogError::during("writing the log's manifest")) {
            Err(error) if error.is_temporary => {
                self.state().begun.get_or_insert(first);
                Ok(())
            }
            written => written,
        }
    }

    /// Forgets all files, because the log starts over behind this record. `remove` runs while no sync does.
    pub(crate) fn restart<R>(&self, last: Lsn, remove: impl FnOnce() -> R) -> R {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = self.state();
        let (is_sync_requested, closed) = (state.is_sync_requested, state.closed);
        *state = State { last, is_sync_requested, closed, ..State::default() };
        drop(state);
        remove()
    }

    /// Declares that nothing more will be written.
    pub(crate) fn close(&self) {
        self.state().closed = true;
        self.changed.notify_all();
    }

    /// Makes the syncer sync at once.
    pub(crate) fn wish(&self) {
        self.state().is_sync_requested = true;
        self.changed.notify_all();
    }
}

/// Syncs each second if writes are acknowledged before they are synced. Runs on a thread of the
/// owner: `while syncer.wait() { syncer.step() }`.
pub struct Syncer {
    pub(crate) unsynced: Arc<Unsynced>,
}

impl Syncer {
    /// Waits for a second, or until a sync is requested. False once the writer has ended.
    pub fn wait(&self) -> bool {
        let goes_on = |state: &mut State| !state.closed && !state.is_sync_requested;
        let state = self.unsynced.state();
        let waited = self.unsynced.changed.wait_timeout_while(state, EACH, goes_on);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        state.is_sync_requested = false;
        !state.closed
    }

    /// Syncs, unless the writer does.
    pub fn step(&self) {
        if self.unsynced.log.when() != AckWhen::Synced {
            self.unsynced.sync();
        }
    }
}
