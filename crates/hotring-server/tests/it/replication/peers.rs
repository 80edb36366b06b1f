//! Peers that are no servers: what they send costs them the connection, and nothing else.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use fastrand::Rng;
use hotring_cluster::{
    Answer, Course, Epoch, Hello, History, Incarnation, NodeId, Stamp, Start, ToPrimary, ToReplica,
};
use hotring_commands::state::replication::codec::{self, to_primary_of, to_replica_bytes};
use hotring_log::wire::{BODY_MAX, FrameReader, FrameWriter, Kind, WIRE_VERSION};

use super::{follow, info, wait_for};
use crate::wire::{Reply, TestServer, ok};

/// A primary that agrees to be followed and then sends these bytes to each replica.
fn primary(answers: Vec<Vec<u8>>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for bytes in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            let _ = stream.write_all(b"+OK\r\n");
            let _ = stream.read(&mut request);
            let _ = stream.write_all(&bytes);
            // The replica must end the link by itself.
            while matches!(stream.read(&mut request), Ok(1..)) {}
        }
    });
    port
}

fn frame(kind: Kind, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    FrameWriter::default().message(&mut out, kind, body);
    out
}

#[test]
fn a_primary_that_sends_nonsense_costs_a_link_and_no_data() {
    let mut random = Rng::with_seed(6);
    let mut answers = vec![
        frame(Kind::Message, b""),
        frame(Kind::Message, &[9; 100]),
        frame(Kind::Message, &[1; 200]),
        frame(Kind::CopyBegin, &[0; 16]),
        frame(Kind::Part, b"x"),
        frame(Kind::Records, &[7; 1000]),
        (BODY_MAX as u32 + 1).to_le_bytes().into_iter().chain([0; 12]).collect(),
    ];
    answers.extend((0..5).map(|_| (0..random.usize(16..2000)).map(|_| random.u8(..)).collect()));
    let replica = TestServer::new();
    let mut r = replica.connect();
    assert_eq!(r.say("SET k 1"), ok());
    for answer in answers {
        let shown = answer.escape_ascii().to_string();
        follow(&mut r, primary(vec![answer]));
        wait_for(&shown, || r.say("INFO replication").text().contains("master_link_error:"));
        assert_eq!(r.say("GET k").text(), "1", "{shown}");
    }
    assert_eq!(r.say("REPLICAOF NO ONE"), ok());
    assert_eq!(r.say("SET k 2"), ok());
}

/// A primary that answers the hello of one replica with a full copy, and begins it behind this record, or dies.
fn copying(after: Option<u64>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut bytes = vec![0; 4096];
        let _ = stream.read(&mut bytes);
        let _ = stream.write_all(b"+OK\r\n");
        let (mut len, mut reader) = (0, FrameReader::default());
        let hello = loop {
            len += stream.read(&mut bytes[len..]).unwrap();
            if let Some((frame, _)) = reader.read(&bytes[..len]).unwrap() {
                break codec::to_primary_of(frame.body).unwrap();
            }
        };
        let ToPrimary::Hello(hello) = hello else { panic!("{hello:?}") };
        let (epoch, node, incarnation) = (Epoch(1), NodeId([9; 20]), Incarnation(1));
        let history = History::of(&[Start { epoch, node, incarnation, first: 1 }]).unwrap();
        let answer = Answer {
            to: hello.from.incarnation,
            attempt: hello.attempt,
            from: node,
            stamp: Stamp { epoch, start: incarnation, session: 1 },
            store: [9; 16],
            history,
            leads: true,
            above: Vec::new(),
            course: Course::FullCopy,
        };
        let (mut frames, mut out) = (FrameWriter::default(), Vec::new());
        let answer = codec::to_replica_bytes(&ToReplica::Answer(answer));
        frames.message(&mut out, Kind::Message, &answer);
        if let Some(after) = after {
            let begin = [after.to_le_bytes(), 0u64.to_le_bytes()].concat();
            frames.message(&mut out, Kind::CopyBegin, &begin);
        }
        let _ = stream.write_all(&out);
        while after.is_some() && matches!(stream.read(&mut bytes), Ok(1..)) {}
    });
    port
}

/// The announcement of a copy alone made the replica forget that it has everything, and it could not be promoted.
#[test]
fn a_primary_that_dies_before_the_first_byte_of_a_copy_leaves_its_replica_all_data() {
    let replica = TestServer::new();
    let mut r = replica.connect();
    assert_eq!(r.say("SET k 1"), ok());
    follow(&mut r, copying(None));
    wait_for("the link ends", || r.say("INFO replication").text().contains("master_link_error:"));
    assert_eq!(r.say("GET k").text(), "1");
    assert_eq!(r.say("REPLICAOF NO ONE"), ok());
    assert_eq!(r.say("SET k 2"), ok());
}

/// The numbers of a stream must not end, whatever a peer says.
#[test]
fn a_copy_behind_the_end_of_all_records_is_refused_before_anything_is_dropped() {
    let replica = TestServer::new();
    let mut r = replica.connect();
    assert_eq!(r.say("SET k 1"), ok());
    for after in [u64::MAX, u64::MAX - 1, u64::MAX / 2 + 1] {
        follow(&mut r, copying(Some(after)));
        wait_for("the copy is refused", || {
            r.say("INFO replication").text().contains("a copy behind the end of all records")
        });
        assert_eq!(r.say("GET k").text(), "1", "{after}");
    }
}

#[test]
fn a_replica_that_sends_nonsense_costs_a_link() {
    let primary = TestServer::new();
    let mut p = primary.connect();
    assert_eq!(p.say("SET k 1"), ok());
    for (version, whom) in [(WIRE_VERSION - 1, "the replica"), (WIRE_VERSION + 1, "this server")] {
        let wrong = p.say(&format!("HOTRING.REPLICATE {version} 1")).text();
        let expected = format!(
            "ERR this server speaks version {WIRE_VERSION} of the link, and the replica version {version}: upgrade {whom}"
        );
        assert!(wrong.starts_with(&expected), "{wrong}");
    }
    let mut random = Rng::with_seed(7);
    let mut all = vec![
        frame(Kind::Message, b""),
        frame(Kind::Records, b"x"),
        frame(Kind::Keys, b"x"),
        vec![0xff; 64],
    ];
    all.extend((0..10).map(|_| (0..random.usize(16..500)).map(|_| random.u8(..)).collect()));
    for bytes in all {
        let mut stream = TcpStream::connect(primary.address).unwrap();
        stream.write_all(format!("HOTRING.REPLICATE {WIRE_VERSION} 7\r\n").as_bytes()).unwrap();
        let mut answer = [0; 5];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"+OK\r\n");
        stream.write_all(&bytes).unwrap();
        let mut rest = Vec::new();
        // The end, perhaps by a reset, and nothing before it.
        let _ = stream.read_to_end(&mut rest);
        assert_eq!(rest, b"", "{}", bytes.escape_ascii());
    }
    wait_for("all links are gone", || p.say("CLIENT LIST").text().lines().count() == 1);
    assert_eq!(info(&mut p, "connected_slaves"), "0");
    assert_eq!(p.say("INCR k"), Reply::Int(2));
}

/// The hello of a replica that asks for the stream; None if it ends the link before.
fn hello_on(stream: &mut TcpStream) -> Option<Hello> {
    let (mut bytes, mut hello) = ([0; 4096], Vec::new());
    let _ = stream.read(&mut bytes);
    stream.write_all(b"+OK\r\n").ok()?;
    loop {
        if let Some((frame, _)) = FrameReader::default().read(&hello).unwrap() {
            let Some(ToPrimary::Hello(hello)) = to_primary_of(frame.body) else {
                panic!("no hello")
            };
            return Some(hello);
        }
        let len = stream.read(&mut bytes).ok().filter(|len| *len > 0)?;
        hello.extend_from_slice(&bytes[..len]);
    }
}

/// A primary that sends an empty copy of data with this epoch, as a copy from behind record `after`.
fn copying_primary(start: Start, after: u64) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        // A replica may try again.
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let Some(hello) = hello_on(&mut stream) else { continue };
            let answer = ToReplica::Answer(Answer {
                to: hello.from.incarnation,
                attempt: hello.attempt,
                from: start.node,
                stamp: Stamp { epoch: start.epoch, start: start.incarnation, session: 1 },
                store: [5; 16],
                history: History::of(&[start]).unwrap(),
                leads: true,
                above: Vec::new(),
                course: Course::FullCopy,
            });
            let (mut writer, mut out) = (FrameWriter::default(), Vec::new());
            writer.message(&mut out, Kind::Message, &to_replica_bytes(&answer));
            writer.message(&mut out, Kind::CopyBegin, &[after.to_le_bytes(), [0; 8]].concat());
            writer.message(&mut out, Kind::CopyEnd, &after.to_le_bytes());
            let _ = stream.write_all(&out);
            while matches!(stream.read(&mut [0; 4096]), Ok(1..)) {}
        }
    });
    port
}

/// Regression test: the replica of such a primary panicked when it became a primary itself.
#[test]
fn epochs_that_a_hostile_primary_claims_do_not_keep_its_replica_from_the_role() {
    let start =
        |epoch, first| Start { epoch, node: NodeId([3; 20]), incarnation: Incarnation(7), first };
    let replica = TestServer::new();
    let mut r = replica.connect();
    follow(&mut r, copying_primary(start(Epoch::MAX, 9), 9));
    super::wait_until_up(&mut r);
    assert_eq!(r.say("REPLICAOF NO ONE"), ok());
    let replica = TestServer::new();
    let mut r = replica.connect();
    assert_eq!(r.say("SET k 1"), ok());
    follow(&mut r, copying_primary(start(Epoch(1), 1 << 40), 9));
    wait_for("the copy is refused", || {
        r.say("INFO replication").text().contains("a copy from before its own epoch")
    });
    assert_eq!(r.say("GET k").text(), "1", "nothing was dropped");
}
