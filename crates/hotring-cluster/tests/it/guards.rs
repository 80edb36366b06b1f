//! Guards that random schedules hardly ever need: each test fails if one of them is taken out.

use crate::faults::Fault;
use crate::history::{History, Start};
use crate::ids::{Epoch, Incarnation, Lsn, NodeId};
use crate::lost::{self, Extent};
use crate::message::{Ack, Beat, Course, Hello, Positions, Stamp, ToPrimary, ToReplica, Told};
use crate::pair::{Pair, STORE, at, first_epoch, held, kept, me, node};
use crate::primary::{Act, GivenUp, Origin, Primary, Writes};
use crate::records::{Outcome, Request, Shard};
use crate::replica::{self, AnswerRefused, Held, PromoteRefused, Replica};
use crate::rules::Rules;

/// A pair whose replica has been told that it is in sync.
fn in_sync_pair() -> Pair {
    let mut pair = Pair::new(vec![node(2)]);
    pair.apply(11);
    pair.tick(0);
    pair.tick(250);
    assert!(pair.replica.is_in_sync());
    pair
}

fn answer_to(pair: &mut Pair, hello: &Hello) -> crate::message::Answer {
    pair.primary.hello(pair.now, hello, 1);
    let acts = pair.primary.acts();
    let [Act::Send(_, ToReplica::Answer(answer))] = &acts[..] else { panic!("{acts:?}") };
    answer.clone()
}

#[test]
fn a_beat_of_an_earlier_connection_says_nothing_to_a_restarted_replica() {
    let mut pair = in_sync_pair();
    let stamp = pair.primary.feed().followers()[0].stamp;
    pair.replica =
        Replica::new(pair.now, me(2, 9), Rules::default(), None, held(&first_epoch(), 5));
    pair.attach();
    let (lease, told) = (at(2000), Told::default());
    let late =
        Beat { stamp, number: 90, lease, committed: 11, member: true, caught_up: true, told };
    pair.replica.receive(pair.now, node(1), &ToReplica::Beat(late));
    assert!(!pair.replica.is_in_sync());
}

#[test]
fn an_answer_that_comes_twice_counts_once() {
    let mut pair = in_sync_pair();
    let hello = pair.replica.hello(0).unwrap();
    let answer = answer_to(&mut pair, &hello);
    assert!(pair.replica.answer(pair.now, answer.clone()).is_ok());
    pair.replica.disconnected();
    assert_eq!(pair.replica.answer(pair.now, answer), Err(AnswerRefused::Late));
}

#[test]
fn an_acknowledgement_from_before_a_start_does_not_count_in_the_same_epoch_and_session() {
    let acked = |start: u64| {
        let origin = Origin::Named(vec![node(2)]);
        let empty = kept(&History::new(), 0, true);
        let mut primary = Primary::start(at(0), me(1, 5), Rules::default(), empty, origin);
        primary.accept_loss(at(0));
        let history = History::new();
        let mut replica = Replica::new(at(0), me(2, 3), Rules::default(), None, held(&history, 0));
        primary.hello(at(0), &replica.hello(0).unwrap(), 1);
        let stamp = Stamp { epoch: Epoch(1), start: Incarnation(start), session: 1 };
        let positions = Positions { applied: 99, ..Positions::default() };
        let ack = Ack { stamp, beat: 0, positions, whole: true, is_full: false };
        primary.receive(at(0), node(2), &ToPrimary::Ack(ack));
        primary.feed().followers()[0].whole
    };
    assert!(acked(5));
    assert!(!acked(4), "it speaks of the data of another start");
}

#[test]
fn a_replica_that_needs_a_repair_or_a_copy_is_no_longer_in_sync() {
    for (last, floor, course) in [(15, 0, Course::Repair(10)), (15, 12, Course::FullCopy)] {
        let mut pair = in_sync_pair();
        pair.replica.applied(Positions { applied: last, ..Positions::default() });
        // The primary starts again, without the last records, of which no client was told.
        let history = pair.primary.history().clone();
        let origin = Origin::Named(vec![]);
        let kept = kept(&history, 11, true);
        pair.primary = Primary::start(pair.now, me(1, 7), Rules::default(), kept, origin);
        pair.primary.acts();
        let hello = pair.replica.hello(floor).unwrap();
        let answer = answer_to(&mut pair, &hello);
        assert_eq!(pair.replica.answer(pair.now, answer.clone()), Ok(course));
        assert!(!pair.replica.is_in_sync());
        let early = pair.replica.promote(pair.now, vec![], false);
        assert_eq!(early, Err(PromoteRefused::NotInSync));
        match course {
            Course::Repair(after) => assert!(pair.replica.cut(answer.stamp, after)),
            _ => assert!(pair.replica.drop_data(answer.stamp)),
        }
        let half = pair.replica.promote(pair.now, vec![], true);
        assert_eq!(half, Err(PromoteRefused::HalfReceived));
        match course {
            Course::Repair(_) => pair.replica.repaired(12),
            _ => pair.replica.copied(12),
        }
        let outside = pair.replica.promote(pair.now, vec![], false);
        assert_eq!(outside, Err(PromoteRefused::NotInSync));
    }
}

#[test]
fn a_copy_ends_what_a_replica_with_records_was_told() {
    let caught_up = Held { caught_up: true, ..held(&first_epoch(), 10) };
    let mut replica = Replica::new(at(0), me(2, 3), Rules::default(), Some(0), caught_up);
    let mut pair = Pair::new(vec![]);
    let hello = replica.hello(10).unwrap();
    let other = Hello { history: History::new(), ..hello };
    let answer = answer_to(&mut pair, &other);
    assert_eq!(replica.answer(at(0), answer.clone()), Ok(Course::FullCopy));
    assert!(replica.drop_data(answer.stamp));
    replica.copied(11);
    assert_eq!(replica.promote(at(0), vec![], false), Err(PromoteRefused::NotInSync));
}

/// A replica with data of its own, to which its primary has announced a full copy.
fn about_to_be_copied() -> (Pair, Stamp) {
    let mut pair = in_sync_pair();
    let hello = pair.replica.hello(0).unwrap();
    let answer = answer_to(&mut pair, &Hello { history: History::new(), ..hello });
    assert_eq!(pair.replica.answer(pair.now, answer.clone()), Ok(Course::FullCopy));
    (pair, answer.stamp)
}

/// The announcement alone used to make the replica forget that it has everything: if the primary died before the
/// first byte of the copy, the last complete data could not even be forced.
#[test]
fn a_replica_is_whole_until_a_copy_has_begun_to_arrive() {
    let (mut pair, stamp) = about_to_be_copied();
    assert!(pair.replica.is_whole());
    pair.replica.disconnected();
    assert!(!pair.replica.drop_data(stamp), "the connection is over");
    let again = pair.replica.hello(0).unwrap();
    assert_eq!((again.whole, again.last, again.history), (true, 11, first_epoch()));
    assert_eq!(pair.replica.promote(pair.now, vec![], true), Ok(()));

    let (mut pair, stamp) = about_to_be_copied();
    assert!(!pair.replica.drop_data(Stamp { session: stamp.session + 1, ..stamp }));
    assert!(pair.replica.drop_data(stamp));
    assert!(pair.replica.drop_data(stamp), "the copy may begin again");
    pair.replica.disconnected();
    assert!(!pair.replica.is_whole());
    assert!(!pair.replica.hello(0).unwrap().whole);
    assert_eq!(pair.replica.promote(pair.now, vec![], true), Err(PromoteRefused::HalfReceived));
}

#[test]
fn nothing_is_dropped_once_a_replica_becomes_primary_or_follows_the_stream() {
    let (mut pair, stamp) = about_to_be_copied();
    assert_eq!(pair.replica.promote(pair.now, vec![], true), Ok(()));
    assert!(!pair.replica.drop_data(stamp));
    let mut pair = in_sync_pair();
    let stamp = pair.primary.feed().followers()[0].stamp;
    assert!(!pair.replica.drop_data(stamp), "this connection goes on behind the last record");
    assert!(pair.replica.is_whole());
}

#[test]
fn positions_of_a_replica_that_is_not_whole_do_not_count() {
    let mut pair = Pair::new(vec![node(2)]);
    let unfinished = Held { whole: false, ..held(&first_epoch(), 10) };
    pair.replica = Replica::new(pair.now, me(2, 4), Rules::default(), None, unfinished);
    // Whatever epochs it names, it gets everything.
    let hello = pair.replica.hello(0).unwrap();
    let answer = answer_to(&mut pair, &hello);
    assert_eq!(answer.course, Course::FullCopy);
    pair.write(20);
    let positions = Positions { applied: 20, written: 20, synced: 20 };
    let ack = Ack { stamp: answer.stamp, beat: 0, positions, whole: false, is_full: false };
    pair.primary.receive(pair.now, node(2), &ToPrimary::Ack(ack));
    assert_eq!((pair.primary.committed(), pair.primary.feed().applied_by(1)), (10, 0));
}

#[test]
fn a_restarted_replica_waits_for_what_it_may_have_promised() {
    let forced = |ms| {
        let mut replica =
            Replica::new(at(0), me(2, 3), Rules::default(), None, held(&first_epoch(), 10));
        replica.promote(at(0), vec![], true).unwrap();
        // Meanwhile it follows no primary.
        assert_eq!(replica.hello(0), None);
        assert!(!replica.adopt());
        replica.tick(at(ms));
        replica.acts().len()
    };
    assert_eq!((forced(1999), forced(2000)), (0, 1));
}

#[test]
fn a_promise_from_before_the_handover_does_not_end_the_silence() {
    let mut pair = in_sync_pair();
    pair.primary.fail_over(pair.now, None, None, false).unwrap();
    pair.primary.paused(pair.now, 11);
    let acts = pair.primary.acts();
    assert!(matches!(acts[..], [Act::PauseWrites, Act::Send(_, ToReplica::Handover(_))]));
    pair.replica.applied(Positions { applied: 11, ..Positions::default() });
    pair.settle();
    assert!(pair.primary.abort_failover());
    pair.replica.applied(Positions { applied: 11, ..Positions::default() });
    pair.settle();
    assert_eq!(pair.primary.answers_until(), None);
    // Nor can a set be named meanwhile, unless the operator has made sure of the other node.
    assert!(pair.primary.name(pair.now, vec![]).is_err());
    pair.primary.take_back();
    pair.primary.name(pair.now, vec![]).unwrap();
    assert_eq!(pair.primary.writes(pair.now), Writes::Open);
}

#[test]
fn only_a_member_that_leads_deposes_a_primary_with_a_named_set() {
    for (from, leads, deposed) in [(2, true, true), (2, false, false), (3, true, false)] {
        let mut pair = in_sync_pair();
        let fenced = ToPrimary::Fenced { epoch: Epoch(9), leads };
        pair.primary.receive(pair.now, node(from), &fenced);
        let is_over = pair.primary.writes(pair.now) == Writes::Closed;
        assert_eq!(is_over, deposed, "node {from}, leads {leads}");
        // It was replaced without its doing: the new primary may do without it.
        assert!(!pair.primary.held().caught_up);
    }
}

#[test]
fn a_node_that_was_a_replica_is_no_clean_primary() {
    let start = |n: u8| {
        let origin = Origin::Named(vec![node(3)]);
        let kept = kept(&first_epoch(), 10, true);
        let mut primary = Primary::start(at(0), me(n, 5), Rules::default(), kept, origin);
        let mut ahead =
            Replica::new(at(0), me(3, 6), Rules::default(), None, held(&first_epoch(), 12));
        ahead.receive(at(0), node(n), &ToReplica::NotReady(Incarnation(5)));
        primary.hello(at(5000), &ahead.hello(0).unwrap(), 1);
        (primary.writes(at(5000)) != Writes::Closed, primary.ahead())
    };
    // Node 1 began the last epoch: the member's further records were never acknowledged.
    assert_eq!(start(1), (true, None));
    assert_eq!(start(2), (false, Some(node(3))));
}

#[test]
fn a_replica_follows_no_rival_and_no_other_store() {
    let mut replica =
        Replica::new(at(0), me(2, 3), Rules::default(), None, held(&first_epoch(), 10));
    let mut answer = |store, starts: &[(u64, u8)]| {
        let starts: Vec<Start> = starts
            .iter()
            .map(|(epoch, n)| {
                let (node, incarnation) = (node(*n), Incarnation(*epoch));
                Start { epoch: Epoch(*epoch), node, incarnation, first: *epoch }
            })
            .collect();
        let history = History::of(&starts).unwrap();
        let hello = replica.hello(0).unwrap();
        let stamp = Stamp { epoch: history.epoch(), start: Incarnation(1), session: 1 };
        let course = Course::FullCopy;
        let (to, attempt, from) = (hello.from.incarnation, hello.attempt, node(7));
        let (leads, above) = (true, Vec::new());
        let answer = crate::message::Answer {
            to,
            attempt,
            from,
            stamp,
            store,
            history,
            leads,
            above,
            course,
        };
        replica.answer(at(0), answer)
    };
    assert_eq!(answer(STORE, &[(1, 7)]), Err(AnswerRefused::Foreign));
    assert_eq!(answer([8; 16], &[(1, 7), (5, 7)]), Err(AnswerRefused::Foreign));
    assert_eq!(answer(STORE, &[(1, 7), (5, 7)]), Ok(Course::FullCopy));
}

#[test]
fn a_start_that_the_record_promoted_goes_on_only_if_it_began() {
    let began = |promoted: u64| {
        let kept = kept(&first_epoch(), 10, true);
        let origin = Origin::Recorded(4);
        let mut primary = Primary::start(at(0), me(1, 5), Rules::default(), kept, origin);
        assert_eq!(primary.acts(), [Act::Ask(Request::ReadAll)]);
        let (epoch, promoted, primary_id) = (Epoch(6), Epoch(promoted), me(1, 4));
        let (in_sync, replicas) = (vec![node(2)], vec![node(2)]);
        let shard = Shard { epoch, promoted, primary: primary_id, in_sync, replicas };
        primary.outcome(at(0), Outcome::Records(vec![(4, 3, shard)]));
        matches!(primary.acts()[..], [Act::Ask(Request::Transact(_))])
    };
    assert!(began(1));
    assert!(!began(6), "what it acknowledged as a replica may not be in its log");
}

/// A pair whose primary has the record of a shard and begins with record 11, which the replica lacks.
fn begun_pair(in_sync: Vec<NodeId>) -> Pair {
    let mut pair = Pair::new(vec![]);
    let shard = |primary| {
        let (epoch, replicas) = (Epoch(2), vec![node(2)]);
        Shard { epoch, promoted: Epoch(1), primary, in_sync: in_sync.clone(), replicas }
    };
    let kept = kept(&first_epoch(), 10, true);
    pair.primary = Primary::start(pair.now, me(1, 2), Rules::default(), kept, Origin::Recorded(4));
    pair.primary.outcome(pair.now, Outcome::Records(vec![(4, 3, shard(me(1, 1)))]));
    pair.primary.outcome(pair.now, Outcome::Done(4));
    pair.replica =
        Replica::new(pair.now, me(2, 4), Rules::default(), Some(4), held(&first_epoch(), 10));
    pair.attach();
    pair
}

/// The same, past the time in which a silent member is excused.
pub fn recorded_pair() -> Pair {
    let mut pair = begun_pair(vec![node(2)]);
    pair.apply(11);
    (0..20).for_each(|_| pair.tick(250));
    assert!(pair.replica.is_in_sync());
    pair.told.clear();
    pair
}

fn is_added(acts: &[Act]) -> bool {
    let adds = |act: &Act| match act {
        Act::Ask(Request::Transact(change)) => change.write[0].1.in_sync == [node(2)],
        _ => false,
    };
    acts.iter().any(adds)
}

fn adds_one_that_knows() {
    let mut pair = begun_pair(vec![]);
    pair.tick(0);
    pair.apply(11);
    // The last beat said that it lacks something. The answer to the next one is lost, which said that it does not.
    for ms in [50, 200, 50] {
        pair.now += at(ms);
        pair.primary.tick(pair.now, Told::default());
        assert!(!is_added(&pair.primary.acts()), "at {:?}", pair.now);
    }
    pair.tick(250);
    assert!(pair.replica.is_whole() && pair.replica.was_caught_up);
    pair.tick(50);
    assert!(is_added(&pair.told));
}

/// A replica was added before it had heard that it has everything. If the primary died within that beat, the replica
/// refused the role for ever, and the shard stood still until an operator forced it.
#[test]
fn a_replica_is_added_once_it_would_take_the_role() {
    adds_one_that_knows();
    crate::assert_variants_are_found(&[(adds_one_that_knows, &[Fault::NameUnaware])]);
}

/// Such a replica always lacks the last records, and so was never added: one copy was all there was.
#[test]
fn a_replica_is_added_beside_writers_that_never_pause() {
    let mut pair = begun_pair(vec![]);
    for last in 12..32 {
        pair.write(last);
        pair.tick(100);
        pair.apply(last - 1);
    }
    assert!(is_added(&pair.told));
}

/// It used to hold writes for as long as a member may: the whole lag, though no record named it.
#[test]
fn a_joiner_that_stands_still_holds_writes_for_half_of_the_lag() {
    let lag = Rules::default().in_sync_lag;
    let mut pair = begun_pair(vec![]);
    pair.tick(0);
    pair.tick(100);
    pair.write(20);
    let written = pair.now;
    assert_eq!(pair.primary.committed(), 11, "it is about to be added");
    while pair.primary.committed() < 20 {
        assert!(pair.now - written <= lag / 2, "writes still wait");
        assert!(!is_added(&pair.told), "it lacks records");
        pair.tick(50);
    }
    // Writes do not wait for it again before it is there again.
    pair.tick(50);
    pair.write(30);
    assert_eq!(pair.primary.committed(), 30);
    pair.apply(30);
    pair.tick(50);
    pair.write(40);
    assert_eq!(pair.primary.committed(), 30, "it is about to be added again");
}

/// Only the lag showed it.
#[test]
fn a_replica_that_is_given_up_is_told_once_until_it_is_in_sync() {
    let mut pair = begun_pair(vec![]);
    let stands_still = |pair: &mut Pair, last| {
        pair.write(last);
        (0..20).for_each(|_| pair.tick(50));
        let told = Act::GaveUp(node(2), GivenUp::Behind);
        let count = pair.told.iter().filter(|act| **act == told).count();
        (count, pair.primary.given_up().collect::<Vec<_>>())
    };
    pair.tick(0);
    pair.tick(100);
    assert_eq!(stands_still(&mut pair, 20), (1, vec![node(2)]));
    pair.apply(20);
    pair.tick(50);
    assert_eq!(stands_still(&mut pair, 30), (1, vec![node(2)]), "as before");
    pair.apply(30);
    (0..20).for_each(|_| pair.tick(50));
    assert!(is_added(&pair.told));
    pair.primary.outcome(pair.now, Outcome::Done(5));
    pair.tick(50);
    assert_eq!(pair.primary.given_up().count(), 0);
    // A link that ends says the same of another replica, but not of a member.
    let detached = |mut pair: Pair| {
        let stamp = pair.primary.feed().followers()[0].stamp;
        pair.primary.detach(stamp);
        pair.primary.acts()
    };
    let given_up = [Act::GaveUp(node(2), GivenUp::Disconnected)];
    assert_eq!(detached(begun_pair(vec![])), given_up);
    assert_eq!(detached(recorded_pair()), []);
}

/// The primary used to take it for silent at once, and the record lost it before it could claim the role: unless the
/// primary had begun a moment before, an orderly end left the shard alone until the node was back.
#[test]
fn a_replica_that_takes_over_stays_in_the_set_for_a_lease() {
    let mut pair = recorded_pair();
    pair.primary.fail_over(pair.now, None, None, false).unwrap();
    pair.primary.paused(pair.now, 11);
    let acts = pair.primary.acts();
    assert!(matches!(acts[..], [Act::PauseWrites, Act::Send(_, ToReplica::Handover(_))]));
    let lease = Rules::default().lease;
    let end = pair.now + lease;
    while pair.now < end {
        let acts = pair.primary.acts();
        assert!(!acts.iter().any(|act| matches!(act, Act::Ask(_))), "{acts:?}");
        pair.now += at(50);
        pair.primary.tick(pair.now, Told::default());
    }
    // From here on it is not waited for, if the coordinator is heard.
    pair.primary.tick(pair.now, Told::default());
    let acts = pair.primary.acts();
    assert!(acts.contains(&Act::Ask(Request::ReadAll)), "{acts:?}");
    let record = pair.primary.in_sync.record().unwrap().clone();
    let revision = pair.primary.in_sync.revision().unwrap();
    let read = Outcome::Records(vec![(4, revision, record)]);
    pair.primary.outcome(pair.now, read);
    let acts = pair.primary.acts();
    assert!(acts.iter().any(|act| matches!(act, Act::Ask(Request::Transact(_)))), "{acts:?}");
}

#[test]
fn a_handover_is_taken_up_once() {
    let mut pair = in_sync_pair();
    pair.primary.fail_over(pair.now, None, None, false).unwrap();
    pair.primary.paused(pair.now, 11);
    let acts = pair.primary.acts();
    let [_, Act::Send(_, handover)] = &acts[..] else { panic!("{acts:?}") };
    pair.replica.receive(pair.now, node(1), handover);
    pair.replica.receive(pair.now, node(1), handover);
    let took = |act: &replica::Act| matches!(act, replica::Act::TakeOver(_));
    assert_eq!(pair.replica.acts().iter().filter(|act| took(act)).count(), 1);
}

/// The outcome of its transaction was unknown, and before it read the record an operator had added a replica. It took
/// that for a record without a place for it, and the shard had a primary that never served.
#[test]
fn a_promotion_that_went_through_unseen_goes_on_after_a_change_of_the_record() {
    let mut pair = recorded_pair();
    pair.now += at(4000);
    pair.replica.promote(pair.now, vec![], false).unwrap();
    let shard = Shard {
        epoch: Epoch(2),
        promoted: Epoch(1),
        primary: me(1, 2),
        in_sync: vec![node(2)],
        replicas: vec![node(2)],
    };
    let found = |revision, shard: &Shard| Outcome::Records(vec![(4, revision, shard.clone())]);
    pair.replica.outcome(pair.now, found(5, &shard));
    pair.replica.outcome(pair.now, Outcome::Unknown);
    let through = shard.with_primary(me(2, 4), Epoch(2)).with_replica(node(3));
    pair.replica.outcome(pair.now, found(7, &through));
    pair.replica.outcome(pair.now, Outcome::Done(8));
    let acts = pair.replica.acts();
    let taken = |act: &replica::Act| match act {
        replica::Act::TakeOver(from) => Some((from.epoch, from.deposed)),
        _ => None,
    };
    // It used to forget the old primary here, and writes waited for that one.
    assert_eq!(acts.iter().find_map(taken), Some((Epoch(4), Some(node(1)))), "{acts:?}");
}

/// The old primary gets no time to come back. It got none for good: after it had come back it was taken out of the set
/// whenever its primary had stood still for a second, which no other member was.
#[test]
fn an_old_primary_that_follows_is_a_member_like_any_other() {
    let is_taken_out = |follows: bool| {
        let mut pair = recorded_pair();
        pair.primary.deposed = Some(node(2));
        if follows {
            pair.replica.began(*pair.primary.history().last_start().unwrap()).unwrap();
            pair.primary.hello(pair.now, &pair.replica.hello(0).unwrap(), 1);
            pair.settle();
            pair.tick(250);
            assert_eq!(pair.told, [], "it is in sync");
        }
        pair.now += at(1500);
        pair.primary.tick(pair.now, Told::default());
        pair.primary.acts().iter().any(|act| matches!(act, Act::Ask(_)))
    };
    assert!(is_taken_out(false));
    assert!(!is_taken_out(true));
}

/// Epoch 2 of node 1, which was promoted in epoch 1, with node 2 in sync.
fn lost_record() -> Shard {
    let (epoch, promoted, in_sync, replicas) = (Epoch(2), Epoch(1), vec![node(2)], vec![node(2)]);
    Shard { epoch, promoted, primary: me(1, 1), in_sync, replicas }
}

fn extent(of: u64, last: Lsn) -> Option<Extent> {
    Some(Extent { of: Epoch(of), epoch: Epoch(1), last })
}

/// What a node told earlier may be less than what it has acknowledged since.
fn counts_what_was_told_of_this_epoch() {
    let heir = |of| {
        let told = |n: NodeId| if n == node(1) { extent(2, 8) } else { extent(of, 9) };
        lost::heir(&lost_record(), told)
    };
    assert_eq!((heir(2), heir(1)), (Some(node(2)), None));
}

fn tells_once_the_primary_is_over() {
    let is_over = |me, told| lost::is_over(&lost_record(), me, |_| told);
    assert!(!is_over(me(1, 1), None), "it is this primary");
    assert!(is_over(me(1, 2), None));
    assert!(!is_over(me(2, 9), None));
    assert!(!is_over(me(2, 9), extent(1, 8)), "that was another reign");
    assert!(is_over(me(2, 9), extent(2, 8)));
}

/// The old primary's last change of the set came late: the member that it added has not told anything.
fn inherits_the_very_record() {
    for (in_sync, may) in [(vec![node(2)], true), (vec![node(2), node(3)], false)] {
        let held = held(&first_epoch(), 10);
        let mut replica = Replica::new(at(0), me(2, 4), Rules::default(), Some(4), held);
        replica.inherit(at(9000), &lost_record()).unwrap();
        assert_eq!(replica.inherit(at(9000), &lost_record()), Err(PromoteRefused::Underway));
        replica.acts();
        let found = Shard { in_sync, ..lost_record() };
        replica.outcome(at(9000), Outcome::Records(vec![(4, 7, found)]));
        let acts = replica.acts();
        let asks = matches!(acts[..], [replica::Act::Ask(Request::Transact(_))]);
        let gives_up = matches!(acts[..], [replica::Act::GivenUp(PromoteRefused::NotInSync)]);
        assert_eq!((asks, gives_up), (may, !may), "{acts:?}");
    }
}

#[test]
fn a_lost_set_goes_on_by_what_was_told_of_it() {
    counts_what_was_told_of_this_epoch();
    tells_once_the_primary_is_over();
    inherits_the_very_record();
    crate::assert_variants_are_found(&[
        (counts_what_was_told_of_this_epoch, &[Fault::AnyExtent]),
        (tells_once_the_primary_is_over, &[Fault::TellEarly]),
        (inherits_the_very_record, &[Fault::InheritAnyway]),
    ]);
}

#[test]
fn a_node_that_lacks_something_tells_nothing_of_a_lost_set() {
    let tells = |held: Held, promoted: u64| {
        let record = Shard { promoted: Epoch(promoted), ..lost_record() };
        Replica::new(at(0), me(2, 4), Rules::default(), Some(4), held).extent(&record)
    };
    let all = || held(&first_epoch(), 10);
    assert_eq!(tells(all(), 1), extent(2, 10));
    assert_eq!(tells(all(), 2), None, "it lacks the reign");
    assert_eq!(tells(held(&History::new(), 0), 1), None, "it is empty");
    assert_eq!(tells(Held { whole: false, ..all() }, 1), None);
    assert_eq!(tells(Held { repairing: true, ..all() }, 1), None);
    assert_eq!(tells(Held { indirect: true, ..all() }, 1), None);
    assert_eq!(tells(Held { caught_up: true, ..all() }, 1), None, "it is promoted as usual");
    let mut pair = begun_pair(vec![]);
    assert_eq!(pair.replica.extent(&lost_record()), None, "its primary may send more");
    pair.replica.disconnected();
    assert_eq!(pair.replica.extent(&lost_record()), extent(2, 10));
}
