//! What keeps the records: one place, reached by a network that may leave an outcome unknown.

use crate::ids::{Identity, NodeId};
use crate::records::{Outcome, Records, Request};
use crate::replica::Replica;
use crate::sim::node::Role;
use crate::sim::world::{Deaf, Event, SHARD, World};

/// After this many milliseconds an outcome is unknown.
const TIME_OUT: u64 = 500;

/// A request and its outcome are on their way for less than this, unless the answer is slow.
const ON_THE_WAY: u64 = 40;

/// A slow answer takes up to this: as long as a node that is slow itself might take it for an answer.
const SLOW_MAX: u64 = 2000;

impl World {
    pub fn is_cut_off(&self, n: usize) -> bool {
        self.cut_off.iter().any(|(node, _)| *node == n)
    }

    /// A node hears nothing, and all that was on its way to it has arrived, but for slow answers: it must take no
    /// member out of the set that it heard before, as its heirs are there.
    fn check_deaf(&mut self, n: usize, request: &Request) {
        let (Request::Transact(transaction), Some((revision, record))) = (request, &self.record)
        else {
            return;
        };
        // One that comes too late has no effect.
        if transaction.expect != [(SHARD, *revision)] {
            return;
        }
        let after = &transaction.write[0].1.in_sync;
        let removed = record.in_sync.iter().filter(|node| !after.contains(node));
        let removed: Vec<&NodeId> = removed.collect();
        let removes_heirs = |deaf: &Deaf| {
            let is_deaf = deaf.node == n && self.now > deaf.since + ON_THE_WAY;
            is_deaf && removed.iter().any(|node| !deaf.silent.contains(node))
        };
        if self.deaf.iter().any(removes_heirs) {
            self.violate(format!("node {n} hears nothing and removes a member: {after:?}"));
        }
    }

    /// A machine asks for something.
    pub fn ask(&mut self, n: usize, request: Request) {
        self.note_named(n, &request);
        let machine = self.machine(n);
        let process = self.nodes[n].process.as_mut().expect("it runs");
        process.desk.start(request);
        for request in std::mem::take(&mut process.desk.asked) {
            self.check_deaf(n, &request);
            let (there, mut back) = (self.rng.u64(1..20), self.rng.u64(1..20));
            if self.plan.deafens && self.rng.u8(..4) == 0 {
                back = self.rng.u64(20..SLOW_MAX);
            }
            let fate = if self.rng.u64(..1000) < 3 * self.plan.lost { self.rng.u8(..3) } else { 3 };
            let is_deaf = self.deaf.iter().any(|deaf| deaf.node == n);
            match if self.is_cut_off(n) {
                0
            } else if is_deaf {
                1
            } else {
                fate
            } {
                0 => {}
                // It takes effect, but the reply is lost.
                1 => self.after(there, Event::Ask(n, machine, request, None)),
                // It takes effect long after it was given up.
                2 => {
                    let late = self.rng.u64(TIME_OUT..5 * TIME_OUT);
                    self.after(late, Event::Ask(n, machine, request, None));
                }
                _ => {
                    self.after(there, Event::Ask(n, machine, request, Some(back)));
                    continue;
                }
            }
            self.after(TIME_OUT, Event::Outcome(n, machine, Outcome::Unknown));
        }
    }

    /// A primary adds replicas in the starts in which it knows them.
    fn note_named(&mut self, n: usize, request: &Request) {
        let (Request::Transact(transaction), Some(primary)) = (request, self.nodes[n].primary())
        else {
            return;
        };
        let (before, after) = (transaction.expect[0].1, &transaction.write[0].1);
        let known = primary.feed().followers().iter().map(|follower| follower.id);
        let is_added = |id: &Identity| {
            after.in_sync.contains(&id.node) && !primary.in_sync().contains(&id.node)
        };
        for id in known.filter(is_added).collect::<Vec<_>>() {
            let named = &mut self.named[usize::from(id.node.0[0]) - 1];
            // The same transaction may be sent again.
            if named.is_none_or(|(at, _)| at != before) {
                *named = Some((before, id.incarnation));
            }
        }
    }

    /// Whether a node still runs in the start in which it was added to the set that the record has.
    pub fn is_named(&self, n: usize) -> bool {
        let Some((_, shard)) = &self.record else { return false };
        let start = self.nodes[n].process.as_ref().map(|process| process.me.incarnation);
        shard.in_sync.contains(&self.nodes[n].id)
            && self.named[n].is_some_and(|(_, named)| Some(named) == start)
    }

    /// The primary may die at any moment. In a chain a replica may leave for another one, and give its data up, while
    /// the primary adds it.
    pub fn check_members(&mut self) {
        let is_checked = |n: &usize| self.is_named(*n) && !self.plan.chains;
        for n in (0..self.nodes.len()).filter(is_checked) {
            let cannot_lead = |replica: &Replica| !replica.is_whole() || !replica.was_caught_up;
            if self.nodes[n].replica().is_some_and(cannot_lead) {
                return self.violate(format!("the record names node {n}, which cannot take over"));
            }
        }
    }

    /// A request arrives.
    pub fn asked(&mut self, n: usize, machine: u64, request: &Request, reply: Option<u64>) {
        let Some((revision, record)) = &mut self.record else { return };
        let outcome = match request {
            Request::ReadAll => Outcome::Records(vec![(SHARD, *revision, record.clone())]),
            Request::Transact(transaction) if transaction.expect == [(SHARD, *revision)] => {
                *revision += 1;
                *record = transaction.write[0].1.clone();
                let (revision, text) = (*revision, format!("{record:?}"));
                self.stats.set_changes += 1;
                self.note(|| format!("record, revision {revision}, by node {n}: {text}"));
                Outcome::Done(revision)
            }
            Request::Transact(_) => Outcome::Conflict,
        };
        if let Some(back) = reply {
            self.after(back, Event::Outcome(n, machine, outcome));
        }
    }

    /// An outcome arrives at the machine that asked, if it is still there.
    pub fn answered(&mut self, n: usize, machine: u64, outcome: Outcome) {
        if self.machine(n) != machine {
            return;
        }
        let paused = self.nodes[n].paused_until.saturating_sub(self.now);
        if paused > 0 {
            return self.after(paused, Event::Outcome(n, machine, outcome));
        }
        let clock = self.clock(n);
        let Some(process) = &mut self.nodes[n].process else { return };
        process.desk.outcomes.push_back(outcome);
        while let Some(outcome) = process.desk.outcome() {
            match &mut process.role {
                Role::Primary(primary, _) => primary.outcome(clock, outcome),
                Role::Replica(replica, _) => replica.outcome(clock, outcome),
            }
        }
        self.act(n);
    }
}
