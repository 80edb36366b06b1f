//! Clearing in steps: keys are gone at one moment, memory later.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;

use hotring_store::{
    EvictionOptions, EvictionPolicy, Options, Session, SetExpiry, SetOperation, SetOptions, Store,
    StoreError,
};

const NOW: u64 = 1_700_000_000_000;
const KEYS: u64 = 20_000;

/// A store that clears everything in steps.
fn store() -> Store {
    Store::new(Options { cleared_at_once_max: 0, ..Options::default() }).unwrap()
}

fn key(n: u64) -> [u8; 8] {
    n.to_be_bytes()
}

fn put(session: &mut Session, n: u64, value: u64) {
    session.set(&key(n), &value.to_be_bytes(), SetOptions::default(), NOW).unwrap();
}

fn value(session: &mut Session, n: u64) -> Option<u64> {
    let read = |bytes: &[u8]| u64::from_be_bytes(bytes.try_into().expect("eight bytes"));
    session.get(&key(n), NOW, |value| read(&value.to_vec()))
}

fn filled(store: &Store, value: u64) -> Session {
    let mut session = store.session();
    (0..KEYS).for_each(|n| put(&mut session, n, value));
    session
}

/// The keys that a scan shows.
fn scanned(session: &mut Session) -> Vec<u64> {
    let (mut cursor, mut found) = (0, Vec::new());
    loop {
        cursor = session.scan(cursor, 100, NOW, |key, _| {
            found.push(u64::from_be_bytes(key.try_into().expect("eight bytes")));
        });
        if cursor == 0 {
            found.sort_unstable();
            return found;
        }
    }
}

#[test]
fn a_clear_frees_nothing_at_once_and_shows_nothing_any_more() {
    let store = store();
    let session = &mut filled(&store, 1);
    let options = SetOptions { expiry: SetExpiry::At(NOW + 10), ..SetOptions::default() };
    (0..100).for_each(|n| _ = session.set(&key(n), b"v", options, NOW).unwrap());
    let before = store.stats().index.bytes;
    session.clear();
    assert!(
        store.stats().index.bytes > before / 10 * 9,
        "a clear holds all keys: it must be short"
    );
    assert_eq!((session.len(), store.len(), store.keyspaces()), ((0, 0), 0, vec![]));
    assert_eq!((store.stats().index.items, store.stats().index.expiring), (0, 0));
    assert_eq!(scanned(session), []);
    assert_eq!(session.expire_due(NOW + 20, 100_000, |_, _| panic!("it was cleared")).removed, 0);
    // Each of these looks at segments that are stale still.
    assert!(!session.exists(&key(1), NOW) && value(session, 2).is_none());
    session.mget(&[&key(3), &key(4)], NOW, |_, value| assert!(value.is_none()));
    assert_eq!(session.incr_by(&key(5), 1, NOW), Ok(1));
    assert!(!session.remove(&key(6), NOW));
    assert_eq!((session.len(), scanned(session)), ((1, 0), vec![5]));
    let mut last = store.stats().index.bytes;
    for _ in 0..5 {
        (0..8).for_each(|_| assert!(session.clear_some()));
        let bytes = store.stats().index.bytes;
        assert!(bytes < last, "steps remove items");
        last = bytes;
    }
    while session.clear_some() {}
    (0..10).for_each(|_| session.collect());
    assert!(store.stats().index.bytes < before / 100, "{}", store.stats().index.bytes);
    assert_eq!((session.len(), scanned(session)), ((1, 0), vec![5]));
}

#[test]
fn what_is_written_during_a_clear_stays() {
    let store = store();
    let session = &mut filled(&store, 1);
    for round in 2..5 {
        // The next clear comes while this one is in progress.
        session.clear();
        let options = SetOptions::if_absent();
        for n in (0..KEYS).filter(|n| n % 3 == round % 3) {
            let bytes = round.to_be_bytes();
            assert!(session.set(&key(n), &bytes, options, NOW).unwrap().stored, "{n}");
            if n % 512 == 0 {
                session.clear_some();
            }
        }
        assert_eq!(session.len().0, (0..KEYS).filter(|n| n % 3 == round % 3).count() as u64);
    }
    while session.clear_some() {}
    for n in 0..KEYS {
        assert_eq!(value(session, n), (n % 3 == 1).then_some(4), "{n}");
    }
}

/// Readers, a scan and the steps of other sessions run beside clears. Once a clear has returned, no value from before
/// is seen, and no new one is lost.
#[test]
fn after_a_clear_no_session_sees_older_values() {
    const ROUNDS: u64 = 30;
    let (store, cleared, is_over) = (store(), AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            let session = &mut store.session();
            for round in 1..=ROUNDS {
                (0..KEYS / 4).for_each(|n| put(session, n, round));
                for n in (0..KEYS / 4).step_by(97) {
                    assert_eq!(value(session, n), Some(round), "key {n} of round {round} is lost");
                }
                session.clear();
                cleared.store(round, SeqCst);
            }
            is_over.store(true, SeqCst);
        });
        scope.spawn(|| {
            let session = &mut store.session();
            while !is_over.load(SeqCst) {
                if !session.clear_some() {
                    thread::yield_now();
                }
            }
        });
        for reader in 0..2 {
            let (store, cleared, is_over) = (&store, &cleared, &is_over);
            scope.spawn(move || {
                let session = &mut store.session();
                let mut n = reader;
                while !is_over.load(SeqCst) {
                    n = (n * 5 + 3) % (KEYS / 4);
                    let before = cleared.load(SeqCst);
                    let check = |seen: u64| assert!(seen > before, "{seen} after clear {before}");
                    if reader == 0 {
                        value(session, n).into_iter().for_each(check);
                        let keys = [&key(n)[..], &key(n + 1)];
                        session.mget(&keys, NOW, |_, value| {
                            let seen = value.map(|value| value.to_vec());
                            let read = |bytes: Vec<u8>| bytes.try_into().expect("eight bytes");
                            if let Some(seen) = seen {
                                check(u64::from_be_bytes(read(seen)));
                            }
                        });
                    } else {
                        session.scan(n << 52, 50, NOW, |_, value| {
                            let bytes = value.to_vec().try_into().expect("eight bytes");
                            check(u64::from_be_bytes(bytes));
                        });
                    }
                }
            });
        }
    });
}

#[test]
fn databases_are_cleared_each_for_itself() {
    let store = store();
    let session = &mut filled(&store, 1);
    session.select(1);
    (0..100).for_each(|n| put(session, n, 2));
    session.select(0);
    session.clear();
    session.swap_databases(0, 1);
    assert_eq!((session.len().0, value(session, 7)), (100, Some(2)));
    session.select(1);
    assert_eq!((session.len().0, value(session, 7)), (0, None));
    session.clear_all();
    while session.clear_some() {}
    assert_eq!((store.len(), store.stats().index.items), (0, 0));
}

#[test]
fn a_random_key_is_a_present_one() {
    let store = store();
    let session = &mut filled(&store, 1);
    session.clear();
    assert_eq!(session.random_key(7, NOW), None);
    (0..KEYS).for_each(|n| put(session, n, 2));
    session.clear();
    put(session, 5, 3);
    assert_eq!(session.random_key(7, NOW), Some(key(5).to_vec()));
}

/// Memory that a clear has left must not refuse or evict new keys for long.
#[test]
fn writes_at_the_memory_limit_free_what_a_clear_has_left() {
    for policy in [EvictionPolicy::NoEviction, EvictionPolicy::AllKeysLru] {
        let store = store();
        store.set_eviction(EvictionOptions { policy, ..EvictionOptions::default() }).unwrap();
        let session = &mut filled(&store, 1);
        let stats = store.stats().index;
        store.set_memory_max(stats.table_bytes + stats.bytes / 2);
        assert!(policy != EvictionPolicy::NoEviction || session.admit().is_err());
        session.clear();
        let mut put = |n: u64| session.set(&key(n), b"v", SetOptions::default(), NOW);
        let refused =
            (0..500).filter(|_| matches!(put(1), Err(StoreError::OutOfMemory(_)))).count();
        assert!(refused < 499, "{policy:?}: {refused} writes were refused");
        assert!(put(1).is_ok() && session.exists(&key(1), NOW), "{policy:?}");
    }
}

#[test]
fn a_result_has_nothing_of_cleared_sources() {
    let store = store();
    let session = &mut filled(&store, 1);
    session.set_add(b"one", &[b"a", b"b"], NOW).unwrap();
    session.set_add(b"two", &[b"b"], NOW).unwrap();
    session.clear();
    for operation in [SetOperation::Union, SetOperation::Intersection, SetOperation::Difference] {
        assert_eq!(session.set_store(operation, b"to", &[b"one"], NOW), Ok(0));
        assert_eq!(session.set_store(operation, b"to", &[b"one", b"two"], NOW), Ok(0));
    }
    assert_eq!(session.len(), (0, 0));
}
