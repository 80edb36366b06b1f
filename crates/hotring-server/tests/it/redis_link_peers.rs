//! Follows a scripted peer that plays a Redis primary: cuts of its stream, and ways to misbehave. They must cost the
//! connection, never the data, memory or the server.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use hotring_log::AckWhen;

use crate::differential::Raw;
use crate::redis_link::{field, follow, say, until};
use crate::replication::Folder;
use crate::wire::{TestServer, request};

/// The id of the peer's stream.
const ID: &str = "0123456789012345678901234567890123456789";

/// A peer that has accepted the link and read its request for the stream.
struct Peer {
    stream: BufReader<TcpStream>,
}

impl Peer {
    /// Accepts a link, greets it as a Redis does, and returns the words of its PSYNC.
    fn accept(listener: &TcpListener) -> (Peer, Vec<String>) {
        loop {
            let (stream, _) = listener.accept().unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            let mut peer = Peer { stream: BufReader::new(stream) };
            while let Some(words) = peer.request() {
                let reply = match words[0].as_str() {
                    "PING" => "+PONG\r\n".to_string(),
                    "REPLCONF" => "+OK\r\n".to_string(),
                    "PSYNC" => return (peer, words),
                    other => {
                        format!("-ERR unknown command '{other}', with args beginning with: \r\n")
                    }
                };
                peer.send(reply.as_bytes());
            }
        }
    }

    /// The words of the next request; None at the end.
    fn request(&mut self) -> Option<Vec<String>> {
        let count = self.line()?;
        let count: usize = count.strip_prefix('*')?.parse().ok()?;
        let mut word = || {
            self.line()?;
            self.line()
        };
        (0..count).map(|_| word()).collect()
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        self.stream.read_line(&mut line).ok().filter(|len| *len > 0)?;
        Some(line.trim_end().to_string())
    }

    fn send(&mut self, bytes: &[u8]) {
        // The replica may have gone already.
        let _ = self.stream.get_mut().write_all(bytes);
    }

    /// Sends a full copy, and the position behind it.
    fn copy(&mut self, file: &[u8], position: u64) {
        self.send(format!("+FULLRESYNC {ID} {position}\r\n\n\n${}\r\n", file.len()).as_bytes());
        self.send(file);
    }

    /// Whether the replica ends the connection.
    fn ends(&mut self) -> bool {
        match self.stream.read_to_end(&mut Vec::new()) {
            Ok(_) => true,
            // Bytes that the replica has not read reset the connection.
            Err(error) => error.kind() == ErrorKind::ConnectionReset,
        }
    }
}

/// A file with the key `copied`.
fn file() -> Vec<u8> {
    let mut file = b"REDIS0010\xfa\x09redis-ver\x057.0.0\xfe\x00\x00\x06copied\x011\xff".to_vec();
    let sum = hotring_commands::rdb::crc64(0, &file);
    file.extend_from_slice(&sum.to_le_bytes());
    file
}

/// A request as Redis sends it.
fn command(line: &str) -> Vec<u8> {
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    request(&words)
}

fn begin() -> (TcpListener, TestServer, Raw) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = TestServer::new();
    let mut hotring = Raw::connect(server.address);
    say(&mut hotring, "SET own 1");
    follow(&mut hotring, listener.local_addr().unwrap());
    (listener, server, hotring)
}

/// Restarts the link, so that the pause after a failure is short again: the same peer by another name.
fn again(listener: &TcpListener, hotring: &mut Raw, round: usize) {
    let host = if round.is_multiple_of(2) { "localhost" } else { "127.0.0.1" };
    let port = listener.local_addr().unwrap().port();
    assert_eq!(say(hotring, &format!("REPLICAOF {host} {port}")), "+OK\r\n");
}

#[test]
fn the_stream_goes_on_from_the_last_position_wherever_it_is_cut() {
    let (listener, _server, mut hotring) = begin();
    let (mut peer, words) = Peer::accept(&listener);
    assert_eq!(words, ["PSYNC", "?", "-1"]);
    peer.copy(&file(), 500);
    let mut stream = Vec::new();
    for line in ["SELECT 0", "INCR n", "MULTI", "INCR n", "RPUSH l a", "EXEC", "APPEND text x"] {
        stream.extend(command(line));
    }
    let mut at = 0;
    // The unit tests of the follower cut at every byte.
    for cut in (0..stream.len()).step_by(7) {
        peer.send(&stream[at..cut]);
        drop(peer);
        let words;
        (peer, words) = Peer::accept(&listener);
        assert_eq!(words[..2], ["PSYNC", ID], "{cut}");
        // The position is that of the next byte.
        at = words[2].parse::<usize>().unwrap() - 501;
        assert!(at <= cut, "{at} of {cut}");
        peer.send(b"\n+CONTINUE\r\n");
    }
    peer.send(&stream[at..]);
    let position = (500 + stream.len()).to_string();
    until("all is applied", || field(&mut hotring, "slave_repl_offset") == position);
    assert_eq!(say(&mut hotring, "GET n"), "$1\r\n2\r\n");
    assert_eq!(say(&mut hotring, "LLEN l"), ":1\r\n");
    assert_eq!(say(&mut hotring, "GET text"), "$1\r\nx\r\n");
    assert_eq!(
        say(&mut hotring, "EXISTS own copied"),
        ":1\r\n",
        "the copy has replaced everything"
    );
    peer.send(&command("REPLCONF GETACK *"));
    let mut words = Vec::new();
    let position = (500 + stream.len() + command("REPLCONF GETACK *").len()).to_string();
    while words != ["REPLCONF", "ACK", &position] {
        words = peer.request().expect("the position is told");
        assert_eq!(words[..2], ["REPLCONF", "ACK"]);
    }
    assert_eq!(field(&mut hotring, "redis_link_full_copies"), "1");
}

#[test]
fn a_copy_that_is_cut_or_damaged_anywhere_is_received_again() {
    let (listener, _server, mut hotring) = begin();
    let whole = file();
    for cut in 0..whole.len() {
        let (mut peer, words) = Peer::accept(&listener);
        assert_eq!(words, ["PSYNC", "?", "-1"], "{cut}");
        if cut % 2 == 0 {
            peer.copy(&whole[..cut], 500);
            assert!(peer.ends(), "{cut}");
        } else {
            let mut damaged = whole.clone();
            damaged[cut] ^= 0x40;
            peer.copy(&damaged, 500);
            assert!(peer.ends(), "{cut}");
        }
        // Before its header has arrived, the data is what it was.
        let found = say(&mut hotring, "GET own");
        assert!(found.starts_with(if cut < 9 { "$1" } else { "-LOADING" }), "{cut}: {found}");
        again(&listener, &mut hotring, cut);
    }
    let (mut peer, _) = Peer::accept(&listener);
    // As a primary without a disk does: the end is a mark.
    let mark = "m".repeat(40);
    peer.send(format!("+FULLRESYNC {ID} 7\r\n$EOF:{mark}\r\n").as_bytes());
    for byte in whole.iter().chain(mark.as_bytes()) {
        peer.send(&[*byte]);
    }
    until("the copy is complete", || say(&mut hotring, "GET copied") == "$1\r\n1\r\n");
    assert_eq!(field(&mut hotring, "slave_repl_offset"), "7");
}

#[test]
fn a_peer_that_misbehaves_costs_its_connection_and_no_data() {
    let (listener, _server, mut hotring) = begin();
    let wrong: [&[u8]; 12] = [
        b"+CONTINUE\r\n",
        b"+FULLRESYNC\r\n",
        b"+FULLRESYNC id x\r\n",
        b"-ERR no\r\n",
        &[b'x'; 10_000],
        b"+FULLRESYNC id 1\r\n$x\r\n",
        b"+FULLRESYNC id 1\r\n$EOF:short\r\n",
        b"+FULLRESYNC id 1\r\n:5\r\n",
        b"+FULLRESYNC id 1\r\n$99999999999999999999\r\n",
        b"+FULLRESYNC id 1\r\n$4\r\nREDIS0010",
        b"+FULLRESYNC id 1\r\n$900\r\nGARBAGE..........",
        b"+FULLRESYNC id 1\r\n$900\r\nREDIS0099........",
    ];
    for (round, reply) in wrong.into_iter().enumerate() {
        let (mut peer, words) = Peer::accept(&listener);
        assert_eq!(words, ["PSYNC", "?", "-1"]);
        peer.send(reply);
        assert!(peer.ends());
        until("it is told", || !field(&mut hotring, "master_link_error").is_empty());
        assert_eq!(say(&mut hotring, "GET own"), "$1\r\n1\r\n", "{}", reply.escape_ascii());
        again(&listener, &mut hotring, round);
    }
    let (mut peer, _) = Peer::accept(&listener);
    peer.copy(&file(), 500);
    let wrong: [&[u8]; 5] = [
        b"*1\r\n$99999999999\r\n",
        b"*99999999999\r\n",
        b"*1\r\n!x\r\n",
        b"\"unbalanced\r\n",
        &[b'x'; 100_000],
    ];
    let good = command("INCR n");
    for (i, stream) in wrong.into_iter().enumerate() {
        peer.send(&good);
        peer.send(stream);
        assert!(peer.ends());
        let (next, words) = Peer::accept(&listener);
        peer = next;
        let position = 501 + (i + 1) * good.len();
        assert_eq!(words, ["PSYNC", ID, &position.to_string()]);
        peer.send(b"+CONTINUE\r\n");
    }
    until("the commands before are applied", || say(&mut hotring, "GET n") == "$1\r\n5\r\n");
    // The primary has another stream now.
    peer.send(b"*1\r\n!\r\n");
    let (mut peer, _) = Peer::accept(&listener);
    peer.copy(&file(), 0);
    until("the copy has replaced it", || say(&mut hotring, "EXISTS n copied") == ":1\r\n");
}

/// What the primary has sent must wait, and nothing more comes: that must not hide that the primary is gone.
#[test]
fn a_primary_that_falls_silent_or_ends_is_noticed_while_its_commands_wait() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = TestServer::with(|config| config.replication.timeout_s = 1);
    let mut hotring = Raw::connect(server.address);
    follow(&mut hotring, listener.local_addr().unwrap());
    let (mut peer, _) = Peer::accept(&listener);
    peer.copy(&file(), 500);
    until("it is up", || field(&mut hotring, "master_link_status") == "up");
    assert_eq!(say(&mut hotring, "CLIENT PAUSE 60000 WRITE"), "+OK\r\n");
    peer.send(&command("INCR n"));
    assert!(peer.ends(), "it is silent for longer than repl-timeout");
    let (mut peer, _) = Peer::accept(&listener);
    peer.send(b"+CONTINUE\r\n");
    peer.send(&command("INCR n"));
    until("it is up again", || field(&mut hotring, "master_link_status") == "up");
    drop(peer);
    until("its end is noticed", || field(&mut hotring, "master_link_status") == "down");
    assert_eq!(say(&mut hotring, "CLIENT UNPAUSE"), "+OK\r\n");
    let (mut peer, words) = Peer::accept(&listener);
    assert_eq!(words, ["PSYNC", ID, "501"], "nothing of it was applied");
    peer.send(b"+CONTINUE\r\n");
    peer.send(&command("INCR n"));
    until("it is applied once", || say(&mut hotring, "GET n") == "$1\r\n1\r\n");
}

/// Regression test: the server took a Redis's data for that of the primary before, and its records went on behind it.
#[test]
fn a_server_that_has_followed_a_redis_needs_a_copy_of_any_other_primary() {
    for is_restarted in [false, true] {
        let folder = Folder::new("left");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (primary, server) =
            (TestServer::new(), TestServer::with(|c| c.log = folder.log(AckWhen::Written)));
        let mut p = Raw::connect(primary.address);
        let mut hotring = Raw::connect(server.address);
        say(&mut p, "SET a 1");
        follow(&mut hotring, primary.address);
        until("it follows", || say(&mut hotring, "GET a") == "$1\r\n1\r\n");
        follow(&mut hotring, listener.local_addr().unwrap());
        let (mut peer, _) = Peer::accept(&listener);
        peer.copy(&file(), 500);
        until("the copy is there", || say(&mut hotring, "GET copied") == "$1\r\n1\r\n");
        // The numbers of the primary's records go on, beyond those of the server.
        (0..50).for_each(|_| _ = say(&mut p, "INCR n"));
        let (server, mut hotring) = match is_restarted {
            false => (server, hotring),
            true => {
                server.stop();
                let server = TestServer::with(|c| c.log = folder.log(AckWhen::Written));
                let hotring = Raw::connect(server.address);
                (server, hotring)
            }
        };
        follow(&mut hotring, primary.address);
        until("it follows again", || field(&mut hotring, "master_link_status") == "up");
        until("it has all", || say(&mut hotring, "GET n") == "$2\r\n50\r\n");
        assert_eq!(say(&mut hotring, "EXISTS a copied"), ":1\r\n");
        server.stop();
    }
}

#[test]
fn the_role_ends_at_once_in_the_middle_of_anything() {
    let (listener, _server, mut hotring) = begin();
    let (mut peer, _) = Peer::accept(&listener);
    peer.copy(&file(), 500);
    peer.send(&command("MULTI"));
    peer.send(&command("INCR n"));
    until("it is up", || field(&mut hotring, "master_link_status") == "up");
    assert_eq!(say(&mut hotring, "REPLICAOF NO ONE"), "+OK\r\n");
    peer.send(&command("EXEC"));
    peer.send(&command("SET late 1"));
    assert_eq!(say(&mut hotring, "SET mine 1"), "+OK\r\n");
    assert!(peer.ends());
    assert_eq!(say(&mut hotring, "EXISTS n late mine copied"), ":2\r\n");
}
