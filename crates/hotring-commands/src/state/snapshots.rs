//! The state of snapshots: requests, schedule and results. The thread that writes them is in `hotring-server`'s
//! `tasks/write_snapshots.rs`.

use std::error::Error;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hotring_log::{Id, Log, Lsn, Storage};

use crate::host::clock;
use crate::settings::config::SnapshotSettings;

/// The interval between two checks whether a snapshot is due.
pub const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// The schedule waits this long after a failure, as Redis's does.
const RETRY: Duration = Duration::from_secs(5);

/// After a failure, the schedule waits this long before the log's length makes another snapshot due.
const RETRY_LENGTH: Duration = Duration::from_secs(120);

/// The snapshots of a server that has a log.
pub struct Snapshots {
    pub storage: Arc<dyn Storage>,
    pub id: Id,
    pub log: Arc<Log>,
    state: Mutex<State>,
    wake: Condvar,
    /// How often the data was replaced. Held while a snapshot gets its name.
    replaced: Mutex<u64>,
}

struct State {
    /// The numbers of snapshots that were requested, begun and ended.
    wanted: u64,
    begun: u64,
    ended: u64,
    /// The start of the current snapshot.
    since: Option<Instant>,
    /// The progress of the current snapshot, from 0 to 1.
    progress: f64,
    /// The time that the last one took, or why it failed.
    last: Option<Result<Duration, String>>,
    last_ended: Instant,
    /// The completion of the last one in Unix milliseconds.
    saved_at: Option<u64>,
    saved: Instant,
    saved_files: Saved,
    /// The snapshot after which the server must end, and how.
    ends: Option<(u64, EndHow)>,
    is_closed: bool,
}

/// How the server ends after a snapshot.
#[derive(Clone, Copy, Debug, Default)]
pub struct EndHow {
    /// Also if the snapshot fails.
    pub is_forced: bool,
    /// Without a handover of its role.
    pub is_now: bool,
}

/// The snapshot and log on disk.
#[derive(Clone, Copy, Debug, Default)]
pub struct Saved {
    /// The record after which the log continues the last snapshot.
    pub after: Lsn,
    /// Bytes of that snapshot.
    pub len: u64,
    /// Bytes of the log after that snapshot that the server has found at its start, not including the `Log::length`
    /// bytes written since.
    pub log: u64,
    /// `Log::length` when the snapshot was begun.
    pub log_since: u64,
}

/// The state of snapshots at one moment, for INFO and the metrics.
#[derive(Clone, Debug)]
pub struct SnapshotStatus {
    /// Time since the start of the current snapshot.
    pub running: Option<Duration>,
    /// From 0 to 1.
    pub progress: f64,
    /// The time that the last one took, or why it failed.
    pub last: Option<Result<Duration, String>>,
    /// The completion of the last one in Unix milliseconds.
    pub saved_at: Option<u64>,
    /// Log records since the last snapshot.
    pub changes: u64,
    /// Bytes of the last snapshot.
    pub len: u64,
    /// Bytes of the log since the last snapshot.
    pub log_len: u64,
}

impl Snapshots {
    /// The state of a server with this log; `saved` describes the snapshot and the log on disk.
    pub fn new(storage: Arc<dyn Storage>, id: Id, log: Arc<Log>, saved: Saved) -> Snapshots {
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
        let (state, wake, replaced) = (Mutex::new(state), Condvar::new(), Mutex::default());
        Snapshots { storage, id, log, state, wake, replaced }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code panics between changes of the state, so that a poisoned state is consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn replacements(&self) -> MutexGuard<'_, u64> {
        // A count.
        self.replaced.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often the data was replaced, to be asked before a snapshot is begun.
    pub fn generation(&self) -> u64 {
        *self.replacements()
    }

    /// The data, and the numbers of its records, are about to be replaced by a primary's: no snapshot of before may
    /// count.
    pub fn abandon(&self) {
        *self.replacements() += 1;
    }

    /// Runs `publish`, unless the data was replaced since this generation.
    ///
    /// # Errors
    /// It was, or `publish` failed.
    pub fn publish<R>(
        &self,
        generation: u64,
        publish: impl FnOnce() -> io::Result<R>,
    ) -> Result<R, Box<dyn Error>> {
        let replaced = self.replacements();
        if *replaced != generation {
            return Err("the data was replaced by a primary's".into());
        }
        Ok(publish()?)
    }

    /// Requests a snapshot and returns its number; None if one is requested or under way already.
    pub(crate) fn ask(&self) -> Option<u64> {
        let mut state = self.state();
        if state.wanted > state.ended {
            return None;
        }
        state.wanted += 1;
        self.wake.notify_all();
        Some(state.wanted)
    }

    /// Requests a snapshot after the current one, if there is one. Returns the number of the requested snapshot.
    pub(crate) fn ask_for_next(&self) -> u64 {
        let mut state = self.state();
        state.wanted = state.begun + 1;
        self.wake.notify_all();
        state.wanted
    }

    /// The result of the snapshot with this number, once it has ended.
    pub(crate) fn ended(&self, number: u64) -> Option<Result<(), String>> {
        let state = self.state();
        let is_over = state.ended >= number || state.is_closed;
        is_over.then(|| match &state.last {
            _ if state.ended < number => Err("the server ends".to_string()),
            Some(Err(why)) => Err(why.clone()),
            _ => Ok(()),
        })
    }

    /// The current state.
    pub fn status(&self) -> SnapshotStatus {
        let state = self.state();
        let (now, handed) = (clock::monotonic(), self.log.handed());
        SnapshotStatus {
            running: match state.since {
                Some(since) => Some(now.saturating_duration_since(since)),
                // A requested snapshot counts as running.
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

    /// Bytes of the log after the last snapshot.
    fn log_len(&self, state: &State) -> u64 {
        let Saved { log, log_since, .. } = state.saved_files;
        log + self.log.length().saturating_sub(log_since)
    }

    /// Requests a snapshot of all writes so far, after which the server ends unless the snapshot fails. Returns its
    /// number. A second request gets the same snapshot: later writes are in the log.
    pub(crate) fn request_shutdown(&self, how: EndHow) -> u64 {
        let mut state = self.state();
        // The current snapshot may lack writes since its start.
        let next = state.begun + 1;
        let (number, present) = state.ends.get_or_insert((next, how));
        present.is_forced |= how.is_forced;
        present.is_now |= how.is_now;
        let number = *number;
        state.wanted = state.wanted.max(number);
        self.wake.notify_all();
        number
    }

    /// Cancels the request of [`request_shutdown`](Self::request_shutdown); false if there was none.
    pub(crate) fn abort_shutdown(&self) -> bool {
        self.state().ends.take().is_some()
    }

    /// Ends snapshots when the server ends: an incomplete snapshot is abandoned.
    pub(crate) fn close(&self) {
        self.state().is_closed = true;
        self.wake.notify_all();
    }

    /// Begins a snapshot if one was requested, or if `may_be_due` and the schedule requires one; otherwise waits for at
    /// most [`CHECK_INTERVAL`]. Returns whether it has begun a snapshot; None if the server ends.
    pub fn begin_or_wait(&self, may_be_due: bool, settings: &SnapshotSettings) -> Option<bool> {
        let mut state = self.state();
        if state.is_closed {
            return None;
        }
        if may_be_due && state.wanted == state.begun && self.is_due(&state, settings) {
            state.wanted += 1;
        }
        if state.wanted > state.begun {
            state.begun += 1;
            (state.since, state.progress) = (Some(clock::monotonic()), 0.0);
            return Some(true);
        }
        drop(self.wake.wait_timeout(state, CHECK_INTERVAL));
        Some(false)
    }

    /// Publishes the progress of the current snapshot, from 0 to 1.
    pub fn set_progress(&self, progress: f64) {
        self.state().progress = progress;
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
        // Each attempt takes disk space that the log may need.
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

    /// Waits for `time`, or until the state changes. Fails if the server ends.
    pub fn rest(&self, time: Duration) -> Result<(), Box<dyn Error>> {
        let state = self.state();
        if state.is_closed {
            return Err("the server ends".into());
        }
        drop(self.wake.wait_timeout(state, time));
        Ok(())
    }

    /// Ends the current snapshot. Calls `stop` if the server must end after this snapshot.
    pub fn end(&self, result: Result<Saved, Box<dyn Error>>, stop: impl FnOnce(EndHow)) {
        let mut state = self.state();
        let begun = state.begun;
        let ends = state.ends.take_if(|(number, _)| *number <= begun);
        if let Some((_, how)) = ends
            && (result.is_ok() || how.is_forced)
        {
            // Waiting clients check under the same lock, so that they see the stop and the end of the snapshot
            // together.
            stop(how);
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

#[cfg(test)]
mod tests {
    use hotring_log::AckWhen;
    use hotring_log::storage::Memory;

    use super::*;

    /// Its records had the numbers of another stream, which those of the new one may reach.
    #[test]
    fn a_snapshot_of_before_a_copy_never_counts() {
        let log = Arc::new(Log::new(0, AckWhen::Written, 1));
        let snapshots = Snapshots::new(Arc::new(Memory::new()), [1; 16], log, Saved::default());
        let before = snapshots.generation();
        assert!(snapshots.publish(before, || Ok(())).is_ok());
        snapshots.abandon();
        let published = snapshots.publish(before, || -> io::Result<()> { panic!("it is old") });
        assert!(published.is_err());
        assert!(snapshots.publish(snapshots.generation(), || Ok(())).is_ok());
    }
}
