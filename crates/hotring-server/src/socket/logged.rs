//! The connections of a thread whose replies wait for the log.
//!
//! They wait here, and one task of the thread waits with the log for all of them: so the log's writer is woken once for
//! many, and wakes the thread once when their records are safe. It asks the log when no other connection of the thread
//! has anything to do, or when the first of them has waited for [`GATHER_MAX`]: a thread that is busy gathers more for
//! each write or sync, one that is not asks at once.

use std::cell::{Cell, RefCell};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use hotring_log::{Lsn, Trouble};

use super::yield_turn;
use crate::clock;
use crate::durability::Durability;

/// How long the log is not asked while others are served.
const GATHER_MAX: Duration = Duration::from_micros(200);

/// What a connection waits for.
pub(super) struct Wait {
    /// The record that the log must have reached before replies are sent.
    lsn: Lsn,
    /// There were other replies before.
    pub(super) has_others: bool,
    /// The round in which the connection was added to those that wait.
    added: Option<u64>,
}

impl Wait {
    pub(super) fn new(lsn: Lsn, has_others: bool) -> Wait {
        Wait { lsn, has_others, added: None }
    }
}

/// Those that wait.
#[derive(Default)]
pub(crate) struct Waiting {
    waiting: RefCell<Vec<(Lsn, Waker)>>,
    /// Counts how often some of them were woken.
    round: Cell<u64>,
    /// The task that waits for all, if it is to be told of more.
    task: Cell<Option<Waker>>,
    /// Counts how often connections had a turn.
    turns: Cell<u64>,
    /// Since when the first waits of whom the log knows nothing.
    since: Cell<Option<Instant>>,
    /// The turns so far when it was last looked.
    seen: Cell<Option<u64>>,
}

impl Waiting {
    /// A connection has its turn.
    pub(super) fn count_turn(&self) {
        self.turns.set(self.turns.get() + 1);
    }

    /// Ready once what the connection waits for is as safe as the settings want, or with the reason why it never
    /// will be.
    pub(super) fn poll(
        &self,
        durability: &Durability,
        wait: &mut Wait,
        waker: &Waker,
    ) -> Poll<Result<(), Trouble>> {
        if durability.has_reached(wait.lsn) {
            return Poll::Ready(Ok(()));
        }
        if let Some(trouble) = durability.trouble() {
            return Poll::Ready(Err(trouble));
        }
        // Who was woken is no longer there; who was not is, even if others were: then it is there twice, no more.
        if wait.added != Some(self.round.get()) {
            wait.added = Some(self.round.get());
            self.waiting.borrow_mut().push((wait.lsn, waker.clone()));
            if self.since.get().is_none() {
                self.since.set(Some(clock::monotonic()));
                self.seen.set(None);
            }
            if let Some(task) = self.task.take() {
                task.wake();
            }
        }
        Poll::Pending
    }

    /// The thread's task: wakes connections as the log gets along, or when there is trouble.
    pub(crate) async fn wake_all(&self, durability: &Durability) {
        std::future::poll_fn(|cx| self.poll_all(durability, cx)).await
    }

    fn poll_all(&self, durability: &Durability, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let first = self.waiting.borrow().iter().map(|(lsn, _)| *lsn).min();
            let Some(first) = first else { break };
            if self.gathers() {
                yield_turn(cx);
                return Poll::Pending;
            }
            let Poll::Ready(reached) = durability.poll_reached(first, cx.waker()) else { break };
            let goes_on =
                |(lsn, _): &mut (Lsn, Waker)| reached.is_err() || durability.has_reached(*lsn);
            let woken: Vec<_> = self.waiting.borrow_mut().extract_if(.., goes_on).collect();
            self.round.set(self.round.get() + 1);
            woken.into_iter().for_each(|(_, waker)| waker.wake());
        }
        self.task.set(Some(cx.waker().clone()));
        Poll::Pending
    }

    /// Whether the log is not to be asked yet for those of whom it knows nothing.
    fn gathers(&self) -> bool {
        let Some(since) = self.since.get() else { return false };
        let turns = Some(self.turns.get());
        let is_busy = self.seen.replace(turns) != turns;
        let goes_on = is_busy && since.elapsed() < GATHER_MAX;
        if !goes_on {
            self.since.set(None);
        }
        goes_on
    }
}
