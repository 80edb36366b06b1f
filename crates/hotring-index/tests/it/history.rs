//! A small linearizability checker (Wing and Gong, with Lowe's memory of visited states) for the
//! history of one key. `history_checks` checks the checker.
//!
//! Not covered: orders between keys (each key is checked by itself), histories of more than 64
//! operations, and operations that never return.

use std::collections::HashSet;

/// An operation on one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Get,
    Put(u64),
    Insert(u64),
    Replace(u64),
    Remove,
    Take,
    Add(u64),
    Swap(u64, u64),
    /// Removes if the value is this one.
    RemoveIf(u64),
    /// v -> v * 10 + d, as a derived replacement (stands for APPEND).
    Append(u64),
    /// A new expiry that is not over yet.
    Expire,
    /// A new expiry that is over.
    Lapse,
    /// A value that is over at once.
    PutLapsed(u64),
    Version,
    /// Stores the value if the version is this one.
    SwapVersion(u64, u64),
}

/// The result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Value(Option<u64>),
    Flag(bool),
    Version(Option<u64>),
}

/// One completed operation with the moments of its call and return.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    pub key: usize,
    pub op: Op,
    pub outcome: Outcome,
    pub call: u64,
    pub end: u64,
}

/// The value of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    pub value: Option<u64>,
    /// Given out since the last write.
    pub version: Option<u64>,
}

impl State {
    pub fn of(value: Option<u64>) -> Self {
        Self { value, version: None }
    }
}

/// The effect and the result of an operation. A version that it must assign is `fresh`.
pub fn apply(state: State, op: Op, fresh: Option<u64>) -> (State, Outcome) {
    use Outcome::{Flag, Value, Version};
    let now = state.value;
    let write = State::of;
    match op {
        Op::Get => (state, Value(now)),
        Op::Put(v) => (write(Some(v)), Flag(now.is_some())),
        Op::Insert(v) if now.is_none() => (write(Some(v)), Flag(true)),
        Op::Insert(_) => (state, Flag(false)),
        Op::Replace(v) => (write(now.map(|_| v)), Value(now)),
        Op::Remove | Op::Lapse | Op::PutLapsed(_) => (write(None), Flag(now.is_some())),
        Op::Take => (write(None), Value(now)),
        Op::Add(d) => {
            let sum = now.map(|v| v.wrapping_add(d));
            (write(sum), Value(sum))
        }
        Op::Swap(old, new) if now == Some(old) => (write(Some(new)), Flag(true)),
        Op::RemoveIf(old) if now == Some(old) => (write(None), Flag(true)),
        Op::Swap(..) | Op::RemoveIf(_) => (state, Flag(false)),
        Op::Append(d) => {
            let longer = now.map(|v| v.wrapping_mul(10).wrapping_add(d));
            (write(longer), Value(longer))
        }
        Op::Expire => (write(now), Flag(now.is_some())),
        Op::Version => {
            let version = now.and(state.version.or(fresh));
            (State { value: now, version }, Version(version))
        }
        Op::SwapVersion(version, new) if state.version == Some(version) => {
            (write(Some(new)), Flag(true))
        }
        Op::SwapVersion(..) => (state, Flag(false)),
    }
}

/// Whether some order of the events that respects real time explains all outcomes and leads from
/// the first state to the last.
pub fn is_linearizable(events: &[Event], first: State, last: State) -> bool {
    assert!(events.len() <= 64, "the set of done events is one word");
    Search { events, first, last, seen: HashSet::new() }.goes_on(0, first)
}

struct Search<'e> {
    events: &'e [Event],
    first: State,
    last: State,
    seen: HashSet<(u64, State)>,
}

impl Search<'_> {
    fn goes_on(&mut self, done: u64, state: State) -> bool {
        let events = self.events;
        let open = |i: &usize| done >> i & 1 == 0;
        let Some(first_end) = (0..events.len()).filter(open).map(|i| events[i].end).min() else {
            return state == self.last;
        };
        if !self.seen.insert((done, state)) {
            return false;
        }
        (0..events.len()).filter(open).any(|i| {
            events[i].call < first_end
                && self
                    .explains(done, state, &events[i])
                    .is_some_and(|next| self.goes_on(done | 1 << i, next))
        })
    }

    /// The state after an event, if its result is possible here.
    fn explains(&self, done: u64, state: State, event: &Event) -> Option<State> {
        let fresh = match event.outcome {
            Outcome::Version(version) => version,
            _ => None,
        };
        let (next, outcome) = apply(state, event.op, fresh);
        let is_new = state.version.is_none() && next.version.is_some();
        let possible = outcome == event.outcome && (!is_new || self.is_fresh(done, event));
        possible.then_some(next)
    }

    /// No version is given out twice.
    fn is_fresh(&self, done: u64, event: &Event) -> bool {
        let Outcome::Version(version) = event.outcome else { return true };
        let mut before = self.events.iter().enumerate().filter(|(i, _)| done >> i & 1 == 1);
        version != self.first.version && !before.any(|(_, e)| e.outcome == event.outcome)
    }
}
