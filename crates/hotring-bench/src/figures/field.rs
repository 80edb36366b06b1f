//! Shared by figures: a group of targets that are loaded next to each other and take turns.

use anyhow::Result;
use hotring_index::{Config, Strategy};

use super::entry::Bench;
use super::scale::Size;
use crate::measure::load::Loaded;
use crate::measure::rounds::{Entrant, Rounds, Samples};
use crate::measure::settle::Settled;
use crate::plots::chart::{Point, Series};
use crate::report::Spread;
use crate::targets::{Mode, Plan, Target, TargetName};
use crate::workload::feed::Feed;
use crate::workload::operations::{Keys, Workload};
use crate::workload::skew::Skew;
use crate::workload::streams::Draw;

/// A group of targets that hold the same keys.
pub struct Field {
    /// Each target with its index bytes per key, where it counts them.
    loaded: Vec<(Box<dyn Target>, Option<f64>)>,
    keys: u64,
}

/// One block of rounds.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// The mix of operations.
    pub workload: Workload,
    /// The distribution of accesses over the keys.
    pub skew: Skew,
    /// Threads, pinned to cores in order.
    pub threads: usize,
}

impl Work {
    /// Work with accesses by Zipf's law with exponent `theta`.
    pub fn zipf(workload: Workload, theta: f64, threads: usize) -> Self {
        Work { workload, skew: Skew::Zipf(theta), threads }
    }

    /// The source of the streams of operations.
    pub fn source(&self, keys: u64, ops: u64) -> Feed<'static> {
        let Work { workload, skew, threads } = *self;
        Draw { workload, skew, keys, threads, ops, seed: 1, hot_set: 0, turn: 0 }.into()
    }
}

impl Field {
    /// Builds and loads all targets.
    pub fn load(bench: &Bench, keys: u64, plans: &[Plan]) -> Result<Self> {
        let streams = 2 * bench.size.ops * bench.size.threads as u64;
        let loaded = Loaded::all(plans, keys, streams)?.into_iter();
        let loaded = loaded.map(|loaded| (loaded.target, loaded.index_bytes_per_key)).collect();
        Ok(Field { loaded, keys })
    }

    /// Loads one more target, which was built without a plan.
    pub fn add(&mut self, bench: &Bench, target: Box<dyn Target>) {
        let bar = bench.steps(self.keys, &format!("load {}", target.name()));
        target.load(self.keys, &bar);
        bar.finish_and_clear();
        self.loaded.push((target, None));
    }

    /// The names of the targets with their index bytes per key, in the order of the plans.
    pub fn names(&self) -> Vec<String> {
        let name = |(target, bytes): &(Box<dyn Target>, Option<f64>)| match bytes {
            Some(bytes) => format!("{} ({bytes:.1} B)", target.name()),
            None => target.name().to_owned(),
        };
        self.loaded.iter().map(name).collect()
    }

    /// All targets.
    pub fn targets(&self) -> Vec<&dyn Target> {
        self.loaded.iter().map(|(target, _)| &**target).collect()
    }

    /// Measures the same work on all targets, in turns.
    pub fn measure(&self, bench: &Bench, work: Work) -> Result<Vec<Samples>> {
        let source = work.source(self.keys, bench.size.ops);
        let Work { workload, skew, threads } = work;
        let label = format!("{workload} {skew}, {threads} threads");
        take_turns(bench, &self.targets(), &source, &label)
    }
}

/// Measures rounds in which all targets run the same streams.
pub fn take_turns(
    bench: &Bench,
    targets: &[&dyn Target],
    source: &Feed<'_>,
    label: &str,
) -> Result<Vec<Samples>> {
    let entrant = |&target| Entrant { target, mode: Mode::Scalar, source };
    let entrants: Vec<Entrant<'_>> = targets.iter().map(entrant).collect();
    let rounds = rounds(bench);
    let bar = bench.steps(rounds.turns(entrants.len()), label);
    let samples = rounds.measure(&entrants, &bar)?;
    bar.finish_and_clear();
    samples.iter().zip(targets).for_each(|(s, target)| print_settled(label, *target, &s.settled));
    Ok(samples)
}

/// Runs targets until they have settled, without measuring them.
pub fn settle(bench: &Bench, targets: &[&dyn Target], source: &Feed<'_>) -> Result<()> {
    let entrant = |&target| Entrant { target, mode: Mode::Scalar, source };
    let entrants: Vec<Entrant<'_>> = targets.iter().map(entrant).collect();
    let bar = bench.steps(0, "settle");
    let settled = rounds(bench).settle(&entrants, &bar)?;
    bar.finish_and_clear();
    settled
        .iter()
        .zip(targets)
        .for_each(|(settled, target)| print_settled("settle", *target, settled));
    Ok(())
}

fn print_settled(label: &str, target: &dyn Target, settled: &Settled) {
    println!("    {label}: {} settled after {}", target.name(), settled.describe());
}

fn rounds(bench: &Bench) -> Rounds {
    let Size { rounds: measured, warmup, warmup_max, .. } = bench.size;
    Rounds { measured, warmup, warmup_max }
}

/// The rates of several targets at several positions of the x axis.
#[derive(Debug, Default)]
pub struct Rows {
    names: Vec<String>,
    /// By target: the position and the rates of its rounds.
    rates: Vec<Vec<(f64, Samples)>>,
}

impl Rows {
    /// Adds the results of a field at one position, in million operations per second. The names come from the
    /// first call.
    pub fn add(&mut self, x: f64, names: Vec<String>, samples: &[Samples]) {
        if self.names.is_empty() {
            self.rates = vec![Vec::new(); names.len()];
            self.names = names;
        }
        for (rates, samples) in self.rates.iter_mut().zip(samples) {
            rates.push((x, samples.clone()));
        }
    }

    /// The rate of row `over` as a multiple of row `under`, round by round.
    pub fn ratio(&self, over: usize, under: usize, x: f64) -> Spread {
        let [over, under] = [over, under].map(|row| self.at(row, x));
        over.zip(under).map_or(f64::NAN.into(), |(over, under)| over.ratio(under))
    }

    /// The median rate, NaN if there is none.
    pub fn rate(&self, row: usize, x: f64) -> f64 {
        self.at(row, x).map_or(f64::NAN, |samples| samples.spread().median)
    }

    /// Visits per lookup, NaN if they are not counted.
    pub fn visits(&self, row: usize, x: f64) -> f64 {
        self.at(row, x).and_then(|samples| samples.visits).unwrap_or(f64::NAN)
    }

    fn at(&self, row: usize, x: f64) -> Option<&Samples> {
        let rates = self.rates.get(row)?;
        rates.iter().find(|(known, _)| *known == x).map(|(_, samples)| samples)
    }

    /// The paper's rates, which it reports as multiples of a row. They are drawn as multiples of our row, because
    /// rates of different machines do not compare.
    pub fn by_factor(&self, name: &str, of: usize, factors: &[(f64, f64)]) -> Series {
        let there = |&(x, factor): &(f64, f64)| Point::new(x, factor * self.rate(of, x));
        Series::paper(name, factors.iter().map(there).collect())
    }

    /// The series of a chart.
    pub fn series(self) -> Vec<Series> {
        let rows = self.names.into_iter().zip(self.rates);
        rows.map(|(name, rates)| {
            let points = rates.iter().map(|(x, samples)| Point::spread(*x, samples.spread()));
            Series::measured(name, points.collect())
        })
        .collect()
    }
}

fn plan(name: &str, target: TargetName, keys: u64, inserts: u64) -> Plan {
    let label = Some(name.to_owned());
    Plan { label, keys: Keys::Scattered, ..Plan::new(target, keys + inserts) }
}

/// Capacity for the keys that a figure's streams insert.
fn inserts(bench: &Bench) -> u64 {
    bench.size.ops * bench.size.threads as u64
}

/// A plan of an engine with default settings.
pub fn default(bench: &Bench, name: &str, target: TargetName, keys: u64) -> Plan {
    plan(name, target, keys, inserts(bench))
}

/// Chaining Hash with `ratio` keys for each bucket, in a table that never grows.
pub fn chaining(bench: &Bench, keys: u64, ratio: u64) -> Plan {
    let plan = default(bench, "Chaining Hash", TargetName::Chaining, keys);
    plan.with_items_per_slot(keys, ratio as f64)
}

/// HotRing with one hint, in a table of as many bytes as that of `chaining` with the same ratio: the papers
/// compare at equal index memory, and a slot is 16 bytes here.
pub fn ring(bench: &Bench, keys: u64, ratio: u64, strategy: Strategy) -> Plan {
    let plan = default(bench, ring_name(strategy), TargetName::Hotring, keys);
    let config = Config { strategy, ..Config::default() };
    let plan = Plan { hints: 1, config, ..plan };
    plan.with_items_per_slot(keys, ratio as f64 * 2.0)
}

/// HotRing with as many keys per ring as in the paper. A head takes 8 bytes there; a slot takes 16 here, because
/// it holds an anchor next to the head. The bytes differ from those of `chaining`, so it gets a line of its own.
pub fn papers_ring(bench: &Bench, keys: u64, ratio: u64, strategy: Strategy) -> Plan {
    let plan = ring(bench, keys, ratio, strategy);
    let label = Some(format!("{}, {ratio} keys a ring", ring_name(strategy)));
    Plan { label, ..plan }.with_items_per_slot(keys, ratio as f64)
}

/// HotRing-s with a lower sampling rate where sampling does not help.
pub fn backing_off(bench: &Bench, keys: u64, ratio: u64) -> Plan {
    let plan = ring(bench, keys, ratio, Strategy::Sampling);
    let config = Config { backoff: true, ..plan.config.clone() };
    Plan { label: Some("HotRing-s, back-off".to_owned()), config, ..plan }
}

/// HotRing with lines of seven hints, the default.
pub fn lines(bench: &Bench, keys: u64) -> Plan {
    default(bench, "HotRing, 7 hints", TargetName::Hotring, keys)
}

/// The paper's and our names of HotRing's variants.
pub fn ring_name(strategy: Strategy) -> &'static str {
    match strategy {
        Strategy::None => "HotRing, heads fixed",
        Strategy::Random => "HotRing-r",
        Strategy::Sampling => "HotRing-s",
        Strategy::Vote => "HotRing, votes",
    }
}
