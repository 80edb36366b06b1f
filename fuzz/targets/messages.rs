//! Fuzzes what reads messages: the decoder, and both ends behind it. Nothing panics, and a message that is read is the
//! same if it is written again.
//!
//! The input is a row of messages, each its length u16 and its bytes. The target makes their checksums right.
#![no_main]

use std::time::Duration;

use hotring_messages::message::{Answers, Message, Operation, Operations, Request, Term};
use hotring_messages::{Admission, Bounds, Caller, Login, Options, Peer, ReplyCache};
use libfuzzer_sys::fuzz_target;

const BOUNDS: Bounds =
    Bounds { sessions_max: 2, idle: Duration::from_secs(2), window: 4, reply_bytes_max: 200 };

fuzz_target!(|input: &[u8]| {
    let (mut input, mut out) = (input, Vec::new());
    let mut cache = ReplyCache::new(Term::default(), BOUNDS, 1);
    let mut caller = caller();
    for second in 0.. {
        let now = Duration::from_secs(second);
        let Some((len, rest)) = input.split_first_chunk() else { break };
        let len = usize::from(u16::from_le_bytes(*len)).min(rest.len());
        let mut bytes = rest[..len].to_vec();
        input = &rest[len..];
        if bytes.len() >= 8 {
            let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes[..4]), &bytes[8..]);
            bytes[4..8].copy_from_slice(&crc.to_le_bytes());
        }
        if let Ok(message) = Message::read(&bytes) {
            write(message, &mut out);
            assert_eq!(out, bytes);
            serve(&mut cache, now, message);
        }
        caller.posted();
        let _ = caller.start(&[Operation::Increment { key: b"k", by: 1 }], now * 4);
        let _ = caller.start(&[Operation::Get { key: b"k" }], now * 4);
        let _ = caller.receive(now, &bytes);
        while caller.next_message(now, &mut out) {
            assert!(Message::read(&out).is_ok(), "it writes what can be read");
        }
        while caller.take().is_some() {}
    }
});

/// Writes a message from its parts.
fn write(message: Message<'_>, out: &mut Vec<u8>) {
    let mut bytes = Vec::new();
    let message = match message {
        Message::Request(head, Request { floor, by_datagram, operations }) => {
            let list: Vec<_> = operations.iter().collect();
            let operations = Operations::encode(&list, &mut bytes).expect("it was read");
            Message::Request(head, Request { floor, by_datagram, operations })
        }
        Message::Reply(head, answers) => {
            let list: Vec<_> = answers.iter().collect();
            Message::Reply(head, Answers::encode(&list, &mut bytes).expect("it was read"))
        }
        other => other,
    };
    message.write(out);
}

fn caller() -> Caller {
    let login = Login { user: Vec::new(), password: Vec::new() };
    let retry = Duration::from_secs(1);
    let datagrams = Some(retry / 2);
    let options = Options { retry, datagrams, queue_max: 4, message_len_max: 1 << 10 };
    let mut caller = Caller::new(1, login, options).expect("it is short");
    caller.set_datagram_address(vec![1]);
    caller
}

/// Runs a request at most once.
fn serve(cache: &mut ReplyCache, now: Duration, message: Message<'_>) {
    match message {
        Message::Hello(_, hello) => {
            let _ = cache.greet(now, Peer(hello.client % 3), &hello, 1 << 10);
        }
        Message::Request(head, request) => {
            let peer = Peer(head.session);
            let is_write = request.operations.iter().any(|operation| operation.is_write());
            if cache.admit(now, peer, &head, &request) != Admission::Run || !is_write {
                return;
            }
            let is_sent = cache.finish(&head, is_write, &[0; 50]);
            assert!(is_sent, "its session is there");
            let again = cache.admit(now, peer, &head, &request);
            assert_ne!(again, Admission::Run, "it is run twice");
        }
        _ => {}
    }
}
