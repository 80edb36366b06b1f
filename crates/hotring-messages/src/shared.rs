//! A client that many threads use: a thread of its own drives the connection, and runs a function with each outcome.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::task::Waker;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::caller::{Batch, Login, Options, Outcome, Ticket, Unstarted};
use crate::link::Link;
use crate::message::Operation;

/// The longest sleep of the thread. Calls and what arrives end it.
const SLEEP_MAX: Duration = Duration::from_secs(3600);

/// A client of any number of threads.
///
/// Calls of several threads are in flight together, as many as the options of [`connect`](Self::connect) allow; the
/// others wait in their order.
#[derive(Debug)]
pub struct Shared {
    /// None once the client ends.
    calls: Option<Sender<Start>>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
    open: Arc<AtomicUsize>,
    options: Options,
}

/// How the thread behaves.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Most calls in flight. Each takes a slot of [`Options::message_len_max`] bytes.
    pub in_flight_max: u32,
    /// How long the thread looks for replies without sleeping: answers come sooner, and a processor is busy meanwhile.
    pub spin: Duration,
}

/// A call on its way to the thread.
struct Start {
    batch: Batch,
    deadline: Instant,
    done: Done,
}

type Done = Box<dyn FnOnce(Outcome) + Send>;

impl Shared {
    /// Connects to `HOST:PORT` or `unix:PATH`, or over a provider of libfabric to one of these, as in `shm,unix:PATH`.
    /// The login is checked with the first call.
    ///
    /// # Errors
    /// No server listens there, the login is too long for a message, or the thread cannot be started.
    pub fn connect(
        address: &str,
        login: Login,
        options: Options,
        pace: Pace,
    ) -> io::Result<Shared> {
        // The answer to a greeting takes a slot, too.
        let mut link =
            Link::connect(address, login, options, pace.in_flight_max.max(1).saturating_add(1))?;
        let waker = link.waker();
        let (calls, started) = mpsc::channel();
        let thread = std::thread::Builder::new().name("messages".into());
        let thread = thread.spawn(move || Driver::new(link).run(&started, pace.spin))?;
        let (calls, thread) = (Some(calls), Some(thread));
        Ok(Shared { calls, waker, thread, open: Arc::default(), options })
    }

    /// Begins a call, which ends within `limit`. `done` runs on the client's thread: it must not wait, panic, or drop
    /// the client.
    ///
    /// # Errors
    /// The call was not begun: nothing was done, and `done` will not run.
    pub fn submit(
        &self,
        operations: &[Operation<'_>],
        limit: Duration,
        done: impl FnOnce(Outcome) + Send + 'static,
    ) -> Result<(), Unstarted> {
        let batch = Batch::new(operations, &self.options)?;
        // What is beyond all clocks has no end.
        let deadline = Instant::now().checked_add(limit);
        let deadline = deadline.unwrap_or_else(|| Instant::now() + SLEEP_MAX * 24 * 365);
        // A count: nothing else is published by it.
        if self.open.fetch_add(1, Ordering::Relaxed) >= self.options.queue_max {
            self.open.fetch_sub(1, Ordering::Relaxed);
            return Err(Unstarted::QueueFull);
        }
        let open = self.open.clone();
        let done = Box::new(move |outcome| {
            open.fetch_sub(1, Ordering::Relaxed);
            done(outcome);
        });
        let calls = self.calls.as_ref().expect("the client is not dropped");
        if calls.send(Start { batch, deadline, done }).is_err() {
            // The thread ends before the client only by a fault, and then tells nothing.
            self.open.fetch_sub(1, Ordering::Relaxed);
            return Err(Unstarted::QueueFull);
        }
        self.waker.wake_by_ref();
        Ok(())
    }

    /// Runs operations as one request, and waits for the outcome, at most for `limit`.
    ///
    /// # Errors
    /// The call was not begun: nothing was done.
    pub fn call(
        &self,
        operations: &[Operation<'_>],
        limit: Duration,
    ) -> Result<Outcome, Unstarted> {
        let (told, outcome) = mpsc::sync_channel(1);
        self.submit(operations, limit, move |outcome| {
            // There is room for one, and the caller waits.
            let _ = told.send(outcome);
        })?;
        Ok(outcome.recv().unwrap_or(Outcome::Unknown))
    }
}

impl Drop for Shared {
    /// Ends the calls that are under way: the fate of writes that were sent is unknown.
    fn drop(&mut self) {
        self.calls = None;
        self.waker.wake_by_ref();
        if let Some(thread) = self.thread.take() {
            // It has no result. A panic was reported when it happened.
            let _ = thread.join();
        }
    }
}

/// The thread's state.
struct Driver {
    link: Link,
    open: BTreeMap<Ticket, Done>,
}

impl Driver {
    fn new(link: Link) -> Driver {
        Driver { link, open: BTreeMap::new() }
    }

    fn run(mut self, started: &Receiver<Start>, spin: Duration) {
        while self.take_calls(started) != Taken::Last {
            // This looks at the alarm. What came before must not be left without one: it is taken before any wait.
            self.link.step();
            self.tell();
            if self.take_calls(started) != Taken::None {
                continue;
            }
            // Nothing is awaited: a processor that looked all the time would be wasted.
            let spin = if self.open.is_empty() { Duration::ZERO } else { spin };
            self.link.wait(spin, SLEEP_MAX);
        }
        self.link.client.end_all();
        self.tell();
    }

    fn tell(&mut self) {
        while let Some((ticket, outcome)) = self.link.client.take() {
            let done = self.open.remove(&ticket).expect("each call ends once");
            done(outcome);
        }
    }

    /// Begins the calls that have come.
    fn take_calls(&mut self, started: &Receiver<Start>) -> Taken {
        let mut taken = Taken::None;
        loop {
            match started.try_recv() {
                Ok(Start { batch, deadline, done }) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    let ticket = self.link.client.start_batch(batch, self.link.now() + left);
                    self.open.insert(ticket, done);
                    taken = Taken::Some;
                }
                Err(TryRecvError::Empty) => return taken,
                Err(TryRecvError::Disconnected) => return Taken::Last,
            }
        }
    }
}

/// Whether calls have come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Taken {
    None,
    Some,
    /// There will be no more.
    Last,
}
