//! Random schedules of the simulator, and the wrong variants that it must find.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::faults::{self, Fault};
use crate::sim::{self, Mode, Stats};

/// Schedules of each mode, unless `HOTRING_SCHEDULES` says otherwise: `cargo xtask prove schedules` runs many more.
const SCHEDULES: u64 = 600;

/// Lines of a trace that a failure shows.
const LINES: usize = 150;

/// Each wrong variant with the schedule that finds it.
const FOUND: &[(Fault, Mode, u64)] = &[
    (Fault::AckEarly, Mode::Named, 29),
    (Fault::AckEarly, Mode::Recorded, 5),
    (Fault::PromoteOutside, Mode::Named, 20),
    (Fault::PromoteOutside, Mode::Recorded, 9),
    (Fault::ForgetEpoch, Mode::Named, 55),
    (Fault::ForgetEpoch, Mode::Recorded, 84),
    (Fault::TrustEmpty, Mode::Named, 11),
    (Fault::TrustEmpty, Mode::Recorded, 49),
    (Fault::HalfBatch, Mode::Named, 0),
    (Fault::HalfBatch, Mode::Recorded, 0),
    (Fault::LsnsAlone, Mode::Named, 4),
    (Fault::LsnsAlone, Mode::Recorded, 2),
    // Only records change a set by transactions.
    (Fault::AddLate, Mode::Recorded, 163),
    (Fault::RemoveEarly, Mode::Recorded, 30),
    (Fault::BreakPromise, Mode::Named, 165),
    (Fault::BreakPromise, Mode::Recorded, 17),
    (Fault::AnySession, Mode::Recorded, 221),
    (Fault::CaughtUpEarly, Mode::Recorded, 84),
    (Fault::ForgetRepair, Mode::Named, 458),
    (Fault::ForgetRepair, Mode::Recorded, 34),
    (Fault::ForgetCopy, Mode::Named, 0),
    (Fault::ForgetCopy, Mode::Recorded, 0),
    (Fault::DropEarly, Mode::Named, 0),
    (Fault::DropEarly, Mode::Recorded, 0),
    (Fault::RepairMembers, Mode::Recorded, 4),
    // Where records have the set, no word of another replica counts.
    (Fault::SyncBelow, Mode::Named, 126),
    (Fault::FeedOverEpoch, Mode::Named, 2606),
    (Fault::FeedOverEpoch, Mode::Recorded, 15822),
    (Fault::AddAsMember, Mode::Recorded, 61),
    (Fault::NameUnaware, Mode::Recorded, 0),
    (Fault::HeedNobody, Mode::Recorded, 29),
    (Fault::TellUnwritten, Mode::Recorded, 146),
    (Fault::RemoveUnheard, Mode::Recorded, 27),
    (Fault::HeedOldAnswers, Mode::Recorded, 939),
    (Fault::InheritEarly, Mode::Recorded, 332),
    (Fault::InheritLeast, Mode::Recorded, 204),
    (Fault::TellAll, Mode::Recorded, 244),
    (Fault::ApplyFirst, Mode::Recorded, 1),
    (Fault::OutliveRight, Mode::Recorded, 1745),
    (Fault::CountFromArrival, Mode::Recorded, 1),
    (Fault::TakeDropped, Mode::Recorded, 1),
    (Fault::GrantUncommitted, Mode::Recorded, 57),
];

/// Schedules among which another one is looked for, if the listed one no longer finds its wrong variant.
const SEARCHED: u64 = 9000;

/// The number in a variable, or a default.
fn number(variable: &str, otherwise: u64) -> u64 {
    let set = std::env::var(variable).ok();
    set.map_or(otherwise, |text| text.parse().unwrap_or_else(|_| panic!("{variable} is a number")))
}

/// Runs schedules from `HOTRING_SEED` on. The one that fails is run again and traced.
fn all(mode: Mode) -> Stats {
    let first = number("HOTRING_SEED", 0);
    let mut sum = Stats::default();
    for seed in first..first + number("HOTRING_SCHEDULES", SCHEDULES) {
        match sim::run(seed, mode, false) {
            Ok(stats) => sum.add(&stats),
            Err(_) => {
                let trace = sim::run(seed, mode, true).expect_err("the same seed, the same fault");
                let lines: Vec<&str> = trace.lines().collect();
                let shown = lines[lines.len().saturating_sub(LINES)..].join("\n");
                panic!("{shown}\nagain: HOTRING_SCHEDULES=1 HOTRING_SEED={seed}");
            }
        }
    }
    println!("{mode:?}: {sum:?}");
    sum
}

#[test]
fn schedules_of_a_pair_by_hand() {
    let sum = all(Mode::Named);
    assert!(sum.shows_everything(), "a step was never taken: {sum:?}");
}

#[test]
fn schedules_with_records() {
    let sum = all(Mode::Recorded);
    assert!(
        sum.shows_everything()
            && [sum.given_up, sum.regroups, sum.deafened, sum.filled, sum.mirrored, sum.revoked]
                .iter()
                .chain([sum.losses, sum.recoveries].iter())
                .all(|n| *n > 0),
        "a step was never taken: {sum:?}"
    );
}

/// Whether a wrong variant is found by a schedule.
fn finds(fault: Fault, mode: Mode, seed: u64) -> Option<String> {
    faults::set(Some(fault));
    let result = catch_unwind(AssertUnwindSafe(|| sim::run(seed, mode, false)));
    faults::set(None);
    match result {
        Ok(Ok(_)) => None,
        Ok(Err(what)) => Some(what),
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
    for &(fault, mode, seed) in FOUND {
        if let Some(what) = finds(fault, mode, seed) {
            let what = what.lines().last().unwrap_or_default();
            println!("{fault:?}, {mode:?}, {seed}: {what}");
            continue;
        }
        let other = (0..SEARCHED).find(|seed| finds(fault, mode, *seed).is_some());
        lost.push(format!("{fault:?}, {mode:?}: not {seed}, but {other:?}"));
    }
    assert!(lost.is_empty(), "write the other schedules to the list: {lost:#?}");
}
