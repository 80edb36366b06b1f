//! `columns`: prints every figure of every map of numbers, as one table for each skew.
//!
//! Targets and columns take turns within each round, so that drift of the machine hits all of them alike. Rates
//! are millions of operations a second: the load rate comes from one run, all others are medians.

use std::time::Instant;

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};

use crate::machine::{self, Machine};
use crate::measure::fitness::Fitness;
use crate::measure::load::Loaded;
use crate::measure::rounds::{Entrant, Rounds};
use crate::report::{self, Spread, Table};
use crate::targets::{Mode, Plan, TargetName};
use crate::workload::feed::Feed;
use crate::workload::operations::{Keys, Kind, Op, Stream, Workload};
use crate::workload::skew::Skew;
use crate::workload::streams::Draw;

/// Print all figures of each map of integers: bytes per key, rates of reads, writes, load and removal
#[derive(Debug, Args)]
pub struct ColumnsArgs {
    /// Keys to load
    #[arg(long, value_parser = crate::count::count, default_value = "20M")]
    keys: u64,
    /// Operations per thread and round
    #[arg(long, value_parser = crate::count::count, default_value = "4M")]
    ops: u64,
    /// Measured rounds; figures are medians
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Distributions of the accesses
    #[arg(long, value_delimiter = ',', default_value = "uniform,0.99,1.22")]
    skew: Vec<Skew>,
    /// What to measure [default: all built-in targets]
    #[arg(long, value_enum, value_delimiter = ',')]
    targets: Vec<TargetName>,
    /// Seed of all random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Reads in a batch of a server. A batch so small is half filling and emptying of the pipeline.
const BATCH: usize = 64;
/// Reads in a batch that keeps the pipeline full.
const LARGE: usize = 1024;

/// The columns of reads and mixes: name, operations, mode and threads.
const COLUMNS: [(&str, Workload, Mode, usize); 9] = [
    ("one at a time", Workload::C, Mode::Scalar, 1),
    ("64 together", Workload::C, Mode::Batched(BATCH), 1),
    ("1,024 together", Workload::C, Mode::Batched(LARGE), 1),
    ("by a queue", Workload::C, Mode::Queued, 1),
    ("miss", Workload::Miss, Mode::Scalar, 1),
    ("1,024 misses", Workload::Miss, Mode::Batched(LARGE), 1),
    ("95/5", Workload::B, Mode::Scalar, 1),
    ("50/50", Workload::A, Mode::Scalar, 1),
    ("two threads", Workload::C, Mode::Scalar, 2),
];

/// Rates of writes, which do not depend on the skew.
#[derive(Default)]
struct Writes {
    insert: Vec<f64>,
    delete: Vec<f64>,
    hot: Vec<f64>,
}

impl ColumnsArgs {
    /// Measures and prints.
    pub fn run(&self) -> Result<()> {
        ensure!(self.rounds > 0, "--rounds must be at least 1");
        ensure!(self.keys >= 1 << 10 && self.ops >= 1 << 10, "--keys and --ops are 1024 or more");
        machine::huge_pages_for_all()?;
        println!("{}", Machine::here());
        Fitness::measure(self.keys, self.ops)?.print();
        // The streams are made before the clock starts: both forms of keys, for all columns.
        let in_memory = 4 * self.ops * COLUMNS.len() as u64;
        let loaded = Loaded::all(&self.plans(), self.keys, in_memory)?;
        let writes = self.writes(&loaded);
        for skew in &self.skew {
            println!("{skew}, {} keys, millions of operations a second:\n", self.keys);
            println!("{}", self.table(*skew, &loaded, &writes)?.render());
        }
        Ok(())
    }

    fn plans(&self) -> Vec<Plan> {
        let all = TargetName::value_variants();
        let names = if self.targets.is_empty() { all } else { &self.targets };
        let plan = |name: &TargetName| {
            let plan = Plan::new(*name, self.keys + self.ops);
            // A small plan, so that the trial costs nothing.
            match Plan::new(*name, 1).build() {
                Ok(_) => Some(Plan { keys: Keys::Scattered, ..plan }),
                Err(error) => {
                    eprintln!("note: left out: {error:#}");
                    None
                }
            }
        };
        names.iter().filter_map(plan).collect()
    }

    fn writes(&self, loaded: &[Loaded]) -> Vec<Writes> {
        let mut all: Vec<Writes> = loaded.iter().map(|_| Writes::default()).collect();
        let bar = report::progress((self.rounds * loaded.len()) as u64, "inserts and removals");
        for round in 0..self.rounds {
            for turn in 0..loaded.len() {
                let at = (round + turn) % loaded.len();
                self.write(&loaded[at], &mut all[at]);
                bar.inc(1);
            }
        }
        bar.finish_and_clear();
        all
    }

    /// Measures inserts of new keys, removals, and repeated writes of one key.
    fn write(&self, loaded: &Loaded, writes: &mut Writes) {
        let keys = loaded.target.keys();
        let new = (self.keys..self.keys + self.ops).map(|n| Op::new(Kind::Insert, keys.key(n)));
        let (new, hot): (Vec<Op>, _) = (new.collect(), Op::new(Kind::Update, keys.key(0)));
        let hot = vec![hot; self.ops as usize];
        let (inserts, puts) = (Stream::of(&new), Stream::of(&hot));
        let mut worker = loaded.target.worker();
        let timed = |work: &mut dyn FnMut()| {
            let start = Instant::now();
            work();
            self.ops as f64 / start.elapsed().as_secs_f64() / 1e6
        };
        writes.insert.push(timed(&mut || _ = worker.run(inserts, Mode::Scalar)));
        writes.delete.push(timed(&mut || worker.undo(&new)));
        writes.hot.push(timed(&mut || _ = worker.run(puts, Mode::Scalar)));
    }

    fn table(&self, skew: Skew, loaded: &[Loaded], writes: &[Writes]) -> Result<Table> {
        let feeds: Vec<Feed<'_>> = COLUMNS.iter().map(|column| self.feed(skew, column)).collect();
        let columns = || COLUMNS.iter().zip(&feeds);
        let entrants: Vec<Entrant<'_>> = loaded
            .iter()
            .flat_map(|loaded| {
                columns().map(|(&(_, _, mode, _), source)| Entrant {
                    target: &*loaded.target,
                    mode,
                    source,
                })
            })
            .collect();
        let rounds = Rounds { measured: self.rounds, warmup: 1, warmup_max: 1 };
        let bar = report::progress(rounds.turns(entrants.len()), &skew.to_string());
        let samples = rounds.measure(&entrants, &bar)?;
        bar.finish_and_clear();
        let names = COLUMNS.iter().map(|column| column.0);
        let head: Vec<&str> = ["map", "bytes a key"]
            .into_iter()
            .chain(names)
            .chain(["load", "insert", "delete", "hot key put"])
            .collect();
        let mut table = Table::new(&head);
        for ((loaded, writes), samples) in
            loaded.iter().zip(writes).zip(samples.chunks(COLUMNS.len()))
        {
            let of = |rates: &[f64]| report::short(Spread::of(rates).median);
            let mut row =
                vec![loaded.target.name().to_owned(), report::short(loaded.bytes_per_key)];
            for (samples, column) in samples.iter().zip(&COLUMNS) {
                let has_it = column.2 != Mode::Queued || loaded.plan.target == TargetName::Lines;
                row.push(if has_it { of(&samples.mops) } else { "-".to_owned() });
            }
            row.push(report::short(loaded.mops));
            row.extend([&writes.insert, &writes.delete, &writes.hot].map(|rates| of(rates)));
            table.row(row);
        }
        Ok(table)
    }

    fn feed(
        &self,
        skew: Skew,
        &(_, workload, _, threads): &(&str, Workload, Mode, usize),
    ) -> Feed<'static> {
        let (keys, ops, seed) = (self.keys, self.ops, self.seed);
        Draw { workload, skew, keys, threads, ops, seed, hot_set: 0, turn: 0 }.into()
    }
}
