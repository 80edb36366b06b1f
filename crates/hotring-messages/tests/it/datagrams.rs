//! Answers as datagrams of UDP: where they come from and go to, and what happens if they do not come.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use crate::caller::{Login, Options};
use crate::message::{
    Answer, Answers, Head, Hello, Message, Operation, Operations, Request, Status, Welcome,
};
use crate::shared::{Pace, Shared};
use crate::streams::{
    DATAGRAM_MAX, INCREMENT, PATIENCE, SLOT_LEN, User, beside_server, count_together_with, value,
};

const SECRET: [u8; 16] = *b"nobody guesses i";

/// Long enough for a datagram to come over the loopback, if one comes.
const MOMENT: Duration = Duration::from_millis(200);

#[test]
fn writes_are_run_once_while_connections_break_and_answers_are_asked_for_again() {
    // With the first one most answers come too late.
    for datagrams in [Duration::ZERO, Duration::from_millis(20)] {
        beside_server("127.0.0.1:0", |address| count_together_with(address, Some(datagrams)));
    }
}

#[test]
fn without_a_way_for_datagrams_answers_come_over_the_connection_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let address = format!("unix:{}", folder.path().join("messages").display());
    beside_server(&address, |address| {
        let mut user = User::with_datagrams(address, 1, Some(PATIENCE / 4));
        let begun = Instant::now();
        user.start(&[INCREMENT]);
        assert_eq!(value(user.outcome()).1, "1");
        assert!(begun.elapsed() < PATIENCE / 4, "it was asked for again");
    });
}

/// A client by hand.
struct Guest {
    stream: TcpStream,
    inbox: UdpSocket,
    next_id: u64,
}

impl Guest {
    fn greet(address: &[u8], password: &[u8]) -> (Guest, Head) {
        Guest::greet_as(address, password, |client, server| format!("{client} {server}"))
    }

    /// `ends` makes what the client tells of its connection's addresses.
    fn greet_as(
        address: &[u8],
        password: &[u8],
        ends: impl Fn(SocketAddr, SocketAddr) -> String,
    ) -> (Guest, Head) {
        let address = std::str::from_utf8(address).expect("a text");
        let stream = TcpStream::connect(address).expect("it listens");
        stream.set_read_timeout(Some(MOMENT)).expect("a socket has one");
        let inbox = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        inbox.set_read_timeout(Some(MOMENT)).expect("a socket has one");
        let port = inbox.local_addr().expect("it is bound").port().to_le_bytes();
        let (client, server) = (stream.local_addr(), stream.peer_addr());
        let ends = ends(client.expect("it is connected"), server.expect("it is connected"));
        let at = [&port[..], &SECRET, ends.as_bytes()].concat();
        let (client, message_len_max) = (1, SLOT_LEN as u32 * 2);
        let hello = Hello { client, message_len_max, user: b"", password, address: &at };
        let mut guest = Guest { stream, inbox, next_id: 2 };
        write(&mut guest.stream, &Message::Hello(Head { id: 1, ..Head::default() }, hello));
        let bytes = read(&mut guest.stream).expect("an answer to a greeting comes here");
        let head = match Message::read(&bytes) {
            Ok(Message::Welcome(head, _) | Message::Refusal(head, _)) => head,
            other => panic!("{other:?}"),
        };
        (guest, head)
    }

    /// Reads a key, and returns the datagram of the answer, or else what has come over the connection.
    fn get(
        &mut self,
        head: Head,
        key: &[u8],
        by_datagram: bool,
    ) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
        let mut encoded = Vec::new();
        let operations = Operations::encode(&[Operation::Get { key }], &mut encoded);
        let operations = operations.expect("it fits");
        let (floor, head) = (self.next_id, Head { id: self.next_id, ..head });
        self.next_id += 1;
        let request = Request { floor, by_datagram, operations };
        write(&mut self.stream, &Message::Request(head, request));
        let mut datagram = [0; 2 * SLOT_LEN];
        let came = self.inbox.recv_from(&mut datagram).ok().map(|(len, from)| {
            assert_eq!(from, self.stream.peer_addr().expect("it is connected"));
            datagram[..len].to_vec()
        });
        (came, read(&mut self.stream))
    }
}

fn write(stream: &mut TcpStream, message: &Message<'_>) {
    let mut bytes = Vec::new();
    message.write(&mut bytes);
    let len = (bytes.len() as u32).to_le_bytes();
    stream.write_all(&[&len[..], &bytes].concat()).expect("it is connected");
}

/// The next message, if one comes in time.
fn read(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut len = [0; 4];
    match stream.read_exact(&mut len) {
        Ok(()) => {}
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock) => return None,
        Err(error) => panic!("{error}"),
    }
    let mut bytes = vec![0; u32::from_le_bytes(len) as usize];
    stream.read_exact(&mut bytes).expect("a message is whole");
    Some(bytes)
}

#[test]
fn an_answer_is_one_datagram_with_the_secret_if_its_request_allows_it_and_it_fits() {
    beside_server("127.0.0.1:0", |address| {
        let (mut guest, head) = Guest::greet(address, b"right");
        let (datagram, other) = guest.get(head, b"n", true);
        let datagram = datagram.expect("it comes as a datagram");
        assert_eq!((&datagram[..16], other), (&SECRET[..], None));
        assert!(matches!(Message::read(&datagram[16..]), Ok(Message::Reply(..))));
        assert!(matches!(guest.get(head, b"n", false), (None, Some(_))), "nobody has asked for it");
        const { assert!(SLOT_LEN + 16 > DATAGRAM_MAX) };
        assert!(matches!(guest.get(head, b"long", true), (None, Some(_))), "it is too long");
    });
}

#[test]
fn whoever_has_not_logged_in_gets_no_datagram() {
    beside_server("127.0.0.1:0", |address| {
        let (mut guest, head) = Guest::greet(address, b"wrong");
        let (datagram, refusal) = guest.get(head, b"n", true);
        assert_eq!(datagram, None);
        let refusal = refusal.expect("it has no session");
        assert!(matches!(Message::read(&refusal), Ok(Message::Refusal(..))));
    });
}

/// Datagrams once went to whoever took the client's port at a translator.
#[test]
fn a_client_behind_a_translator_or_a_tunnel_gets_no_datagram() {
    let other = |address: SocketAddr| SocketAddr::new(address.ip(), address.port() ^ 1);
    beside_server("127.0.0.1:0", |address| {
        let translated = |client, server| format!("{} {server}", other(client));
        let tunnelled = |client, server| format!("{client} {}", other(server));
        let (mut guest, head) = Guest::greet_as(address, b"right", translated);
        assert!(matches!(guest.get(head, b"n", true), (None, Some(_))));
        let (mut guest, head) = Guest::greet_as(address, b"right", tunnelled);
        assert!(matches!(guest.get(head, b"n", true), (None, Some(_))));
    });
}

/// A server by hand: the stream of its only client, and where that takes datagrams.
struct Stage {
    stream: TcpStream,
    /// Of the address to which the client has connected.
    outbox: UdpSocket,
    port: u16,
    secret: Vec<u8>,
}

impl Stage {
    fn accept(listener: &TcpListener) -> Stage {
        let outbox = UdpSocket::bind(listener.local_addr().expect("it is bound"));
        let (mut stream, _) = listener.accept().expect("a client comes");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket has one");
        let bytes = read(&mut stream).expect("it greets");
        let Ok(Message::Hello(head, hello)) = Message::read(&bytes) else { panic!("no greeting") };
        let (port, secret) = hello.address.split_first_chunk().expect("it takes datagrams");
        let (port, secret) = (u16::from_le_bytes(*port), secret[..SECRET.len()].to_vec());
        let head = Head { session: 1, ..head };
        let welcome = Welcome { window: 8, message_len_max: SLOT_LEN as u32 };
        write(&mut stream, &Message::Welcome(head, welcome));
        Stage { stream, outbox: outbox.expect("its port is free"), port, secret }
    }

    /// The next request: its head, and whether a datagram may answer it.
    fn request(&mut self) -> (Head, bool) {
        let bytes = read(&mut self.stream).expect("a request comes");
        match Message::read(&bytes) {
            Ok(Message::Request(head, request)) => (head, request.by_datagram),
            other => panic!("{other:?}"),
        }
    }
}

fn answer(head: Head, text: &str, out: impl FnOnce(Message<'_>)) {
    let mut encoded = Vec::new();
    let answers = [Answer::new(b"n", Status::Done, 1, text.as_bytes())];
    out(Message::Reply(head, Answers::encode(&answers, &mut encoded).expect("it fits")));
}

/// Lets a client call a server by hand, and returns what it was told.
fn play(datagrams: Duration, serve: impl FnOnce(Stage) + Send) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound").to_string();
    std::thread::scope(|scope| {
        let server = scope.spawn(move || serve(Stage::accept(&listener)));
        let login = Login { user: Vec::new(), password: Vec::new() };
        let (queue_max, message_len_max) = (1, SLOT_LEN);
        let datagrams = Some(datagrams);
        let options = Options { retry: PATIENCE, datagrams, queue_max, message_len_max };
        let pace = Pace { in_flight_max: 2, spin: Duration::ZERO };
        let client = Shared::connect(&address, login, options, pace).expect("it listens");
        let outcome = client.call(&[INCREMENT], PATIENCE).expect("it fits");
        server.join().expect("the server is satisfied");
        value(outcome).1
    })
}

#[test]
fn a_datagram_without_the_secret_or_from_elsewhere_is_no_answer() {
    let told = play(PATIENCE / 4, |mut stage| {
        let (head, by_datagram) = stage.request();
        assert!(by_datagram, "the client takes datagrams");
        let (to, mut bytes) = (("127.0.0.1", stage.port), Vec::new());
        let elsewhere = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        answer(head, "injected", |message| message.write(&mut bytes));
        let guess: Vec<u8> = stage.secret.iter().map(|byte| byte ^ 1).collect();
        for secret in [&[][..], &guess[..], &stage.secret[..15]] {
            stage.outbox.send_to(&[secret, &bytes].concat(), to).expect("it is sent");
        }
        let right = [&stage.secret[..], &bytes].concat();
        elsewhere.send_to(&right, to).expect("it is sent");
        std::thread::sleep(MOMENT);
        answer(head, "right", |message| message.write(&mut bytes));
        let right = [&stage.secret[..], &bytes].concat();
        stage.outbox.send_to(&right, to).expect("it is sent");
    });
    assert_eq!(told, "right");
}

#[test]
fn an_answer_that_was_lost_is_asked_for_again_and_comes_over_the_connection() {
    let told = play(Duration::from_millis(20), |mut stage| {
        let (first, by_datagram) = stage.request();
        assert!(by_datagram, "the client takes datagrams");
        let (copy, by_datagram) = stage.request();
        assert_eq!((copy, by_datagram), (first, false));
        answer(copy, "kept", |message| write(&mut stage.stream, &message));
    });
    assert_eq!(told, "kept");
}
