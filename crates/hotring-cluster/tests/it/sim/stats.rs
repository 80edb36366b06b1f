//! What the schedules have done.

/// Counts by which a suite shows that schedules are worth something.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stats {
    pub acked: u64,
    pub reads: u64,
    pub promotions: u64,
    pub handovers: u64,
    pub repairs: u64,
    pub copies: u64,
    pub set_changes: u64,
    pub crashes: u64,
    pub given_up: u64,
    pub rescues: u64,
    pub passed_on: u64,
    pub regroups: u64,
    pub deafened: u64,
    pub filled: u64,
    pub losses: u64,
    pub recoveries: u64,
    pub mirrored: u64,
    pub revoked: u64,
}

impl Stats {
    pub fn add(&mut self, other: &Stats) {
        self.acked += other.acked;
        self.reads += other.reads;
        self.promotions += other.promotions;
        self.handovers += other.handovers;
        self.repairs += other.repairs;
        self.copies += other.copies;
        self.set_changes += other.set_changes;
        self.crashes += other.crashes;
        self.given_up += other.given_up;
        self.rescues += other.rescues;
        self.passed_on += other.passed_on;
        self.regroups += other.regroups;
        self.deafened += other.deafened;
        self.filled += other.filled;
        self.losses += other.losses;
        self.recoveries += other.recoveries;
        self.mirrored += other.mirrored;
        self.revoked += other.revoked;
    }

    /// Whether every kind of step was taken that both modes have.
    pub fn shows_everything(&self) -> bool {
        let Stats { acked, reads, promotions, handovers, repairs, copies, .. } = *self;
        let steps = [acked, reads, promotions, handovers, repairs, copies, self.set_changes];
        self.crashes > 0 && self.passed_on > 0 && steps.iter().all(|count| *count > 0)
    }
}
