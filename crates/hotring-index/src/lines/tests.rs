//! Tests of the map as a whole, on one thread and on several.

use super::bits::{LIVE, probe_of, reach_of};
use super::lane::{Plain, Search};
use super::{Form, Lines, LinesConfig, LinesSession, watch};
use fastrand::Rng;
use std::collections::HashMap;

fn forms() -> impl Iterator<Item = Form> {
    Form::ALL.into_iter().filter(|form| form.is_available())
}

fn map(config: LinesConfig) -> Lines {
    Lines::new(config).expect("settings and memory")
}

/// Random operations against a map of std's, from few keys to many and back.
fn against_a_map(config: LinesConfig, seed: u64, steps: u64) {
    let lines = map(config);
    let mut session = lines.session();
    let mut model = HashMap::<u64, u64>::new();
    let mut random = Rng::with_seed(seed);
    for step in 0..steps {
        let wave = 1 + step.min(steps - step) / 2;
        let key = random.u64(..wave) * if random.bool() { 1 } else { 1 << 40 };
        let value = random.u64(..);
        match random.u64(..12) {
            0..=2 => assert_eq!(session.put(key, value), model.insert(key, value).is_some()),
            3 | 4 => {
                let is_new = !model.contains_key(&key);
                assert_eq!(session.insert(key, value), is_new);
                model.entry(key).or_insert(value);
            }
            5 => assert_eq!(
                session.replace(key, value),
                model.get_mut(&key).map(|v| std::mem::replace(v, value))
            ),
            6 => {
                let sum = model.get_mut(&key).map(|v| {
                    *v = v.wrapping_add(value);
                    *v
                });
                assert_eq!(session.fetch_add(key, value), sum);
            }
            7 => {
                let now = model.get(&key).copied();
                let old = if random.bool() { now.unwrap_or(1) } else { value };
                let expected = if now == Some(old) { Ok(()) } else { Err(now) };
                assert_eq!(session.compare_exchange(key, old, value), expected);
                if expected.is_ok() {
                    model.insert(key, value);
                }
            }
            8 => assert_eq!(session.take(key), model.remove(&key)),
            9 => assert_eq!(session.remove(key), model.remove(&key).is_some()),
            _ => {}
        }
        assert_eq!(session.get(key), model.get(&key).copied(), "seed {seed}, step {step}");
    }
    assert_eq!(lines.len(), model.len() as u64);
    for (key, value) in model {
        assert_eq!(session.get(key), Some(value));
    }
}

#[test]
fn all_forms_agree_with_a_map() {
    for form in forms() {
        for (seed, factor) in [(1, 2.0), (2, 1.3), (3, 4.0)] {
            let config = LinesConfig { form: Some(form), factor, ..LinesConfig::default() };
            against_a_map(config, seed, 60_000);
        }
    }
}

#[test]
fn tables_with_four_lanes_agree_with_a_map() {
    for form in forms() {
        let config = LinesConfig {
            form: Some(form),
            factor: 1.25,
            shrinks: false,
            ..LinesConfig::default()
        };
        against_a_map(config, 5, 1_500_000);
    }
}

#[test]
fn keys_of_one_neighbourhood_go_to_the_stash_and_not_into_growth() {
    let lines = map(LinesConfig { capacity: 1_000_000, ..LinesConfig::default() });
    let mut session = lines.session();
    let before = lines.stats();
    let keys: Vec<u64> = (0..1000).map(|i| session.key(0x1234_5678_9abc_def0 + i)).collect();
    for key in &keys {
        assert!(session.insert(*key, key ^ 1));
    }
    let stats = lines.stats();
    assert_eq!((stats.lines, stats.growths), (before.lines, 0));
    assert!(stats.stashed > 900, "{stats:?}");
    for key in &keys {
        assert_eq!(session.get(*key), Some(key ^ 1));
        assert!(session.put(*key, key ^ 2));
        assert!(!session.insert(*key, 0));
    }
    for key in &keys {
        assert_eq!(session.take(*key), Some(key ^ 2));
    }
    assert_eq!((lines.len(), lines.stats().stashed), (0, 0));
}

/// A thread that waits for a LOCK must not wait for the allocator, which may wait for the system.
#[test]
fn nothing_is_allocated_under_a_lock() {
    let lines = map(LinesConfig { capacity: 10_000, ..LinesConfig::default() });
    let mut session = lines.session();
    let flood: Vec<u64> = (0..2000).map(|i| session.key((77 << 40) + i)).collect();
    flood.iter().for_each(|key| assert!(session.insert(*key, !key)));
    assert!(lines.stats().stashed > 1900);
    // A session without spare nodes moves them on.
    let mut other = lines.session();
    for _ in 0..2 {
        assert!(other.grow());
        while other.growth_step() {}
        assert!(flood.iter().all(|key| other.get(*key) == Some(!key)));
    }
    assert!(lines.stats().stashed > 1900);
    assert_eq!(all_of(&mut other, 100).len(), flood.len());
    // Removals bring items in from the stash.
    flood.iter().for_each(|key| assert_eq!(other.take(*key), Some(!key)));
    assert_eq!((lines.stats().stashed, lines.len()), (0, 0));
    assert_eq!(watch::calls_under_lock(), 0);
}

#[test]
fn a_map_of_few_keys_takes_at_most_8_kib() {
    let before = watch::bytes();
    let maps: Vec<(Lines, LinesSession)> = (0..1000)
        .map(|seed| {
            let lines = map(LinesConfig { seed: [seed, 1], ..LinesConfig::default() });
            let mut session = lines.session();
            (0..100).for_each(|key| assert!(session.insert(key, key)));
            (lines, session)
        })
        .collect();
    let each = (watch::bytes() - before) / maps.len() as i64;
    println!("{each} bytes");
    assert!(each <= 8 << 10, "{each} bytes, {:?}", maps[0].0.stats());
}

/// A flood in a map of few keys: it must grow for them, but to no more than twice what as many others need.
#[test]
fn a_flood_of_neighbours_takes_a_bounded_table() {
    let of = |key: &dyn Fn(&LinesSession, u64) -> u64| {
        let lines = map(LinesConfig { seed: [1, 2], ..LinesConfig::default() });
        let mut session = lines.session();
        let keys: Vec<u64> = (0..1000).map(|i| key(&session, i)).collect();
        keys.iter().for_each(|key| assert!(session.insert(*key, !key)));
        while session.growth_step() {}
        assert!(keys.iter().all(|key| session.get(*key) == Some(!key)));
        lines.stats()
    };
    let flood = of(&|session, i| session.key((1 << 50) + i));
    let others = of(&|_, i| i);
    assert!(flood.stashed > 900 && others.stashed == 0, "{flood:?}, {others:?}");
    assert!(flood.lines <= 2 * others.lines, "{flood:?}, {others:?}");
}

/// What chance puts into the stash is no reason to grow, up to the highest load that a map may ask for.
#[test]
fn a_table_of_random_keys_grows_at_its_load_and_not_before() {
    let sizes = [500, 5_000, 60_000, 170_000];
    for (capacity, load_max) in sizes.iter().flat_map(|c| [0.75, 0.85, 0.9].map(|l| (*c, l))) {
        let lines = map(LinesConfig { capacity, load_max, ..LinesConfig::default() });
        let mut session = lines.session();
        let (mut before, mut items) = (lines.stats(), 0u64);
        while before.growths == 0 {
            for _ in 0..before.capacity.div_ceil(500) {
                items += 1;
                assert!(session.insert(items, items));
            }
            let now = lines.stats();
            if now.growths > 0 {
                break;
            }
            before = now;
        }
        let load = items as f64 / before.capacity as f64;
        assert!(load > load_max - 0.002, "{load:.3} of {load_max}, {before:?}");
    }
}

#[test]
fn a_sweep_ends_before_its_table_is_full_whatever_the_factor() {
    for factor in [1.1, 1.3, 2.0] {
        let load_max = 0.6;
        let config = LinesConfig { capacity: 5_000, load_max, factor, ..LinesConfig::default() };
        let lines = map(config);
        let mut session = lines.session();
        for items in 1..=60_000u64 {
            assert!(session.insert(items, items));
            if items % 50 == 0 {
                let stats = lines.stats();
                let load = items as f64 / stats.capacity as f64;
                assert!(load < load_max + 0.02, "{load:.3} at factor {factor}, {stats:?}");
            }
        }
    }
}

#[test]
fn inserts_behind_a_shrink_do_not_flood_the_stash() {
    let lines = map(LinesConfig { shrinks: false, ..LinesConfig::default() });
    let mut session = lines.session();
    (0..60_000).for_each(|key| assert!(session.insert(key, key)));
    (100..60_000).for_each(|key| assert!(session.remove(key)));
    while session.growth_step() {}
    let before = lines.stats();
    assert!(session.shrink());
    // A sixteenth of the old lines, by which time the sweep is over.
    let inserted = before.lines / 16 + 100;
    (1_000_000..1_000_000 + inserted).for_each(|key| assert!(session.insert(key, key)));
    let after = lines.stats();
    assert!(after.growths > before.growths + 1, "it grows again at once: {after:?}");
}

/// Values are functions of keys, so that a value of another key shows; some keys are hot, some belong to one thread,
/// and all threads insert the same others.
fn threads_agree(config: LinesConfig, steps: u64) {
    const HOT: u64 = 16;
    const OWN: u64 = 64;
    const SHARED_FROM: u64 = 1 << 20;
    let lines = map(config);
    let mut first = lines.session();
    (0..HOT).for_each(|key| assert!(first.insert(key, 0)));
    drop(first);
    let threads = 4;
    let inserted: u64 = std::thread::scope(|scope| {
        let run = |thread: u64| {
            let mut session = lines.session();
            move || {
                let mut random = Rng::with_seed(thread);
                let (mut last, mut mine, mut inserted) = ([0; HOT as usize], [false; 64], 0);
                let mut value = 0;
                for step in 0..steps {
                    let hot = random.u64(..HOT);
                    let own = random.u64(..OWN);
                    let own_key = 1000 + thread * OWN + own;
                    let here = &mut mine[own as usize];
                    let shared = SHARED_FROM + random.u64(..=step / 8);
                    match step % 8 {
                        0 => {
                            inserted += u64::from(
                                session
                                    .insert(SHARED_FROM + step / 8, (SHARED_FROM + step / 8) * 7),
                            )
                        }
                        1 if thread == 0 => {
                            value += 1;
                            last[hot as usize] = value;
                            assert!(session.put(hot, value));
                        }
                        2 if *here => {
                            assert_eq!(session.take(own_key), Some(own_key * 3));
                            *here = false;
                        }
                        2 => {
                            assert!(!session.put(own_key, own_key * 3), "a key that was removed");
                            *here = true;
                        }
                        3 => assert_eq!(session.get(own_key), here.then_some(own_key * 3)),
                        4 => assert_eq!(
                            session.get(shared),
                            Some(shared * 7),
                            "a key that is never removed"
                        ),
                        5 => assert!(
                            session.fetch_add(1 << 40, 1).is_none()
                                && session.get(1 << 41).is_none()
                        ),
                        _ => {
                            let now = session.get(hot).expect("a key that is never removed");
                            assert!(now >= last[hot as usize], "a value goes back");
                            last[hot as usize] = now;
                        }
                    }
                }
                inserted
            }
        };
        let runs: Vec<_> = (0..threads).map(|thread| scope.spawn(run(thread))).collect();
        runs.into_iter().map(|run| run.join().expect("no panic")).sum()
    });
    let mut session = lines.session();
    assert_eq!(inserted, steps.div_ceil(8), "each key has one insert that was told so");
    for key in (0..steps / 8).map(|i| SHARED_FROM + i) {
        assert_eq!(session.get(key), Some(key * 7));
    }
    let mut own = 0;
    for key in 1000..1000 + threads * OWN {
        own += u64::from(session.get(key).is_some());
    }
    assert_eq!(lines.len(), HOT + inserted + own);
    assert!(lines.stats().growths > 3);
}

#[test]
fn threads_agree_while_the_table_grows() {
    let steps = if cfg!(debug_assertions) { 400_000 } else { 4_000_000 };
    for form in forms() {
        for factor in [1.2, 2.0, 3.7] {
            let config = LinesConfig { form: Some(form), factor, ..LinesConfig::default() };
            threads_agree(config, steps);
        }
    }
}

/// Counters that threads add to while other keys make the table grow and shrink again and again.
#[test]
fn no_addition_is_lost_while_the_table_grows_and_shrinks() {
    let lines = map(LinesConfig { factor: 1.7, ..LinesConfig::default() });
    let (threads, waves, others) = (3, 6, 30_000);
    let counters = 0..32u64;
    let mut session = lines.session();
    counters.clone().for_each(|key| assert!(session.insert(key, 0)));
    let done: u64 = std::thread::scope(|scope| {
        let run = |thread: u64| {
            let (mut session, counters) = (lines.session(), counters.clone());
            move || {
                let mut random = Rng::with_seed(thread);
                let mut done = 0;
                for wave in 0..waves {
                    for other in 0..others {
                        let key = 1000 + thread * others + other;
                        assert!(if wave % 2 == 0 {
                            session.insert(key, key)
                        } else {
                            session.remove(key)
                        });
                        assert!(session.fetch_add(random.u64(counters.clone()), 1).is_some());
                        done += 1;
                    }
                }
                done
            }
        };
        let runs: Vec<_> = (0..threads).map(|thread| scope.spawn(run(thread))).collect();
        runs.into_iter().map(|run| run.join().expect("no panic")).sum()
    });
    let sum: u64 = counters.map(|key| session.get(key).expect("a counter")).sum();
    assert_eq!((sum, lines.len()), (done, 32));
    assert!(lines.stats().lines < 10_000, "it has shrunk: {:?}", lines.stats());
}

/// Everything that a scan meets.
fn all_of(session: &mut LinesSession, count: usize) -> Vec<(u64, u64)> {
    let (mut met, mut cursor) = (Vec::new(), 0);
    loop {
        cursor = session.scan(cursor, count, |key, value| met.push((key, value)));
        if cursor == 0 {
            return met;
        }
    }
}

#[test]
fn a_scan_meets_each_key_once_while_the_table_grows_and_shrinks() {
    let lines = map(LinesConfig { factor: 1.4, ..LinesConfig::default() });
    let mut session = lines.session();
    let kept = 0..5_000u64;
    kept.clone().for_each(|key| assert!(session.insert(key, !key)));
    // Some of them in the stash.
    let flood: Vec<u64> = (0..200).map(|i| session.key((77 << 40) + i)).collect();
    flood.iter().for_each(|key| assert!(session.insert(*key, !key)));
    for count in [1, 10, 1000] {
        for wave in 0..6u64 {
            let (mut met, mut cursor, mut others) = (HashMap::new(), 0, 10_000u64);
            loop {
                cursor = session.scan(cursor, count, |key, value| {
                    assert!(met.insert(key, value).is_none(), "key {key} again");
                });
                if cursor == 0 {
                    break;
                }
                for _ in 0..count.min(100) {
                    others += 1;
                    let _ = if wave % 2 == 0 {
                        session.insert(others, !others)
                    } else {
                        session.remove(others)
                    };
                }
            }
            assert!(met.iter().all(|(key, value)| *value == !key));
            assert!(kept.clone().chain(flood.iter().copied()).all(|key| met.contains_key(&key)));
        }
    }
}

/// A home of the smaller table covers several of the larger one, of which some have moved.
#[test]
fn a_scan_in_the_middle_of_shrinking_meets_all() {
    let config = LinesConfig { factor: 1.4, shrinks: false, ..LinesConfig::default() };
    let lines = map(config);
    let mut session = lines.session();
    (0..40_000).for_each(|key| assert!(session.insert(key, key)));
    while session.growth_step() {}
    (2_000..40_000).for_each(|key| assert!(session.remove(key)));
    assert!(session.shrink());
    loop {
        let met: HashMap<u64, u64> = all_of(&mut session, 100).into_iter().collect();
        let missing: Vec<u64> = (0..2_000).filter(|key| !met.contains_key(key)).collect();
        assert!(missing.is_empty(), "missing: {missing:?}");
        if !session.growth_step() {
            break;
        }
    }
}

#[test]
fn clear_leaves_nothing() {
    let lines = map(LinesConfig::default());
    let mut session = lines.session();
    (0..50_000).for_each(|key| assert!(session.insert(key, key)));
    assert_eq!(all_of(&mut session, 1000).len(), 50_000);
    session.clear();
    assert!(lines.is_empty() && all_of(&mut session, 10).is_empty());
    while session.growth_step() {}
    assert!(lines.stats().lines < 1000, "it has shrunk: {:?}", lines.stats());
    assert!(session.insert(7, 1));
    assert_eq!(all_of(&mut session, 10), [(7, 1)]);
}

#[test]
fn batches_answer_as_single_operations_do() {
    for form in forms() {
        let config = LinesConfig { form: Some(form), factor: 1.3, ..LinesConfig::default() };
        let lines = map(config);
        let mut session = lines.session();
        let flood: Vec<u64> = (0..200).map(|i| session.key((77 << 40) + i)).collect();
        let mut random = Rng::with_seed(9);
        let mut model = HashMap::new();
        for round in 0..300u64 {
            let mut key = || match random.u64(..8) {
                0 => flood[random.usize(..flood.len())],
                _ => random.u64(..1 + round * 40),
            };
            let len = [1, 3, 63, 64, 65, 200, 1000][round as usize % 7];
            let pairs: Vec<(u64, u64)> = (0..len).map(|i| (key(), round + i)).collect();
            let keys: Vec<u64> = pairs.iter().map(|pair| pair.0).collect();
            match round % 4 {
                0 => {
                    session.put_many(&pairs);
                    model.extend(pairs);
                }
                1 => {
                    let before = model.len();
                    let inserted = session.insert_many(&pairs);
                    for (key, value) in pairs {
                        model.entry(key).or_insert(value);
                    }
                    assert_eq!(inserted, model.len() - before);
                }
                2 => {
                    let removed = session.remove_many(&keys);
                    assert_eq!(
                        removed,
                        keys.iter().filter(|key| model.remove(key).is_some()).count()
                    );
                }
                _ => {}
            }
            let keys: Vec<u64> = (0..len).map(|_| key()).collect();
            let mut out = vec![Some(u64::MAX); keys.len()];
            session.get_many(&keys, &mut out);
            let expected: Vec<_> = keys.iter().map(|key| model.get(key).copied()).collect();
            assert_eq!(out, expected, "{form:?}, round {round}");
        }
        assert_eq!(lines.len(), model.len() as u64);
    }
}

/// Sequences of the last homes end in the spare lines, and no lookup goes on behind them.
#[test]
fn batches_stay_within_the_table() {
    for form in forms() {
        let lines = map(LinesConfig { form: Some(form), ..LinesConfig::default() });
        let mut session = lines.session();
        let keys: Vec<u64> = (0..400).map(|i| session.key(u64::MAX - i)).collect();
        for key in &keys[..200] {
            assert!(session.insert(*key, !key));
        }
        assert!(lines.stats().stashed > 0);
        let mut values = vec![None; keys.len()];
        session.get_many(&keys, &mut values);
        let expected = |i: usize| (i < 200).then_some(!keys[i]);
        assert!(values.iter().enumerate().all(|(i, value)| *value == expected(i)));
    }
}

#[test]
fn maintenance_ends_and_changes_no_item() {
    let lines = map(LinesConfig { factor: 1.5, ..LinesConfig::default() });
    let mut session = lines.session();
    let mut steps = 0u64;
    for key in 0..400_000 {
        assert!(session.insert(key, !key));
        steps += u64::from(key % 16 == 0 && session.maintain());
    }
    while session.maintain() {
        steps += 1;
    }
    assert!(steps > 10, "{steps} steps");
    assert!((0..400_000).all(|key| session.get(key) == Some(!key)));
}

/// Shares of homes that have a REACH, and of items that are displaced.
fn displaced(session: &LinesSession) -> (f64, f64) {
    let shape = &session.table().shape;
    let (mut reaching, mut items, mut displaced) = (0, 0, 0);
    for line in (0..shape.lines()).map(|index| shape.line(index)) {
        reaching += u64::from(reach_of(line.control()) > 0);
        for lane in Plain::matches(line, LIVE, &LIVE).each(line) {
            items += 1;
            displaced += u64::from(probe_of(lane.word()) > 0);
        }
    }
    (reaching as f64 / shape.lines() as f64, displaced as f64 / items as f64)
}

#[test]
fn turnovers_leave_the_table_as_a_fresh_one() {
    let items = 160_000;
    let fresh = |seed| {
        let lines = map(LinesConfig { capacity: items, seed: [seed, 1], ..LinesConfig::default() });
        let mut session = lines.session();
        (0..items).for_each(|key| assert!(session.insert(key, key)));
        (lines, session)
    };
    let (lines, mut session) = fresh(1);
    let before = displaced(&session);
    let mut present: Vec<u64> = (0..items).collect();
    let mut random = Rng::with_seed(1);
    for next in items..21 * items {
        let key = &mut present[random.usize(..items as usize)];
        assert!(session.remove(*key));
        *key = next;
        assert!(session.insert(next, next));
    }
    let after = displaced(&session);
    println!(
        "reaching and displaced: fresh {before:?}, after 20 turnovers {after:?}, {:?}",
        lines.stats()
    );
    assert!(present.iter().all(|key| session.get(*key) == Some(*key)));
    assert_eq!((lines.stats().growths, lines.stats().stashed), (0, 0));
    assert!(after.0 < before.0 * 1.1 && after.1 < before.1 * 1.1);
}

/// Homes are tidied some removals late, but not more than that.
#[test]
fn removals_leave_few_homes_untidy() {
    let lines = map(LinesConfig { capacity: 160_000, ..LinesConfig::default() });
    let mut session = lines.session();
    (0..160_000).for_each(|key| assert!(session.insert(key, key)));
    let lines_of_table = lines.stats().lines as f64;
    assert!(displaced(&session).0 * lines_of_table > 1000.0);
    (0..160_000).for_each(|key| assert!(session.remove(key)));
    let left = displaced(&session).0 * lines_of_table;
    assert!(left <= 8.0, "{left} homes");
}

#[test]
fn hot_items_come_into_their_home_lines() {
    // Nearly full, so that many items are displaced and no home line has room.
    let (items, capacity) = (220_000, 170_000);
    let config = LinesConfig { capacity, load_max: 0.9, ..LinesConfig::default() };
    let lines = map(config);
    let mut session = lines.session();
    (0..items).for_each(|key| assert!(session.insert(key, !key)));
    assert!(session.shape.has_heat() && lines.stats().growths == 0, "{:?}", lines.stats());
    let is_home = |session: &LinesSession, key| {
        let home = session.shape.home(session.hash(key));
        session.shape.find::<Plain>(home, 0).is_some()
    };
    let hot: Vec<u64> = (0..items).filter(|key| !is_home(&session, *key)).take(100).collect();
    assert_eq!(hot.len(), 100);
    for _ in 0..64 * 40 {
        for key in &hot {
            assert_eq!(session.get(*key), Some(!key));
        }
    }
    let come = hot.iter().filter(|key| is_home(&session, **key)).count();
    assert!(come > 90, "{come} of 100");
    assert!((0..items).all(|key| session.get(key) == Some(!key)));
    assert_eq!(all_of(&mut session, 1000).len() as u64, items);
}

/// Keys that are always there are never missed while threads move items within the table, by removals and by reads.
#[test]
fn threads_agree_while_items_move_within_the_table() {
    let (kept, capacity) = (120_000, 170_000);
    let config = LinesConfig { capacity, load_max: 0.9, ..LinesConfig::default() };
    let lines = map(config);
    let mut session = lines.session();
    (0..kept).for_each(|key| assert!(session.insert(key, 0)));
    let steps = if cfg!(debug_assertions) { 1_500_000u64 } else { 20_000_000 };
    let added: u64 = std::thread::scope(|scope| {
        let run = |thread: u64| {
            let mut session = lines.session();
            move || {
                let mut random = Rng::with_seed(thread);
                let (mut added, first) = (0, 1 << 30 | thread << 40);
                for step in 0..steps {
                    // A few keys are hot, others each at another time.
                    let key = match step / 4096 % 2 {
                        0 => random.u64(..64) * 17 + step / 100_000,
                        _ => random.u64(..kept),
                    };
                    assert!(session.get(key).is_some(), "key {key} is always there");
                    if step % 3 == 0 {
                        assert!(session.fetch_add(key, 1).is_some());
                        added += 1;
                    }
                    assert!(session.insert(first + step, step));
                    if step >= 25_000 {
                        assert_eq!(session.take(first + step - 25_000), Some(step - 25_000));
                    }
                }
                added
            }
        };
        let runs: Vec<_> = (0..3).map(|thread| scope.spawn(run(thread))).collect();
        runs.into_iter().map(|run| run.join().expect("no panic")).sum()
    });
    assert_eq!((0..kept).map(|key| session.get(key).expect("it is there")).sum::<u64>(), added);
    assert_eq!(lines.len(), kept + 3 * 25_000);
    let moves: u64 = (0..1024).map(|index| session.table().moves(index)).sum();
    assert!(moves > 1000, "{moves} moves, {:?}", lines.stats());
}
