//! Sets: as ordered sets, by their log, and under threads.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use hotring_store::index::{Checksum, Config};
use hotring_store::{Options, ReplyCapacity, Session, SetForm, SetOperation, SetRef, Store};

use super::random::Random;

const NOW: u64 = 1_700_000_000_000;
const KEYS: [&[u8]; 3] = [b"a", b"b", b"c"];

/// Sets are large from the fifth integer on, or the third other member.
fn options(checksum: Checksum) -> Options {
    let index = Config { checksum, ..Config::default() };
    Options { set_packed_ints_max: 4, set_packed_members_max: 2, index, ..Options::default() }
}

type Model = BTreeSet<Vec<u8>>;

fn members(set: SetRef<'_>) -> Model {
    let all: Model = set.iter().map(|member| member.to_vec()).collect();
    assert_eq!((all.len(), set.count()), (set.len(), set.len()));
    assert!(all.iter().all(|member| set.contains(member)));
    all
}

fn all(session: &mut Session, key: &[u8]) -> Model {
    session.set_walk(key, NOW, members).expect("a set").unwrap_or_default()
}

fn member(random: &mut Random) -> Vec<u8> {
    let letter = if random.one_in(3) { "m" } else { "" };
    format!("{letter}{}", random.below(12)).into_bytes()
}

fn combined(operation: SetOperation, models: &[Model]) -> Model {
    let [a, b, c] = models else { panic!("three sets") };
    match operation {
        SetOperation::Intersection => &(a & b) & c,
        SetOperation::Union => &(a | b) | c,
        SetOperation::Difference => &(a - b) - c,
    }
}

const OPERATIONS: [SetOperation; 3] =
    [SetOperation::Intersection, SetOperation::Union, SetOperation::Difference];

fn as_ordered_sets(checksum: Checksum) {
    let store = Store::new(options(checksum)).expect("it fits");
    let mut session = store.session();
    let mut random = Random::new(7);
    let mut models = [Model::new(), Model::new(), Model::new()];
    for _ in 0..10_000 {
        let (at, to) = (random.below(3) as usize, random.below(3) as usize);
        let (one, two) = (member(&mut random), member(&mut random));
        let (key, before) = (KEYS[at], models[at].len());
        match random.below(12) {
            0..4 => {
                let added = session.set_add(key, &[&one, &two], NOW);
                models[at].extend([one, two]);
                assert_eq!(added, Ok(models[at].len() - before));
            }
            4..7 => {
                let removed = session.set_remove(key, &[&one], NOW);
                assert_eq!(removed, Ok(usize::from(models[at].remove(&one))));
            }
            7 => {
                let count = random.below(4) as usize;
                let popped = session.set_pop(
                    key,
                    (count, ReplyCapacity::UNLIMITED),
                    |n| random.below(n as u64) as usize,
                    NOW,
                );
                let popped = popped.expect("a set");
                assert_eq!(popped.len(), count.min(before));
                assert!(popped.iter().all(|member| models[at].remove(member)));
            }
            8 => {
                let moved = session.set_move(key, KEYS[to], &one, NOW);
                assert_eq!(moved, Ok(models[at].remove(&one)));
                if moved == Ok(true) {
                    models[to].insert(one);
                }
            }
            9 => {
                let operation = OPERATIONS[random.below(3) as usize];
                let made = combined(operation, &models);
                assert_eq!(session.set_store(operation, key, &KEYS, NOW), Ok(made.len()));
                models[at] = made;
            }
            _ => {
                let sets = session.sets_at_once(&KEYS, NOW).expect("sets");
                for operation in OPERATIONS {
                    let mut found = Vec::new();
                    operation.run(
                        &sets,
                        || (),
                        |member| {
                            found.push(member.to_vec());
                            true
                        },
                    );
                    let unique: Model = found.iter().cloned().collect();
                    assert_eq!(unique.len(), found.len(), "{operation:?}");
                    assert_eq!(unique, combined(operation, &models), "{operation:?}");
                }
            }
        }
        for (key, model) in KEYS.iter().zip(&models) {
            assert_eq!(&all(&mut session, key), model);
            assert_eq!(session.exists(key, NOW), !model.is_empty());
        }
    }
}

#[test]
fn sets_are_as_ordered_sets() {
    as_ordered_sets(Checksum::Off);
}

#[test]
fn sets_of_one_value_are_as_ordered_sets() {
    as_ordered_sets(Checksum::Verify);
}

/// A result is held as a set that got the same members one by one.
#[test]
fn results_are_packed_up_to_the_limits() {
    let store = Store::new(options(Checksum::Off)).expect("it fits");
    let mut session = store.session();
    for n in 1..8 {
        let members: Vec<_> = (0..n).map(|i: u8| i.to_string().into_bytes()).collect();
        let members: Vec<&[u8]> = members.iter().map(Vec::as_slice).collect();
        session.remove(b"a", NOW);
        session.set_add(b"a", &members, NOW).unwrap();
        session.set_store(SetOperation::Union, b"b", &[b"a", b"a"], NOW).unwrap();
        let mut form = |key: &[u8]| session.set_members(key, NOW, |set| set.form()).unwrap();
        assert_eq!(form(b"b"), form(b"a"), "{n} members");
        assert_eq!(form(b"b"), Some(if n <= 4 { SetForm::Ints } else { SetForm::Table }));
    }
}

#[test]
fn random_members_are_all_as_likely() {
    let store = Store::new(Options::default()).expect("it fits");
    let mut session = store.session();
    let mut random = Random::new(5);
    // Many of a large set are chosen in a walk over it.
    for (len, n) in [(10_u64, 5), (1_000, 5), (1_000, 500)] {
        let key = len.to_string().into_bytes();
        (0..len).for_each(|n| {
            _ = session.set_add(&key, &[format!("m{n}").as_bytes()], NOW).expect("room");
        });
        let mut counts = std::collections::BTreeMap::new();
        for _ in 0..2_000 {
            let random = |n| random.below(n as u64) as usize;
            let mut met = Model::new();
            let found = session.set_choose(&key, n, random, NOW, |member| {
                assert!(met.insert(member.to_vec()), "each once");
            });
            assert_eq!((found, met.len()), (Ok(Some(())), n));
            met.into_iter().for_each(|member| *counts.entry(member).or_insert(0_u64) += 1);
        }
        let expected = 2_000 * n as u64 / len;
        let (low, high) = (counts.values().min().unwrap(), counts.values().max().unwrap());
        assert_eq!(counts.len() as u64, len);
        let is_close = expected >= 1_000;
        let likely = if is_close { expected * 4 / 5..expected * 6 / 5 } else { 1..expected * 4 };
        assert!(likely.contains(low) && likely.contains(high), "{len}, {n}: {low} {high}");
    }
}

/// Members wander between two large sets; whoever looks at both at one moment meets each once.
#[test]
fn several_sets_are_seen_at_one_moment() {
    /// Readers end also when a writer panics.
    struct Stop<'a>(&'a AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Relaxed);
        }
    }
    let store = Store::new(options(Checksum::Off)).expect("it fits");
    let names: Vec<Vec<u8>> = (0..200).map(|n| format!("m{n}").into_bytes()).collect();
    let all: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
    store.session().set_add(b"a", &all, NOW).expect("room");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let (mut session, stop) = (store.session(), &stop);
            scope.spawn(move || {
                while !stop.load(Relaxed) {
                    let sets = session.sets_at_once(&[b"a", b"b"], NOW).expect("sets");
                    let count: usize = sets.iter().map(|set| set.view().len()).sum();
                    assert_eq!(count, 200);
                    SetOperation::Intersection.run(
                        &sets,
                        || (),
                        |member| panic!("{member:?} twice"),
                    );
                    // Writers are to have the processor, too.
                    std::thread::sleep(std::time::Duration::from_micros(200));
                }
            });
        }
        let _stop = Stop(&stop);
        let writers: Vec<_> = (0..2)
            .map(|seed| {
                let (mut session, all) = (store.session(), &all);
                scope.spawn(move || {
                    let mut random = Random::new(seed);
                    for _ in 0..200 {
                        let member = random.pick(all);
                        let (from, to) = random.pick(&[(b"a", b"b"), (b"b", b"a")]);
                        session.set_move(from, to, member, NOW).expect("room");
                    }
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().expect("no panic"));
    });
}
