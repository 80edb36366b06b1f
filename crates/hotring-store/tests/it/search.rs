//! The search of the linearizability checker: Wing and Gong's, with Lowe's memory of configurations seen. It looks for
//! an order of the operations that keeps every operation that returned before another began in front of it, and in
//! which a sequential model gives every recorded answer. `linearizability` proves that it rejects.

use std::collections::HashSet;
use std::hash::Hash;

/// The end of an operation without an answer: it was done at some time after its begin, or never.
pub const NEVER: u64 = u64::MAX;

/// One operation of a history: it ran somewhere between two moments. Without an answer `out` means nothing.
#[derive(Clone, Copy, Debug)]
pub struct Event<O, R> {
    pub begin: u64,
    pub end: u64,
    pub op: O,
    pub out: R,
}

/// True if some order of the events explains them. `apply` is the sequential model.
pub fn is_linearizable<S, O, R>(
    start: S,
    events: &[Event<O, R>],
    apply: impl Fn(&mut S, O) -> R,
) -> bool
where
    S: Clone + Eq + Hash,
    O: Copy,
    R: PartialEq,
{
    assert!(events.len() < 64, "one bit for each event");
    let bits = events.iter().enumerate().filter(|(_, event)| event.end != NEVER);
    let answered = bits.map(|(i, _)| 1u64 << i).sum::<u64>();
    let mut seen = HashSet::new();
    let mut open = vec![(0u64, start)];
    while let Some((done, state)) = open.pop() {
        if done & answered == answered {
            return true;
        }
        let waiting = || events.iter().enumerate().filter(|(i, _)| done >> i & 1 == 0);
        // Whoever began after another has ended cannot come before it.
        let first_end = waiting().map(|(_, event)| event.end).min().expect("not all are done");
        for (i, event) in waiting().filter(|(_, event)| event.begin < first_end) {
            let mut next = state.clone();
            let out = apply(&mut next, event.op);
            let fits = event.end == NEVER || out == event.out;
            if fits && seen.insert((done | 1 << i, next.clone())) {
                open.push((done | 1 << i, next));
            }
        }
    }
    false
}
