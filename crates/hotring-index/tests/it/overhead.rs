//! A table doubles by the access overhead of sessions that only read it (FAST'20 section 3.4).
//!
//! It was looked at by inserts alone: a table that was loaded and then read kept its long arcs for ever.

use fastrand::Rng;
use hotring_index::{Config, Growth, HotRing, Stats, Strategy, U64};

const SLOTS: usize = 1024;
/// Of which one in 64 counts without a strategy: twice as many as a mean must rest on.
const READS: usize = 600_000;

fn config(strategy: Strategy) -> Config {
    // With a strategy each access counts, so that visits are those of all lookups.
    let period = Some(1);
    Config { strategy, period, slots_initial: SLOTS, huge_pages: false, ..Config::default() }
}

fn loaded<const H: usize>(config: Config, load: f64) -> (HotRing<U64, H>, u64) {
    let keys = (SLOTS as f64 * load) as u64;
    let index = HotRing::new(config).expect("a valid configuration");
    let mut session = index.session();
    (0..keys).for_each(|key| assert!(session.insert(key, key)));
    assert_eq!(index.stats().slots, SLOTS as u64, "the load alone is no reason");
    (index, keys)
}

/// Items visited by each lookup between two moments.
fn visits(before: &Stats, after: &Stats) -> f64 {
    let visits = after.visits_sampled - before.visits_sampled;
    visits as f64 / (after.lookups_sampled - before.lookups_sampled) as f64
}

/// Keys whose lookup visits this many items, in a table of the same keys that does not grow.
fn far<const H: usize>(strategy: Strategy, load: f64, is_far: impl Fn(f64) -> bool) -> Vec<u64> {
    let config = Config { growth: Some(Growth::Fixed), ..config(strategy) };
    let (index, keys) = loaded::<H>(config, load);
    let mut session = index.session();
    let mut cost = |key| {
        let before = index.stats();
        // Without a strategy only some accesses count.
        while index.stats().lookups_sampled == before.lookups_sampled {
            assert_eq!(session.get(key), Some(key));
        }
        visits(&before, &index.stats())
    };
    (0..keys).filter(|&key| is_far(cost(key))).collect()
}

/// Every second read is of one of few keys, so that the accesses are skewed.
fn read(mut get: impl FnMut(u64) -> Option<u64>, keys: &[u64], times: usize) {
    let mut random = Rng::with_seed(1);
    for _ in 0..times {
        let from = if random.bool() { keys.len() } else { keys.len().div_ceil(4) };
        let key = keys[random.usize(..from)];
        assert_eq!(get(key), Some(key));
    }
}

fn reads_alone_shorten<const H: usize>(strategy: Strategy, load: f64, threads: usize) {
    // With votes, hints follow the accesses: little overhead is left, unless all keys are equally hot.
    let growth = (strategy == Strategy::Vote).then_some(auto(1.1, 6.0));
    let index = loaded::<H>(Config { growth, ..config(strategy) }, load).0;
    let is_voted = strategy == Strategy::Vote;
    let far = far::<H>(strategy, load, |visits| is_voted || visits >= 3.0);
    let mean = |times| {
        let before = index.stats();
        std::thread::scope(|scope| {
            for _ in 0..threads {
                let (mut session, far) = (index.session(), &far);
                scope.spawn(move || read(|key| session.get(key), far, times / threads));
            }
        });
        visits(&before, &index.stats())
    };
    let before = mean(4_000);
    mean(READS);
    let after = mean(10_000);
    let slots = index.stats().slots;
    println!("{strategy:?}, {threads} threads: {before:.2} visits, then {after:.2}, {slots} slots");
    assert_eq!(slots, 2 * SLOTS as u64, "{strategy:?}: once, as the load is below items_min then");
    assert!(
        after < before - 0.05,
        "{strategy:?}, {threads} threads: {before} visits, then {after}"
    );
}

#[test]
fn reads_alone_shorten_long_arcs() {
    for threads in [1, 3] {
        reads_alone_shorten::<7>(Strategy::Vote, LOAD, threads);
        reads_alone_shorten::<7>(Strategy::None, LOAD, threads);
        reads_alone_shorten::<1>(Strategy::Random, 3.5, threads);
        reads_alone_shorten::<1>(Strategy::Sampling, 3.5, threads);
    }
}

fn auto(visits_max: f64, items_min: f64) -> Growth {
    Growth::Auto { visits_max, items_min, items_max: 8.0, items_low: 0.0 }
}

/// Items a slot, where more than 6 may double the table and more than 8 do.
const LOAD: f64 = 7.5;

fn far_ones() -> Vec<u64> {
    far::<7>(Strategy::None, LOAD, |visits| visits >= 3.0)
}

fn near_ones() -> Vec<u64> {
    far::<7>(Strategy::None, LOAD, |visits| visits <= 1.0)
}

fn stays(index: &HotRing<U64, 7>, keys: &[u64], why: &str) {
    let mut session = index.session();
    read(|key| session.get(key), keys, READS);
    assert_eq!(index.stats().slots, SLOTS as u64, "{why}");
}

#[test]
fn a_table_stays_as_it_is_within_its_limits() {
    // Arcs are long, and a larger table would help; but that is not wanted.
    let growths = [
        (auto(99.0, 6.0), "more visits are allowed"),
        (auto(1.5, 7.8), "a slot has fewer items than it has to have"),
        (Growth::Fixed, "never"),
    ];
    for (growth, why) in growths {
        let config = Config { growth: Some(growth), ..config(Strategy::None) };
        let index = loaded::<7>(config, LOAD).0;
        stays(&index, &far_ones(), why);
    }
    let index = loaded::<7>(config(Strategy::None), LOAD).0;
    let far = far_ones();
    let stats = index.stats();
    index.set_memory_max(stats.bytes + stats.table_bytes + stats.table_bytes / 2);
    stays(&index, &far, "there is no memory for twice the table");
    index.set_memory_max(u64::MAX);
    let mut session = index.session();
    read(|key| session.get(key), &far, READS);
    assert_eq!(index.stats().slots, 2 * SLOTS as u64, "now there is");
}

#[test]
fn a_table_whose_hot_arcs_are_short_stays_as_it_is() {
    let index = loaded::<7>(config(Strategy::None), LOAD).0;
    stays(&index, &near_ones(), "lookups are short");
}

/// Old accesses must not outweigh recent ones, either way.
#[test]
fn the_overhead_is_that_of_late() {
    let index = loaded::<7>(config(Strategy::None), LOAD).0;
    let near = near_ones();
    let far = far_ones();
    stays(&index, &near, "lookups are short");
    stays(&index, &near, "lookups are short");
    let mut session = index.session();
    read(|key| session.get(key), &far, READS);
    assert_eq!(index.stats().slots, 2 * SLOTS as u64, "a million short lookups are long ago");
}
