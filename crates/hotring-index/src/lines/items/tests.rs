//! Tests with a view inside: each form of a search, what lies where, and tables that go.

use super::ItemLines;
use crate::core::config::Config;
use crate::core::sync::Arc;
use crate::lines::bits::{LIVE, STASHED, probe_of};
use crate::lines::lane::{Form, Plain, Search};
use crate::session::Shared;
use crate::{Bytes, Expiry, Growth, Index, NewValue, U64};
use fastrand::Rng;
use std::collections::HashMap;

fn config(slots_initial: usize) -> Config {
    Config { slots_initial, huge_pages: false, ..Config::default() }
}

fn index(config: Config) -> Index<U64, ItemLines> {
    Index::new(config).expect("settings and memory")
}

/// The same with a form that need not be the best.
fn with_form(config: Config, form: Form) -> Index<U64, ItemLines> {
    let mut shared = Shared::<U64, ItemLines>::new(config).expect("settings and memory");
    shared.engine.form = form;
    Index { shared: Arc::new(shared) }
}

fn number(index: &Index<U64, ItemLines>, name: &str) -> u64 {
    index.stats().engine.get(name).expect("it is lines")
}

/// Random operations against a map of std's, from few keys to many and back.
fn against_a_map(index: &Index<U64, ItemLines>, seed: u64, steps: u64) {
    let mut session = index.session();
    let (mut model, mut random) = (HashMap::<u64, u64>::new(), Rng::with_seed(seed));
    for step in 0..steps {
        let wave = 1 + step.min(steps - step) / 2;
        let (key, value) = (random.u64(..wave), random.u64(..));
        match random.u64(..6) {
            0 | 1 => assert_eq!(session.put(key, value), model.insert(key, value).is_some()),
            2 => {
                let is_new = !model.contains_key(&key);
                assert_eq!(session.insert(key, value), is_new);
                model.entry(key).or_insert(value);
            }
            3 | 4 => assert_eq!(session.remove(key), model.remove(&key).is_some()),
            _ => {}
        }
        assert_eq!(session.get(key), model.get(&key).copied(), "seed {seed}, step {step}");
    }
    let mut seen = HashMap::new();
    session.scan(0, usize::MAX, |key, value| {
        assert_eq!(seen.insert(key, value), None, "{key} is visited once");
    });
    assert_eq!(seen, model);
}

#[test]
fn every_form_answers_as_a_map() {
    for form in Form::ALL.into_iter().filter(|form| form.is_available()) {
        let index = with_form(config(1), form);
        against_a_map(&index, form as u64, 40_000);
        assert!(number(&index, "growths") > 5, "{form:?}: {:?}", index.stats());
    }
}

/// A fixed table keeps what has no room, and lets go of it.
#[test]
fn a_table_that_may_not_grow_keeps_the_rest_in_its_stash() {
    let index = index(Config { growth: Some(Growth::Fixed), ..config(4) });
    let mut session = index.session();
    (0..2_000).for_each(|key| assert!(session.insert(key, key)));
    assert!(number(&index, "stashed") > 1_900, "18 lines have 72 lanes");
    assert_eq!(session.replace(7, 1 << 63), Some(7), "by a copy, in the stash or not");
    (0..2_000).for_each(|key| assert!(session.remove(key)));
    let pinned = session.pin();
    let table = pinned.engine.table();
    assert_eq!(table.stash.len(), 0);
    assert!((0..4).all(|home| table.see(home) == Some(0)), "REACH falls");
}

/// How many homes have REACH above 0, and how many items lie outside of their home line.
fn displaced(index: &Index<U64, ItemLines>) -> (u64, u64) {
    let mut session = index.session();
    let pinned = session.pin();
    let (mut homes, mut items) = (0, 0);
    let mut table = pinned.engine.table();
    while let Some(next) = table.next() {
        table = next;
    }
    for home in 0..table.shape.lines() {
        homes += u64::from(table.see(home).is_some_and(|reach| reach != 0));
        let line = table.shape.line(home);
        let lanes = Plain::matches(line, LIVE, LIVE).each(line);
        items += lanes.filter(|lane| probe_of(lane.word()) != 0).count() as u64;
    }
    (homes, items)
}

/// A removal that leaves nothing so far out lowers REACH, so that turnovers leave nothing behind.
#[test]
fn reach_falls_when_displaced_items_go() {
    const KEYS: u64 = 2_400;
    let index = index(Config { growth: Some(Growth::Fixed), ..config(1 << 10) });
    let (mut session, mut random) = (index.session(), Rng::with_seed(1));
    let mut keys: Vec<u64> = (0..KEYS).map(|_| random.u64(..)).collect();
    keys.iter().for_each(|key| assert!(session.insert(*key, 1)));
    for turn in 0..20 * KEYS as usize {
        let key = &mut keys[turn % KEYS as usize];
        assert!(session.remove(*key));
        *key = random.u64(..);
        assert!(session.insert(*key, 1));
    }
    let (homes, items) = displaced(&index);
    assert!(homes > 0 && items > 0, "{homes} homes reach out for {items} items");
    keys.iter().for_each(|key| assert!(session.remove(*key)));
    assert_eq!(displaced(&index), (0, 0));
}

/// Growth and shrinking end, their tables are freed, and nothing else is.
#[test]
fn tables_that_were_left_are_freed() {
    let index = index(config(4));
    let mut session = index.session();
    let bytes = index.stats().table_bytes;
    (0..100_000).for_each(|key| assert!(session.insert(key, key)));
    assert!(index.stats().slots >= 1 << 15, "{:?}", index.stats());
    (0..100_000).for_each(|key| assert!(session.remove(key)));
    for _ in 0..10_000 {
        session.collect();
    }
    let stats = index.stats();
    assert!(number(&index, "shrinks") > 0, "{stats:?}");
    assert_eq!(index.shared.engine.left.lock().len(), 0, "{stats:?}");
    assert!(stats.table_bytes <= 64 * bytes, "{stats:?}, {bytes} at first");
}

/// A reader that stays pinned while the table is left still reads it.
#[test]
fn a_pinned_session_keeps_the_table_that_it_may_be_in() {
    let index = Index::<Bytes, ItemLines>::new(config(4)).expect("settings and memory");
    let (mut reader, mut writer) = (index.session(), index.session());
    let key = |n: u32| n.to_be_bytes();
    let value = || NewValue::Bytes { kind: 0, bytes: b"value".into() };
    assert!(!writer.put(&key(0), value(), Expiry::Never, 1));
    let seen = reader.get(&key(0), 1, |entry| {
        (1..5_000).for_each(|n| assert!(!writer.put(&key(n), value(), Expiry::Never, 1)));
        (0..200).for_each(|_| writer.collect());
        assert!(!index.shared.engine.left.lock().is_empty(), "tables wait for the reader");
        entry.key.to_vec()
    });
    assert_eq!(seen, Some(key(0).to_vec()));
    (0..2_000).for_each(|_| writer.collect());
    assert!(index.shared.engine.left.lock().is_empty(), "and no longer");
}

/// All threads change, remove and add the same keys while the table grows and shrinks, and know what must be there.
#[test]
fn threads_find_their_own_writes() {
    let index = index(config(1));
    std::thread::scope(|scope| {
        for thread in 0..3u64 {
            let mut session = index.session();
            scope.spawn(move || {
                let mut random = Rng::with_seed(thread);
                let mut model = HashMap::new();
                for step in 0..30_000u64 {
                    let wave = 1 + step.min(30_000 - step) / 10;
                    let key = random.u64(..wave) * 3 + thread;
                    let value = random.u64(..);
                    match random.u64(..4) {
                        0 | 1 => {
                            assert_eq!(session.put(key, value), model.insert(key, value).is_some())
                        }
                        2 => assert_eq!(session.remove(key), model.remove(&key).is_some()),
                        _ => assert_eq!(session.get(key), model.get(&key).copied(), "{key}"),
                    }
                }
            });
        }
    });
    assert!(number(&index, "growths") > 3 && number(&index, "homes_moved") > 100);
    let mut session = index.session();
    let pinned = session.pin();
    let table = pinned.engine.table();
    assert!((0..table.shape.lines()).all(|home| table.see(home) != Some(STASHED)));
}
