//! Comparison at equal bytes of index per key, as in HotRing's paper (FAST'20 section 4): chains of 8 and of 16
//! keys per bucket, and rings whose table has as many bytes.
//!
//! A bucket of Chaining Hash is one word. A slot of the ring with one hint is two words (its anchor and the
//! hint), so its arcs have twice as many keys at the same bytes; with three hints four times as many. Seven hints
//! would have eight times as many, which is hopeless at this memory. Tables are powers of two. The number of keys
//! must be a power of two as well, or the chains would be shorter than the paper's.

use anyhow::Result;
use hotring_index::{Config, Strategy};

use super::outcome::{Aim, Outcome};
use super::{Run, Scene};
use crate::measure::load::Loaded;
use crate::measure::rounds::Samples;
use crate::report::Spread;
use crate::targets::{Mode, Plan, Shape, TargetName};
use crate::workload::operations::Workload;
use crate::workload::skew::Skew;

/// The paper's skew for extreme hotspots.
const EXTREME: Skew = Skew::Zipf(1.22);
/// Values that are replaced, never changed in place.
const REPLACED: Shape = Shape { key_bytes: 8, value_bytes: 100 };

/// Strategies and hints of the rings that are compared with chains.
const RINGS: [(Strategy, usize); 4] =
    [(Strategy::Random, 1), (Strategy::Sampling, 1), (Strategy::Vote, 1), (Strategy::Vote, 3)];

/// The divisor of the operations per round, because lookups in long chains are slow.
const SLOWER: u64 = 4;

impl Run {
    /// The paper's headline: figures 10, 11(a) and 15(a).
    pub(super) fn equal_memory(&mut self) -> Result<()> {
        let keys = floor_to_power_of_two(self.keys);
        for (bucket, aim) in [(8, 2.3), (16, 4.0)] {
            let loaded = self.load(plans(keys, bucket, Shape::WORDS), keys)?;
            let part = format!("{bucket} keys a bucket");
            for workload in [Workload::B, Workload::C, Workload::Miss] {
                let misses = workload == Workload::Miss;
                let skew = if misses { Skew::Uniform } else { EXTREME };
                let scene = Scene { workload, skew, keys, ops: (self.ops / SLOWER).max(1) };
                let samples = self.measure(&part, &scene, &loaded, &all(&loaded))?;
                let aim = Aim::AtLeast(if misses { 1.0 } else { aim });
                self.best_ring(&part, &scene, &loaded, &samples, aim);
                if bucket == 8 && !misses {
                    self.papers_rings(&part, &scene, &loaded, &samples);
                }
            }
        }
        Ok(())
    }

    /// The paper's figure 12: writes that replace the item.
    pub(super) fn rcu(&mut self) -> Result<()> {
        let keys = floor_to_power_of_two(self.keys / 2);
        let loaded = self.load(plans(keys, 8, REPLACED), keys)?;
        for workload in [Workload::W, Workload::A] {
            let scene = Scene { workload, skew: EXTREME, keys, ops: (self.ops / SLOWER).max(1) };
            let part = "100-byte values, 8 keys a bucket";
            let samples = self.measure(part, &scene, &loaded, &all(&loaded))?;
            self.best_ring(part, &scene, &loaded, &samples, Aim::AtLeast(1.32));
        }
        Ok(())
    }

    fn best_ring(
        &mut self,
        part: &str,
        scene: &Scene,
        loaded: &[Loaded],
        samples: &[Vec<Samples>],
        aim: Aim,
    ) {
        for (samples, &threads) in samples.iter().zip(&self.threads) {
            let rings = 1..loaded.len();
            let best = rings.max_by(|&a, &b| median(&samples[a]).total_cmp(&median(&samples[b])));
            let best = best.expect("there are rings");
            let figure = samples[best].ratio(&samples[0]);
            let title = format!("{part}: {} {}, best ring", scene.workload, scene.skew);
            self.outcomes.push(outcome(title, threads, (&loaded[best], &loaded[0]), figure, aim));
        }
    }

    /// Compares rings with one head under the paper's two strategies.
    fn papers_rings(
        &mut self,
        part: &str,
        scene: &Scene,
        loaded: &[Loaded],
        samples: &[Vec<Samples>],
    ) {
        for (samples, &threads) in samples.iter().zip(&self.threads) {
            for (ring, (strategy, hints)) in RINGS.iter().enumerate() {
                if *strategy == Strategy::Vote || *hints != 1 {
                    continue;
                }
                let figure = samples[ring + 1].ratio(&samples[0]);
                let title = format!("{part}: {} {}, one head", scene.workload, scene.skew);
                let both = (&loaded[ring + 1], &loaded[0]);
                self.outcomes.push(outcome(title, threads, both, figure, Aim::AtLeast(2.0)));
            }
        }
    }
}

pub(super) fn outcome(
    title: String,
    threads: usize,
    (ours, other): (&Loaded, &Loaded),
    figure: Spread,
    aim: Aim,
) -> Outcome {
    let name = |loaded: &Loaded| loaded.target.name().to_owned();
    let (ours, other) = (name(ours), name(other));
    Outcome { title, threads, ours, other, figure, aim, of_oracle: None }
}

pub(super) fn median(samples: &Samples) -> f64 {
    samples.spread().median
}

/// All targets, one lookup at a time.
pub(super) fn all(loaded: &[Loaded]) -> Vec<(usize, Mode)> {
    (0..loaded.len()).map(|at| (at, Mode::Scalar)).collect()
}

/// The plans: chains first, then rings with as many bytes.
fn plans(keys: u64, bucket: u64, shape: Shape) -> Vec<Plan> {
    let chains = Plan { shape, ..Plan::new(TargetName::Chaining, keys) };
    let mut plans = vec![chains.with_keys_per_bucket(keys, bucket as f64)];
    for (strategy, hints) in RINGS {
        let config = Config { strategy, ..Config::default() };
        let ring = Plan { shape, hints, config, ..Plan::new(TargetName::Hotring, keys) };
        plans.push(ring.with_keys_per_bucket(keys, bucket as f64));
    }
    plans
}

fn floor_to_power_of_two(keys: u64) -> u64 {
    1 << keys.max(1).ilog2()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_tables_have_the_same_bytes() {
        let keys = floor_to_power_of_two(20_000);
        assert_eq!(keys, 1 << 14);
        for bucket in [8, 16] {
            for plan in plans(keys, bucket, Shape::WORDS) {
                let target = plan.build().expect("it can be built");
                let name = target.name().to_owned();
                assert_eq!(target.index_bytes(), Some(keys / bucket * 8), "{name}, {bucket}");
            }
        }
    }
}
