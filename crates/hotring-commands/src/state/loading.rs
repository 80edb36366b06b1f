//! The start of a server that has data on its disk: clients are there already, and are answered by and by.
//!
//! ```text
//!   NOTHING   the hottest part of the snapshot is read, then the log     all that names keys gets -LOADING
//!   HOT       the rest of the snapshot is read                           keys that are there can be read
//!   ALL       it is done, and writes are logged from now on
//! ```
//!
//! Why a key that is there has its last value before the rest has been read: `restore.rs` of the store.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hotring_protocol::ArgsView;
use hotring_store::Session;

use crate::host::clock;
use crate::table::{CommandId, Flags, Spec};

/// If the first stage ends this soon, it is not reported: new connections wait that long.
const GRACE: Duration = Duration::from_millis(250);
const GRACE_STEP: Duration = Duration::from_millis(1);

/// What a request gets that asks for what is not there yet. Clients know the code from Redis.
pub const LOADING: &str = "LOADING hotring is loading the dataset in memory";

/// How far a start is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// No key can be asked for.
    Nothing,
    /// Keys that are there can be read.
    Hot,
    /// All is there.
    All,
}

/// What the server knows of its start.
#[derive(Debug)]
pub struct Loading {
    stage: AtomicU8,
    /// Unix milliseconds.
    since: u64,
    /// Bytes of the snapshot, and how many have been read.
    pub total: AtomicU64,
    pub read: AtomicU64,
    /// Records of the log that have been read.
    pub records: AtomicU64,
    /// Why the rest could not be read.
    failure: Mutex<Option<String>>,
}

/// What is told of a start.
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
    /// How much of the snapshot has been read.
    pub fn percent(&self) -> f64 {
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
    pub fn stage(&self) -> Stage {
        // ORDERING: Acquire pairs with the Release in `reach`: what the stage promises is seen.
        match self.stage.load(Ordering::Acquire) {
            0 => Stage::Nothing,
            1 => Stage::Hot,
            _ => Stage::All,
        }
    }

    /// Whether something is still missing.
    pub fn is_on(&self) -> bool {
        self.stage() != Stage::All
    }

    /// Waits until there is something to serve, but not long.
    pub async fn grace(&self) {
        let begun = clock::monotonic();
        while self.stage() == Stage::Nothing && begun.elapsed() < GRACE {
            tokio::time::sleep(GRACE_STEP).await;
        }
    }

    /// The start is this far.
    pub fn reach(&self, stage: Stage) {
        // ORDERING: Release, see `stage`.
        self.stage.store(stage as u8, Ordering::Release);
    }

    /// What INFO and people are told.
    pub fn status(&self) -> LoadingStatus {
        // ORDERING: Relaxed, figures.
        let figure = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
        let [total, read, records] = [&self.total, &self.read, &self.records].map(figure);
        LoadingStatus { stage: self.stage(), since: self.since, total, read, records }
    }

    /// The rest could not be read.
    pub fn fail(&self, why: String) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
    }

    /// Why the server has ended, if it could not be loaded.
    pub fn failure(&self) -> Option<String> {
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
