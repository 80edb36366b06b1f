//! Mirrors step by step: what schedules meet too seldom, limits, and which keys are chosen.

use std::time::Duration;

use crate::assert_variants_are_found;
use crate::faults::Fault;
use crate::ids::{Epoch, Moment};
use crate::mirrors::{
    Ask, Budget, Changes, Choice, Closing, Dropped, GRANT, Heat, Holder, Key, MirrorAct, Owner,
    Version,
};

const HOT: &[u8] = b"hot";

fn ms(ms: u64) -> Moment {
    Duration::from_millis(ms)
}

fn key(name: &str) -> Key {
    name.as_bytes().into()
}

/// An owner that guards a key.
fn owner() -> Owner {
    let mut owner = Owner::promoted(Epoch(1), 0);
    assert!(owner.begin(HOT));
    assert_eq!(owner.acts(), [MirrorAct::Guard(HOT.into())]);
    owner.has_guard(ms(0), HOT);
    owner
}

fn ask(number: u64) -> Ask {
    Ask { number, keys: vec![HOT.into()] }
}

fn dropped(number: u64) -> Dropped {
    Dropped { key: HOT.into(), version: Version { epoch: Epoch(1), number } }
}

/// How long a grant at this moment lasts; None if there is none.
fn granted(owner: &mut Owner, now: u64, right: Option<u64>, expiry: Option<u64>) -> Option<u64> {
    let grants = owner.ask(ms(now), 7, &ask(1), right.map(ms), |_| expiry.map(ms)).grants;
    grants.first().map(|(_, grant)| grant.lasts.as_millis() as u64)
}

fn a_grant_is_no_longer_than_the_right_to_answer_and_the_life_of_the_key() {
    assert_eq!(granted(&mut owner(), 50, Some(2000), None), Some(100));
    assert_eq!(granted(&mut owner(), 50, Some(80), None), Some(30));
    assert_eq!(granted(&mut owner(), 50, Some(2000), Some(20)), Some(20));
    for (right, expiry) in [(Some(50), None), (None, None), (Some(2000), Some(0))] {
        assert_eq!(granted(&mut owner(), 50, right, expiry), None);
    }
}

/// A holder that says nothing more, and whose clock is slower than the owner's.
fn a_write_waits_for_a_holder_whose_clock_is_slow() {
    const SLOW: u32 = 95;
    let (mut owner, mut holder) = (owner(), Holder::default());
    let ask = holder.ask(ms(0), vec![HOT.into()]).unwrap();
    let grants = owner.ask(ms(1), 7, &ask, Some(ms(2000)), |_| None);
    holder.granted(ms(1), grants);
    assert!(holder.version(ms(80), HOT).is_some());
    owner.revoke(ms(2), HOT);
    owner.tick(ms(1) + GRANT - ms(1));
    assert!(owner.is_guarded(HOT));
    assert_eq!(owner.next_end(), Some(ms(1) + GRANT));
    owner.tick(ms(1) + GRANT);
    assert!(!owner.is_guarded(HOT));
    let slow = (ms(1) + GRANT) * SLOW / 100;
    assert!(holder.version(slow, HOT).is_none());
}

/// The word about an earlier guard comes twice, the second time late.
fn a_late_word_of_a_holder_ends_no_later_guard() {
    let mut owner = owner();
    for number in 1..=2 {
        owner.ask(ms(0), 7, &ask(number), Some(ms(2000)), |_| None);
        owner.revoke(ms(1), HOT);
        owner.dropped(ms(2), 7, &dropped(1));
        assert_eq!(owner.is_guarded(HOT), number == 2);
        owner.tick(ms(2) + GRANT);
        owner.begin(HOT);
        owner.has_guard(ms(0), HOT);
    }
}

#[test]
fn grants_end_in_time() {
    a_grant_is_no_longer_than_the_right_to_answer_and_the_life_of_the_key();
    a_write_waits_for_a_holder_whose_clock_is_slow();
    a_late_word_of_a_holder_ends_no_later_guard();
}

#[test]
fn every_wrong_variant_of_a_grants_end_is_found() {
    assert_variants_are_found(&[
        (
            a_grant_is_no_longer_than_the_right_to_answer_and_the_life_of_the_key,
            &[Fault::OutliveRight, Fault::OutliveKey],
        ),
        (a_write_waits_for_a_holder_whose_clock_is_slow, &[Fault::RelyOnAll]),
        (a_late_word_of_a_holder_ends_no_later_guard, &[Fault::AnyVersion]),
    ]);
}

#[test]
fn a_write_goes_on_once_every_holder_has_dropped_the_key() {
    let mut owner = owner();
    owner.ask(ms(0), 7, &ask(1), Some(ms(2000)), |_| None);
    owner.ask(ms(0), 8, &ask(1), Some(ms(2000)), |_| None);
    assert_eq!(owner.guarded().collect::<Vec<_>>(), [(HOT, 2)]);
    owner.revoke(ms(5), HOT);
    // A second write asks no holder again.
    owner.revoke(ms(6), HOT);
    let revokes = [7, 8].map(|holder| MirrorAct::Revoke(holder, dropped(1)));
    assert_eq!(owner.acts(), revokes);
    owner.dropped(ms(7), 7, &dropped(1));
    owner.dropped(ms(7), 7, &dropped(1));
    assert!(owner.acts().is_empty());
    assert!(owner.ask(ms(7), 9, &ask(1), Some(ms(2000)), |_| None).grants.is_empty());
    owner.dropped(ms(8), 8, &dropped(1));
    assert_eq!(owner.acts(), [MirrorAct::Release(HOT.into())]);
    // What waited comes first.
    assert!(!owner.begin(HOT));
    owner.tick(ms(8) + GRANT);
    assert!(owner.begin(HOT));
}

/// Two holders write keys that the other one has: neither can answer before its own write is through.
#[test]
fn what_a_holder_gives_up_before_it_writes_delays_no_other_write() {
    let mut owner = owner();
    assert!(owner.begin(b"other"));
    owner.has_guard(ms(0), b"other");
    let asked = Ask { number: 1, keys: vec![key("hot"), key("other")] };
    for holder in [7, 8] {
        assert_eq!(owner.ask(ms(0), holder, &asked, Some(ms(2000)), |_| None).grants.len(), 2);
    }
    owner.acts();
    owner.gave_up_all(ms(1), 7);
    assert_eq!(owner.guarded().map(|(_, holders)| holders).collect::<Vec<_>>(), [1, 1]);
    owner.revoke(ms(1), HOT);
    assert!(owner.is_guarded(HOT));
    owner.gave_up_all(ms(2), 8);
    owner.revoke(ms(2), b"other");
    assert!(!owner.is_guarded(HOT) && !owner.is_guarded(b"other"));
}

#[test]
fn a_key_that_is_written_before_it_is_guarded_is_never_granted() {
    let mut owner = Owner::promoted(Epoch(1), 0);
    owner.begin(HOT);
    owner.revoke(ms(0), HOT);
    owner.acts();
    owner.has_guard(ms(1), HOT);
    assert_eq!(granted(&mut owner, 1, Some(2000), None), None);
    assert_eq!(owner.acts(), [MirrorAct::Release(HOT.into())]);
}

#[test]
fn closed_slots_are_clear_once_nothing_of_them_is_granted() {
    let mut owner = owner();
    let (closing, other) = (Closing::Move(3), Closing::Handover);
    owner.ask(ms(0), 7, &ask(1), Some(ms(2000)), |_| None);
    let slot = crate::slots::slot_of(HOT);
    owner.close(ms(1), other, [slot + 1].into_iter().collect());
    assert!(owner.is_clear(ms(1), other) && owner.acts().is_empty());
    owner.close(ms(1), closing, [slot].into_iter().collect());
    assert!(!owner.is_clear(ms(1), closing));
    owner.dropped(ms(2), 7, &dropped(1));
    assert!(owner.is_clear(ms(2), closing));
    owner.tick(ms(2) + GRANT);
    assert!(!owner.begin(HOT));
    owner.open(closing);
    assert!(owner.begin(HOT));
    // What an earlier start has granted is not known.
    let mut restarted = Owner::restarted(ms(1000), Epoch(2));
    restarted.close(ms(1001), closing, [slot].into_iter().collect());
    assert!(!restarted.is_clear(ms(1000) + GRANT - ms(1), closing));
    assert!(restarted.is_clear(ms(1000) + GRANT, closing));
}

#[test]
fn a_holder_asks_again_in_time_and_not_without_a_bound() {
    let (mut owner, mut holder) = (owner(), Holder::default());
    for round in 0..10 {
        let now = ms(40 * round);
        let ask = holder.ask(now, vec![HOT.into()]).unwrap();
        holder.granted(now, owner.ask(now, 7, &ask, Some(ms(2000)), |_| None));
        assert_eq!(holder.due(now + ms(39)).count(), 0);
        assert_eq!(holder.due(now + ms(40)).collect::<Vec<_>>(), [HOT]);
        let version = Version { epoch: Epoch(1), number: 1 };
        assert_eq!(holder.version(now + ms(89), HOT), Some(version));
        assert_eq!(holder.version(now + ms(90), HOT), None);
    }
    let asked = (0..1000).filter(|_| holder.ask(ms(500), Vec::new()).is_some()).count();
    assert_eq!(asked, 64);
    assert!(holder.ask(ms(600), Vec::new()).is_some());
}

#[test]
fn a_holder_that_writes_uses_no_answer_to_what_it_asked_before() {
    let (mut owner, mut holder) = (owner(), Holder::default());
    let first = holder.ask(ms(0), vec![HOT.into()]).unwrap();
    let granted = owner.ask(ms(0), 7, &first, Some(ms(2000)), |_| None);
    holder.granted(ms(0), granted.clone());
    let second = holder.ask(ms(1), vec![HOT.into()]).unwrap();
    holder.give_up(|key| key == b"other");
    assert!(holder.version(ms(1), HOT).is_some());
    holder.give_up(|key| key == HOT);
    let again = owner.ask(ms(1), 7, &second, Some(ms(2000)), |_| None);
    holder.granted(ms(2), again);
    holder.granted(ms(2), granted);
    assert!(holder.version(ms(2), HOT).is_none());
    // The owner need not ask it.
    owner.gave_up(ms(2), 7, HOT);
    owner.revoke(ms(2), HOT);
    assert_eq!(owner.acts(), [MirrorAct::Release(HOT.into())]);
}

fn heats(shares: &[(&str, f64)]) -> Vec<Heat> {
    let heat = |(name, share): &(&str, f64)| Heat {
        key: key(name),
        share: (share * 0.9, share * 1.1),
        bytes: 10,
        is_named: false,
    };
    shares.iter().map(heat).collect()
}

fn changes(begin: &[&str], end: &[&str]) -> Changes {
    let keys = |names: &[&str]| names.iter().map(|name| key(name)).collect();
    Changes { begin: keys(begin), end: keys(end) }
}

#[test]
fn the_hottest_keys_are_chosen_within_the_budget_and_stay_for_a_while() {
    let mut choice = Choice::default();
    let budget = Budget { keys: 2, bytes: 1000 };
    let mut decide = |shares: &[(&str, f64)], budget| choice.decide(ms(0), budget, heats(shares));
    let first = decide(&[("a", 0.1), ("b", 0.3), ("c", 0.2), ("d", 0.001)], budget);
    assert_eq!(first, changes(&["b", "c"], &[]));
    // A little hotter is not enough, and neither is a little colder.
    assert_eq!(decide(&[("a", 0.3), ("b", 0.2), ("c", 0.2)], budget), changes(&[], &[]));
    assert_eq!(decide(&[("b", 0.01), ("c", 0.01)], budget), changes(&[], &[]));
    assert_eq!(decide(&[("a", 0.5), ("b", 0.2), ("c", 0.1)], budget), changes(&[], &["c"]));
    assert_eq!(decide(&[("a", 0.5), ("b", 0.2), ("c", 0.1)], budget), changes(&["a"], &[]));
    assert_eq!(decide(&[("b", 0.001)], budget), changes(&[], &["a", "b"]));
    let small = Budget { keys: 9, bytes: 25 };
    let all = [("a", 0.2), ("b", 0.2), ("c", 0.2)];
    assert_eq!(decide(&all, small), changes(&["a", "b"], &[]));
    assert_eq!(decide(&all, Budget { bytes: 15, ..small }), changes(&[], &["b"]));
    assert_eq!(decide(&all, Budget { bytes: 5, ..small }), changes(&[], &["a"]));
    assert_eq!(decide(&all, Budget { bytes: 5, ..small }), changes(&[], &[]));
}

fn named(name: &str, bytes: usize) -> Heat {
    Heat { key: key(name), share: (0.0, 0.0), bytes, is_named: true }
}

#[test]
fn named_keys_are_chosen_however_cold_and_before_hot_ones() {
    let mut choice = Choice::default();
    let budget = Budget { keys: 3, bytes: 30 };
    let mut decide = |named: Vec<Heat>, shares: &[(&str, f64)]| {
        choice.decide(ms(0), budget, [heats(shares), named].concat())
    };
    let hot = [("a", 0.3), ("b", 0.2), ("c", 0.1)];
    assert_eq!(decide(vec![], &hot), changes(&["a", "b", "c"], &[]));
    assert_eq!(decide(vec![named("z", 10)], &hot), changes(&["z"], &["c"]));
    assert_eq!(decide(vec![named("z", 10)], &hot), changes(&[], &[]));
    // The first that fit have places, and none is taken from one of them, or for one without.
    let four = [("z", 10), ("big", 31), ("y", 15), ("x", 10)].map(|(name, len)| named(name, len));
    assert_eq!(decide(four.to_vec(), &hot), changes(&["y"], &["a", "b"]));
    assert_eq!(decide(four.to_vec(), &[("a", 1.0)]), changes(&[], &[]));
    assert_eq!(decide(vec![], &[]), changes(&[], &["y", "z"]));
}

#[test]
fn a_named_key_that_is_written_rests_for_two_seconds_at_most() {
    let (mut choice, budget) = (Choice::default(), Budget { keys: 1, bytes: 1000 });
    let mut now = ms(0);
    for rest in [250, 500, 1000, 2000, 2000, 2000].map(ms) {
        assert_eq!(choice.decide(now, budget, vec![named("a", 10)]), changes(&["a"], &[]));
        choice.written(now, b"a");
        now += rest - ms(1);
        assert_eq!(choice.decide(now, budget, vec![named("a", 10)]), changes(&[], &[]));
        now += ms(1);
    }
    assert_eq!(choice.decide(now, budget, heats(&[("a", 0.5)])), changes(&[], &[]));
}

/// The choice once held a key for mirrored that its owner had refused, as it rested: it was never chosen again.
#[test]
fn a_key_that_the_owner_refuses_is_chosen_again() {
    let (mut choice, mut owner) = (Choice::default(), owner());
    let budget = Budget { keys: 1, bytes: 1000 };
    owner.revoke(ms(0), HOT);
    for now in [ms(0), ms(50), GRANT] {
        owner.tick(now);
        choice.keep_only(|key| owner.is_guarded(key));
        let changes = choice.decide(now, budget, heats(&[("hot", 0.5)]));
        assert_eq!(changes.begin, [HOT.into()]);
        assert_eq!(owner.begin(HOT), now == GRANT);
    }
    choice.keep_only(|key| owner.is_guarded(key));
    assert_eq!(choice.decide(GRANT, budget, heats(&[("hot", 0.5)])), changes(&[], &[]));
}

#[test]
fn a_key_that_is_written_rests_longer_each_time() {
    let mut choice = Choice::default();
    let budget = Budget { keys: 1, bytes: 1000 };
    let mut now = ms(0);
    for rest in [250, 500, 1000, 2000, 4000, 8000, 16_000, 32_000, 64_000, 64_000].map(ms) {
        let shares = heats(&[("a", 0.5)]);
        assert_eq!(choice.decide(now, budget, shares.clone()), changes(&["a"], &[]));
        choice.written(now, b"a");
        // Of a key that is not mirrored nothing is noted.
        choice.written(now, b"a");
        now += rest;
        let just_before = choice.decide(now - ms(1), budget, shares);
        assert_eq!(just_before, changes(&[], &[]), "{rest:?}");
    }
    // Its mirror has paid.
    choice.decide(now, budget, heats(&[("a", 0.5)]));
    now += ms(500);
    choice.written(now, b"a");
    let soon = now + ms(250);
    assert_eq!(choice.decide(soon, budget, heats(&[("a", 0.5)])), changes(&["a"], &[]));
}
