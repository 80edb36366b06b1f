//! Random sequences over the u64 index: every configuration gives the answers of a HashMap.
//!
//! A sequence and its answers are made once, from the model alone; then it runs through each
//! configuration. So all configurations are also compared with each other, and batches with single
//! operations, which is what the model does. `HOTRING_SEQUENCES` is the number of sequences,
//! `HOTRING_SEED` the seed of the first.
//!
//! Not covered: two threads.

use crate::shapes::{Family, Growing, Setup, every_engine, number, setups, with_engine};
use fastrand::Rng;
use hotring_index::{Engine, Index, Session, U64};
use std::collections::{BTreeMap, HashMap};

const STEPS: usize = 2_500;
const BATCHES: [u64; 5] = [1, 2, 7, 64, 1000];

#[derive(Debug)]
enum Op {
    Get(u64),
    Put(u64, u64),
    Insert(u64, u64),
    Replace(u64, u64),
    Remove(u64),
    Take(u64),
    Add(u64, u64),
    Exchange(u64, u64, u64),
    RemoveIf(u64, u64),
    GetMany(Vec<u64>),
    PutMany(Vec<(u64, u64)>),
    InsertMany(Vec<(u64, u64)>),
    Scan(usize),
    Clear,
    Len,
    /// Only where sizes are forced.
    Resize(u64),
}

#[derive(Debug, PartialEq)]
enum Answer {
    Nothing,
    Flag(bool),
    Count(usize),
    Value(Option<u64>),
    Exchanged(Result<(), Option<u64>>),
    Values(Vec<Option<u64>>),
    Pairs(BTreeMap<u64, u64>),
}

type Model = HashMap<u64, u64>;

/// The first keys are the hot ones.
fn random_key(random: &mut Rng, keys: &[u64]) -> u64 {
    let range = [8, 8, 200, 200, 2000][random.u64(..5) as usize];
    keys[random.u64(..range.min(keys.len() as u64)) as usize]
}

fn random_value(random: &mut Rng) -> u64 {
    // Bit 63 comes and goes: such a write makes a new item.
    if random.u64(..2) == 0 { random.u64(..3) } else { random.u64(..) }
}

fn random_pairs(random: &mut Rng, keys: &[u64]) -> Vec<(u64, u64)> {
    // Large ones seldom, or there would be nothing else.
    let n = BATCHES[random.u64(..4) as usize];
    (0..n).map(|_| (random_key(random, keys), random_value(random))).collect()
}

fn random_op(random: &mut Rng, model: &Model, keys: &[u64]) -> Op {
    let (key, value) = (random_key(random, keys), random_value(random));
    let now = model.get(&key).copied();
    // Often the right one.
    let guess = if random.u64(..3) > 0 { now.unwrap_or(value) } else { value };
    match random.u64(..100) {
        0..=19 => Op::Get(key),
        20..=32 => Op::Put(key, value),
        33..=41 => Op::Insert(key, value),
        42..=47 => Op::Replace(key, value),
        48..=57 => Op::Remove(key),
        58..=62 => Op::Take(key),
        63..=68 => Op::Add(key, value),
        69..=75 => Op::Exchange(key, guess, value),
        76..=80 => Op::RemoveIf(key, guess),
        81..=84 => {
            let n = BATCHES[random.u64(..5) as usize];
            Op::GetMany((0..n).map(|_| random_key(random, keys)).collect())
        }
        85..=87 => Op::PutMany(random_pairs(random, keys)),
        88..=90 => Op::InsertMany(random_pairs(random, keys)),
        91 if random.u64(..2) == 0 => Op::Scan(BATCHES[random.u64(..5) as usize] as usize),
        91 if random.u64(..8) == 0 => Op::Clear,
        91 => Op::Len,
        _ => Op::Resize(random.u64(..)),
    }
}

fn insert(model: &mut Model, key: u64, value: u64) -> bool {
    let len = model.len();
    model.entry(key).or_insert(value);
    model.len() > len
}

fn expected(model: &mut Model, op: &Op) -> Answer {
    match *op {
        Op::Get(key) => Answer::Value(model.get(&key).copied()),
        Op::Put(key, value) => Answer::Flag(model.insert(key, value).is_some()),
        Op::Insert(key, value) => Answer::Flag(insert(model, key, value)),
        Op::Replace(key, value) => {
            Answer::Value(model.get_mut(&key).map(|v| std::mem::replace(v, value)))
        }
        Op::Remove(key) => Answer::Flag(model.remove(&key).is_some()),
        Op::Take(key) => Answer::Value(model.remove(&key)),
        Op::Add(key, by) => Answer::Value(model.get_mut(&key).map(|v| {
            *v = v.wrapping_add(by);
            *v
        })),
        Op::Exchange(key, old, new) => Answer::Exchanged(match model.get_mut(&key) {
            Some(v) if *v == old => {
                *v = new;
                Ok(())
            }
            other => Err(other.copied()),
        }),
        Op::RemoveIf(key, old) => {
            let is = model.get(&key) == Some(&old);
            if is {
                model.remove(&key);
            }
            Answer::Flag(is)
        }
        Op::GetMany(ref keys) => {
            Answer::Values(keys.iter().map(|key| model.get(key).copied()).collect())
        }
        Op::PutMany(ref pairs) => {
            model.extend(pairs.iter().copied());
            Answer::Nothing
        }
        Op::InsertMany(ref pairs) => {
            Answer::Count(pairs.iter().filter(|pair| insert(model, pair.0, pair.1)).count())
        }
        Op::Scan(_) => Answer::Pairs(model.iter().map(|(&key, &value)| (key, value)).collect()),
        Op::Clear => {
            model.clear();
            Answer::Nothing
        }
        Op::Len => Answer::Count(model.len()),
        Op::Resize(_) => Answer::Nothing,
    }
}

fn resize<E: Engine>(session: &mut Session<U64, E>, random: u64) {
    match random % 4 {
        0 => _ = session.grow(),
        1 => _ = session.shrink(),
        _ => (0..random >> 32 & 15).for_each(|_| session.collect()),
    }
}

/// The keys met from start to end, `count` at a time, in order.
fn scan<E: Engine>(
    session: &mut Session<U64, E>,
    count: usize,
    growing: Growing,
) -> Vec<(u64, u64)> {
    let (mut met, mut cursor, mut calls) = (Vec::new(), 0, 0u64);
    loop {
        cursor = session.scan(cursor, count, |key, value| met.push((key, value)));
        if cursor == 0 {
            return met;
        }
        calls += 1;
        if growing == Growing::Forced && calls.is_multiple_of(3) {
            resize(session, calls / 3);
        }
    }
}

fn run<E: Engine>(
    session: &mut Session<U64, E>,
    index: &Index<U64, E>,
    op: &Op,
    growing: Growing,
    order: &mut Vec<u64>,
) -> Answer {
    match *op {
        Op::Get(key) => Answer::Value(session.get(key)),
        Op::Put(key, value) => Answer::Flag(session.put(key, value)),
        Op::Insert(key, value) => Answer::Flag(session.insert(key, value)),
        Op::Replace(key, value) => Answer::Value(session.replace(key, value)),
        Op::Remove(key) => Answer::Flag(session.remove(key)),
        Op::Take(key) => Answer::Value(session.take(key)),
        Op::Add(key, by) => Answer::Value(session.fetch_add(key, by)),
        Op::Exchange(key, old, new) => Answer::Exchanged(session.compare_exchange(key, old, new)),
        Op::RemoveIf(key, old) => Answer::Flag(session.remove_if(key, old)),
        Op::GetMany(ref keys) => {
            let mut out = vec![Some(77); keys.len()];
            session.get_many(keys, &mut out);
            Answer::Values(out)
        }
        Op::PutMany(ref pairs) => {
            session.put_many(pairs);
            Answer::Nothing
        }
        Op::InsertMany(ref pairs) => Answer::Count(session.insert_many(pairs)),
        Op::Scan(count) => {
            let met = scan(session, count, growing);
            order.extend(met.iter().map(|pair| pair.0));
            let pairs: BTreeMap<u64, u64> = met.iter().copied().collect();
            assert_eq!(pairs.len(), met.len(), "a key was met twice");
            Answer::Pairs(pairs)
        }
        Op::Clear => {
            session.clear();
            Answer::Nothing
        }
        Op::Len => Answer::Count(index.len()),
        Op::Resize(random) => {
            if growing == Growing::Forced {
                resize(session, random);
            }
            Answer::Nothing
        }
    }
}

/// Runs a sequence and returns the order in which its scans met the keys.
fn replay<E: Engine>(setup: &Setup, seed: u64, sequence: &[(Op, Answer)]) -> Vec<u64> {
    let index = Index::<U64, E>::new(setup.config.clone()).expect("a valid configuration");
    let mut sessions: Vec<_> = (0..setup.sessions).map(|_| index.session()).collect();
    let mut random = Rng::with_seed(seed);
    let mut order = Vec::new();
    for (step, (op, answer)) in sequence.iter().enumerate() {
        let session = &mut sessions[random.u64(..setup.sessions as u64) as usize];
        let got = run(session, &index, op, setup.growing, &mut order);
        assert_eq!(got, *answer, "seed {seed}, step {step}, {op:?}, {setup:?}");
    }
    order
}

/// Runs one sequence over these keys through all of the configurations.
pub fn compare(seed: u64, steps: usize, keys: &[u64], setups: &[Setup]) {
    let mut random = Rng::with_seed(seed);
    let mut model = Model::new();
    let sequence: Vec<(Op, Answer)> = (0..steps)
        .map(|_| {
            let op = random_op(&mut random, &model, keys);
            let answer = expected(&mut model, &op);
            (op, answer)
        })
        .collect();
    let mut order: Option<Vec<u64>> = None;
    for setup in setups {
        let here = with_engine!(setup.shape, replay(setup, seed, &sequence));
        // Other engines visit a bucket's items in any order.
        if setup.shape.family() == Family::HotRing {
            let first = order.get_or_insert_with(|| here.clone());
            assert!(*first == here, "scans go by hash, not by table: seed {seed}, {setup:?}");
        }
    }
}

every_engine!(all_configurations_answer_like_a_hash_map, |family| {
    let first = number("HOTRING_SEED", 101);
    let keys: Vec<u64> = (0..2000).collect();
    for seed in first..first + number("HOTRING_SEQUENCES", 1) {
        compare(seed, STEPS, &keys, &setups(family));
    }
});
