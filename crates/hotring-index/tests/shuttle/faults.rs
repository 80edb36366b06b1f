//! Negative controls: each wrong variant must be found, in scenarios that the real thing passes.

use crate::explore::Order::{self, Bursts, Pct, Random};
use crate::explore::{Scenario, explore, fails};
use crate::gcuckoo;
use crate::plan::{Items, Shape};
use crate::shapes::{self, one, two};
use hotring_engines::faults::Fault as EngineFault;
use hotring_index::Strategy::{Random as Eager, Vote};
use hotring_index::checks::Fault;

/// Schedules within which a variant must be found. With other seeds it took up to 30,000.
const RUNS_MAX: usize = 300_000;

/// Where a wrong variant is looked for.
type Control = Option<(Scenario, Order)>;

fn find(shape: Shape, order: Order) -> Control {
    Some((shape.into(), order))
}

/// The words of some variants disagree at rest; only the consequences count.
fn effects(shape: Shape) -> Shape {
    Shape { at_rest: false, ..shape }
}

/// Wrong only where a load returns an old value, which no load does here: loom's to find.
const OLD_VALUES: Control = None;

/// Shuttle has no form for the 16-byte accesses of lines: loom's to find.
const LINES: Control = None;

/// A table of all wrong variants: the compiler sees to it that none is left out.
macro_rules! controls {
    ($($fault:ident => $control:expr,)*) => {
        const FAULTS: &[Fault] = &[$(Fault::$fault,)*];

        fn control(fault: Fault) -> Control {
            match fault {
                $(Fault::$fault => $control,)*
                Fault::Engine(_) => engine_control(fault),
            }
        }
    };
}

/// The same for those of the other engines, of which a missing one is noticed when it is asked for.
macro_rules! engine_controls {
    ($($fault:ident => $control:expr,)*) => {
        fn engine_control(fault: Fault) -> Control {
            match fault {
                $(EngineFault::$fault => $control,)*
                other => panic!("{other:?} is not in the table"),
            }
        }
    };
}

controls! {
    None => Option::None,
    NaiveHead => find(effects(one("naive-head", Eager)), Bursts),
    RecheckHead => find(effects(one("recheck-head", Eager)), Bursts),
    TrustDead => find(one("trust-dead", Eager), Bursts),
    FollowDead => find(one("follow-dead", Eager), Bursts),
    NoUnlinkWait => find(effects(one("no-unlink-wait", Eager)), Random),
    RelaxedUnlinked => OLD_VALUES,
    NoFreeze => find(Shape::new("no-freeze", Items::Bytes, 7, Vote), Random),
    StoreInPlace => find(two("store-in-place"), Random),
    NoBusy => find(one("no-busy", Vote), Random),
    RelaxedBusy => OLD_VALUES,
    RelaxedPublish => OLD_VALUES,
    ReleaseLink => OLD_VALUES,
    ReplaceDrop => find(effects(one("replace-drop", Eager)), Random),
    // The queue of old versions: scenarios of loom's.
    CutStored => Option::None,
    QueueTrustsItem => Option::None,
    QueueRetires => Option::None,
    NoGrace => find(shapes::breathe(), Bursts),
    NoAnchorMark => find(shapes::breathe(), Bursts),
    ShrinkForgetsClaim => find(shapes::breathe(), Random),
    ShrinkComplete => find(two("shrink-complete").complete(), Random),
    CompleteNoGrace => find(shapes::insert_candidate(), Pct(8)),
    CompleteStampEarly => find(shapes::slow_stamp(), Pct(3)),
    InsertKeepsComplete => find(shapes::insert_candidate(), Random),
    InsertKeepsCandidate => find(shapes::insert_candidate(), Random),
    LinkFirst => find(shapes::insert_complete(), Random),
    ReservedMissed => find(shapes::insert_complete(), Bursts),
    ClearReplaced => find(shapes::replace_complete(), Pct(8)),
    NoSecondLook => find(shapes::split_complete(), Pct(8)),
    SplitKeepsComplete => find(shapes::split_complete(), Pct(8)),
    // Shuttle's plans make no candidate of a line that lacks an item.
    SplitTrustsCandidate => Option::None,
    // Lines that answer for too much after two doublings: a scenario of loom's, and a plain test.
    ServesAll => Option::None,
    ServesChildren => Option::None,
    // Votes leave complete lines alone. What remains is a line that becomes complete between the look
    // and the move of a vote, for an item that is removed in between: a scenario of loom's.
    DisplaceKeepsComplete => Option::None,
    TrustTag => find(two("trust-tag"), Random),
    NoDoom => Some((shapes::renewals(), Pct(3))),
    // One of the two epochs covers a thread that retires by an old value of the epoch. By the newest it would be
    // enough: under a pin the epoch goes at most one above what it was when the pin was seen.
    FreeEarly => OLD_VALUES,
    NoPinFence => OLD_VALUES,
    MoveUnfrozen => find(shapes::move_and_add(), Random),
    NoteStored => find(shapes::notes(), Random),
    NoteTorn => find(shapes::notes(), Random),
    LinesMoveUnfrozen => LINES,
    LinesThawFirst => LINES,
    LinesNoCount => LINES,
    LinesReachLate => LINES,
    LinesStaleTable => LINES,
    LinesNoSecondLook => LINES,
    LinesOneWindow => LINES,
    LinesFirstLook => LINES,
    LinesRelaxedClear => LINES,
    LinesRelaxedThaw => LINES,
    LinesRelaxedNext => LINES,
    LinesCountedEarly => LINES,
    LinesFreeEarly => LINES,
    LinesStashUnfrozen => LINES,
    LinesTidyUnlocked => LINES,
}

engine_controls! {
    MovedUnseen => find(effects(shapes::expand()), Random),
    MovedEarly => find(effects(shapes::expand()), Random),
    CountEarly => find(effects(shapes::expand()), Random),
    CountRelaxed => OLD_VALUES,
    NoThreadLocks => find(effects(shapes::expand()), Random),
    NoVersions => Some((gcuckoo::everything(), Bursts)),
    TrustPath => Some((gcuckoo::everything(), Bursts)),
    TrustAbsence => Some((gcuckoo::everything(), Random)),
    SplitUnfrozen => Some((gcuckoo::splits(), Bursts)),
    TornScan => Some((gcuckoo::scans(), Bursts)),
    ChainUnsealed => find(effects(shapes::splits("chain-unsealed", Items::U64)), Random),
    ChainUnfrozen => find(shapes::add_and_split(), Bursts),
    ChainRetires => find(shapes::splits("chain-retires", Items::U64), Random),
    ChainMarksEarly => find(shapes::remove_and_split(), Bursts),
    ChainUnnoticed => find(shapes::splits("chain-unnoticed", Items::U64), Bursts),
    ChainBlindInsert => find(shapes::splits("chain-blind-insert", Items::U64), Random),
}

#[test]
fn every_wrong_variant_is_found() {
    if crate::replayed().is_some() {
        return;
    }
    let mut missed = Vec::new();
    for &fault in FAULTS.iter().chain(EngineFault::ALL) {
        let Some((scenario, order)) = control(fault) else { continue };
        // In a thread of its own: one that hangs is ended in the middle of its steps, and leaves
        // the thread panicking for good.
        let look = || fails(&scenario, fault, order, crate::seed(), RUNS_MAX);
        let found = std::thread::scope(|scope| scope.spawn(look).join().expect("no panic"));
        let Some((runs, complaint)) = found else {
            missed.push(fault);
            continue;
        };
        let (what, how) = (format!("{fault:?}"), format!("{order:?}"));
        println!("{what:22} {:18} {how:7} {runs:6} runs  {complaint}", scenario.name);
        explore(&scenario, order, crate::seed(), runs.max(1000));
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}
