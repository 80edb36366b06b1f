//! `pauses`: times every operation of one thread that inserts and of one that reads while a map doubles.
//!
//! Times are processor time of the thread, so that other processes' turns do not count, nor does a wait in which the
//! thread sleeps or gives way: a map that blocks looks better than it is. What the system does on behalf of an
//! operation does count: faults of fresh pages above all, and a timer interrupt in every few thousand. So does the
//! reading of the clock, about .4 us.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;

use crate::machine::{self, Machine, resident, thread_time};
use crate::measure::latency::{self, Latencies};
use crate::report::{self, Table};
use crate::targets::{Mode, Plan, Target, TargetName, Worker};
use crate::workload::operations::{Keys, Kind, Op, Stream};

/// Time each insert and each read while a map of integers doubles: the pauses of growth
///
/// Times are processor time of the operation's thread: waits for other threads are left out.
#[derive(Debug, Args)]
pub struct PausesArgs {
    /// Keys to load; as many are inserted afterwards
    #[arg(long, value_parser = crate::count::count, default_value = "10M")]
    keys: u64,
    /// Timed operations at rest
    #[arg(long, value_parser = crate::count::count, default_value = "2M")]
    ops: u64,
    /// What to measure
    #[arg(long, value_enum, value_delimiter = ',', default_value = "lines,hotring")]
    targets: Vec<TargetName>,
    /// Let a third thread do the work of growth that a map leaves to whoever has time
    #[arg(long)]
    maintain: bool,
}

/// Time between two looks at the memory of the process.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// What was measured of one target.
struct Pauses {
    reads_at_rest: Latencies,
    puts_at_rest: Latencies,
    reads: Latencies,
    inserts: Latencies,
    /// The most memory at any moment, and the memory at the end.
    memory: (u64, u64),
}

impl PausesArgs {
    /// Measures and prints.
    pub fn run(&self) -> Result<()> {
        ensure!(self.keys >= 1 << 10 && self.ops >= 1 << 10, "--keys and --ops are 1024 or more");
        machine::huge_pages_for_all()?;
        println!("{}", Machine::here());
        let columns = ["map", "operation", "p50 us", "p99 us", "p99.9 us", "p99.99 us", "worst us"];
        let mut table = Table::new(&columns);
        let mut memory = Table::new(&["map", "most MiB", "MiB at the end", "ratio"]);
        for name in &self.targets {
            // A map each, one after the other: their memory must not mix.
            let plan = Plan { keys: Keys::Scattered, ..Plan::new(*name, 2 * self.keys) };
            let before = resident()?;
            let pauses = self.measure(&*plan.build()?)?;
            pauses.add_to(&mut table, &plan.name());
            let (most, end) = pauses.memory;
            let mib = |bytes: u64| bytes.saturating_sub(before) as f64 / f64::from(1 << 20);
            memory.row(vec![
                plan.name(),
                format!("{:.0}", mib(most)),
                format!("{:.0}", mib(end)),
                format!("{:.2}", mib(most) / mib(end)),
            ]);
        }
        println!("{}\n{}", table.render(), memory.render());
        Ok(())
    }

    fn measure(&self, target: &dyn Target) -> Result<Pauses> {
        let bar = report::progress(self.keys, &format!("load {}", target.name()));
        target.load(self.keys, &bar);
        bar.finish_and_clear();
        let (mut reads_at_rest, mut puts_at_rest) = (latency::none(), latency::none());
        let mut timer = Timer::on(target);
        let mut numbers = Numbers::new(self.keys);
        for _ in 0..self.ops {
            timer.time(Kind::Read, numbers.next(), &mut reads_at_rest);
        }
        for _ in 0..self.ops {
            timer.time(Kind::Update, numbers.next(), &mut puts_at_rest);
        }
        drop(timer);
        let (reads, inserts, most) = self.double(target)?;
        Ok(Pauses { reads_at_rest, puts_at_rest, reads, inserts, memory: (most, resident()?) })
    }

    /// Inserts as many keys as there are beside a thread that reads the old ones. Returns the times of reads and
    /// inserts, and the most memory meanwhile.
    fn double(&self, target: &dyn Target) -> Result<(Latencies, Latencies, u64)> {
        let (is_done, most) = (AtomicBool::new(false), AtomicU64::new(resident()?));
        // ORDERING: Relaxed here and below: the flag only says when to stop, the other is a count.
        let done = || is_done.load(Ordering::Relaxed);
        let (reads, inserts) = std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let (mut timer, mut reads) = (Timer::on(target), latency::none());
                let mut numbers = Numbers::new(self.keys);
                while !done() {
                    timer.time(Kind::Read, numbers.next(), &mut reads);
                }
                reads
            });
            scope.spawn(|| {
                while !done() {
                    most.fetch_max(resident().unwrap_or_default(), Ordering::Relaxed);
                    std::thread::sleep(LOOK_EVERY);
                }
            });
            if self.maintain {
                scope.spawn(|| {
                    let mut worker = target.worker();
                    while !done() {
                        worker.settle();
                        std::thread::sleep(Duration::from_millis(1));
                    }
                });
            }
            let (mut timer, mut inserts) = (Timer::on(target), latency::none());
            let bar = report::progress(self.keys, "insert");
            let mut strides = report::Strides::on(&bar);
            for number in self.keys..2 * self.keys {
                timer.time(Kind::Insert, number, &mut inserts);
                strides.add(1);
            }
            bar.finish_and_clear();
            is_done.store(true, Ordering::Relaxed);
            (reader.join().expect("the reader does not panic"), inserts)
        });
        Ok((reads, inserts, most.load(Ordering::Relaxed)))
    }
}

impl Pauses {
    fn add_to(&self, table: &mut Table, name: &str) {
        let rows = [
            ("read at rest", &self.reads_at_rest),
            ("put at rest", &self.puts_at_rest),
            ("read beside inserts", &self.reads),
            ("insert", &self.inserts),
        ];
        for (operation, times) in rows {
            let us = |quantile: f64| {
                let nanoseconds = times.value_at_quantile(quantile);
                format!("{:.1}", nanoseconds as f64 / 1e3)
            };
            let cells = [0.5, 0.99, 0.999, 0.9999, 1.0].map(us);
            let names = [name.to_owned(), operation.to_owned()];
            table.row(names.into_iter().chain(cells).collect());
        }
    }
}

/// Runs operations on a target one by one and times each.
struct Timer<'t> {
    worker: Box<dyn Worker + 't>,
    keys: Keys,
}

impl<'t> Timer<'t> {
    fn on(target: &'t dyn Target) -> Self {
        Self { worker: target.worker(), keys: target.keys() }
    }

    fn time(&mut self, kind: Kind, number: u64, times: &mut Latencies) {
        let ops = [Op::new(kind, self.keys.key(number))];
        let stream = Stream::of(&ops);
        let start = thread_time();
        let tally = self.worker.run(stream, Mode::Scalar);
        let time = thread_time() - start;
        assert!(tally.missed == 0 && tally.wrong == 0, "a loaded key has its value");
        times.saturating_record(time.as_nanos() as u64);
    }
}

/// Random numbers below a limit, by xorshift: the clock is the expensive part.
struct Numbers {
    state: u64,
    below: u64,
}

impl Numbers {
    fn new(below: u64) -> Self {
        Self { state: 0x9e37_79b9_7f4a_7c15, below }
    }

    fn next(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state % self.below
    }
}
