//! Large hashes: as maps, under threads, and as values with expiry, key states and copies.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use hotring_store::{ExpireCondition, HashRef, Options, Session, Store, StoreError};

use super::random::Random;

const NOW: u64 = 1_700_000_000_000;

/// A store whose hashes are large from the third field on, or by one of more than 8 bytes.
fn store() -> Store {
    let (hash_packed_fields_max, hash_packed_len_max) = (2, 8);
    let options = Options { hash_packed_fields_max, hash_packed_len_max, ..Options::default() };
    Store::new(options).expect("it fits")
}

type Fields = BTreeMap<Vec<u8>, Vec<u8>>;

fn fields(hash: HashRef<'_>) -> Fields {
    let all: Fields = hash.iter().map(|(f, v)| (f.to_vec(), v.to_vec())).collect();
    assert_eq!((all.len(), hash.len()), (hash.iter().count(), all.len()));
    all
}

fn all(session: &mut Session, key: &[u8], now: u64) -> Fields {
    session.hash_walk(key, now, fields).expect("a hash").unwrap_or_default()
}

/// One operation on one of three hashes, and on its model. Returns whether something was done.
fn step(
    session: &mut Session,
    models: &mut BTreeMap<&'static [u8], Fields>,
    key: &'static [u8],
    random: &mut Random,
) -> bool {
    let model = models.entry(key).or_default();
    let field = format!("field {}", random.below(20)).into_bytes();
    let value = vec![b'v'; random.below(12) as usize];
    match random.below(20) {
        0..8 => {
            let other = format!("field {}", random.below(20)).into_bytes();
            let added = session.hash_set(key, &[(&field, b"1"), (&other, &value)], NOW);
            let before = model.len();
            model.insert(field, b"1".to_vec());
            model.insert(other, value);
            assert_eq!(added, Ok(model.len() - before));
            true
        }
        8..14 => {
            let removed = session.hash_remove(key, &[&field, b"none"], NOW);
            let was_there = model.remove(&field).is_some();
            assert_eq!(removed, Ok(usize::from(was_there)));
            was_there
        }
        14 => {
            let is_new = !model.contains_key(&field);
            assert_eq!(session.hash_set_nx(key, &field, &value, NOW), Ok(is_new));
            model.entry(field).or_insert(value);
            is_new
        }
        15..17 => {
            let old: i64 = model.get(&b"count"[..]).map_or(0, |text| number(text));
            assert_eq!(session.hash_incr_by(key, b"count", 7, NOW), Ok(old + 7));
            model.insert(b"count".to_vec(), (old + 7).to_string().into_bytes());
            true
        }
        17 if random.one_in(4) => {
            let removed = session.remove(key, NOW);
            assert_eq!(removed, !model.is_empty());
            model.clear();
            removed
        }
        _ => {
            let found = session.hash(key, NOW, |hash| hash.get(&field).map(<[u8]>::to_vec));
            assert_eq!(found, Ok((!model.is_empty()).then(|| model.get(&field).cloned())));
            false
        }
    }
}

fn number(text: &[u8]) -> i64 {
    std::str::from_utf8(text).expect("digits").parse().expect("a number")
}

#[test]
fn a_large_hash_is_as_a_map_and_tells_of_each_change() {
    const KEYS: [&[u8]; 3] = [b"a", b"b", b"c"];
    let store = store();
    let mut session = store.session();
    let mut random = Random::new(1);
    let mut models = BTreeMap::new();
    let mut large = 0;
    for round in 0..20_000 {
        let key = random.pick(&KEYS);
        let state = session.key_state(key, NOW).expect("room");
        let changes = step(&mut session, &mut models, key, &mut random);
        assert_eq!(session.is_unchanged(&state, NOW), !changes, "{round}");
        assert_eq!(session.exists(key, NOW), !models[key].is_empty());
        if random.one_in(20) {
            let to = random.pick(&KEYS);
            let from = models.get(key).cloned().unwrap_or_default();
            if !from.is_empty() && to != key {
                match random.one_in(2) {
                    true => assert_eq!(session.copy(key, to, true, NOW), Ok(true)),
                    false => {
                        assert_eq!(session.rename(key, to, NOW), Ok(()));
                        models.insert(key, Fields::new());
                    }
                }
                models.insert(to, from);
            }
        }
        for key in KEYS {
            assert_eq!(all(&mut session, key, NOW), models.get(key).cloned().unwrap_or_default());
            let is_large = session.hash(key, NOW, |hash| !hash.is_packed());
            large += usize::from(is_large == Ok(Some(true)));
        }
    }
    assert!(large > 10_000, "{large}");
}

#[test]
fn a_large_hash_expires_counts_and_is_of_its_type() {
    let store = store();
    let before = store.stats().index.used_bytes();
    let mut session = store.session();
    for i in 0..10_000 {
        let field = format!("field {i}");
        session.hash_set(b"h", &[(field.as_bytes(), b"a value")], NOW).expect("room");
    }
    let taken = store.stats().index.used_bytes() - before;
    assert!((10_000 * 17..10_000 * 40).contains(&taken), "{taken}");
    assert_eq!(session.append(b"h", b"x", NOW), Err(StoreError::WrongType));
    assert_eq!(session.incr_by(b"h", 1, NOW), Err(StoreError::WrongType));
    assert!(session.expire_at(b"h", NOW + 5, ExpireCondition::Always, NOW).expect("room"));
    session.hash_set(b"h", &[(b"field", b"late")], NOW + 1).expect("room");
    assert_eq!(session.expiry(b"h", NOW + 1), Some(Some(NOW + 5)), "it keeps the expiry");
    assert_eq!(all(&mut session, b"h", NOW + 4).len(), 10_001);
    assert_eq!(session.hash(b"h", NOW + 5, |hash| hash.len()), Ok(None));
    session.hash_set(b"h", &[(b"new", b"1")], NOW + 5).expect("room");
    assert_eq!(all(&mut session, b"h", NOW + 5).len(), 1);
    session.remove(b"h", NOW + 5);
    (0..200).for_each(|_| session.collect());
    let left = store.stats().index.used_bytes().saturating_sub(before);
    assert!(left < 20_000, "{left}");
}

#[test]
fn a_walk_in_parts_meets_all_permanent_parts() {
    let store = store();
    let mut session = store.session();
    for i in 0..1_000 {
        session.hash_set(b"h", &[(format!("f{i}").as_bytes(), b"v")], NOW).expect("room");
    }
    let (mut cursor, mut met, mut calls) = (0, Fields::new(), 0);
    loop {
        let found = session.hash(b"h", NOW, |hash| {
            hash.scan(cursor, 10, |field, value| _ = met.insert(field.into(), value.into()))
        });
        cursor = found.expect("a hash").expect("it is there");
        calls += 1;
        if cursor == 0 {
            break;
        }
        session.hash_set(b"h", &[(format!("new {calls}").as_bytes(), b"")], NOW).expect("room");
    }
    assert!(calls > 10, "{calls}");
    assert!((0..1_000).all(|i| met.contains_key(format!("f{i}").as_bytes())));
}

/// Writers of the same hash, which others empty and remove; readers of two fields that always change together.
#[test]
fn threads_change_a_large_hash_one_after_the_other() {
    /// Readers end also when a writer panics.
    struct Stop<'a>(&'a AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Relaxed);
        }
    }
    const ROUNDS: u64 = 3_000;
    let store = store();
    store.session().hash_set(b"h", &[(b"x", b"0"), (b"y", b"0"), (b"z", b"0")], NOW).expect("room");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3)
            .map(|thread| {
                let mut session = store.session();
                scope.spawn(move || {
                    for i in 0..ROUNDS {
                        session.hash_incr_by(b"h", b"count", 1, NOW).expect("room");
                        let value = format!("{thread} {i}");
                        let pair = [(&b"x"[..], value.as_bytes()), (b"y", value.as_bytes())];
                        session.hash_set(b"h", &pair, NOW).expect("room");
                        let own = format!("own {thread}");
                        assert_eq!(session.hash_set(b"h", &[(own.as_bytes(), b"1")], NOW), Ok(1));
                        assert_eq!(session.hash_remove(b"h", &[own.as_bytes()], NOW), Ok(1));
                        // The last field goes with the key, and another thread's comes at the same time.
                        session
                            .hash_set(b"short", &[(own.as_bytes(), b"long enough")], NOW)
                            .unwrap();
                        assert_eq!(session.hash_remove(b"short", &[own.as_bytes()], NOW), Ok(1));
                    }
                })
            })
            .collect();
        for _ in 0..2 {
            let mut session = store.session();
            let stop = &stop;
            scope.spawn(move || {
                while !stop.load(Relaxed) {
                    let both = session.hash(b"h", NOW, |hash| {
                        assert_eq!(hash.get(b"x"), hash.get(b"y"));
                    });
                    assert_eq!(both, Ok(Some(())));
                    session
                        .hash_walk(b"h", NOW, |hash| assert_eq!(hash.get(b"x"), hash.get(b"y")))
                        .unwrap();
                }
            });
        }
        let _stop = Stop(&stop);
        writers.into_iter().for_each(|writer| writer.join().expect("no panic"));
    });
    let mut session = store.session();
    let count = session.hash(b"h", NOW, |hash| number(hash.get(b"count").expect("it is there")));
    assert_eq!(count, Ok(Some(3 * ROUNDS as i64)));
    assert_eq!(all(&mut session, b"h", NOW).len(), 4);
    assert!(!session.exists(b"short", NOW));
}

/// Changes in place make no items, so they must check the memory limit themselves.
#[test]
fn a_large_hash_stops_at_the_limit_of_memory() {
    let store = store();
    let mut session = store.session();
    let limit = store.stats().index.used_bytes() + (4 << 20);
    store.set_memory_max(limit);
    let value = [b'v'; 100];
    let stops = (0..200_000).find(|i| {
        let field = format!("field {i}");
        session.hash_set(b"h", &[(field.as_bytes(), &value)], NOW).is_err()
    });
    assert!(stops.is_some(), "it grows for ever");
    let used = store.stats().index.used_bytes();
    assert!(used < limit + (1 << 20), "{used} of {limit}");
    // Removals are not refused, nor is the copy admitted.
    assert_eq!(session.hash_remove(b"h", &[b"field 1"], NOW), Ok(1));
    assert!(matches!(session.copy(b"h", b"c", true, NOW), Err(StoreError::OutOfMemory(_))));
}
