//! The operator of a pair without records, and who repairs the shard with them.

use crate::ids::{Epoch, NodeId};
use crate::lost;
use crate::primary::{Primary, Writes};
use crate::records::Shard;
use crate::sim::world::World;

/// After a failover was last seen, a handover may still be taken up for this long: the operator looks at
/// least every 900 ms, and a promise lasts for two seconds of a slow clock.
const HANDOVER: u64 = 3200;

/// Without promises: as long as a message may take.
const HANDOVER_MAX: u64 = 12_000;

/// After this long in calm an operator ends a failover.
const WAITED_MAX: u64 = 10_000;

/// A node that is forced gets this long for its record and for the promise that it waits for.
const RESCUE_MAX: u64 = 5000;

impl World {
    /// Looks around, and does one thing or nothing.
    pub fn operate(&mut self) {
        if self.record.is_some() { self.repair_shard() } else { self.operate_by_hand() }
    }

    fn random_node(&mut self) -> usize {
        self.rng.usize(..self.nodes.len())
    }

    fn is_whim(&mut self, of: u8) -> bool {
        self.in_trouble && self.rng.u8(..of) == 0
    }

    /// Whether this step is forced.
    fn is_forced(&mut self) -> bool {
        self.plan.is_forced && self.rng.bool()
    }

    fn repair_shard(&mut self) {
        let Some((_, shard)) = &self.record else { return };
        let chief = self.index(shard.primary.node);
        if self.plan.is_forced {
            self.let_adopt();
        }
        if self.plan.regroups {
            self.regroup();
        }
        if self.plan.loses {
            self.recover();
            let none_answers = !(0..self.nodes.len()).any(|n| self.nodes[n].answers(self.now));
            if self.is_stuck() && none_answers && self.now > self.rescued_at + RESCUE_MAX {
                return self.rescue();
            }
        }
        // Without a time limit it waits for ever for a replica that follows another one by now.
        if !self.in_trouble && self.now > self.failing_over + WAITED_MAX {
            self.abort_failover(chief, self.machine(chief));
        }
        let is_full = self.keeps_back(chief);
        if self.is_whim(if is_full { 2 } else { 4 }) {
            return self.fail_over(chief);
        }
        let is_well = self.is_up(chief) && self.nodes[chief].answers(self.now);
        if !is_well || self.is_whim(8) {
            let n = self.random_node();
            self.promote(n, Vec::new());
        }
    }

    /// What the nodes of a shard do of which none is known to have everything: they tell how far their data goes, and
    /// the one with the most asks for the role.
    fn recover(&mut self) {
        if self.rng.u8(..4) > 0 {
            self.viewed = self.record.clone().map(|(_, shard)| shard);
        }
        let Some(record) = self.viewed.clone() else { return };
        for n in 0..self.nodes.len() {
            if !self.is_up(n) || self.is_cut_off(n) || self.rng.bool() {
                continue;
            }
            let me = self.nodes[n].process.as_ref().expect("it runs").me;
            let is_over = lost::is_over(&record, me, |node| self.extents[self.index(node)]);
            let replica = self.nodes[n].replica().filter(|_| is_over);
            self.extents[n] = replica.and_then(|replica| replica.extent(&record));
        }
        let heir = lost::heir(&record, |node| self.extents[self.index(node)]);
        let heir = heir.map(|node| self.index(node)).filter(|n| self.is_up(*n) && self.rng.bool());
        let Some(n) = heir.filter(|n| self.nodes[*n].replica().is_some()) else { return };
        let clock = self.clock(n);
        let result = self.replica_mut(n).inherit(clock, &record);
        self.note(|| format!("node {n} has the most: {result:?}"));
        if result.is_ok() && self.record.as_ref().is_some_and(|(_, now)| *now == record) {
            self.check_heir(n, &record);
        }
        self.act(n);
    }

    /// No member of a lost set has more than the node that goes on, and each has come back with data.
    fn check_heir(&mut self, heir: usize, record: &Shard) {
        let extent = |n: usize| (self.nodes[n].data.history.epoch(), self.nodes[n].data.last());
        let members = record.in_sync.iter().chain([&record.primary.node]);
        let lacks = |n: &usize| extent(*n) > extent(heir) || extent(*n).0 == Epoch(0);
        let better = members.map(|node| self.index(*node)).find(lacks);
        let told = better.map(|n| (n, extent(n), extent(heir)));
        if let Some((n, its, ours)) = told {
            self.violate(format!("node {heir} goes on with {ours:?} beside node {n} with {its:?}"));
        }
    }

    /// Takes a replica out of the record, or puts one back; in the end all are there.
    fn regroup(&mut self) {
        let n = self.random_node();
        let (Some((revision, shard)), node) = (&self.record, self.nodes[n].id) else { return };
        let is_listed = shard.replicas.contains(&node);
        let mut others = (0..self.nodes.len()).filter(|other| *other != n);
        let may_leave = self.in_trouble && others.any(|other| self.keeps_everything(other));
        let changed = match is_listed {
            _ if shard.primary.node == node => return,
            true if may_leave => shard.without(node),
            true => return,
            false => shard.with_replica(node),
        };
        let revision = *revision + 1;
        self.note(|| format!("record, revision {revision}, by an operator: {changed:?}"));
        self.stats.regroups += 1;
        self.record = Some((revision, changed));
    }

    /// A replica keeps its data, if a node with other data was forced, until it is told not to.
    fn let_adopt(&mut self) {
        for n in 0..self.nodes.len() {
            if self.is_up(n) && self.nodes[n].replica().is_some() && self.following(n).refuses {
                let is_told = self.replica_mut(n).adopt();
                self.following(n).refuses &= !is_told;
                self.following(n).linked = None;
            }
        }
    }

    fn promote(&mut self, n: usize, set: Vec<NodeId>) -> bool {
        if !self.is_up(n) || self.nodes[n].replica().is_none() {
            return false;
        }
        let (clock, force) = (self.clock(n), self.is_forced());
        let result = self.replica_mut(n).promote(clock, set, force);
        self.note(|| format!("operator promotes node {n}: {result:?}"));
        self.act(n);
        result.is_ok()
    }

    fn fail_over(&mut self, chief: usize) {
        // Without a set nothing is promised.
        let has_set = |primary: &Primary| {
            self.record.is_some() || self.plan.is_forced || !primary.in_sync().is_empty()
        };
        if !self.is_up(chief) || !self.nodes[chief].primary().is_some_and(has_set) {
            return;
        }
        let clock = self.clock(chief);
        let target = self.random_node();
        let target = Some(self.nodes[target].id).filter(|_| self.rng.bool());
        let timeout = std::time::Duration::from_millis(self.rng.u64(10..1000));
        let timeout = Some(timeout).filter(|_| self.rng.bool());
        let force = self.is_forced();
        let aborts = self.rng.u8(..3) == 0;
        let primary = self.primary_mut(chief);
        let result = if aborts && primary.abort_failover() {
            "aborted".to_string()
        } else {
            format!("{:?}", primary.fail_over(clock, target, timeout, force))
        };
        self.failing_over = self.now;
        self.note(|| format!("operator has node {chief} fail over to {target:?}: {result}"));
        self.act(chief);
    }

    pub fn abort_failover(&mut self, n: usize, machine: u64) {
        if self.is_up(n)
            && self.machine(n) == machine
            && self.nodes[n].primary().is_some()
            && self.primary_mut(n).abort_failover()
        {
            self.note(|| format!("operator aborts the failover of node {n}"));
            self.act(n);
        }
    }

    // Without records.

    fn operate_by_hand(&mut self) {
        let chief = self.chief;
        if let Some((n, machine)) = self.pending {
            // Until that is settled, nothing else is done.
            if self.nodes[n].process.is_some() && self.machine(n) == machine {
                return;
            }
            self.pending = None;
        }
        let clock = self.clock(chief);
        let is_paused = |primary: &Primary| primary.writes(clock) == Writes::Paused;
        if self.nodes[chief].primary().is_some_and(is_paused) {
            self.failing_over = self.now;
        }
        // A handover may be on its way, so no other node may be promoted, and none be taken out.
        let wait = if self.plan.promises { HANDOVER } else { HANDOVER_MAX };
        let may_promote = self.failing_over == 0 || self.now > self.failing_over + wait;
        let is_well = self.is_up(chief) && self.nodes[chief].answers(self.now);
        let serves = |primary: &Primary| primary.writes(clock) != Writes::Closed;
        if !self.nodes[chief].primary().is_some_and(serves) && self.is_stuck() {
            return self.rescue();
        }
        let may_wait = self.in_trouble && self.rng.bool();
        if may_promote && ((!is_well && !may_wait) || self.is_whim(12)) {
            let n = self.random_node();
            if n != chief && (!self.nodes[n].is_barred || self.plan.is_forced) {
                let set = self.choose_set(n);
                if self.promote(n, set) {
                    let is_waiting = self.chief == chief;
                    self.pending = is_waiting.then(|| (n, self.machine(n)));
                    return;
                }
            }
        }
        if !self.is_up(chief) || self.nodes[chief].primary().is_none() {
            return;
        }
        match self.rng.u8(..4) {
            0 if self.in_trouble => self.fail_over(chief),
            1 if may_promote => self.shrink(chief),
            2 => self.extend(chief),
            _ => self.redirect(chief),
        }
        self.unbar(chief);
    }

    /// Whether no node is known to have everything, though all are there: the one that has died since was the
    /// only one to know.
    fn is_stuck(&self) -> bool {
        let is_late = self.now > self.healed_at.saturating_add(12_000);
        is_late && (0..self.nodes.len()).all(|n| self.is_up(n))
    }

    /// Once all nodes can tell what they have, the one with the latest epoch and record is forced.
    fn rescue(&mut self) {
        let whole = (0..self.nodes.len()).filter(|n| !self.nodes[*n].is_partial);
        let best = whole.max_by_key(|n| {
            let data = &self.nodes[*n].data;
            (data.history.epoch(), data.last())
        });
        let Some(best) = best else { return };
        let clock = self.clock(best);
        self.stats.rescues += 1;
        self.rescued_at = self.now;
        if self.nodes[best].primary().is_some() {
            self.note(|| format!("operator lets node {best} go on with what it has"));
            self.chief = best;
            self.primary_mut(best).accept_loss(clock);
            return self.act(best);
        }
        let result = self.replica_mut(best).promote(clock, Vec::new(), true);
        self.note(|| format!("operator forces node {best}: {result:?}"));
        self.act(best);
        if result.is_ok() && self.chief != best {
            self.pending = Some((best, self.machine(best)));
        }
    }

    /// The in-sync set of the node that is promoted: no node, or all others.
    fn choose_set(&mut self, n: usize) -> Vec<NodeId> {
        if self.rng.bool() {
            return Vec::new();
        }
        let others = self.nodes.iter().map(|node| node.id);
        others.filter(|node| *node != self.nodes[n].id).collect()
    }

    /// A node has become primary: by the operator's word, or by a handover.
    pub fn promoted(&mut self, n: usize, set: Vec<NodeId>) {
        self.chief = n;
        self.pending = self.pending.filter(|(other, _)| *other != n);
        for m in (0..self.nodes.len()).filter(|m| *m != n) {
            let is_member = set.contains(&self.nodes[m].id);
            self.renamed[m] = (is_member && self.nodes[m].is_barred).then_some(0);
            self.nodes[m].is_barred |= !is_member;
        }
        self.nodes[n].is_barred = false;
        self.nodes[n].set = set;
    }

    /// Whom a node must follow: the primary, or in a chain, if it is outside of the set, another replica.
    pub fn above(&self, chief: usize, n: usize) -> usize {
        let set = match &self.record {
            Some((_, shard)) => &shard.in_sync,
            None => &self.nodes[chief].set,
        };
        let is_member = |n: usize| set.contains(&self.nodes[n].id);
        let mut others = (0..self.nodes.len()).filter(|other| ![chief, n].contains(other));
        // Never an old primary that may come back as one.
        match others.find(|other| self.nodes[*other].follows == Some(chief)) {
            // Of two that are outside, the first one follows the primary.
            Some(other) if self.plan.chains && !is_member(n) => {
                let is_next = other < n || is_member(other);
                if is_next { other } else { chief }
            }
            _ => chief,
        }
    }

    /// All others must follow the primary, whatever they have.
    fn redirect(&mut self, chief: usize) {
        for n in (0..self.nodes.len()).filter(|n| *n != chief) {
            if !self.is_up(n) {
                continue;
            }
            let leads = self.nodes[n].primary().is_some();
            let above = self.above(chief, n);
            if !leads && self.nodes[n].follows == Some(above) && !self.following(n).refuses {
                continue;
            }
            self.note(|| format!("operator has node {n} follow node {above}"));
            self.nodes[n].follows = Some(above);
            if leads {
                let me = self.nodes[n].process.as_ref().expect("it runs").me;
                self.follow_as(n, me, true);
            } else if self.replica_mut(n).adopt() {
                let following = self.following(n);
                (following.linked, following.refuses) = (None, false);
            }
        }
    }

    fn name(&mut self, chief: usize, set: Vec<NodeId>) -> bool {
        let clock = self.clock(chief);
        let result = self.primary_mut(chief).name(clock, set.clone());
        self.note(|| format!("operator names {set:?} at node {chief}: {result:?}"));
        if result.is_ok() {
            self.nodes[chief].set = set;
            self.stats.set_changes += 1;
        }
        self.act(chief);
        result.is_ok()
    }

    /// Takes a member out that is not there, or any one.
    fn shrink(&mut self, chief: usize) {
        let set = self.nodes[chief].set.clone();
        let is_gone = |node: &NodeId| !self.is_up(self.index(*node));
        let gone = set.iter().copied().find(is_gone);
        let whim = if self.is_whim(4) { set.first().copied() } else { None };
        let Some(out) = gone.or(whim) else { return };
        // From here on the operator must not promote it.
        let n = self.index(out);
        let rest = set.into_iter().filter(|node| *node != out).collect();
        if self.name(chief, rest) {
            self.nodes[n].is_barred = true;
            self.renamed[n] = None;
        }
    }

    /// Names a replica again that is there.
    fn extend(&mut self, chief: usize) {
        let mut set = self.nodes[chief].set.clone();
        let feed = self.primary_mut(chief).feed();
        let beats = feed.last_beat();
        let outside = feed.followers().iter().map(|follower| follower.id.node);
        let Some(node) = outside.into_iter().find(|node| !set.contains(node)) else { return };
        set.push(node);
        let n = self.index(node);
        if self.name(chief, set) {
            self.renamed[n] = Some(beats);
        }
    }

    /// A named replica counts again when the primary has told it that it is in sync.
    fn unbar(&mut self, chief: usize) {
        for n in 0..self.nodes.len() {
            let (Some(beats), Some(primary)) = (self.renamed[n], self.nodes[chief].primary())
            else {
                continue;
            };
            let Some(replica) = self.nodes[n].replica() else { continue };
            let follower = primary.feed().follower(self.nodes[n].id);
            if follower.is_some_and(|follower| follower.answered > beats) && replica.is_in_sync() {
                self.nodes[n].is_barred = false;
                self.renamed[n] = None;
            }
        }
    }
}
