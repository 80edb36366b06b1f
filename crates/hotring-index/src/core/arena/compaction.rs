//! The progress of the compaction of item memory. `session/compact.rs` does the work.

use super::Survey;

/// Steps skipped after a futile round, unless this much more is wasted meanwhile.
const PAUSE_STEPS: u32 = 64;
const PAUSE_WASTE: usize = 4 << 20;

/// The state that compacting sessions share.
#[derive(Default)]
pub(crate) struct Compaction {
    pub(crate) phase: CompactionPhase,
    /// Steps to skip before the next round, unless `futile_waste` is exceeded.
    pub(crate) pause: u32,
    pub(crate) futile_waste: usize,
}

#[derive(Default)]
pub(crate) enum CompactionPhase {
    #[default]
    Idle,
    /// Surveying chunks, to choose those to be emptied.
    Survey(Survey),
    /// Moving items out of the chosen chunks.
    Walk(CompactionWalk),
}

pub(crate) struct CompactionWalk {
    pub(crate) cursor: u64,
    /// Bytes held when the walk began.
    pub(crate) held: usize,
}

impl Compaction {
    /// Ends a round that gained nothing.
    pub(crate) fn pause(&mut self, waste: usize) {
        let futile_waste = waste + PAUSE_WASTE;
        *self = Self { phase: CompactionPhase::Idle, pause: PAUSE_STEPS, futile_waste };
    }
}
