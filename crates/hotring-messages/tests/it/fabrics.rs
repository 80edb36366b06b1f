//! Clients and a server over libfabric, where it is installed.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::caller::{Login, Options};
use crate::endpoint::{Completion, Endpoint};
use crate::fabric::{Fabric, Provider};
use crate::killed::Process;
use crate::link;
use crate::message::Operation;
use crate::shared::{Pace, Shared};
use crate::streams::{
    INCREMENT, PATIENCE, SLOT_LEN, ask_for_too_much, be_denied, beside_server, count_together,
    listen, value, wait_beyond_the_slots,
};

/// An address of a provider, and the folder of its socket. None if the machine has no such provider.
pub fn place(provider: Provider) -> Option<(String, TempDir)> {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = format!("unix:{}", folder.path().join("messages").display());
    match Fabric::new(provider, &socket, 1, SLOT_LEN) {
        Ok(_) => Some((format!("{},{socket}", provider.name()), folder)),
        Err(error) => {
            eprintln!("skipped: {error}");
            None
        }
    }
}

fn beside(provider: Provider, work: fn(&[u8])) {
    let Some((address, _folder)) = place(provider) else { return };
    let _server = Process::serve(&address);
    work(address.as_bytes());
}

macro_rules! over_both {
    ($($name:ident = $work:expr),+ $(,)?) => {
        mod shm {
            use super::*;
            $(#[test] fn $name() { beside(Provider::Shm, $work); })+
        }
        mod tcp {
            use super::*;
            $(#[test] fn $name() { beside(Provider::Tcp, $work); })+
        }
    };
}

over_both! {
    writes_are_run_once_while_connections_break = count_together,
    waits_beyond_the_slots_keep_no_other_client_from_writing = wait_beyond_the_slots,
    a_wrong_password_ends_the_calls = be_denied,
    a_reply_that_does_not_fit_tells_the_reads_so = ask_for_too_much,
    long_values_arrive_whole = write_long_values,
    threads_share_a_client_that_sleeps = call_now_and_then,
    bytes_that_are_no_greeting_cost_their_sender_the_connection_alone = greet_wrongly,
}

/// A client of threads.
pub fn shared(address: &[u8], message_len_max: usize) -> Shared {
    let login = Login { user: Vec::new(), password: b"right".into() };
    let options = Options { retry: PATIENCE, datagrams: None, queue_max: 100, message_len_max };
    let pace = Pace { in_flight_max: 8, spin: Duration::from_micros(20) };
    let address = std::str::from_utf8(address).expect("a text");
    Shared::connect(address, login, options, pace).expect("it listens")
}

/// Longer than what any provider copies at once.
fn write_long_values(address: &[u8]) {
    let client = shared(address, 2 << 10);
    for len in (0..1800).step_by(100) {
        let set = Operation::Set { key: b"k", value: &vec![b'x'; len], expiry_ms: 0 };
        let outcome = client.call(&[set, INCREMENT, Operation::Get { key: b"long" }], PATIENCE);
        assert_eq!(value(outcome.expect("it fits")).1.len(), SLOT_LEN);
    }
}

/// Each call comes when both ends sleep. Without a bell it waits for the end of the server's nap of 50 ms.
fn call_now_and_then(address: &[u8]) {
    let client = shared(address, SLOT_LEN);
    value(client.call(&[INCREMENT], PATIENCE).expect("it fits"));
    let mut took: Vec<Duration> = (0..9)
        .map(|_| {
            std::thread::sleep(Duration::from_millis(150));
            let begun = Instant::now();
            value(client.call(&[INCREMENT], PATIENCE).expect("it fits"));
            begun.elapsed()
        })
        .collect();
    took.sort();
    assert!(took[4] < Duration::from_millis(12), "{took:?}");
}

fn greet_wrongly(address: &[u8]) {
    let text = std::str::from_utf8(address).expect("a text");
    let (_, socket) = Provider::split(text);
    let path = Path::new(socket.strip_prefix("unix:").expect("a socket"));
    for frame in [&b"\x03\0\0\0abc"[..], b"\x0c\0\0\0hrf112345678", b"\xff\xff\xff\xff"] {
        use std::io::{Read, Write};
        let mut bad = UnixStream::connect(path).expect("it listens");
        bad.set_read_timeout(Some(PATIENCE)).expect("a socket has one");
        bad.write_all(frame).expect("it is read");
        assert_eq!(bad.read(&mut [0]).expect("it is closed"), 0);
    }
    let outcome = shared(address, SLOT_LEN).call(&[INCREMENT], PATIENCE);
    assert_eq!(value(outcome.expect("it fits")).1, "1");
}

#[test]
fn a_client_of_another_provider_is_told_so() {
    let Some((address, _folder)) = place(Provider::Shm) else { return };
    let (_, socket) = Provider::split(&address);
    beside_server(socket, |_| {
        let mut client = link::endpoint(&address, 4, SLOT_LEN).expect("it was there before");
        let error = client.peer(address.as_bytes(), PATIENCE).expect_err("it is of sockets");
        assert!(error.to_string().contains("setting fabric"), "{error}");
    });
}

#[test]
fn a_peer_that_is_sent_away_sees_it() {
    let Some((address, _folder)) = place(Provider::Shm) else { return };
    let mut server = listen(&address);
    let mut client = link::endpoint(&address, 4, SLOT_LEN).expect("it was there before");
    let to = address.clone();
    let client = std::thread::spawn(move || {
        client.peer(to.as_bytes(), PATIENCE).expect("it listens");
        let (mut completions, begun) = (Vec::new(), Instant::now());
        while completions.is_empty() && begun.elapsed() < PATIENCE {
            client.wait(Duration::ZERO, Duration::from_secs(1));
            client.poll(&mut completions);
        }
        assert!(matches!(completions[..], [Completion::Left(_)]), "{completions:?}");
    });
    let (mut completions, begun) = (Vec::new(), Instant::now());
    while !client.is_finished() {
        assert!(begun.elapsed() < PATIENCE, "it stays");
        server.wait(Duration::ZERO, Duration::from_millis(20));
        server.poll(&mut completions);
        for completion in completions.drain(..) {
            if let Completion::Came(peer) = completion {
                std::thread::sleep(Duration::from_millis(20));
                server.poll(&mut Vec::new());
                server.leave(peer);
            }
        }
    }
    client.join().expect("it was told");
}
