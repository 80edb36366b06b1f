//! The report of an index about itself, summed over the sessions' own counters on request.

/// Counts of an index at some moment; exact when no operation is running.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Items present (expired ones too, until they are removed).
    pub items: u64,
    /// Items that have an expiry field.
    pub expiring: u64,
    /// Bytes of all items, headers and rounding included, those in limbo too.
    pub bytes: u64,
    /// Of these, bytes of long values, in limbo, kept by readers or being given back too, and of buffers.
    pub block_bytes: u64,
    /// Bytes of removed items that wait for readers.
    pub limbo_bytes: u64,
    /// Above this many of them [`Session::admit`](crate::Session::admit) may refuse.
    pub limbo_max: u64,
    /// Bytes of address space that item memory was mapped for so far.
    pub mapped_bytes: u64,
    /// Of these, bytes that may be in memory: taken and not returned to the system. Always slightly more
    /// than the items take.
    pub held_bytes: u64,
    /// Bytes of the table in use.
    pub table_bytes: u64,
    /// Bytes that the index's owner uses beside it, as it has said.
    pub beside_bytes: u64,
    /// Above this number of bytes in items, table and reported buffers,
    /// [`Session::admit`](crate::Session::admit) refuses.
    pub memory_max: u64,
    /// Slots of the table in use.
    pub slots: u64,
    /// Lookups that were sampled.
    pub lookups_sampled: u64,
    /// Items that the sampled lookups visited.
    pub visits_sampled: u64,
    /// Hints that moved to another item.
    pub head_moves: u64,
    /// Rounds that the sampling strategy began.
    pub sampling_rounds: u64,
    /// Epochs by which the oldest pinned session is behind.
    pub oldest_pin: u64,
    /// The counts of this engine.
    pub engine: EngineStats,
}

/// Counts that only one engine has: names and numbers, for reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineStats(Vec<(&'static str, u64)>);

impl EngineStats {
    /// By engines.
    pub fn new(fields: Vec<(&'static str, u64)>) -> Self {
        Self(fields)
    }

    /// All of it by name.
    pub fn fields(&self) -> &[(&'static str, u64)] {
        &self.0
    }

    /// The number with this name.
    pub fn get(&self, name: &str) -> Option<u64> {
        self.0.iter().find(|(field, _)| *field == name).map(|&(_, number)| number)
    }
}

impl Stats {
    /// Adds the counts of another index under the same memory limit.
    pub fn add(&mut self, other: &Stats) {
        self.items += other.items;
        self.expiring += other.expiring;
        self.bytes += other.bytes;
        self.block_bytes += other.block_bytes;
        self.limbo_bytes += other.limbo_bytes;
        self.mapped_bytes += other.mapped_bytes;
        self.held_bytes += other.held_bytes;
        self.table_bytes += other.table_bytes;
        self.slots += other.slots;
        self.lookups_sampled += other.lookups_sampled;
        self.visits_sampled += other.visits_sampled;
        self.head_moves += other.head_moves;
        self.sampling_rounds += other.sampling_rounds;
        self.oldest_pin = self.oldest_pin.max(other.oldest_pin);
    }

    /// Bytes that count for the limit of all memory.
    pub fn used_bytes(&self) -> u64 {
        self.bytes + self.table_bytes + self.beside_bytes
    }

    /// Item memory that is held for each byte of it that items take; 1 where there is none.
    pub fn fragmentation(&self) -> f64 {
        if self.bytes == 0 { 1.0 } else { self.held_bytes as f64 / self.bytes as f64 }
    }

    /// Items visited per lookup, 0 without lookups.
    pub fn visits_mean(&self) -> f64 {
        if self.lookups_sampled == 0 {
            return 0.0;
        }
        self.visits_sampled as f64 / self.lookups_sampled as f64
    }
}
