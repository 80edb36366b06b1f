//! Moves of slots in a simulator: two shards, a coordinator that may not answer, links that break, primaries that are
//! replaced, power cuts. Clients write and read all the while.

mod disks;
mod mirrors;
mod parts;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use crate::faults::{self, Fault};
use crate::ids::{Epoch, Moment};
use crate::moves::{
    Ask, Attempt, Outcome, Outgoing, OutgoingAct, Owner, Pace, ToSource, ToTarget, View,
};
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
        sum.cuts += stats.cuts;
        sum.writes += stats.writes;
        sum.reads += stats.reads;
        sum.mirrored += stats.mirrored;
        sum.revoked += stats.revoked;
    }
    println!("{sum:?}");
    assert!(
        [sum.moved, sum.given_up, sum.dropped, sum.mirrored, sum.revoked, sum.cuts]
            .iter()
            .all(|n| *n > 0),
        "a step was never taken: {sum:?}"
    );
}

/// A source that has nothing left to send, and its present attempt.
fn copied(now: Moment) -> (Outgoing, Attempt) {
    let mut source = Outgoing::new(Attempt { epoch: Epoch(1), number: 0 }, Pace::default());
    let acts = source.acts();
    let [OutgoingAct::Ask(Ask::Read(number))] = acts[..] else { panic!("{acts:?}") };
    let (source_record, target) = ((1, Epoch(1)), (2, Epoch(1)));
    let (owner, record) = (Owner::Source, Some(4));
    let view = View { source: source_record, target, table: 3, owner, record };
    source.outcome(now, number, Outcome::Read(view));
    let attempt = source.attempt();
    source.receive(now, ToSource::Opened(attempt, Epoch(1)));
    source.acts();
    (source, attempt)
}

#[test]
fn writes_wait_only_shortly_after_the_target_has_synced() {
    let (now, max) = (Duration::from_secs(9), Pace::default().synced_max);
    let (mut source, attempt) = copied(now);
    let asks = [OutgoingAct::Send(ToTarget::Sync(attempt))];
    source.left(now, 0);
    assert_eq!(source.acts(), asks);
    source.left(now, 0);
    assert_eq!(source.acts(), [], "it waits for the answer");
    // What came since the question may not be synced, however long the sync took.
    source.receive(now + max / 2, ToSource::Synced(attempt));
    source.left(now + max, 0);
    assert_eq!(source.acts(), asks, "too much may have come since");
    source.receive(now + max, ToSource::Synced(attempt));
    source.left(now + max, u64::MAX);
    assert_eq!(source.acts(), [], "much is left");
    source.left(now + 2 * max - Duration::from_millis(1), 0);
    assert_eq!(source.acts(), [OutgoingAct::HoldWrites]);
}

const WRONG: [Fault; 18] = [
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
    Fault::HoldUnsynced,
    Fault::SyncedEarly,
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
