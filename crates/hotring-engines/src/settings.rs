//! Settings of single engines, for [`hotring_index::Config::engine`].

use hotring_index::EngineConfig;

/// How operations of G-Cuckoo are made atomic (RHKV section 4.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Atomicity {
    /// Writers lock; readers check versions and look again if something moved.
    #[default]
    Optimistic,
    /// Readers lock, too.
    Lock,
    /// As `Lock`, with the prefixes by which processors with hardware lock elision run it without
    /// taking the lock, and which others ignore.
    Hle,
    /// Hardware transactions, and the lock after an abort. Requires a processor that has them.
    Rtm,
}

/// Settings of G-Cuckoo alone.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct GCuckooConfig {
    /// How operations are made atomic.
    pub atomicity: Atomicity,
    /// Entries of each session's cache of recent items, a power of two; 0 for none.
    pub cache_entries: usize,
    /// Buckets in each of the two tables of a page, a power of two; 0 picks the default for the slots of a
    /// bucket.
    pub page_buckets: usize,
    /// Lets [`Atomicity::Rtm`] begin where the processor has no transactions: for a test under a
    /// tool that executes their instructions.
    #[doc(hidden)]
    pub force_rtm: bool,
}

/// Settings of Mercury alone.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct MercuryConfig {
    /// The session or thread that moves buckets to a larger table.
    pub expander: Expander,
}

/// Which session or thread moves Mercury's buckets to a larger table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Expander {
    /// The inserting sessions, a few buckets at a time. Needs no thread.
    #[default]
    Sessions,
    /// A dedicated thread of the caller, as in the paper.
    Thread,
}

impl From<MercuryConfig> for EngineConfig {
    fn from(settings: MercuryConfig) -> Self {
        Self::new("mercury", settings)
    }
}

impl From<GCuckooConfig> for EngineConfig {
    fn from(settings: GCuckooConfig) -> Self {
        Self::new("gcuckoo", settings)
    }
}
