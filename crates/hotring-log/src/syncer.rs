//! Syncing: what was written and is not synced yet, and who sees to it.
//!
//! Where writes are acknowledged once they are synced, the writer syncs each group. Otherwise [`Syncer`] does, each
//! second, on a thread of its own, and the writer goes on writing meanwhile. The writer steps in when the oldest
//! bytes are [`OVERDUE`] old: it waits then, and what a power cut may take grows no further.
//!
//! One sync at a time: of two that wait for the same failed write, the system tells only one.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::log::{Log, Trouble, When};
use crate::manifest::Manifest;
use crate::record::Lsn;
use crate::segment::Id;
use crate::storage::{File, Storage};

/// How often files are synced.
const EACH: Duration = Duration::from_secs(1);

/// The age at which unsynced bytes hold up the writer: a sync has been due for two seconds.
pub(crate) const OVERDUE: Duration = Duration::from_secs(3);

/// What was written since the last sync.
pub(crate) struct Unsynced {
    log: Arc<Log>,
    storage: Arc<dyn Storage>,
    id: Id,
    state: Mutex<State>,
    /// Held by who syncs.
    turn: Mutex<()>,
    /// Of `wished` and `closed`.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    files: Vec<Arc<dyn File>>,
    /// Names have changed.
    directory: bool,
    /// The first record of the newest segment, if the manifest does not know of that yet.
    begun: Option<Lsn>,
    /// The last record that was written.
    last: Lsn,
    /// When the oldest of it was written.
    since: Option<Duration>,
    /// The same of what is being synced.
    syncing: Option<Duration>,
    /// The syncer is not to wait for its time.
    wished: bool,
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
        // Nothing panics between its changes.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The names in the directory have changed.
    pub(crate) fn directory_changed(&self) {
        self.state().directory = true;
    }

    /// A segment is there whose first record is this one.
    pub(crate) fn begun(&self, first: Lsn) {
        self.state().begun = Some(first);
    }

    /// Records up to `last` were written to this file.
    pub(crate) fn wrote(&self, file: &Arc<dyn File>, last: Lsn, now: Duration) {
        let mut state = self.state();
        // At once: who takes the file to sync it takes the number, too.
        state.add(file);
        state.last = last;
        state.since.get_or_insert(now);
    }

    /// This file was changed by what came to nothing: it is synced before what is written later counts as synced.
    pub(crate) fn touched(&self, file: &Arc<dyn File>) {
        self.state().add(file);
    }

    /// Whether something has been unsynced for too long.
    pub(crate) fn is_overdue(&self, now: Duration) -> bool {
        let state = self.state();
        let oldest = state.syncing.or(state.since);
        oldest.is_some_and(|since| now.saturating_sub(since) >= OVERDUE)
    }

    /// Syncs everything that was written, after the sync that is under way. A failure is for good.
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
            Ok(()) => self.log.has_synced(last),
            Err(trouble) => {
                self.log.set_trouble(Some(trouble));
                // The writer's owner looks for trouble behind each step, and it may be long until there is one.
                self.log.sync_soon();
            }
        }
    }

    fn sync_these(&self, files: &[Arc<dyn File>], directory: bool) -> Result<(), Trouble> {
        let lasting = |what| move |error| Trouble { what, error: Arc::new(error), may_pass: false };
        files.iter().try_for_each(|file| file.sync()).map_err(lasting("syncing the log"))?;
        if directory {
            self.storage.sync().map_err(lasting("syncing the log's directory"))?;
        }
        Ok(())
    }

    /// Has the manifest know of a segment that has synced records. For want of room that is done without until the next
    /// sync: what is written is safe, only its loss as a whole file would not be noticed.
    fn vouch(&self, begun: Option<Lsn>, synced: Lsn) -> Result<(), Trouble> {
        let Some(first) = begun else { return Ok(()) };
        let written = Manifest { id: self.id, synced }.write(&*self.storage);
        match written.map_err(Trouble::during("writing the log's manifest")) {
            Err(trouble) if trouble.may_pass => {
                self.state().begun.get_or_insert(first);
                Ok(())
            }
            written => written,
        }
    }

    /// There will be nothing more to sync.
    pub(crate) fn close(&self) {
        self.state().closed = true;
        self.changed.notify_all();
    }

    /// Has the syncer sync at once.
    pub(crate) fn wish(&self) {
        self.state().wished = true;
        self.changed.notify_all();
    }
}

/// Syncs each second where writes are acknowledged before. A thread of the owner's:
/// `while syncer.wait() { syncer.step() }`.
pub struct Syncer {
    pub(crate) unsynced: Arc<Unsynced>,
}

impl Syncer {
    /// Waits for a second, or until somebody wants all to be synced. False once the writer has ended.
    pub fn wait(&self) -> bool {
        let goes_on = |state: &mut State| !state.closed && !state.wished;
        let state = self.unsynced.state();
        let waited = self.unsynced.changed.wait_timeout_while(state, EACH, goes_on);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        state.wished = false;
        !state.closed
    }

    /// Syncs what there is, unless the writer does that by itself.
    pub fn step(&self) {
        if self.unsynced.log.when() != When::Synced {
            self.unsynced.sync();
        }
    }
}
