//! Real threads on one container against the linearizability checker: thousands of short histories of each type, on
//! containers that go from packed to large and away again, and on large ones of many leaves. And the same with a count
//! that is a read and a write, where a violation must turn up.
//!
//! As for [`crate::history`], the interleaving comes from the machine. Not covered: operations on several containers,
//! which hold their keys, and fields that expire.

use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

use hotring_store::{AddOptions, End, HashRef, Options, ReplyCapacity, Session, Store};

use crate::history::Start;
use crate::random::Random;
use crate::search::{self, is_linearizable};

const NOW: u64 = 1_000_000;
const KEY: &[u8] = b"container";
const THREADS: usize = 2;
const OPS_A_THREAD: u64 = 5;
/// Parts of the largest packed container.
const PACKED_MAX: usize = 3;
/// Where the parts begin that a large container has from the start, and how many they are.
const FILLED_FROM: i64 = 1_000;
const FILLED: i64 = 150;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    List,
    Set,
    Scored,
    Hash,
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Push(End, i64),
    Pop(End),
    /// Keeps the elements from the second to the last but one.
    Trim,
    Add(i64),
    Take(i64),
    /// A member and its score.
    Score(i64, i64),
    /// Adds to a member's score.
    Raise(i64, i64),
    Rank(i64),
    PopMax,
    Unscore(i64),
    /// A field and its value.
    Field(i64, i64),
    Count(i64, i64),
    Unset(i64),
    Len,
    All,
    Delete,
}

#[derive(Clone, Debug, PartialEq)]
enum Out {
    Done,
    Len(usize),
    Number(Option<i64>),
    /// Rank and score.
    Place(Option<(usize, i64)>),
    All(State),
}

/// Of a list the elements, in their order; of a set the members; of a sorted set score and member, in their order; of
/// a hash field and value.
type State = Vec<(i64, i64)>;
type Event = search::Event<Op, Out>;

/// The sequential container.
fn apply(state: &mut State, op: Op) -> Out {
    let place_of = |state: &State, part: i64| state.iter().position(|(first, _)| *first == part);
    match op {
        Op::Len => Out::Len(state.len()),
        Op::All => Out::All(state.clone()),
        Op::Delete => {
            state.clear();
            Out::Done
        }
        Op::Add(member) => {
            let is_new = place_of(state, member).is_none();
            if is_new {
                state.push((member, 0));
                state.sort_unstable();
            }
            Out::Len(usize::from(is_new))
        }
        Op::Take(part) | Op::Unset(part) => {
            let old = place_of(state, part).map(|at| state.remove(at));
            Out::Len(old.iter().count())
        }
        Op::Field(field, value) => {
            let old = place_of(state, field).map(|at| state.remove(at));
            state.push((field, value));
            state.sort_unstable();
            Out::Len(usize::from(old.is_none()))
        }
        Op::Count(field, by) => {
            let old = place_of(state, field).map_or(0, |at| state.remove(at).1);
            state.push((field, old + by));
            state.sort_unstable();
            Out::Number(Some(old + by))
        }
        Op::Push(..) | Op::Pop(_) | Op::Trim => apply_list(state, op),
        _ => apply_scored(state, op),
    }
}

fn apply_list(state: &mut State, op: Op) -> Out {
    match op {
        Op::Push(End::Front, element) => state.insert(0, (element, 0)),
        Op::Push(End::Back, element) => state.push((element, 0)),
        Op::Pop(_) if state.is_empty() => return Out::Number(None),
        Op::Pop(End::Front) => return Out::Number(Some(state.remove(0).0)),
        Op::Pop(End::Back) => return Out::Number(state.pop().map(|(element, _)| element)),
        _ => {
            state.pop();
            state.drain(..state.len().min(1));
            return Out::Done;
        }
    }
    Out::Len(state.len())
}

fn apply_scored(state: &mut State, op: Op) -> Out {
    let place_of =
        |state: &State, member: i64| state.iter().position(|(_, other)| *other == member);
    match op {
        Op::Score(member, score) => {
            let old = place_of(state, member).map(|at| state.remove(at));
            state.push((score, member));
            state.sort_unstable();
            Out::Len(usize::from(old.is_none()))
        }
        Op::Raise(member, by) => {
            let old = place_of(state, member).map_or(0, |at| state.remove(at).0);
            state.push((old + by, member));
            state.sort_unstable();
            Out::Number(Some(old + by))
        }
        Op::Rank(member) => Out::Place(place_of(state, member).map(|at| (at, state[at].0))),
        Op::PopMax => Out::Number(state.pop().map(|(_, member)| member)),
        Op::Unscore(member) => {
            let old = place_of(state, member).map(|at| state.remove(at));
            Out::Len(old.iter().count())
        }
        _ => unreachable!("not an operation of this family"),
    }
}

fn text(number: i64) -> Vec<u8> {
    // As long as others, so that the order of the bytes is that of the numbers.
    format!("{number:06}").into_bytes()
}

fn number(text: &[u8]) -> i64 {
    str::from_utf8(text).unwrap().parse().unwrap()
}

fn run(session: &mut Session, kind: Kind, op: Op) -> Out {
    match op {
        Op::Push(end, element) => {
            Out::Len(session.list_push(KEY, end, &[&text(element)], false, NOW).unwrap())
        }
        Op::Pop(end) => {
            let popped = session.list_pop(KEY, end, (1, ReplyCapacity::UNLIMITED), NOW).unwrap();
            Out::Number(popped.map(|popped| number(popped.first().unwrap())))
        }
        Op::Trim => {
            session.list_trim(KEY, 1, -2, NOW).unwrap();
            Out::Done
        }
        Op::Add(member) => Out::Len(session.set_add(KEY, &[&text(member)], NOW).unwrap()),
        Op::Take(member) => Out::Len(session.set_remove(KEY, &[&text(member)], NOW).unwrap()),
        Op::Field(field, value) => Out::Len(
            session.hash_set(KEY, &[(&text(field), value.to_string().as_bytes())], NOW).unwrap(),
        ),
        Op::Count(field, by) => {
            Out::Number(Some(session.hash_incr_by(KEY, &text(field), by, NOW).unwrap()))
        }
        Op::Unset(field) => Out::Len(session.hash_remove(KEY, &[&text(field)], NOW).unwrap()),
        Op::Len => Out::Len(len(session, kind)),
        Op::All => Out::All(all(session, kind)),
        Op::Delete => {
            session.remove(KEY, NOW);
            Out::Done
        }
        _ => run_scored(session, op),
    }
}

fn run_scored(session: &mut Session, op: Op) -> Out {
    let always = AddOptions::default();
    match op {
        Op::Score(member, score) => {
            let pair = (score as f64, &text(member)[..]);
            Out::Len(session.scored_add(KEY, &[pair], always, NOW).unwrap().added)
        }
        Op::Raise(member, by) => {
            let sum = session.scored_incr(KEY, by as f64, &text(member), always, NOW).unwrap();
            Out::Number(sum.map(|sum| sum as i64))
        }
        Op::Rank(member) => {
            let place = session.scored(KEY, NOW, |scored| scored.rank(&text(member))).unwrap();
            Out::Place(place.flatten().map(|(rank, score)| (rank, score as i64)))
        }
        Op::PopMax => {
            let popped = session.scored_pop(KEY, (1, ReplyCapacity::UNLIMITED), true, NOW).unwrap();
            Out::Number(popped.first().map(|(member, _)| number(member)))
        }
        Op::Unscore(member) => Out::Len(session.scored_remove(KEY, &[&text(member)], NOW).unwrap()),
        _ => unreachable!("not an operation of this family"),
    }
}

fn len(session: &mut Session, kind: Kind) -> usize {
    let len = match kind {
        Kind::List => session.list(KEY, NOW, |list| list.len()),
        Kind::Set => session.set_members(KEY, NOW, |set| set.len()),
        Kind::Scored => session.scored(KEY, NOW, |scored| scored.len()),
        Kind::Hash => session.hash(KEY, NOW, |hash| hash.len()),
    };
    len.unwrap().unwrap_or(0)
}

fn all(session: &mut Session, kind: Kind) -> State {
    let mut all = Vec::new();
    let found = match kind {
        Kind::List => {
            let mut add = |element: &[u8]| all.push((number(element), 0));
            session.list_walk(KEY, NOW, |list| list.iter().for_each(&mut add))
        }
        Kind::Set => {
            let mut add = |member: &[u8]| all.push((number(member), 0));
            let found = session.set_walk(KEY, NOW, |set| {
                set.iter().for_each(|member| member.with_bytes(&mut add))
            });
            all.sort_unstable();
            found
        }
        Kind::Scored => session.scored_walk(KEY, NOW, |scored| {
            scored.each_of_all(|entry| all.push((entry.score as i64, number(entry.member))));
        }),
        Kind::Hash => {
            let found = session.hash_walk(KEY, NOW, |hash| {
                all.extend(hash.iter().map(|(field, value)| (number(field), number(value))));
            });
            all.sort_unstable();
            found
        }
    };
    assert!(found.unwrap().is_none_or(|()| !all.is_empty()), "an empty container was seen");
    all
}

fn random_op(random: &mut Random, kind: Kind, is_filled: bool) -> Op {
    let (part, value) = (random.below(6) as i64, random.below(4) as i64);
    let end = if random.one_in(2) { End::Front } else { End::Back };
    match random.below(12) {
        0 => return Op::Len,
        1 | 2 => return Op::All,
        3 if !is_filled => return Op::Delete,
        _ => {}
    }
    let which = random.below(8);
    match kind {
        Kind::List => match which {
            0..4 => Op::Push(end, part),
            4 => Op::Trim,
            _ => Op::Pop(end),
        },
        Kind::Set => {
            if which < 4 {
                Op::Add(part)
            } else {
                Op::Take(part)
            }
        }
        Kind::Scored => match which {
            0 | 1 => Op::Score(part, value),
            2 | 3 => Op::Raise(part, 1 + value),
            4 | 5 => Op::Rank(part),
            6 => Op::PopMax,
            _ => Op::Unscore(part),
        },
        Kind::Hash => match which {
            0 | 1 => Op::Field(part, value),
            2..5 => Op::Count(part, 1 + value),
            _ => Op::Unset(part),
        },
    }
}

/// Has the container begin with many parts, those of which no operation names one.
fn fill(session: &mut Session, kind: Kind) -> State {
    let mut state = State::new();
    for part in FILLED_FROM..FILLED_FROM + FILLED {
        let op = match kind {
            Kind::List => Op::Push(End::Back, part),
            Kind::Set => Op::Add(part),
            Kind::Scored => Op::Score(part, part % 5),
            Kind::Hash => Op::Field(part, part),
        };
        assert_eq!(run(session, kind, op), apply(&mut state, op));
    }
    state
}

/// Runs rounds until one cannot be explained; returns its history.
fn find_violation(
    kind: Kind,
    is_filled: bool,
    rounds: u64,
    run: impl Fn(&mut Session, Kind, Op) -> Out + Sync,
) -> Option<Vec<Event>> {
    let options = Options {
        list_packed_elements_max: PACKED_MAX,
        set_packed_ints_max: PACKED_MAX,
        set_packed_members_max: PACKED_MAX,
        scored_packed_members_max: PACKED_MAX,
        hash_packed_fields_max: PACKED_MAX,
        ..Options::default()
    };
    let store = Store::new(options).unwrap();
    let ticket = AtomicU64::new(0);
    let start = Start::new(THREADS);
    let filled = if is_filled { fill(&mut store.session(), kind) } else { State::new() };
    let shared = Mutex::new((Vec::<Event>::new(), filled, None));
    let record = |session: &mut Session, op: Op| {
        let begin = ticket.fetch_add(1, SeqCst);
        let out = run(session, kind, op);
        Event { begin, end: ticket.fetch_add(1, SeqCst), op, out }
    };
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (store, start, shared, record) = (&store, &start, &shared, &record);
            scope.spawn(move || {
                let mut random = Random::new(rounds << 8 | thread as u64);
                let mut session = store.session();
                for _ in 0..rounds {
                    start.wait();
                    let mut op = || record(&mut session, random_op(&mut random, kind, is_filled));
                    let events: Vec<Event> = (0..OPS_A_THREAD).map(|_| op()).collect();
                    shared.lock().unwrap().0.extend(events);
                    start.wait();
                    if thread == 0 {
                        let (events, before, violation) = &mut *shared.lock().unwrap();
                        let look = record(&mut session, Op::All);
                        events.push(look.clone());
                        let Out::All(after) = look.out else {
                            unreachable!("that is what it returns")
                        };
                        if !is_linearizable(before.clone(), events, apply) {
                            *violation = Some(events.clone());
                        }
                        events.clear();
                        *before = after;
                    }
                    start.wait();
                    if shared.lock().unwrap().2.is_some() {
                        return;
                    }
                }
            });
        }
    });
    shared.into_inner().unwrap().2
}

fn assert_linearizable(kind: Kind) {
    let soak = std::env::var("HOTRING_SOAK").map_or(1, |n| n.parse().expect("a number"));
    for (is_filled, rounds) in [(false, 3_000), (true, 1_000)] {
        if let Some(mut events) = find_violation(kind, is_filled, rounds * soak, run) {
            events.sort_by_key(|event| event.begin);
            let lines: Vec<_> = events.iter().map(|event| format!("{event:?}")).collect();
            panic!("no order explains this history of a {kind:?}\n{}", lines.join("\n"));
        }
    }
}

#[test]
fn lists_are_linearizable() {
    assert_linearizable(Kind::List);
}

#[test]
fn sets_are_linearizable() {
    assert_linearizable(Kind::Set);
}

#[test]
fn sorted_sets_are_linearizable() {
    assert_linearizable(Kind::Scored);
}

#[test]
fn hashes_are_linearizable() {
    assert_linearizable(Kind::Hash);
}

/// As [`run`], but counts by a read and a write.
fn run_without_turns(session: &mut Session, kind: Kind, op: Op) -> Out {
    let Op::Count(field, by) = op else { return run(session, kind, op) };
    let get = |hash: HashRef<'_>| hash.get(&text(field)).map(number);
    let old = session.hash_walk(KEY, NOW, get).unwrap().flatten().unwrap_or(0);
    std::thread::yield_now();
    session.hash_set(KEY, &[(&text(field), &text(old + by))], NOW).unwrap();
    Out::Number(Some(old + by))
}

#[test]
fn counts_that_take_no_turns_are_found() {
    let found =
        (0..20).any(|n| find_violation(Kind::Hash, true, 1_000 + n, run_without_turns).is_some());
    assert!(found, "the fault did not show");
}
