//! Connections of a thread whose replies wait for the write-ahead log.
//!
//! One task per thread waits for the log on behalf of all of them. So the log's writer is woken
//! once for many connections, and wakes the thread once when their records are safe. The task asks
//! the log when no other connection is ready, or when the first has waited for [`GATHER_MAX`]: a
//! busy thread gathers more connections per write or sync, an idle one asks at once.

use std::cell::{Cell, RefCell};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use hotring_log::{LogError, Lsn};

use super::yield_turn;
use hotring_commands::host::clock;
use hotring_commands::state::durability::Durability;

/// Longest time to gather connections before asking the log.
const GATHER_MAX: Duration = Duration::from_micros(200);

/// The wait of one connection.
pub(super) struct Wait {
    /// The record that the log must reach before the replies are sent.
    lsn: Lsn,
    /// Whether earlier replies, which do not wait, were still unsent.
    pub(super) has_others: bool,
    /// What waits are messages, which no client takes for an acknowledgement.
    pub(super) is_of_messages: bool,
    /// Since when it waits for replicas, if it does.
    pub(super) since: Option<Instant>,
    /// The round in which the connection was added to the waiters.
    added: Option<u64>,
}

impl Wait {
    pub(super) fn new(lsn: Lsn, has_others: bool) -> Wait {
        Wait { lsn, has_others, is_of_messages: false, since: None, added: None }
    }
}

/// The waiters of one thread.
#[derive(Default)]
pub(crate) struct Waiting {
    waiting: RefCell<Vec<(Lsn, Waker)>>,
    /// Incremented whenever some waiters are woken.
    round: Cell<u64>,
    /// The task that waits for all, if it must be woken for new waiters.
    task: Cell<Option<Waker>>,
    /// Counts turns of the thread's connections.
    turns: Cell<u64>,
    /// The arrival of the first waiter for which the log has not been asked yet.
    since: Cell<Option<Instant>>,
    /// `turns` at the last check.
    seen: Cell<Option<u64>>,
}

impl Waiting {
    /// Records that a connection has its turn.
    pub(super) fn count_turn(&self) {
        self.turns.set(self.turns.get() + 1);
    }

    /// Ready once the connection's record is as safe as the settings require, or with the reason
    /// why it never will be.
    pub(super) fn poll(
        &self,
        durability: &Durability,
        wait: &mut Wait,
        waker: &Waker,
    ) -> Poll<Result<(), LogError>> {
        if durability.has_reached(wait.lsn) {
            return Poll::Ready(Ok(()));
        }
        if let Some(error) = durability.error_for(wait.lsn) {
            return Poll::Ready(Err(error));
        }
        // A woken waiter has left the list. A waiter that a round did not wake is still in it, and is
        // then listed twice, which is harmless.
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

    /// The thread's task: wakes connections as the log advances, or on an error.
    pub(crate) async fn wake_all(&self, durability: &Durability) {
        std::future::poll_fn(|cx| self.poll_all(durability, cx)).await
    }

    fn poll_all(&self, durability: &Durability, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let first = self.waiting.borrow().iter().map(|(lsn, _)| *lsn).min();
            let Some(first) = first else { break };
            if self.should_gather() {
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

    /// Whether to go on gathering waiters before asking the log.
    fn should_gather(&self) -> bool {
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

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::rc::Rc;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use hotring_log::storage::memory::{Memory, Step};
    use hotring_log::{AckWhen, Effect, Log, Options, Records, Recovered, Writer};
    use tokio::task::{JoinHandle, spawn_local, yield_now};

    use super::*;
    use hotring_commands::host::threads::event_loop;
    use hotring_commands::state::snapshots::{Saved, Snapshots};

    const CONNECTIONS: usize = 20;

    /// The parts of a thread that matter here.
    struct Fixture {
        memory: Memory,
        log: Arc<Log>,
        durability: Durability,
        waiting: Waiting,
    }

    /// Closes the log so that the writer ends, even if the test has failed.
    struct Closes<'a>(&'a Log);

    impl Drop for Closes<'_> {
        fn drop(&mut self) {
            self.0.close();
        }
    }

    impl Fixture {
        fn new() -> Rc<Fixture> {
            let (memory, log) = (Memory::new(), Arc::new(Log::new(0, AckWhen::Written, 1 << 20)));
            let disk = Arc::new(memory.clone());
            let snapshots = Snapshots::new(disk, [1; 16], log.clone(), Saved::default());
            let durability = Durability::of(log.clone(), snapshots);
            Rc::new(Fixture { memory, log, durability, waiting: Waiting::default() })
        }

        /// A connection that has written a record, until it knows the outcome.
        async fn write(self: Rc<Self>) -> Result<(), LogError> {
            let mut records = Records::new();
            records.push(&Effect::Clear);
            let mut wait = Wait::new(self.log.append(&mut records), false);
            std::future::poll_fn(|cx| {
                self.waiting.count_turn();
                self.waiting.poll(&self.durability, &mut wait, cx.waker())
            })
            .await
        }

        fn connections(self: &Rc<Self>) -> Vec<JoinHandle<Result<(), LogError>>> {
            (0..CONNECTIONS).map(|_| spawn_local(self.clone().write())).collect()
        }

        /// Runs a thread.
        fn run(self: &Rc<Self>, future: impl Future<Output = ()>) {
            event_loop().unwrap().block_on(async {
                let all = self.clone();
                spawn_local(async move { all.waiting.wake_all(&all.durability).await });
                future.await;
            });
        }

        /// Runs a thread with a log writer beside it.
        fn run_with_writer(self: &Rc<Self>, future: impl Future<Output = ()>) {
            let (disk, begun) = (Arc::new(self.memory.clone()), Recovered::nothing(1));
            let options = Options::new([1; 16]);
            let (mut writer, _syncer) = Writer::new(self.log.clone(), disk, options, &begun);
            std::thread::scope(|scope| {
                scope.spawn(move || {
                    while writer.step(Duration::ZERO) {
                        writer.wait();
                    }
                });
                let _closes = Closes(&self.log);
                self.run(future);
            });
        }
    }

    #[test]
    fn connections_that_are_ready_together_share_a_write() {
        let fixture = Fixture::new();
        let writes = Arc::new(AtomicUsize::new(0));
        let counts = writes.clone();
        fixture.memory.before_each(move |_, step| {
            // ORDERING: Relaxed, a count that is read at the end.
            counts.fetch_add(usize::from(step == Step::Write), Ordering::Relaxed);
        });
        fixture.run_with_writer(async {
            for connection in fixture.connections() {
                connection.await.unwrap().unwrap();
            }
        });
        // The segment's header and the log's end are written too, and the writer may have run on
        // its own in between. ORDERING: Relaxed, as above.
        assert!(writes.load(Ordering::Relaxed) <= 5, "{writes:?} writes");
    }

    #[test]
    fn a_thread_that_is_always_busy_asks_the_log_all_the_same() {
        let fixture = Fixture::new();
        fixture.run_with_writer(async {
            let connections = fixture.connections();
            let begun = Instant::now();
            while connections.iter().any(|connection| !connection.is_finished()) {
                fixture.waiting.count_turn();
                assert!(begun.elapsed() < Duration::from_secs(10), "the log was not asked");
                yield_now().await;
            }
        });
    }

    #[test]
    fn all_waiters_learn_of_an_error() {
        let fixture = Fixture::new();
        fixture.memory.fail(Step::Write, 0, 1, ErrorKind::Other);
        fixture.run_with_writer(async {
            for connection in fixture.connections() {
                assert!(!connection.await.unwrap().unwrap_err().is_temporary);
            }
        });
    }

    #[test]
    fn waiters_follow_a_change_of_the_setting() {
        let fixture = Fixture::new();
        fixture.log.set_when(AckWhen::Synced);
        // No writer runs: records that were handed over are safe once the setting says that this is
        // enough.
        fixture.run(async {
            let connections = fixture.connections();
            for _ in 0..10 {
                yield_now().await;
            }
            assert!(connections.iter().all(|connection| !connection.is_finished()));
            fixture.log.set_when(AckWhen::Written);
            yield_now().await;
            fixture.log.set_when(AckWhen::Handed);
            for connection in connections {
                connection.await.unwrap().unwrap();
            }
        });
    }
}
