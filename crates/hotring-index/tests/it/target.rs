//! Runs the operations of a history on a real session.

use crate::colliding;
use crate::history::{Op, Outcome, State};
use crate::operate::operate;
use fastrand::Rng;
use hotring_index::{Action, Bytes, Engine, Entry, Expiry, NewValue, Session, U64, Value};
use std::borrow::Cow;

/// Hot keys at most.
pub const KEYS: usize = 4;

/// A session as a history sees it: it knows its hot keys by number.
pub trait Target: Send {
    fn run(&mut self, key: usize, op: Op) -> Outcome;
    /// One batch over the first hot keys.
    fn get_many(&mut self, keys: usize) -> Vec<Option<u64>>;
    /// The hot keys that a scan of everything meets.
    fn scan(&mut self) -> Vec<(usize, u64)>;
    /// Stores or removes a key that is not hot; true if that changed the number of items.
    fn fill(&mut self, other: u64, put: bool) -> bool;
    fn grow(&mut self) -> bool;
    fn shrink(&mut self) -> bool;
    /// Advances reclamation, halvings, and the removal of expired items by a step.
    fn collect(&mut self);
    /// The value of a key, and its value after the next tick. Only while nothing else runs.
    fn state(&mut self, key: usize) -> (State, State);
    /// Time goes on, by the same step in all sessions and only while nothing runs.
    fn tick(&mut self);
}

/// A session of the u64 index and its hot keys.
pub struct AsU64s<E: Engine>(pub Session<U64, E>, pub [u64; KEYS]);

/// Plain keys, or such that share tag and bucket whatever the size of the table.
pub fn u64_keys(collide: bool) -> [u64; KEYS] {
    let hash = |i: u64| 0x0007_beef_1234_5678 ^ i << 62;
    if collide { [0, 1, 2, 3].map(|i| colliding::u64_key(hash(i))) } else { [0, 1, 2, 3] }
}

impl<E: Engine> Target for AsU64s<E> {
    fn run(&mut self, key: usize, op: Op) -> Outcome {
        operate(&mut self.0, self.1[key], op)
    }

    fn get_many(&mut self, keys: usize) -> Vec<Option<u64>> {
        let mut out = vec![None; keys];
        self.0.get_many(&self.1[..keys], &mut out);
        out
    }

    fn scan(&mut self) -> Vec<(usize, u64)> {
        let (mut met, mut cursor) = (Vec::new(), 0);
        loop {
            cursor = self.0.scan(cursor, 100, |key, value| {
                met.extend(self.1.iter().position(|hot| *hot == key).map(|i| (i, value)));
            });
            if cursor == 0 {
                return met;
            }
        }
    }

    fn fill(&mut self, other: u64, put: bool) -> bool {
        if put { self.0.insert(1000 + other, 1) } else { self.0.remove(1000 + other) }
    }

    fn grow(&mut self) -> bool {
        self.0.grow()
    }

    fn shrink(&mut self) -> bool {
        self.0.shrink()
    }

    fn collect(&mut self) {
        self.0.collect();
    }

    fn state(&mut self, key: usize) -> (State, State) {
        let state = State::of(self.0.get(self.1[key]));
        (state, state)
    }

    fn tick(&mut self) {}
}

/// Time between two ticks.
const TICK: u64 = 10;

/// A session of the byte-string index in which a value is a word or text, at random, and some
/// entries have expiries.
pub struct AsBytes<E: Engine> {
    session: Session<Bytes, E>,
    random: Rng,
    keys: [Vec<u8>; KEYS],
    now: u64,
}

/// Plain keys, or pairs with equal hashes.
pub fn byte_keys(collide: bool) -> [Vec<u8>; KEYS] {
    if !collide {
        return [0u64, 1, 2, 3].map(|i| i.to_le_bytes().to_vec());
    }
    let mut keys = colliding::pairs().into_iter();
    // Neighbours in hash are neighbours in number; long ones are among them.
    let (short, long) = (keys.next(), keys.next_back());
    let mut all = short.into_iter().chain(long).flatten();
    std::array::from_fn(|_| all.next().expect("two pairs"))
}

fn parse(entry: &Entry<'_>) -> u64 {
    match entry.value {
        Value::Word { word, .. } => word,
        Value::Bytes { bytes, .. } => {
            std::str::from_utf8(bytes).expect("digits").trim().parse().expect("a number")
        }
    }
}

impl<E: Engine> AsBytes<E> {
    pub fn new(session: Session<Bytes, E>, random: Rng, keys: [Vec<u8>; KEYS]) -> Self {
        Self { session, random, keys, now: TICK }
    }

    /// Reads and decides; the result of the decision is the outcome.
    fn update(
        &mut self,
        key: usize,
        mut decide: impl FnMut(Option<&Entry<'_>>, &dyn Fn(u64) -> Action<'static>) -> Decision,
    ) -> Outcome {
        let (word, expiry) = (self.random.u64(..2) == 0, self.expiry());
        let put = |v: u64| Action::Put { value: new_value(word, v), expiry };
        let (now, random) = (self.now, &mut self.random);
        self.session.update(&self.keys[key], now, |entry| {
            // Here another thread can do the most harm.
            if random.u64(..8) == 0 {
                std::thread::yield_now();
            }
            assert!(entry.is_none_or(|entry| entry.expire_at.is_none_or(|at| at > now)));
            decide(entry.as_ref(), &put)
        })
    }

    /// None that is over before the next tick.
    fn expiry(&mut self) -> Expiry {
        match self.random.u64(..6) {
            0 | 1 => Expiry::Never,
            2 | 3 => Expiry::Keep,
            4 => Expiry::At(self.now + 1 + self.random.u64(..3 * TICK)),
            _ => Expiry::At(1 << 40),
        }
    }

    fn lapsed(&mut self) -> Expiry {
        Expiry::At(self.now - self.random.u64(..5))
    }
}

type Decision = (Action<'static>, Outcome);

fn new_value(word: bool, v: u64) -> NewValue<'static> {
    if word {
        NewValue::Word { kind: 1, word: v }
    } else {
        NewValue::Bytes { kind: 1, bytes: Cow::Owned(format!("{v:>40}").into_bytes()) }
    }
}

impl<E: Engine> Target for AsBytes<E> {
    fn run(&mut self, key: usize, op: Op) -> Outcome {
        use Outcome::{Flag, Value, Version};
        let now = self.now;
        match op {
            Op::Get => Value(self.session.get(&self.keys[key], now, |entry| parse(&entry))),
            Op::Put(v) => {
                let (value, expiry) = (new_value(self.random.u64(..2) == 0, v), self.expiry());
                Flag(self.session.put(&self.keys[key], value, expiry, now))
            }
            Op::PutLapsed(v) => {
                let (value, expiry) = (new_value(self.random.u64(..2) == 0, v), self.lapsed());
                Flag(self.session.put(&self.keys[key], value, expiry, now))
            }
            Op::Insert(v) => self.update(key, |old, put| match old {
                Some(_) => (Action::Keep, Flag(false)),
                None => (put(v), Flag(true)),
            }),
            Op::Replace(v) => self.update(key, |old, put| match old {
                Some(old) => (put(v), Value(Some(parse(old)))),
                None => (Action::Keep, Value(None)),
            }),
            Op::Remove => Flag(self.session.remove(&self.keys[key], now)),
            Op::Take => self.update(key, |old, _| (Action::Remove, Value(old.map(parse)))),
            Op::Add(_) | Op::Append(_) => self.update(key, |old, put| {
                let new = old.map(|old| match op {
                    Op::Add(d) => parse(old).wrapping_add(d),
                    Op::Append(d) => parse(old).wrapping_mul(10).wrapping_add(d),
                    _ => unreachable!("matched above"),
                });
                (new.map_or(Action::Keep, put), Value(new))
            }),
            Op::Swap(old, new) => self.update(key, |entry, put| match entry {
                Some(entry) if parse(entry) == old => (put(new), Flag(true)),
                _ => (Action::Keep, Flag(false)),
            }),
            Op::RemoveIf(old) => self.update(key, |entry, _| match entry {
                Some(entry) if parse(entry) == old => (Action::Remove, Flag(true)),
                _ => (Action::Keep, Flag(false)),
            }),
            Op::Expire | Op::Lapse => {
                let expiry = match (op, self.expiry()) {
                    (Op::Lapse, _) => self.lapsed(),
                    // To keep the expiry is no write.
                    (_, Expiry::Keep) => Expiry::Never,
                    (_, expiry) => expiry,
                };
                self.update(key, |old, _| (Action::Expire(expiry), Flag(old.is_some())))
            }
            Op::Version => Version(self.session.version(&self.keys[key], now)),
            Op::SwapVersion(version, v) => self.update(key, |old, put| match old {
                Some(old) if old.version == Some(version) => (put(v), Flag(true)),
                _ => (Action::Keep, Flag(false)),
            }),
        }
    }

    fn get_many(&mut self, keys: usize) -> Vec<Option<u64>> {
        let names: Vec<&[u8]> = self.keys[..keys].iter().map(|key| &key[..]).collect();
        let mut out = vec![None; keys];
        self.session.get_many(&names, self.now, |i, entry| out[i] = entry.map(|e| parse(&e)));
        out
    }

    fn scan(&mut self) -> Vec<(usize, u64)> {
        let (mut met, mut cursor) = (Vec::new(), 0);
        loop {
            cursor = self.session.scan(cursor, 100, self.now, |entry| {
                let hot = self.keys.iter().position(|key| key == entry.key);
                met.extend(hot.map(|i| (i, parse(&entry))));
            });
            if cursor == 0 {
                return met;
            }
        }
    }

    fn fill(&mut self, other: u64, put: bool) -> bool {
        let key = (1000 + other).to_le_bytes();
        if put {
            !self.session.put(&key, new_value(other.is_multiple_of(2), 1), Expiry::Never, self.now)
        } else {
            self.session.remove(&key, self.now)
        }
    }

    fn grow(&mut self) -> bool {
        self.session.grow()
    }

    fn shrink(&mut self) -> bool {
        self.session.shrink()
    }

    fn collect(&mut self) {
        self.session.expire_step(16, self.now);
    }

    fn state(&mut self, key: usize) -> (State, State) {
        let seen = self.session.get(&self.keys[key], self.now, |entry| {
            let state = State { value: Some(parse(&entry)), version: entry.version };
            (state, entry.expire_at.is_none_or(|at| at > self.now + TICK))
        });
        let (state, stays) = seen.unwrap_or_default();
        (state, if stays { state } else { State::default() })
    }

    fn tick(&mut self) {
        self.now += TICK;
    }
}
