//! A client that is told by hand what a server says.

use hotring_cluster::{Epoch, Incarnation};

use super::*;
use crate::message::Answer;

const TERM: Term = Term { incarnation: Incarnation(1), epoch: Epoch(2) };
const WRITE: [Operation<'_>; 1] = [Operation::Delete { key: b"k" }];
const READ: [Operation<'_>; 1] = [Operation::Get { key: b"k" }];
const RETRY: Duration = Duration::from_secs(1);
const OPTIONS: Options =
    Options { retry: RETRY, datagrams: None, queue_max: 3, message_len_max: 500 };

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn caller() -> Caller {
    caller_with(OPTIONS)
}

fn caller_with(options: Options) -> Caller {
    let login = Login { user: Vec::new(), password: Vec::new() };
    let mut caller = Caller::new(1, login, options).expect("it is short");
    (0..10).for_each(|_| caller.posted());
    caller
}

/// What the client sends at this second: H, or R and the id of a request, with D if its answer may be a datagram.
fn sent(caller: &mut Caller, second: u64) -> Vec<String> {
    let (mut out, mut sent) = (Vec::new(), Vec::new());
    while caller.next_message(at(second), &mut out) {
        sent.push(match Message::read(&out).expect("it can be read") {
            Message::Hello(..) => "H".to_string(),
            Message::Request(head, request) => {
                let kind = if request.by_datagram { "D" } else { "R" };
                format!("{kind}{} {}", head.id, request.floor)
            }
            other => panic!("{other:?}"),
        });
    }
    sent
}

fn tell(caller: &mut Caller, second: u64, message: Message<'_>) {
    let mut bytes = Vec::new();
    message.write(&mut bytes);
    caller.receive(at(second), &bytes).expect("it is whole");
    caller.posted();
}

/// Greets under id 1, with a window and a longest message.
fn welcome(caller: &mut Caller, window: u32, message_len_max: u32) {
    assert_eq!(sent(caller, 0), ["H"]);
    let head = Head { id: 1, session: 5, term: TERM };
    tell(caller, 0, Message::Welcome(head, Welcome { window, message_len_max }));
}

fn answer(caller: &mut Caller, id: u64) {
    let mut bytes = Vec::new();
    let answers = [Answer::new(b"k", Status::Absent, 0, b"")];
    let answers = Answers::encode(&answers, &mut bytes).expect("it fits");
    tell(caller, 0, Message::Reply(Head { id, session: 5, term: TERM }, answers));
}

fn outcomes(caller: &mut Caller) -> Vec<Outcome> {
    std::iter::from_fn(|| caller.take()).map(|(_, outcome)| outcome).collect()
}

#[test]
fn writes_keep_to_the_window_and_hold_up_no_read() {
    let mut caller = caller();
    for _ in 0..3 {
        caller.start(&WRITE, at(99)).unwrap();
    }
    assert_eq!(caller.start(&READ, at(99)), Err(Unstarted::QueueFull));
    welcome(&mut caller, 2, 500);
    assert_eq!(sent(&mut caller, 0), ["R2 2", "R3 2"]);
    answer(&mut caller, 3);
    assert_eq!(sent(&mut caller, 0), [""; 0], "the floor is still 2");
    caller.start(&READ, at(99)).unwrap();
    assert_eq!(sent(&mut caller, 0), ["R4 2"], "a read need not wait");
    answer(&mut caller, 2);
    assert_eq!(sent(&mut caller, 0), ["R5 5"]);
    answer(&mut caller, 4);
    answer(&mut caller, 5);
    assert_eq!(outcomes(&mut caller).len(), 4);
    assert_eq!(caller.next_time(), None);
}

#[test]
fn pauses_grow_and_a_deadline_ends_a_call() {
    let mut caller = caller();
    caller.start(&WRITE, at(6)).unwrap();
    caller.start(&READ, at(7)).unwrap();
    welcome(&mut caller, 9, 500);
    assert_eq!(sent(&mut caller, 0), ["R2 2", "R3 2"]);
    assert_eq!(caller.next_time(), Some(at(1)));
    assert_eq!(sent(&mut caller, 1), ["R2 2", "R3 2"]);
    assert_eq!(caller.next_time(), Some(at(3)), "the second pause is longer");
    assert_eq!(sent(&mut caller, 6), ["R3 4"], "the write is given up");
    assert_eq!(outcomes(&mut caller), [Outcome::Unknown]);
    caller.start(&WRITE, at(7)).unwrap();
    assert_eq!(sent(&mut caller, 7), [""; 0]);
    let late = Outcome::NotDone(Reason::Late);
    assert_eq!(outcomes(&mut caller), [late.clone(), late], "the second write was never sent");
}

#[test]
fn a_wait_is_asked_for_again_only_after_its_limit() {
    let mut caller = caller();
    let wait = Operation::WaitForChange { key: b"k", limit_ms: 10_000 };
    assert_eq!(caller.start(&[wait, READ[0]], at(99)), Err(Unstarted::Misused));
    caller.start(&[wait], at(99)).unwrap();
    welcome(&mut caller, 9, 500);
    assert_eq!(sent(&mut caller, 0), ["R2 3"]);
    assert_eq!(caller.next_time(), Some(at(11)));
}

#[test]
fn a_wait_is_no_longer_than_what_is_left_of_its_call() {
    let mut caller = caller();
    let waits = [
        Operation::WaitForChange { key: b"k", limit_ms: 60_000 },
        Operation::WaitForValue { key: b"k", value: b"v", limit_ms: 60_000 },
        Operation::WaitForChange { key: b"k", limit_ms: 500 },
    ];
    waits.iter().for_each(|wait| _ = caller.start(&[*wait], at(9)).unwrap());
    welcome(&mut caller, 9, 500);
    let mut limits = |now| {
        let (mut out, mut limits) = (Vec::new(), Vec::new());
        while caller.next_message(now, &mut out) {
            let Ok(Message::Request(_, request)) = Message::read(&out) else { panic!("{out:?}") };
            limits.extend(request.operations.iter().filter_map(|wait| wait.wait_ms()));
        }
        limits
    };
    assert_eq!(limits(at(2)), [7_001, 7_001, 500]);
    // The copy of the short one, which is due.
    assert_eq!(limits(at(8) + Duration::from_micros(700_500)), [300]);
}

#[test]
fn what_does_not_fit_is_not_sent() {
    let mut caller = caller();
    let set = |len| [Operation::Set { key: b"k", value: &[0; 500][..len], expiry_ms: 0 }];
    assert_eq!(caller.start(&set(435), at(99)), Err(Unstarted::TooLong));
    caller.start(&set(434), at(99)).unwrap();
    caller.start(&WRITE, at(99)).unwrap();
    welcome(&mut caller, 9, 499);
    assert_eq!(sent(&mut caller, 0), ["R2 2"]);
    assert_eq!(outcomes(&mut caller), [Outcome::NotDone(Reason::TooLong)]);
}

#[test]
fn a_client_that_is_refused_tries_again_later_unless_its_password_is_wrong() {
    let mut caller = caller();
    caller.start(&WRITE, at(99)).unwrap();
    assert_eq!(sent(&mut caller, 0), ["H"]);
    let head = Head { id: 1, ..Head::default() };
    tell(&mut caller, 0, Message::Refusal(head, Refusal::Full));
    assert_eq!(sent(&mut caller, 0), [""; 0]);
    assert_eq!(caller.next_time(), Some(at(1)));
    assert_eq!(sent(&mut caller, 1), ["H"]);
    tell(&mut caller, 1, Message::Refusal(head, Refusal::Denied));
    assert_eq!(outcomes(&mut caller), [Outcome::NotDone(Reason::Denied)]);
    assert_eq!((sent(&mut caller, 9), caller.next_time()), (Vec::new(), None), "nothing to ask");
}

/// A client whose answers may be datagrams for which it waits a second.
fn taker() -> Caller {
    let (retry, datagrams) = (at(60), Some(RETRY));
    let mut caller = caller_with(Options { retry, datagrams, queue_max: 10, ..OPTIONS });
    caller.set_datagram_address(vec![1]);
    (0..10).for_each(|_| caller.posted());
    caller.start(&READ, at(999)).unwrap();
    welcome(&mut caller, 99, 500);
    caller
}

#[test]
fn only_the_first_copy_of_what_is_no_wait_is_answered_by_a_datagram() {
    let mut caller = taker();
    let wait = Operation::WaitForChange { key: b"k", limit_ms: 10_000 };
    caller.start(&[wait], at(999)).unwrap();
    assert_eq!(sent(&mut caller, 0), ["D2 3", "R3 4"]);
    assert_eq!(caller.next_time(), Some(at(1)));
    assert_eq!(sent(&mut caller, 1), ["R2 4"]);
    assert_eq!(caller.next_time(), Some(at(70)), "nothing is lost over the connection");
    caller.set_datagram_address(Vec::new());
    caller.start(&READ, at(999)).unwrap();
    assert_eq!(sent(&mut caller, 1), ["R4 5"], "there is no way");
    caller.set_datagram_address(vec![1; 500]);
    caller.start(&READ, at(999)).unwrap();
    assert_eq!(sent(&mut caller, 1), ["R5 6"], "the greeting would be too long");
}

#[test]
fn after_losses_in_a_row_no_datagrams_are_asked_for_for_a_while() {
    let mut caller = taker();
    let kinds = |caller: &mut Caller, calls, second| {
        (0..calls).for_each(|_| _ = caller.start(&READ, at(999)).unwrap());
        sent(caller, second).iter().map(|sent| &sent[..1] == "D").collect::<Vec<_>>()
    };
    assert_eq!(kinds(&mut caller, 7, 0), [true; 8]);
    answer(&mut caller, 9);
    assert_eq!(kinds(&mut caller, 0, 1), [false; 7]);
    assert_eq!(kinds(&mut caller, 1, 1), [true]);
    answer(&mut caller, 10);
    assert_eq!(kinds(&mut caller, 7, 2), [true; 7]);
    assert_eq!(kinds(&mut caller, 0, 3), [false; 7]);
    assert_eq!(kinds(&mut caller, 1, 3), [true], "one came between");
    assert_eq!(kinds(&mut caller, 0, 4), [false]);
    assert_eq!(kinds(&mut caller, 1, 4), [false], "the way seems closed");
    assert_eq!(kinds(&mut caller, 1, 5), [true], "it is tried again");
}

#[test]
fn no_datagram_is_asked_for_if_no_time_would_be_left_behind_its_loss() {
    let mut caller = taker();
    sent(&mut caller, 0);
    for (limit, kind) in [(RETRY * 2, "R"), (RETRY * 2 + at(1), "D")] {
        caller.start(&READ, limit).unwrap();
        assert_eq!(&sent(&mut caller, 0).concat()[..1], kind);
    }
}
