//! Peers that do not greet, and those that guess passwords.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use hotring_cluster::{Epoch, Incarnation};

use crate::endpoint::{Endpoint, Peer};
use crate::message::{Head, Hello, Message, Refusal, Term};
use crate::reply_cache::{Bounds, ReplyCache};
use crate::server::{Host, Patience, Server};
use crate::sockets::Sockets;

const GREETING_MAX: Duration = Duration::from_secs(2);
const DELAY: Duration = Duration::from_secs(1);

/// Admits all peers, and knows none of them.
#[derive(Default)]
struct Stern {
    came: usize,
    guesses: usize,
    left: usize,
}

impl Host for Stern {
    fn admits(&mut self, _: Peer, origin: &str) -> bool {
        assert!(origin.starts_with("127.0.0.1:"), "{origin}");
        self.came += 1;
        true
    }

    fn knows(&mut self, _: Peer, _: &Hello<'_>) -> bool {
        self.guesses += 1;
        false
    }

    fn left(&mut self, _: Peer) {
        self.left += 1;
    }
}

/// A server, and a peer that has connected.
struct World {
    server: Server<Sockets>,
    host: Stern,
    peer: TcpStream,
}

impl World {
    fn new() -> World {
        let endpoint = Sockets::listen("127.0.0.1:0", 8, 4, 1 << 10).expect("a free address");
        let address = String::from_utf8(endpoint.address()).expect("text");
        let term = Term { incarnation: Incarnation(1), epoch: Epoch(1) };
        let idle = Duration::from_secs(60);
        let bounds = Bounds { sessions_max: 8, idle, window: 16, reply_bytes_max: 1 << 10 };
        let mut server = Server::new(endpoint, ReplyCache::new(term, bounds, 1));
        server.set_patience(Patience { greeting_max: GREETING_MAX, denial_delay: DELAY });
        let peer = TcpStream::connect(address).expect("it listens");
        peer.set_read_timeout(Some(Duration::from_millis(200))).expect("a socket");
        let mut world = World { server, host: Stern::default(), peer };
        world.step_until(Duration::ZERO, |host| host.came == 1);
        world
    }

    fn step(&mut self, now: Duration) {
        self.server.endpoint().wait(Duration::ZERO, Duration::from_millis(20));
        self.server.step(now, &mut self.host, &mut Vec::new());
    }

    fn step_until(&mut self, now: Duration, is_so: impl Fn(&Stern) -> bool) {
        for _ in 0..500 {
            if is_so(&self.host) {
                return;
            }
            self.step(now);
        }
        panic!("it does not happen");
    }

    fn guess(&mut self) {
        let (user, password, address) = (&b""[..], &b"guess"[..], &b""[..]);
        let hello = Hello { client: 1, message_len_max: 1 << 10, user, password, address };
        let mut message = Vec::new();
        Message::Hello(Head { id: 5, ..Head::default() }, hello).write(&mut message);
        let len = (message.len() as u32).to_le_bytes();
        self.peer.write_all(&[&len[..], &message].concat()).expect("it is connected");
    }

    /// What the peer has got; None if nothing comes.
    fn received(&mut self) -> Option<Vec<u8>> {
        let mut bytes = [0; 1 << 10];
        let len = self.peer.read(&mut bytes).ok()?;
        Some(bytes[..len].to_vec())
    }
}

#[test]
fn a_peer_that_never_greets_is_sent_away() {
    let mut world = World::new();
    world.step(GREETING_MAX - Duration::from_millis(1));
    assert_eq!((world.host.left, world.received()), (0, None));
    world.step(GREETING_MAX);
    assert_eq!((world.host.left, world.received()), (1, Some(Vec::new())));
}

#[test]
fn a_wrong_password_is_refused_late_and_no_other_is_tried_meanwhile() {
    let mut world = World::new();
    world.guess();
    world.step_until(Duration::ZERO, |host| host.guesses == 1);
    world.guess();
    (0..10).for_each(|_| world.step(DELAY - Duration::from_millis(1)));
    assert_eq!((world.host.guesses, world.received()), (1, None));
    world.step(DELAY);
    let refusal = world.received().expect("the refusal");
    match Message::read(&refusal[4..]) {
        Ok(Message::Refusal(Head { id: 5, .. }, Refusal::Denied)) => {}
        other => panic!("{other:?}"),
    }
    world.guess();
    world.step_until(DELAY, |host| host.guesses == 2);
}
