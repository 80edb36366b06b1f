//! Every valid combination of the settings that must not change an answer.

use crate::u64s::config;
use hotring_index::{Config, Growth, HotRing, RcuCounts, Strategy, U64};

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
    pub hints: usize,
    pub growing: Growing,
    /// Sessions that take turns.
    pub sessions: usize,
    pub config: Config,
}

/// Calls a function with the number of hints as its constant.
macro_rules! with_hints {
    ($hints:expr, $function:ident($($argument:expr),*)) => {
        match $hints {
            1 => $function::<1>($($argument),*),
            3 => $function::<3>($($argument),*),
            7 => $function::<7>($($argument),*),
            hints => unreachable!("{hints} hints"),
        }
    };
}
pub(crate) use with_hints;

fn is_valid<const H: usize>(config: &Config) -> bool {
    HotRing::<U64, H>::new(config.clone()).is_ok()
}

/// What concerns hot items: the index itself says which combinations there are.
pub fn strategies() -> Vec<(usize, Config)> {
    let mut all = Vec::new();
    for strategy in [Strategy::None, Strategy::Random, Strategy::Sampling, Strategy::Vote] {
        for (complete_lines, backoff) in [(false, false), (true, false), (false, true)] {
            for rcu_counts in [RcuCounts::Item, RcuCounts::Predecessor] {
                for hints in [1, 3, 7] {
                    let base = config(strategy);
                    let config =
                        Config { complete_lines, backoff, rcu_counts, huge_pages: false, ..base };
                    // Back-off is accepted, and without effect, with other strategies.
                    let is_new = !backoff || strategy == Strategy::Sampling;
                    if is_new && with_hints!(hints, is_valid(&config)) {
                        all.push((hints, config));
                    }
                }
            }
        }
    }
    all
}

/// All combinations.
pub fn setups() -> Vec<Setup> {
    let mut all = Vec::new();
    for (hints, base) in strategies() {
        for pipeline_depth in [1, 2, 16, 64] {
            for period in [1, 5] {
                for growing in [Growing::Small, Growing::Doubling, Growing::Forced, Growing::Huge] {
                    let (growth, slots_initial) = match growing {
                        Growing::Small => (Growth::Fixed, 4),
                        Growing::Doubling => (doubling(), 1),
                        Growing::Forced => (Growth::Fixed, 2),
                        Growing::Huge => (Growth::Fixed, 1 << 16),
                    };
                    let growth = Some(growth);
                    let config =
                        Config { pipeline_depth, period, growth, slots_initial, ..base.clone() };
                    // Every value of each other setting meets one session and two.
                    let sessions = 1 + all.len().count_ones() as usize % 2;
                    all.push(Setup { hints, growing, sessions, config });
                }
            }
        }
    }
    all
}

fn doubling() -> Growth {
    Growth::Auto { visits_max: 1.0, items_min: 0.05, items_max: 0.2, items_low: 0.0 }
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
    assert_eq!(strategies().len(), 2 * 3 + 7);
    let setups = setups();
    assert_eq!(setups.len(), 13 * 4 * 2 * 4);
    for growing in [Growing::Small, Growing::Doubling, Growing::Forced, Growing::Huge] {
        for sessions in [1, 2] {
            let has = |s: &&Setup| s.growing == growing && s.sessions == sessions;
            assert!(setups.iter().filter(has).count() >= 13, "{growing:?}, {sessions} sessions");
        }
    }
}
