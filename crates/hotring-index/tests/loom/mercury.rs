//! The scenarios of Mercury: operations that meet a bucket on its way to a larger table, and the
//! changes of state before and after. `Collect` moves one bucket, or ends the expansion with the last;
//! in a table of one bucket that is the same step.

use crate::Control;
use crate::history::Op;
use crate::scenarios::{del, get, ins, put, rcu};
use crate::world::Act::{Collect, Do, Grow};
use crate::world::{Act, Scenario};
use hotring_engines::faults::Fault;

fn scenario(name: &'static str, setup: Vec<Act>, threads: Vec<Vec<Act>>) -> Scenario {
    Scenario { sessions_first: true, ..Scenario::new(name, setup, threads) }
}

/// The fault, and where it shows.
pub const CONTROLS: [Control; 5] = [
    (Fault::MovedUnseen, "move | get, get"),
    (Fault::MovedEarly, "move | get, get"),
    (Fault::CountEarly, "move | get, get"),
    (Fault::CountRelaxed, "move | get, get"),
    (Fault::NoThreadLocks, "move, end, leave | get, get"),
];

/// Keys in both halves of a table of one bucket.
fn one_bucket() -> Vec<Act> {
    vec![put(20, 2), put(200, 3)]
}

/// The same, with an expansion under way.
fn one_bucket_growing() -> Vec<Act> {
    [one_bucket(), vec![Grow]].concat()
}

/// A table of two buckets with an expansion under way; two keys stay in one bucket.
fn two_buckets_growing() -> Vec<Act> {
    vec![put(20, 2), put(30, 3), Grow, Collect, Collect, Grow]
}

pub fn scenarios() -> Vec<Scenario> {
    vec![
        scenario(
            "get, get | remove, insert",
            one_bucket(),
            vec![vec![get(20), get(20)], vec![del(20), ins(20, 5)]],
        ),
        scenario(
            "insert, get | insert, remove",
            one_bucket(),
            vec![vec![ins(30, 5), get(30)], vec![ins(30, 6), del(30)]],
        ),
        scenario(
            "move | get, get",
            two_buckets_growing(),
            vec![vec![Collect], vec![get(20), get(30)]],
        ),
        scenario(
            "get, get | move",
            two_buckets_growing(),
            vec![vec![get(20), get(30)], vec![Collect]],
        ),
        scenario(
            "move, end | get, get",
            two_buckets_growing(),
            vec![vec![Collect, Collect], vec![get(20), get(200)]],
        ),
        scenario(
            "move | insert, get",
            two_buckets_growing(),
            vec![vec![Collect], vec![ins(100, 7), get(20)]],
        ),
        scenario(
            "move | remove, get",
            two_buckets_growing(),
            vec![vec![Collect], vec![del(20), get(30)]],
        ),
        scenario(
            "move | replace, get",
            two_buckets_growing(),
            vec![vec![Collect], vec![rcu(20, 9), get(20)]],
        ),
        scenario("begin | get", one_bucket(), vec![vec![Grow], vec![get(20)]]),
        scenario("begin | insert", one_bucket(), vec![vec![Grow], vec![ins(100, 5)]]),
        scenario(
            "move, end, leave | get, get",
            one_bucket_growing(),
            vec![vec![Collect, Collect], vec![get(20), get(200)]],
        ),
        scenario(
            "move, end, leave | insert",
            one_bucket_growing(),
            vec![vec![Collect, Collect], vec![ins(100, 5)]],
        ),
        scenario(
            "move, end | move, end",
            one_bucket_growing(),
            vec![vec![Collect, get(20)], vec![Collect]],
        ),
    ]
}

/// For long runs.
pub fn large() -> Vec<Scenario> {
    vec![
        scenario(
            "begin, move, end | insert | remove",
            one_bucket(),
            vec![vec![Grow, Collect], vec![ins(100, 7)], vec![del(200)]],
        ),
        scenario(
            "move | take | add",
            two_buckets_growing(),
            vec![vec![Collect], vec![Do(20, Op::Take)], vec![Do(20, Op::Add(1))]],
        ),
        scenario(
            "insert | insert | remove in one bucket",
            one_bucket(),
            vec![vec![ins(30, 5), get(30)], vec![ins(30, 6)], vec![del(30)]],
        ),
    ]
}
