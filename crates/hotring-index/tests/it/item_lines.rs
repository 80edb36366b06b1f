//! Properties of lines of items alone: refused settings, room, and the growth of its table. The suites that run over
//! all engines cover the rest.

use crate::colliding::u64_key;
use hotring_engines::MercuryConfig;
use hotring_index::{Config, ConfigError, Growth, Index, ItemLines, U64};

fn config() -> Config {
    Config { seed: [3, 4], slots_initial: 4, ..Config::default() }
}

fn index(config: Config) -> Index<U64, ItemLines> {
    Index::new(config).expect("a valid configuration")
}

fn number(index: &Index<U64, ItemLines>, name: &str) -> u64 {
    index.stats().engine.get(name).expect("it is lines")
}

#[test]
fn unknown_options_are_refused() {
    let refusal = |config| {
        let result: Result<Index<U64, ItemLines>, ConfigError> = Index::new(config);
        result.err().expect("it is refused").to_string()
    };
    let auto = Growth::Auto { visits_max: 1.5, items_min: 1.0, items_max: 2.0, items_low: 0.0 };
    for growth in [auto, Growth::BytesPerKey(8.0)] {
        let why = refusal(Config { growth: Some(growth), ..config() });
        assert!(why.contains("leave growth unset"), "{why}");
    }
    let why = refusal(Config { engine: MercuryConfig::default().into(), ..config() });
    assert!(why.contains("mercury"), "{why}");
    let why = refusal(Config { period: Some(9), ..config() });
    assert!(why.contains("hotring"), "{why}");
}

/// Keys that share one sequence of lines fill it and go to the stash, and the table stays as it is.
#[test]
fn colliding_keys_do_not_make_the_table_grow() {
    const COUNT: u64 = 1_000;
    let index = index(Config { slots_initial: 1 << 14, ..config() });
    let mut session = index.session();
    let key = |i: u64| u64_key(i << 48 | 0x1234_5678);
    (0..COUNT).for_each(|i| assert!(session.insert(key(i), i)));
    assert_eq!(number(&index, "growths"), 0);
    assert!((COUNT - 60..COUNT).contains(&number(&index, "stashed")), "{:?}", index.stats());
    (0..COUNT).for_each(|i| assert_eq!(session.get(key(i)), Some(i)));
    let mut seen = 0;
    session.scan(0, usize::MAX, |_, _| seen += 1);
    assert_eq!(seen, COUNT);
    (0..COUNT).rev().for_each(|i| assert!(session.remove(key(i))));
    assert!(index.is_empty());
}

#[test]
fn the_table_doubles_at_three_items_a_line_and_halves_again() {
    let index = index(config());
    let mut session = index.session();
    (0..100_000).for_each(|key| assert!(session.insert(key, key)));
    let lines = index.stats().slots;
    assert!((1 << 15..=1 << 16).contains(&lines), "{:?}", index.stats());
    // All smaller tables have gone, although nothing was removed.
    assert!(
        index.stats().table_bytes <= (lines + lines / 2) * 64 + (1 << 16),
        "{:?}",
        index.stats()
    );
    (0..100_000).for_each(|key| assert_eq!(session.get(key), Some(key)));
    (100..100_000).for_each(|key| assert!(session.remove(key)));
    (0..1_000).for_each(|_| session.collect());
    (0..64).for_each(|key| assert!(session.remove(key)));
    (0..1_000).for_each(|_| session.collect());
    assert!(index.stats().slots < lines / 8, "{:?}", index.stats());
    (64..100).for_each(|key| assert_eq!(session.get(key), Some(key)));
    assert!(session.grow() && !session.grow(), "by hand, one step after the other");
    assert!(!session.is_small_for(index.stats().slots * 3));
    assert!(session.is_small_for(index.stats().slots * 3 + 1));
}

#[test]
fn a_fixed_table_stays_and_a_largest_one_too() {
    for (growth, slots_max) in [(Some(Growth::Fixed), 1 << 20), (None, 4)] {
        let index = index(Config { growth, slots_max, ..config() });
        let mut session = index.session();
        (0..1_000).for_each(|key| assert!(session.insert(key, key)));
        assert_eq!(index.stats().slots, 4);
        (0..1_000).for_each(|key| assert_eq!(session.get(key), Some(key)));
        assert_eq!(session.grow(), slots_max > 4, "by hand, if there is room");
        assert!(!session.shrink(), "never below the first size");
    }
}

/// Keys that are there all the time are met once each, whatever comes and goes between two calls.
#[test]
fn a_scan_meets_all_once_while_the_table_grows_and_shrinks() {
    for count in [1, 3, 50] {
        let index = index(config());
        let mut session = index.session();
        (0..300).for_each(|key| assert!(session.insert(key, key)));
        let (mut met, mut cursor, mut other) = (vec![0; 300], 0, 1_000);
        let before = number(&index, "growths");
        loop {
            cursor = session.scan(cursor, count, |key, _| {
                if key < 300 {
                    met[key as usize] += 1;
                }
            });
            if cursor == 0 {
                break;
            }
            if other < 40_000 {
                (0..40).for_each(|n| assert!(session.insert(other + n, 0)));
                other += 40;
            } else {
                session.shrink();
            }
        }
        assert!(met.iter().all(|&times| times == 1), "{count} at a time: {met:?}");
        assert!(count == 50 || number(&index, "growths") >= before + 3, "{:?}", index.stats());
    }
}
