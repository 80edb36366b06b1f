//! Statistics of an index, summed over the per-session counters on request.

/// Counts of an index; exact when no operation is running.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Items present, including expired items that are not yet removed.
    pub items: u64,
    /// Items that have an expiry field.
    pub expiring: u64,
    /// Bytes of all items, including headers, rounding and items in limbo.
    pub bytes: u64,
    /// Of these, bytes of buffers and long values, including values in limbo, held by readers or being returned
    /// to the system.
    pub block_bytes: u64,
    /// Bytes of removed items that wait for readers.
    pub limbo_bytes: u64,
    /// The limit for limbo bytes, above which [`Session::admit`](crate::Session::admit) may refuse.
    pub limbo_max: u64,
    /// Bytes of address space mapped for items so far.
    pub mapped_bytes: u64,
    /// Of these, bytes that may be resident: taken and not returned to the system. Always slightly more than
    /// the items occupy.
    pub held_bytes: u64,
    /// Bytes of the table in use.
    pub table_bytes: u64,
    /// Bytes used outside the index, as reported by its owner.
    pub external_bytes: u64,
    /// The memory limit for items, table and reported buffers together, above which
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
    /// The number of epochs by which the oldest pinned session is behind; 0 if none is pinned.
    pub oldest_pin: u64,
    /// The counts of this engine.
    pub engine: EngineStats,
}

/// Counts specific to one engine: names and numbers, for reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineStats(Vec<(&'static str, u64)>);

impl EngineStats {
    /// Made by the engine.
    pub fn new(fields: Vec<(&'static str, u64)>) -> Self {
        Self(fields)
    }

    /// All counts with their names.
    pub fn fields(&self) -> &[(&'static str, u64)] {
        &self.0
    }

    /// The count with this name.
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

    /// Bytes that count toward the memory limit.
    pub fn used_bytes(&self) -> u64 {
        self.bytes + self.table_bytes + self.external_bytes
    }

    /// Held bytes of item memory per byte used by items; 1 without items.
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
