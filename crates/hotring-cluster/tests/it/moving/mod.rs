//! Moves of slots in a simulator: two shards, a coordinator that may not answer, links that break, primaries that are
//! replaced. Clients write and read all the while.

mod mirrors;
mod parts;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::faults::{self, Fault};
use parts::Stats;
use world::World;

/// Schedules, unless `HOTRING_SCHEDULES` says otherwise.
const SCHEDULES: u64 = 300;

#[test]
fn moves_lose_nothing_and_end() {
    let mut sum = Stats::default();
    let count = std::env::var("HOTRING_SCHEDULES").map_or(SCHEDULES, |text| text.parse().unwrap());
    for seed in 0..count {
        let stats = World::new(seed).run().unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        sum.moved += stats.moved;
        sum.given_up += stats.given_up;
        sum.dropped += stats.dropped;
        sum.failovers += stats.failovers;
        sum.writes += stats.writes;
        sum.reads += stats.reads;
        sum.mirrored += stats.mirrored;
        sum.revoked += stats.revoked;
    }
    println!("{sum:?}");
    assert!(
        [sum.moved, sum.given_up, sum.dropped, sum.mirrored, sum.revoked].iter().all(|n| *n > 0),
        "a step was never taken: {sum:?}"
    );
}

const WRONG: [Fault; 16] = [
    Fault::AnyRecord,
    Fault::GiveUnshown,
    Fault::StepBackUnknown,
    Fault::OpenUnread,
    Fault::AnyTarget,
    Fault::ReadsGoOn,
    Fault::AnyMark,
    Fault::DropUnread,
    Fault::OpenUnclean,
    Fault::ShowEarly,
    Fault::KeepOld,
    Fault::HasAlone,
    Fault::ApplyFirst,
    Fault::ForgetGrants,
    Fault::LeaveGrants,
    Fault::TakeDropped,
];

#[test]
fn every_wrong_variant_of_moves_is_found() {
    for fault in WRONG {
        faults::set(Some(fault));
        let found = (0..3_000).find_map(|seed| {
            let result = catch_unwind(AssertUnwindSafe(|| World::new(seed).run()));
            let why = match result {
                Ok(Ok(_)) => return None,
                Ok(Err(why)) => why,
                Err(_) => "a panic".to_owned(),
            };
            Some((seed, why.lines().next().unwrap_or_default().to_owned()))
        });
        faults::set(None);
        println!("{fault:?}: {found:?}");
        assert!(found.is_some(), "{fault:?} is not found");
    }
}
