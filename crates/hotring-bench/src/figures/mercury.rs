//! Mercury's evaluation: accesses for a GET (figure 3), locks (figure 4), YCSB (figure 5).

use anyhow::Result;

use super::entry::{Bench, Entry};
use super::field::{self, Field, Rows, Work};
use super::figure::{Claim, Measured, Paper, Source, Subject};
use super::locked;
use crate::measure::rounds::Samples;
use crate::mercury::MercuryArgs;
use crate::plots::chart::{Axis, Chart, Point, Series};
use crate::targets::{Plan, Shape, TargetName};
use crate::workload::operations::Workload;
use crate::workload::skew::Skew;

/// The figures of this file.
pub const ENTRIES: [Entry; 3] = [
    Entry {
        subject: Subject {
            id: "mercury-3",
            title: "Memory accesses for a GET",
            source: Source { paper: Paper::Mercury, reference: "figure 3" },
            paper: "Cache misses for a GET of 32 million random keys: 2.85 with Mercury at any \
                    number of threads; about 1.2 more with Memcached at one thread, 5.44 at 8.",
        },
        measure: accesses,
    },
    Entry {
        subject: Subject {
            id: "mercury-4",
            title: "GETs by locking scheme",
            source: Source { paper: Paper::Mercury, reference: "figure 4" },
            paper: "Mercury scales with threads and stays close to a variant without locks; \
                    test-and-set beats pthread mutexes. Memcached is 16 % behind at one thread \
                    and more than 15 times at 12, where its throughput sinks with threads.",
        },
        measure: locks,
    },
    Entry {
        subject: Subject {
            id: "mercury-5",
            title: "YCSB by share of writes",
            source: Source { paper: Paper::Mercury, reference: "figure 5" },
            paper: "Keys of 24 and values of 10 bytes, Zipf: 9.2 to 14 times as fast as Memcached \
                    with 12 threads; it scales with the cores even with 50 % writes.",
        },
        measure: by_writes,
    },
];

/// The row of Mercury in figures 3 and 4.
const MERCURY: usize = 0;
/// Memcached doubles its table at this number of items per bucket.
const MEMCACHED_LOAD: f64 = 1.5;
const RATE: &str = "million operations a second";
const THREADS: &str = "threads";

fn uniform(threads: usize) -> Work {
    Work { workload: Workload::C, skew: Skew::Uniform, threads }
}

fn mercury(bench: &Bench, keys: u64) -> Plan {
    field::default(bench, "Mercury, test-and-set", TargetName::Mercury, keys)
}

fn accesses(bench: &Bench) -> Result<Measured> {
    let keys = bench.size.keys;
    let chains = field::default(bench, "chains", TargetName::Chaining, keys);
    let plans = [mercury(bench, keys), chains.with_items_per_slot(keys, MEMCACHED_LOAD)];
    let field = Field::load(bench, keys, &plans)?;
    let mut rows = vec![Vec::new(); plans.len()];
    for threads in bench.size.thread_counts() {
        let samples = field.measure(bench, uniform(threads))?;
        for (row, (points, samples)) in rows.iter_mut().zip(&samples).enumerate() {
            // The bucket; for Memcached also the lock, which lies elsewhere.
            let fixed = if row == MERCURY { 1.0 } else { 2.0 };
            let point = |visits| Point::new(threads as f64, fixed + visits);
            points.extend(samples.visits.map(point));
        }
    }
    let first = |row: usize| {
        let points: &Vec<Point> = &rows[row];
        points.first().map_or(f64::NAN, |point| point.y)
    };
    let last = rows[MERCURY].last().map_or(f64::NAN, |point| point.y);
    let claims = vec![
        Claim::near("Mercury: 2.85 accesses", "counted", 2.85, first(MERCURY), 0.15),
        Claim::near(
            "Mercury needs 1.2 fewer than Memcached at one thread",
            "fewer",
            1.2,
            first(1) - first(MERCURY),
            0.2,
        ),
        Claim::holds(
            "The number of threads does not matter to Mercury",
            "the same accesses at all thread counts, within 5 %",
            usize::from((last / first(MERCURY) - 1.0).abs() < 0.05),
            1,
        ),
    ];
    let names = ["Mercury", "chains and locks as in Memcached"];
    let threads: Vec<f64> = rows[MERCURY].iter().map(|point| point.x).collect();
    let there =
        |points: Vec<(f64, f64)>| points.into_iter().map(|(x, y)| Point::new(x, y)).collect();
    let paper = [
        Series::paper("Mercury", there(threads.iter().map(|&x| (x, 2.85)).collect())),
        Series::paper("Memcached", there(vec![(1.0, 4.05), (8.0, 5.44)])),
    ];
    let series = names.into_iter().zip(rows);
    let chart = Chart::lines(
        "Lines of memory for a GET of a random key",
        Axis::log(THREADS),
        Axis::linear("bucket, lock and items visited"),
        series.map(|(name, points)| Series::measured(name, points)).chain(paper).collect(),
    );
    let notes = vec![format!(
        "Counted, not measured: a virtual machine shows no cache counters. {keys} keys; a GET \
         touches its bucket, the lock where that lies elsewhere, and the items that sampled lookups \
         visited. Chains as in Memcached are ours, at its load of at most {MEMCACHED_LOAD} items a \
         bucket; what its locks cost beyond one more line, when cores take the line from each other, \
         is not counted."
    )];
    Ok(Measured { claims, charts: vec![chart], notes })
}

fn locks(bench: &Bench) -> Result<Measured> {
    let keys = bench.size.keys;
    let plans = [
        mercury(bench, keys),
        field::default(bench, "Mercury, OS mutex", TargetName::MercuryMutex, keys),
    ];
    let mut field = Field::load(bench, keys, &plans)?;
    field.add(bench, locked::one_lock());
    let mut rows = Rows::default();
    for threads in bench.size.thread_counts() {
        rows.add(threads as f64, field.names(), &field.measure(bench, uniform(threads))?);
    }
    let most = bench.size.threads as f64;
    let mut claims = vec![
        Claim::above(
            "Test-and-set beats the mutex",
            "test-and-set ahead at all thread counts",
            1.0,
            &[rows.ratio(0, 1, 1.0), rows.ratio(0, 1, most)],
        ),
        Claim::factor(
            "16 % ahead of Memcached at one thread",
            "to one mutex",
            1.16,
            rows.ratio(0, 2, 1.0),
        ),
    ];
    if most > 1.0 {
        let speedup = rows.rate(MERCURY, most) / rows.rate(MERCURY, 1.0);
        claims.push(Claim::near(
            "Mercury scales with threads",
            &format!("{most} threads to one"),
            most,
            speedup,
            0.15,
        ));
        claims.push(Claim::holds(
            "Memcached's throughput sinks with threads",
            "one mutex is slower with all threads than with one",
            usize::from(rows.rate(2, most) < rows.rate(2, 1.0)),
            1,
        ));
    }
    let there = rows.by_factor("Mercury, by its gain over Memcached", 2, &[(1.0, 1.16)]);
    let args = MercuryArgs::of(keys, bench.size.ops, bench.size.rounds);
    let none = args.no_lock()?;
    claims.push(Claim::near(
        "Test-and-set stays close to no locks at all, at one thread",
        "no lock to test-and-set, in runs that take turns",
        1.0,
        none.to_test_and_set,
        0.1,
    ));
    let none = Series::measured("Mercury, no lock", vec![Point::spread(1.0, none.rate)]);
    let chart = Chart::lines(
        format!("GETs of {keys} keys at random"),
        Axis::log(THREADS),
        Axis::linear(RATE),
        rows.series().into_iter().chain([none, there]).collect(),
    );
    let during = args.slower_by_expansion(most as usize)?;
    claims.push(Claim::near(
        "Section 4.1: 9 % less throughput during an expansion (8 threads)",
        &format!("GETs during an expansion to before it, threads: {most}"),
        0.91,
        during,
        0.05,
    ));
    let notes = vec![
        "Memcached 1.4.13 cannot run in process: a std::collections::HashMap in one mutex \
         stands for its cache lock."
            .to_owned(),
        "The variant without locks runs on one thread only: with more it loses items, and here it is \
         not allowed to. It is measured in rounds of its own, in turns with test-and-set."
            .to_owned(),
        "That a worker's thread lock is held for less than 1 \u{b5}s is not measured."
            .to_owned(),
    ];
    Ok(Measured { claims, charts: vec![chart], notes })
}

fn by_writes(bench: &Bench) -> Result<Measured> {
    const MIXES: [(Workload, &str); 3] =
        [(Workload::C, "no writes"), (Workload::B, "5 % writes"), (Workload::A, "50 % writes")];
    let keys = bench.size.keys / 2;
    let shape = Shape { key_bytes: 24, value_bytes: 10 };
    let plan = Plan { shape, ..mercury(bench, keys) };
    let mut field = Field::load(bench, keys, &[plan])?;
    field.add(bench, locked::one_lock());
    let (mut charts, mut claims) = (Vec::new(), Vec::new());
    for (workload, name) in MIXES {
        let mut rows = Rows::default();
        for threads in bench.size.thread_counts() {
            let samples: Vec<Samples> =
                field.measure(bench, Work::zipf(workload, 0.99, threads))?;
            rows.add(threads as f64, field.names(), &samples);
        }
        let most = bench.size.threads as f64;
        claims.push(Claim::factor(
            "9.2 to 14 times Memcached with 12 threads",
            &format!("{name}, {most} threads, to one mutex"),
            9.2,
            rows.ratio(MERCURY, 1, most),
        ));
        if most > 1.0 {
            let speedup = rows.rate(MERCURY, most) / rows.rate(MERCURY, 1.0);
            let claimed = format!("{name}, {most} threads to one");
            claims.push(Claim::near("It scales with the cores", &claimed, most, speedup, 0.15));
        }
        let there = [(most, 9.2)];
        let there = rows.by_factor("Mercury, by its least gain over Memcached", 1, &there);
        let series = rows.series().into_iter().chain([there]).collect();
        charts.push(Chart::lines(name, Axis::log(THREADS), Axis::linear(RATE), series));
    }
    let notes = vec![format!(
        "{keys} keys, exponent 0.99. One mutex around a HashMap of numbers stands for Memcached: it \
         has shorter keys, and neither memory classes nor a list of recent items to keep, so it is \
         faster than Memcached would be. The gap that the paper reports opens with the number of \
         cores."
    )];
    Ok(Measured { claims, charts, notes })
}
