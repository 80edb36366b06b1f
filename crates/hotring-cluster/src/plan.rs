//! Plans: which slots change their owner when shards join, leave, or have become unequal.
//!
//! The table of slots is the truth. A plan keeps each slot where it is unless its owner leaves, has more than
//! its limit, or another shard has much less than its share. The circle says which slots go where: a slot
//! prefers the shard whose identifier comes next, among those that take slots. A new cluster's shards get a range
//! each.
//!
//! ```text
//!            low           share        limit
//!  ------------|--------------|------------|------> load of a shard
//!   is filled  |  keeps what it has        |  gives
//!   up to share|  (gives down to share, if another is filled)
//! ```
//!
//! Loads are what the caller gives: one for each slot, its bytes, or its heat.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;

use crate::circle::{Circle, SameIdentifier, drawn, identifiers};
use crate::records::ShardId;
use crate::slots::{SLOTS, Slot, SlotSet};

/// The most that a shard may have, in percent of its share: more moves slots at once, less moves more of them.
const LIMIT_PERCENT: u128 = 105;

/// The slots are evenly spread over the circle.
const PLACE_SHIFT: u32 = u64::BITS - SLOTS.ilog2();

/// The highest weight of a shard, so that the circle stays small.
pub const MAX_WEIGHT: u32 = 10_000;

/// A shard that is to own slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The shard.
    pub shard: ShardId,
    /// Its weight: its share of the load is in proportion.
    pub weight: u32,
    /// Its identifiers on the circle.
    pub ids: Vec<u64>,
}

impl Member {
    /// A shard with identifiers drawn at random, more for a higher weight.
    pub fn drawn(shard: ShardId, weight: u32, seed: u64) -> Self {
        Member { shard, weight, ids: drawn(seed, shard).take(identifiers(weight)).collect() }
    }
}

/// The owner of each slot; `None` before the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owners(Vec<Option<ShardId>>);

impl Default for Owners {
    fn default() -> Self {
        Owners(vec![None; usize::from(SLOTS)])
    }
}

impl Owners {
    /// The owner of a slot.
    pub fn of(&self, slot: Slot) -> Option<ShardId> {
        self.0[usize::from(slot)]
    }

    /// Gives a slot to a shard.
    pub fn give(&mut self, slot: Slot, to: ShardId) {
        self.0[usize::from(slot)] = Some(to);
    }
}

/// Slots that go from one shard to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// The present owner, if there is one.
    pub from: Option<ShardId>,
    /// The new owner.
    pub to: ShardId,
    /// The slots.
    pub slots: SlotSet,
}

impl fmt::Display for Move {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Move { from, to, slots } = self;
        match from {
            Some(from) => write!(f, "shard {from} -> shard {to}: ")?,
            None => write!(f, "nobody -> shard {to}: ")?,
        }
        let count = slots.len();
        write!(f, "{count} slot{}: {slots}", if count == 1 { "" } else { "s" })
    }
}

/// The reason why there is no plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoPlan {
    /// No shard is to own slots.
    NoShard,
    /// More shards than slots.
    TooManyShards,
    /// A weight of zero, or above the highest.
    Weight(ShardId),
    /// A shard without identifiers.
    NoIdentifier(ShardId),
    /// A shard is named twice.
    Twice(ShardId),
    /// Two shards have the same identifier, or one has it twice.
    SameIdentifier {
        /// The identifier.
        id: u64,
        /// The shards.
        shards: (ShardId, ShardId),
    },
}

impl fmt::Display for NoPlan {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            NoPlan::NoShard => write!(f, "no shard remains that could own slots"),
            NoPlan::TooManyShards => write!(f, "there are more shards than slots ({SLOTS})"),
            NoPlan::Weight(shard) => {
                write!(f, "the weight of shard {shard} must be from 1 to {MAX_WEIGHT}")
            }
            NoPlan::NoIdentifier(shard) => write!(f, "shard {shard} has no identifier"),
            NoPlan::Twice(shard) => write!(f, "shard {shard} is named twice"),
            NoPlan::SameIdentifier { id, shards: (one, other) } => {
                write!(f, "the identifier {id:#x} is given to shard {one} and to shard {other}")
            }
        }
    }
}

impl std::error::Error for NoPlan {}

/// The moves from the present owners to a state in which `members` own all slots, none much more than its
/// share. `loads` has a number for each slot. The same arguments give the same plan, and no slot moves twice.
pub fn plan(owners: &Owners, members: &[Member], loads: &[u64]) -> Result<Vec<Move>, NoPlan> {
    let mut planner = Planner::new(owners, members, loads)?;
    planner.found();
    planner.settle_orphans();
    planner.settle_unequal();
    let mut moves: BTreeMap<(Option<ShardId>, ShardId), Vec<Slot>> = BTreeMap::new();
    for slot in 0..SLOTS {
        let owner = planner.owner[usize::from(slot)].expect("no slot stays without an owner");
        let (from, to) = (owners.of(slot), planner.members[owner].shard);
        if from != Some(to) {
            moves.entry((from, to)).or_default().push(slot);
        }
    }
    let moves = moves.into_iter();
    Ok(moves
        .map(|((from, to), slots)| Move { from, to, slots: slots.into_iter().collect() })
        .collect())
}

/// The sum of the loads as they are counted. A slot with little beside the rest counts as something, so that
/// empty slots are spread, too; all of them together count as next to nothing.
const WHOLE: u128 = 1 << 40;

/// The loads as they are counted.
fn counted(loads: &[u64]) -> Vec<u64> {
    let total = total(loads);
    let part = |&load: &u64| (u128::from(load) * WHOLE / total.max(1)) as u64;
    loads.iter().map(|load| part(load).max(1)).collect()
}

fn total(loads: &[u64]) -> u128 {
    loads.iter().map(|&load| u128::from(load)).sum()
}

/// The load of each member with its share of the load, both in the unit of `loads`. Without any load each slot
/// counts as one.
pub fn loads_and_shares(owners: &Owners, members: &[Member], loads: &[u64]) -> Vec<(u64, f64)> {
    let is_idle = total(loads) == 0;
    let load = |slot: Slot| if is_idle { 1 } else { loads[usize::from(slot)] };
    let total: u128 = (0..SLOTS).map(|slot| u128::from(load(slot))).sum();
    let weights: u64 = members.iter().map(|member| u64::from(member.weight)).sum();
    let mut of: BTreeMap<ShardId, u64> = BTreeMap::new();
    for slot in 0..SLOTS {
        if let Some(owner) = owners.of(slot) {
            let sum = of.entry(owner).or_default();
            *sum = sum.saturating_add(load(slot));
        }
    }
    let share = |weight: u32| total as f64 * f64::from(weight) / weights as f64;
    let load = |shard: ShardId| of.get(&shard).copied().unwrap_or_default();
    members.iter().map(|member| (load(member.shard), share(member.weight))).collect()
}

/// The fullest shard's load as a multiple of its share; 1 if all are equal.
pub fn balance(owners: &Owners, members: &[Member], loads: &[u64]) -> f64 {
    let all = loads_and_shares(owners, members, loads);
    all.into_iter().map(|(load, share)| load as f64 / share).fold(0.0, f64::max)
}

/// What a member has and should have.
struct Bounds {
    low: u64,
    share: u64,
    limit: u64,
}

/// A plan in the making. Members go by their positions.
struct Planner<'a> {
    members: Vec<&'a Member>,
    circle: Circle,
    places: Vec<u64>,
    loads: Vec<u64>,
    /// The owner of each slot, none if it leaves.
    owner: Vec<Option<usize>>,
    load: Vec<u64>,
    bounds: Vec<Bounds>,
    /// Slots with less than a hundredth of the mean, which are not worth a move.
    is_light: Vec<bool>,
}

impl<'a> Planner<'a> {
    fn new(owners: &Owners, members: &'a [Member], loads: &[u64]) -> Result<Self, NoPlan> {
        assert_eq!(loads.len(), usize::from(SLOTS), "a load for each slot");
        let total = total(loads);
        let light = |&load: &u64| u128::from(load) * 100 * u128::from(SLOTS) < total;
        let is_light = loads.iter().map(light).collect();
        let loads = counted(loads);
        let mut members: Vec<&Member> = members.iter().collect();
        members.sort_by_key(|member| member.shard);
        check(&members)?;
        let points =
            (0..).zip(&members).flat_map(|(at, member)| member.ids.iter().map(move |&id| (id, at)));
        let circle =
            Circle::new(points).map_err(|SameIdentifier { id, members: (one, other) }| {
                let shard = |at: u32| members[at as usize].shard;
                NoPlan::SameIdentifier { id, shards: (shard(one), shard(other)) }
            })?;
        let position = |shard| members.binary_search_by_key(&shard, |member| member.shard);
        let position = |shard| position(shard).ok();
        let owner: Vec<_> = (0..SLOTS).map(|slot| owners.of(slot).and_then(position)).collect();
        let mut load = vec![0; members.len()];
        for (owner, slot_load) in owner.iter().zip(&loads) {
            owner.iter().for_each(|&owner: &usize| load[owner] += slot_load);
        }
        // In the order of their numbers, so that those before an identifier are a range: each range makes the tables
        // longer that clients read. Keys are mixed by their slots already.
        let places = (0..SLOTS).map(|slot| u64::from(slot) << PLACE_SHIFT).collect();
        let bounds = bounds(&members, &loads);
        Ok(Planner { members, circle, places, loads, owner, load, bounds, is_light })
    }

    /// If no slot has an owner yet, each member gets one range of them.
    fn found(&mut self) {
        if self.owner.iter().any(Option::is_some) {
            return;
        }
        let total: u128 = self.loads.iter().map(|&load| u128::from(load)).sum();
        let weights: u128 = self.members.iter().map(|member| u128::from(member.weight)).sum();
        // A slot goes where its middle lies, by load.
        let (mut before, mut to, mut upto) = (0, 0, u128::from(self.members[0].weight));
        for slot in 0..self.owner.len() {
            let load = u128::from(self.loads[slot]);
            while (2 * before + load) * weights > 2 * total * upto {
                to += 1;
                upto += u128::from(self.members[to].weight);
            }
            before += load;
            self.give(slot, to);
        }
    }

    /// Every slot whose owner leaves goes to a shard below its share, or at least below its limit, or, if it is
    /// heavier than any shard has room for, to the least loaded one.
    fn settle_orphans(&mut self) {
        let gives = |planner: &Self, slot: usize| planner.owner[slot].is_none();
        self.shift(gives, |_| true, |bounds| bounds.share);
        self.shift(gives, |_| true, |bounds| bounds.limit);
        let mut rest: Vec<usize> =
            (0..self.owner.len()).filter(|&slot| gives(self, slot)).collect();
        rest.sort_by_key(|&slot| (Reverse(self.loads[slot]), slot));
        for slot in rest {
            let filled = |&at: &usize| {
                let load = u128::from(self.load[at]) + u128::from(self.loads[slot]);
                (load << 32) / u128::from(self.members[at].weight)
            };
            let to = (0..self.members.len()).min_by_key(filled).expect("there is a member");
            self.give(slot, to);
        }
    }

    /// Shards far below their share are filled, first from those above their limit. Others above their limit
    /// give the excess to whoever has room.
    fn settle_unequal(&mut self) {
        let excess = |planner: &Self, slot| planner.may_give(slot, |bounds| bounds.limit);
        let surplus = |planner: &Self, slot| planner.may_give(slot, |bounds| bounds.share);
        let lacks = |at: usize| self.load[at] < self.bounds[at].low;
        let lacking: Vec<bool> = (0..self.load.len()).map(lacks).collect();
        self.shift(excess, |to| lacking[to], |bounds| bounds.share);
        self.shift(surplus, |to| lacking[to], |bounds| bounds.share);
        self.shift(excess, |_| true, |bounds| bounds.share);
        self.shift(excess, |_| true, |bounds| bounds.limit);
    }

    /// Whether the owner has more than a bound, and the slot is worth a move.
    fn may_give(&self, slot: usize, above: impl Fn(&Bounds) -> u64) -> bool {
        let has_more = |owner: usize| self.load[owner] > above(&self.bounds[owner]);
        !self.is_light[slot] && self.owner[slot].is_some_and(has_more)
    }

    /// Whether the owner is not far below its share without the slot, or has at least as much by weight as the receiver
    /// then has.
    fn improves(&self, slot: usize, to: usize) -> bool {
        let Some(from) = self.owner[slot] else { return true };
        let (left, got) = (self.load[from] - self.loads[slot], self.load[to] + self.loads[slot]);
        let weight = |at: usize| u128::from(self.members[at].weight);
        left >= self.bounds[from].low
            || u128::from(left) * weight(to) >= u128::from(got) * weight(from)
    }

    /// Moves slots that `gives` allows to members that `takes` allows, up to the bound `up_to`. Heavy slots go
    /// first, so that few move; among equal ones those with the shortest way along the circle.
    fn shift(
        &mut self,
        gives: impl Fn(&Self, usize) -> bool,
        takes: impl Fn(usize) -> bool,
        up_to: impl Fn(&Bounds) -> u64,
    ) {
        let room = |planner: &Self, to: usize| {
            let room = up_to(&planner.bounds[to]).saturating_sub(planner.load[to]);
            if takes(to) { room } else { 0 }
        };
        loop {
            let circle = self.circle.of_those(|at| room(self, at as usize) > 0);
            let wish = |slot: usize| {
                let (way, to) = circle.next(self.places[slot])?;
                Some((Reverse(self.loads[slot]), way, slot, to as usize))
            };
            let slots = (0..self.owner.len()).filter(|&slot| gives(self, slot));
            let mut wishes: Vec<_> = slots.filter_map(wish).collect();
            wishes.sort_unstable();
            let mut moved = 0;
            for &(.., slot, to) in &wishes {
                if gives(self, slot)
                    && self.loads[slot] <= room(self, to)
                    && self.improves(slot, to)
                {
                    self.give(slot, to);
                    moved += 1;
                }
            }
            if moved > 0 {
                continue;
            }
            // Each is too heavy for the shard that it prefers.
            for (.., slot, _) in wishes {
                if !gives(self, slot) {
                    continue;
                }
                let fits =
                    |&to: &usize| self.loads[slot] <= room(self, to) && self.improves(slot, to);
                let fitting = (0..self.members.len()).filter(fits);
                if let Some(to) = fitting.max_by_key(|&to| (room(self, to), Reverse(to))) {
                    self.give(slot, to);
                }
            }
            return;
        }
    }

    fn give(&mut self, slot: usize, to: usize) {
        if let Some(from) = self.owner[slot].replace(to) {
            self.load[from] -= self.loads[slot];
        }
        self.load[to] += self.loads[slot];
    }
}

fn check(members: &[&Member]) -> Result<(), NoPlan> {
    if members.is_empty() {
        return Err(NoPlan::NoShard);
    }
    if members.len() > usize::from(SLOTS) {
        return Err(NoPlan::TooManyShards);
    }
    for member in members {
        if !(1..=MAX_WEIGHT).contains(&member.weight) {
            return Err(NoPlan::Weight(member.shard));
        }
        if member.ids.is_empty() {
            return Err(NoPlan::NoIdentifier(member.shard));
        }
    }
    match members.windows(2).find(|pair| pair[0].shard == pair[1].shard) {
        Some(pair) => Err(NoPlan::Twice(pair[0].shard)),
        None => Ok(()),
    }
}

fn bounds(members: &[&Member], loads: &[u64]) -> Vec<Bounds> {
    let total = total(loads);
    // Alike slots come in whole numbers: a limit below the next one could leave slots without a place.
    let unit = loads.iter().copied().min().map_or(1, u128::from);
    let weight = |member: &Member| if wrong!(NoWeights) { 1 } else { u128::from(member.weight) };
    let weights: u128 = members.iter().map(|member| weight(member)).sum();
    let bounds = members.iter().map(|member| {
        let part = total * weight(member);
        let share = part / weights / unit * unit;
        let limit = part * LIMIT_PERCENT / (100 * weights);
        let limit = limit.max(part.div_ceil(weights * unit) * unit);
        let limit = if wrong!(NoBound) { u128::from(u64::MAX) } else { limit };
        let low = share * 100 / LIMIT_PERCENT;
        Bounds { low: low as u64, share: share as u64, limit: limit as u64 }
    });
    bounds.collect()
}
