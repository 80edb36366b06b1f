//! The shapes of scenarios: a bit of everything for every configuration, and those that are made
//! to come by one kind of trouble often.

use crate::explore::Scenario;
use crate::gcuckoo;
use crate::history::Op;
use crate::plan::{Action, Form, Items, Pick, Place, Script, Shape};
use crate::renewal::renewal;
use hotring_engines::{Chaining, Mercury, TestAndSet};
use hotring_index::{RcuCounts, Ring, Strategy};
use std::sync::Arc;

/// A bit of everything.
pub fn everything() -> Vec<Shape> {
    use Items::{Bytes, U64};
    use Strategy::{None, Random, Sampling, Vote};
    let predecessor = Shape::new("bytes-1-predecessor", Bytes, 1, Sampling);
    vec![
        Shape::new("u64-7-vote", U64, 7, Vote),
        Shape::new("u64-2-vote", U64, 2, Vote),
        Shape::new("u64-1-vote", U64, 1, Vote),
        Shape::new("u64-1-random", U64, 1, Random),
        Shape::new("u64-1-sampling", U64, 1, Sampling),
        Shape::new("u64-3-none", U64, 3, None),
        Shape::new("u64-2-complete", U64, 2, Vote).complete(),
        Shape::new("u64-3-complete", U64, 3, Vote).complete(),
        Shape::new("u64-7-complete", U64, 7, Vote).complete(),
        Shape::new("u64-2-oracle", U64, 2, Vote).oracle(),
        Shape::new("u64-3-oracle", U64, 3, Vote).oracle(),
        Shape::new("bytes-7-vote", Bytes, 7, Vote),
        Shape::new("bytes-1-random", Bytes, 1, Random),
        Shape::new("bytes-1-sampling", Bytes, 1, Sampling),
        Shape { rcu_counts: RcuCounts::Predecessor, ..predecessor },
        Shape::new("bytes-2-complete", Bytes, 2, Vote).complete(),
        Shape::new("bytes-3-complete", Bytes, 3, Vote).complete(),
        Shape::new("bytes-1-oracle", Bytes, 1, Random).oracle(),
        Shape::of("u64-mercury", U64, Form::Mercury),
        Shape::of("u64-mercury-oracle", U64, Form::Mercury).oracle(),
        Shape::of("u64-mercury-mutex", U64, Form::MercuryMutex),
        Shape::of("bytes-mercury", Bytes, Form::Mercury),
        Shape::of("bytes-gcuckoo-1", Bytes, Form::GCuckoo1),
        Shape::of("bytes-gcuckoo-4", Bytes, Form::GCuckoo4),
        Shape::of("bytes-gcuckoo-4-oracle", Bytes, Form::GCuckoo4).oracle(),
    ]
}

/// A bit of everything with one hint a slot.
pub fn one(name: &'static str, strategy: Strategy) -> Shape {
    Shape::new(name, Items::U64, 1, strategy)
}

/// A bit of everything with two hints a slot.
pub fn two(name: &'static str) -> Shape {
    Shape::new(name, Items::U64, 2, Strategy::Vote)
}

/// Few threads, keys and actions.
fn small(name: &'static str, items: Items, weights: &'static [(Pick, u64)]) -> Shape {
    Shape {
        keys: (1, 3),
        places: &[Place::Crowd],
        threads: (2, 3),
        actions: (2, 5),
        prefill: 67,
        shrinking: 0,
        grows: (0, 0),
        weights,
        ..Shape::new(name, items, 2, Strategy::Vote)
    }
}

/// Full lines, and inserts where they become complete.
pub fn insert_candidate() -> Shape {
    let weights = &[
        (Pick::Insert, 4),
        (Pick::Remove, 1),
        (Pick::Get, 5),
        (Pick::Complete, 4),
        (Pick::Advance, 1),
    ];
    Shape {
        keys: (3, 3),
        heat: 0,
        ..small("insert-candidate", Items::U64, weights).complete_after((3, 3))
    }
}

/// Inserts into complete lines that have room, and lookups beside them.
pub fn insert_complete() -> Shape {
    let weights = &[(Pick::Insert, 4), (Pick::Remove, 2), (Pick::Get, 5)];
    Shape {
        heat: 0,
        prefill: 30,
        ..small("insert-complete", Items::U64, weights).complete_after((4, 5))
    }
}

/// Batches beside inserts that take hints from items of complete lines.
pub fn batch_complete() -> Shape {
    let weights = &[(Pick::GetMany, 6), (Pick::Insert, 4), (Pick::Remove, 2)];
    Shape { keys: (3, 3), ..small("batch-complete", Items::U64, weights).complete_after((4, 5)) }
}

/// Replacements of items that complete lines hint.
pub fn replace_complete() -> Shape {
    let weights = &[(Pick::Put, 6), (Pick::Get, 8)];
    let small = small("replace-complete", Items::Bytes, weights);
    Shape { keys: (2, 2), prefill: 90, ..small.complete_after((4, 5)) }
}

/// Expiries in the past against everything else that ends an entry.
pub fn lapse() -> Shape {
    let weights = &[(Pick::Timed, 4), (Pick::Put, 1), (Pick::Remove, 1), (Pick::Take, 1)];
    Shape { keys: (1, 1), prefill: 100, heat: 0, ..small("lapse", Items::Bytes, weights) }
}

/// Writes in place beside moves.
pub fn move_and_add() -> Shape {
    let weights = &[(Pick::Add, 4), (Pick::Get, 2), (Pick::Compact, 4)];
    Shape { prefill: 100, ..small("move-and-add", Items::U64, weights) }
}

/// Notes of accesses beside whatever else changes an item's word.
pub fn notes() -> Shape {
    let weights = &[
        (Pick::Get, 5),
        (Pick::GetMany, 1),
        (Pick::Put, 3),
        (Pick::Remove, 1),
        (Pick::Insert, 1),
        (Pick::Compact, 1),
        (Pick::Look, 5),
        (Pick::Review, 2),
    ];
    Shape { prefill: 100, heat: 30, actions: (2, 7), ..small("notes", Items::Bytes, weights) }
}

/// Slots that come and go.
pub fn breathe() -> Shape {
    let weights = &[
        (Pick::Insert, 4),
        (Pick::Remove, 3),
        (Pick::Get, 3),
        (Pick::Put, 2),
        (Pick::Grow, 3),
        (Pick::Shrink, 4),
        (Pick::Collect, 8),
        (Pick::Complete, 3),
        (Pick::Advance, 2),
    ];
    Shape {
        places: &[Place::Halves, Place::Crowd],
        threads: (2, 4),
        actions: (2, 8),
        grows: (1, 3),
        shrinking: 60,
        ..small("breathe", Items::U64, weights)
    }
}

/// Lookups and writes while buckets move, and the state changes before and after.
pub fn expand() -> Shape {
    let weights = &[
        (Pick::Get, 6),
        (Pick::Insert, 3),
        (Pick::Remove, 2),
        (Pick::Scan, 1),
        (Pick::Grow, 3),
        (Pick::Collect, 8),
        (Pick::NewSession, 1),
    ];
    Shape {
        form: Form::Mercury,
        keys: (1, 4),
        places: &[Place::Any, Place::Halves, Place::Crowd],
        threads: (2, 4),
        actions: (2, 8),
        grows: (1, 2),
        ..small("expand", Items::U64, weights)
    }
}

/// An operation in a script; values are bytes where they can be, without an expiry.
fn op(key: usize, op: Op) -> Action {
    Action::Op(key, op, false, 3 << 8)
}

fn scripted(name: &'static str, items: Items, script: fn() -> Script) -> Shape {
    Shape { heat: 0, script: Some(script), ..small(name, items, &[]) }
}

/// An insert that looks for room before another session makes the line a candidate, and links when it has
/// become complete, all as slowly as epochs allow.
pub fn slow_stamp() -> Shape {
    let script = || Script {
        prefill: vec![Some(1), Some(2), None],
        threads: vec![
            vec![Action::Await(1), op(2, Op::Insert(3)), op(2, Op::Get)],
            vec![Action::Complete(0), Action::Signal],
            vec![
                Action::Advance,
                Action::Signal,
                Action::Await(2),
                Action::Advance,
                Action::Complete(0),
            ],
        ],
    };
    scripted("slow-stamp", Items::U64, script).complete_after((0, 0))
}

/// A lookup that meets a replacement, in a line whose items go to a new slot.
pub fn split_complete() -> Shape {
    let script = || Script {
        prefill: vec![Some(1), Some(2)],
        threads: vec![
            vec![op(1, Op::Get)],
            vec![op(1, Op::Put(3))],
            vec![Action::Grow, op(1, Op::Get)],
        ],
    };
    let shape = scripted("split-complete", Items::Bytes, script).complete_after((4, 5));
    Shape { places: &[Place::Halves], grows: (2, 2), ..shape }
}

/// Two replacements of an item, of which the second comes to the line first, while a copy without
/// a hint displaces the other item of a complete line.
pub fn displace_complete() -> Shape {
    let script = || {
        let hot = Action::Op(0, Op::Get, true, 0);
        Script {
            prefill: vec![Some(1), Some(2)],
            threads: vec![
                vec![op(0, Op::Put(3))],
                vec![op(0, Op::Put(4))],
                vec![hot.clone(), hot.clone(), hot.clone(), hot, op(1, Op::Get)],
            ],
        }
    };
    scripted("displace-complete", Items::Bytes, script).complete_after((4, 5))
}

/// All scenarios.
pub fn all() -> Vec<Scenario> {
    let special = [
        insert_candidate(),
        insert_complete(),
        batch_complete(),
        replace_complete(),
        lapse(),
        move_and_add(),
        notes(),
        breathe(),
        expand(),
        Shape { name: "breathe-complete", ..breathe().complete() },
        slow_stamp(),
        split_complete(),
        displace_complete(),
    ];
    let shapes = everything().into_iter().chain(special).chain(chains());
    let renewals = [renewals(), renewals_on_chains(), renewals_in_buckets()];
    shapes.map(Scenario::from).chain(renewals).chain(gcuckoo::all()).collect()
}

/// Chains that are split again and again.
pub fn splits(name: &'static str, items: Items) -> Shape {
    let weights = &[
        (Pick::Get, 6),
        (Pick::Insert, 4),
        (Pick::Put, 3),
        (Pick::Remove, 3),
        (Pick::Add, 3),
        (Pick::Take, 1),
        (Pick::GetMany, 2),
        (Pick::Scan, 2),
        (Pick::Clear, 1),
        (Pick::Grow, 5),
        (Pick::Collect, 2),
    ];
    Shape {
        keys: (2, 4),
        places: &[Place::Halves, Place::Crowd],
        threads: (2, 3),
        actions: (2, 6),
        prefill: 80,
        weights,
        ..Shape::of(name, items, Form::Chains)
    }
}

/// Mostly splits, and operations whose effects splits must not lose.
fn few_splits(name: &'static str, weights: &'static [(Pick, u64)]) -> Shape {
    let shape = splits(name, Items::U64);
    let places = &[Place::Halves];
    Shape { keys: (2, 3), places, actions: (2, 3), grows: (0, 1), prefill: 100, weights, ..shape }
}

/// Writes in place beside splits.
pub fn add_and_split() -> Shape {
    few_splits("add-and-split", &[(Pick::Add, 5), (Pick::Insert, 1), (Pick::Grow, 3)])
}

/// Removals beside splits.
pub fn remove_and_split() -> Shape {
    few_splits("remove-and-split", &[(Pick::Remove, 4), (Pick::Insert, 2), (Pick::Grow, 3)])
}

fn chains() -> Vec<Shape> {
    vec![
        Shape::of("u64-chains", Items::U64, Form::Chains),
        Shape::of("u64-chains-oracle", Items::U64, Form::Chains).oracle(),
        Shape::of("bytes-chains", Items::Bytes, Form::Chains),
        splits("u64-splits", Items::U64),
        splits("u64-splits-oracle", Items::U64).oracle(),
        splits("bytes-splits", Items::Bytes),
        add_and_split(),
        remove_and_split(),
    ]
}

/// Renewals of entries that are about to expire.
pub fn renewals() -> Scenario {
    Scenario { name: "renewal", run: Arc::new(renewal::<Ring<2>>) }
}

fn renewals_in_buckets() -> Scenario {
    Scenario { name: "renewal-mercury", run: Arc::new(renewal::<Mercury<TestAndSet>>) }
}

fn renewals_on_chains() -> Scenario {
    Scenario { name: "renewal-chains", run: Arc::new(renewal::<Chaining>) }
}
