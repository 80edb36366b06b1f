//! Operations, and mixes of them: those of YCSB, and some more for measurements of indexes.

use std::fmt;

use clap::ValueEnum;
use fastrand::Rng;

/// The mix of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Workload {
    /// Half reads, half updates
    A,
    /// 95 % reads, 5 % updates
    B,
    /// Reads only
    C,
    /// 95 % reads of the latest keys, 5 % inserts
    D,
    /// Half reads, half read-modify-writes
    F,
    /// Updates only
    W,
    /// Reads of keys that are absent
    Miss,
    /// Half reads, half inserts: a table that grows
    Grow,
    /// A read, an update and another read of the same key, repeatedly
    Rur,
}

impl Workload {
    /// The kind of the next operation.
    pub fn kind(self, random: &mut Rng) -> Kind {
        let (other, percent) = match self {
            Workload::A => (Kind::Update, 50),
            Workload::B => (Kind::Update, 5),
            Workload::C | Workload::Miss => return Kind::Read,
            Workload::D => (Kind::Insert, 5),
            Workload::F => (Kind::Modify, 50),
            Workload::W => return Kind::Update,
            Workload::Grow => (Kind::Insert, 50),
            // This share holds on average; `streams.rs` draws the three operations in a fixed order.
            Workload::Rur => (Kind::Update, 33),
        };
        if random.u64(..100) < percent { other } else { Kind::Read }
    }

    /// Whether the mix inserts new keys.
    pub fn inserts(self) -> bool {
        matches!(self, Workload::D | Workload::Grow)
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.to_possible_value().expect("no variant is skipped");
        f.write_str(&name.get_name().to_uppercase())
    }
}

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Looks up a key.
    Read,
    /// Changes the value of a present key.
    Update,
    /// Inserts a new key.
    Insert,
    /// Reads a value and writes one that depends on it.
    Modify,
}

/// An operation in one word, so that a stream costs little memory traffic of its own.
#[derive(Clone, Copy, Debug)]
pub struct Op(u64);

/// Bits of a key's number.
const KEY_BITS: u32 = 62;
const KEY_MASK: u64 = (1 << KEY_BITS) - 1;

impl Op {
    /// An operation on the key with this number.
    pub fn new(kind: Kind, key: u64) -> Self {
        debug_assert!(key <= KEY_MASK);
        Op((kind as u64) << KEY_BITS | key)
    }

    /// The kind of the operation.
    pub fn kind(self) -> Kind {
        match self.0 >> KEY_BITS {
            0 => Kind::Read,
            1 => Kind::Update,
            2 => Kind::Insert,
            _ => Kind::Modify,
        }
    }

    /// The key of a read, which is the entire word.
    #[inline(always)]
    pub fn read_key(self) -> u64 {
        debug_assert!(self.kind() == Kind::Read);
        self.0
    }

    /// The key of the operation.
    pub fn key(self) -> u64 {
        self.0 & KEY_MASK
    }
}

/// Operations of one thread, and what a timed loop would otherwise have to find out about them: make it before the
/// clock starts.
#[derive(Clone, Copy, Debug)]
pub struct Stream<'a> {
    /// The operations.
    pub ops: &'a [Op],
    /// The number of reads among them.
    pub reads: u64,
    /// The sum of the keys of all reads, wrapping.
    pub sum: u64,
}

impl<'a> Stream<'a> {
    /// A stream of these operations.
    pub fn of(ops: &'a [Op]) -> Self {
        let reads = || ops.iter().filter(|op| op.kind() == Kind::Read);
        let sum = reads().fold(0, |sum: u64, op| sum.wrapping_add(op.key()));
        Stream { ops, reads: reads().count() as u64, sum }
    }

    /// Whether all operations are reads.
    pub fn are_reads(&self) -> bool {
        self.reads == self.ops.len() as u64
    }
}

/// The mapping of a workload's key numbers to keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// The key is the number itself.
    Dense,
    /// The key looks random. A hash that spreads neighbouring numbers more evenly than chance would gets no
    /// advantage.
    Scattered,
}

impl Keys {
    /// The key of a number. Different numbers have different keys.
    pub fn key(self, number: u64) -> u64 {
        match self {
            Keys::Dense => number,
            Keys::Scattered => scatter(number),
        }
    }
}

/// A bijection of the numbers below `2^KEY_BITS`.
fn scatter(mut word: u64) -> u64 {
    for factor in [0xBF58_476D_1CE4_E5B9, 0x94D0_49BB_1331_11EB] {
        word ^= word >> 30;
        word = word.wrapping_mul(factor) & KEY_MASK;
    }
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_keeps_its_kind_and_its_key() {
        for kind in [Kind::Read, Kind::Update, Kind::Insert, Kind::Modify] {
            for key in [0, 1, KEY_MASK] {
                let op = Op::new(kind, key);
                assert_eq!((op.kind(), op.key()), (kind, key));
            }
        }
    }

    #[test]
    fn a_stream_knows_its_reads() {
        let mut ops = vec![Op::new(Kind::Read, 3), Op::new(Kind::Read, KEY_MASK)];
        let stream = Stream::of(&ops);
        assert!(stream.are_reads() && stream.sum == KEY_MASK + 3);
        ops.extend([Kind::Update, Kind::Insert, Kind::Modify].map(|kind| Op::new(kind, 9)));
        let stream = Stream::of(&ops);
        assert!(!stream.are_reads());
        assert_eq!((stream.reads, stream.sum), (2, KEY_MASK + 3));
    }

    #[test]
    fn scattered_keys_differ_and_fill_the_whole_range() {
        let mut keys: Vec<u64> = (0..100_000).map(|n| Keys::Scattered.key(n)).collect();
        keys.sort_unstable();
        assert!(keys.windows(2).all(|pair| pair[0] < pair[1]));
        let upper = keys.iter().filter(|&&key| key > KEY_MASK / 2).count();
        assert!((49_000..51_000).contains(&upper), "{upper} of 100,000 in the upper half");
        assert!(keys[99_999] <= KEY_MASK);
    }
}
