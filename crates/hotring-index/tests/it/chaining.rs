//! Properties of Chaining Hash alone: its table doubles by splitting buckets, and has as many bytes as
//! HotRing's. The suites for every engine are in the other files.

use crate::colliding::u64_key;
use fastrand::Rng;
use hotring_engines::{Chaining, ChainingHash};
use hotring_index::{
    Bytes, Checksum, Config, ConfigError, Engine, Expiry, Growth, Index, NewValue, Part, Ring,
    Scrub, Session, U64, Value,
};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

fn config() -> Config {
    Config { slots_initial: 1, slots_max: 1 << 20, huge_pages: false, ..Config::default() }
}

fn chains<K: hotring_index::Kind>(config: Config) -> ChainingHash<K> {
    Index::new(config).expect("a valid configuration")
}

/// Doublings, splits, copies.
fn grown<K: hotring_index::Kind>(index: &ChainingHash<K>) -> (u64, u64, u64) {
    let stats = index.stats().engine;
    let count = |name| stats.get(name).expect("chains");
    (count("doublings"), count("buckets_split"), count("items_copied"))
}

/// Everything that a scan from start to end meets.
fn all(session: &mut Session<U64, Chaining>, count: usize) -> Vec<(u64, u64)> {
    let (mut met, mut cursor) = (Vec::new(), 0);
    loop {
        cursor = session.scan(cursor, count, |key, value| met.push((key, value)));
        if cursor == 0 {
            return met;
        }
    }
}

#[test]
fn a_table_doubles_by_itself_until_each_item_has_a_bucket() {
    let index = chains::<U64>(config());
    let mut session = index.session();
    const KEYS: u64 = 50_000;
    for key in 0..KEYS {
        assert!(!session.put(key, key ^ 7));
    }
    let stats = index.stats();
    assert_eq!(stats.items, KEYS);
    assert_eq!(stats.slots, (KEYS - KEYS % 64).next_power_of_two());
    assert_eq!(stats.table_bytes, stats.slots * 8);
    (0..1000).for_each(|_| session.collect());
    let (doublings, splits, copies) = grown(&index);
    assert_eq!((doublings, splits), (16, stats.slots - 1), "every bucket was split");
    // Half of the items at each doubling.
    assert!((KEYS / 2..2 * KEYS).contains(&copies), "{copies} copies");
    for key in 0..KEYS {
        assert_eq!(session.get(key), Some(key ^ 7));
    }
    assert_eq!(session.get(KEYS), None);
    assert_eq!(all(&mut session, 100).len() as u64, KEYS);
    // Items that left are freed: only the copies remain.
    (0..1000).for_each(|_| session.collect());
    let stats = index.stats();
    assert_eq!((stats.limbo_bytes, stats.bytes), (0, KEYS * 24));
}

#[test]
fn a_table_of_fixed_size_keeps_it() {
    let index = chains::<U64>(Config { growth: Some(Growth::Fixed), slots_initial: 4, ..config() });
    let mut session = index.session();
    (0..2_000).for_each(|key| assert!(session.insert(key, key)));
    assert_eq!((index.stats().slots, grown(&index)), (4, (0, 0, 0)));
    assert!((0..2_000).all(|key| session.remove(key)));
    assert!(index.is_empty() && all(&mut session, 10).is_empty());
}

#[test]
fn settings_without_a_meaning_are_refused() {
    let refusal = |config: Config| match ChainingHash::<U64>::new(config) {
        Err(ConfigError::Unsupported(why)) => why,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("accepted"),
    };
    let auto = Growth::Auto { visits_max: 1.5, items_min: 2.0, items_max: 4.0, items_low: 0.5 };
    let why = refusal(Config { growth: Some(auto), ..config() });
    assert!(why.contains("Growth::BytesPerKey"), "{why}");
    assert!(refusal(Config { period: Some(9), ..config() }).contains("hotring"));
    assert!(refusal(Config { complete_lines: Some(true), ..config() }).contains("hotring"));
}

fn table_bytes<E: Engine>(growth: Growth, bytes: usize, slot: usize, keys: u64) -> Vec<u64> {
    let config = Config { growth: Some(growth), slots_initial: bytes / slot, ..config() };
    let index = Index::<U64, E>::new(config).expect("a valid configuration");
    let mut session = index.session();
    let mut sizes = Vec::new();
    for key in 0..keys {
        session.insert(key, key);
        sizes.push(index.stats().table_bytes);
    }
    sizes
}

#[test]
fn both_engines_have_tables_of_equal_bytes_at_any_number_of_items() {
    const KEYS: u64 = 30_000;
    for (bytes_per_key, bytes) in [(8.0, 64), (8.0, 8192), (2.5, 64), (13.4, 256), (100.0, 64)] {
        let growth = Growth::BytesPerKey(bytes_per_key);
        let chaining = table_bytes::<Chaining>(growth, bytes, 8, KEYS);
        assert!(chaining == table_bytes::<Ring<7>>(growth, bytes, 64, KEYS), "{growth:?}, 7 hints");
        assert!(chaining == table_bytes::<Ring<3>>(growth, bytes, 32, KEYS), "{growth:?}, 3 hints");
        assert!(chaining == table_bytes::<Ring<1>>(growth, bytes, 16, KEYS), "{growth:?}, 1 hint");
        let last = *chaining.last().expect("keys") as f64;
        assert!(last >= bytes_per_key * (KEYS - 64) as f64, "{growth:?}: {last} bytes");
        assert!(last < 2.0 * bytes_per_key * KEYS as f64, "{growth:?}: {last} bytes");
    }
}

#[test]
fn a_chain_of_colliding_keys_survives_doublings() {
    let seeded = Config { seed: [3, 4], growth: Some(Growth::Fixed), ..config() };
    let index = chains::<U64>(seeded);
    let mut session = index.session();
    // Equal in their lowest 40 bits: all of them stay together, and leave together.
    let keys: Vec<u64> = (0..3_000).map(|i| u64_key(i << 40 | 0x5a_5a5a)).collect();
    let mut values: Vec<u64> = Vec::new();
    for (i, &key) in keys.iter().enumerate() {
        assert!(session.insert(key, i as u64));
        values.push(i as u64);
    }
    for doubling in 0..12u64 {
        assert!(session.grow(), "doubling {doubling}");
        assert!(!session.grow(), "not before the last one is complete");
        // Some of the writes meet the bucket first, or the steps do.
        if doubling % 2 == 0 {
            session.put(keys[9], values[9]);
        }
        while grown(&index).1 + 1 < index.stats().slots {
            session.collect();
        }
        for (&key, value) in keys.iter().zip(&mut values).step_by(7) {
            *value = value.wrapping_add(1 << 62);
            assert_eq!(session.fetch_add(key, 1 << 62), Some(*value));
        }
        let mut met = all(&mut session, 1);
        met.sort_unstable();
        let mut expected: Vec<(u64, u64)> =
            keys.iter().copied().zip(values.iter().copied()).collect();
        expected.sort_unstable();
        assert!(met == expected, "doubling {doubling}");
    }
    assert!(keys.iter().all(|&key| session.remove(key)));
    assert!(all(&mut session, 1).is_empty());
}

#[test]
fn everything_that_an_entry_has_moves_with_it() {
    let index = chains::<Bytes>(Config { growth: Some(Growth::Fixed), ..config() });
    let mut session = index.session();
    let large = vec![9u8; 3 << 20];
    let mut versions = Vec::new();
    for i in 0..64u64 {
        let key = format!("key {i}{}", "x".repeat(if i % 5 == 0 { 300 } else { 0 }));
        let value = match i % 3 {
            0 => NewValue::Word { kind: 3, word: i | 1 << 63 },
            1 => NewValue::Bytes { kind: 7, bytes: key.clone().into_bytes().into() },
            _ => NewValue::Bytes { kind: 1, bytes: large.as_slice().into() },
        };
        let expiry = if i % 2 == 0 { Expiry::At(1000 + i) } else { Expiry::Never };
        session.put(key.as_bytes(), value, expiry, 1);
        let version =
            (i % 4 == 0).then(|| session.version(key.as_bytes(), 1).expect("it is there"));
        versions.push((key, version));
    }
    let bytes = index.stats().bytes - index.stats().limbo_bytes;
    for _ in 0..8 {
        assert!(session.grow());
        while grown(&index).1 + 1 < index.stats().slots {
            session.collect();
        }
    }
    assert!(grown(&index).2 >= 64);
    for (i, (key, version)) in versions.iter().enumerate() {
        let i = i as u64;
        session
            .get(key.as_bytes(), 1, |entry| {
                assert_eq!(entry.expire_at, i.is_multiple_of(2).then_some(1000 + i), "{key}");
                assert_eq!(entry.version, *version, "{key}");
                match entry.value {
                    Value::Word { kind, word } => assert_eq!((kind, word), (3, i | 1 << 63)),
                    Value::Bytes { kind: 7, bytes } => assert_eq!(bytes, key.as_bytes()),
                    Value::Bytes { bytes, .. } => assert!(bytes == large),
                }
            })
            .expect("it is there");
        // Items frozen for the move may change again.
        let renewed = session.update(key.as_bytes(), 1, |old| {
            (hotring_index::Action::Expire(Expiry::At(5000)), old.is_some())
        });
        assert!(renewed);
    }
    assert_eq!(index.stats().expiring, 64);
    (0..2000).for_each(|_| session.collect());
    let stats = index.stats();
    assert_eq!(stats.limbo_bytes, 0);
    assert!(stats.bytes <= bytes + 64 * 16, "{} bytes, {bytes} before", stats.bytes);
    assert_eq!(session.expire_step(1 << 20, 6000).1, 64);
    assert!(index.is_empty());
}

/// Damage is found after a split as before: also where not even the item's length is known.
#[test]
fn damage_moves_with_its_item() {
    let sound = Config { checksum: Checksum::Verify, growth: Some(Growth::Fixed), ..config() };
    for (part, bit) in [(Part::Lengths, 3), (Part::Value, 0), (Part::Check, 50), (Part::Key, 1)] {
        // Memory of an item whose end is not known is not given back, which the arena of the
        // sanitizers complains about.
        if cfg!(hotring_plain_arena) && matches!(part, Part::Lengths | Part::Check) {
            continue;
        }
        let index = chains::<Bytes>(sound.clone());
        let (mut damager, mut session) = (index.session(), index.session());
        for i in 0..40u8 {
            let bytes = vec![i; 20].into();
            session.put(&[i], NewValue::Bytes { kind: 1, bytes }, Expiry::Never, 1);
        }
        let damaged = damager.with_damage(&[7], part, bit, || {
            for _ in 0..6 {
                assert!(session.grow());
                while grown(&index).1 + 1 < index.stats().slots {
                    session.collect();
                }
            }
            let mut scrub = Scrub::new(9);
            while !scrub.is_done() {
                session.scrub_step(&mut scrub, 3);
            }
            assert_eq!((scrub.counts.items, scrub.counts.damaged), (40, 1), "{part:?}");
            assert!(session.get(&[7], 1, |_| ()).is_none() && session.take_damage().is_some());
            assert!((0..40u8).filter(|i| *i != 7).all(|i| session.get(&[i], 1, |_| ()).is_some()));
            session.remove(&[7], 1);
            assert_eq!(index.len(), 39, "{part:?}");
        });
        assert!(damaged.is_some());
    }
}

/// Threads add to shared keys, insert and remove their own, read keys that are always there, and
/// scan, while the table doubles from one bucket on.
#[test]
fn a_doubling_of_the_table_stays_unnoticed() {
    const THREADS: u64 = 4;
    const SHARED: u64 = 40;
    const STEPS: u64 = 60_000;
    let index = chains::<U64>(Config { growth: Some(Growth::BytesPerKey(32.0)), ..config() });
    let mut session = index.session();
    (0..SHARED).for_each(|key| assert!(session.insert(key, 1 << 63)));
    let (added, flipped) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (mut session, added, flipped) = (index.session(), &added, &flipped);
            scope.spawn(move || {
                let mut random = Rng::with_seed(thread + 11);
                let own = |i: u64| 1000 + i * THREADS + thread;
                let mut inserted = 0;
                for step in 0..STEPS {
                    let shared = random.u64(..SHARED);
                    match random.u64(..8) {
                        0 | 1 => {
                            assert!(session.insert(own(inserted), inserted));
                            inserted += 1;
                        }
                        2 if inserted > 0 => {
                            let i = random.u64(..inserted);
                            assert_eq!(session.get(own(i)), Some(i), "thread {thread}");
                        }
                        3 => {
                            assert!(session.fetch_add(shared, 1).is_some());
                            added.fetch_add(1, Ordering::Relaxed);
                        }
                        4 => {
                            // A replacement each time.
                            assert!(session.fetch_add(shared, 1 << 63).is_some());
                            flipped.fetch_add(1, Ordering::Relaxed);
                        }
                        5 if step % 4000 == 0 => {
                            let met = all(&mut session, 50);
                            let keys: HashSet<u64> = met.iter().map(|(key, _)| *key).collect();
                            assert_eq!(keys.len(), met.len(), "a key is met twice");
                            assert!((0..SHARED).all(|key| keys.contains(&key)));
                            assert!((0..inserted).all(|i| keys.contains(&own(i))));
                        }
                        6 => {
                            let keys: Vec<u64> = (0..SHARED).collect();
                            let mut out = vec![None; keys.len()];
                            session.get_many(&keys, &mut out);
                            assert!(out.iter().all(Option::is_some), "a key is missed by a batch");
                        }
                        _ => assert!(session.get(shared).is_some(), "key {shared} is missed"),
                    }
                }
                assert!((0..inserted).all(|i| session.remove(own(i))));
            });
        }
    });
    let sum = (0..SHARED)
        .fold(0u64, |sum, key| sum.wrapping_add(session.get(key).expect("it was always there")));
    let flips = SHARED.wrapping_add(flipped.into_inner());
    assert_eq!(sum, added.into_inner().wrapping_add(flips << 63));
    assert_eq!(index.len() as u64, SHARED);
    assert!(grown(&index).0 >= 14);
}

#[test]
fn a_doubling_waits_while_too_much_waits_for_a_reader() {
    const LIMBO_MAX: u64 = 1 << 20;
    let index = chains::<Bytes>(Config { limbo_max: LIMBO_MAX, ..config() });
    let mut session = index.session();
    let value = || NewValue::Bytes { kind: 0, bytes: vec![1; 1 << 10].into() };
    for i in 0..10_000u32 {
        session.put(&i.to_le_bytes(), value(), Expiry::Never, 1);
    }
    while grown(&index).1 + 1 < index.stats().slots {
        session.collect();
    }
    let (done, pinned) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let (mut reader, done, pinned) = (index.session(), &done, &pinned);
        scope.spawn(move || {
            reader.get(&7u32.to_le_bytes(), 1, |_| {
                pinned.store(true, Ordering::Release);
                while !done.load(Ordering::Acquire) {
                    std::thread::yield_now();
                }
            })
        });
        while !pinned.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        (0..500).for_each(|_| session.collect());
        session.grow();
        (0..500).for_each(|_| session.collect());
        let stats = index.stats();
        // The addition of one step, and the value before it.
        assert!(stats.limbo_bytes <= LIMBO_MAX + (600 << 10), "{} bytes", stats.limbo_bytes);
        assert!(stats.limbo_bytes > LIMBO_MAX / 2, "the reader holds something up");
        done.store(true, Ordering::Release);
    });
    while grown(&index).1 + 1 < index.stats().slots {
        session.collect();
    }
    (0..100).for_each(|_| session.collect());
    assert_eq!(index.stats().limbo_bytes, 0);
    assert!((0..10_000u32).all(|i| session.get(&i.to_le_bytes(), 1, |_| ()).is_some()));
}
