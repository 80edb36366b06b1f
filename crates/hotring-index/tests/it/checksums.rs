//! Checksums: operations answer as without them, every covered bit that flips is noticed, and damaged items
//! are never handed out.
//!
//! Not covered: damage in an item's hash or `next` word, or in the table, beyond that nothing wrong is
//! handed out while only the one item is asked for; damage by threads that write where they must not.

use crate::model_bytes;
use crate::shapes::{every_engine, number, setups, strategies, with_engine};
use hotring_index::{
    Action, Bytes, Checksum, Config, Damaged, Engine, Expiry, HotRing, Index, NewValue, Part,
    Scrub, Session, U64, Value,
};
use std::thread;

const NOW: u64 = 1;
const META_HASH: std::ops::Range<usize> = 16..64;
const PARTS: [Part; 7] =
    [Part::Meta, Part::Check, Part::Version, Part::Word, Part::Lengths, Part::Key, Part::Value];

fn text(bytes: &[u8]) -> NewValue<'_> {
    NewValue::Bytes { kind: 0, bytes: bytes.into() }
}

fn word(word: u64) -> NewValue<'static> {
    NewValue::Word { kind: 9, word }
}

fn open<E: Engine>(config: &Config, checksum: Checksum) -> Index<Bytes, E> {
    Index::new(Config { checksum, ..config.clone() }).expect("a valid configuration")
}

/// A key and a value of each shape, with and without expiry and version.
fn items() -> Vec<(Vec<u8>, NewValue<'static>, Expiry, bool)> {
    let values = [word(41), word(u64::MAX), text(b""), text(b"some value")];
    let mut items = Vec::new();
    for value in values {
        for (expiry, version) in [(Expiry::Never, false), (Expiry::At(50), true)] {
            let key = format!("key:{}", items.len()).into_bytes();
            items.push((key, value.clone(), expiry, version));
        }
    }
    items.push((Vec::new(), word(7), Expiry::Never, false));
    items.push((vec![b'l'; 300], text(b"v"), Expiry::Never, false));
    items
}

fn fill<E: Engine>(session: &mut Session<Bytes, E>) {
    for (key, value, expiry, version) in items() {
        session.put(&key, value, expiry, NOW);
        if version {
            session.version(&key, NOW).expect("just put");
        }
    }
}

fn scrubbed<E: Engine>(session: &mut Session<Bytes, E>) -> Scrub {
    let mut scrub = Scrub::new(100);
    let mut progress = scrub.progress();
    while !scrub.is_done() {
        session.scrub_step(&mut scrub, 3);
        assert!(scrub.progress() > progress, "no step without progress");
        progress = scrub.progress();
    }
    assert!((progress - 1.0).abs() < f64::EPSILON);
    scrub
}

/// Bits of an item that are covered, and whether reads still find the item when one is flipped.
fn bits(is_word: bool) -> impl Iterator<Item = (Part, usize, bool)> {
    let all = PARTS.into_iter().flat_map(|part| (0..8 * 300).map(move |bit| (part, bit)));
    // Bit 63 of a word is no bit of the value.
    let all = all.filter(move |&place| !(is_word && place == (Part::Word, 63)));
    all.map(|(part, bit)| (part, bit, part != Part::Meta || !META_HASH.contains(&bit)))
}

fn never<R>(what: &str) -> R {
    panic!("a damaged item was handed out by {what}")
}

/// All ways to read a key whose item is damaged.
fn read_damaged<E: Engine>(s: &mut Session<Bytes, E>, key: &[u8], is_found: bool) {
    let noted = is_found.then(|| Damaged { key: Some(key.into()) });
    assert_eq!(s.take_damage(), None);
    s.get(key, NOW, |_| never::<()>("get"));
    assert_eq!(s.take_damage(), noted);
    s.get_many(&[b"absent", key], NOW, |_, entry| {
        if entry.is_some() {
            never("get_many")
        }
    });
    assert_eq!(s.take_damage(), noted);
    assert_eq!(s.version(key, NOW), None);
    assert_eq!(s.take_damage(), noted);
    if is_found {
        // A counter that is damaged must not restart.
        let count = s.update(key, NOW, |old| match old {
            None => (Action::Put { value: word(1), expiry: Expiry::Never }, 1),
            Some(_) => never("update"),
        });
        assert_eq!(count, 1, "the caller sees what an absent key does");
        assert_eq!(s.take_damage(), noted);
        assert!(!s.put(key, word(1), Expiry::Keep, NOW));
        assert_eq!(s.take_damage(), noted);
    }
    s.prefetch(&mut [key.into()]);
    for random in 0..8u64 {
        s.sample(random << 61, NOW, |entry| {
            if entry.key == key {
                never("sample")
            }
        });
    }
    let end = s.scan(0, usize::MAX, NOW, |entry| {
        if entry.key == key && entry.value != (Value::Bytes { kind: 0, bytes: b"" }) {
            never("scan")
        }
    });
    assert_eq!(end, 0);
    assert!(s.take_damage().is_some() || !is_found, "the scan passes by it");
    assert_eq!(s.expire_step(1000, NOW).1, 0, "damage does not make an item expire");
    let damages = s.damages();
    s.get(b"absent", NOW, |_| ());
    assert_eq!(s.damages(), damages);
}

fn every_bit<E: Engine>(config: &Config) -> usize {
    let index = open::<E>(config, Checksum::Verify);
    let (mut damager, mut reader) = (index.session(), index.session());
    fill(&mut damager);
    let n = index.len();
    let mut flips = 0;
    for (key, value, _, _) in items() {
        let as_value = value.as_value();
        for (part, bit, is_found) in bits(matches!(value, NewValue::Word { .. })) {
            let flipped = damager.with_damage(&key, part, bit, || {
                read_damaged(&mut reader, &key, is_found);
                let scrub = scrubbed(&mut reader);
                if !is_found {
                    // It may be met twice, or not at all.
                    return;
                }
                assert_eq!(
                    (scrub.counts.items, scrub.counts.damaged),
                    (n as u64, 1),
                    "{part:?} {bit}"
                );
                assert_eq!(scrub.first.len(), 1);
                assert_eq!(scrub.counts.unchecked, u64::from((part, bit) == (Part::Meta, 3)));
                let lost = part == Part::Lengths || part == Part::Meta;
                let stored = scrub.first[0].key.as_deref();
                assert!(lost || part == Part::Key || part == Part::Check || stored == Some(&key));
                assert!(!lost || stored.is_none());
            });
            flips += usize::from(flipped.is_some());
            if flipped.is_some() {
                let same = reader.get(&key, NOW, |entry| entry.value == as_value);
                assert_eq!(same, Some(true), "nobody has changed the damaged item");
            }
        }
    }
    assert_eq!((index.len(), reader.take_damage()), (n, None));
    assert_eq!(scrubbed(&mut reader).counts.damaged, 0);
    flips
}

every_engine!(every_flipped_bit_is_noticed, |family| {
    for (shape, config) in strategies(family) {
        let flips = with_engine!(shape, every_bit(&config));
        assert!(flips > 4_000, "{flips}");
    }
});

/// Nothing but a walk leads to them.
fn lost_items<E: Engine>(config: &Config) {
    let index = open::<E>(config, Checksum::Verify);
    let mut session = index.session();
    fill(&mut session);
    let mut damager = index.session();
    for (key, ..) in items() {
        for bit in META_HASH {
            let found = damager.with_damage(&key, Part::Meta, bit, || {
                let mut scrub = Scrub::new(0);
                session.scrub_step(&mut scrub, 1000);
                assert!(scrub.is_done());
                scrub.counts.damaged
            });
            assert_eq!(found, Some(1), "bit {bit} of {}", key.escape_ascii());
        }
    }
}

every_engine!(a_walk_finds_items_whose_hash_is_damaged, |family| {
    for (shape, config) in strategies(family) {
        with_engine!(shape, lost_items(&config));
    }
});

fn repairs<E: Engine>(config: &Config) {
    let mut untouched = None;
    for remove in [false, true] {
        for (key, value, _, _) in items() {
            for (part, bit, is_found) in bits(matches!(value, NewValue::Word { .. })) {
                // Where an item ends is not known any more when these are damaged: its memory is not
                // given back, which the arena of the sanitizers complains about.
                let leaks = matches!(part, Part::Meta | Part::Check | Part::Lengths);
                if !is_found || bit % 9 != 3 || leaks && cfg!(hotring_plain_arena) {
                    continue;
                }
                let (index, mut damager, mut s) = untouched.take().unwrap_or_else(|| {
                    let index = open::<E>(config, Checksum::Verify);
                    let (damager, mut s) = (index.session(), index.session());
                    fill(&mut s);
                    (index, damager, s)
                });
                let flipped = damager.with_damage(&key, part, bit, || {
                    if remove {
                        assert!(s.remove(&key, NOW), "{part:?} {bit}");
                    } else {
                        assert!(s.put(&key, text(b"anew"), Expiry::Never, NOW), "{part:?} {bit}");
                    }
                    assert_eq!(s.get(&key, NOW, |_| ()).is_some(), !remove);
                    assert_eq!(s.take_damage(), None, "{part:?} {bit}");
                    assert_eq!(scrubbed(&mut s).counts.damaged, 0, "{part:?} {bit}");
                });
                if flipped.is_none() {
                    // The part has no such bit.
                    untouched = Some((index, damager, s));
                    continue;
                }
                assert_eq!(index.len(), items().len() - usize::from(remove));
                // Memory is reused as if nothing had been.
                for round in 0..3 {
                    for i in 0..200u32 {
                        let value = vec![round; i as usize];
                        s.put(&i.to_be_bytes(), text(&value), Expiry::Never, NOW);
                    }
                    s.collect();
                }
                assert_eq!(scrubbed(&mut s).counts.damaged, 0);
            }
        }
    }
}

every_engine!(writing_or_removing_the_key_repairs, |family| {
    // The engine's part in this does not depend on its mode.
    let (shape, config) = strategies(family).pop().expect("an engine has a mode");
    with_engine!(shape, repairs(&config));
});

fn trusting<E: Engine>(config: &Config) {
    let index = open::<E>(config, Checksum::Write);
    let (mut damager, mut s) = (index.session(), index.session());
    fill(&mut s);
    damager.with_damage(b"key:6", Part::Value, 0, || {
        assert!(s.get(b"key:6", NOW, |_| ()).is_some(), "reads do not look");
        assert_eq!((s.take_damage(), s.damages()), (None, 0));
        let scrub = scrubbed(&mut s);
        assert_eq!((scrub.counts.damaged, scrub.counts.unchecked), (1, 0));
        assert_eq!(scrub.first, [Damaged { key: Some(b"key:6"[..].into()) }]);
    });
}

every_engine!(reads_trust_where_only_writes_are_checked, |family| {
    for (shape, config) in strategies(family) {
        with_engine!(shape, trusting(&config));
    }
});

/// Writers of all kinds, and a walk over their items: nothing is ever found damaged.
fn busy<E: Engine>(config: &Config, checksum: Checksum) {
    let config = Config { slots_initial: 4, ..config.clone() };
    let index = open::<E>(&config, checksum);
    let work = |first: u64| {
        let mut s = index.session();
        for i in 0..3_000u64 {
            let key = ((i * 7 + first) % 50).to_be_bytes();
            s.update(&key, NOW, |old| {
                let n = match old.map(|entry| entry.value) {
                    Some(Value::Word { word, .. }) => word.wrapping_add(1 << 61),
                    _ => i,
                };
                (Action::Put { value: word(n), expiry: Expiry::Keep }, ())
            });
            match i % 5 {
                0 => _ = s.put(&key, text(&vec![3; i as usize % 300]), Expiry::At(90), NOW),
                1 => s.update(&key, NOW, |_| (Action::Expire(Expiry::At(80 + i)), ())),
                2 => _ = s.version(&key, NOW),
                3 if i % 50 == 3 => _ = s.remove(&key, NOW),
                _ => _ = s.get(&key, NOW, |_| ()),
            }
        }
        assert_eq!(s.damages(), 0);
    };
    thread::scope(|scope| {
        scope.spawn(|| work(0));
        scope.spawn(|| work(3));
        let mut s = index.session();
        for _ in 0..50 {
            let scrub = scrubbed(&mut s);
            assert_eq!((scrub.counts.damaged, scrub.counts.unchecked), (0, 0));
        }
    });
}

every_engine!(nothing_is_called_damaged_that_is_not, |family| {
    for (shape, config) in strategies(family) {
        for checksum in [Checksum::Write, Checksum::Verify] {
            with_engine!(shape, busy(&config, checksum));
        }
    }
});

every_engine!(answers_are_those_without_checksums, |family| {
    let seed = number("HOTRING_SEED", 301);
    let mut setups = setups(family);
    setups.retain(|setup| setup.config.pipeline_depth == 16 && setup.is_eager());
    for (i, setup) in setups.iter_mut().enumerate() {
        setup.config.checksum = if i % 2 == 0 { Checksum::Write } else { Checksum::Verify };
    }
    for seed in seed..seed + number("HOTRING_SEQUENCES", 1) {
        model_bytes::compare(seed, 1_500, &model_bytes::names(), &setups);
    }
});

#[test]
fn a_checksum_takes_eight_bytes_and_none_takes_nothing() {
    let footprint = |checksum| {
        let index: HotRing<Bytes> = open(&Config::default(), checksum);
        let mut s = index.session();
        s.put(b"0123456789abcdef", word(1), Expiry::Never, NOW);
        s.get(b"0123456789abcdef", NOW, |entry| entry.footprint).expect("just put")
    };
    assert_eq!(footprint(Checksum::Off), 8 + 8 + 8 + 16);
    assert_eq!(footprint(Checksum::Write), 8 + 8 + 8 + 8 + 16);
    assert_eq!(footprint(Checksum::Verify), footprint(Checksum::Write));
}

#[test]
fn a_walk_without_checksums_says_that_there_are_none() {
    let index: HotRing<Bytes> = open(&Config::default(), Checksum::Off);
    let mut s = index.session();
    fill(&mut s);
    let scrub = scrubbed(&mut s);
    let n = items().len() as u64;
    assert_eq!((scrub.counts.items, scrub.counts.unchecked, scrub.counts.damaged), (n, n, 0));
}

#[test]
fn a_walk_names_a_few_damaged_items_and_counts_the_rest() {
    let index: HotRing<Bytes> = open(&Config::default(), Checksum::Write);
    let (mut a, mut b, mut s) = (index.session(), index.session(), index.session());
    fill(&mut s);
    a.with_damage(b"key:0", Part::Word, 3, || {
        b.with_damage(b"key:6", Part::Value, 3, || {
            let mut scrub = Scrub::new(1);
            s.scrub_step(&mut scrub, usize::MAX);
            assert!(scrub.is_done());
            assert_eq!((scrub.counts.damaged, scrub.first.len()), (2, 1));
        })
    })
    .flatten()
    .expect("both keys are there");
}

#[test]
fn items_of_u64_have_no_checksums() {
    for checksum in [Checksum::Write, Checksum::Verify] {
        let refused = HotRing::<U64>::new(Config { checksum, ..Config::default() });
        let error = refused.err().expect("refused").to_string();
        assert!(error.contains("leave checksum at Off"), "{error}");
    }
}
