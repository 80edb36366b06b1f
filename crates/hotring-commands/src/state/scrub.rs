//! The walk of SCRUB, which verifies the checksums of all items: its control and its progress.
//!
//! The background task takes the steps. All other threads see a copy of its status, which is updated between two steps,
//! so that no client waits for a step.

use std::sync::{Mutex, MutexGuard, PoisonError};

use hotring_store::Session;
use hotring_store::index::{Scrub, ScrubCounts};

/// The number of items, or KiB of items, per step. A step takes about 100 µs.
const STEP_ITEMS: usize = 512;
/// The maximum number of reported damaged keys.
const KEYS_MAX: usize = 100;

/// The maximum number of shown bytes of a key.
const KEY_LEN_SHOWN: usize = 1 << 10;

/// The phase of a walk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// No walk since the start of the server.
    #[default]
    Idle,
    Running,
    Done,
    /// Ended by SCRUB STOP.
    Stopped,
}

impl Phase {
    pub fn name(self) -> &'static str {
        match self {
            Phase::Idle => "idle",
            Phase::Running => "running",
            Phase::Done => "done",
            Phase::Stopped => "stopped",
        }
    }
}

/// The status of the last walk.
#[derive(Clone, Debug, Default)]
pub struct Status {
    pub phase: Phase,
    /// From 0 to 1.
    pub progress: f64,
    pub counts: ScrubCounts,
    /// The first damaged keys, as text.
    pub keys: Vec<String>,
    /// The limit of items per second; 0 for none.
    pub rate: u64,
    /// Unix milliseconds; 0 before the event.
    pub started_at: u64,
    pub ended_at: u64,
    /// The number of the walk, from 1.
    number: u64,
}

/// The state that all threads share.
#[derive(Debug, Default)]
pub struct Scrubber(Mutex<Status>);

/// The state of a walk that only the background task uses.
pub struct Walk {
    number: u64,
    scrub: Scrub,
    /// The ID of the database that the walk is in.
    database_id: u8,
}

impl Walk {
    pub fn new() -> Self {
        Walk { number: 0, scrub: Scrub::new(KEYS_MAX), database_id: 0 }
    }
}

impl Scrubber {
    fn lock(&self) -> MutexGuard<'_, Status> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The status of the last walk.
    pub fn status(&self) -> Status {
        self.lock().clone()
    }

    /// Begins a walk; false if one is under way.
    pub(crate) fn start(&self, rate: u64, now: u64) -> bool {
        let mut status = self.lock();
        if status.phase == Phase::Running {
            return false;
        }
        let number = status.number + 1;
        let phase = Phase::Running;
        *status = Status { phase, number, rate, started_at: now, ..Status::default() };
        true
    }

    /// Ends a walk; false if none is under way.
    pub(crate) fn stop(&self, now: u64) -> bool {
        let mut status = self.lock();
        let is_running = status.phase == Phase::Running;
        if is_running {
            status.phase = Phase::Stopped;
            status.ended_at = now;
        }
        is_running
    }

    /// Takes a step, if a walk is under way and its rate allows a step at the Unix millisecond `now`; false if there is
    /// nothing to do at that time. A single long item is checked in one step.
    pub fn step(&self, walk: &mut Walk, store: &mut Session, now: u64) -> bool {
        let Some((number, budget)) = self.work(now) else { return false };
        if walk.number != number {
            *walk = Walk { number, ..Walk::new() };
        }
        store.within(walk.database_id, |store| store.scrub_step(&mut walk.scrub, budget));
        if walk.scrub.is_done()
            && let Some(next) = store.database_id_after(walk.database_id)
        {
            walk.database_id = next;
            walk.scrub.begin_next();
        }
        self.publish(walk, now)
    }

    /// The number of the current walk, and the number of items that may be checked.
    fn work(&self, now: u64) -> Option<(u64, usize)> {
        let status = self.lock();
        let seconds_1000 = now.saturating_sub(status.started_at);
        let due = match status.rate {
            0 => u64::MAX,
            rate => (rate.saturating_mul(seconds_1000) / 1000).saturating_sub(status.counts.items),
        };
        let budget = usize::try_from(due).unwrap_or(usize::MAX).min(STEP_ITEMS);
        (status.phase == Phase::Running && budget > 0).then_some((status.number, budget))
    }

    fn publish(&self, walk: &Walk, now: u64) -> bool {
        let mut status = self.lock();
        if status.phase != Phase::Running || status.number != walk.number {
            return false;
        }
        status.progress = walk.scrub.progress();
        status.counts = walk.scrub.counts;
        for damaged in &walk.scrub.first[status.keys.len()..] {
            status.keys.push(shown(damaged.key.as_deref()));
        }
        if !walk.scrub.is_done() {
            return true;
        }
        status.phase = Phase::Done;
        status.ended_at = now;
        let ScrubCounts { items, damaged, .. } = status.counts;
        if damaged == 0 {
            tracing::info!(items, "SCRUB: all items are as they were written");
        } else {
            tracing::error!(items, damaged, "SCRUB: items are damaged; SCRUB STATUS names them");
        }
        false
    }
}

/// A key as text that is safe for a terminal; `?` if the damage includes the location of the key.
fn shown(key: Option<&[u8]>) -> String {
    let Some(key) = key else { return "?".to_string() };
    key[..key.len().min(KEY_LEN_SHOWN)].escape_ascii().to_string()
}
