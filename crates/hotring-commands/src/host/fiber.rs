//! Stacks of their own for the batches that a thread runs, so that a batch can stop in the middle, deep inside of a
//! command, while its thread serves other connections.
//!
//! A [`Fiber`] runs one batch after the other. A batch that stops ([`give_turn`], [`Beside`]) gives its thread back
//! with a [`Step`] that says when to resume it. Meanwhile it keeps its work, which no other batch uses, and its keys in
//! the store. So a fiber must never be dropped in the middle: every batch runs to its end.
//!
//! A batch must not stop while it has a lock of the standard library: the next one of the same thread that asks
//! for it would wait for ever. Locks that are held where a batch may stop must be taken by [`lock`].

#![expect(
    deprecated,
    reason = "what yields without its scope is what `may` is built on, and stays"
)]

use std::any::Any;
use std::cell::Cell;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use hotring_store::Wait;

use generator::{Generator, Gn, get_yield, is_generator, yield_with};

/// Words of a stack: 2 MiB, as for threads. Only touched pages take memory.
const STACK_WORDS: usize = (2 << 20) / size_of::<usize>();

/// How long a batch runs before other connections have a turn.
pub(crate) const SLICE: Duration = Duration::from_millis(1);

/// Steps of a long command between two looks at the clock.
const STEPS: u32 = 256;

/// Long commands of one thread that may be in the middle together. Each may have gathered a reply that no limit counts
/// before its end. Others stop after their first slice.
const RESTING_MAX: u32 = 2;

thread_local! {
    /// Steps since the last look at the clock.
    static STEP: Cell<u32> = const { Cell::new(0) };
    /// When the present slice began, as far as it was looked.
    static BEGAN: Cell<Option<Instant>> = const { Cell::new(None) };
    /// Batches that are in the middle of a long command.
    static RESTING: Cell<u32> = const { Cell::new(0) };
}

/// The work of one batch.
pub trait Batch: Any {
    /// Runs all of it.
    fn run(&mut self);
}

/// How a batch gives its thread back.
pub enum Step {
    /// It is done.
    Done(Box<dyn Batch>),
    /// It continues after other connections have had their turn.
    Turn,
    /// It asks for a waker, and continues at once.
    Asks,
    /// It continues when its waker is woken.
    Waits,
}

/// The result with which a batch continues.
enum Given {
    Work(Box<dyn Batch>),
    Waker(Waker),
    Nothing,
}

/// A stack, and the batch that has stopped on it if there is one.
pub struct Fiber {
    /// None only while it is dropped.
    generator: Option<Generator<'static, Given, Step>>,
    /// A batch is in the middle.
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

    /// Begins the batch that `work` has. Only when the one before is done.
    pub fn start(&mut self, work: Box<dyn Batch>) -> Step {
        debug_assert!(!self.is_busy, "one batch after the other");
        self.send(Given::Work(work))
    }

    /// Goes on with the batch that has stopped.
    pub fn go_on(&mut self) -> Step {
        self.send(Given::Nothing)
    }

    /// Goes on with the batch that has asked for a waker.
    pub fn give(&mut self, waker: Waker) -> Step {
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
            // Its stack could only be unwound, which a panic that aborts cannot do. The process is about to end.
            std::mem::forget(generator);
        } else {
            // Its loop ends, unless it has panicked.
            generator.raw_send(Some(Given::Nothing));
        }
    }
}

/// Lets the other connections of the thread have a turn, if this runs on a fiber; the thread may do anything else
/// before this returns.
pub(crate) fn give_turn() {
    if is_generator() {
        yield_with(Step::Turn);
    }
}

/// Called at each step of a long command: lets other connections have a turn when a slice is over. The batch may hold
/// keys, but nothing of it may be in flight in the store.
#[inline]
pub(crate) fn rest() {
    let step = STEP.get() + 1;
    STEP.set(step % STEPS);
    if step == STEPS {
        end_slice();
    }
}

#[cold]
fn end_slice() {
    let now = Instant::now();
    let Some(began) = BEGAN.get() else { return BEGAN.set(Some(now)) };
    if now.duration_since(began) < SLICE || !is_generator() {
        return;
    }
    while RESTING.get() >= RESTING_MAX {
        give_turn();
    }
    RESTING.set(RESTING.get() + 1);
    give_turn();
    RESTING.set(RESTING.get() - 1);
}

/// How a batch waits for keys that another session holds: its thread does other work meanwhile.
pub(crate) struct Beside;

impl Wait for Beside {
    fn is_beside(&self) -> bool {
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
        rest();
    }
}

/// As `mutex.lock()`, for a lock with which a batch may stop.
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
