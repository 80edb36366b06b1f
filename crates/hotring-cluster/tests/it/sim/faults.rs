//! Crashes, pauses and cuts, as far as one node keeps everything.

use crate::ids::NodeId;
use crate::primary::Primary;
use crate::records::Shard;
use crate::sim::data::{Data, PAIRS};
use crate::sim::node::End;
use crate::sim::plan::Log;
use crate::sim::world::{Deaf, Event, World};

impl World {
    /// One fault, and the next one later.
    pub fn fault(&mut self) {
        if !self.in_trouble {
            return;
        }
        let pause = self.rng.u64(..2 * self.plan.calm);
        self.after(pause, Event::Fault);
        if self.plan.loses && self.rng.u8(..10) == 0 {
            return self.lose_all();
        }
        if self.plan.fills && self.full.is_none() && self.rng.u8(..3) == 0 {
            return self.fill();
        }
        if self.plan.deafens && self.rng.u8(..4) == 0 {
            return self.deafen();
        }
        let n = self.rng.usize(..self.nodes.len());
        let long = if self.rng.bool() { 1000 } else { 6000 };
        let time = self.rng.u64(50..long);
        match self.rng.u8(..8) {
            0..3 => {
                self.crash(n, time);
                let other = self.rng.usize(..self.nodes.len());
                if self.rng.u8(..3) == 0 {
                    self.crash(other, time / 2 + 20);
                }
            }
            3 if self.is_up(n) => {
                self.note(|| format!("node {n} is paused for {time}"));
                self.nodes[n].paused_until = self.now + time;
            }
            3 => {}
            4..7 => self.cut_links(n, time),
            _ => {
                self.numbers += 1;
                self.cut_off.push((n, self.numbers));
                self.after(time, Event::Mend(self.numbers));
            }
        }
    }

    /// The target of a handover sleeps, and the operator gives up meanwhile.
    pub fn disturb_handover(&mut self, n: usize, to: usize) {
        let (time, machine) = (self.rng.u64(200..2500), self.machine(n));
        self.note(|| format!("node {to} is paused for {time}"));
        self.nodes[to].paused_until = self.now + time;
        let soon = self.rng.u64(20..time);
        self.after(soon, Event::Abort(n, machine));
    }

    /// The disk of the primary is full for a while.
    fn fill(&mut self) {
        let Some((_, shard)) = &self.record else { return };
        let n = self.index(shard.primary.node);
        if self.is_up(n) && self.nodes[n].primary().is_some_and(Primary::is_serving) {
            let time = self.rng.u64(500..5000);
            self.note(|| format!("the disk of node {n} is full for {time}"));
            self.stats.filled += 1;
            self.full = Some((n, self.machine(n), self.nodes[n].data.last()));
            self.after(time, Event::MakeRoom);
        }
    }

    /// What the full disk has kept back is written, unless its node has another role by now.
    pub fn make_room(&mut self) {
        let Some((n, machine, _)) = self.full.take() else { return };
        if self.machine(n) == machine && self.nodes[n].primary().is_some() {
            let (clock, last) = (self.clock(n), self.nodes[n].data.last());
            self.nodes[n].logged = last;
            self.primary_mut(n).appended(clock, last, 100 * last);
            self.ship(n);
        }
    }

    /// The primary hears no other node for a while. All that it sends arrives.
    fn deafen(&mut self) {
        let Some((_, shard)) = &self.record else { return };
        let n = self.index(shard.primary.node);
        if !self.is_up(n) {
            return;
        }
        self.numbers += 1;
        let (number, time) = (self.numbers, self.rng.u64(500..5000));
        self.note(|| format!("node {n} is deaf for {time}"));
        self.stats.deafened += 1;
        let others = (0..self.nodes.len()).filter(|m| *m != n);
        self.cut.extend(others.map(|m| (m, n, number)));
        self.deaf.push(Deaf { node: n, number, since: self.now, silent: self.silent_members(n) });
        self.after(time, Event::Mend(number));
    }

    /// The members that the primary has not heard for too long.
    fn silent_members(&self, n: usize) -> Vec<NodeId> {
        let Some(primary) = self.nodes[n].primary() else { return Vec::new() };
        let members = primary.in_sync().iter().copied();
        let is_heard = |node| primary.is_within(self.clock(n), node, self.rules.in_sync_lag);
        members.filter(|node| !is_heard(*node)).collect()
    }

    fn cut_links(&mut self, n: usize, time: u64) {
        self.numbers += 1;
        let number = self.numbers;
        let other = self.rng.usize(..self.nodes.len());
        let how = self.rng.u8(..3);
        self.note(|| format!("links of node {n} are cut for {time}: kind {how}, other {other}"));
        for m in (0..self.nodes.len()).filter(|m| *m != n) {
            // All links of the node, those with one other, or one direction of these.
            if how == 0 || m == other {
                self.cut.push((n, m, number));
                self.cut.extend((how < 2).then_some((m, n, number)));
            }
        }
        self.after(time, Event::Mend(number));
    }

    fn crash(&mut self, n: usize, time: u64) {
        let end = match self.rng.u8(..6) {
            0 => End::Closed,
            1..4 => End::Killed,
            _ => End::PowerCut,
        };
        if self.nodes[n].process.is_some() && self.may_crash(n, end) {
            self.end(n, end, time);
        }
    }

    /// A power cut of all nodes, which come back one by one; a disk may be lost, too. What all members of the set have
    /// lost is gone, and nothing else may be.
    fn lose_all(&mut self) {
        self.stats.losses += 1;
        for n in 0..self.nodes.len() {
            let time = self.rng.u64(50..3000);
            if self.nodes[n].process.is_some() {
                self.end(n, End::PowerCut, time);
            }
        }
        if self.rng.u8(..6) == 0 {
            let n = self.rng.usize(..self.nodes.len());
            self.note(|| format!("node {n} loses its disk"));
            self.numbers += 1;
            let mut store = [0; 16];
            store[..8].copy_from_slice(&self.numbers.to_le_bytes());
            let node = &mut self.nodes[n];
            (node.data, node.is_partial, node.is_suspect) = (Data::empty(store), false, true);
            (node.synced, node.logged) = (0, 0);
            self.extents[n] = None;
        }
        for pair in 0..PAIRS {
            let has = |node: &NodeId| self.nodes[self.index(*node)].data.values[2 * pair];
            let most =
                |shard: &Shard| shard.in_sync.iter().chain([&shard.primary.node]).map(has).max();
            // A transaction on its way may yet change the set.
            let records = self.record.iter().map(|(_, shard)| shard).chain(self.coming_records());
            let kept = records.filter_map(most).min().unwrap_or(0);
            self.floors[pair] = self.floors[pair].min(kept);
        }
    }

    fn end(&mut self, n: usize, end: End, time: u64) {
        self.note(|| format!("node {n} ends: {end:?}"));
        self.stats.crashes += 1;
        let kept = match end {
            End::PowerCut if self.nodes[n].log == Log::EverySecond => {
                let node = &self.nodes[n];
                self.rng.u64(node.synced.min(node.data.last())..=node.data.last())
            }
            // What a replica has applied and told may not be in its file yet.
            End::Killed | End::PowerCut => {
                let node = &self.nodes[n];
                self.rng.u64(node.logged.min(node.data.last())..=node.data.last())
            }
            End::Closed => self.nodes[n].data.last(),
        };
        let kept = kept.min(self.stream_end(n));
        self.numbers += 1;
        let fresh = self.numbers.to_le_bytes();
        let now = self.now;
        let node = &mut self.nodes[n];
        (node.process, node.pending) = (None, None);
        node.is_suspect = !node.is_clean(end);
        node.end = end;
        node.paused_until = 0;
        if node.log == Log::Off || node.is_partial {
            let mut store = [0; 16];
            store[..8].copy_from_slice(&fresh);
            node.data = Data::empty(store);
            node.is_partial &= node.log != Log::Off;
        } else {
            node.data.recover(kept);
        }
        (node.synced, node.logged) = (node.data.last(), node.data.last());
        if end == End::PowerCut {
            node.reboot(now);
        }
        self.after(time, Event::Start(n));
        // What it has told is there until its lease is over, or it tells something else.
        if self.plan.loses && self.rng.bool() {
            self.extents[n] = None;
        }
    }

    /// Whether something is left of everything if this node ends so.
    fn may_crash(&self, n: usize, end: End) -> bool {
        let others = (0..self.nodes.len()).filter(|m| *m != n);
        let is_clean = self.nodes[n].is_clean(end) && self.is_primary(n) && self.has_everything(n);
        self.plan.is_forced || is_clean || others.into_iter().any(|m| self.keeps_everything(m))
    }

    fn has_everything(&self, n: usize) -> bool {
        let node = &self.nodes[n];
        let has = |pair: usize| node.data.values[2 * pair] >= self.floors[pair];
        !node.is_partial && (0..PAIRS).all(has)
    }

    /// Whether the node is the primary, or was when it stopped.
    fn is_primary(&self, n: usize) -> bool {
        let own = self.nodes[n].data.history.last_start();
        let own = own.filter(|start| start.node == self.nodes[n].id);
        match (&self.record, own) {
            (_, None) => false,
            (Some((_, shard)), Some(own)) => {
                shard.primary.node == own.node && own.epoch >= shard.promoted
            }
            (None, Some(_)) => n == self.chief && self.nodes[n].follows.is_none(),
        }
    }

    /// Whether the node has all that was acknowledged, and may be or become primary without force.
    pub fn keeps_everything(&self, n: usize) -> bool {
        let node = &self.nodes[n];
        let may_lead = match (node.primary(), node.replica()) {
            (Some(primary), _) => {
                let clock = node.clock(self.now);
                primary.writes(clock) != crate::primary::Writes::Closed && self.is_primary(n)
            }
            (_, Some(replica)) => {
                let is_named = match &self.record {
                    Some((_, shard)) => shard.in_sync.contains(&node.id),
                    None => !node.is_barred,
                };
                is_named && (replica.is_in_sync() || self.is_named(n))
            }
            (None, None) => node.is_clean(node.end) && self.is_primary(n),
        };
        // A transaction on its way may yet take it out.
        let stays =
            |shard: &Shard| shard.primary.node == node.id || shard.in_sync.contains(&node.id);
        may_lead && self.has_everything(n) && self.coming_records().all(stays)
    }
}
