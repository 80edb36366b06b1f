//! Compares the ring under default settings with all other targets, and with the speed of memory itself.

use anyhow::Result;
use clap::ValueEnum;
use hotring_index::Config;

use super::outcome::{Aim, Outcome};
use super::table::{all, median, outcome};
use super::{BATCH, Run, Scene};
use crate::measure::load::Loaded;
use crate::measure::rounds::Samples;
use crate::report::Spread;
use crate::targets::{Mode, Plan, TargetName};
use crate::workload::operations::Workload;
use crate::workload::skew::Skew;

const PART: &str = "free memory";

/// The limit of bytes per key, all memory included.
const BYTES_MAX: f64 = 40.0;

/// The mixes and skews, each with the aim for the ring as a multiple of the best peer.
const SCENES: [(Workload, Skew, f64); 10] = [
    (Workload::C, Skew::Uniform, 1.0),
    (Workload::C, Skew::Zipf(0.99), 1.3),
    (Workload::C, Skew::Zipf(1.22), 1.4),
    (Workload::B, Skew::Uniform, 1.0),
    (Workload::B, Skew::Zipf(0.99), 1.3),
    (Workload::B, Skew::Zipf(1.22), 1.4),
    (Workload::A, Skew::Uniform, 1.0),
    (Workload::A, Skew::Zipf(0.99), 1.0),
    (Workload::A, Skew::Zipf(1.22), 1.0),
    (Workload::Miss, Skew::Uniform, 1.0),
];

/// The loaded targets, by position.
struct Field<'a> {
    loaded: &'a [Loaded],
    ring: usize,
    chains: usize,
    oracle: usize,
}

impl Run {
    /// Compares rates, with one lookup at a time and with many in flight.
    pub(super) fn free(&mut self) -> Result<()> {
        let keys = self.keys;
        let plans = plans(keys);
        let at = |name| {
            let position = plans.iter().position(|plan| plan.target == name);
            position.expect("our targets are always built in")
        };
        let [ring, chains, oracle] =
            [TargetName::Hotring, TargetName::Chaining, TargetName::Oracle].map(at);
        let loaded = self.load(plans, keys)?;
        let field = Field { loaded: &loaded, ring, chains, oracle };
        self.bytes(&field);
        for (workload, skew, aim) in SCENES {
            let scene = Scene { workload, skew, keys, ops: self.ops };
            let mut entrants = all(&loaded);
            let pipelined = entrants.len();
            if workload == Workload::C {
                let mode = Mode::Batched(BATCH);
                entrants.extend([(field.ring, mode), (field.oracle, mode)]);
            }
            let samples = self.measure(PART, &scene, &loaded, &entrants)?;
            for (samples, threads) in samples.iter().zip(self.threads.clone()) {
                self.one_by_one(&field, &scene, samples, threads, aim);
                if workload == Workload::C {
                    self.pipelined(&field, &scene, samples, threads, pipelined);
                }
            }
            if workload == Workload::C || workload == Workload::B {
                self.scaling(&field, &scene, &samples);
            }
        }
        Ok(())
    }

    fn bytes(&mut self, field: &Field<'_>) {
        let ring = &field.loaded[field.ring];
        let figure = Spread::of(&[ring.bytes_per_key]);
        let (threads, aim) = (1, Aim::AtMost(BYTES_MAX));
        let ours = ring.target.name().to_owned();
        let title = format!("{PART}: bytes a key, all told");
        let (other, of_oracle) = ("-".into(), None);
        self.outcomes.push(Outcome { title, threads, ours, other, figure, aim, of_oracle });
    }

    fn one_by_one(
        &mut self,
        field: &Field<'_>,
        scene: &Scene,
        samples: &[Samples],
        threads: usize,
        aim: f64,
    ) {
        let best = field.best_peer(samples);
        let figure = samples[field.ring].ratio(&samples[best]);
        let title = format!("{PART}: {} {}, one by one", scene.workload, scene.skew);
        let both = (&field.loaded[field.ring], &field.loaded[best]);
        // Past its end the array answers without touching memory, so it is no limit for misses.
        let of_oracle = (scene.workload != Workload::Miss)
            .then(|| samples[field.ring].ratio(&samples[field.oracle]).median);
        let outcome = outcome(title, threads, both, figure, Aim::AtLeast(aim));
        self.outcomes.push(Outcome { of_oracle, ..outcome });
    }

    fn pipelined(
        &mut self,
        field: &Field<'_>,
        scene: &Scene,
        samples: &[Samples],
        threads: usize,
        first: usize,
    ) {
        let title =
            |against| format!("{PART}: C {}, {BATCH} in flight, against {against}", scene.skew);
        let ring = &field.loaded[field.ring];
        let best = field.best_peer(samples);
        let (ours, oracle) = (&samples[first], &samples[first + 1]);
        let skewed = scene.skew != Skew::Uniform;
        // DLHT in batches as a multiple of one-by-one chains, measured on another machine.
        let dlht = if scene.skew == Skew::Zipf(1.22) { 1.8 } else { 2.1 };
        let others = [
            ("the best one by one", best, &samples[best], 2.5),
            ("chains one by one", field.chains, &samples[field.chains], dlht),
            ("the oracle in flight", field.oracle, oracle, 0.4),
        ];
        for (against, other, theirs, least) in others {
            let figure = ours.ratio(theirs);
            let aim = if skewed { Aim::AtLeast(least) } else { Aim::Shown };
            let both = (ring, &field.loaded[other]);
            let outcome = outcome(title(against), threads, both, figure, aim);
            let of_oracle = Some(ours.ratio(oracle).median);
            self.outcomes.push(Outcome { of_oracle, ..outcome });
        }
    }

    /// Records the gain of more threads.
    fn scaling(&mut self, field: &Field<'_>, scene: &Scene, samples: &[Vec<Samples>]) {
        let Some(one) = self.threads.iter().position(|&threads| threads == 1) else { return };
        let ring = &field.loaded[field.ring];
        for (many, &threads) in self.threads.iter().enumerate().filter(|(_, threads)| **threads > 1)
        {
            let figure = samples[many][field.ring].ratio(&samples[one][field.ring]);
            let title =
                format!("{PART}: {} {}, {threads} threads over 1", scene.workload, scene.skew);
            let aim = Aim::AtLeast(0.925 * threads as f64);
            self.outcomes.push(outcome(title, threads, (ring, ring), figure, aim));
        }
    }
}

impl Field<'_> {
    /// The peer with the highest median.
    fn best_peer(&self, samples: &[Samples]) -> usize {
        let peers = (0..self.loaded.len()).filter(|&at| self.loaded[at].plan.target.is_peer());
        let best = peers.max_by(|&a, &b| median(&samples[a]).total_cmp(&median(&samples[b])));
        best.expect("chains are always built in")
    }
}

/// Whether a target takes part in the comparison. Our other engines do not.
fn is_compared(target: TargetName) -> bool {
    let others = [
        TargetName::Mercury,
        TargetName::MercuryMutex,
        TargetName::Gcuckoo,
        TargetName::GcuckooOneSlot,
    ];
    !others.contains(&target)
}

fn plans(keys: u64) -> Vec<Plan> {
    let names = TargetName::value_variants().iter().copied().filter(|&name| is_compared(name));
    let mut plans = Vec::new();
    for name in names {
        // A small plan shows at no cost whether the target can be built.
        match Plan::new(name, 1).build() {
            Ok(_) => plans.push(Plan { config: Config::default(), ..Plan::new(name, keys) }),
            Err(error) => eprintln!("note: left out: {error:#}"),
        }
    }
    plans
}
