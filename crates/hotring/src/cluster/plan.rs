//! A plan for a described cluster, and its text.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use hotring_cluster::{
    Member, Move, Owners, SLOTS, ShardId, Site, Slot, balance, loads_and_shares, place_nodes, plan,
};

use super::file::Cluster;

/// The shards of equal description must have equal places, so the seed is fixed.
const SEED: u64 = 0;

/// A plan with what it starts from.
pub(super) struct Planned {
    cluster: Cluster,
    /// All shards of the plan with the positions of their nodes, the primary first. One that leaves has none.
    shards: Vec<(ShardId, Vec<usize>)>,
    before: Owners,
    after: Owners,
    members: Vec<Member>,
    loads: Vec<u64>,
    /// Whether the loads are other ones than the number of slots.
    has_loads: bool,
    moves: Vec<Move>,
}

/// Plans the way from the present shards to the wanted nodes.
pub(super) fn make(cluster: Cluster, loads: Option<Vec<u64>>) -> Result<Planned, String> {
    let has_loads = loads.is_some();
    let loads = loads.unwrap_or_else(|| vec![1; usize::from(SLOTS)]);
    let before = owners(&cluster)?;
    let shards = layout(&cluster);
    if shards.iter().all(|(_, nodes)| nodes.is_empty()) {
        return Err(format!("there are too few nodes: a shard needs {}", cluster.copies));
    }
    let members: Vec<Member> = shards
        .iter()
        .filter(|(_, nodes)| !nodes.is_empty())
        .map(|(shard, nodes)| {
            let weight = nodes.iter().map(|&node| cluster.nodes[node].weight).min();
            let drawn = Member::drawn(*shard, weight.expect("it has nodes"), SEED);
            let given = cluster.shards.get(shard).and_then(|shard| shard.ids.clone());
            Member { ids: given.unwrap_or(drawn.ids), ..drawn }
        })
        .collect();
    let moves = plan(&before, &members, &loads).map_err(|why| why.to_string())?;
    let mut after = before.clone();
    for Move { to, slots, .. } in &moves {
        slots.iter().for_each(|slot| after.give(slot, *to));
    }
    Ok(Planned { cluster, shards, before, after, members, loads, has_loads, moves })
}

fn owners(cluster: &Cluster) -> Result<Owners, String> {
    let mut owners = Owners::default();
    for (&number, shard) in &cluster.shards {
        for slot in shard.slots.iter() {
            if let Some(other) = owners.of(slot) {
                return Err(format!("slot {slot} is in shard {other} and in shard {number}"));
            }
            owners.give(slot, number);
        }
    }
    Ok(owners)
}

/// The nodes of each shard, those that leave left out.
fn layout(cluster: &Cluster) -> Vec<(ShardId, Vec<usize>)> {
    let nodes = &cluster.nodes;
    let staying =
        |shard| (0..nodes.len()).filter(move |&at| nodes[at].shard == shard && !nodes[at].leaves);
    let sites: Vec<Site> =
        nodes.iter().map(|node| Site { zone: &node.zone, weight: node.weight }).collect();
    let present = cluster.shards.keys().map(|&shard| (shard, staying(Some(shard)).collect()));
    let (mut keep, leave): (Vec<(ShardId, Vec<usize>)>, Vec<_>) =
        present.partition(|(_, nodes): &(_, Vec<usize>)| !nodes.is_empty());
    let mut placed: Vec<Vec<usize>> = keep.iter().map(|(_, nodes)| nodes.clone()).collect();
    place_nodes(&sites, &mut placed, staying(None).collect(), cluster.copies);
    let first_new = cluster.shards.keys().last().map_or(0, |last| last + 1);
    let old = keep.len();
    let numbers = keep.drain(..).map(|(shard, _)| shard).chain(first_new..);
    debug_assert!(placed.len() >= old);
    let mut shards: Vec<_> = numbers.zip(placed).chain(leave).collect();
    shards.sort_by_key(|(shard, _)| *shard);
    shards
}

impl Planned {
    /// The shards with the positions of their nodes, the primary first.
    pub(super) fn shards(&self) -> &[(ShardId, Vec<usize>)] {
        &self.shards
    }

    /// The moves.
    pub(super) fn moves(&self) -> &[Move] {
        &self.moves
    }

    /// The moves with only their hottest slots, at most `most`.
    pub(super) fn hottest(&self, most: usize) -> Vec<Move> {
        let of = |(at, planned): (usize, &Move)| {
            planned.slots.iter().map(move |slot| (at, slot)).collect::<Vec<_>>()
        };
        let mut slots: Vec<(usize, Slot)> = self.moves.iter().enumerate().flat_map(of).collect();
        slots.sort_by_key(|(_, slot)| Reverse(self.loads[usize::from(*slot)]));
        slots.truncate(most);
        let chosen = |(at, planned): (usize, &Move)| Move {
            slots: slots.iter().filter(|(of, _)| *of == at).map(|(_, slot)| *slot).collect(),
            ..planned.clone()
        };
        let chosen = self.moves.iter().enumerate().map(chosen);
        chosen.filter(|planned| !planned.slots.is_empty()).collect()
    }

    /// The present load of the fullest shard, as a multiple of its share.
    pub(super) fn fullest(&self) -> f64 {
        balance(&self.before, &self.members, &self.loads)
    }

    /// The owner of each slot afterwards.
    pub(super) fn after(&self) -> &Owners {
        &self.after
    }

    /// The load of a shard, unless it leaves, as a multiple of its share.
    fn fill(&self, owners: &Owners, shard: ShardId) -> Option<f64> {
        let at = self.members.iter().position(|member| member.shard == shard)?;
        let (load, share) = loads_and_shares(owners, &self.members, &self.loads)[at];
        Some(load as f64 / share)
    }

    /// Says which slots alone are more than a share.
    fn write_hot_slots(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let shares = loads_and_shares(&self.after, &self.members, &self.loads);
        let shares: BTreeMap<ShardId, f64> = self
            .members
            .iter()
            .zip(shares)
            .map(|(member, (_, share))| (member.shard, share))
            .collect();
        for slot in (0..SLOTS).filter(|_| self.has_loads) {
            let Some(shard) = self.after.of(slot) else { continue };
            let part = self.loads[usize::from(slot)] as f64 / shares[&shard];
            if part > 1.0 {
                writeln!(
                    f,
                    "slot {slot} alone has {part:.3} of a share: it is with shard {shard}, and no move makes it less"
                )?;
            }
        }
        Ok(())
    }

    fn write_shard(&self, f: &mut fmt::Formatter, shard: ShardId, nodes: &[usize]) -> fmt::Result {
        let all = &self.cluster.nodes;
        let label = match (self.cluster.shards.contains_key(&shard), nodes.is_empty()) {
            (false, _) => " (new)",
            (_, true) => " (leaves)",
            _ => "",
        };
        let count =
            |owners: &Owners| (0..SLOTS).filter(|&slot| owners.of(slot) == Some(shard)).count();
        let (before, after) = (count(&self.before), count(&self.after));
        write!(f, "shard {shard}{label}: {before} -> {after} slots")?;
        let load = |owners| self.fill(owners, shard).filter(|_| self.has_loads);
        if let (Some(before), Some(after)) = (load(&self.before), load(&self.after)) {
            write!(f, ", load {before:.3} -> {after:.3} of its share")?;
        }
        writeln!(f)?;
        for (at, &node) in nodes.iter().enumerate() {
            let node = &all[node];
            let role = if at == 0 { "primary" } else { "replica" };
            let joins = if node.shard.is_none() { ", joins" } else { "" };
            let zone =
                if node.zone.is_empty() { String::new() } else { format!(", zone {}", node.zone) };
            writeln!(f, "  {}: {role}{zone}, weight {}{joins}", node.name, node.weight)?;
        }
        for node in all.iter().filter(|node| node.leaves && node.shard == Some(shard)) {
            writeln!(f, "  {}: leaves", node.name)?;
        }
        let zones: BTreeSet<&str> = nodes.iter().map(|&node| all[node].zone.as_str()).collect();
        let copies = self.cluster.copies;
        if !nodes.is_empty() && nodes.len() < copies {
            writeln!(f, "  warning: {} of {copies} nodes", nodes.len())?;
        } else if zones.len() < nodes.len() && zones.iter().any(|zone| !zone.is_empty()) {
            writeln!(f, "  warning: {} nodes in {} zones", nodes.len(), zones.len())?;
        }
        Ok(())
    }
}

impl fmt::Display for Planned {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for (shard, nodes) in &self.shards {
            self.write_shard(f, *shard, nodes)?;
        }
        let Planned { before, after, members, loads, moves, .. } = self;
        let count: usize = moves.iter().map(|planned| planned.slots.len()).sum();
        let part = 100.0 * count as f64 / f64::from(SLOTS);
        writeln!(f, "\n{count} of {SLOTS} slots move ({part:.1} %)")?;
        let loads_of = |owners| loads_and_shares(owners, members, loads).into_iter();
        let emptiest = |owners| loads_of(owners).map(|(load, share)| load as f64 / share);
        let emptiest = |owners| emptiest(owners).fold(f64::INFINITY, f64::min);
        let fullest = |owners| balance(owners, members, loads);
        writeln!(
            f,
            "fullest shard: {:.3} -> {:.3} of its share; emptiest: {:.3} -> {:.3}",
            fullest(before),
            fullest(after),
            emptiest(before),
            emptiest(after),
        )?;
        self.write_hot_slots(f)?;
        moves.iter().try_for_each(|planned| writeln!(f, "{planned}"))
    }
}
