//! Streams of operations, drawn before the clock starts.

use std::fmt;

use anyhow::{Result, ensure};
use clap::ValueEnum;

use crate::workload::random::{Random, mix};
use crate::workload::scramble::Scramble;
use crate::workload::zipf::Zipf;

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
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.to_possible_value().expect("no variant is skipped");
        f.write_str(&name.get_name().to_uppercase())
    }
}

/// How accesses are spread over the keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Skew {
    /// All keys alike.
    Uniform,
    /// By Zipf with this exponent.
    Zipf(f64),
}

impl fmt::Display for Skew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Skew::Uniform => f.write_str("uniform"),
            Skew::Zipf(theta) => write!(f, "{theta}"),
        }
    }
}

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Looks a key up.
    Read,
    /// Changes the value of a present key.
    Update,
    /// Puts a new key.
    Insert,
    /// Reads a value and writes one that depends on it.
    Modify,
}

/// An operation in one word, so that a stream costs little memory traffic of its own.
#[derive(Clone, Copy, Debug)]
pub struct Op(u64);

const KEY_BITS: u32 = 62;

impl Op {
    fn new(kind: Kind, key: u64) -> Self {
        debug_assert!(key < 1 << KEY_BITS);
        Op((kind as u64) << KEY_BITS | key)
    }

    /// What it does.
    pub fn kind(self) -> Kind {
        match self.0 >> KEY_BITS {
            0 => Kind::Read,
            1 => Kind::Update,
            2 => Kind::Insert,
            _ => Kind::Modify,
        }
    }

    /// The key that it does it to.
    pub fn key(self) -> u64 {
        self.0 & ((1 << KEY_BITS) - 1)
    }
}

/// One stream a thread.
pub struct Streams {
    /// The operations of each thread.
    pub threads: Vec<Vec<Op>>,
    /// Whether every read must find its key; if not, none may.
    pub present: bool,
}

impl Streams {
    /// Draws `ops` operations for each of `threads` threads over `keys` loaded keys.
    pub fn draw(
        workload: Workload,
        skew: Skew,
        keys: u64,
        threads: usize,
        ops: u64,
        seed: u64,
    ) -> Result<Self> {
        ensure!(keys > 0 && threads > 0, "no key or no thread to draw for");
        let draw = |thread| {
            let random = Random::new(mix(seed) ^ thread as u64);
            let keys = Keys { count: keys, skew: Ranks::new(skew, keys), random };
            keys.stream(workload, (thread as u64, threads as u64), ops, seed)
        };
        let threads = (0..threads).map(draw).collect();
        Ok(Streams { threads, present: workload != Workload::Miss })
    }
}

enum Ranks {
    Uniform(u64),
    Zipf(Zipf),
}

impl Ranks {
    fn new(skew: Skew, count: u64) -> Self {
        match skew {
            Skew::Uniform => Ranks::Uniform(count),
            Skew::Zipf(theta) => Ranks::Zipf(Zipf::new(count, theta)),
        }
    }

    fn draw(&self, random: &mut Random) -> u64 {
        match self {
            Ranks::Uniform(count) => random.below(*count),
            Ranks::Zipf(zipf) => zipf.sample(random),
        }
    }
}

struct Keys {
    count: u64,
    skew: Ranks,
    random: Random,
}

impl Keys {
    fn stream(mut self, workload: Workload, thread: (u64, u64), ops: u64, seed: u64) -> Vec<Op> {
        // All threads share the permutation: a hot key is hot for all of them.
        let scramble = Scramble::new(self.count, seed);
        let mut inserted = 0;
        let mut next = || {
            let kind = self.kind(workload);
            let key = match (workload, kind) {
                (_, Kind::Insert) => {
                    inserted += 1;
                    self.own(inserted - 1, thread)
                }
                (Workload::D, _) => self.latest(inserted, thread),
                (Workload::Miss, _) => self.count + scramble.key(self.skew.draw(&mut self.random)),
                _ => scramble.key(self.skew.draw(&mut self.random)),
            };
            Op::new(kind, key)
        };
        (0..ops).map(|_| next()).collect()
    }

    fn kind(&mut self, workload: Workload) -> Kind {
        let (other, percent) = match workload {
            Workload::A => (Kind::Update, 50),
            Workload::B => (Kind::Update, 5),
            Workload::C | Workload::Miss => return Kind::Read,
            Workload::D => (Kind::Insert, 5),
            Workload::F => (Kind::Modify, 50),
            Workload::W => return Kind::Update,
        };
        if self.random.below(100) < percent { other } else { Kind::Read }
    }

    /// The `n`-th key that this thread inserts; threads take turns beyond the loaded keys.
    fn own(&self, n: u64, (thread, threads): (u64, u64)) -> u64 {
        self.count + n * threads + thread
    }

    /// A key by its age: those that this thread inserted, newest first, then the loaded ones.
    fn latest(&mut self, inserted: u64, thread: (u64, u64)) -> u64 {
        let age = self.skew.draw(&mut self.random);
        match inserted.checked_sub(age + 1) {
            Some(n) => self.own(n, thread),
            None => self.count - 1 - (age - inserted),
        }
    }
}
