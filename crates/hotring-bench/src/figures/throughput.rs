//! Throughput by workload, chain length, skew and period: figures 10, 11, 12 and 15 of the HotRing paper.

use anyhow::Result;
use hotring_index::{Config, RcuCounts, Strategy};

use super::entry::{Bench, Entry};
use super::field::{self, Field, Rows, Work};
use super::figure::{Claim, Measured, Paper, Source, Subject, percent};
use crate::plots::chart::{Axis, Chart, Point, Series};
use crate::report::Spread;
use crate::targets::{Plan, Shape, TargetName};
use crate::workload::operations::Workload;

/// The figures of this file.
pub const ENTRIES: [Entry; 6] = [
    Entry {
        subject: Subject {
            id: "hotring-10",
            title: "Throughput by workload",
            source: Source { paper: Paper::HotRing, place: "figure 10" },
            paper: "At equal index memory and exponent 1.22, HotRing-s is 2.10 to 7.75 times as \
                    fast as the others (Chaining Hash, FASTER, Masstree, Memcached) in B and C, and \
                    1.81 to 6.46 times in D and F: 12.9 million operations a second by one thread, \
                    565 million by 64. Its best gain is 2.58 times. HotRing-r is about 7 % less \
                    accurate.",
        },
        measure: by_workload,
    },
    Entry {
        subject: Subject {
            id: "hotring-11a",
            title: "Throughput by length of collision chains",
            source: Source { paper: Paper::HotRing, place: "figure 11a" },
            paper: "With 2 keys a bucket HotRing reads 1.93 times as fast as Chaining Hash and 1.31 \
                    times as fast as FASTER; with 16, 4.02 and 3.91 times.",
        },
        measure: by_length,
    },
    Entry {
        subject: Subject {
            id: "hotring-11b",
            title: "Throughput by skew",
            source: Source { paper: Paper::HotRing, place: "figure 11b" },
            paper: "Chaining Hash and FASTER gain little from skew, HotRing much, above all beyond \
                    exponent 0.8; HotRing-s is ahead of the others from 0.5 to 0.8, too.",
        },
        measure: by_skew,
    },
    Entry {
        subject: Subject {
            id: "hotring-12",
            title: "Read-copy-update: values of 100 bytes",
            source: Source { paper: Paper::HotRing, place: "figure 12" },
            paper: "Where writes replace items, HotRing-s counts them for the item before: with 8 \
                    keys a bucket 1.32 times as fast as Chaining Hash and FASTER; without that \
                    rule (w/o) slower than both. With 2 keys a bucket FASTER is slightly ahead.",
        },
        measure: by_copies,
    },
    Entry {
        subject: Subject {
            id: "hotring-15a",
            title: "Read misses",
            source: Source { paper: Paper::HotRing, place: "figure 15a" },
            paper: "A miss ends at the first greater item: 1.17 times as fast as Chaining Hash with \
                    2 keys a bucket, 1.80 times with 16.",
        },
        measure: by_misses,
    },
    Entry {
        subject: Subject {
            id: "hotring-15b",
            title: "The period R between two moves of a head",
            source: Source { paper: Paper::HotRing, place: "figure 15b" },
            paper: "Throughput gets slightly worse when R is too small or too large; 5 is a good \
                    balance.",
        },
        measure: by_period,
    },
];

/// Ratios of keys to buckets.
const RATIOS: [u64; 4] = [2, 4, 8, 16];
/// The ratio of figures that do not vary it.
const RATIO: u64 = 8;
/// The Zipf exponent of figures that do not vary it.
const EXTREME: f64 = 1.22;
/// The unit of rates.
const RATE: &str = "million operations a second";

/// Row numbers of the targets that [`papers`] returns.
const CHAINING: usize = 0;
const RING_R: usize = 1;
const RING_S: usize = 2;
/// The name of the series that is computed from the paper's multiples of Chaining Hash.
const BY_GAIN: &str = "HotRing-s, by its gain over Chaining Hash";
const PAPERS_BYTES: &str = "Equal bytes give our rings twice as many keys as the paper's, as a slot has its \
                            anchor beside the head. \"8 keys a ring\" has as many keys a ring as the \
                            paper, and so twice the bytes of index: what the paper's bytes would give.";

/// The paper's own targets at equal index memory.
fn papers(bench: &Bench, keys: u64, ratio: u64) -> Vec<Plan> {
    vec![
        field::chaining(bench, keys, ratio),
        field::ring(bench, keys, ratio, Strategy::Random),
        field::ring(bench, keys, ratio, Strategy::Sampling),
    ]
}

/// Indexes of other authors, with default settings.
const PEERS: [(&str, TargetName); 6] = [
    ("papaya", TargetName::Papaya),
    ("dashmap", TargetName::Dashmap),
    ("scc", TargetName::Scc),
    ("Masstree", TargetName::Masstree),
    ("libcuckoo", TargetName::Libcuckoo),
    ("TBB", TargetName::Tbb),
];

/// The note on memory that each of these figures has.
fn note(keys: u64) -> String {
    format!(
        "{keys} keys of 8 bytes with values of 8 bytes. Chaining Hash and the paper's HotRing have \
         tables of equal size that never grow; the bytes of index for a key stand beside each name. \
         Items are chained outside of the table and take 24 bytes more."
    )
}

fn by_workload(bench: &Bench) -> Result<Measured> {
    const WORKLOADS: [Workload; 5] =
        [Workload::A, Workload::B, Workload::C, Workload::D, Workload::F];
    let keys = bench.size.keys;
    let mut plans = papers(bench, keys, RATIO);
    plans.push(field::papers_ring(bench, keys, RATIO, Strategy::Random));
    plans.push(field::papers_ring(bench, keys, RATIO, Strategy::Sampling));
    plans.push(field::backing_off(bench, keys, RATIO));
    plans.push(field::lines(bench, keys));
    plans.push(field::default(bench, "Mercury", TargetName::Mercury, keys));
    plans.push(field::default(bench, "G-Cuckoo", TargetName::Gcuckoo, keys));
    let peers = PEERS.map(|(name, target)| field::default(bench, name, target, keys));
    let (there, absent): (Vec<Plan>, Vec<Plan>) =
        peers.into_iter().partition(|plan| plan.build().is_ok());
    plans.extend(there);
    let field = Field::load(bench, keys, &plans)?;
    let (mut charts, mut claims) = (Vec::new(), Vec::new());
    let mut alone = None;
    for threads in thread_counts(bench) {
        let mut rows = Rows::default();
        for (column, workload) in WORKLOADS.into_iter().enumerate() {
            let samples = field.measure(bench, Work::zipf(workload, EXTREME, threads))?;
            rows.add(column as f64, field.names(), &samples);
        }
        claims.extend(gains(&rows, threads));
        let mut there = vec![rows.by_factor(
            BY_GAIN,
            CHAINING,
            &[(1.0, 2.1), (2.0, 2.58), (3.0, 1.81), (4.0, 1.81)],
        )];
        if threads == 1 {
            there.push(Series::paper("HotRing-s", vec![Point::new(2.0, 12.9)]));
        }
        let reads = rows.rate(RING_S, 2.0);
        let alone = *alone.get_or_insert(reads);
        if threads > 1 {
            claims.push(Claim::near(
                "64 threads on 32 cores are 43.8 times as fast as one",
                &format!("C, HotRing-s, {threads} threads to one"),
                threads as f64,
                reads / alone,
                0.1,
            ));
        }
        charts.push(Chart::bars(
            format!("Exponent {EXTREME}, threads: {threads}"),
            "YCSB workload",
            Axis::linear(RATE),
            WORKLOADS.iter().map(Workload::to_string).collect(),
            rows.series().into_iter().chain(there).collect(),
        ));
    }
    let mut notes = vec![
        note(keys),
        PAPERS_BYTES.to_owned(),
        "\"Back-off\" samples less often where sampling brings nothing; the paper has no such thing."
            .to_owned(),
        "The paper has 565.36 million operations a second by 64 threads, and FASTER, Masstree and \
         Memcached as rivals. FASTER and Memcached cannot be built into this tool (docs/measuring.md); \
         that HotRing is ahead of them is not looked at."
            .to_owned(),
        "HotRing with seven hints, Mercury, G-Cuckoo and the peers have as much memory as they \
         take by default: they show what more memory buys, and are not in the claims."
            .to_owned(),
    ];
    if !absent.is_empty() {
        let names: Vec<String> = absent.iter().map(Plan::name).collect();
        notes.push(format!(
            "Not built into this tool (--features peers,cpp-peers): {}.",
            names.join(", ")
        ));
    }
    Ok(Measured { claims, charts, notes })
}

/// One thread, and all threads.
fn thread_counts(bench: &Bench) -> Vec<usize> {
    let mut counts = vec![1, bench.size.threads];
    counts.dedup();
    counts
}

fn gains(rows: &Rows, threads: usize) -> Vec<Claim> {
    let gain = |x: f64| rows.ratio(RING_S, CHAINING, x);
    let claimed = |name: &str| format!("{name}, threads: {threads}, HotRing-s to Chaining Hash");
    let all: Vec<Spread> = (0..5).map(|column| gain(f64::from(column))).collect();
    let worse = |name: &str, x: f64| {
        let claimed = format!("{name}, threads: {threads}, HotRing-r to HotRing-s");
        let paper = "D and F: HotRing-r finds hot items about 7 % worse, and stays good";
        Claim::near(paper, &claimed, 0.93, rows.ratio(RING_R, RING_S, x), 0.05)
    };
    let accuracy = rows.visits(RING_S, 2.0) / rows.visits(RING_R, 2.0);
    vec![
        Claim::factor("B and C: at least 2.10 times", &claimed("B"), 2.10, gain(1.0)),
        Claim::factor("The best gain: 2.58 times", &claimed("C"), 2.58, gain(2.0)),
        Claim::factor("D and F: at least 1.81 times", &claimed("D"), 1.81, gain(3.0)),
        Claim::factor("D and F: at least 1.81 times", &claimed("F"), 1.81, gain(4.0)),
        Claim::above(
            "HotRing-s is ahead in all workloads",
            &format!("threads: {threads}, HotRing-s ahead of Chaining Hash"),
            1.0,
            &all,
        ),
        worse("D", 3.0),
        worse("F", 4.0),
        Claim::near(
            "HotRing-r finds hot items about 7 % worse",
            &format!("C, threads: {threads}, items that HotRing-s visits to those of HotRing-r"),
            0.93,
            accuracy,
            0.05,
        ),
    ]
}

/// Measures the rates for each ratio of keys to buckets, with new tables for each. Returns the number of keys and the
/// rates.
fn over_ratios(bench: &Bench, workload: Workload) -> Result<(u64, Rows)> {
    let keys = (bench.size.keys / 2).max(1);
    let mut rows = Rows::default();
    for ratio in RATIOS {
        let mut plans = papers(bench, keys, ratio);
        for strategy in [Strategy::Random, Strategy::Sampling] {
            let plan = field::papers_ring(bench, keys, ratio, strategy);
            let label = Some(format!("{}, the paper's rings", field::ring_name(strategy)));
            plans.push(Plan { label, ..plan });
        }
        let field = Field::load(bench, keys, &plans)?;
        let work = Work::zipf(workload, EXTREME, bench.size.threads);
        let names = field.targets().iter().map(|target| target.name().to_owned()).collect();
        rows.add(ratio as f64, names, &field.measure(bench, work)?);
    }
    Ok((keys, rows))
}

fn ratio_chart(title: &str, rows: Rows, there: &[(f64, f64)]) -> Chart {
    let there = rows.by_factor(BY_GAIN, CHAINING, there);
    let x = Axis::log("keys for 8 bytes of index (key-bucket ratio)");
    let series = rows.series().into_iter().chain([there]).collect();
    Chart::lines(title, x, Axis::linear(RATE), series)
}

fn by_length(bench: &Bench) -> Result<Measured> {
    let (keys, rows) = over_ratios(bench, Workload::B)?;
    let gain = |ratio: f64| rows.ratio(RING_S, CHAINING, ratio);
    let grows = RATIOS
        .windows(2)
        .filter(|pair| gain(pair[1] as f64).median > gain(pair[0] as f64).median)
        .count();
    let claimed = "HotRing-s to Chaining Hash";
    let claims = vec![
        Claim::factor("2 keys a bucket: 1.93 times", claimed, 1.93, gain(2.0)),
        Claim::factor("16 keys a bucket: 4.02 times", claimed, 4.02, gain(16.0)),
        Claim::holds("The gain grows with the chains", "it does at each doubling", grows, 3),
    ];
    let threads = bench.size.threads;
    let title = format!("B, exponent {EXTREME}, threads: {threads}");
    let chart = ratio_chart(&title, rows, &[(2.0, 1.93), (16.0, 4.02)]);
    let half = "At equal index memory: where Chaining Hash has a bucket of 8 bytes, HotRing here has \
                half a slot of 16, and so rings twice as long as the paper's. \"The paper's rings\" \
                are as long as there, in twice the bytes. FASTER is not at hand.";
    Ok(Measured { claims, charts: vec![chart], notes: vec![note(keys), half.to_owned()] })
}

fn by_misses(bench: &Bench) -> Result<Measured> {
    let (keys, rows) = over_ratios(bench, Workload::Miss)?;
    let gain = |ratio: f64| rows.ratio(RING_S, CHAINING, ratio);
    let claimed = "HotRing-s to Chaining Hash";
    let mut claims = vec![
        Claim::factor("2 keys a bucket: 1.17 times", claimed, 1.17, gain(2.0)),
        Claim::factor("16 keys a bucket: 1.80 times", claimed, 1.80, gain(16.0)),
    ];
    // The row of HotRing-s whose rings have as many keys as the paper's.
    const PAPERS_S: usize = 4;
    for ratio in RATIOS {
        let (ratio, items) = (ratio as f64, ratio as f64 / 2.0 + 1.0);
        let claimed = format!("rings of {ratio} keys, items visited");
        let paper = "Section 3.1: a lookup in a ring of n items compares n/2 + 1";
        claims.push(Claim::near(paper, &claimed, items, rows.visits(PAPERS_S, ratio), 0.1));
    }
    let fewer = rows.visits(PAPERS_S, RATIO as f64) / rows.visits(CHAINING, RATIO as f64);
    claims.push(Claim::holds(
        "Workload D gains as insertions look for their place and end early (section 4.2)",
        &format!(
            "a search for an absent key visits {} of the items that a chain of {RATIO} makes it visit",
            percent(fewer)
        ),
        usize::from(fewer < 0.75),
        1,
    ));
    let visits = visits_chart(&rows);
    let threads = bench.size.threads;
    let title = format!("Reads of absent keys, threads: {threads}");
    let chart = ratio_chart(&title, rows, &[(2.0, 1.17), (16.0, 1.8)]);
    Ok(Measured { claims, charts: vec![chart, visits], notes: vec![note(keys)] })
}

/// The number of items that a miss visits, next to the paper's formula.
fn visits_chart(rows: &Rows) -> Chart {
    let counted = |row: usize| {
        let point = |ratio: &u64| Point::new(*ratio as f64, rows.visits(row, *ratio as f64));
        RATIOS.iter().map(point).collect()
    };
    let formula = |ratio: &u64| Point::new(*ratio as f64, *ratio as f64 / 2.0 + 1.0);
    let series = vec![
        Series::measured("Chaining Hash", counted(CHAINING)),
        Series::measured("HotRing-s, equal bytes", counted(RING_S)),
        Series::measured("HotRing-s, the paper's rings", counted(4)),
        Series::paper("n/2 + 1", RATIOS.iter().map(formula).collect()),
    ];
    let x = Axis::log("keys for 8 bytes of index (key-bucket ratio)");
    Chart::lines("Items that a miss visits", x, Axis::linear("items"), series)
}

fn by_skew(bench: &Bench) -> Result<Measured> {
    const THETAS: [f64; 6] = [0.5, 0.7, 0.8, 0.9, 0.99, 1.22];
    let keys = bench.size.keys;
    let field = Field::load(bench, keys, &papers(bench, keys, RATIO))?;
    let mut rows = Rows::default();
    for theta in THETAS {
        let work = Work::zipf(Workload::B, theta, bench.size.threads);
        rows.add(theta, field.names(), &field.measure(bench, work)?);
    }
    let gain = |theta: f64| rows.ratio(RING_S, CHAINING, theta);
    let mild = [0.5, 0.7, 0.8];
    let claims = vec![
        Claim::above(
            "HotRing-s is ahead at exponents 0.5 to 0.8, too",
            "HotRing-s ahead of Chaining Hash",
            1.0,
            &mild.map(gain),
        ),
        Claim::holds(
            "HotRing gains more from skew than Chaining Hash",
            "its lead grows at each step of the exponent from 0.8 on",
            THETAS[2..]
                .windows(2)
                .filter(|pair| gain(pair[1]).median > gain(pair[0]).median)
                .count(),
            THETAS.len() - 3,
        ),
    ];
    let chart = Chart::lines(
        format!("B, {RATIO} keys for 8 bytes of index, threads: {}", bench.size.threads),
        Axis::linear("Zipf exponent"),
        Axis::linear(RATE),
        rows.series(),
    );
    Ok(Measured { claims, charts: vec![chart], notes: vec![note(keys)] })
}

fn by_copies(bench: &Bench) -> Result<Measured> {
    let keys = (bench.size.keys / 4).max(1);
    let shape = Shape { key_bytes: 8, value_bytes: 100 };
    let (mut charts, mut claims) = (Vec::new(), Vec::new());
    for ratio in [2, RATIO] {
        let sampling = field::ring(bench, keys, ratio, Strategy::Sampling);
        let config = Config { rcu_counts: RcuCounts::Predecessor, ..sampling.config.clone() };
        let without = Some("HotRing-s (w/o)".to_owned());
        let plans = [
            field::chaining(bench, keys, ratio),
            Plan { label: without, ..sampling.clone() },
            Plan { config, ..sampling },
            field::ring(bench, keys, ratio, Strategy::Vote),
        ];
        let plans = plans.map(|plan| Plan { shape, ..plan });
        let field = Field::load(bench, keys, &plans)?;
        let mut rows = Rows::default();
        for (column, workload) in [Workload::A, Workload::W].into_iter().enumerate() {
            let work = Work::zipf(workload, EXTREME, bench.size.threads);
            rows.add(column as f64, field.names(), &field.measure(bench, work)?);
        }
        let mut there = None;
        if ratio == RATIO {
            claims = copy_claims(&rows);
            there = Some(rows.by_factor(BY_GAIN, CHAINING, &[(0.0, 1.32), (1.0, 1.32)]));
        }
        charts.push(Chart::bars(
            format!("{ratio} keys for 8 bytes of index, threads: {}", bench.size.threads),
            "writes",
            Axis::linear(RATE),
            vec!["50 %".to_owned(), "100 %".to_owned()],
            rows.series().into_iter().chain(there).collect(),
        ));
    }
    let notes = vec![
        format!(
            "{keys} keys of 8 bytes with values of 100 bytes, exponent {EXTREME}: every write puts \
             a new item in the place of the old one."
        ),
        "Here a write finds an item by its hint and replaces it in one step on the item itself; \
         the item before is not needed, so the paper's reason for its rule does not arise, and the \
         rule is off by default."
            .to_owned(),
    ];
    Ok(Measured { claims, charts, notes })
}

fn copy_claims(rows: &Rows) -> Vec<Claim> {
    let columns = [(0.0, "50 % writes"), (1.0, "writes only")];
    let factors = columns.into_iter().map(|(x, name)| {
        let seen = rows.ratio(RING_S, CHAINING, x);
        let claimed = format!("{name}, HotRing-s to Chaining Hash");
        Claim::factor("8 keys a bucket: 1.32 times", &claimed, 1.32, seen)
    });
    let behind = columns.map(|(x, _)| rows.ratio(CHAINING, 1, x));
    let without = Claim::above(
        "Without its rule HotRing-s is slower than Chaining Hash",
        "Chaining Hash ahead of HotRing-s (w/o)",
        1.0,
        &behind,
    );
    factors.chain([without]).collect()
}

fn by_period(bench: &Bench) -> Result<Measured> {
    const PERIODS: [u32; 6] = [1, 2, 5, 10, 30, 100];
    let keys = (bench.size.keys / 2).max(1);
    let (mut charts, mut claims) = (Vec::new(), Vec::new());
    for strategy in [Strategy::Random, Strategy::Sampling] {
        let plans = PERIODS.map(|period| {
            let plan = field::ring(bench, keys, RATIO, strategy);
            Plan { config: Config { period: Some(period), ..plan.config.clone() }, ..plan }
        });
        let field = Field::load(bench, keys, &plans)?;
        let mut series = Vec::new();
        for theta in [0.99, EXTREME] {
            let work = Work::zipf(Workload::B, theta, bench.size.threads);
            let mut points = Vec::new();
            for (period, samples) in PERIODS.into_iter().zip(field.measure(bench, work)?) {
                let spread = samples.spread();
                points.push(crate::plots::chart::Point::spread(f64::from(period), spread));
            }
            let best = points.iter().map(|point| point.y).fold(0.0, f64::max);
            let five = points.iter().find(|point| point.x == 5.0).map_or(0.0, |point| point.y);
            claims.push(Claim::holds(
                "R = 5 is a good balance",
                &format!(
                    "{}, exponent {theta}, R = 5 within a tenth of the best R ({} of it)",
                    field::ring_name(strategy),
                    percent(five / best)
                ),
                usize::from(five >= 0.9 * best),
                1,
            ));
            series.push(crate::plots::chart::Series::measured(format!("exponent {theta}"), points));
        }
        charts.push(Chart::lines(
            format!("{}, B, threads: {}", field::ring_name(strategy), bench.size.threads),
            Axis::log("R, accesses of a session between two moves"),
            Axis::linear(RATE),
            series,
        ));
    }
    Ok(Measured { claims, charts, notes: vec![note(keys)] })
}
