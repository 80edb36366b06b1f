//! Clients and a server over real sockets, and what is the same over other endpoints.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hotring_cluster::{Epoch, Incarnation};

use crate::caller::{Caller, Given, Login, Options, Outcome, Reason};
use crate::client::Client;
use crate::endpoint::{AnyEndpoint, Completion, Endpoint, Peer};
use crate::fabric::{Fabric, Provider};
use crate::link;
use crate::message::{Answer, Hello, Operation, Status, Term};
use crate::reply_cache::{Bounds, ReplyCache};
use crate::server::{Host, Server, Wait};
use crate::sockets::{Listener, Sockets};

/// The longest message of most clients, and of the server.
pub const SLOT_LEN: usize = 1 << 10;
/// The longest datagram: the longest message of most clients does not fit.
pub const DATAGRAM_MAX: usize = 1 << 10;
const SERVER_SLOT_LEN: usize = 2 << 10;
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Lets everybody in who knows the password.
pub struct Door;

impl Host for Door {
    fn admits(&mut self, _: Peer, _: &str) -> bool {
        true
    }

    fn knows(&mut self, _: Peer, hello: &Hello<'_>) -> bool {
        hello.password == b"right"
    }

    fn left(&mut self, _: Peer) {}
}

fn cache() -> ReplyCache {
    let term = Term { incarnation: Incarnation(1), epoch: Epoch(1) };
    let idle = Duration::from_secs(60);
    let bounds = Bounds { sessions_max: 64, idle, window: 16, reply_bytes_max: 1 << 16 };
    ReplyCache::new(term, bounds, 1)
}

/// Serves counters until `stop`, by increments, reads and waits, which any use of the key ends. Two keys have
/// values that are longer than a message of clients, and of the server.
pub fn serve(endpoint: AnyEndpoint, stop: &AtomicBool) {
    let mut server = Server::new(endpoint, cache());
    let (mut counters, mut jobs) = (BTreeMap::<Vec<u8>, (u64, i64)>::new(), Vec::new());
    let mut waits: Vec<(Wait, Vec<u8>)> = Vec::new();
    let begun = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        server.endpoint().wait(Duration::ZERO, Duration::from_millis(50));
        server.step(begun.elapsed(), &mut Door, &mut jobs);
        for job in jobs.drain(..) {
            let first = server.operations(&job).iter().next().expect("there is one");
            if let Operation::WaitForChange { key, .. } = first {
                let key = key.to_vec();
                waits.push((server.put_aside(job), key));
                continue;
            }
            let mut items = Vec::new();
            for operation in server.operations(&job).iter() {
                let counter = counters.entry(operation.key().to_vec()).or_default();
                if let Operation::Increment { by, .. } = operation {
                    *counter = (counter.0 + 1, counter.1 + by);
                }
                let mut text = counter.1.to_string().into_bytes();
                match operation.key() {
                    b"long" => text = vec![b'x'; SLOT_LEN],
                    b"longer" => text = vec![b'x'; SERVER_SLOT_LEN],
                    _ => {}
                }
                items.push((operation.key().to_vec(), counter.0, text));
            }
            let answers = items.iter();
            let answers = answers
                .map(|(key, version, value)| Answer::new(key, Status::Done, *version, value));
            let answers: Vec<Answer<'_>> = answers.collect();
            server.finish(job, &answers);
            for (key, version, value) in &items {
                for (wait, _) in waits.extract_if(.., |(_, awaited)| awaited == key) {
                    server.answer(wait, &Answer::new(key, Status::Done, *version, value));
                }
            }
        }
    }
}

/// A server's end for an address with or without a provider.
pub fn listen(address: &str) -> AnyEndpoint {
    let (provider, place) = Provider::split(address);
    let listener = Listener::bind(place).expect("a free address");
    match provider {
        None => {
            let mut sockets = Sockets::on(listener, 8, 16, SERVER_SLOT_LEN).expect("a file");
            sockets.set_datagram_max(DATAGRAM_MAX);
            Box::new(sockets)
        }
        Some(provider) => {
            let fabric = Fabric::on(provider, listener, 8, 16, SERVER_SLOT_LEN);
            Box::new(fabric.expect("it was there before"))
        }
    }
}

/// Runs `work` beside a server.
pub fn beside_server(address: &str, work: impl FnOnce(&[u8])) {
    let endpoint = listen(address);
    let (address, stop) = (endpoint.address(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let server = scope.spawn(|| serve(endpoint, &stop));
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&address)));
        stop.store(true, Ordering::Relaxed);
        server.join().expect("the server does not panic");
        result.expect("the work is done");
    });
}

/// A client and its clock.
pub struct User {
    pub client: Client<AnyEndpoint>,
    pub begun: Instant,
}

impl User {
    pub fn new(address: &[u8], number: u64, password: &str) -> User {
        User::with(address, number, password, SLOT_LEN, None)
    }

    /// A client that takes answers as datagrams.
    pub fn with_datagrams(address: &[u8], number: u64, datagrams: Option<Duration>) -> User {
        User::with(address, number, "right", SLOT_LEN, datagrams)
    }

    fn with(
        address: &[u8],
        number: u64,
        password: &str,
        slot_len: usize,
        datagrams: Option<Duration>,
    ) -> User {
        let login = Login { user: Vec::new(), password: password.into() };
        let retry = Duration::from_millis(200);
        let options = Options { retry, datagrams, queue_max: 100, message_len_max: slot_len };
        let caller = Caller::new(number, login, options).expect("it is short");
        let text = std::str::from_utf8(address).expect("a text");
        let mut endpoint = link::endpoint(text, 8, slot_len).expect("a file");
        let server = endpoint.peer(address, PATIENCE).expect("it listens");
        User { client: Client::new(endpoint, server, caller, 4), begun: Instant::now() }
    }

    pub fn start(&mut self, operations: &[Operation<'_>]) {
        self.client.start(operations, self.begun.elapsed() + PATIENCE).expect("there is room");
    }

    pub fn outcome(&mut self) -> Outcome {
        loop {
            self.client.step(self.begun.elapsed());
            if let Some((_, outcome)) = self.client.take() {
                return outcome;
            }
            assert!(self.begun.elapsed() < 2 * PATIENCE, "no outcome");
            self.client.endpoint().wait(Duration::ZERO, Duration::from_millis(10));
        }
    }
}

pub fn value(outcome: Outcome) -> (u64, String) {
    match outcome {
        Outcome::Done(givens) => match &givens[..] {
            [.., Some(Given { status: Status::Done, version, value })] => {
                (*version, String::from_utf8(value.clone()).expect("a number"))
            }
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

pub const INCREMENT: Operation<'_> = Operation::Increment { key: b"n", by: 1 };
pub const GET: Operation<'_> = Operation::Get { key: b"n" };

/// Each client's connections are replaced in the middle of its calls.
pub fn count_together(address: &[u8]) {
    count_together_with(address, None);
}

/// As [`count_together`], with answers that may be datagrams.
pub fn count_together_with(address: &[u8], datagrams: Option<Duration>) {
    std::thread::scope(|scope| {
        for number in 1..=2 {
            scope.spawn(move || {
                let mut user = User::with_datagrams(address, number, datagrams);
                for round in 0..20 {
                    (0..10).for_each(|_| user.start(&[INCREMENT]));
                    user.client.step(user.begun.elapsed());
                    if round % 4 == 1 {
                        let server =
                            user.client.endpoint().peer(address, PATIENCE).expect("it listens");
                        user.client.reconnect(server);
                    }
                    (0..10).for_each(|_| drop(value(user.outcome())));
                }
                assert_eq!(user.client.damaged(), 0);
            });
        }
    });
    let mut user = User::new(address, 3, "right");
    user.start(&[GET]);
    assert_eq!(value(user.outcome()), (400, "400".to_string()));
}

#[test]
fn writes_over_tcp_are_run_once_while_connections_break() {
    beside_server("127.0.0.1:0", count_together);
}

#[test]
fn writes_over_unix_sockets_are_run_once_while_connections_break() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("messages");
    beside_server(&format!("unix:{}", path.display()), count_together);
}

/// Waits that are more than the server has slots.
pub fn wait_beyond_the_slots(address: &[u8]) {
    let wait = Operation::WaitForChange { key: b"n", limit_ms: 60_000 };
    let mut users: Vec<User> = (1..=5).map(|number| User::new(address, number, "right")).collect();
    for user in &mut users {
        (0..4).for_each(|_| user.start(&[wait]));
    }
    let mut writer = User::new(address, 6, "right");
    for _ in 0..20 {
        users.iter_mut().for_each(|user| user.client.step(user.begun.elapsed()));
        writer.start(&[Operation::Increment { key: b"other", by: 1 }]);
        value(writer.outcome());
    }
    writer.start(&[INCREMENT]);
    value(writer.outcome());
    for user in &mut users {
        (0..4).for_each(|_| assert_eq!(value(user.outcome()).1, "1"));
    }
}

#[test]
fn waits_beyond_the_slots_keep_no_other_client_from_writing() {
    beside_server("127.0.0.1:0", wait_beyond_the_slots);
}

/// A client without the password.
pub fn be_denied(address: &[u8]) {
    let mut user = User::new(address, 1, "wrong");
    user.start(&[INCREMENT]);
    assert_eq!(user.outcome(), Outcome::NotDone(Reason::Denied));
}

#[test]
fn a_wrong_password_ends_the_calls() {
    beside_server("127.0.0.1:0", be_denied);
}

/// Replies that are longer than what their client or the server may send.
pub fn ask_for_too_much(address: &[u8]) {
    let mut user = User::new(address, 1, "right");
    let status = |user: &mut User, key: &[u8]| {
        user.start(&[Operation::Get { key }, INCREMENT]);
        let outcome = user.outcome();
        let Outcome::Done(givens) = &outcome else { panic!("{outcome:?}") };
        let status = givens[0].as_ref().expect("it is not damaged").status;
        (status, value(outcome).1)
    };
    assert_eq!(status(&mut user, b"long"), (Status::Failed, "1".to_string()));
    let mut other = User::with(address, 2, "right", 4 << 10, None);
    assert_eq!(status(&mut other, b"long"), (Status::Done, "2".to_string()));
    assert_eq!(status(&mut other, b"longer"), (Status::Failed, "3".to_string()));
    // 56 operations fit into a slot, but not 56 texts.
    let mut operations = [Operation::Get { key: b"" }; 56];
    operations[0] = INCREMENT;
    user.start(&operations);
    assert_eq!(user.outcome(), Outcome::Unknown);
    user.start(&[GET]);
    assert_eq!(value(user.outcome()).1, "4", "it was run once");
}

#[test]
fn a_reply_that_does_not_fit_tells_the_reads_so() {
    beside_server("127.0.0.1:0", ask_for_too_much);
}

#[test]
fn bytes_that_are_no_message_cost_their_sender_the_connection_alone() {
    beside_server("127.0.0.1:0", |address| {
        let text = std::str::from_utf8(address).expect("a text");
        let too_long = (SERVER_SLOT_LEN as u32 + 1).to_le_bytes();
        for bytes in [&[3, 0, 0, 0, 1, 2, 3][..], &[0; 4], &too_long] {
            let mut bad = TcpStream::connect(text).expect("it listens");
            bad.set_read_timeout(Some(PATIENCE)).expect("a socket has one");
            bad.write_all(bytes).expect("it is read");
            assert_eq!(bad.read(&mut [0]).expect("it is closed"), 0);
        }
        let mut user = User::new(address, 1, "right");
        user.start(&[INCREMENT]);
        assert_eq!(value(user.outcome()).1, "1");
    });
}

#[test]
fn a_reply_goes_where_its_client_has_come_back() {
    let endpoint = Sockets::listen("127.0.0.1:0", 8, 8, SLOT_LEN).expect("a free address");
    let address = endpoint.address();
    let mut server = Server::new(endpoint, cache());
    let user = User::new(&address, 1, "right");
    let (mut client, mut jobs) = (user.client, Vec::new());
    // Time stands still here: only a reconnection sends anything again.
    let mut step = |client: &mut Client<AnyEndpoint>, server: &mut Server<Sockets>| {
        client.step(Duration::ZERO);
        server.endpoint().wait(Duration::ZERO, Duration::from_millis(5));
        server.step(Duration::ZERO, &mut Door, &mut jobs);
        jobs.len()
    };
    let add = Operation::Increment { key: b"k", by: 1 };
    client.start(&[add], PATIENCE).expect("it fits");
    (0..500).find(|_| step(&mut client, &mut server) == 1).expect("the write arrives");
    let again = client.endpoint().peer(&address, PATIENCE).expect("it listens");
    client.reconnect(again);
    (0..30).for_each(|_| assert_eq!(step(&mut client, &mut server), 1, "the copy is not run"));
    let job = jobs.pop().expect("it is there");
    server.finish(job, &[Answer::new(b"k", Status::Done, 1, b"1")]);
    let told = (0..500).find_map(|_| {
        client.step(Duration::ZERO);
        server.endpoint().wait(Duration::ZERO, Duration::from_millis(5));
        server.step(Duration::ZERO, &mut Door, &mut jobs);
        client.take()
    });
    assert!(matches!(told, Some((_, Outcome::Done(_)))), "{told:?}");
}

#[test]
fn nothing_is_read_without_a_posted_slot() {
    let mut server = Sockets::listen("127.0.0.1:0", 8, 4, SLOT_LEN).expect("a free address");
    let mut client = Sockets::new(4, SLOT_LEN).expect("a file");
    let peer = client.peer(&server.address(), PATIENCE).expect("it listens");
    for byte in 0..3 {
        let slot = client.slab().take().expect("it is free");
        client.slab().bytes_mut(&slot)[0] = byte;
        client.send(peer, slot, 1).expect("there is room");
    }
    let mut completions = Vec::new();
    for _ in 0..5 {
        server.wait(Duration::ZERO, Duration::from_millis(20));
        server.poll(&mut completions);
    }
    assert!(matches!(completions[..], [Completion::Came(_)]), "{completions:?}");
    completions.clear();
    let begun = Instant::now();
    for byte in 0..3 {
        let slot = server.slab().take().expect("it is free");
        server.post(slot);
        while completions.is_empty() {
            assert!(begun.elapsed() < PATIENCE, "nothing arrives");
            server.wait(Duration::from_millis(1), Duration::from_millis(20));
            server.poll(&mut completions);
        }
        match completions.pop() {
            Some(Completion::Received { slot, len: 1, .. }) => {
                assert_eq!(server.slab().bytes(&slot)[0], byte);
                server.slab().give(slot);
            }
            other => panic!("{other:?}"),
        }
    }
    drop(client);
    while completions.is_empty() {
        assert!(begun.elapsed() < PATIENCE, "the end is not told");
        // The end is read like anything else.
        if let Some(slot) = server.slab().take() {
            server.post(slot);
        }
        server.wait(Duration::ZERO, Duration::from_millis(20));
        server.poll(&mut completions);
    }
    assert!(matches!(completions[0], Completion::Left(_)), "{completions:?}");
}

#[test]
fn a_peer_that_sends_too_much_waits() {
    let folder = tempfile::tempdir().expect("a folder");
    let address = format!("unix:{}", folder.path().join("messages").display());
    let mut server = Sockets::listen(&address, 8, 4, SLOT_LEN).expect("a free address");
    let mut client = Sockets::new(1, SLOT_LEN).expect("a file");
    let peer = client.peer(address.as_bytes(), PATIENCE).expect("it listens");
    let (mut completions, mut slot) = (Vec::new(), client.slab().take().expect("it is free"));
    for _ in 0..10_000 {
        match client.send(peer, slot, SLOT_LEN) {
            Err(_) => return,
            Ok(()) => client.poll(&mut completions),
        }
        slot = match completions.pop() {
            Some(Completion::Sent(slot)) => slot,
            other => panic!("{other:?}"),
        };
        server.poll(&mut completions);
        completions.clear();
    }
    panic!("10 MB were taken although no RECV is posted");
}
