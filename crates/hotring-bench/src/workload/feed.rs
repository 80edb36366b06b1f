//! The source of a measurement's streams: a new draw for each turn, made while no clock runs.
//!
//! A turn must not repeat earlier accesses, because an index that remembers the last ones would profit from that.
//! Recorded traces are the exception, because they cannot change.

use anyhow::Result;

use super::operations::{Keys, Op, Workload};
use super::streams::{Draw, Streams};
use super::trace::Trace;

/// The source of all turns' streams.
pub enum Feed<'a> {
    /// Streams that are drawn for each turn.
    Drawn {
        /// The draw of the first turn.
        draw: Draw,
        /// Whether targets with scattered keys take part.
        is_scattered: bool,
    },
    /// A recorded trace, the same in each turn.
    Traced {
        /// The accesses.
        trace: &'a Trace,
        /// The mix of operations.
        workload: Workload,
        /// The number of threads that share the accesses.
        threads: usize,
        /// The seed of the mix.
        seed: u64,
        /// Whether targets with scattered keys take part.
        is_scattered: bool,
    },
}

/// The streams of one turn.
pub struct Turn {
    /// The unmeasured operations before the clock starts, because other targets have filled the caches since the
    /// last turn.
    pub lead: Streams,
    /// The measured operations.
    pub timed: Streams,
}

impl From<Draw> for Feed<'_> {
    /// A feed for targets with dense and with scattered keys.
    fn from(draw: Draw) -> Self {
        Feed::Drawn { draw, is_scattered: true }
    }
}

impl Feed<'_> {
    /// The number of streams in each turn.
    pub fn threads(&self) -> usize {
        match self {
            Self::Drawn { draw, .. } => draw.threads,
            Self::Traced { threads, .. } => *threads,
        }
    }

    /// The number of loaded keys.
    pub fn keys(&self) -> u64 {
        match self {
            Self::Drawn { draw, .. } => draw.keys,
            Self::Traced { trace, .. } => trace.distinct() as u64,
        }
    }

    /// Whether every read must find its key. If not, none may.
    pub fn present(&self) -> bool {
        let (Self::Drawn { draw: Draw { workload, .. }, .. } | Self::Traced { workload, .. }) =
            self;
        *workload != Workload::Miss
    }

    /// The streams of a turn. Each number gives other accesses.
    pub fn streams(&self, turn: u64) -> Result<Streams> {
        self.both(|draw| Draw { turn, ..draw }.streams())
    }

    /// One thread's stream of a turn, for targets with keys of this form.
    pub fn stream(&self, turn: u64, thread: usize, keys: Keys) -> Result<Vec<Op>> {
        let Self::Drawn { draw, .. } = self else {
            return Ok(self.streams(turn)?.of_keys(keys)[thread].clone());
        };
        let mut ops = Draw { turn, ..*draw }.stream(thread);
        ops.iter_mut().for_each(|op| *op = Op::new(op.kind(), keys.key(op.key())));
        Ok(ops)
    }

    /// The streams of a turn, with the unmeasured part before them.
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
