//! The sequential model of one key, and what of a history is checked against it.

use crate::search::{self, NEVER, is_linearizable};

/// A request. Values are numbers without a zero, so that APPEND of a digit is arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Get,
    Set(u64),
    Incr,
    Del,
    Append(u64),
    /// SET if the value is the first one.
    Swap(u64, u64),
}

/// What it answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Out {
    Done,
    Flag(bool),
    Value(Option<u64>),
    Len(u64),
}

pub type Event = search::Event<Op, Out>;

/// The sequential key.
pub fn apply(state: &mut Option<u64>, op: Op) -> Out {
    let now = *state;
    match op {
        Op::Get => Out::Value(now),
        Op::Set(value) => {
            *state = Some(value);
            Out::Done
        }
        Op::Incr => {
            *state = Some(now.unwrap_or(0) + 1);
            Out::Value(*state)
        }
        Op::Del => Out::Flag(state.take().is_some()),
        Op::Append(digit) => {
            let longer = now.unwrap_or(0) * 10 + digit;
            *state = Some(longer);
            Out::Len(u64::from(longer.ilog10()) + 1)
        }
        Op::Swap(from, to) => {
            let fits = now == Some(from);
            if fits {
                *state = Some(to);
            }
            Out::Flag(fits)
        }
    }
}

/// Whether an answered request has changed nothing, so that its answer waited for no replica.
fn is_read(event: &Event) -> bool {
    event.op == Op::Get || event.out == Out::Flag(false)
}

/// A time in which a server may answer reads that does not know that it was replaced.
pub type Stale = (u64, u64);

/// The events of one key that must be linearizable.
fn checked(events: &[Event], stale: &[Stale]) -> Vec<Event> {
    let promised = |event: &Event| {
        !is_read(event) || !stale.iter().any(|time| event.begin < time.1 && time.0 < event.end)
    };
    events.iter().copied().filter(promised).collect()
}

/// The number of checked events of one key that began absent and whose last value is this one; or, if they are not
/// linearizable, their list.
pub fn check(events: &[Event], stale: &[Stale], last: Option<u64>) -> Result<usize, String> {
    let mut checked = checked(events, stale);
    // All have returned, or never do.
    checked.push(event(NEVER - 2, NEVER - 1, Op::Get, Out::Value(last)));
    if is_linearizable(None, &checked, apply) {
        return Ok(checked.len());
    }
    checked.sort_by_key(|event| event.begin);
    Err(checked.iter().map(|event| format!("{event:?}\n")).collect())
}

fn event(begin: u64, end: u64, op: Op, out: Out) -> Event {
    Event { begin, end, op, out }
}

#[test]
fn lost_and_undone_writes_are_found() {
    let set = event(1, 2, Op::Set(5), Out::Done);
    let open = event(1, NEVER, Op::Incr, Out::Done);
    let swap = |begin, end, to| event(begin, end, Op::Swap(5, to), Out::Flag(true));
    let append = |len| event(3, 4, Op::Append(1), Out::Len(len));
    let incr = event(3, 4, Op::Incr, Out::Value(Some(6)));
    for (events, last, is_good) in [
        (vec![set], Some(5), true),
        (vec![set], None, false),
        (vec![set, open], Some(6), true),
        (vec![set, open], Some(7), false),
        (vec![set, incr, open], Some(5), false),
        (vec![append(2), set], Some(51), true),
        (vec![append(1), set], Some(51), false),
        (vec![set, swap(3, 6, 7)], Some(7), true),
        // Two clients that both took the same value.
        (vec![set, swap(3, 6, 7), swap(4, 5, 8)], Some(7), false),
    ] {
        assert_eq!(check(&events, &[], last).is_ok(), is_good, "{events:?} {last:?}");
    }
}

#[test]
fn reads_are_checked_as_far_as_is_promised() {
    let set = event(1, 2, Op::Set(5), Out::Done);
    let stale = event(3, 4, Op::Get, Out::Value(None));
    assert!(check(&[set, stale], &[], Some(5)).is_err());
    assert!(check(&[set, stale], &[(0, 9)], Some(5)).is_ok());
}
