//! Three clients and a server over a bad network, in virtual time. The server's incarnation and epoch change, which
//! undoes what was not acknowledged; clients come back over other connections; sessions are forgotten.
//!
//! The server is a map that runs one operation at a time and writes down what it has run. So each history comes with
//! its order, and is checked on it. A write is run once at most. If it was told to be done, it was run once between the
//! call's begin and end, with the answer that was told; if it was told to be not done, it was never run. What a read
//! was told was the key's state at some time between.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use fastrand::Rng;
use hotring_cluster::{Epoch, Incarnation};

use crate::caller::{Caller, Given, Login, Options, Outcome, Ticket};
use crate::client::Client;
use crate::endpoint::Endpoint;
use crate::lossy::{Lossy, Network, Weather};
use crate::message::{Answer, Operation, Status, Term};
use crate::reply_cache::{Bounds, ReplyCache};
use crate::server::{Job, Server, Wait};
use crate::streams::Door;

const CLIENTS: u64 = 3;

/// Calls of each client.
const CALLS: usize = 14;

/// Steps after which all must have ended.
const STEPS_MAX: u64 = 20_000;

/// The keys: a number and two texts.
const KEYS: [&str; 3] = ["n", "a", "b"];

/// How often something happened.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stats {
    pub done: u64,
    pub not_done: u64,
    pub unknown: u64,
    pub damaged_answers: u64,
    pub damaged_messages: u64,
    pub conflicts: u64,
    pub terms: u64,
    pub undone: u64,
    pub reconnects: u64,
    pub datagrams: u64,
    pub changes: u64,
    pub time_outs: u64,
}

impl Stats {
    pub fn add(&mut self, more: &Stats) {
        for (sum, more) in self.all_mut().into_iter().zip(more.clone().all_mut()) {
            *sum += *more;
        }
    }

    pub fn shows_everything(mut self) -> bool {
        self.all_mut().into_iter().all(|count| *count > 0)
    }

    fn all_mut(&mut self) -> [&mut u64; 12] {
        [
            &mut self.done,
            &mut self.not_done,
            &mut self.unknown,
            &mut self.damaged_answers,
            &mut self.damaged_messages,
            &mut self.conflicts,
            &mut self.terms,
            &mut self.undone,
            &mut self.reconnects,
            &mut self.datagrams,
            &mut self.changes,
            &mut self.time_outs,
        ]
    }
}

/// The kinds of operations that change nothing.
const READ: u32 = 0;
const WAIT: u32 = 5;

/// An operation of a client. The tag is its own: no other operation has it.
#[derive(Clone, Copy, Debug)]
struct Wish {
    kind: u32,
    key: &'static str,
    tag: u64,
    version: u64,
    /// The longest wait, in steps.
    limit: u64,
}

impl Wish {
    fn random(random: &mut Rng, tag: u64, seen: u64) -> Wish {
        let kind = random.u32(..5);
        let key = if kind == 1 { KEYS[0] } else { KEYS[random.usize(1..3)] };
        let key = if kind == READ { KEYS[random.usize(..3)] } else { key };
        Wish { kind, key, tag, version: seen, limit: 0 }
    }

    fn wait(random: &mut Rng, tag: u64) -> Wish {
        let (key, limit) = (KEYS[random.usize(..3)], random.u64(1..300));
        Wish { kind: WAIT, key, tag, version: 0, limit }
    }

    fn operation<'a>(&self, value: &'a [u8]) -> Operation<'a> {
        let (key, version) = (self.key.as_bytes(), self.version);
        match self.kind {
            READ => Operation::Get { key },
            WAIT => Operation::WaitForChange { key, limit_ms: self.limit },
            1 => Operation::Increment { key, by: self.tag as i64 },
            2 => Operation::Set { key, value, expiry_ms: 0 },
            3 => Operation::CompareAndSet { key, value, version },
            _ => Operation::Update { key, value },
        }
    }
}

/// A call and what was told of it.
struct Asked {
    wishes: Vec<Wish>,
    begun: u64,
    ended: u64,
    outcome: Option<Outcome>,
}

/// A key's version and value.
type Item = Option<(u64, Vec<u8>)>;

/// An operation that was run.
struct Run {
    at: u64,
    key: Vec<u8>,
    tag: Option<u64>,
    given: Given,
    after: Item,
}

/// The server's data: all that was run and not undone, in order.
#[derive(Default)]
struct Data {
    runs: Vec<Run>,
    version: u64,
}

impl Data {
    fn item(&self, key: &[u8]) -> Item {
        self.runs.iter().rev().find(|run| run.key == key).and_then(|run| run.after.clone())
    }

    fn run(&mut self, at: u64, operation: &Operation<'_>) -> Given {
        let key = operation.key();
        let before = self.item(key);
        let tag_of = |value: &[u8]| std::str::from_utf8(value).unwrap().parse().ok();
        let (tag, new) = match *operation {
            Operation::Increment { by, .. } => {
                let text = before.as_ref().map(|item| std::str::from_utf8(&item.1).unwrap());
                let sum = text.map_or(0, |text| text.parse::<i64>().unwrap()) + by;
                (Some(by as u64), Some(sum.to_string().into_bytes()))
            }
            Operation::Set { value, .. } => (tag_of(value), Some(value.to_vec())),
            Operation::Update { value, .. } => {
                (tag_of(value), before.as_ref().map(|_| value.to_vec()))
            }
            Operation::CompareAndSet { value, version, .. } => {
                let is_it = before.as_ref().is_some_and(|item| item.0 == version);
                (tag_of(value), is_it.then(|| value.to_vec()))
            }
            _ => (None, None),
        };
        let is_done = new.is_some() || matches!(operation, Operation::Get { .. });
        self.version += u64::from(new.is_some());
        let after = new.map(|value| (self.version, value)).or(before);
        let status = match &after {
            None => Status::Absent,
            Some(_) if is_done => Status::Done,
            Some(_) => Status::Conflict,
        };
        let (version, value) = after.clone().unwrap_or_default();
        let given = Given { status, version, value };
        self.runs.push(Run { at, key: key.to_vec(), tag, given: given.clone(), after });
        given
    }
}

/// A job that was run and is not yet acknowledged, and how many operations had been run after it.
struct Pending {
    job: Job,
    givens: Vec<(Vec<u8>, Given)>,
    runs: usize,
}

/// A wait for another version of a key.
struct Waiting {
    wait: Wait,
    key: Vec<u8>,
    version: u64,
    until: u64,
}

struct World {
    random: Rng,
    network: Rc<RefCell<Network>>,
    server: Server<Lossy>,
    clients: Vec<(Client<Lossy>, BTreeMap<Ticket, Asked>)>,
    data: Data,
    pending: VecDeque<Pending>,
    /// Jobs of an earlier epoch, of which some are undone.
    over: Vec<Pending>,
    waits: Vec<Waiting>,
    term: Term,
    is_calm: bool,
    /// Whether answers may be datagrams.
    has_datagrams: bool,
    next_tag: u64,
    /// The last version that any client was told.
    seen: u64,
    stats: Stats,
}

/// Runs the schedule of a seed. The error says what must not be.
pub fn run(seed: u64) -> Result<Stats, String> {
    let mut world = World::new(seed);
    for step in 0.. {
        if step > STEPS_MAX {
            world.check_credits()?;
            return Err("calls do not end".to_string());
        }
        if !world.is_calm {
            world.disturb();
        }
        if !world.step() {
            break;
        }
    }
    world.check()?;
    Ok(world.stats)
}

impl World {
    fn new(seed: u64) -> World {
        let mut random = Rng::with_seed(seed);
        let is_calm = random.u32(..8) == 0;
        let pick = |random: &mut Rng, choices: &[u64]| choices[random.usize(..choices.len())];
        let weather = match is_calm {
            true => Weather::CALM,
            false => Weather {
                lost: pick(&mut random, &[0, 50, 300]) as u32,
                lost_datagrams: pick(&mut random, &[0, 500]) as u32,
                doubled: pick(&mut random, &[0, 100, 500]) as u32,
                damaged: pick(&mut random, &[0, 0, 30]) as u32,
                delay_max: pick(&mut random, &[3, 30, 200]),
            },
        };
        let network = Network::new(random.fork(), weather);
        let term = Term { incarnation: Incarnation(random.u64(..)), epoch: Epoch(1) };
        let bounds = Bounds {
            sessions_max: if is_calm { 8 } else { pick(&mut random, &[2, 8]) as usize },
            idle: Duration::from_millis(pick(&mut random, &[0, 50])),
            window: pick(&mut random, &[4, 64]) as u32,
            reply_bytes_max: pick(&mut random, &[100, 10_000]) as usize,
        };
        let server = Lossy::new(&network, 0, 16, 1 << 10);
        let server = Server::new(server, ReplyCache::new(term, bounds, 1));
        let has_datagrams = random.bool();
        let options = Options {
            datagrams: has_datagrams.then_some(Duration::from_millis(10)),
            retry: Duration::from_millis(if is_calm { STEPS_MAX } else { 20 }),
            queue_max: 8,
            message_len_max: 1 << 10,
        };
        let clients = (1..=CLIENTS).map(|client| {
            let login = Login { user: Vec::new(), password: b"right".to_vec() };
            let caller = Caller::new(client, login, options).expect("it is short");
            let mut endpoint = Lossy::new(&network, client, 4, 1 << 10);
            let server =
                endpoint.peer(&0u64.to_le_bytes(), Duration::ZERO).expect("it has an address");
            (Client::new(endpoint, server, caller, 2), BTreeMap::new())
        });
        World {
            clients: clients.collect(),
            random,
            network,
            server,
            data: Data::default(),
            pending: VecDeque::new(),
            over: Vec::new(),
            waits: Vec::new(),
            term,
            is_calm,
            has_datagrams,
            next_tag: 1,
            seen: 0,
            stats: Stats::default(),
        }
    }

    fn now(&self) -> u64 {
        self.network.borrow().now
    }

    /// Faults of the server and of connections.
    fn disturb(&mut self) {
        match self.random.u32(..600) {
            0 => {
                let incarnation = Incarnation(self.random.u64(..));
                self.begin(Term { incarnation, ..self.term });
            }
            1..3 => {
                let epoch = self.term.epoch.next();
                self.begin(Term { epoch, ..self.term });
            }
            3..6 => {
                let client = self.random.usize(..self.clients.len());
                let client = &mut self.clients[client].0;
                let server =
                    client.endpoint().peer(&0u64.to_le_bytes(), Duration::ZERO).expect("as before");
                client.reconnect(server);
                self.stats.reconnects += 1;
            }
            _ => {}
        }
    }

    /// Begins a term. Some of what was not acknowledged is undone, the last first.
    fn begin(&mut self, term: Term) {
        self.stats.terms += 1;
        let kept = self.random.usize(..=self.pending.len());
        if let Some(first) = self.pending.get(kept) {
            let len = first.runs - first.givens.len();
            self.stats.undone += (self.data.runs.len() - len) as u64;
            self.data.runs.truncate(len);
        }
        let is_restart = term.incarnation != self.term.incarnation;
        self.term = term;
        self.server.begin(term);
        self.over.extend(self.pending.drain(..));
        if is_restart {
            self.waits.clear();
            self.over.drain(..).for_each(|pending| self.server.discard(pending.job));
        }
    }

    /// One step of everything. False once all calls have ended and nothing is under way.
    fn step(&mut self) -> bool {
        let now = self.now();
        let time = Duration::from_millis(now);
        let mut is_over = true;
        for at in 0..self.clients.len() {
            self.ask(at);
            let (client, asked) = &mut self.clients[at];
            client.step(time);
            while let Some((ticket, outcome)) = client.take() {
                let asked = asked.get_mut(&ticket).expect("it was asked");
                assert!(asked.outcome.is_none(), "a call ends twice");
                if let Outcome::Done(givens) = &outcome {
                    let versions = givens.iter().flatten().map(|given| given.version);
                    self.seen = versions.max().unwrap_or(self.seen);
                }
                (asked.ended, asked.outcome) = (now, Some(outcome));
            }
            is_over &= asked.len() == CALLS && asked.values().all(|call| call.outcome.is_some());
        }
        let mut jobs = Vec::new();
        self.server.step(time, &mut Door, &mut jobs);
        jobs.into_iter().for_each(|job| self.run_job(now, job));
        while !self.pending.is_empty() && self.random.u32(..3) == 0 {
            let pending = self.pending.pop_front().expect("there is one");
            self.acknowledge(pending);
        }
        if !self.over.is_empty() && self.random.u32(..3) == 0 {
            let pending = self.over.remove(0);
            self.acknowledge(pending);
        }
        self.end_waits(now);
        self.network.borrow_mut().now += 1;
        is_over &= self.over.is_empty() && self.waits.is_empty();
        !(is_over && self.pending.is_empty() && self.network.borrow().is_empty())
    }

    fn ask(&mut self, at: usize) {
        let now = self.now();
        let (client, asked) = &mut self.clients[at];
        let open = asked.values().filter(|call| call.outcome.is_none()).count();
        if asked.len() == CALLS || open >= 5 || self.random.u32(..4) != 0 {
            return;
        }
        let mut wishes = Vec::new();
        let is_wait = self.random.u32(..8) == 0;
        if is_wait {
            wishes.push(Wish::wait(&mut self.random, self.next_tag));
            self.next_tag += 1;
        }
        for _ in 0..if is_wait { 0 } else { self.random.u32(1..4) } {
            wishes.push(Wish::random(&mut self.random, self.next_tag, self.seen));
            self.next_tag += 1;
        }
        let values: Vec<Vec<u8>> =
            wishes.iter().map(|wish| wish.tag.to_string().into_bytes()).collect();
        let pairs = wishes.iter().zip(&values);
        let operations: Vec<Operation<'_>> =
            pairs.map(|(wish, value)| wish.operation(value)).collect();
        let patience = if self.is_calm { STEPS_MAX } else { self.random.u64(20..1500) };
        let deadline = Duration::from_millis(now + patience);
        let ticket = client.start(&operations, deadline).expect("there is room");
        asked.insert(ticket, Asked { wishes, begun: now, ended: 0, outcome: None });
    }

    fn run_job(&mut self, now: u64, job: Job) {
        let first = self.server.operations(&job).iter().next().expect("there is one");
        if let Operation::WaitForChange { key, limit_ms } = first {
            let (key, until) = (key.to_vec(), now + limit_ms);
            let version = self.data.item(&key).map_or(0, |item| item.0);
            self.waits.push(Waiting { wait: self.server.put_aside(job), key, version, until });
            return;
        }
        let operations = self.server.operations(&job);
        let givens = operations
            .iter()
            .map(|operation| (operation.key().to_vec(), self.data.run(now, &operation)))
            .collect();
        let runs = self.data.runs.len();
        self.pending.push_back(Pending { job, givens, runs });
    }

    /// Answers the waits that are over. What they tell must not be undone, either.
    fn end_waits(&mut self, now: u64) {
        let first = self.pending.front().map(|pending| pending.runs - pending.givens.len());
        let safe = first.unwrap_or(self.data.runs.len());
        for waiting in std::mem::take(&mut self.waits) {
            let Waiting { wait, key, version, until } = &waiting;
            let run = self.data.runs[..safe].iter().rev().find(|run| run.key == *key);
            let item = run.and_then(|run| run.after.as_ref()).filter(|item| item.0 > *version);
            let answer = match item {
                Some((version, value)) => Answer::new(key, Status::Done, *version, value),
                None => Answer::new(key, Status::TimedOut, 0, b""),
            };
            if !self.server.is_awaited(wait) {
                self.server.give_up_wait(waiting.wait);
            } else if item.is_some() || now >= *until {
                self.server.answer(waiting.wait, &answer);
            } else {
                self.waits.push(waiting);
            }
        }
    }

    fn acknowledge(&mut self, pending: Pending) {
        // A damaged index gives an operation the item of another key, with that one's checksum.
        let (is_odd, other) = (self.random.u32(..40) == 0, self.data.item(b"a"));
        let other = other.unwrap_or_default();
        let answers = pending.givens.iter().map(|(key, given)| {
            if is_odd && given.status == Status::Done && key != b"a" {
                return Answer::new(b"a", Status::Done, other.0, &other.1);
            }
            Answer::new(key, given.status, given.version, &given.value)
        });
        let answers: Vec<Answer<'_>> = answers.collect();
        self.server.finish(pending.job, &answers);
    }

    /// Where nothing is doubled or asked for again, each reply must find a RECV.
    fn check_credits(&mut self) -> Result<(), String> {
        for (at, (client, _)) in self.clients.iter_mut().enumerate() {
            let must = self.is_calm && !self.has_datagrams;
            if must && client.endpoint().unposted > 0 {
                return Err(format!("client {at}: a reply found no RECV"));
            }
        }
        Ok(())
    }

    fn check(&mut self) -> Result<(), String> {
        self.check_credits()?;
        self.stats.datagrams = self.network.borrow().datagrams;
        for (at, (client, asked)) in self.clients.iter_mut().enumerate() {
            self.stats.damaged_messages += client.damaged();
            for call in asked.values() {
                let outcome = call.outcome.as_ref().expect("all have ended");
                match outcome {
                    Outcome::Done(_) => self.stats.done += 1,
                    Outcome::NotDone(_) => self.stats.not_done += 1,
                    Outcome::Unknown => self.stats.unknown += 1,
                }
                for (nth, wish) in call.wishes.iter().enumerate() {
                    let told = format!("client {at}, {}..{}: {wish:?}", call.begun, call.ended);
                    check(&self.data.runs, call, nth, outcome, &mut self.stats)
                        .map_err(|fault| format!("{told}, told {outcome:?}: {fault}"))?;
                }
            }
        }
        Ok(())
    }
}

/// Checks what was told of one operation of a call.
fn check(
    runs: &[Run],
    call: &Asked,
    nth: usize,
    outcome: &Outcome,
    stats: &mut Stats,
) -> Result<(), String> {
    let wish = &call.wishes[nth];
    let mut own = runs.iter().filter(|run| run.tag == Some(wish.tag));
    let (run, second) = (own.next(), own.next());
    if second.is_some() {
        return Err("it was run twice".to_string());
    }
    let given = match outcome {
        Outcome::Done(givens) => givens[nth].as_ref(),
        Outcome::NotDone(_) if run.is_some() => return Err("it was run".to_string()),
        Outcome::NotDone(_) | Outcome::Unknown => return Ok(()),
    };
    let Some(given) = given else {
        stats.damaged_answers += 1;
        return Ok(());
    };
    stats.conflicts += u64::from(given.status == Status::Conflict);
    if wish.kind == WAIT {
        stats.changes += u64::from(given.status == Status::Done);
        stats.time_outs += u64::from(given.status == Status::TimedOut);
        return match was_awaited(runs, call, wish, given) {
            true => Ok(()),
            false => Err("the wait must not end like this".to_string()),
        };
    }
    if wish.kind == READ {
        return match was_so(runs, call, wish.key.as_bytes(), given) {
            true => Ok(()),
            false => Err("the key never had this value meanwhile".to_string()),
        };
    }
    let run = run.ok_or("it was not run, or undone")?;
    if run.given != *given || run.at < call.begun || run.at > call.ended {
        return Err(format!("it was run at {}: {:?}", run.at, run.given));
    }
    Ok(())
}

/// Whether the key got this version during the wait, or the wait was as long as it might be.
fn was_awaited(runs: &[Run], call: &Asked, wish: &Wish, given: &Given) -> bool {
    let mut own = runs.iter().filter(|run| run.key == wish.key.as_bytes());
    let item = Some((given.version, given.value.clone()));
    match given.status {
        Status::TimedOut => call.ended - call.begun >= wish.limit,
        Status::Done => own
            .find(|run| run.after == item)
            .is_some_and(|run| (call.begun..=call.ended).contains(&run.at)),
        _ => false,
    }
}

/// Whether the key had this state at some time of the call.
fn was_so(runs: &[Run], call: &Asked, key: &[u8], given: &Given) -> bool {
    let mut states = vec![(0, None)];
    states.extend(runs.iter().filter(|run| run.key == key).map(|run| (run.at, run.after.clone())));
    states.iter().enumerate().any(|(at, (from, item))| {
        let until = states.get(at + 1).map_or(u64::MAX, |next| next.0);
        let is_it = match item {
            None => given.status == Status::Absent,
            Some((version, value)) => {
                (given.status, given.version, &given.value) == (Status::Done, *version, value)
            }
        };
        is_it && *from <= call.ended && until >= call.begun
    })
}
