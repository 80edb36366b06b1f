//! What the simulator's random clients do not do: break the rules.

use hotring_cluster::{Epoch, Incarnation};

use super::*;
use crate::message::{Operation, Operations};

const TERM: Term = Term { incarnation: Incarnation(1), epoch: Epoch(1) };
const IDLE: Duration = Duration::from_secs(10);
const BOUNDS: Bounds = Bounds { sessions_max: 2, idle: IDLE, window: 4, reply_bytes_max: 10 };
const NOW: Duration = Duration::from_secs(100);

fn hello(client: u64, user: &str) -> Hello<'_> {
    let (user, password, address) = (user.as_bytes(), &[][..], &[][..]);
    Hello { client, message_len_max: 1000, user, password, address }
}

fn cache() -> (ReplyCache, u64) {
    let mut cache = ReplyCache::new(TERM, BOUNDS, 1);
    let session = cache.greet(NOW, Peer(1), &hello(1, "ann"), 0).expect("there is room").0;
    (cache, session)
}

/// Admits a write.
fn admit(cache: &mut ReplyCache, peer: u64, session: u64, floor: u64, id: u64) -> Admission<'_> {
    let mut bytes = Vec::new();
    let write = [Operation::Delete { key: b"k" }];
    let operations = Operations::encode(&write, &mut bytes).expect("it fits");
    let head = Head { id, session, term: TERM };
    cache.admit(NOW, Peer(peer), &head, &Request { floor, by_datagram: false, operations })
}

fn finish(cache: &mut ReplyCache, session: u64, id: u64, reply: &[u8]) -> bool {
    cache.finish(&Head { id, session, term: TERM }, true, reply)
}

#[test]
fn a_session_is_of_one_peer_and_one_user() {
    let (mut cache, session) = cache();
    assert_eq!(admit(&mut cache, 2, session, 0, 1), Admission::Refuse(Refusal::SessionOver));
    assert_eq!(cache.greet(NOW, Peer(2), &hello(1, "bob"), 0), Err(Refusal::Denied));
    assert_eq!(admit(&mut cache, 1, session, 0, 1), Admission::Run, "bob has not taken it over");
    let (same, _) = cache.greet(NOW, Peer(2), &hello(1, "ann"), 0).expect("it is ann");
    assert_eq!(same, session);
    assert_eq!(admit(&mut cache, 1, session, 0, 2), Admission::Refuse(Refusal::SessionOver));
    assert_eq!(admit(&mut cache, 2, session, 0, 1), Admission::Drop, "it is running");
    let head = Head { id: 1, session, term: TERM };
    assert!(cache.is_awaited(Peer(2), &head) && !cache.is_awaited(Peer(1), &head));
    cache.leave(Peer(1));
    assert!(cache.is_awaited(Peer(2), &head), "another connection is over");
    cache.leave(Peer(2));
    assert!(!cache.is_awaited(Peer(2), &head));
}

#[test]
fn replies_are_kept_within_the_bounds_and_up_to_the_floor() {
    let (mut cache, session) = cache();
    for id in 1..4 {
        assert_eq!(admit(&mut cache, 1, session, 0, id), Admission::Run);
    }
    assert_eq!(admit(&mut cache, 1, session, 0, 4), Admission::Refuse(Refusal::Misused));
    assert!(finish(&mut cache, session, 1, b"1234567"));
    assert!(finish(&mut cache, session, 2, b"1234"), "it is sent, but not kept");
    assert_eq!(admit(&mut cache, 1, session, 0, 1), Admission::Again(b"1234567"));
    assert_eq!(admit(&mut cache, 1, session, 0, 2), Admission::Refuse(Refusal::ReplyGone));
    assert_eq!(admit(&mut cache, 1, session, 2, 1), Admission::Drop, "it is below the floor");
    assert!(finish(&mut cache, session, 3, b"1234567890"), "there is room again");
    assert_eq!(admit(&mut cache, 1, session, 0, 3), Admission::Again(b"1234567890"));
    assert_eq!(admit(&mut cache, 1, session, u64::MAX, 4), Admission::Drop, "all are below it");
    assert!(!finish(&mut cache, session, 4, b""), "it was not run");
}

#[test]
fn only_a_client_that_is_idle_and_has_nothing_running_makes_room() {
    let (mut cache, first) = cache();
    let second = cache.greet(NOW, Peer(2), &hello(2, ""), 0).expect("there is room").0;
    assert_eq!(cache.greet(NOW, Peer(3), &hello(3, ""), 0), Err(Refusal::Full));
    assert_eq!(admit(&mut cache, 1, first, 0, 1), Admission::Run);
    let (third, _) = cache.greet(NOW + IDLE, Peer(3), &hello(3, ""), 0).expect("one is idle");
    assert_eq!(admit(&mut cache, 1, first, 0, 1), Admission::Drop, "it is running");
    assert_eq!(admit(&mut cache, 2, second, 0, 1), Admission::Refuse(Refusal::SessionOver));
    assert!(third > second);
    let (again, _) = cache.greet(NOW + IDLE * 2, Peer(2), &hello(2, ""), 0).expect("one is idle");
    assert!(again > third, "the client has lost its session for good");
}

#[test]
fn what_was_held_back_is_run_only_while_its_client_waits() {
    let (mut cache, session) = cache();
    let head = |id| Head { id, session, term: TERM };
    assert_eq!(admit(&mut cache, 1, session, 0, 1), Admission::Run);
    assert!(cache.is_wanted(Peer(1), &head(1), true));
    cache.leave(Peer(1));
    assert!(cache.is_wanted(Peer(1), &head(1), true), "a copy is dropped: its client comes back");
    assert!(!cache.is_wanted(Peer(1), &head(9), false), "a read is asked for again");
    cache.greet(NOW, Peer(2), &hello(1, "ann"), 0).expect("it is ann");
    assert!(cache.is_wanted(Peer(2), &head(9), false));
    assert_eq!(admit(&mut cache, 2, session, 2, 2), Admission::Run);
    assert!(!cache.is_wanted(Peer(2), &head(1), true), "its client has given it up");
    assert!(cache.is_wanted(Peer(2), &head(2), true));
    cache.begin(Term { epoch: Epoch(2), ..TERM });
    assert!(!cache.is_wanted(Peer(2), &head(2), true), "another term");
}

#[test]
fn clients_that_are_gone_make_room_first_and_are_forgotten_at_last() {
    let (mut cache, session) = cache();
    cache.greet(NOW, Peer(2), &hello(2, "bob"), 0).expect("there is room");
    assert_eq!(cache.greet(NOW, Peer(3), &hello(3, "eve"), 0).map(drop), Err(Refusal::Full));
    assert_eq!(admit(&mut cache, 1, session, 0, 1), Admission::Run);
    cache.leave(Peer(1));
    let eve = cache.greet(NOW, Peer(3), &hello(3, "eve"), 0);
    assert_eq!(eve.map(drop), Err(Refusal::Full), "a write of the first one runs");
    assert!(finish(&mut cache, session, 1, b"1"));
    cache.sweep(NOW + IDLE - Duration::from_millis(1));
    assert_eq!(cache.greet(NOW, Peer(4), &hello(1, "ann"), 0).map(|(same, _)| same), Ok(session));
    cache.leave(Peer(4));
    cache.greet(NOW, Peer(3), &hello(3, "eve"), 0).expect("the first one is gone");
    let (other, _) = cache.greet(NOW, Peer(5), &hello(2, "bob"), 0).expect("it is still there");
    cache.leave(Peer(5));
    cache.sweep(NOW + IDLE);
    let (new, _) = cache.greet(NOW, Peer(5), &hello(2, "bob"), 0).expect("there is room");
    assert_ne!(new, other, "it was forgotten");
}

/// One that is not kept must not be lost on its way.
#[test]
fn a_reply_is_kept_if_there_is_room() {
    let (mut cache, session) = cache();
    for (id, reply, is_kept) in [(1, &[0; 6], true), (2, &[0; 6], false)] {
        let head = Head { id, session, term: TERM };
        assert_eq!(admit(&mut cache, 1, session, 0, id), Admission::Run);
        assert!(!cache.keeps(&head), "it is running");
        assert!(finish(&mut cache, session, id, reply));
        assert_eq!(cache.keeps(&head), is_kept);
    }
}
