//! Throughput by workload: figure 10.

use anyhow::Result;
use hotring_index::Strategy;

use super::{BY_GAIN, CHAINING, EXTREME, RATE, RATIO, RING_R, RING_S, note, papers};
use crate::figures::entry::{Bench, Entry};
use crate::figures::field::{self, Field, Rows, Work};
use crate::figures::figure::{Claim, Measured, Paper, Source, Subject};
use crate::plots::chart::{Axis, Chart, Point, Series};
use crate::report::Spread;
use crate::targets::{Plan, TargetName};
use crate::workload::operations::Workload;

/// Figure 10 of HotRing's paper.
pub(super) const ENTRY: Entry = Entry {
    subject: Subject {
        id: "hotring-10",
        title: "Throughput by workload",
        source: Source { paper: Paper::HotRing, reference: "figure 10" },
        paper: "At equal index memory and exponent 1.22, HotRing-s is 2.10 to 7.75 times as \
                fast as the others (Chaining Hash, FASTER, Masstree, Memcached) in B and C, and \
                1.81 to 6.46 times in D and F: 12.9 million operations a second by one thread, \
                565 million by 64. Its best gain is 2.58 times. HotRing-r is about 7 % less \
                accurate.",
    },
    measure,
};

/// The note on the length of the rings.
const RING_LENGTHS: &str = "With equal memory, our rings have twice as many keys as the paper's, because a slot has its \
                            anchor next to the head. \"8 keys a ring\" has as many keys a ring as the \
                            paper, and therefore twice the index memory.";

/// Indexes of other authors, with default settings.
const PEERS: [(&str, TargetName); 6] = [
    ("papaya", TargetName::Papaya),
    ("dashmap", TargetName::Dashmap),
    ("scc", TargetName::Scc),
    ("Masstree", TargetName::Masstree),
    ("libcuckoo", TargetName::Libcuckoo),
    ("TBB", TargetName::Tbb),
];

const WORKLOADS: [Workload; 5] = [Workload::A, Workload::B, Workload::C, Workload::D, Workload::F];

fn measure(bench: &Bench) -> Result<Measured> {
    let keys = bench.size.keys;
    let (plans, absent) = plans(bench, keys);
    let field = Field::load(bench, keys, &plans)?;
    let (mut charts, mut claims) = (Vec::new(), Vec::new());
    let mut one_thread = None;
    for threads in thread_counts(bench) {
        let mut rows = Rows::default();
        for (column, workload) in WORKLOADS.into_iter().enumerate() {
            let samples = field.measure(bench, Work::zipf(workload, EXTREME, threads))?;
            rows.add(column as f64, field.names(), &samples);
        }
        claims.extend(gains(&rows, threads));
        let reads = rows.rate(RING_S, 2.0);
        let one_thread = *one_thread.get_or_insert(reads);
        if threads > 1 {
            claims.push(Claim::near(
                "64 threads on 32 cores are 43.8 times as fast as one",
                &format!("C, HotRing-s, {threads} threads to one"),
                threads as f64,
                reads / one_thread,
                0.1,
            ));
        }
        charts.push(chart(rows, threads));
    }
    Ok(Measured { claims, charts, notes: notes(keys, &absent) })
}

/// The indexes to measure, and those that are not built into this tool.
fn plans(bench: &Bench, keys: u64) -> (Vec<Plan>, Vec<Plan>) {
    let mut plans = papers(bench, keys, RATIO);
    plans.push(field::papers_ring(bench, keys, RATIO, Strategy::Random));
    plans.push(field::papers_ring(bench, keys, RATIO, Strategy::Sampling));
    plans.push(field::backing_off(bench, keys, RATIO));
    plans.push(field::lines(bench, keys));
    plans.push(field::default(bench, "Mercury", TargetName::Mercury, keys));
    plans.push(field::default(bench, "G-Cuckoo", TargetName::Gcuckoo, keys));
    let peers = PEERS.map(|(name, target)| field::default(bench, name, target, keys));
    let (built, absent): (Vec<Plan>, Vec<Plan>) =
        peers.into_iter().partition(|plan| plan.build().is_ok());
    plans.extend(built);
    (plans, absent)
}

/// The rates of all workloads, with those of the paper.
fn chart(rows: Rows, threads: usize) -> Chart {
    let gains = [(1.0, 2.1), (2.0, 2.58), (3.0, 1.81), (4.0, 1.81)];
    let published = rows.by_factor(BY_GAIN, CHAINING, &gains);
    let mut series = rows.series();
    series.push(published);
    if threads == 1 {
        series.push(Series::paper("HotRing-s", vec![Point::new(2.0, 12.9)]));
    }
    Chart::bars(
        format!("Exponent {EXTREME}, threads: {threads}"),
        "YCSB workload",
        Axis::linear(RATE),
        WORKLOADS.iter().map(Workload::to_string).collect(),
        series,
    )
}

fn notes(keys: u64, absent: &[Plan]) -> Vec<String> {
    let mut notes = vec![
        note(keys),
        RING_LENGTHS.to_owned(),
        "\"Back-off\" samples less often if sampling has no effect; the paper has no counterpart."
            .to_owned(),
        "The paper has 565.36 million operations a second by 64 threads, and FASTER, Masstree and \
         Memcached as rivals. FASTER and Memcached cannot be built into this tool (docs/measuring.md); \
         so HotRing's lead over them is not checked."
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
    notes
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
