//! Batches of requests, for the executors of both protocols: their limits, and the sampling of requests.

mod notes;
mod sampler;

pub(crate) use notes::Notes;
#[cfg(test)]
pub(crate) use sampler::SAMPLED_RUN;
pub(crate) use sampler::Sampler;

/// The largest number of requests that are decoded before the first of them runs.
pub(crate) const BATCH_LEN: usize = 64;

/// A batch, and a whole run, ends with the request that reaches this length of input. Only behind a command that has
/// waited can more input be there at once: the thread's other connections must have a turn in between, and the places
/// of short arguments take more memory than the arguments.
pub(crate) const TURN_LEN: usize = 64 << 10;

/// The smallest batch for which a prefetch pays: it saves 4 % of the CPU time of 4 pipelined GETs
/// over a million keys, 9 % of 8, a quarter of 16, and nothing measurable of 2 or 3.
pub(crate) const PREFETCH_MIN: usize = 4;

/// The outcome of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fed {
    /// Length of the input that is done with. The rest must be passed again.
    pub consumed: usize,
    /// Complete requests may be left, because the output has reached its limit or the turn is over.
    pub stalled: bool,
}

impl Fed {
    /// All of the input is done with.
    pub(crate) fn all(input: &[u8]) -> Self {
        Fed { consumed: input.len(), stalled: false }
    }
}
