//! The u64 index against a HashMap, for every strategy and slot shape.

use fastrand::Rng;
use hotring_engines::ChainingHash;
use hotring_index::{Config, Growth, HotRing, Strategy, U64};
use std::collections::HashMap;

pub fn config(strategy: Strategy) -> Config {
    Config { strategy, slots_initial: 1, slots_max: 1 << 16, seed: [3, 4], ..Config::default() }
}

fn model<const H: usize>(config: Config, seed: u64) {
    let index = HotRing::<U64, H>::new(config.clone()).expect("a valid configuration");
    let mut session = index.session();
    let mut model = HashMap::new();
    let mut random = Rng::with_seed(seed);
    for step in 0..60_000u64 {
        let key = random.u64(..if step % 3 == 0 { 20_000 } else { 50 });
        let value = random.u64(..) >> random.u64(..3);
        let context = format!("{config:?} seed {seed} step {step} key {key}");
        match random.u64(..12) {
            0..=2 => {
                assert_eq!(session.put(key, value), model.insert(key, value).is_some(), "{context}")
            }
            3 => {
                let absent = !model.contains_key(&key);
                assert_eq!(session.insert(key, value), absent, "{context}");
                model.entry(key).or_insert(value);
            }
            4 => assert_eq!(session.remove(key), model.remove(&key).is_some(), "{context}"),
            5 => assert_eq!(session.take(key), model.remove(&key), "{context}"),
            6 => {
                let sum = model.get_mut(&key).map(|v| {
                    *v = v.wrapping_add(value);
                    *v
                });
                assert_eq!(session.fetch_add(key, value), sum, "{context}");
            }
            7 => {
                let old = model.get(&key).copied().unwrap_or(1);
                let expected = match model.get_mut(&key) {
                    Some(v) => {
                        *v = value;
                        Ok(())
                    }
                    None => Err(None),
                };
                assert_eq!(session.compare_exchange(key, old, value), expected, "{context}");
                let wrong = value.wrapping_add(1);
                assert_eq!(
                    session.compare_exchange(key, wrong, 1),
                    Err(model.get(&key).copied()),
                    "{context}"
                );
            }
            8 => assert_eq!(
                session.replace(key, value),
                model.get_mut(&key).map(|v| std::mem::replace(v, value)),
                "{context}"
            ),
            _ => assert_eq!(session.get(key), model.get(&key).copied(), "{context}"),
        }
    }
    assert_eq!(index.len(), model.len());
    let keys: Vec<u64> = (0..20_100).collect();
    let mut out = vec![None; keys.len()];
    session.get_many(&keys, &mut out);
    for (key, value) in keys.iter().zip(&out) {
        assert_eq!(*value, model.get(key).copied(), "batch, key {key}");
    }
    let mut scanned = HashMap::new();
    let mut cursor = 0;
    loop {
        cursor = session.scan(cursor, 10, |k, v| assert_eq!(scanned.insert(k, v), None));
        if cursor == 0 {
            break;
        }
    }
    assert_eq!(scanned, model);
    session.clear();
    assert_eq!(index.len(), 0);
    assert_eq!(session.get(1), None);
}

/// Batches of any length at any depth, in slots with more keys than hints.
#[test]
fn batches_of_any_length_find_present_keys() {
    for pipeline_depth in [2, 3, 6, 7, 48, 63, 64] {
        let growth = Some(Growth::Fixed);
        let config = Config {
            pipeline_depth,
            growth,
            slots_initial: 16,
            slots_max: 16,
            ..config(Strategy::Vote)
        };
        let index = HotRing::<U64, 7>::new(config).expect("a valid configuration");
        let mut session = index.session();
        (0..200).for_each(|key| assert!(session.insert(2 * key, key)));
        for n in [0, 1, 2, 5, 31, 32, 33, 63, 64, 65, 127, 200, 399] {
            let keys: Vec<u64> = (0..n).map(|i| i * 37 % 400).collect();
            let mut out = vec![Some(1000); keys.len()];
            session.get_many(&keys, &mut out);
            let expected: Vec<_> =
                keys.iter().map(|key| (key % 2 == 0).then_some(key / 2)).collect();
            assert_eq!(out, expected, "depth {pipeline_depth}, {n} keys");
        }
    }
}

#[test]
fn every_shape_and_strategy_agrees_with_a_hash_map() {
    for seed in [11, 12] {
        model::<7>(config(Strategy::Vote), seed);
        model::<3>(config(Strategy::Vote), seed);
        model::<1>(config(Strategy::Vote), seed);
        model::<7>(config(Strategy::None), seed);
        model::<1>(config(Strategy::Random), seed);
        model::<1>(config(Strategy::Sampling), seed);
        model::<1>(Config { backoff: true, ..config(Strategy::Sampling) }, seed);
        model::<7>(Config { complete_lines: Some(true), ..config(Strategy::Vote) }, seed);
        model::<7>(Config { growth: Some(Growth::Fixed), ..config(Strategy::Vote) }, seed);
        model::<1>(
            Config {
                growth: Some(Growth::Fixed),
                slots_initial: 256,
                ..config(Strategy::Sampling)
            },
            seed,
        );
    }
}

#[test]
fn every_64_bit_value_is_kept() {
    let index = HotRing::<U64>::new(Config::default()).expect("the default configuration");
    let mut session = index.session();
    for value in [0, 1, u64::MAX, 1 << 63, (1 << 63) - 1, 1 << 62] {
        for key in [0, u64::MAX, 1 << 63] {
            session.put(key, value);
            assert_eq!(session.get(key), Some(value));
        }
    }
    assert_eq!(session.fetch_add(0, u64::MAX), Some((1u64 << 62) - 1));
}

#[test]
fn settings_that_do_not_go_together_are_refused_with_a_reason() {
    let refusal = |config: Config| match HotRing::<U64, 7>::new(config) {
        Ok(_) => panic!("accepted"),
        Err(error) => error.to_string(),
    };
    for strategy in [Strategy::Random, Strategy::Sampling] {
        assert!(refusal(config(strategy)).contains("one hint"), "{strategy:?}");
        assert!(HotRing::<U64, 1>::new(config(strategy)).is_ok(), "{strategy:?} with one hint");
    }
    assert!(
        HotRing::<U64, 2>::new(config(Strategy::Vote)).is_err(),
        "slots are 16, 32 or 64 bytes"
    );
    let complete = Config { complete_lines: Some(true), ..config(Strategy::None) };
    assert!(refusal(complete).contains("Vote"));
    assert!(refusal(Config { period: Some(0), ..config(Strategy::Vote) }).contains("period"));
    assert!(refusal(Config { pipeline_depth: 65, ..config(Strategy::Vote) }).contains("depth"));
    let with_period = Config { period: Some(2), ..Config::default() };
    let chains = ChainingHash::<U64>::new(with_period).err().map(|error| error.to_string());
    assert!(chains.is_some_and(|why| why.contains("hotring")));
    let shrunk = Config { slots_initial: 8, slots_max: 4, ..config(Strategy::Vote) };
    assert!(refusal(shrunk).contains("slots_max"));
}

/// The bound on empty slots overflowed where a caller asked for everything at once.
#[test]
fn a_scan_for_any_number_of_items_gets_to_the_end() {
    let index = HotRing::<U64>::new(config(Strategy::Vote)).expect("a valid configuration");
    let mut session = index.session();
    for _ in 0..6 {
        session.grow();
    }
    for key in 0..100 {
        session.insert(key, key);
    }
    for count in [usize::MAX, usize::MAX / 2 + 1, usize::MAX / 8 + 1, usize::MAX / 8, 0] {
        let (mut met, mut calls, mut cursor) = (0, 0, 0);
        loop {
            cursor = session.scan(cursor, count, |_, _| met += 1);
            calls += 1;
            if cursor == 0 {
                break;
            }
        }
        assert_eq!(met, 100, "{count} at a time");
        assert!(count == 0 || calls == 1, "{count} at a time takes {calls} calls");
    }
}
