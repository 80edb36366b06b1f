//! The simulator of moves.
//!
//! Replication within a shard is taken as right, since other schedules check it: of a shard's own keys its in-sync
//! replicas have everything, of an import they have a part. The power of a shard goes for all its nodes, and its disks
//! have the same.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use fastrand::Rng;

use super::disks::Floors;
use super::mirrors::Mirrors;
use super::parts::{Asker, Down, Entry, Giver, Link, Records, Shard, Stats, number};
use crate::faults::{self, Fault};
use crate::ids::{Epoch, Moment};
use crate::mirrors::Owner as Mirrored;
use crate::moves::{
    Ask, Attempt, Incoming, IncomingAct, Outcome, Outgoing, OutgoingAct, Pace, ToSource, ToTarget,
};

pub(super) const KEYS: u8 = 4;
const STEPS: usize = 1_500;
/// Steps without faults at the end, in which all moves must end.
const QUIET: usize = 1_500;

pub(super) type Values = BTreeMap<u8, u64>;

/// The simulator.
pub(super) struct World {
    pub(super) rng: Rng,
    pub(super) now: Moment,
    pub(super) records: Records,
    pub(super) shards: [Shard; 2],
    givers: Vec<Giver>,
    links: Vec<Link>,
    requests: Vec<(Moment, Asker, usize, Ask)>,
    outcomes: Vec<(Moment, Asker, u64, Outcome)>,
    pub(super) truth: Values,
    pub(super) floors: Floors,
    pub(super) mirrors: Mirrors,
    next_value: u64,
    next_giver: u64,
    faulty: bool,
    pub(super) stats: Stats,
}

impl World {
    pub(super) fn new(seed: u64) -> World {
        let mut world = World {
            rng: Rng::with_seed(seed),
            now: Moment::ZERO,
            records: Records {
                revision: 9,
                shards: [(1, 1), (2, 1)],
                table: 3,
                owner: 0,
                record: None,
            },
            shards: [Shard::default(), Shard::default()],
            givers: Vec::new(),
            links: Vec::new(),
            requests: Vec::new(),
            outcomes: Vec::new(),
            truth: Values::new(),
            floors: Floors::default(),
            mirrors: Mirrors::default(),
            next_value: 1,
            next_giver: 1,
            faulty: true,
            stats: Stats::default(),
        };
        for shard in &mut world.shards {
            shard.epoch = 1;
            shard.incoming = Some(Incoming::new(Epoch(1), None));
            shard.owner = Some(Mirrored::promoted(Epoch(1), 0));
        }
        world.shards[0].owns = true;
        world
    }

    pub(super) fn chance(&mut self, percent: u32) -> bool {
        self.faulty && self.rng.u32(..100) < percent
    }

    pub(super) fn later(&mut self) -> Moment {
        let most = if self.chance(5) { 400 } else { 8 };
        self.now + Duration::from_millis(self.rng.u64(0..most))
    }

    pub(super) fn serves(&self, at: usize) -> bool {
        self.now >= self.shards[at].serves_at && self.shards[at].owns
    }

    /// A client's request at any shard.
    fn client(&mut self) -> Result<(), String> {
        let (at, key) = (self.rng.usize(..2), self.rng.u8(..KEYS));
        if !self.serves(at) {
            return Ok(());
        }
        if self.rng.bool() {
            if self.shards[at].holds_reads {
                return Ok(());
            }
            self.stats.reads += 1;
            let (got, right) = (self.shards[at].values.get(&key), self.truth.get(&key));
            if got != right {
                return Err(format!("shard {at} answers {got:?} for key {key}, not {right:?}"));
            }
        } else if !self.shards[at].holds_writes && self.may_write(at, key) {
            self.stats.writes += 1;
            let value = self.rng.bool().then_some(self.next_value);
            self.floors.wrote(key, self.next_value, value.is_none());
            self.next_value += 1;
            match value {
                Some(value) => _ = self.truth.insert(key, value),
                None => _ = self.truth.remove(&key),
            }
            let shard = &mut self.shards[at];
            shard.lsn += 1;
            // Acknowledged, so the replicas have it and all before.
            shard.in_sync = shard.stream.len();
            match value {
                Some(value) => _ = shard.values.insert(key, value),
                None => _ = shard.values.remove(&key),
            }
            let giver = self.shards[at].giver;
            if let Some(giver) = self.givers.iter().position(|known| Some(known.id) == giver)
                && let Some((attempt, _)) = self.givers[giver].copy
            {
                self.send_down(giver, Down::Value(attempt, key, value));
            }
        }
        Ok(())
    }

    fn send_down(&mut self, giver: usize, what: Down) {
        let at = self.later();
        if let Some(link) = self.givers[giver].link {
            self.links[link].down.push_back((at, what));
        }
    }

    /// A source's primary does what its machine asks for.
    fn carry_out(&mut self, giver: usize) {
        let shard = self.givers[giver].shard;
        let is_present = self.shards[shard].giver == Some(self.givers[giver].id);
        for act in self.givers[giver].machine.acts() {
            match act {
                OutgoingAct::Send(message) => {
                    if matches!(message, ToTarget::Open(_)) {
                        self.links.push(Link {
                            source: self.givers[giver].id,
                            down: VecDeque::new(),
                            up: VecDeque::new(),
                            lost_at: None,
                        });
                        self.givers[giver].link = Some(self.links.len() - 1);
                        self.givers[giver].asked = None;
                    }
                    if matches!(message, ToTarget::Sync(_)) {
                        self.givers[giver].asked = Some(self.floors.last);
                    }
                    self.send_down(giver, Down::Message(message));
                }
                OutgoingAct::Copy(attempt) => {
                    self.givers[giver].copy = Some((attempt, (0..KEYS).collect()));
                }
                OutgoingAct::EndCopy(_) => {
                    self.givers[giver].copy = None;
                    if is_present {
                        self.open_mirrors(shard);
                    }
                }
                OutgoingAct::HoldWrites if is_present => {
                    self.shards[shard].holds_writes = true;
                    self.givers[giver].machine.held(self.shards[shard].lsn);
                    return self.carry_out(giver);
                }
                OutgoingAct::HoldReads if is_present => self.shards[shard].holds_reads = true,
                OutgoingAct::Resume if is_present => self.resume(shard),
                OutgoingAct::Redirect => {
                    self.stats.moved += 1;
                    if is_present {
                        self.resume(shard);
                        self.shards[shard].owns = false;
                        self.shards[shard].left_behind = true;
                    }
                }
                OutgoingAct::GiveUp(_) => self.stats.given_up += 1,
                OutgoingAct::Ask(ask) => self.ask(Asker::Giver(self.givers[giver].id), shard, ask),
                OutgoingAct::HoldWrites | OutgoingAct::HoldReads | OutgoingAct::Resume => {}
            }
        }
    }

    fn resume(&mut self, shard: usize) {
        self.shards[shard].holds_writes = false;
        self.shards[shard].holds_reads = false;
    }

    fn ask(&mut self, asker: Asker, from: usize, ask: Ask) {
        let at = self.later();
        self.requests.push((at, asker, from, ask));
        if self.chance(10) {
            // The asker gives up waiting; the request may yet take effect.
            self.outcomes.push((at.max(self.now), asker, number(ask), Outcome::Unknown));
        }
    }

    /// A target's primary does what its machine asks for.
    pub(super) fn take_over(&mut self, at: usize) {
        let acts = self.shards[at].incoming.as_mut().expect("each shard has one").acts();
        for act in acts {
            match act {
                IncomingAct::Send(message) => self.send_up(at, message),
                IncomingAct::Ask(ask) => {
                    self.ask(Asker::Taker(at, self.shards[at].epoch), 1 - at, ask);
                }
                IncomingAct::Begin(attempt) => self.shards[at].stream.push(Entry::Begin(attempt)),
                IncomingAct::Drop(_) => {
                    self.stats.dropped += 1;
                    self.shards[at].stream.push(Entry::Drop);
                }
                IncomingAct::Show(_) => {
                    let old = self.left_behind(at);
                    let (_, values) = self.shards[at].import(&old);
                    let shard = &mut self.shards[at];
                    shard.values = values;
                    shard.stream.push(Entry::Show);
                    shard.owns = true;
                }
            }
        }
    }

    pub(super) fn left_behind(&self, at: usize) -> Values {
        let shard = &self.shards[at];
        if shard.left_behind { shard.values.clone() } else { Values::new() }
    }

    fn send_up(&mut self, at: usize, message: ToSource) {
        let attempt = match message {
            ToSource::Opened(attempt, _) | ToSource::NotReady(attempt) => attempt,
            ToSource::Synced(attempt) | ToSource::Has(attempt, _) => attempt,
        };
        let when = self.later();
        if let Some(&link) = self.shards[at].opened_on.get(&attempt) {
            self.links[link].up.push_back((when, message));
        }
    }

    /// What has arrived on the links is taken.
    fn deliver(&mut self) {
        for link in 0..self.links.len() {
            let Some(giver) =
                self.givers.iter().position(|known| known.id == self.links[link].source)
            else {
                continue;
            };
            let target = 1 - self.givers[giver].shard;
            while self.links[link].down.front().is_some_and(|(at, _)| *at <= self.now) {
                let (_, what) = self.links[link].down.pop_front().expect("it is there");
                self.arrive(target, link, what);
            }
            while self.links[link].up.front().is_some_and(|(at, _)| *at <= self.now) {
                let (_, message) = self.links[link].up.pop_front().expect("it is there");
                self.givers[giver].machine.receive(self.now, message);
                self.carry_out(giver);
            }
            if self.links[link].lost_at.is_some_and(|at| at <= self.now) {
                self.links[link].lost_at = None;
                self.links[link].down.clear();
                self.links[link].up.clear();
                if self.givers[giver].link == Some(link) {
                    self.givers[giver].link = None;
                    self.givers[giver].machine.link_lost(self.now);
                    self.carry_out(giver);
                }
            }
        }
    }

    fn arrive(&mut self, at: usize, link: usize, what: Down) {
        // What the earlier primary did not take is lost with its connection.
        if self.now < self.shards[at].serves_at {
            self.links[link].lost_at = Some(self.now);
            return;
        }
        // The outcome of its own move may come after the slots are back.
        let gives = self
            .givers
            .iter()
            .any(|giver| self.shards[at].giver == Some(giver.id) && !giver.machine.is_over());
        let is_clean = !self.shards[at].left_behind && !gives;
        let shard = &mut self.shards[at];
        let incoming = shard.incoming.as_mut().expect("each shard has one");
        match what {
            Down::Value(attempt, key, value) => {
                if incoming.importing() == Some(attempt) {
                    shard.stream.push(Entry::Value(key, value));
                }
            }
            Down::Message(message) => {
                if let ToTarget::Open(attempt) = message {
                    shard.opened_on.insert(attempt, link);
                }
                match message {
                    ToTarget::Sync(attempt) if incoming.importing() == Some(attempt) => {
                        shard.stream.push(Entry::Sync(attempt));
                    }
                    ToTarget::Mark(attempt, last) if incoming.importing() == Some(attempt) => {
                        shard.stream.push(Entry::Mark(attempt, last));
                    }
                    _ => {}
                }
                incoming.receive(message, is_clean);
            }
        }
        self.take_over(at);
    }

    /// The in-sync replicas of a target get more of its stream.
    fn replicate(&mut self, at: usize) {
        let alone = faults::is(Fault::HasAlone);
        let shard = &mut self.shards[at];
        let more = self.rng.usize(0..3).min(shard.stream.len() - shard.in_sync);
        let seen = if alone {
            shard.in_sync..shard.stream.len()
        } else {
            shard.in_sync..shard.in_sync + more
        };
        let incoming = shard.incoming.as_mut().expect("each shard has one");
        for entry in &shard.stream[seen] {
            match *entry {
                Entry::Begin(attempt) => incoming.begun(attempt),
                Entry::Mark(attempt, last) if incoming.importing() == Some(attempt) => {
                    incoming.has(last);
                }
                _ => {}
            }
        }
        shard.in_sync += more;
        self.take_over(at);
    }

    /// A source sends some keys.
    fn copy(&mut self, giver: usize) {
        let Some((attempt, keys)) = &mut self.givers[giver].copy else { return };
        let (attempt, key) = (*attempt, keys.pop());
        let left = keys.len() as u64;
        let shard = self.givers[giver].shard;
        if let Some(key) = key {
            // A walk meets the keys that are there, and says nothing of others.
            if let Some(&value) = self.shards[shard].values.get(&key) {
                self.send_down(giver, Down::Value(attempt, key, Some(value)));
            }
        }
        // Once all are sent writes may wait, but not before the last mirror has ended.
        if left == 0 {
            self.close_mirrors(shard);
        }
        if left > 0 || self.is_clear(shard) {
            self.givers[giver].machine.left(self.now, left);
            self.carry_out(giver);
        }
    }

    /// The coordinator takes requests and answers them.
    fn coordinate(&mut self) {
        let due = self.requests.extract_if(.., |(at, ..)| *at <= self.now).collect::<Vec<_>>();
        for (_, asker, from, ask) in due {
            let outcome = self.records.take(from, ask);
            let giver = |id| self.givers.iter().find(|giver| giver.id == id);
            if let (Outcome::Committed, Asker::Giver(id)) = (outcome, asker)
                && let Some(asked) = giver(id).and_then(|giver| giver.asked)
            {
                self.floors.lower(asked);
            }
            let at = self.later();
            self.outcomes.push((at, asker, number(ask), outcome));
        }
        let due = self.outcomes.extract_if(.., |(at, ..)| *at <= self.now).collect::<Vec<_>>();
        for (_, asker, number, outcome) in due {
            match asker {
                Asker::Giver(id) => {
                    if let Some(giver) = self.givers.iter().position(|known| known.id == id) {
                        self.givers[giver].machine.outcome(self.now, number, outcome);
                        self.carry_out(giver);
                    }
                }
                Asker::Taker(at, epoch) if self.shards[at].epoch == epoch => {
                    let incoming = self.shards[at].incoming.as_mut().expect("each shard has one");
                    incoming.outcome(number, outcome);
                    self.take_over(at);
                }
                Asker::Taker(..) => {}
            }
        }
    }

    /// Another node becomes the primary of a shard.
    pub(super) fn fail_over(&mut self, at: usize) {
        self.stats.failovers += 1;
        let revision = self.records.next();
        self.records.shards[at] = (revision, self.records.shards[at].1 + 1);
        let pause = Duration::from_millis(self.rng.u64(1..50));
        let old = self.left_behind(at);
        let owner = self.records.owner;
        let shard = &mut self.shards[at];
        shard.epoch += 1;
        shard.serves_at = self.now + pause;
        shard.stream.truncate(shard.in_sync);
        shard.disk.entries = shard.disk.entries.min(shard.in_sync);
        let (marked, _) = shard.import(&old);
        shard.incoming = Some(Incoming::new(Epoch(shard.epoch), marked));
        // Its predecessor may have granted something until this moment.
        shard.owner = Some(Mirrored::restarted(self.now, Epoch(shard.epoch)));
        shard.giver = None;
        // It reads the table before it serves. An import is shown by its machine alone.
        let had = shard.owns;
        shard.owns = owner == at && marked.is_none();
        shard.left_behind |= had && owner != at;
        self.resume(at);
        let lost_at = self.later();
        for link in &mut self.links {
            let giver = self.givers.iter().find(|known| known.id == link.source);
            if giver.is_some_and(|giver| giver.shard == 1 - at) {
                link.lost_at = Some(lost_at);
            }
        }
        self.take_over(at);
    }

    /// The owner's primary begins the move that the records have.
    fn begin(&mut self) {
        let Some((_, from)) = self.records.record else { return };
        let shard = &self.shards[from];
        let has_giver = shard.giver.is_some_and(|id| {
            self.givers.iter().any(|giver| giver.id == id && !giver.machine.is_over())
        });
        // The table may name it already while it does not show the keys yet.
        let shows = shard.owns || faults::is(Fault::GiveUnshown);
        if has_giver || !shows || self.now < shard.serves_at {
            return;
        }
        let pace = Pace { little: 0, retry: Duration::from_millis(60), ..Pace::default() };
        let (id, epoch) = (self.next_giver, Epoch(shard.epoch));
        self.next_giver += 1;
        let made = self.givers.iter().map(|giver| giver.machine.attempt());
        let made = made.filter(|made| made.epoch == epoch).max();
        let machine = Outgoing::new(made.unwrap_or(Attempt { epoch, number: 0 }), pace);
        let (copy, asked, link) = Default::default();
        self.givers.push(Giver { id, shard: from, machine, copy, asked, link });
        self.shards[from].giver = Some(id);
        self.carry_out(self.givers.len() - 1);
    }

    fn step(&mut self) -> Result<(), String> {
        self.now += Duration::from_millis(self.rng.u64(1..6));
        self.coordinate();
        self.deliver();
        for giver in 0..self.givers.len() {
            self.givers[giver].machine.tick(self.now);
            self.carry_out(giver);
            if self.shards[self.givers[giver].shard].giver == Some(self.givers[giver].id) {
                self.copy(giver);
            }
        }
        self.step_mirrors()?;
        for at in 0..2 {
            self.replicate(at);
            if self.rng.u32(..20) == 0 || faults::is(Fault::SyncedEarly) {
                self.sync(at);
            }
            if self.shards[at].left_behind && self.rng.u32(..20) == 0 {
                self.forget(at);
            }
            if self.rng.u32(..10) == 0 {
                let has_record = self.records.record.is_some_and(|(_, from)| from != at);
                let incoming = self.shards[at].incoming.as_mut().expect("each shard has one");
                match has_record {
                    true => incoming.table_changed(),
                    false => incoming.record_gone(),
                }
                self.take_over(at);
            }
        }
        self.begin();
        if self.faulty && self.records.record.is_none() && self.rng.u32(..30) == 0 {
            let revision = self.records.next();
            self.records.record = Some((revision, self.records.owner));
        }
        self.fail()?;
        (0..3).try_for_each(|_| self.client())
    }

    /// Removes the keys that were given away.
    fn forget(&mut self, at: usize) {
        let shard = &mut self.shards[at];
        shard.left_behind = false;
        shard.values.clear();
        // By the number of the slot, also what has come back meanwhile.
        if shard.incoming.as_ref().is_some_and(|incoming| incoming.importing().is_some()) {
            (0..KEYS).for_each(|key| shard.stream.push(Entry::Value(key, None)));
        }
    }

    fn fail(&mut self) -> Result<(), String> {
        if self.chance(1) && self.rng.bool() {
            let at = self.rng.usize(..2);
            if self.now >= self.shards[at].serves_at {
                match self.rng.u32(..3) {
                    0 => self.cut_power(at)?,
                    _ => self.fail_over(at),
                }
            }
        }
        if self.chance(1) && !self.links.is_empty() {
            let (link, at) = (self.links.len() - 1, self.later());
            self.links[link].lost_at = Some(at);
        }
        if self.chance(1) && self.rng.u32(..3) == 0 {
            self.records.record = None;
        }
        if self.chance(1) {
            // The in-sync set of a shard changes, which its epoch does not show.
            let (at, revision) = (self.rng.usize(..2), self.records.next());
            self.records.shards[at].0 = revision;
        }
        Ok(())
    }

    /// Runs one schedule.
    pub(super) fn run(mut self) -> Result<Stats, String> {
        for _ in 0..STEPS {
            self.step()?;
        }
        self.faulty = false;
        for _ in 0..QUIET {
            self.step()?;
        }
        let owner = self.records.owner;
        let at_rest = self.records.record.is_none()
            && self.shards[owner].owns
            && !self.shards[1 - owner].owns
            && !self.shards[owner].holds_writes;
        if !at_rest {
            return Err(format!(
                "the move does not end: {:?} {:#?}",
                self.records,
                self.givers.last()
            ));
        }
        Ok(self.stats)
    }
}
