//! What the executors of both protocols share: how requests are taken in batches, and which of them are sampled.

mod notes;
mod sampler;

pub(crate) use notes::Notes;
#[cfg(test)]
pub(crate) use sampler::SAMPLED_RUN;
pub(crate) use sampler::Sampler;

/// Most requests that are decoded before the first of them runs.
pub(crate) const BATCH_LEN: usize = 64;

/// A batch, and all that is run at one time, ends with the request that reaches this length of input.
/// More can be there at once only behind a command that has waited: the thread's other connections are
/// to have a turn in between, and places of arguments take more memory than short arguments themselves.
pub(crate) const TURN_LEN: usize = 64 << 10;

/// Fewest requests for which fetching ahead pays: it saves 4 % of the CPU time of 4 pipelined GETs
/// over a million keys, 9 % of 8, a quarter of 16, and nothing measurable of 2 or 3.
pub(crate) const PREFETCH_MIN: usize = 4;

/// What an executor did with its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fed {
    /// How much of the input is done with. The rest has to be passed again.
    pub consumed: usize,
    /// Requests may be left, because the output has reached its limit or others are to have a turn.
    pub stalled: bool,
}

impl Fed {
    /// All of the input is done with.
    pub(crate) fn all(input: &[u8]) -> Self {
        Fed { consumed: input.len(), stalled: false }
    }
}
