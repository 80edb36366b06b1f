//! Compares the replies to subscriptions, the messages, and who gets them, with a real `redis-server`.

use std::net::SocketAddr;

use crate::differential::{Raw, Redis, converse};
use crate::wire::TestServer;

/// Conversations about messages. None publishes to itself: later versions of Redis reply to that in
/// another order.
const SUBSCRIPTIONS: &[&str] = &[
    "SUBSCRIBE a b a|SUBSCRIBE a|PSUBSCRIBE x*|PING|PING hi|GET a|CLIENT ID x|NONSENSE|SUBSCRIBE|\
     UNSUBSCRIBE b|UNSUBSCRIBE none|UNSUBSCRIBE|PUNSUBSCRIBE|GET a|UNSUBSCRIBE|PUNSUBSCRIBE|\
     UNSUBSCRIBE x y|PUNSUBSCRIBE x y",
    "SUBSCRIBE a|PSUBSCRIBE a*|PUBLISH none x|GET k|PING|PING x|PUNSUBSCRIBE|UNSUBSCRIBE|UNSUBSCRIBE",
    "PUBSUB CHANNELS|PUBSUB NUMSUB|PUBSUB NUMSUB a b|PUBSUB NUMPAT|PUBSUB CHANNELS x*|\
     PUBSUB CHANNELS a b|PUBSUB foo|PUBSUB|PUBSUB NUMPAT x|PUBLISH a|PUBLISH a b c|PUBLISH a b",
    "PSUBSCRIBE a|RESET|GET k|SUBSCRIBE b|QUIT|GET k",
    "MULTI|SUBSCRIBE a|PING|GET k|UNSUBSCRIBE a|EXEC|GET k|MULTI|PSUBSCRIBE a|EXEC|GET k|RESET|GET k",
    "SUBSCRIBE a|WATCH k|MULTI|GET k|EXEC|SELECT 0|RESET|MULTI|SUBSCRIBE|EXEC|EXEC x",
    "SSUBSCRIBE a b a|SUBSCRIBE x|PSUBSCRIBE y*|PING|GET a|SUNSUBSCRIBE b none|SUNSUBSCRIBE|UNSUBSCRIBE|\
     SUNSUBSCRIBE|PUNSUBSCRIBE|SUNSUBSCRIBE x y|GET a|SSUBSCRIBE|SPUBLISH a|SPUBLISH a b|SPUBLISH a b c",
    "PUBSUB SHARDCHANNELS|PUBSUB SHARDNUMSUB|PUBSUB SHARDNUMSUB a b|PUBSUB shardchannels a b|PUBSUB SHARDCHANNELS x*",
    "SSUBSCRIBE a|RESET|GET k|SSUBSCRIBE b|QUIT|GET k",
    "MULTI|SSUBSCRIBE a|SPUBLISH a b|SUNSUBSCRIBE|GET k|EXEC|GET k",
    "EVAL return{redis.call('spublish','a','b')} 0|EVAL redis.call('ssubscribe','a') 0",
    "COMMAND GETKEYS SSUBSCRIBE a|COMMAND GETKEYS SPUBLISH a b",
    "CLIENT REPLY OFF|SSUBSCRIBE a|SUNSUBSCRIBE a|GET n|CLIENT REPLY ON|GET n",
];

#[test]
fn subscriptions_get_the_replies_of_redis() {
    let Some(redis) = Redis::start() else { return };
    let server = TestServer::new();
    for lines in SUBSCRIPTIONS {
        for version in ["2", "3"] {
            let input = format!("HELLO {version}\r\n{}\r\n", lines.replace('|', "\r\n"));
            let ask = |address| {
                let text = String::from_utf8(converse(address, input.as_bytes())).unwrap();
                // HELLO's description of the server differs.
                text[text.find("*0\r\n").expect("the modules")..].to_owned()
            };
            assert_eq!(ask(server.address), ask(redis.address), "{input}");
        }
    }
}

/// The subscriptions of each listener, and its protocol version.
const LISTENERS: &[(&str, &str)] = &[
    ("2", "SSUBSCRIBE a"),
    ("3", "SSUBSCRIBE a b"),
    ("2", "SUBSCRIBE a"),
    ("3", "PSUBSCRIBE *"),
    ("3", "SSUBSCRIBE end"),
];

/// Requests that are sent while they listen.
const QUESTIONS: &[&str] = &[
    "SPUBLISH a 1",
    "SPUBLISH b 2",
    "PUBLISH a 3",
    "SPUBLISH none 4",
    "EVAL return(redis.call('SPUBLISH','a','5')) 0",
    "PUBSUB SHARDNUMSUB a b none",
    "PUBSUB NUMSUB a b",
    "PUBSUB SHARDCHANNELS b*",
    "PUBSUB NUMPAT",
];

/// All replies, and all messages of each listener.
fn messages(address: SocketAddr) -> Vec<String> {
    let words = |line: &'static str| line.split(' ').map(str::as_bytes).collect::<Vec<_>>();
    let mut asker = Raw::connect(address);
    let mut told = Vec::new();
    let mut listeners: Vec<Raw> = LISTENERS
        .iter()
        .map(|(version, line)| {
            let mut raw = Raw::connect(address);
            raw.ask(&[b"HELLO", version.as_bytes()]);
            let n_names = words(line).len() - 1;
            raw.send(&words(line));
            (0..n_names).for_each(|_| told.push(raw.reply().escape_ascii().to_string()));
            raw
        })
        .collect();
    for question in QUESTIONS {
        told.push(asker.ask(&words(question)).escape_ascii().to_string());
    }
    for raw in &mut listeners {
        raw.send(&[b"PING", b"end"]);
        loop {
            let reply = raw.reply().escape_ascii().to_string();
            let is_end = reply.contains("end");
            told.push(reply);
            if is_end {
                break;
            }
        }
    }
    told
}

/// The channels of shards were once missing.
#[test]
fn shard_channels_are_apart_from_the_others_as_in_redis() {
    let Some(redis) = Redis::start() else { return };
    let server = TestServer::new();
    let (ours, theirs) = (messages(server.address), messages(redis.address));
    assert_eq!(ours, theirs);
    assert_eq!(theirs.iter().filter(|told| told.contains("smessage")).count(), 5, "{theirs:?}");
}
