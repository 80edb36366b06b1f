//! A node of a cluster, whose clients of this protocol cannot be redirected.

use hotring_cluster::SlotSet;
use hotring_store::Watched;

use super::*;
use crate::exec::WaitEnd;
use crate::state::cluster::Held;
use crate::state::cluster::tests::{node, tenure, three_shards};
use crate::state::slot_accesses;

fn node_of(n: u8) -> Dialogue {
    let config = Config::default();
    let dialogue = Dialogue::of(Parts {
        memcached: Shared::new(Vec::new(), &config.memcached).unwrap(),
        ..Parts::of_node(Options::default(), config, node(n))
    });
    let cluster = dialogue.server.cluster.as_ref().unwrap();
    cluster.publish(three_shards());
    cluster.hear_tenure(tenure(&[(7, "0-5000")]), 7);
    dialogue
}

/// `b` is in slot 3300 and `bar` in 5061 of shard 1, `c` in 7365 of shard 2, `a` in 15495 of none.
#[test]
fn a_key_of_another_shard_is_refused_and_its_owner_named() {
    let owner = "SERVER_ERROR MOVED 7365 10.0.0.3:7003¶";
    let table = "
        set b 0 0 1¶1 -> STORED¶
        set bar 0 0 1¶2 -> STORED¶
        get b bar -> VALUE b 0 1¶1¶VALUE bar 0 1¶2¶END¶
        set c 0 0 1¶1 -> OWNER
        get c -> OWNER
        get b c bar -> OWNER
        mg {c}x v -> OWNER
        ms c 1¶1 -> OWNER
        incr c 1 -> OWNER
        delete c -> OWNER
        mg Yg== b v -> VA 1¶1¶
        mg Yw== b v -> OWNER
        ms Yw== 1 b¶1 -> OWNER
        mg Y b v -> CLIENT_ERROR error decoding key¶
        get a -> SERVER_ERROR CLUSTERDOWN Hash slot not served¶
        mn -> MN¶
        version -> VERSION 1.6.45¶
        redis> GET c -> -MOVED 7365 10.0.0.3:7003¶
        redis> GET b -> $1¶1¶
        ";
    node_of(1).play(&table.replace("OWNER", owner));
    // A replica answers reads of its shard, as this protocol has no word for their primary.
    node_of(2).play(&format!("get b -> END¶\nget c -> {owner}"));
    // The keys of this slot have not come yet.
    let primary = "SERVER_ERROR MOVED 5061 10.0.0.1:7001¶";
    node_of(2).play(&format!("get bar -> {primary}"));
}

/// A proxy speaks RESP first, and must get answers of primaries alone.
#[test]
fn a_connection_turns_to_this_protocol() {
    for (node, get) in [(1, "END\r\n"), (2, "SERVER_ERROR MOVED 3300 10.0.0.1:7001\r\n")] {
        let Dialogue { mut executor, server, now, .. } = node_of(node);
        let shared = server.clients.enter("peer".into(), "local".into(), 0);
        let mut conversation = Conversation::new(shared, &server);
        let mut ask = |input: &str| {
            let mut out = Vec::new();
            executor.feed(&mut conversation, input.as_bytes(), now, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(ask("hotring.memcached\r\n"), "+OK\r\n");
        assert_eq!(ask("get b\r\n"), get);
        assert_eq!(ask("mn\r\n"), "MN\r\n");
    }
}

#[test]
fn accesses_are_counted_by_slot() {
    let mut dialogue = node_of(1);
    dialogue.play(
        "set b 0 0 1¶1 -> STORED¶\nget b bar -> VALUE b 0 1¶1¶END¶\nversion -> VERSION 1.6.45¶",
    );
    let accesses = slot_accesses::all(dialogue.server.running_threads());
    assert_eq!((accesses[3300], accesses[5061], accesses.iter().sum()), (2, 1, 3));
}

#[test]
fn requests_for_slots_that_are_held_wait() {
    let mut dialogue = node_of(1);
    let server = dialogue.server.clone();
    let mut session = server.store.session();
    server.renew_grounds(&mut session);
    dialogue.play("set b 0 0 1¶1 -> STORED¶");
    let slots: SlotSet = "3300".parse().unwrap();
    for (request, reads) in [
        ("set b 0 0 1\r\n2\r\n", false),
        ("ms b 1\r\n2\r\n", false),
        ("ms Yg== 1 b\r\n2\r\n", false),
        ("delete b\r\n", false),
        ("flush_all\r\n", false),
        ("get b\r\n", true),
        ("mg b v\r\n", true),
    ] {
        let held = Held { slots: slots.clone(), reads: false };
        server.hold_slots(1, Some(held), &mut session);
        // What came before it in the batch takes effect.
        let input = format!("set bar 0 0 1\r\n1\r\n{request}get bar\r\n");
        let feed = |dialogue: &mut Dialogue, at: usize| {
            let (mut out, Dialogue { executor, memcached, now, .. }) = (Vec::new(), dialogue);
            let fed = executor.feed(memcached, &input.as_bytes()[at..], *now, &mut out);
            (fed.consumed, shown(out))
        };
        if reads {
            let (_, reply) = feed(&mut dialogue, 0);
            assert!(reply.contains("2¶") || reply.contains("END"), "reads go on: {reply}");
            server.hold_slots(1, Some(Held { slots: slots.clone(), reads }), &mut session);
        }
        let (at, reply) = feed(&mut dialogue, 0);
        assert_eq!((at, reply), (18, "STORED¶".into()), "{request}");
        let waits = dialogue.executor.poll_wait(&dialogue.memcached, dialogue.now);
        assert_ne!(waits, Watched::Fired, "{request}");
        server.hold_slots(1, None, &mut session);
        let Dialogue { executor, memcached, now, .. } = &mut dialogue;
        assert_eq!(executor.poll_wait(memcached, *now), Watched::Fired);
        executor.end_wait(memcached, WaitEnd::Fired, *now, &mut Vec::new());
        let (consumed, reply) = feed(&mut dialogue, at);
        assert_eq!(at + consumed, input.len(), "{request}: {reply}");
        assert!(!reply.contains("ERROR"), "{request}: {reply}");
    }
    // Each request counts once, also if it waited: two a round, and two more where reads went on first.
    assert_eq!(slot_accesses::all(server.running_threads())[5061], 7 * 2 + 2 * 2);
}
