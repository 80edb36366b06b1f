//! Relations between runs, without any model: equivalent runs must have equal results.
//!
//! Batches against single operations, scans in steps of any size, and two sessions against one are
//! compared in `model_u64s` and `model_bytes`, where each is one more way to the same answers.

use crate::shapes::{
    Family, Growing, Setup, every_engine, number, setups, strategies, with_engine,
};
use fastrand::Rng;
use hotring_index::{Bytes, Engine, Entry, Expiry, Index, NewValue, Session, U64, Value};
use std::collections::HashMap;

const KEYS: u64 = 40;

/// Each strategy with each way of growing.
fn some_setups(family: Family) -> Vec<Setup> {
    let mut all = setups(family);
    all.retain(|setup| setup.config.pipeline_depth == 2 && setup.is_eager());
    assert_eq!(all.len(), strategies(family).len() * 4);
    all
}

fn index_u64s<E: Engine>(setup: &Setup) -> Index<U64, E> {
    Index::new(setup.config.clone()).expect("a valid configuration")
}

fn index_bytes<E: Engine>(setup: &Setup) -> Index<Bytes, E> {
    Index::new(setup.config.clone()).expect("a valid configuration")
}

/// An operation on one key: its key, its kind, a value.
type Step = (u64, u64, u64);

fn steps(random: &mut Rng) -> Vec<Step> {
    (0..600).map(|_| (random.u64(..KEYS), random.u64(..7), random.u64(..))).collect()
}

/// The same steps in another order, in which those of one key keep theirs.
fn reordered(random: &mut Rng, steps: &[Step]) -> Vec<Step> {
    let mut queues: Vec<Vec<Step>> = vec![Vec::new(); KEYS as usize];
    for step in steps.iter().rev() {
        queues[step.0 as usize].push(*step);
    }
    let mut all = Vec::new();
    while all.len() < steps.len() {
        all.extend(queues[random.u64(..KEYS) as usize].pop());
    }
    all
}

/// The answers for each key, in order, and the final contents.
type Seen = (HashMap<u64, Vec<Option<u64>>>, HashMap<u64, u64>);

fn run_u64s<E: Engine>(setup: &Setup, steps: &[Step]) -> Seen {
    let index = index_u64s::<E>(setup);
    let mut session = index.session();
    let mut answers: HashMap<u64, Vec<Option<u64>>> = HashMap::new();
    for &(key, what, value) in steps {
        let flag = |flag: bool| Some(u64::from(flag));
        let answer = match what {
            0 => flag(session.put(key, value)),
            1 => flag(session.insert(key, value)),
            2 => flag(session.remove(key)),
            3 => session.take(key),
            4 => session.fetch_add(key, value),
            5 => session.replace(key, value),
            _ => session.get(key),
        };
        answers.entry(key).or_default().push(answer);
        if setup.growing == Growing::Forced {
            disturb(&mut session, value);
        }
    }
    let mut last = HashMap::new();
    assert_eq!(session.scan(0, usize::MAX, |key, value| _ = last.insert(key, value)), 0);
    (answers, last)
}

fn disturb<E: Engine>(session: &mut Session<U64, E>, random: u64) {
    match random >> 40 & 7 {
        0 => _ = session.grow(),
        1 => _ = session.shrink(),
        _ => session.collect(),
    }
}

fn word(entry: Entry<'_>) -> u64 {
    match entry.value {
        Value::Word { word, .. } => word,
        Value::Bytes { bytes, .. } => {
            u64::from_le_bytes(bytes.try_into().expect("8 bytes were stored"))
        }
    }
}

fn run_bytes<E: Engine>(setup: &Setup, steps: &[Step]) -> Seen {
    let index = index_bytes::<E>(setup);
    let mut session = index.session();
    let mut answers: HashMap<u64, Vec<Option<u64>>> = HashMap::new();
    for &(key, what, value) in steps {
        let name = key.to_le_bytes();
        let flag = |flag: bool| Some(u64::from(flag));
        let expiry = if value.is_multiple_of(3) { Expiry::Never } else { Expiry::At(7) };
        let answer = match what {
            0 | 1 => flag(session.put(&name, NewValue::Word { kind: 1, word: value }, expiry, 1)),
            2 | 3 => {
                let bytes = value.to_le_bytes();
                let bytes = NewValue::Bytes { kind: 1, bytes: (&bytes[..]).into() };
                flag(session.put(&name, bytes, expiry, 1))
            }
            4 => flag(session.remove(&name, 1)),
            // A version is a number of the order in which they are given out.
            5 => flag(session.version(&name, 1).is_some()),
            _ => session.get(&name, 1, word),
        };
        answers.entry(key).or_default().push(answer);
    }
    let mut last = HashMap::new();
    let end = session.scan(0, usize::MAX, 1, |entry| {
        let key = u64::from_le_bytes(entry.key.try_into().expect("8 bytes were stored"));
        last.insert(key, word(entry));
    });
    assert_eq!(end, 0);
    (answers, last)
}

every_engine!(the_order_of_operations_on_different_keys_makes_no_difference, |family| {
    let seed = number("HOTRING_SEED", 701);
    let mut random = Rng::with_seed(seed);
    let steps = steps(&mut random);
    let setups = some_setups(family);
    let setup = &setups[0];
    let first = with_engine!(setup.shape, run_u64s(setup, &steps));
    let first_bytes = with_engine!(setup.shape, run_bytes(setup, &steps));
    assert!(!first.1.is_empty() && !first_bytes.1.is_empty());
    for setup in setups {
        let other = reordered(&mut random, &steps);
        assert_ne!(other, steps);
        let seen = with_engine!(setup.shape, run_u64s(&setup, &other));
        assert_eq!(seen, first, "seed {seed}, {setup:?}");
        let seen = with_engine!(setup.shape, run_bytes(&setup, &other));
        assert_eq!(seen, first_bytes, "seed {seed}, {setup:?}");
    }
});

fn cleared_and_removed<E: Engine>(setup: &Setup, seed: u64) {
    let indexes = [index_u64s::<E>(setup), index_u64s::<E>(setup)];
    let mut answers = indexes.iter().enumerate().map(|(n, index)| {
        let mut session = index.session();
        let mut random = Rng::with_seed(seed);
        for _ in 0..300 {
            session.put(random.u64(..200), random.u64(..));
        }
        if n == 0 {
            session.clear();
        } else {
            (0..200).for_each(|key| _ = session.remove(key));
        }
        assert!(index.is_empty() && index.stats().expiring == 0, "seed {seed}, {setup:?}");
        let mut out = [Some(1); 200];
        session.get_many(&std::array::from_fn::<u64, 200, _>(|i| i as u64), &mut out);
        assert_eq!(out, [None; 200], "seed {seed}, {setup:?}");
        // Later operations find nothing of the earlier contents.
        (0..300).map(|_| session.insert(random.u64(..200), 1)).collect::<Vec<bool>>()
    });
    assert_eq!(answers.next(), answers.next(), "seed {seed}, {setup:?}");
}

every_engine!(to_clear_is_to_remove_everything, |family| {
    let seed = number("HOTRING_SEED", 702);
    for setup in some_setups(family) {
        with_engine!(setup.shape, cleared_and_removed(&setup, seed));
    }
});

fn batches<E: Engine>(setup: &Setup, seed: u64) {
    let index = index_bytes::<E>(setup);
    let mut session = index.session();
    let mut random = Rng::with_seed(seed);
    let names: Vec<[u8; 8]> = (0..300u64).map(u64::to_le_bytes).collect();
    for name in &names {
        if random.u64(..3) > 0 {
            let expiry = if random.u64(..3) == 0 { Expiry::At(5) } else { Expiry::Never };
            let word = random.u64(..);
            session.put(name, NewValue::Word { kind: 1, word }, expiry, 1);
        }
    }
    for size in [1, 2, 7, 64, 1000] {
        // Some keys more than once.
        let keys: Vec<&[u8]> = (0..size).map(|_| &names[random.u64(..300) as usize][..]).collect();
        for now in [1, 5] {
            let single: Vec<Option<u64>> =
                keys.iter().map(|key| session.get(key, now, word)).collect();
            let mut batch = vec![Some(0); keys.len()];
            session.get_many(&keys, now, |i, entry| batch[i] = entry.map(word));
            assert_eq!(batch, single, "seed {seed}, {size} keys at {now}, {setup:?}");
        }
    }
}

every_engine!(a_batch_is_as_many_single_lookups, |family| {
    let seed = number("HOTRING_SEED", 703);
    // All depths of the pipeline.
    for setup in setups(family).iter().filter(|setup| setup.config.period != Some(1)) {
        with_engine!(setup.shape, batches(setup, seed));
    }
});

/// Doublings that no session uses leave a table of which most buckets are not split off. Which of them
/// are then, and in what order, must not matter: also not where a bucket's keys are reached by a
/// line whose own arc ends before them.
fn every_key_is_found_while_buckets_split<E: Engine>(setup: &Setup, random: &mut Rng) {
    for _ in 0..8 {
        let mut config = setup.config.clone();
        config.slots_initial = 1;
        let index = Index::<U64, E>::new(config).expect("a valid configuration");
        let mut session = index.session();
        let keys = 16 + random.u64(..64);
        for key in 0..keys {
            session.insert(key, key);
        }
        for _ in 0..1 + random.u64(..4) {
            session.grow();
        }
        // A few keys often, the others now and then; removals move the epochs on.
        let few: Vec<u64> = (0..4).map(|_| random.u64(..2 * keys)).collect();
        for step in 0..600 {
            let key = match random.u64(..50) {
                0 => random.u64(..2 * keys),
                choice => few[choice as usize % few.len()],
            };
            assert_eq!(session.get(key), (key < keys).then_some(key), "step {step}, {setup:?}");
            session.put(u64::MAX, step);
            session.remove(u64::MAX);
            session.collect();
        }
    }
}

every_engine!(the_order_in_which_buckets_split_makes_no_difference, |family| {
    let seed = number("HOTRING_SEED", 703);
    let mut random = Rng::with_seed(seed);
    for setup in some_setups(family) {
        with_engine!(setup.shape, every_key_is_found_while_buckets_split(&setup, &mut random));
    }
});
