//! The scenarios of lines of items: operations on one home, and a home that moves on under them. The smallest table has
//! one line, of which a sequence has two; `Collect` moves one home, and the last one ends the move.

use crate::Control;
use crate::history::Op;
use crate::scenarios::{Threads, del, get, incr, ins, put, rcu, take};
use crate::world::Act::{self, Collect, Do, Grow, Heat, Scan, Shrink};
use crate::world::Scenario;
use hotring_index::checks::{Fault, Reclaim};

/// One switch that nothing forced: a move has a hundred steps, at each of which the other thread may run.
fn lines(name: &'static str, setup: Vec<Act>, threads: Threads) -> Scenario {
    Scenario { sessions_first: true, preemptions: 1, ..Scenario::new(name, setup, threads) }
}

/// With memory, and tables, that are really freed.
fn freed(name: &'static str, setup: Vec<Act>, threads: Threads) -> Scenario {
    Scenario { reclaim: Reclaim::Epochs, ..lines(name, setup, threads) }
}

fn growing() -> Vec<Act> {
    vec![put(20, 2), put(200, 3), Grow]
}

fn shrinking() -> Vec<Act> {
    vec![put(20, 2), put(200, 3), Grow, Collect, Shrink]
}

/// A home line without a free lane.
fn crowded() -> Vec<Act> {
    vec![put(20, 1), put(30, 2), put(40, 3), put(50, 4)]
}

/// Operations on one home.
fn one_home() -> Vec<Scenario> {
    vec![
        lines(
            "insert | insert, get | get",
            vec![put(20, 2)],
            vec![vec![ins(10, 1)], vec![ins(10, 2), get(10)], vec![get(10)]],
        ),
        lines(
            "replace | remove | get, get",
            vec![put(20, 2)],
            vec![vec![rcu(20, 5)], vec![del(20)], vec![get(20), get(20)]],
        ),
        lines(
            "remove, insert other | get both",
            vec![put(20, 2)],
            vec![vec![del(20), ins(30, 4)], vec![get(20), get(30)]],
        ),
        lines(
            "in place | take | replace",
            vec![put(20, 2)],
            vec![vec![incr(20)], vec![take(20)], vec![rcu(20, 5)]],
        ),
        lines(
            "crowded: insert | insert it",
            crowded(),
            vec![vec![ins(60, 5)], vec![ins(60, 6), get(60)]],
        ),
        lines(
            "crowded: remove further out | insert, get",
            [crowded(), vec![put(60, 5)]].concat(),
            vec![vec![del(60)], vec![ins(70, 6), get(70)]],
        ),
    ]
}

/// As above, with one item in the second line of the sequence.
fn displaced() -> Vec<Act> {
    [crowded(), vec![put(60, 5)]].concat()
}

/// Both lines of the sequence are full, and one item is in the stash.
fn stashed() -> Vec<Act> {
    [displaced(), vec![put(70, 6), put(80, 7), put(90, 8), put(100, 9)]].concat()
}

/// A removal, after which a displaced item comes home.
fn moves_within() -> Vec<Scenario> {
    let beside = |name, acts: &[Act]| lines(name, displaced(), vec![vec![del(20)], acts.to_vec()]);
    let unstash = |name, acts: &[Act]| lines(name, stashed(), vec![vec![del(20)], acts.to_vec()]);
    vec![
        beside("displaced comes home | get, get", &[get(60), get(60)]),
        beside("displaced comes home | in place, get", &[incr(60), get(60)]),
        beside("displaced comes home | replace, get", &[rcu(60, 6), get(60)]),
        beside("displaced comes home | remove, insert again", &[take(60), ins(60, 7)]),
        beside("displaced comes home | insert it", &[ins(60, 7), get(60)]),
        beside("displaced comes home | move", &[Grow, Collect, get(60)]),
        beside("displaced comes home | scan", &[Scan(1, &[30, 40, 50, 60])]),
        unstash("stashed comes home | get", &[get(100)]),
        unstash("stashed comes home | replace", &[rcu(100, 6)]),
        unstash("stashed comes home | take", &[take(100)]),
    ]
}

/// A read after which a hot item comes home, and a cold one of its line goes out.
fn heats() -> Vec<Scenario> {
    let hot = || [displaced(), vec![Heat(60), Heat(60), Heat(60)]].concat();
    let beside = |name, acts: &[Act]| lines(name, hot(), vec![vec![Heat(60)], acts.to_vec()]);
    vec![
        beside("cold goes out, hot comes home | get cold", &[get(20)]),
        beside("cold goes out, hot comes home | get hot", &[get(60)]),
        beside("cold goes out, hot comes home | in place both", &[incr(20), incr(60)]),
        beside("cold goes out, hot comes home | take both", &[take(20), take(60)]),
    ]
}

/// A home that moves on to the next table, larger or smaller.
fn moves() -> Vec<Scenario> {
    let beside = |name, acts: &[Act]| lines(name, growing(), vec![vec![Collect], acts.to_vec()]);
    let shrunk = |name, acts: &[Act]| lines(name, shrinking(), vec![vec![Collect], acts.to_vec()]);
    vec![
        beside("move | get, get", &[get(20), get(200)]),
        beside("move | insert, get", &[ins(30, 4), get(30)]),
        beside("move | replace, get", &[rcu(20, 5), get(20)]),
        beside("move | in place, get", &[incr(20), get(20)]),
        beside("move | remove, insert again", &[Do(20, Op::Take), ins(20, 7)]),
        beside("move | scan", &[Scan(1, &[20, 200])]),
        beside("move | move, get", &[Collect, get(200)]),
        beside("move | grow", &[Grow, get(20)]),
        shrunk("shrink: move | get, get", &[get(20), get(200)]),
        shrunk("shrink: move | replace, get", &[rcu(20, 5), get(20)]),
        shrunk("shrink: move | move, get", &[Collect, get(200)]),
    ]
}

fn epochs() -> Vec<Scenario> {
    vec![
        freed(
            "move, and free the table | get",
            growing(),
            vec![vec![Collect, Collect, Collect, Collect], vec![get(20)]],
        ),
        freed(
            "remove, and free | get | insert",
            vec![put(20, 2), put(10, 1)],
            vec![vec![del(10), Collect, Collect], vec![get(10)], vec![ins(30, 3)]],
        ),
    ]
}

pub fn scenarios() -> Vec<Scenario> {
    [one_home(), moves_within(), heats(), moves(), epochs()].concat()
}

/// Wrong variants, and the scenario that shows each first.
pub const CONTROLS: [Control; 6] = [
    (Fault::LinesMoveUnfrozen, "move | replace, get"),
    (Fault::LinesStaleTable, "move | get, get"),
    (Fault::LinesNoSecondLook, "move | get, get"),
    (Fault::LinesReachLate, "crowded: insert | insert it"),
    (Fault::NoFreeze, "in place | take | replace"),
    (Fault::LinesNoCount, "displaced comes home | get, get"),
];
