//! The timed loops that run operations on a session.

use std::time::Instant;

use super::{Session, Worker};
use crate::workload::operations::{Kind, Op, Stream};

/// The mode of lookups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// One after the other.
    Scalar,
    /// In batches of this number.
    Batched(usize),
    /// Through a queue, where the engine has one.
    Queued,
}

/// The counts of reads after running operations.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Reads that found their key.
    pub found: u64,
    /// Reads that did not find their key.
    pub missed: u64,
    /// Reads that found the value of another key. Loops that run one by one only count 1 if there was any.
    pub wrong: u64,
}

/// A value is its key; read-modify-writes leave these bits alone.
const CHECKED: u64 = (1 << 48) - 1;

impl Tally {
    /// Checks the answer of a read.
    pub(super) fn read(&mut self, key: u64, value: Option<u64>) {
        match value {
            Some(value) => {
                self.found += 1;
                self.wrong += u64::from((value ^ key) & CHECKED != 0);
            }
            None => self.missed += 1,
        }
    }

    /// Adds the counts of another thread, or of another part of a stream.
    pub fn add(&mut self, other: Tally) {
        self.found += other.found;
        self.missed += other.missed;
        self.wrong += other.wrong;
    }
}

/// Reads per iteration of the unrolled loop.
const UNROLLED: usize = 8;

/// Runs operations one after the other. Must be inlined, so that a guard stays in its register.
///
/// The loop over reads must have as few instructions as possible: the cache misses of a lookup overlap with those
/// of as many others as fit into the processor's window, so each instruction here would slow fast targets down
/// and flatter slow ones. So what is known before the clock starts is not found out here ([`Stream`]).
#[inline(always)]
pub(super) fn one_by_one(session: &mut impl Session, stream: Stream<'_>) -> Tally {
    let mut seen = Seen::default();
    if stream.are_reads() {
        let (unrolled, rest) = stream.ops.as_chunks::<UNROLLED>();
        for ops in unrolled {
            for op in ops {
                seen.check(session.get(op.read_key()), op.read_key());
            }
        }
        for op in rest {
            seen.check(session.get(op.read_key()), op.read_key());
        }
    } else {
        for op in stream.ops {
            match op.kind() {
                Kind::Read => seen.check(session.get(op.key()), op.key()),
                _ => write(session, *op),
            }
        }
    }
    let wrong = stream.sum.wrapping_sub(seen.sum) & CHECKED != 0;
    Tally { found: stream.reads - seen.missed, missed: seen.missed, wrong: wrong.into() }
}

/// The sums over reads. The sum of all values must equal the sum of all keys, where a missing value counts as its
/// key.
#[derive(Default)]
struct Seen {
    missed: u64,
    sum: u64,
}

impl Seen {
    /// Adds an answer.
    #[inline(always)]
    fn check(&mut self, value: Option<u64>, key: u64) {
        match value {
            Some(value) => self.sum = self.sum.wrapping_add(value),
            None => {
                // A conditional move would have to wait for the value's memory, so force a branch.
                std::hint::cold_path();
                self.missed += 1;
                self.sum = self.sum.wrapping_add(key);
            }
        }
    }
}

fn write(session: &mut impl Session, op: Op) {
    match op.kind() {
        Kind::Modify => session.add(op.key(), CHECKED + 1),
        _ => session.put(op.key(), op.key()),
    }
}

/// A session that runs operations.
pub(super) struct Running<S> {
    session: S,
    /// The keys of a batch.
    keys: Vec<u64>,
    values: Vec<Option<u64>>,
}

impl<S: Session> Running<S> {
    pub(super) fn on(session: S) -> Self {
        Running { session, keys: Vec::new(), values: Vec::new() }
    }

    /// Runs operations in windows. The reads of a window are looked up together, after its writes, as in a server
    /// with a pipeline of independent requests.
    fn batched(&mut self, ops: &[Op], batch: usize) -> Tally {
        let mut tally = Tally::default();
        self.values.resize(batch, None);
        for window in ops.chunks(batch) {
            self.keys.clear();
            for op in window {
                match op.kind() {
                    Kind::Read => self.keys.push(op.key()),
                    _ => write(&mut self.session, *op),
                }
            }
            let values = &mut self.values[..self.keys.len()];
            self.session.get_many(&self.keys, values);
            self.keys.iter().zip(values).for_each(|(&key, value)| tally.read(key, *value));
        }
        tally
    }
}

impl<S: Session> Worker for Running<S> {
    fn run(&mut self, stream: Stream<'_>, mode: Mode) -> Tally {
        match mode {
            Mode::Scalar => self.session.one_by_one(stream),
            Mode::Batched(batch) => self.batched(stream.ops, batch),
            Mode::Queued => self.session.queued(stream),
        }
    }

    fn time(&mut self, ops: &[Op], read: &mut dyn FnMut(u64)) -> Tally {
        let mut tally = Tally::default();
        for op in ops {
            if op.kind() != Kind::Read {
                write(&mut self.session, *op);
                continue;
            }
            let start = Instant::now();
            let value = self.session.get(op.key());
            let nanoseconds = start.elapsed().as_nanos();
            tally.read(op.key(), value);
            read(u64::try_from(nanoseconds).unwrap_or(u64::MAX));
        }
        tally
    }

    fn settle(&mut self) {
        self.session.settle();
    }

    fn undo(&mut self, ops: &[Op]) {
        for op in ops.iter().filter(|op| op.kind() == Kind::Insert) {
            self.session.remove(op.key());
        }
    }
}
