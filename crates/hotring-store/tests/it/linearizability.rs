//! A sequential store of two keys for the linearizability checker, and proof that it rejects.
//!
//! Not covered: keys whose time comes between two operations, more than two keys.

use crate::search::{self, NEVER, is_linearizable};

/// An operation of a history.
pub type Event = search::Event<Op, Out>;

/// Number of a key, 0 or 1.
pub type Key = usize;
/// The contents of a present key: its value, and whether it has an expiry (a distant one).
pub type Item = (i64, bool);
/// The contents of the two keys.
pub type State = [Option<Item>; 2];

#[derive(Clone, Copy, Debug)]
pub enum Op {
    Get(Key),
    Set(Key, i64),
    /// Keeps the expiry.
    SetKeep(Key, i64),
    /// Sets only an absent key.
    SetNx(Key, i64),
    /// Sets only a key that holds the first value.
    SetIfEqual(Key, i64, i64),
    GetSet(Key, i64),
    Incr(Key, i64),
    Remove(Key),
    GetDel(Key),
    /// Reads the value, and sets the expiry or takes it away.
    GetEx(Key, bool),
    /// Sets the expiry of a key that has none.
    ExpireNx(Key),
    Persist(Key),
    Expiry(Key),
    /// Gives a key that is there an expiry that has passed.
    RunOut(Key),
    Mget,
    Mset(i64, i64),
    MsetNx(i64, i64),
    RemoveBoth,
    ExistsBoth,
    /// From this key to the other one.
    Rename(Key),
    /// From this key to the other one, replacing its value.
    Copy(Key),
    Clear,
    /// Two increments in one exclusive closure.
    IncrTwice(Key),
    /// Exchanges the two keys' values in one exclusive closure, which clears their expiries.
    Swap,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Out {
    Done,
    Flag(bool),
    Count(usize),
    Value(Option<i64>),
    Values([Option<i64>; 2]),
    Expiry(Option<bool>),
}

/// The sequential store.
pub fn apply(state: &mut State, op: Op) -> Out {
    let value = |item: Option<Item>| item.map(|item| item.0);
    match op {
        Op::Get(key) => Out::Value(value(state[key])),
        Op::Set(key, new) => {
            state[key] = Some((new, false));
            Out::Done
        }
        Op::SetKeep(key, new) => {
            state[key] = Some((new, state[key].is_some_and(|item| item.1)));
            Out::Done
        }
        Op::SetNx(key, new) => {
            let free = state[key].is_none();
            state[key] = state[key].or(Some((new, false)));
            Out::Flag(free)
        }
        Op::SetIfEqual(key, old, new) => {
            let equal = value(state[key]) == Some(old);
            if equal {
                state[key] = Some((new, false));
            }
            Out::Flag(equal)
        }
        Op::GetSet(key, new) => Out::Value(value(state[key].replace((new, false)))),
        Op::Incr(key, by) => {
            let (old, expires) = state[key].unwrap_or((0, false));
            state[key] = Some((old + by, expires));
            Out::Value(Some(old + by))
        }
        Op::IncrTwice(key) => apply(state, Op::Incr(key, 2)),
        Op::Remove(key) => Out::Flag(state[key].take().is_some()),
        Op::GetDel(key) => Out::Value(value(state[key].take())),
        Op::RunOut(key) => {
            state[key] = None;
            Out::Done
        }
        Op::GetEx(..) | Op::ExpireNx(_) | Op::Persist(_) | Op::Expiry(_) => apply_expiry(state, op),
        _ => apply_both(state, op),
    }
}

fn apply_expiry(state: &mut State, op: Op) -> Out {
    match op {
        Op::GetEx(key, expires) => {
            state[key] = state[key].map(|item| (item.0, expires));
            Out::Value(state[key].map(|item| item.0))
        }
        Op::ExpireNx(key) | Op::Persist(key) => {
            let expires = matches!(op, Op::ExpireNx(_));
            let changes = state[key].is_some_and(|item| item.1 != expires);
            state[key] = state[key].map(|item| (item.0, item.1 ^ changes));
            Out::Flag(changes)
        }
        Op::Expiry(key) => Out::Expiry(state[key].map(|item| item.1)),
        _ => unreachable!("not an operation of this family"),
    }
}

fn apply_both(state: &mut State, op: Op) -> Out {
    let present = state.iter().flatten().count();
    match op {
        Op::Mget => Out::Values(state.map(|item| item.map(|item| item.0))),
        Op::Mset(a, b) => {
            *state = [Some((a, false)), Some((b, false))];
            Out::Done
        }
        Op::MsetNx(a, b) => {
            if present == 0 {
                *state = [Some((a, false)), Some((b, false))];
            }
            Out::Flag(present == 0)
        }
        Op::RemoveBoth => {
            *state = [None; 2];
            Out::Count(present)
        }
        Op::ExistsBoth => Out::Count(present),
        Op::Rename(from) => {
            let moved = state[from].take();
            state[1 - from] = moved.or(state[1 - from]);
            Out::Flag(moved.is_some())
        }
        Op::Copy(from) => {
            state[1 - from] = state[from].or(state[1 - from]);
            Out::Flag(state[from].is_some())
        }
        Op::Clear => {
            *state = [None; 2];
            Out::Done
        }
        Op::Swap => {
            *state = [state[1], state[0]].map(|item| item.map(|item| (item.0, false)));
            Out::Done
        }
        _ => unreachable!("not an operation of this family"),
    }
}

fn event(begin: u64, end: u64, op: Op, out: Out) -> Event {
    Event { begin, end, op, out }
}

#[test]
fn the_checker_accepts_explainable_histories() {
    let histories = [
        vec![],
        // A read beside a write may see either side of it.
        vec![event(0, 9, Op::Set(0, 1), Out::Done), event(1, 2, Op::Get(0), Out::Value(None))],
        vec![event(0, 9, Op::Set(0, 1), Out::Done), event(1, 2, Op::Get(0), Out::Value(Some(1)))],
        // The write that returned last may come first.
        vec![
            event(0, 8, Op::Mset(1, 1), Out::Done),
            event(1, 9, Op::Set(0, 2), Out::Done),
            event(10, 11, Op::Mget, Out::Values([Some(1), Some(1)])),
        ],
        vec![
            event(0, 9, Op::Incr(0, 5), Out::Value(Some(12))),
            event(1, 8, Op::Set(0, 7), Out::Done),
            event(2, 7, Op::Rename(0), Out::Flag(true)),
            event(10, 11, Op::Mget, Out::Values([None, Some(12)])),
        ],
        // Writes without an answer: one was never done, the other one long after it was sent.
        vec![
            event(0, NEVER, Op::Set(0, 1), Out::Done),
            event(1, NEVER, Op::Set(0, 2), Out::Done),
            event(2, 3, Op::Get(0), Out::Value(None)),
            event(4, 5, Op::Get(0), Out::Value(Some(2))),
            event(6, 7, Op::Get(0), Out::Value(Some(2))),
        ],
    ];
    for history in histories {
        assert!(is_linearizable([None; 2], &history, apply), "{history:?}");
    }
}

#[test]
fn the_checker_rejects_planted_violations() {
    let none_one = Out::Values([None, Some(1)]);
    let histories = [
        // A stale read.
        vec![event(0, 1, Op::Set(0, 1), Out::Done), event(2, 3, Op::Get(0), Out::Value(None))],
        // A value from nowhere.
        vec![event(0, 1, Op::Get(0), Out::Value(Some(3)))],
        // A lost increment.
        vec![
            event(0, 9, Op::Incr(0, 1), Out::Value(Some(1))),
            event(1, 8, Op::Incr(0, 1), Out::Value(Some(1))),
        ],
        // Half an MSET, by one look at both keys and by two looks one after the other.
        vec![event(0, 9, Op::Mset(1, 1), Out::Done), event(1, 2, Op::Mget, none_one)],
        vec![
            event(0, 9, Op::Mset(1, 1), Out::Done),
            event(1, 2, Op::Get(0), Out::Value(Some(1))),
            event(3, 4, Op::Get(1), Out::Value(None)),
        ],
        // A snapshot of two moments: key 0 was set before key 1.
        vec![
            event(0, 9, Op::Mget, none_one),
            event(1, 2, Op::Set(0, 1), Out::Done),
            event(3, 4, Op::Set(1, 1), Out::Done),
        ],
        // MSETNX that both found the keys free.
        vec![
            event(0, 9, Op::MsetNx(1, 1), Out::Flag(true)),
            event(1, 8, Op::MsetNx(2, 2), Out::Flag(true)),
        ],
        // A rename seen in the middle: under both names, and under none.
        vec![
            event(0, 1, Op::Set(0, 5), Out::Done),
            event(2, 9, Op::Rename(0), Out::Flag(true)),
            event(3, 4, Op::Mget, Out::Values([Some(5), Some(5)])),
        ],
        vec![
            event(0, 1, Op::Set(0, 5), Out::Done),
            event(2, 9, Op::Rename(0), Out::Flag(true)),
            event(3, 4, Op::ExistsBoth, Out::Count(0)),
        ],
        // The middle of an exclusive closure.
        vec![
            event(0, 9, Op::IncrTwice(0), Out::Value(Some(2))),
            event(1, 2, Op::Get(0), Out::Value(Some(1))),
        ],
        // A read that sets the expiry, with a write in the middle of it.
        vec![
            event(0, 1, Op::Set(0, 5), Out::Done),
            event(2, 9, Op::GetEx(0, true), Out::Value(Some(5))),
            event(3, 4, Op::Incr(0, 1), Out::Value(Some(6))),
            event(5, 6, Op::Expiry(0), Out::Expiry(Some(false))),
        ],
        // A write without an answer that was undone, and one that was done before it was sent.
        vec![
            event(0, NEVER, Op::Set(0, 1), Out::Done),
            event(2, 3, Op::Get(0), Out::Value(Some(1))),
            event(4, 5, Op::Get(0), Out::Value(None)),
        ],
        vec![
            event(0, 1, Op::Get(0), Out::Value(Some(1))),
            event(2, NEVER, Op::Set(0, 1), Out::Done),
        ],
        // Two readers that disagree on the order of two writes.
        vec![
            event(0, 9, Op::Set(0, 1), Out::Done),
            event(0, 9, Op::Set(1, 1), Out::Done),
            event(1, 8, Op::Mget, Out::Values([Some(1), None])),
            event(1, 8, Op::Mget, none_one),
        ],
    ];
    for history in histories {
        assert!(!is_linearizable([None; 2], &history, apply), "{history:?}");
    }
}
