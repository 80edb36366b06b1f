//! Steps whose loss no lookup notices: a hint in no line or in the wrong one, memory that is kept, lines
//! that never become complete again.

use super::Ring;
use super::hint::VOTES_NEW;
use crate::core::config::{Config, Growth};
use crate::core::item::Kind;
use crate::core::sync::Ordering;
use crate::core::word::{BUSY, Hint, Link};
use crate::{Bytes, Expiry, HotRing, HotRingSession, NewValue, Session, U64};
use std::borrow::Cow;

type Small = HotRing<U64, 3>;

/// A table of one slot, in which nothing moves unless a test says so.
fn table(complete_lines: bool) -> Small {
    let config = Config {
        growth: Some(Growth::Fixed),
        slots_initial: 1,
        slots_max: 4,
        complete_lines: Some(complete_lines),
        period: Some(u32::MAX / 2),
        huge_pages: false,
        ..Config::default()
    };
    HotRing::new(config).expect("a valid configuration")
}

/// Keys of bucket `bucket` of this many, in the ring's order.
fn keys(session: &Session<U64, Ring<3>>, n: usize, bucket: u64, buckets: u64) -> Vec<u64> {
    let hash = |key: &u64| session.shared().kind.hash(key);
    let mut keys: Vec<u64> = (0..).filter(|key| hash(key) % buckets == bucket).take(n).collect();
    keys.sort_unstable_by_key(|key| hash(key).reverse_bits());
    keys
}

/// The keys that a slot hints.
fn hinted(session: &mut Session<U64, Ring<3>>, slot: u64) -> Vec<u64> {
    let pinned = session.pin();
    let words = pinned.engine.table.slot(slot).hints.iter();
    // ORDERING: Relaxed, there is one thread.
    let hints = words.map(|word| Hint(word.load(Ordering::Relaxed)));
    hints.filter_map(|hint| pinned.hinted(hint)).map(|item| *U64::key(item)).collect()
}

#[test]
fn a_split_leaves_the_lower_half_its_hints_and_hands_over_the_others() {
    let index = table(false);
    let mut session = index.session();
    let (lower, upper) = (keys(&session, 1, 0, 2), keys(&session, 1, 1, 2));
    assert!(session.insert(lower[0], 1) && session.insert(upper[0], 2));
    assert_eq!(hinted(&mut session, 0).len(), 2);
    assert!(session.grow() && session.put(upper[0], 3));
    assert_eq!((hinted(&mut session, 0), hinted(&mut session, 1)), (lower, upper));
}

#[test]
fn a_split_takes_hints_from_all_lines_that_served_its_keys() {
    let index = table(false);
    let mut session = index.session();
    let keys = keys(&session, 1, 3, 4);
    assert!(session.insert(keys[0], 1) && session.grow() && session.grow());
    let mut pinned = session.pin();
    // Bucket 1 is being split off by another session.
    let busy = Link::anchor(0).address() | BUSY;
    // ORDERING: Relaxed, there is one thread.
    pinned.engine.table.slot(1).anchor.store(busy, Ordering::Relaxed);
    assert!(pinned.split(3));
    // ORDERING: as above.
    pinned.engine.table.slot(1).anchor.store(0, Ordering::Relaxed);
    drop(pinned);
    assert_eq!((hinted(&mut session, 0), hinted(&mut session, 3)), (vec![], keys));
}

#[test]
fn a_removal_finds_its_hint_in_a_slot_that_goes() {
    let index = table(false);
    let mut session = index.session();
    let keys = keys(&session, 1, 1, 2);
    assert!(session.grow() && session.insert(keys[0], 1));
    assert_eq!(hinted(&mut session, 1), keys);
    assert!(session.shrink());
    assert_eq!((index.stats().slots, hinted(&mut session, 1)), (1, keys.clone()));
    assert!(session.remove(keys[0]));
    assert_eq!(hinted(&mut session, 1), []);
}

#[test]
fn lines_may_become_complete_after_a_halving_that_was_undone() {
    let index = table(true);
    let mut session = index.session();
    let quiet =
        |session: &Session<U64, Ring<3>>| session.shared().engine.resizing.forbids_completing();
    assert!(session.grow() && session.shrink() && quiet(&session));
    session.grow();
    assert!(!quiet(&session), "undone before the mask was halved");
    let slots = index.stats().slots;
    assert!(session.shrink() && quiet(&session));
    for _ in 0..20 {
        if index.stats().slots == slots {
            session.collect();
        }
    }
    assert_eq!(index.stats().slots, slots / 2);
    assert!(session.grow() && !quiet(&session), "undone after that");
    assert_eq!(index.stats().slots, slots);
}

#[test]
fn a_new_item_takes_the_hint_of_the_first_unless_that_is_hot() {
    for (votes, is_displaced) in [(VOTES_NEW, true), (VOTES_NEW + 1, false)] {
        let index = table(false);
        let mut session = index.session();
        let keys = keys(&session, 4, 0, 1);
        keys[..3].iter().for_each(|&key| assert!(session.insert(key, 1)));
        for word in &session.pin().engine.table.slot(0).hints {
            // ORDERING: Relaxed, there is one thread.
            let hint = Hint(word.load(Ordering::Relaxed));
            // ORDERING: as above.
            word.store(hint.with_votes(votes).0, Ordering::Relaxed);
        }
        assert!(session.insert(keys[3], 1));
        let hinted = hinted(&mut session, 0);
        assert_eq!(hinted.contains(&keys[3]), is_displaced, "{votes} votes");
        assert_eq!(hinted.contains(&keys[0]), !is_displaced, "{votes} votes");
    }
}

#[test]
fn dead_versions_that_are_left_are_small_and_counted_until_they_are_out() {
    let index = HotRing::<Bytes>::new(Config::default()).expect("a valid configuration");
    let mut session = index.session();
    let put = |session: &mut HotRingSession<Bytes>, size: usize| {
        let bytes = Cow::Owned(vec![b'x'; size]);
        session.put(b"k", NewValue::Bytes { kind: 0, bytes }, Expiry::Never, 1);
    };
    let left =
        |session: &HotRingSession<Bytes>| session.shared().sum(|record| record.left_bytes.load());
    (100..104).for_each(|size| put(&mut session, size));
    assert!(left(&session) > 300, "three versions of 100 bytes wait for a walk");
    assert!(session.remove(b"k", 1));
    assert_eq!(left(&session), 0);
    (600..604).for_each(|size| put(&mut session, size));
    assert_eq!(left(&session), 0, "what is large is taken out at once");
}

/// Sessions that end after a few writes must not leave more than one that stays.
#[test]
fn sessions_that_end_leave_no_more_dead_versions_than_one_that_stays() {
    const KEYS: u32 = 40_000;
    const SIZE: usize = 200;
    let index = HotRing::<Bytes>::new(Config::default()).expect("a valid configuration");
    let put = |session: &mut HotRingSession<Bytes>, key: u32, byte: u8| {
        // Another size each time, so that no value is written in place.
        let bytes = Cow::Owned(vec![byte; SIZE + usize::from(byte)]);
        session.put(&key.to_le_bytes(), NewValue::Bytes { kind: 0, bytes }, Expiry::Never, 1);
    };
    let mut session = index.session();
    (0..KEYS).for_each(|key| put(&mut session, key, 0));
    let left =
        |session: &HotRingSession<Bytes>| session.shared().sum(|record| record.left_bytes.load());
    for byte in 1..4 {
        for first in (0..KEYS).step_by(8) {
            let mut short = index.session();
            (first..first + 8).for_each(|key| put(&mut short, key, byte));
        }
    }
    let (left, live) = (left(&session), i64::from(KEYS) * SIZE as i64);
    assert!(left < live / 4, "{left} bytes are left beside {live} of live items");
}
