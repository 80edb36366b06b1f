//! Mirrors: holders that are never restarted, with clocks of their own. They ask any node that calls itself primary,
//! and read what they hold all the while. A key of theirs is a pair.

use std::collections::BTreeMap;

use crate::faults::{self, Fault};
use crate::ids::{Epoch, Lsn, Moment};
use crate::mirrors::{Ask, Closing, Dropped, Grants, Holder, Key, MirrorAct, Owner, Version};
use crate::sim::data::PAIRS;
use crate::sim::world::{Event, World};
use crate::slots::SLOTS;

/// Holders of a schedule that has any.
const HOLDERS: usize = 2;

/// The pairs with their versions and values, as one node has granted them.
type Values = Vec<(usize, Version, u64)>;

#[derive(Clone, Debug)]
pub enum Step {
    /// Time passes for all of them.
    Round,
    Ask(usize, usize, Ask),
    Grants(usize, usize, Grants, Values),
    Revoke(usize, usize, Dropped),
    Dropped(usize, usize, Dropped),
    /// A write that has waited goes on.
    Write(usize, usize),
}

/// Grants whose values are not committed yet.
#[derive(Debug)]
pub struct Granted {
    holder: usize,
    lsn: Lsn,
    grants: Grants,
    values: Values,
}

/// The values of pairs, with their versions.
type Known = BTreeMap<usize, (Version, u64)>;

/// A holder, with what it has of each node.
#[derive(Debug, Default)]
pub struct Mirror {
    rate: i64,
    paused_until: u64,
    of: BTreeMap<usize, (Holder, Known)>,
}

/// The mirrors of a primary.
#[derive(Debug)]
pub struct Mirrored {
    owner: Owner,
    granted: Vec<Granted>,
    /// A failover waits until all grants are over.
    is_pausing: bool,
}

fn key_of(pair: usize) -> Key {
    [pair as u8].into()
}

fn pair_of(key: &[u8]) -> usize {
    key[0].into()
}

impl Mirror {
    fn clock(&self, now: u64) -> Moment {
        Moment::from_micros((now as i64 * (1000 + self.rate)) as u64)
    }

    /// What it may show, each with the node and the pair.
    fn readable(&self, clock: Moment) -> Vec<(usize, usize, u64)> {
        let all = self.of.iter().flat_map(|(n, (machine, values))| {
            let is_live = move |pair: usize, version: Version| {
                machine.version(clock, &key_of(pair)) == Some(version)
            };
            let live = values.iter().filter(move |(pair, (version, _))| is_live(**pair, *version));
            live.map(move |(pair, (_, value))| (*n, *pair, *value))
        });
        all.collect()
    }
}

impl World {
    /// Without promises a primary that was replaced shows old values anyway.
    fn has_mirrors(&self) -> bool {
        self.plan.mirrors && self.plan.promises
    }

    pub fn set_up_mirrors(&mut self) {
        if !self.has_mirrors() {
            return;
        }
        let drift = self.plan.drift;
        let rng = &mut self.rng;
        let mirrors = std::iter::repeat_with(|| rng.i64(-drift..=drift));
        let mirrors = mirrors.map(|rate| Mirror { rate, ..Mirror::default() });
        self.mirrors = mirrors.take(HOLDERS).collect();
        self.after(100, Event::Mirror(Step::Round));
    }

    /// A node has become primary; with a moment it was started then.
    pub fn begin_mirrors(&mut self, n: usize, epoch: Epoch) {
        if !self.has_mirrors() {
            return;
        }
        let owner = match self.serving(n).restarted {
            Some(started) => Owner::restarted(started, epoch),
            None => Owner::promoted(epoch, 0),
        };
        let mirrored = Mirrored { owner, granted: Vec::new(), is_pausing: false };
        self.serving(n).mirrored = Some(mirrored);
    }

    /// Whether a write of a pair may be applied. If not, it waits for its mirrors.
    pub fn may_write(&mut self, n: usize, pair: usize) -> bool {
        let clock = self.clock(n);
        let Some(mirrored) = &mut self.serving(n).mirrored else { return true };
        let owner = &mut mirrored.owner;
        if clock < owner.writes_from() {
            return false;
        }
        owner.revoke(clock, &[pair as u8]);
        self.act_on_mirrors(n);
        let mirrored = self.serving(n).mirrored.as_ref();
        mirrored.is_none_or(|mirrored| !mirrored.owner.is_guarded(&[pair as u8]))
    }

    /// A failover wants writes to be held back.
    pub fn pause_writes(&mut self, n: usize) {
        let clock = self.clock(n);
        if let Some(mirrored) = &mut self.serving(n).mirrored {
            mirrored.owner.close(clock, Closing::Handover, (0..SLOTS).collect());
            mirrored.is_pausing = true;
            return self.act_on_mirrors(n);
        }
        let last = self.stream_end(n);
        self.primary_mut(n).paused(clock, last);
    }

    pub fn resume_writes(&mut self, n: usize) {
        if let Some(mirrored) = &mut self.serving(n).mirrored {
            mirrored.owner.open(Closing::Handover);
            mirrored.is_pausing = false;
        }
    }

    /// Does what the mirrors of a primary ask for.
    fn act_on_mirrors(&mut self, n: usize) {
        let (clock, last) = (self.clock(n), self.nodes[n].data.last());
        loop {
            let Some(mirrored) = &mut self.serving(n).mirrored else { return };
            let acts = mirrored.owner.acts();
            if acts.is_empty() {
                break;
            }
            for act in acts {
                match act {
                    // Nothing is between the check of a write and the write.
                    MirrorAct::Guard(key) => {
                        let mirrored = self.serving(n).mirrored.as_mut().expect("it is there");
                        mirrored.owner.has_guard(clock, &key);
                    }
                    MirrorAct::Release(key) => {
                        self.stats.revoked += 1;
                        self.after(0, Event::Mirror(Step::Write(n, pair_of(&key))));
                    }
                    MirrorAct::Revoke(holder, dropped) => {
                        self.send_mirror(Step::Revoke(n, holder as usize, dropped));
                    }
                }
            }
        }
        let mirrored = self.serving(n).mirrored.as_mut().expect("it is there");
        if mirrored.is_pausing && mirrored.owner.is_clear(clock, Closing::Handover) {
            mirrored.is_pausing = false;
            self.primary_mut(n).paused(clock, last);
        }
    }

    fn send_mirror(&mut self, step: Step) {
        let copies = if self.rng.u64(..1000) < self.plan.doubled { 2 } else { 1 };
        for _ in 0..copies {
            if self.rng.u64(..1000) < self.plan.lost {
                continue;
            }
            let is_late = self.rng.u64(..1000) < self.plan.late;
            let delay = if is_late { self.rng.u64(20..400) } else { self.rng.u64(1..12) };
            self.after(delay, Event::Mirror(step.clone()));
        }
    }

    pub fn step_mirrors(&mut self, step: Step) {
        let wakes = match &step {
            Step::Round | Step::Write(..) => 0,
            Step::Ask(n, ..) | Step::Dropped(n, ..) => self.nodes[*n].paused_until,
            Step::Grants(_, holder, ..) | Step::Revoke(_, holder, _) => {
                self.mirrors[*holder].paused_until
            }
        };
        if wakes > self.now {
            return self.after(wakes - self.now, Event::Mirror(step));
        }
        match step {
            Step::Round => {
                let pause = self.rng.u64(2..20);
                self.after(pause, Event::Mirror(Step::Round));
                (0..self.nodes.len()).for_each(|n| self.tick_owner(n));
                (0..HOLDERS).for_each(|holder| self.use_mirror(holder));
            }
            Step::Ask(n, holder, ask) => self.ask_owner(n, holder, &ask),
            Step::Dropped(n, holder, dropped) => {
                let clock = self.clock(n);
                let Some(owner) = self.owner(n) else { return };
                owner.dropped(clock, holder as u64, &dropped);
                self.act_on_mirrors(n);
                self.act(n);
            }
            Step::Write(n, client) => {
                if self.owner(n).is_some() {
                    self.write(client, n);
                }
            }
            Step::Grants(n, holder, grants, values) => {
                let clock = self.mirrors[holder].clock(self.now);
                let (machine, known) = self.mirrors[holder].of.entry(n).or_default();
                machine.granted(clock, grants);
                for (pair, version, value) in values {
                    let kept = known.entry(pair).or_insert((version, value));
                    *kept = (*kept).max((version, value));
                }
            }
            Step::Revoke(n, holder, dropped) => {
                let (machine, _) = self.mirrors[holder].of.entry(n).or_default();
                machine.drop_key(&dropped);
                self.send_mirror(Step::Dropped(n, holder, dropped));
            }
        }
    }

    /// The mirrors of a node that runs and calls itself primary.
    fn owner(&mut self, n: usize) -> Option<&mut Owner> {
        let is_primary = self.is_up(n) && self.nodes[n].primary().is_some();
        if !is_primary {
            return None;
        }
        self.serving(n).mirrored.as_mut().map(|mirrored| &mut mirrored.owner)
    }

    fn tick_owner(&mut self, n: usize) {
        let clock = self.clock(n);
        if let Some(owner) = self.owner(n) {
            owner.tick(clock);
            self.act_on_mirrors(n);
            self.act(n);
        }
    }

    fn ask_owner(&mut self, n: usize, holder: usize, ask: &Ask) {
        let (clock, is_wanted) = (self.clock(n), self.rng.bool());
        let until = self.nodes[n].primary().and_then(|primary| primary.answers_until());
        let Some(owner) = self.owner(n) else { return };
        if is_wanted {
            ask.keys.iter().for_each(|key| _ = owner.begin(key));
            self.act_on_mirrors(n);
        }
        let Some(owner) = self.owner(n) else { return };
        let grants = owner.ask(clock, holder as u64, ask, until, |_| None);
        let data = &self.nodes[n].data;
        let pairs = grants.grants.iter().map(|(key, grant)| (pair_of(key), grant.version));
        let values: Values =
            pairs.map(|(pair, version)| (pair, version, data.values[2 * pair])).collect();
        let lsn = values.iter().map(|(pair, ..)| data.written_by[2 * pair]).max().unwrap_or(0);
        let granted = Granted { holder, lsn, grants, values };
        let mirrored = self.serving(n).mirrored.as_mut().expect("it was there");
        mirrored.granted.push(granted);
        self.send_grants(n);
    }

    /// Sends the grants whose values may be shown.
    pub fn send_grants(&mut self, n: usize) {
        let committed = match faults::is(Fault::GrantUncommitted) {
            true => Lsn::MAX,
            false => self.primary_mut(n).committed(),
        };
        let Some(mirrored) = &mut self.serving(n).mirrored else { return };
        let ready: Vec<_> =
            mirrored.granted.extract_if(.., |granted| granted.lsn <= committed).collect();
        for Granted { holder, grants, values, .. } in ready {
            self.send_mirror(Step::Grants(n, holder, grants, values));
        }
    }

    /// A holder reads what it has, and asks for more.
    fn use_mirror(&mut self, holder: usize) {
        if self.mirrors[holder].paused_until > self.now {
            return;
        }
        if self.in_trouble && self.rng.u8(..100) == 0 {
            self.mirrors[holder].paused_until = self.now + self.rng.u64(20..600);
            return;
        }
        let clock = self.mirrors[holder].clock(self.now);
        for (n, pair, value) in self.mirrors[holder].readable(clock) {
            self.stats.mirrored += 1;
            let floor = self.floors[pair];
            if value < floor {
                let what = format!(
                    "a mirror of node {n} showed {value} of pair {pair}, but {floor} was seen"
                );
                return self.violate(what);
            }
            self.floors[pair] = value;
        }
        let up = |n: &usize| self.is_up(*n) && self.nodes[*n].primary().is_some();
        let primaries: Vec<usize> = (0..self.nodes.len()).filter(up).collect();
        if primaries.is_empty() || self.rng.bool() {
            return;
        }
        let n = primaries[self.rng.usize(..primaries.len())];
        let keys = (0..PAIRS).map(key_of).collect();
        let (machine, _) = self.mirrors[holder].of.entry(n).or_default();
        if let Some(ask) = machine.ask(clock, keys) {
            self.send_mirror(Step::Ask(n, holder, ask));
        }
    }
}
