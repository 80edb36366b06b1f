//! G-Cuckoo in random orders of its steps: readers by versions beside kicks, stashes and splits.
//!
//! Pages of two or four buckets, so that a handful of keys fills them. As in `run`: the history of
//! each hot key must be linearizable, the table at rest must be consistent, and what was retired
//! must be freed.

use crate::explore::Scenario;
use crate::history::{Op, Outcome, State};
use crate::operate::operate;
use crate::plan::Random;
use crate::run::{CLEARED, RECORD, Record, judge, note, tick};
use hotring_engines::{Atomicity, GCuckoo, GCuckooConfig, GCuckooHash};
use hotring_index::checks::{Checked, Fault, Reclaim};
use hotring_index::{Config, Growth, Session, U64};
use shuttle::rand::RngCore;
use std::sync::Arc;

/// Keys that are not hot. They fill the pages.
const OTHERS: u64 = 12;

/// Common to runs of one sort.
#[derive(Clone, Copy)]
struct Sort {
    name: &'static str,
    atomicity: Atomicity,
    reclaim: Reclaim,
    cache_entries: usize,
    /// Of 100 actions, those that fill or empty pages, and those that split them.
    filling: u64,
    splitting: u64,
    scanning: u64,
}

const BASE: Sort = Sort {
    name: "",
    atomicity: Atomicity::Optimistic,
    reclaim: Reclaim::Epochs,
    cache_entries: 0,
    filling: 35,
    splitting: 5,
    scanning: 6,
};

fn action<const S: usize>(
    session: &mut Session<U64, GCuckoo<S>>,
    hot: u64,
    sort: &Sort,
    random: &mut Random,
) {
    let (call, die) = (tick(), random.below(100));
    if die < sort.filling {
        let other = hot + random.below(OTHERS);
        if random.below(3) == 0 {
            session.remove(other);
        } else {
            session.insert(other, 1);
        }
    } else if die < sort.filling + sort.splitting {
        session.grow();
    } else if die < sort.filling + sort.splitting + sort.scanning {
        scan(session, hot, 1 + random.below(4) as usize, call);
    } else if die == 99 {
        session.clear();
        (0..hot).for_each(|key| note(key as usize, CLEARED, Outcome::Flag(true), call));
    } else if die > 94 {
        session.collect();
    } else if die > 91 {
        let keys: Vec<u64> = (0..hot).collect();
        let mut values = vec![None; keys.len()];
        session.get_many(&keys, &mut values);
        for (key, value) in values.into_iter().enumerate() {
            note(key, Op::Get, Outcome::Value(value), call);
        }
    } else {
        let key = random.below(hot);
        let value = random.below(4) | random.below(2) << 63;
        let op = *random.of(&[
            Op::Get,
            Op::Get,
            Op::Get,
            Op::Put(value),
            Op::Put(value),
            Op::Insert(value),
            Op::Insert(value),
            Op::Replace(value),
            Op::Remove,
            Op::Remove,
            Op::Take,
            Op::Add(1),
            Op::Add(1 << 63),
            Op::Swap(value & 3, value),
            Op::RemoveIf(value & 3),
            Op::Append(7),
        ]);
        let outcome = operate(session, key, op);
        note(key as usize, op, outcome, call);
    }
}

/// A whole scan is a get of each key.
fn scan<const S: usize>(session: &mut Session<U64, GCuckoo<S>>, hot: u64, count: usize, call: u64) {
    let mut values = vec![None; hot as usize];
    let mut cursor = 0;
    loop {
        cursor = session.scan(cursor, count, |key, value| {
            if let Some(seen) = values.get_mut(key as usize) {
                assert!(seen.replace(value).is_none(), "a scan visits key {key} twice");
            }
        });
        if cursor == 0 {
            break;
        }
    }
    for (key, value) in values.into_iter().enumerate() {
        note(key, Op::Get, Outcome::Value(value), call);
    }
}

fn run<const S: usize>(sort: &Sort, fault: Fault) {
    let mut random = Random::new(shuttle::rand::thread_rng().next_u64());
    let hot = 1 + random.below(3);
    let page_buckets = *random.of(&[1, 2, 4]);
    let config = Config {
        seed: [3, 4],
        growth: (random.below(3) == 0).then_some(Growth::Fixed),
        slots_initial: 1,
        slots_max: 64,
        huge_pages: false,
        pipeline_depth: *random.of(&[1, 2]),
        engine: GCuckooConfig {
            atomicity: sort.atomicity,
            cache_entries: sort.cache_entries,
            page_buckets,
            // The processor is the checker's.
            force_rtm: true,
        }
        .into(),
        fault,
        reclaim: sort.reclaim,
        ..Config::default()
    };
    let index = GCuckooHash::<U64, S>::new(config).expect("a valid configuration");
    let mut session = index.session();
    let first: Vec<Option<u64>> =
        (0..hot).map(|_| (random.below(3) > 0).then(|| random.below(4))).collect();
    for (key, value) in first.iter().enumerate() {
        value.map(|value| session.put(key as u64, value));
    }
    for other in 0..random.below(OTHERS) {
        session.insert(hot + other, 1);
    }
    let plan = format!("{S} slots, {page_buckets} buckets, first {first:?}");
    RECORD.set(Record { plan, ..Record::default() });
    let threads: Vec<_> = (0..2 + random.below(2))
        .map(|_| {
            let (index, sort) = (index.clone(), *sort);
            let mut random = Random::new(random.next());
            shuttle::thread::spawn(move || {
                let mut session = index.session();
                for _ in 0..2 + random.below(6) {
                    action(&mut session, hot, &sort, &mut random);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("a panic ends the run"));
    Checked::check_at_rest(&mut session, &index);
    for (key, first) in first.into_iter().enumerate() {
        let last = State::of(session.get(key as u64));
        judge(key, State::of(first), last);
    }
    let (mut visited, mut cursor) = (0, 0);
    loop {
        cursor = session.scan(cursor, 3, |_, _| visited += 1);
        if cursor == 0 {
            break;
        }
    }
    assert_eq!(visited, index.len(), "what a scan finds at rest");
    for _ in 0..60 {
        session.collect();
    }
    assert_eq!(index.stats().limbo_bytes, 0, "memory is not freed when nobody can see it");
    Checked::check_at_rest(&mut session, &index);
}

fn scenario(sort: Sort) -> Scenario {
    let run = move |fault| {
        // Both in turns, by the run's own luck.
        if shuttle::rand::thread_rng().next_u64().is_multiple_of(2) {
            run::<1>(&sort, fault);
        } else {
            run::<4>(&sort, fault);
        }
    };
    Scenario { name: sort.name, run: Arc::new(run) }
}

/// A bit of everything.
pub fn everything() -> Scenario {
    scenario(Sort { name: "gcuckoo", ..BASE })
}

/// Full pages that are split all the time.
pub fn splits() -> Scenario {
    scenario(Sort { name: "gcuckoo-splits", filling: 40, splitting: 15, ..BASE })
}

/// Scans beside kicks.
pub fn scans() -> Scenario {
    scenario(Sort { name: "gcuckoo-scans", filling: 50, scanning: 25, ..BASE })
}

/// All scenarios. Byte strings are in `shapes`.
pub fn all() -> Vec<Scenario> {
    let locks = Sort { name: "gcuckoo-lock", atomicity: Atomicity::Lock, ..BASE };
    let oracle = Sort { name: "gcuckoo-oracle", reclaim: Reclaim::Oracle, ..BASE };
    let cache = Sort { name: "gcuckoo-cache", cache_entries: 2, ..oracle };
    let rtm = Sort { name: "gcuckoo-rtm", atomicity: Atomicity::Rtm, ..BASE };
    let sorts = [locks, oracle, cache, rtm].map(scenario);
    sorts.into_iter().chain([everything(), splits(), scans()]).collect()
}
