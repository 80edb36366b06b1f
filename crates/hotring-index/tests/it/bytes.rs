//! The byte-string index.

use hotring_engines::EngineChoice;
use hotring_index::{Action, Bytes, Config, Expiry, HotRing, Key, KeyHash, NewValue, Value};

fn bytes(value: &[u8]) -> NewValue<'_> {
    NewValue::Bytes { kind: 0, bytes: value.into() }
}

#[test]
fn values_of_all_sizes_round_trip() {
    let index = HotRing::<Bytes>::new(Config { slots_max: 1 << 12, ..Config::default() })
        .expect("a valid configuration");
    let mut session = index.session();
    let lens = [0, 1, 7, 8, 9, 254, 255, 256, 1000, 1024, 65_536];
    for key_len in lens {
        for value_len in lens {
            let key = vec![b'k'; key_len];
            let value = vec![value_len as u8; value_len];
            session.put(&key, bytes(&value), Expiry::Never, 1);
            let seen = session.get(&key, 1, |entry| {
                assert_eq!(entry.key, &key[..]);
                entry.value == Value::Bytes { kind: 0, bytes: &value }
            });
            assert_eq!(seen, Some(true), "key of {key_len}, value of {value_len}");
        }
    }
    assert_eq!(index.len(), lens.len());
}

#[test]
fn expiry_is_checked_on_access_and_swept() {
    let index = HotRing::<Bytes>::new(Config { slots_max: 1 << 12, ..Config::default() })
        .expect("a valid configuration");
    let mut s = index.session();
    for i in 0..1000u32 {
        s.put(&i.to_be_bytes(), bytes(b"v"), Expiry::At(100 + u64::from(i)), 1);
    }
    assert!(s.get(&5u32.to_be_bytes(), 104, |_| ()).is_some());
    assert!(s.get(&5u32.to_be_bytes(), 105, |_| ()).is_none());
    let renewed =
        s.update(&7u32.to_be_bytes(), 106, |old| (Action::Expire(Expiry::At(5000)), old.is_some()));
    assert!(renewed);
    let mut removed = 0;
    for _ in 0..100 {
        removed += s.expire_step(100, 600).1;
    }
    assert_eq!(removed, 500);
    assert_eq!(index.len(), 500);
    assert!(s.get(&7u32.to_be_bytes(), 600, |_| ()).is_some());
    assert_eq!(index.stats().expiring, 500);
}

#[test]
fn items_are_found_by_their_hashes() {
    for engine in EngineChoice::ALL {
        let index = engine.open(Config::default()).expect("a valid configuration");
        let mut s = index.try_session(None).expect("it serves several sessions");
        for i in 0..5_000u32 {
            let expiry = if i % 2 == 0 { Expiry::At(100) } else { Expiry::Never };
            s.put(&i.to_be_bytes(), bytes(b"v"), expiry, 1);
        }
        let mut seen = std::collections::HashMap::new();
        let mut cursor = 0;
        loop {
            cursor = s.scan_hashes(cursor, 100, |hash, entry| {
                assert!(seen.insert(entry.key.to_vec(), (hash, entry.expire_at)).is_none());
            });
            if cursor == 0 {
                break;
            }
        }
        assert_eq!(seen.len(), 5_000, "{engine:?}: those that have expired, too");
        for i in 0..5_000u32 {
            let (key, hash) = (i.to_be_bytes(), s.key_hash(&i.to_be_bytes()));
            let expire_at = (i % 2 == 0).then_some(100);
            assert_eq!(seen[&key[..]], (hash, expire_at), "{engine:?}");
            let mut found = Vec::new();
            s.with_hash(hash, |entry| found.push((entry.key.to_vec(), entry.expire_at)));
            // Of 48 bits, so that they are all different.
            assert_eq!(found, [(key.to_vec(), expire_at)], "{engine:?}");
            s.with_hash(hash ^ 1, |entry| panic!("{:?} of another hash", entry.key));
        }
    }
}

#[test]
fn versions_are_unique_and_end_with_the_next_write() {
    let index = HotRing::<Bytes>::new(Config { slots_max: 1 << 12, ..Config::default() })
        .expect("a valid configuration");
    let mut s = index.session();
    assert_eq!(s.version(b"k", 1), None);
    s.put(b"k", NewValue::Word { kind: 2, word: 9 }, Expiry::At(50), 1);
    let first = s.version(b"k", 1).expect("present");
    assert_eq!(s.version(b"k", 1), Some(first), "no write in between");
    let seen = s.get(b"k", 1, |entry| {
        assert_eq!(entry.value, Value::Word { kind: 2, word: 9 });
        (entry.version, entry.expire_at)
    });
    assert_eq!(seen, Some((Some(first), Some(50))), "value and expiry are kept");

    let if_version = |s: &mut hotring_index::HotRingSession<Bytes>, version: u64| {
        s.update(b"k", 1, |old| match old {
            Some(entry) if entry.version == Some(version) => (
                Action::Put { value: NewValue::Word { kind: 2, word: 9 }, expiry: Expiry::Never },
                true,
            ),
            _ => (Action::Keep, false),
        })
    };
    assert!(if_version(&mut s, first));
    assert!(!if_version(&mut s, first), "the same value again, but written");
    let second = s.version(b"k", 1).expect("present");
    s.remove(b"k", 1);
    s.put(b"k", NewValue::Word { kind: 2, word: 9 }, Expiry::Never, 1);
    let third = s.version(b"k", 1).expect("present");
    assert!(first != second && second != third && first != third);
    let fourth = {
        s.update(b"k", 1, |_| (Action::Expire(Expiry::At(99)), ()));
        s.version(b"k", 1)
    };
    assert_ne!(fourth, Some(third), "a new expiry is a write");
}

#[test]
fn batches_answer_like_single_lookups() {
    let index = HotRing::<Bytes>::new(Config { slots_max: 1 << 12, ..Config::default() })
        .expect("a valid configuration");
    let mut s = index.session();
    let names: Vec<String> = (0..500).map(|i| format!("key:{i}")).collect();
    for (i, name) in names.iter().enumerate().filter(|(i, _)| i % 3 != 0) {
        let expiry = if i % 5 == 0 { Expiry::At(10) } else { Expiry::Never };
        s.put(name.as_bytes(), NewValue::Word { kind: 1, word: i as u64 }, expiry, 1);
    }
    let keys: Vec<&[u8]> = names.iter().map(|name| name.as_bytes()).collect();
    let mut asked: Vec<Key> = keys.iter().map(Key::from).collect();
    s.prefetch(&mut asked);
    let mut answers = vec![None; keys.len()];
    let mut calls = 0;
    s.get_many(&keys, 20, |i, entry| {
        calls += 1;
        answers[i] = entry.map(|entry| entry.value == Value::Word { kind: 1, word: i as u64 });
    });
    assert_eq!(calls, keys.len());
    for (i, answer) in answers.iter().enumerate() {
        let present = i % 3 != 0 && i % 5 != 0;
        assert_eq!(*answer, present.then_some(true), "key {i}");
        // A key that knows its hash is as good as one that does not.
        assert_ne!(asked[i].hash(), KeyHash::UNKNOWN);
        let again = Key::with_hash(keys[i], asked[i].hash());
        assert_eq!(s.get(again, 20, |_| ()).is_some(), present, "key {i}");
    }
}

#[test]
fn samples_find_the_remaining_keys() {
    let index = HotRing::<Bytes>::new(Config { slots_max: 1 << 12, ..Config::default() })
        .expect("a valid configuration");
    let mut s = index.session();
    assert!(s.sample(7, 1, |_| ()).is_none());
    for i in 0..3_000u32 {
        let expiry = if i == 1_234 { Expiry::Never } else { Expiry::At(10) };
        s.put(&i.to_be_bytes(), bytes(b"v"), expiry, 1);
    }
    let mut seen = std::collections::HashSet::new();
    for i in 0..200u64 {
        seen.extend(s.sample(i << 57, 1, |entry| entry.key.to_vec()));
    }
    assert!(seen.len() > 60, "samples spread: {}", seen.len());
    for i in 0..20u64 {
        let key = s.sample(i << 59, 20, |entry| entry.key.to_vec());
        assert_eq!(key.as_deref(), Some(&1_234u32.to_be_bytes()[..]));
    }
}
