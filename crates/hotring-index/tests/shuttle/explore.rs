//! Many runs of a scenario, each under another schedule.

use crate::plan::{Random, Shape};
use crate::run::{RECORD, run};
use hotring_index::checks::Fault;
use shuttle::scheduler::{
    DataSource, PctScheduler, RandomDataSource, RandomScheduler, ReplayScheduler, Schedule,
    Scheduler, Task, TaskId,
};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Once};

/// Accesses of a run at most. No thread of the ring waits for another, so a run that takes longer
/// hangs; most have some hundred.
const STEPS_MAX: usize = 50_000;

/// The repeated run.
#[derive(Clone)]
pub struct Scenario {
    pub name: &'static str,
    pub run: Arc<dyn Fn(Fault) + Send + Sync>,
}

impl From<Shape> for Scenario {
    fn from(shape: Shape) -> Self {
        let name = shape.name;
        Self { name, run: Arc::new(move |fault| run(&Shape { fault, ..shape.clone() })) }
    }
}

/// How schedules are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Any thread at each access.
    Random,
    /// Probabilistic concurrency testing: fixed priorities, but for this many changes.
    Pct(usize),
    /// A thread goes on for a while, in some runs a short one, in some a long one.
    Bursts,
}

/// Those that every scenario is run under.
pub const ORDERS: [Order; 4] = [Order::Random, Order::Pct(3), Order::Pct(8), Order::Bursts];

impl Order {
    fn scheduler(self, seed: u64, runs: usize) -> Box<dyn Scheduler + Send> {
        match self {
            Self::Random => Box::new(RandomScheduler::new_from_seed(seed, runs)),
            Self::Pct(depth) => Box::new(PctScheduler::new_from_seed(seed, depth, runs)),
            Self::Bursts => Box::new(Bursts::new(seed, runs)),
        }
    }
}

/// Runs the real thing; a failure is printed with all that is needed to see it again.
pub fn explore(scenario: &Scenario, order: Order, seed: u64, runs: usize) {
    let scheduler = order.scheduler(seed, runs);
    if let Err(payload) = under(scenario, Fault::None, scheduler, FailurePersistence::Print) {
        report(scenario, &format!("{order:?}, seed {seed}"));
        eprintln!("again: HOTRING_SHUTTLE_REPLAY='{}:' and the schedule above", scenario.name);
        resume_unwind(payload);
    }
}

/// Runs the schedule that an earlier failure printed.
pub fn replay(scenario: &Scenario, schedule: &str) {
    let schedule: String = schedule.split_whitespace().collect();
    let scheduler = Box::new(ReplayScheduler::new_from_encoded(&schedule));
    if let Err(payload) = under(scenario, Fault::None, scheduler, FailurePersistence::None) {
        report(scenario, "replayed");
        resume_unwind(payload);
    }
}

fn report(scenario: &Scenario, how: &str) {
    RECORD.with_borrow(|record| {
        eprintln!("scenario {}, {how}\n{}", scenario.name, record.plan);
        for event in &record.history {
            eprintln!("  {event:?}");
        }
    });
}

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
    static RUNS: Cell<usize> = const { Cell::new(0) };
}

/// Runs a wrong variant until it fails; quietly. Returns the number of runs, and the message.
pub fn fails(
    scenario: &Scenario,
    fault: Fault,
    order: Order,
    seed: u64,
    runs: usize,
) -> Option<(usize, String)> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                hook(info);
            }
        }));
    });
    QUIET.set(true);
    RUNS.set(0);
    let result = under(scenario, fault, order.scheduler(seed, runs), FailurePersistence::None);
    QUIET.set(false);
    let complaint = result.err()?;
    let text = complaint
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| complaint.downcast_ref::<&str>().map(ToString::to_string));
    Some((RUNS.get(), text.unwrap_or_default()))
}

fn under(
    scenario: &Scenario,
    fault: Fault,
    scheduler: Box<dyn Scheduler + Send>,
    persistence: FailurePersistence,
) -> std::thread::Result<()> {
    let mut config = Config::new();
    config.silence_warnings = true;
    config.max_steps = MaxSteps::FailAfter(STEPS_MAX);
    config.failure_persistence = persistence;
    config.stack_size = 256 << 10;
    let run = scenario.run.clone();
    catch_unwind(AssertUnwindSafe(|| {
        Runner::new(scheduler, config).run(move || {
            RUNS.set(RUNS.get() + 1);
            run(fault);
        });
    }))
}

/// Stays with a thread, and goes to another one with a chance that each run draws again, from one in
/// two to one in 256. Uniform choices alone never leave a thread behind for long.
struct Bursts {
    left: usize,
    data: RandomDataSource,
    random: Random,
    one_in: u64,
}

impl Bursts {
    fn new(seed: u64, runs: usize) -> Self {
        let data = RandomDataSource::initialize(seed);
        Self { left: runs, data, random: Random::new(seed), one_in: 1 }
    }
}

impl Scheduler for Bursts {
    fn new_execution(&mut self) -> Option<Schedule> {
        self.left = self.left.checked_sub(1)?;
        let seed = self.data.reinitialize();
        self.random = Random::new(seed);
        self.one_in = 2 << self.random.below(8);
        Some(Schedule::new(seed))
    }

    fn next_task(
        &mut self,
        runnable: &[&Task],
        current: Option<TaskId>,
        is_yielding: bool,
    ) -> Option<TaskId> {
        let stays = !is_yielding && self.random.below(self.one_in) != 0;
        match current {
            Some(current) if stays && runnable.iter().any(|task| task.id() == current) => {
                Some(current)
            }
            _ => Some(self.random.of(runnable).id()),
        }
    }

    fn next_u64(&mut self) -> u64 {
        self.data.next_u64()
    }
}
