//! How an operation of a history is done by a session, for both kinds of items.
//!
//! Time stands still at [`NOW`], so that an expiry is either far off or past, and what a past one
//! does to a key is that of a removal.

use crate::colliding;
use crate::history::{Op, Outcome, State};
use crate::operate::operate;
use hotring_index::{
    Action, Bytes, Engine, Entry, Expiry, Index, Kind, NewValue, Noting, Session, U64, Value,
};
use std::borrow::{Borrow, Cow};

/// The time of every operation.
const NOW: u64 = 10;
const PAST: Expiry = Expiry::At(5);
const FUTURE: Expiry = Expiry::At(1 << 40);

/// A kind of items as the scenarios use it. `style` is a random number for choices that make no
/// difference to the outcome.
pub trait Target: Kind {
    type Name: Clone + PartialEq + Send + Sync + Borrow<Self::Key> + 'static;

    fn name(n: u64) -> Self::Name;

    /// Keys that are two and two of equal hashes, if there are such.
    fn equal() -> Option<Vec<Self::Name>>;

    fn run<E: Engine>(
        session: &mut Session<Self, E>,
        key: &Self::Name,
        op: Op,
        style: u64,
    ) -> Outcome;

    /// The value of a key.
    fn state<E: Engine>(session: &mut Session<Self, E>, key: &Self::Name) -> State;

    fn get_many<E: Engine>(session: &mut Session<Self, E>, keys: &[Self::Name])
    -> Vec<Option<u64>>;

    /// One call of scan: the visited keys, and the next cursor.
    fn scan<E: Engine>(
        session: &mut Session<Self, E>,
        cursor: u64,
        count: usize,
    ) -> (Vec<(Self::Name, u64)>, u64);

    fn clear<E: Engine>(session: &mut Session<Self, E>);

    /// Removes expired entries, if entries can expire.
    fn expire_step<E: Engine>(_session: &mut Session<Self, E>) {}

    /// Sets the mode of access bits, if there are any, and returns the tick.
    fn note<E: Engine>(_index: &Index<Self, E>, _noting: Option<Noting>) -> u8 {
        0
    }

    /// The access bits of a key that is present.
    fn look<E: Engine>(_session: &mut Session<Self, E>, _key: &Self::Name) -> Option<u8> {
        None
    }

    /// A review of everything, this many at a time.
    fn review<E: Engine>(
        _session: &mut Session<Self, E>,
        _count: usize,
        _f: impl FnMut(Self::Name, u8) -> u8,
    ) {
    }
}

impl Target for U64 {
    type Name = u64;

    fn name(n: u64) -> u64 {
        n
    }

    fn equal() -> Option<Vec<u64>> {
        None
    }

    fn run<E: Engine>(s: &mut Session<Self, E>, key: &u64, op: Op, style: u64) -> Outcome {
        match op {
            Op::Insert(v) if style.is_multiple_of(4) => {
                Outcome::Flag(s.insert_many(&[(*key, v)]) == 1)
            }
            Op::Get if style % 4 == 1 => {
                // Of two looks under one guard the second one counts.
                let mut guard = s.guard();
                guard.get(*key);
                Outcome::Value(guard.get(*key))
            }
            Op::Put(v) if style % 4 == 2 => Outcome::Flag(s.guard().put(*key, v)),
            op => operate(s, *key, op),
        }
    }

    fn state<E: Engine>(s: &mut Session<Self, E>, key: &u64) -> State {
        State::of(s.get(*key))
    }

    fn get_many<E: Engine>(s: &mut Session<Self, E>, keys: &[u64]) -> Vec<Option<u64>> {
        let mut out = vec![None; keys.len()];
        s.get_many(keys, &mut out);
        out
    }

    fn scan<E: Engine>(
        s: &mut Session<Self, E>,
        cursor: u64,
        count: usize,
    ) -> (Vec<(u64, u64)>, u64) {
        let mut seen = Vec::new();
        let next = s.scan(cursor, count, |key, value| seen.push((key, value)));
        (seen, next)
    }

    fn clear<E: Engine>(s: &mut Session<Self, E>) {
        s.clear();
    }
}

fn parse(entry: Entry<'_>) -> u64 {
    match entry.value {
        Value::Word { word, .. } => word,
        Value::Bytes { bytes, .. } => {
            std::str::from_utf8(bytes).expect("digits").trim().parse().expect("a number")
        }
    }
}

fn value(v: u64, style: u64) -> NewValue<'static> {
    match style % 4 {
        0 => {
            let text = format!("{v:>24}");
            NewValue::Bytes { kind: 1, bytes: Cow::Owned(text.into_bytes()) }
        }
        1 => NewValue::Word { kind: 2, word: v },
        _ => NewValue::Word { kind: 1, word: v },
    }
}

impl Target for Bytes {
    type Name = Vec<u8>;

    fn name(n: u64) -> Vec<u8> {
        n.to_le_bytes().to_vec()
    }

    fn equal() -> Option<Vec<Vec<u8>>> {
        Some(colliding::pairs().into_iter().flatten().collect())
    }

    fn run<E: Engine>(s: &mut Session<Self, E>, key: &Vec<u8>, op: Op, style: u64) -> Outcome {
        use Outcome::{Flag, Value, Version};
        let expiry = match style >> 8 & 7 {
            0 => FUTURE,
            1 | 2 => Expiry::Keep,
            _ => Expiry::Never,
        };
        let put = |v: u64| Action::Put { value: value(v, style), expiry };
        match op {
            Op::Get => Value(s.get(key, NOW, parse)),
            Op::Put(v) => Flag(s.put(key, value(v, style), expiry, NOW)),
            Op::Insert(v) => Flag(s.update(key, NOW, |old| match old {
                Some(_) => (Action::Keep, false),
                None => (put(v), true),
            })),
            Op::Replace(v) => Value(s.update(key, NOW, |old| match old {
                Some(old) => (put(v), Some(parse(old))),
                None => (Action::Keep, None),
            })),
            Op::Remove => Flag(s.remove(key, NOW)),
            Op::Take => Value(s.update(key, NOW, |old| (Action::Remove, old.map(parse)))),
            Op::Add(_) | Op::Append(_) => Value(s.update(key, NOW, |old| {
                let new = old.map(|old| match op {
                    Op::Add(d) => parse(old).wrapping_add(d),
                    Op::Append(d) => parse(old).wrapping_mul(10).wrapping_add(d),
                    _ => unreachable!("matched above"),
                });
                (new.map_or(Action::Keep, put), new)
            })),
            Op::Swap(old, new) => Flag(s.update(key, NOW, |entry| match entry {
                Some(entry) if parse(entry) == old => (put(new), true),
                _ => (Action::Keep, false),
            })),
            Op::RemoveIf(old) => Flag(s.update(key, NOW, |entry| match entry {
                Some(entry) if parse(entry) == old => (Action::Remove, true),
                _ => (Action::Keep, false),
            })),
            Op::Expire | Op::Lapse => {
                let to = if op == Op::Lapse { PAST } else { FUTURE };
                Flag(s.update(key, NOW, |old| (Action::Expire(to), old.is_some())))
            }
            Op::PutLapsed(v) => Flag(s.put(key, value(v, style), PAST, NOW)),
            Op::Version => Version(s.version(key, NOW)),
            Op::SwapVersion(version, new) => Flag(s.update(key, NOW, |entry| match entry {
                Some(entry) if entry.version == Some(version) => (put(new), true),
                _ => (Action::Keep, false),
            })),
        }
    }

    fn state<E: Engine>(s: &mut Session<Self, E>, key: &Vec<u8>) -> State {
        let state = s.get(key, NOW, |entry| (parse(entry), entry.version));
        state.map_or(State::default(), |(v, version)| State { value: Some(v), version })
    }

    fn get_many<E: Engine>(s: &mut Session<Self, E>, keys: &[Vec<u8>]) -> Vec<Option<u64>> {
        let names: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let mut out = vec![None; keys.len()];
        s.get_many(&names, NOW, |i, entry| out[i] = entry.map(parse));
        out
    }

    fn scan<E: Engine>(
        s: &mut Session<Self, E>,
        cursor: u64,
        count: usize,
    ) -> (Vec<(Vec<u8>, u64)>, u64) {
        let mut seen = Vec::new();
        let next =
            s.scan(cursor, count, NOW, |entry| seen.push((entry.key.to_vec(), parse(entry))));
        (seen, next)
    }

    fn clear<E: Engine>(s: &mut Session<Self, E>) {
        s.clear();
    }

    fn expire_step<E: Engine>(s: &mut Session<Self, E>) {
        s.expire_step(4, NOW);
    }

    fn note<E: Engine>(index: &Index<Self, E>, noting: Option<Noting>) -> u8 {
        if let Some(noting) = noting {
            index.set_noting(noting).expect("the shape says that it can be");
        }
        index.tick()
    }

    fn look<E: Engine>(s: &mut Session<Self, E>, key: &Vec<u8>) -> Option<u8> {
        s.peek_marked(key, NOW, |_, bits| bits)
    }

    fn review<E: Engine>(
        s: &mut Session<Self, E>,
        count: usize,
        mut f: impl FnMut(Vec<u8>, u8) -> u8,
    ) {
        let mut cursor = 0;
        loop {
            cursor =
                s.review(cursor, count, |entry, marked| (f(entry.key.to_vec(), marked.bits), true));
            if cursor == 0 {
                return;
            }
        }
    }
}
