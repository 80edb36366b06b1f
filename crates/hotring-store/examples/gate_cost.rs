//! What the gate costs: the same operations on the index alone and through the store, and the
//! operations on several keys, which the gate makes atomic. Best of several runs, in nanoseconds
//! an operation, first alone and then with another session working beside it.
//!
//! ```text
//! cargo run --release -p hotring-store --example gate_cost
//! ```

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

use hotring_store::index::{Bytes, Config, Expiry, HotRing, NewValue, barrier};
use hotring_store::{Options, SetOptions, Store};

const KEYS: usize = 100_000;
const RUNS: u32 = 7;
const OPERATIONS: usize = 300_000;
const NOW: u64 = 1_700_000_000_000;

/// Best of the runs, for `f(i)` with `i` walking over the keys in a scattered order.
fn measure(name: &str, operations: usize, mut f: impl FnMut(usize)) {
    let run = |f: &mut dyn FnMut(usize)| {
        let start = Instant::now();
        (0..operations).for_each(|i| f(i * 7_919 % KEYS));
        start.elapsed().as_nanos() as f64 / operations as f64
    };
    let best = (0..RUNS).map(|_| run(&mut f)).fold(f64::INFINITY, f64::min);
    println!("  {name:<34} {best:8.1} ns");
}

fn measure_index(keys: &[Vec<u8>]) {
    let ring = HotRing::<Bytes>::new(Config::default()).expect("the default settings are good");
    let mut session = ring.session();
    let word = |i: usize| NewValue::Word { kind: 9, word: i as u64 };
    measure("index alone: put, 8 bytes in place", OPERATIONS, |i| {
        black_box(session.put(&keys[i], word(i), Expiry::Never, NOW));
    });
    measure("index alone: get", OPERATIONS, |i| {
        black_box(session.get(&keys[i], NOW, |entry| entry.key.len()));
    });
}

fn measure_store(store: &Store, keys: &[Vec<u8>]) {
    measure("heavy barrier", OPERATIONS / 4, |_| barrier::heavy());
    let mut session = store.session();
    let at = |i: usize| &keys[i % KEYS][..];
    let number = |i: usize| [b'1', b'0' + (i % 10) as u8];
    measure("SET, an integer", OPERATIONS, |i| {
        black_box(session.set(at(i), &number(i), SetOptions::default(), NOW).is_ok());
    });
    measure("GET", OPERATIONS, |i| {
        black_box(session.get(at(i), NOW, |value| value.len()));
    });
    measure("INCRBY", OPERATIONS, |i| {
        black_box(session.incr_by(at(i), 1, NOW).is_ok());
    });
    measure("MGET of 2", OPERATIONS, |i| {
        session.mget(&[at(i), at(i + 1)], NOW, |_, value| {
            black_box(value.is_some());
        });
    });
    measure("MGET of 10", OPERATIONS / 4, |i| {
        let ten: [&[u8]; 10] = std::array::from_fn(|n| at(i + n));
        session.mget(&ten, NOW, |_, value| {
            black_box(value.is_some());
        });
    });
    measure("MSET of 2", OPERATIONS / 4, |i| {
        black_box(session.mset(&[(at(i), b"7"), (at(i + 1), b"8")], NOW).is_ok());
    });
    measure("MSET of 10", OPERATIONS / 8, |i| {
        let ten: [(&[u8], &[u8]); 10] = std::array::from_fn(|n| (at(i + n), &b"7"[..]));
        black_box(session.mset(&ten, NOW).is_ok());
    });
    measure("exclusive closure, 2 INCRBY", OPERATIONS / 4, |i| {
        session.exclusive(&[at(i), at(i + 1)], |session| {
            black_box(session.incr_by(at(i), 1, NOW).is_ok());
            black_box(session.incr_by(at(i + 1), 1, NOW).is_ok());
        });
    });
}

fn main() {
    let keys: Vec<Vec<u8>> = (0..KEYS).map(|i| format!("key:{i:08}").into_bytes()).collect();
    let store = Store::new(Options::default()).expect("the default settings are good");
    println!("one session");
    measure_index(&keys);
    measure_store(&store, &keys);
    println!("beside a session that runs GET and INCRBY without a pause");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut session = store.session();
            for i in (0..KEYS).cycle().take_while(|_| !stop.load(Relaxed)) {
                black_box(session.get(&keys[i], NOW, |value| value.len()));
                black_box(session.incr_by(&keys[i], 1, NOW).is_ok());
            }
        });
        measure_store(&store, &keys);
        stop.store(true, Relaxed);
    });
    println!("beside a session that runs MSET of 2 without a pause");
    stop.store(false, Relaxed);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut session = store.session();
            for i in (1..KEYS).cycle().take_while(|_| !stop.load(Relaxed)) {
                let pairs = [(&keys[i][..], &b"1"[..]), (&keys[i - 1][..], &b"2"[..])];
                black_box(session.mset(&pairs, NOW).is_ok());
            }
        });
        measure_store(&store, &keys);
        stop.store(true, Relaxed);
    });
}
