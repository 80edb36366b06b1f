//! Which nodes form a shard: copies of the same slots lie in different zones, as far as there are any.

use std::collections::BTreeMap;

/// What counts when a node is given a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site<'a> {
    /// Nodes of one zone may fail together.
    pub zone: &'a str,
    /// What the node can carry.
    pub weight: u32,
}

/// Gives each free node a place. Nodes go by their positions in `sites`; the first of a shard is its primary.
///
/// Shards with less than `copies` nodes are filled first, those with the fewest before others. Then free nodes
/// form new shards, and what remains becomes a further replica. The same arguments give the same layout. Takes
/// O(n^2) for n nodes. A shard has at least one copy.
pub fn place_nodes(
    sites: &[Site],
    shards: &mut Vec<Vec<usize>>,
    mut free: Vec<usize>,
    copies: usize,
) {
    let copies = copies.max(1);
    free.sort_unstable();
    while let Some(at) = smallest(shards).filter(|&at| shards[at].len() < copies) {
        let Some(node) = take(sites, &shards[at], &mut free) else { return };
        shards[at].push(node);
    }
    while free.len() >= copies {
        let mut shard = Vec::new();
        while shard.len() < copies {
            shard.extend(take(sites, &shard, &mut free));
        }
        lead_from_zone_with_fewest_primaries(sites, shards, &mut shard);
        shards.push(shard);
    }
    while let Some(at) = smallest(shards) {
        let Some(node) = take(sites, &shards[at], &mut free) else { return };
        shards[at].push(node);
    }
}

fn smallest(shards: &[Vec<usize>]) -> Option<usize> {
    (0..shards.len()).min_by_key(|&at| (shards[at].len(), at))
}

/// The best free node beside those of a shard: in a zone that the shard lacks, of these in the one with the most
/// free nodes, so that no zone is left over in the end. Nodes of like weight come together, because the weakest
/// one limits the shard.
fn take(sites: &[Site], shard: &[usize], free: &mut Vec<usize>) -> Option<usize> {
    let count = |nodes: &[usize]| {
        let mut of: BTreeMap<&str, usize> = BTreeMap::new();
        nodes.iter().for_each(|&node| *of.entry(sites[node].zone).or_default() += 1);
        of
    };
    let (beside, left) = (count(shard), count(free));
    let goodness = |&at: &usize| {
        let Site { zone, weight } = sites[free[at]];
        let beside = beside.get(zone).copied().unwrap_or_default();
        (std::cmp::Reverse(beside), left[zone], weight, std::cmp::Reverse(at))
    };
    let best = (0..free.len()).max_by_key(goodness)?;
    Some(free.remove(best))
}

/// Zones lead equally often, so that the loss of one stops as few primaries as possible.
fn lead_from_zone_with_fewest_primaries(
    sites: &[Site],
    shards: &[Vec<usize>],
    shard: &mut [usize],
) {
    let primaries = |&at: &usize| {
        let led = |other: &&Vec<usize>| sites[other[0]].zone == sites[shard[at]].zone;
        (shards.iter().filter(led).count(), at)
    };
    if let Some(first) = (0..shard.len()).min_by_key(primaries) {
        shard.swap(0, first);
    }
}
