//! Finding a vacant slot before anything moves (RHKV section 4.7.1).
//!
//! With one slot per bucket there is no choice: the item in a bucket leads to its other bucket, and so on,
//! to a vacancy or into a loop. With several slots a breadth-first search finds the nearest vacancy, so
//! that few items move.

use super::bucket_pair::BucketPair;
use super::graph::{Case, Graph};
use super::tables::{Path, Step, Tables, slots};

/// The most buckets that a breadth-first search visits: with 4 slots per bucket, all buckets within
/// four kicks. Below a load of 0.95 it visits 16 on average.
const BUCKETS_MAX: usize = if cfg!(any(loom, shuttle)) { 10 } else { 682 };

/// Walks from bucket to bucket without moving anything. False if the walk is an endless loop, which
/// is detected (Brent 1980) after at most three times as many steps as it has buckets.
pub(crate) fn walk<const S: usize>(tables: &impl Tables<S>, from: u32, path: &mut Path) -> bool {
    debug_assert_eq!(S, 1, "with more slots there is a choice");
    path.0.clear();
    let (mut bucket, mut seen, mut seen_next) = (from, from, 1);
    loop {
        let word = tables.word(bucket);
        path.0.push(Step { slot: bucket, word });
        if word == 0 {
            return true;
        }
        bucket = tables.other(bucket, word);
        if bucket == seen {
            path.0.clear();
            return false;
        }
        if path.0.len() == seen_next {
            (seen, seen_next) = (bucket, 2 * seen_next);
        }
    }
}

/// The prediction for an insertion, before anything moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outlook {
    /// The graph has predicted the case.
    Foretold(Case),
    /// The graph said maybe, as there were removals, and a walk that moved nothing found no
    /// vacancy: case C3.
    Tried,
    /// There is no graph; a search was done instead.
    Searched,
}

/// Finds the path to a vacancy for a new item by the graph; an empty path if there is no vacancy.
pub(crate) fn predetermined<const S: usize>(
    tables: &impl Tables<S>,
    graph: &mut Graph,
    at: BucketPair,
    path: &mut Path,
) -> Outlook {
    let forecast = graph.predetermine(at);
    let sides = || forecast.sides.into_iter().flatten();
    path.0.clear();
    if let Some(side) = sides().find(|&side| tables.word(side) == 0) {
        path.set_direct(side);
        return Outlook::Foretold(forecast.case);
    }
    for side in sides() {
        if walk(tables, side, path) {
            return Outlook::Foretold(forecast.case);
        }
        // The graph's maybe was a no, as there were removals; or an item is damaged, and its hash leads elsewhere.
    }
    if forecast.case == Case::C3 { Outlook::Foretold(Case::C3) } else { Outlook::Tried }
}

/// A bucket that a search has visited.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    bucket: u32,
    /// The origin: the node's number, and the slot whose item would move here.
    parent: u32,
    from: Step,
}

/// The shortest path to a vacancy from either bucket; an empty one if none is near.
pub(crate) fn search<const S: usize>(
    tables: &impl Tables<S>,
    at: BucketPair,
    nodes: &mut Vec<Node>,
    path: &mut Path,
) {
    path.0.clear();
    nodes.clear();
    let nowhere = Step { slot: 0, word: 0 };
    nodes.extend([at.one, at.two].map(|bucket| Node { bucket, parent: 0, from: nowhere }));
    let mut next = 0;
    while let Some(&Node { bucket, .. }) = nodes.get(next) {
        if let Some(vacant) = tables.vacancy(bucket) {
            trace(nodes, next, vacant, path);
            return;
        }
        for slot in slots::<S>(bucket) {
            let word = tables.word(slot);
            // A vacant slot here was vacated by another session during this search, whose path is
            // compared later.
            if nodes.len() == BUCKETS_MAX || word == 0 {
                break;
            }
            let other = tables.other(bucket, word);
            nodes.push(Node { bucket: other, parent: next as u32, from: Step { slot, word } });
        }
        next += 1;
    }
}

/// Builds the path by going back from a vacancy to a bucket of the key.
fn trace(nodes: &[Node], mut at: usize, vacant: u32, path: &mut Path) {
    path.0.push(Step { slot: vacant, word: 0 });
    while at > 1 {
        path.0.push(nodes[at].from);
        at = nodes[at].parent as usize;
    }
    path.0.reverse();
}
