//! Many operations under one pin answer as each under its own, and hold nothing up.

use crate::shapes::{every_engine, strategies, with_engine};
use fastrand::Rng;
use hotring_index::{Config, Engine, Guard, HotRing, Index, U64};
use std::collections::HashMap;
use std::mem::forget;
use std::thread;

const KEYS: u64 = 200;
const GUARDS: u64 = 60;
const THREADS: u64 = 4;

fn step<E: Engine>(guard: &mut Guard<'_, E>, model: &mut HashMap<u64, u64>, random: &mut Rng) {
    let (key, value) = (random.u64(..KEYS), random.u64(..u64::MAX));
    match random.u64(..6) {
        0 => assert_eq!(guard.put(key, value), model.insert(key, value).is_some()),
        1 => {
            let absent = !model.contains_key(&key);
            assert_eq!(guard.insert(key, value), absent);
            model.entry(key).or_insert(value);
        }
        2 => {
            let sum = model.get_mut(&key).map(|old| {
                *old = old.wrapping_add(value);
                *old
            });
            assert_eq!(guard.fetch_add(key, value), sum);
        }
        3 => assert_eq!(guard.remove(key), model.remove(&key).is_some()),
        _ => assert_eq!(guard.get(key), model.get(&key).copied()),
    }
}

fn answers_as_a_model<E: Engine>(config: Config) {
    let index = Index::<U64, E>::new(config).expect("a valid configuration");
    let mut session = index.session();
    let (mut model, mut random) = (HashMap::new(), Rng::with_seed(5));
    for _ in 0..GUARDS {
        let mut guard = session.guard();
        for _ in 0..random.u64(..300) {
            step(&mut guard, &mut model, &mut random);
        }
        drop(guard);
        let key = random.u64(..KEYS);
        assert_eq!(session.get(key), model.get(&key).copied());
    }
    assert_eq!(index.len(), model.len());
}

every_engine! {
    a_guard_answers_as_a_model,
    |family| {
        for (shape, config) in strategies(family) {
            with_engine!(shape, answers_as_a_model(config.clone()));
        }
    }
}

/// A value that only this key can have.
fn value_of(key: u64, random: u64) -> u64 {
    random << 16 | key
}

fn finds_no_foreign_values<E: Engine>(config: Config) {
    let index = Index::<U64, E>::new(config).expect("a valid configuration");
    thread::scope(|scope| {
        for seed in 0..THREADS {
            let mut session = index.session();
            scope.spawn(move || {
                let mut random = Rng::with_seed(seed + 1);
                for _ in 0..GUARDS {
                    let mut guard = session.guard();
                    for _ in 0..random.u64(..500) {
                        let key = random.u64(..KEYS);
                        match random.u64(..4) {
                            0 => drop(guard.put(key, value_of(key, random.u64(..u64::MAX)))),
                            1 => drop(guard.remove(key)),
                            _ => assert!(guard.get(key).is_none_or(|value| value & 0xffff == key)),
                        }
                    }
                }
            });
        }
    });
}

every_engine! {
    /// Items removed under the guards of others are not reused under theirs.
    guards_of_threads_find_no_foreign_values,
    |family| {
        for (shape, config) in strategies(family) {
            with_engine!(shape, finds_no_foreign_values(config.clone()));
        }
    }
}

fn bounded_limbo<E: Engine>(config: Config) {
    let index = Index::<U64, E>::new(config).expect("a valid configuration");
    let (mut writer, mut reader) = (index.session(), index.session());
    let mut reading = reader.guard();
    let mut writing = writer.guard();
    let mut most = 0;
    for round in 0..2_000 {
        for key in 0..20 {
            writing.insert(key, round);
            writing.remove(key);
            for _ in 0..10 {
                reading.get(key);
            }
        }
        most = most.max(index.stats().limbo_bytes);
    }
    // 40,000 items were removed, of at least 24 bytes.
    assert!(most < 200_000, "{most} bytes waited for guards that were in use");
}

every_engine! {
    guards_in_use_hold_nothing_up,
    |family| {
        for (shape, config) in strategies(family) {
            with_engine!(shape, bounded_limbo(config.clone()));
        }
    }
}

#[test]
fn a_forgotten_guard_ends_with_its_session() {
    let index: HotRing<U64> = HotRing::new(Config::default()).expect("the defaults are accepted");
    let mut session = index.session();
    forget(session.guard());
    drop(session);
    assert_eq!(index.stats().oldest_pin, 0);
    let mut session = index.session();
    for key in 0..10_000 {
        session.insert(key, 1);
        session.remove(key);
    }
    assert!(index.stats().limbo_bytes < 100_000);
}

#[test]
fn growth_steps_end_and_lookups_find_all() {
    let index: HotRing<U64> = HotRing::new(Config::default()).expect("the defaults are accepted");
    let mut session = index.session();
    for key in 0..50_000 {
        session.insert(key, key);
    }
    let slots = index.stats().slots;
    let mut calls = 0;
    while session.growth_step(64) {
        calls += 1;
        assert!(calls <= slots / 16, "{calls} calls for {slots} slots");
    }
    assert!(calls > 0, "nothing was left of a doubling");
    (0..50_000).for_each(|key| assert_eq!(session.get(key), Some(key)));
    assert!(!session.growth_step(64));
}

#[test]
fn a_session_continues_after_a_forgotten_guard() {
    let index: HotRing<U64> = HotRing::new(Config::default()).expect("the defaults are accepted");
    let mut session = index.session();
    for key in 0..2_000 {
        forget(session.guard());
        session.insert(key, 1);
        session.remove(key);
        forget(session.guard());
        session.collect();
        assert!(!session.growth_step(0));
        session.admit().expect("nobody is in the way");
    }
    assert_eq!(index.stats().oldest_pin, 0);
    assert!(index.stats().limbo_bytes < 100_000);
}
