//! The checker of histories finds planted violations, accepts a simulated register, and agrees with a
//! checker that tries all orders.

use crate::history::{Event, Op, Outcome, State, apply, is_linearizable};
use Outcome::{Flag, Value, Version};
use fastrand::Rng;

fn event(op: Op, outcome: Outcome, call: u64, end: u64) -> Event {
    Event { key: 0, op, outcome, call, end }
}

fn some(value: u64) -> State {
    State::of(Some(value))
}

const NONE: State = State { value: None, version: None };

/// Asserts that a history is refused, and that it is not refused for its form: with the outcome of
/// event `i` or the last state put right it is accepted.
fn refuses(
    what: &str,
    events: &[Event],
    first: State,
    last: State,
    right: (usize, Outcome, State),
) {
    assert!(!is_linearizable(events, first, last), "{what} passes");
    let mut events = events.to_vec();
    events[right.0].outcome = right.1;
    assert!(is_linearizable(&events, first, right.2), "{what}: what is right is refused");
}

#[test]
fn violations_that_two_operations_show_are_refused() {
    let put = event(Op::Put(1), Flag(false), 0, 1);
    let get = |value| event(Op::Get, Value(value), 2, 3);
    refuses("a stale read", &[put, get(None)], NONE, some(1), (1, Value(Some(1)), some(1)));
    let nowhere = (1, Value(Some(1)), some(1));
    refuses("a value from nowhere", &[put, get(Some(9))], NONE, some(1), nowhere);
    refuses("a lost put", &[put, get(Some(1))], NONE, NONE, (1, Value(Some(1)), some(1)));

    let adds = [event(Op::Add(1), Value(Some(1)), 0, 5), event(Op::Add(1), Value(Some(1)), 1, 6)];
    refuses("a lost update", &adds, some(0), some(1), (1, Value(Some(2)), some(2)));
    let takes = [event(Op::Take, Value(Some(7)), 0, 5), event(Op::Take, Value(Some(7)), 1, 6)];
    refuses("one value taken twice", &takes, some(7), NONE, (0, Value(None), NONE));
    let insert = |v, flag| event(Op::Insert(v), Flag(flag), 0, 5);
    let inserts = [insert(1, true), insert(2, true)];
    refuses("two inserts won", &inserts, NONE, some(2), (0, Flag(false), some(2)));
    let lost = [insert(1, true), event(Op::Get, Value(None), 6, 7)];
    refuses("a lost insert", &lost, NONE, some(1), (1, Value(Some(1)), some(1)));
    let removes = [event(Op::Remove, Flag(true), 0, 5), event(Op::Remove, Flag(true), 1, 6)];
    refuses("one value removed twice", &removes, some(7), NONE, (1, Flag(false), NONE));
    let replaced = [event(Op::Replace(2), Value(Some(1)), 0, 5), {
        event(Op::Replace(3), Value(Some(1)), 1, 6)
    }];
    let right = (1, Value(Some(2)), some(3));
    refuses("one old value replaced twice", &replaced, some(1), some(3), right);
    let swaps = [event(Op::Swap(1, 2), Flag(true), 0, 5), event(Op::Swap(1, 3), Flag(true), 1, 6)];
    refuses("two swaps won", &swaps, some(1), some(3), (0, Flag(false), some(3)));
    let swap = [event(Op::Swap(4, 2), Flag(true), 0, 5), event(Op::Get, Value(Some(1)), 6, 7)];
    refuses("a swap of another value", &swap, some(1), some(1), (0, Flag(false), some(1)));
    let both = [event(Op::RemoveIf(1), Flag(true), 0, 5), event(Op::Add(1), Value(Some(2)), 1, 6)];
    refuses("removed, yet counted", &both, some(1), NONE, (0, Flag(false), some(2)));
    let appends = [event(Op::Append(1), Value(Some(1)), 0, 5), {
        event(Op::Append(2), Value(Some(2)), 1, 6)
    }];
    refuses("a lost append", &appends, some(0), some(2), (1, Value(Some(12)), some(12)));
}

#[test]
fn violations_of_order_are_refused() {
    let get = |value, call, end| event(Op::Get, Value(value), call, end);
    let put = event(Op::Put(2), Flag(true), 0, 9);
    let back = [put, get(Some(2), 1, 3), get(Some(1), 4, 5)];
    refuses("a read back in time", &back, some(1), some(2), (2, Value(Some(2)), some(2)));
    let puts = [event(Op::Put(1), Flag(false), 0, 1), event(Op::Put(2), Flag(true), 2, 3)];
    let late = [puts[0], puts[1], get(Some(1), 4, 5)];
    refuses("writes in the wrong order", &late, NONE, some(2), (2, Value(Some(2)), some(2)));
    let risen = [
        event(Op::Remove, Flag(true), 0, 1),
        event(Op::Remove, Flag(false), 2, 3),
        get(Some(7), 4, 5),
    ];
    refuses("a value risen from the dead", &risen, some(7), NONE, (2, Value(None), NONE));
    let early = [event(Op::Put(5), Flag(false), 4, 5), get(Some(5), 0, 1)];
    refuses("a value read before it was written", &early, NONE, some(5), (1, Value(None), some(5)));
    // Two readers of two writes that overlap must agree on their order.
    let writes = [event(Op::Put(1), Flag(true), 0, 20), event(Op::Put(2), Flag(true), 0, 20)];
    let torn = [
        writes[0],
        writes[1],
        get(Some(1), 1, 2),
        get(Some(2), 3, 4),
        get(Some(2), 1, 2),
        get(Some(1), 3, 4),
    ];
    refuses("two orders at once", &torn, some(0), some(2), (5, Value(Some(2)), some(2)));
    let lapsed = [event(Op::Lapse, Flag(true), 0, 1), get(Some(1), 2, 3)];
    refuses("alive when expired", &lapsed, some(1), NONE, (1, Value(None), NONE));
}

#[test]
fn violations_of_versions_are_refused() {
    let version = |version, call, end| event(Op::Version, Version(version), call, end);
    let put = event(Op::Put(1), Flag(true), 2, 3);
    let with = |version| State { value: Some(1), version };
    let again = [version(Some(5), 0, 1), put, version(Some(5), 4, 5)];
    let right = (2, Version(Some(6)), with(Some(6)));
    refuses("a version that outlives a write", &again, some(1), with(Some(5)), right);
    let two = [version(Some(5), 0, 1), version(Some(6), 2, 3)];
    let right = (1, Version(Some(5)), with(Some(5)));
    refuses("two versions without a write", &two, some(1), with(Some(6)), right);
    let swaps = [
        version(Some(5), 0, 1),
        event(Op::SwapVersion(5, 1), Flag(true), 2, 3),
        event(Op::SwapVersion(5, 1), Flag(true), 4, 5),
    ];
    refuses("two swaps of one version", &swaps, some(1), some(1), (2, Flag(false), some(1)));
    let missed = [version(Some(5), 0, 1), put, event(Op::SwapVersion(5, 8), Flag(true), 4, 5)];
    refuses("a write unseen by a version", &missed, some(1), some(8), (2, Flag(false), some(1)));
}

#[test]
fn overlapping_operations_may_take_effect_in_any_order() {
    let overlapping = [
        event(Op::Put(2), Flag(false), 0, 9),
        event(Op::Get, Value(None), 1, 3),
        event(Op::Get, Value(Some(2)), 4, 5),
    ];
    assert!(is_linearizable(&overlapping, NONE, some(2)), "the put takes effect in between");
}

// --- Random histories

fn random_op(random: &mut Rng) -> Op {
    let v = random.u64(..3);
    match random.u64(..16) {
        0..=2 => Op::Get,
        3 => Op::Put(v),
        4 => Op::Insert(v),
        5 => Op::Replace(v),
        6 => Op::Remove,
        7 => Op::Take,
        8 => Op::Add(v),
        9 => Op::Swap(random.u64(..3), v),
        10 => Op::RemoveIf(v),
        11 => Op::Append(v),
        12 => [Op::Expire, Op::Lapse, Op::PutLapsed(v)][v as usize],
        13 | 14 => Op::Version,
        _ => Op::SwapVersion(random.u64(..4), v),
    }
}

/// An atomic register: each operation takes effect at a moment of its own between call and return.
fn simulate(random: &mut Rng, threads: u64, ops: usize) -> (Vec<Event>, State, State) {
    let first = State::of([None, Some(random.u64(..3))][random.u64(..2) as usize]);
    let mut events = Vec::new();
    for _ in 0..threads {
        // Three moments for each operation of a thread, one after the other.
        let mut moments: Vec<u64> = (0..3 * ops).map(|_| random.u64(..) >> 1).collect();
        moments.sort_unstable();
        for at in moments.chunks(3) {
            events.push((at[1], event(random_op(random), Flag(false), at[0], at[2])));
        }
    }
    events.sort_unstable_by_key(|(at, _)| *at);
    let mut state = first;
    let mut version = 0;
    for (_, event) in &mut events {
        let before = state.version;
        (state, event.outcome) = apply(state, event.op, Some(version));
        version += u64::from(before.is_none() && state.version == Some(version));
    }
    (events.into_iter().map(|(_, event)| event).collect(), first, state)
}

/// Tries all orders, one after the other, without any memory.
fn brute_force(events: &[Event], first: State, last: State) -> bool {
    let mut order: Vec<usize> = (0..events.len()).collect();
    permutations(&mut order, 0, &mut |order| explains(events, order, first, last))
}

fn permutations(order: &mut [usize], from: usize, f: &mut impl FnMut(&[usize]) -> bool) -> bool {
    if from == order.len() {
        return f(order);
    }
    (from..order.len()).any(|i| {
        order.swap(from, i);
        let found = permutations(order, from + 1, f);
        order.swap(from, i);
        found
    })
}

fn explains(events: &[Event], order: &[usize], first: State, last: State) -> bool {
    let event = |n: usize| &events[order[n]];
    let in_time = (0..order.len()).all(|n| (0..n).all(|m| event(m).call <= event(n).end));
    let mut state = first;
    let mut given: Vec<u64> = first.version.into_iter().collect();
    in_time
        && order.iter().all(|&i| {
            let fresh = match events[i].outcome {
                Version(version) => version,
                _ => None,
            };
            let before = state.version;
            let outcome;
            (state, outcome) = apply(state, events[i].op, fresh);
            let Some(version) = state.version.filter(|_| before.is_none()) else {
                return outcome == events[i].outcome;
            };
            let is_fresh = !given.contains(&version);
            given.push(version);
            outcome == events[i].outcome && is_fresh
        })
        && state == last
}

/// Another outcome of the same form.
fn alter(random: &mut Rng, outcome: Outcome) -> Outcome {
    let other = |random: &mut Rng, old: Option<u64>| match old {
        Some(_) if random.u64(..2) == 0 => None,
        Some(old) => Some(old + 1 + random.u64(..2)),
        None => Some(random.u64(..3)),
    };
    match outcome {
        Flag(flag) => Flag(!flag),
        Value(value) => Value(other(random, value)),
        Version(version) => Version(other(random, version)),
    }
}

#[test]
fn histories_of_a_register_are_accepted_and_altered_ones_judged_as_by_brute_force() {
    let seed = crate::shapes::number("HOTRING_SEED", 301);
    let mut random = Rng::with_seed(seed);
    let (mut refused, mut altered) = (0, 0);
    for round in 0..1_500 {
        let threads = 1 + random.u64(..3);
        let (mut events, first, last) = simulate(&mut random, threads, 6 / threads as usize);
        let context = |events: &[Event]| format!("seed {seed} round {round}: {events:#?}");
        assert!(is_linearizable(&events, first, last), "{}", context(&events));
        assert!(brute_force(&events, first, last), "{}", context(&events));
        let i = random.u64(..events.len() as u64) as usize;
        events[i].outcome = alter(&mut random, events[i].outcome);
        let expected = brute_force(&events, first, last);
        assert_eq!(is_linearizable(&events, first, last), expected, "{}", context(&events));
        altered += 1;
        refused += i32::from(!expected);
    }
    assert!(refused * 10 > altered * 8, "{refused} of {altered} altered histories are refused");
}

#[test]
fn long_histories_of_a_register_are_accepted() {
    let seed = crate::shapes::number("HOTRING_SEED", 302);
    let mut random = Rng::with_seed(seed);
    for round in 0..300 {
        let threads = 2 + random.u64(..4);
        let (events, first, last) = simulate(&mut random, threads, 60 / threads as usize);
        assert!(is_linearizable(&events, first, last), "seed {seed} round {round}: {events:#?}");
        // Far from all that is ever written.
        let wrong = State { value: Some(u64::MAX / 3), version: last.version };
        assert!(!is_linearizable(&events, first, wrong), "seed {seed} round {round}: {events:#?}");
    }
}
