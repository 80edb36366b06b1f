//! `mercury`: repeats the measurements of Mercury's paper on Mercury itself: its locking schemes (SYSTOR'13,
//! figure 4), and the effect of an expansion on concurrent operations (section 4.1).
//!
//! Runs take turns within each round. The table shows the rate and the processor time of the working threads per
//! operation. If an expander, or anything else, must share the cores with them, the rate falls by the lost share,
//! but the time rises only by the disturbance.

use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::Args;
use fastrand::Rng;
use hotring_engines::{
    Expander, Locking, Mercury, MercuryConfig, MercuryHash, NoLock, OsMutex, TestAndSet,
};
use hotring_index::{Config, Growth, U64};

use crate::machine::{self, Machine, thread_time};
use crate::report::{self, Spread, Table};

/// Compare Mercury's locks, and its throughput with and without a running expansion
#[derive(Debug, Args)]
pub struct MercuryArgs {
    /// Keys in the table
    #[arg(long, value_parser = crate::count::count, default_value = "10M")]
    keys: u64,
    /// Operations per thread and measurement
    #[arg(long, value_parser = crate::count::count, default_value = "4M")]
    ops: u64,
    /// Measured rounds; figures are medians
    #[arg(long, default_value_t = 7)]
    rounds: usize,
}

/// The result of the variant without locks.
pub struct NoLocks {
    /// Million operations a second, of one thread.
    pub rate: Spread,
    /// The rate as a multiple of test-and-set's, round by round.
    pub to_test_and_set: Spread,
}

/// The name of a lock, the number of threads, and the function that takes one measurement.
type Run<'a> = (&'static str, usize, Box<dyn FnMut() -> Result<Sample> + 'a>);

/// Operations between two checks of the stop condition.
const BATCH: u64 = 1024;
/// The most keys that a thread draws. Longer runs repeat them.
const DRAWN_MAX: u64 = 1 << 22;
/// The number of draws so far, plus one.
static TURN: AtomicU64 = AtomicU64::new(1);
/// The interval of polls for the end of an expansion.
const POLL: Duration = Duration::from_millis(1);

impl MercuryArgs {
    /// Measures and prints.
    pub fn run(&self) -> Result<()> {
        ensure!(self.rounds > 0, "--rounds must be at least 1");
        ensure!(self.keys >= 1 << 10, "--keys is 1k at least: so many make a table");
        print!("{}", Machine::here());
        println!("\nGETs of {} keys at random, by locking scheme\n", self.keys);
        print!("{}", self.locks()?.render());
        println!("\nThe same before, during and after an expansion by a thread of its own\n");
        print!("{}", self.expansions()?.render());
        println!("\nInserts of {} keys into an empty table, one thread\n", self.keys);
        print!("{}", self.loads()?.render());
        Ok(())
    }

    /// Settings for a figure with these numbers of keys, operations and rounds.
    pub fn of(keys: u64, ops: u64, rounds: usize) -> Self {
        MercuryArgs { keys, ops, rounds }
    }

    /// Compares one thread without locks with one that uses test-and-set.
    pub fn no_lock(&self) -> Result<NoLocks> {
        let (slots, by) = (self.keys.next_power_of_two(), Expander::Sessions);
        let (none, tas) =
            (self.loaded::<NoLock>(slots, by)?, self.loaded::<TestAndSet>(slots, by)?);
        let get = Work { threads: 1, writes: false, keys: self.keys };
        let until = Until::Done(self.ops);
        let (mut rates, mut ratios) = (Vec::new(), Vec::new());
        for round in 0..self.rounds {
            let mut turn = [0.0; 2];
            for at in [round % 2, (round + 1) % 2] {
                let sample = match at {
                    0 => get.run(&none, &until)?,
                    _ => get.run(&tas, &until)?,
                };
                turn[at] = sample.mops;
            }
            rates.push(turn[0]);
            ratios.push(turn[0] / turn[1]);
        }
        Ok(NoLocks { rate: Spread::of(&rates), to_test_and_set: Spread::of(&ratios) })
    }

    /// The rate of GETs during an expansion as a share of the rate before it, round by round.
    pub fn slower_by_expansion(&self, threads: usize) -> Result<Spread> {
        let work = Work { threads, writes: false, keys: self.keys };
        let ratio =
            |_| self.expand_once(&work).map(|([before, during, _], _)| during.mops / before.mops);
        let ratios: Vec<f64> = (0..self.rounds).map(ratio).collect::<Result<_>>()?;
        Ok(Spread::of(&ratios))
    }

    /// Measures the paper's figure 4.
    fn locks(&self) -> Result<Table> {
        let (slots, by) = (self.keys.next_power_of_two(), Expander::Sessions);
        let tas = self.loaded::<TestAndSet>(slots, by)?;
        let mutex = self.loaded::<OsMutex>(slots, by)?;
        let none = self.loaded::<NoLock>(slots, by)?;
        let get = |threads| Work { threads, writes: false, keys: self.keys };
        let ops = Until::Done(self.ops);
        let mut runs: Vec<Run<'_>> = vec![
            ("none", 1, Box::new(|| get(1).run(&none, &ops))),
            ("test-and-set", 1, Box::new(|| get(1).run(&tas, &ops))),
            ("OS mutex", 1, Box::new(|| get(1).run(&mutex, &ops))),
            ("test-and-set", 2, Box::new(|| get(2).run(&tas, &ops))),
            ("OS mutex", 2, Box::new(|| get(2).run(&mutex, &ops))),
        ];
        let bar = report::progress((self.rounds * runs.len()) as u64, "locks");
        let mut samples = vec![Vec::new(); runs.len()];
        for round in 0..self.rounds {
            for turn in 0..runs.len() {
                let at = (round + turn) % runs.len();
                samples[at].push((runs[at].2)()?);
                bar.inc(1);
            }
        }
        bar.finish_and_clear();
        let mut table = Table::new(&["lock", "threads", "Mops/s", "min..max", "CPU ns/op"]);
        for ((name, threads, _), samples) in runs.iter().zip(&samples) {
            let [rate, range, cpu] = cells(samples);
            table.row(vec![(*name).to_owned(), threads.to_string(), rate, range, cpu]);
        }
        Ok(table)
    }

    /// Measures the paper's 9 %: a table of as many buckets as keys, or a few less, is measured before, during
    /// and after it doubles. Each round takes a new table.
    fn expansions(&self) -> Result<Table> {
        let cases = [(1, false), (1, true), (2, false), (2, true)];
        let bar = report::progress((self.rounds * cases.len()) as u64, "expansions");
        let mut samples = vec![[const { Vec::new() }; 3]; cases.len()];
        let mut seconds = vec![Vec::new(); cases.len()];
        for round in 0..self.rounds {
            for turn in 0..cases.len() {
                let at = (round + turn) % cases.len();
                let (threads, writes) = cases[at];
                let work = Work { threads, writes, keys: self.keys };
                let (round, elapsed) = self.expand_once(&work)?;
                for (samples, sample) in samples[at].iter_mut().zip(round) {
                    samples.push(sample);
                }
                seconds[at].push(elapsed.as_secs_f64());
                bar.inc(1);
            }
        }
        bar.finish_and_clear();
        let mut table = Table::new(&[
            "operations",
            "threads",
            "expansion",
            "Mops/s",
            "min..max",
            "CPU ns/op",
            "seconds",
        ]);
        for ((threads, writes), (samples, seconds)) in
            cases.iter().zip(samples.iter().zip(&seconds))
        {
            for (when, samples) in ["before", "during", "after"].iter().zip(samples) {
                let [rate, range, cpu] = cells(samples);
                let operations = if *writes { "GET, PUT by halves" } else { "GET" };
                let seconds = if *when == "during" {
                    format!("{:.2}", Spread::of(seconds).median)
                } else {
                    "-".to_owned()
                };
                table.row(vec![
                    operations.to_owned(),
                    threads.to_string(),
                    (*when).to_owned(),
                    rate,
                    range,
                    cpu,
                    seconds,
                ]);
            }
        }
        Ok(table)
    }

    fn expand_once(&self, work: &Work) -> Result<([Sample; 3], Duration)> {
        let slots = (self.keys / 2 + 1).next_power_of_two();
        let index = self.loaded::<TestAndSet>(slots, Expander::Thread)?;
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let expander = scope.spawn(|| {
                // The expander has a core of its own if one is left; otherwise it shares the workers' cores.
                let pinned = if work.threads == 1 { machine::pin(1) } else { Ok(()) };
                Mercury::maintain(&index, || stop.load(Ordering::Relaxed));
                pinned
            });
            let before = work.run(&index, &Until::Done(self.ops));
            let is_over = AtomicBool::new(false);
            let mut elapsed = Duration::ZERO;
            let during = std::thread::scope(|scope| {
                let during = scope.spawn(|| work.run(&index, &Until::Stopped(&is_over)));
                let start = Instant::now();
                while !index.session().grow() {
                    std::thread::sleep(POLL);
                }
                while index.stats().slots == slots {
                    std::thread::sleep(POLL);
                }
                elapsed = start.elapsed();
                is_over.store(true, Ordering::Relaxed);
                during.join().expect("a measuring thread panicked")
            });
            let after = work.run(&index, &Until::Done(self.ops));
            stop.store(true, Ordering::Relaxed);
            Mercury::wake(&index);
            expander.join().expect("the expander panicked")?;
            Ok(([before?, during?, after?], elapsed))
        })
    }

    /// Measures the total cost of growth: compares an insert into a table that grows, by sessions or by a thread,
    /// with an insert into a table of the final size.
    fn loads(&self) -> Result<Table> {
        let cases = ["as large as needed", "grown by the session", "grown by a thread"];
        let bar = report::progress((self.rounds * cases.len()) as u64, "inserts");
        let mut samples = vec![Vec::new(); cases.len()];
        let mut slots = [0; 3];
        for round in 0..self.rounds {
            for turn in 0..cases.len() {
                let at = (round + turn) % cases.len();
                let (sample, len) = self.load_once(at)?;
                samples[at].push(sample);
                slots[at] = len;
                bar.inc(1);
            }
        }
        bar.finish_and_clear();
        let mut table =
            Table::new(&["table", "Mops/s", "min..max", "CPU ns/op", "buckets in the end"]);
        for ((name, samples), slots) in cases.iter().zip(&samples).zip(slots) {
            let [rate, range, cpu] = cells(samples);
            table.row(vec![(*name).to_owned(), rate, range, cpu, slots.to_string()]);
        }
        Ok(table)
    }

    fn load_once(&self, case: usize) -> Result<(Sample, u64)> {
        let by = if case == 2 { Expander::Thread } else { Expander::Sessions };
        let mut config = config(by);
        if case == 0 {
            config.slots_initial = self.keys.next_power_of_two() as usize;
        }
        let index = MercuryHash::<U64>::new(config)?;
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let expander = scope.spawn(|| {
                let pinned = machine::pin(1);
                Mercury::maintain(&index, || stop.load(Ordering::Relaxed));
                pinned
            });
            machine::pin(0)?;
            let (start, cpu) = (Instant::now(), thread_time());
            let mut session = index.session();
            let inserted = (0..self.keys).filter(|&key| session.insert(key, key)).count() as u64;
            let sample = Sample::of(inserted, start.elapsed(), thread_time() - cpu);
            stop.store(true, Ordering::Relaxed);
            Mercury::wake(&index);
            expander.join().expect("the expander panicked")?;
            ensure!(inserted == self.keys, "{inserted} of {} keys were inserted", self.keys);
            Ok((sample, index.stats().slots))
        })
    }

    /// A table with `slots` buckets that does not grow by itself, loaded with all keys.
    fn loaded<L: Locking>(&self, slots: u64, by: Expander) -> Result<MercuryHash<U64, L>> {
        let growth = Some(Growth::Fixed);
        let slots_initial = slots as usize;
        let index = MercuryHash::new(Config { growth, slots_initial, ..config(by) })?;
        let mut session = index.session();
        (0..self.keys).for_each(|key| assert!(session.insert(key, key), "{key} was there"));
        drop(session);
        Ok(index)
    }
}

fn config(expander: Expander) -> Config {
    Config { engine: MercuryConfig { expander }.into(), ..Config::default() }
}

/// The work of threads in one measurement.
struct Work {
    threads: usize,
    /// Every second operation stores a value, in place.
    writes: bool,
    keys: u64,
}

/// The stop condition of the threads.
enum Until<'s> {
    /// Each thread has done this number of operations.
    Done(u64),
    /// The flag is set.
    Stopped(&'s AtomicBool),
}

impl Until<'_> {
    fn is_over(&self, done: u64) -> bool {
        match self {
            Self::Done(ops) => done >= *ops,
            Self::Stopped(stop) => stop.load(Ordering::Relaxed),
        }
    }
}

/// The result of one measurement.
#[derive(Clone, Copy, Debug)]
struct Sample {
    /// Million operations a second, of all threads.
    mops: f64,
    /// Nanoseconds of processor time per operation.
    cpu_ns: f64,
}

impl Sample {
    fn of(ops: u64, elapsed: Duration, cpu: Duration) -> Self {
        let ops = ops as f64;
        Sample { mops: ops / elapsed.as_secs_f64() / 1e6, cpu_ns: cpu.as_nanos() as f64 / ops }
    }
}

/// The rate, its range, and the processor time: medians.
fn cells(samples: &[Sample]) -> [String; 3] {
    let rates: Vec<f64> = samples.iter().map(|sample| sample.mops).collect();
    let times: Vec<f64> = samples.iter().map(|sample| sample.cpu_ns).collect();
    let Spread { median, min, max, .. } = Spread::of(&rates);
    [
        format!("{median:.2}"),
        format!("{min:.2}..{max:.2}"),
        format!("{:.0}", Spread::of(&times).median),
    ]
}

/// The work of one thread.
struct Part {
    ops: u64,
    found: u64,
    start: Instant,
    end: Instant,
    cpu: Duration,
}

impl Work {
    /// The rate over all threads, from the first start to the last end.
    fn run<L: Locking>(&self, index: &MercuryHash<U64, L>, until: &Until<'_>) -> Result<Sample> {
        let barrier = Barrier::new(self.threads);
        let parts: Vec<Result<Part>> = std::thread::scope(|scope| {
            let part = |core| {
                let barrier = &barrier;
                scope.spawn(move || self.part(index, core, until, barrier))
            };
            let handles: Vec<_> = (0..self.threads).map(part).collect();
            handles.into_iter().map(|h| h.join().expect("a measuring thread panicked")).collect()
        });
        let parts = parts.into_iter().collect::<Result<Vec<Part>>>()?;
        let start = parts.iter().map(|part| part.start).min();
        let end = parts.iter().map(|part| part.end).max();
        let elapsed = start.zip(end).map_or(Duration::ZERO, |(start, end)| end - start);
        let ops: u64 = parts.iter().map(|part| part.ops).sum();
        let found: u64 = parts.iter().map(|part| part.found).sum();
        ensure!(found == ops, "{} of {ops} keys were missed", ops - found);
        Ok(Sample::of(ops, elapsed, parts.iter().map(|part| part.cpu).sum()))
    }

    /// The number of keys that a thread draws in advance, in full batches. If the number of operations is
    /// unknown, more keys than caches hold.
    fn drawn(&self, until: &Until<'_>) -> u64 {
        let ops = match until {
            Until::Done(ops) => *ops,
            Until::Stopped(_) => DRAWN_MAX,
        };
        ops.clamp(1, DRAWN_MAX).next_multiple_of(BATCH)
    }

    fn part<L: Locking>(
        &self,
        index: &MercuryHash<U64, L>,
        core: usize,
        until: &Until<'_>,
        barrier: &Barrier,
    ) -> Result<Part> {
        let pinned = machine::pin(core);
        let mut session = index.session();
        // Each measurement draws other keys, before its clock starts.
        let turn = TURN.fetch_add(1, Ordering::Relaxed);
        let mut random = Rng::with_seed(turn);
        let keys: Vec<u64> = (0..self.drawn(until)).map(|_| random.u64(..self.keys)).collect();
        barrier.wait();
        pinned?;
        let (start, cpu) = (Instant::now(), thread_time());
        let (mut ops, mut found) = (0, 0);
        // At least one batch: a small table may have doubled before this thread runs.
        for batch in keys.chunks_exact(BATCH as usize).cycle() {
            if ops > 0 && until.is_over(ops) {
                break;
            }
            for (turn, &key) in (0..).zip(batch) {
                found += if self.writes && turn % 2 == 0 {
                    u64::from(session.put(key, turn))
                } else {
                    u64::from(black_box(session.get(key)).is_some())
                };
            }
            ops += BATCH;
        }
        Ok(Part { ops, found, start, end: Instant::now(), cpu: thread_time() - cpu })
    }
}
