//! The engines under loom: the product's own code, in every order of its steps (up to a bound on
//! preemptions) and with every value that the memory orders allow a load to return.
//!
//! ```console
//! RUSTFLAGS="--cfg loom" cargo test --release -p hotring-index --test loom -- --nocapture
//! ```
//! `HOTRING_LOOM_PREEMPTIONS` (2) bounds the switches that nothing forced, `HOTRING_LOOM_SECONDS` the
//! time of a scenario; neither holds for wrong variants. `HOTRING_LOOM_LONG` adds the large scenarios,
//! `HOTRING_LOOM_ONLY` picks by name.
#![cfg(loom)]

mod bytes;
mod chaining;
#[path = "../it/colliding.rs"]
#[allow(dead_code)]
mod colliding;
#[path = "../it/history.rs"]
#[allow(dead_code)]
mod history;
mod item_lines;
mod lines;
mod mercury;
mod notes;
#[path = "../it/operate.rs"]
mod operate;
mod scenarios;
mod shared;
mod world;

use hotring_engines::{Chaining, Mercury, OsMutex, TestAndSet};
use hotring_index::checks::{Checked, Fault};
use hotring_index::{Form, ItemLines, Ring, Strategy};
use world::{Report, Run, Scenario, explore};

/// More than half of the total time, for interleavings that smaller scenarios and shuttle's larger ones
/// cover as well: for the long form.
const LARGEST: [&str; 37] = [
    "candidate with room: complete | insert, get | get",
    "candidate: complete | insert, get | get",
    "cold goes out, hot comes home | add, get",
    "cold goes out, hot comes home | in place both",
    "cold goes out, hot comes home | take both",
    "displaced comes home | remove, insert again",
    "displaced comes home | replace, get",
    "displace | remove | get, get",
    "displace | remove, complete | get, get",
    "full: insert, get | get, get | remove",
    "give back, grow, split | insert, get",
    "grow, split | get, miss",
    "halve a complete table | get, get | insert, get",
    "halve, undo | insert, get | complete, get",
    "lazy update, update | update | remove, get",
    "lazy updates | update, get | get behind",
    "move stashed | add, get",
    "move stashed | get",
    "move | remove, insert again",
    "no candidate: becomes one | insert, get | advance, complete, get",
    "no candidate: complete | insert, get | get",
    "reserve | reserve | remove",
    "room: insert | put, get | get",
    "shrink: move | add, get",
    "split hands head over | remove, get | head move",
    "split, complete | insert, get",
    "split, miss | insert, get",
    "split, search | remove, get | insert, get",
    "stashed comes home | add, get",
    "stashed comes home | get",
    "stashed comes home | remove, insert",
    "stashed comes home | replace",
    "stashed comes home | take",
    "sweep | remove, get | insert before it",
    "sweep | update hinted | remove",
    "update hot | head move | remove",
    "update hot | remove | get, get",
];

/// Whether there is time for all.
fn is_long() -> bool {
    std::env::var_os("HOTRING_LOOM_LONG").is_some()
}

fn is_wanted(name: &str) -> bool {
    let only = std::env::var("HOTRING_LOOM_ONLY").unwrap_or_default();
    name.contains(&only) && (is_long() || !only.is_empty() || !LARGEST.contains(&name))
}

fn all_pass<E: Checked>(scenarios: &[Scenario]) {
    let mut total = 0;
    for scenario in scenarios.iter().filter(|s| is_wanted(s.name)) {
        let report = explore::<E>(scenario, Run::real());
        total += report.executions;
        say(scenario.name, &report);
        if let Some(complaint) = report.complaint {
            panic!("{}: {complaint}", scenario.name);
        }
    }
    println!("{total} executions");
}

fn say(name: &str, report: &Report) {
    let (executions, seconds) = (report.executions, report.elapsed.as_secs_f64());
    println!("{name:64} {executions:8} executions {seconds:6.1} s");
    // Here, because the tests of wrong variants silence panics, for all threads.
    if let Some(complaint) = &report.complaint {
        println!("{name}: {complaint}");
    }
}

#[test]
fn one_head() {
    all_pass::<Ring<1>>(&scenarios::one_head());
}

#[test]
fn complete_lines() {
    all_pass::<Ring<2>>(&scenarios::complete_lines());
    if is_long() {
        all_pass::<Ring<2>>(&scenarios::large());
    }
}

#[test]
fn equal_tags() {
    all_pass::<Ring<2>>(&scenarios::equal_tags());
}

#[test]
fn shrink() {
    all_pass::<Ring<2>>(&scenarios::shrink());
}

#[test]
fn shrink_complete() {
    all_pass::<Ring<2>>(&scenarios::shrink_complete());
}

#[test]
fn chains() {
    all_pass::<Chaining>(&chaining::scenarios());
    if is_long() {
        all_pass::<Chaining>(&chaining::large());
    }
}

#[test]
fn wrong_chains_are_caught() {
    all_caught::<Chaining>(&chaining::CONTROLS, &chaining::scenarios());
}

#[test]
fn moving_buckets() {
    all_pass::<Mercury<TestAndSet>>(&mercury::scenarios());
    if is_long() {
        all_pass::<Mercury<OsMutex>>(&mercury::scenarios());
        all_pass::<Mercury<TestAndSet>>(&mercury::large());
    }
}

#[test]
fn wrong_moves_are_caught() {
    all_caught::<Mercury<TestAndSet>>(&mercury::CONTROLS, &mercury::scenarios());
}

#[test]
fn lines_as_an_engine() {
    all_pass::<ItemLines>(&item_lines::scenarios());
}

#[test]
fn wrong_lines_as_an_engine_are_caught() {
    all_caught::<ItemLines>(&item_lines::CONTROLS, &item_lines::scenarios());
}

#[test]
fn lines_of_items() {
    for scenario in lines::scenarios().into_iter().filter(|s| is_wanted(s.name)) {
        let report = lines::explore(&scenario, Form::Model, Run::real());
        say(scenario.name, &report);
        if let Some(complaint) = report.complaint {
            panic!("{}: {complaint}", scenario.name);
        }
    }
}

#[test]
fn wrong_lines_of_items_are_caught() {
    std::panic::set_hook(Box::new(|_| {}));
    let controls = lines::CONTROLS.map(|(fault, name)| (fault, Form::Model, name));
    for (fault, form, name) in controls.into_iter().chain([(Fault::None, Form::Torn, lines::TORN)])
    {
        let scenarios = lines::scenarios();
        let scenario = scenarios.iter().find(|s| s.name == name).expect("a scenario of the list");
        let report = lines::explore(scenario, form, Run::wrong(fault));
        println!(
            "{fault:?} {form:?}: {} executions of {name:?}: {:?}",
            report.executions, report.complaint
        );
        assert!(report.complaint.is_some(), "{fault:?} {form:?} passes");
    }
}

#[test]
fn byte_strings_and_reclamation() {
    for scenario in bytes::scenarios().into_iter().filter(|s| is_wanted(s.name)) {
        let report = bytes::explore(&scenario, Run::real());
        say(scenario.name, &report);
        if let Some(complaint) = report.complaint {
            panic!("{}: {complaint}", scenario.name);
        }
    }
}

#[test]
fn wrong_expiries_and_frees_are_caught() {
    std::panic::set_hook(Box::new(|_| {}));
    for (fault, name) in bytes::CONTROLS {
        let scenarios = bytes::scenarios();
        let scenario = scenarios.iter().find(|s| s.name == name).expect("a scenario of the list");
        let report = bytes::explore(scenario, Run::wrong(fault));
        println!("{fault:?}: {} executions of {name:?}: {:?}", report.executions, report.complaint);
        assert!(report.complaint.is_some(), "{fault:?} passes");
    }
}

fn notes_pass<E: Checked>(strategy: Strategy) {
    let only = std::env::var("HOTRING_LOOM_ONLY").unwrap_or_default();
    let wanted = |s: &&notes::Scenario| s.name.contains(&only) && s.is_for::<E>();
    for scenario in notes::SCENARIOS.iter().filter(wanted) {
        let report = notes::explore::<E>(scenario, strategy, Run::real());
        say(scenario.name, &report);
        if let Some(complaint) = report.complaint {
            panic!("{}, {}: {complaint}", E::NAME, scenario.name);
        }
    }
}

#[test]
fn notes_of_accesses() {
    // Items that are hinted from the start, and others that a read gives a hint.
    notes_pass::<Ring<2>>(Strategy::Vote);
    notes_pass::<Ring<1>>(Strategy::Random);
    notes_pass::<Chaining>(Strategy::Vote);
    notes_pass::<Mercury<TestAndSet>>(Strategy::Vote);
    notes_pass::<ItemLines>(Strategy::Vote);
}

#[test]
fn wrong_notes_are_caught() {
    std::panic::set_hook(Box::new(|_| {}));
    for (fault, name) in notes::CONTROLS {
        let scenario = notes::SCENARIOS.iter().find(|s| s.name == name);
        let scenario = scenario.expect("a scenario of the list");
        let run = Run::wrong(fault);
        let reports = [
            notes::explore::<Ring<2>>(scenario, Strategy::Vote, run),
            notes::explore::<Ring<1>>(scenario, Strategy::Random, run),
        ];
        let found = reports.into_iter().find(|report| report.complaint.is_some());
        let report = found.unwrap_or_else(|| panic!("{fault:?} passes"));
        println!("{fault:?}: {} executions of {name:?}: {:?}", report.executions, report.complaint);
    }
}

/// A wrong variant, and the scenario that shows it first.
type Control = (Fault, &'static str);

/// Every wrong variant must be complained about, by the scenario that is named or any other.
fn all_caught<E: Checked>(controls: &[Control], scenarios: &[Scenario]) {
    std::panic::set_hook(Box::new(|_| {}));
    let missed: Vec<Fault> = controls
        .iter()
        .filter(|(fault, first)| {
            let named = scenarios.iter().filter(|s| s.name == *first);
            let others = scenarios.iter().filter(|s| s.name != *first);
            assert!(named.clone().count() == 1, "a scenario {first:?}");
            !named.chain(others).any(|scenario| is_caught::<E>(*fault, scenario))
        })
        .map(|(fault, _)| *fault)
        .collect();
    assert!(missed.is_empty(), "wrong variants that pass: {missed:?}");
}

fn is_caught<E: Checked>(fault: Fault, scenario: &Scenario) -> bool {
    let report = explore::<E>(scenario, Run::wrong(fault));
    let Some(complaint) = report.complaint else { return false };
    let complaint: String = complaint.chars().take(100).collect();
    println!("{fault:?}: {} executions of {:?}: {complaint}", report.executions, scenario.name);
    true
}

#[test]
fn wrong_heads_are_caught() {
    let controls = [
        (Fault::NaiveHead, "head move | remove | get, get"),
        (Fault::RecheckHead, "head move | remove | get, get"),
        (Fault::TrustDead, "stalled head move | remove, remove next | miss"),
        (Fault::FollowDead, "stalled head move | remove, remove next | miss"),
        (Fault::NoUnlinkWait, "head move | remove | get, get"),
        (Fault::RelaxedUnlinked, "remove hot | insert behind, get | get, get"),
        (Fault::NoFreeze, "in place | read-modify-write | get"),
        (Fault::StoreInPlace, "blind in place | read-modify-write | get, get"),
        (Fault::NoBusy, "split, search | insert, get | get"),
        (Fault::RelaxedBusy, "grow, get | insert by the old mask | split"),
        (Fault::RelaxedPublish, "remove hot | insert behind, get | get, get"),
        (Fault::ReplaceDrop, "update hot | update hot | get, get"),
    ];
    all_caught::<Ring<1>>(&controls, &scenarios::one_head());
}

#[test]
fn wrong_lines_are_caught() {
    let controls = [
        (Fault::InsertKeepsComplete, "full: insert, get | get, get | remove"),
        (Fault::InsertKeepsCandidate, "candidate: complete | insert, get | get"),
        (Fault::LinkFirst, "candidate: complete | insert, get | get"),
        (Fault::ReservedMissed, "room: insert | insert, get | remove, get"),
        (Fault::ClearReplaced, "full: update | get, get | get"),
        (Fault::NoSecondLook, "room: insert | put, get | get"),
        (Fault::SplitKeepsComplete, "grow, split | get, miss"),
        (Fault::SplitTrustsCandidate, "old candidate that lacks an item: split | miss, get"),
        (Fault::DisplaceKeepsComplete, "displace | remove, complete | get, get"),
        (Fault::ReleaseLink, "room: insert | insert, get | remove, get"),
        (Fault::ServesAll, "grown twice: get | get"),
        (Fault::ServesChildren, "grown twice: get | get"),
        (Fault::CutStored, "lazy updates of two keys | insert before, get"),
        (Fault::QueueTrustsItem, "lazy updates of two keys | lazy update | insert between, get"),
        (Fault::QueueRetires, "lazy updates of two keys | insert before, get"),
    ];
    let slow = [
        (Fault::CompleteNoGrace, "no candidate: complete | insert, get | get"),
        (
            Fault::CompleteStampEarly,
            "no candidate: becomes one | insert, get | advance, complete, get",
        ),
    ];
    // Half of all the time for wrong variants; shuttle catches them, too.
    let slow = if is_long() { &slow[..] } else { &[] };
    let controls: Vec<Control> = controls.iter().chain(slow).copied().collect();
    all_caught::<Ring<2>>(&controls, &scenarios::complete_lines());
}

#[test]
fn wrong_tags_are_caught() {
    let controls = [(Fault::TrustTag, "get | remove other | insert other")];
    all_caught::<Ring<2>>(&controls, &scenarios::equal_tags());
}

#[test]
fn wrong_halvings_are_caught() {
    let controls = [
        (Fault::NoGrace, "all of it | get, get"),
        (Fault::NoAnchorMark, "sweep | remove, get | insert before it"),
        (Fault::ShrinkForgetsClaim, "sweep | get | insert, get"),
    ];
    all_caught::<Ring<2>>(&controls, &scenarios::shrink());
    let controls = [(Fault::ShrinkComplete, "halve a complete table | get, get | insert, get")];
    all_caught::<Ring<2>>(&controls, &scenarios::shrink_complete());
}
