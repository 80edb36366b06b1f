//! Every engine in every valid combination of the settings that must not change an answer.

use crate::u64s::config;
use hotring_engines::{Atomicity, Expander, GCuckooConfig, MercuryConfig};
use hotring_index::{Config, Engine, Growth, Index, RcuCounts, Strategy, U64};

/// An engine, whatever its mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    HotRing,
    Mercury,
    Chaining,
    GCuckoo,
    #[cfg(target_arch = "x86_64")]
    Lines,
}

/// An engine's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    Ring1,
    Ring3,
    Ring7,
    MercuryTas,
    MercuryMutex,
    Chaining,
    GCuckoo1,
    GCuckoo4,
    #[cfg(target_arch = "x86_64")]
    Lines,
}

impl Shape {
    pub fn family(self) -> Family {
        match self {
            Self::Ring1 | Self::Ring3 | Self::Ring7 => Family::HotRing,
            Self::MercuryTas | Self::MercuryMutex => Family::Mercury,
            Self::Chaining => Family::Chaining,
            Self::GCuckoo1 | Self::GCuckoo4 => Family::GCuckoo,
            #[cfg(target_arch = "x86_64")]
            Self::Lines => Family::Lines,
        }
    }
}

/// How the size of the table changes while a sequence runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growing {
    /// Few slots for ever: long arcs.
    Small,
    /// The table doubles all the time.
    Doubling,
    /// Doublings and halvings by hand, in between and in the middle of scans.
    Forced,
    /// More slots than items: most are never split off.
    Huge,
}

/// One combination.
#[derive(Clone, Debug)]
pub struct Setup {
    pub shape: Shape,
    pub growing: Growing,
    /// Sessions that take turns.
    pub sessions: usize,
    pub config: Config,
}

impl Setup {
    /// Whether hot items are looked for at each access, where they are looked for.
    pub fn is_eager(&self) -> bool {
        self.config.period == Some(1) || self.shape.family() != Family::HotRing
    }
}

/// Calls a function with the engine as its type.
macro_rules! with_engine {
    ($shape:expr, $function:ident($($argument:expr),*)) => {
        match $shape {
            crate::shapes::Shape::Ring1 => $function::<hotring_index::Ring<1>>($($argument),*),
            crate::shapes::Shape::Ring3 => $function::<hotring_index::Ring<3>>($($argument),*),
            crate::shapes::Shape::Ring7 => $function::<hotring_index::Ring<7>>($($argument),*),
            crate::shapes::Shape::MercuryTas => {
                $function::<hotring_engines::Mercury<hotring_engines::TestAndSet>>($($argument),*)
            }
            crate::shapes::Shape::MercuryMutex => {
                $function::<hotring_engines::Mercury<hotring_engines::OsMutex>>($($argument),*)
            }
            crate::shapes::Shape::Chaining => $function::<hotring_engines::Chaining>($($argument),*),
            crate::shapes::Shape::GCuckoo1 => $function::<hotring_engines::GCuckoo<1>>($($argument),*),
            crate::shapes::Shape::GCuckoo4 => $function::<hotring_engines::GCuckoo<4>>($($argument),*),
            #[cfg(target_arch = "x86_64")]
            crate::shapes::Shape::Lines => $function::<hotring_index::ItemLines>($($argument),*),
        }
    };
}
pub(crate) use with_engine;

/// One test for each engine: `name::engine`.
macro_rules! every_engine {
    ($(#[$doc:meta])* $name:ident, |$family:ident| $body:block) => {
        $(#[$doc])*
        mod $name {
            #[allow(unused_imports)]
            use super::*;

            fn run($family: crate::shapes::Family) $body

            #[test]
            fn hotring() {
                run(crate::shapes::Family::HotRing);
            }

            #[test]
            fn mercury() {
                run(crate::shapes::Family::Mercury);
            }

            #[test]
            fn chaining() {
                run(crate::shapes::Family::Chaining);
            }

            #[test]
            fn gcuckoo() {
                run(crate::shapes::Family::GCuckoo);
            }

            #[cfg(target_arch = "x86_64")]
            #[test]
            fn lines() {
                run(crate::shapes::Family::Lines);
            }
        }
    };
}
pub(crate) use every_engine;

fn is_valid(shape: Shape, config: &Config) -> bool {
    fn builds<E: Engine>(config: &Config) -> bool {
        Index::<U64, E>::new(config.clone()).is_ok()
    }
    with_engine!(shape, builds(config))
}

/// The modes of an engine. For HotRing they concern hot items, and the index itself decides which
/// combinations exist.
pub fn strategies(family: Family) -> Vec<(Shape, Config)> {
    match family {
        Family::HotRing => hotspot_strategies(),
        Family::Mercury => mercury_modes(),
        Family::Chaining => vec![(Shape::Chaining, plain())],
        Family::GCuckoo => gcuckoo_modes(),
        #[cfg(target_arch = "x86_64")]
        Family::Lines => vec![(Shape::Lines, plain())],
    }
}

/// Each lock. There is no background thread, so sessions do its work.
fn mercury_modes() -> Vec<(Shape, Config)> {
    let mut all = Vec::new();
    for shape in [Shape::MercuryTas, Shape::MercuryMutex] {
        for expander in [Expander::Sessions, Expander::Thread] {
            let engine = MercuryConfig { expander }.into();
            let base = Config { seed: config(Strategy::Vote).seed, ..Config::default() };
            all.push((shape, Config { engine, huge_pages: false, ..base }));
        }
    }
    all
}

/// The mode of an engine without modes.
fn plain() -> Config {
    Config { huge_pages: false, ..config(Strategy::default()) }
}

/// Slots, atomicity, cache, and pages that are small enough to be full and split all the time.
fn gcuckoo_modes() -> Vec<(Shape, Config)> {
    let modes = [
        (Atomicity::Optimistic, 0, 4),
        (Atomicity::Optimistic, 64, 0),
        (Atomicity::Lock, 16, 2),
        (Atomicity::Hle, 0, 32),
    ];
    let mut all = Vec::new();
    for shape in [Shape::GCuckoo1, Shape::GCuckoo4] {
        for (atomicity, cache_entries, page_buckets) in modes {
            let settings = GCuckooConfig {
                atomicity,
                cache_entries,
                page_buckets,
                ..GCuckooConfig::default()
            };
            let engine = settings.into();
            let config = Config { engine, huge_pages: false, ..config(Strategy::Vote) };
            // Not every architecture has each mode.
            if is_valid(shape, &config) {
                all.push((shape, config));
            }
        }
    }
    all
}

fn hotspot_strategies() -> Vec<(Shape, Config)> {
    let mut all = Vec::new();
    for strategy in [Strategy::None, Strategy::Random, Strategy::Sampling, Strategy::Vote] {
        for (complete_lines, backoff) in
            [(Some(false), false), (Some(true), false), (Some(false), true)]
        {
            for rcu_counts in [RcuCounts::Item, RcuCounts::Predecessor] {
                for shape in [Shape::Ring1, Shape::Ring3, Shape::Ring7] {
                    let base = config(strategy);
                    let config =
                        Config { complete_lines, backoff, rcu_counts, huge_pages: false, ..base };
                    // Back-off is accepted, and without effect, with other strategies.
                    let is_new = !backoff || strategy == Strategy::Sampling;
                    if is_new && is_valid(shape, &config) {
                        all.push((shape, config));
                    }
                }
            }
        }
    }
    all
}

/// All combinations.
pub fn setups(family: Family) -> Vec<Setup> {
    let mut all = Vec::new();
    for (shape, base) in strategies(family) {
        let periods: &[Option<u32>] =
            if family == Family::HotRing { &[Some(1), Some(5)] } else { &[None] };
        for pipeline_depth in [1, 2, 16, 64] {
            for &period in periods {
                for growing in [Growing::Small, Growing::Doubling, Growing::Forced, Growing::Huge] {
                    let (growth, slots_initial) = match growing {
                        Growing::Small => (Some(Growth::Fixed), 4),
                        Growing::Doubling => (doubling(family), 1),
                        Growing::Forced => (Some(Growth::Fixed), 2),
                        Growing::Huge => (Some(Growth::Fixed), 1 << 16),
                    };
                    let config =
                        Config { pipeline_depth, period, growth, slots_initial, ..base.clone() };
                    // Every value of each other setting meets one session and two.
                    let sessions = 1 + all.len().count_ones() as usize % 2;
                    all.push(Setup { shape, growing, sessions, config });
                }
            }
        }
    }
    all
}

/// A growth by which the table doubles again and again.
fn doubling(family: Family) -> Option<Growth> {
    match family {
        Family::HotRing => {
            Some(Growth::Auto { visits_max: 1.0, items_min: 0.05, items_max: 0.2, items_low: 0.0 })
        }
        Family::Mercury | Family::GCuckoo => None,
        #[cfg(target_arch = "x86_64")]
        Family::Lines => None,
        Family::Chaining => Some(Growth::BytesPerKey(80.0)),
    }
}

/// A configuration in which heads move as often as they can and the table's size often changes.
pub fn restless(shape: Shape, config: &Config) -> Config {
    let base = Config { slots_initial: 1, slots_max: 1 << 10, ..config.clone() };
    match shape.family() {
        Family::HotRing => {
            let growth =
                Growth::Auto { visits_max: 1.5, items_min: 1.0, items_max: 2.0, items_low: 0.25 };
            Config { period: Some(1), growth: Some(growth), ..base }
        }

        Family::Chaining => Config { growth: Some(Growth::BytesPerKey(16.0)), ..base },
        Family::Mercury | Family::GCuckoo => base,
        #[cfg(target_arch = "x86_64")]
        Family::Lines => base,
    }
}

/// A number from the environment.
pub fn number(variable: &str, default: u64) -> u64 {
    let Ok(text) = std::env::var(variable) else { return default };
    text.parse().unwrap_or_else(|_| panic!("{variable} is no number: {text}"))
}

#[test]
fn the_combinations_are_all_there() {
    // 3 and 7 hints: no strategy, votes, votes with complete lines. One hint: no strategy, votes,
    // random, and sampling with or without back-off, counting for the item or its predecessor.
    assert_eq!(strategies(Family::HotRing).len(), 2 * 3 + 7);
    let setups = setups(Family::HotRing);
    assert_eq!(setups.len(), 13 * 4 * 2 * 4);
    for growing in [Growing::Small, Growing::Doubling, Growing::Forced, Growing::Huge] {
        for sessions in [1, 2] {
            let has = |s: &&Setup| s.growing == growing && s.sessions == sessions;
            assert!(setups.iter().filter(has).count() >= 13, "{growing:?}, {sessions} sessions");
        }
    }
}
