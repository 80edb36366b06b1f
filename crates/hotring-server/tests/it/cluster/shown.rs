//! What operators see of a cluster: INFO, the metrics and the status page.

use hotring_cluster::slot_of;

use super::failover::pair;
use super::power::{KEYS, Shards};
use super::*;
use crate::admin::{get, metrics};

fn metric(node: &Node, name: &str) -> f64 {
    let seen = metrics(node.server.as_ref().expect("it runs").admin());
    *seen.get(&format!("hotring_{name}")).unwrap_or_else(|| panic!("no {name} in {seen:?}"))
}

fn page(node: &Node) -> String {
    get(node.server.as_ref().expect("it runs").admin(), "/").1
}

fn assert_shows(page: &str, wanted: &[&str]) {
    wanted.iter().for_each(|part| assert!(page.contains(part), "no {part} in {page}"));
}

#[test]
fn a_node_shows_its_cluster() {
    let (keeper, mut one, other) = pair("shown", None);
    write(&one, 0..10);
    wait_for("the replica is in sync", || all_in_sync(&keeper.directory()));
    wait_for("both know", || metric(&other, "cluster_copies_in_sync") == 2.0);
    let refused = other.wire().say("GET k1");
    assert!(matches!(&refused, Reply::Error(why) if why.starts_with("MOVED")), "{refused:?}");
    assert!(matches!(one.wire().say("MGET k1 k2"), Reply::Error(_)));
    for (node, role, promotions) in [(&one, "primary", 1.0), (&other, "replica", 0.0)] {
        for (name, value) in [
            (&format!("cluster_role{{role=\"{role}\"}}")[..], 1.0),
            ("cluster_nodes{state=\"alive\"}", 2.0),
            ("cluster_nodes{state=\"gone\"}", 0.0),
            ("cluster_shards", 1.0),
            ("cluster_slots_owned", 16_384.0),
            ("cluster_slots_unserved", 0.0),
            ("cluster_copies", 2.0),
            ("cluster_may_answer", 1.0),
            ("cluster_registered", 1.0),
            ("cluster_promotions_total", promotions),
            ("coordinator_up", 1.0),
            ("coordinator_failures_total", 0.0),
        ] {
            assert_eq!(metric(node, name), value, "{name} of the {role}");
        }
        assert_eq!(info(&mut node.wire(), "cluster_role"), role);
        assert!(metric(node, "cluster_epoch") > 0.0);
        assert!(metric(node, "coordinator_requests_total") > 2.0);
        assert!(metric(node, "coordinator_up_since_seconds") > 1e9);
        assert!(metric(node, "cluster_lease_age_seconds") < LEASE.as_secs_f64());
        let text = page(node);
        assert_shows(&text, &[&format!("{role} of shard 0"), "shard 0: slots 0 to 16383"]);
        assert_shows(&text, &["replica, in sync<td>alive", "primary<td>alive"]);
        assert!(!text.contains("class=warn"), "{text}");
    }
    assert_eq!(metric(&other, "cluster_refusals_total{answer=\"MOVED\"}"), 1.0);
    assert_eq!(metric(&one, "cluster_refusals_total{answer=\"CROSSSLOT\"}"), 1.0);
    one.kill();
    wait_until_it_serves(&other);
    assert_eq!(metric(&other, "cluster_promotions_total"), 1.0);
    assert_eq!(metric(&other, "cluster_nodes{state=\"gone\"}"), 1.0);
    wait_for("the dead one is out", || metric(&other, "cluster_copies_in_sync") == 1.0);
    assert_shows(&page(&other), &["primary of shard 0", "replica, behind<td>NOT ALIVE"]);
    other.door.shut();
    wait_for("the coordinator is away", || metric(&other, "coordinator_up") == 0.0);
    assert!(metric(&other, "coordinator_failures_total") > 0.0);
    wait_for("the lease is over", || metric(&other, "cluster_registered") == 0.0);
    assert_shows(&page(&other), &["The coordinator does not answer"]);
}

#[test]
fn a_primary_shows_how_far_its_moves_are() {
    let shards = Shards::new("shown");
    let stuck = shards.hold_syncs_up();
    shards.begin_move();
    let told = |node: &Node| {
        let text = node.wire().say("INFO cluster").text();
        let line = text.lines().find_map(|line| line.strip_prefix("cluster_move_0:"));
        line.unwrap_or_default().to_string()
    };
    wait_for("the target syncs", || told(&shards.source).contains("phase=syncing"));
    // One more key has shown that the primary serves.
    let (slot, all) = (slot_of(shards.tag.as_bytes()), KEYS + 1);
    let seen = format!("keys_total={all},keys_looked_at={all},keys={KEYS},bytes=");
    let line = told(&shards.source);
    let begin = format!("id=1,from=0,to=1,slot_count=1,phase=syncing,{seen}");
    assert!(line.starts_with(&begin) && line.ends_with(&format!(",slots={slot}")), "{line}");
    for (phase, count) in [("syncing", 1.0), ("copying", 0.0)] {
        assert_eq!(metric(&shards.source, &format!("cluster_moves{{phase=\"{phase}\"}}")), count);
    }
    let row = format!("<td class=n>1<td>syncing<td class=n>{all} of {all}<td class=n>{KEYS}<td");
    assert_shows(&page(&shards.source), &[&row]);
    let line = format!("id=1,from=0,to=1,slot_count=1,phase=elsewhere,slots={slot}");
    wait_for("the target lists it, too", || told(&shards.target) == line);
    assert_shows(&page(&shards.target), &["<td class=n>1<td>elsewhere"]);
    drop(stuck);
    wait_for("it is over", || told(&shards.source).is_empty());
}
