//! The gate alone: words standing for keys, one to a stripe.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

use crate::gate::{Fault, Gate, Hold, STRIPES_ALL, stripes_of};

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
    assert!(b.snapshot_begin(0b110));
    drop(a.write(0));
    assert!(b.snapshot_end(0b110), "another stripe");
    drop(a.write(1));
    assert!(!b.snapshot_end(0b110), "a write in between");
    let writing = a.write(1);
    assert!(!b.snapshot_begin(0b110), "a write in flight");
    assert!(b.snapshot_begin(0b100));
    drop(writing);
    assert!(b.snapshot_begin(0b110));
    let taken = a.acquire(0b10, Hold::Read);
    assert_eq!(taken, 0b10);
    assert!(b.snapshot_end(0b110), "a reading hold spoils no snapshot");
    a.release(taken);
    assert!(b.snapshot_begin(0b110));
    let taken = a.acquire(0b10, Hold::WriteOnce);
    assert!(!b.snapshot_end(0b110));
    a.release(taken);
    assert!(b.snapshot_begin(0b110));
    let late = Gate::register(&gate);
    assert!(!b.snapshot_end(0b110), "a session that came in between");
    assert!(b.snapshot_begin(0b110));
    drop(late);
    assert!(!b.snapshot_end(0b110), "a session that left in between");
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
                    let _writing = session.write(stripe as u32);
                    bump(stripe as usize, false);
                }
            });
            scope.spawn(move || {
                let mut session = Gate::register(gate);
                for round in 0..ROUNDS / 10 {
                    let at = round * 5 + thread;
                    let mask = 1 << (at % 8) | 1 << (at * 3 % 8) | 1 << (at * 5 % 8);
                    let how = if round % 2 == 0 { Hold::WriteOnce } else { Hold::Exclusive };
                    let taken = session.acquire(mask, how);
                    stripes_of(mask).for_each(|stripe| bump(stripe, true));
                    session.release(taken);
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

/// A hold of everything, and a read of everything, come to their turn among holders whose
/// stripes are never all free by themselves.
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
                    let taken = session.acquire(1 << thread, Hold::WriteOnce);
                    std::thread::yield_now();
                    session.release(taken);
                }
            });
        }
        let mut session = Gate::register(&gate);
        for _ in 0..200 {
            let taken = session.acquire(STRIPES_ALL, Hold::Exclusive);
            session.release(taken);
            drop(session.read(STRIPES_ALL));
        }
        stop.store(true, Relaxed);
    });
}

/// What a holder finds in flight when it comes.
enum InFlight {
    Read,
    Write,
    Nothing,
}

/// Turns for which a holder that is to wait is looked at. One that does not wait, and is kept from
/// running for so long, passes by that luck; nothing fails by it.
const FOR_A_WAIT: usize = 2_000;
/// The same for one that is to enter: some 20 seconds, as it may be kept from running.
const FOR_AN_ENTRY: usize = 50_000_000;

/// True if a holder of stripe 3 does not enter for so many turns while the other session is there.
fn stays_out(fault: Fault, how: Hold, in_flight: InFlight, turns: usize) -> bool {
    let gate = Arc::new(Gate::new(fault));
    let mut session = Gate::register(&gate);
    let reading = matches!(in_flight, InFlight::Read).then(|| session.read(1 << 3));
    let mut other = Gate::register(&gate);
    let writing = matches!(in_flight, InFlight::Write).then(|| other.write(3));
    let entered = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut holder = Gate::register(&gate);
            let taken = holder.acquire(1 << 3, how);
            entered.store(true, Relaxed);
            holder.release(taken);
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

fn waits(fault: Fault, how: Hold, in_flight: InFlight) -> bool {
    stays_out(fault, how, in_flight, FOR_A_WAIT)
}

fn enters(fault: Fault, how: Hold, in_flight: InFlight) -> bool {
    !stays_out(fault, how, in_flight, FOR_AN_ENTRY)
}

#[test]
fn holders_wait_for_what_they_exclude_and_no_more() {
    for how in [Hold::Read, Hold::WriteOnce, Hold::Exclusive] {
        assert!(waits(Fault::None, how, InFlight::Write), "{how:?}");
        assert!(enters(Fault::None, how, InFlight::Nothing), "{how:?}");
        assert!(enters(Fault::NoDrain, how, InFlight::Write), "{how:?}");
    }
    assert!(waits(Fault::None, Hold::Exclusive, InFlight::Read));
    assert!(enters(Fault::NoReaderDrain, Hold::Exclusive, InFlight::Read));
    assert!(enters(Fault::None, Hold::WriteOnce, InFlight::Read));
    assert!(enters(Fault::None, Hold::Read, InFlight::Read));
}
