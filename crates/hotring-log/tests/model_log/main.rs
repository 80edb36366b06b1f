//! The queue between sessions and the writer under `loom`: every order of its steps up to a bound
//! on preemptions, with every value that the memory orders allow a load to return.
//!
//! This compiles the log's own `src/log.rs` with loom's atomics and locks, and with time that never
//! passes: a lost wake-up leaves a thread waiting for ever. With real threads, the next record or a
//! time limit would save it, and tests would not notice.
//!
//! The second half are negative controls: the same tests with a step left out must fail. Each runs
//! in its own process, as a thread that waits for ever ends loom's whole process.
//!
//! Not covered: more than two sessions; files, syncs and their failures, which `tests/it` covers.
#![cfg(loom)]

#[path = "../../src/log.rs"]
#[allow(dead_code)]
mod log;
mod record;
mod sync;

use std::process::{Command, Stdio};
use std::task::{Poll, Wake, Waker};

use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use log::{AckWhen, Log};
use record::{Group, Lsn, Records};
use sync::{LEFT_OUT, Step};

const PREEMPTIONS: usize = 3;

/// A thread's wake-up, and where it waits for it.
struct Bell {
    rung: Mutex<bool>,
    changed: Condvar,
}

impl Wake for Bell {
    fn wake(self: std::sync::Arc<Self>) {
        *self.rung.lock().unwrap() = true;
        self.changed.notify_one();
    }
}

/// Polls, and again only when woken.
fn wait_for<T>(mut poll: impl FnMut(&Waker) -> Poll<T>) -> T {
    let bell = std::sync::Arc::new(Bell { rung: Mutex::new(false), changed: Condvar::new() });
    let waker = Waker::from(bell.clone());
    loop {
        if let Poll::Ready(value) = poll(&waker) {
            return value;
        }
        let mut rung = bell.rung.lock().unwrap();
        while !*rung {
            rung = bell.changed.wait(rung).unwrap();
        }
        *rung = false;
    }
}

/// Appends a record and waits until it may be acknowledged.
fn append_and_wait(log: &Log) -> Lsn {
    let last = log.append(&mut Records::one());
    wait_for(|waker| log.poll_reached(last, waker)).expect("there is no error");
    assert!(log.has_reached(last));
    last
}

/// Takes the queued records and reports them as written, and as synced if the writer must sync.
fn step(log: &Log) -> Lsn {
    let mut group = Group::default();
    let first = log.take(&mut group);
    let last = first - 1 + group.count();
    if !group.is_empty() {
        log.set_written(last, group.len() as u64);
    }
    if log.when() == AckWhen::Synced {
        log.set_synced(last);
    }
    last
}

/// Writes until this record is written, waiting in between as the writer does, either while records
/// come or after a quiet time.
fn write_until(log: &Log, last: Lsn, is_idle: bool) {
    while step(log) < last {
        log.wait(Log::LINGER, !is_idle);
    }
}

fn explore(preemptions: usize, scenario: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(scenario);
}

/// One session, whose record comes after a quiet time, or while the writer is active.
fn one_waits(when: AckWhen, is_idle: bool) {
    explore(PREEMPTIONS, move || {
        let log = Arc::new(Log::new(0, when, 1 << 20));
        let writing = {
            let log = log.clone();
            thread::spawn(move || write_until(&log, 1, is_idle))
        };
        append_and_wait(&log);
        writing.join().unwrap();
    });
}

/// Two sessions: the record of one may be in the other's group or behind it.
fn two_wait() {
    explore(PREEMPTIONS - 1, || {
        let log = Arc::new(Log::new(0, AckWhen::Written, 1 << 20));
        let session = |log: &Arc<Log>| {
            let log = log.clone();
            thread::spawn(move || append_and_wait(&log))
        };
        let first = session(&log);
        let second = session(&log);
        write_until(&log, 2, false);
        let both = first.join().unwrap() + second.join().unwrap();
        assert_eq!(both, 3, "each record has a number of its own");
    });
}

/// A session that waits for space gets it when the queued records are written.
fn room() {
    explore(PREEMPTIONS, || {
        let log = Arc::new(Log::new(0, AckWhen::Handed, 0));
        log.append(&mut Records::one());
        let waiting = {
            let log = log.clone();
            thread::spawn(move || wait_for(|waker| log.poll_space(waker)))
        };
        write_until(&log, 1, false);
        waiting.join().unwrap();
        assert!(!log.is_full());
    });
}

/// A change of the setting reaches a session that is already waiting.
fn setting() {
    explore(PREEMPTIONS, || {
        let log = Arc::new(Log::new(0, AckWhen::Synced, 1 << 20));
        let waiting = {
            let log = log.clone();
            thread::spawn(move || append_and_wait(&log))
        };
        log.set_when(AckWhen::Handed);
        waiting.join().unwrap();
    });
}

#[test]
fn a_session_is_woken_once_its_record_is_written() {
    for when in [AckWhen::Written, AckWhen::Synced] {
        one_waits(when, false);
        one_waits(when, true);
    }
}

#[test]
fn two_sessions_are_woken() {
    two_wait();
}

#[test]
fn a_session_gets_room() {
    room();
}

#[test]
fn a_session_hears_of_a_setting() {
    setting();
}

/// Requires that a test fails without this step.
fn must_fail(test: &str, step: Step) {
    let mut child = Command::new(std::env::current_exe().expect("the tests run from a file"));
    child.args(["--exact", test]).env(LEFT_OUT, format!("{step:?}"));
    let status = child.stdout(Stdio::null()).stderr(Stdio::null()).status();
    assert!(!status.expect("it starts").success(), "{test} passes without {step:?}");
}

#[test]
fn a_wake_up_before_the_store_gets_lost() {
    must_fail("a_session_is_woken_once_its_record_is_written", Step::StoreFirst);
    must_fail("two_sessions_are_woken", Step::StoreFirst);
}

#[test]
fn without_a_second_look_a_wake_up_gets_lost() {
    must_fail("a_session_is_woken_once_its_record_is_written", Step::SecondLook);
    must_fail("a_session_gets_room", Step::SecondLook);
}

#[test]
fn a_writer_that_ignores_waiters_leaves_them_waiting() {
    must_fail("a_session_is_woken_once_its_record_is_written", Step::LookForWaiters);
}

#[test]
fn a_session_that_wakes_no_writer_waits_for_ever() {
    must_fail("a_session_is_woken_once_its_record_is_written", Step::Urgent);
}
