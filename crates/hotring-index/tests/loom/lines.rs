//! Lines in every order of their steps. A lane is one atomic word of two halves here, keys are hashes of 16 bits, and
//! the smallest table has two lines, of which a sequence has two.

use crate::history::{Event, Op, Outcome, State, is_linearizable};
use crate::operate::operate_on_lines;
use crate::world::{Report, Run, explore_with};
use hotring_index::checks::Fault;
use hotring_index::{Form, Lines, LinesConfig, LinesSession};
use loom::sync::atomic::AtomicU64;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU64 as Tally, Ordering};
use std::sync::{Arc, Mutex};

/// One step of a thread.
#[derive(Clone, Copy, Debug)]
pub enum Act {
    /// An operation, whose answer is judged.
    Do(u64, Op),
    /// A lookup as a batch of one.
    Batch(u64),
    /// A read that is noted: the fourth one moves a displaced item into its home line.
    Note(u64),
    /// Begins to grow.
    Grow,
    /// Begins to shrink.
    Shrink,
    /// Moves a home on.
    Step,
    /// Visits everything; these keys are there all the time.
    Scan(&'static [u64]),
}

/// A scenario: what comes before, and what each thread does.
#[derive(Clone)]
pub struct Scenario {
    pub name: &'static str,
    /// 0 makes two lines of three lanes, 9 four lines of four.
    capacity: u64,
    setup: Vec<Act>,
    threads: Vec<Vec<Act>>,
}

/// Keys of a home in a table of two lines, and of one in a table of four.
const fn of_two(home: u64, number: u64) -> u64 {
    (home << 15) + number * 0x1100
}

const fn of_four(home: u64, number: u64) -> u64 {
    (home << 14) + number * 0x0600
}

const A: u64 = of_two(0, 0);
const B: u64 = of_two(0, 1);
const C: u64 = of_two(0, 2);
const X: u64 = of_two(0, 3);
const STASHED: u64 = of_four(1, 8);
const COLD: u64 = of_four(1, 0);
const HOT: u64 = of_four(1, 4);

pub fn scenarios() -> Vec<Scenario> {
    use Act::{Batch, Do, Grow, Note, Scan, Shrink, Step};
    use Op::{Add, Get, Insert, Put, Remove, Take};
    let new = |name, capacity, setup, threads| Scenario { name, capacity, setup, threads };
    // X is displaced, and its home waits to be tidied: the next removal from it brings X home.
    let full = || vec![Do(A, Put(1)), Do(B, Put(2)), Do(C, Put(3)), Do(X, Put(4)), Do(A, Remove)];
    let growing = || vec![Do(A, Put(1)), Grow];
    let shrinking = || vec![Do(A, Put(1)), Do(B, Put(2)), Grow, Step, Step, Shrink];
    let displaced = {
        let four = (0..4).map(|n| Do(of_four(1, n), Put(n)));
        four.chain([Do(of_four(1, 4), Put(9)), Grow, Step]).collect()
    };
    let hot = || {
        let five = (0..5).map(|n| Do(of_four(1, n), Put(n)));
        five.chain([Note(HOT), Note(HOT), Note(HOT)]).collect()
    };
    // Both lines of the home's sequence are full.
    let stashed = || (0..9).map(|n| Do(of_four(1, n), Put(n))).collect::<Vec<_>>();
    vec![
        new("move | add, get", 0, growing(), vec![vec![Step], vec![Do(A, Add(1)), Do(A, Get)]]),
        new(
            "move | remove, insert",
            0,
            growing(),
            vec![vec![Step], vec![Do(A, Take), Do(A, Insert(2))]],
        ),
        new(
            "move | insert | insert",
            0,
            vec![Grow],
            vec![vec![Step], vec![Do(A, Insert(1))], vec![Do(A, Insert(2))]],
        ),
        new(
            "shrink: move | add, get",
            0,
            shrinking(),
            vec![vec![Step], vec![Do(A, Add(1)), Do(A, Get)]],
        ),
        new(
            "insert displaced | insert it",
            0,
            vec![Do(A, Put(1)), Do(B, Put(2)), Do(C, Put(3))],
            vec![vec![Do(X, Insert(4))], vec![Do(X, Insert(5)), Do(X, Get)]],
        ),
        new(
            "displaced comes home | get, add",
            0,
            full(),
            vec![vec![Do(B, Remove)], vec![Do(X, Get), Do(X, Add(1))]],
        ),
        new(
            "displaced comes home | move, add",
            0,
            full(),
            vec![vec![Do(B, Remove)], vec![Grow, Step, Do(X, Add(1))]],
        ),
        new(
            "displaced comes home | scan",
            0,
            full(),
            vec![vec![Do(B, Remove)], vec![Scan(&[C, X])]],
        ),
        new(
            "reuse a lane | get",
            0,
            vec![Do(A, Put(1))],
            vec![vec![Do(A, Take), Do(B, Insert(2))], vec![Do(A, Get)]],
        ),
        new(
            "move | batch",
            0,
            growing(),
            vec![vec![Step], vec![Batch(A), Do(A, Add(1)), Batch(A)]],
        ),
        new(
            "displaced comes home | batch",
            0,
            full(),
            vec![vec![Do(B, Remove)], vec![Batch(X), Batch(B)]],
        ),
        new("move | scan", 0, growing(), vec![vec![Step], vec![Scan(&[A])]]),
        new("a late home | later homes", 9, displaced, vec![vec![Step], vec![Step, Step]]),
        new(
            "cold goes out, hot comes home | get cold",
            9,
            hot(),
            vec![vec![Note(HOT)], vec![Do(COLD, Get)]],
        ),
        new(
            "cold goes out, hot comes home | get hot",
            9,
            hot(),
            vec![vec![Note(HOT)], vec![Do(HOT, Get)]],
        ),
        new(
            "cold goes out, hot comes home | add, get",
            9,
            hot(),
            vec![vec![Note(HOT)], vec![Do(COLD, Add(1)), Do(COLD, Get)]],
        ),
        new(
            "stashed comes home | add",
            9,
            stashed(),
            vec![vec![Do(HOT, Remove)], vec![Do(STASHED, Add(1))]],
        ),
        new(
            "move stashed | get",
            9,
            stashed().into_iter().chain([Grow, Step]).collect(),
            vec![vec![Step], vec![Do(STASHED, Get)]],
        ),
        new(
            "stashed comes home | add, get",
            9,
            stashed(),
            vec![vec![Do(HOT, Remove)], vec![Do(STASHED, Add(1)), Do(STASHED, Get)]],
        ),
        new(
            "stashed comes home | remove, insert",
            9,
            stashed(),
            vec![vec![Do(HOT, Remove)], vec![Do(STASHED, Take), Do(STASHED, Insert(1))]],
        ),
        new(
            "move stashed | add, get",
            9,
            stashed().into_iter().chain([Grow, Step]).collect(),
            vec![vec![Step], vec![Do(STASHED, Add(1)), Do(STASHED, Get)]],
        ),
        new("grow | put", 0, vec![Do(A, Put(1))], vec![vec![Grow], vec![Do(A, Put(2))]]),
        new(
            "leave a table | get, add",
            0,
            growing(),
            vec![vec![Step, Step, Do(A, Put(2))], vec![Do(A, Get), Do(A, Add(1))]],
        ),
    ]
}

/// The wrong variants, each with the scenario that shows it.
pub const CONTROLS: [(Fault, &str); 15] = [
    (Fault::LinesMoveUnfrozen, "move | add, get"),
    (Fault::LinesThawFirst, "move | add, get"),
    (Fault::LinesStaleTable, "move | add, get"),
    (Fault::LinesNoSecondLook, "move | add, get"),
    (Fault::LinesReachLate, "insert displaced | insert it"),
    (Fault::LinesNoCount, "displaced comes home | get, add"),
    (Fault::LinesTidyUnlocked, "displaced comes home | move, add"),
    (Fault::LinesFirstLook, "displaced comes home | batch"),
    (Fault::LinesRelaxedClear, "move | add, get"),
    (Fault::LinesRelaxedThaw, "move | add, get"),
    (Fault::LinesRelaxedNext, "grow | put"),
    (Fault::LinesCountedEarly, "leave a table | get, add"),
    (Fault::LinesFreeEarly, "leave a table | get, add"),
    (Fault::LinesStashUnfrozen, "stashed comes home | add"),
    (Fault::LinesOneWindow, "a late home | later homes"),
];

/// The scenario that shows loads of two halves.
pub const TORN: &str = "reuse a lane | get";

struct World {
    lines: Lines,
    /// Calls and answers are moments that have an order: without, loom would call values legal that are older than a
    /// client could explain.
    answers: AtomicU64,
    clock: Tally,
    events: Mutex<Vec<Event>>,
}

impl World {
    fn act(&self, session: &mut LinesSession, act: Act) {
        match act {
            Act::Do(key, op) => self.observe(key, op, || operate_on_lines(session, key, op)),
            Act::Batch(key) => self.observe(key, Op::Get, || batch(session, key)),
            Act::Note(key) => session.note(key),
            Act::Grow => _ = session.grow(),
            Act::Shrink => _ = session.shrink(),
            Act::Step => _ = session.growth_step(),
            Act::Scan(there) => scan(session, there),
        }
    }

    fn observe(&self, key: u64, op: Op, operate: impl FnOnce() -> Outcome) {
        let call = self.clock.fetch_add(1, Ordering::Relaxed);
        self.answers.fetch_add(1, Ordering::AcqRel);
        let outcome = operate();
        self.answers.fetch_add(1, Ordering::AcqRel);
        let end = self.clock.fetch_add(1, Ordering::Relaxed);
        let event = Event { key: key as usize, op, outcome, call, end };
        self.events.lock().expect("one thread runs").push(event);
    }

    /// Reads every key once more, and judges everything.
    fn judge(&self, session: &mut LinesSession) {
        let mut keys: Vec<usize> =
            self.events.lock().expect("one thread runs").iter().map(|event| event.key).collect();
        keys.sort_unstable();
        keys.dedup();
        let mut present = 0;
        for key in keys {
            self.act(session, Act::Do(key as u64, Op::Get));
            let events = self.events.lock().expect("one thread runs");
            let Outcome::Value(value) = events[events.len() - 1].outcome else {
                unreachable!("a get")
            };
            present += u64::from(value.is_some());
            let of_key: Vec<Event> = events.iter().filter(|e| e.key == key).copied().collect();
            assert!(
                is_linearizable(&of_key, State::default(), State::of(value)),
                "not linearizable, key {key:#x}: {of_key:?}"
            );
        }
        let mut met = 0;
        let mut cursor = 0;
        loop {
            cursor = session.scan(cursor, 100, |_, _| met += 1);
            if cursor == 0 {
                break;
            }
        }
        assert_eq!((self.lines.len(), met), (present, present), "items by count and by scan");
    }
}

fn batch(session: &mut LinesSession, key: u64) -> Outcome {
    let mut value = [None];
    session.get_many(&[key], &mut value);
    Outcome::Value(value[0])
}

/// A scan must visit every permanent key, and no key twice.
fn scan(session: &mut LinesSession, there: &[u64]) {
    let (mut met, mut cursor) = (Vec::new(), 0);
    loop {
        cursor = session.scan(cursor, 1, |key, _| met.push(key));
        if cursor == 0 {
            break;
        }
    }
    assert!(there.iter().all(|key| met.contains(key)), "a scan misses one of {there:x?}: {met:x?}");
    met.sort_unstable();
    assert!(met.windows(2).all(|pair| pair[0] != pair[1]), "a scan visits a key twice");
}

/// Runs a scenario in every order that the bounds allow.
pub fn explore(scenario: &Scenario, form: Form, how: Run) -> Report {
    let scenario = scenario.clone();
    // Two would take hours: a move has a hundred steps, at each of which the other thread may run.
    let how = Run { preemptions: how.preemptions.or(Some(1)), ..how };
    explore_with(how, move || execute(&scenario, form, how.fault))
}

fn execute(scenario: &Scenario, form: Form, fault: Fault) {
    let capacity = scenario.capacity;
    let form = Some(form);
    let config = LinesConfig { capacity, form, fault, shrinks: false, ..LinesConfig::default() };
    let lines = Lines::new(config).expect("a valid configuration");
    let world = Arc::new(World {
        lines,
        answers: AtomicU64::new(0),
        clock: Tally::new(0),
        events: Mutex::default(),
    });
    // Not dropped after a complaint: that would add steps to a run that is over.
    let session = || ManuallyDrop::new(world.lines.session());
    let mut first = session();
    for &act in &scenario.setup {
        world.act(&mut first, act);
    }
    let threads = scenario.threads[1..].iter().map(|acts| {
        let (world, acts, mut session) = (world.clone(), acts.clone(), session());
        loom::thread::spawn(move || {
            for act in acts {
                world.act(&mut session, act);
            }
            session
        })
    });
    let threads: Vec<_> = threads.collect();
    for &act in &scenario.threads[0] {
        world.act(&mut first, act);
    }
    for thread in threads {
        let session = thread.join().expect("loom ends the run at a panic");
        drop(ManuallyDrop::into_inner(session));
    }
    world.judge(&mut first);
    drop(ManuallyDrop::into_inner(first));
}
