//! Snapshots: who may ask for one, when one is due, the thread that writes it, what is told of it. They are read in
//! [`crate::loading`].
//!
//! The thread walks through the store as any client does, a part at a time, and writes between two parts; nobody waits
//! for it but at one moment, when all writers leave the gate so that it is known up to where the log has what was met.
//! What a snapshot is and when it counts, `hotring_log`'s `snapshot.rs` says.

use std::error::Error;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hotring_log::{Id, Log, Lsn, SnapshotWriter, Storage, clean};
use hotring_store::SnapshotWalk;

use crate::clock;
use crate::config::StartError;
use crate::hot_keys::hottest;
use crate::run::spawn;
use crate::server::Server;

/// What the thread is called that writes snapshots, and its session.
const THREAD: &str = "hotring-save";

/// Keys that HOTKEYS knows and that come first.
const HOTTEST_MAX: usize = 1024;

/// How often it is looked whether a snapshot is due, or whether the log is far enough.
const LOOK: Duration = Duration::from_millis(500);
const LOOK_AT_LOG: Duration = Duration::from_millis(5);

/// After a failure the schedule waits so long, as Redis's does.
const RETRY: Duration = Duration::from_secs(5);

/// The settings of snapshots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotSettings {
    /// Bytes written in a second, at most; 0 for no limit.
    pub rate: usize,
    /// When one is due; never if there is none.
    pub points: Vec<SavePoint>,
}

/// A snapshot is due so long after the last one, if there have been so many changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavePoint {
    /// The time.
    pub seconds: u64,
    /// The changes.
    pub changes: u64,
}

impl Default for SnapshotSettings {
    fn default() -> Self {
        SnapshotSettings { rate: 256 << 20, points: Vec::new() }
    }
}

/// The snapshots of a server that has a log.
pub(crate) struct Snapshots {
    storage: Arc<dyn Storage>,
    id: Id,
    log: Arc<Log>,
    state: Mutex<State>,
    wake: Condvar,
}

struct State {
    /// How many have been asked for, begun, ended.
    wanted: u64,
    begun: u64,
    ended: u64,
    /// When the one began that is being written.
    since: Option<Instant>,
    /// How much of it there is, from 0 to 1.
    progress: f64,
    /// How long the last one took, or why it failed.
    last: Option<Result<Duration, String>>,
    last_ended: Instant,
    /// When the last one was whole, in Unix milliseconds.
    saved_at: Option<u64>,
    saved: Instant,
    /// The record behind which the log goes on with it.
    after: Lsn,
    is_closed: bool,
}

/// What is told of snapshots.
#[derive(Clone, Debug)]
pub(crate) struct SnapshotStatus {
    /// How long it has been under way.
    pub running: Option<Duration>,
    /// From 0 to 1.
    pub progress: f64,
    /// How long the last one took, or why it failed.
    pub last: Option<Result<Duration, String>>,
    /// When the last one was whole, in Unix milliseconds.
    pub saved_at: Option<u64>,
    /// Records since.
    pub changes: u64,
}

impl Snapshots {
    /// Those that are to be beside this log; the last one, if any, goes on behind the record `after`.
    pub(crate) fn new(storage: Arc<dyn Storage>, id: Id, log: Arc<Log>, after: Lsn) -> Snapshots {
        let now = clock::monotonic();
        let state = State {
            wanted: 0,
            begun: 0,
            ended: 0,
            since: None,
            progress: 0.0,
            last: None,
            last_ended: now,
            saved_at: None,
            saved: now,
            after,
            is_closed: false,
        };
        Snapshots { storage, id, log, state: Mutex::new(state), wake: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics between its changes.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for a snapshot, and returns its number. None if there is one already that is asked for or under way.
    pub(crate) fn ask(&self) -> Option<u64> {
        let mut state = self.state();
        if state.wanted > state.ended {
            return None;
        }
        state.wanted += 1;
        self.wake.notify_all();
        Some(state.wanted)
    }

    /// The same, behind the one that is under way if there is one.
    pub(crate) fn ask_for_next(&self) -> u64 {
        let mut state = self.state();
        state.wanted = state.begun + 1;
        self.wake.notify_all();
        state.wanted
    }

    /// How the snapshot of this number ended, if it has.
    pub(crate) fn ended(&self, number: u64) -> Option<Result<(), String>> {
        let state = self.state();
        let is_over = state.ended >= number || state.is_closed;
        is_over.then(|| match &state.last {
            _ if state.ended < number => Err("the server ends".to_string()),
            Some(Err(why)) => Err(why.clone()),
            _ => Ok(()),
        })
    }

    /// How things are.
    pub(crate) fn status(&self) -> SnapshotStatus {
        let state = self.state();
        let (now, handed) = (clock::monotonic(), self.log.handed());
        SnapshotStatus {
            running: match state.since {
                Some(since) => Some(now.saturating_duration_since(since)),
                // It has been asked for.
                None => (state.wanted > state.ended).then_some(Duration::ZERO),
            },
            progress: state.progress,
            last: state.last.clone(),
            saved_at: state.saved_at,
            changes: handed.saturating_sub(state.after),
        }
    }

    /// The server ends: a snapshot that is not whole is given up.
    pub(crate) fn close(&self) {
        self.state().is_closed = true;
        self.wake.notify_all();
    }

    /// Waits until a snapshot is to be written. False if the server ends.
    fn wait(&self, server: &Server) -> bool {
        loop {
            let config = server.config();
            let mut state = self.state();
            if state.is_closed {
                return false;
            }
            let may_be_due = state.wanted == state.begun && !server.loading.is_on();
            if may_be_due && self.is_due(&state, &config.log.snapshots.points) {
                state.wanted += 1;
            }
            if state.wanted > state.begun {
                state.begun += 1;
                (state.since, state.progress) = (Some(clock::monotonic()), 0.0);
                return true;
            }
            drop(self.wake.wait_timeout(state, LOOK));
        }
    }

    fn is_due(&self, state: &State, points: &[SavePoint]) -> bool {
        let (now, changes) = (clock::monotonic(), self.log.handed().saturating_sub(state.after));
        let has_failed = matches!(state.last, Some(Err(_)));
        if has_failed && now.saturating_duration_since(state.last_ended) < RETRY {
            return false;
        }
        let seconds = now.saturating_duration_since(state.saved).as_secs();
        points.iter().any(|point| seconds >= point.seconds && changes >= point.changes.max(1))
    }

    /// Waits for `time`, shorter if something happens. An error if the server ends.
    fn rest(&self, time: Duration) -> Result<(), Box<dyn Error>> {
        let state = self.state();
        if state.is_closed {
            return Err("the server ends".into());
        }
        drop(self.wake.wait_timeout(state, time));
        Ok(())
    }

    /// Writes a snapshot.
    fn write(&self, server: &Server) -> Result<Lsn, Box<dyn Error>> {
        if let Some(trouble) = self.log.trouble() {
            return Err(trouble.into());
        }
        if server.loading.is_on() {
            return Err("what was there before is still being loaded".into());
        }
        let started = clock::monotonic();
        let mut session = server.store.session_named(THREAD);
        session.set_noted(false);
        if !session.is_logged() {
            return Err("writes are not logged any more".into());
        }
        // Of one before that could not take its own away.
        clean(&*self.storage)?;
        // Asked for before the position is taken, so that what is before it can go.
        self.log.begin_segment();
        let after = session.log_position().ok_or("there is no log")?;
        let mut writer = SnapshotWriter::create(self.storage.clone(), self.id, after)?;
        let hot = hottest(&server.threads, clock::unix_ms(), HOTTEST_MAX, |_| true);
        let mut walk = SnapshotWalk::new(hot.into_iter().map(|hot| hot.key).collect());
        while walk.step(&mut session, &mut writer)? {
            let keys = server.store.len().max(1) as f64;
            self.state().progress = (walk.met() as f64 / keys).min(1.0);
            self.keep_rate(server.config().log.snapshots.rate, started, writer.written())?;
        }
        let end = session.log_end().ok_or("writes are not logged any more")?;
        drop(session);
        let finished = writer.finish(end)?;
        self.log.sync_soon();
        while self.log.synced() < finished.end() {
            if let Some(trouble) = self.log.trouble() {
                return Err(trouble.into());
            }
            self.rest(LOOK_AT_LOG)?;
        }
        let (items, bytes) = (finished.items(), finished.len());
        let removed = finished.publish(self.log.synced())?;
        let seconds = started.elapsed().as_secs_f64();
        tracing::info!(items, bytes, seconds, removed, "a snapshot is written");
        Ok(after)
    }

    /// Rests until so many bytes may have been written.
    fn keep_rate(&self, rate: usize, started: Instant, written: u64) -> Result<(), Box<dyn Error>> {
        if rate == 0 {
            return self.rest(Duration::ZERO);
        }
        let due = Duration::from_secs_f64(written as f64 / rate as f64);
        loop {
            let early = due.saturating_sub(started.elapsed());
            // A wake-up is no reason to write.
            self.rest(early)?;
            if early.is_zero() {
                return Ok(());
            }
        }
    }

    fn end(&self, result: Result<Lsn, Box<dyn Error>>) {
        let mut state = self.state();
        let now = clock::monotonic();
        let took = state.since.take().map_or(Duration::ZERO, |since| now - since);
        (state.ended, state.last_ended, state.progress) = (state.begun, now, 0.0);
        state.last = Some(match result {
            Ok(after) => {
                (state.saved_at, state.saved, state.after) = (Some(clock::unix_ms()), now, after);
                Ok(took)
            }
            Err(error) => {
                if !state.is_closed {
                    tracing::error!("a snapshot failed, and the log stays as it is: {error}");
                }
                Err(error.to_string())
            }
        });
    }
}

/// Starts the thread that writes snapshots.
pub(crate) fn start(server: &Arc<Server>) -> Result<JoinHandle<()>, StartError> {
    let server = server.clone();
    spawn(THREAD, move || {
        let snapshots = server.durability.snapshots().expect("there is a log");
        while snapshots.wait(&server) {
            snapshots.end(snapshots.write(&server));
        }
    })
}
