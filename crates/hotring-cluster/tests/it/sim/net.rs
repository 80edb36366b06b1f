//! The network, and what the link does: records, full copies and repairs.

use crate::ids::Lsn;
use crate::message::{Course, Stamp, ToPrimary, ToReplica};
use crate::replica::AnswerRefused;
use crate::sim::data::{Data, Effect, Record, Values};
use crate::sim::node::{Message, Role, Session};
use crate::sim::world::{Event, World};

/// Most records in a message.
const RECORDS_MAX: usize = 8;

/// Most records that a replica has applied and not yet logged.
const LOGGED_LATER: Lsn = 8;

impl World {
    /// Sends a message, which may be lost, late or doubled.
    pub fn send(&mut self, from: usize, to: usize, message: Message) {
        let copies = if self.rng.u64(..1000) < self.plan.doubled { 2 } else { 1 };
        for _ in 0..copies {
            let is_cut = self.cut.iter().any(|(a, b, _)| (*a, *b) == (from, to));
            if is_cut || self.rng.u64(..1000) < self.plan.lost {
                continue;
            }
            let is_late = self.rng.u64(..1000) < self.plan.late;
            let delay = if is_late { self.rng.u64(100..4000) } else { self.rng.u64(1..12) };
            self.after(delay, Event::Deliver(from, to, message.clone()));
        }
    }

    /// Sends every replica the records that were not sent yet.
    pub fn ship(&mut self, n: usize) {
        let nodes: Vec<_> = self.serving(n).sessions.keys().copied().collect();
        for node in nodes {
            let session = &self.serving(n).sessions[&node];
            let (stamp, Some(sent)) = (session.stamp, session.sent) else { continue };
            let (data, end) = (&self.nodes[n].data, self.stream_end(n));
            if sent >= end {
                continue;
            }
            let records = &data.from(sent + 1)[..(end - sent) as usize];
            let length = 1 + self.rng.usize(..records.len().min(RECORDS_MAX));
            let records = records[..length].to_vec();
            let session = self.serving(n).sessions.get_mut(&node).expect("it is there");
            session.sent = Some(sent + length as Lsn);
            let to = self.index(node);
            self.send(n, to, Message::Records(stamp, sent + 1, records));
        }
    }

    /// What each side repeats, since the network loses messages.
    pub fn send_again(&mut self, n: usize) {
        match self.nodes[n].process.as_ref().map(|process| &process.role) {
            Some(Role::Primary(..)) => self.send_again_as_primary(n),
            Some(Role::Replica(..)) => {
                self.send_again_as_replica(n);
                self.send_again_to_replicas(n);
            }
            None => {}
        }
    }

    fn send_again_as_primary(&mut self, n: usize) {
        // No safety rests on watches, so they are slow.
        let is_watched = !self.is_cut_off(n) && (!self.in_trouble || self.rng.u8(..20) == 0);
        if let Some((revision, shard)) = self.record.clone().filter(|_| is_watched) {
            self.primary_mut(n).saw(revision, &shard);
            self.act(n);
            if self.nodes[n].primary().is_none() {
                return;
            }
        }
        self.send_again_to_replicas(n);
    }

    fn send_again_to_replicas(&mut self, n: usize) {
        let (last, values) = (self.nodes[n].data.last(), self.nodes[n].data.values);
        let nodes: Vec<_> = self.serving(n).sessions.keys().copied().collect();
        let is_full = self.keeps_back(n);
        for node in nodes {
            let to = self.index(node);
            let follower = self.nodes[n].feed().and_then(|feed| feed.follower(node)).cloned();
            let session = self.serving(n).sessions.get_mut(&node).expect("it is there");
            let Some(follower) = follower.filter(|follower| follower.stamp == session.stamp) else {
                self.serving(n).sessions.remove(&node);
                continue;
            };
            if follower.whole {
                session.sent = Some(follower.positions.applied);
            } else if session.copies && follower.has_acked && !is_full {
                for half in 0..2 {
                    self.send(n, to, Message::Copy(follower.stamp, half, values, last));
                }
            }
        }
        self.ship(n);
    }

    fn send_again_as_replica(&mut self, n: usize) {
        if let Some((_, shard)) = self.record.clone().filter(|_| !self.is_cut_off(n)) {
            let primary = self.index(shard.primary.node);
            let above = self.above(primary, n);
            let is_new = self.nodes[n].follows != Some(above) && primary != n;
            if is_new {
                self.nodes[n].follows = Some(above);
                self.following(n).linked = None;
                self.replica_mut(n).disconnected();
            }
        }
        let Some(primary) = self.nodes[n].follows else { return };
        let (floor, is_linked) = (self.nodes[n].data.base, self.following(n).linked.is_some());
        if !is_linked {
            let Some(hello) = self.replica_mut(n).hello(floor) else { return };
            self.send(n, primary, Message::ToPrimary(ToPrimary::Hello(hello)));
        } else {
            self.ask_for_values(n);
        }
    }

    /// Asks for the values of the keys of a tail that was cut off, if there are any.
    fn ask_for_values(&mut self, n: usize) {
        // A copy brings them, too.
        if self.following(n).source.is_some() {
            return;
        }
        let (to, stamp) = (self.nodes[n].follows, self.following(n).linked);
        let (Some(to), Some(stamp), Some(keys)) = (to, stamp, self.nodes[n].pending.clone()) else {
            return;
        };
        let last = self.nodes[n].data.last();
        self.send(n, to, Message::Keys(stamp, last, keys));
    }

    /// The records behind the last one, and values that the keys of a tail have then.
    fn take_values(
        &mut self,
        n: usize,
        stamp: Stamp,
        tail: &[Record],
        (last, values): (Lsn, &[(usize, u64)]),
    ) {
        let is_linked =
            self.following(n).linked == Some(stamp) && self.following(n).source.is_none();
        let is_awaited = is_linked && self.nodes[n].pending.is_some();
        let has = self.nodes[n].data.last();
        // The records after it would be undone.
        if !is_awaited || has > last {
            return;
        }
        self.note(|| format!("node {n} has repaired its tail, and all up to {last}"));
        self.stats.repairs += 1;
        self.following(n).held.clear();
        let known = tail.len() - (last - has) as usize;
        let node = &mut self.nodes[n];
        tail[known..].iter().for_each(|record| node.data.push(*record));
        node.data.give(values);
        (node.pending, node.logged) = (None, last);
        self.replica_mut(n).repaired(last);
        self.act(n);
    }

    pub fn deliver(&mut self, from: usize, to: usize, message: Message) {
        let is_primary = self.nodes[to].primary().is_some();
        match message {
            Message::ToPrimary(message) if is_primary => self.hand_to_primary(from, to, &message),
            Message::ToPrimary(message) if self.plan.chains => {
                self.hand_to_relay(from, to, &message);
            }
            Message::ToReplica(message) if is_primary => {
                let stamp = match message {
                    ToReplica::Beat(beat) => beat.stamp,
                    ToReplica::Handover(handover) => handover.stamp,
                    ToReplica::Answer(_) | ToReplica::NotReady(_) => return,
                };
                if let Some(reply) = self.primary_mut(to).stray(stamp) {
                    self.send(to, from, Message::ToPrimary(reply));
                }
            }
            Message::ToReplica(message) => self.hand_to_replica(from, to, message),
            Message::Keys(stamp, after, keys) => {
                let node = self.nodes[from].id;
                let known = self.serving(to).sessions.get(&node);
                if known.is_none_or(|known| known.stamp != stamp) || self.keeps_back(to) {
                    return;
                }
                let data = &self.nodes[to].data;
                let (last, tail) = (data.last(), data.from(after + 1).to_vec());
                let values = keys.iter().map(|key| (*key, data.values[*key])).collect();
                self.send(to, from, Message::Values(stamp, last, tail, values));
            }
            Message::Records(stamp, first, records) if !is_primary => {
                self.take_records(to, stamp, first, &records);
            }
            Message::Copy(stamp, half, values, last) if !is_primary => {
                self.take_half(to, stamp, half, values, last);
            }
            Message::Values(stamp, last, tail, values) if !is_primary => {
                self.take_values(to, stamp, &tail, (last, &values));
            }
            _ => {}
        }
    }

    fn hand_to_primary(&mut self, from: usize, to: usize, message: &ToPrimary) {
        let (clock, node) = (self.clock(to), self.nodes[from].id);
        let oldest = self.nodes[to].data.base + 1;
        let primary = self.primary_mut(to);
        match message {
            ToPrimary::Hello(hello) => primary.hello(clock, hello, oldest),
            message => primary.receive(clock, node, message),
        }
        self.act(to);
    }

    /// A message of a replica of a replica.
    fn hand_to_relay(&mut self, from: usize, to: usize, message: &ToPrimary) {
        let (node, oldest) = (self.nodes[from].id, self.nodes[to].data.base + 1);
        match message {
            ToPrimary::Hello(hello) => {
                let answer = self.replica_mut(to).hello_below(hello, oldest);
                if let ToReplica::Answer(answer) = &answer {
                    self.stats.passed_on += 1;
                    self.serving(to).sessions.insert(node, Session::of(answer));
                }
                self.end_links_below(to);
                self.send(to, from, Message::ToReplica(answer));
            }
            ToPrimary::Ack(ack) => self.replica_mut(to).ack_below(node, ack),
            ToPrimary::Declined(..) | ToPrimary::Fenced { .. } => {}
        }
    }

    /// Sends the beats of a replica, if it has replicas of its own.
    pub fn beat_below(&mut self, n: usize) {
        let clock = self.clock(n);
        let Some(Role::Replica(replica, _)) =
            self.nodes[n].process.as_mut().map(|process| &mut process.role)
        else {
            return;
        };
        for (node, beat) in replica.beats_below(clock, 0) {
            let to = self.index(node);
            self.send(n, to, Message::ToReplica(ToReplica::Beat(beat)));
        }
    }

    /// A replica stops to feed those whose connection its machine has ended. They notice at once.
    pub fn end_links_below(&mut self, n: usize) {
        let Some(Role::Replica(replica, following)) =
            self.nodes[n].process.as_mut().map(|process| &mut process.role)
        else {
            return;
        };
        let mut ended = Vec::new();
        following.below.sessions.retain(|node, session| {
            let known = replica.feed().follower(*node).map(|known| known.stamp);
            ended.extend((known != Some(session.stamp)).then_some((*node, session.stamp)));
            known == Some(session.stamp)
        });
        for (node, stamp) in ended {
            let to = self.index(node);
            if self.nodes[to].replica().is_some() && self.following(to).linked == Some(stamp) {
                self.following(to).linked = None;
                self.replica_mut(to).disconnected();
            }
        }
    }

    fn hand_to_replica(&mut self, from: usize, to: usize, message: ToReplica) {
        let (clock, node) = (self.clock(to), self.nodes[from].id);
        let ToReplica::Answer(answer) = message else {
            self.replica_mut(to).receive(clock, node, &message);
            return self.act(to);
        };
        // As a node of a cluster does, which follows its shard's primary alone.
        if self.plan.loses && !answer.leads {
            return;
        }
        let (stamp, store, history) = (answer.stamp, answer.store, answer.history.clone());
        let course = self.replica_mut(to).answer(clock, answer);
        self.note(|| format!("node {to} hears from node {from}, {stamp:?}: {course:?}"));
        self.following(to).refuses |= course.is_err_and(|why| why != AnswerRefused::Late);
        if let Ok(course) = course {
            self.nodes[to].is_suspect = true;
            let following = self.following(to);
            following.linked = Some(stamp);
            following.held.clear();
            (following.half, following.source) = (None, None);
            match course {
                Course::Continue(_) => {}
                Course::Repair(after) => {
                    assert!(self.replica_mut(to).cut(stamp, after), "it was told to");
                    let node = &mut self.nodes[to];
                    let keys = node.data.keys_behind(after);
                    node.pending.get_or_insert_default().extend(keys);
                    node.data.cut(after);
                    (node.synced, node.logged) = (node.synced.min(after), node.logged.min(after));
                }
                // Nothing is dropped before something of the copy is there.
                Course::FullCopy => following.source = Some((store, history, false)),
            }
            self.ask_for_values(to);
        }
        self.act(to);
    }

    /// Drops the data of a node before the first part of its copy. False if no copy is to come by this connection.
    fn drops_data(&mut self, n: usize, stamp: Stamp) -> bool {
        let Some((store, _, has_dropped)) = self.following(n).source else { return false };
        if !has_dropped {
            if !self.replica_mut(n).drop_data(stamp) {
                return false;
            }
            (self.nodes[n].is_partial, self.nodes[n].pending) = (true, None);
            self.nodes[n].data = Data::empty(store);
            (self.nodes[n].synced, self.nodes[n].logged) = (0, 0);
            self.following(n).source.as_mut().expect("it is there").2 = true;
        }
        true
    }

    fn take_half(&mut self, n: usize, stamp: Stamp, half: usize, values: Values, last: Lsn) {
        if self.following(n).linked != Some(stamp) || !self.drops_data(n, stamp) {
            return;
        }
        match self.following(n).half {
            Some((other, others, at)) if at == last && other != half => {
                let source = self.following(n).source.take();
                let (store, history, _) = source.expect("a copy was announced");
                let mut all = values;
                let theirs = (0..all.len()).filter(|key| key % 2 == other);
                theirs.for_each(|key| all[key] = others[key]);
                self.note(|| format!("node {n} has a copy up to {last}"));
                self.stats.copies += 1;
                self.nodes[n].data = Data::copied(store, history, last, all);
                (self.nodes[n].synced, self.nodes[n].logged) = (last, last);
                self.nodes[n].is_partial = false;
                self.replica_mut(n).copied(last);
                self.act(n);
            }
            _ => {
                self.following(n).half = Some((half, values, last));
                // What has arrived is stored, and would be seen if the copy counted already.
                let data = &mut self.nodes[n].data;
                let ours = (0..values.len()).filter(|key| key % 2 == half);
                ours.for_each(|key| data.values[key] = values[key]);
            }
        }
    }

    fn take_records(&mut self, n: usize, stamp: Stamp, first: Lsn, records: &[Record]) {
        let next = self.nodes[n].received() + 1;
        let known = next.saturating_sub(first) as usize;
        if first > next || known >= records.len() {
            return;
        }
        let (records, last) = (&records[known..], first + records.len() as Lsn - 1);
        let ends = records.iter().rposition(|record| record.ends);
        let batch_end = ends.map_or(0, |at| next + at as Lsn);
        let Some(through) = self.replica_mut(n).records(stamp, next, last, batch_end) else {
            return;
        };
        let held = &mut self.following(n).held;
        held.extend_from_slice(records);
        let held = std::mem::take(held);
        let n_ready = (through.saturating_sub(self.nodes[n].data.last())) as usize;
        let (ready, rest) = held.split_at(n_ready.min(held.len()));
        self.following(n).held = rest.to_vec();
        if ready.is_empty() {
            return;
        }
        for record in ready {
            if let Effect::Begin(start) = record.effect
                && self.replica_mut(n).began(start).is_err()
            {
                return self
                    .violate(format!("node {n} follows an epoch that is not later: {start:?}"));
            }
            self.nodes[n].data.push(*record);
        }
        let node = &mut self.nodes[n];
        node.logged = node.logged.max(node.data.last().saturating_sub(LOGGED_LATER));
        self.applied(n);
        self.act(n);
        self.ship(n);
    }
}
