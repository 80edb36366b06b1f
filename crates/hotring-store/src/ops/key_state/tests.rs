//! Which operations of another session change the state of a key.

use crate::{ExpireCondition, Options, Session, SetExpiry, SetOptions, Store, TtlChange};

const NOW: u64 = 1_700_000_000_000;
const LONG: &[u8] = b"a value that is longer than a word";

type Operation = fn(&mut Session);

fn set(s: &mut Session, key: &[u8], value: &[u8]) {
    s.set(key, value, SetOptions::default(), NOW).unwrap();
}

fn set_until(s: &mut Session, key: &[u8], at: u64) {
    let options = SetOptions { expiry: SetExpiry::At(at), ..SetOptions::default() };
    s.set(key, b"5", options, NOW).unwrap();
}

fn expire(s: &mut Session, key: &[u8], at: u64) -> bool {
    s.expire_at(key, at, ExpireCondition::Always, NOW).unwrap()
}

/// Whether the state of `k`, which begins with `value`, is unchanged after each of the operations.
#[track_caller]
fn check(unchanged: bool, value: Option<&[u8]>, operations: &[(&str, Operation)]) {
    for history in [0, 2] {
        for (name, operation) in operations {
            let store = Store::new(Options { history, ..Options::default() }).unwrap();
            let (mut a, mut b) = (store.session(), store.session());
            if let Some(value) = value {
                set(&mut a, b"k", value);
            }
            let state = a.key_state(b"k", NOW).unwrap();
            assert_eq!(state.key(), b"k");
            assert!(a.is_unchanged(&state, NOW), "{name}");
            operation(&mut b);
            let so = |s: &mut Session| s.exclusive(&[b"k"], |s| s.is_unchanged(&state, NOW));
            assert_eq!(so(&mut a), unchanged, "{name}, history {history}, {value:?}");
            assert_eq!(so(&mut b), unchanged, "{name}: whoever asks");
            drop(state);
            assert_eq!(store.stats().watches, 0);
        }
    }
}

const WRITES: &[(&str, Operation)] = &[
    ("set", |s| set(s, b"k", b"6")),
    ("append nothing", |s| assert!(s.append(b"k", b"", NOW).is_ok())),
    ("set range", |s| assert!(s.set_range(b"k", 0, b"5", NOW).is_ok())),
    ("mset", |s| s.mset(&[(b"other", b"1"), (b"k", b"5")], NOW).unwrap()),
    ("set and remove", |s| {
        set(s, b"k", b"5");
        assert!(s.remove(b"k", NOW));
    }),
    ("remove and set", |s| {
        s.remove_many(&[b"other", b"k"], NOW);
        set(s, b"k", b"5");
    }),
    ("rename to it", |s| {
        set(s, b"other", b"5");
        s.rename(b"other", b"k", NOW).unwrap();
    }),
    ("copy to it", |s| {
        set(s, b"other", b"5");
        assert!(s.copy(b"other", b"k", true, NOW).unwrap());
    }),
];

#[test]
fn every_kind_of_write_is_noticed() {
    for value in [None, Some(&b"5"[..]), Some(LONG)] {
        check(false, value, WRITES);
    }
    check(
        false,
        Some(b"5"),
        &[
            ("set the same", |s| set(s, b"k", b"5")),
            ("incr", |s| assert_eq!(s.incr_by(b"k", 1, NOW), Ok(6))),
            ("incr and back", |s| {
                assert_eq!((s.incr_by(b"k", 1, NOW), s.incr_by(b"k", -1, NOW)), (Ok(6), Ok(5)))
            }),
            ("remove", |s| assert!(s.remove(b"k", NOW))),
            ("clear", |s| s.clear()),
            ("rename away", |s| s.rename(b"k", b"other", NOW).unwrap()),
            ("expire", |s| assert!(expire(s, b"k", NOW + 10_000))),
            ("expire at once", |s| assert!(expire(s, b"k", NOW))),
            ("expire and persist", |s| {
                assert!(expire(s, b"k", NOW + 10_000));
                assert!(s.persist(b"k", NOW).unwrap());
            }),
            ("get with expiry", |s| {
                s.get_ex(b"k", TtlChange::At(NOW + 1), NOW, |_, _| ()).unwrap();
            }),
        ],
    );
}

#[test]
fn operations_without_a_write_go_unnoticed() {
    const NO_WRITES: &[(&str, Operation)] = &[
        ("get", |s| _ = s.get(b"k", NOW, |_| ())),
        ("another's state", |s| assert!(s.key_state(b"k", NOW).is_ok())),
        ("another key", |s| set(s, b"other", b"1")),
        ("another key, removed", |s| assert!(!s.remove(b"other", NOW))),
        ("copy away", |s| _ = s.copy(b"k", b"other", true, NOW).unwrap()),
        ("persist", |s| assert!(!s.persist(b"k", NOW).unwrap())),
    ];
    check(true, None, NO_WRITES);
    check(true, Some(b"5"), NO_WRITES);
    check(true, Some(LONG), NO_WRITES);
    check(true, None, &[("remove", |s| assert!(!s.remove(b"k", NOW))), ("clear", |s| s.clear())]);
    check(
        true,
        Some(LONG),
        &[
            ("set if absent", |s| {
                assert!(!s.set(b"k", b"6", SetOptions::if_absent(), NOW).unwrap().stored);
            }),
            ("failed incr", |s| assert!(s.incr_by(b"k", 1, NOW).is_err())),
        ],
    );
}

#[test]
fn expiry_counts_for_a_key_that_was_there_and_only_for_that() {
    let store = Store::new(Options::default()).unwrap();
    let mut s = store.session();
    set_until(&mut s, b"k", NOW + 10);
    let alive = s.key_state(b"k", NOW + 9).unwrap();
    assert!(s.is_unchanged(&alive, NOW + 9));
    assert!(!s.is_unchanged(&alive, NOW + 10));
    let expired = s.key_state(b"k", NOW + 10).unwrap();
    s.expire_due(NOW + 20, 1_000, |_, _| {});
    assert!(s.is_unchanged(&expired, NOW + 20), "to reclaim it is no write");
    assert!(!s.is_unchanged(&alive, NOW + 20));
}

/// WATCH took a hash for present until the timing wheel had removed it, and EXEC then failed for that removal; or EXEC
/// ran although all fields were gone. One of 2,000 fields, which went in several steps, looked written by these.
#[test]
fn a_hash_whose_fields_are_all_over_is_absent() {
    for n in [1, 500_u32, 2_000] {
        let store = Store::new(Options::default()).unwrap();
        let mut s = store.session();
        let names: Vec<_> = (0..n).map(u32::to_le_bytes).collect();
        let fields: Vec<&[u8]> = names.iter().map(|name| &name[..]).collect();
        let pairs: Vec<(&[u8], &[u8])> = fields.iter().map(|field| (*field, LONG)).collect();
        let until = |s: &mut Session, at| {
            s.hash_set(b"k", &pairs, NOW).unwrap();
            s.hash_expire_at(b"k", at, ExpireCondition::Always, &fields, NOW).unwrap();
        };
        until(&mut s, NOW + 10);
        let alive = s.key_state(b"k", NOW + 9).unwrap();
        assert!(s.is_unchanged(&alive, NOW + 9));
        assert!(!s.is_unchanged(&alive, NOW + 10), "{n}: all that there was is over");
        let over = s.key_state(b"k", NOW + 10).unwrap();
        assert!(s.is_unchanged(&over, NOW + 10));
        (NOW + 20..NOW + 40).for_each(|at| _ = s.expire_due(at, 10_000, |_, _| {}));
        assert!(store.is_empty());
        assert!(s.is_unchanged(&over, NOW + 40), "{n}: to reclaim it is no write");
        assert!(!s.is_unchanged(&alive, NOW + 40));
        until(&mut s, NOW + 1_000);
        assert!(!s.is_unchanged(&over, NOW + 40));
    }
}

#[test]
fn stamps_do_not_count_as_waiters() {
    let store = Store::new(Options { watches_max: 0, ..Options::default() }).unwrap();
    let mut s = store.session();
    let states: Vec<_> = (0..100u32).map(|i| s.key_state(&i.to_le_bytes(), NOW).unwrap()).collect();
    set(&mut s, &7u32.to_le_bytes(), b"x");
    for (i, state) in states.iter().enumerate() {
        assert_eq!(s.is_unchanged(state, NOW), i != 7);
    }
}
