//! The limit of all memory: which operations it refuses, and which go on.

use hotring_store::{
    BitOp, ExpireCondition, Options, Session, SetExpiry, SetOptions, Store, StoreError,
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
    // What may take memory is refused.
    assert!(is_full(s.set(b"new", b"v", SetOptions::default(), NOW)));
    assert!(is_full(s.append(b"key:1", b"x", NOW)));
    assert!(is_full(s.set_range(b"key:1", 0, b"x", NOW)));
    assert!(is_full(s.incr_by(b"n", 1, NOW)));
    assert!(is_full(s.mset(&[(b"a".as_slice(), b"1".as_slice()), (b"b", b"2")], NOW)));
    assert!(is_full(s.rename(b"key:1", b"key:2", NOW)));
    assert!(is_full(s.copy(b"key:1", b"new", false, NOW)));
    assert!(is_full(s.bit_op(BitOp::Not, b"new", &[b"key:1"], NOW)));
    assert!(is_full(s.hash_set(b"hash", &[(b"f".as_slice(), b"v".as_slice())], NOW)));
    assert!(is_full(s.expire_at(b"key:1", NOW + 1, ExpireCondition::Always, NOW)));
    // What is read and removed is not.
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
    assert!(is_full(s.copy(b"a", b"b", false, NOW)));
    assert!(is_full(s.set_range(b"b", HALF, b"v", NOW)));
    assert!(is_full(s.bit_op(BitOp::Not, b"b", &[b"a"], NOW)));
    let dump = s.dump(b"a", NOW).expect("it is there");
    assert!(is_full(s.restore(b"b", &dump, None, false, NOW)));
    assert_eq!(store.stats().index.bytes, bytes, "nothing was taken");
    assert_eq!(set(&mut s, "b", HALF / 2), Ok(()), "a shorter one fits");
    // Room that is given back is there for the next one at once.
    assert!(s.remove(b"a", NOW));
    let options = SetOptions { expiry: SetExpiry::At(NOW + 1), ..SetOptions::default() };
    assert!(s.set(b"c", &vec![b'v'; HALF], options, NOW).is_ok());
}
