//! What a node of a cluster answers: redirections, and the commands of cluster clients.

use std::any::Any;
use std::sync::Arc;

use hotring_cluster::directory::Directory;
use hotring_cluster::slot_of;
use hotring_protocol::Version;
use hotring_store::Options;

use crate::exec::dialogue::{Dialogue, play, play_to};
use crate::host::fiber::{Batch, Fiber, Step};
use crate::settings::config::{
    ClusterSettings, Config, CoordinatorAddress, ReplicationSettings, Source,
};
use crate::state::client::KILLED;
use crate::state::cluster::tests::{node, tenure, three_shards};
use crate::state::server::{Parts, Server};

pub(super) fn node_of(n: u8, version: Version) -> Dialogue {
    Dialogue::of_node(version, node(n), three_shards())
}

/// Plays a table to node 1, the primary of shard 1.
#[track_caller]
fn play_to_primary(table: &str) {
    play_to(|version| node_of(1, version), table);
}

/// The replies of Redis 7.0 without a cluster. Clients treat them differently from an unknown command.
#[test]
fn cluster_commands_are_refused_as_by_redis_without_a_cluster() {
    play(
        "
        CLUSTER INFO            -> -ERR This instance has cluster support disabled¶
        cluster myid            -> -ERR This instance has cluster support disabled¶
        CLUSTER KEYSLOT a       -> -ERR This instance has cluster support disabled¶
        CLUSTER NODES           -> -ERR This instance has cluster support disabled¶
        CLUSTER HELP            -> -ERR This instance has cluster support disabled¶
        CLUSTER MEET 1 2        -> -ERR This instance has cluster support disabled¶
        CLUSTER COUNTKEYSINSLOT 1 -> -ERR This instance has cluster support disabled¶
        CLUSTER SHARDS          -> -ERR This instance has cluster support disabled¶
        READONLY                -> -ERR This instance has cluster support disabled¶
        READWRITE               -> -ERR This instance has cluster support disabled¶
        ASKING                  -> -ERR This instance has cluster support disabled¶
        CLUSTER                 -> -ERR wrong number of arguments for 'cluster' command¶
        CLUSTER KEYSLOT         -> -ERR wrong number of arguments for 'cluster|keyslot' command¶
        CLUSTER NONSENSE        -> -ERR unknown subcommand 'NONSENSE'. Try CLUSTER HELP.¶
        CONFIG GET cluster-enabled -> *2¶$15¶cluster-enabled¶$2¶no¶ | %1¶$15¶cluster-enabled¶$2¶no¶
        MGET a b c              -> *3¶$-1¶$-1¶$-1¶ | *3¶_¶_¶_¶
        ",
    );
}

/// `a` is in slot 15495, `b` in 3300, `c` in 7365, `bar` in 5061, `foo` in 12182.
#[test]
fn a_request_is_served_or_sent_to_its_shard() {
    let across = "-CROSSSLOT Keys in request don't hash to the same slot¶";
    let table = "
        SET b 1                 -> +OK¶
        GET b                   -> $1¶1¶
        GET c                   -> -MOVED 7365 10.0.0.3:7003¶
        SET c 1                 -> -MOVED 7365 10.0.0.3:7003¶
        GET foo                 -> -MOVED 12182 10.0.0.5:7005¶
        GET a                   -> -CLUSTERDOWN Hash slot not served¶
        GET {c}x                -> -MOVED 7365 10.0.0.3:7003¶
        SET {b}x 2              -> +OK¶
        MGET b {b}x             -> *2¶$1¶1¶$1¶2¶
        MGET b bar              -> ACROSS
        MGET b c                -> ACROSS
        MGET c b                -> ACROSS
        MGET a b                -> -CLUSTERDOWN Hash slot not served¶
        MGET b a                -> ACROSS
        MGET c {c}              -> -MOVED 7365 10.0.0.3:7003¶
        MSET b 1 c 2            -> ACROSS
        MSET b c {b} a          -> +OK¶
        SET b 1                 -> +OK¶
        DEL c {b}               -> ACROSS
        RENAME b bar            -> ACROSS
        RENAME b {b}y           -> +OK¶
        ZUNIONSTORE b 1 c       -> ACROSS
        ZUNIONSTORE c 1 {c}     -> -MOVED 7365 10.0.0.3:7003¶
        SORT b STORE c          -> ACROSS
        SORT b STORE {b}z       -> :0¶
        BLPOP c 0               -> -MOVED 7365 10.0.0.3:7003¶
        BLPOP b bar 0           -> ACROSS
        WATCH b bar             -> ACROSS
        WATCH c                 -> -MOVED 7365 10.0.0.3:7003¶
        OBJECT ENCODING c       -> -MOVED 7365 10.0.0.3:7003¶
        XX c                    -> -ERR unknown command 'XX', with args beginning with: 'c' ¶
        GET                     -> -ERR wrong number of arguments for 'get' command¶
        DBSIZE                  -> :3¶
        FLUSHALL                -> +OK¶
        RANDOMKEY               -> $-1¶ | _¶
        ";
    play_to_primary(&table.replace("ACROSS", across));
}

/// Only the misplaced requests of a batch are refused, and the others take effect in order.
#[test]
fn a_batch_may_have_misplaced_requests_anywhere() {
    for n in [1, 3, 64, 100, 200] {
        for misplaced in [0, n / 2, n - 1] {
            let mut dialogue = node_of(1, Version::Resp2);
            let line = |i| if i == misplaced { "INCR c" } else { "INCR b" };
            let lines: Vec<&str> = (0..n).map(line).collect();
            let mut sum = 0;
            let reply = |i| {
                sum += i32::from(i != misplaced);
                if i == misplaced {
                    "-MOVED 7365 10.0.0.3:7003¶".into()
                } else {
                    format!(":{sum}¶")
                }
            };
            let replies: String = (0..n).map(reply).collect();
            assert_eq!(dialogue.say(&lines.join("\r\n")), replies, "{misplaced} of {n}");
            let errors = dialogue.say("INFO errorstats");
            assert!(errors.contains("errorstat_MOVED:count=1¶"), "{errors}");
        }
    }
}

#[test]
fn the_commands_of_a_transaction_are_checked_when_queued_and_together() {
    play_to_primary(
        "
        MULTI                   -> +OK¶
        SET b 1                 -> +QUEUED¶
        GET {b}x                -> +QUEUED¶
        EXEC                    -> *2¶+OK¶$-1¶ | *2¶+OK¶_¶
        MULTI                   -> +OK¶
        SET b 2                 -> +QUEUED¶
        SET c 2                 -> -MOVED 7365 10.0.0.3:7003¶
        SET b 3                 -> +QUEUED¶
        EXEC                    -> -EXECABORT Transaction discarded because of previous errors.¶
        MULTI                   -> +OK¶
        SET b 4                 -> +QUEUED¶
        SET bar 4               -> +QUEUED¶
        EXEC                    -> -CROSSSLOT Keys in request don't hash to the same slot¶
        EXEC                    -> -ERR EXEC without MULTI¶
        GET b                   -> $1¶1¶
        MULTI                   -> +OK¶
        MGET b bar              -> -CROSSSLOT Keys in request don't hash to the same slot¶
        EXEC                    -> -EXECABORT Transaction discarded because of previous errors.¶
        MULTI                   -> +OK¶
        PING                    -> +QUEUED¶
        SET b 5                 -> +QUEUED¶
        DBSIZE                  -> +QUEUED¶
        EXEC                    -> *3¶+PONG¶+OK¶:1¶
        ",
    );
}

/// The slot goes to another shard between MULTI and EXEC.
#[test]
fn exec_looks_at_the_present_table() {
    let mut dialogue = node_of(1, Version::Resp2);
    assert_eq!(dialogue.say("MULTI\r\nSET b 1"), "+OK¶+QUEUED¶");
    publish(&dialogue, |directory| directory.owners.give(3300, 2));
    assert_eq!(dialogue.say("EXEC"), "-MOVED 3300 10.0.0.3:7003¶");
    assert_eq!(dialogue.say("EXEC"), "-ERR EXEC without MULTI¶");
    publish(&dialogue, |_| ());
    assert_eq!(dialogue.say("GET b"), "$-1¶");
}

pub(super) fn publish(dialogue: &Dialogue, change: impl FnOnce(&mut Directory)) {
    let mut directory = three_shards();
    change(&mut directory);
    dialogue.server().cluster.as_ref().unwrap().publish(directory);
}

#[test]
fn a_publication_is_seen_by_the_next_batch() {
    let mut dialogue = node_of(1, Version::Resp2);
    assert_eq!(dialogue.say("SET b 1"), "+OK¶");
    publish(&dialogue, |directory| directory.owners.give(3300, 3));
    assert_eq!(dialogue.say("GET b"), "-MOVED 3300 10.0.0.5:7005¶");
    publish(&dialogue, |directory| {
        let shard = &mut directory.shards.get_mut(&1).unwrap().1;
        (shard.primary.node, shard.replicas) = (node(2), vec![node(1)]);
    });
    assert_eq!(dialogue.say("GET b"), "-MOVED 3300 10.0.0.2:7002¶");
    publish(&dialogue, |directory| drop(directory.shards.remove(&1)));
    assert_eq!(dialogue.say("GET b"), "-CLUSTERDOWN Hash slot not served¶");
    assert_eq!(dialogue.say("GET c"), "-MOVED 7365 10.0.0.3:7003¶");
    publish(&dialogue, |_| ());
    assert_eq!(dialogue.say("GET b"), "$1¶1¶");
}

/// The records name it as the primary before it has taken over: what it has may be older than what was acknowledged.
#[test]
fn a_primary_by_the_records_alone_answers_nothing() {
    let mut dialogue = node_of(1, Version::Resp2);
    assert_eq!(dialogue.say("SET b 1"), "+OK¶");
    let server = dialogue.server();
    let source = Source { host: "127.0.0.1".into(), port: 1 };
    server.follow(source, &mut server.store.session());
    for line in ["GET b", "SET b 2"] {
        let refused = dialogue.say(line);
        let not_yet = "-CLUSTERDOWN This node is not the primary of its shard yet: try again.";
        assert!(refused.starts_with(not_yet), "{refused}");
    }
    assert_eq!(dialogue.say("GET c"), "-MOVED 7365 10.0.0.3:7003¶");
    assert_eq!(dialogue.say("READONLY\r\nGET b"), "+OK¶$1¶1¶");
    assert_eq!(dialogue.say("SPUBLISH b x"), ":0¶", "messages are no data");
    assert_eq!(server.promote(&mut server.store.session(), true), Ok(()));
    assert_eq!(dialogue.say("SET b 2\r\nGET b"), "+OK¶$1¶2¶");
}

/// What walks over all keys has none that could be looked up in the table of slots, so a node that may have missed
/// acknowledged writes went on to show its keys.
#[test]
fn a_node_that_may_not_answer_shows_none_of_its_keys() {
    let config = Config {
        replication: ReplicationSettings {
            cluster: ClusterSettings {
                coordinator: Some(CoordinatorAddress::Embedded),
                ..ClusterSettings::default()
            },
            ..ReplicationSettings::default()
        },
        ..Config::default()
    };
    let server = Arc::new(Server::new(Parts::of_node(Options::default(), config, node(2))));
    let cluster = server.cluster.as_ref().unwrap();
    cluster.publish(three_shards());
    cluster.hear_tenure(tenure(&[(0, "0-16383")]), 0);
    let down = "-CLUSTERDOWN This node has not heard the other copies of its data for too long, or has no role yet¶";
    let table = "
        READONLY                -> +OK¶
        GET b                   -> DOWN
        SCAN 0                  -> DOWN
        KEYS *                  -> DOWN
        DBSIZE                  -> DOWN
        RANDOMKEY               -> DOWN
        FLUSHALL                -> DOWN
        FLUSHDB                 -> DOWN
        CLUSTER COUNTKEYSINSLOT 3300 -> DOWN
        CLUSTER GETKEYSINSLOT 3300 1 -> DOWN
        PING                    -> +PONG¶
        PUBLISH b 1             -> :0¶
        CLUSTER KEYSLOT b       -> :3300¶
        MULTI                   -> +OK¶
        PING                    -> +QUEUED¶
        KEYS *                  -> DOWN
        EXEC                    -> -EXECABORT Transaction discarded because of previous errors.¶
        ";
    play_to(|version| Dialogue::begin(server.clone(), version), &table.replace("DOWN", down));
    let mut dialogue = Dialogue::begin(server, Version::Resp2);
    let script = dialogue.say("EVAL \"return redis.call('DBSIZE')\" 0");
    assert!(script.starts_with("-CLUSTERDOWN"), "{script}");
    assert!(dialogue.say("LOLWUT").contains("hotring"));
}

#[test]
fn clients_over_tls_are_sent_to_ports_of_tls() {
    let mut dialogue = node_of(1, Version::Resp2);
    dialogue.client().uses_tls = true;
    assert_eq!(dialogue.say("GET c"), "-MOVED 7365 10.0.0.3:7443¶");
    assert_eq!(dialogue.say("GET foo"), "-MOVED 12182 10.0.0.5:7005¶");
    assert!(dialogue.say("CLUSTER SLOTS").contains("$8¶10.0.0.3¶:7443¶"));
    assert!(dialogue.say("CLUSTER NODES").contains(" 10.0.0.3:7443@17443 master "));
    dialogue.client().uses_tls = false;
    assert!(dialogue.say("CLUSTER SLOTS").contains("$8¶10.0.0.3¶:7003¶"));
}

#[test]
fn a_script_stays_within_its_node_and_its_slot() {
    let ask = |line: &str| {
        let reply = node_of(1, Version::Resp2).say(line);
        reply.split(" script: ").next().unwrap().to_owned()
    };
    let across = "-ERR Script attempted to access keys that do not hash to the same slot";
    let not_local = "-ERR Script attempted to access a non local key in a cluster node";
    assert_eq!(ask("EVAL 'return 1' 1 c"), "-MOVED 7365 10.0.0.3:7003¶");
    assert_eq!(ask("EVALSHA 0 2 b c"), "-CROSSSLOT Keys in request don't hash to the same slot¶");
    assert_eq!(ask("EVAL \"return redis.call('set',KEYS[1],1)\" 1 b"), "+OK¶");
    for call in ["call('get','c')", "call('get','foo')", "call('get','a')"] {
        assert_eq!(ask(&format!("EVAL \"return redis.{call}\" 1 bar")), not_local, "{call}");
    }
    assert_eq!(ask("EVAL \"return redis.call('mget','b','bar')\" 0"), not_local);
    // As in Redis, a script without a line of flags may use several slots of the node.
    let two = "redis.call('set','b',1) return redis.call('get','bar')";
    assert_eq!(ask(&format!("EVAL \"{two}\" 0")), "$-1¶");
    let flagged = |flags: &str, n: &str| format!("EVAL \"#!lua{flags}\\n{two}\" {n}");
    assert_eq!(ask(&flagged("", "0")), across);
    assert_eq!(ask(&flagged("", "1 {b}x")), across);
    assert_eq!(ask(&flagged("", "1 bar")), across);
    assert_eq!(ask(&flagged(" flags=allow-cross-slot-keys", "0")), "$-1¶");
    let refused = "-ERR Can not run script on cluster, 'no-cluster' flag is set.¶";
    assert_eq!(ask(&flagged(" flags=no-cluster", "1 b")), refused);
    let mut unclustered = Dialogue::new(Version::Resp2);
    assert_eq!(unclustered.say(&flagged(" flags=no-cluster", "1 b")), "$-1¶");
    assert_eq!(unclustered.say(&flagged("", "0")), "$-1¶");
}

#[test]
fn what_needs_several_slots_or_databases_is_refused() {
    play_to_primary(
        "
        SELECT 0                -> +OK¶
        SELECT 1                -> -ERR SELECT is not allowed in cluster mode¶
        SELECT 99               -> -ERR SELECT is not allowed in cluster mode¶
        SELECT x                -> -ERR value is not an integer or out of range¶
        MOVE b 1                -> -ERR MOVE is not allowed in cluster mode¶
        SWAPDB 0 1              -> -ERR SWAPDB is not allowed in cluster mode¶
        COPY b {b}x DB 1        -> -ERR Copying to another database is not allowed in cluster mode¶
        COPY b {b}x DB 0        -> :0¶
        COPY b bar              -> -CROSSSLOT Keys in request don't hash to the same slot¶
        SORT b BY x*            -> -ERR BY option of SORT denied in Cluster mode.¶
        SORT b BY nosort        -> *0¶
        SORT b GET #            -> -ERR GET option of SORT denied in Cluster mode.¶
        SORT_RO b GET x*        -> -ERR GET option of SORT denied in Cluster mode.¶
        ",
    );
}

#[test]
fn shard_channels_are_routed_by_their_slots() {
    play_to_primary(
        "
        SPUBLISH c x            -> -MOVED 7365 10.0.0.3:7003¶
        SSUBSCRIBE c            -> -MOVED 7365 10.0.0.3:7003¶
        SSUBSCRIBE b bar        -> -CROSSSLOT Keys in request don't hash to the same slot¶
        SSUBSCRIBE b {b}x       -> *3¶$10¶ssubscribe¶$1¶b¶:1¶*3¶$10¶ssubscribe¶$4¶{b}x¶:2¶ | >3¶$10¶ssubscribe¶$1¶b¶:1¶>3¶$10¶ssubscribe¶$4¶{b}x¶:2¶
        SUNSUBSCRIBE c          -> -MOVED 7365 10.0.0.3:7003¶
        SUNSUBSCRIBE b          -> *3¶$12¶sunsubscribe¶$1¶b¶:1¶ | >3¶$12¶sunsubscribe¶$1¶b¶:1¶
        SUNSUBSCRIBE            -> *3¶$12¶sunsubscribe¶$4¶{b}x¶:0¶ | >3¶$12¶sunsubscribe¶$4¶{b}x¶:0¶
        PUBLISH c x             -> :0¶
        PUBSUB SHARDCHANNELS    -> *0¶
        ",
    );
}

/// In Redis each channel ends with a message, but the connection stays.
#[test]
fn listeners_are_closed_once_their_channel_has_another_node() {
    for is_idle in [true, false] {
        let mut listener = node_of(1, Version::Resp2);
        let mut other = listener.with_version(Version::Resp2);
        let is_killed = |listener: &mut Dialogue| listener.client().shared.signals() & KILLED != 0;
        listener.say("SSUBSCRIBE b");
        other.say("SSUBSCRIBE bar");
        publish(&listener, |directory| directory.owners.give(3300, 2));
        match is_idle {
            true => other.idle(),
            false => drop(other.say("PING")),
        }
        assert!(is_killed(&mut listener) && !is_killed(&mut other), "{is_idle}");
        // The other one's node becomes a replica, to which messages come as well, and leaves the shard then.
        let replicas = |dialogue: &Dialogue, replicas: Vec<_>| {
            publish(dialogue, |directory| {
                let shard = &mut directory.shards.get_mut(&1).unwrap().1;
                (shard.primary.node, shard.replicas) = (node(2), replicas);
            });
        };
        replicas(&other, vec![node(1)]);
        other.idle();
        assert!(!is_killed(&mut other));
        replicas(&other, Vec::new());
        other.idle();
        assert!(is_killed(&mut other));
    }
}

#[test]
fn the_records_are_shown_as_clients_read_them() {
    let [one, two, three, four, five] = [1, 2, 3, 4, 5].map(|n| node(n).to_string());
    let mut dialogue = node_of(1, Version::Resp2);
    let lines = [
        format!("{one} 10.0.0.1:7001@17001 myself,master - 0 0 1 connected 0-5460"),
        format!("{two} 10.0.0.2:7002@17002 slave {one} 0 0 1 connected"),
        format!("{three} 10.0.0.3:7003@17003 master - 0 0 2 connected 5461-10921"),
        format!("{four} 10.0.0.4:7004@17004 slave,fail {three} 0 0 2 disconnected"),
        format!("{five} 10.0.0.5:7005@17005 master - 0 0 3 connected 10922-14999"),
    ];
    let nodes = lines.iter().map(|line| format!("{line}\n")).collect::<String>();
    assert_eq!(dialogue.say("CLUSTER NODES"), format!("${}¶{nodes}¶", nodes.len()));
    let [_, second, ..] = &lines;
    let replicas = format!("*1¶${}¶{second}¶", second.len());
    assert_eq!(dialogue.say(&format!("CLUSTER REPLICAS {one}")), replicas);
    assert_eq!(dialogue.say(&format!("CLUSTER SLAVES {}", one.to_uppercase())), replicas);
    assert_eq!(dialogue.say(&format!("CLUSTER REPLICAS {five}")), "*0¶");
    let no_primary = "-ERR The specified node is not a master¶";
    assert_eq!(dialogue.say(&format!("CLUSTER REPLICAS {two}")), no_primary);
    assert_eq!(dialogue.say("CLUSTER REPLICAS x"), "-ERR Unknown node x¶");
    let reports =
        format!("CLUSTER COUNT-FAILURE-REPORTS {four}\r\nCLUSTER COUNT-FAILURE-REPORTS x");
    assert_eq!(dialogue.say(&reports), ":0¶-ERR Unknown node x¶");
    let entry = |n: u8, id: &str| format!("*4¶$8¶10.0.0.{n}¶:700{n}¶$40¶{id}¶*0¶");
    let slots = format!(
        "*3¶*4¶:0¶:5460¶{}{}*3¶:5461¶:10921¶{}*3¶:10922¶:14999¶{}",
        entry(1, &one),
        entry(2, &two),
        entry(3, &three),
        entry(5, &five)
    );
    assert_eq!(dialogue.say("CLUSTER SLOTS"), slots);
    assert_eq!(dialogue.say("CLUSTER MYID"), format!("$40¶{one}¶"));
    assert_eq!(dialogue.say("CLUSTER MYSHARDID"), format!("$40¶{:040}¶", 1));
    assert_eq!(dialogue.say("CLUSTER LINKS"), "*0¶");
    let shards = dialogue.say("CLUSTER SHARDS");
    let fourth = format!(
        "*14¶$2¶id¶$40¶{four}¶$4¶port¶:7004¶$2¶ip¶$8¶10.0.0.4¶$8¶endpoint¶$8¶10.0.0.4¶$4¶role¶\
         $7¶replica¶$18¶replication-offset¶:0¶$6¶health¶$4¶fail¶"
    );
    assert!(shards.starts_with("*3¶*4¶$5¶slots¶*2¶:0¶:5460¶$5¶nodes¶*2¶*14¶"), "{shards}");
    assert!(shards.contains(&fourth) && shards.contains("¶$8¶tls-port¶:7443¶"), "{shards}");
    assert!(dialogue.say("HELLO 3").contains("$4¶mode¶$7¶cluster¶"));
    assert!(dialogue.say("INFO cluster").contains("cluster_enabled:1¶"));
    assert!(dialogue.say("INFO server").contains("redis_mode:cluster¶"));
    let enabled = "%1¶$15¶cluster-enabled¶$3¶yes¶";
    assert_eq!(dialogue.say("CONFIG GET cluster-enabled"), enabled);
    assert!(dialogue.say("CLUSTER HELP").starts_with("*"));
    assert_eq!(dialogue.say("ASKING"), "+OK¶");
}

#[test]
fn a_cluster_is_ok_once_every_slot_has_a_living_primary() {
    let mut dialogue = node_of(1, Version::Resp2);
    let info = dialogue.say("CLUSTER INFO");
    for line in ["state:fail", "slots_assigned:15000", "slots_ok:15000", "known_nodes:5", "size:3"]
    {
        assert!(info.contains(&format!("cluster_{line}¶")), "{line}: {info}");
    }
    publish(&dialogue, |directory| {
        (15_000..16_384).for_each(|slot| directory.owners.give(slot, 3))
    });
    let info = dialogue.say("CLUSTER INFO");
    for line in ["state:ok", "slots_ok:16384", "slots_fail:0", "current_epoch:3", "my_epoch:1"] {
        assert!(info.contains(&format!("cluster_{line}¶")), "{line}: {info}");
    }
    publish(&dialogue, |directory| {
        (15_000..16_384).for_each(|slot| directory.owners.give(slot, 3));
        directory.alive.remove(&node(3));
    });
    let info = dialogue.say("CLUSTER INFO");
    assert!(info.contains("state:fail¶") && info.contains("cluster_slots_fail:5461¶"), "{info}");
    // Before the node has seen any records.
    publish(&dialogue, |directory| *directory = Directory::default());
    let port = dialogue.server().settings.config().port;
    let line = format!("{} :{port}@{} myself,master - 0 0 0 connected\n", node(1), port + 10_000);
    assert_eq!(dialogue.say("CLUSTER NODES"), format!("${}¶{line}¶", line.len()));
    assert_eq!(dialogue.say("CLUSTER SLOTS\r\nCLUSTER SHARDS"), "*0¶*0¶");
    let no_shard = "-ERR This node belongs to no shard yet¶";
    assert_eq!(dialogue.say("CLUSTER MYSHARDID"), no_shard);
    assert_eq!(dialogue.say("GET b"), "-CLUSTERDOWN Hash slot not served¶");
}

/// The accesses of a slot, as the node tells them.
pub(super) fn accesses(dialogue: &mut Dialogue, slot: u16) -> String {
    let told = dialogue.say(&format!("CLUSTER SLOT-STATS SLOTSRANGE {slot} {slot} accesses"));
    let number = told.strip_prefix(&format!("*1¶*2¶:{slot}¶*2¶$8¶accesses¶:"));
    number.and_then(|number| number.strip_suffix('¶')).unwrap_or(&told).to_string()
}

#[test]
fn accesses_are_counted_by_slot_until_the_counters_are_reset() {
    let mut dialogue = node_of(1, Version::Resp2);
    assert_eq!(accesses(&mut dialogue, 3300), "0");
    // Each key counts; a key of another shard is not used here.
    dialogue.say("SET b 1\r\nGET b\r\nMGET b {b}x {b}y\r\nGET bar\r\nMGET b c\r\nGET c\r\nPING");
    assert_eq!(accesses(&mut dialogue, 3300), "5");
    assert_eq!(accesses(&mut dialogue, 5061), "1");
    let most = dialogue.say("CLUSTER SLOT-STATS ORDERBY accesses LIMIT 2");
    assert!(most.starts_with("*2¶*2¶:3300¶") && most.contains("*2¶:5061¶"), "{most}");
    let many = "GET b\r\n".repeat(64);
    (0..200).for_each(|_| _ = dialogue.say(&many));
    // More than are noted: about what there were.
    let counted: f64 = accesses(&mut dialogue, 3300).parse().unwrap();
    assert!((0.8..1.2).contains(&(counted / 12_805.0)), "{counted}");
    assert_eq!(dialogue.say("CONFIG RESETSTAT"), "+OK¶");
    assert_eq!(accesses(&mut dialogue, 3300), "0");
}

#[test]
fn the_keys_of_a_slot_are_found_by_a_walk() {
    let mut dialogue = node_of(1, Version::Resp2);
    let sets: Vec<String> = (0..3_000).map(|i| format!("SET {{b}}{i} 1")).collect();
    assert_eq!(dialogue.say(&sets.join("\r\n")), "+OK¶".repeat(3_000));
    assert_eq!(dialogue.say("SET bar 1"), "+OK¶");
    assert_eq!(dialogue.say("CLUSTER COUNTKEYSINSLOT 3300"), ":3000¶");
    assert_eq!(dialogue.say("CLUSTER COUNTKEYSINSLOT 5061"), ":1¶");
    assert_eq!(dialogue.say("CLUSTER GETKEYSINSLOT 5061 10"), "*1¶$3¶bar¶");
    assert_eq!(dialogue.say("CLUSTER GETKEYSINSLOT 3300 0"), "*0¶");
    let some = dialogue.say("CLUSTER GETKEYSINSLOT 3300 7");
    let keys: Vec<&str> = some.split('¶').filter(|part| part.starts_with('{')).collect();
    assert!(some.starts_with("*7¶") && keys.len() == 7, "{some}");
    assert!(keys.iter().all(|key| slot_of(key.as_bytes()) == 3300));
    let stats = dialogue.say("CLUSTER SLOT-STATS SLOTSRANGE 3299 3300");
    let begin = "*2¶*2¶:3299¶*6¶$9¶key-count¶:0¶$12¶memory-bytes¶:0¶$8¶accesses¶:0¶*2¶:3300¶*6¶$9¶key-count¶:3000¶";
    assert!(stats.starts_with(begin) && !stats[begin.len()..].contains("¶:0¶"), "{stats}");
    let most = dialogue.say("CLUSTER SLOT-STATS ORDERBY key-count LIMIT 2");
    assert!(most.starts_with("*2¶*2¶:3300¶") && most.contains("*2¶:5061¶"), "{most}");
    let least = dialogue.say("CLUSTER SLOT-STATS orderby memory-bytes asc limit 1");
    assert!(least.starts_with("*1¶*2¶:0¶"), "{least}");
    // It has the slots up to 5460.
    assert_eq!(dialogue.say("CLUSTER SLOT-STATS SLOTSRANGE 5461 16383"), "*0¶");
    play_to_primary(
        "
        CLUSTER SLOT-STATS SLOTSRANGE 2 1       -> -ERR Start slot number 2 is greater than end slot number 1¶
        CLUSTER SLOT-STATS SLOTSRANGE 2 16384   -> -ERR Invalid or out of range slot¶
        CLUSTER SLOT-STATS SLOTSRANGE 2         -> -ERR syntax error¶
        CLUSTER SLOT-STATS SLOTSRANGE 2 3 KEYS  -> -ERR syntax error¶
        CLUSTER SLOT-STATS ORDERBY cpu-usec     -> -ERR Unrecognized sort metric for ORDERBY.¶
        CLUSTER SLOT-STATS ORDERBY key-count LIMIT 0 -> -ERR Limit has to lie in between 1 and 16384 (maximum number of slots).¶
        CLUSTER SLOT-STATS ORDERBY key-count up -> -ERR syntax error¶
        CLUSTER COUNTKEYSINSLOT 0       -> :0¶
        CLUSTER COUNTKEYSINSLOT 16384   -> -ERR Invalid slot¶
        CLUSTER COUNTKEYSINSLOT -1      -> -ERR Invalid slot¶
        CLUSTER COUNTKEYSINSLOT x       -> -ERR value is not an integer or out of range¶
        CLUSTER GETKEYSINSLOT 16384 1   -> -ERR Invalid slot or number of keys¶
        CLUSTER GETKEYSINSLOT 0 -1      -> -ERR Invalid slot or number of keys¶
        CLUSTER GETKEYSINSLOT 0 x       -> -ERR value is not an integer or out of range¶
        CLUSTER KEYSLOT b               -> :3300¶
        CLUSTER KEYSLOT x{b}y           -> :3300¶
        ",
    );
}

/// A client, and the reply to its request.
struct Count(Dialogue, String);

impl Batch for Count {
    fn run(&mut self) {
        self.1 = self.0.say("CLUSTER COUNTKEYSINSLOT 3300");
    }
}

#[test]
fn a_walk_over_many_keys_gives_other_connections_their_turns() {
    let mut dialogue = node_of(1, Version::Resp2);
    let sets: Vec<String> = (0..20_000).map(|i| format!("SET {{b}}{i} 1")).collect();
    // A turn ends after 64 KiB of input.
    sets.chunks(1_000).for_each(|sets| _ = dialogue.say(&sets.join("\r\n")));
    let mut fiber = Fiber::new();
    let (mut step, mut turns) = (fiber.start(Box::new(Count(dialogue, String::new()))), 0);
    let done = loop {
        match step {
            Step::Done(work) => break work,
            Step::Turn => (step, turns) = (fiber.resume(), turns + 1),
            Step::Asks | Step::Waits => panic!("nobody holds a key"),
        }
    };
    let work: Box<dyn Any> = done;
    assert_eq!(work.downcast::<Count>().unwrap().1, ":20000¶");
    assert!(turns >= 3, "{turns} turns");
}

#[test]
fn what_changes_the_layout_by_hand_names_the_command_to_use() {
    let mut dialogue = node_of(1, Version::Resp2);
    for (line, instead) in [
        ("ADDSLOTS 1", "hotring cluster create"),
        ("addslotsrange 1 2", "hotring cluster create"),
        ("DELSLOTS 1", "hotring cluster create"),
        ("DELSLOTSRANGE 1 2", "hotring cluster create"),
        ("FLUSHSLOTS", "hotring cluster create"),
        ("SETSLOT 1 STABLE", "hotring cluster move"),
        ("MEET 10.0.0.9 7000", "hotring cluster add"),
        ("REPLICATE x", "hotring cluster add"),
        ("FORGET x", "hotring cluster remove"),
        ("RESET", "hotring cluster drain"),
        ("BUMPEPOCH", "CLUSTER FAILOVER"),
        ("SET-CONFIG-EPOCH 1", "CLUSTER FAILOVER"),
        ("SAVECONFIG", "hotring cluster status"),
    ] {
        let name = line.split(' ').next().unwrap().to_uppercase();
        let reply = dialogue.say(&format!("CLUSTER {line}"));
        assert!(reply.starts_with(&format!("-ERR CLUSTER {name} is not used here")), "{reply}");
        assert!(reply.contains(instead), "{reply}");
    }
    let reply = dialogue.say("CLUSTER FAILOVER");
    assert!(reply.contains("send FAILOVER TO host port"), "{reply}");
    assert_eq!(dialogue.say("CLUSTER FAILOVER NOW"), "-ERR syntax error¶");
    let reply = dialogue.say("CLUSTER FAILOVER FORCE");
    assert_eq!(reply, "-ERR You should send CLUSTER FAILOVER to a replica¶");
}
