//! Random schedules of the simulator, and the wrong variants that it must find.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::faults::{self, Fault};
use crate::sim::{self, Stats};

/// Schedules, unless `HOTRING_SCHEDULES` says otherwise.
const SCHEDULES: u64 = 1000;

/// Each wrong variant with the schedule that finds it.
const FOUND: &[(Fault, u64)] = &[
    (Fault::NoReplyCache, 1),
    (Fault::RunTwice, 4),
    (Fault::AnyTerm, 13),
    (Fault::KeepOverEpoch, 0),
    (Fault::EmptySession, 1),
    (Fault::RunBelowFloor, 0),
    (Fault::ForgetLong, 1),
    (Fault::ForgetFloor, 0),
    (Fault::LoseTwice, 8),
    (Fault::SameSession, 3),
    (Fault::ResendUnknown, 0),
    (Fault::ReuseIds, 0),
    (Fault::CallLateNotDone, 1),
    (Fault::NoCredits, 143),
    (Fault::TrustAnswers, 4),
    (Fault::TrustMessages, 136),
];

/// Schedules among which another one is looked for, if the listed one no longer finds its wrong variant.
const SEARCHED: u64 = 9000;

/// The number in a variable, or a default.
pub fn number(variable: &str, otherwise: u64) -> u64 {
    let set = std::env::var(variable).ok();
    set.map_or(otherwise, |text| text.parse().unwrap_or_else(|_| panic!("{variable} is a number")))
}

#[test]
fn schedules() {
    let (first, mut sum) = (number("HOTRING_SEED", 0), Stats::default());
    let count = number("HOTRING_SCHEDULES", SCHEDULES);
    for seed in first..first + count {
        match sim::run(seed) {
            Ok(stats) => sum.add(&stats),
            Err(fault) => panic!("{fault}\nagain: HOTRING_SCHEDULES=1 HOTRING_SEED={seed}"),
        }
    }
    println!("{sum:?}");
    assert!(count < SCHEDULES || sum.shows_everything(), "a step was never taken: {sum:?}");
}

/// What a schedule finds in a wrong variant.
fn finds(fault: Fault, seed: u64) -> Option<String> {
    faults::set(Some(fault));
    let result = catch_unwind(AssertUnwindSafe(|| sim::run(seed)));
    faults::set(None);
    match result {
        Ok(result) => result.err(),
        Err(_) => Some("a panic".to_string()),
    }
}

#[test]
fn every_wrong_variant_is_found() {
    for fault in Fault::ALL {
        let is_listed = FOUND.iter().any(|(found, ..)| found == fault);
        assert!(is_listed, "{fault:?} has no schedule that finds it");
    }
    let mut lost = Vec::new();
    for &(fault, seed) in FOUND {
        if let Some(what) = finds(fault, seed) {
            println!("{fault:?}, {seed}: {what}");
            continue;
        }
        let other = (0..SEARCHED).find_map(|seed| finds(fault, seed).map(|what| (seed, what)));
        lost.push(format!("{fault:?}: not {seed}, but {other:?}"));
    }
    assert!(lost.is_empty(), "write the other schedules to the list: {lost:#?}");
}
