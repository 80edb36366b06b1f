//! Sorted sets: against a model in both forms, with the log read again, with snapshots of the log, and under threads.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use hotring_store::{
    AddOptions, Interval, Options, ReplyCapacity, ScoredRef, Session, Store, StoreError,
};

use super::random::Random;

const NOW: u64 = 1_700_000_000_000;

/// A store whose sorted sets are large from the fourth member on.
fn store() -> Store {
    Store::new(Options { scored_packed_members_max: 3, ..Options::default() }).expect("it fits")
}

type Model = BTreeMap<Vec<u8>, i64>;

fn members(scored: ScoredRef<'_>) -> Vec<(Vec<u8>, i64)> {
    let mut all = Vec::new();
    scored.each_of_all(|entry| all.push((entry.member.to_vec(), entry.score as i64)));
    assert_eq!(all.len(), scored.len());
    all
}

fn in_order(model: &Model) -> Vec<(Vec<u8>, i64)> {
    let mut all: Vec<_> = model.iter().map(|(member, score)| (member.clone(), *score)).collect();
    all.sort_by(|a, b| (a.1, &a.0).cmp(&(b.1, &b.0)));
    all
}

/// One operation, and on the model.
fn step(session: &mut Session, model: &mut Model, random: &mut Random) {
    let member = format!("member {}", random.below(12)).into_bytes();
    let score = random.below(6) as i64;
    match random.below(10) {
        0..5 => {
            let options = AddOptions { if_greater: random.one_in(3), ..AddOptions::default() };
            let added = session.scored_add(b"z", &[(score as f64, &member)], options, NOW).unwrap();
            let old = model.get(&member).copied();
            let moves =
                old.is_none_or(|old| if options.if_greater { score > old } else { score != old });
            assert_eq!(
                (added.added, added.moved),
                match old {
                    None => (1, 0),
                    Some(_) => (0, usize::from(moves)),
                }
            );
            if moves {
                model.insert(member, score);
            }
        }
        5 => {
            let sum = session.scored_incr(b"z", 2.0, &member, AddOptions::default(), NOW).unwrap();
            let new = model.entry(member).or_insert(0);
            *new += 2;
            assert_eq!(sum, Some(*new as f64));
        }
        6..8 => {
            let removed = session.scored_remove(b"z", &[&member, b"none"], NOW);
            assert_eq!(removed, Ok(usize::from(model.remove(&member).is_some())));
        }
        8 => {
            let is_max = random.one_in(2);
            let popped =
                session.scored_pop(b"z", (2, ReplyCapacity::UNLIMITED), is_max, NOW).unwrap();
            let mut all = in_order(model);
            if is_max {
                all.reverse();
            }
            all.truncate(2);
            all.iter().for_each(|(member, _)| _ = model.remove(member));
            let popped: Vec<_> = popped.into_iter().map(|(m, score)| (m, score as i64)).collect();
            assert_eq!(popped, all);
        }
        _ => {
            let from = random.below(4) as i64;
            let removed =
                session.scored_remove_interval(b"z", &Interval::Ranks(from, from + 1), NOW);
            let gone: Vec<_> = in_order(model).into_iter().skip(from as usize).take(2).collect();
            gone.iter().for_each(|(member, _)| _ = model.remove(member));
            assert_eq!(removed, Ok(gone.len()));
        }
    }
}

#[test]
fn sorted_sets_agree_with_their_model() {
    let (store, mut random, mut model) = (store(), Random::new(21), Model::new());
    let mut session = store.session();
    for _ in 0..4_000 {
        step(&mut session, &mut model, &mut random);
        let found = session.scored_walk(b"z", NOW, members).unwrap();
        assert_eq!(found, (!model.is_empty()).then(|| in_order(&model)));
        for (rank, (member, score)) in in_order(&model).into_iter().enumerate() {
            let found = session.scored(b"z", NOW, |scored| scored.rank(&member)).unwrap();
            assert_eq!(found, Some(Some((rank, score as f64))));
        }
    }
}

#[test]
fn other_types_are_distinguished() {
    let store = store();
    let mut session = store.session();
    session.set(b"s", b"x", Default::default(), NOW).unwrap();
    let add = session.scored_add(b"s", &[(1.0, b"a")], AddOptions::default(), NOW);
    assert_eq!(add, Err(StoreError::WrongType));
    session.scored_add(b"z", &[(1.0, b"a")], AddOptions::default(), NOW).unwrap();
    assert_eq!(session.hash_set(b"z", &[(b"f", b"v")], NOW), Err(StoreError::WrongType));
    let nan = session.scored_add(b"z", &[(f64::NAN, b"b")], AddOptions::default(), NOW);
    assert!(nan.is_err());
}

/// Writers move members in pairs of sums that stay, readers see whole changes only.
#[test]
fn readers_see_whole_changes_and_none_is_lost() {
    let store = store();
    let pairs: Vec<Vec<u8>> = (0..40).map(|i| format!("m{i}").into_bytes()).collect();
    let all: Vec<(f64, &[u8])> = pairs.iter().map(|member| (0.0, &member[..])).collect();
    store.session().scored_add(b"z", &all, AddOptions::default(), NOW).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut session = store.session();
                while !is_over.load(Relaxed) {
                    let seen = session.scored_walk(b"z", NOW, |scored| {
                        let (mut last, mut n) = (f64::NEG_INFINITY, 0);
                        scored.each_of_all(|entry| {
                            assert!(entry.score >= last, "they are in order");
                            (last, n) = (entry.score, n + 1);
                        });
                        n
                    });
                    assert_eq!(seen, Ok(Some(40)), "a move is one step");
                }
            });
        }
        let writers: Vec<_> = (0..2u64)
            .map(|seed| {
                let (store, pairs) = (&store, &pairs);
                scope.spawn(move || {
                    let (mut session, mut random) = (store.session(), Random::new(seed));
                    for _ in 0..3_000 {
                        let member = &pairs[random.below(40) as usize];
                        let options = AddOptions::default();
                        session.scored_incr(b"z", 1.0, member, options, NOW).unwrap();
                    }
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        is_over.store(true, Relaxed);
    });
    let mut sum = 0.0;
    let mut session = store.session();
    session.scored(b"z", NOW, |z| z.each_of_all(|entry| sum += entry.score)).unwrap();
    assert_eq!(sum, 6_000.0);
}
