//! The parameters of a schedule, all drawn from its seed.

use fastrand::Rng;

/// When a node's log is on the disk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Log {
    Off,
    EverySecond,
    Synced,
}

/// What names the in-sync set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mode {
    /// An operator.
    Named,
    /// Records.
    Recorded,
}

/// The parameters of a schedule. Times are in milliseconds.
#[derive(Clone, Debug)]
pub struct Plan {
    pub mode: Mode,
    pub logs: Vec<Log>,
    /// Whether the operator forces things and faults destroy what they like. Then writes may be lost, but in the
    /// end all replicas must equal one primary.
    pub is_forced: bool,
    /// Whether replicas promise anything. Without, a deposed primary may show old values, and nothing else.
    pub promises: bool,
    /// Whether a replica outside of the set follows another replica.
    pub chains: bool,
    /// Whether replicas are taken out of the record, and put back, by others than the primary.
    pub regroups: bool,
    /// Whether primaries hear nothing for a while, and are heard.
    pub deafens: bool,
    /// Whether the disks of primaries are full for a while.
    pub fills: bool,
    /// Whether power cuts stop all nodes, and disks are lost with them.
    pub loses: bool,
    /// Whether nodes outside of the shard mirror keys.
    pub mirrors: bool,
    /// Clocks run at rates up to this many thousandths away from the true one.
    pub drift: i64,
    /// Of a thousand messages, those that are lost, that come twice, and that come very late.
    pub lost: u64,
    pub doubled: u64,
    pub late: u64,
    /// The mean time between two faults.
    pub calm: u64,
    /// The mean time between two requests of a client.
    pub pace: u64,
    /// Faults stop after this.
    pub trouble: u64,
}

impl Plan {
    pub fn new(rng: &mut Rng, mode: Mode, seed: u64) -> Self {
        let n = if rng.u8(..3) == 0 { 2 } else { 3 };
        let same = rng.u8(..4);
        let log = |rng: &mut Rng| match if same < 3 { same } else { rng.u8(..3) } {
            0 => Log::Off,
            1 => Log::EverySecond,
            _ => Log::Synced,
        };
        let loses = mode == Mode::Recorded && seed % 8 == 4;
        // A node without a log comes back as another one.
        let kept = |log: Log| if loses && log == Log::Off { Log::EverySecond } else { log };
        Plan {
            mode,
            is_forced: seed % 8 == 7,
            chains: seed % 8 == 6 && n == 3,
            regroups: mode == Mode::Recorded && seed % 8 == 5,
            fills: mode == Mode::Recorded && seed % 8 == 2,
            deafens: mode == Mode::Recorded && seed % 8 == 3,
            mirrors: mode == Mode::Recorded && seed % 8 == 1,
            loses,
            logs: (0..n).map(|_| log(rng)).map(kept).collect(),
            drift: rng.i64(0..=40),
            lost: if rng.bool() { 0 } else { rng.u64(..100) },
            doubled: if rng.bool() { 0 } else { rng.u64(..200) },
            late: if rng.bool() { 0 } else { rng.u64(..60) },
            calm: rng.u64(300..2500),
            promises: rng.u8(..6) != 0,
            pace: rng.u64(40..300),
            trouble: rng.u64(5_000..15_000),
        }
    }
}
