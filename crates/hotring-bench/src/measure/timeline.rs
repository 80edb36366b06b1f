//! Throughput over time: the rate in each window while the work changes.
//!
//! A thread's clock is paused while it draws its next operations.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::rounds::check;
use crate::machine;
use crate::targets::{Mode, Tally, Target, Worker};
use crate::workload::feed::Feed;
use crate::workload::operations::{Keys, Kind, Op, Stream};

/// Operations between two reads of the clock.
const CHUNK: usize = 256;

/// The work during a period.
#[derive(Clone, Copy)]
pub struct Phase<'a> {
    /// The work of each thread. Streams are drawn again when they are used up, except streams of inserts, which
    /// run once.
    pub source: &'a Feed<'a>,
    /// The number of the first draw.
    pub turn: u64,
    /// The length of the period.
    pub lasts: Duration,
}

/// A sequence of phases.
#[derive(Clone, Copy)]
pub struct Timeline<'a> {
    /// The phases, which must all have the same number of threads.
    pub phases: &'a [Phase<'a>],
    /// The length of a window.
    pub window: Duration,
    /// The mode of lookups.
    pub mode: Mode,
}

impl Timeline<'_> {
    /// Million operations per second in each window, over all threads. Ends with the phases, or when the first
    /// thread has finished its inserts. Inserted keys stay.
    pub fn run(&self, target: &dyn Target) -> Result<Vec<f64>> {
        let threads = self.phases.first().map_or(0, |phase| phase.source.threads());
        let is_same = self.phases.iter().all(|phase| phase.source.threads() == threads);
        ensure!(is_same && threads > 0, "all phases need the same number of threads, at least one");
        let barrier = Barrier::new(threads);
        let results: Vec<Result<(Vec<u64>, Tally)>> = std::thread::scope(|scope| {
            let barrier = &barrier;
            let work = |n| scope.spawn(move || self.work(target, n, barrier));
            let handles: Vec<_> = (0..threads).map(work).collect();
            handles.into_iter().map(|h| h.join().expect("a measuring thread panicked")).collect()
        });
        let results = results.into_iter().collect::<Result<Vec<_>>>()?;
        let mut tally = Tally::default();
        results.iter().for_each(|result| tally.add(result.1));
        check(target, &tally, self.phases.iter().all(|phase| phase.source.present()))?;
        let full = results.iter().map(|(windows, _)| windows.len()).min().unwrap_or_default();
        let rate = |window: usize| {
            let ops: u64 = results.iter().map(|(windows, _)| windows[window]).sum();
            ops as f64 / self.window.as_secs_f64() / 1e6
        };
        Ok((0..full).map(rate).collect())
    }

    /// The operations of one thread in each complete window.
    fn work(&self, target: &dyn Target, n: usize, barrier: &Barrier) -> Result<(Vec<u64>, Tally)> {
        let pinned = machine::pin(n);
        let draws: Result<Vec<Draws<'_>>> =
            self.phases.iter().map(|phase| Draws::new(phase, n, target.keys())).collect();
        barrier.wait();
        pinned?;
        let mut work = Work {
            worker: target.worker(),
            mode: self.mode,
            window: self.window,
            start: Instant::now(),
            windows: Vec::new(),
            tally: Tally::default(),
        };
        let mut end = Duration::ZERO;
        for mut draws in draws? {
            end += draws.phase.lasts;
            if !work.phase(&mut draws, end)? {
                break;
            }
        }
        // The last window is incomplete.
        work.windows.pop();
        Ok((work.windows, work.tally))
    }
}

/// The work of a thread in a phase.
struct Draws<'a> {
    phase: &'a Phase<'a>,
    thread: usize,
    keys: Keys,
    turn: u64,
    ops: Vec<Op>,
    /// The reads of each chunk of `ops` and the sum of their keys, which are counted while the clock stands.
    reads: Vec<(u64, u64)>,
}

impl<'a> Draws<'a> {
    /// Starts with the first draw of the phase.
    fn new(phase: &'a Phase<'a>, thread: usize, keys: Keys) -> Result<Self> {
        let ops = phase.source.stream(phase.turn, thread, keys)?;
        let reads = reads_of_chunks(&ops);
        Ok(Draws { phase, thread, keys, turn: phase.turn, ops, reads })
    }

    /// Draws the next operations. False for a stream of inserts, which must run only once.
    fn next(&mut self) -> Result<bool> {
        if self.ops.iter().any(|op| op.kind() == Kind::Insert) {
            return Ok(false);
        }
        self.turn += 1;
        self.ops = self.phase.source.stream(self.turn, self.thread, self.keys)?;
        self.reads = reads_of_chunks(&self.ops);
        Ok(true)
    }

    fn chunks(&self) -> impl Iterator<Item = Stream<'_>> {
        let chunks = self.ops.chunks(CHUNK).zip(&self.reads);
        chunks.map(|(ops, &(reads, sum))| Stream { ops, reads, sum })
    }
}

fn reads_of_chunks(ops: &[Op]) -> Vec<(u64, u64)> {
    ops.chunks(CHUNK).map(Stream::of).map(|stream| (stream.reads, stream.sum)).collect()
}

/// One thread at work.
struct Work<'a> {
    worker: Box<dyn Worker + 'a>,
    mode: Mode,
    window: Duration,
    /// The start, moved forward by each pause.
    start: Instant,
    windows: Vec<u64>,
    tally: Tally,
}

impl Work<'_> {
    /// Works until `end`; false if a stream of inserts is used up before.
    fn phase(&mut self, draws: &mut Draws<'_>, end: Duration) -> Result<bool> {
        loop {
            for stream in draws.chunks() {
                self.tally.add(self.worker.run(stream, self.mode));
                let now = self.start.elapsed();
                let window = (now.as_nanos() / self.window.as_nanos()) as usize;
                if self.windows.len() <= window {
                    self.windows.resize(window + 1, 0);
                }
                self.windows[window] += stream.ops.len() as u64;
                if now >= end {
                    return Ok(true);
                }
            }
            let pause = Instant::now();
            if !draws.next()? {
                return Ok(false);
            }
            self.start += pause.elapsed();
        }
    }
}

#[cfg(test)]
mod tests {
    use indicatif::ProgressBar;

    use super::*;
    use crate::targets::{Plan, TargetName};
    use crate::workload::operations::Workload;
    use crate::workload::skew::Skew;
    use crate::workload::streams::Draw;

    const KEYS: u64 = 1_000;
    const WINDOW: Duration = Duration::from_millis(2);

    fn source(workload: Workload, hot_set: u64) -> Feed<'static> {
        let skew = Skew::Zipf(0.99);
        let (threads, ops, seed, turn) = (2, 2_000, 1, 0);
        Draw { workload, skew, keys: KEYS, threads, ops, seed, hot_set, turn }.into()
    }

    fn target() -> Box<dyn Target> {
        let target = Plan::new(TargetName::Hotring, KEYS).build().expect("it can be built");
        target.load(KEYS, &ProgressBar::hidden());
        target
    }

    #[test]
    fn windows_cover_the_phases() {
        let (first, second) = (source(Workload::C, 0), source(Workload::B, 1));
        let lasts = Duration::from_millis(20);
        let phases = [&first, &second].map(|source| Phase { source, turn: 0, lasts });
        let timeline = Timeline { phases: &phases, window: WINDOW, mode: Mode::Scalar };
        let rates = timeline.run(&*target()).expect("all reads are right");
        assert!(rates.len() >= 20, "{} windows", rates.len());
        assert!(rates.iter().sum::<f64>() > 0.0);
    }

    #[test]
    fn a_thread_that_has_finished_its_operations_draws_others() {
        let source = source(Workload::C, 0);
        let phase = Phase { source: &source, turn: 7, lasts: Duration::ZERO };
        let mut draws = Draws::new(&phase, 1, Keys::Scattered).expect("it can be drawn");
        let keys = |ops: &[Op]| ops.iter().map(|op| op.key()).collect::<Vec<u64>>();
        let first = keys(&draws.ops);
        let whole = source.streams(7).expect("it can be drawn");
        assert_eq!(first, keys(&whole.of_keys(Keys::Scattered)[1]), "a part of the whole");
        assert!(draws.next().expect("it can be drawn"));
        assert_ne!(first, keys(&draws.ops));
    }

    #[test]
    fn inserts_are_done_once() {
        let target = target();
        let source = source(Workload::Grow, 0);
        let phases = [Phase { source: &source, turn: 0, lasts: Duration::from_secs(3_600) }];
        let timeline = Timeline { phases: &phases, window: WINDOW, mode: Mode::Scalar };
        timeline.run(&*target).expect("all reads are right");
        let streams = source.streams(0).expect("it can be drawn");
        let inserted = streams.of_keys(target.keys()).concat();
        let inserted: Vec<Op> = inserted
            .iter()
            .filter(|op| op.kind() == Kind::Insert)
            .map(|op| Op::new(Kind::Read, op.key()))
            .collect();
        let tally = target.worker().run(Stream::of(&inserted), Mode::Scalar);
        assert_eq!(tally.found, inserted.len() as u64);
    }

    #[test]
    fn phases_have_the_same_threads() {
        let phases: [Phase<'_>; 0] = [];
        let timeline = Timeline { phases: &phases, window: WINDOW, mode: Mode::Scalar };
        assert!(timeline.run(&*target()).is_err());
    }
}
