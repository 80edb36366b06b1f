//! Compares CLIENT REPLY, PAUSE and UNBLOCK, and CLIENT LIST for connections in many states, with a
//! real `redis-server`.
//!
//! Not requested: CLIENT REPLY in a transaction, which is refused here; state that RESET resets
//! only since Redis 7.2; the length of client pauses.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::differential::{Raw, Redis, converse};
use crate::wire::TestServer;

/// Conversations, one after the other on the same keys.
const CONVERSATIONS: &[&str] = &[
    "CLIENT REPLY OFF|INCR n|NONSENSE|GET|CLIENT REPLY SKIP|CLIENT REPLY x|INCR n|CLIENT REPLY ON|GET n",
    "CLIENT REPLY SKIP|INCR n|INCR n|CLIENT REPLY SKIP|CLIENT REPLY SKIP|INCR n|INCR n|INCR n",
    "CLIENT REPLY SKIP|NONSENSE|INCR n|CLIENT REPLY SKIP|CLIENT REPLY ON|INCR n|CLIENT REPLY ON",
    "CLIENT REPLY OFF|MULTI|INCR n|GET n|EXEC|CLIENT REPLY ON|GET n|CLIENT REPLY OFF|QUIT|GET n",
    "CLIENT REPLY SKIP|MULTI|INCR n|EXEC|GET n|CLIENT REPLY x|CLIENT REPLY|CLIENT REPLY ON x",
    "CLIENT REPLY OFF|SUBSCRIBE a|UNSUBSCRIBE a|GET n|CLIENT REPLY ON|GET n",
    "CLIENT REPLY OFF|GET n|RESET|GET n",
    "CLIENT PAUSE|CLIENT PAUSE x|CLIENT PAUSE -1|CLIENT PAUSE 0|CLIENT PAUSE 0 WRITE|CLIENT PAUSE 1 x|GET n",
    "CLIENT PAUSE 100000 WRITE|GET n|CLIENT PAUSE 1 WRITE|PING|CLIENT UNPAUSE|INCR n",
    "CLIENT PAUSE 100000 WRITE|MULTI|GET n|EXEC|EVAL_RO return(1) 0|CLIENT UNPAUSE|CLIENT UNPAUSE|INCR n",
    "CLIENT UNPAUSE x|CLIENT UNBLOCK|CLIENT UNBLOCK x|CLIENT UNBLOCK 99999999|CLIENT UNBLOCK -1 ERROR",
    "CLIENT UNBLOCK 99999999 TIMEOUT|CLIENT UNBLOCK 99999999 error|CLIENT UNBLOCK 99999999 x|CLIENT UNBLOCK 1 ERROR x",
];

#[test]
fn replies_and_pauses_are_those_of_redis() {
    let Some(redis) = Redis::start() else { return };
    let server = TestServer::new();
    for lines in CONVERSATIONS {
        let input = format!("{}\r\n", lines.replace('|', "\r\n"));
        let [ours, theirs] = [server.address, redis.address]
            .map(|address| converse(address, input.as_bytes()).escape_ascii().to_string());
        assert_eq!(ours, theirs, "{lines}");
    }
}

/// Requests of a connection whose flags are compared afterwards.
const STATES: &[&str] = &[
    "PING",
    "MULTI",
    "WATCH other",
    "WATCH k",
    "WATCH none",
    "WATCH k|MULTI",
    "WATCH k|MULTI|EXEC",
    "WATCH k|UNWATCH",
    "SUBSCRIBE a",
    "PSUBSCRIBE a",
    "SSUBSCRIBE a",
    "SSUBSCRIBE a|SUNSUBSCRIBE",
    "SUBSCRIBE a|UNSUBSCRIBE",
    "MONITOR",
    "MONITOR|RESET",
    "HELLO 3|SUBSCRIBE a|MULTI",
    "HELLO 3|CLIENT TRACKING on|GET k",
    "HELLO 3|CLIENT TRACKING on BCAST",
    "HELLO 3|CLIENT TRACKING on OPTIN NOLOOP",
    "HELLO 3|CLIENT TRACKING on|CLIENT TRACKING off",
    "HELLO 3|CLIENT TRACKING on REDIRECT N",
    "HELLO 3|CLIENT TRACKING on REDIRECT N|GET k",
    "CLIENT NO-EVICT on",
];

/// The flags of all connections, by id.
fn flags(observer: &mut Raw) -> BTreeMap<i64, String> {
    let list = observer.ask(&[b"CLIENT", b"LIST"]);
    let list = String::from_utf8_lossy(&list).into_owned();
    let field = |line: &str, name: &str| {
        let (_, behind) = line.split_once(name)?;
        behind.split(' ').next().map(str::to_string)
    };
    let of_line = |line: &str| Some((field(line, "id=")?.parse().ok()?, field(line, " flags=")?));
    list.lines().filter_map(of_line).collect()
}

/// A connection and its id.
fn connect(address: SocketAddr) -> (Raw, i64) {
    let mut raw = Raw::connect(address);
    let id = String::from_utf8(raw.ask(&[b"CLIENT", b"ID"])).unwrap();
    (raw, id[1..].trim_end().parse().unwrap())
}

/// The flags of one server's connections in all states.
fn states(address: SocketAddr) -> Vec<String> {
    let (mut observer, _) = connect(address);
    observer.ask(&[b"MSET", b"k", b"1", b"other", b"1"]);
    let (mut told, told_id) = connect(address);
    let clients = STATES.iter().map(|state| {
        let (mut raw, id) = connect(address);
        for line in state.replace("REDIRECT N", &format!("REDIRECT {told_id}")).split('|') {
            let reply = raw.ask(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>());
            assert!(!reply.starts_with(b"-"), "{state}: {}", reply.escape_ascii());
        }
        (raw, id)
    });
    let clients: Vec<(Raw, i64)> = clients.collect();
    told.ask(&[b"QUIT"]);
    while flags(&mut observer).contains_key(&told_id) {}
    observer.ask(&[b"MSET", b"k", b"2", b"none", b"2"]);
    let flags = flags(&mut observer);
    STATES.iter().zip(&clients).map(|(state, (_, id))| format!("{state}: {}", flags[id])).collect()
}

#[test]
fn connections_are_shown_as_by_redis() {
    let Some(redis) = Redis::start() else { return };
    let server = TestServer::new();
    assert_eq!(states(server.address), states(redis.address));
}
