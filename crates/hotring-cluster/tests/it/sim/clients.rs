//! Clients: each writes one pair of keys, with ever larger values, and reads all of them at any node that calls itself
//! primary. A client that waits too long gives up, and its write has an open fate.

use crate::ids::Lsn;
use crate::primary::Writes;
use crate::sim::data::{Effect, PAIRS};
use crate::sim::node::Reply;
use crate::sim::world::{Event, World};

/// Most records that a full disk keeps back.
const KEPT_BACK_MAX: Lsn = 4;

/// What a client waits for.
#[derive(Clone, Debug)]
pub struct Wanted {
    request: u64,
    pair: usize,
    value: u64,
    /// For a read, what it must not fall behind.
    floor: Option<u64>,
    pub until: u64,
}

impl World {
    pub fn request(&mut self, client: usize) {
        let pause = 1 + self.rng.u64(0..2 * self.plan.pace);
        self.after(pause, Event::Client(client));
        if self.clients[client].as_ref().is_some_and(|wanted| wanted.until > self.now) {
            return;
        }
        self.clients[client] = None;
        let is_done = self.now > self.healed_at.saturating_add(4000) && self.acked_since;
        let up = |n: &usize| self.is_up(*n) && self.nodes[*n].primary().is_some();
        let primaries: Vec<usize> = (0..self.nodes.len()).filter(up).collect();
        if primaries.is_empty() || is_done {
            return;
        }
        let n = primaries[self.rng.usize(..primaries.len())];
        if self.rng.u8(..10) < 6 { self.write(client, n) } else { self.read(client, n) }
    }

    /// Begins a write, unless the client waits for something or the node does not take it now.
    pub fn write(&mut self, client: usize, n: usize) {
        let clock = self.clock(n);
        let waits = self.clients[client].as_ref().is_some_and(|wanted| wanted.until > self.now);
        if waits {
            return;
        }
        if self.primary_mut(n).writes(clock) != Writes::Open || !self.nodes[n].answers(self.now) {
            return;
        }
        // On a full disk some writes are applied before the log says that it cannot be written.
        let is_refused = self.nodes[n].data.last() > self.stream_end(n) + KEPT_BACK_MAX;
        if !self.may_write(n, client) || is_refused {
            return;
        }
        self.values += 1;
        let value = self.values;
        let batch = [Effect::Put(2 * client, value), Effect::Put(2 * client + 1, value)];
        self.append(n, &batch);
        let last = self.nodes[n].data.last();
        self.note(|| format!("write {client}={value} at node {n}, record {last}"));
        let told = if wrong!(TellUnwritten) { last } else { self.stream_end(n) };
        self.primary_mut(n).appended(clock, told, 100 * last);
        self.wait(client, n, last, client, value, None);
    }

    fn read(&mut self, client: usize, n: usize) {
        let pair = self.rng.usize(..PAIRS);
        let data = &self.nodes[n].data;
        let (value, lsn) = (data.values[2 * pair], data.written_by[2 * pair]);
        self.wait(client, n, lsn, pair, value, Some(self.floors[pair]));
    }

    fn wait(
        &mut self,
        client: usize,
        n: usize,
        lsn: Lsn,
        pair: usize,
        value: u64,
        floor: Option<u64>,
    ) {
        self.numbers += 1;
        let request = self.numbers;
        let until = self.now + self.rng.u64(300..2500);
        self.clients[client] = Some(Wanted { request, pair, value, floor, until });
        self.serving(n).replies.push(Reply { client, request, lsn });
        self.act(n);
    }

    /// Lets the replies of a node leave that may.
    pub fn reply(&mut self, n: usize) {
        if !self.nodes[n].answers(self.now) {
            return;
        }
        let committed = self.primary_mut(n).committed();
        let replies = std::mem::take(&mut self.serving(n).replies);
        let (ready, waiting) = replies.into_iter().partition(|reply| reply.lsn <= committed);
        self.serving(n).replies = waiting;
        self.send_grants(n);
        let ready: Vec<Reply> = ready;
        for Reply { client, request, .. } in ready {
            let is_it = |wanted: &Wanted| wanted.request == request && wanted.until > self.now;
            if !self.clients[client].as_ref().is_some_and(is_it) {
                continue;
            }
            let Some(Wanted { pair, value, floor, .. }) = self.clients[client].take() else {
                continue;
            };
            self.note(|| format!("node {n} replies to {client}: pair {pair} is {value}"));
            let is_promised = self.plan.promises && !self.plan.is_forced;
            if is_promised && floor.is_some_and(|floor| value < floor) {
                self.violate(format!(
                    "node {n} showed {value} of pair {pair}, but {floor:?} was seen"
                ));
            }
            match floor {
                None => self.stats.acked += 1,
                Some(_) => self.stats.reads += 1,
            }
            self.acked_since |= floor.is_none() && self.now > self.healed_at;
            self.floors[pair] = self.floors[pair].max(value);
        }
    }
}
