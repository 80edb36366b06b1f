//! Each operation alone, on one session: values, expiry and errors as Redis has them. All of it runs
//! twice: without a history, and with one, which must not show in any answer.

use super::HISTORY;
use crate::{
    ExpireCondition, ExpiryStep, NumberKind, Options, Session, SetCondition, SetExpiry, SetOptions,
    Store, StoreError, TtlChange,
};

const NOW: u64 = 1_700_000_000_000;

fn store() -> Store {
    Store::new(Options { history: HISTORY, ..Options::default() }).unwrap()
}

fn session() -> Session {
    store().session()
}

fn small() -> Session {
    let options =
        Options { key_len_max: 4, value_len_max: 16, history: HISTORY, ..Options::default() };
    Store::new(options).unwrap().session()
}

fn put(session: &mut Session, key: &str, value: &str) {
    session.set(key.as_bytes(), value.as_bytes(), SetOptions::default(), NOW).unwrap();
}

fn put_until(session: &mut Session, key: &str, value: &str, at: u64) {
    let options = SetOptions { expiry: SetExpiry::At(at), ..SetOptions::default() };
    session.set(key.as_bytes(), value.as_bytes(), options, NOW).unwrap();
}

fn text(session: &mut Session, key: &str) -> Option<String> {
    session.get(key.as_bytes(), NOW, |v| String::from_utf8(v.to_vec()).unwrap())
}

fn ttl(session: &mut Session, key: &str) -> Option<Option<u64>> {
    session.expiry(key.as_bytes(), NOW)
}

#[test]
fn set_then_get_gives_the_same_bytes() {
    let mut s = session();
    let long = "x".repeat(100_000);
    for value in ["", "a", "0", "-5", "+5", "007", "12345678", "abcdefgh", "abcdefghi", &long] {
        put(&mut s, "k", value);
        assert_eq!(text(&mut s, "k").as_deref(), Some(value));
        assert_eq!(s.strlen(b"k", NOW).unwrap(), value.len());
    }
    s.set(b"\0\r\n\xff", b"\xff\0", SetOptions::default(), NOW).unwrap();
    assert_eq!(s.get(b"\0\r\n\xff", NOW, |v| v.to_vec()), Some(b"\xff\0".to_vec()));
    s.set(b"", b"empty key", SetOptions::default(), NOW).unwrap();
    assert_eq!(text(&mut s, "").as_deref(), Some("empty key"));
}

#[test]
fn set_conditions() {
    let mut s = session();
    let set = |s: &mut Session, value: &str, condition| {
        let options = SetOptions { condition, ..SetOptions::default() };
        s.set(b"k", value.as_bytes(), options, NOW).unwrap().stored
    };
    assert!(!set(&mut s, "a", SetCondition::IfPresent));
    assert!(!set(&mut s, "a", SetCondition::IfEqual(b"")));
    assert!(!set(&mut s, "a", SetCondition::IfVersion(0)));
    assert!(set(&mut s, "1", SetCondition::IfAbsent));
    assert!(!set(&mut s, "b", SetCondition::IfAbsent));
    assert!(set(&mut s, "2", SetCondition::IfPresent));
    assert!(!set(&mut s, "c", SetCondition::IfEqual(b"1")));
    assert!(set(&mut s, "a long value", SetCondition::IfEqual(b"2")));
    assert!(set(&mut s, "d", SetCondition::IfEqual(b"a long value")));
    assert_eq!(text(&mut s, "k").as_deref(), Some("d"));
}

#[test]
fn set_returns_the_old_value_also_when_it_does_not_store() {
    let mut s = session();
    let get_nx = SetOptions { return_old: true, ..SetOptions::if_absent() };
    let outcome = s.set(b"k", b"1", get_nx, NOW).unwrap();
    assert_eq!((outcome.stored, outcome.old), (true, None));
    let outcome = s.set(b"k", b"2", get_nx, NOW).unwrap();
    assert_eq!((outcome.stored, outcome.old), (false, Some(b"1".to_vec().into())));
    assert_eq!(s.get_set(b"k", b"3", NOW), Ok(Some(b"1".to_vec().into())));
    assert_eq!(s.get_set(b"new", b"3", NOW), Ok(None));
    assert_eq!(text(&mut s, "new").as_deref(), Some("3"));
}

#[test]
fn set_clears_keeps_or_sets_the_expiry() {
    let mut s = session();
    put_until(&mut s, "k", "v", NOW + 50);
    assert_eq!(ttl(&mut s, "k"), Some(Some(NOW + 50)));
    let keep = SetOptions { expiry: SetExpiry::Keep, ..SetOptions::default() };
    s.set(b"k", b"w", keep, NOW).unwrap();
    assert_eq!(ttl(&mut s, "k"), Some(Some(NOW + 50)));
    put(&mut s, "k", "x");
    assert_eq!(ttl(&mut s, "k"), Some(None));
    s.set(b"k", b"w", keep, NOW).unwrap();
    assert_eq!(ttl(&mut s, "k"), Some(None));
    put_until(&mut s, "k", "v", NOW + 50);
    assert_eq!(s.get_set(b"k", b"y", NOW), Ok(Some(b"v".to_vec().into())));
    assert_eq!(ttl(&mut s, "k"), Some(None), "GETSET clears it");
}

#[test]
fn an_expiry_in_the_past_removes() {
    let mut s = session();
    for at in [0, NOW - 1, NOW] {
        put(&mut s, "k", "v");
        let options =
            SetOptions { expiry: SetExpiry::At(at), return_old: true, ..SetOptions::default() };
        let outcome = s.set(b"k", b"w", options, NOW).unwrap();
        assert_eq!((outcome.stored, outcome.old), (true, Some(b"v".to_vec().into())));
        assert!(!s.exists(b"k", NOW));
    }
    put(&mut s, "k", "v");
    let past = SetOptions { expiry: SetExpiry::At(1), ..SetOptions::if_absent() };
    assert!(!s.set(b"k", b"w", past, NOW).unwrap().stored);
    assert_eq!(text(&mut s, "k").as_deref(), Some("v"), "the condition comes first");
}

#[test]
fn an_expired_key_is_absent_for_every_operation() {
    let mut s = session();
    let prepare = |s: &mut Session| {
        s.clear();
        put_until(s, "k", "5", NOW + 10);
    };
    let late = NOW + 10;
    prepare(&mut s);
    assert!(s.exists(b"k", late - 1));
    assert!(!s.exists(b"k", late));
    assert_eq!(s.strlen(b"k", late).unwrap(), 0);
    assert_eq!(s.expiry(b"k", late), None);
    assert_eq!(s.version(b"k", late).unwrap(), None);
    assert_eq!(s.memory(b"k", late), None);
    assert_eq!(s.random_key(7, late), None);
    assert!(!s.remove(b"k", late));
    prepare(&mut s);
    assert_eq!(s.get_del(b"k", late).unwrap(), None);
    prepare(&mut s);
    assert_eq!(s.incr_by(b"k", 1, late), Ok(1));
    assert_eq!(s.expiry(b"k", late), Some(None), "the new key does not inherit the expiry");
    prepare(&mut s);
    assert_eq!(s.append(b"k", b"x", late), Ok(1));
    assert_eq!(s.expiry(b"k", late), Some(None));
    prepare(&mut s);
    assert!(!s.persist(b"k", late).unwrap());
    assert!(!s.expire_at(b"k", late + 5, ExpireCondition::Always, late).unwrap());
    assert_eq!(s.get_ex(b"k", TtlChange::Persist, late, |_, _| ()).unwrap(), None);
    assert!(!s.exists(b"k", late));
    prepare(&mut s);
    assert!(s.set(b"k", b"6", SetOptions::if_absent(), late).unwrap().stored);
    prepare(&mut s);
    let keep = SetOptions { expiry: SetExpiry::Keep, ..SetOptions::default() };
    s.set(b"k", b"6", keep, late).unwrap();
    assert_eq!(s.expiry(b"k", late), Some(None), "nothing to keep");
    prepare(&mut s);
    assert_eq!(s.rename(b"k", b"l", late), Err(StoreError::NoSuchKey));
    assert_eq!(s.copy(b"k", b"l", true, late), Ok(false));
    assert_eq!(s.exists_many(&[b"k", b"k"], late), 0);
    assert_eq!(s.remove_many(&[b"k", b"l"], late), 0);
    prepare(&mut s);
    assert_eq!(s.mset_nx(&[(b"k", b"1"), (b"l", b"2")], late), Ok(true));
}

#[test]
fn get_ex_changes_the_expiry_only() {
    let mut s = session();
    let get_ex = |s: &mut Session, change| s.get_ex(b"k", change, NOW, |v, _| v.to_vec()).unwrap();
    assert_eq!(get_ex(&mut s, TtlChange::At(NOW + 5)), None);
    put(&mut s, "k", "value");
    for (change, expiry) in [
        (TtlChange::Persist, None),
        (TtlChange::At(NOW + 5), Some(NOW + 5)),
        (TtlChange::Leave, Some(NOW + 5)),
        (TtlChange::Persist, None),
    ] {
        assert_eq!(get_ex(&mut s, change).as_deref(), Some(&b"value"[..]));
        assert_eq!(ttl(&mut s, "k"), Some(expiry), "{change:?}");
    }
    assert_eq!(get_ex(&mut s, TtlChange::At(NOW)).as_deref(), Some(&b"value"[..]));
    assert!(!s.exists(b"k", NOW));
}

#[test]
fn get_del_and_remove() {
    let mut s = session();
    put(&mut s, "k", "12");
    assert_eq!(s.get_del(b"k", NOW).unwrap(), Some(b"12".to_vec().into()));
    assert_eq!(s.get_del(b"k", NOW).unwrap(), None);
    put(&mut s, "k", "v");
    assert!(s.remove(b"k", NOW));
    assert!(!s.remove(b"k", NOW));
}

#[test]
fn append_sees_decimal_text_and_keeps_the_expiry() {
    let mut s = session();
    assert_eq!(s.append(b"k", b"1", NOW), Ok(1));
    assert_eq!(s.append(b"k", b"2", NOW), Ok(2));
    assert_eq!(s.incr_by(b"k", 1, NOW), Ok(13), "the text became an integer again");
    assert!(s.expire_at(b"k", NOW + 9, ExpireCondition::Always, NOW).unwrap());
    assert_eq!(s.append(b"k", b" and more than a word", NOW), Ok(23));
    assert_eq!(text(&mut s, "k").as_deref(), Some("13 and more than a word"));
    assert_eq!(ttl(&mut s, "k"), Some(Some(NOW + 9)));
    assert_eq!(s.append(b"k", b"", NOW), Ok(23));
    assert_eq!(s.append(b"empty", b"", NOW), Ok(0));
    assert!(s.exists(b"empty", NOW), "as in Redis");
}

#[test]
fn get_range_clamps_as_redis_does() {
    let mut s = session();
    put(&mut s, "k", "This is a string");
    let mut range = |start, end| {
        s.get_range(b"k", start, end, NOW, |bytes, _| String::from_utf8(bytes.to_vec()).unwrap())
            .unwrap()
    };
    for (start, end, expected) in [
        (0, 3, "This"),
        (-3, -1, "ing"),
        (0, -1, "This is a string"),
        (10, 100, "string"),
        (5, 3, ""),
        (-1, -3, ""),
        (16, 16, ""),
        (15, 15, "g"),
        (-100, 3, "This"),
        (-100, -200, ""),
        (-200, -100, "T"),
        (i64::MIN, i64::MAX, "This is a string"),
        (i64::MAX, i64::MIN, ""),
    ] {
        assert_eq!(range(start, end), expected, "{start} {end}");
    }
    assert_eq!(s.get_range(b"none", 0, -1, NOW, |bytes, _| bytes.to_vec()).unwrap(), b"");
    put(&mut s, "k", "-1234");
    assert_eq!(s.get_range(b"k", 0, 1, NOW, |bytes, _| bytes.to_vec()).unwrap(), b"-1");
    put(&mut s, "k", "");
    assert_eq!(s.get_range(b"k", 0, -1, NOW, |bytes, _| bytes.to_vec()).unwrap(), b"");
}

#[test]
fn set_range_pads_with_zeros_and_keeps_the_expiry() {
    let mut s = session();
    assert_eq!(s.set_range(b"k", 5, b"", NOW), Ok(0));
    assert!(!s.exists(b"k", NOW), "an empty patch creates nothing");
    assert_eq!(s.set_range(b"k", 3, b"ab", NOW), Ok(5));
    assert_eq!(text(&mut s, "k").as_deref(), Some("\0\0\0ab"));
    put_until(&mut s, "k", "Hello World", NOW + 9);
    assert_eq!(s.set_range(b"k", 6, b"Redis", NOW), Ok(11));
    assert_eq!(s.set_range(b"k", 0, b"J", NOW), Ok(11));
    assert_eq!(s.set_range(b"k", 99, b"", NOW), Ok(11));
    assert_eq!(text(&mut s, "k").as_deref(), Some("Jello Redis"));
    assert_eq!(ttl(&mut s, "k"), Some(Some(NOW + 9)));
    put(&mut s, "k", "123");
    assert_eq!(s.set_range(b"k", 1, b"9", NOW), Ok(3));
    assert_eq!(s.incr_by(b"k", 0, NOW), Ok(193));
}

#[test]
fn lengths_are_checked_before_anything_is_built() {
    let mut s = small();
    let too_long = |len| StoreError::ValueTooLong { len, len_max: 16 };
    assert_eq!(s.set(b"k", &[0; 17], SetOptions::default(), NOW).unwrap_err(), too_long(17));
    assert_eq!(s.set_range(b"k", 16, b"x", NOW), Err(too_long(17)));
    assert_eq!(s.set_range(b"k", usize::MAX, b"x", NOW), Err(too_long(usize::MAX)));
    assert_eq!(s.set_range(b"k", usize::MAX, b"", NOW), Ok(0));
    put(&mut s, "k", "0123456789abcde");
    assert_eq!(s.append(b"k", b"f", NOW), Ok(16));
    assert_eq!(s.append(b"k", b"g", NOW), Err(too_long(17)));
    assert_eq!(s.mset(&[(b"a", b"1"), (b"b", &[0; 17])], NOW), Err(too_long(17)));
    assert!(!s.exists(b"a", NOW), "all or nothing");
    let key_too_long = StoreError::KeyTooLong { len: 5, len_max: 4 };
    assert_eq!(s.set(b"12345", b"", SetOptions::default(), NOW).unwrap_err(), key_too_long);
    assert_eq!(s.incr_by(b"12345", 1, NOW).unwrap_err(), key_too_long);
    assert_eq!(s.incr_by_float(b"12345", b"1", NOW).unwrap_err(), key_too_long);
    assert_eq!(s.append(b"12345", b"1", NOW).unwrap_err(), key_too_long);
    assert_eq!(s.rename(b"k", b"12345", NOW).unwrap_err(), key_too_long);
    assert_eq!(s.copy(b"k", b"12345", true, NOW).unwrap_err(), key_too_long);
    assert_eq!(s.mset_nx(&[(b"12345", b"")], NOW).unwrap_err(), key_too_long);
    assert!(!s.exists(b"12345", NOW));
    for (key_len_max, value_len_max) in [(0, 1), (1, 0), (1 << 33, 1)] {
        let options = Options { key_len_max, value_len_max, ..Options::default() };
        assert!(Store::new(options).is_err());
    }
}

#[test]
fn incr_by_checks_form_and_range() {
    let mut s = session();
    assert_eq!(s.incr_by(b"k", -5, NOW), Ok(-5));
    assert_eq!(s.incr_by(b"k", 6, NOW), Ok(1));
    put_until(&mut s, "k", "41", NOW + 9);
    assert_eq!(s.incr_by(b"k", 1, NOW), Ok(42));
    assert_eq!(ttl(&mut s, "k"), Some(Some(NOW + 9)), "the expiry stays");
    for bad in ["", " 1", "1 ", "1.0", "01", "+1", "a", "9223372036854775808"] {
        put(&mut s, "k", bad);
        assert_eq!(
            s.incr_by(b"k", 1, NOW),
            Err(StoreError::NotANumber(NumberKind::Integer)),
            "{bad:?}"
        );
        assert_eq!(text(&mut s, "k").as_deref(), Some(bad));
    }
    for (value, delta) in [(i64::MAX, 1), (i64::MIN, -1), (-2, i64::MIN), (1, i64::MAX)] {
        put(&mut s, "k", &value.to_string());
        assert_eq!(s.incr_by(b"k", delta, NOW), Err(StoreError::Overflow(NumberKind::Integer)));
        assert_eq!(text(&mut s, "k"), Some(value.to_string()));
    }
}

#[test]
fn incr_by_float_stores_its_result() {
    let mut s = session();
    let incr = |s: &mut Session, delta: &str| {
        s.incr_by_float(b"k", delta.as_bytes(), NOW).map(|text| String::from_utf8(text).unwrap())
    };
    assert_eq!(incr(&mut s, "0.1").as_deref(), Ok("0.1"));
    assert_eq!(incr(&mut s, "0.2").as_deref(), Ok("0.3"));
    assert_eq!(text(&mut s, "k").as_deref(), Some("0.3"));
    assert!(s.expire_at(b"k", NOW + 9, ExpireCondition::Always, NOW).unwrap());
    assert_eq!(incr(&mut s, "2.7").as_deref(), Ok("3"));
    assert_eq!(ttl(&mut s, "k"), Some(Some(NOW + 9)), "the expiry stays");
    assert_eq!(s.incr_by(b"k", 1, NOW), Ok(4), "3.0 is stored as the integer 3");
    assert_eq!(incr(&mut s, "x"), Err(StoreError::NotANumber(NumberKind::Decimal)));
    assert_eq!(incr(&mut s, " 1"), Err(StoreError::NotANumber(NumberKind::Decimal)));
    assert_eq!(incr(&mut s, "inf"), Err(StoreError::Overflow(NumberKind::Decimal)));
    put(&mut s, "k", "word");
    assert_eq!(incr(&mut s, "1"), Err(StoreError::NotANumber(NumberKind::Decimal)));
    assert_eq!(text(&mut s, "k").as_deref(), Some("word"));
}

#[test]
fn expire_conditions_take_no_expiry_for_infinite() {
    use ExpireCondition::*;
    let mut s = session();
    assert!(!s.expire_at(b"k", NOW + 10, Always, NOW).unwrap(), "no key");
    let (sooner, at, later) = (NOW + 10, NOW + 20, NOW + 30);
    for (condition, old, new, expected) in [
        (Always, None, at, true),
        (Always, Some(at), sooner, true),
        (IfNone, None, at, true),
        (IfNone, Some(at), later, false),
        (IfSome, None, at, false),
        (IfSome, Some(at), later, true),
        (IfLater, None, at, false),
        (IfLater, Some(at), at, false),
        (IfLater, Some(at), later, true),
        (IfLater, Some(at), sooner, false),
        (IfEarlier, None, at, true),
        (IfEarlier, Some(at), at, false),
        (IfEarlier, Some(at), later, false),
        (IfEarlier, Some(at), sooner, true),
        (IfSomeAndEarlier, None, at, false),
        (IfSomeAndEarlier, Some(at), sooner, true),
        (IfSomeAndEarlier, Some(at), later, false),
    ] {
        for value in ["7", "a value of more than a word"] {
            match old {
                Some(old) => put_until(&mut s, "k", value, old),
                None => put(&mut s, "k", value),
            }
            let what = format!("{condition:?} {old:?} {new}");
            assert_eq!(s.expire_at(b"k", new, condition, NOW).unwrap(), expected, "{what}");
            assert_eq!(ttl(&mut s, "k"), Some(if expected { Some(new) } else { old }), "{what}");
            assert_eq!(text(&mut s, "k").as_deref(), Some(value), "{what}");
        }
    }
    assert!(s.expire_at(b"k", NOW, Always, NOW).unwrap());
    assert!(!s.exists(b"k", NOW), "an expiry that has come removes");
    put_until(&mut s, "k", "v", at);
    assert!(!s.expire_at(b"k", NOW, IfLater, NOW).unwrap());
    assert!(s.exists(b"k", NOW), "the condition comes first");
}

#[test]
fn persist_takes_the_expiry_away() {
    let mut s = session();
    assert!(!s.persist(b"k", NOW).unwrap());
    put_until(&mut s, "k", "5", NOW + 9);
    assert!(s.persist(b"k", NOW).unwrap());
    assert!(!s.persist(b"k", NOW).unwrap());
    assert_eq!(s.expiry(b"k", NOW + 100), Some(None));
    assert_eq!(text(&mut s, "k").as_deref(), Some("5"));
}

#[test]
fn every_write_changes_the_version() {
    let mut s = session();
    assert_eq!(s.version(b"k", NOW).unwrap(), None);
    type Write = fn(&mut Session);
    let writes: [(&str, Write); 10] = [
        ("set", |s| put(s, "k", "1")),
        ("set the same", |s| put(s, "k", "1")),
        ("incr", |s| assert_eq!(s.incr_by(b"k", 1, NOW), Ok(2))),
        ("append", |s| assert_eq!(s.append(b"k", b"long enough to be bytes", NOW), Ok(24))),
        ("set_range", |s| assert_eq!(s.set_range(b"k", 0, b"x", NOW), Ok(24))),
        ("expire", |s| assert!(s.expire_at(b"k", NOW + 9, ExpireCondition::Always, NOW).unwrap())),
        ("persist", |s| assert!(s.persist(b"k", NOW).unwrap())),
        ("mset", |s| s.mset(&[(b"k", b"1"), (b"l", b"1")], NOW).unwrap()),
        ("rename", |s| s.rename(b"l", b"k", NOW).unwrap()),
        ("remove and set", |s| {
            assert!(s.remove(b"k", NOW));
            put(s, "k", "1");
        }),
    ];
    put(&mut s, "k", "0");
    let mut seen = Vec::new();
    for (name, write) in writes {
        let version = s.version(b"k", NOW).unwrap().unwrap();
        assert!(!seen.contains(&version), "{name}");
        assert_eq!(s.version(b"k", NOW).unwrap(), Some(version), "looking does not change it");
        seen.push(version);
        write(&mut s);
        let condition = SetCondition::IfVersion(version);
        let options = SetOptions { condition, ..SetOptions::default() };
        assert!(!s.set(b"k", b"no", options, NOW).unwrap().stored, "{name}");
    }
    let condition = SetCondition::IfVersion(s.version(b"k", NOW).unwrap().unwrap());
    let options = SetOptions { condition, ..SetOptions::default() };
    assert!(s.set(b"k", b"yes", options, NOW).unwrap().stored);
    assert!(!s.set(b"k", b"no", options, NOW).unwrap().stored);
}

#[test]
fn mget_gives_every_key_in_order() {
    let mut s = session();
    s.mset(&[(b"a", b"1"), (b"b", b"two"), (b"c", b"three, longer than a word")], NOW).unwrap();
    let mut seen = Vec::new();
    s.mget(&[b"c", b"none", b"a", b"b", b"c"], NOW, |i, v| seen.push((i, v.map(|v| v.to_vec()))));
    let long = Some(b"three, longer than a word".to_vec());
    let (one, two) = (Some(b"1".to_vec()), Some(b"two".to_vec()));
    assert_eq!(seen, [(0, long.clone()), (1, None), (2, one.clone()), (3, two), (4, long)]);
    seen.clear();
    s.mget(&[b"a"], NOW, |i, v| seen.push((i, v.map(|v| v.to_vec()))));
    s.mget(&[b"none"], NOW, |i, v| seen.push((i, v.map(|v| v.to_vec()))));
    s.mget(&[], NOW, |_, _| panic!("no key, no call"));
    s.set(b"long", &[b'x'; 100], SetOptions::default(), NOW).unwrap();
    let refused = s.mget_within(&[b"long", b"long"], 150, NOW, |_, _, _| panic!("too long"));
    assert_eq!(refused, Err(StoreError::ValuesTooLong { len_max: 150 }));
    let mut calls = 0;
    s.mget_within(&[b"long", b"long"], 200, NOW, |_, _, _| calls += 1).unwrap();
    assert_eq!(calls, 2);
    assert_eq!(seen, [(0, one), (0, None)]);
}

#[test]
fn mset_takes_the_last_of_equal_keys_and_clears_expiries() {
    let mut s = session();
    put_until(&mut s, "a", "v", NOW + 9);
    s.mset(&[(b"a", b"1"), (b"b", b"2"), (b"a", b"3")], NOW).unwrap();
    assert_eq!(text(&mut s, "a").as_deref(), Some("3"));
    assert_eq!(ttl(&mut s, "a"), Some(None));
    // More pairs than are compared one by one.
    let pairs: Vec<(Vec<u8>, Vec<u8>)> =
        (0..100u32).map(|i| ((i % 30).to_string().into(), i.to_string().into())).collect();
    let borrowed: Vec<(&[u8], &[u8])> = pairs.iter().map(|(k, v)| (&k[..], &v[..])).collect();
    s.mset(&borrowed, NOW).unwrap();
    for key in 0..30u32 {
        let last = if key < 10 { key + 90 } else { key + 60 };
        assert_eq!(text(&mut s, &key.to_string()), Some(last.to_string()));
    }
    s.mset(&[], NOW).unwrap();
    s.mset(&[(b"a", b"one pair")], NOW).unwrap();
    assert_eq!(text(&mut s, "a").as_deref(), Some("one pair"));
}

#[test]
fn mset_nx_sets_all_or_none() {
    let mut s = session();
    assert_eq!(s.mset_nx(&[(b"a", b"1"), (b"b", b"2"), (b"a", b"3")], NOW), Ok(true));
    assert_eq!(text(&mut s, "a").as_deref(), Some("3"));
    assert_eq!(s.mset_nx(&[(b"c", b"1"), (b"b", b"9")], NOW), Ok(false));
    assert_eq!((text(&mut s, "c"), text(&mut s, "b").as_deref()), (None, Some("2")));
}

#[test]
fn rename_carries_value_and_expiry() {
    let mut s = session();
    assert_eq!(s.rename(b"a", b"b", NOW), Err(StoreError::NoSuchKey));
    assert_eq!(s.rename(b"a", b"a", NOW), Err(StoreError::NoSuchKey));
    assert_eq!(s.rename_nx(b"a", b"a", NOW), Err(StoreError::NoSuchKey));
    for value in ["5", "short", "a value of more than a word"] {
        put_until(&mut s, "a", value, NOW + 9);
        put_until(&mut s, "b", "old", NOW + 99);
        s.rename(b"a", b"b", NOW).unwrap();
        assert_eq!((text(&mut s, "a"), text(&mut s, "b").as_deref()), (None, Some(value)));
        assert_eq!(ttl(&mut s, "b"), Some(Some(NOW + 9)));
    }
    put(&mut s, "a", "1");
    s.rename(b"a", b"b", NOW).unwrap();
    assert_eq!(ttl(&mut s, "b"), Some(None), "the target's old expiry goes");
    s.rename(b"b", b"b", NOW).unwrap();
    assert_eq!(text(&mut s, "b").as_deref(), Some("1"));
    assert_eq!(s.rename_nx(b"b", b"b", NOW), Ok(false));
    put(&mut s, "a", "2");
    assert_eq!(s.rename_nx(b"a", b"b", NOW), Ok(false));
    assert_eq!(text(&mut s, "b").as_deref(), Some("1"));
    assert_eq!(s.rename_nx(b"a", b"c", NOW), Ok(true));
    assert_eq!((text(&mut s, "a"), text(&mut s, "c").as_deref()), (None, Some("2")));
}

#[test]
fn copy_carries_value_and_expiry() {
    let mut s = session();
    assert_eq!(s.copy(b"a", b"b", true, NOW), Ok(false));
    put_until(&mut s, "a", "5", NOW + 9);
    assert_eq!(s.copy(b"a", b"a", true, NOW), Ok(false));
    assert_eq!(s.copy(b"a", b"b", false, NOW), Ok(true));
    assert_eq!(ttl(&mut s, "b"), Some(Some(NOW + 9)));
    assert_eq!(s.incr_by(b"b", 1, NOW), Ok(6));
    assert_eq!(text(&mut s, "a").as_deref(), Some("5"), "two values");
    assert_eq!(s.copy(b"a", b"b", false, NOW), Ok(false));
    assert_eq!(text(&mut s, "b").as_deref(), Some("6"));
    assert_eq!(s.copy(b"a", b"b", true, NOW), Ok(true));
    assert_eq!(text(&mut s, "b").as_deref(), Some("5"));
}

#[test]
fn counts_over_several_keys() {
    let mut s = session();
    s.mset(&[(b"a", b"1"), (b"b", b"2")], NOW).unwrap();
    assert_eq!(s.exists_many(&[b"a", b"a", b"b", b"none"], NOW), 3);
    assert_eq!(s.touch_many(&[b"a", b"none"], NOW), 1);
    assert_eq!(s.exists_many(&[b"a"], NOW), 1);
    assert!(s.touch(b"a", NOW));
    assert_eq!(s.remove_many(&[b"a", b"a", b"none"], NOW), 1);
    assert_eq!(s.remove_many(&[b"b"], NOW), 1);
    assert_eq!(s.remove_many(&[], NOW), 0);
}

#[test]
fn exclusive_allows_all_its_keys_and_nests() {
    let mut s = session();
    let sum = s.exclusive(&[b"a", b"b"], |s| {
        s.incr_by(b"a", 1, NOW).unwrap();
        s.mset(&[(b"a", b"20"), (b"b", b"22")], NOW).unwrap();
        let mut sum = 0;
        s.mget(&[b"a", b"b"], NOW, |_, v| sum += v.map_or(0, |v| v.len()));
        s.exclusive(&[b"b"], |s| s.incr_by(b"b", 0, NOW)).unwrap() + sum as i64
    });
    assert_eq!(sum, 26);
    s.exclusive(&[], |s| {
        assert_eq!(s.exists_many(&[b"a", b"b"], NOW), 2);
        assert_eq!(s.scan(0, 10, NOW, |_, _| ()), 0);
        s.clear();
    });
    assert_eq!(s.random_key(1, NOW), None);
}

#[test]
fn exclusive_refuses_other_keys_and_lets_go() {
    let store = store();
    let mut s = store.session();
    let other = (0u32..)
        .map(|i| i.to_string())
        .find(|k| s.stripe(k.as_bytes()) == s.stripe(b"a") && *k != "a");
    let other = other.unwrap();
    let attempt = std::panic::AssertUnwindSafe(|| {
        s.exclusive(&[b"a"], |s| s.exists(other.as_bytes(), NOW));
    });
    assert!(std::panic::catch_unwind(attempt).is_err());
    // The stripes are free again, for this session and for others.
    put(&mut s, "a", "1");
    let mut t = store.session();
    t.exclusive(&[], |t| assert_eq!(t.incr_by(b"a", 1, NOW), Ok(2)));
    assert_eq!(store.stats().sessions, 2);
    drop(s);
    assert_eq!(store.stats().sessions, 1);
    assert_eq!(store.stats().exclusions, 2);
}

#[test]
fn scan_visits_every_key_once() {
    let store = store();
    let mut s = store.session();
    for i in 0..1000 {
        put(&mut s, &format!("key {i}"), &i.to_string());
    }
    put_until(&mut s, "gone", "v", NOW + 1);
    let (mut seen, mut cursor, mut steps) = (Vec::new(), 0, 0);
    loop {
        cursor = s.scan(cursor, 10, NOW + 1, |key, value| {
            let key = String::from_utf8(key.to_vec()).unwrap();
            assert_eq!(key.strip_prefix("key ").unwrap().as_bytes(), value.to_vec());
            seen.push(key);
        });
        steps += 1;
        if cursor == 0 {
            break;
        }
    }
    assert!(steps > 10, "{steps}");
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 1000);
    assert_eq!(store.len(), 1001, "expired, not reclaimed");
    assert_eq!(s.expire_due(NOW + 1, 100, |_, _| {}), ExpiryStep { removed: 1, next: None });
    assert_eq!(store.len(), 1000);
    assert!(s.random_key(12_345, NOW).unwrap().starts_with(b"key "));
    s.clear();
    assert!(store.is_empty());
}

#[test]
fn memory_grows_with_key_value_and_expiry() {
    let mut s = session();
    put(&mut s, "k", "1");
    let word = s.memory(b"k", NOW).unwrap();
    put_until(&mut s, "k", "1", NOW + 9);
    let expiring = s.memory(b"k", NOW).unwrap();
    put(&mut s, "k", &"x".repeat(100));
    let long = s.memory(b"k", NOW).unwrap();
    assert!(16 < word && word < expiring && expiring < long);
    // 12 bytes for the present value and each of two earlier ones.
    let least = if HISTORY == 0 { 100 } else { 100 + 3 * 12 };
    assert!((least..least + 60).contains(&long), "{long}");
}
