//! A reader that stays in its callback: memory stays bounded, writes say who is in the way, the
//! rest goes on, and when the reader ends so does the refusal.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Scope;

use hotring_store::index::Config;
use hotring_store::{
    ExpireCondition, Options, Session, SetExpiry, SetOptions, Store, StoreError, TtlChange,
};

const NOW: u64 = 1_700_000_000_000;
const LATER: u64 = NOW + 1_000;
const LIMIT: u64 = 1 << 20;
/// Bytes that one session may remove before it checks the waiting amount.
const SLACK: u64 = 256 << 10;
/// More than an item here takes.
const ITEM: u64 = 200;
const KEYS: usize = 100;

fn store() -> Store {
    let index = Config { limbo_max: LIMIT, ..Config::default() };
    Store::new(Options { index, ..Options::default() }).expect("the settings are good")
}

fn key(i: usize) -> Vec<u8> {
    format!("key:{}", i % KEYS).into_bytes()
}

fn overwrite(session: &mut Session, i: usize) -> Result<(), StoreError> {
    session.set(&key(i), &[b'v'; 100], SetOptions::default(), NOW).map(drop)
}

fn fill(session: &mut Session) {
    (0..KEYS).for_each(|i| overwrite(session, i).expect("nobody is stalled"));
}

fn overwrite_until_refused(session: &mut Session) -> StoreError {
    let refused = (0..1_000_000).find_map(|i| overwrite(session, i).err());
    refused.expect("a million writes were let through")
}

/// Starts a thread that reads key 0 and stays in the callback until it is told to go on; returns
/// once it is there.
fn stall<'s>(
    scope: &'s Scope<'s, '_>,
    store: &Store,
    name: &'static str,
) -> (Sender<()>, Receiver<()>) {
    let mut session = store.session_named(name);
    let ((go_on, told), (done, is_done), (enter, entered)) = (channel(), channel(), channel());
    scope.spawn(move || {
        session.get(&key(0), NOW, |value| {
            enter.send(()).expect("the test waits for it");
            // An error: the test has failed and dropped the other end.
            let _: Result<(), _> = told.recv();
            assert_eq!(value.len(), 100, "what is being read stays what it was");
        });
        let _ = done.send(());
    });
    entered.recv().expect("the reader finds its key");
    (go_on, is_done)
}

#[test]
fn a_stalled_reader_costs_a_bounded_amount_of_memory() {
    let store = store();
    let mut writer = store.session_named("writer");
    fill(&mut writer);
    let live = store.stats().index.bytes;
    std::thread::scope(|scope| {
        let (go_on, is_done) = stall(scope, &store, "reader 7");
        let error = overwrite_until_refused(&mut writer);
        let StoreError::Stalled(stalled) = &error else { panic!("{error}") };
        assert_eq!((stalled.session.as_str(), stalled.limbo_max), ("reader 7", LIMIT));
        assert!(error.to_string().contains("'reader 7'"), "{error}");
        assert_eq!(store.stalled().map(|s| s.session).as_deref(), Some("reader 7"));
        for i in 0..100_000 {
            assert!(overwrite(&mut writer, i).is_err(), "write {i}");
        }
        let full = store.stats().index;
        assert!(full.limbo_bytes <= LIMIT + SLACK + 2 * ITEM, "{full:?}");
        assert!(full.bytes <= live + LIMIT + SLACK + 2 * ITEM, "{full:?}");
        // Another session is no way round it, and needs no time to find out.
        let mut other = store.session();
        assert!(overwrite(&mut other, 1).is_err());
        assert_eq!(other.get(&key(1), NOW, |value| value.len()), Some(100));
        assert!(other.remove(&key(1), NOW));
        assert_eq!(store.stats().index.bytes, full.bytes, "a removal makes it no more");
        go_on.send(()).expect("the reader waits for it");
        is_done.recv().expect("the reader ends");
    });
    for i in 0..20_000 {
        assert_eq!(overwrite(&mut writer, i), Ok(()), "write {i} after the reader's end");
    }
    let after = store.stats().index;
    assert!(after.limbo_bytes <= 2 * SLACK, "{after:?}");
    assert_eq!(store.stalled(), None);
}

type Call = fn(&mut Session) -> Result<(), StoreError>;
type Check = fn(&mut Session) -> bool;

/// Every operation that may take memory.
const TAKING: &[(&str, Call)] = &[
    ("set", |s| overwrite(s, 1)),
    ("set a new key", |s| s.set(b"new", b"1", SetOptions::default(), NOW).map(drop)),
    ("set nx", |s| s.set(b"new", b"1", SetOptions::if_absent(), NOW).map(drop)),
    ("set xx", |s| s.set(b"key:1", b"1", SetOptions::if_present(), NOW).map(drop)),
    ("set with an expiry", |s| {
        let options = SetOptions { expiry: SetExpiry::At(LATER), ..SetOptions::default() };
        s.set(b"key:1", b"1", options, NOW).map(drop)
    }),
    ("set keepttl", |s| {
        let options = SetOptions { expiry: SetExpiry::Keep, ..SetOptions::default() };
        s.set(b"key:1", b"1", options, NOW).map(drop)
    }),
    ("get_set", |s| s.get_set(b"key:1", b"1", NOW).map(drop)),
    ("append", |s| s.append(b"key:1", b"1", NOW).map(drop)),
    ("set_range", |s| s.set_range(b"key:1", 3, b"1", NOW).map(drop)),
    ("incr_by", |s| s.incr_by(b"n", 1, NOW).map(drop)),
    ("incr_by_float", |s| s.incr_by_float(b"n", b"1.5", NOW).map(drop)),
    ("mset of one", |s| s.mset(&[(b"key:1", b"1")], NOW)),
    ("mset", |s| s.mset(&[(b"key:1", b"1"), (b"key:2", b"1")], NOW)),
    ("mset_nx", |s| s.mset_nx(&[(b"x", b"1"), (b"y", b"1")], NOW).map(drop)),
    ("rename", |s| s.rename(b"key:1", b"x", NOW)),
    ("rename_nx", |s| s.rename_nx(b"key:1", b"x", NOW).map(drop)),
    ("copy", |s| s.copy(b"key:1", b"x", true, NOW).map(drop)),
    ("expire_at", |s| s.expire_at(b"key:1", LATER, ExpireCondition::Always, NOW).map(drop)),
    ("persist", |s| s.persist(b"n", NOW).map(drop)),
    ("get_ex", |s| s.get_ex(b"key:1", TtlChange::At(LATER), NOW, |_, _| ()).map(drop)),
    ("get_ex persist", |s| s.get_ex(b"n", TtlChange::Persist, NOW, |_, _| ()).map(drop)),
    ("version", |s| s.version(b"key:1", NOW).map(drop)),
    // Not in the stripe of what is being read, which an exclusive closure would wait for.
    ("within a closure", |s| s.exclusive(&[b"key:1"], |s| overwrite(s, 1))),
];

/// Every other operation, on keys of its own where it removes; the answer tells that it ran.
const OTHERS: &[(&str, Check)] = &[
    ("get", |s| s.get(b"key:1", NOW, |v| v.len()) == Some(100)),
    ("mget", |s| {
        let mut found = 0;
        s.mget(&[b"key:1", b"key:2"], NOW, |_, value| found += usize::from(value.is_some()));
        found == 2
    }),
    ("strlen", |s| s.strlen(b"key:1", NOW).unwrap() == 100),
    ("get_range", |s| s.get_range(b"key:1", 0, 3, NOW, |bytes, _| bytes == b"vvvv").unwrap()),
    ("exists", |s| s.exists_many(&[b"key:1", b"key:2"], NOW) == 2),
    ("expiry", |s| s.expiry(b"n", NOW) == Some(Some(LATER))),
    ("memory", |s| s.memory(b"key:1", NOW).is_some()),
    ("get_ex", |s| s.get_ex(b"n", TtlChange::Leave, NOW, |_, _| ()) == Ok(Some(()))),
    ("scan", |s| {
        let mut keys = 0;
        s.scan(0, 10, NOW, |_, _| keys += 1);
        keys >= 10
    }),
    ("random_key", |s| s.random_key(5, NOW).is_some()),
    ("remove", |s| s.remove(b"key:10", NOW)),
    ("remove_many", |s| s.remove_many(&[b"key:11", b"key:12"], NOW) == 2),
    ("get_del", |s| s.get_del(b"key:13", NOW).unwrap().is_some()),
    ("expire_at in the past", |s| {
        s.expire_at(b"key:14", NOW, ExpireCondition::Always, NOW) == Ok(true)
    }),
    ("get_ex in the past", |s| {
        s.get_ex(b"key:15", TtlChange::At(NOW), NOW, |_, _| ()) == Ok(Some(()))
    }),
    ("set in the past", |s| {
        let options = SetOptions { expiry: SetExpiry::At(NOW), ..SetOptions::default() };
        s.set(b"key:16", b"1", options, NOW).is_ok_and(|outcome| outcome.stored)
            && !s.exists(b"key:16", NOW)
    }),
    ("expire_due", |s| s.expire_due(LATER, 1_000, |_, _| {}).removed == 1),
    ("clear", |s| {
        s.clear();
        !s.exists(b"key:1", NOW)
    }),
];

#[test]
fn only_commands_that_take_memory_are_refused() {
    let store = store();
    let mut writer = store.session();
    fill(&mut writer);
    let expires = SetOptions { expiry: SetExpiry::At(LATER), ..SetOptions::default() };
    writer.set(b"n", b"1", expires, NOW).expect("nobody is stalled");
    std::thread::scope(|scope| {
        let (go_on, is_done) = stall(scope, &store, "reader");
        overwrite_until_refused(&mut writer);
        let before = store.stats().index;
        for (name, call) in TAKING {
            let refused = matches!(call(&mut writer), Err(StoreError::Stalled(_)));
            assert!(refused, "{name} was not refused");
        }
        assert!(writer.admit().is_err());
        let after = store.stats().index;
        assert_eq!((after.bytes, after.items), (before.bytes, before.items), "nothing happened");
        for (name, call) in OTHERS {
            assert!(call(&mut writer), "{name}");
        }
        assert!(store.stats().index.bytes <= before.bytes, "the rest takes nothing");
        go_on.send(()).expect("the reader waits for it");
        is_done.recv().expect("the reader ends");
    });
    fill(&mut writer);
    for (name, call) in TAKING {
        let outcome = call(&mut writer);
        let gone = name.starts_with("rename_nx") && outcome == Err(StoreError::NoSuchKey);
        assert!(outcome.is_ok() || gone, "{name}: {outcome:?}");
    }
}

#[test]
fn many_short_sessions_have_one_limit() {
    let store = store();
    fill(&mut store.session());
    std::thread::scope(|scope| {
        let (go_on, is_done) = stall(scope, &store, "reader");
        let mut refused = 0;
        for round in 0..20_000 {
            let mut session = store.session();
            refused += (0..20).filter(|i| overwrite(&mut session, round + i).is_err()).count();
            if refused > 200 {
                break;
            }
        }
        assert!(refused > 200, "{refused} of 400,000 writes were refused");
        let full = store.stats().index;
        assert!(full.limbo_bytes <= LIMIT + SLACK, "{full:?}");
        go_on.send(()).expect("the reader waits for it");
        is_done.recv().expect("the reader ends");
    });
    let mut session = store.session();
    (0..20_000).for_each(|i| overwrite(&mut session, i).expect("nobody is stalled any more"));
    assert!(store.stats().index.limbo_bytes <= LIMIT / 2 + SLACK, "{:?}", store.stats());
}
