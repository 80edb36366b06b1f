//! How far the moves are that a node carries out, for people.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Instant;

use hotring_cluster::directory::{MoveId, Wanted};
use hotring_cluster::moves::Phase;

use crate::host::clock;

/// An attempt to give slots away, counted by its task, its link and its walk over the keys.
#[derive(Debug)]
pub struct Progress {
    began: Instant,
    phase: AtomicU8,
    keys_total: AtomicU64,
    keys_looked_at: AtomicU64,
    keys: AtomicU64,
    bytes: AtomicU64,
}

impl Progress {
    /// One that begins now.
    pub(super) fn new() -> Progress {
        let (phase, keys_total, keys_looked_at, keys, bytes) = Default::default();
        let began = clock::monotonic();
        Progress { began, phase, keys_total, keys_looked_at, keys, bytes }
    }

    /// The attempt is this far.
    pub fn set_phase(&self, phase: Phase) {
        // ORDERING: Relaxed, shown to people, as all figures here.
        self.phase.store(phase as u8, Ordering::Relaxed);
    }

    /// The walk begins; the store has about this many keys.
    pub fn begin_walk(&self, keys: u64) {
        // ORDERING: Relaxed, a figure.
        self.keys_total.store(keys, Ordering::Relaxed);
    }

    /// The walk has looked at this many keys, and taken `taken` of them.
    pub fn note_walk(&self, looked_at: u64, taken: u64) {
        // ORDERING: Relaxed, figures.
        self.keys_looked_at.store(looked_at, Ordering::Relaxed);
        // ORDERING: Relaxed, as above.
        self.keys.store(taken, Ordering::Relaxed);
    }

    /// Bytes were sent.
    pub fn note_sent(&self, bytes: usize) {
        // ORDERING: Relaxed, a figure.
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    fn sent(&self) -> Sent {
        // ORDERING: Relaxed, figures.
        let figure = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
        let keys_total = figure(&self.keys_total);
        let bytes = figure(&self.bytes);
        Sent {
            keys_total,
            // Keys that are set during the walk may be looked at besides.
            keys_looked_at: figure(&self.keys_looked_at).min(keys_total),
            keys: figure(&self.keys),
            bytes,
            bytes_per_second: (bytes as f64 / self.began.elapsed().as_secs_f64().max(0.001)) as u64,
        }
    }

    fn phase(&self) -> Phase {
        // ORDERING: Relaxed, as in `set_phase`.
        let number = self.phase.load(Ordering::Relaxed);
        Phase::ALL.into_iter().find(|phase| *phase as u8 == number).unwrap_or(Phase::Waiting)
    }
}

/// A move of slots that the records want.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MoveStatus {
    pub id: MoveId,
    pub wanted: Wanted,
    /// How far it is; None if another node gives the slots.
    pub phase: Option<Phase>,
    /// What this node has sent in the present attempt, if there is one.
    pub sent: Option<Sent>,
}

/// What an attempt has sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The keys of the store, whichever slots they are in, and those of them that the walk has looked at.
    pub keys_total: u64,
    pub keys_looked_at: u64,
    /// The keys among these that go along.
    pub keys: u64,
    /// Bytes of keys and changes, and how many a second since the attempt began.
    pub bytes: u64,
    pub bytes_per_second: u64,
}

impl MoveStatus {
    /// A move that this node gives if it `gives` at all, and its attempt.
    pub(super) fn new(id: MoveId, wanted: Wanted, gives: bool, now: Option<&Progress>) -> Self {
        let phase = now.map(Progress::phase).or(gives.then_some(Phase::Waiting));
        MoveStatus { id, wanted, phase, sent: now.map(Progress::sent) }
    }

    /// The name of its phase.
    pub fn phase_name(&self) -> &'static str {
        self.phase.map_or("elsewhere", Phase::name)
    }
}
