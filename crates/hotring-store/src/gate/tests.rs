//! Tests of the gate alone, with one counter for each stripe instead of keys.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

use std::time::{Duration, Instant};

use crate::gate::{Fault, Gate, Hold, STRIPES_ALL, stripes_of};
use crate::holds::Keys;

/// The hash of a key of the stripe.
fn key(stripe: u64) -> u64 {
    stripe << 58
}

/// A key of each of these stripes.
fn keys(mask: u64) -> Keys {
    Keys::new(&mut stripes_of(mask).map(|stripe| key(stripe as u64)).collect())
}

#[test]
fn masks_list_their_stripes() {
    assert_eq!(stripes_of(0).count(), 0);
    assert_eq!(stripes_of(1 << 63 | 5).collect::<Vec<_>>(), [0, 2, 63]);
    assert_eq!(stripes_of(STRIPES_ALL).count(), 64);
}

#[test]
fn counters_are_odd_only_while_something_is_in_flight() {
    let gate = Arc::new(Gate::new(Fault::None));
    let mut a = Gate::register(&gate);
    let mut b = Gate::register(&gate);
    assert!(b.snapshot_begin(&keys(0b110)));
    drop(a.write(key(0)));
    assert!(b.snapshot_end(&keys(0b110)), "another stripe");
    drop(a.write(key(1)));
    assert!(!b.snapshot_end(&keys(0b110)), "a write in between");
    let writing = a.write(key(1));
    assert!(!b.snapshot_begin(&keys(0b110)), "a write in flight");
    assert!(b.snapshot_begin(&keys(0b100)));
    drop(writing);
    assert!(b.snapshot_begin(&keys(0b110)));
    assert!(a.acquire(&keys(0b10), Hold::Read));
    assert!(b.snapshot_end(&keys(0b110)), "a reading hold spoils no snapshot");
    a.release();
    assert!(b.snapshot_begin(&keys(0b110)));
    a.acquire(&keys(0b10), Hold::WriteOnce);
    assert!(!b.snapshot_end(&keys(0b110)));
    a.release();
    assert!(b.snapshot_begin(&keys(0b110)));
    let late = Gate::register(&gate);
    assert!(!b.snapshot_end(&keys(0b110)), "a session that came in between");
    assert!(b.snapshot_begin(&keys(0b110)));
    drop(late);
    assert!(!b.snapshot_end(&keys(0b110)), "a session that left in between");
}

/// Threads that hold one to three of eight stripes, each guarding a plain counter that is not
/// updated atomically, against threads that write one. A lost update shows in the sums.
#[test]
fn holds_and_writes_exclude_each_other() {
    const ROUNDS: u64 = 20_000;
    let gate = Arc::new(Gate::new(Fault::None));
    let words: [AtomicU64; 8] = Default::default();
    let owners: [AtomicU64; 8] = Default::default();
    // A single-key write is atomic in the index; here it is so by the owner word.
    let bump = |i: usize, by_holder: bool| {
        if by_holder {
            assert_eq!(owners[i].load(Relaxed), 0, "a write in flight inside a hold");
            words[i].store(words[i].load(Relaxed) + 1, Relaxed);
        } else {
            owners[i].fetch_add(1, Relaxed);
            words[i].fetch_add(1, Relaxed);
            owners[i].fetch_sub(1, Relaxed);
        }
    };
    std::thread::scope(|scope| {
        for thread in 0..2u64 {
            let (gate, bump) = (&gate, &bump);
            scope.spawn(move || {
                let mut session = Gate::register(gate);
                for round in 0..ROUNDS {
                    let stripe = (round * 7 + thread * 3) % 8;
                    let _writing = session.write(key(stripe));
                    bump(stripe as usize, false);
                }
            });
            scope.spawn(move || {
                let mut session = Gate::register(gate);
                for round in 0..ROUNDS / 10 {
                    let at = round * 5 + thread;
                    let mask = 1 << (at % 8) | 1 << (at * 3 % 8) | 1 << (at * 5 % 8);
                    let hold = if round % 2 == 0 { Hold::WriteOnce } else { Hold::Exclusive };
                    session.acquire(&keys(mask), hold);
                    stripes_of(mask).for_each(|stripe| bump(stripe, true));
                    session.release();
                }
            });
        }
    });
    let mut expected = 2 * ROUNDS;
    for at in (0..2).flat_map(|thread| (0..ROUNDS / 10).map(move |round| round * 5 + thread)) {
        let mask: u64 = 1 << (at % 8) | 1 << (at * 3 % 8) | 1 << (at * 5 % 8);
        expected += u64::from(mask.count_ones());
    }
    assert_eq!(words.iter().map(|word| word.load(Relaxed)).sum::<u64>(), expected);
}

/// A hold of everything, and a read of everything, get their turn among holders whose stripes are never all
/// free by themselves.
#[test]
fn the_whole_store_is_not_starved() {
    let gate = Arc::new(Gate::new(Fault::None));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (gate, stop) = (&gate, &stop);
            scope.spawn(move || {
                let mut session = Gate::register(gate);
                while !stop.load(Relaxed) {
                    session.acquire(&keys(1 << thread), Hold::WriteOnce);
                    std::thread::yield_now();
                    session.release();
                }
            });
        }
        let mut session = Gate::register(&gate);
        for _ in 0..200 {
            session.acquire(&Keys::All, Hold::Exclusive);
            session.release();
            drop(session.read_all());
        }
        stop.store(true, Relaxed);
    });
}

/// Operations in flight when a holder arrives.
enum InFlight {
    Read,
    Write,
    Nothing,
}

/// The number of turns after which a holder counts as waiting. A wrong holder that the scheduler delays for
/// longer is not detected; a correct one never fails the test.
const FOR_A_WAIT: usize = 2_000;
/// The number of turns within which a holder must enter: about 20 seconds, because the scheduler may delay it.
const FOR_AN_ENTRY: usize = 50_000_000;

/// True if a holder of stripe 3 does not enter for this many turns while the other operation is in flight.
fn stays_blocked(fault: Fault, hold: Hold, in_flight: InFlight, turns: usize) -> bool {
    let gate = Arc::new(Gate::new(fault));
    let mut session = Gate::register(&gate);
    let reading = matches!(in_flight, InFlight::Read).then(|| session.read(key(3)));
    let mut other = Gate::register(&gate);
    let writing = matches!(in_flight, InFlight::Write).then(|| other.write(key(3)));
    let entered = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut holder = Gate::register(&gate);
            holder.acquire(&keys(1 << 3), hold);
            entered.store(true, Relaxed);
            holder.release();
        });
        while !gate.is_held(1 << 3) && !entered.load(Relaxed) {
            std::thread::yield_now();
        }
        let waited = !(0..turns).any(|_| {
            std::thread::yield_now();
            entered.load(Relaxed)
        });
        drop((reading, writing));
        waited
    })
}

fn waits(fault: Fault, hold: Hold, in_flight: InFlight) -> bool {
    stays_blocked(fault, hold, in_flight, FOR_A_WAIT)
}

fn enters(fault: Fault, hold: Hold, in_flight: InFlight) -> bool {
    !stays_blocked(fault, hold, in_flight, FOR_AN_ENTRY)
}

#[test]
fn holders_wait_only_for_operations_that_they_exclude() {
    for hold in [Hold::Read, Hold::WriteOnce, Hold::Exclusive] {
        assert!(waits(Fault::None, hold, InFlight::Write), "{hold:?}");
        assert!(enters(Fault::None, hold, InFlight::Nothing), "{hold:?}");
        assert!(enters(Fault::NoDrain, hold, InFlight::Write), "{hold:?}");
    }
    assert!(waits(Fault::None, Hold::Exclusive, InFlight::Read));
    assert!(enters(Fault::NoReaderDrain, Hold::Exclusive, InFlight::Read));
    assert!(enters(Fault::None, Hold::WriteOnce, InFlight::Read));
    assert!(enters(Fault::None, Hold::Read, InFlight::Read));
}

/// Two keys of one stripe are held by two sessions at the same time, the second while the first is held, and reads and
/// writes of a third go on. Once, it waited for the whole stripe.
#[test]
fn keys_of_one_stripe_are_held_and_used_at_the_same_time() {
    for hold in [Hold::Read, Hold::WriteOnce, Hold::Exclusive] {
        let gate = Arc::new(Gate::new(Fault::None));
        let [mut a, mut b, mut c] = [(); 3].map(|()| Gate::register(&gate));
        let key = |i| Keys::new(&mut vec![i]);
        assert!(a.acquire(&key(1), hold));
        assert!(b.acquire(&key(2), hold));
        drop(c.read(3));
        drop(c.write(3));
        a.release();
        assert!(c.held_by(1).is_none() && c.held_by(2).is_some(), "the stripe stays held");
        drop(c.write(1));
        b.release();
        assert!(!gate.is_held(STRIPES_ALL));
    }
}

/// A waiter for a held key sleeps until the end of the hold wakes it; without that it sleeps on. (The model shows that
/// no wake-up is lost: a lost one would be a deadlock of its threads.)
#[test]
fn a_waiter_sleeps_until_it_is_woken() {
    for (fault, is_woken) in [(Fault::None, true), (Fault::NoWake, false)] {
        let gate = Arc::new(Gate::new(fault));
        let mut holder = Gate::register(&gate);
        holder.acquire(&keys(1), Hold::Exclusive);
        let read = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                drop(Gate::register(&gate).read(key(0)));
                read.store(true, Relaxed);
            });
            while !gate.has_sleepers() {
                std::thread::yield_now();
            }
            holder.release();
            let deadline =
                Instant::now() + Duration::from_millis(if is_woken { 20_000 } else { 50 });
            while !read.load(Relaxed) && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(1));
            }
            let has_read = read.load(Relaxed);
            // Before the test can fail: the scope waits for the thread.
            waiter.thread().unpark();
            assert_eq!(has_read, is_woken);
        });
    }
}
