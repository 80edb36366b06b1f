//! Which changes are noted, in which order.

use std::sync::{Arc, Mutex};
use std::task::Waker;

use crate::{
    Changed, ExpireCondition, Observer, Options, Origin, Session, SetExpiry, SetOptions, Store,
    TtlChange,
};

const NOW: u64 = 1_700_000_000_000;

fn set(s: &mut Session, key: &[u8], value: &[u8]) {
    s.set(key, value, SetOptions::default(), NOW).unwrap();
}

fn set_until(s: &mut Session, key: &[u8], at: u64) {
    let options = SetOptions { expiry: SetExpiry::At(at), ..SetOptions::default() };
    s.set(key, b"5", options, NOW).unwrap();
}

fn stored(is_new: bool, expires: bool) -> Changed {
    Changed::Stored { is_new, expires }
}

#[track_caller]
fn noted(s: &mut Session, expected: &[(&[u8], Changed)]) {
    let changes = s.take_changes();
    let changes: Vec<_> = changes.iter().map(|change| (&*change.key, change.kind)).collect();
    assert_eq!(changes, expected);
}

#[test]
fn effects_are_recorded_with_and_without_history_and_watchers() {
    for (history, watched) in [(0, false), (2, false), (0, true)] {
        let store = Store::new(Options { history, ..Options::default() }).unwrap();
        let mut s = store.session();
        let _watch =
            watched.then(|| s.watch(b"a", Some(b"none"), Waker::noop().clone(), NOW).unwrap());
        set(&mut s, b"a", b"0");
        noted(&mut s, &[]);
        s.act(Origin { records_changes: true, ..Origin::default() });
        set(&mut s, b"a", b"1");
        set(&mut s, b"b", b"1");
        assert!(!s.set(b"a", b"2", SetOptions::if_absent(), NOW).unwrap().stored);
        assert!(s.get(b"a", NOW, |_| ()).is_some());
        noted(&mut s, &[(b"a", stored(false, false)), (b"b", stored(true, false))]);
        s.incr_by(b"a", 1, NOW).unwrap();
        s.append(b"a", b"x", NOW).unwrap();
        assert!(s.incr_by(b"a", 1, NOW).is_err());
        set_until(&mut s, b"c", NOW + 10);
        noted(
            &mut s,
            &[
                (b"a", stored(false, false)),
                (b"a", stored(false, false)),
                (b"c", stored(true, true)),
            ],
        );
        assert!(s.expire_at(b"a", NOW + 10, ExpireCondition::Always, NOW).unwrap());
        assert!(s.persist(b"a", NOW).unwrap());
        assert!(!s.persist(b"a", NOW).unwrap());
        s.get_ex(b"a", TtlChange::At(NOW + 5), NOW, |_, _| ()).unwrap();
        assert!(s.expire_at(b"a", NOW, ExpireCondition::Always, NOW).unwrap());
        noted(
            &mut s,
            &[
                (b"a", Changed::Expiry { expires: true }),
                (b"a", Changed::Expiry { expires: false }),
                (b"a", Changed::Expiry { expires: true }),
                (b"a", Changed::Removed),
            ],
        );
        s.rename(b"b", b"d", NOW).unwrap();
        assert_eq!(s.remove_many(&[b"d", b"none"], NOW), 1);
        s.clear();
        noted(
            &mut s,
            &[(b"d", stored(true, false)), (b"b", Changed::Removed), (b"d", Changed::Removed)],
        );
        s.act(Origin { records_changes: false, ..Origin::default() });
        set(&mut s, b"a", b"1");
        noted(&mut s, &[]);
    }
}

#[test]
fn a_write_notes_that_the_key_had_expired_before() {
    let store = Store::new(Options::default()).unwrap();
    let mut s = store.session();
    s.act(Origin { records_changes: true, ..Origin::default() });
    set_until(&mut s, b"a", NOW + 10);
    s.take_changes();
    s.set(b"a", b"1", SetOptions::default(), NOW + 10).unwrap();
    noted(&mut s, &[(b"a", Changed::Expired), (b"a", stored(true, false))]);
    set_until(&mut s, b"a", NOW + 10);
    s.take_changes();
    assert!(!s.remove(b"a", NOW + 10));
    noted(&mut s, &[(b"a", Changed::Expired)]);
}

#[test]
fn expired_keys_are_shown_once_and_stamps_do_not_notice() {
    let store = Store::new(Options::default()).unwrap();
    let mut s = store.session();
    for i in 0..100u32 {
        set_until(&mut s, &i.to_le_bytes(), NOW + u64::from(i % 2) * 10 + 10);
    }
    let state = s.key_state(&0u32.to_le_bytes(), NOW + 10).unwrap();
    for (now, expected) in [(NOW + 9, 0), (NOW + 19, 50), (NOW + 20, 50), (NOW + 30, 0)] {
        let mut shown = 0;
        let removed = s.expire_due(now, 1_000, |_, _| shown += 1).removed;
        // The stamp has looked at one of them, and may have dropped it.
        assert!(shown == removed && (expected == 50) == (removed >= 49), "{now}: {removed}");
    }
    assert!(s.is_unchanged(&state, NOW + 30));
    assert!(store.is_empty());
}

/// Records the reported keys and their authors; no key stands for all keys.
#[derive(Default)]
struct Told(Mutex<Vec<(Option<String>, u64)>>);

impl Observer for Told {
    fn changed(&self, key: &[u8], actor: u64) {
        let key = String::from_utf8(key.to_vec()).unwrap();
        self.0.lock().unwrap().push((Some(key), actor));
    }

    fn cleared(&self, actor: u64) {
        self.0.lock().unwrap().push((None, actor));
    }
}

impl Told {
    #[track_caller]
    fn expect(&self, expected: &[(&str, u64)]) {
        let told = std::mem::take(&mut *self.0.lock().unwrap());
        let told: Vec<_> =
            told.iter().map(|(key, by)| (key.as_deref().unwrap_or("all"), *by)).collect();
        assert_eq!(told, expected);
    }
}

#[test]
fn an_observer_sees_every_change_of_every_session() {
    for history in [0, 2] {
        let store = Store::new(Options { history, ..Options::default() }).unwrap();
        let told = Arc::new(Told::default());
        assert!(store.set_observer(told.clone()));
        assert!(!store.set_observer(Arc::new(Told::default())), "there is one");
        let (mut a, mut b) = (store.session(), store.session());
        set(&mut a, b"k", b"before");
        told.expect(&[]);
        a.act(Origin { actor: 1, ..Origin::default() });
        b.act(Origin { actor: 2, ..Origin::default() });
        a.observe(|| true);
        assert!(b.is_observed());
        set(&mut a, b"k", b"1");
        set(&mut b, b"k", b"2");
        b.incr_by(b"k", 1, NOW).unwrap();
        assert!(b.get(b"k", NOW, |_| ()).is_some());
        assert!(!b.set(b"k", b"x", SetOptions::if_absent(), NOW).unwrap().stored);
        told.expect(&[("k", 1), ("k", 2), ("k", 2)]);
        assert!(a.expire_at(b"k", NOW + 10, ExpireCondition::Always, NOW).unwrap());
        assert!(a.remove(b"k", NOW));
        assert!(!a.remove(b"k", NOW));
        told.expect(&[("k", 1), ("k", 1)]);
        b.exclusive(&[b"x", b"y"], |b| b.mset(&[(b"x", b"1"), (b"y", b"2")], NOW)).unwrap();
        told.expect(&[("x", 2), ("y", 2)]);
        a.clear();
        told.expect(&[("all", 1)]);
        // Waiting for a key changes nothing of it, whether the waiter stays or leaves.
        let watch = a.watch(b"w", None, Waker::noop().clone(), NOW).unwrap();
        set(&mut b, b"w", b"1");
        drop(watch);
        set(&mut b, b"w", b"2");
        told.expect(&[("w", 2), ("w", 2)]);
        a.observe(|| false);
        set(&mut b, b"k", b"3");
        told.expect(&[]);
    }
}

#[test]
fn an_observer_sees_the_expiry_of_a_key() {
    let store = Store::new(Options::default()).unwrap();
    let told = Arc::new(Told::default());
    store.set_observer(told.clone());
    let mut s = store.session();
    s.act(Origin { actor: 7, ..Origin::default() });
    for key in [b"a", b"b", b"c", b"d"] {
        set_until(&mut s, key, NOW + 10);
    }
    s.observe(|| true);
    // A write that only looks has met it: no actor did it.
    assert!(!s.set(b"a", b"x", SetOptions::if_present(), NOW + 10).unwrap().stored);
    told.expect(&[("a", 0)]);
    assert_eq!(s.version(b"d", NOW + 10).unwrap(), None);
    told.expect(&[("d", 0)]);
    // A reader of an expired key leaves it to be reported.
    assert!((0..64).all(|i| s.random_key(i << 58, NOW + 10).is_none()));
    assert!(s.random_key(5, NOW).is_some());
    told.expect(&[]);
    let mut keys = Vec::new();
    let removed = s.expire_due(NOW + 10, 100, |key, _| keys.push(key.to_vec())).removed;
    assert_eq!((removed, keys.len()), (2, 2));
    let mut told = std::mem::take(&mut *told.0.lock().unwrap());
    told.sort();
    assert_eq!(told, [(Some("b".to_string()), 0), (Some("c".to_string()), 0)]);
    s.observe(|| false);
    set_until(&mut s, b"a", NOW + 20);
    assert_eq!(s.expire_due(NOW + 20, 100, |_, _| {}).removed, 1);
}

/// An origin that was not ended once passed its requests on to the next one.
#[test]
fn an_origin_ends_with_the_next_one() {
    let store = Store::new(Options::default()).unwrap();
    let told = Arc::new(Told::default());
    store.set_observer(told.clone());
    let mut s = store.session();
    s.observe(|| true);
    let recorded = Origin { actor: 3, records_changes: true, ..Origin::default() };
    let other = Origin { actor: 4, ..Origin::default() };
    s.act(other);
    let ((), effects) = s.act_within(recorded, |s| set(s, b"a", b"1"));
    let keys: Vec<_> = effects.changes.iter().map(|change| &change.key[..]).collect();
    assert_eq!((keys, effects.damage, effects.logged), (vec![&b"a"[..]], None, None));
    assert_eq!(s.origin(), other);
    set(&mut s, b"b", b"1");
    told.expect(&[("a", 3), ("b", 4)]);
    assert_eq!(s.take_effects().changes, []);
    s.act(recorded);
    set(&mut s, b"c", b"1");
    s.act(other);
    set(&mut s, b"d", b"1");
    s.act(recorded);
    assert_eq!(s.take_changes(), [], "they were for another");
}
