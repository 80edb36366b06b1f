//! The scenarios: two or three threads with one or two operations each, where they meet.
//!
//! A value with bit 63 in the place of one without is stored by replacement (read-copy-update),
//! else in place; `Add(TOP)` is a read-modify-write that freezes and replaces.

use crate::history::Op;
use crate::world::{Act, Scenario};
use Act::{Advance, Candidate, Collect, Complete, Do, Grow, Heat, Shrink};
use hotring_index::Strategy;
use hotring_index::checks::Reclaim;

const TOP: u64 = 1 << 63;

pub fn put(key: u8, value: u64) -> Act {
    Do(key, Op::Put(value))
}
/// A replacement: the item has a value below 2^63, or one that `put` gave it.
pub fn rcu(key: u8, value: u64) -> Act {
    Do(key, Op::Put(value | TOP))
}
pub fn get(key: u8) -> Act {
    Do(key, Op::Get)
}
pub fn del(key: u8) -> Act {
    Do(key, Op::Remove)
}
pub fn ins(key: u8, value: u64) -> Act {
    Do(key, Op::Insert(value))
}
pub fn incr(key: u8) -> Act {
    Do(key, Op::Add(1))
}
/// Freezes and replaces.
pub fn flip(key: u8) -> Act {
    Do(key, Op::Add(TOP))
}
/// A replacement that finds a hinted item without a walk, and leaves the dead version to others if
/// bit 63 of the value changes.
fn lazy(key: u8, value: u64) -> Act {
    Do(key, Op::Replace(value))
}
pub fn take(key: u8) -> Act {
    Do(key, Op::Take)
}

pub type Threads = Vec<Vec<Act>>;

fn head(name: &'static str, setup: Vec<Act>, threads: Threads) -> Scenario {
    Scenario { strategy: Strategy::Random, ..Scenario::new(name, setup, threads) }
}

/// One movable head a bucket, as in the paper: walks begin at it.
pub fn one_head() -> Vec<Scenario> {
    vec![
        head(
            "head move | remove | get, get",
            vec![put(10, 1), put(20, 2)],
            vec![vec![Heat(20)], vec![del(20)], vec![get(20), get(20)]],
        ),
        head(
            "head move, get | remove, miss",
            vec![put(10, 1), put(20, 2), Heat(10)],
            vec![vec![Heat(20), get(20)], vec![del(20), get(30)]],
        ),
        head(
            "remove hot | insert behind, get | get, get",
            vec![put(10, 1), put(20, 2), Heat(10)],
            vec![vec![del(10)], vec![ins(15, 5), get(15)], vec![get(15), get(20)]],
        ),
        head(
            "update hot | update hot | get, get",
            vec![put(10, 1), Heat(10)],
            vec![vec![rcu(10, 2)], vec![rcu(10, 3)], vec![get(10), get(10)]],
        ),
        head(
            "update hot | remove | get, get",
            vec![put(10, 1), put(20, 9), Heat(10)],
            vec![vec![rcu(10, 2)], vec![del(10)], vec![get(10), get(20)]],
        ),
        head(
            "update hot | head move | remove",
            vec![put(10, 1), put(20, 9), Heat(10)],
            vec![vec![rcu(10, 2)], vec![Heat(20)], vec![del(20)]],
        ),
        head(
            "update | insert behind | remove next",
            vec![put(10, 1), put(30, 3)],
            vec![vec![rcu(10, 2)], vec![ins(20, 7)], vec![del(30)]],
        ),
        head(
            "remove | remove next | insert, get",
            vec![put(10, 1), put(20, 2), put(30, 3)],
            vec![vec![del(10)], vec![del(20)], vec![ins(15, 7), get(15)]],
        ),
        head(
            "in place | read-modify-write | get",
            vec![put(10, 1)],
            vec![vec![incr(10)], vec![flip(10)], vec![get(10)]],
        ),
        head(
            "in place, in place | read-modify-write, get",
            vec![put(10, 1)],
            vec![vec![incr(10), incr(10)], vec![flip(10), get(10)]],
        ),
        head(
            "in place | take | put",
            vec![put(10, 1)],
            vec![vec![incr(10)], vec![take(10)], vec![rcu(10, 5)]],
        ),
        head(
            "blind in place | read-modify-write | get, get",
            vec![put(10, 1)],
            vec![vec![put(10, 5)], vec![flip(10)], vec![get(10), get(10)]],
        ),
        head(
            "blind in place, get | update | remove",
            vec![put(10, 1)],
            vec![vec![put(10, 5), get(10)], vec![rcu(10, 7)], vec![del(10)]],
        ),
        head(
            "two read-modify-writes",
            vec![put(10, 1)],
            vec![vec![flip(10), get(10)], vec![Do(10, Op::Add(TOP + 3)), get(10)]],
        ),
        head(
            "insert | insert, get | remove",
            vec![],
            vec![vec![ins(10, 1)], vec![ins(10, 2), get(10)], vec![del(10)]],
        ),
        head(
            "stalled head move | remove, remove next | miss",
            vec![put(10, 1), put(20, 2)],
            vec![vec![Heat(10)], vec![del(10), del(20)], vec![get(30)]],
        ),
        head(
            "lazy update, update | update | remove, get",
            vec![put(10, 1), put(20, 2), Heat(10)],
            vec![
                vec![lazy(10, 2 | TOP), lazy(10, 3)],
                vec![lazy(10, 4 | TOP)],
                vec![del(10), get(10)],
            ],
        ),
        head(
            "lazy updates | remove next, insert | get",
            vec![put(10, 1), put(20, 2), Heat(10)],
            vec![vec![lazy(10, 2 | TOP), lazy(10, 3)], vec![del(20), ins(15, 5)], vec![get(15)]],
        ),
        head(
            "split, search | insert, get | get",
            vec![put(10, 1), put(200, 2)],
            vec![vec![Grow, get(200)], vec![ins(210, 3), get(210)], vec![get(210)]],
        ),
        head(
            "split, search | remove, get | insert, get",
            vec![put(10, 1), put(200, 2), Grow],
            vec![vec![get(200)], vec![del(200), get(200)], vec![ins(130, 3), get(130)]],
        ),
        head(
            // The reader has its pin before the insert, which it comes to by the new anchor alone.
            "grow, get | insert by the old mask | split",
            vec![put(10, 1), put(200, 2)],
            vec![vec![Grow, get(150)], vec![ins(150, 3)], vec![get(200)]],
        ),
        head(
            "split by two | remove before it",
            vec![put(10, 1), put(100, 5), Grow],
            vec![vec![ins(150, 4)], vec![ins(160, 6), get(150)], vec![del(100)]],
        ),
        head(
            "split hands head over | remove, get | head move",
            vec![put(10, 1), put(200, 2), Heat(200), Grow],
            vec![vec![get(200)], vec![del(200), get(200)], vec![Heat(10)]],
        ),
        head(
            "lazy updates | update, get | get behind",
            vec![put(10, 1), put(20, 2), Heat(10)],
            vec![
                vec![lazy(10, 2 | TOP), lazy(10, 3)],
                vec![lazy(10, 4 | TOP), get(10)],
                vec![get(20)],
            ],
        ),
    ]
}

fn line(name: &'static str, setup: Vec<Act>, threads: Threads) -> Scenario {
    Scenario {
        reclaim: Reclaim::Epochs,
        complete_lines: true,
        ..Scenario::new(name, setup, threads)
    }
}

/// The items, and a line that is a candidate this many epochs old.
fn candidate(items: &[Act], epochs: usize) -> Vec<Act> {
    let mut acts = items.to_vec();
    acts.push(Complete(10));
    acts.extend(vec![Advance; epochs]);
    acts
}

/// The items, and a complete line.
fn complete(items: &[Act]) -> Vec<Act> {
    let mut acts = candidate(items, 3);
    acts.push(Complete(10));
    acts
}

/// A line that no thread of the scenario takes further: without epochs, hence without their fences,
/// which would hide that an order is too weak.
fn settled(name: &'static str, setup: Vec<Act>, threads: Threads) -> Scenario {
    Scenario { reclaim: Reclaim::Oracle, ..line(name, setup, threads) }
}

/// A bucket that is to be split, in a table whose lines do not become complete.
fn unfinished(name: &'static str, threads: Threads) -> Scenario {
    let setup = vec![put(200, 2), Grow];
    Scenario { complete_lines: false, ..settled(name, setup, threads) }
}

/// With very many executions: the quick form has one preemption in them, the long form three.
fn brief(scenario: Scenario) -> Scenario {
    Scenario { preemptions: 1, ..scenario }
}

/// Lines of two hints that answer misses by themselves.
pub fn complete_lines() -> Vec<Scenario> {
    let two = [put(10, 1), put(20, 2)];
    let one = [put(10, 1)];
    let split = [put(10, 1), put(200, 2)];
    let with = |setup: Vec<Act>, more: &[Act]| [&setup[..], more].concat();
    let late = vec![put(10, 1), put(20, 2), put(30, 3), Candidate(10), Advance, Advance, Advance];
    // The first one is hot, so that the last one does not take its hint.
    let full = [put(10, 1), put(20, 2), Heat(10), put(200, 3)];
    // Twice: the first of bucket 3 crowds in.
    let quarters = [put(10, 1), put(70, 2), put(250, 3), put(200, 4), put(130, 5), Grow, Grow];
    let quarters = complete(&[&quarters[..], &[rcu(70, 2)]].concat());
    let lacking = [&full[..], &[Candidate(10), Advance, Advance, Advance, Grow]].concat();
    vec![
        line(
            "no candidate: complete | insert, get | get",
            two.to_vec(),
            vec![
                vec![Complete(10), Advance, Complete(10)],
                vec![ins(30, 3), get(30)],
                vec![get(30)],
            ],
        ),
        line(
            "candidate: complete | insert, get | get",
            candidate(&two, 2),
            vec![vec![Advance, Complete(10)], vec![ins(30, 3), get(30)], vec![get(30)]],
        ),
        line(
            "candidate: complete, get | insert, get",
            candidate(&two, 2),
            vec![vec![Advance, Complete(10), get(30)], vec![ins(30, 3), get(30)]],
        ),
        line(
            "no candidate: becomes one | insert, get | advance, complete, get",
            two.to_vec(),
            vec![
                vec![Complete(10)],
                vec![ins(30, 3), get(30)],
                vec![Advance, Advance, Complete(10), get(30)],
            ],
        ),
        settled(
            "full: insert, get | get, get | remove",
            complete(&two),
            vec![vec![ins(30, 3), get(30)], vec![get(30), get(20)], vec![del(10)]],
        ),
        settled(
            "full: update | get, get | get",
            complete(&two),
            vec![vec![rcu(10, 5)], vec![get(10), get(10)], vec![get(10)]],
        ),
        settled(
            "full: update | update | get",
            complete(&two),
            vec![vec![rcu(10, 5)], vec![rcu(10, 6)], vec![get(10)]],
        ),
        brief(settled(
            "full: update | remove, insert | get",
            complete(&two),
            vec![vec![rcu(10, 5)], vec![del(10), ins(10, 7)], vec![get(10)]],
        )),
        settled(
            "room: insert, get | get, get | remove",
            complete(&one),
            vec![vec![ins(20, 2), get(20)], vec![get(20), get(20)], vec![del(20)]],
        ),
        settled(
            "room: insert | insert, get | remove, get",
            // A hot one, which keeps its hint: moves of hints are ordered by themselves.
            complete(&[put(10, 1), Heat(10)]),
            vec![vec![ins(20, 2)], vec![ins(20, 3), get(20)], vec![del(20), get(20)]],
        ),
        settled(
            "room: insert | put, get | get",
            complete(&one),
            vec![vec![ins(20, 2)], vec![rcu(20, 5), get(20)], vec![get(20)]],
        ),
        line(
            "candidate with room: complete | insert, get | get",
            candidate(&one, 2),
            vec![vec![Advance, Complete(10)], vec![ins(20, 3), get(20)], vec![get(20)]],
        ),
        brief(settled(
            "remove, insert | get, get | update",
            complete(&two),
            vec![vec![del(10), ins(10, 7)], vec![get(10), get(20)], vec![rcu(20, 4)]],
        )),
        brief(settled(
            "displace | get, get | insert",
            complete(&[put(10, 1), put(20, 2)]),
            vec![vec![ins(30, 3), Heat(30)], vec![get(10), get(20)], vec![ins(40, 4)]],
        )),
        settled(
            "displace | remove, complete | get, get",
            late.clone(),
            // The first one is that without a hint.
            vec![vec![Heat(10)], vec![del(10), Complete(20)], vec![get(20), get(30)]],
        ),
        Scenario {
            // Else the first word with the tag is the key's.
            same_tags: true,
            ..settled(
                "grow, split | get, miss",
                complete(&split),
                vec![vec![Grow, get(200)], vec![get(200), get(210)]],
            )
        },
        brief(settled(
            "split, miss | insert, get",
            with(complete(&split), &[Grow]),
            vec![vec![get(200), get(210)], vec![ins(210, 3), get(210)]],
        )),
        Scenario {
            // One switch is enough to find this fault.
            preemptions: 1,
            ..line(
                "old candidate that lacks an item: split | miss, get",
                lacking,
                vec![vec![get(210)], vec![get(210), get(200)]],
            )
        },
        brief(settled(
            // The line of bucket 0 is complete up to the anchor of bucket 2; the keys of buckets 1 and 3
            // lie behind that. The grandparent has no word for them.
            "grown twice: get | get",
            quarters,
            vec![vec![get(200)], vec![get(130), get(20)]],
        )),
        line(
            // Who makes the line complete has loaded the epoch before the candidate's maker moved it.
            // The first item is hot: the insert takes no hint from it, which would clear the bits again.
            "stamp ahead: complete | insert | advance, complete",
            [&two[..], &[Heat(10)]].concat(),
            vec![vec![Complete(10)], vec![ins(30, 3)], vec![Advance, Complete(10)]],
        ),
        settled(
            "grow, split | insert by the old mask",
            vec![put(200, 2)],
            vec![vec![Grow, get(200)], vec![ins(210, 3)]],
        ),
        // A split that fills both lines at once, beside items that it meets first there.
        unfinished("split | insert first", vec![vec![get(200)], vec![ins(5, 3)]]),
        unfinished("split | insert behind", vec![vec![get(200)], vec![ins(210, 3)]]),
        settled(
            // The item behind the anchor is one that only the anchor's word has published.
            "candidate: insert first | complete",
            candidate(&two, 3),
            vec![vec![ins(5, 3)], vec![Complete(10)]],
        ),
        settled(
            // The first one has no hint, and there is a free word.
            "candidate that lacks an item: hint it | complete | get",
            with(late.clone(), &[del(20)]),
            vec![vec![Heat(10)], vec![Complete(10)], vec![get(10)]],
        ),
        brief(line(
            "split, complete | insert, get",
            with(complete(&split), &[Grow]),
            vec![vec![get(200), Complete(10)], vec![ins(210, 3), get(210)]],
        )),
        brief(settled(
            "lazy updates | lazy update | get",
            complete(&two),
            vec![vec![lazy(10, 2 | TOP), lazy(10, 3)], vec![lazy(10, 4 | TOP)], vec![get(10)]],
        )),
        // The second key's update unlinks the dead version of the first, which is in the queue.
        brief(settled(
            "lazy updates of two keys | lazy update | insert between, get",
            complete(&two),
            vec![
                vec![lazy(10, 2 | TOP), lazy(20, 3 | TOP)],
                vec![lazy(10, 4 | TOP)],
                vec![ins(15, 5), get(10)],
            ],
        )),
        // An insert right before the dead version, of which the walk that unlinks it must not lose sight.
        settled(
            "lazy updates of two keys | insert before, get",
            complete(&two),
            vec![vec![lazy(10, 2 | TOP), lazy(20, 3 | TOP)], vec![ins(5, 5), get(5)]],
        ),
        // The queue's key is gone, or a new item, when its turn comes; and its dead version may have been freed.
        brief(line(
            "lazy updates of two keys | remove, insert again, and free",
            complete(&two),
            vec![
                vec![lazy(10, 2 | TOP), lazy(20, 3 | TOP), Collect],
                vec![del(10), ins(10, 6), Collect, Collect],
            ],
        )),
        brief(settled(
            "lazy updates of two keys | remove, insert again | get, get",
            complete(&two),
            vec![
                vec![lazy(10, 2 | TOP), lazy(20, 3 | TOP)],
                vec![del(10), ins(10, 6)],
                vec![get(10), get(20)],
            ],
        )),
    ]
}

/// Of a million executions each: for the long form.
pub fn large() -> Vec<Scenario> {
    let setup = || [&complete(&[put(10, 1), put(200, 2)])[..], &[Grow]].concat();
    vec![
        settled(
            "split | miss | insert, get",
            setup(),
            vec![vec![get(200)], vec![get(210)], vec![ins(210, 3), get(210)]],
        ),
        line(
            "split, complete | get | insert, get",
            setup(),
            vec![vec![get(200), Complete(10)], vec![get(200)], vec![ins(210, 3), get(210)]],
        ),
    ]
}

fn tags(name: &'static str, setup: Vec<Act>, threads: Threads) -> Scenario {
    Scenario { same_tags: true, ..Scenario::new(name, setup, threads) }
}

/// Several hints a slot, and keys that their tags do not tell apart.
pub fn equal_tags() -> Vec<Scenario> {
    vec![
        tags(
            "get | remove other | insert other",
            vec![put(10, 1), put(20, 2)],
            vec![vec![get(20), get(30)], vec![del(10)], vec![ins(30, 3)]],
        ),
        brief(tags(
            "update | update other | get both",
            vec![put(10, 1), put(20, 2)],
            vec![vec![rcu(10, 5)], vec![rcu(20, 6)], vec![get(10), get(20)]],
        )),
        tags(
            "displace | remove | get, get",
            vec![put(10, 1), put(20, 2), put(30, 3)],
            vec![vec![Heat(10)], vec![del(10)], vec![get(10), get(30)]],
        ),
        tags(
            "in place | take other | get both",
            vec![put(10, 1), put(20, 2)],
            vec![vec![incr(10), incr(20)], vec![take(20)], vec![get(20), get(10)]],
        ),
        brief(tags(
            "update | displace | remove",
            vec![put(10, 1), put(20, 2), put(30, 3)],
            vec![vec![lazy(30, 2 | TOP)], vec![Heat(10)], vec![del(30), get(30)]],
        )),
        tags(
            "reserve | reserve | remove",
            vec![],
            vec![vec![ins(10, 1), get(20)], vec![ins(20, 2), get(10)], vec![del(10)]],
        ),
    ]
}

fn shrinking(name: &'static str, setup: Vec<Act>, threads: Threads) -> Scenario {
    Scenario { complete_lines: false, ..line(name, setup, threads) }
}

/// The table is halved under way. Position 200 lies in the upper slot.
pub fn shrink() -> Vec<Scenario> {
    let split = [Grow, put(10, 1), put(200, 2)];
    let with = |more: &[Act]| [&split[..], more].concat();
    // Halved and its grace period nearly over; swept and its grace period nearly over.
    let halved = with(&[Shrink, Collect, Collect]);
    let swept = with(&[Shrink, Collect, Collect, Collect, Collect, Collect, Collect]);
    let all = [&[Shrink][..], &[Collect; 8]].concat();
    vec![
        shrinking(
            "halve | get | insert, get",
            with(&[]),
            vec![vec![Shrink, Collect], vec![get(200)], vec![ins(210, 3), get(210)]],
        ),
        shrinking(
            "sweep | get | insert, get",
            halved.clone(),
            vec![vec![Collect, Collect], vec![get(200)], vec![ins(210, 3), get(210)]],
        ),
        shrinking(
            "sweep | remove, get | insert before it",
            halved.clone(),
            vec![vec![Collect, Collect], vec![del(200), get(200)], vec![ins(100, 3), get(200)]],
        ),
        shrinking(
            "sweep | update hinted | remove",
            halved.clone(),
            vec![vec![Collect, Collect], vec![rcu(200, 5), get(200)], vec![del(200)]],
        ),
        shrinking("all of it | get, get", with(&[]), vec![all.clone(), vec![get(200), get(10)]]),
        shrinking(
            "all of it | insert, get",
            with(&[]),
            vec![all.clone(), vec![ins(210, 3), get(210)]],
        ),
        shrinking(
            "all of it | split by the old mask",
            vec![put(10, 1), put(200, 2), Grow],
            vec![all.clone(), vec![get(200), del(200)]],
        ),
        shrinking(
            "give back | get | remove",
            swept.clone(),
            vec![vec![Collect], vec![get(200)], vec![del(200), ins(200, 4)]],
        ),
        shrinking(
            "give back, grow, split | insert, get",
            swept,
            vec![vec![Collect, Grow, get(200)], vec![ins(210, 3), get(210)]],
        ),
        shrinking(
            "undo | insert, get | get",
            halved,
            vec![vec![Grow, get(210)], vec![ins(210, 3), get(210)], vec![get(200), Collect]],
        ),
    ]
}

/// The table is halved although its lines may be complete.
pub fn shrink_complete() -> Vec<Scenario> {
    let upper = |more: &[Act]| {
        let setup = [Grow, put(10, 1), put(200, 2), Complete(200), Advance, Advance, Advance];
        [&setup[..], &[Complete(200), Complete(10), Advance, Advance, Advance, Complete(10)], more]
            .concat()
    };
    vec![
        line(
            "halve a complete table | get, get | insert, get",
            upper(&[Shrink, Collect, Collect]),
            vec![vec![Collect, Collect], vec![get(200), get(210)], vec![ins(210, 3), get(210)]],
        ),
        line(
            "halve, undo | insert, get | complete, get",
            upper(&[Shrink, Collect, Collect]),
            vec![
                vec![Collect, Grow, get(210)],
                vec![ins(210, 3), get(210)],
                vec![Complete(200), get(210)],
            ],
        ),
        line(
            "halve | complete below, get",
            upper(&[]),
            vec![vec![Shrink, Collect, Collect, Collect, Collect], vec![Complete(10), get(200)]],
        ),
    ]
}
