//! Plans of described clusters, as they are printed.

use std::path::Path;

use hotring_cluster::Move;

use super::{cli, file, plan, planned};

fn text(description: &str) -> String {
    plan::make(file::cluster(description).unwrap(), None).unwrap().to_string()
}

fn error(description: &str) -> String {
    match file::cluster(description) {
        Ok(cluster) => plan::make(cluster, None).err().expect("there is no plan"),
        Err(why) => why,
    }
}

/// Each line that is no move.
fn summary(text: &str) -> Vec<&str> {
    text.lines().filter(|line| !line.contains(" slots: ")).collect()
}

#[test]
fn new_nodes_form_shards_over_zones() {
    let nodes = ["a", "b", "c", "d", "e", "f"];
    let nodes = nodes.iter().enumerate().map(|(at, name)| {
        format!("[[node]]\nname = \"{name}\"\nzone = \"{}\"\n", ["x", "y", "z"][at / 2])
    });
    let text = text(&format!("copies = 2\n{}", nodes.collect::<String>()));
    assert!(!text.contains("warning"), "{text}");
    for zone in ["x", "y", "z"] {
        let led = text.matches(&format!("primary, zone {zone}")).count();
        assert_eq!(led, 1, "a zone leads more than others: {text}");
    }
    assert!(text.contains("16384 of 16384 slots move (100.0 %)"), "{text}");
    assert!(text.contains("nobody -> shard 2: 5461 slots: "), "{text}");
}

const THREE: &str = "\
[[shard]]
number = 0
slots = \"0-5460\"
[[shard]]
number = 1
slots = \"5461-10922\"
[[shard]]
number = 2
slots = \"10923-16383\"
";

fn node(name: &str, rest: &str) -> String {
    format!("[[node]]\nname = \"{name}\"\n{rest}\n")
}

#[test]
fn a_node_that_joins_takes_its_share() {
    let three =
        ["a", "b", "c"].iter().enumerate().map(|(at, name)| node(name, &format!("shard = {at}")));
    let description = format!("{THREE}{}{}", three.collect::<String>(), node("d", ""));
    let joined = text(&description);
    assert!(
        joined.contains("shard 3 (new): 0 -> 4096 slots\n  d: primary, weight 100, joins\n"),
        "{joined}"
    );
    let end = "4096 of 16384 slots move (25.0 %)\n\
               fullest shard: 1.333 -> 1.0";
    assert!(joined.contains(end), "{joined}");
    assert!(
        joined
            .lines()
            .filter(|line| line.contains("slots: "))
            .all(|line| line.contains("-> shard 3:"))
    );
    assert_eq!(text(&description), joined);
    let heavier = text(&description.replace("name = \"d\"", "name = \"d\"\nweight = 300"));
    assert!(heavier.contains("shard 3 (new): 0 -> 8192 slots"), "{heavier}");
}

#[test]
fn a_node_is_drained_or_replaced() {
    let with = |c: &str, more: &str| {
        let nodes = [node("a", "shard = 0"), node("b", "shard = 1"), node("c", c)].concat();
        text(&format!("{THREE}{nodes}{more}"))
    };
    let drained = with("shard = 2\nleaves = true", "");
    assert!(drained.contains("shard 2 (leaves): 5461 -> 0 slots\n  c: leaves\n"), "{drained}");
    assert!(drained.contains("5461 of 16384 slots move (33.3 %)"), "{drained}");
    // One of two copies leaves, another node takes its place: no slot moves.
    let replaced = with("shard = 2", &(node("old", "shard = 2\nleaves = true") + &node("new", "")));
    assert!(replaced.contains("shard 3 (new)"), "without copies it is a shard: {replaced}");
    let nodes =
        [("a", "shard = 0"), ("b", "shard = 0"), ("c", "shard = 0\nleaves = true"), ("d", "")];
    let nodes: String = nodes.iter().map(|(name, rest)| node(name, rest)).collect();
    let replaced =
        text(&format!("copies = 3\n[[shard]]\nnumber = 0\nslots = \"0-16383\"\n{nodes}"));
    let lines = [
        "shard 0: 16384 -> 16384 slots",
        "  a: primary, weight 100",
        "  b: replica, weight 100",
        "  d: replica, weight 100, joins",
        "  c: leaves",
        "",
        "0 of 16384 slots move (0.0 %)",
        "fullest shard: 1.000 -> 1.000 of its share; emptiest: 1.000 -> 1.000",
    ];
    assert_eq!(summary(&replaced), lines);
}

#[test]
fn copies_that_would_be_lost_together_are_told() {
    let nodes = node("a", "zone = \"x\"") + &node("b", "zone = \"x\"") + &node("c", "zone = \"x\"");
    let text = text(&format!("copies = 2\n{nodes}"));
    assert!(text.contains("warning: 3 nodes in 1 zones"), "{text}");
    let one = super::tests::text("copies = 2\n[[node]]\nname = \"a\"\nshard = 5\n");
    assert!(
        one.contains(
            "shard 5: 0 -> 16384 slots\n  a: primary, weight 100\n  warning: 1 of 2 nodes"
        ),
        "{one}"
    );
}

#[test]
fn wrong_descriptions_say_where_and_why() {
    assert_eq!(error(""), "there are too few nodes: a shard needs 1");
    assert_eq!(error("copies = 0"), "line 1: copies must be a number from 1 to 100");
    assert_eq!(
        error("\nnodes = 3"),
        "line 2: nodes is unknown here: there are copies, shard, node"
    );
    assert_eq!(error("node = 3"), "line 1: write [[node]] before each node");
    assert_eq!(error("\n[[node]]\nzone = \"x\""), "line 2: name is missing");
    assert_eq!(error("[[node]]\nname = 3"), "line 2: name must be a string");
    assert_eq!(error("[[node]]\nname = \"a\"\nleaves = 1"), "line 3: leaves must be true or false");
    let why = "line 3: a node that leaves must be in a shard: add shard, or remove the node";
    assert_eq!(error("[[node]]\nname = \"a\"\nleaves = true"), why);
    assert_eq!(error(&node("a", "").repeat(2)), "line 5: node a is there twice");
    assert_eq!(
        error("[[shard]]\nnumber = 1\n[[shard]]\nnumber = 1"),
        "line 4: shard 1 is there twice"
    );
    let ids = "line 3: ids must be a list of hexadecimal strings, [\"0x1f00\"]";
    assert_eq!(error("[[shard]]\nnumber = 1\nids = [\"7\"]"), ids);
    let slots = "line 3: '16384' is not a slot or range: write 7 or 0-5460, up to 16383";
    assert_eq!(error("[[shard]]\nnumber = 1\nslots = \"16384\""), slots);
    assert_eq!(error(&THREE.replace("0-5460", "0-5461")), "slot 5461 is in shard 0 and in shard 1");
    let same = THREE.replace("slots", "ids = [\"0x7\"]\nslots")
        + &node("a", "shard = 0")
        + &node("b", "shard = 1");
    assert_eq!(error(&same), "the identifier 0x7 is given to shard 0 and to shard 1");
    assert_eq!(file::loads("7 9\n\n 16383 1 ").unwrap()[7], 9);
    for wrong in ["7", "16384 1", "1 2 3", "a 1"] {
        let why = file::loads(&format!("1 1\n{wrong}")).unwrap_err();
        assert_eq!(why, "line 2: write a slot and a number: 7 1500");
    }
    assert_eq!(file::loads("7 9\n7 9").unwrap_err(), "line 2: slot 7 is there twice");
    let error = planned(Path::new("/no/such/file"), None).err().unwrap();
    assert!(error.starts_with("cannot read /no/such/file: "), "{error}");
}

#[test]
fn loads_are_balanced_instead_of_slots() {
    let nodes = [node("a", "shard = 0"), node("b", "shard = 1"), node("c", "shard = 2")].concat();
    let cluster = file::cluster(&format!("{THREE}{nodes}")).unwrap();
    // The first thousand slots have nearly everything.
    let loads: String = (0..1_000).map(|slot| format!("{slot} 1000\n")).collect();
    let text = plan::make(cluster, Some(file::loads(&loads).unwrap())).unwrap().to_string();
    assert!(text.contains("\n66") && text.contains("fullest shard: 3.000 -> 1.00"), "{text}");
    assert!(text.contains(" slots, load 3.000 -> 1.00"), "{text}");
    assert!(!text.contains("alone"), "{text}");
    cli().debug_assert();
}

/// One key is used a thousand times as often as all of a slot usually are.
#[test]
fn a_slot_that_is_hotter_than_a_share_is_told_and_left_alone() {
    let nodes = [node("a", "shard = 0"), node("b", "shard = 1"), node("c", "shard = 2")].concat();
    let description = format!("{THREE}{nodes}");
    let mut loads = vec![10; 16_384];
    loads[77] = 160_000;
    let planned = plan::make(file::cluster(&description).unwrap(), Some(loads)).unwrap();
    assert_eq!(planned.after().of(77), Some(0));
    let text = planned.to_string();
    let lines = [
        "shard 0: 5461 -> 1 slots, load 1.988 -> 1.482 of its share\n",
        "shard 1: 5462 -> 8714 slots, load 0.506 -> 0.807 of its share\n",
        "slot 77 alone has 1.482 of a share: it is with shard 0, and no move makes it less\n",
    ];
    lines.iter().for_each(|line| assert!(text.contains(line), "{line}{text}"));
}

#[test]
fn a_limited_plan_has_its_hottest_slots() {
    let nodes = [node("a", "shard = 0"), node("b", "shard = 1"), node("c", "shard = 2")].concat();
    let cluster = || file::cluster(&format!("{THREE}{nodes}")).unwrap();
    let mut loads = vec![0; 16_384];
    (0..30).for_each(|slot| loads[slot] = 100 + slot as u64);
    let planned = plan::make(cluster(), Some(loads.clone())).unwrap();
    assert!((planned.fullest() - 3.0).abs() < 1e-9, "{}", planned.fullest());
    let slots = |moves: &[Move]| -> Vec<u16> {
        moves.iter().flat_map(|planned| planned.slots.iter().collect::<Vec<_>>()).collect()
    };
    let mut all = slots(planned.moves());
    all.sort_by_key(|slot| std::cmp::Reverse(loads[usize::from(*slot)]));
    let mut some = slots(&planned.hottest(3));
    some.sort_by_key(|slot| std::cmp::Reverse(*slot));
    assert!(all.len() > 3, "{all:?}");
    assert_eq!(some, all[..3]);
    let whole = planned.hottest(16_384);
    assert_eq!(whole, planned.moves());
    for limited in planned.hottest(3) {
        let whole = whole.iter().find(|m| (m.from, m.to) == (limited.from, limited.to)).unwrap();
        assert!(limited.slots.iter().all(|slot| whole.slots.contains(slot)), "{limited}");
    }
}
