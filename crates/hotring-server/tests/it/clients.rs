//! Tests of CLIENT LIST, CLIENT KILL, and the counters of INFO.

use crate::wire::{Reply, TestServer, ok};

#[test]
fn client_list_shows_every_connection_and_can_be_narrowed() {
    let server = TestServer::new();
    let mut a = server.connect();
    let mut b = server.connect();
    assert_eq!(a.say("CLIENT SETNAME first"), ok());
    let (id_a, id_b) = (a.say("CLIENT ID").int(), b.say("CLIENT ID").int());
    assert_ne!(id_a, id_b);
    let list = b.say("CLIENT LIST").text();
    assert_eq!(list.lines().count(), 2);
    assert!(list.contains("name=first "), "{list}");
    assert!(list.contains("cmd=client|id "), "{list}");
    assert!(list.contains("cmd=client|list "), "{list}");
    let one = b.say(&format!("CLIENT LIST ID {id_a}")).text();
    assert!(one.starts_with(&format!("id={id_a} addr={}", a.stream.local_addr().unwrap())));
    assert_eq!(one.lines().count(), 1);
    assert_eq!(b.say("CLIENT LIST TYPE pubsub").text(), "");
    assert!(b.say("CLIENT LIST TYPE nonsense").is_error());
    assert!(b.say("CLIENT LIST ID x").is_error());
    // Two connections on two threads: the second goes to the idle one.
    assert!(list.contains("io-thread=0") && list.contains("io-thread=1"), "{list}");
}

#[test]
fn client_kill_ends_others_at_once_and_itself_after_the_reply() {
    let server = TestServer::new();
    let mut a = server.connect();
    let mut b = server.connect();
    let id = a.say("CLIENT ID").int();
    assert_eq!(b.say(&format!("CLIENT KILL ID {id}")), Reply::Int(1));
    assert!(a.is_closed());
    assert_eq!(b.say(&format!("CLIENT KILL ID {id}")), Reply::Int(0));
    assert_eq!(b.say("CLIENT KILL 1.2.3.4:5"), Reply::Error("ERR No such client".into()));
    let c = server.connect();
    let address = c.stream.local_addr().unwrap();
    // The kernel reports the connection at once; the server may need a moment.
    while b.say(&format!("CLIENT KILL {address}")) != ok() {}
    // A killed connection is gone, even if its thread has yet to close it.
    assert!(!b.say("CLIENT LIST").text().contains(&address.to_string()));
    assert_eq!(b.say("CLIENT KILL MAXAGE 1000000 SKIPME no"), Reply::Int(0));
    for (age, why) in [
        ("0", "ERR maxage should be greater than 0"),
        ("x", "ERR maxage is not an integer or out of range"),
    ] {
        assert_eq!(b.say(&format!("CLIENT KILL MAXAGE {age}")), Reply::Error(why.into()));
    }
    let own = b.stream.local_addr().unwrap();
    assert_eq!(b.say(&format!("CLIENT KILL ADDR {own} SKIPME yes")), Reply::Int(0));
    assert_eq!(b.say(&format!("CLIENT KILL ADDR {own} SKIPME no")), Reply::Int(1));
    assert!(b.is_closed());
}

#[test]
fn info_counts_hits_misses_and_commands_until_reset() {
    let server = TestServer::new();
    let mut wire = server.connect();
    wire.say("SET a 1");
    wire.say("GET a");
    wire.say("GET a");
    wire.say("GET b");
    wire.say("GET");
    let info = wire.say("INFO stats").text();
    for line in [
        "keyspace_hits:2",
        "keyspace_misses:1",
        "total_commands_processed:5",
        "total_error_replies:1",
        "total_connections_received:1",
    ] {
        assert!(info.contains(&format!("{line}\r\n")), "{line} is missing in {info}");
    }
    assert!(!info.contains("# Server"));
    assert_eq!(wire.say("CONFIG RESETSTAT"), ok());
    let info = wire.say("INFO stats").text();
    assert!(info.contains("keyspace_hits:0\r\n"), "{info}");
    let index = wire.say("INFO index").text();
    assert!(index.contains("index_items:1\r\n"), "{index}");
    let info = wire.say("INFO").text();
    assert!(info.contains("db0:keys=1,expires=0,"), "{info}");
}

#[test]
fn reset_and_flags_of_a_connection() {
    let server = TestServer::new();
    let mut wire = server.connect();
    wire.say("HELLO 3 SETNAME x");
    assert_eq!(wire.say("CLIENT NO-EVICT ON"), ok());
    assert_eq!(wire.say("CLIENT NO-TOUCH ON"), ok());
    assert!(wire.say("CLIENT INFO").text().contains("flags=eT "));
    assert!(wire.say("CLIENT NO-TOUCH maybe").is_error());
    assert_eq!(wire.say("RESET"), Reply::Simple("RESET".into()));
    assert_eq!(wire.say("CLIENT GETNAME"), Reply::Null);
    let info = wire.say("CLIENT INFO").text();
    assert!(info.contains("resp=2 ") && info.contains("flags=N "), "{info}");
    assert!(wire.say("CLIENT HELP").items().len() > 10);
}
