//! Where the streams of a measurement come from: a new draw for each turn, while no clock runs.
//!
//! A turn must not repeat earlier accesses: an index that remembers the last ones would be measured by its
//! memory. Recorded traces are the exception, as they cannot change.

use anyhow::Result;

use super::operations::{Keys, Op, Workload};
use super::streams::{Draw, Streams};
use super::trace::Trace;

/// The source of all turns' streams.
pub enum Feed<'a> {
    /// Drawn again for each turn.
    Drawn {
        /// Of the first turn.
        draw: Draw,
        /// Whether targets with scattered keys take part.
        is_scattered: bool,
    },
    /// The same in each turn.
    Traced {
        /// The accesses.
        trace: &'a Trace,
        /// The operations.
        workload: Workload,
        /// The threads that share them.
        threads: usize,
        /// The source of the mix.
        seed: u64,
        /// The shape of the drawn items.
        is_scattered: bool,
    },
}

/// The streams of one turn.
pub struct Turn {
    /// Before the clock starts: the other targets have had the caches since the last turn.
    pub lead: Streams,
    /// While it runs.
    pub timed: Streams,
}

impl From<Draw> for Feed<'_> {
    /// For targets of all kinds.
    fn from(draw: Draw) -> Self {
        Feed::Drawn { draw, is_scattered: true }
    }
}

impl Feed<'_> {
    /// Streams in each turn.
    pub fn threads(&self) -> usize {
        match self {
            Self::Drawn { draw, .. } => draw.threads,
            Self::Traced { threads, .. } => *threads,
        }
    }

    /// Keys that are loaded.
    pub fn keys(&self) -> u64 {
        match self {
            Self::Drawn { draw, .. } => draw.keys,
            Self::Traced { trace, .. } => trace.distinct() as u64,
        }
    }

    /// Whether every read must find its key; if not, none may.
    pub fn present(&self) -> bool {
        let (Self::Drawn { draw: Draw { workload, .. }, .. } | Self::Traced { workload, .. }) =
            self;
        *workload != Workload::Miss
    }

    /// The streams of a turn: another number, other accesses.
    pub fn streams(&self, turn: u64) -> Result<Streams> {
        self.both(|draw| Draw { turn, ..draw }.streams())
    }

    /// One thread's part of a turn, for targets with such keys.
    pub fn stream(&self, turn: u64, thread: usize, keys: Keys) -> Result<Vec<Op>> {
        let Self::Drawn { draw, .. } = self else {
            return Ok(self.streams(turn)?.of_keys(keys)[thread].clone());
        };
        let mut ops = Draw { turn, ..*draw }.stream(thread);
        ops.iter_mut().for_each(|op| *op = Op::new(op.kind(), keys.key(op.key())));
        Ok(ops)
    }

    /// The same with the unmeasured part before.
    pub fn turn(&self, turn: u64) -> Result<Turn> {
        let timed = self.streams(turn)?;
        let lead = match self {
            Self::Drawn { .. } => self.both(|draw| Draw { turn, ..draw }.lead())?,
            Self::Traced { .. } => timed.last_quarter(),
        };
        Ok(Turn { lead, timed })
    }

    fn both(&self, of_draw: impl FnOnce(Draw) -> Result<Streams>) -> Result<Streams> {
        let (streams, is_scattered) = match *self {
            Self::Drawn { draw, is_scattered } => (of_draw(draw)?, is_scattered),
            Self::Traced { trace, workload, threads, seed, is_scattered } => {
                (Streams::of_trace(trace, workload, threads, seed)?, is_scattered)
            }
        };
        Ok(if is_scattered { streams.with_scattered() } else { streams })
    }
}
