//! Throughput over time: HotRing's figures 14 (the hot set shifts) and 17 (the table grows).

use std::time::Duration;

use anyhow::Result;
use hotring_index::{Config, Growth, Strategy};

use super::entry::{Bench, Entry};
use super::field::{self, Field};
use super::figure::{Claim, Measured, Paper, Source, Subject, percent};
use crate::measure::timeline::{Phase, Timeline};
use crate::plots::chart::{Axis, Chart, Mark, Point, Series};
use crate::report::Spread;
use crate::report::short;
use crate::targets::{Mode, Plan};
use crate::workload::feed::Feed;
use crate::workload::operations::Workload;
use crate::workload::skew::Skew;
use crate::workload::streams::Draw;

/// The figures of this file.
pub const ENTRIES: [Entry; 2] = [
    Entry {
        subject: Subject {
            id: "hotring-14",
            title: "Reaction to a shift of the hot set",
            source: Source { paper: Paper::HotRing, reference: "figure 14" },
            paper: "After the hot keys have changed (C), HotRing-r is steady again in less than 2 \
                    seconds; HotRing-s takes longer and reaches more. Chaining Hash does not \
                    notice.",
        },
        measure: shift,
    },
    Entry {
        subject: Subject {
            id: "hotring-17",
            title: "Growing while inserts go on",
            source: Source { paper: Paper::HotRing, reference: "figure 17" },
            paper: "Half reads (exponent 1.22), half inserts, from 8 keys a bucket on: two \
                    doublings in a row keep the throughput up, with short drops while the new \
                    table does not know its hot items yet.",
        },
        measure: growth,
    },
];

const RATIO: u64 = 8;
const EXTREME: f64 = 1.22;
const RATE: &str = "million operations a second";
/// The number of windows in a figure.
const WINDOWS: u32 = 60;
/// The share of the final rate from which on a rate counts as steady.
const STEADY: f64 = 0.9;

fn source(bench: &Bench, keys: u64, workload: Workload, ops: u64, hot_set: u64) -> Feed<'static> {
    let (skew, threads) = (Skew::Zipf(EXTREME), bench.size.threads);
    Draw { workload, skew, keys, threads, ops, seed: 1, hot_set, turn: 0 }.into()
}

/// The medians over the rounds for each window, with the time in seconds.
fn medians(rounds: &[Vec<f64>], window: Duration) -> Vec<Point> {
    let length = rounds.iter().map(Vec::len).min().unwrap_or_default();
    let point = |at: usize| {
        let rates: Vec<f64> = rounds.iter().map(|round| round[at]).collect();
        Point::spread((at as f64 + 0.5) * window.as_secs_f64(), Spread::of(&rates))
    };
    (0..length).map(point).collect()
}

fn shift(bench: &Bench) -> Result<Measured> {
    let keys = bench.size.keys;
    let plans = [
        field::chaining(bench, keys, RATIO),
        field::ring(bench, keys, RATIO, Strategy::Random),
        field::ring(bench, keys, RATIO, Strategy::Sampling),
        field::lines(bench, keys),
    ];
    let field = Field::load(bench, keys, &plans)?;
    let half = Duration::from_secs_f64(bench.size.seconds / 2.0);
    let window = 2 * half / WINDOWS;
    let ops = bench.size.ops;
    let mut rounds = vec![Vec::new(); plans.len()];
    let turns = bench.size.rounds.min(3);
    let bar = bench.steps((turns * plans.len()) as u64, "hot sets shift");
    for round in 0..turns as u64 {
        // Each round has hot sets that no earlier round had.
        let before = source(bench, keys, Workload::C, ops, 2 * round);
        let after = source(bench, keys, Workload::C, ops, 2 * round + 1);
        field::settle(bench, &field.targets(), &before)?;
        // Draws that no earlier turn had.
        let turn = 1 << 32;
        let phases = [&before, &after].map(|source| Phase { source, turn, lasts: half });
        let timeline = Timeline { phases: &phases, window, mode: Mode::Scalar };
        for (rounds, target) in rounds.iter_mut().zip(field.targets()) {
            rounds.push(timeline.run(target)?);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    let shifted = half.as_secs_f64();
    let lines: Vec<Vec<Point>> = rounds.iter().map(|rounds| medians(rounds, window)).collect();
    let claims = reactions(&lines, shifted);
    let series = plans.iter().zip(lines).map(|(plan, points)| {
        // The ranges of the windows would hide the lines.
        let points = points.into_iter().map(|point| Point { range: None, ..point }).collect();
        Series::measured(plan.name(), points)
    });
    let mut chart = Chart::lines(
        format!("C, exponent {EXTREME}, threads: {}", bench.size.threads),
        Axis::linear("seconds"),
        Axis::linear(RATE),
        series.collect(),
    );
    chart.marks.push(Mark { x: shifted, name: "other keys become hot".into() });
    if shifted > 2.0 {
        let name = "the paper: HotRing-r is steady".into();
        chart.marks.push(Mark { x: shifted + 2.0, name });
    }
    let notes = vec![format!(
        "{keys} keys, windows of {} ms, medians of {turns} runs. The paper's table is {} times as \
         large, and has as many more heads to move: times of reaction do not compare, their order \
         does.",
        window.as_millis(),
        short(2.5e8 / keys as f64)
    )];
    Ok(Measured { claims, charts: vec![chart], notes })
}

/// The seconds from the shift until a line reaches nine tenths of its final value, and that final value.
fn steady_after(line: &[Point], shifted: f64) -> Option<(f64, f64)> {
    let after: Vec<&Point> = line.iter().filter(|point| point.x > shifted).collect();
    let last = after.len() - after.len() / 3;
    let end: Vec<f64> = after.get(last..)?.iter().map(|point| point.y).collect();
    if end.is_empty() {
        return None;
    }
    let end = Spread::of(&end).median;
    let first = after.iter().find(|point| point.y >= STEADY * end)?;
    Some((first.x - shifted, end))
}

fn reactions(lines: &[Vec<Point>], shifted: f64) -> Vec<Claim> {
    let reaction = |row: usize| steady_after(&lines[row], shifted);
    let (Some(random), Some(sampling)) = (reaction(1), reaction(2)) else { return Vec::new() };
    let mut claims = vec![
        Claim::holds(
            "HotRing-r is steady again within 2 seconds",
            &format!("nine tenths of its rate after {} s", short(random.0)),
            usize::from(random.0 < 2.0),
            1,
        ),
        Claim::holds(
            "HotRing-r reacts faster than HotRing-s",
            &format!("{} s and {} s", short(random.0), short(sampling.0)),
            usize::from(random.0 <= sampling.0),
            1,
        ),
        Claim::holds(
            "HotRing-s reaches more in the end",
            &format!("{} and {} million a second", short(sampling.1), short(random.1)),
            usize::from(sampling.1 > random.1),
            1,
        ),
    ];
    if let Some(chaining) = reaction(0) {
        let dip = |row: usize| {
            let after = lines[row].iter().filter(|point| point.x > shifted);
            after.map(|point| point.y).fold(f64::INFINITY, f64::min)
        };
        claims.push(Claim::holds(
            "Chaining Hash does not notice",
            &format!("its lowest window is {} of its rate", percent(dip(0) / chaining.1)),
            usize::from(dip(0) >= 0.8 * chaining.1),
            1,
        ));
    }
    claims
}

fn growth(bench: &Bench) -> Result<Measured> {
    let keys = (bench.size.keys / 4).max(1);
    // Two doublings: the number of keys grows to four times, and half of the operations insert.
    let ops = 3 * keys * 2 / bench.size.threads as u64;
    let source = source(bench, keys, Workload::Grow, ops, 0);
    let window = Duration::from_secs_f64(bench.size.seconds / f64::from(2 * WINDOWS));
    let lasts = Duration::from_secs_f64(20.0 * bench.size.seconds);
    let fixed = field::ring(bench, 4 * keys, 4 * RATIO, Strategy::Sampling);
    // Grows at the bytes per key that the fixed table has once it is full.
    let grows =
        Config { growth: Some(Growth::BytesPerKey(8.0 / RATIO as f64)), ..fixed.config.clone() };
    let label = |text: &str| Some(text.to_owned());
    let plans = [
        Plan { label: label("HotRing-s, fixed"), ..fixed.clone() },
        Plan { label: label("HotRing-s, grows"), config: grows, ..fixed },
        field::lines(bench, 4 * keys),
    ];
    let mut rounds = vec![Vec::new(); plans.len()];
    let turns = bench.size.rounds.min(3);
    for turn in 0..turns as u64 {
        for (rounds, plan) in rounds.iter_mut().zip(&plans) {
            // Inserted keys stay, so each run needs a new table.
            let field = Field::load(bench, keys, std::slice::from_ref(plan))?;
            let phases = [Phase { source: &source, turn, lasts }];
            let timeline = Timeline { phases: &phases, window, mode: Mode::Scalar };
            rounds.push(timeline.run(field.targets()[0])?);
        }
    }
    let lines: Vec<Vec<Point>> = rounds.iter().map(|rounds| medians(rounds, window)).collect();
    let claims = growth_claims(&lines);
    let series = plans.iter().zip(lines).map(|(plan, points)| {
        let points = points.into_iter().map(|point| Point { range: None, ..point }).collect();
        Series::measured(plan.name(), points)
    });
    let chart = Chart::lines(
        format!("Half reads, half inserts, threads: {}", bench.size.threads),
        Axis::linear("seconds"),
        Axis::linear(RATE),
        series.collect(),
    );
    let notes = vec![format!(
        "From {keys} keys to {} and so through two doublings of the table, windows of {} ms, medians \
         of {turns} runs, each with a new table. \"Fixed\" is the same ring in a table that has its \
         first size throughout.",
        4 * keys,
        window.as_millis()
    )];
    Ok(Measured { claims, charts: vec![chart], notes })
}

fn growth_claims(lines: &[Vec<Point>]) -> Vec<Claim> {
    let third = |line: &[Point], nth: usize| {
        let part = line.len() / 3;
        let rates: Vec<f64> =
            line.iter().skip(nth * part).take(part).map(|point| point.y).collect();
        if rates.is_empty() { f64::NAN } else { Spread::of(&rates).median }
    };
    let kept = |line: &[Point]| third(line, 2) / third(line, 0);
    let (fixed, grows) = (kept(&lines[0]), kept(&lines[1]));
    let lowest = lines[1].iter().map(|point| point.y).fold(f64::INFINITY, f64::min);
    let middle: Vec<f64> = lines[1].iter().map(|point| point.y).collect();
    let middle = if middle.is_empty() { f64::NAN } else { Spread::of(&middle).median };
    vec![
        Claim::holds(
            "Doubling keeps the throughput up while data grow",
            &format!(
                "in the last third {} of the first third's rate, without growth {}",
                percent(grows),
                percent(fixed)
            ),
            usize::from(grows > fixed),
            1,
        ),
        Claim::holds(
            "Drops are short",
            &format!("the lowest window has {} of the median", percent(lowest / middle)),
            usize::from(lowest > 0.5 * middle),
            1,
        ),
    ]
}
