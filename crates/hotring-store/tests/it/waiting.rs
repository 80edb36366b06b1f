//! Threads that wait for changes beside threads that write: every wait ends.
//!
//! A waiter blocks its thread until it is woken, without a time limit, so that a change that it is not
//! told of shows as a test that does not end. Not covered: expiry, which needs a clock.

use std::sync::Arc;
use std::task::{Wake, Waker};
use std::thread::Thread;

use hotring_store::{Options, SetOptions, Store, Watched};

const NOW: u64 = 1_000_000;
const ROUNDS: u64 = 5_000;

/// Wakes a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn waker() -> Waker {
    Arc::new(Unpark(std::thread::current())).into()
}

/// Two threads throw a counter back and forth: each waits until it has become odd or even.
#[test]
fn two_threads_take_turns_by_waiting_for_each_other() {
    for history in [0, 1] {
        let store = Store::new(Options { history, ..Options::default() }).unwrap();
        store.session().set(b"turn", b"0", SetOptions::default(), NOW).unwrap();
        let play = |first: u64| {
            let mut session = store.session();
            for turn in (first..ROUNDS).step_by(2) {
                let expected = turn.to_string();
                let watch =
                    session.watch(b"turn", Some(expected.as_bytes()), waker(), NOW).unwrap();
                while !watch.has_fired() {
                    std::thread::park();
                }
                assert_eq!(session.incr_by(b"turn", 1, NOW), Ok(turn as i64 + 1));
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| play(0));
            scope.spawn(|| play(1));
        });
        assert_eq!(store.stats().watches, 0);
    }
}

/// A session that sees an old value and waits is woken by the next write, alone or among others.
#[test]
fn a_change_between_two_looks_is_not_missed() {
    let store = Store::new(Options::default()).unwrap();
    let follow = || {
        let mut session = store.session();
        let mut wakes = 0u64;
        loop {
            let watch = session.watch(b"count", None, waker(), NOW).unwrap();
            // After the watch began: a later count comes with a change.
            let count = session.get(b"count", NOW, |v| v.to_vec()).unwrap_or_default();
            if count == ROUNDS.to_string().into_bytes() {
                return wakes;
            }
            while session.poll_watch(&watch, NOW) != Watched::Fired {
                std::thread::park();
            }
            wakes += 1;
        }
    };
    std::thread::scope(|scope| {
        let followers = [scope.spawn(follow), scope.spawn(follow)];
        let mut session = store.session();
        for i in 1..=ROUNDS {
            let count = i.to_string();
            if i % 3 == 0 {
                let pairs: [(&[u8], &[u8]); 2] = [(b"other", b"1"), (b"count", count.as_bytes())];
                session.mset(&pairs, NOW).unwrap();
            } else {
                session.set(b"count", count.as_bytes(), SetOptions::default(), NOW).unwrap();
            }
        }
        for follower in followers {
            assert!(follower.join().unwrap() <= ROUNDS);
        }
    });
    assert_eq!(store.stats().watches, 0);
}
