//! Random sequences of all operations against a plain map, with expiry and a clock of the test's, and
//! every other one with a history.
//!
//! Every answer is compared, and the whole contents after every sequence. A failure names its
//! seed; `HOTRING_SEED=<seed>` runs that sequence alone. Not covered: more than one session (see
//! `linearizability`), values longer than some hundred bytes, sums of more than 20 digits.

use std::collections::BTreeMap;

use hotring_store::index::Config;
use hotring_store::{
    ExpireCondition, NumberKind, Options, Session, SetCondition, SetExpiry, SetOptions, Store,
    StoreError, Text, TtlChange,
};

use crate::random::Random;

const SEQUENCES: u64 = 4_000;
const STEPS: u64 = 80;
const KEYS: [&str; 6] = ["a", "b", "c", "key", "a longer key than a word", ""];
const VALUES: [&str; 14] = [
    "0",
    "-5",
    "12",
    "9223372036854775807",
    "-9223372036854775808",
    "1.5",
    "-0.25",
    "abc",
    "",
    "12345678",
    "a longer value than a word",
    " 1",
    "007",
    "+3",
];
const FLOATS: [&str; 6] = ["1.5", "-0.25", "3", "+1", "x", ""];
const VALUE_LEN_MAX: usize = 60;
/// Room for a few values, or for none after the longest.
const HISTORY_BYTES_MAX: usize = 70;

type Key = &'static str;
/// An earlier value: its version, the time of its replacement, and the value.
type Past = (u64, u64, Vec<u8>);

#[derive(Clone, Debug)]
enum Op {
    Get(Key),
    Set(Key, Key, Condition, SetExpiry, bool),
    GetEx(Key, TtlChange),
    GetDel(Key),
    GetSet(Key, Key),
    Append(Key, Key),
    Strlen(Key),
    GetRange(Key, i64, i64),
    SetRange(Key, usize, Key),
    Incr(Key, i64),
    IncrFloat(Key, Key),
    Remove(Key),
    Exists(Key),
    ExpireAt(Key, u64, ExpireCondition),
    Persist(Key),
    Expiry(Key),
    Mget(Vec<Key>),
    Mset(Vec<(Key, Key)>),
    MsetNx(Vec<(Key, Key)>),
    Rename(Key, Key),
    RenameNx(Key, Key),
    Copy(Key, Key, bool),
    RemoveMany(Vec<Key>),
    ExistsMany(Vec<Key>),
    Clear,
    Remember(Key),
    ExpireStep,
    ScanAll,
    History(Key),
    RollBack(Key, u64),
}

#[derive(Clone, Copy, Debug)]
enum Condition {
    Always,
    Absent,
    Present,
    Equal(Key),
    Remembered,
}

#[derive(Debug, PartialEq)]
enum Out {
    Done,
    Flag(bool),
    Number(i64),
    Text(Option<Vec<u8>>),
    Texts(Vec<Option<Vec<u8>>>),
    Set(bool, Option<Vec<u8>>),
    Expiry(Option<Option<u64>>),
    Keys(Vec<(Vec<u8>, Vec<u8>)>),
    History(Option<(u64, Vec<Past>)>),
    Error(StoreError),
}

fn random_op(random: &mut Random, now: u64) -> Op {
    let key = random.pick(&KEYS);
    let other = random.pick(&KEYS);
    let value = random.pick(&VALUES);
    // Some are past, some come during the sequence, some never.
    let at = (now + random.below(60)).saturating_sub(10);
    let keys = |random: &mut Random| (0..random.below(5)).map(|_| random.pick(&KEYS)).collect();
    let pairs = |random: &mut Random| {
        let n = if random.one_in(8) { 20 } else { random.below(4) };
        (0..n).map(|_| (random.pick(&KEYS), random.pick(&VALUES))).collect()
    };
    let offset = |random: &mut Random| random.below(40) as i64 - 20;
    match random.below(38) {
        0 => Op::Get(key),
        1..=6 => {
            use Condition::*;
            let condition =
                random.pick(&[Always, Always, Absent, Present, Equal(value), Remembered]);
            let expiry = random.pick(&[SetExpiry::Clear, SetExpiry::Keep, SetExpiry::At(at)]);
            Op::Set(key, random.pick(&VALUES), condition, expiry, random.one_in(3))
        }
        7 => {
            Op::GetEx(key, random.pick(&[TtlChange::Leave, TtlChange::Persist, TtlChange::At(at)]))
        }
        8 => Op::GetDel(key),
        9 => Op::GetSet(key, value),
        10 => Op::Append(key, value),
        11 => Op::Strlen(key),
        12 => Op::GetRange(key, offset(random), offset(random)),
        13 => Op::SetRange(key, random.below(70) as usize, value),
        14 | 15 => Op::Incr(key, random.pick(&[1, -1, 0, 100, i64::MAX, i64::MIN])),
        16 => Op::IncrFloat(key, random.pick(&FLOATS)),
        17 => Op::Remove(key),
        18 => Op::Exists(key),
        19 | 20 => {
            use ExpireCondition::*;
            let all = [Always, IfNone, IfSome, IfLater, IfEarlier, IfSomeAndEarlier];
            Op::ExpireAt(key, at, random.pick(&all))
        }
        21 => Op::Persist(key),
        22 => Op::Expiry(key),
        23 => Op::Mget(keys(random)),
        24 => Op::Mset(pairs(random)),
        25 => Op::MsetNx(pairs(random)),
        26 => Op::Rename(key, other),
        27 => Op::RenameNx(key, other),
        28 => Op::Copy(key, other, random.one_in(2)),
        29 => Op::RemoveMany(keys(random)),
        30 => Op::ExistsMany(keys(random)),
        31 if random.one_in(6) => Op::Clear,
        31 => Op::ExpireStep,
        32 => Op::Remember(key),
        33 => Op::ScanAll,
        34 | 35 => Op::History(key),
        _ => Op::RollBack(key, random.below(6)),
    }
}

fn bytes(keys: &[Key]) -> Vec<&'static [u8]> {
    keys.iter().map(|key| key.as_bytes()).collect()
}

fn byte_pairs(pairs: &[(Key, Key)]) -> Vec<(&'static [u8], &'static [u8])> {
    pairs.iter().map(|(key, value)| (key.as_bytes(), value.as_bytes())).collect()
}

fn out<T>(result: Result<T, StoreError>, f: impl FnOnce(T) -> Out) -> Out {
    result.map_or_else(Out::Error, f)
}

/// Runs the operation on the store. `remembered` is the last version that was asked for.
fn run(s: &mut Session, op: &Op, now: u64, remembered: &mut u64) -> Out {
    let number = |n: usize| Out::Number(n as i64);
    match op {
        Op::Get(k) => Out::Text(s.get(k.as_bytes(), now, |v| v.to_vec())),
        Op::Set(k, v, condition, expiry, return_old) => {
            let condition = match condition {
                Condition::Always => SetCondition::Always,
                Condition::Absent => SetCondition::IfAbsent,
                Condition::Present => SetCondition::IfPresent,
                Condition::Equal(text) => SetCondition::IfEqual(text.as_bytes()),
                Condition::Remembered => SetCondition::IfVersion(*remembered),
            };
            let options =
                SetOptions { condition, expiry: *expiry, return_old: *return_old, buffer: None };
            out(s.set(k.as_bytes(), v.as_bytes(), options, now), |o| {
                Out::Set(o.stored, o.old.map(Text::into_vec))
            })
        }
        Op::GetEx(k, change) => {
            Out::Text(s.get_ex(k.as_bytes(), *change, now, |v, _| v.to_vec()).unwrap())
        }
        Op::GetDel(k) => Out::Text(s.get_del(k.as_bytes(), now).unwrap().map(Text::into_vec)),
        Op::GetSet(k, v) => out(s.get_set(k.as_bytes(), v.as_bytes(), now), |old| {
            Out::Text(old.map(Text::into_vec))
        }),
        Op::Append(k, v) => out(s.append(k.as_bytes(), v.as_bytes(), now), number),
        Op::Strlen(k) => number(s.strlen(k.as_bytes(), now).unwrap()),
        Op::GetRange(k, start, end) => Out::Text(Some(
            s.get_range(k.as_bytes(), *start, *end, now, |bytes, _| bytes.to_vec()).unwrap(),
        )),
        Op::SetRange(k, at, v) => out(s.set_range(k.as_bytes(), *at, v.as_bytes(), now), number),
        Op::Incr(k, delta) => out(s.incr_by(k.as_bytes(), *delta, now), Out::Number),
        Op::IncrFloat(k, delta) => {
            out(s.incr_by_float(k.as_bytes(), delta.as_bytes(), now), |v| Out::Text(Some(v)))
        }
        Op::Remove(k) => Out::Flag(s.remove(k.as_bytes(), now)),
        Op::Exists(k) => Out::Flag(s.exists(k.as_bytes(), now)),
        Op::ExpireAt(k, at, c) => Out::Flag(s.expire_at(k.as_bytes(), *at, *c, now).unwrap()),
        Op::Persist(k) => Out::Flag(s.persist(k.as_bytes(), now).unwrap()),
        Op::Expiry(k) => Out::Expiry(s.expiry(k.as_bytes(), now)),
        Op::Mget(keys) => {
            let mut texts = Vec::new();
            s.mget(&bytes(keys), now, |_, v| texts.push(v.map(|v| v.to_vec())));
            Out::Texts(texts)
        }
        Op::Mset(pairs) => out(s.mset(&byte_pairs(pairs), now), |()| Out::Done),
        Op::MsetNx(pairs) => out(s.mset_nx(&byte_pairs(pairs), now), Out::Flag),
        Op::Rename(a, b) => out(s.rename(a.as_bytes(), b.as_bytes(), now), |()| Out::Done),
        Op::RenameNx(a, b) => out(s.rename_nx(a.as_bytes(), b.as_bytes(), now), Out::Flag),
        Op::Copy(a, b, replace) => {
            out(s.copy(a.as_bytes(), b.as_bytes(), *replace, now), Out::Flag)
        }
        Op::RemoveMany(keys) => number(s.remove_many(&bytes(keys), now)),
        Op::ExistsMany(keys) => number(s.exists_many(&bytes(keys), now)),
        Op::Clear => {
            s.clear();
            Out::Done
        }
        Op::Remember(k) => {
            *remembered = s.version(k.as_bytes(), now).unwrap().unwrap_or(u64::MAX);
            Out::Done
        }
        Op::ExpireStep => {
            s.expire_due(now, 1_000, |_, _| {});
            Out::Done
        }
        Op::ScanAll => {
            let (mut keys, mut cursor) = (Vec::new(), 0);
            loop {
                cursor = s.scan(cursor, 3, now, |k, v| keys.push((k.to_vec(), v.to_vec())));
                if cursor == 0 {
                    break;
                }
            }
            keys.sort();
            Out::Keys(keys)
        }
        Op::History(k) => Out::History(s.history(k.as_bytes(), now, |history| {
            let past = history.earlier().map(|e| (e.version, e.replaced_at, e.value.to_vec()));
            (history.version(), past.collect())
        })),
        Op::RollBack(k, version) => out(s.roll_back(k.as_bytes(), *version, now), Out::Flag),
    }
}

#[derive(Clone, Debug)]
struct Held {
    text: Vec<u8>,
    expire_at: Option<u64>,
    /// The write that made it; plays the version of the index.
    write: u64,
    version: u64,
    /// Newest first.
    past: Vec<Past>,
}

#[derive(Default)]
struct Model {
    keys: BTreeMap<Key, Held>,
    writes: u64,
    remembered: u64,
    history: usize,
}

impl Model {
    fn put(&mut self, key: Key, text: impl Into<Vec<u8>>, expire_at: Option<u64>, now: u64) {
        let (mut version, mut past) = (1, Vec::new());
        if let Some(old) = self.keys.remove(key)
            && self.history > 0
        {
            version = old.version + 1;
            past = old.past;
            past.insert(0, (old.version, now, old.text));
            let mut room = HISTORY_BYTES_MAX;
            let fits = |past: &&Past| match room.checked_sub(12 + past.2.len()) {
                Some(left) => {
                    room = left;
                    true
                }
                None => false,
            };
            past.truncate(past.iter().take(self.history).take_while(fits).count());
        }
        let held = Held { text: text.into(), expire_at, write: 0, version, past };
        self.put_held(key, held, now);
    }

    /// Stores the value of a key, with its history, unless it has expired.
    fn put_held(&mut self, key: Key, held: Held, now: u64) {
        self.writes += 1;
        if held.expire_at.is_some_and(|at| at <= now) {
            self.keys.remove(key);
        } else {
            self.keys.insert(key, Held { write: self.writes, ..held });
        }
    }

    fn text(&self, key: Key) -> Option<Vec<u8>> {
        self.keys.get(key).map(|held| held.text.clone())
    }

    fn expire_at(&self, key: Key) -> Option<u64> {
        self.keys.get(key).and_then(|held| held.expire_at)
    }

    /// Stores a text that was built from the old one.
    fn rebuild(&mut self, key: Key, text: Vec<u8>, now: u64) -> Out {
        let len = text.len();
        if len > VALUE_LEN_MAX {
            return Out::Error(StoreError::ValueTooLong { len, len_max: VALUE_LEN_MAX });
        }
        self.put(key, text, self.expire_at(key), now);
        Out::Number(len as i64)
    }

    fn run(&mut self, op: &Op, now: u64) -> Out {
        self.keys.retain(|_, held| held.expire_at.is_none_or(|at| at > now));
        match op {
            Op::Get(k) => Out::Text(self.text(k)),
            Op::Set(k, v, condition, expiry, return_old) => {
                let old = self.keys.get(k).cloned();
                let stored = match condition {
                    Condition::Always => true,
                    Condition::Absent => old.is_none(),
                    Condition::Present => old.is_some(),
                    Condition::Equal(text) => {
                        old.as_ref().is_some_and(|o| o.text == text.as_bytes())
                    }
                    Condition::Remembered => {
                        old.as_ref().is_some_and(|o| o.write == self.remembered)
                    }
                };
                let expire_at = match expiry {
                    SetExpiry::Clear => None,
                    SetExpiry::Keep => self.expire_at(k),
                    SetExpiry::At(at) => Some(*at),
                };
                if stored {
                    self.put(k, *v, expire_at, now);
                }
                Out::Set(stored, old.filter(|_| *return_old).map(|o| o.text))
            }
            Op::GetSet(k, v) => {
                let old = self.text(k);
                self.put(k, *v, None, now);
                Out::Text(old)
            }
            Op::GetDel(k) => Out::Text(self.keys.remove(k).map(|held| held.text)),
            Op::Strlen(k) => Out::Number(self.text(k).map_or(0, |text| text.len() as i64)),
            Op::Remove(k) => Out::Flag(self.keys.remove(k).is_some()),
            Op::Exists(k) => Out::Flag(self.keys.contains_key(k)),
            Op::Append(..)
            | Op::GetRange(..)
            | Op::SetRange(..)
            | Op::Incr(..)
            | Op::IncrFloat(..) => self.run_text(op, now),
            Op::GetEx(..) | Op::ExpireAt(..) | Op::Persist(_) | Op::Expiry(_) => {
                self.run_expiry(op, now)
            }
            Op::Remember(k) => {
                self.remembered = self.keys.get(k).map_or(u64::MAX, |held| held.write);
                Out::Done
            }
            Op::ExpireStep => Out::Done,
            Op::ScanAll => Out::Keys(
                self.keys
                    .iter()
                    .map(|(k, held)| (k.as_bytes().to_vec(), held.text.clone()))
                    .collect(),
            ),
            Op::History(_) | Op::RollBack(..) => self.run_history(op, now),
            _ => self.run_several(op, now),
        }
    }

    fn run_history(&mut self, op: &Op, now: u64) -> Out {
        match *op {
            Op::History(k) => {
                Out::History(self.keys.get(k).map(|held| (held.version, held.past.clone())))
            }
            Op::RollBack(..) if self.history == 0 => Out::Error(StoreError::HistoryOff),
            Op::RollBack(k, version) => {
                let past = self.keys.get(k).into_iter().flat_map(|held| &held.past);
                let text = past.filter(|past| past.0 == version).map(|past| past.2.clone()).next();
                let found = text.is_some();
                if let Some(text) = text {
                    self.put(k, text, self.expire_at(k), now);
                }
                Out::Flag(found)
            }
            _ => unreachable!("not an operation of this family"),
        }
    }

    fn run_text(&mut self, op: &Op, now: u64) -> Out {
        match *op {
            Op::Append(k, tail) => {
                let text = [&self.text(k).unwrap_or_default(), tail.as_bytes()].concat();
                self.rebuild(k, text, now)
            }
            Op::GetRange(k, start, end) => {
                let text = self.text(k).unwrap_or_default();
                let len = text.len() as i64;
                if start < 0 && end < 0 && start > end {
                    return Out::Text(Some(Vec::new()));
                }
                let wrap = |i: i64| if i < 0 { (i + len).max(0) } else { i };
                let taken = (0..len).filter(|i| *i >= wrap(start) && *i <= wrap(end));
                Out::Text(Some(taken.map(|i| text[i as usize]).collect()))
            }
            Op::SetRange(k, at, patch) => {
                let mut text = self.text(k).unwrap_or_default();
                if patch.is_empty() {
                    return Out::Number(text.len() as i64);
                }
                let end = at + patch.len();
                if end > VALUE_LEN_MAX {
                    return Out::Error(StoreError::ValueTooLong {
                        len: end,
                        len_max: VALUE_LEN_MAX,
                    });
                }
                while text.len() < end {
                    text.push(0);
                }
                text.splice(at..end, patch.bytes());
                self.rebuild(k, text, now)
            }
            Op::Incr(k, delta) => {
                let text = String::from_utf8(self.text(k).unwrap_or(b"0".to_vec())).unwrap();
                let Some(n) = text.parse::<i64>().ok().filter(|n| n.to_string() == text) else {
                    return Out::Error(StoreError::NotANumber(NumberKind::Integer));
                };
                let Some(sum) = n.checked_add(delta) else {
                    return Out::Error(StoreError::Overflow(NumberKind::Integer));
                };
                self.put(k, sum.to_string(), self.expire_at(k), now);
                Out::Number(sum)
            }
            Op::IncrFloat(k, delta) => {
                let text = String::from_utf8(self.text(k).unwrap_or(b"0".to_vec())).unwrap();
                let (Some(a), Some(b)) = (fixed_point(&text), fixed_point(delta)) else {
                    return Out::Error(StoreError::NotANumber(NumberKind::Decimal));
                };
                let sum = (a + b).unsigned_abs();
                let sign = if a + b < 0 { "-" } else { "" };
                let text = format!("{sign}{}.{:08}", sum / ONE, sum % ONE);
                let text = text.trim_end_matches('0').trim_end_matches('.').as_bytes().to_vec();
                self.put(k, text.clone(), self.expire_at(k), now);
                Out::Text(Some(text))
            }
            _ => unreachable!("not an operation of this family"),
        }
    }

    /// Changes the expiry of a key that is there.
    fn expire(&mut self, key: Key, expire_at: Option<u64>, now: u64) {
        let held = Held { expire_at, ..self.keys[key].clone() };
        self.put_held(key, held, now);
    }

    fn run_expiry(&mut self, op: &Op, now: u64) -> Out {
        match *op {
            Op::GetEx(k, change) => {
                let Some(held) = self.keys.get(k).cloned() else { return Out::Text(None) };
                match change {
                    TtlChange::Leave => {}
                    TtlChange::Persist if held.expire_at.is_none() => {}
                    TtlChange::Persist => self.expire(k, None, now),
                    TtlChange::At(at) => self.expire(k, Some(at), now),
                }
                Out::Text(Some(held.text))
            }
            Op::ExpireAt(k, at, condition) => {
                let Some(held) = self.keys.get(k).cloned() else { return Out::Flag(false) };
                let old = held.expire_at.unwrap_or(u64::MAX);
                let some = held.expire_at.is_some();
                let holds = match condition {
                    ExpireCondition::Always => true,
                    ExpireCondition::IfNone => !some,
                    ExpireCondition::IfSome => some,
                    ExpireCondition::IfLater => at > old,
                    ExpireCondition::IfEarlier => at < old,
                    ExpireCondition::IfSomeAndEarlier => some && at < old,
                };
                if holds {
                    self.expire(k, Some(at), now);
                }
                Out::Flag(holds)
            }
            Op::Persist(k) => {
                let expires = self.expire_at(k).is_some();
                if expires {
                    self.expire(k, None, now);
                }
                Out::Flag(expires)
            }
            Op::Expiry(k) => Out::Expiry(self.keys.get(k).map(|held| held.expire_at)),
            _ => unreachable!("not an operation of this family"),
        }
    }

    fn run_several(&mut self, op: &Op, now: u64) -> Out {
        match op {
            Op::Mget(keys) => Out::Texts(keys.iter().map(|k| self.text(k)).collect()),
            Op::Mset(pairs) => {
                self.put_last_of_each(pairs, now);
                Out::Done
            }
            Op::MsetNx(pairs) => {
                let free = pairs.iter().all(|(k, _)| !self.keys.contains_key(k));
                if free {
                    self.put_last_of_each(pairs, now);
                }
                Out::Flag(free)
            }
            Op::Rename(a, b) => match self.move_key(a, b, now, true, true) {
                Some(_) => Out::Done,
                None => Out::Error(StoreError::NoSuchKey),
            },
            Op::RenameNx(a, b) => match self.move_key(a, b, now, false, true) {
                Some(moved) => Out::Flag(moved),
                None => Out::Error(StoreError::NoSuchKey),
            },
            Op::Copy(a, b, replace) => {
                Out::Flag(a != b && self.move_key(a, b, now, *replace, false) == Some(true))
            }
            Op::RemoveMany(keys) => {
                Out::Number(keys.iter().filter(|k| self.keys.remove(*k).is_some()).count() as i64)
            }
            Op::ExistsMany(keys) => {
                Out::Number(keys.iter().filter(|k| self.keys.contains_key(*k)).count() as i64)
            }
            Op::Clear => {
                self.keys.clear();
                Out::Done
            }
            _ => unreachable!("not an operation of this family"),
        }
    }

    /// A key that is named twice is written once.
    fn put_last_of_each(&mut self, pairs: &[(Key, Key)], now: u64) {
        let last: BTreeMap<Key, Key> = pairs.iter().copied().collect();
        last.into_iter().for_each(|(k, v)| self.put(k, v, None, now));
    }

    fn move_key(&mut self, a: Key, b: Key, now: u64, replace: bool, cut: bool) -> Option<bool> {
        let held = self.keys.get(a).cloned()?;
        if a == b || (!replace && self.keys.contains_key(b)) {
            return Some(replace);
        }
        if cut {
            self.keys.remove(a);
        }
        self.put_held(b, held, now);
        Some(true)
    }
}

/// Fixed point with 8 digits.
const ONE: u128 = 100_000_000;

fn fixed_point(text: &str) -> Option<i128> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let digits = format!("{whole}{fraction:0<8}");
    if whole.len() + fraction.len() == 0 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let size: i128 = digits.parse().unwrap();
    Some(if text.starts_with('-') { -size } else { size })
}

/// Whether the model's arithmetic can do this one.
fn is_modelled(op: &Op, model: &Model) -> bool {
    let Op::IncrFloat(key, _) = op else { return true };
    model.text(key).is_none_or(|text| {
        text.len() <= 20
            && text.iter().filter(|b| **b == b'.').count() <= 1
            && text.iter().rev().take_while(|b| **b != b'.').count()
                <= if text.contains(&b'.') { 8 } else { 20 }
    })
}

fn run_sequence(seed: u64) {
    let mut random = Random::new(seed);
    let history = if seed.is_multiple_of(2) { 0 } else { 1 + random.below(4) as usize };
    let slots_initial = if random.one_in(2) { 1 } else { Config::default().slots_initial };
    let options = Options {
        seed: [random.next(), random.next()],
        index: Config { slots_initial, ..Config::default() },
        value_len_max: VALUE_LEN_MAX,
        history,
        history_bytes_max: HISTORY_BYTES_MAX,
        ..Options::default()
    };
    let store = Store::new(options).unwrap();
    let mut session = store.session();
    let mut model = Model { history, ..Model::default() };
    let (mut now, mut remembered) = (1_000_000, u64::MAX);
    model.remembered = u64::MAX;
    for step in 0..STEPS {
        now += if random.one_in(3) { random.below(20) } else { 0 };
        let op = random_op(&mut random, now);
        if !is_modelled(&op, &model) {
            continue;
        }
        let expected = model.run(&op, now);
        let got = run(&mut session, &op, now, &mut remembered);
        assert_eq!(got, expected, "seed {seed}, step {step}, time {now}: {op:?}");
    }
    for key in KEYS {
        let held = model.keys.get(key).filter(|held| held.expire_at.is_none_or(|at| at > now));
        let text = session.get(key.as_bytes(), now, |v| v.to_vec());
        assert_eq!(text, held.map(|held| held.text.clone()), "seed {seed}, at the end: {key:?}");
        let expiry = session.expiry(key.as_bytes(), now);
        assert_eq!(expiry, held.map(|held| held.expire_at), "seed {seed}, at the end: {key:?}");
    }
}

#[test]
fn random_sequences_give_the_answers_of_a_plain_map() {
    if let Ok(seed) = std::env::var("HOTRING_SEED") {
        return run_sequence(seed.parse().unwrap());
    }
    (0..SEQUENCES).for_each(run_sequence);
}
