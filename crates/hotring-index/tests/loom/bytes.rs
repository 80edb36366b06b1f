//! Byte strings under loom: expiries renewed while another session removes expired items, and memory that
//! is really freed.

use crate::world::{Report, Run};
use hotring_index::checks::{Checked, Fault, Reclaim};
use hotring_index::{
    Action, Bytes, Config, Entry, Expiry, Growth, HotRing, NewValue, Ring, Session, Strategy, Value,
};
use loom::sync::atomic::AtomicU64;
use std::borrow::Cow;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::Ordering;

type Index = HotRing<Bytes, 2>;
type Sessions = Vec<ManuallyDrop<Session<Bytes, Ring<2>>>>;

fn index(run: Run, reclaim: Reclaim) -> Index {
    let config = Config {
        seed: [3, 4],
        strategy: Strategy::Vote,
        period: Some(u32::MAX),
        growth: Some(Growth::Fixed),
        slots_initial: 1,
        slots_max: 1,
        fault: run.fault,
        reclaim,
        ..Config::default()
    };
    HotRing::new(config).expect("a valid configuration")
}

fn text(value: &'static str) -> NewValue<'static> {
    NewValue::Bytes { kind: 0, bytes: Cow::Borrowed(value.as_bytes()) }
}

/// Too large for its dead versions to be left to others.
const BIG: &str = match std::str::from_utf8(&[b'x'; 600]) {
    Ok(text) => text,
    Err(_) => panic!("ASCII"),
};

fn word(value: u64) -> NewValue<'static> {
    NewValue::Word { kind: 1, word: value }
}

fn read(entry: Entry<'_>) -> Vec<u8> {
    match entry.value {
        Value::Word { word, .. } => word.to_string().into_bytes(),
        Value::Bytes { bytes, .. } => bytes.to_vec(),
    }
}

/// Gives the key a new expiry; whether it was there.
fn renew(session: &mut Session<Bytes, Ring<2>>, key: &[u8], now: u64, at: u64) -> bool {
    session.update(key, now, |old| match old {
        Some(_) => (Action::Expire(Expiry::At(at)), true),
        None => (Action::Keep, false),
    })
}

/// Removes "k" and collects this many times; whether it was there.
fn remove_and_collect(session: &mut Session<Bytes, Ring<2>>, times: usize) -> bool {
    let removed = session.remove(b"k", 1);
    (0..times).for_each(|_| session.collect());
    removed
}

/// Pins twice, so that a scan may meet either pin and take the first one for over. False if "k" was gone
/// and is back.
fn get_twice(session: &mut Session<Bytes, Ring<2>>) -> bool {
    let [first, second] = [(); 2].map(|()| session.get(b"k", 1, read).is_some());
    first || !second
}

type Body = fn(&mut Session<Bytes, Ring<2>>) -> bool;

/// A scenario of byte strings: the operations of each thread, and the condition on their answers and the
/// final state of the key "k".
pub struct Scenario {
    pub name: &'static str,
    pub reclaim: Reclaim,
    setup: fn(&mut Session<Bytes, Ring<2>>),
    threads: &'static [Body],
    holds: fn(answers: &[bool], last: Option<Vec<u8>>) -> bool,
}

/// The time at which everything is read in the end.
const LATE: u64 = 10;

pub fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "renew | remove what has expired",
            reclaim: Reclaim::Oracle,
            setup: |s| {
                s.put(b"k", text("v"), Expiry::At(5), 1);
            },
            threads: &[|s| renew(s, b"k", 4, 100), |s| s.expire_step(8, LATE).1 > 0],
            // Renewed and then there, or removed by one of the two.
            holds: |answers, last| answers[0] == last.is_some() && !(answers[0] && answers[1]),
        },
        Scenario {
            name: "renew a word | remove what has expired | get",
            reclaim: Reclaim::Oracle,
            setup: |s| {
                s.put(b"k", word(7), Expiry::At(5), 1);
            },
            threads: &[
                |s| renew(s, b"k", 4, 100),
                |s| s.expire_step(8, LATE).1 > 0,
                |s| s.get(b"k", LATE, read).is_some(),
            ],
            holds: |answers, last| {
                answers[0] == last.is_some()
                    && !(answers[0] && answers[1])
                    && (!answers[2] || answers[0])
            },
        },
        Scenario {
            name: "put over an expired one | remove what has expired",
            reclaim: Reclaim::Oracle,
            setup: |s| {
                s.put(b"k", text("v"), Expiry::At(5), 1);
            },
            threads: &[
                |s| s.put(b"k", text("w"), Expiry::Never, LATE),
                |s| s.expire_step(8, LATE).1 > 0,
            ],
            holds: |answers, last| !answers[0] && last.as_deref() == Some(b"w"),
        },
        Scenario {
            name: "renew | write | remove what has expired",
            reclaim: Reclaim::Oracle,
            setup: |s| {
                s.put(b"k", text("v"), Expiry::At(5), 1);
            },
            threads: &[
                |s| renew(s, b"k", 4, 100),
                |s| s.put(b"k", text("w"), Expiry::Keep, 4),
                |s| s.expire_step(8, LATE).1 > 0,
            ],
            // A thread that found the key there has renewed or rewritten it; the rest follows.
            holds: |answers, last| match (answers[0], answers[1]) {
                (true, true) => last.is_some() || answers[2],
                (true, false) => last.is_some(),
                (false, true) => true,
                (false, false) => last.as_deref() == Some(b"w"),
            },
        },
        Scenario {
            name: "get | replace, and free",
            reclaim: Reclaim::Epochs,
            setup: |s| {
                s.put(b"k", text(BIG), Expiry::Never, 1);
            },
            threads: &[
                |s| s.get(b"k", 1, read).is_some(),
                |s| {
                    s.put(b"k", text("w"), Expiry::Never, 1);
                    (0..3).for_each(|_| s.collect());
                    true
                },
            ],
            holds: |answers, last| answers[0] && last.as_deref() == Some(b"w"),
        },
        Scenario {
            name: "get, get | remove, and free | insert",
            reclaim: Reclaim::Epochs,
            setup: |s| {
                s.put(b"k", text("v"), Expiry::Never, 1);
            },
            threads: &[
                get_twice,
                |s| remove_and_collect(s, 3),
                |s| s.put(b"l", text("w"), Expiry::Never, 1),
            ],
            holds: |answers, last| answers[0] && answers[1] && !answers[2] && last.is_none(),
        },
        Scenario {
            name: "get, get | remove, and free",
            reclaim: Reclaim::Epochs,
            setup: |s| {
                s.put(b"k", text("v"), Expiry::Never, 1);
            },
            threads: &[get_twice, |s| remove_and_collect(s, 3)],
            holds: |answers, last| answers[0] && answers[1] && last.is_none(),
        },
        Scenario {
            name: "get | remove, and free | advance",
            reclaim: Reclaim::Epochs,
            setup: |s| {
                s.put(b"k", text("v"), Expiry::Never, 1);
            },
            threads: &[
                |s| s.get(b"k", 1, read).is_some(),
                |s| remove_and_collect(s, 2),
                |s| {
                    s.advance();
                    true
                },
            ],
            holds: |answers, last| answers[1] && last.is_none(),
        },
        Scenario {
            name: "move | write in place",
            reclaim: Reclaim::Oracle,
            setup: |s| {
                s.put(b"k", word(7), Expiry::Never, 1);
            },
            threads: &[
                |s| s.compact_step(100).visited > 0,
                |s| s.put(b"k", word(8), Expiry::Never, 1),
            ],
            holds: |answers, last| answers[0] && answers[1] && last.as_deref() == Some(b"8"),
        },
        Scenario {
            name: "move | get | remove",
            reclaim: Reclaim::Oracle,
            setup: |s| {
                s.put(b"k", text("v"), Expiry::Never, 1);
            },
            threads: &[
                |s| s.compact_step(100).visited > 0,
                |s| s.get(b"k", 1, read).is_some_and(|value| value != b"v"),
                |s| s.remove(b"k", 1),
            ],
            holds: |answers, last| answers[0] && !answers[1] && answers[2] && last.is_none(),
        },
        Scenario {
            name: "move, and free | get, get",
            reclaim: Reclaim::Epochs,
            setup: |s| {
                s.put(b"k", word(7), Expiry::Never, 1);
            },
            threads: &[
                |s| {
                    let moved = s.compact_step(100).moved == 1;
                    (0..3).for_each(|_| s.collect());
                    moved
                },
                |s| (0..2).all(|_| s.get(b"k", 1, read).as_deref() == Some(b"7")),
            ],
            holds: |answers, last| answers[0] && answers[1] && last.as_deref() == Some(b"7"),
        },
        Scenario {
            name: "replace, and free | replace, and free",
            reclaim: Reclaim::Epochs,
            setup: |s| {
                s.put(b"k", text(BIG), Expiry::Never, 1);
            },
            threads: &[
                |s| {
                    s.put(b"k", text(BIG), Expiry::Never, 1);
                    s.collect();
                    true
                },
                |s| {
                    s.put(b"k", text(BIG), Expiry::Never, 1);
                    (0..2).for_each(|_| s.collect());
                    true
                },
            ],
            holds: |_, last| last.is_some(),
        },
    ]
}

pub fn explore(scenario: &Scenario, run: Run) -> Report {
    let (reclaim, setup) = (scenario.reclaim, scenario.setup);
    let (threads, holds) = (scenario.threads, scenario.holds);
    crate::world::explore_with(run, move || {
        let index = Arc::new(index(run, reclaim));
        // Not dropped after a complaint: that would add steps to a run that is over.
        let session = || ManuallyDrop::new(index.session());
        let mut first = session();
        setup(&mut first);
        let answers = Arc::new(loom::sync::atomic::AtomicU64::new(0));
        // See `World::answers`.
        let call = move |body: Body, session: &mut Session<Bytes, Ring<2>>, answers: &AtomicU64| {
            answers.fetch_add(1, Ordering::AcqRel);
            let answer = body(session);
            answers.fetch_add(1, Ordering::AcqRel);
            answer
        };
        let spawned: Vec<_> = threads[1..]
            .iter()
            .map(|&body| {
                let (mut session, answers) = (session(), answers.clone());
                loom::thread::spawn(move || (call(body, &mut session, &answers), session))
            })
            .collect();
        let mut given = vec![call(threads[0], &mut first, &answers)];
        let mut ended: Sessions = Vec::new();
        for thread in spawned {
            let (answer, session) = thread.join().expect("loom ends the run at a panic");
            given.push(answer);
            ended.push(session);
        }
        let last = first.get(b"k", LATE, read);
        assert!(holds(&given, last.clone()), "answers {given:?}, in the end {last:?}");
        Ring::<2>::check_at_rest(&mut first, &index);
        ended.into_iter().for_each(|session| drop(ManuallyDrop::into_inner(session)));
        drop(ManuallyDrop::into_inner(first));
    })
}

/// Wrong variants, and the scenario that shows each.
pub const CONTROLS: [(Fault, &str); 4] = [
    (Fault::NoDoom, "renew | remove what has expired"),
    (Fault::FreeEarly, "get | remove, and free | advance"),
    (Fault::NoPinFence, "get | replace, and free"),
    (Fault::MoveUnfrozen, "move | write in place"),
];
