//! A node of a cluster. `b` is in slot 3300 of shard 1, `c` in 7365 of shard 2, `a` in 15495 of none.

use hotring_cluster::SlotSet;
use hotring_store::Session;

use super::*;
use crate::state::cluster::Held as HeldSlots;
use crate::state::cluster::tests::{node, three_shards};

fn node_of(n: u8) -> Dialogue {
    let dialogue = Dialogue::of(Parts::of_node(Options::default(), Config::default(), node(n)));
    dialogue.server.cluster.as_ref().expect("it is a node").publish(three_shards());
    dialogue
}

#[test]
fn a_key_of_another_shard_is_refused_and_its_owner_named() {
    let mut d = node_of(1);
    assert_eq!(d.set("b", "1").status, Status::Done);
    let get = |key: &'static [u8]| Operation::Get { key };
    let given = d.run(&[get(b"b"), get(b"c"), get(b"a")]).expect("it is not held back");
    assert_eq!(given[0].value, b"1");
    assert_eq!(given[1].value, b"MOVED 7365 10.0.0.3:7003");
    assert_eq!(given[2].value, b"CLUSTERDOWN Hash slot not served");
    // Only the primary answers.
    assert_eq!(node_of(2).say(get(b"b")).1, "MOVED 3300 10.0.0.1:7001");
    assert!(d.redis("INFO errorstats").contains("errorstat_MOVED:count=1"));
}

#[test]
fn a_slot_that_is_about_to_move_holds_requests_back() {
    let mut d = node_of(1);
    let server = d.server.clone();
    let mut session = server.store.session();
    server.renew_grounds(&mut session);
    let version = d.set("b", "1").version;
    let slots: SlotSet = "3300".parse().expect("a slot");
    let hold = |reads, session: &mut Session| {
        server.hold_slots(1, Some(HeldSlots { slots: slots.clone(), reads }), session);
    };
    hold(false, &mut session);
    let add = Operation::Increment { key: b"b", by: 1 };
    assert_eq!(d.run(&[Operation::Get { key: b"b" }, add]), Err(Held::Back));
    assert_eq!(d.get("b"), done(version, "1"), "reads go on");
    hold(true, &mut session);
    assert_eq!(d.run(&[Operation::Get { key: b"b" }]), Err(Held::Back));
    server.hold_slots(1, None, &mut session);
    assert_eq!(d.say(add), (Status::Done, "2".into()));
}
