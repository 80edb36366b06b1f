//! A small linearizability checker (Wing and Gong, with Lowe's memory of visited states) for the
//! history of one key.
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
    /// v -> v * 10 + d, as a derived replacement (stands for APPEND).
    Append(u64),
}

/// What it returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Value(Option<u64>),
    Flag(bool),
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

fn step(state: Option<u64>, op: Op) -> (Option<u64>, Outcome) {
    use Outcome::{Flag, Value};
    match op {
        Op::Get => (state, Value(state)),
        Op::Put(v) => (Some(v), Flag(state.is_some())),
        Op::Insert(v) => (Some(state.unwrap_or(v)), Flag(state.is_none())),
        Op::Replace(v) => (state.map(|_| v), Value(state)),
        Op::Remove => (None, Flag(state.is_some())),
        Op::Take => (None, Value(state)),
        Op::Add(d) => {
            let sum = state.map(|v| v.wrapping_add(d));
            (sum, Value(sum))
        }
        Op::Swap(old, new) if state == Some(old) => (Some(new), Flag(true)),
        Op::Swap(..) => (state, Flag(false)),
        Op::Append(d) => {
            let longer = state.map(|v| v.wrapping_mul(10).wrapping_add(d));
            (longer, Value(longer))
        }
    }
}

/// Whether some order of the events that respects real time explains all outcomes.
pub fn is_linearizable(events: &[Event], initial: Option<u64>, last: Option<u64>) -> bool {
    assert!(events.len() <= 64, "the set of done events is one word");
    search(events, last, 0, initial, &mut HashSet::new())
}

fn search(
    events: &[Event],
    last: Option<u64>,
    done: u64,
    state: Option<u64>,
    seen: &mut HashSet<(u64, Option<u64>)>,
) -> bool {
    let open = |i: &usize| done >> i & 1 == 0;
    let Some(first_end) = (0..events.len()).filter(open).map(|i| events[i].end).min() else {
        return state == last;
    };
    if !seen.insert((done, state)) {
        return false;
    }
    (0..events.len()).filter(open).any(|i| {
        let (next, outcome) = step(state, events[i].op);
        events[i].call < first_end
            && outcome == events[i].outcome
            && search(events, last, done | 1 << i, next, seen)
    })
}

fn event(op: Op, outcome: Outcome, call: u64, end: u64) -> Event {
    Event { key: 0, op, outcome, call, end }
}

#[test]
fn the_checker_rejects_planted_violations() {
    use Outcome::{Flag, Value};
    let put = event(Op::Put(1), Flag(false), 0, 1);
    assert!(is_linearizable(&[put, event(Op::Get, Value(Some(1)), 2, 3)], None, Some(1)));
    let stale = event(Op::Get, Value(None), 2, 3);
    assert!(!is_linearizable(&[put, stale], None, Some(1)), "a stale read");
    let adds = [event(Op::Add(1), Value(Some(1)), 0, 5), event(Op::Add(1), Value(Some(1)), 1, 6)];
    assert!(!is_linearizable(&adds, Some(0), Some(1)), "a lost update");
    let takes = [event(Op::Take, Value(Some(7)), 0, 5), event(Op::Take, Value(Some(7)), 1, 6)];
    assert!(!is_linearizable(&takes, Some(7), None), "one value taken twice");
    assert!(!is_linearizable(&[put], None, None), "a lost insert");
    let overlapping = [
        event(Op::Put(2), Flag(false), 0, 9),
        event(Op::Get, Value(None), 1, 3),
        event(Op::Get, Value(Some(2)), 4, 5),
    ];
    assert!(is_linearizable(&overlapping, None, Some(2)), "the put takes effect in between");
}
