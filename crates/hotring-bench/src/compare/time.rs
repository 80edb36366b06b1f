//! Comparison over time: while the hot keys change, while the table grows, and for the slowest single reads.

use std::time::Duration;

use anyhow::{Result, ensure};
use hotring_index::{Config, Growth, Strategy};

use super::outcome::{Aim, Outcome};
use super::{Run, Scene};
use crate::measure::latency;
use crate::measure::load::Loaded;
use crate::measure::rounds::Entrant;
use crate::measure::timeline::{Phase, Timeline};
use crate::report::Spread;
use crate::targets::{Mode, Plan, Shape, TargetName};
use crate::workload::feed::Feed;
use crate::workload::operations::{Keys, Workload};
use crate::workload::skew::Skew;

/// The paper's skew for extreme hotspots.
const EXTREME: Skew = Skew::Zipf(1.22);
/// The length of a window, short enough to show a dip that a user would notice.
const WINDOW: Duration = Duration::from_millis(100);
/// The share of the steady rate from which on the index has recovered from a shift.
const STEADY: f64 = 0.9;
/// The quantile of single reads that is reported.
const TAIL: f64 = 0.9999;

impl Run {
    /// The paper's figure 14: all reads go to other keys at once.
    pub(super) fn shift(&mut self) -> Result<()> {
        let (keys, threads) = (self.keys, self.threads_max());
        let plans =
            vec![Plan::new(TargetName::Hotring, keys), Plan::new(TargetName::Chaining, keys)];
        let loaded = self.load(plans, keys)?;
        for theta in [0.99, 1.22] {
            let (workload, skew) = (Workload::C, Skew::Zipf(theta));
            let scene = Scene { workload, skew, keys, ops: self.ops };
            let sets = [0, 1].map(|hot_set| self.source(&scene, threads, hot_set));
            let bar = self.bar(
                &format!("shift of the hot keys, {theta}"),
                self.rounds.measured * loaded.len(),
            );
            let mut reactions = vec![Vec::new(); loaded.len()];
            for round in 0..self.rounds.measured {
                for turn in 0..loaded.len() {
                    let at = (round + turn) % loaded.len();
                    // The keys that are hot at the end of a round are hot at the start of the next one.
                    let order = [round % 2, (round + 1) % 2].map(|set| &sets[set]);
                    reactions[at].push(self.react(&loaded[at], order, round as u64)?);
                    bar.inc(1);
                }
            }
            bar.finish_and_clear();
            for (loaded, reactions) in loaded.iter().zip(&reactions) {
                let is_ring = loaded.plan.target == TargetName::Hotring;
                let aim = |aim| if is_ring { aim } else { Aim::Shown };
                let name = loaded.target.name();
                let all = |pick: fn(&Reaction) -> f64| {
                    Spread::of(&reactions.iter().map(pick).collect::<Vec<f64>>())
                };
                let title = format!("shift at {theta}: seconds to 90 % of the steady rate");
                self.push_own(title, threads, name, all(|r| r.seconds), aim(Aim::AtMost(1.0)));
                let title = format!("shift at {theta}: lowest window of the steady rate");
                self.push_own(title, threads, name, all(|r| r.lowest), aim(Aim::AtLeast(0.6)));
            }
        }
        Ok(())
    }

    fn react(&self, loaded: &Loaded, sources: [&Feed<'_>; 2], round: u64) -> Result<Reaction> {
        let lasts = Duration::from_secs_f64(self.seconds);
        // No phase makes 2^32 draws, so no round repeats another.
        let turn = round << 32;
        let phases = sources.map(|source| Phase { source, turn, lasts });
        let window = WINDOW.min(lasts / 10);
        let timeline = Timeline { phases: &phases, window, mode: Mode::Scalar };
        let rates = timeline.run(&*loaded.target)?;
        Ok(Reaction::of(&rates, window))
    }

    /// Adds a figure of one target that is relative to its own steady rate.
    fn push_own(&mut self, title: String, threads: usize, name: &str, figure: Spread, aim: Aim) {
        let (ours, other) = (name.to_owned(), "itself".into());
        self.outcomes.push(Outcome { title, threads, ours, other, figure, aim, of_oracle: None });
    }

    /// The paper's figure 17: half of all operations insert, until the keys have doubled. Each round
    /// has a fresh table that grows, and a fixed one of its final size.
    pub(super) fn growth(&mut self) -> Result<()> {
        let (keys, threads) = (self.keys / 2, self.threads_max());
        let ops = 2 * keys / threads as u64;
        let scene = Scene { workload: Workload::Grow, skew: EXTREME, keys, ops };
        let source = self.source(&scene, threads, 0);
        let grows = Plan::new(TargetName::Hotring, 3 * keys);
        let mut slots = 0;
        let mut lowest = Vec::new();
        let bar = self.bar("growth under load", 2 * self.rounds.measured);
        for round in 0..=self.rounds.measured {
            let (grown, rates) = self.grow(&grows, keys, &source, round as u64)?;
            slots = slots.max(grown);
            bar.inc(1);
            if round == 0 {
                // The final size is known only after the growing run.
                continue;
            }
            let config =
                Config { growth: Some(Growth::Fixed), slots_initial: slots, ..Config::default() };
            let fixed = Plan { config, ..grows.clone() };
            let (_, fixed) = self.grow(&fixed, keys, &source, round as u64)?;
            bar.inc(1);
            lowest.push(minimum(&rates) / Spread::of(&fixed).median);
        }
        bar.finish_and_clear();
        let title = "growth under load: lowest window of a run without growth".into();
        self.push_own(title, threads, &grows.name(), Spread::of(&lowest), Aim::AtLeast(0.7));
        Ok(())
    }

    /// The final slots of the table, and the rates during growth.
    fn grow(
        &self,
        plan: &Plan,
        keys: u64,
        source: &Feed<'_>,
        turn: u64,
    ) -> Result<(usize, Vec<f64>)> {
        let plan = Plan { keys: Keys::Scattered, ..plan.clone() };
        let loaded = Loaded::new(&plan, keys)?;
        // The phase ends when its streams end, long before this time.
        let phases = [Phase { source, turn, lasts: Duration::from_secs(3_600) }];
        let seconds = WINDOW.as_secs_f64().min(self.seconds / 10.0);
        let window = Duration::from_secs_f64(seconds);
        let timeline = Timeline { phases: &phases, window, mode: Mode::Scalar };
        let rates = timeline.run(&*loaded.target)?;
        ensure!(!rates.is_empty(), "growth is over in less than a window: take more keys");
        let bytes = loaded.target.index_bytes().unwrap_or_default() as usize;
        Ok((bytes / plan.slot_bytes(), rates))
    }

    /// The paper's figure 16, and other reasons for a read to wait. Each case is compared in the same scene with
    /// a ring of the same shape whose hints never move and whose table never grows.
    pub(super) fn tails(&mut self) -> Result<()> {
        let keys = below_power_of_two(self.keys / 2);
        for case in cases(keys) {
            let timed = Scene { workload: Workload::C, skew: case.skew, keys, ops: self.ops };
            let background = Scene { workload: case.background, ..timed };
            let [timed, background] = [timed, background].map(|scene| self.source(&scene, 1, 0));
            let steady = Scene { skew: EXTREME, workload: Workload::C, keys, ops: self.ops };
            let steady = self.source(&steady, 1, 0);
            let (mut samples, mut factor) = ([Vec::new(), Vec::new()], 1.0_f64);
            let bar = self.bar(&format!("tails: {}", case.title), 2 * self.rounds.measured);
            for round in 0..self.rounds.measured {
                let streams = timed.streams(round as u64)?;
                let streams = streams.with_background(background.streams(1 << 32 | round as u64)?);
                for turn in 0..2 {
                    let at = (round + turn) % 2;
                    let plan = Plan { keys: Keys::Scattered, ..case.plans[at].clone() };
                    let loaded = Loaded::new(&plan, keys)?;
                    let (target, mode) = (&*loaded.target, Mode::Scalar);
                    self.rounds.settle(&[Entrant { target, mode, source: &steady }], &bar)?;
                    let latencies = latency::of_reads(target, &streams)?;
                    samples[at].push(latencies.value_at_quantile(TAIL) as f64);
                    let grown = loaded.target.index_bytes().unwrap_or_default() as f64;
                    let before = loaded.index_bytes_per_key.unwrap_or_default() * keys as f64;
                    factor = factor.max(grown / before);
                    bar.inc(1);
                }
            }
            bar.finish_and_clear();
            let [tails, quiet] = samples;
            let ratios: Vec<f64> = tails.iter().zip(&quiet).map(|(a, b)| a / b).collect();
            let names = case.plans.map(|plan| plan.name());
            let median = |samples: &[f64]| Spread::of(samples).median / 1000.0;
            self.outcomes.push(Outcome {
                title: format!("p99.99 of single reads, {}, table grown {factor:.0}x", case.title),
                threads: 2,
                ours: format!("{}: {:.1} us", names[0], median(&tails)),
                other: format!("{}: {:.1} us", names[1], median(&quiet)),
                figure: Spread::of(&ratios),
                aim: Aim::AtMost(3.0),
                of_oracle: None,
            });
        }
        Ok(())
    }
}

/// The effect of a shift on the rate.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Reaction {
    /// Time until the rate reached 90 % of the steady rate, in seconds.
    seconds: f64,
    /// The lowest rate of a window after the shift, as a share of the steady rate.
    lowest: f64,
}

impl Reaction {
    /// Takes the rates of a run with the shift in its middle. The steady rate is the median of the second half
    /// before the shift and the second half after it.
    fn of(rates: &[f64], window: Duration) -> Self {
        let quarter = rates.len() / 4;
        let (before, after) = rates.split_at(rates.len() / 2);
        let steady: Vec<f64> = [&before[quarter..], &after[quarter..]].concat();
        let steady = if steady.is_empty() { f64::NAN } else { Spread::of(&steady).median };
        let overcome = after.iter().position(|&rate| rate >= STEADY * steady);
        let windows = overcome.unwrap_or(after.len());
        Reaction { seconds: windows as f64 * window.as_secs_f64(), lowest: minimum(after) / steady }
    }
}

fn minimum(rates: &[f64]) -> f64 {
    rates.iter().copied().fold(f64::INFINITY, f64::min)
}

/// A number of keys just below the one at which a table, whose size is a power of two, doubles.
fn below_power_of_two(keys: u64) -> u64 {
    (1 << keys.ilog2()) / 16 * 15
}

/// A case with a reason for reads to wait.
struct Case {
    title: &'static str,
    skew: Skew,
    /// The work of the other thread during the reads.
    background: Workload,
    /// The ring under test, and the quiet ring.
    plans: [Plan; 2],
}

fn cases(keys: u64) -> [Case; 3] {
    let numbers = 2 * keys;
    let ring = |strategy, hints, shape| {
        let config = Config { strategy, ..Config::default() };
        Plan { config, hints, shape, ..Plan::new(TargetName::Hotring, numbers) }
    };
    // The quiet ring has the number of items per slot that a growing table reaches.
    let quiet = |hints: usize, shape| {
        let items = if hints == 1 { 3.0 } else { 6.0 };
        ring(Strategy::None, hints, shape).with_items_per_slot(keys, items)
    };
    let large = Shape { key_bytes: 8, value_bytes: 100 };
    [
        Case {
            title: "sampling while the hot keys shift",
            skew: Skew::Shift(1.22),
            background: Workload::C,
            plans: [ring(Strategy::Sampling, 1, Shape::WORDS), quiet(1, Shape::WORDS)],
        },
        Case {
            title: "growth",
            skew: EXTREME,
            background: Workload::Grow,
            plans: [ring(Strategy::Vote, 7, Shape::WORDS), quiet(7, Shape::WORDS)],
        },
        Case {
            title: "reclamation of 100-byte values",
            skew: EXTREME,
            background: Workload::W,
            plans: [ring(Strategy::Vote, 7, large), quiet(7, large)],
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reaction_is_the_time_to_the_steady_rate_and_the_dip() {
        let window = Duration::from_millis(100);
        let rates = [10.0, 10.0, 10.0, 10.0, 5.0, 8.0, 9.5, 10.0];
        let Reaction { seconds, lowest } = Reaction::of(&rates, window);
        assert!((seconds - 0.2).abs() < 1e-9, "{seconds}");
        assert!((lowest - 0.5).abs() < 1e-9, "{lowest}");
        let never = Reaction::of(&[10.0, 10.0, 10.0, 10.0, 5.0, 5.0, 5.0, 5.0], window);
        assert!((never.seconds - 0.4).abs() < 1e-9, "{never:?}");
    }

    #[test]
    fn every_case_can_be_built() {
        for case in cases(1_000) {
            for plan in case.plans {
                assert!(plan.build().is_ok(), "{}: {}", case.title, plan.name());
            }
        }
    }
}
