//! Whom a primary takes out of its set, and behind which answer: one that hears nothing must take none out.

use crate::guards::recorded_pair;
use crate::message::Told;
use crate::pair::{Pair, at, node};
use crate::primary::Act;
use crate::records::{Outcome, Request};
use crate::rules::Rules;

/// The replica is silent for so long, and the primary is not.
fn wait(pair: &mut Pair, ms: u64) {
    for _ in 0..ms / 50 {
        pair.now += at(50);
        pair.primary.tick(pair.now, Told::default());
    }
}

/// Writes that add or remove members.
fn is_change(act: &Act) -> bool {
    matches!(act, Act::Ask(Request::Transact(_)))
}

/// The record is as the primary knows it.
fn read(pair: &Pair) -> Outcome {
    let record = pair.primary.in_sync.record().unwrap().clone();
    Outcome::Records(vec![(4, pair.primary.in_sync.revision().unwrap(), record)])
}

/// The primary has just asked for a reading, as its replica is silent.
fn asking() -> Pair {
    let mut pair = recorded_pair();
    wait(&mut pair, 1100);
    assert!(pair.primary.acts().contains(&Act::Ask(Request::ReadAll)));
    pair
}

/// Whether the member is taken out by an answer that comes this many milliseconds later.
fn removes_after(ms: u64) -> bool {
    let mut pair = asking();
    wait(&mut pair, ms);
    pair.primary.outcome(pair.now, read(&pair));
    pair.primary.acts().iter().any(is_change)
}

#[test]
fn an_answer_counts_for_two_beats() {
    assert_eq!(Rules::default().answer_max(), at(500));
    assert!(removes_after(0));
    assert!(removes_after(400));
    assert!(!removes_after(600));
}

#[test]
fn only_who_was_silent_at_the_question_is_taken_out() {
    let mut pair = recorded_pair();
    let request = pair.primary.in_sync.read(pair.now, vec![node(3)]);
    assert_eq!(request, Some(Request::ReadAll));
    wait(&mut pair, 450);
    pair.primary.deposed = Some(node(2));
    pair.primary.unfit.insert(node(2));
    pair.primary.outcome(pair.now, read(&pair));
    let acts = pair.primary.acts();
    assert!(!acts.iter().any(is_change), "{acts:?}");
    assert!(acts.contains(&Act::Ask(Request::ReadAll)), "it is asked for: {acts:?}");
}

/// The fate of a change is read, and that reading was not asked for because any member is silent.
#[test]
fn a_reading_because_of_a_change_lets_no_member_be_taken_out() {
    let mut pair = asking();
    pair.primary.outcome(pair.now, read(&pair));
    assert!(pair.primary.acts().iter().any(is_change));
    // Another change was through first: the member was added again.
    pair.primary.outcome(pair.now, Outcome::Conflict);
    assert_eq!(pair.primary.acts(), [Act::Ask(Request::ReadAll)]);
    let Outcome::Records(mut records) = read(&pair) else { unreachable!() };
    records[0].1 += 1;
    pair.primary.outcome(pair.now, Outcome::Records(records));
    let acts = pair.primary.acts();
    assert!(!acts.iter().any(is_change), "{acts:?}");
}

/// An old answer about a change whose fate is open is read again, before the change is sent again.
#[test]
fn a_change_is_sent_again_only_behind_an_answer_of_now() {
    let mut pair = asking();
    pair.primary.outcome(pair.now, read(&pair));
    pair.primary.acts();
    pair.primary.outcome(pair.now, Outcome::Unknown);
    assert_eq!(pair.primary.acts(), [Act::Ask(Request::ReadAll)]);
    wait(&mut pair, 600);
    pair.primary.acts();
    pair.primary.outcome(pair.now, read(&pair));
    assert_eq!(pair.primary.acts(), [Act::Ask(Request::ReadAll)]);
    pair.primary.outcome(pair.now, read(&pair));
    assert!(pair.primary.acts().iter().any(is_change));
}

/// Behind a pause the first thing may be that a request had no answer.
#[test]
fn behind_a_pause_replicas_have_time_whatever_the_outcome() {
    for outcome in [Some(Outcome::Unknown), None] {
        let mut pair = asking();
        pair.now += at(3000);
        let outcome = outcome.unwrap_or_else(|| read(&pair));
        pair.primary.outcome(pair.now, outcome);
        pair.primary.tick(pair.now, Told::default());
        let asks = |act: &Act| matches!(act, Act::Ask(_));
        let acts = pair.primary.acts();
        assert!(!acts.iter().any(asks), "{acts:?}");
        wait(&mut pair, 1100);
        assert!(pair.primary.acts().contains(&Act::Ask(Request::ReadAll)));
    }
}
