//! Stackful coroutines for request batches: a batch runs on its own stack, so that it can be suspended deep inside a
//! command while its thread serves other connections.
//!
//! A [`Fiber`] runs one batch after the other. A batch that is suspended ([`give_turn`], [`FiberWait`]) returns control
//! to its thread with a [`Step`], which determines when to resume the batch. A suspended batch keeps its work, which no
//! other batch uses, and the keys that it holds in the store. So a fiber must never be dropped while its batch is
//! suspended: every batch must run to its end.
//!
//! A batch must not be suspended while it holds a lock of the standard library: the next batch of the same thread that
//! takes the lock would block for ever. Locks that are held where a batch may be suspended must be taken by [`lock`].

#![expect(
    deprecated,
    reason = "`may` is built on the yield without a scope, which therefore stays"
)]

use std::any::Any;
use std::cell::Cell;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use hotring_store::Wait;

use generator::{Generator, Gn, get_yield, is_generator, yield_with};

/// The size of a stack in words: 2 MiB, as for threads. Only touched pages take memory.
const STACK_WORDS: usize = (2 << 20) / size_of::<usize>();

/// The time slice of a batch, after which other connections get a turn.
pub(crate) const SLICE: Duration = Duration::from_millis(1);

/// The number of steps of a long command between two readings of the clock.
const STEPS: u32 = 256;

/// The maximum number of long commands of one thread that are in progress beyond their first time slice. Each may have
/// built a part of its reply, which no limit counts before the command ends. Other long commands wait after their first
/// slice.
const RESTING_MAX: u32 = 2;

thread_local! {
    /// Steps since the last reading of the clock.
    static STEP: Cell<u32> = const { Cell::new(0) };
    /// The first reading of the clock in the current slice.
    static BEGAN: Cell<Option<Instant>> = const { Cell::new(None) };
    /// The number of batches that are suspended in a long command beyond its first slice.
    static RESTING: Cell<u32> = const { Cell::new(0) };
}

/// The work of one batch.
pub trait Batch: Any {
    /// Runs the entire batch.
    fn run(&mut self);
}

/// The reason why a batch returns control to its thread.
pub enum Step {
    /// The batch is done.
    Done(Box<dyn Batch>),
    /// The batch must be resumed after other connections have had their turn.
    Turn,
    /// The batch asks for a waker, and must be resumed at once with [`Fiber::give_waker`].
    Asks,
    /// The batch must be resumed when its waker is woken.
    Waits,
}

/// The value with which a batch is started or resumed.
enum Given {
    Work(Box<dyn Batch>),
    Waker(Waker),
    Nothing,
}

/// A stack, and the batch that is suspended on it if there is one.
pub struct Fiber {
    /// None only while the fiber is dropped.
    generator: Option<Generator<'static, Given, Step>>,
    /// A batch is suspended.
    is_busy: bool,
}

impl Fiber {
    pub fn new() -> Fiber {
        let body = || {
            while let Some(Given::Work(mut work)) = get_yield::<Given>() {
                work.run();
                yield_with(Step::Done(work));
            }
            Step::Turn
        };
        let generator = Gn::<Given>::new_opt(STACK_WORDS, body);
        Fiber { generator: Some(generator), is_busy: false }
    }

    /// Starts a batch. The previous batch must be done.
    pub fn start(&mut self, work: Box<dyn Batch>) -> Step {
        debug_assert!(!self.is_busy, "one batch after the other");
        self.send(Given::Work(work))
    }

    /// Resumes the suspended batch.
    pub fn resume(&mut self) -> Step {
        self.send(Given::Nothing)
    }

    /// Resumes the batch that has asked for a waker.
    pub fn give_waker(&mut self, waker: Waker) -> Step {
        self.send(Given::Waker(waker))
    }

    fn send(&mut self, given: Given) -> Step {
        self.is_busy = true;
        BEGAN.set(None);
        let step = self.generator.as_mut().expect("only a drop takes it").send(given);
        self.is_busy = !matches!(step, Step::Done(_));
        step
    }
}

impl Drop for Fiber {
    fn drop(&mut self) {
        let Some(mut generator) = self.generator.take() else { return };
        if self.is_busy {
            // Only unwinding could free this stack, which is impossible because panics abort. The process is about to
            // end, so that the leak is harmless.
            std::mem::forget(generator);
        } else {
            // Ends the loop of the fiber, unless it has panicked.
            generator.raw_send(Some(Given::Nothing));
        }
    }
}

/// Gives the other connections of the thread a turn, if this runs on a fiber. The thread may run any other work before
/// this returns.
pub(crate) fn give_turn() {
    if is_generator() {
        yield_with(Step::Turn);
    }
}

/// Called at each step of a long command: gives other connections a turn when the time slice is over. The batch may
/// hold keys, but must not have an operation of the store in progress.
#[inline]
pub(crate) fn rest() {
    rest_among(RESTING_MAX, 1);
}

/// As [`rest`], after `steps` steps at once.
pub(crate) fn rest_after(steps: u32) {
    rest_among(RESTING_MAX, steps);
}

/// As [`rest_after`], with at most `others` suspended batches.
#[inline]
fn rest_among(others: u32, steps: u32) {
    let step = STEP.get() + steps;
    STEP.set(step % STEPS);
    if step >= STEPS {
        end_slice(others);
    }
}

#[cold]
fn end_slice(others: u32) {
    let now = Instant::now();
    let Some(began) = BEGAN.get() else { return BEGAN.set(Some(now)) };
    if now.duration_since(began) < SLICE || !is_generator() {
        return;
    }
    while RESTING.get() >= others {
        give_turn();
    }
    RESTING.set(RESTING.get() + 1);
    give_turn();
    RESTING.set(RESTING.get() - 1);
}

/// The way a batch waits for keys that another session holds: the batch is suspended, and its thread does other work.
pub(crate) struct FiberWait;

impl Wait for FiberWait {
    fn releases_thread(&self) -> bool {
        is_generator()
    }

    fn waker(&mut self) -> Waker {
        if is_generator() {
            yield_with(Step::Asks);
            if let Some(Given::Waker(waker)) = get_yield::<Given>() {
                return waker;
            }
        }
        struct Unpark(std::thread::Thread);
        impl Wake for Unpark {
            fn wake(self: Arc<Self>) {
                self.0.unpark();
            }
        }
        Arc::new(Unpark(std::thread::current())).into()
    }

    fn wait(&mut self) {
        match is_generator() {
            true => yield_with(Step::Waits),
            false => std::thread::park(),
        }
    }

    fn rest(&mut self) {
        // Other threads wait for the keys that the batch holds: it must not wait for a turn.
        rest_among(u32::MAX, 1);
    }
}

/// As `mutex.lock()`, for a lock that may be held by a suspended batch.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    loop {
        match mutex.try_lock() {
            Ok(guard) => return guard,
            Err(TryLockError::Poisoned(error)) => return error.into_inner(),
            Err(TryLockError::WouldBlock) if is_generator() => give_turn(),
            Err(TryLockError::WouldBlock) => std::thread::yield_now(),
        }
    }
}
