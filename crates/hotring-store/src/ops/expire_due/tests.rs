//! Removal at the due time, whichever operation set it; and the contents of the wheels.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, mpsc};
use std::task::{Wake, Waker};
use std::thread;
use std::time::Duration;

use super::*;
use crate::{
    Content, CounterExpiry, CounterOptions, Decimal, ExpireCondition, ItemAction, MSetCondition,
    Metadata, Options, Origin, SetExpiry, SetOptions, Store, TtlChange,
};
use hotring_engines::EngineChoice;

const NOW: u64 = 1_700_000_000_000;
const DUE: u64 = NOW + 5_000_000;

fn set_until(s: &mut Session, key: &[u8], at: u64) {
    let options = SetOptions { expiry: SetExpiry::At(at), ..SetOptions::default() };
    s.set(key, b"5", options, NOW).unwrap();
}

fn set(s: &mut Session, key: &[u8]) {
    s.set(key, b"5", SetOptions::default(), NOW).unwrap();
}

fn expire(s: &mut Session, key: &[u8], at: u64) {
    assert!(s.expire_at(key, at, ExpireCondition::Always, NOW).unwrap());
}

/// The keys that are removed at a time, with how late that is.
fn due(s: &mut Session, now: u64) -> Vec<(Vec<u8>, u64)> {
    let mut keys = Vec::new();
    while s.expire_due(now, 1_000, |key, late| keys.push((key.to_vec(), late))).next == Some(now) {}
    keys.sort();
    keys
}

fn update(s: &mut Session, action: ItemAction<'_>) {
    s.update_item(b"k", NOW, |_| (action.clone(), ())).unwrap();
}

type Operation = fn(&mut Session);

/// Each leaves `k` with the expiry DUE, and nothing else with one.
const WAYS: &[(&str, Operation)] = &[
    ("set", |s| set_until(s, b"k", DUE)),
    ("set over an earlier expiry", |s| {
        set_until(s, b"k", DUE - 9);
        set_until(s, b"k", DUE);
    }),
    ("set over a later one", |s| {
        set_until(s, b"k", 2 * DUE - NOW);
        set_until(s, b"k", DUE);
    }),
    ("set if present", |s| {
        set(s, b"k");
        let options = SetOptions { expiry: SetExpiry::At(DUE), ..SetOptions::if_present() };
        s.set(b"k", b"x", options, NOW).unwrap();
    }),
    ("set and keep", |s| {
        set_until(s, b"k", DUE);
        let options = SetOptions { expiry: SetExpiry::Keep, ..SetOptions::default() };
        s.set(b"k", b"longer than a word is", options, NOW).unwrap();
    }),
    ("expire", |s| {
        set(s, b"k");
        expire(s, b"k", DUE);
    }),
    ("expire earlier", |s| {
        set_until(s, b"k", 2 * DUE - NOW);
        expire(s, b"k", DUE);
    }),
    ("expire later", |s| {
        set_until(s, b"k", DUE - 1);
        expire(s, b"k", DUE);
    }),
    ("persist and expire", |s| {
        set_until(s, b"k", DUE - 1);
        s.persist(b"k", NOW).unwrap();
        expire(s, b"k", DUE);
    }),
    ("remove and set", |s| {
        set_until(s, b"k", DUE - 1);
        assert!(s.remove(b"k", NOW));
        set_until(s, b"k", DUE);
    }),
    ("get_ex", |s| {
        set(s, b"k");
        s.get_ex(b"k", TtlChange::At(DUE), NOW, |_, _| ()).unwrap();
    }),
    ("get_ex of bytes", |s| {
        s.append(b"k", b"longer than a word", NOW).unwrap();
        s.get_ex(b"k", TtlChange::At(DUE), NOW, |_, _| ()).unwrap();
    }),
    ("incr_ex", |s| {
        let expiry = CounterExpiry::At(DUE);
        let options = CounterOptions { by: 1, low: None, high: None, saturates: false, expiry };
        s.incr_ex(b"k", options, NOW).unwrap();
    }),
    ("incr_ex_float", |s| {
        let by = Decimal::parse(b"0.5").unwrap();
        let expiry = CounterExpiry::AtUnlessSet(DUE);
        let options = CounterOptions { by, low: None, high: None, saturates: false, expiry };
        s.incr_ex_float(b"k", options, NOW).unwrap();
    }),
    ("mset_ex of one", |s| {
        s.mset_ex(&[(b"k", b"v")], MSetCondition::Always, SetExpiry::At(DUE), NOW).unwrap();
    }),
    ("mset_ex", |s| {
        let pairs: [(&[u8], &[u8]); 2] = [(b"k", b"v"), (b"other", b"v")];
        s.mset_ex(&pairs, MSetCondition::IfNonePresent, SetExpiry::At(DUE), NOW).unwrap();
        s.persist(b"other", NOW).unwrap();
    }),
    ("rename", |s| {
        set_until(s, b"from", DUE);
        s.rename(b"from", b"k", NOW).unwrap();
    }),
    ("copy", |s| {
        set_until(s, b"from", DUE);
        s.copy(b"from", b"k", true, NOW).unwrap();
        s.remove(b"from", NOW);
    }),
    ("put_content", |s| {
        let content = Content::String(b"v".into());
        s.put_content(b"k", content, Some(DUE), true, NOW).unwrap();
    }),
    ("append to it", |s| {
        set_until(s, b"k", DUE);
        s.append(b"k", b" and more", NOW).unwrap();
    }),
    ("a hash", |s| {
        s.hash_set(b"k", &[(b"f", b"v")], NOW).unwrap();
        expire(s, b"k", DUE);
        s.hash_set(b"k", &[(b"g", b"v")], NOW).unwrap();
    }),
    ("put with metadata", |s| {
        let (value, metadata) = (b"v".into(), Metadata { flags: 1, ..Metadata::default() });
        update(s, ItemAction::Put { value, metadata, expiry: SetExpiry::At(DUE) });
    }),
    ("touch", |s| {
        set(s, b"k");
        let metadata = Metadata::default();
        update(s, ItemAction::Amend { metadata, expiry: SetExpiry::At(DUE) });
    }),
    ("touch with metadata", |s| {
        set(s, b"k");
        let metadata = Metadata { flags: 1, ..Metadata::default() };
        update(s, ItemAction::Amend { metadata, expiry: SetExpiry::At(DUE) });
    }),
    ("version", |s| {
        set_until(s, b"k", DUE);
        s.version(b"k", NOW).unwrap();
    }),
    ("in an exclusive closure", |s| {
        s.exclusive(&[b"k"], |s| {
            set(s, b"k");
            expire(s, b"k", DUE);
        });
    }),
    ("after all was removed", |s| {
        set_until(s, b"k", DUE - 1);
        s.clear();
        set_until(s, b"k", DUE);
    }),
];

#[test]
fn every_kind_of_expiry_removes_the_key() {
    for history in [0, 2] {
        for notes in [false, true] {
            for (name, way) in WAYS {
                let store = Store::new(Options { history, ..Options::default() }).unwrap();
                let mut s = store.session();
                s.act(Origin { records_changes: notes, ..Origin::default() });
                way(&mut s);
                let len = store.len();
                assert_eq!(due(&mut s, DUE - 1), [], "{name}, history {history}");
                assert_eq!(store.len(), len, "{name}");
                let removed = due(&mut s, DUE + 3);
                assert_eq!(removed, [(b"k".to_vec(), 3)], "{name}, history {history}");
                assert_eq!(store.len(), len - 1, "{name}");
            }
        }
    }
}

#[test]
fn it_says_when_to_come_again() {
    let store = Store::new(Options::default()).unwrap();
    let mut s = store.session();
    let next = |s: &mut Session, now| s.expire_due(now, 1_000, |_, _| {}).next;
    assert_eq!(next(&mut s, NOW), None);
    set_until(&mut s, b"k", NOW + 50);
    let mut now = NOW;
    let mut times = 0;
    while let Some(time) = next(&mut s, now) {
        assert!(time > now && time <= NOW + 50, "{time} at {now}");
        (now, times) = (time, times + 1);
    }
    assert!(now == NOW + 50 && times <= 3, "{times} times to {now}");
    assert!(store.is_empty());
    // With a small budget, at once.
    (0..100u8).for_each(|i| set_until(&mut s, &[i], now + 1));
    let mut calls = 0;
    while next(&mut s, now + 1) == Some(now + 1) {
        calls += 1;
    }
    assert_eq!((store.len(), calls), (0, 0), "a budget of 1,000 is enough");
    (0..100u8).for_each(|i| set_until(&mut s, &[i], now + 2));
    let mut removed = 0;
    loop {
        let step = s.expire_due(now + 2, 10, |_, _| {});
        assert!(step.removed <= 10);
        removed += step.removed;
        if step.next.is_none() {
            break;
        }
        assert_eq!(step.next, Some(now + 2));
    }
    assert_eq!(removed, 100);
}

/// A key that is set and removed again and again once left an entry each time.
#[test]
fn entries_of_removed_keys_are_bounded() {
    let rounds: [Operation; 3] = [
        |s| {
            set_until(s, b"k", DUE);
            s.remove(b"k", NOW);
        },
        |s| {
            set_until(s, b"k", DUE);
            set_until(s, b"k", NOW + 100);
        },
        |s| {
            s.expire_at(b"other", DUE, ExpireCondition::Always, NOW).unwrap();
            s.expire_at(b"other", NOW + 100_000, ExpireCondition::Always, NOW).unwrap();
        },
    ];
    for round in rounds {
        let store = Store::new(Options::default()).unwrap();
        let mut s = store.session();
        for i in 0..1_000u32 {
            set_until(&mut s, &i.to_le_bytes(), NOW + 1_000 + u64::from(i));
        }
        set_until(&mut s, b"other", DUE);
        let mut most = 0;
        for i in 0..150_000 {
            round(&mut s);
            if i % 500 == 0 {
                s.expire_due(NOW, 1_000, |key, _| panic!("{key:?} is not due"));
                most = most.max(store.stats().expiry_entries);
            }
        }
        assert!(most > 60_000, "{most}: this is to try the bound");
        // The bound, and the keys entered while the walk lasts.
        assert!(most < 65_536 + 2 * 1_002 + 5_000, "{most} entries");
        let removed = due(&mut s, NOW + 1_500);
        assert_eq!(removed.iter().filter(|(key, _)| key.len() == 4).count(), 501, "none is lost");
        let bytes = store.stats().expiry_bytes;
        s.clear();
        assert!(store.stats().expiry_bytes < bytes);
        assert_eq!(store.stats().expiry_entries, 0);
    }
}

/// Each SETEX once left an entry: a few keys left enough to walk all of a large store every few seconds.
#[test]
fn a_key_that_gets_later_times_again_and_again_has_one_entry() {
    for notes in [false, true] {
        let store = Store::new(Options::default()).unwrap();
        let mut s = store.session();
        s.act(Origin { records_changes: notes, ..Origin::default() });
        for i in 0..100_000u64 {
            set_until(&mut s, &[(i % 10) as u8], DUE + i);
            s.take_changes();
        }
        assert_eq!(store.stats().expiry_entries, 10);
        assert_eq!(due(&mut s, DUE + 99_989), []);
        assert_eq!(due(&mut s, DUE + 100_000).len(), 10);
    }
}

#[test]
fn replacing_the_wheels_loses_no_item() {
    for engine in EngineChoice::ALL {
        let store = Store::open_with(Options::default(), |config| engine.open(config)).unwrap();
        let mut s = store.session();
        let at = |i: u32| NOW + 1 + u64::from(i % 700) * 10;
        for i in 0..3_000u32 {
            set_until(&mut s, &i.to_le_bytes(), at(i));
            set(&mut s, &(i + 10_000).to_le_bytes());
        }
        // A walk now and then, by a clock that goes back.
        let mut removed = 0;
        for now in NOW..=NOW + 7_000 {
            if now % 50 == 0 {
                s.wheels.begin_walk(now);
            }
            // Meanwhile some get another time.
            let i = (now - NOW) as u32 % 3_000;
            if s.exists(&i.to_le_bytes(), now) {
                let later = now + 1 + u64::from(i % 500);
                s.expire_at(&i.to_le_bytes(), later, ExpireCondition::IfLater, now).unwrap();
            }
            let step = s.expire_due(now, 200, |_, late| assert!(late < 20, "{late} ms late"));
            removed += step.removed;
        }
        // Those that a look has met were removed by it.
        due(&mut s, NOW + 8_000);
        assert!(removed > 2_900, "{engine:?}: {removed}");
        assert_eq!(store.len(), 3_000, "{engine:?}");
    }
}

#[test]
fn a_clock_that_goes_back_is_followed() {
    let store = Store::new(Options::default()).unwrap();
    let mut s = store.session();
    set_until(&mut s, b"a", NOW + 10_000_000);
    assert_eq!(due(&mut s, NOW + 9_000_000), []);
    assert_eq!(due(&mut s, NOW), []);
    set_until(&mut s, b"b", NOW + 20);
    assert_eq!(due(&mut s, NOW + 19), []);
    assert_eq!(due(&mut s, NOW + 20), [(b"b".to_vec(), 0)]);
    assert_eq!(due(&mut s, NOW + 10_000_000), [(b"a".to_vec(), 0)]);
}

/// A write of another connection's key was once reported before the expiry there: listeners took
/// the new key for gone.
#[test]
fn an_expiry_is_reported_before_later_writes() {
    let store = Store::new(Options::default()).unwrap();
    let (mut expirer, mut writer) = (store.session(), store.session());
    set_until(&mut expirer, b"k", NOW + 1);
    let told = Mutex::new(Vec::new());
    let tell = |what| told.lock().unwrap().push(what);
    let (begins, has_begun) = mpsc::channel();
    thread::scope(|scope| {
        let (writer, tell) = (&mut writer, &tell);
        scope.spawn(move || {
            has_begun.recv().unwrap();
            // The key is gone, and not told of yet.
            writer.set(b"k", b"new", SetOptions::default(), NOW + 1).unwrap();
            writer.report_expired(|_, _| tell("expired"));
            tell("set");
        });
        expirer.expire_due(NOW + 1, 100, |_, _| {
            begins.send(()).unwrap();
            // It may take its time.
            thread::sleep(Duration::from_millis(50));
            tell("expired");
        });
    });
    assert_eq!(*told.lock().unwrap(), ["expired", "set"]);
}

/// Regression test: listeners were served in the middle of the write, while others waited for the stripe.
#[test]
fn a_reported_expiry_blocks_no_access_to_the_key() {
    let store = Store::new(Options::default()).unwrap();
    let (mut expirer, mut other) = (store.session(), store.session());
    set_until(&mut expirer, b"k", NOW + 1);
    let (begins, has_begun) = mpsc::channel();
    let (ends, has_ended) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            has_begun.recv().unwrap();
            other.exclusive(&[b"k"], |_| ());
            ends.send(()).unwrap();
        });
        let mut waited = None;
        expirer.expire_due(NOW + 1, 100, |_, _| {
            begins.send(()).unwrap();
            waited = Some(has_ended.recv_timeout(Duration::from_secs(10)));
        });
        assert_eq!(waited, Some(Ok(())));
    });
}

/// It once left the field, so that `expires` of INFO and the bound of entries counted the key as before.
#[test]
fn a_key_that_persists_does_not_count_as_one_that_expires() {
    for engine in EngineChoice::ALL {
        let store = Store::open_with(Options::default(), |config| engine.open(config)).unwrap();
        let mut s = store.session();
        let bytes = SetOptions { expiry: SetExpiry::At(DUE), ..SetOptions::default() };
        s.set(b"bytes", b"longer than a word is", bytes, NOW).unwrap();
        s.set(b"other", b"longer than a word is", bytes, NOW).unwrap();
        set_until(&mut s, b"word", DUE);
        assert_eq!(store.stats().index.expiring, 3);
        assert!(s.persist(b"bytes", NOW).unwrap() && s.persist(b"word", NOW).unwrap());
        s.get_ex(b"other", TtlChange::Persist, NOW, |_, _| ()).unwrap();
        assert_eq!(store.stats().index.expiring, 0, "{engine:?}");
        expire(&mut s, b"bytes", DUE);
        assert_eq!(store.stats().index.expiring, 1, "{engine:?}");
    }
}

#[derive(Default)]
struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

#[test]
fn a_sleeper_is_woken_by_an_earlier_expiry() {
    let store = Store::new(Options::default()).unwrap();
    let mut s = store.session();
    let bell = Arc::new(Bell::default());
    assert!(store.set_expiry_waker(Waker::from(bell.clone())));
    assert!(!store.set_expiry_waker(Waker::noop().clone()), "there is one for good");
    let rung = || bell.0.swap(0, Relaxed);
    set_until(&mut s, b"a", NOW + 50);
    assert_eq!(rung(), 0, "nobody sleeps");
    assert!(s.expire_due(NOW, 100, |_, _| {}).next.is_some());
    set_until(&mut s, b"b", NOW + 60);
    assert_eq!(rung(), 0, "it is up by then");
    set_until(&mut s, b"c", NOW + 1);
    set_until(&mut s, b"d", NOW + 1);
    assert_eq!(rung(), 1, "once is enough");
    s.clear();
    assert_eq!(s.expire_due(NOW, 100, |_, _| {}).next, None);
    expire_far(&mut s);
    assert_eq!(rung(), 1, "it sleeps for good");
}

fn expire_far(s: &mut Session) {
    set(s, b"far");
    expire(s, b"far", u64::MAX);
    assert_eq!(s.expire_due(u64::MAX - 1, 100, |_, _| {}).removed, 1, "later than there is time");
    set(s, b"far");
    expire(s, b"far", NOW * 1_000);
}
