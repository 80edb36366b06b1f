//! Tests with threads: many append while the writer and the syncer run, and each waiter must be
//! woken. A lost wake-up ends in a timeout.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use fastrand::Rng;
use hotring_log::storage::memory::Memory;
use hotring_log::{AckWhen, Log, Options, Recovered, Syncer, Writer};

use crate::workload::{Batch, ID, draw, recovered};

/// Far more than any step takes.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A thread, and whether it was woken.
struct Unpark(Thread, AtomicBool);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        // ORDERING: Release pairs with the Acquire in `wait_for`: the waker's earlier operations
        // are visible then.
        self.1.store(true, Ordering::Release);
        self.0.unpark();
    }
}

/// Waits until it is ready. Must poll again only when woken: polling after a while would hide a
/// lost wake-up.
fn wait_for<T>(what: &str, mut poll: impl FnMut(&Waker) -> Poll<T>) -> T {
    let bell = Arc::new(Unpark(thread::current(), AtomicBool::new(false)));
    let waker = Waker::from(bell.clone());
    let end = Instant::now() + TIMEOUT;
    loop {
        if let Poll::Ready(value) = poll(&waker) {
            return value;
        }
        // ORDERING: Acquire pairs with the Release in `wake`.
        while !bell.1.swap(false, Ordering::Acquire) {
            let left = end.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "no wake-up for {what}");
            thread::park_timeout(left);
        }
    }
}

/// Time stands still for the writer: a periodic sync would wake threads whose wake-up was lost.
fn run_writer(mut writer: Writer) {
    while writer.step(Duration::ZERO) {
        writer.wait();
    }
}

fn run_syncer(syncer: &Syncer) {
    while syncer.wait() {
        syncer.step();
    }
}

/// Appends `count` batches and waits for each, or for some.
fn append(log: &Log, thread: usize, count: usize) -> Vec<Batch> {
    let (mut random, mut order) = (Rng::with_seed(thread as u64), Vec::new());
    for _ in 0..count {
        let (mut records, bytes) = draw(&mut random, thread);
        wait_for("room", |waker| log.poll_space(waker));
        let last = log.append(&mut records);
        if random.usize(..4) > 0 {
            wait_for("a record", |waker| log.poll_reached(last, waker)).unwrap();
            assert!(log.has_reached(last));
        }
        order.push((last, bytes));
    }
    order
}

fn threads(when: AckWhen, unwritten_max: u64) {
    let memory = Memory::new();
    let log = Arc::new(Log::new(0, when, unwritten_max));
    let options = Options { segment_len: 256 << 10, ..Options::new(ID) };
    let storage = Arc::new(memory.clone());
    let (writer, syncer) = Writer::new(log.clone(), storage, options, &Recovered::nothing(1));
    let mut order: Vec<Batch> = thread::scope(|scope| {
        let writing = scope.spawn(|| run_writer(writer));
        let appending: Vec<_> = (0..4)
            .map(|n| {
                scope.spawn({
                    let log = log.clone();
                    move || append(&log, n, 300)
                })
            })
            .collect();
        let ended: Vec<_> = appending.into_iter().map(|thread| thread.join()).collect();
        // Not earlier: it wakes waiters, too.
        let syncing = scope.spawn(|| run_syncer(&syncer));
        log.close();
        writing.join().unwrap();
        syncing.join().unwrap();
        ended.into_iter().flat_map(|order| order.expect("no wake-up gets lost")).collect()
    });
    order.sort_unstable();
    assert_eq!((log.written(), log.synced(), log.unwritten()), (log.handed(), log.handed(), 0));
    let (report, batches) = recovered(&memory, 1).unwrap();
    assert_eq!(report.last, log.handed());
    assert!(batches == order, "what was recovered is something else");
}

#[test]
fn each_thread_is_woken_once_its_record_is_synced() {
    threads(AckWhen::Synced, 1 << 20);
}

#[test]
fn each_thread_is_woken_once_its_record_is_written() {
    threads(AckWhen::Written, 1 << 20);
}

#[test]
fn a_thread_that_waits_for_room_gets_it() {
    threads(AckWhen::Written, 2_000);
    threads(AckWhen::Handed, 2_000);
}

#[test]
fn a_waiter_is_woken_by_a_changed_setting_and_by_an_error() {
    let memory = Memory::new();
    let log = Arc::new(Log::new(0, AckWhen::Synced, 1 << 20));
    let storage = Arc::new(memory.clone());
    let (writer, _syncer) =
        Writer::new(log.clone(), storage, Options::new(ID), &Recovered::nothing(1));
    let waiting = AtomicUsize::new(0);
    thread::scope(|scope| {
        let wait = |lsn| {
            wait_for("a word", |waker| {
                let polled = log.poll_reached(lsn, waker);
                // ORDERING: Release pairs with the Acquire below.
                waiting.fetch_add(usize::from(polled.is_pending()), Ordering::Release);
                polled
            })
        };
        let let_wait = |count| {
            // ORDERING: Acquire pairs with the Release above.
            while waiting.load(Ordering::Acquire) < count {
                thread::yield_now();
            }
        };
        let last = log.append(&mut draw(&mut Rng::with_seed(1), 0).0);
        let first = scope.spawn(move || wait(last));
        let_wait(1);
        log.set_when(AckWhen::Handed);
        assert!(first.join().unwrap().is_ok());
        log.set_when(AckWhen::Written);
        let second = scope.spawn(move || wait(last));
        let_wait(2);
        memory.fail(hotring_log::storage::memory::Step::Write, 0, 1, std::io::ErrorKind::Other);
        let writing = scope.spawn(|| run_writer(writer));
        assert!(!second.join().unwrap().unwrap_err().is_temporary);
        log.close();
        writing.join().unwrap();
    });
}

#[test]
fn records_without_waiters_are_written_soon() {
    let memory = Memory::new();
    let log = Arc::new(Log::new(0, AckWhen::Handed, 1 << 20));
    let storage = Arc::new(memory.clone());
    let (writer, _syncer) =
        Writer::new(log.clone(), storage, Options::new(ID), &Recovered::nothing(1));
    thread::scope(|scope| {
        let writing = scope.spawn(|| run_writer(writer));
        for seed in 0..20 {
            let last = log.append(&mut draw(&mut Rng::with_seed(seed), 0).0);
            let end = Instant::now() + TIMEOUT;
            while log.written() < last {
                assert!(Instant::now() < end, "record {last} is not written");
                thread::sleep(Duration::from_millis(1));
            }
        }
        log.close();
        writing.join().unwrap();
    });
}

#[test]
fn a_dropped_writer_leaves_no_waiter() {
    let log = Arc::new(Log::new(0, AckWhen::Synced, 1 << 20));
    let storage = Arc::new(Memory::new());
    let (writer, syncer) =
        Writer::new(log.clone(), storage, Options::new(ID), &Recovered::nothing(1));
    let last = log.append(&mut draw(&mut Rng::with_seed(1), 0).0);
    thread::scope(|scope| {
        let waits = scope.spawn(|| wait_for("a word", |waker| log.poll_reached(last, waker)));
        drop(writer);
        assert!(!waits.join().unwrap().unwrap_err().is_temporary);
    });
    assert!(!syncer.wait());
}
