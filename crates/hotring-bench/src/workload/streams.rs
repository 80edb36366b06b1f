//! Streams of operations, drawn before the clock starts.

use anyhow::{Result, ensure};
use fastrand::Rng;

use super::mix::mix;
use super::operations::{Keys, Kind, Op, Workload};
use super::scramble::Scramble;
use super::skew::{Ranks, Skew};
use super::trace::Trace;

/// The settings of streams to draw.
#[derive(Clone, Copy, Debug)]
pub struct Draw {
    /// The mix of operations.
    pub workload: Workload,
    /// The distribution of accesses over the keys.
    pub skew: Skew,
    /// The number of loaded keys, which are numbered from 0.
    pub keys: u64,
    /// The number of streams, one for each thread.
    pub threads: usize,
    /// Operations per stream.
    pub ops: u64,
    /// Equal seeds give equal streams.
    pub seed: u64,
    /// The number of the hot set. Each number gives other hot keys.
    pub hot_set: u64,
    /// The number of the turn. Each number gives other accesses to the same keys, so each turn of a measurement
    /// must have its own.
    pub turn: u64,
}

/// Distinguishes the unmeasured turns from all measured ones.
const LEAD: u64 = 1 << 63;

/// The streams of all threads.
#[derive(Clone, Debug)]
pub struct Streams {
    dense: Vec<Vec<Op>>,
    scattered: Vec<Vec<Op>>,
    /// Whether every read must find its key. If not, none may.
    pub present: bool,
}

impl Draw {
    /// Draws the streams of all threads.
    pub fn streams(&self) -> Result<Streams> {
        ensure!(self.keys > 0 && self.threads > 0, "there must be at least one key and one thread");
        // Threads draw in parallel, because the measurement waits for the streams.
        let streams = std::thread::scope(|scope| {
            let handles: Vec<_> =
                (0..self.threads).map(|thread| scope.spawn(move || self.stream(thread))).collect();
            handles.into_iter().map(|h| h.join().expect("a drawing thread panicked")).collect()
        });
        Ok(Streams::of(streams, self.workload))
    }

    /// Draws one thread's stream.
    pub fn stream(&self, thread: usize) -> Vec<Op> {
        let hot_set = |later| Scramble::new(self.keys, self.seed ^ (self.hot_set + later) << 32);
        let source = Source {
            draw: self,
            thread: thread as u64,
            ranks: Ranks::new(self.skew, self.keys),
            hot: [0, 1].map(hot_set),
            random: self.random(thread),
            inserted: 0,
            last: 0,
        };
        source.ops()
    }

    /// Draws the unmeasured part of a turn: other accesses, a quarter of the number, which insert nothing and
    /// need no inserted key.
    pub fn lead(&self) -> Result<Streams> {
        let lead = Draw { ops: self.ops / 4, turn: self.turn ^ LEAD, ..*self };
        let mut streams = lead.streams()?;
        if self.workload.inserts() {
            let loaded = |op: &Op| op.kind() != Kind::Insert && op.key() < self.keys;
            streams.dense.iter_mut().for_each(|ops| ops.retain(loaded));
        }
        Ok(streams)
    }

    /// A generator with a different seed for each setting, so that no block of a run repeats the accesses of
    /// another.
    fn random(&self, thread: usize) -> Rng {
        let Draw { workload, skew, threads, .. } = *self;
        let setting =
            [self.turn, thread as u64, threads as u64, workload as u64, skew.theta().to_bits()];
        let word = |seed: u64, word: u64| mix(seed.wrapping_add(0x9E37_79B9_7F4A_7C15) ^ word);
        Rng::with_seed(setting.into_iter().fold(self.seed, word))
    }
}

impl Streams {
    /// Distributes the accesses of a trace over the threads in turn. Keys are numbered in order of appearance.
    /// The mix decides the kind of each access.
    pub fn of_trace(trace: &Trace, workload: Workload, threads: usize, seed: u64) -> Result<Self> {
        ensure!(
            threads > 0 && !trace.accesses().is_empty(),
            "there must be at least one access and one thread"
        );
        ensure!(
            !workload.inserts(),
            "a trace defines its keys, but workload {workload} inserts others"
        );
        ensure!(
            workload != Workload::Rur,
            "a trace defines the order of its keys, but workload {workload} uses each three times"
        );
        let keys = trace.distinct() as u64;
        let stream = |thread: usize| {
            let mut random = Rng::with_seed(mix(seed) ^ thread as u64);
            let beyond = if workload == Workload::Miss { keys } else { 0 };
            let accesses = trace.accesses().iter().skip(thread).step_by(threads);
            accesses
                .map(|&key| Op::new(workload.kind(&mut random), beyond + u64::from(key)))
                .collect()
        };
        Ok(Self::of((0..threads).map(stream).collect(), workload))
    }

    fn of(dense: Vec<Vec<Op>>, workload: Workload) -> Self {
        Streams { dense, scattered: Vec::new(), present: workload != Workload::Miss }
    }

    /// Adds the streams for targets whose keys are scattered.
    pub fn with_scattered(mut self) -> Self {
        let scatter = |op: &Op| Op::new(op.kind(), Keys::Scattered.key(op.key()));
        self.scattered = self.dense.iter().map(|ops| ops.iter().map(scatter).collect()).collect();
        self
    }

    /// Appends the streams of `others` as those of further threads.
    pub fn with_background(mut self, others: Streams) -> Self {
        self.dense.extend(others.dense);
        self.scattered.extend(others.scattered);
        self.present &= others.present;
        self
    }

    /// The last quarter of each stream. For traces, which insert nothing.
    pub fn last_quarter(&self) -> Self {
        let last = |all: &Vec<Vec<Op>>| -> Vec<Vec<Op>> {
            all.iter().map(|ops| ops[ops.len() - ops.len() / 4..].to_vec()).collect()
        };
        Streams { dense: last(&self.dense), scattered: last(&self.scattered), ..*self }
    }

    /// The number of streams.
    pub fn threads(&self) -> usize {
        self.dense.len()
    }

    /// The number of operations in all streams.
    pub fn ops(&self) -> usize {
        self.dense.iter().map(Vec::len).sum()
    }

    /// The streams for targets with keys of this form.
    pub fn of_keys(&self, keys: Keys) -> &[Vec<Op>] {
        match keys {
            Keys::Dense => &self.dense,
            Keys::Scattered => {
                assert!(
                    !self.scattered.is_empty(),
                    "streams for scattered keys were not asked for"
                );
                &self.scattered
            }
        }
    }
}

/// One thread's stream while it is drawn.
struct Source<'a> {
    draw: &'a Draw,
    thread: u64,
    ranks: Ranks,
    /// The permutations for the two hot sets. All threads share them, so a hot key is hot for all threads.
    hot: [Scramble; 2],
    random: Rng,
    inserted: u64,
    /// The key of the previous operation, for mixes that repeat keys.
    last: u64,
}

impl Source<'_> {
    fn ops(mut self) -> Vec<Op> {
        (0..self.draw.ops).map(|at| self.next(at)).collect()
    }

    fn next(&mut self, at: u64) -> Op {
        let Draw { workload, skew, keys, ops, .. } = *self.draw;
        if workload == Workload::Rur {
            return self.read_update_read(at);
        }
        let kind = workload.kind(&mut self.random);
        let key = match (kind, skew) {
            (Kind::Insert, _) => {
                self.inserted += 1;
                self.own(self.inserted - 1)
            }
            _ if workload == Workload::D => self.latest(),
            (_, Skew::Latest(_)) => self.latest(),
            (_, Skew::Shift(_)) => self.hot(usize::from(at >= ops / 2)),
            _ => self.hot(0),
        };
        Op::new(kind, if workload == Workload::Miss { keys + key } else { key })
    }

    /// Gives three operations on each key that is drawn.
    fn read_update_read(&mut self, at: u64) -> Op {
        if at.is_multiple_of(3) {
            self.last = self.hot(0);
        }
        Op::new([Kind::Read, Kind::Update, Kind::Read][at as usize % 3], self.last)
    }

    fn hot(&mut self, set: usize) -> u64 {
        self.hot[set].key(self.ranks.draw(&mut self.random))
    }

    /// The `n`-th key that this thread inserts. Threads alternate in the numbers beyond the loaded keys.
    fn own(&self, n: u64) -> u64 {
        self.draw.keys + n * self.draw.threads as u64 + self.thread
    }

    /// Draws a key by its age: those that this thread inserted, newest first, then the loaded ones.
    fn latest(&mut self) -> u64 {
        let age = self.ranks.draw(&mut self.random);
        match self.inserted.checked_sub(age + 1) {
            Some(n) => self.own(n),
            None => self.draw.keys - 1 - (age - self.inserted),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    const DRAW: Draw = Draw {
        workload: Workload::C,
        skew: Skew::Zipf(1.22),
        keys: 10_000,
        threads: 2,
        ops: 20_000,
        seed: 5,
        hot_set: 0,
        turn: 0,
    };

    /// The key that most operations go to.
    fn hottest(ops: &[Op]) -> u64 {
        let mut counts = HashMap::new();
        ops.iter().for_each(|op| *counts.entry(op.key()).or_insert(0) += 1);
        counts.into_iter().max_by_key(|&(_, count)| count).expect("there are operations").0
    }

    fn drawn(draw: Draw) -> Vec<Vec<Op>> {
        draw.streams().expect("it can be drawn").of_keys(Keys::Dense).to_vec()
    }

    #[test]
    fn threads_share_the_hot_keys_and_hot_sets_differ() {
        let streams = drawn(DRAW);
        assert_eq!(hottest(&streams[0]), hottest(&streams[1]));
        let other = drawn(Draw { hot_set: 1, ..DRAW });
        assert_ne!(hottest(&streams[0]), hottest(&other[0]));
    }

    /// Once, each round replayed the same stream. This favoured strategies that remember the last access, and
    /// strategies that count accesses never finished counting.
    #[test]
    fn each_turn_has_other_accesses_to_the_same_hot_keys() {
        let keys = |draw: Draw| drawn(draw)[0].iter().map(|op| op.key()).collect::<Vec<u64>>();
        let (first, second) = (keys(DRAW), keys(Draw { turn: 1, ..DRAW }));
        assert_ne!(first, second);
        assert_eq!(first, keys(DRAW), "the same turn again");
        assert_eq!(hottest(&drawn(DRAW)[0]), hottest(&drawn(Draw { turn: 1, ..DRAW })[0]));
        let alone = keys(Draw { threads: 1, ..DRAW });
        assert_ne!(first, alone, "another number of threads is another block");
    }

    #[test]
    fn the_lead_inserts_nothing_and_is_not_part_of_the_stream() {
        let draw = Draw { workload: Workload::D, ..DRAW };
        let lead = draw.lead().expect("it can be drawn").of_keys(Keys::Dense).to_vec();
        assert!(lead.iter().flatten().all(|op| op.key() < DRAW.keys));
        assert!(lead.iter().flatten().all(|op| op.kind() == Kind::Read));
        let lead = DRAW.lead().expect("it can be drawn").of_keys(Keys::Dense).to_vec();
        assert_eq!(lead[0].len(), DRAW.ops as usize / 4);
        let timed = drawn(DRAW);
        let same = lead[0].iter().zip(&timed[0]).filter(|(a, b)| a.key() == b.key()).count();
        assert!(same < lead[0].len() / 5, "{same} of {} at the same place", lead[0].len());
    }

    #[test]
    fn the_hot_set_shifts_in_the_middle() {
        let streams = drawn(Draw { skew: Skew::Shift(1.22), ..DRAW });
        let (before, after) = streams[0].split_at(10_000);
        assert_ne!(hottest(before), hottest(after));
        assert_eq!(hottest(before), hottest(&drawn(DRAW)[0]));
    }

    #[test]
    fn the_latest_keys_are_the_hot_ones() {
        let loaded = drawn(Draw { skew: Skew::Latest(0.99), ..DRAW });
        assert_eq!(hottest(&loaded[0]), DRAW.keys - 1);
        let grown = drawn(Draw { workload: Workload::D, ..DRAW });
        let (mut seen, mut newest) = (0, DRAW.keys - 1);
        for op in &grown[0] {
            match op.kind() {
                Kind::Insert => newest = op.key(),
                _ => seen += usize::from(op.key() == newest),
            }
        }
        // The share of the hottest at this skew is a fifth or more.
        assert!(seen > 3_000, "{seen} of about 19,000 reads are of the newest key");
    }

    #[test]
    fn threads_insert_different_keys_beyond_the_loaded_ones() {
        let streams = drawn(Draw { workload: Workload::Grow, ..DRAW });
        let inserts = |ops: &Vec<Op>| ops.iter().filter(|op| op.kind() == Kind::Insert).count();
        let count: usize = streams.iter().map(inserts).sum();
        let mut keys: Vec<u64> =
            streams.concat().iter().map(|op| op.key()).filter(|&key| key >= DRAW.keys).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), count);
    }

    #[test]
    fn mixes_have_their_shares() {
        let expected = [
            (Workload::A, Kind::Update, 50),
            (Workload::B, Kind::Update, 5),
            (Workload::C, Kind::Read, 100),
            (Workload::D, Kind::Insert, 5),
            (Workload::F, Kind::Modify, 50),
            (Workload::W, Kind::Update, 100),
            (Workload::Miss, Kind::Read, 100),
            (Workload::Grow, Kind::Insert, 50),
        ];
        for (workload, kind, percent) in expected {
            let streams = drawn(Draw { workload, threads: 1, ..DRAW });
            let count = streams[0].iter().filter(|op| op.kind() == kind).count();
            let off = (count * 100).abs_diff(streams[0].len() * percent);
            assert!(off <= streams[0].len() * 2, "{workload}: {count} of {kind:?}");
            let absent =
                streams[0].iter().filter(|op| op.kind() == Kind::Read && op.key() >= DRAW.keys);
            assert_eq!(absent.count() == streams[0].len(), workload == Workload::Miss);
        }
    }

    #[test]
    fn a_key_is_read_updated_and_read_again() {
        let streams = drawn(Draw { workload: Workload::Rur, ..DRAW });
        for three in streams[0].chunks_exact(3) {
            assert!(three.iter().all(|op| op.key() == three[0].key()));
            let kinds = [Kind::Read, Kind::Update, Kind::Read];
            assert!(three.iter().map(|op| op.kind()).eq(kinds));
        }
        let first = streams[0][0].key();
        let same = streams[0].chunks_exact(3).filter(|three| three[0].key() == first).count();
        assert!(same < streams[0].len() / 6, "others follow: {same} times {first}");
    }

    #[test]
    fn a_trace_is_shared_by_the_threads_in_turns() {
        let trace = Trace::parse(b"a\nb\na\nc\n".as_slice(), super::super::trace::Format::Lines, 9)
            .expect("it is one");
        let streams = Streams::of_trace(&trace, Workload::C, 2, 1).expect("it can be shared");
        let keys: Vec<Vec<u64>> = streams
            .of_keys(Keys::Dense)
            .iter()
            .map(|ops| ops.iter().map(|op| op.key()).collect())
            .collect();
        assert_eq!(keys, [vec![0, 0], vec![1, 2]]);
        assert!(Streams::of_trace(&trace, Workload::D, 2, 1).is_err());
    }

    #[test]
    fn scattered_streams_do_the_same_to_other_keys() {
        let streams = DRAW.streams().expect("it can be drawn").with_scattered();
        for (dense, scattered) in
            streams.of_keys(Keys::Dense)[0].iter().zip(&streams.of_keys(Keys::Scattered)[0])
        {
            assert_eq!(Keys::Scattered.key(dense.key()), scattered.key());
        }
    }
}
