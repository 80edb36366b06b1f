//! Throughput over time: what threads get done in each window of it, while what they do changes.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::rounds::check;
use crate::machine;
use crate::targets::{Mode, Tally, Target, Worker};
use crate::workload::operations::{Kind, Op};
use crate::workload::streams::Streams;

/// Operations between two looks at the clock.
const CHUNK: usize = 256;

/// What is done for a while.
#[derive(Clone, Copy)]
pub struct Phase<'a> {
    /// What each thread does, again and again; or once, where it inserts.
    pub streams: &'a Streams,
    /// For how long.
    pub lasts: Duration,
}

/// Phases one after the other.
#[derive(Clone, Copy)]
pub struct Timeline<'a> {
    /// All with the same number of threads.
    pub phases: &'a [Phase<'a>],
    /// The length of a window.
    pub window: Duration,
    /// How lookups are made.
    pub mode: Mode,
}

impl Timeline<'_> {
    /// Million operations a second in each window, of all threads together. It ends with the phases,
    /// or where the first thread is through with inserting. What is inserted stays.
    pub fn run(&self, target: &dyn Target) -> Result<Vec<f64>> {
        let threads = self.phases.first().map_or(0, |phase| phase.streams.threads());
        let same = self.phases.iter().all(|phase| phase.streams.threads() == threads);
        ensure!(same && threads > 0, "phases with the same number of threads, and at least one");
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
        check(target, &tally, self.phases.iter().all(|phase| phase.streams.present))?;
        let full = results.iter().map(|(windows, _)| windows.len()).min().unwrap_or_default();
        let rate = |window: usize| {
            let ops: u64 = results.iter().map(|(windows, _)| windows[window]).sum();
            ops as f64 / self.window.as_secs_f64() / 1e6
        };
        Ok((0..full).map(rate).collect())
    }

    /// What one thread gets done in each window that it works through.
    fn work(&self, target: &dyn Target, n: usize, barrier: &Barrier) -> Result<(Vec<u64>, Tally)> {
        let pinned = machine::pin(n);
        let mut work = Work {
            worker: target.worker(),
            mode: self.mode,
            window: self.window,
            windows: Vec::new(),
            tally: Tally::default(),
        };
        barrier.wait();
        pinned?;
        let start = Instant::now();
        let mut end = Duration::ZERO;
        for phase in self.phases {
            end += phase.lasts;
            if !work.phase(&phase.streams.of_keys(target.keys())[n], start, end) {
                break;
            }
        }
        // The last one has begun and not ended.
        work.windows.pop();
        Ok((work.windows, work.tally))
    }
}

/// One thread at work.
struct Work<'a> {
    worker: Box<dyn Worker + 'a>,
    mode: Mode,
    window: Duration,
    windows: Vec<u64>,
    tally: Tally,
}

impl Work<'_> {
    /// Works until `end`; false: it is through with a stream that inserts.
    fn phase(&mut self, ops: &[Op], start: Instant, end: Duration) -> bool {
        let inserts = ops.iter().any(|op| op.kind() == Kind::Insert);
        loop {
            for chunk in ops.chunks(CHUNK) {
                self.tally.add(self.worker.run(chunk, self.mode));
                let now = start.elapsed();
                let window = (now.as_nanos() / self.window.as_nanos()) as usize;
                if self.windows.len() <= window {
                    self.windows.resize(window + 1, 0);
                }
                self.windows[window] += chunk.len() as u64;
                if now >= end {
                    return true;
                }
            }
            if inserts {
                return false;
            }
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

    fn streams(workload: Workload, hot_set: u64) -> Streams {
        let skew = Skew::Zipf(0.99);
        let draw = Draw { workload, skew, keys: KEYS, threads: 2, ops: 2_000, seed: 1, hot_set };
        draw.streams().expect("it can be drawn")
    }

    fn target() -> Box<dyn Target> {
        let target = Plan::new(TargetName::Hotring, KEYS).build().expect("it can be built");
        target.load(KEYS, &ProgressBar::hidden());
        target
    }

    #[test]
    fn windows_cover_the_phases() {
        let (first, second) = (streams(Workload::C, 0), streams(Workload::B, 1));
        let lasts = Duration::from_millis(20);
        let phases = [&first, &second].map(|streams| Phase { streams, lasts });
        let timeline = Timeline { phases: &phases, window: WINDOW, mode: Mode::Scalar };
        let rates = timeline.run(&*target()).expect("all reads are right");
        assert!(rates.len() >= 20, "{} windows", rates.len());
        assert!(rates.iter().sum::<f64>() > 0.0);
    }

    #[test]
    fn inserts_are_done_once() {
        let target = target();
        let streams = streams(Workload::Grow, 0);
        let phases = [Phase { streams: &streams, lasts: Duration::from_secs(3_600) }];
        let timeline = Timeline { phases: &phases, window: WINDOW, mode: Mode::Scalar };
        timeline.run(&*target).expect("all reads are right");
        let inserted = streams.of_keys(target.keys()).concat();
        let inserted: Vec<Op> = inserted
            .iter()
            .filter(|op| op.kind() == Kind::Insert)
            .map(|op| Op::new(Kind::Read, op.key()))
            .collect();
        let tally = target.worker().run(&inserted, Mode::Scalar);
        assert_eq!(tally.found, inserted.len() as u64);
    }

    #[test]
    fn phases_have_the_same_threads() {
        let phases: [Phase<'_>; 0] = [];
        let timeline = Timeline { phases: &phases, window: WINDOW, mode: Mode::Scalar };
        assert!(timeline.run(&*target()).is_err());
    }
}
