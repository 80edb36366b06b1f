//! The ring under shuttle: the product's own code, in random orders of its steps.
//!
//! A run draws a plan: 2 to 4 threads with up to 8 operations each on a few keys, in a table of 1
//! to 8 slots that grows and shrinks meanwhile. All atomics are the checker's, so each access is a
//! place where another thread may go on. Schedules are uniformly random, by priorities (PCT), or
//! in bursts. Each run ends with the proof of its history and a look at the index at rest (`run`).
//! What loom tries in every order for three operations at most is here tried at random for thirty.
//!
//! ```console
//! RUSTFLAGS="--cfg shuttle" cargo test --release -p hotring-index --test shuttle -- --nocapture
//! ```
//!
//! Everything is drawn from `HOTRING_SHUTTLE_SEED` (default 1), so two runs of the suite are the
//! same. `HOTRING_SHUTTLE_ITERATIONS` is the number of runs of each scenario under each order
//! (default 3,000); with `HOTRING_SHUTTLE_SECONDS` the suite goes on for that long with ever new
//! seeds. A failure prints scenario, plan, history and schedule; `HOTRING_SHUTTLE_REPLAY`, set to the
//! scenario's name, a colon and the schedule, runs that schedule and nothing else.
//!
//! Not covered: memory orders, which are loom's to check (every access here is sequentially
//! consistent), and memory that is used again, as no run hands any out twice.
#![cfg(shuttle)]

#[path = "../it/colliding.rs"]
#[allow(dead_code)]
mod colliding;
mod explore;
mod faults;
mod gcuckoo;
#[path = "../it/history.rs"]
mod history;
mod notes;
#[path = "../it/operate.rs"]
mod operate;
mod plan;
mod renewal;
mod run;
mod shapes;
mod target;

use explore::{ORDERS, explore, replay};
use hotring_engines::hooks as engines;
use hotring_index::hooks::{Step, taken};
use std::time::{Duration, Instant};

fn variable(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

fn seed() -> u64 {
    variable("HOTRING_SHUTTLE_SEED").unwrap_or(1)
}

/// A schedule to be replayed, if there is one, keeps the tests from doing anything else.
fn replayed() -> Option<String> {
    std::env::var("HOTRING_SHUTTLE_REPLAY").ok()
}

/// Every scenario under every order, and so each rare step.
#[test]
fn the_ring_stands_random_schedules() {
    if let Some(again) = replayed() {
        let (name, schedule) = again.split_once(':').expect("a name, a colon, a schedule");
        let all = shapes::all();
        let scenario = all.iter().find(|scenario| scenario.name == name);
        return replay(scenario.expect("the name of a scenario"), schedule);
    }
    let runs = variable("HOTRING_SHUTTLE_ITERATIONS").unwrap_or(3000) as usize;
    let start = Instant::now();
    let time = variable("HOTRING_SHUTTLE_SECONDS").map(Duration::from_secs);
    let mut seed = seed();
    loop {
        let round = Instant::now();
        for scenario in &shapes::all() {
            for order in ORDERS {
                explore(scenario, order, seed, runs);
            }
        }
        let count = shapes::all().len() * ORDERS.len() * runs;
        println!("seed {seed}: {count} runs in {:.1} s", round.elapsed().as_secs_f64());
        if time.is_none_or(|time| start.elapsed() >= time) {
            break;
        }
        seed = seed.wrapping_add(1);
    }
    println!("{:>10} times", "taken");
    for &step in Step::ALL {
        println!("{:>10} {step:?}", taken(step));
    }
    for &step in engines::Step::ALL {
        println!("{:>10} {step:?}, other engines", engines::taken(step));
    }
    // Lines are not compiled for shuttle.
    let of_lines = |step: &Step| matches!(step, Step::Stashed | Step::FrozenMet);
    let missed = Step::ALL.iter().filter(|step| !of_lines(step) && taken(**step) == 0);
    let missed = missed.map(|step| format!("{step:?}"));
    let others = engines::Step::ALL.iter().filter(|&&step| engines::taken(step) == 0);
    let others = others.map(|step| format!("{step:?}, other engines"));
    let missed: Vec<String> = missed.chain(others).collect();
    // A few runs, asked for to be quick, need not come by everything.
    assert!(missed.is_empty() || runs < 1000, "rare steps that no run took: {missed:?}");
}
