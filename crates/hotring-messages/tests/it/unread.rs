//! Peers that do not read what is sent to them.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use hotring_cluster::{Epoch, Incarnation};
use tempfile::TempDir;

use crate::endpoint::{Endpoint, Peer};
use crate::message::{
    Answer, Head, Hello, Message, Operation, Operations, Refusal, Request, Status, Term,
};
use crate::reply_cache::{Bounds, ReplyCache};
use crate::server::{Host, Job, Server};
use crate::sockets::{Sockets, UNIX};
use crate::streams::PATIENCE;

const SLOTS: u32 = 16;
/// More than a Unix socket and what waits for it may hold.
const SLOT_LEN: usize = 512 << 10;
const REQUESTS: u64 = 100;
const UNREAD_MAX: Duration = Duration::from_millis(300);

#[derive(Default)]
struct Friendly {
    left: usize,
}

impl Host for Friendly {
    fn admits(&mut self, _: Peer, _: &str) -> bool {
        true
    }

    fn knows(&mut self, _: Peer, _: &Hello<'_>) -> bool {
        true
    }

    fn left(&mut self, _: Peer) {
        self.left += 1;
    }
}

struct World {
    server: Server<Sockets>,
    host: Friendly,
    folder: TempDir,
}

impl World {
    fn new() -> World {
        let folder = tempfile::tempdir().expect("a folder");
        let address = format!("{UNIX}{}", folder.path().join("messages").display());
        let endpoint = Sockets::listen(&address, 8, SLOTS, SLOT_LEN).expect("a free address");
        let term = Term { incarnation: Incarnation(1), epoch: Epoch(1) };
        let idle = Duration::from_secs(60);
        let bounds = Bounds { sessions_max: 8, idle, window: 16, reply_bytes_max: 1 << 10 };
        let server = Server::new(endpoint, ReplyCache::new(term, bounds, 1));
        World { server, host: Friendly::default(), folder }
    }

    /// Takes and answers what has come. Returns the number of requests.
    fn step(&mut self, now: Duration) -> usize {
        let mut jobs = Vec::new();
        self.server.endpoint().wait(Duration::ZERO, Duration::from_millis(20));
        self.server.step(now, &mut self.host, &mut jobs);
        let value = vec![b'x'; SLOT_LEN - 100];
        let count = jobs.len();
        for job in jobs {
            self.server.finish(job, &[Answer::new(b"k", Status::Done, 1, &value)]);
        }
        count
    }

    /// The next request.
    fn job(&mut self) -> Job {
        let mut jobs = Vec::new();
        while jobs.is_empty() {
            self.server.endpoint().wait(Duration::ZERO, PATIENCE);
            self.server.step(Duration::ZERO, &mut self.host, &mut jobs);
        }
        assert_eq!(jobs.len(), 1);
        jobs.remove(0)
    }

    /// A peer that has greeted.
    fn greeted(&mut self, client: u64) -> (UnixStream, Head) {
        let mut peer =
            UnixStream::connect(self.folder.path().join("messages")).expect("it listens");
        let (user, password, address) = (&b""[..], &b""[..], &b""[..]);
        let hello = Hello { client, message_len_max: SLOT_LEN as u32, user, password, address };
        send(&mut peer, &Message::Hello(Head { id: 1, ..Head::default() }, hello));
        for _ in 0..10 {
            self.step(Duration::ZERO);
        }
        peer.set_read_timeout(Some(PATIENCE)).expect("a socket has one");
        let welcome = receive(&mut peer);
        match Message::read(&welcome) {
            Ok(Message::Welcome(head, _)) => (peer, head),
            other => panic!("{other:?}"),
        }
    }

    /// A peer that asks and does not read, when all its answers that fit anywhere are there.
    fn stubborn(&mut self, client: u64) -> UnixStream {
        let (mut peer, head) = self.greeted(client);
        (0..REQUESTS).for_each(|id| ask(&mut peer, Head { id: 2 + id, ..head }));
        self.settle();
        peer
    }

    /// Serves until nothing more comes.
    fn settle(&mut self) {
        let mut quiet = 0;
        while quiet < 10 {
            quiet = if self.step(Duration::ZERO) == 0 { quiet + 1 } else { 0 };
        }
    }
}

fn send(peer: &mut UnixStream, message: &Message<'_>) {
    let mut bytes = Vec::new();
    message.write(&mut bytes);
    let len = (bytes.len() as u32).to_le_bytes();
    peer.write_all(&[&len[..], &bytes].concat()).expect("there is room");
}

fn receive(peer: &mut UnixStream) -> Vec<u8> {
    let mut len = [0; 4];
    peer.read_exact(&mut len).expect("a message");
    let mut bytes = vec![0; u32::from_le_bytes(len) as usize];
    peer.read_exact(&mut bytes).expect("all of it");
    bytes
}

fn ask(peer: &mut UnixStream, head: Head) {
    ask_for(peer, head, Operation::Get { key: b"k" });
}

fn ask_for(peer: &mut UnixStream, head: Head, operation: Operation<'_>) {
    let mut bytes = Vec::new();
    let operations = Operations::encode(&[operation], &mut bytes).expect("one");
    send(peer, &Message::Request(head, Request { floor: 0, by_datagram: false, operations }));
}

#[test]
fn a_peer_that_reads_nothing_is_sent_away_at_last() {
    let mut world = World::new();
    let begun = Instant::now();
    world.server.endpoint().set_unread_max(UNREAD_MAX);
    let _peer = world.stubborn(1);
    while world.host.left == 0 {
        world.step(Duration::ZERO);
        assert!(begun.elapsed() < PATIENCE, "it stays");
    }
    assert!(begun.elapsed() >= UNREAD_MAX);
}

#[test]
fn peers_that_read_nothing_keep_no_slots_from_others() {
    let mut world = World::new();
    let _first = world.stubborn(1);
    let (mut other, head) = world.greeted(9);
    ask(&mut other, Head { id: 2, ..head });
    let answered = (0..50).any(|_| world.step(Duration::ZERO) == 1);
    assert!(answered, "one peer has at most half of the slots");
    drop(other);
    for _ in 0..50 {
        world.step(Duration::ZERO);
    }
    assert_eq!(world.host.left, 1);
    let _second = world.stubborn(2);
    assert!(world.host.left > 1, "both had most slots");
    let (mut other, head) = world.greeted(9);
    ask(&mut other, Head { id: 9, ..head });
    let answered = (0..50).any(|_| world.step(Duration::ZERO) == 1);
    assert!(answered, "their slots are free");
}

const WAIT: Operation<'_> = Operation::WaitForChange { key: b"k", limit_ms: 1 };

#[test]
fn an_answer_that_is_not_read_holds_up_no_other_one() {
    let mut world = World::new();
    let waits = [1, 2].map(|client| {
        let (mut peer, head) = world.greeted(client);
        ask_for(&mut peer, Head { id: 9, ..head }, WAIT);
        let job = world.job();
        (world.server.put_aside(job), peer, head)
    });
    let [(first, mut stubborn, head), (second, mut other, _)] = waits;
    (0..REQUESTS).for_each(|id| ask(&mut stubborn, Head { id: 10 + id, ..head }));
    world.settle();
    let answer = Answer::new(b"k", Status::Done, 0, b"");
    world.server.answer(first, &answer);
    world.server.answer(second, &answer);
    assert!(matches!(Message::read(&receive(&mut other)), Ok(Message::Reply(..))));
}

#[test]
fn the_end_of_a_term_is_told_to_whoever_waits() {
    let mut world = World::new();
    let (mut peer, head) = world.greeted(1);
    ask_for(&mut peer, Head { id: 2, ..head }, WAIT);
    let job = world.job();
    let wait = world.server.put_aside(job);
    ask_for(&mut peer, Head { id: 3, ..head }, Operation::Delete { key: b"k" });
    let job = world.job();
    let term = Term { epoch: Epoch(2), ..head.term };
    world.server.begin(term);
    let answer = Answer::new(b"k", Status::Done, 0, b"");
    world.server.answer(wait, &answer);
    world.server.finish(job, &[answer]);
    world.settle();
    for id in [2, 3] {
        match Message::read(&receive(&mut peer)) {
            Ok(Message::Refusal(told, Refusal::SessionOver)) => {
                assert_eq!((told.id, told.session, told.term), (id, head.session, term));
            }
            other => panic!("{other:?}"),
        }
    }
}
