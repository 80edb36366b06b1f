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

/// Keys of the list of hot keys that come first.
const HOTTEST_MAX: usize = 1024;

/// How often it is looked whether a snapshot is due, or whether the log is far enough.
const LOOK: Duration = Duration::from_millis(500);
const LOOK_AT_LOG: Duration = Duration::from_millis(5);

/// After a failure the schedule waits so long, as Redis's does.
const RETRY: Duration = Duration::from_secs(5);

/// After one of a log that has become long, so long.
const RETRY_LENGTH: Duration = Duration::from_secs(120);

/// The settings of snapshots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotSettings {
    /// Bytes written in a second, at most; 0 for no limit.
    pub rate: usize,
    /// When one is due; never if there is none.
    pub points: Vec<SavePoint>,
    /// One is due, too, if the log since the last one is longer than so many percent of that; never if this is 0.
    pub log_percent: u64,
    /// Bytes of the log below which it is not.
    pub log_min: usize,
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
        let (rate, log_min) = (256 << 20, 64 << 20);
        SnapshotSettings { rate, points: Vec::new(), log_percent: 100, log_min }
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
    saved_files: Saved,
    /// The snapshot behind which the server is to end.
    ends: Option<u64>,
    is_closed: bool,
}

/// What is on the disk.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Saved {
    /// The record behind which the log goes on with the last snapshot.
    pub after: Lsn,
    /// Bytes of that snapshot.
    pub len: u64,
    /// Bytes of the log behind it when there were `Log::length` bytes less than now: what was found at the start.
    pub log: u64,
    /// `Log::length` when the snapshot was begun.
    pub log_since: u64,
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
    /// Bytes of the last one.
    pub len: u64,
    /// Bytes of the log since.
    pub log_len: u64,
}

impl Snapshots {
    /// Those that are to be beside this log, and what there is.
    pub(crate) fn new(storage: Arc<dyn Storage>, id: Id, log: Arc<Log>, saved: Saved) -> Snapshots {
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
            saved_files: saved,
            ends: None,
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
            changes: handed.saturating_sub(state.saved_files.after),
            len: state.saved_files.len,
            log_len: self.log_len(&state),
        }
    }

    /// Bytes of the log behind the last snapshot.
    fn log_len(&self, state: &State) -> u64 {
        let Saved { log, log_since, .. } = state.saved_files;
        log + self.log.length().saturating_sub(log_since)
    }

    /// Asks for a snapshot of all that is written by now, and has the server end once it is there; not if it fails.
    /// Returns its number. Who asks for it a second time gets the same one: what was written since is in the log.
    pub(crate) fn ask_and_end(&self) -> u64 {
        let mut state = self.state();
        // One that is under way may be without what was written since it began.
        let next = state.begun + 1;
        let number = *state.ends.get_or_insert(next);
        state.wanted = state.wanted.max(number);
        self.wake.notify_all();
        number
    }

    /// Takes that back. False if there was nothing to take back.
    pub(crate) fn do_not_end(&self) -> bool {
        self.state().ends.take().is_some()
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
            let may_be_due = state.wanted == state.begun
                && !server.loading.is_on()
                && !server.durability.is_abandoned()
                && self.log.trouble().is_none();
            if may_be_due && self.is_due(&state, &config.log.snapshots) {
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

    fn is_due(&self, state: &State, settings: &SnapshotSettings) -> bool {
        let Saved { after, len, .. } = state.saved_files;
        let (now, changes) = (clock::monotonic(), self.log.handed().saturating_sub(after));
        let has_failed = matches!(state.last, Some(Err(_)));
        if has_failed && now.saturating_duration_since(state.last_ended) < RETRY {
            return false;
        }
        let SnapshotSettings { log_percent, log_min, ref points, .. } = *settings;
        let log_max = len.saturating_mul(log_percent) / 100;
        // Each try takes room that the log may need.
        let is_soon = has_failed && now.saturating_duration_since(state.last_ended) < RETRY_LENGTH;
        if log_percent > 0
            && changes > 0
            && !is_soon
            && self.log_len(state) > log_max.max(log_min as u64)
        {
            return true;
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
    fn write(&self, server: &Server) -> Result<Saved, Box<dyn Error>> {
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
        // It is there before the position is taken, so that what is before can go.
        self.log.begin_segment();
        while self.log.wants_segment() {
            self.rest(LOOK_AT_LOG)?;
        }
        if let Some(trouble) = self.log.trouble() {
            return Err(trouble.into());
        }
        let log_since = self.log.length();
        let after = session.log_position().ok_or("there is no log")?;
        let mut writer = SnapshotWriter::create(self.storage.clone(), self.id, after)?;
        let hot = hottest(&server.threads, clock::unix_ms(), HOTTEST_MAX, |_| true);
        let mut walk = SnapshotWalk::new(hot.into_iter().map(|hot| hot.key).collect());
        let mut pace = Pace::new(server);
        while walk.step(&mut session, &mut writer)? {
            let keys = server.store.len().max(1) as f64;
            self.state().progress = (walk.met() as f64 / keys).min(1.0);
            pace.keep(self, server, writer.written())?;
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
        Ok(Saved { after, len: bytes, log: 0, log_since })
    }

    fn end(&self, server: &Server, result: Result<Saved, Box<dyn Error>>) {
        let mut state = self.state();
        let begun = state.begun;
        let ends = state.ends.take_if(|number| *number <= begun).is_some();
        if ends && result.is_ok() {
            // Those who wait see that when they see the snapshot, and not before: they look under the same lock.
            server.stop();
        }
        let now = clock::monotonic();
        let took = state.since.take().map_or(Duration::ZERO, |since| now - since);
        (state.ended, state.last_ended, state.progress) = (state.begun, now, 0.0);
        state.last = Some(match result {
            Ok(saved) => {
                (state.saved_at, state.saved) = (Some(clock::unix_ms()), now);
                state.saved_files = saved;
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

/// Sees to it that a snapshot is written no faster than it may be. The setting may change on the way.
struct Pace {
    rate: usize,
    /// Since when that holds, and from which byte on.
    since: Instant,
    from: u64,
    /// Where the last step ended.
    last: u64,
}

impl Pace {
    fn new(server: &Server) -> Pace {
        let rate = server.config().log.snapshots.rate;
        Pace { rate, since: clock::monotonic(), from: 0, last: 0 }
    }

    /// Rests until so many bytes may have been written.
    fn keep(
        &mut self,
        snapshots: &Snapshots,
        server: &Server,
        written: u64,
    ) -> Result<(), Box<dyn Error>> {
        loop {
            let rate = server.config().log.snapshots.rate;
            if rate != self.rate {
                *self = Pace { rate, since: clock::monotonic(), from: self.last, last: self.last };
            }
            let early = match rate {
                0 => Duration::ZERO,
                _ => Duration::from_secs_f64((written - self.from) as f64 / rate as f64)
                    .saturating_sub(self.since.elapsed()),
            };
            // A wake-up is no reason to write.
            snapshots.rest(early.min(LOOK))?;
            if early.is_zero() {
                self.last = written;
                return Ok(());
            }
        }
    }
}

/// Starts the thread that writes snapshots.
pub(crate) fn start(server: &Arc<Server>) -> Result<JoinHandle<()>, StartError> {
    let server = server.clone();
    spawn(THREAD, move || {
        let snapshots = server.durability.snapshots().expect("there is a log");
        while snapshots.wait(&server) {
            snapshots.end(&server, snapshots.write(&server));
        }
    })
}
