//! Tests of a server that keeps earlier values.

use crate::wire::{Reply, TestServer, bulk, ok};

#[test]
fn a_server_with_a_history_lists_and_restores_earlier_values() {
    let server = TestServer::with(|config| config.history = 2);
    let (mut a, mut b) = (server.connect(), server.connect());
    for value in ["one", "2", "a value that is longer than a word", "4"] {
        assert_eq!(a.ask(&["SET", "k", value]), ok());
    }
    let reply = b.say("HISTORY k");
    let values: Vec<_> = reply.items().iter().map(|e| e.items()[2].clone()).collect();
    assert_eq!(values, [bulk("a value that is longer than a word"), bulk("2")]);
    assert_eq!(reply.items()[0].items()[0], Reply::Int(3));
    assert_eq!(b.say("ROLLBACK k 2"), ok());
    assert_eq!(a.say("INCR k"), Reply::Int(3));
    assert_eq!(a.say("ROLLBACK k 1"), Reply::Null, "too old");
    assert_eq!(a.say("CONFIG GET history").items(), [bulk("history"), bulk("2")]);
    assert!(a.say("CONFIG SET history 3").is_error());
    assert!(a.say("INFO memory").text().contains("history_enabled:1\r\n"));
}
