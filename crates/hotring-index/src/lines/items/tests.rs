//! Tests with a view inside: each form of a search, what lies where, and tables that go.

use super::ItemLines;
use super::stash::Count;
use super::table::Table;
use crate::core::config::Config;
use crate::core::item::Kind;
use crate::core::sync::Arc;
use crate::lines::bits::{PROBE_MAX, STASHED, probe_of};
use crate::lines::lane::{Form, Plain};
use crate::lines::memory::WINDOW;
use crate::lines::watch;
use crate::session::Shared;
use crate::{Bytes, Expiry, Growth, Index, NewValue, Session, U64};
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
    assert!((0..4).all(|home| reach(table, home) == 0), "REACH falls");
}

/// The REACH of a home, 0 if it has moved on.
fn reach(table: &Table, home: u64) -> u64 {
    table.see(home).map_or(0, |seen| seen.reach)
}

/// What lookups pay for items outside of their home line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Displaced {
    /// Homes with REACH above 0, and items outside of their home line.
    homes: u64,
    items: u64,
    /// Lines that one miss in each home looks at, and one hit of each item.
    missing: u64,
    hitting: u64,
}

impl Displaced {
    fn of(index: &Index<U64, ItemLines>) -> Self {
        let mut session = index.session();
        let pinned = session.pin();
        let (mut all, mut table) = (Self::default(), pinned.engine.table());
        while let Some(next) = table.next() {
            table = next;
        }
        for home in 0..table.shape.lines() {
            let reach = reach(table, home);
            all.homes += u64::from(reach != 0);
            all.missing += 1 + reach.min(PROBE_MAX);
            table.shape.each_item::<Plain>(home, reach, |found| {
                let number = probe_of(found.pair.word);
                all.items += u64::from(number != 0);
                all.hitting += 1 + number;
            });
        }
        all
    }

    /// Whether nothing is more than a tenth above the other.
    fn is_about(self, other: Self) -> bool {
        let pairs = [
            (self.homes, other.homes),
            (self.items, other.items),
            (self.missing, other.missing),
            (self.hitting, other.hitting),
        ];
        pairs.into_iter().all(|(this, other)| this * 10 <= other * 11)
    }
}

/// Removals bring displaced items home and lower REACH, so that a table in which keys come and go stays as a fresh one.
#[test]
fn turnovers_leave_the_table_as_a_fresh_one() {
    const KEYS: u64 = 46_000;
    let config = || Config { growth: Some(Growth::Fixed), ..config(1 << 14) };
    let (index, mut random) = (index(config()), Rng::with_seed(1));
    let mut session = index.session();
    let mut keys: Vec<u64> = (0..KEYS).map(|_| random.u64(..)).collect();
    keys.iter().for_each(|key| assert!(session.insert(*key, 1)));
    let before = Displaced::of(&index);
    for _ in 0..20 * KEYS {
        let key = &mut keys[random.usize(..KEYS as usize)];
        assert!(session.remove(*key));
        *key = random.u64(..);
        assert!(session.insert(*key, 1));
    }
    let after = Displaced::of(&index);
    println!("fresh {before:?}, after 20 turnovers {after:?}");
    assert!(keys.iter().all(|key| session.get(*key) == Some(1)));
    assert!(after.is_about(before), "fresh {before:?}, after 20 turnovers {after:?}");
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
    let displaced = Displaced::of(&index);
    assert!(displaced.homes > 0 && displaced.items > 0, "{displaced:?}");
    keys.iter().for_each(|key| assert!(session.remove(*key)));
    assert_eq!(Displaced::of(&index), Displaced { missing: 1 << 10, ..Displaced::default() });
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
    assert!((0..table.shape.lines()).all(|home| reach(table, home) != STASHED));
}

/// Keys that are always there are never missed, and no addition is lost, while threads move items within the table.
#[test]
fn threads_agree_while_items_move_within_the_table() {
    agree_while_items_move(1 << 10, 2_000, 300);
}

/// The same, with items that come out of the stash.
#[test]
fn threads_agree_while_items_come_out_of_the_stash() {
    // 18 lines have 72 lanes.
    agree_while_items_move(4, 50, 10);
}

fn agree_while_items_move(lines: usize, kept: u64, others: u64) {
    let index = index(Config { growth: Some(Growth::Fixed), ..config(lines) });
    let mut session = index.session();
    (0..kept).for_each(|key| assert!(session.insert(key, 0)));
    let added: u64 = std::thread::scope(|scope| {
        let run = |thread: u64| {
            let mut session = index.session();
            move || {
                let (mut random, first) = (Rng::with_seed(thread), 1 << 30 | thread << 40);
                let mut added = 0;
                for step in 0..200_000 {
                    let key = random.u64(..kept);
                    assert!(session.get(key).is_some(), "key {key} is always there");
                    if step % 3 == 0 {
                        assert!(session.fetch_add(key, 1).is_some());
                        added += 1;
                    }
                    assert!(session.insert(first + step, step));
                    if step >= others {
                        let gone = first + step - others;
                        assert_eq!(session.take(gone), Some(step - others));
                        assert_eq!(session.get(gone), None);
                    }
                }
                added
            }
        };
        let runs: Vec<_> = (0..3).map(|thread| scope.spawn(run(thread))).collect();
        runs.into_iter().map(|run| run.join().expect("no panic")).sum()
    });
    assert_eq!((0..kept).map(|key| session.get(key).expect("it is there")).sum::<u64>(), added);
    let pinned = session.pin();
    let moves: u64 = (0..4).map(|counter| pinned.engine.table().moves.of(counter)).sum();
    assert!(moves > 1_000, "{moves} moves");
}

/// Hot items come into their home lines, and stay there while others are read as well.
#[test]
fn hot_items_come_into_their_home_lines() {
    // Nearly full, so that many items are displaced and few home lines have room.
    const KEYS: u64 = 3_700;
    let index = index(Config { growth: Some(Growth::Fixed), ..config(1 << 10) });
    let mut session = index.session();
    (0..KEYS).for_each(|key| assert!(session.insert(key, !key)));
    let is_home = |key: u64| {
        let mut session = index.session();
        let hash = index.shared.kind.hash(&key);
        let pinned = session.pin();
        let shape = &pinned.engine.table().shape;
        let home = shape.home(hash.reverse_bits());
        let is_it = |value| pinned.shared.kind.is(ItemLines::item(&pinned, value), hash, &key);
        shape.find::<Plain>(home, 0, is_it).is_some()
    };
    let hot: Vec<u64> = (0..KEYS).filter(|key| !is_home(*key)).take(50).collect();
    assert_eq!(hot.len(), 50);
    let mut random = Rng::with_seed(3);
    for _ in 0..64 * 40 {
        for key in &hot {
            assert_eq!(session.get(*key), Some(!key));
        }
        for _ in 0..10 {
            let key = random.u64(..KEYS);
            assert_eq!(session.get(key), Some(!key));
        }
    }
    let come = hot.iter().filter(|key| is_home(**key)).count();
    assert!(come > 45, "{come} of 50");
    assert!((0..KEYS).all(|key| session.get(key) == Some(!key)));
    let mut seen = 0;
    session.scan(0, usize::MAX, |key, value| {
        assert_eq!(value, !key);
        seen += 1;
    });
    assert_eq!(seen, KEYS);
}

fn all_of(session: &mut Session<U64, ItemLines>, count: usize) -> HashMap<u64, u64> {
    let (mut met, mut cursor) = (HashMap::new(), 0);
    loop {
        cursor = session.scan(cursor, count, |key, value| {
            assert_eq!(met.insert(key, value), None, "{key} is visited once");
        });
        if cursor == 0 {
            return met;
        }
    }
}

/// A home of the smaller table covers several of the larger one, of which some have moved.
#[test]
fn a_scan_in_the_middle_of_shrinking_meets_all() {
    let index = index(Config { growth: Some(Growth::Fixed), ..config(1 << 8) });
    let mut session = index.session();
    assert!(session.grow());
    while ItemLines::move_some(&mut session.pin()) {}
    (0..1_200).for_each(|key| assert!(session.insert(key, key)));
    // Not by half: a step would move all homes that become one.
    assert!(ItemLines::begin(&mut session.pin(), 300));
    let mut steps = 0;
    loop {
        let met = all_of(&mut session, 100);
        let missing: Vec<u64> = (0..1_200).filter(|key| !met.contains_key(key)).collect();
        assert!(missing.is_empty(), "after {steps} steps: missing {missing:?}");
        if !ItemLines::move_some(&mut session.pin()) {
            break;
        }
        steps += 1;
    }
    assert_eq!(steps, 512 / 16, "all homes have moved, some at a time");
}

/// Pages of the old table go back to the system while later homes are still there.
#[test]
fn pages_that_no_home_needs_go_back_while_a_table_is_left() {
    let lines = 4 * WINDOW;
    let index = index(Config { growth: Some(Growth::Fixed), ..config(lines as usize) });
    let mut session = index.session();
    (0..2_000_u64).for_each(|key| assert!(session.insert(key, key)));
    let old = index.stats().table_bytes;
    assert!(session.grow());
    let both = index.stats().table_bytes;
    assert!(session.growth_step(2 * WINDOW as u32 + 16));
    assert_eq!(index.stats().table_bytes, both - 2 * WINDOW * 64, "two of four windows");
    assert_eq!(session.pin().engine.table().bytes(), old - 2 * WINDOW * 64);
    let zeros = (0..2 * WINDOW)
        .filter(|home| session.pin().engine.table().shape.line(*home).control() == 0);
    assert_eq!(zeros.count() as u64, 2 * WINDOW);
    (0..2_000).for_each(|key| assert_eq!(session.get(key), Some(key)));
    while session.growth_step(1 << 16) {}
    (0..10).for_each(|_| session.collect());
    assert_eq!(index.stats().table_bytes, both - old, "the old table is free");
    (0..2_000).for_each(|key| assert_eq!(session.get(key), Some(key)));
}

/// The memory of the stash counts, so that the memory limit covers it.
#[test]
fn the_memory_of_the_stash_counts() {
    let index = index(Config { growth: Some(Growth::Fixed), ..config(4) });
    let mut session = index.session();
    let (held, counted) = (watch::bytes(), index.stats().table_bytes);
    let mut random = Rng::with_seed(1);
    let keys: Vec<u64> = (0..20_000).map(|_| random.u64(..)).collect();
    let in_keys = watch::bytes() - held;
    keys.iter().for_each(|key| _ = session.insert(*key, 1));
    let taken = (watch::bytes() - held - in_keys) as u64;
    let counts = index.stats().table_bytes - counted;
    assert!(taken > 300_000 && taken <= counts, "{taken} bytes taken, {counts} counted");
    assert!(counts <= 2 * taken, "{taken} bytes taken, {counts} counted");
    index.set_memory_max(index.stats().bytes + counted + counts / 2);
    assert!(session.admit_bytes(0).is_err(), "the stash alone exceeds the limit");
    keys.iter().for_each(|key| assert!(session.remove(*key)));
    assert_eq!(index.stats().table_bytes, counted);
}

/// A move to the next table reads no item: a lane tells the whole hash of a byte string's key.
#[test]
fn positions_of_byte_strings_come_back_from_lanes() {
    let mut random = Rng::with_seed(5);
    for lines in [1, 2, 3, 100, 1_023, 4_096, 65_536, 81_920, 1_000_003] {
        let table = Table::new(lines, &config(1), &Count::default()).expect("memory");
        let hashes = (0..20_000).map(|_| random.u64(..1 << 48));
        for hash in hashes.chain([0, 1, 1 << 47, (1 << 48) - 1]) {
            let position = hash.reverse_bits();
            let home = table.shape.home(position);
            assert_eq!(table.shape.position(home.index, home.want), position, "{lines} lines");
        }
    }
}

/// A large table that fills up by itself takes at most 26.7 bytes an item: three fifths of its lanes are taken.
#[test]
fn a_large_table_grows_in_small_steps() {
    let index = index(config(1));
    let mut session = index.session();
    let mut worst: f64 = 0.0;
    let mut random = Rng::with_seed(1);
    for items in 1..600_000u64 {
        assert!(session.insert(random.u64(..), 1));
        if items > 260_000 && items % 1_000 == 0 {
            worst = worst.max(index.stats().slots as f64 * 64.0 / items as f64);
        }
    }
    println!("at most {worst:.1} bytes an item, {:?}", index.stats().engine);
    assert!((20.0..27.0).contains(&worst), "{worst} bytes an item");
}
