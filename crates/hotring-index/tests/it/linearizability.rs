//! Recorded histories of the real index on real threads, few keys and many collisions.
//!
//! Rounds are `HOTRING_ROUNDS` (default 4,000 a configuration); failures print the history.

use crate::history::{Event, Op, Outcome, is_linearizable};
use crate::u64s::{Random, config};
use hotring_index::{
    Action, Bytes, Config, Entry, Expiry, HotRing, NewValue, RcuCounts, Session, Strategy, U64,
    Value,
};
use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Barrier, Mutex};

const THREADS: usize = 3;
const OPS: usize = 7;

fn rounds() -> usize {
    std::env::var("HOTRING_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(4_000)
}

/// What a round needs of a session.
trait Target: Send {
    fn run(&mut self, key: u64, op: Op) -> Outcome;
}

impl<const H: usize> Target for Session<U64, H> {
    fn run(&mut self, key: u64, op: Op) -> Outcome {
        use Outcome::{Flag, Value};
        match op {
            Op::Get => Value(self.get(key)),
            Op::Put(v) => Flag(self.put(key, v)),
            Op::Insert(v) => Flag(self.insert(key, v)),
            Op::Replace(v) => Value(self.replace(key, v)),
            Op::Remove => Flag(self.remove(key)),
            Op::Take => Value(self.take(key)),
            Op::Add(d) => Value(self.fetch_add(key, d)),
            Op::Swap(old, new) => Flag(self.compare_exchange(key, old, new).is_ok()),
            Op::Append(d) => loop {
                let Some(old) = self.get(key) else { return Value(None) };
                let new = old.wrapping_mul(10).wrapping_add(d);
                if self.compare_exchange(key, old, new).is_ok() {
                    return Value(Some(new));
                }
            },
        }
    }
}

/// A byte-string session in which a value is a word or text, at random.
struct AsBytes<const H: usize>(Session<Bytes, H>, Random);

fn parse(entry: Entry<'_>) -> u64 {
    match entry.value {
        Value::Word { word, .. } => word,
        Value::Bytes { bytes, .. } => {
            std::str::from_utf8(bytes).expect("digits").trim().parse().expect("a number")
        }
    }
}

impl<const H: usize> AsBytes<H> {
    fn value(&mut self, v: u64) -> NewValue<'static> {
        if self.1.below(2) == 0 {
            NewValue::Word { kind: 1, word: v }
        } else {
            let text = format!("{v:>40}");
            NewValue::Bytes { kind: 1, bytes: Cow::Owned(text.into_bytes()) }
        }
    }

    fn expiry(&mut self) -> Expiry {
        [Expiry::Never, Expiry::At(1 << 40), Expiry::Keep][self.1.below(3) as usize]
    }
}

impl<const H: usize> Target for AsBytes<H> {
    fn run(&mut self, key: u64, op: Op) -> Outcome {
        use Outcome::{Flag, Value};
        let name = key.to_le_bytes();
        let (word, expiry) = (self.1.below(2) == 0, self.expiry());
        let as_value = |v: u64| {
            if word {
                NewValue::Word { kind: 1, word: v }
            } else {
                NewValue::Bytes { kind: 1, bytes: Cow::Owned(format!("{v:>40}").into_bytes()) }
            }
        };
        let put = |v: u64| Action::Put { value: as_value(v), expiry };
        let s = &mut self.0;
        match op {
            Op::Get => Value(s.get(&name, 1, parse)),
            Op::Put(v) => Flag({
                let value = self.value(v);
                self.0.put(&name, value, expiry, 1)
            }),
            Op::Insert(v) => Flag(s.update(&name, 1, |old| match old {
                Some(_) => (Action::Keep, false),
                None => (put(v), true),
            })),
            Op::Replace(v) => Value(s.update(&name, 1, |old| match old {
                Some(old) => (put(v), Some(parse(old))),
                None => (Action::Keep, None),
            })),
            Op::Remove => Flag(s.remove(&name, 1)),
            Op::Take => Value(s.update(&name, 1, |old| (Action::Remove, old.map(parse)))),
            Op::Add(_) | Op::Append(_) => Value(s.update(&name, 1, |old| {
                let new = old.map(|old| match op {
                    Op::Add(d) => parse(old).wrapping_add(d),
                    Op::Append(d) => parse(old).wrapping_mul(10).wrapping_add(d),
                    _ => unreachable!("matched above"),
                });
                (new.map_or(Action::Keep, put), new)
            })),
            Op::Swap(old, new) => Flag(s.update(&name, 1, |entry| match entry {
                Some(entry) if parse(entry) == old => (put(new), true),
                _ => (Action::Keep, false),
            })),
        }
    }
}

fn random_op(random: &mut Random) -> Op {
    let v = random.below(3) + if random.below(4) == 0 { 1 << 63 } else { 0 };
    match random.below(14) {
        0..=3 => Op::Get,
        4 | 5 => Op::Put(v),
        6 => Op::Insert(v),
        7 => Op::Replace(v),
        8 | 9 => Op::Remove,
        10 => Op::Take,
        11 => Op::Add(1),
        12 => Op::Swap(random.below(3), v),
        _ => Op::Append(random.below(10)),
    }
}

/// Runs rounds of concurrent operations on few keys, with many other keys coming and going so that
/// the table grows, and checks each key's history.
fn check<T: Target>(name: &str, sessions: Vec<T>, seed: u64) {
    let clock = AtomicU64::new(0);
    let barrier = Barrier::new(sessions.len());
    let histories: Vec<Mutex<Vec<Event>>> = sessions.iter().map(|_| Mutex::default()).collect();
    let rounds = rounds();
    std::thread::scope(|scope| {
        for (thread, mut session) in sessions.into_iter().enumerate() {
            let (clock, barrier, histories) = (&clock, &barrier, &histories);
            scope.spawn(move || {
                let mut random = Random(seed * 31 + thread as u64 + 1);
                let mut state = [None; 4];
                for round in 0..rounds {
                    let keys = round as u64 % 4 + 1;
                    let mut events = Vec::with_capacity(OPS);
                    barrier.wait();
                    for _ in 0..OPS {
                        let key = random.below(keys) as usize;
                        let op = random_op(&mut random);
                        for _ in 0..random.below(40) {
                            std::hint::spin_loop();
                        }
                        let call = clock.fetch_add(1, Ordering::SeqCst);
                        let outcome = session.run(key as u64, op);
                        let end = clock.fetch_add(1, Ordering::SeqCst);
                        events.push(Event { key, op, outcome, call, end });
                        if random.below(4) == 0 {
                            let other = 1000 + random.below(3000);
                            let op = if random.below(3) == 0 { Op::Remove } else { Op::Put(1) };
                            session.run(other, op);
                        }
                    }
                    *histories[thread].lock().expect("no panic") = events;
                    if barrier.wait().is_leader() {
                        // Everybody else waits below: the index is at rest.
                    }
                    if thread == 0 {
                        judge(name, round, &mut session, &mut state, histories);
                    }
                    barrier.wait();
                }
            });
        }
    });
}

fn judge<T: Target>(
    name: &str,
    round: usize,
    session: &mut T,
    state: &mut [Option<u64>; 4],
    histories: &[Mutex<Vec<Event>>],
) {
    let all: Vec<Event> =
        histories.iter().flat_map(|h| h.lock().expect("no panic").clone()).collect();
    for (key, state) in state.iter_mut().enumerate() {
        let Outcome::Value(last) = session.run(key as u64, Op::Get) else { unreachable!("a get") };
        let events: Vec<Event> = all.iter().filter(|e| e.key == key).copied().collect();
        if !is_linearizable(&events, *state, last) {
            eprintln!("{name} round {round} key {key}: from {state:?} to {last:?}: {events:#?}");
            std::process::abort();
        }
        *state = last;
    }
}

fn u64s<const H: usize>(config: Config, seed: u64) {
    let name = format!("u64 x {H} {config:?} seed {seed}");
    let index = HotRing::<U64, H>::new(config).expect("a valid configuration");
    check(&name, (0..THREADS).map(|_| index.session()).collect(), seed);
}

fn bytes<const H: usize>(config: Config, seed: u64) {
    let name = format!("bytes x {H} {config:?} seed {seed}");
    let index = HotRing::<Bytes, H>::new(config).expect("a valid configuration");
    let session = |i: u64| AsBytes(index.session(), Random(seed + i + 1));
    check(&name, (0..THREADS as u64).map(session).collect(), seed);
}

/// Heads move as often as they can.
fn eager(strategy: Strategy) -> Config {
    Config { period: 1, ..config(strategy) }
}

#[test]
fn u64_histories_are_linearizable() {
    u64s::<7>(eager(Strategy::Vote), 1);
    u64s::<1>(eager(Strategy::Vote), 2);
    u64s::<1>(eager(Strategy::Random), 3);
    u64s::<1>(eager(Strategy::Sampling), 4);
    u64s::<7>(config(Strategy::None), 5);
    u64s::<7>(Config { complete_lines: true, ..eager(Strategy::Vote) }, 6);
    u64s::<3>(Config { complete_lines: true, ..eager(Strategy::Vote) }, 7);
}

#[test]
fn byte_histories_are_linearizable() {
    bytes::<7>(eager(Strategy::Vote), 1);
    bytes::<1>(eager(Strategy::Random), 2);
    bytes::<1>(eager(Strategy::Sampling), 3);
    let paper = Config { rcu_counts: RcuCounts::Predecessor, ..eager(Strategy::Sampling) };
    bytes::<1>(paper, 4);
    bytes::<3>(Config { complete_lines: true, ..eager(Strategy::Vote) }, 5);
}
