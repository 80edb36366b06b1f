//! Nodes in shards: each once, copies in different zones as far as that is possible.

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;

use crate::layout::{Site, place_nodes};

const ZONES: [&str; 5] = ["a", "b", "c", "d", "e"];

fn placed(sites: &[Site], mut shards: Vec<Vec<usize>>, copies: usize) -> Vec<Vec<usize>> {
    let present: BTreeSet<usize> = shards.iter().flatten().copied().collect();
    let free = (0..sites.len()).filter(|node| !present.contains(node)).collect();
    place_nodes(sites, &mut shards, free, copies);
    shards
}

fn zones(sites: &[Site], shard: &[usize]) -> BTreeSet<String> {
    shard.iter().map(|&node| sites[node].zone.to_owned()).collect()
}

/// Shards of distinct zones are possible for all nodes if no zone has more nodes than there are shards.
#[test]
fn copies_lie_in_different_zones_wherever_that_is_possible() {
    let mut possible = 0;
    for seed in 0..2_000 {
        let mut rng = Rng::with_seed(seed);
        let (copies, shards) = (rng.usize(1..=4), rng.usize(1..30));
        let sites: Vec<Site> = (0..copies * shards)
            .map(|_| Site { zone: ZONES[rng.usize(..5)], weight: rng.u32(1..4) })
            .collect();
        let layout = placed(&sites, Vec::new(), copies);
        let mut nodes: Vec<usize> = layout.iter().flatten().copied().collect();
        nodes.sort_unstable();
        assert!(nodes.into_iter().eq(0..sites.len()), "a node twice or never, seed {seed}");
        assert!(layout.iter().all(|shard| shard.len() == copies));
        let mut most = BTreeMap::new();
        sites.iter().for_each(|site| *most.entry(site.zone).or_insert(0) += 1);
        if most.values().all(|&count| count <= shards) {
            possible += 1;
            let spread = layout.iter().all(|shard| zones(&sites, shard).len() == copies);
            assert!(spread, "two copies in a zone, seed {seed}: {layout:?}");
        }
    }
    assert!(possible > 500, "{possible}");
}

#[test]
fn a_shard_that_lost_a_node_gets_one_of_another_zone_and_keeps_its_primary() {
    let site = |zone| Site { zone, weight: 100 };
    let sites = ["a", "b", "a", "c", "a", "b", "b"].map(site);
    // Nodes 4 to 6 are free. The second shard has one of two nodes, in zone a.
    let layout = placed(&sites, vec![vec![3, 0], vec![2], vec![1]], 2);
    assert_eq!(layout, [vec![3, 0, 6], vec![2, 5], vec![1, 4]]);
    // Too few for a shard.
    assert_eq!(placed(&sites[..1], Vec::new(), 2), Vec::<Vec<usize>>::new());
}

#[test]
fn strong_nodes_come_together_and_zones_lead_alike() {
    let sites: Vec<Site> = (0..12)
        .map(|node| Site { zone: ZONES[node % 3], weight: if node < 6 { 300 } else { 100 } })
        .collect();
    let layout = placed(&sites, Vec::new(), 3);
    let mixed =
        |shard: &Vec<usize>| shard.iter().any(|&node| sites[node].weight != sites[shard[0]].weight);
    assert!(!layout.iter().any(mixed), "{layout:?}");
    let led = |zone| layout.iter().filter(|shard| sites[shard[0]].zone == zone).count();
    assert!(["a", "b", "c"].into_iter().all(|zone| (1..=2).contains(&led(zone))), "{layout:?}");
}

/// Counting the zones again for each free node took half a minute.
#[test]
fn thousands_of_nodes_are_placed_in_no_time() {
    let names: Vec<String> = (0..20).map(|zone| format!("zone-{zone}")).collect();
    let site = |node: usize| Site { zone: &names[node % 20], weight: 100 };
    let sites: Vec<Site> = (0..3_000).map(site).collect();
    let start = std::time::Instant::now();
    assert_eq!(placed(&sites, Vec::new(), 3).len(), 1_000);
    assert!(start.elapsed().as_secs() < 10, "{:?}", start.elapsed());
    assert_eq!(placed(&sites[..4], Vec::new(), 0).len(), 4, "a shard has a copy at least");
}
