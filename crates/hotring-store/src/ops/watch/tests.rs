//! Which operations those who wait are told of, and when.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use crate::{
    EvictionOptions, EvictionPolicy, ExpireCondition, NumberKind, Options, Session, SetCondition,
    SetExpiry, SetOptions, Store, StoreError, TtlChange, Watch, Watched,
};

const NOW: u64 = 1_700_000_000_000;
const LONG: &[u8] = b"a value that is longer than a word";

/// Counts how often it was woken.
#[derive(Default)]
struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

fn set(s: &mut Session, key: &[u8], value: &[u8]) {
    s.set(key, value, SetOptions::default(), NOW).unwrap();
}

fn set_until(s: &mut Session, key: &[u8], at: u64) {
    let options = SetOptions { expiry: SetExpiry::At(at), ..SetOptions::default() };
    s.set(key, b"until", options, NOW).unwrap();
}

fn watch(s: &mut Session, key: &[u8], expected: Option<&[u8]>) -> Watch {
    s.watch(key, expected, Waker::noop().clone(), NOW).unwrap()
}

type Operation = fn(&mut Session);

/// The outcome of a wait for `k`, which has a value, while another session does `operation`; without
/// and with a history.
#[track_caller]
fn check(fires: bool, operations: &[(&str, Operation)]) {
    for history in [0, 2] {
        for value in [b"5", LONG] {
            for (name, operation) in operations {
                let options = Options { history, ..Options::default() };
                let store = Store::new(options).unwrap();
                let (mut a, mut b) = (store.session(), store.session());
                set(&mut a, b"k", value);
                let bell = Arc::new(Bell::default());
                let watch = a.watch(b"k", None, bell.clone().into(), NOW).unwrap();
                assert!(!watch.has_fired());
                operation(&mut b);
                let what = format!("{name}, history {history}, {}", value.escape_ascii());
                assert_eq!(watch.has_fired(), fires, "{what}");
                assert!(!fires || bell.0.load(Relaxed) == 1, "{what}");
                assert_eq!(a.poll_watch(&watch, NOW) == Watched::Fired, fires, "{what}");
            }
        }
    }
}

#[test]
fn every_write_of_the_value_is_a_change() {
    check(
        true,
        &[
            ("SET", |s| set(s, b"k", b"6")),
            ("SET of the same", |s| set(s, b"k", b"5")),
            ("SET of a long one", |s| set(s, b"k", &[b'x'; 100])),
            ("SET KEEPTTL", |s| {
                let keep = SetOptions { expiry: SetExpiry::Keep, ..SetOptions::default() };
                s.set(b"k", b"6", keep, NOW).unwrap();
            }),
            ("SET XX", |s| {
                assert!(s.set(b"k", b"6", SetOptions::if_present(), NOW).unwrap().stored)
            }),
            ("SET with an expiry", |s| set_until(s, b"k", NOW + 9)),
            ("SET that has expired", |s| set_until(s, b"k", NOW)),
            ("GETSET", |s| drop(s.get_set(b"k", b"6", NOW).unwrap())),
            ("GETDEL", |s| drop(s.get_del(b"k", NOW).unwrap())),
            ("APPEND", |s| drop(s.append(b"k", b"", NOW))),
            ("SETRANGE", |s| drop(s.set_range(b"k", 0, b"6", NOW))),
            ("DEL", |s| assert!(s.remove(b"k", NOW))),
            ("DEL of two", |s| assert_eq!(s.remove_many(&[b"x", b"k"], NOW), 1)),
            ("MSET", |s| s.mset(&[(b"k", b"6")], NOW).unwrap()),
            ("MSET of two", |s| s.mset(&[(b"x", b"6"), (b"k", b"6")], NOW).unwrap()),
            ("RENAME from", |s| s.rename(b"k", b"x", NOW).unwrap()),
            ("RENAME to", |s| {
                set(s, b"x", b"6");
                s.rename(b"x", b"k", NOW).unwrap();
            }),
            ("COPY to", |s| {
                set(s, b"x", b"6");
                assert!(s.copy(b"x", b"k", true, NOW).unwrap());
            }),
            ("EXPIRE in the past", |s| {
                assert!(s.expire_at(b"k", NOW, ExpireCondition::Always, NOW).unwrap());
            }),
            ("GETEX in the past", |s| {
                s.get_ex(b"k", TtlChange::At(NOW), NOW, |_, _| ()).unwrap().unwrap();
            }),
            ("FLUSHALL", |s| s.clear()),
            ("a transaction", |s| s.exclusive(&[b"k"], |s| set(s, b"k", b"6"))),
            ("a change and back", |s| {
                let old = s.get(b"k", NOW, |v| v.to_vec()).unwrap();
                set(s, b"k", b"6");
                set(s, b"k", &old);
            }),
        ],
    );
}

#[test]
fn operations_without_a_write_are_not_changes() {
    check(
        false,
        &[
            ("GET", |s| drop(s.get(b"k", NOW, |v| v.to_vec()))),
            ("SET NX", |s| {
                assert!(!s.set(b"k", b"6", SetOptions::if_absent(), NOW).unwrap().stored)
            }),
            ("SET of another value", |s| {
                let condition = SetCondition::IfEqual(b"7");
                let options = SetOptions { condition, ..SetOptions::default() };
                assert!(!s.set(b"k", b"6", options, NOW).unwrap().stored);
            }),
            ("MSETNX", |s| assert!(!s.mset_nx(&[(b"k", b"6"), (b"x", b"6")], NOW).unwrap())),
            ("SETRANGE of nothing", |s| drop(s.set_range(b"k", 0, b"", NOW))),
            ("EXPIRE", |s| {
                assert!(s.expire_at(b"k", NOW + 9, ExpireCondition::Always, NOW).unwrap());
            }),
            ("PERSIST", |s| assert!(!s.persist(b"k", NOW).unwrap())),
            ("GETEX", |s| {
                s.get_ex(b"k", TtlChange::At(NOW + 9), NOW, |_, _| ()).unwrap().unwrap();
                s.get_ex(b"k", TtlChange::Persist, NOW, |_, _| ()).unwrap().unwrap();
            }),
            ("a version", |s| assert!(s.version(b"k", NOW).unwrap().is_some())),
            ("COPY from", |s| assert!(s.copy(b"k", b"x", true, NOW).unwrap())),
            ("RENAME to itself", |s| s.rename(b"k", b"k", NOW).unwrap()),
            ("ROLLBACK to nothing", |s| drop(s.roll_back(b"k", 9, NOW))),
            ("other keys", |s| {
                for i in 0..1_000u32 {
                    set(s, &i.to_le_bytes(), b"6");
                    assert!(s.remove(&i.to_le_bytes(), NOW));
                }
            }),
        ],
    );
}

#[test]
fn numbers_and_rollbacks_are_writes_too() {
    let store = Store::new(Options { history: 2, ..Options::default() }).unwrap();
    let mut s = store.session();
    set(&mut s, b"k", b"5");
    let operations: [Operation; 3] = [
        |s| assert_eq!(s.incr_by(b"k", 0, NOW), Ok(5)),
        |s| drop(s.incr_by_float(b"k", b"0.5", NOW).unwrap()),
        |s| assert!(s.roll_back(b"k", 1, NOW).unwrap()),
    ];
    for operation in operations {
        let watch = watch(&mut s, b"k", None);
        operation(&mut s);
        assert!(watch.has_fired());
    }
    let watch = watch(&mut s, b"k", None);
    set(&mut s, b"x", b"text");
    assert_eq!(s.incr_by(b"x", 1, NOW), Err(StoreError::NotANumber(NumberKind::Integer)));
    assert!(!watch.has_fired());
}

#[test]
fn a_key_that_comes_has_changed_and_one_that_stays_away_has_not() {
    let store = Store::new(Options::default()).unwrap();
    let mut s = store.session();
    let watched = watch(&mut s, b"k", None);
    assert!(!s.remove(b"k", NOW));
    assert_eq!(s.get_del(b"k", NOW).unwrap(), None);
    set_until(&mut s, b"k", NOW);
    s.clear();
    assert!(!s.set(b"k", b"6", SetOptions::if_present(), NOW).unwrap().stored);
    assert_eq!(s.poll_watch(&watched, NOW), Watched::Waiting { until: None });
    assert_eq!(s.incr_by(b"k", 1, NOW), Ok(1));
    assert_eq!(s.poll_watch(&watched, NOW), Watched::Fired);
}

#[test]
fn an_expected_value_is_met_at_once_or_when_it_comes_and_never_missed() {
    for history in [0, 2] {
        let store = Store::new(Options { history, ..Options::default() }).unwrap();
        let mut s = store.session();
        set(&mut s, b"k", b"10");
        set(&mut s, b"k", b"12");
        assert!(watch(&mut s, b"k", Some(b"12")).has_fired());
        let [number, text, same, none] =
            [&b"14"[..], LONG, b"012", b""].map(|text| watch(&mut s, b"k", Some(text)));
        assert!(s.remove(b"k", NOW));
        s.clear();
        assert_eq!(
            s.poll_watch(&none, NOW),
            Watched::Waiting { until: None },
            "no value is no empty one"
        );
        set(&mut s, b"k", b"13");
        assert!(!number.has_fired());
        s.incr_by(b"k", 1, NOW).unwrap();
        s.incr_by(b"k", 1, NOW).unwrap();
        assert!(number.has_fired(), "it was there");
        assert_eq!(s.poll_watch(&number, NOW), Watched::Fired);
        assert!(!same.has_fired() && !text.has_fired() && !none.has_fired());
        set(&mut s, b"x", LONG);
        s.rename(b"x", b"k", NOW).unwrap();
        assert!(text.has_fired());
        set(&mut s, b"k", b"");
        assert!(none.has_fired());
        assert!(!same.has_fired());
    }
}

#[test]
fn a_waiter_checks_again_when_the_key_expires() {
    let store = Store::new(Options::default()).unwrap();
    let mut s = store.session();
    set_until(&mut s, b"k", NOW + 10);
    let bell = Arc::new(Bell::default());
    let watched = s.watch(b"k", None, bell.clone().into(), NOW).unwrap();
    assert_eq!(s.poll_watch(&watched, NOW), Watched::Waiting { until: Some(NOW + 10) });
    // Whoever changes the expiry wakes those who look again at the old one.
    assert!(s.expire_at(b"k", NOW + 20, ExpireCondition::Always, NOW).unwrap());
    assert_eq!(bell.0.load(Relaxed), 1);
    assert_eq!(s.poll_watch(&watched, NOW + 10), Watched::Waiting { until: Some(NOW + 20) });
    assert!(s.persist(b"k", NOW).unwrap());
    assert_eq!(s.poll_watch(&watched, NOW + 20), Watched::Waiting { until: None });
    s.get_ex(b"k", TtlChange::At(NOW + 30), NOW, |_, _| ()).unwrap().unwrap();
    assert_eq!(bell.0.load(Relaxed), 3);
    assert_eq!(s.poll_watch(&watched, NOW + 30), Watched::Fired);
    assert!(!watched.has_fired(), "nobody has written");
    // The same if it was reclaimed.
    assert_eq!(s.expire_due(NOW + 30, 1_000, |_, _| {}).removed, 1);
    assert!(store.is_empty());
    assert_eq!(s.poll_watch(&watched, NOW + 30), Watched::Fired);
    // A key that had expired before is no news.
    set_until(&mut s, b"k", NOW + 10);
    let late = s.watch(b"k", None, Waker::noop().clone(), NOW + 10).unwrap();
    s.clear();
    assert_eq!(s.poll_watch(&late, NOW + 10), Watched::Waiting { until: None });
    // Who waits for a value needs no look.
    set_until(&mut s, b"k", NOW + 10);
    let value = watch(&mut s, b"k", Some(b"x"));
    assert_eq!(s.poll_watch(&value, NOW), Watched::Waiting { until: None });
    assert_eq!(s.poll_watch(&value, NOW + 10), Watched::Waiting { until: None });
}

#[test]
fn watches_are_counted_limited_and_end_when_they_are_dropped() {
    let store =
        Store::new(Options { watches_max: 3, key_len_max: 9, ..Options::default() }).unwrap();
    let mut s = store.session();
    let bell = Arc::new(Bell::default());
    let mut open = Vec::new();
    for key in [b"a", b"a", b"b"] {
        open.push(s.watch(key, None, bell.clone().into(), NOW).unwrap());
    }
    assert_eq!(store.stats().watches, 3);
    let full = s.watch(b"a", None, Waker::noop().clone(), NOW).unwrap_err();
    assert_eq!(full, StoreError::TooManyWatches { max: 3 });
    drop(open.remove(0));
    assert_eq!(store.stats().watches, 2);
    set(&mut s, b"a", b"1");
    set(&mut s, b"a", b"2");
    assert_eq!(bell.0.load(Relaxed), 1, "one is gone, the other is told once");
    drop(open);
    set(&mut s, b"b", b"1");
    assert_eq!((bell.0.load(Relaxed), store.stats().watches), (1, 0));
    assert_eq!(Arc::strong_count(&bell), 1, "nobody keeps the waker");
    store.set_watches_max(0);
    assert!(s.watch(b"a", None, Waker::noop().clone(), NOW).is_err());
    store.set_watches_max(9);
    assert!(s.watch(b"ten bytes.", None, Waker::noop().clone(), NOW).is_err());
    assert_eq!(store.stats().watches, 0, "an error takes no place");
}

/// Counts waits, and does not wait.
struct Counted(Arc<AtomicUsize>);

impl crate::Wait for Counted {
    fn releases_thread(&self) -> bool {
        true
    }

    fn waker(&mut self) -> Waker {
        self.0.fetch_add(1, Relaxed);
        Waker::noop().clone()
    }

    fn wait(&mut self) {}
}

/// Looking, making room and removing expired keys never wait for this key's holder:
/// not for one that comes while it looks, either.
#[test]
fn a_session_with_other_work_never_waits_for_a_holder() {
    type Work = fn(&mut Session, &Watch);
    let works: [(&str, Work, Operation); 3] = [
        // A write would end the wait.
        ("look", |s, watch| _ = s.poll_watch(watch, NOW), |_| ()),
        (
            "expire_due",
            |s, _| _ = s.expire_due(NOW + 1, 10, |_, _| ()),
            |holder| set_until(holder, b"k", NOW + 1),
        ),
        (
            "evict_some",
            |s, _| _ = s.evict_some(),
            // As if it had made room before its hold.
            |holder| holder.admitted(0, |holder| set_until(holder, b"k", NOW + 10)),
        ),
    ];
    for (name, work, change) in works {
        let store = Store::new(Options::default()).unwrap();
        let (mut holder, mut s) = (store.session(), store.session());
        set_until(&mut s, b"k", NOW + 10);
        let watch = s.watch(b"k", None, Waker::noop().clone(), NOW).unwrap();
        if name == "evict_some" {
            let policy = EvictionPolicy::AllKeysRandom;
            store.set_eviction(EvictionOptions { policy, ..EvictionOptions::default() }).unwrap();
            store.set_memory_max(1);
        }
        let waits = Arc::new(AtomicUsize::new(0));
        s.set_wait(Box::new(Counted(waits.clone())));
        let end = Instant::now() + Duration::from_millis(300);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                while Instant::now() < end {
                    holder.exclusive(&[b"k"], change);
                }
            });
            while Instant::now() < end {
                work(&mut s, &watch);
            }
        });
        // Once the key is free it goes.
        work(&mut s, &watch);
        assert_eq!(waits.load(Relaxed), 0, "{name}");
        let evicted = store.stats().evicted;
        assert_eq!(evicted > 0, name == "evict_some", "{evicted} keys were evicted");
    }
}
