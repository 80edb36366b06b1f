//! Times of single lookups: HotRing's figures 13 (breakdown of a read) and 16 (tail latency).

use std::hint::black_box;
use std::time::Instant;

use anyhow::{Context, Result};
use hotring_index::Strategy;

use super::entry::{Bench, Entry};
use super::field::{self, Field, Work};
use super::figure::{Claim, Measured, Paper, Source, Subject};
use crate::measure::latency::{self, Latencies};
use crate::plots::chart::{Axis, Chart, Mark, Point, Scale, Series, Shape};
use crate::report::Spread;
use crate::report::short;
use crate::workload::mix::mix;
use crate::workload::operations::{Keys, Op, Workload};

/// The figures of this file.
pub const ENTRIES: [Entry; 2] = [
    Entry {
        subject: Subject {
            id: "hotring-13",
            title: "Where the time of a read goes",
            source: Source { paper: Paper::HotRing, reference: "figure 13" },
            paper: "With 8 keys a bucket, items other than the head cost Chaining Hash 193 ns a \
                    read at exponent 1.22 and 660 ns at 0.99, but HotRing-s only 10 and 136 ns. \
                    The rest (the head pointer, the head item, the hash, the benchmark) is alike.",
        },
        measure: breakdown,
    },
    Entry {
        subject: Subject {
            id: "hotring-16",
            title: "Tail latency of reads",
            source: Source { paper: Paper::HotRing, reference: "figure 16" },
            paper: "Of 100,000 accesses with HotRing-s, 99 % take up to 2 \u{b5}s at exponent 1.22 \
                    and 3 \u{b5}s at 0.99. Some take up to 8.8 and 9.6 \u{b5}s: those that end a \
                    round of sampling and work out where the head goes.",
        },
        measure: tail,
    },
];

const RATIO: u64 = 8;
const THETAS: [f64; 2] = [0.99, 1.22];
const PARTS: [&str; 5] = ["benchmark", "hash value", "head pointer", "head item", "non-head items"];

/// Lower bounds for the parts of a lookup: each part runs alone on the same stream of keys.
struct Floors {
    keys: u64,
    slots: Vec<u64>,
    /// Items with the size of ours.
    items: Vec<[u64; 3]>,
}

impl Floors {
    fn new(keys: u64) -> Self {
        let slots = (keys / RATIO).max(1).next_power_of_two();
        // Each slot names a pseudo-random item, so that items lie anywhere in memory.
        let slots: Vec<u64> = (0..slots).map(|slot| mix(slot) % keys).collect();
        Floors { keys, slots, items: (0..keys).map(|key| [key, key, key]).collect() }
    }

    fn slot(&self, key: u64) -> usize {
        mix(key) as usize & (self.slots.len() - 1)
    }

    /// Nanoseconds per operation: for the stream alone, then for the stream with each part.
    fn measure(&self, ops: &[Op]) -> [f64; 4] {
        let time = |work: &dyn Fn(u64) -> u64| {
            let start = Instant::now();
            let sum = ops.iter().fold(0_u64, |sum, op| sum.wrapping_add(work(op.key())));
            black_box(sum);
            start.elapsed().as_nanos() as f64 / ops.len() as f64
        };
        [
            time(&|key| key),
            time(&mix),
            time(&|key| self.slots[self.slot(key)]),
            // The hot items of a stream are hot in the cache, too, so the item read is that of the key.
            time(&|key| {
                let item = (self.slots[self.slot(key)] ^ key) % self.keys;
                black_box(item);
                self.items[(key % self.keys) as usize][0]
            }),
        ]
    }
}

fn breakdown(bench: &Bench) -> Result<Measured> {
    let keys = bench.size.keys;
    let floors = Floors::new(keys);
    let plans = [
        field::chaining(bench, keys, RATIO),
        field::ring(bench, keys, RATIO, Strategy::Random),
        field::ring(bench, keys, RATIO, Strategy::Sampling),
    ];
    let field = Field::load(bench, keys, &plans)?;
    let (mut charts, mut claims) = (Vec::new(), Vec::new());
    for theta in THETAS {
        let work = Work::zipf(Workload::C, theta, 1);
        let source = work.source(keys, bench.size.ops);
        let floor_of = |turn| anyhow::Ok(floors.measure(&source.stream(turn, 0, Keys::Dense)?));
        let rounds = (0..bench.size.rounds.max(1) as u64).map(floor_of);
        let rounds: Vec<[f64; 4]> = rounds.collect::<Result<_>>()?;
        let floor = |part: usize| {
            Spread::of(&rounds.iter().map(|round| round[part]).collect::<Vec<_>>()).median
        };
        let samples = field.measure(bench, work)?;
        let mut series: Vec<Series> =
            PARTS.iter().map(|name| Series::measured(*name, Vec::new())).collect();
        for (column, samples) in samples.iter().enumerate() {
            let whole = 1000.0 / samples.spread().median;
            let mut before = 0.0;
            for (part, series) in series.iter_mut().enumerate() {
                let upto = if part < 4 { floor(part).max(before).min(whole) } else { whole };
                series.points.push(Point::new(column as f64, upto - before));
                before = upto;
            }
        }
        claims.extend(compare(theta, &series[4].points));
        let names = plans.iter().map(|plan| plan.name()).collect();
        let axis = Axis::linear("nanoseconds a read");
        let bars = Chart::bars(format!("Exponent {theta}"), "index", axis, names, series);
        charts.push(Chart { shape: Shape::Stacked, ..bars });
        charts.push(beside_the_paper(theta, &charts[charts.len() - 1]));
    }
    let notes = vec![
        format!(
            "{keys} keys, C, one thread. The paper sampled functions; inside of one inlined lookup \
             that is not possible. So the least that the first parts can take is measured alone on \
             the same stream (reading it; hashing; one load from a table of as many slots; one \
             more load, from {keys} items of 24 bytes), and what a lookup takes beyond that is \
             shown as non-head items. It holds all else as well: pins, counting, mispredictions."
        ),
        "Processors overlap the misses of independent lookups: the head pointer and the head item \
         alone take less than one miss of memory."
            .to_owned(),
    ];
    Ok(Measured { claims, charts, notes })
}

/// The paper's nanoseconds for items other than the head: Chaining Hash, then HotRing-s.
fn non_head(theta: f64) -> (f64, f64) {
    if theta > 1.0 { (193.0, 10.0) } else { (660.0, 136.0) }
}

/// The last part of each bar, compared with the paper's.
fn beside_the_paper(theta: f64, bars: &Chart) -> Chart {
    let ours = bars.series.last().map_or(Vec::new(), |series| series.points.clone());
    let (chaining, ring) = non_head(theta);
    let there = vec![Point::new(0.0, chaining), Point::new(2.0, ring)];
    let series = vec![Series::measured("here", ours), Series::paper("there", there)];
    let title = format!("Exponent {theta}: items other than the head");
    Chart::bars(title, "index", Axis::linear("nanoseconds a read"), bars.categories.clone(), series)
}

fn compare(theta: f64, rest: &[Point]) -> Vec<Claim> {
    let (chaining, ring) = (rest[0].y, rest[2].y);
    let (there_chaining, there_ring) = non_head(theta);
    vec![Claim::factor(
        format!(
            "Exponent {theta}, items other than the head: {there_chaining} ns to {there_ring} ns"
        ),
        &format!("{} ns to {} ns", short(chaining), short(ring)),
        there_chaining / there_ring,
        chaining / ring,
    )]
}

/// The tail positions of the plot: one read in 2, in 10, ... in ten million is slower.
const ONE_IN: [f64; 8] = [2.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6, 1e7];

fn tail(bench: &Bench) -> Result<Measured> {
    let keys = bench.size.keys;
    let plans = [
        field::chaining(bench, keys, RATIO),
        field::ring(bench, keys, RATIO, Strategy::None),
        field::ring(bench, keys, RATIO, Strategy::Sampling),
        field::lines(bench, keys),
    ];
    let field = Field::load(bench, keys, &plans)?;
    let (mut charts, mut claims) = (Vec::new(), Vec::new());
    for theta in THETAS {
        let work = Work::zipf(Workload::C, theta, bench.size.threads);
        let source = work.source(keys, bench.size.ops);
        field::settle(bench, &field.targets(), &source)?;
        let mut all: Vec<Latencies> = field.targets().iter().map(|_| latency::none()).collect();
        let bar = bench.steps(bench.size.rounds as u64, &format!("exponent {theta}"));
        for round in 0..bench.size.rounds as u64 {
            let streams = source.streams(1 << 32 | round)?;
            for (latencies, target) in all.iter_mut().zip(field.targets()) {
                let more = latency::of_reads(target, &streams)?;
                latencies.add(more).context("histograms of one kind")?;
            }
            bar.inc(1);
        }
        bar.finish_and_clear();
        claims.extend(tail_claims(theta, &all));
        charts.push(tail_chart(theta, &all, &field));
    }
    let clock = latency::of_clock().value_at_quantile(0.5);
    let notes = vec![
        format!(
            "{keys} keys, C, threads: {}; the reads of the first thread are timed one by one, while \
             the others are at work. Each latency holds the {clock} ns that looking at the clock \
             takes.",
            bench.size.threads
        ),
        "The longest ones are the machine's: interrupts and other programs, which hit all targets \
         alike. So what sampling costs is seen by the distance to the ring with fixed heads."
            .to_owned(),
    ];
    Ok(Measured { claims, charts, notes })
}

fn tail_chart(theta: f64, all: &[Latencies], field: &Field) -> Chart {
    let mut series = Vec::new();
    for (latencies, target) in all.iter().zip(field.targets()) {
        let enough = ONE_IN.into_iter().filter(|one_in| *one_in <= latencies.len() as f64);
        let point = |one_in: f64| {
            Point::new(one_in, latencies.value_at_quantile(1.0 - 1.0 / one_in) as f64)
        };
        series.push(Series::measured(target.name(), enough.map(point).collect()));
    }
    let mut chart = Chart::lines(
        format!("Exponent {theta}"),
        Axis::log("one read in so many takes longer"),
        Axis { label: "nanoseconds".into(), scale: Scale::Log },
        series,
    );
    let (p99, longest) = if theta > 1.0 { (2e3, 8.8e3) } else { (3e3, 9.6e3) };
    let there = [(100.0, p99), (1e5, longest)].map(|(x, y)| Point::new(x, y));
    chart.series.push(Series::paper("HotRing-s: p99 and the longest", there.into()));
    let slides = vec![Point::new(1e5, 6e3)];
    chart.series.push(Series::paper("HotRing, the slides: 99.999 % below 6 \u{b5}s", slides));
    chart.marks.push(Mark { x: 100.0, name: "p99".into() });
    chart.marks.push(Mark { x: 1e4, name: "p99.99".into() });
    chart
}

fn tail_claims(theta: f64, all: &[Latencies]) -> Vec<Claim> {
    let (fixed, sampling) = (&all[1], &all[2]);
    let there = if theta > 1.0 { 2.0 } else { 3.0 };
    let p99 = sampling.value_at_quantile(0.99) as f64 / 1000.0;
    let far = |latencies: &Latencies| latencies.value_at_quantile(0.9999) as f64;
    let times = far(sampling) / far(fixed);
    // A quantile of 99.999 % needs at least 100,000 reads.
    let slides = format!("Slides: 99.999 % below 6 \u{b5}s (exponent {theta})");
    let fifth = sampling.value_at_quantile(0.999_99) as f64 / 1000.0;
    let slides = if sampling.len() < 100_000 {
        Claim::unseen(slides, "fewer than 100,000 reads were timed")
    } else {
        let claimed = format!("99.999 % of HotRing-s take up to {} \u{b5}s", short(fifth));
        Claim::holds(slides, &claimed, usize::from(fifth < 6.0), 1)
    };
    vec![
        slides,
        Claim::holds(
            format!("Exponent {theta}: 99 % take up to {there} \u{b5}s"),
            &format!("99 % of HotRing-s take up to {} \u{b5}s", short(p99)),
            usize::from(p99 <= there),
            1,
        ),
        Claim::holds(
            "Sampling has a long tail, of some microseconds",
            &format!(
                "exponent {theta}, p99.99 of HotRing-s {} \u{b5}s, {} times that with fixed heads, \
                 so more than half as much again",
                short(far(sampling) / 1000.0),
                short(times)
            ),
            usize::from(times > 1.5),
            1,
        ),
    ]
}
