//! What holds for containers of any type, packed and large: the expiry stays, limits are looked at, those who wait are
//! told.

use std::task::Waker;

use hotring_store::{AddOptions, End, ExpireCondition, Options, Session, Store, StoreError};

const NOW: u64 = 1_700_000_000_000;
const LATER: u64 = NOW + 1_000_000;

/// Adds a part to the container of a type.
fn add(session: &mut Session, key: &str, part: &[u8]) -> Result<usize, StoreError> {
    let bytes = key.as_bytes();
    match key {
        "list" => session.list_push(bytes, End::Back, &[part], false, NOW),
        "set" => session.set_add(bytes, &[part], NOW),
        "hash" => session.hash_set(bytes, &[(part, b"v")], NOW),
        _ => {
            let always = AddOptions::default();
            session.scored_add(bytes, &[(1.0, part)], always, NOW).map(|added| added.added)
        }
    }
}

const KEYS: [&str; 4] = ["list", "set", "hash", "sorted set"];

fn options() -> Options {
    Options {
        value_len_max: 100,
        list_packed_elements_max: 4,
        set_packed_members_max: 4,
        hash_packed_fields_max: 4,
        scored_packed_members_max: 4,
        ..Options::default()
    }
}

#[test]
fn changes_keep_the_expiry_and_refuse_long_parts() {
    let store = Store::new(options()).expect("it fits");
    let mut session = store.session();
    for key in KEYS {
        add(&mut session, key, b"first").expect("room");
        session.expire_at(key.as_bytes(), LATER, ExpireCondition::Always, NOW).expect("room");
        // From packed to large.
        for i in 0..10 {
            // Whoever watches the key has its version looked at.
            session.key_state(key.as_bytes(), NOW).expect("room");
            add(&mut session, key, format!("part {i}").as_bytes()).expect("room");
            assert_eq!(session.expiry(key.as_bytes(), NOW), Some(Some(LATER)), "{key} {i}");
            let long = add(&mut session, key, &[b'x'; 101]);
            assert!(matches!(long, Err(StoreError::ValueTooLong { .. })), "{key} {i}: {long:?}");
        }
    }
}

/// Of packed ones and in place; not of what changes nothing.
#[test]
fn waiters_are_notified_of_changes() {
    let store = Store::new(options()).expect("it fits");
    let (mut session, mut waiting) = (store.session(), store.session());
    for key in KEYS {
        for i in 0..10 {
            let watch =
                waiting.watch(key.as_bytes(), None, Waker::noop().clone(), NOW).expect("room");
            assert!(!watch.has_fired());
            add(&mut session, key, &[b'x'; 101]).expect_err("it is too long");
            assert!(!watch.has_fired(), "{key} {i}: nothing was changed");
            add(&mut session, key, format!("part {i}").as_bytes()).expect("room");
            assert!(watch.has_fired(), "{key} {i}");
        }
    }
}

#[test]
fn a_score_is_compared_with_the_one_that_the_same_addition_gave() {
    let store = Store::new(Options::default()).expect("it fits");
    let mut session = store.session();
    let greater = AddOptions { if_greater: true, ..AddOptions::default() };
    let mut add = |pairs: &[(f64, &[u8])]| {
        let added = session.scored_add(b"z", pairs, greater, NOW).expect("room");
        let score = session.scored(b"z", NOW, |scored| scored.score(b"m")).expect("sorted");
        (added.added, added.moved, score.flatten())
    };
    assert_eq!(add(&[(3.0, b"m"), (2.0, b"m")]), (1, 0, Some(3.0)));
    assert_eq!(add(&[(5.0, b"m"), (4.0, b"m"), (5.0, b"m")]), (0, 1, Some(5.0)));
    assert_eq!(session.scored_incr(b"z", 0.0, b"m", greater, NOW), Ok(None), "it is no greater");
    assert_eq!(session.scored_incr(b"z", 1.0, b"m", greater, NOW), Ok(Some(6.0)));
}
