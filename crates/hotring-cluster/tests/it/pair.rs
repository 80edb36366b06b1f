//! A primary and a replica that talk without a network, step by step.

use std::time::Duration;

use crate::failover::{FailoverEnd, FailoverRefused};
use crate::history::{History, Start};
use crate::ids::{Epoch, Identity, Incarnation, Lsn, Moment, NodeId};
use crate::in_sync::Set;
use crate::message::{Answer, Beat, Course, Positions, ToPrimary, ToReplica, Told};
use crate::primary::{Act, Kept, Origin, Primary, Writes};
use crate::replica::{self, AnswerRefused, Held, PromoteRefused, Replica};
use crate::rules::Rules;

pub fn node(n: u8) -> NodeId {
    NodeId([n; 20])
}

pub fn me(n: u8, incarnation: u64) -> Identity {
    Identity { node: node(n), incarnation: Incarnation(incarnation) }
}

pub fn at(ms: u64) -> Moment {
    Duration::from_millis(ms)
}

pub const STORE: [u8; 16] = [7; 16];

pub fn kept(history: &History, last: Lsn, clean: bool) -> Kept {
    Kept { store: STORE, history: history.clone(), last, clean }
}

pub fn held(history: &History, last: Lsn) -> Held {
    let history = history.clone();
    let (repairing, adopt, indirect, caught_up) = (false, false, false, false);
    Held { store: STORE, history, last, whole: true, repairing, adopt, indirect, caught_up }
}

pub fn first_epoch() -> History {
    let start = Start { epoch: Epoch(1), node: node(1), incarnation: Incarnation(1), first: 1 };
    History::of(&[start]).unwrap()
}

/// Node 1 as primary and node 2 as replica, at the same record.
pub struct Pair {
    pub primary: Primary,
    pub replica: Replica,
    pub now: Moment,
    pub told: Vec<Act>,
    pub replica_told: Vec<replica::Act>,
}

impl Pair {
    /// Both have ten records of epoch 1.
    pub fn new(set: Vec<NodeId>) -> Self {
        let now = at(10_000);
        let kept = kept(&first_epoch(), 10, true);
        let rules = Rules::default();
        let primary = Primary::start(now, me(1, 2), rules, kept, Origin::Named(set));
        let replica = Replica::new(now, me(2, 3), rules, None, held(&first_epoch(), 10));
        let mut pair = Pair { primary, replica, now, told: Vec::new(), replica_told: Vec::new() };
        pair.attach();
        pair
    }

    /// The first hello may be answered with `NotReady`.
    pub fn attach(&mut self) {
        let id = self.replica.hello(0).unwrap().from;
        while self.primary.feed().follower(node(2)).is_none_or(|follower| follower.id != id) {
            let hello = self.replica.hello(0).unwrap();
            self.primary.hello(self.now, &hello, 1);
            self.settle();
        }
    }

    /// Delivers all messages, until there are none.
    pub fn settle(&mut self) {
        loop {
            let (acts, replies) = (self.primary.acts(), self.replica.acts());
            if acts.is_empty() && replies.is_empty() {
                return;
            }
            for act in acts {
                match act {
                    Act::Send(_, ToReplica::Answer(answer)) => {
                        self.replica.answer(self.now, answer).unwrap();
                    }
                    Act::Send(_, message) => self.replica.receive(self.now, node(1), &message),
                    other => self.told.push(other),
                }
            }
            for reply in replies {
                match reply {
                    replica::Act::Send(_, message) => {
                        self.primary.receive(self.now, node(2), &message);
                    }
                    other => self.replica_told.push(other),
                }
            }
        }
    }

    pub fn tick(&mut self, ms: u64) {
        self.now += at(ms);
        self.primary.tick(self.now, Told { wall: 5, cas: 6 });
        self.replica.tick(self.now);
        self.settle();
    }

    pub fn write(&mut self, last: Lsn) {
        self.primary.appended(self.now, last, 100 * last);
    }

    pub fn apply(&mut self, last: Lsn) {
        self.replica.applied(Positions { applied: last, written: last, synced: last });
        self.settle();
    }
}

#[test]
fn a_write_counts_once_the_replica_has_it() {
    let mut pair = Pair::new(vec![node(2)]);
    assert_eq!(pair.primary.epoch(), Epoch(2));
    assert_eq!(pair.primary.committed(), 10);
    pair.apply(11);
    pair.write(14);
    assert_eq!(pair.primary.committed(), 11);
    assert_eq!(pair.primary.feed().applied_by(12), 0);
    pair.apply(13);
    assert_eq!((pair.primary.committed(), pair.primary.feed().synced_by(13)), (13, 1));
}

#[test]
fn without_a_set_nothing_is_waited_for() {
    let mut pair = Pair::new(vec![]);
    pair.write(14);
    assert_eq!(pair.primary.committed(), 14);
    assert_eq!(pair.primary.writes(pair.now), Writes::Open);
    assert_eq!(pair.primary.answers_until(), Some(Moment::MAX));
}

#[test]
fn too_few_replicas_in_sync_stop_writes_alone() {
    let kept = kept(&first_epoch(), 10, true);
    let rules = Rules { min_in_sync: 1, ..Rules::default() };
    let mut alone = Primary::start(at(0), me(1, 2), rules, kept, Origin::Named(vec![]));
    alone.tick(at(0), Told::default());
    assert_eq!(alone.writes(at(0)), Writes::NoReplicas);
    assert_eq!(alone.answers_until(), Some(Moment::MAX));
    alone.name(at(0), vec![node(2)]).unwrap();
    assert_eq!((alone.writes(at(0)), alone.answers_until()), (Writes::NoReplicas, None));
}

#[test]
fn the_right_to_answer_ends_with_the_promises_and_comes_back() {
    let mut pair = Pair::new(vec![node(2)]);
    assert_eq!(pair.primary.answers_until(), None);
    pair.tick(0);
    assert_eq!(pair.primary.answers_until(), Some(pair.now + at(1800)));
    assert_eq!(pair.primary.writes(pair.now), Writes::Open);
    assert_eq!(pair.primary.writes(pair.now + at(1001)), Writes::NoReplicas);
    pair.tick(250);
    assert_eq!(pair.primary.answers_until(), Some(pair.now + at(1800)));
    pair.primary.name(pair.now, vec![]).unwrap();
    assert_eq!(pair.primary.answers_until(), Some(Moment::MAX));
}

#[test]
fn a_replica_waits_for_its_promise_and_begins_an_epoch() {
    let mut pair = Pair::new(vec![node(2)]);
    pair.apply(11);
    pair.tick(0);
    pair.tick(250);
    pair.replica.promote(pair.now, vec![], false).unwrap();
    assert_eq!(pair.replica.promote(pair.now, vec![], false), Err(PromoteRefused::Underway));
    pair.tick(1999);
    assert_eq!(pair.replica_told, []);
    // By now the old primary has long lost its right.
    assert!(pair.primary.answers_until().unwrap() < pair.now);
    pair.tick(1);
    let [replica::Act::TakeOver(from)] = &pair.replica_told[..] else { panic!("no promotion") };
    assert_eq!((from.epoch, from.last, from.told), (Epoch(3), 11, Told { wall: 5, cas: 6 }));
    let mut new = Primary::take_over(pair.now, me(2, 3), Rules::default(), (**from).clone());
    assert!(matches!(new.acts()[..], [Act::Begin(Start { epoch: Epoch(3), first: 12, .. })]));
    // The old one comes back, and learns of it.
    let stray = new.stray(pair.primary.feed().followers()[0].stamp).unwrap();
    pair.primary.receive(pair.now, node(2), &stray);
    assert_eq!(pair.primary.acts(), [Act::Superseded(Epoch(3), Some(node(2)))]);
    assert_eq!(pair.primary.writes(pair.now), Writes::Closed);
}

#[test]
fn a_replica_outside_of_the_set_is_promoted_only_by_force() {
    let mut pair = Pair::new(vec![]);
    pair.tick(0);
    assert_eq!(pair.replica.promote(pair.now, vec![], false), Err(PromoteRefused::NotInSync));
    pair.replica.promote(pair.now, vec![], true).unwrap();
    pair.tick(2000);
    assert!(matches!(pair.replica_told[..], [replica::Act::TakeOver(_)]));
}

#[test]
fn half_received_data_is_never_promoted() {
    let mut pair = Pair::new(vec![]);
    let unfinished = Held { whole: false, ..held(&History::new(), 0) };
    pair.replica = Replica::new(pair.now, me(2, 4), Rules::default(), None, unfinished);
    pair.attach();
    assert!(!pair.replica.may_answer(pair.now));
    assert_eq!(pair.replica.promote(pair.now, vec![], true), Err(PromoteRefused::HalfReceived));
    pair.replica.copied(11);
    pair.settle();
    assert!(pair.replica.may_answer(pair.now));
    assert!(!pair.replica.may_answer(pair.now + at(10_001)));
    assert_eq!(pair.primary.feed().applied_by(11), 1);
    assert_eq!(pair.replica.promote(pair.now, vec![], true), Ok(()));
}

#[test]
fn a_divergent_tail_is_repaired_from_the_last_common_record() {
    let mut pair = Pair::new(vec![]);
    pair.replica =
        Replica::new(pair.now, me(2, 4), Rules::default(), None, held(&first_epoch(), 15));
    let hello = pair.replica.hello(10).unwrap();
    pair.primary.hello(pair.now, &hello, 1);
    let acts = pair.primary.acts();
    let [.., Act::Send(_, ToReplica::Answer(answer))] = &acts[..] else { panic!("no answer") };
    assert_eq!(pair.replica.answer(pair.now, answer.clone()), Ok(Course::Repair(10)));
    assert!(pair.replica.is_whole(), "nothing is gone yet");
    let stamp = answer.stamp;
    assert_eq!(pair.replica.records(stamp, 11, 11, 11), None, "its tail is still there");
    assert!(pair.replica.cut(stamp, 10));
    assert_eq!((pair.replica.last(), pair.replica.history().epoch()), (10, Epoch(1)));
    assert_eq!(pair.replica.records(stamp, 11, 11, 11), Some(11));
    pair.replica.applied(Positions { applied: 11, ..Positions::default() });
    pair.settle();
    assert_eq!(pair.primary.feed().applied_by(1), 0);
    assert!(!pair.replica.is_whole());
    pair.replica.repaired(11);
    pair.settle();
    assert_eq!(pair.primary.feed().applied_by(11), 1);
    assert_eq!(pair.replica.history().epoch(), Epoch(2));
    // The records behind the point in common are gone, or include a clear.
    for (floor, oldest) in [(11, 1), (0, 12)] {
        let mut other =
            Replica::new(pair.now, me(2, 5), Rules::default(), None, held(&first_epoch(), 15));
        pair.primary.hello(pair.now, &other.hello(floor).unwrap(), oldest);
        let acts = pair.primary.acts();
        let [Act::Send(_, ToReplica::Answer(Answer { course, .. }))] = &acts[..] else { panic!() };
        assert_eq!(*course, Course::FullCopy);
    }
}

#[test]
fn a_primary_that_comes_back_empty_waits_and_empties_no_replica() {
    let mut pair = Pair::new(vec![node(2)]);
    pair.apply(11);
    let origin = || Origin::Named(vec![node(2)]);
    let empty = kept(&History::new(), 0, false);
    pair.primary = Primary::start(pair.now, me(1, 9), Rules::default(), empty.clone(), origin());
    let hello = pair.replica.hello(0).unwrap();
    pair.now += at(5000);
    pair.primary.hello(pair.now, &hello, 1);
    assert_eq!(pair.primary.acts(), [Act::Send(node(2), ToReplica::NotReady(Incarnation(9)))]);
    pair.replica.receive(pair.now, node(1), &ToReplica::NotReady(Incarnation(9)));
    pair.primary.hello(pair.now, &pair.replica.hello(0).unwrap(), 1);
    assert_eq!(pair.primary.ahead(), Some(node(2)));
    assert_eq!(pair.primary.writes(pair.now), Writes::Closed);
    // Even if an operator lets it go on, the replica keeps what it has.
    pair.primary.accept_loss(pair.now);
    pair.primary.acts();
    let adopting = pair.replica.hello(0).unwrap();
    let unasked = crate::message::Hello { history: History::new(), ..adopting };
    pair.primary.hello(pair.now, &unasked, 1);
    let acts = pair.primary.acts();
    let [Act::Send(_, ToReplica::Answer(answer))] = &acts[..] else { panic!("no answer") };
    let refused = pair.replica.answer(pair.now, answer.clone());
    assert_eq!(refused, Err(AnswerRefused::LowerEpoch(Epoch(2))));
    assert_eq!(pair.replica.last(), 11);
}

#[test]
fn all_members_of_a_new_set_may_be_empty() {
    let now = at(0);
    let rules = Rules::default();
    let empty = kept(&History::new(), 0, false);
    let mut primary =
        Primary::start(now, me(1, 1), rules, empty, Origin::Named(vec![node(2), node(3)]));
    let told = |primary: &mut Primary, n: u8, now| {
        let mut other = Replica::new(now, me(n, 1), rules, None, held(&History::new(), 0));
        other.receive(now, node(1), &ToReplica::NotReady(Incarnation(1)));
        primary.hello(now, &other.hello(0).unwrap(), 1);
        primary.acts().iter().filter(|act| matches!(act, Act::Begin(_))).count()
    };
    assert_eq!(told(&mut primary, 2, at(1)), 0);
    assert_eq!(told(&mut primary, 3, at(1)), 0);
    primary.tick(at(2000), Told::default());
    assert!(matches!(primary.acts()[..], [Act::Begin(Start { epoch: Epoch(1), first: 1, .. })]));
}

#[test]
fn a_failover_hands_over_when_the_target_has_everything() {
    let mut pair = Pair::new(vec![node(2)]);
    pair.apply(11);
    pair.tick(0);
    pair.write(20);
    let (now, target) = (pair.now, Some(node(2)));
    assert_eq!(
        pair.primary.fail_over(now, Some(node(3)), None, false),
        Err(FailoverRefused::NoReplica)
    );
    pair.primary.fail_over(now, target, None, false).unwrap();
    pair.primary.paused(now, 20);
    pair.settle();
    assert_eq!(pair.told[1..], [Act::PauseWrites]);
    assert_eq!(pair.primary.writes(now), Writes::Paused);
    pair.apply(20);
    let [replica::Act::TakeOver(from)] = &pair.replica_told[..] else { panic!("no promotion") };
    assert_eq!((from.last, &from.set), (20, &Set::Named(vec![node(1)])));
    let end = Act::FailoverEnded(FailoverEnd::HandedOver(node(2)));
    assert_eq!(pair.told[2..], [end, Act::Superseded(Epoch(3), Some(node(2)))]);
}

/// The first one with everything got the role, and refused writes.
#[test]
fn a_failover_goes_to_a_replica_that_can_write() {
    for is_full in [false, true] {
        let mut pair = Pair::new(vec![]);
        pair.replica.note_full(is_full);
        pair.apply(11);
        pair.told.clear();
        let rules = Rules::default();
        let mut third = Replica::new(pair.now, me(3, 4), rules, None, held(&first_epoch(), 10));
        pair.primary.hello(pair.now, &third.hello(0).unwrap(), 1);
        let acts = pair.primary.acts();
        let [Act::Send(_, ToReplica::Answer(answer))] = &acts[..] else { panic!("{acts:?}") };
        third.answer(pair.now, answer.clone()).unwrap();
        third.began(*pair.primary.history().last_start().unwrap()).unwrap();
        third.applied(Positions { applied: 11, ..Positions::default() });
        for act in third.acts() {
            let replica::Act::Send(_, message) = act else { panic!("{act:?}") };
            pair.primary.receive(pair.now, node(3), &message);
        }
        pair.primary.fail_over(pair.now, None, None, false).unwrap();
        pair.primary.paused(pair.now, 11);
        let acts = pair.primary.acts();
        let heir = acts.iter().find_map(|act| match act {
            Act::Send(node, ToReplica::Handover(_)) => Some(*node),
            _ => None,
        });
        assert_eq!(heir, Some(node(if is_full { 3 } else { 2 })), "{acts:?}");
    }
}

#[test]
fn a_failover_that_is_given_up_leaves_one_primary() {
    let mut pair = Pair::new(vec![node(2)]);
    pair.apply(11);
    pair.tick(0);
    // Before the handover: writes go on at once.
    pair.write(20);
    pair.primary.fail_over(pair.now, None, Some(at(300)), false).unwrap();
    pair.primary.paused(pair.now, 20);
    pair.tick(300);
    assert_eq!(pair.told[2..], [Act::FailoverEnded(FailoverEnd::TimedOut), Act::ResumeWrites]);
    assert_eq!(pair.primary.writes(pair.now), Writes::Open);
    // After it: only when the replica has answered a later beat, and then ignores the handover.
    pair.apply(20);
    pair.primary.fail_over(pair.now, None, None, false).unwrap();
    pair.primary.paused(pair.now, 20);
    let acts = pair.primary.acts();
    let [_, Act::Send(_, lost)] = &acts[..] else { panic!("{acts:?}") };
    assert!(pair.primary.abort_failover());
    assert_eq!(pair.primary.answers_until(), None);
    assert_eq!(pair.primary.writes(pair.now), Writes::Paused);
    pair.tick(250);
    assert_eq!(pair.primary.writes(pair.now), Writes::Open);
    assert_eq!(pair.primary.answers_until(), Some(pair.now + at(1800)));
    pair.replica.receive(pair.now, node(1), lost);
    pair.settle();
    assert_eq!(pair.replica_told, []);
}

#[test]
fn a_forced_failover_hands_over_at_the_end_of_its_time() {
    let mut pair = Pair::new(vec![node(2)]);
    pair.apply(11);
    pair.tick(0);
    pair.write(20);
    let (now, target) = (pair.now, Some(node(2)));
    let unlimited = pair.primary.fail_over(now, target, None, true);
    assert_eq!(unlimited, Err(FailoverRefused::NeedsTargetAndTime));
    pair.primary.fail_over(now, target, Some(at(200)), true).unwrap();
    pair.primary.paused(now, 20);
    pair.tick(199);
    assert_eq!(pair.replica_told, []);
    pair.tick(1);
    let [replica::Act::TakeOver(from)] = &pair.replica_told[..] else { panic!("no promotion") };
    assert_eq!((from.last, from.epoch), (11, Epoch(3)));
    // The nine records have an open fate: the old primary repairs its tail.
    assert_eq!(pair.told.last(), Some(&Act::Superseded(Epoch(3), Some(node(2)))));
    assert!(pair.primary.held().caught_up);
}

#[test]
fn what_a_peer_sends_never_overflows() {
    let mut pair = Pair::new(vec![node(2)]);
    pair.apply(11);
    let stamp = pair.primary.feed().followers()[0].stamp;
    let beat = Beat {
        stamp,
        number: u64::MAX,
        lease: Duration::MAX,
        committed: u64::MAX,
        member: true,
        caught_up: true,
        told: Told { wall: u64::MAX, cas: u64::MAX },
    };
    pair.replica.receive(pair.now, node(1), &ToReplica::Beat(beat));
    assert_eq!(pair.replica.promote(pair.now, vec![], false), Ok(()));
    pair.tick(3_600_000);
    let [replica::Act::TakeOver(from)] = &pair.replica_told[..] else { panic!("no promotion") };
    let mut new = Primary::take_over(pair.now, me(2, 3), Rules::default(), (**from).clone());
    // It claims that more was committed than it has.
    assert_eq!((new.acts().len(), new.committed()), (1, 12));
}

#[test]
fn without_a_set_too_a_handover_silences_the_primary() {
    let mut pair = Pair::new(vec![]);
    pair.apply(11);
    pair.tick(0);
    pair.primary.fail_over(pair.now, None, None, false).unwrap();
    pair.primary.paused(pair.now, 11);
    let acts = pair.primary.acts();
    assert!(matches!(acts[..], [Act::PauseWrites, Act::Send(_, ToReplica::Handover(_))]));
    assert!(pair.primary.abort_failover());
    pair.now += at(1500);
    assert_eq!(pair.primary.answers_until(), None);
    // The replica has taken it up, or not: only an answer to a later beat says so.
    pair.tick(0);
    assert_eq!(pair.primary.answers_until(), Some(Moment::MAX));
    // A handover that comes after the promise is declined: its primary may have started again.
    pair.primary.fail_over(pair.now, None, None, false).unwrap();
    pair.primary.paused(pair.now, 11);
    pair.now += at(2001);
    pair.settle();
    assert_eq!(pair.replica_told, []);
    assert_eq!(pair.told.last(), Some(&Act::ResumeWrites));
    assert_eq!(pair.primary.answers_until(), Some(Moment::MAX));
}

#[test]
fn messages_of_other_connections_are_ignored() {
    let mut pair = Pair::new(vec![node(2)]);
    pair.apply(11);
    pair.write(20);
    pair.replica.applied(Positions { applied: 20, written: 20, synced: 20 });
    let late = pair.replica.acts();
    // The node starts again, and has lost its memory.
    pair.replica =
        Replica::new(pair.now, me(2, 4), Rules::default(), None, held(&first_epoch(), 5));
    pair.attach();
    for act in late {
        let replica::Act::Send(_, message @ ToPrimary::Ack(_)) = act else { panic!("{act:?}") };
        pair.primary.receive(pair.now, node(2), &message);
    }
    assert_eq!(pair.primary.committed(), 11);
    pair.tick(250);
    assert!(!pair.replica.is_in_sync());
    assert_eq!(pair.replica.promote(pair.now, vec![], false), Err(PromoteRefused::NotInSync));
}

#[test]
fn lag_is_counted_in_bytes_and_time() {
    let mut pair = Pair::new(vec![]);
    pair.apply(11);
    for last in 12..=21 {
        pair.now += at(200);
        pair.write(last);
    }
    let lag = pair.primary.lag(pair.now, node(2)).unwrap();
    assert_eq!(lag.time, at(1800));
    assert_eq!(lag.bytes, 2100);
    pair.apply(17);
    let lag = pair.primary.lag(pair.now, node(2)).unwrap();
    assert_eq!((lag.time, lag.bytes), (at(600), 400));
    pair.apply(21);
    assert_eq!(pair.primary.lag(pair.now, node(2)).unwrap().time, at(0));
}

#[test]
fn records_wait_for_the_end_of_their_batch() {
    let mut pair = Pair::new(vec![]);
    let stamp = pair.primary.feed().followers()[0].stamp;
    assert_eq!(pair.replica.records(stamp, 11, 13, 12), Some(12));
    assert_eq!(pair.replica.records(stamp, 15, 16, 16), None);
    assert_eq!(pair.replica.records(stamp, 14, 14, 0), Some(12));
    assert_eq!(pair.replica.records(stamp, 15, 15, 15), Some(15));
    let other = crate::message::Stamp { session: 9, ..stamp };
    assert_eq!(pair.replica.records(other, 16, 16, 16), None);
}
