//! Messages are read as written; their prefixes and damaged forms are not read.

use super::*;

const HEAD: Head = Head {
    id: 7,
    session: 3,
    term: Term { incarnation: Incarnation(0x1234_5678_9abc_def0), epoch: Epoch(9) },
};

/// Calls `check` with a message of each kind, and with each operation and status.
fn each(mut check: impl FnMut(Message<'_>)) {
    let (client, message_len_max) = (u64::MAX, 64);
    let hello = Hello { client, message_len_max, user: b"ann", password: b"", address: &[0, 255] };
    let mut bytes = Vec::new();
    Message::Hello(HEAD, hello).write(&mut bytes);
    let len = bytes.len() as u32;
    assert!(Hello { message_len_max: len, ..hello }.fits());
    assert!(!Hello { message_len_max: len - 1, ..hello }.fits());
    check(Message::Hello(HEAD, hello));
    check(Message::Welcome(HEAD, Welcome { window: 64, message_len_max: 1 << 20 }));
    for byte in 0..=255 {
        if let Some(refusal) = Refusal::of(byte) {
            check(Message::Refusal(HEAD, refusal));
        }
    }
    let (key, value) = (&b"key"[..], &b"a value"[..]);
    let operations = [
        Operation::Get { key },
        Operation::Set { key, value, expiry_ms: 1 },
        Operation::Update { key, value },
        Operation::Delete { key: b"" },
        Operation::Increment { key, by: i64::MIN },
        Operation::CompareAndSet { key, value: b"", version: 2 },
        Operation::Expire { key, after_ms: 3 },
        Operation::History { key, count: 4 },
        Operation::Rollback { key, version: 5 },
    ];
    let waits = [
        Operation::WaitForChange { key, limit_ms: 6 },
        Operation::WaitForValue { key, value, limit_ms: 7 },
    ];
    for list in [&operations[..], &waits[..1], &waits[1..]] {
        let mut bytes = Vec::new();
        let operations = Operations::encode(list, &mut bytes).expect("they fit");
        assert_eq!(operations.iter().collect::<Vec<_>>(), list);
        check(Message::Request(HEAD, Request { floor: 6, by_datagram: false, operations }));
        if list.len() > 1 {
            check(Message::Request(HEAD, Request { floor: 6, by_datagram: true, operations }));
        }
    }
    use Status::{Absent, Conflict, Done, Failed, TimedOut, Unknown};
    let answers = [Done, Absent, Conflict, TimedOut, Failed, Unknown]
        .map(|status| Answer::new(key, status, 8, value));
    let mut bytes = Vec::new();
    check(Message::Reply(HEAD, Answers::encode(&answers, &mut bytes).expect("they fit")));
}

/// Writes a message from its parts, not from their bytes.
fn write_parts(message: Message<'_>, out: &mut Vec<u8>) {
    let mut bytes = Vec::new();
    match message {
        Message::Request(head, request) => {
            let operations: Vec<_> = request.operations.iter().collect();
            let operations = Operations::encode(&operations, &mut bytes).expect("as before");
            Message::Request(head, Request { operations, ..request }).write(out);
        }
        Message::Reply(head, answers) => {
            let answers: Vec<_> = answers.iter().collect();
            let answers = Answers::encode(&answers, &mut bytes).expect("as before");
            Message::Reply(head, answers).write(out);
        }
        other => other.write(out),
    }
}

fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let crc = checksum(&bytes);
    bytes[CRC].copy_from_slice(&crc.to_le_bytes());
    bytes
}

#[test]
fn messages_are_read_as_written_and_not_in_part_or_damaged() {
    let mut bytes = Vec::new();
    each(|message| {
        message.write(&mut bytes);
        assert_eq!(Message::read(&bytes), Ok(message));
        for end in 0..bytes.len() {
            assert_eq!(Message::read(&bytes[..end]), Err(MessageError::Checksum), "{end} bytes");
        }
        assert!(Message::read(&[&bytes[..], &[0]].concat()).is_err(), "one byte more");
        for at in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[at / 8] ^= 1 << (at % 8);
            assert_eq!(Message::read(&damaged), Err(MessageError::Checksum), "bit {at}");
        }
    });
}

/// A peer can make any checksum right: what such bytes say has one form, and no length is believed.
#[test]
fn what_is_read_is_written_alike_whatever_bytes_have_a_right_checksum() {
    let (mut bytes, mut again, mut read) = (Vec::new(), Vec::new(), 0);
    each(|message| {
        message.write(&mut bytes);
        for at in 0..bytes.len() {
            for value in [0, 1, 2, 64, 65, 127, 128, 255] {
                let mut changed = bytes.clone();
                changed[at] = value;
                for changed in [sealed(changed[..at.max(HEAD_LEN)].to_vec()), sealed(changed)] {
                    if let Ok(message) = Message::read(&changed) {
                        write_parts(message, &mut again);
                        assert_eq!(again, changed);
                        read += 1;
                    }
                }
            }
        }
    });
    assert!(read > 1000, "only {read} were read");
}

#[test]
fn requests_have_limits() {
    let get = Operation::Get { key: b"k" };
    let wait = Operation::WaitForChange { key: b"k", limit_ms: 1 };
    let mut bytes = Vec::new();
    assert!(Operations::encode(&[get; PARTS_MAX], &mut bytes).is_some());
    assert!(Operations::encode(&[get; PARTS_MAX + 1], &mut bytes).is_none());
    let mut read = |list: &[Operation<'_>], by_datagram| {
        let operations = Operations::encode(list, &mut bytes).expect("they fit");
        let mut bytes = Vec::new();
        Message::Request(HEAD, Request { floor: 0, by_datagram, operations }).write(&mut bytes);
        Message::read(&bytes).is_ok()
    };
    assert!(read(&[get, get], false) && read(&[get, get], true) && read(&[wait], false));
    assert!(!read(&[], false) && !read(&[wait, get], false) && !read(&[get, wait], false));
    assert!(!read(&[wait], true), "nobody asks again for the answer of a wait in time");
    // Of another version, whatever follows.
    let mut bytes = Vec::new();
    Message::Refusal(HEAD, Refusal::Full).write(&mut bytes);
    bytes[0] = 2;
    assert_eq!(Message::read(&sealed(bytes)), Err(MessageError::Version(2)));
}

#[test]
fn an_answer_is_of_one_key_version_and_value() {
    let answer = Answer::new(b"key", Status::Done, 5, b"value");
    assert!(answer.is_of(b"key") && !answer.is_of(b"kez") && !answer.is_of(b"ke"));
    // A server that finds an item under a wrong version or with a damaged value made its checksum before.
    let (mut version, mut value) = (answer, answer);
    version.version += 1;
    value.value = b"valuf";
    assert!(!version.is_of(b"key") && !value.is_of(b"key"));
}
