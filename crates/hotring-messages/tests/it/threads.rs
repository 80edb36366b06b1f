//! A client that threads share, over real sockets.

use std::sync::{Barrier, mpsc};
use std::time::{Duration, Instant};

use crate::caller::{Login, Options, Outcome, Reason, Unstarted};
use crate::message::Operation;
use crate::shared::{Pace, Shared};
use crate::streams::{GET, INCREMENT, PATIENCE, SLOT_LEN, beside_server, value};

const THREADS: usize = 4;
const CALLS: usize = 200;
const ROUNDS: usize = 2000;

fn connect(address: &[u8], queue_max: usize, spin: Duration) -> Shared {
    let address = std::str::from_utf8(address).expect("a text");
    let (user, password) = (Vec::new(), b"right".to_vec());
    let login = Login { user, password };
    let options =
        Options { retry: PATIENCE, datagrams: None, queue_max, message_len_max: SLOT_LEN };
    let pace = Pace { in_flight_max: 3, spin };
    Shared::connect(address, login, options, pace).expect("it listens")
}

/// More calls wait than may be in flight; none is lost, done twice, or given another one's outcome.
#[test]
fn threads_share_a_client() {
    for spin in [Duration::ZERO, Duration::from_micros(50)] {
        beside_server("127.0.0.1:0", |address| {
            let client = connect(address, THREADS, spin);
            std::thread::scope(|scope| {
                for _ in 0..THREADS {
                    scope.spawn(|| {
                        let mut last = 0;
                        for _ in 0..CALLS {
                            let outcome = client.call(&[INCREMENT], PATIENCE).expect("it fits");
                            let (version, sum) = value(outcome);
                            assert_eq!(sum, version.to_string());
                            assert!(version > last, "{version} after {last}");
                            last = version;
                        }
                    });
                }
            });
            let outcome = client.call(&[GET], PATIENCE).expect("it fits");
            assert_eq!(value(outcome).1, (THREADS * CALLS).to_string());
        });
    }
}

/// A waiting call holds up no other one, and a full queue is told at once.
#[test]
fn calls_end_in_any_order() {
    beside_server("127.0.0.1:0", |address| {
        let client = connect(address, 2, Duration::ZERO);
        let (told, outcomes) = mpsc::channel();
        let wait = [Operation::WaitForChange { key: b"n", limit_ms: 60_000 }];
        let submit = |operations: &[Operation<'_>], name: &'static str| {
            let told = told.clone();
            client.submit(operations, PATIENCE, move |outcome| {
                told.send((name, outcome)).expect("the test listens");
            })
        };
        submit(&wait, "wait").expect("there is room");
        submit(&[Operation::Get { key: b"other" }], "get").expect("there is room");
        let (name, _) = outcomes.recv_timeout(PATIENCE).expect("nothing holds it up");
        assert_eq!(name, "get");
        submit(&wait, "wait").expect("the first place is free again");
        assert_eq!(submit(&[GET], "none"), Err(Unstarted::QueueFull));
        let begun = Instant::now();
        drop(client);
        for _ in 0..2 {
            let (name, outcome) = outcomes.recv_timeout(PATIENCE).expect("it ends");
            assert_eq!((name, outcome), ("wait", Outcome::NotDone(Reason::Late)));
        }
        assert!(begun.elapsed() < PATIENCE / 2, "a dropped client waits for nothing");
    });
}

#[test]
fn a_shared_client_connects_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("messages");
    let address = format!("unix:{}", path.display());
    let mut kept = None;
    beside_server(&address, |address| {
        let client = connect(address, 8, Duration::ZERO);
        value(client.call(&[INCREMENT], PATIENCE).expect("it fits"));
        kept = Some(client);
    });
    let client = kept.expect("it connected");
    std::fs::remove_file(&path).expect("the server has left it");
    let short = Duration::from_millis(100);
    let begun = Instant::now();
    let outcome = client.call(&[GET], short).expect("it fits");
    assert_eq!(outcome, Outcome::NotDone(Reason::Late), "nobody serves");
    assert!((short..PATIENCE / 2).contains(&begun.elapsed()), "{:?}", begun.elapsed());
    beside_server(&address, |_| {
        let (_, sum) = value(client.call(&[INCREMENT], PATIENCE).expect("it fits"));
        assert_eq!(sum, "1", "another server");
    });
}

/// Nothing else wakes the client's thread if it overlooks a call.
#[test]
fn calls_that_come_together_are_not_overlooked() {
    beside_server("127.0.0.1:0", |address| {
        let (client, barrier) = (connect(address, THREADS, Duration::ZERO), Barrier::new(2));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..ROUNDS {
                        barrier.wait();
                        let begun = Instant::now();
                        value(client.call(&[INCREMENT], PATIENCE).expect("it fits"));
                        assert!(begun.elapsed() < PATIENCE / 2, "it was overlooked");
                    }
                });
            }
        });
    });
}
