//! What the connections of one I/O thread share.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use hotring_coordinator::Embedded;
use tokio::sync::Notify;

use super::batch::Work;
use super::logged;
use hotring_commands::host::clock;
use hotring_commands::host::fiber::Fiber;
use hotring_commands::state::server::Server;

/// Idle runners that a thread keeps.
const RUNNERS_KEPT: usize = 4;

/// State shared by all connections of one thread.
pub(crate) struct Thread {
    /// The shared state of the server.
    pub server: Arc<Server>,
    /// The coordinator of this node, if the settings give it one.
    pub(super) embedded: Option<Embedded>,
    /// The index of the thread.
    pub index: usize,
    /// Set when the server stops: finish the requests that have arrived, then close.
    pub finishing: Cell<bool>,
    /// Idle runners.
    runners: RefCell<Vec<Runner>>,
    /// Batches that have stopped in the middle.
    pub(super) stopped: Cell<usize>,
    /// Connections that wait for the log.
    pub(super) logged: logged::Waiting,
    /// Whether any connection has had a turn lately.
    pub activity: Activity,
}

/// Tells the task that looks after an I/O thread whether its connections do anything.
#[derive(Default)]
pub(crate) struct Activity {
    has_turns: Cell<bool>,
    /// The task waits for a turn.
    awaited: Notify,
}

impl Activity {
    /// Records that a connection has its turn.
    pub(super) fn note(&self) {
        if !self.has_turns.replace(true) {
            self.awaited.notify_waiters();
        }
    }

    /// Whether any connection has had a turn since the last call.
    pub(crate) fn has_been_active(&self) -> bool {
        self.has_turns.replace(false)
    }

    /// Ready when a connection has a turn.
    pub(crate) async fn begins(&self) {
        self.awaited.notified().await;
    }
}

/// A fiber and the state of the batch on it.
pub(super) struct Runner {
    pub(super) fiber: Fiber,
    pub(super) work: Box<Work>,
}

impl Thread {
    /// The state of thread `index`.
    pub(crate) fn new(
        server: Arc<Server>,
        embedded: Option<Embedded>,
        index: usize,
        seed: u64,
    ) -> Self {
        let work = Work::new(&server, index, seed);
        let runners = RefCell::new(vec![Runner { fiber: Fiber::new(), work }]);
        Thread {
            server,
            embedded,
            index,
            finishing: Cell::new(false),
            runners,
            stopped: Cell::new(0),
            logged: logged::Waiting::default(),
            activity: Activity::default(),
        }
    }

    /// Takes an idle runner, or makes one: needed only while batches have stopped in the middle.
    pub(super) fn runner(&self) -> Runner {
        let free = self.runners.borrow_mut().pop();
        free.unwrap_or_else(|| {
            let seed = clock::unix_ms() ^ self.stopped.get() as u64;
            Runner { fiber: Fiber::new(), work: Work::new(&self.server, self.index, seed) }
        })
    }

    pub(super) fn give_back(&self, runner: Runner) {
        let mut runners = self.runners.borrow_mut();
        if runners.len() < RUNNERS_KEPT {
            runners.push(runner);
        }
    }

    /// Uses a runner's state outside a batch. `f` must not wait.
    pub(super) fn with_work<R>(&self, f: impl FnOnce(&mut Work) -> R) -> R {
        let mut runner = self.runner();
        let result = f(&mut runner.work);
        self.give_back(runner);
        result
    }

    /// Wakes connections once the log has the records that their replies acknowledge. Never ends.
    pub(crate) async fn wake_logged(&self) {
        self.logged.wake_all(&self.server.persist.durability).await;
    }

    /// Reclaims memory that commands have removed.
    pub(crate) fn collect(&self) {
        self.runners.borrow_mut().iter_mut().for_each(|runner| runner.work.executor.collect());
    }
}
