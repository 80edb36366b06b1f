//! The world: events in virtual time, processes, clients, and the invariants.

use std::collections::BTreeMap;

use fastrand::Rng;

use crate::history::History;
use crate::ids::{Identity, Incarnation, Lsn, Moment, NodeId};
use crate::in_sync::Set;
use crate::lost::Extent;
use crate::message::{Positions, ToReplica, Told};
use crate::primary::{self, Kept, Origin, Primary};
use crate::records::{Outcome, Request, Revision, Shard};
use crate::replica::{self, Held, Replica, TakeOver};
use crate::rules::Rules;
use crate::sim::clients::Wanted;
use crate::sim::data::{Data, Effect, PAIRS, Record};
use crate::sim::mirrors;
use crate::sim::node::{Following, Message, Node, Process, Role, Serving, Session};
use crate::sim::plan::{Log, Mode, Plan};
use crate::sim::stats::Stats;

/// The only shard.
pub const SHARD: u32 = 0;

/// After the faults stop, all must be well within this many milliseconds.
const REST: u64 = 30_000;

#[derive(Clone, Debug)]
pub enum Event {
    Deliver(usize, usize, Message),
    /// For the machine of this number.
    Tick(usize, u64),
    Client(usize),
    Operator,
    Fault,
    Mend(u64),
    MakeRoom,
    Start(usize),
    /// The operator ends the failover of this machine.
    Abort(usize, u64),
    Sync,
    Heal,
    Check,
    /// A request arrives at the records; the outcome leaves after this time, or never.
    Ask(usize, u64, Request, Option<u64>),
    Outcome(usize, u64, Outcome),
    Mirror(mirrors::Step),
}

/// A node that hears nothing, and is heard.
pub struct Deaf {
    pub node: usize,
    /// The number of its fault.
    pub number: u64,
    pub since: u64,
    /// The members that were silent before.
    pub silent: Vec<NodeId>,
}

pub struct World {
    pub rng: Rng,
    pub plan: Plan,
    pub rules: Rules,
    pub now: u64,
    pub nodes: Vec<Node>,
    /// Links that carry nothing, each with the number of its fault.
    pub cut: Vec<(usize, usize, u64)>,
    /// Nodes that do not reach the records, likewise.
    pub cut_off: Vec<(usize, u64)>,
    pub deaf: Vec<Deaf>,
    /// The machine of a primary whose disk is full, and the last record that is written there.
    pub full: Option<(usize, u64, Lsn)>,
    pub record: Option<(Revision, Shard)>,
    /// The start of each node that the transaction named which added it to the set last, with the revision before it.
    pub named: Vec<Option<(Revision, Incarnation)>>,
    /// What each node has told of its data, and the record as they see it: no safety rests on watches.
    pub extents: Vec<Option<Extent>>,
    pub viewed: Option<Shard>,
    /// When the operator last forced a node.
    pub rescued_at: u64,
    pub in_trouble: bool,
    pub chief: usize,
    /// The node that the operator has told to become primary, with its machine.
    pub pending: Option<(usize, u64)>,
    /// When the operator last saw a failover under way.
    pub failing_over: u64,
    /// The last beat before the operator named this node again.
    pub renamed: Vec<Option<u64>>,
    pub floors: [u64; PAIRS],
    pub stats: Stats,
    pub numbers: u64,
    violation: Option<String>,
    trace: Option<Vec<String>>,
    events: BTreeMap<(u64, u64), Event>,
    pub clients: Vec<Option<Wanted>>,
    pub mirrors: Vec<mirrors::Mirror>,
    machines: Vec<u64>,
    pub values: u64,
    pub healed_at: u64,
    pub acked_since: bool,
    is_over: bool,
}

/// Runs a schedule. The error is the violation, with the trace if one is wanted.
pub fn run(seed: u64, mode: Mode, trace: bool) -> Result<Stats, String> {
    let mut world = World::new(seed, mode, trace);
    while world.violation.is_none() && !world.is_over {
        let Some(((at, _), event)) = world.events.pop_first() else { break };
        world.now = at;
        world.happen(event);
        world.check();
    }
    match world.violation {
        None => Ok(world.stats),
        Some(what) => {
            let lines = world.trace.unwrap_or_default().join("\n");
            Err(format!("{lines}\n{what} (seed {seed}, at {} ms)", world.now))
        }
    }
}

impl World {
    fn new(seed: u64, mode: Mode, trace: bool) -> Self {
        let mut rng = Rng::with_seed(seed);
        let plan = Plan::new(&mut rng, mode, seed);
        let node = |(n, log): (usize, &Log)| {
            Node::new(n, *log, rng.i64(-plan.drift..=plan.drift), Data::empty([n as u8 + 1; 16]))
        };
        let nodes: Vec<Node> = plan.logs.iter().enumerate().map(node).collect();
        let n = nodes.len();
        let mut world = World {
            rng,
            rules: Rules { promises: plan.promises, ..Rules::default() },
            now: 0,
            nodes,
            cut: Vec::new(),
            cut_off: Vec::new(),
            deaf: Vec::new(),
            full: None,
            record: None,
            named: vec![None; n],
            extents: vec![None; n],
            viewed: None,
            rescued_at: 0,
            in_trouble: true,
            chief: 0,
            pending: None,
            failing_over: 0,
            renamed: vec![None; n],
            floors: [0; PAIRS],
            stats: Stats::default(),
            numbers: 0,
            violation: None,
            trace: trace.then(Vec::new),
            events: BTreeMap::new(),
            clients: vec![None; PAIRS],
            mirrors: Vec::new(),
            machines: vec![0; n],
            values: 0,
            healed_at: u64::MAX,
            acked_since: false,
            is_over: false,
            plan,
        };
        world.set_up();
        world
    }

    fn set_up(&mut self) {
        let plan = format!("{:?}", self.plan);
        self.note(|| plan);
        let n = self.nodes.len();
        let others: Vec<NodeId> = self.nodes[1..].iter().map(|node| node.id).collect();
        if self.plan.mode == Mode::Recorded {
            let me = self.incarnate(0);
            let (history, epoch) = (History::new(), crate::ids::Epoch(1));
            let (promoted, in_sync) = (epoch, Vec::new());
            let shard = Shard { epoch, promoted, primary: me, in_sync, replicas: others };
            self.record = Some((1, shard.clone()));
            let set = Set::Recorded(SHARD, 1, shard);
            let (store, told) = (self.nodes[0].data.store, Told::default());
            let (last, committed, deposed, inherited) = (0, 0, None, false);
            let from =
                TakeOver { store, history, epoch, last, committed, told, set, deposed, inherited };
            self.begin_as(0, me, from);
        } else {
            // One replica may be outside of the set.
            let members = self.rng.usize(1..n);
            let members = if self.plan.chains { 1 } else { members };
            self.nodes[0].set = others[..members].to_vec();
            self.start(0);
        }
        for other in 1..n {
            self.nodes[other].follows = Some(self.above(0, other));
            self.start(other);
        }
        (0..PAIRS).for_each(|client| self.after(100, Event::Client(client)));
        self.after(1000, Event::Operator);
        self.after(2500, Event::Fault);
        self.after(1000, Event::Sync);
        self.after(self.plan.trouble, Event::Heal);
        self.set_up_mirrors();
    }

    pub fn note(&mut self, line: impl FnOnce() -> String) {
        let now = self.now;
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{now:>6} {}", line()));
        }
    }

    pub fn violate(&mut self, what: String) {
        self.violation.get_or_insert(what);
    }

    pub fn after(&mut self, ms: u64, event: Event) {
        self.numbers += 1;
        self.events.insert((self.now + ms, self.numbers), event);
    }

    /// What the record may become by transactions on their way.
    pub fn coming_records(&self) -> impl Iterator<Item = &Shard> {
        let now = self.record.as_ref().map(|(revision, _)| *revision);
        self.events.values().filter_map(move |event| match event {
            Event::Ask(_, _, Request::Transact(transaction), _) => {
                let is_next = Some(transaction.expect[0].1) == now;
                is_next.then_some(&transaction.write[0].1)
            }
            _ => None,
        })
    }

    pub fn index(&self, node: NodeId) -> usize {
        usize::from(node.0[0]) - 1
    }

    pub fn clock(&self, n: usize) -> Moment {
        self.nodes[n].clock(self.now)
    }

    pub fn is_up(&self, n: usize) -> bool {
        self.nodes[n].process.is_some() && self.nodes[n].paused_until <= self.now
    }

    /// The number of the machine on a node: each new machine has another one.
    pub fn machine(&self, n: usize) -> u64 {
        self.machines[n]
    }

    /// The last record of a primary that replicas can get: behind it a full disk keeps records back.
    pub fn stream_end(&self, n: usize) -> Lsn {
        let last = self.nodes[n].data.last();
        let full = self.full.filter(|(full, machine, _)| (*full, *machine) == (n, self.machine(n)));
        full.map_or(last, |(.., written)| last.min(written))
    }

    /// Whether the node's disk is full, and keeps records back.
    pub fn keeps_back(&self, n: usize) -> bool {
        self.stream_end(n) < self.nodes[n].data.last()
    }

    fn incarnate(&mut self, n: usize) -> Identity {
        self.numbers += 1;
        Identity { node: self.nodes[n].id, incarnation: Incarnation(self.numbers) }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Deliver(from, to, message) => {
                let node = &self.nodes[to];
                if node.process.is_none() {
                    return;
                }
                if node.paused_until > self.now {
                    let wait = node.paused_until - self.now;
                    return self.after(wait, Event::Deliver(from, to, message));
                }
                self.deliver(from, to, message);
            }
            Event::Tick(n, machine) => self.tick(n, machine),
            Event::Client(client) => self.request(client),
            Event::Operator => {
                self.operate();
                let pause = self.rng.u64(200..900);
                self.after(pause, Event::Operator);
            }
            Event::Fault => self.fault(),
            Event::Mend(fault) => {
                self.cut.retain(|(.., number)| *number != fault);
                self.cut_off.retain(|(_, number)| *number != fault);
                self.deaf.retain(|deaf| deaf.number != fault);
            }
            Event::MakeRoom => self.make_room(),
            Event::Start(n) => self.start(n),
            Event::Abort(n, machine) => self.abort_failover(n, machine),
            Event::Sync => {
                for n in 0..self.nodes.len() {
                    self.nodes[n].synced = self.stream_end(n);
                }
                self.after(1000, Event::Sync);
            }
            Event::Heal => self.heal(),
            Event::Check => self.check_rest(),
            Event::Ask(n, machine, request, reply) => self.asked(n, machine, &request, reply),
            Event::Outcome(n, machine, outcome) => self.answered(n, machine, outcome),
            Event::Mirror(step) => self.step_mirrors(step),
        }
    }

    // Processes.

    fn start(&mut self, n: usize) {
        if self.nodes[n].process.is_some() {
            return;
        }
        let me = self.incarnate(n);
        if let Some((_, shard)) = &self.record {
            let primary = self.index(shard.primary.node);
            self.nodes[n].follows = (primary != n).then(|| self.above(primary, n));
        }
        self.note(|| format!("node {n} starts as {:?}", me.incarnation));
        if self.nodes[n].follows.is_some() {
            return self.follow_as(n, me, false);
        }
        let node = &self.nodes[n];
        let kept = Kept {
            store: node.data.store,
            history: node.data.history.clone(),
            last: node.data.last(),
            clean: node.is_clean(node.end),
        };
        let recorded = self.record.is_some();
        let origin =
            if recorded { Origin::Recorded(SHARD) } else { Origin::Named(node.set.clone()) };
        let started = self.clock(n);
        let primary = Primary::start(started, me, self.rules, kept, origin);
        let serving = Serving { restarted: Some(started), ..Serving::default() };
        self.run_machine(n, me, Role::Primary(Box::new(primary), serving));
    }

    fn begin_as(&mut self, n: usize, me: Identity, from: TakeOver) {
        let primary = Primary::take_over(self.clock(n), me, self.rules, from);
        self.run_machine(n, me, Role::Primary(Box::new(primary), Serving::default()));
    }

    /// Begins the machine of a replica.
    pub fn follow_as(&mut self, n: usize, me: Identity, adopt: bool) {
        let node = &self.nodes[n];
        let is_own = node.data.history.last_start().is_some_and(|start| start.node == node.id);
        let held = Held {
            store: node.data.store,
            history: node.data.history.clone(),
            last: node.data.last(),
            whole: !node.is_partial,
            repairing: node.pending.is_some(),
            adopt,
            indirect: false,
            caught_up: self.record.is_some() && is_own && node.is_clean(node.end),
        };
        self.follow_with(n, me, held);
    }

    fn follow_with(&mut self, n: usize, me: Identity, held: Held) {
        let shard = self.record.as_ref().map(|_| SHARD);
        let replica = Replica::new(self.clock(n), me, self.rules, shard, held);
        self.run_machine(n, me, Role::Replica(Box::new(replica), Following::default()));
    }

    fn run_machine(&mut self, n: usize, me: Identity, role: Role) {
        self.nodes[n].process = Some(Process { me, role, desk: Default::default() });
        self.machines[n] += 1;
        let machine = self.machines[n];
        let pause = self.rng.u64(0..100);
        self.after(pause, Event::Tick(n, machine));
        self.act(n);
    }

    fn tick(&mut self, n: usize, machine: u64) {
        if self.machines[n] != machine || self.nodes[n].process.is_none() {
            return;
        }
        let paused = self.nodes[n].paused_until.saturating_sub(self.now);
        let pause = if paused > 0 { paused } else { self.rng.u64(60..140) };
        self.after(pause, Event::Tick(n, machine));
        if paused > 0 {
            return;
        }
        let (clock, wall) = (self.clock(n), self.now);
        match &mut self.nodes[n].process.as_mut().expect("it runs").role {
            Role::Primary(primary, _) => primary.tick(clock, Told { wall, cas: 0 }),
            Role::Replica(replica, _) => replica.tick(clock),
        }
        self.act(n);
        self.beat_below(n);
        self.send_again(n);
    }

    /// Does what the machine of a node asks for, until it asks for nothing.
    pub fn act(&mut self, n: usize) {
        loop {
            match self.nodes[n].process.as_mut().map(|process| &mut process.role) {
                Some(Role::Primary(primary, _)) => {
                    let acts = primary.acts();
                    if acts.is_empty() {
                        break;
                    }
                    acts.into_iter().for_each(|act| self.act_as_primary(n, act));
                }
                Some(Role::Replica(replica, _)) => {
                    let acts = replica.acts();
                    if acts.is_empty() {
                        break;
                    }
                    acts.into_iter().for_each(|act| self.act_as_replica(n, act));
                }
                None => break,
            }
        }
        self.end_links_below(n);
        self.reply(n);
    }

    fn act_as_primary(&mut self, n: usize, act: primary::Act) {
        match act {
            primary::Act::Send(node, message) => {
                let to = self.index(node);
                if let ToReplica::Answer(answer) = &message {
                    self.serving(n).sessions.insert(node, Session::of(answer));
                }
                let hands_over = matches!(message, ToReplica::Handover(_));
                // Records tell whether it was taken up; an operator's node must ask its members after a restart.
                self.nodes[n].is_suspect |= hands_over && self.record.is_none();
                self.send(n, to, Message::ToReplica(message));
                if hands_over && self.in_trouble && self.rng.u8(..3) == 0 {
                    self.disturb_handover(n, to);
                }
            }
            primary::Act::Begin(start) => {
                self.note(|| format!("node {n} begins {start:?}"));
                if start.first != self.nodes[n].data.last() + 1 {
                    return self.violate(format!("node {n} begins an epoch at a wrong record"));
                }
                self.nodes[n].is_suspect = false;
                self.append(n, &[Effect::Begin(start)]);
                self.begin_mirrors(n, start.epoch);
            }
            primary::Act::Ask(request) => self.ask(n, request),
            primary::Act::GaveUp(node, why) => self.note(|| format!("{node} is given up: {why:?}")),
            primary::Act::PauseWrites => self.pause_writes(n),
            primary::Act::ResumeWrites => self.resume_writes(n),
            primary::Act::FailoverEnded(end) => {
                self.note(|| format!("failover of node {n} ended: {end:?}"));
                self.stats.handovers +=
                    u64::from(matches!(end, crate::failover::FailoverEnd::HandedOver(_)));
            }
            primary::Act::Superseded(epoch, by) => {
                self.note(|| format!("node {n} is superseded in {epoch:?}"));
                self.nodes[n].follows = by.map(|by| self.index(by));
                let me = self.nodes[n].process.as_ref().expect("it runs").me;
                let held = self.primary_mut(n).held();
                // Of what a full disk kept back the machine does not know.
                let last = self.nodes[n].data.last();
                self.follow_with(n, me, Held { last, ..held });
            }
            primary::Act::MustNotStart(why) => {
                self.note(|| format!("node {n} must not start: {why:?}"));
                let me = self.nodes[n].process.as_ref().expect("it runs").me;
                self.follow_as(n, me, false);
            }
        }
    }

    fn act_as_replica(&mut self, n: usize, act: replica::Act) {
        match act {
            replica::Act::Send(node, message) => {
                let to = self.index(node);
                self.send(n, to, Message::ToPrimary(message));
            }
            replica::Act::Ask(request) => self.ask(n, request),
            replica::Act::TakeOver(from) => {
                self.note(|| {
                    format!("node {n} takes over in {:?}, set {:?}", from.epoch, from.set)
                });
                self.stats.promotions += 1;
                self.stats.recoveries += u64::from(from.inherited);
                let me = self.nodes[n].process.as_ref().expect("it runs").me;
                self.nodes[n].follows = None;
                if let Set::Named(set) = &from.set {
                    self.promoted(n, set.clone());
                }
                self.begin_as(n, me, *from);
            }
            replica::Act::GivenUp(why) => {
                self.note(|| format!("node {n} gives the promotion up: {why:?}"));
                self.stats.given_up += 1;
                self.following(n).linked = None;
            }
            replica::Act::Reconnect => self.following(n).linked = None,
        }
    }

    pub fn primary_mut(&mut self, n: usize) -> &mut Primary {
        match &mut self.nodes[n].process.as_mut().expect("it runs").role {
            Role::Primary(primary, _) => primary,
            Role::Replica(..) => unreachable!("it is a primary"),
        }
    }

    pub fn replica_mut(&mut self, n: usize) -> &mut Replica {
        match &mut self.nodes[n].process.as_mut().expect("it runs").role {
            Role::Replica(replica, _) => replica,
            Role::Primary(..) => unreachable!("it is a replica"),
        }
    }

    pub fn serving(&mut self, n: usize) -> &mut Serving {
        match &mut self.nodes[n].process.as_mut().expect("it runs").role {
            Role::Primary(_, serving) => serving,
            Role::Replica(_, following) => &mut following.below,
        }
    }

    pub fn following(&mut self, n: usize) -> &mut Following {
        match &mut self.nodes[n].process.as_mut().expect("it runs").role {
            Role::Replica(_, following) => following,
            Role::Primary(..) => unreachable!("it is a replica"),
        }
    }

    /// Appends a batch to the stream of a primary.
    pub fn append(&mut self, n: usize, batch: &[Effect]) {
        let node = &mut self.nodes[n];
        for (i, effect) in batch.iter().enumerate() {
            node.data.push(Record { effect: *effect, ends: i + 1 == batch.len() });
        }
        self.nodes[n].logged = self.stream_end(n);
        self.ship(n);
    }

    /// The replica has applied all up to the end of its data.
    pub fn applied(&mut self, n: usize) {
        let applied = self.nodes[n].data.last();
        self.replica_mut(n).applied(Positions { applied, written: applied, synced: 0 });
    }

    // Invariants.

    fn check(&mut self) {
        for n in 0..self.nodes.len() {
            let node = &self.nodes[n];
            let is_said_whole = |replica: &Replica| replica.held().whole;
            if node.replica().is_some_and(|replica| is_said_whole(replica) == node.is_partial) {
                let what = format!("node {n} does not know whether it has all data");
                return self.violate(what);
            }
        }
        if self.plan.is_forced {
            return;
        }
        self.check_members();
        if !self.plan.promises {
            return;
        }
        let answering: Vec<usize> =
            (0..self.nodes.len()).filter(|n| self.nodes[*n].answers(self.now)).collect();
        if answering.len() > 1 {
            return self.violate(format!("nodes {answering:?} answer at a time"));
        }
        for n in 0..self.nodes.len() {
            let node = &self.nodes[n];
            let is_read = answering.contains(&n)
                || node.replica().is_some_and(|replica| replica.may_answer(node.clock(self.now)));
            let values = node.data.values;
            for pair in 0..PAIRS {
                let [value, other] = [values[2 * pair], values[2 * pair + 1]];
                if is_read && value != other {
                    self.violate(format!("node {n} shows half of a batch: {value}, {other}"));
                }
                let floor = self.floors[pair];
                if answering.contains(&n) && value < floor {
                    self.violate(format!("node {n} answers without {floor} of pair {pair}"));
                }
            }
        }
    }

    fn heal(&mut self) {
        self.note(|| "faults end".to_string());
        self.in_trouble = false;
        self.healed_at = self.now;
        self.cut.clear();
        self.cut_off.clear();
        self.deaf.clear();
        self.make_room();
        (self.plan.lost, self.plan.doubled, self.plan.late) = (0, 0, 0);
        self.after(1000, Event::Check);
    }

    fn check_rest(&mut self) {
        if self.is_at_rest() {
            self.is_over = true;
            self.check_acknowledged();
        } else if self.now > self.healed_at + REST {
            self.violate("no rest: replicas differ from the primary, or none serves".to_string());
        } else {
            self.after(400, Event::Check);
        }
    }

    /// Without promises this alone holds: what was acknowledged is there in the end.
    fn check_acknowledged(&mut self) {
        let values = self.nodes[0].data.values;
        for (pair, floor) in self.floors.into_iter().enumerate() {
            let is_lost = values[2 * pair] < floor && !self.plan.is_forced;
            if is_lost || values[2 * pair] != values[2 * pair + 1] {
                self.violate(format!("pair {pair} lacks {floor} in the end: {values:?}"));
            }
        }
    }

    /// Whether one primary serves and all others equal it.
    fn is_at_rest(&self) -> bool {
        let Some(n) = (0..self.nodes.len()).find(|n| self.nodes[*n].answers(self.now)) else {
            return false;
        };
        let main = &self.nodes[n];
        let is_equal = |(other, node): (usize, &Node)| {
            let is_following = node.replica().is_some_and(Replica::is_whole);
            let (ours, its) = (&main.data, &node.data);
            let is_same = ours.last() == its.last() && ours.history == its.history;
            other == n || (is_following && is_same && ours.values == its.values)
        };
        let is_quiet = self
            .clients
            .iter()
            .all(|wanted| wanted.as_ref().is_none_or(|wanted| wanted.until <= self.now));
        let is_done = self.now > self.healed_at + 4000 && self.acked_since;
        let is_in_sync = |(_, shard): &(u64, Shard)| shard.in_sync.len() + 1 == self.nodes.len();
        let is_complete = !self.plan.regroups || self.record.as_ref().is_some_and(is_in_sync);
        is_done && is_complete && is_quiet && self.nodes.iter().enumerate().all(is_equal)
    }
}
