//! Compares a node of a cluster with a real node of a Redis Cluster that knows the same nodes and slots.
//!
//! The Redis learns of the other nodes from its file `nodes.conf`. They do not exist, and it waits for them for an hour
//! before it takes them for dead. The own server has no sockets.
//!
//! Not compared: what a node tells of the others' links and positions, which hotring's nodes do not know.

use std::fmt::Write;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fastrand::Rng;
use hotring_cluster::directory::{Directory, Node};
use hotring_cluster::{Epoch, Identity, Incarnation, NodeId, SLOTS, Shard, Tenure};
use hotring_commands::exec::{Conversation, Executor};
use hotring_commands::settings::config::Config;
use hotring_commands::state::server::{Parts, Server};

use crate::differential::{Redis, converse};
use crate::wire::Wire;

/// The shards: primary, replicas, first and last slot. Slots from 15000 on have no shard.
const SHARDS: [(u8, &[u8], u16, u16); 3] =
    [(1, &[2], 0, 5460), (3, &[4], 5461, 10_921), (5, &[], 10_922, 14_999)];

/// A node that is dead.
const DEAD: u8 = 4;

fn id(n: u8) -> NodeId {
    NodeId([n; 20])
}

/// The file `nodes.conf` of node `me`.
fn nodes_conf(me: u8) -> String {
    let mut text = String::new();
    let mut line = |n: u8, role: &str, primary: &str, rest: &str| {
        let myself = if n == me { "myself," } else { "" };
        let fail = if n == DEAD { ",fail" } else { "" };
        let port = 7000 + u16::from(n);
        let id = id(n);
        writeln!(
            text,
            "{id} 127.0.0.1:{port}@{} {myself}{role}{fail} {primary} 0 0 {rest}",
            port + 10_000
        )
        .unwrap();
    };
    for (epoch, (primary, replicas, first, last)) in (1..).zip(SHARDS) {
        line(primary, "master", "-", &format!("{epoch} connected {first}-{last}"));
        let name = id(primary).to_string();
        replicas.iter().for_each(|n| line(*n, "slave", &name, &format!("{epoch} connected")));
    }
    text + "vars currentEpoch 3 lastVoteEpoch 0\n"
}

/// The same as records. Node `me` has this port.
fn directory(me: u8, port: u16) -> Directory {
    let mut directory = Directory::default();
    for n in 1..=5 {
        let port = if n == me { port } else { 7000 + u16::from(n) };
        let host = "127.0.0.1".to_owned();
        let node = Node { host, port, tls_port: None, zone: String::new(), weight: 100 };
        directory.nodes.insert(id(n), (1, node));
        if n != DEAD {
            directory.alive.insert(id(n), Incarnation(1));
        }
    }
    for (number, (primary, replicas, first, last)) in (1..).zip(SHARDS) {
        let replicas: Vec<NodeId> = replicas.iter().copied().map(id).collect();
        let shard = Shard {
            epoch: Epoch(number.into()),
            promoted: Epoch(1),
            primary: Identity { node: id(primary), incarnation: Incarnation(1) },
            in_sync: replicas.clone(),
            replicas,
        };
        directory.shards.insert(number, (1, shard));
        (first..=last).for_each(|slot| directory.owners.give(slot, number));
    }
    directory
}

/// A node of a Redis Cluster that serves, and the own server in its place.
fn pair(me: u8) -> Option<(Redis, Arc<Server>)> {
    let bus = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
    let redis = Redis::start_as(|folder| {
        std::fs::write(folder.join("nodes.conf"), nodes_conf(me)).unwrap();
        let options = format!(
            "--cluster-enabled yes --cluster-port {bus} --cluster-node-timeout 3600000 \
             --cluster-require-full-coverage no"
        );
        options.split(' ').map(str::to_owned).collect()
    })?;
    let deadline = Instant::now() + Duration::from_secs(20);
    while !Wire::connect(redis.address).say("CLUSTER INFO").text().contains("cluster_state:ok") {
        assert!(Instant::now() < deadline, "the node does not serve");
        std::thread::sleep(Duration::from_millis(20));
    }
    let server = Server::new(Parts::of_node(Default::default(), Config::default(), id(me)));
    let cluster = server.cluster.as_ref().unwrap();
    cluster.publish(directory(me, redis.address.port()));
    // A replica has all keys.
    cluster.hear_tenure(Tenure::of([(0, (0..SLOTS).collect())]).unwrap(), 0);
    Some((redis, Arc::new(server)))
}

/// The own server's replies, on a connection of their own.
fn replies(server: &Arc<Server>, input: &[u8]) -> Vec<u8> {
    let mut executor = Executor::new(server.clone(), 0, 1);
    let client = server.clients.enter("peer".into(), "local".into(), 0);
    let mut conversation = Conversation::new(client, server);
    let mut all = Vec::new();
    let mut rest = input;
    while !rest.is_empty() {
        let (mut out, mut attached) = (Vec::new(), Vec::new());
        let fed =
            executor.feed_zero_copy(&mut conversation, (rest, None), 0, (&mut out, &mut attached));
        assert!(attached.is_empty(), "no long values");
        assert!(fed.consumed > 0, "{}", rest.escape_ascii());
        all.extend(out);
        rest = &rest[fed.consumed..];
    }
    server.leave(&conversation.client.shared);
    all
}

/// Conversations with a primary, as lines.
const TO_PRIMARY: &[&str] = &[
    "SET b 1|GET b|GET c|SET c 1|GET foo|GET a|GET {c}x|GET {}c|GET {b|SET {b}x 2|MGET b {b}x|MGET b bar|MGET b c",
    "MGET c b|MGET a b|MGET b a|MGET c {c}|MGET foo c|MSET b 1 c 2|MSET b c {b} a|DEL c {b}|RENAME b bar|RENAME b {b}y",
    "ZUNIONSTORE b 1 c|ZUNIONSTORE c 1 {c}|ZUNIONSTORE b 3 b|ZUNION 2 c {c}x|SORT b STORE c|SORT b STORE {b}z",
    "SORT b BY x*|SORT b BY nosort|SORT b GET #|SORT_RO b GET x*|SORT b GET x* BY y*|SORT b LIMIT 0 1 GET {b}*",
    "BLPOP c 0|BLPOP b bar 0|WATCH b bar|WATCH c|WATCH b|UNWATCH|OBJECT ENCODING c|OBJECT HELP x|LMPOP 2 b bar LEFT",
    "MULTI|SET b 4|SET bar 4|EXEC|EXEC|MULTI|SET c 1|EXEC|MULTI|PING|SET b 5|EXEC|MULTI|GET b|MGET b bar|DISCARD|DISCARD",
    "MULTI|GET b|GET c|GET b|EXEC|GET b|MULTI|GET|EXEC|MULTI|EVAL return(1) 1 bar|GET b|EXEC|MULTI|WATCH b|EXEC",
    "WATCH b|MULTI|SET bar 1|EXEC|WATCH bar|MULTI|SET b 1|EXEC|MULTI|SELECT 1|GET b|EXEC|MULTI|READONLY|GET c|EXEC",
    "SELECT 0|SELECT 1|SELECT 99|SELECT x|MOVE b 1|MOVE c 1|SWAPDB 0 1|COPY b {b}x DB 1|COPY b {b}x DB 0 REPLACE|COPY b bar",
    "EVAL return(1) 1 c|EVALSHA 0 2 b c|EVAL return(1) -1 c|EVAL return(1) x c|EVAL_RO return(1) 1 c",
    "EVAL return{redis.call('set',KEYS[1],1)} 1 b|EVAL return{redis.call('get','c')} 1 b|EVAL return{redis.call('get','a')} 1 b",
    "EVAL return{redis.call('mget','b','bar')} 0|EVAL return{redis.call('mget','b','{b}x')} 1 bar",
    "EVAL redis.call('set','b',1)return{redis.call('get','bar')} 0|EVAL return{redis.call('select',1)} 0",
    "EVAL return{redis.pcall('get','c').err} 0|EVAL return{redis.call('spublish','c','x')} 0",
    "SPUBLISH c x|SPUBLISH b x|SSUBSCRIBE c|SSUBSCRIBE b bar|SSUBSCRIBE b {b}x b|SUNSUBSCRIBE c|SUNSUBSCRIBE b|SUNSUBSCRIBE",
    "PUBSUB SHARDCHANNELS|PUBSUB SHARDNUMSUB a c|PUBLISH c x|MULTI|SPUBLISH b x|SET bar 1|EXEC|SUBSCRIBE c|UNSUBSCRIBE",
    "CLUSTER MYID|CLUSTER KEYSLOT b|CLUSTER KEYSLOT|CLUSTER REPLICAS x|CLUSTER COUNT-FAILURE-REPORTS x|CLUSTER",
    "CLUSTER COUNTKEYSINSLOT 16384|CLUSTER COUNTKEYSINSLOT x|CLUSTER COUNTKEYSINSLOT -1|CLUSTER COUNTKEYSINSLOT 1|CLUSTER X",
    "CLUSTER GETKEYSINSLOT 16384 1|CLUSTER GETKEYSINSLOT 0 -1|CLUSTER GETKEYSINSLOT 0 x|CLUSTER GETKEYSINSLOT 3 0",
    "FLUSHALL|MSET {b}1 1 {b}2 2|CLUSTER COUNTKEYSINSLOT 3300|DEL {b}1|CLUSTER GETKEYSINSLOT 3300 9|KEYS *|RANDOMKEY|DBSIZE",
    "ASKING|READONLY|GET c|GET b|READWRITE|READONLY x|CONFIG GET cluster-enabled|RESET|ASKING|SCAN 0|FLUSHALL",
];

/// Conversations with a replica. Shard channels differ: here they stay at the primary.
const TO_REPLICA: &[&str] = &[
    "GET b|READONLY|GET b|MGET b {b}x|MGET b bar|SET b 1|GETDEL b|GET c|GET a|READWRITE|GET b|READONLY|RESET|GET b",
    "MULTI|GET b|EXEC|READONLY|MULTI|GET b|EXEC|MULTI|GET b|SET b 1|EXEC|MULTI|GET b|GET bar|EXEC|WATCH b|UNWATCH",
    "READONLY|EVAL return(1) 1 b|EVAL return{redis.call('get',KEYS[1])} 1 b|EVAL return{redis.call('get','c')} 1 b",
    "EVAL return(1) 1 b|READONLY|SORT b|SORT_RO b|PFCOUNT b|BITFIELD b GET u8 0|BITFIELD_RO b GET u8 0|GEORADIUS b 1 1 1 m",
    "SPUBLISH b x|SPUBLISH c x|SSUBSCRIBE b|SSUBSCRIBE c|SUNSUBSCRIBE|MULTI|SPUBLISH b x|EXEC|MULTI|SPUBLISH b x|SET b 1|EXEC",
    "READONLY|BLPOP b 0|OBJECT FREQ c|STRLEN b|DBSIZE|MULTI|READWRITE|GET b|EXEC|GET b",
];

/// Without `CLUSTER LINKS`: Redis lists the links that it is just opening to nodes that are not there.
fn compare(redis: &Redis, server: &Arc<Server>, lines: &str) {
    for version in ["2", "3"] {
        // HELLO's description of the server differs.
        let hello = format!("HELLO {version}\r\n");
        let input = format!("{hello}{}\r\n", lines.replace('|', "\r\n"));
        let after_hello = |all: &[u8]| {
            let text = String::from_utf8_lossy(all).into_owned();
            text[text.find("*0\r\n").expect("the modules")..].replace("\r\n", "¶")
        };
        let theirs = after_hello(&converse(redis.address, input.as_bytes()));
        let ours = after_hello(&replies(server, input.as_bytes()));
        assert_eq!(ours, theirs, "{version}: {lines}");
    }
}

#[test]
fn a_node_answers_as_a_node_of_redis_does() {
    for (me, conversations) in [(1, TO_PRIMARY), (2, TO_REPLICA)] {
        let Some((redis, server)) = pair(me) else { return };
        conversations.iter().for_each(|lines| compare(&redis, &server, lines));
        if me == 1 {
            compare_random(&redis, &server);
            compare_records(&redis, &server);
        }
    }
}

/// Random requests with one to three keys of a few, some in transactions.
fn compare_random(redis: &Redis, server: &Arc<Server>) {
    let keys = ["b", "{b}1", "{b}2", "bar", "x{bar}", "c", "{c}1", "foo", "a", "{}b", "k", ""];
    let seed = std::env::var("HOTRING_SEED").map_or(1, |seed| seed.parse().unwrap());
    println!("HOTRING_SEED={seed}");
    let mut rng = Rng::with_seed(seed);
    for _ in 0..100 {
        let mut lines = Vec::new();
        for _ in 0..20 {
            let [one, two, three] = [(); 3].map(|()| {
                let key = *rng.choice(&keys).unwrap();
                if key.is_empty() { "''" } else { key }
            });
            lines.push(match rng.u8(0..14) {
                0 => format!("GET {one}"),
                1 => format!("SET {one} 1"),
                2 => format!("MGET {one} {two} {three}"),
                3 => format!("DEL {one} {two}"),
                4 => format!("SINTERSTORE {one} {two} {three}"),
                5 => format!("LMOVE {one} {two} LEFT RIGHT"),
                6 => format!("EVAL return(1) 2 {one} {two}"),
                // Redis looks at the first source before the destination.
                7 => format!("ZINTERSTORE {one} 2 {one} {three}"),
                8 => format!("BITOP AND {one} {two} {three}"),
                9 => format!("SPUBLISH {one} x"),
                10 => format!("WATCH {one} {two}"),
                11 => "MULTI".to_owned(),
                12 => "EXEC".to_owned(),
                _ => "PING".to_owned(),
            });
        }
        compare(redis, server, &lines.join("|"));
    }
}

/// What a client reads about nodes and slots, without what hotring's nodes do not know of each other.
fn compare_records(redis: &Redis, server: &Arc<Server>) {
    let text = |line: &str| {
        let input = format!("{line}\r\n");
        let ours = replies(server, input.as_bytes());
        let theirs = converse(redis.address, input.as_bytes());
        [ours, theirs].map(|reply| String::from_utf8(reply).unwrap())
    };
    // Redis leaves out replicas without a known position.
    let replica = format!("*4\r\n$9\r\n127.0.0.1\r\n:7002\r\n$40\r\n{}\r\n*0\r\n", id(2));
    let [ours, theirs] = text("CLUSTER SLOTS");
    assert_eq!(ours.replace(&replica, "").replace("*4\r\n:0", "*3\r\n:0"), theirs);
    let lines = |reply: &str| {
        let known = |line: &str| {
            let mut fields: Vec<&str> = line.split(' ').collect();
            // Address without the bus, and no times or state of links.
            fields[1] = fields[1].split('@').next().unwrap();
            fields.drain(4..6);
            fields.remove(5);
            fields.join(" ")
        };
        let lines = reply.split('\n').skip(1).filter(|line| line.len() > 40);
        let mut lines: Vec<String> = lines.map(known).collect();
        lines.sort();
        lines
    };
    let [ours, theirs] = text("CLUSTER NODES");
    assert_eq!(lines(&ours), lines(&theirs));
    assert_eq!(lines(&ours).len(), 5);
    let shards = |reply: &str| {
        let reply = reply.replace("$7\r\nloading", "$6\r\nonline");
        let mut shards: Vec<String> = reply.split("*4\r\n$5\r\nslots").map(str::to_owned).collect();
        shards.sort();
        shards
    };
    let [ours, theirs] = text("CLUSTER SHARDS");
    assert_eq!(shards(&ours), shards(&theirs));
    let fields = |reply: &str| {
        let lines = reply.lines().filter(|line| !line.contains("messages"));
        lines.skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    let [ours, theirs] = text("CLUSTER INFO");
    // Redis calls a cluster without some slots healthy if it is told to; here it never is.
    let theirs = theirs.replace("cluster_state:ok", "cluster_state:fail");
    assert_eq!(fields(&ours), fields(&theirs));
}
