//! A replica of a replica, without a network, step by step.

use crate::history::{History, Start};
use crate::ids::{Epoch, Incarnation, Lsn, Moment};
use crate::message::{Ack, Answer, Course, Positions, ToPrimary, ToReplica, Told};
use crate::pair::{Pair, at, first_epoch, held, me, node};
use crate::primary::{self, Primary};
use crate::relay::ABOVE_MAX;
use crate::replica::{Act, AnswerRefused, Held, PromoteRefused, Replica};
use crate::rules::Rules;

/// A replica of node `n` with the first records of epoch 1.
fn replica(n: u8, last: Lsn) -> Replica {
    Replica::new(
        at(10_000),
        me(n, 100 + u64::from(n)),
        Rules::default(),
        None,
        held(&first_epoch(), last),
    )
}

/// What a replica answers to one that wants to follow it.
fn asked(above: &mut Replica, below: &mut Replica) -> ToReplica {
    above.hello_below(&below.hello(0).unwrap(), 1)
}

/// One replica follows another.
fn link(above: &mut Replica, below: &mut Replica) -> Result<Course, AnswerRefused> {
    let ToReplica::Answer(answer) = asked(above, below) else { panic!("not ready") };
    below.answer(at(10_000), answer)
}

/// The acknowledgements that a replica wants to send.
fn acks(replica: &mut Replica) -> Vec<Ack> {
    let acts = replica.acts().into_iter();
    acts.filter_map(|act| match act {
        Act::Send(_, ToPrimary::Ack(ack)) => Some(ack),
        _ => None,
    })
    .collect()
}

/// The answer of a primary to a replica.
fn answer_of(primary: &mut Primary, now: Moment, replica: &mut Replica) -> Answer {
    primary.hello(now, &replica.hello(0).unwrap(), 1);
    let acts = primary.acts();
    let [.., primary::Act::Send(_, ToReplica::Answer(answer))] = &acts[..] else { panic!() };
    answer.clone()
}

/// The answer of the primary of a pair to its replica.
fn answer(pair: &mut Pair) -> Answer {
    answer_of(&mut pair.primary, pair.now, &mut pair.replica)
}

/// The primary of a pair hears this replica, and sends it the beat that is due.
fn beat(pair: &mut Pair, replica: &mut Replica) {
    let id = replica.me.node;
    acks(replica).iter().for_each(|ack| {
        pair.primary.receive(pair.now, id, &ToPrimary::Ack(*ack));
    });
    pair.now += at(250);
    pair.primary.tick(pair.now, Told::default());
    for act in pair.primary.acts() {
        if let primary::Act::Send(to, message) = act
            && to == id
        {
            replica.receive(pair.now, node(1), &message);
        }
    }
}

/// A replica of an in-sync replica has everything, and yet counts nowhere, and learns it.
#[test]
fn a_replica_of_a_replica_is_never_in_sync() {
    let mut pair = Pair::new(vec![node(2)]);
    pair.apply(11);
    pair.tick(250);
    let mut below = replica(3, 7);
    assert_eq!(link(&mut pair.replica, &mut below), Ok(Course::Continue(7)));
    assert!(below.is_indirect() && !pair.replica.is_indirect());
    below.applied(Positions { applied: 11, written: 11, synced: 11 });
    assert_eq!(pair.replica.beats_below(pair.now, 1), [], "it has said nothing yet");
    acks(&mut below).iter().for_each(|ack| pair.replica.ack_below(node(3), ack));
    let beats = pair.replica.beats_below(pair.now + at(250), 1);
    let [(to, beat)] = &beats[..] else { panic!("{beats:?}") };
    assert_eq!((*to, beat.member, beat.caught_up, beat.lease), (node(3), false, false, at(0)));
    assert_eq!((beat.told.wall, beat.told.cas), (5, 6), "those of the primary");
    below.receive(at(19_000), node(2), &ToReplica::Beat(*beat));
    assert!(below.may_answer(at(29_000)) && !below.is_in_sync());
    assert_eq!(below.promote(at(19_000), vec![], false), Err(PromoteRefused::NotInSync));
    assert_eq!(pair.replica.feed().followers()[0].positions.applied, 11);
    assert_eq!(pair.primary.feed().applied_by(11), 1, "the replica itself");
    // A primary that names it waits in vain.
    pair.primary.name(pair.now, vec![node(2), node(3)]).unwrap();
    pair.write(12);
    pair.apply(12);
    assert_eq!(pair.primary.committed(), 11);
}

fn applied(last: Lsn) -> Positions {
    Positions { applied: last, ..Positions::default() }
}

/// The bottom of a chain used to count as a replica of the primary from that one's answer on, though it had nothing of
/// it yet.
#[test]
fn a_replica_counts_as_direct_once_it_has_what_the_primary_had() {
    let mut pair = Pair::new(vec![]);
    let start = *pair.primary.history().last_start().unwrap();
    pair.apply(11);
    pair.replica.began(start).unwrap();
    let mut below = replica(3, 7);
    link(&mut pair.replica, &mut below).unwrap();
    pair.write(20);
    let answer = answer_of(&mut pair.primary, pair.now, &mut below);
    assert_eq!(below.answer(pair.now, answer), Ok(Course::Continue(7)));
    assert!(below.is_indirect(), "it has what the middle had");
    below.began(start).unwrap();
    below.applied(applied(19));
    assert!(below.is_indirect(), "nobody knows what is acknowledged");
    beat(&mut pair, &mut below);
    assert!(below.is_indirect(), "it lacks a record");
    pair.write(30);
    below.applied(applied(20));
    assert!(!below.is_indirect(), "later records are not acknowledged without it");
    // It follows a replica again.
    pair.apply(20);
    link(&mut pair.replica, &mut below).unwrap();
    assert!(below.is_indirect());
}

/// A primary does not know how much of what came before its epoch was acknowledged.
#[test]
fn a_replica_is_not_direct_before_it_has_the_epoch_of_its_primary() {
    let mut pair = Pair::new(vec![node(2)]);
    let mut below = replica(3, 7);
    link(&mut pair.replica, &mut below).unwrap();
    let answer = answer_of(&mut pair.primary, pair.now, &mut below);
    below.answer(pair.now, answer).unwrap();
    beat(&mut pair, &mut below);
    assert_eq!(pair.primary.committed(), 10);
    below.applied(applied(10));
    assert!(below.is_indirect());
    below.applied(applied(11));
    assert!(!below.is_indirect());
}

/// An operator's order begins the machine of a replica again. It used to forget where the data had come from.
#[test]
fn the_data_stays_indirect_in_the_next_machine() {
    let (mut middle, mut below) = (replica(2, 10), replica(3, 10));
    link(&mut middle, &mut below).unwrap();
    let held = Held { adopt: true, ..below.held().clone() };
    let again = Replica::new(at(20_000), me(3, 103), Rules::default(), None, held);
    assert!(again.is_indirect());
}

/// A copy or a repair says where the data came from once it is there.
#[test]
fn copied_data_is_as_direct_as_its_source() {
    let mut pair = Pair::new(vec![]);
    let mut below = replica(3, 10);
    for leads in [false, true] {
        let was_indirect = below.is_indirect();
        let answer = answer_of(&mut pair.primary, pair.now, &mut below);
        let stamp = answer.stamp;
        below.answer(pair.now, Answer { course: Course::FullCopy, leads, ..answer }).unwrap();
        assert_eq!(below.is_indirect(), was_indirect, "what it has is as before");
        assert!(below.is_below(), "it was indirect, or is about to be");
        assert!(below.drop_data(stamp));
        below.copied(30);
        assert_eq!(below.is_indirect(), !leads);
    }
}

#[test]
fn an_epoch_ends_the_links_below() {
    let (mut middle, mut below) = (replica(2, 10), replica(3, 10));
    link(&mut middle, &mut below).unwrap();
    let before = middle.feed().followers()[0].stamp;
    let start = Start { epoch: Epoch(2), node: node(1), incarnation: Incarnation(7), first: 11 };
    middle.began(start).unwrap();
    assert!(middle.feed().followers().is_empty());
    middle.applied(Positions { applied: 11, ..Positions::default() });
    assert_eq!(link(&mut middle, &mut below), Ok(Course::Continue(10)));
    let after = middle.feed().followers()[0].stamp;
    assert_eq!((before.epoch, after.epoch), (Epoch(1), Epoch(2)));
    // The old connection is gone for good.
    let (positions, whole, is_full) = (Positions::default(), true, false);
    let late = Ack { stamp: before, beat: 0, positions, whole, is_full };
    middle.ack_below(node(3), &late);
    assert!(!middle.feed().followers()[0].has_acked);
}

/// A later machine of the same start may be asked by the same replica in the same epoch.
#[test]
fn no_two_machines_of_a_start_number_connections_alike() {
    let mut below = replica(3, 10);
    let mut stamp = |began| {
        let held = held(&first_epoch(), 10);
        let mut middle = Replica::new(at(began), me(2, 1), Rules::default(), None, held);
        asked(&mut middle, &mut below);
        middle.feed().followers()[0].stamp
    };
    assert_ne!(stamp(5), stamp(6));
}

#[test]
fn a_replica_feeds_nothing_while_it_repairs_its_own_data() {
    let mut pair = Pair::new(vec![]);
    pair.replica = replica(2, 15);
    let mut below = replica(3, 15);
    link(&mut pair.replica, &mut below).unwrap();
    let answer = answer(&mut pair);
    let stamp = answer.stamp;
    assert_eq!(pair.replica.answer(pair.now, answer), Ok(Course::Repair(10)));
    assert!(pair.replica.cut(stamp, 10));
    assert!(pair.replica.feed().followers().is_empty());
    let not_ready = ToReplica::NotReady(Incarnation(102));
    let mut other = replica(4, 5);
    assert_eq!(asked(&mut pair.replica, &mut other), not_ready);
    pair.replica.disconnected();
    assert_eq!(asked(&mut pair.replica, &mut other), not_ready, "its keys still lack values");
    let again = self::answer(&mut pair);
    assert_eq!(pair.replica.answer(pair.now, again), Ok(Course::Continue(10)));
    pair.replica.repaired(11);
    assert_eq!(link(&mut pair.replica, &mut other), Ok(Course::Continue(5)));
    assert_eq!(link(&mut pair.replica, &mut below), Ok(Course::Repair(10)));
}

#[test]
fn a_replica_feeds_nothing_while_it_is_copied() {
    let mut pair = Pair::new(vec![]);
    let mut below = replica(3, 10);
    link(&mut pair.replica, &mut below).unwrap();
    let answer = Answer { course: Course::FullCopy, ..answer(&mut pair) };
    let stamp = answer.stamp;
    pair.replica.answer(pair.now, answer).unwrap();
    assert!(pair.replica.drop_data(stamp));
    assert!(pair.replica.feed().followers().is_empty());
    assert!(matches!(asked(&mut pair.replica, &mut below), ToReplica::NotReady(_)));
    pair.replica.copied(30);
    let ToReplica::Answer(answer) = pair.replica.hello_below(&below.hello(0).unwrap(), 31) else {
        panic!("it is whole")
    };
    assert_eq!(answer.course, Course::FullCopy);
}

/// What it has may be given up for the data of the primary that an operator has just named.
#[test]
fn a_replica_that_has_not_met_its_new_primary_feeds_nothing() {
    let mut below = replica(3, 10);
    let adopting = Held { adopt: true, ..held(&first_epoch(), 10) };
    let empty = held(&History::new(), 0);
    for held in [adopting, empty] {
        let mut middle = Replica::new(at(0), me(2, 1), Rules::default(), None, held);
        assert!(matches!(asked(&mut middle, &mut below), ToReplica::NotReady(_)));
    }
}

/// It would be told to give up records that are about to arrive.
#[test]
fn a_replica_that_is_behind_feeds_none_that_is_ahead() {
    let (mut middle, mut below) = (replica(2, 8), replica(3, 10));
    assert_eq!(asked(&mut middle, &mut below), ToReplica::NotReady(Incarnation(102)));
    middle.applied(Positions { applied: 10, ..Positions::default() });
    assert_eq!(link(&mut middle, &mut below), Ok(Course::Continue(10)));
    middle.applied(Positions { applied: 12, ..Positions::default() });
    assert_eq!(link(&mut middle, &mut below), Ok(Course::Continue(10)));
}

#[test]
fn no_circle_is_closed() {
    let [mut a, mut b, mut c] = [2, 3, 4].map(|n| replica(n, 10));
    assert_eq!(link(&mut a, &mut b), Ok(Course::Continue(10)));
    assert_eq!(link(&mut b, &mut a), Err(AnswerRefused::Circle));
    assert_eq!(link(&mut b, &mut c), Ok(Course::Continue(10)));
    assert_eq!(link(&mut c, &mut a), Err(AnswerRefused::Circle));
    let mut itself = asked(&mut a, &mut b);
    let hello = a.hello(0).unwrap();
    if let ToReplica::Answer(answer) = &mut itself {
        (answer.to, answer.attempt) = (hello.from.incarnation, hello.attempt);
        assert_eq!(a.answer(at(10_000), answer.clone()), Err(AnswerRefused::Circle));
    }
}

/// Whoever is below learns of other nodes above by a new connection.
#[test]
fn links_below_end_if_others_are_above() {
    let [mut a, mut b, mut c, mut d] = [2, 3, 4, 5].map(|n| replica(n, 10));
    link(&mut b, &mut c).unwrap();
    link(&mut c, &mut d).unwrap();
    link(&mut a, &mut b).unwrap();
    assert!(b.feed().followers().is_empty() && !c.feed().followers().is_empty());
    link(&mut b, &mut c).unwrap();
    assert!(c.feed().followers().is_empty());
    link(&mut c, &mut d).unwrap();
    assert_eq!(link(&mut d, &mut a), Err(AnswerRefused::Circle));
    // The same again changes nothing.
    link(&mut b, &mut c).unwrap();
    assert!(!c.feed().followers().is_empty());
}

#[test]
fn a_chain_has_an_end() {
    let mut last = replica(1, 10);
    let count = (2..100).take_while(|n| {
        let mut next = replica(*n, 10);
        let is_fed = matches!(asked(&mut last, &mut next), ToReplica::Answer(_));
        if is_fed {
            link(&mut last, &mut next).unwrap();
            last = next;
        }
        is_fed
    });
    assert_eq!(count.count(), ABOVE_MAX);
}
