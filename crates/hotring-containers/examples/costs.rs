//! Time and memory of each container at several sizes: `cargo run --release -p hotring-containers
//! --example costs`.

use std::hint::black_box;
use std::time::Instant;

use fastrand::Rng;
use hotring_containers::{Dict, List, ScoredSet};

fn main() {
    println!("{:<28} {:>9} {:>9} {:>9}", "", "10^3", "10^5", "10^6");
    let sizes = [1_000, 100_000, 1_000_000];
    let mut rows: Vec<(&str, Vec<String>)> = Vec::new();
    for size in sizes {
        let mut at = 0;
        let mut row = |name: &'static str, value: String| {
            if rows.len() == at {
                rows.push((name, Vec::new()));
            }
            rows[at].1.push(value);
            at += 1;
        };
        list(size, &mut row);
        dict(size, &mut row);
        scored(size, &mut row);
    }
    for (name, values) in rows {
        print!("{name:<28}");
        values.iter().for_each(|value| print!(" {value:>9}"));
        println!();
    }
}

/// Nanoseconds a call, on the processor where the system says so.
fn time(n: usize, mut f: impl FnMut(usize)) -> String {
    let (start, on_cpu) = (Instant::now(), cpu_nanos());
    (0..n).for_each(&mut f);
    let nanos = match (on_cpu, cpu_nanos()) {
        (Some(before), Some(after)) => after - before,
        _ => start.elapsed().as_nanos() as u64,
    };
    format!("{:.0} ns", nanos as f64 / n as f64)
}

/// Nanoseconds that this thread has run.
fn cpu_nanos() -> Option<u64> {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    stat.split(' ').next()?.parse().ok()
}

fn key(i: usize) -> (u32, [u8; 10]) {
    let mut key = *b"m000000000";
    let (mut n, mut at) = (i, 9);
    while n > 0 {
        key[at] = b'0' + (n % 10) as u8;
        n /= 10;
        at -= 1;
    }
    let hash = (i as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    ((hash >> 32) as u32, key)
}

fn list(size: usize, row: &mut dyn FnMut(&'static str, String)) {
    let mut list = List::new();
    row("list push", time(size, |i| list.push_back(&key(i).1)));
    row("list bytes an element of 10", format!("{:.1}", list.footprint() as f64 / size as f64));
    row(
        "list pop and push",
        time(size, |i| {
            list.remove(0..1);
            list.push_back(&key(i).1);
        }),
    );
    let mut rng = Rng::with_seed(1);
    row("list index", time(size, |_| _ = black_box(list.get(rng.usize(..size)))));
    row(
        "list range of 100",
        time(1_000, |_| {
            list.iter_from(rng.usize(..size)).take(100).for_each(|e| _ = black_box(e));
        }),
    );
}

fn dict(size: usize, row: &mut dyn FnMut(&'static str, String)) {
    let mut dict = Dict::new();
    let add = |dict: &mut Dict, i| {
        let (hash, key) = key(i);
        dict.insert(hash, &key, &key[2..]);
    };
    row("dict insert", time(size, |i| add(&mut dict, i)));
    row("dict bytes of 10 + 8", format!("{:.1}", dict.footprint() as f64 / size as f64));
    let mut rng = Rng::with_seed(1);
    row(
        "dict get",
        time(size, |_| {
            let (hash, key) = key(rng.usize(..size));
            assert!(black_box(dict.get(hash, &key)).is_some());
        }),
    );
    row("dict replace", time(size, |_| add(&mut dict, rng.usize(..size))));
    row("dict random", time(size, |_| _ = black_box(dict.entry_of_rank(rng.usize(..size)))));
    let snapshot = dict.clone();
    row("dict replace, 1st of snapshot", time(1_000, |_| add(&mut dict, rng.usize(..size))));
    drop(snapshot);
}

fn scored(size: usize, row: &mut dyn FnMut(&'static str, String)) {
    let mut set = ScoredSet::new();
    let mut rng = Rng::with_seed(1);
    row(
        "scored insert",
        time(size, |i| {
            let (hash, key) = key(i);
            set.insert(hash, &key, rng.u32(..) as f64);
        }),
    );
    row("scored bytes a member of 10", format!("{:.1}", set.footprint() as f64 / size as f64));
    row(
        "scored move",
        time(size, |_| {
            let (hash, key) = key(rng.usize(..size));
            set.insert(hash, &key, rng.u32(..) as f64);
        }),
    );
    row(
        "scored rank",
        time(size, |_| {
            let (hash, key) = key(rng.usize(..size));
            let score = set.score(hash, &key).expect("a member");
            black_box(set.rank(score, &key));
        }),
    );
    row(
        "scored range of 10",
        time(size, |_| {
            set.iter_from(rng.usize(..size)).take(10).for_each(|e| _ = black_box(e));
        }),
    );
}
