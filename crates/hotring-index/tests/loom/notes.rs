//! Access bits under loom: reads that record, reviews that change bits, and moves that carry them, beside
//! operations that claim, replace or remove the same item. Required of every engine: the history of the key
//! is linearizable, nothing dead comes back, the policy's own bits stay with the key, and a removed key
//! leaves no bits behind. Required of the ring, and of chains that are not split: no bit that a session has
//! seen is lost, except by a review or a removal.

use crate::history::{Event, Op, Outcome, State, is_linearizable};
use crate::world::{Report, Run, explore_with};
use hotring_index::checks::{Checked, Fault, Reclaim};
use hotring_index::{
    Bytes, Config, Entry, Expiry, Growth, Index, NewValue, Noting, Session, Strategy, Value,
};
use loom::sync::atomic::AtomicU64;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU64 as Tally, Ordering};
use std::sync::{Arc, Mutex};

const KEY: &[u8] = b"k";
/// The policy's bits of a new key.
const FRESH: u8 = 0b100;
/// The bits that a review adds.
const AGED: u8 = 0b1000;
/// Noted by reads and writes.
const SEEN: u8 = 0b11;

/// One step of a thread, on the one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    Get,
    Put(u64),
    Remove,
    /// A read whose item takes a hint, where there are hints.
    Heat,
    /// Reads the access bits.
    Look,
    /// A review that clears the bits recorded by reads.
    Age,
    /// A review, and the removal of idle items.
    Evict,
    /// Moves all items to other memory.
    Move,
    Grow,
}
use Act::{Age, Evict, Get, Grow, Heat, Look, Move, Put, Remove};

/// The operations of each thread on a key with the value 1 and cleared bits.
pub struct Scenario {
    pub name: &'static str,
    threads: &'static [&'static [Act]],
}

const fn scenario(name: &'static str, threads: &'static [&'static [Act]]) -> Scenario {
    Scenario { name, threads }
}

impl Scenario {
    /// Whether it is worth a look for this engine: where there are no hints, to take one is to read.
    pub fn is_for<E: Checked>(&self) -> bool {
        let takes_hints = self.threads.iter().any(|acts| acts.contains(&Heat));
        E::NAME == "hotring" || !takes_hints
    }
}

pub const SCENARIOS: &[Scenario] = &[
    scenario("get, look | replace, look", &[&[Get, Look], &[Put(2), Look]]),
    scenario("get, look | replace, replace", &[&[Get, Look], &[Put(2), Put(3)]]),
    scenario("get | remove, insert, look", &[&[Get], &[Remove, Put(2), Look]]),
    scenario("get, get | remove", &[&[Get, Get], &[Remove]]),
    scenario("get, look | take a hint, look", &[&[Get, Look], &[Heat, Look]]),
    scenario("get | take a hint | remove", &[&[Get], &[Heat], &[Remove]]),
    scenario("age | get, look", &[&[Age], &[Get, Look]]),
    scenario("age | take a hint, look", &[&[Age], &[Heat, Look]]),
    scenario("age | replace, look", &[&[Age], &[Put(2), Look]]),
    scenario("age | remove, insert, look", &[&[Age], &[Remove, Put(2), Look]]),
    scenario("evict | get, look", &[&[Evict], &[Get, Look]]),
    scenario("evict | replace, look", &[&[Evict], &[Put(2), Look]]),
    scenario("get, look | move, look", &[&[Get, Look], &[Move, Look]]),
    scenario("age | move, look", &[&[Age], &[Move, Look]]),
    scenario("get, look | grow, get", &[&[Get, Look], &[Grow, Get]]),
];

/// Wrong variants, and the scenario that shows each.
pub const CONTROLS: [(Fault, &str); 3] = [
    (Fault::NoteStored, "get, look | replace, replace"),
    (Fault::NoteStored, "get, look | take a hint, look"),
    (Fault::NoteTorn, "age | replace, look"),
];

fn read(entry: Entry<'_>) -> u64 {
    match entry.value {
        Value::Word { word, .. } => word,
        Value::Bytes { bytes, .. } => u64::from(bytes[0]),
    }
}

/// The words that some step may have written.
fn check_bits(bits: u8) -> u8 {
    assert_eq!(bits & !(SEEN | AGED), FRESH, "nobody has noted {bits:#b}");
    bits
}

/// Shared by all threads of a run.
struct World<E: Checked> {
    index: Index<Bytes, E>,
    /// See `world::World`.
    answers: AtomicU64,
    clock: Tally,
    events: Mutex<Vec<Event>>,
    /// The bits seen by each `Look`.
    looks: Mutex<Vec<u8>>,
}

impl<E: Checked> World<E> {
    fn new(strategy: Strategy, fault: Fault) -> Self {
        let config = Config {
            seed: [3, 4],
            strategy,
            period: (E::NAME == "hotring").then_some(u32::MAX),
            growth: Some(Growth::Fixed),
            slots_initial: 1,
            slots_max: 2,
            fault,
            reclaim: Reclaim::Oracle,
            ..Config::default()
        };
        let index = Index::new(config).expect("a valid configuration");
        index.set_noting(Noting::Visits { fresh: FRESH }).expect("no engine samples here");
        Self {
            index,
            answers: AtomicU64::new(0),
            clock: Tally::new(0),
            events: Mutex::default(),
            looks: Mutex::default(),
        }
    }

    fn act(&self, session: &mut Session<Bytes, E>, act: Act) {
        match act {
            Act::Get => self.operate(session, Op::Get),
            Act::Put(value) => self.operate(session, Op::Put(value)),
            Act::Remove => self.operate(session, Op::Remove),
            Act::Heat => {
                session.heat_next();
                self.operate(session, Op::Get);
            }
            Act::Look => {
                if let Some(bits) = session.peek_marked(KEY, 1, |_, bits| check_bits(bits)) {
                    self.looks.lock().expect("one thread runs").push(bits);
                }
            }
            Act::Age => drop(review(session)),
            Act::Evict => {
                if review(session) {
                    self.operate(session, Op::Remove);
                }
            }
            Act::Move => drop(session.compact_step(100)),
            Act::Grow => drop(session.grow()),
        }
    }

    fn operate(&self, session: &mut Session<Bytes, E>, op: Op) {
        let call = self.clock.fetch_add(1, Ordering::Relaxed);
        self.answers.fetch_add(1, Ordering::AcqRel);
        let outcome = match op {
            Op::Get => Outcome::Value(session.get(KEY, 1, read)),
            Op::Put(value) => {
                let value = NewValue::Bytes { kind: 0, bytes: vec![value as u8].into() };
                Outcome::Flag(session.put(KEY, value, Expiry::Never, 1))
            }
            _ => Outcome::Flag(session.remove(KEY, 1)),
        };
        self.answers.fetch_add(1, Ordering::AcqRel);
        let end = self.clock.fetch_add(1, Ordering::Relaxed);
        let event = Event { key: 0, op, outcome, call, end };
        self.events.lock().expect("one thread runs").push(event);
    }

    fn judge(&self, session: &mut Session<Bytes, E>, scenario: &Scenario) {
        let mut events = std::mem::take(&mut *self.events.lock().expect("one thread runs"));
        events.sort_unstable_by_key(|event| event.call);
        let last = session.peek_marked(KEY, 1, |entry, bits| (read(entry), check_bits(bits)));
        assert!(
            is_linearizable(&events, State::default(), State::of(last.map(|(value, _)| value))),
            "not linearizable: {events:?}, in the end {last:?}"
        );
        if let Some((value, bits)) = last {
            self.judge_notes(scenario, &events, value, bits);
        }
        E::check_at_rest(session, &self.index);
    }

    fn judge_notes(&self, scenario: &Scenario, events: &[Event], value: u64, bits: u8) {
        let has = |act| scenario.threads.iter().any(|acts| acts.contains(&act));
        let reads = |event: &&Event| event.outcome == Outcome::Value(Some(value));
        if has(Remove) {
            let reads = events.iter().filter(reads).count();
            assert!(
                reads > 0 || bits & SEEN == 0,
                "a note of a removed key: {bits:#b}, {events:?}"
            );
        }
        // These replace an item in another place than its word.
        let replaces_elsewhere = ["mercury", "lines"].contains(&E::NAME);
        let copies = replaces_elsewhere || (E::NAME != "hotring" && has(Grow));
        if !copies && ![Remove, Age, Evict].into_iter().any(has) {
            let looks = self.looks.lock().expect("one thread runs");
            assert!(looks.iter().all(|seen| seen & !bits == 0), "{looks:?} were seen of {bits:#b}");
        }
    }
}

/// Clears the bits recorded by reads; whether the key was there and idle.
fn review<E: Checked>(session: &mut Session<Bytes, E>) -> bool {
    let mut is_idle = false;
    session.review(0, 8, |_, marked| {
        is_idle = check_bits(marked.bits) & SEEN == 0;
        (marked.bits & !SEEN | AGED, true)
    });
    is_idle
}

/// Runs a scenario in every order that the bounds allow.
pub fn explore<E: Checked>(scenario: &'static Scenario, strategy: Strategy, run: Run) -> Report {
    explore_with(run, move || {
        let world = Arc::new(World::<E>::new(strategy, run.fault));
        // Not dropped after a complaint: that would add steps to a run that is over.
        let session = || ManuallyDrop::new(world.index.session());
        let mut first = session();
        world.act(&mut first, Put(1));
        let others: Vec<_> = scenario.threads[1..]
            .iter()
            .map(|&acts| {
                let (world, mut session) = (world.clone(), session());
                loom::thread::spawn(move || {
                    acts.iter().for_each(|&act| world.act(&mut session, act));
                    session
                })
            })
            .collect();
        scenario.threads[0].iter().for_each(|&act| world.act(&mut first, act));
        let ended: Vec<_> = others
            .into_iter()
            .map(|thread| thread.join().expect("loom ends the run at a panic"))
            .collect();
        world.judge(&mut first, scenario);
        ended.into_iter().for_each(|session| drop(ManuallyDrop::into_inner(session)));
        drop(ManuallyDrop::into_inner(first));
    })
}
