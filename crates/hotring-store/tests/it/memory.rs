//! The limit of all memory: which operations it refuses, and which go on.

use std::panic::{AssertUnwindSafe, catch_unwind};

use hotring_store::{
    BitOp, Content, ExpireCondition, Options, Session, SetExpiry, SetOptions, Store, StoreError,
};

const NOW: u64 = 1_700_000_000_000;
const MAX: u64 = 2 << 20;

fn store() -> Store {
    let store = Store::new(Options::default()).expect("the settings are good");
    store.set_memory_max(MAX);
    store
}

fn set(session: &mut Session, key: &str, len: usize) -> Result<(), StoreError> {
    session.set(key.as_bytes(), &vec![b'v'; len], SetOptions::default(), NOW).map(drop)
}

fn is_full<T>(result: Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::OutOfMemory(_)))
}

#[test]
fn a_full_store_is_read_and_emptied() {
    let store = store();
    let mut s = store.session();
    let n = (0..1_000_000).position(|i| is_full(set(&mut s, &format!("key:{i}"), 100)));
    let n = n.expect("a million were let through");
    // Operations that may take memory are refused.
    assert!(is_full(s.set(b"new", b"v", SetOptions::default(), NOW)));
    assert!(is_full(s.append(b"key:1", b"x", NOW)));
    assert!(is_full(s.set_range(b"key:1", 0, b"x", NOW)));
    assert!(is_full(s.incr_by(b"n", 1, NOW)));
    assert!(is_full(s.mset(&[(b"a".as_slice(), b"1".as_slice()), (b"b", b"2")], NOW)));
    assert!(is_full(s.copy(b"key:1", b"new", false, NOW)));
    assert!(is_full(s.bit_op(BitOp::Not, b"new", &[b"key:1"], NOW)));
    assert!(is_full(s.hash_set(b"hash", &[(b"f".as_slice(), b"v".as_slice())], NOW)));
    // Operations that only set an expiry, a number or another name are not, nor are reads and removals.
    assert_eq!(s.expire_at(b"key:1", NOW + 1_000, ExpireCondition::Always, NOW), Ok(true));
    assert_eq!(s.persist(b"key:1", NOW), Ok(true));
    assert!(s.version(b"key:1", NOW).is_ok_and(|version| version.is_some()));
    assert_eq!(s.rename(b"key:1", b"other", NOW), Ok(()));
    assert_eq!(s.rename(b"other", b"key:1", NOW), Ok(()));
    assert!((0..n).all(|i| s.exists(format!("key:{i}").as_bytes(), NOW)));
    assert_eq!(s.expire_at(b"key:0", NOW, ExpireCondition::Always, NOW), Ok(true));
    assert!((1..300).all(|i| s.remove(format!("key:{i}").as_bytes(), NOW)));
    assert_eq!(set(&mut s, "new", 100), Ok(()));
}

#[test]
fn a_long_value_has_to_fit() {
    const HALF: usize = MAX as usize / 2;
    let store = store();
    let mut s = store.session();
    assert_eq!(set(&mut s, "a", HALF), Ok(()));
    let bytes = store.stats().index.bytes;
    assert!(is_full(set(&mut s, "b", HALF)));
    let long = vec![b'v'; HALF / 2];
    assert!(is_full(s.mset(&[(b"b".as_slice(), long.as_slice()), (b"c", &long)], NOW)));
    assert!(is_full(s.set_range(b"b", 7, &vec![b'v'; HALF], NOW)));
    assert!(is_full(s.append(b"b", &vec![b'v'; HALF], NOW)));
    assert!(is_full(s.bit_op(BitOp::Not, b"b", &[b"a"], NOW)));
    let content = Content::String(vec![b'v'; HALF].into());
    assert!(is_full(s.put_content(b"b", content, None, false, NOW)));
    assert_eq!(store.stats().index.bytes, bytes, "nothing was taken");
    // A copy has the value together with its original.
    assert_eq!(s.copy(b"a", b"b", false, NOW), Ok(true));
    assert!(store.stats().index.bytes < bytes + 100 && s.remove(b"b", NOW));
    assert_eq!(set(&mut s, "b", HALF / 2), Ok(()), "a shorter one fits");
    // Room that is given back is there for the next one at once.
    assert!(s.remove(b"a", NOW));
    let options = SetOptions { expiry: SetExpiry::At(NOW + 1), ..SetOptions::default() };
    assert!(s.set(b"c", &vec![b'v'; HALF], options, NOW).is_ok());
}

#[test]
fn writes_admitted_together_are_not_refused_midway() {
    let store = store();
    let mut s = store.session();
    (0..1_000_000)
        .position(|i| is_full(set(&mut s, &format!("key:{i}"), 100)))
        .expect("it is full");
    s.admitted(20_000, |s| {
        assert_eq!(set(s, "a", 100), Ok(()));
        assert_eq!(set(s, "b", 20_000), Ok(()));
        assert!(is_full(set(s, "c", 20_001)), "more than was said");
    });
    assert!(is_full(set(&mut s, "d", 100)));
    let panicked = catch_unwind(AssertUnwindSafe(|| s.admitted(20_000, |_| panic!("on purpose"))));
    assert!(panicked.is_err() && is_full(set(&mut s, "d", 100)));
}

/// A larger table would be memory that could hold no values any more.
#[test]
fn a_table_does_not_grow_beyond_the_limit() {
    let store = Store::new(Options::default()).expect("the settings are good");
    let mut s = store.session();
    (0..50_000).for_each(|i| set(&mut s, &format!("key:{i}"), 1).expect("there is no limit"));
    let table = store.stats().index.table_bytes;
    // Room for many more keys, but not for these and a table of twice the size.
    store.set_memory_max(store.stats().index.used_bytes() + table * 9 / 10);
    let more = (50_000..1_000_000).position(|i| is_full(set(&mut s, &format!("key:{i}"), 1)));
    assert_eq!(store.stats().index.table_bytes, table);
    assert!(more.is_some_and(|more| more as u64 > table / 100), "{more:?} keys more");
    store.set_memory_max(u64::MAX);
    (0..100_000).for_each(|i| set(&mut s, &format!("more:{i}"), 1).expect("there is no limit"));
    assert!(store.stats().index.table_bytes > table);
}
