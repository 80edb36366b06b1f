//! Random sequences over the byte-string index: every configuration gives the answers of a HashMap
//! whose entries have expiries and versions.
//!
//! As in `model_u64s`: a sequence and its answers are made once, by the model alone, and then run
//! through each configuration. Versions are numbers that the index chooses; they are compared by
//! the order in which they were given out. `HOTRING_SEQUENCES` is the number of sequences,
//! `HOTRING_SEED` the seed of the first.
//!
//! Not covered: two threads, and clocks that disagree.

use crate::shapes::{Family, Growing, Setup, every_engine, number, setups, with_engine};
use fastrand::Rng;
use hotring_index::{Action, Bytes, Engine, Entry, Expiry, Index, NewValue, Session, Value};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

const STEPS: usize = 2_500;
const BATCHES: [u64; 5] = [1, 2, 7, 64, 1000];

#[derive(Clone, Debug, PartialEq)]
enum Val {
    Word(u8, u64),
    Bytes(u8, Vec<u8>),
}

impl Val {
    fn of(value: Value<'_>) -> Self {
        match value {
            Value::Word { kind, word } => Self::Word(kind, word),
            Value::Bytes { kind, bytes } => Self::Bytes(kind, bytes.to_vec()),
        }
    }

    fn new_value(&self) -> NewValue<'_> {
        match self {
            Self::Word(kind, word) => NewValue::Word { kind: *kind, word: *word },
            Self::Bytes(kind, bytes) => NewValue::Bytes { kind: *kind, bytes: bytes.into() },
        }
    }

    /// A value made from an old one: words are counted up, bytes get longer.
    fn longer(&self) -> Self {
        match self {
            Self::Word(kind, word) => Self::Word(*kind, word.wrapping_add(1 << 61 | 1)),
            Self::Bytes(kind, bytes) => {
                let mut longer = bytes.clone();
                longer.truncate(600);
                longer.extend(b"+longer");
                Self::Bytes(*kind, longer)
            }
        }
    }
}

/// The number of a key.
type Key = usize;
/// The number of a version, counted from the first that was given out.
type Token = usize;

#[derive(Debug)]
enum Op {
    Get(Key),
    Put(Key, Val, Expiry),
    Insert(Key, Val, Expiry),
    Replace(Key, Val, Expiry),
    Lengthen(Key, Expiry),
    Expire(Key, Expiry),
    Remove(Key),
    Take(Key),
    Version(Key),
    /// Stores if the version is still this one.
    PutIf(Key, Token, Val),
    GetMany(Vec<Key>),
    Prefetch(Vec<Key>),
    Scan(usize),
    Sample(u64),
    Sweep(usize),
    Len,
    Clear,
    /// Only where sizes are forced.
    Resize(u64),
}

#[derive(Clone, Debug, PartialEq)]
struct Shown {
    value: Val,
    expire_at: Option<u64>,
    version: Option<Token>,
}

#[derive(Debug, PartialEq)]
enum Answer {
    Nothing,
    Flag(bool),
    Count(usize),
    Entry(Option<Shown>),
    Entries(Vec<Option<Shown>>),
    All(BTreeMap<Key, Shown>),
    Token(Option<Token>),
}

struct Step {
    op: Op,
    now: u64,
    answer: Answer,
}

pub fn names() -> Vec<Vec<u8>> {
    let mut names: Vec<Vec<u8>> = vec![Vec::new(), b"\0".to_vec(), b"\0\0".to_vec()];
    names.extend([254, 255, 256, 3000].map(|len| vec![b'l'; len]));
    names.extend((0..300).map(|i| format!("key:{i}").into_bytes()));
    names
}

#[derive(Default)]
struct Model {
    now: u64,
    entries: HashMap<Key, Shown>,
    tokens: usize,
}

impl Model {
    fn live(&self, key: Key) -> Option<&Shown> {
        self.entries.get(&key).filter(|entry| entry.expire_at.is_none_or(|at| at > self.now))
    }

    fn put(&mut self, key: Key, value: &Val, expiry: Expiry) {
        let expire_at = match expiry {
            Expiry::Never => None,
            Expiry::Keep => self.live(key).and_then(|entry| entry.expire_at),
            Expiry::At(at) => Some(at),
        };
        self.entries.insert(key, Shown { value: value.clone(), expire_at, version: None });
    }

    fn expected(&mut self, op: &Op) -> Answer {
        match *op {
            Op::Get(key) => Answer::Entry(self.live(key).cloned()),
            Op::Put(key, ref value, expiry) => {
                let was = self.live(key).is_some();
                self.put(key, value, expiry);
                Answer::Flag(was)
            }
            Op::Insert(key, ref value, expiry) => {
                let absent = self.live(key).is_none();
                if absent {
                    self.put(key, value, expiry);
                }
                Answer::Flag(absent)
            }
            Op::Replace(key, ref value, expiry) => {
                let old = self.live(key).cloned();
                if old.is_some() {
                    self.put(key, value, expiry);
                }
                Answer::Entry(old)
            }
            Op::Lengthen(key, expiry) => {
                let old = self.live(key).cloned();
                if let Some(old) = &old {
                    self.put(key, &old.value.longer(), expiry);
                }
                Answer::Entry(old)
            }
            Op::Expire(key, expiry) => {
                let old = self.live(key).cloned();
                if let Some(old) = &old
                    && expiry != Expiry::Keep
                {
                    self.put(key, &old.value, expiry);
                }
                Answer::Flag(old.is_some())
            }
            Op::Remove(key) => Answer::Flag(self.take(key).is_some()),
            Op::Take(key) => Answer::Entry(self.take(key)),
            Op::Version(key) => Answer::Token(self.version(key)),
            Op::PutIf(key, token, ref value) => {
                let is = self.live(key).is_some_and(|entry| entry.version == Some(token));
                if is {
                    self.put(key, value, Expiry::Keep);
                }
                Answer::Flag(is)
            }
            Op::GetMany(ref keys) => {
                Answer::Entries(keys.iter().map(|&key| self.live(key).cloned()).collect())
            }
            Op::Scan(_) => {
                let live = self.entries.keys().filter_map(|&key| Some((key, self.live(key)?)));
                Answer::All(live.map(|(key, entry)| (key, entry.clone())).collect())
            }
            Op::Len => {
                let live = self.entries.keys().filter(|&&key| self.live(key).is_some());
                Answer::Count(live.count())
            }
            Op::Sample(_) => Answer::Flag(self.entries.keys().any(|&k| self.live(k).is_some())),
            Op::Clear => {
                self.entries.clear();
                Answer::Nothing
            }
            Op::Prefetch(_) | Op::Sweep(_) | Op::Resize(_) => Answer::Nothing,
        }
    }

    fn take(&mut self, key: Key) -> Option<Shown> {
        let old = self.live(key).cloned();
        self.entries.remove(&key);
        old
    }

    fn version(&mut self, key: Key) -> Option<Token> {
        self.live(key)?;
        let entry = self.entries.get_mut(&key).expect("it is live");
        let token = *entry.version.get_or_insert(self.tokens);
        self.tokens = self.tokens.max(token + 1);
        Some(token)
    }

    // --- The next operation

    fn random_op(&mut self, random: &mut Rng, keys: u64) -> Op {
        let any = |random: &mut Rng| {
            let range = [8, 8, 40, keys][random.u64(..4) as usize];
            random.u64(..range.min(keys)) as Key
        };
        let (key, value) = (any(random), random_value(random));
        let expiry = match random.u64(..6) {
            0 | 1 => Expiry::Never,
            2 | 3 => Expiry::Keep,
            // Some are over when they are written.
            4 => Expiry::At((self.now + random.u64(..30)).saturating_sub(3).max(1)),
            _ => Expiry::At(self.now + 1_000_000),
        };
        let batch = |random: &mut Rng| {
            let n = BATCHES[random.u64(..5) as usize];
            (0..n).map(|_| any(random)).collect()
        };
        match random.u64(..100) {
            0..=17 => Op::Get(key),
            18..=32 => Op::Put(key, value, expiry),
            33..=40 => Op::Insert(key, value, expiry),
            41..=46 => Op::Replace(key, value, expiry),
            47..=53 => Op::Lengthen(key, expiry),
            54..=60 => Op::Expire(key, expiry),
            61..=66 => Op::Remove(key),
            67..=70 => Op::Take(key),
            71..=76 => Op::Version(key),
            77..=81 => {
                let now = self.live(key).and_then(|entry| entry.version);
                let token = now.unwrap_or(random.u64(..self.tokens as u64 + 1) as Token);
                // Only versions that were assigned can be requested.
                if token < self.tokens { Op::PutIf(key, token, value) } else { Op::Get(key) }
            }
            82..=84 => Op::GetMany(batch(random)),
            85 => Op::Prefetch(batch(random)),
            86 if random.u64(..2) == 0 => Op::Scan(BATCHES[random.u64(..5) as usize] as usize),
            86 => Op::Len,
            87 if random.u64(..16) == 0 => Op::Clear,
            87 | 88 => Op::Sample(random.u64(..)),
            89..=91 => Op::Sweep(random.u64(..200) as usize),
            _ => Op::Resize(random.u64(..)),
        }
    }
}

fn random_value(random: &mut Rng) -> Val {
    let kind = random.u64(..3) as u8 * 7;
    match random.u64(..8) {
        0..=3 => Val::Word(kind, random.u64(..) >> [0, 1, 60][random.u64(..3) as usize]),
        4..=6 => Val::Bytes(kind, vec![kind; random.u64(..40) as usize]),
        _ => Val::Bytes(kind, vec![kind; random.u64(..5000) as usize]),
    }
}

fn sequence(seed: u64, steps: usize, keys: usize) -> Vec<Step> {
    let mut random = Rng::with_seed(seed);
    let mut model = Model { now: 1, ..Model::default() };
    (0..steps)
        .map(|_| {
            model.now += u64::from(random.u64(..3) == 0);
            let op = model.random_op(&mut random, keys as u64);
            let answer = model.expected(&op);
            Step { op, now: model.now, answer }
        })
        .collect()
}

// --- The index

struct World<'i, E: Engine> {
    index: &'i Index<Bytes, E>,
    growing: Growing,
    names: &'i [Vec<u8>],
    numbers: &'i HashMap<Vec<u8>, Key>,
    /// Versions in the order in which they were given out.
    versions: Vec<u64>,
    /// Keys in the order in which scans met them.
    order: Vec<Key>,
}

fn shown(versions: &[u64], entry: Entry<'_>) -> Shown {
    let token = |version| versions.iter().position(|v| *v == version).unwrap_or(usize::MAX);
    Shown {
        value: Val::of(entry.value),
        expire_at: entry.expire_at,
        version: entry.version.map(token),
    }
}

fn resize<E: Engine>(session: &mut Session<Bytes, E>, random: u64) {
    match random % 4 {
        0 => _ = session.grow(),
        1 => _ = session.shrink(),
        _ => (0..random >> 32 & 15).for_each(|_| session.collect()),
    }
}

impl<E: Engine> World<'_, E> {
    fn run(&mut self, session: &mut Session<Bytes, E>, op: &Op, now: u64) -> Answer {
        let (names, versions) = (self.names, &self.versions);
        let show = |entry: Entry<'_>| shown(versions, entry);
        match *op {
            Op::Get(key) => Answer::Entry(session.get(&names[key], now, show)),
            Op::Put(key, ref value, expiry) => {
                Answer::Flag(session.put(&names[key], value.new_value(), expiry, now))
            }
            Op::Insert(key, ref value, expiry) => {
                Answer::Flag(session.update(&names[key], now, |old| match old {
                    Some(_) => (Action::Keep, false),
                    None => (Action::Put { value: value.new_value(), expiry }, true),
                }))
            }
            Op::Replace(key, ref value, expiry) => {
                Answer::Entry(session.update(&names[key], now, |old| match old {
                    Some(old) => {
                        (Action::Put { value: value.new_value(), expiry }, Some(show(old)))
                    }
                    None => (Action::Keep, None),
                }))
            }
            Op::Lengthen(key, expiry) => {
                Answer::Entry(session.update(&names[key], now, |old| match old {
                    Some(old) => {
                        let value = match Val::of(old.value).longer() {
                            Val::Word(kind, word) => NewValue::Word { kind, word },
                            Val::Bytes(kind, bytes) => {
                                NewValue::Bytes { kind, bytes: Cow::Owned(bytes) }
                            }
                        };
                        (Action::Put { value, expiry }, Some(show(old)))
                    }
                    None => (Action::Keep, None),
                }))
            }
            Op::Expire(key, expiry) => Answer::Flag(
                session.update(&names[key], now, |old| (Action::Expire(expiry), old.is_some())),
            ),
            Op::Remove(key) => Answer::Flag(session.remove(&names[key], now)),
            Op::Take(key) => Answer::Entry(
                session.update(&names[key], now, |old| (Action::Remove, old.map(show))),
            ),
            Op::Version(key) => {
                let version = session.version(&names[key], now);
                Answer::Token(version.map(|version| self.token(version)))
            }
            Op::PutIf(key, token, ref value) => {
                let version = self.versions.get(token).copied();
                Answer::Flag(session.update(&names[key], now, |old| match old {
                    Some(old) if old.version.is_some() && old.version == version => {
                        let value = value.new_value();
                        (Action::Put { value, expiry: Expiry::Keep }, true)
                    }
                    _ => (Action::Keep, false),
                }))
            }
            Op::GetMany(ref keys) => {
                let keys: Vec<&[u8]> = keys.iter().map(|&key| &names[key][..]).collect();
                let mut out = vec![None; keys.len()];
                session.get_many(&keys, now, |i, entry| {
                    assert!(out[i].is_none(), "one call a key");
                    out[i] = Some(entry.map(show));
                });
                Answer::Entries(out.into_iter().map(|entry| entry.expect("a call a key")).collect())
            }
            Op::Prefetch(ref keys) => {
                let keys = keys.iter().map(|&key| hotring_index::Key::from(&names[key]));
                session.prefetch(&mut keys.collect::<Vec<_>>());
                Answer::Nothing
            }
            Op::Scan(count) => self.scan(session, count, now),
            Op::Sample(random) => {
                let key = session.sample(random, now, |entry| entry.key.to_vec());
                let is_live = |key: &Vec<u8>| session.get(key, now, |_| ()).is_some();
                assert!(key.iter().all(is_live), "{key:?} is none of the live keys");
                Answer::Flag(key.is_some())
            }
            Op::Sweep(budget) => {
                session.expire_step(budget, now);
                Answer::Nothing
            }
            Op::Len => {
                // To the end, and from the start to the end.
                session.expire_step(usize::MAX, now);
                session.expire_step(usize::MAX, now);
                Answer::Count(self.index.len())
            }
            Op::Clear => {
                session.clear();
                Answer::Nothing
            }
            Op::Resize(random) => {
                if self.growing == Growing::Forced {
                    resize(session, random);
                }
                Answer::Nothing
            }
        }
    }

    fn token(&mut self, version: u64) -> Token {
        let known = self.versions.iter().position(|v| *v == version);
        known.unwrap_or_else(|| {
            self.versions.push(version);
            self.versions.len() - 1
        })
    }

    fn scan(&mut self, session: &mut Session<Bytes, E>, count: usize, now: u64) -> Answer {
        let (mut met, mut cursor, mut calls) = (BTreeMap::new(), 0, 0u64);
        loop {
            cursor = session.scan(cursor, count, now, |entry| {
                let key = self.numbers[entry.key];
                self.order.push(key);
                let again = met.insert(key, shown(&self.versions, entry));
                assert_eq!(again, None, "key {key} was met twice");
            });
            if cursor == 0 {
                return Answer::All(met);
            }
            calls += 1;
            if self.growing == Growing::Forced && calls.is_multiple_of(3) {
                resize(session, calls / 3);
            }
        }
    }
}

/// Runs a sequence and returns the order in which its scans met the keys.
fn replay<E: Engine>(setup: &Setup, seed: u64, names: &[Vec<u8>], sequence: &[Step]) -> Vec<Key> {
    let index = Index::<Bytes, E>::new(setup.config.clone()).expect("a valid configuration");
    let mut sessions: Vec<_> = (0..setup.sessions).map(|_| index.session()).collect();
    let mut random = Rng::with_seed(seed);
    let numbers = names.iter().cloned().enumerate().map(|(i, name)| (name, i)).collect();
    let mut world = World {
        index: &index,
        growing: setup.growing,
        names,
        numbers: &numbers,
        versions: Vec::new(),
        order: Vec::new(),
    };
    for (i, step) in sequence.iter().enumerate() {
        let session = &mut sessions[random.u64(..setup.sessions as u64) as usize];
        let got = world.run(session, &step.op, step.now);
        let Step { op, now, answer } = step;
        assert!(
            got == *answer,
            "seed {seed}, step {i} at {now}, {op:?}: {got:?} and not {answer:?}, {setup:?}"
        );
    }
    world.order
}

/// Runs one sequence over these keys through all of the configurations.
pub fn compare(seed: u64, steps: usize, names: &[Vec<u8>], setups: &[Setup]) {
    let sequence = sequence(seed, steps, names.len());
    let mut order: Option<Vec<Key>> = None;
    for setup in setups {
        let here = with_engine!(setup.shape, replay(setup, seed, names, &sequence));
        // Other engines visit a bucket's items in any order.
        if setup.shape.family() == Family::HotRing {
            let first = order.get_or_insert_with(|| here.clone());
            assert!(*first == here, "scans go by hash, not by table: seed {seed}, {setup:?}");
        }
    }
}

every_engine!(all_configurations_answer_like_a_map_with_expiry, |family| {
    let first = number("HOTRING_SEED", 201);
    for seed in first..first + number("HOTRING_SEQUENCES", 1) {
        compare(seed, STEPS, &names(), &setups(family));
    }
});
