//! The scenarios of chains: operations in one bucket, and a bucket that is split under them.
//!
//! Position 200 lies in the upper bucket of two. Newer items come before older ones.

use crate::Control;
use crate::history::Op;
use crate::scenarios::{Threads, del, flip, get, incr, ins, put, rcu, take};
use crate::world::Act::{self, Collect, Do, Grow, Scan};
use crate::world::Scenario;
use hotring_engines::faults::Fault as Chains;
use hotring_index::checks::{Fault, Reclaim};

fn chain(name: &'static str, setup: Vec<Act>, threads: Threads) -> Scenario {
    Scenario { sessions_first: true, ..Scenario::new(name, setup, threads) }
}

/// A replacement, whatever the value was.
fn replace(key: u8, value: u64) -> Act {
    Do(key, Op::Replace(value | 1 << 63))
}

/// Operations that meet in one bucket.
fn one_bucket() -> Vec<Scenario> {
    vec![
        chain(
            "insert | insert, get | get",
            vec![put(20, 2)],
            vec![vec![ins(10, 1)], vec![ins(10, 2), get(10)], vec![get(10)]],
        ),
        chain(
            "insert | insert other, get | get both",
            vec![],
            vec![vec![ins(10, 1)], vec![ins(20, 2), get(20)], vec![get(10), get(20)]],
        ),
        chain(
            "insert | insert other, remove it | insert, get",
            vec![put(20, 2)],
            vec![vec![ins(10, 1)], vec![ins(30, 3), del(30)], vec![ins(10, 2), get(10)]],
        ),
        chain(
            "insert | remove | get, get",
            vec![put(20, 2)],
            vec![vec![ins(10, 1)], vec![del(10)], vec![get(10), get(20)]],
        ),
        chain(
            "remove | remove, insert | get, get",
            vec![put(10, 1), put(20, 2)],
            vec![vec![del(10)], vec![del(10), ins(10, 4)], vec![get(10), get(20)]],
        ),
        chain(
            "remove | remove next | insert, get",
            vec![put(30, 3), put(20, 2), put(10, 1)],
            vec![vec![del(10)], vec![del(20)], vec![ins(15, 7), get(30)]],
        ),
        chain(
            "remove | remove next | get last",
            vec![put(30, 3), put(20, 2), put(10, 1)],
            vec![vec![del(10)], vec![del(20)], vec![get(30), get(30)]],
        ),
        chain(
            "replace | remove | get, get",
            vec![put(20, 2), put(10, 1)],
            vec![vec![rcu(10, 5)], vec![del(10)], vec![get(10), get(20)]],
        ),
        chain(
            "replace | replace | get, get",
            vec![put(10, 1)],
            vec![vec![rcu(10, 5)], vec![rcu(10, 6)], vec![get(10), get(10)]],
        ),
        chain(
            "replace | remove next | get next, get",
            vec![put(30, 3), put(20, 2), put(10, 1)],
            vec![vec![rcu(10, 5)], vec![del(20)], vec![get(30), get(10)]],
        ),
        chain(
            "in place | read-modify-write | get, get",
            vec![put(10, 1)],
            vec![vec![incr(10)], vec![flip(10)], vec![get(10), get(10)]],
        ),
        chain(
            "blind in place | read-modify-write | get, get",
            vec![put(10, 1)],
            vec![vec![put(10, 5)], vec![flip(10)], vec![get(10), get(10)]],
        ),
        chain(
            "in place | take | replace",
            vec![put(10, 1)],
            vec![vec![incr(10)], vec![take(10)], vec![rcu(10, 5)]],
        ),
    ]
}

/// A table that doubles, and a bucket that is split by the first thread's write, beside operations of the
/// second thread, which may have come to the bucket before.
fn split() -> Vec<Scenario> {
    let two = || vec![put(200, 2), put(10, 1)];
    let three = || vec![put(30, 3), put(200, 2), put(10, 1)];
    let beside = |name, setup: Vec<Act>, acts: &[Act]| {
        chain(name, setup, vec![vec![Grow, ins(210, 3)], acts.to_vec()])
    };
    vec![
        beside("split | get, get", two(), &[get(200), get(10)]),
        beside("split | miss, get", three(), &[get(220), get(30)]),
        beside("split | insert the same, get", two(), &[ins(210, 4), get(210)]),
        beside("split | insert, get", two(), &[ins(220, 4), get(200)]),
        beside("split | remove, get", two(), &[del(200), get(200)]),
        beside("split | remove, insert", two(), &[del(200), ins(200, 4)]),
        beside("split | replace, get", two(), &[rcu(200, 5), get(200)]),
        beside("split | in place, get", two(), &[incr(200), get(200)]),
        beside("split | read-modify-write", two(), &[flip(200), incr(200)]),
        beside("split | take, get", two(), &[take(200), get(200)]),
        beside("split | remove what stays", three(), &[del(10), get(200)]),
        beside("split | replace what stays", three(), &[rcu(30, 5), get(200)]),
        beside("split | unlink behind what leaves", three(), &[del(30), get(200)]),
        beside("split | unlink what leaves, miss", three(), &[del(200), get(220)]),
        beside("split | scan", three(), &[Scan(1, &[10, 30, 200])]),
        beside("split | scan in one go", two(), &[Scan(9, &[10, 200])]),
        chain(
            "split, grow, split | get",
            vec![put(240, 4), put(10, 1)],
            vec![vec![Grow, ins(200, 3), Grow, del(200)], vec![get(240)]],
        ),
    ]
}

/// The same, where the other one was there first: the bound on switches allows other orders.
fn early() -> Vec<Scenario> {
    let two = || vec![put(200, 2), put(10, 1)];
    let three = || vec![put(30, 3), put(200, 2), put(10, 1)];
    let first = |name, setup: Vec<Act>, acts: &[Act]| {
        chain(name, setup, vec![acts.to_vec(), vec![Grow, ins(210, 3)]])
    };
    vec![
        first("get | split", two(), &[get(200)]),
        first("insert | split", two(), &[ins(220, 4), get(200)]),
        first("remove | split", two(), &[del(200)]),
        first("replace | split", two(), &[rcu(200, 5)]),
        first("in place | split", two(), &[incr(200)]),
        first("read-modify-write | split", two(), &[flip(200)]),
        first("unlink behind what leaves | split", three(), &[del(30), get(200)]),
        first("unlink what leaves | split", three(), &[del(200), get(30)]),
        first("scan | split", two(), &[Scan(1, &[10, 200])]),
    ]
}

/// A bucket that waits to be split, and two that come to it at once.
fn helped() -> Vec<Scenario> {
    let two = || vec![put(200, 2), put(10, 1), Grow];
    let three = || vec![put(30, 3), put(200, 2), put(10, 1), Grow];
    let beside = |name, setup: Vec<Act>, acts: &[Act]| {
        chain(name, setup, vec![vec![ins(210, 3)], acts.to_vec()])
    };
    vec![
        beside("insert | insert the same, get", two(), &[ins(210, 4), get(210)]),
        beside("insert | remove, insert", two(), &[del(200), ins(200, 4)]),
        beside("insert | replace, get", two(), &[rcu(200, 5), get(200)]),
        beside("insert | read-modify-write", two(), &[flip(200), incr(200)]),
        beside("insert | remove what stays", three(), &[del(10), get(200)]),
        beside("insert | replace what stays", three(), &[rcu(30, 5), get(200)]),
    ]
}

/// Splits that three take part in. Of a hundred thousand executions each, and for the long form.
pub fn large() -> Vec<Scenario> {
    let two = || vec![put(200, 2), put(10, 1), Grow];
    let three = || vec![put(30, 3), put(200, 2), put(10, 1), Grow];
    vec![
        chain(
            "split | miss | get",
            three(),
            vec![vec![rcu(30, 9)], vec![get(220)], vec![get(200)]],
        ),
        chain(
            "split | insert | insert the same",
            two(),
            vec![vec![del(10)], vec![ins(210, 3)], vec![ins(210, 4)]],
        ),
        chain(
            "split | remove | replace",
            two(),
            vec![vec![ins(210, 3)], vec![del(200)], vec![replace(200, 5)]],
        ),
        chain(
            "split | in place | read-modify-write",
            two(),
            vec![vec![ins(210, 3)], vec![incr(200)], vec![flip(200)]],
        ),
        chain(
            "split | in place | get, get",
            two(),
            vec![vec![ins(210, 3)], vec![incr(200)], vec![get(200), get(200)]],
        ),
        chain(
            "split | remove what stays | get what leaves",
            three(),
            vec![vec![ins(210, 3)], vec![del(10)], vec![get(200)]],
        ),
        chain(
            "split | split | remove what leaves",
            vec![put(200, 2), put(220, 4), Grow],
            vec![vec![ins(210, 3)], vec![rcu(200, 4)], vec![del(220)]],
        ),
        chain(
            "split | scan | replace",
            two(),
            vec![vec![ins(210, 3)], vec![Scan(9, &[10, 200])], vec![rcu(200, 5)]],
        ),
        chain(
            "split, grow, split | remove",
            vec![put(240, 4), put(10, 1)],
            vec![vec![Grow, ins(200, 3), Grow, del(200)], vec![del(240)]],
        ),
        chain(
            "split twice | remove, get",
            vec![put(240, 4), put(200, 2), put(10, 1), Grow],
            vec![vec![del(10), Grow, ins(210, 3), get(240)], vec![del(240), get(240)]],
        ),
    ]
}

fn freed(name: &'static str, setup: Vec<Act>, threads: Threads) -> Scenario {
    Scenario { reclaim: Reclaim::Epochs, ..chain(name, setup, threads) }
}

/// With memory that is really freed.
fn epochs() -> Vec<Scenario> {
    vec![
        freed(
            "split, and free | get",
            vec![put(200, 2), put(10, 1)],
            vec![vec![Grow, ins(210, 3), Collect, Collect, Collect], vec![get(200)]],
        ),
        freed(
            "step, and free | remove",
            vec![put(200, 2), put(10, 1), Grow],
            vec![vec![Collect, Collect, Collect], vec![del(200)]],
        ),
        freed(
            "remove, and free | get | insert",
            vec![put(20, 2), put(10, 1)],
            vec![vec![del(10), Collect, Collect], vec![get(20)], vec![ins(30, 3)]],
        ),
    ]
}

pub fn scenarios() -> Vec<Scenario> {
    [one_bucket(), split(), early(), helped(), epochs()].concat()
}

/// Wrong variants, and the scenario that shows each first.
pub const CONTROLS: [Control; 9] = [
    (Chains::ChainUnsealed, "split | remove, get"),
    (Chains::ChainUnfrozen, "split | in place, get"),
    (Chains::ChainRetires, "split | get, get"),
    (Chains::ChainMarksEarly, "unlink behind what leaves | split"),
    (Chains::ChainUnnoticed, "split | get, get"),
    (Chains::ChainBlindInsert, "insert | insert, get | get"),
    (Fault::RelaxedPublish, "insert | insert other, get | get both"),
    (Fault::NoFreeze, "in place | read-modify-write | get, get"),
    (Fault::StoreInPlace, "blind in place | read-modify-write | get, get"),
];
