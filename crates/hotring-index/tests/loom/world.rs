//! Runs a scenario on a real index in every order of its steps, and judges each run: every answer
//! linearizable, no item reached after its retirement or retired twice, and at the end nothing out
//! of order, lost or left.

use crate::colliding::u64_key;
use crate::history::{Event, Op, Outcome, State, is_linearizable};
use crate::operate::operate;
use hotring_index::checks::{Checked, Fault, Reclaim};
use hotring_index::{Config, Growth, Index, Session, Strategy, U64};
use loom::sync::atomic::AtomicU64;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64 as Tally, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Switches that nothing forced; `HOTRING_LOOM_PREEMPTIONS` for more.
const PREEMPTIONS: usize = 2;
/// Steps of one run; only a loop that never ends takes this many.
const STEPS_MAX: usize = 20_000;

/// One step of a thread. Keys are positions in the ring, 0 to 255.
#[derive(Clone, Copy, Debug)]
pub enum Act {
    /// An operation, whose answer is judged.
    Do(u8, Op),
    /// A get whose item takes a hint.
    Heat(u8),
    /// Doubles the table.
    Grow,
    /// Begins to halve it.
    Shrink,
    /// Collects, which takes a halving a step further.
    Collect,
    /// Tries to advance the epoch.
    Advance,
    /// Takes the line of a key a step towards complete.
    Complete(u8),
    /// Makes it a candidate, as a race with an insert may.
    Candidate(u8),
    /// Visits everything, this many items at a time. These keys are there all the time.
    Scan(usize, &'static [u8]),
}

/// A scenario: its setup, and the operations of each thread.
#[derive(Clone)]
pub struct Scenario {
    pub name: &'static str,
    pub setup: Vec<Act>,
    pub threads: Vec<Vec<Act>>,
    /// Tags of keys are their positions, or all the same.
    pub same_tags: bool,
    pub reclaim: Reclaim,
    pub complete_lines: bool,
    /// Switches that nothing forced, where the environment does not say.
    pub preemptions: usize,
    pub strategy: Strategy,
    /// Whether all sessions begin before the setup: a new one advances work under way.
    pub sessions_first: bool,
}

impl Scenario {
    /// Tags that tell keys apart, no complete lines, memory freed by the oracle.
    pub fn new(name: &'static str, setup: Vec<Act>, threads: Vec<Vec<Act>>) -> Self {
        Self {
            name,
            setup,
            threads,
            same_tags: false,
            reclaim: Reclaim::Oracle,
            complete_lines: false,
            preemptions: PREEMPTIONS,
            strategy: Strategy::Vote,
            sessions_first: false,
        }
    }
}

/// How a scenario is run.
#[derive(Clone, Copy)]
pub struct Run {
    pub fault: Fault,
    pub preemptions: Option<usize>,
    pub seconds: Option<u64>,
}

impl Run {
    /// The real thing, with as many preemptions and seconds as the environment says.
    pub fn real() -> Self {
        let number = |name| std::env::var(name).ok().and_then(|n: String| n.parse().ok());
        Self {
            fault: Fault::None,
            preemptions: number("HOTRING_LOOM_PREEMPTIONS"),
            seconds: number("HOTRING_LOOM_SECONDS").map(|n| n as u64),
        }
    }

    /// A wrong variant. The bound of its scenario suffices to find it; with a larger one the search begins
    /// with deeper interleavings, and may meet the fault only hours later.
    pub fn wrong(fault: Fault) -> Self {
        Self { fault, preemptions: None, seconds: None }
    }
}

/// The key at a position of the ring.
fn key_at(position: u8, same_tags: bool) -> u64 {
    let tag = if same_tags { 7 } else { u64::from(position) + 1 };
    let hash = u64::from(position.reverse_bits()) | tag << 32;
    u64_key(hash)
}

/// Shared by all threads of a run.
struct World<E: Checked> {
    index: Index<U64, E>,
    same_tags: bool,
    /// With epochs, calls and answers are made moments that have an order (the oracle does so
    /// itself). Without, loom would call old values legal that a client could not explain. Also,
    /// loom remembers one last access of a word: it tries a store before an earlier load only if it
    /// meets the two in this order, so every order of the calls must be tried.
    answers: Option<AtomicU64>,
    clock: Tally,
    events: Mutex<Vec<Event>>,
}

impl<E: Checked> World<E> {
    fn new(scenario: &Scenario, fault: Fault) -> Self {
        let growth = Growth::Fixed;
        let config = Config {
            seed: [3, 4],
            strategy: scenario.strategy,
            // Only `Heat` moves hints.
            period: (E::NAME == "hotring").then_some(u32::MAX),
            growth: Some(growth),
            slots_initial: 1,
            slots_max: 4,
            complete_lines: Some(scenario.complete_lines),
            fault,
            reclaim: scenario.reclaim,
            ..Config::default()
        };
        let epochs = scenario.reclaim == Reclaim::Epochs;
        Self {
            index: Index::new(config).expect("a valid configuration"),
            same_tags: scenario.same_tags,
            answers: epochs.then(|| AtomicU64::new(0)),
            clock: Tally::new(0),
            events: Mutex::default(),
        }
    }

    fn act(&self, session: &mut Session<U64, E>, act: Act) {
        match act {
            Act::Do(position, op) => self.operate(session, position, op),
            Act::Heat(position) => {
                session.heat_next();
                self.operate(session, position, Op::Get);
            }
            Act::Grow => {
                session.grow();
            }
            Act::Shrink => {
                session.shrink();
            }
            Act::Collect => session.collect(),
            Act::Advance => session.advance(),
            Act::Scan(count, there) => self.scan(session, count, there),
            Act::Candidate(position) => {
                let hash = session.hash_of(&key_at(position, self.same_tags));
                E::make_candidate(session, hash);
            }
            Act::Complete(position) => {
                let hash = session.hash_of(&key_at(position, self.same_tags));
                E::complete(session, hash);
            }
        }
    }

    /// Keys present throughout must be met, and none twice.
    fn scan(&self, session: &mut Session<U64, E>, count: usize, there: &[u8]) {
        let (mut met, mut cursor) = (Vec::new(), 0);
        loop {
            cursor = session.scan(cursor, count, |key, _| met.push(key));
            if cursor == 0 {
                break;
            }
        }
        for &position in there {
            assert!(met.contains(&key_at(position, self.same_tags)), "a scan misses {position}");
        }
        met.sort_unstable();
        assert!(met.windows(2).all(|pair| pair[0] != pair[1]), "a scan visits a key twice");
    }

    fn answered(&self) {
        if let Some(answers) = &self.answers {
            answers.fetch_add(1, Ordering::AcqRel);
        }
    }

    fn operate(&self, session: &mut Session<U64, E>, position: u8, op: Op) {
        let key = key_at(position, self.same_tags);
        let call = self.clock.fetch_add(1, Ordering::Relaxed);
        self.answered();
        let outcome = operate(session, key, op);
        self.answered();
        let end = self.clock.fetch_add(1, Ordering::Relaxed);
        let event = Event { key: usize::from(position), op, outcome, call, end };
        self.events.lock().expect("one thread runs").push(event);
    }

    /// Reads every key once more, and judges everything.
    fn judge(&self, session: &mut Session<U64, E>) {
        let mut events = std::mem::take(&mut *self.events.lock().expect("one thread runs"));
        let mut keys: Vec<usize> = events.iter().map(|event| event.key).collect();
        keys.sort_unstable();
        keys.dedup();
        for key in keys {
            self.operate(session, key as u8, Op::Get);
            let last = self.events.lock().expect("one thread runs").pop().expect("just pushed");
            let Outcome::Value(value) = last.outcome else { unreachable!("a get") };
            events.push(last);
            let mut of_key: Vec<Event> = events.iter().filter(|e| e.key == key).copied().collect();
            of_key.sort_unstable_by_key(|event| event.call);
            assert!(
                is_linearizable(&of_key, State::default(), State::of(value)),
                "not linearizable, key {key}: {of_key:?}"
            );
        }
        E::check_at_rest(session, &self.index);
    }
}

/// The result of a scenario.
pub struct Report {
    pub executions: u64,
    pub elapsed: Duration,
    /// The complaint that ended it.
    pub complaint: Option<String>,
}

/// Runs a scenario in every order that the bounds allow.
pub fn explore<E: Checked>(scenario: &Scenario, how: Run) -> Report {
    let scenario = scenario.clone();
    let how = Run { preemptions: how.preemptions.or(Some(scenario.preemptions)), ..how };
    explore_with(how, move || execute::<E>(&scenario, how.fault))
}

/// Runs a body in every order that the bounds allow.
pub fn explore_with(how: Run, body: impl Fn() + Send + Sync + 'static) -> Report {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(how.preemptions.unwrap_or(PREEMPTIONS));
    builder.max_branches = STEPS_MAX;
    builder.max_duration = how.seconds.map(Duration::from_secs);
    let executions = Arc::new(Tally::new(0));
    let start = Instant::now();
    let count = executions.clone();
    let body = move || {
        count.fetch_add(1, Ordering::Relaxed);
        body();
    };
    let ended = catch_unwind(AssertUnwindSafe(|| builder.check(body)));
    let complaint = ended.err().map(|payload| {
        let text = payload.downcast_ref::<String>().cloned();
        text.or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).to_owned()))
            .unwrap_or_else(|| "a panic without a text".to_owned())
    });
    Report { executions: executions.load(Ordering::Relaxed), elapsed: start.elapsed(), complaint }
}

fn execute<E: Checked>(scenario: &Scenario, fault: Fault) {
    let world = Arc::new(World::<E>::new(scenario, fault));
    // Not dropped after a complaint: that would add steps to a run that is over.
    let session = || ManuallyDrop::new(world.index.session());
    let mut first = session();
    let begin = |early: bool| {
        let sessions = scenario.threads[1..].iter().filter(|_| scenario.sessions_first == early);
        sessions.map(|_| session()).collect::<Vec<_>>()
    };
    let early = begin(true);
    for &act in &scenario.setup {
        world.act(&mut first, act);
    }
    let others: Vec<_> = scenario.threads[1..]
        .iter()
        .zip(early.into_iter().chain(begin(false)))
        .map(|(acts, mut session)| {
            let (world, acts) = (world.clone(), acts.clone());
            loom::thread::spawn(move || {
                for act in acts {
                    world.act(&mut session, act);
                }
                session
            })
        })
        .collect();
    for &act in &scenario.threads[0] {
        world.act(&mut first, act);
    }
    for thread in others {
        let session = thread.join().expect("loom ends the run at a panic");
        drop(ManuallyDrop::into_inner(session));
    }
    world.judge(&mut first);
    drop(ManuallyDrop::into_inner(first));
}
