//! Several databases in one store: each is its own, whatever happens to the others, also after a restart.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hotring_log::storage::memory::Memory;
use hotring_log::{Effect, Snapshot, SnapshotWriter};
use hotring_store::{
    EvictionOptions, EvictionPolicy, ExpireCondition, KeyFates, Options, Session, SetOptions,
    SnapshotWalk, Store,
};

fn store() -> Store {
    Store::new(Options::default()).expect("it fits")
}

fn set(session: &mut Session, key: &[u8], value: &[u8]) {
    session.set(key, value, SetOptions::default(), 1).expect("room");
}

fn get(session: &mut Session, key: &[u8]) -> Option<Vec<u8>> {
    session.get(key, 1, |value| value.to_vec())
}

fn names(session: &mut Session) -> Vec<Vec<u8>> {
    let mut names = Vec::new();
    assert_eq!(session.scan(0, 1_000_000, 1, |key, _| names.push(key.to_vec())), 0);
    names.sort();
    names
}

#[test]
fn each_has_keys_of_its_own() {
    let store = store();
    let mut session = store.session();
    for number in [0, 1, 255] {
        session.select(number);
        set(&mut session, b"k", &[number]);
        set(&mut session, &[number], b"v");
    }
    for number in [0, 1, 255] {
        session.select(number);
        assert_eq!(get(&mut session, b"k"), Some(vec![number]));
        let mut expected = vec![vec![number], b"k".to_vec()];
        expected.sort();
        assert_eq!(names(&mut session), expected);
        assert_eq!(session.len(), (2, 0));
    }
    assert_eq!(store.len(), 6);
    session.select(1);
    session.clear();
    assert_eq!(store.keyspaces(), [(0, 2, 0), (255, 2, 0)]);
    session.clear_all();
    assert!(store.is_empty() && store.keyspaces().is_empty());
}

#[test]
fn a_key_moves_once_and_a_copy_takes_all_types() {
    let store = store();
    let mut session = store.session();
    let long = vec![7; 1 << 20];
    set(&mut session, b"k", &long);
    assert_eq!(session.move_to(b"k", 3, 1), Ok(true));
    assert_eq!((get(&mut session, b"k"), session.move_to(b"k", 3, 1)), (None, Ok(false)));
    set(&mut session, b"k", b"other");
    assert_eq!(session.move_to(b"k", 3, 1), Ok(false), "it is there already");
    let fields: Vec<_> = (0..2_000u32).map(|n| n.to_le_bytes()).collect();
    for field in &fields {
        session.hash_set(b"h", &[(&field[..], &field[..])], 1).expect("room");
    }
    assert_eq!(session.copy_to(b"h", (3, b"to"), false, 1), Ok(true));
    assert_eq!(session.copy_to(b"h", (3, b"to"), false, 1), Ok(false));
    assert_eq!(session.copy_to(b"h", (3, b"to"), true, 1), Ok(true));
    session.hash_set(b"h", &[(b"more", b"v")], 1).expect("room");
    session.select(3);
    assert_eq!(get(&mut session, b"k"), Some(long));
    assert_eq!(
        session.hash(b"to", 1, |hash| hash.count()),
        Ok(Some(2_000)),
        "the copy is not the other"
    );
}

/// A hash of which no field's time was left once moved to another database, or had a copy there.
#[test]
fn a_hash_without_a_field_whose_time_is_left_stays_where_it_is() {
    let store = store();
    let mut session = store.session();
    session.hash_set(b"h", &[(b"f", b"v")], 1).expect("room");
    session.hash_expire_at(b"h", 5, ExpireCondition::Always, &[b"f"], 1).expect("room");
    assert_eq!(session.copy(b"h", b"to", false, 5), Ok(false));
    assert_eq!(session.copy_to(b"h", (1, b"h"), false, 5), Ok(false));
    assert_eq!(session.move_to(b"h", 1, 5), Ok(false));
    assert_eq!(session.copy_to(b"h", (1, b"h"), false, 4), Ok(true));
    assert_eq!(session.move_to(b"h", 1, 4), Ok(false), "it is there already");
    set(&mut session, b"k", b"v");
    assert_eq!(session.copy_to(b"k", (1, b"h"), false, 5), Ok(true), "it is as good as absent");
}

/// Readers see each pair of databases as it was before or after a swap: the values of two keys read at one moment are
/// those of one database.
#[test]
fn a_swap_is_at_one_moment() {
    let store = store();
    let mut session = store.session();
    for number in [0, 1] {
        session.select(number);
        session.mset(&[(b"a", &[number]), (b"b", &[number])], 1).expect("room");
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for reader in [0, 1] {
            let (store, done) = (&store, &done);
            scope.spawn(move || {
                let mut session = store.session();
                let mut seen = 0;
                // ORDERING: Relaxed, a flag.
                while !done.load(Ordering::Relaxed) || seen == 0 {
                    session.select(reader);
                    let mut values = Vec::new();
                    session.mget(&[b"a", b"b"], 1, |_, value| {
                        values.push(value.expect("it is there").to_vec());
                    });
                    assert_eq!(values[0], values[1]);
                    seen += 1;
                }
            });
        }
        let mut session = store.session();
        (0..1_001).for_each(|_| session.swap_databases(0, 1));
        // ORDERING: Relaxed, as above.
        done.store(true, Ordering::Relaxed);
    });
    session.select(0);
    assert_eq!(get(&mut session, b"a"), Some(vec![1]), "an odd number of swaps");
    session.select(1);
    assert_eq!(get(&mut session, b"a"), Some(vec![0]));
}

#[test]
fn a_swap_changes_watched_keys_and_other_databases_do_not() {
    let store = store();
    let (mut session, mut other) = (store.session(), store.session());
    set(&mut session, b"k", b"v");
    let (there, absent) =
        (session.key_state(b"k", 1).unwrap(), session.key_state(b"no", 1).unwrap());
    other.select(1);
    set(&mut other, b"k", b"w");
    set(&mut other, b"no", b"w");
    session.select(5);
    assert!(session.is_unchanged(&there, 1) && session.is_unchanged(&absent, 1));
    other.select(0);
    set(&mut other, b"no", b"w");
    assert!(session.is_unchanged(&there, 1) && !session.is_unchanged(&absent, 1));
    session.select(0);
    let absent = session.key_state(b"never", 1).unwrap();
    other.swap_databases(2, 3);
    assert!(session.is_unchanged(&there, 1) && session.is_unchanged(&absent, 1));
    (0..2).for_each(|_| other.swap_databases(0, 3));
    assert!(!session.is_unchanged(&there, 1) && !session.is_unchanged(&absent, 1));
}

/// A session that had not followed a swap once remembered the key of the old place under the stamp of the new one.
#[test]
fn a_watch_is_on_the_database_of_the_number() {
    let store = store();
    let (mut session, mut other) = (store.session(), store.session());
    set(&mut session, b"k", b"zero");
    other.select(1);
    set(&mut other, b"k", b"one");
    other.swap_databases(0, 1);
    let (there, absent) =
        (session.key_state(b"k", 1).unwrap(), session.key_state(b"no", 1).unwrap());
    other.select(0);
    set(&mut other, b"k", b"changed");
    set(&mut other, b"no", b"came");
    assert!(!session.is_unchanged(&there, 1) && !session.is_unchanged(&absent, 1));
}

/// The stamp was once read behind the version: a swap in between went unnoticed.
#[test]
fn a_swap_while_a_key_is_watched_is_noticed() {
    let store = store();
    let done = AtomicBool::new(false);
    let mut session = store.session();
    for number in [0, 1] {
        session.select(number);
        set(&mut session, b"k", &[number]);
    }
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut session = store.session();
            (0..8_000).for_each(|_| session.swap_databases(0, 1));
            // ORDERING: Relaxed, a flag.
            done.store(true, Ordering::Relaxed);
        });
        session.select(0);
        // ORDERING: Relaxed, as above.
        while !done.load(Ordering::Relaxed) {
            for key in [&b"k"[..], b"no"] {
                let state = session.key_state(key, 1).expect("it fits");
                session.exclusive_in_selected(&[], |session| {
                    let database_id = session.database_id();
                    assert!(!session.is_unchanged(&state, 1) || state.database_id() == database_id);
                });
            }
        }
    });
}

/// Exclusive work in the selected database happens in one database, that of its number. A wait for the
/// keys once let a swap go by.
#[test]
fn exclusive_work_uses_the_database_of_the_number() {
    let store = store();
    let done = AtomicBool::new(false);
    let mut session = store.session();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut session = store.session();
            (0..3_000).for_each(|_| session.swap_databases(0, 1));
            // ORDERING: Relaxed, a flag.
            done.store(true, Ordering::Relaxed);
        });
        // ORDERING: Relaxed, as above.
        while !done.load(Ordering::Relaxed) {
            for keys in [&[&b"a"[..], b"b"][..], &[]] {
                session.exclusive_in_selected(keys, |session| {
                    assert_eq!(session.database_id(), session.database_id_of(0));
                });
            }
        }
    });
}

/// Regression test: items removed in databases that sessions had left stayed there and counted as used: writes
/// elsewhere were refused, or evicted keys for it.
#[test]
fn memory_freed_in_one_database_is_free_for_others() {
    for policy in [EvictionPolicy::NoEviction, EvictionPolicy::AllKeysRandom] {
        let store = store();
        let mut sessions: Vec<_> = (0..8).map(|_| store.session()).collect();
        for number in 0..20 {
            sessions[0].select(number);
            (0..100u32).for_each(|n| set(&mut sessions[0], &n.to_le_bytes(), &[7; 1000]));
        }
        let used = store.stats().index.used_bytes();
        store
            .set_eviction(EvictionOptions { policy, ..EvictionOptions::default() })
            .expect("it fits");
        for session in &mut sessions {
            for number in 1..20 {
                session.select(number);
                (0..60u32).for_each(|n| set(session, format!("gone{n}").as_bytes(), &[7; 2000]));
                (0..60u32).for_each(|n| _ = session.remove(format!("gone{n}").as_bytes(), 1));
            }
            session.select(0);
        }
        let limbo = store.stats().index.limbo_bytes;
        assert!(limbo > 1 << 20, "{limbo}");
        store.set_memory_max(used + (1 << 20));
        let session = &mut sessions[0];
        for n in 0..400u32 {
            let key = format!("new{n}");
            session.set(key.as_bytes(), &[7; 1000], SetOptions::default(), 1).expect("room");
        }
        assert_eq!(store.stats().evicted, 0, "{policy:?}");
        assert_eq!(store.len(), 20 * 100 + 400);
    }
}

/// An idle session frees what others have removed where it was before.
#[test]
fn an_idle_session_frees_memory_of_databases_that_it_left() {
    let store = store();
    let (mut idle, mut other) = (store.session(), store.session());
    for session in [&mut idle, &mut other] {
        session.select(1);
        set(session, b"k", &[7; 4000]);
        session.remove(b"k", 1);
        session.select(0);
    }
    assert!(store.stats().index.limbo_bytes > 0);
    (0..8).for_each(|_| idle.collect());
    assert_eq!(store.stats().index.limbo_bytes, 0);
}

#[test]
fn the_limit_of_memory_is_that_of_all() {
    let store = store();
    let mut session = store.session();
    set(&mut session, b"k", b"v");
    session.select(1);
    set(&mut session, b"k", b"v");
    let max = store.stats().index.used_bytes() + (4 << 20);
    store.set_memory_max(max);
    let fill = |session: &mut Session| {
        let mut stored = 0u32;
        while stored < 20_000
            && session.set(&stored.to_le_bytes(), &[7; 1000], SetOptions::default(), 1).is_ok()
        {
            stored += 1;
        }
        stored
    };
    session.select(0);
    let first = fill(&mut session);
    assert!((3_000..5_000).contains(&first), "{first}");
    session.select(1);
    assert!(fill(&mut session) < 100, "it is full of the first one's keys");
    store
        .set_eviction(EvictionOptions {
            policy: EvictionPolicy::AllKeysRandom,
            ..EvictionOptions::default()
        })
        .expect("it fits");
    assert_eq!(fill(&mut session), 20_000, "keys of the other one go");
    assert!(store.stats().index.used_bytes() < max + (1 << 20));
}

/// A setting applies to databases that are created later, and the first one knows of them.
#[test]
fn a_database_that_comes_later_is_within_the_limit() {
    let store = store();
    let mut session = store.session();
    set(&mut session, b"k", b"v");
    store.set_memory_max(store.stats().index.used_bytes() + (8 << 20));
    for (number, expected) in [(7, 2_000..12_000), (0, 0..100)] {
        session.select(number);
        let mut n = 0u32;
        while session.set(&n.to_le_bytes(), &[7; 1000], SetOptions::default(), 1).is_ok() {
            n += 1;
            assert!(n < expected.end, "database {number}");
        }
        assert!(n >= expected.start, "database {number}: {n}");
    }
}

/// A log and a snapshot hold all data, with swaps in between.
#[test]
fn the_log_and_a_snapshot_know_the_databases() {
    let (memory, store) = (Memory::new(), store());
    let mut session = store.session();
    for number in [0, 1, 2] {
        session.select(number);
        set(&mut session, b"k", &[number]);
    }
    session.swap_databases(1, 2);
    let mut writer = SnapshotWriter::create(Arc::new(memory.clone()), [1; 16], 0).expect("room");
    let mut walk = SnapshotWalk::new(vec![b"k"[..].into()]);
    while walk.step(&mut session, &mut writer).expect("room") {}
    writer.finish(0).expect("room").publish(0).expect("room");
    let snapshot = Snapshot::newest(&memory).expect("it is whole").expect("there is one");
    let reopened = Store::new(Options::default()).expect("it fits");
    let mut session = reopened.session();
    let fates = [KeyFates::new(true)];
    let mut buffer = Vec::new();
    loop {
        session.go_to(0);
        let read = snapshot.read_block(u8::MAX, &mut buffer, &mut |effects: &[Effect<'_>]| {
            session.replay_rest(effects, 1, &fates).expect("the forms are known");
        });
        if read.expect("it is whole").is_none() {
            break;
        }
    }
    for (number, value) in [(0, 0), (1, 2), (2, 1)] {
        session.select(number);
        assert_eq!(get(&mut session, b"k"), Some(vec![value]), "database {number}");
    }
}
