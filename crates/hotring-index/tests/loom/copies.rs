//! Copies of hot items in their slots: made, read, ended, spoilt, moved, and taken along by what a
//! table does to its slots.
//!
//! The first `Heat` of an item in the hot place copies it.

use crate::Control;
use crate::scenarios::{Threads, del, get, incr, ins, put, rcu};
use crate::world::{Act, PREEMPTIONS, Scenario};
use Act::{Collect, Grow, Heat, Shrink};
use hotring_index::checks::{Fault, Reclaim};

pub const CONTROLS: [Control; 7] = [
    (Fault::CopyUnannounced, "copy | update, get"),
    (Fault::CopyTaken, "copy | remove, copy other, get other"),
    (Fault::CopyUnconfirmed, "remove copied, copy other | get"),
    (Fault::CopyUnfrozen, "copy | in place, get"),
    (Fault::CopyOutlives, "update copied | in place, get"),
    (Fault::CopyAgain, "update copied, get | copy again"),
    (Fault::ShrinkKeepsCopies, "halve, undo | update copied"),
];

fn copies(name: &'static str, setup: Vec<Act>, threads: Threads) -> Scenario {
    Scenario {
        hot_copy: true,
        // Copies take many steps; the long form has more.
        preemptions: 1,
        ..Scenario::new(name, setup, threads)
    }
}

pub fn of_one_hint() -> Vec<Scenario> {
    let one = || vec![put(10, 1)];
    let copied = || vec![put(10, 1), put(20, 2), Heat(10)];
    let upper = vec![Grow, put(200, 2), Heat(200)];
    let halving = |name, more: &[Act], threads| Scenario {
        reclaim: Reclaim::Epochs,
        ..copies(name, [&upper[..], more].concat(), threads)
    };
    vec![
        copies("copy | update, get", one(), vec![vec![Heat(10)], vec![rcu(10, 5), get(10)]]),
        copies(
            "copy | update | get, get",
            one(),
            vec![vec![Heat(10)], vec![rcu(10, 5)], vec![get(10), get(10)]],
        ),
        copies(
            "copy | remove, insert | get",
            one(),
            vec![vec![Heat(10)], vec![del(10), ins(10, 7)], vec![get(10)]],
        ),
        copies("copy | in place, get", one(), vec![vec![Heat(10)], vec![incr(10), get(10)]]),
        copies(
            "copy | copy, get | update",
            one(),
            vec![vec![Heat(10)], vec![Heat(10), get(10)], vec![rcu(10, 5)]],
        ),
        copies(
            "copy | remove, copy other, get other",
            vec![put(10, 1), put(20, 2)],
            vec![vec![Heat(10)], vec![del(10), Heat(20), Heat(20), get(20)]],
        ),
        Scenario {
            preemptions: PREEMPTIONS,
            ..copies(
                "remove copied, copy other | get",
                copied(),
                vec![vec![del(10), Heat(20), Heat(20)], vec![get(10)]],
            )
        },
        copies(
            "update copied, get | get",
            copied(),
            vec![vec![rcu(10, 5), get(10)], vec![get(10), get(10)]],
        ),
        copies(
            "update copied | in place, get",
            copied(),
            vec![vec![rcu(10, 5)], vec![incr(10), get(10)]],
        ),
        copies(
            "update copied, get | copy again",
            copied(),
            vec![vec![rcu(10, 5), get(10)], vec![Heat(10)]],
        ),
        copies(
            "update copied | remove copied | get, get",
            copied(),
            vec![vec![rcu(10, 5)], vec![del(10)], vec![get(10), get(10)]],
        ),
        copies(
            "in place of copied | update copied | get",
            copied(),
            vec![vec![incr(10)], vec![rcu(10, 5)], vec![get(10)]],
        ),
        copies(
            "split | update copied, get | get",
            vec![put(200, 2), Heat(200), Grow],
            vec![vec![get(200)], vec![rcu(200, 5), get(200)], vec![get(200)]],
        ),
        copies(
            "copy | grow, split | update, get",
            vec![put(200, 2)],
            vec![vec![Heat(200)], vec![Grow, get(200)], vec![rcu(200, 5), get(200)]],
        ),
        halving(
            "halve, undo | update copied",
            &[Shrink, Collect, Collect],
            vec![vec![Collect, Collect, Grow, get(200)], vec![rcu(200, 5)]],
        ),
        halving(
            "halve | copy, get | update",
            &[Shrink],
            vec![
                vec![Collect, Collect, Collect],
                vec![Heat(200), get(200)],
                vec![rcu(200, 5), get(200)],
            ],
        ),
    ]
}

pub fn of_two_hints() -> Vec<Scenario> {
    let copied = || vec![put(10, 1), put(20, 2), Heat(10)];
    vec![
        copies(
            "get | copy other | copy again",
            copied(),
            vec![vec![get(10)], vec![Heat(20), Heat(20)], vec![Heat(10), Heat(10)]],
        ),
        copies(
            "take the place | update copied | get both",
            copied(),
            vec![vec![Heat(20)], vec![rcu(10, 5)], vec![get(10), get(20)]],
        ),
        copies(
            "take the place | remove taker, insert | get both",
            copied(),
            vec![vec![Heat(20)], vec![del(20), ins(30, 3)], vec![get(20), get(10)]],
        ),
        copies(
            "take the place, renew | update | get",
            copied(),
            vec![vec![Heat(20), Heat(10), Heat(10)], vec![rcu(10, 5)], vec![get(10)]],
        ),
        copies(
            "take the place | take it back",
            copied(),
            vec![vec![Heat(20), get(20)], vec![Heat(10), Heat(10), get(10)]],
        ),
    ]
}
