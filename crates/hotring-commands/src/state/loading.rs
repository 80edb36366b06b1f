//! The stages of loading data from disk at the start: clients can connect at once, and the server serves more requests
//! as loading advances.
//!
//! ```text
//!   NOTHING   the hottest part of the snapshot is read, then the log     all requests with keys get -LOADING
//!   HOT       the rest of the snapshot is read                           loaded keys can be read
//!   ALL       everything is loaded, and writes are logged from now on
//! ```
//!
//! The store's `restore.rs` explains why a loaded key has its latest value before the rest is loaded.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hotring_protocol::ArgsView;
use hotring_store::Session;

use crate::host::clock;
use crate::table::{CommandId, Flags, Spec};

/// New connections wait up to this long for the end of the first stage, so that a quick start is invisible to clients.
const GRACE: Duration = Duration::from_millis(250);
const GRACE_STEP: Duration = Duration::from_millis(1);

/// The error of a request for keys that are not loaded yet. Clients know the code from Redis.
pub const LOADING: &str = "LOADING hotring is loading the dataset in memory";

/// The stage of loading.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// No key can be read.
    Nothing,
    /// Loaded keys can be read.
    Hot,
    /// Everything is loaded.
    All,
}

/// The progress of loading.
#[derive(Debug)]
pub struct Loading {
    stage: AtomicU8,
    /// The data is an unfinished copy of a primary's.
    is_copy: AtomicBool,
    /// The copies that have begun.
    copies: AtomicU64,
    /// Unix milliseconds.
    since: u64,
    /// Bytes of the snapshot, and the number of them that have been read.
    pub total: AtomicU64,
    pub read: AtomicU64,
    /// Records of the log that have been read.
    pub records: AtomicU64,
    /// The reason why the rest of the snapshot could not be read.
    failure: Mutex<Option<String>>,
}

/// The progress of loading at one moment, for INFO and the server's log.
#[derive(Clone, Copy, Debug)]
pub struct LoadingStatus {
    pub stage: Stage,
    /// Unix milliseconds.
    pub since: u64,
    pub total: u64,
    pub read: u64,
    pub records: u64,
}

impl LoadingStatus {
    /// The part of the snapshot that has been read, in percent.
    pub fn percent(&self) -> f64 {
        self.read as f64 * 100.0 / self.total.max(1) as f64
    }
}

impl Loading {
    /// The state at the start of a server; `is_due` if it has data to load.
    pub(crate) fn new(is_due: bool) -> Loading {
        let stage = if is_due { Stage::Nothing } else { Stage::All };
        Loading {
            stage: AtomicU8::new(stage as u8),
            is_copy: AtomicBool::new(false),
            copies: AtomicU64::new(0),
            since: clock::unix_ms(),
            total: AtomicU64::new(0),
            read: AtomicU64::new(0),
            records: AtomicU64::new(0),
            failure: Mutex::new(None),
        }
    }

    /// The current stage.
    pub fn stage(&self) -> Stage {
        // ORDERING: Acquire pairs with the Release in `reach`: the data that the stage promises is visible.
        match self.stage.load(Ordering::Acquire) {
            0 => Stage::Nothing,
            1 => Stage::Hot,
            _ => Stage::All,
        }
    }

    /// Whether loading is in progress.
    pub fn is_on(&self) -> bool {
        self.stage() != Stage::All
    }

    /// Waits up to 250 ms for the first stage to end.
    pub async fn grace(&self) {
        let begun = clock::monotonic();
        while self.stage() == Stage::Nothing && begun.elapsed() < GRACE {
            tokio::time::sleep(GRACE_STEP).await;
        }
    }

    /// Sets the stage.
    pub fn reach(&self, stage: Stage) {
        // ORDERING: Release, see `stage`.
        self.stage.store(stage as u8, Ordering::Release);
    }

    /// Begins to load a copy of a primary's data. It stays unfinished until [`end_copy`](Self::end_copy), even while
    /// the primary cannot be reached. All threads must [renew](crate::state::settings::Settings::renew) their settings
    /// before any data is dropped: what they read from then on is not answered.
    pub fn begin_copy(&self) {
        // ORDERING: Relaxed, ordered by `reach`.
        self.is_copy.store(true, Ordering::Relaxed);
        self.reach(Stage::Nothing);
        // ORDERING: Release pairs with the Acquire in `copies`: who sees the copy sees that data is loading.
        self.copies.fetch_add(1, Ordering::Release);
    }

    /// The number of copies that have begun. Replies to requests that began before the last of them may show a part
    /// of the data.
    pub(crate) fn copies(&self) -> u64 {
        // ORDERING: Acquire pairs with the Release in `begin_copy`.
        self.copies.load(Ordering::Acquire)
    }

    /// The copy is complete, or is to be used as it is.
    pub fn end_copy(&self) {
        // ORDERING: Relaxed, as above.
        self.is_copy.store(false, Ordering::Relaxed);
        self.reach(Stage::All);
    }

    /// Whether the data is an unfinished copy of a primary's.
    pub fn is_unfinished_copy(&self) -> bool {
        // ORDERING: Relaxed, as above.
        self.is_copy.load(Ordering::Relaxed)
    }

    /// The progress for INFO and the server's log.
    pub fn status(&self) -> LoadingStatus {
        // ORDERING: Relaxed, figures.
        let figure = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
        let [total, read, records] = [&self.total, &self.read, &self.records].map(figure);
        LoadingStatus { stage: self.stage(), since: self.since, total, read, records }
    }

    /// Records that the rest of the snapshot could not be read.
    pub fn fail(&self, why: String) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
    }

    /// The reason why loading has failed; None if it has not.
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether this request must be refused until more is loaded. `now` is the time at which the request would run: a
    /// key that has expired by then counts as absent, because some commands remove such a key, and the rest of the
    /// snapshot may hold an earlier version of it.
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
        // Only REPLICAOF can end an unfinished copy whose primary is gone.
        if self.is_unfinished_copy() && matches!(spec.id, CommandId::ReplicaOf | CommandId::SlaveOf)
        {
            return false;
        }
        let names_keys = spec.keys_of(args).next().is_some() || spec.id == CommandId::Debug;
        if spec.flags.contains(Flags::LOADING) && !names_keys {
            return false;
        }
        // Scripts may read undeclared keys.
        let is_read = spec.flags.contains(Flags::READONLY) && !spec.flags.contains(Flags::NOSCRIPT);
        !is_read || self.misses(spec.keys_of(args), store, now)
    }

    /// Whether a read of these keys must be refused, in either protocol.
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

/// Whether there are keys, and all of them are in the store. They stay there until everything is loaded.
fn has_all<'k>(store: &mut Session, keys: impl IntoIterator<Item = &'k [u8]>, now: u64) -> bool {
    let mut keys = keys.into_iter().peekable();
    keys.peek().is_some() && keys.all(|key| store.is_stored(key, now))
}
