//! The keeper of a cluster's records: transactions, leases, watches and its bytes, beside a plain map; and its wrong
//! variants.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::Check;
use crate::coded::{Coded, bytes_of, read_all};
use crate::directory::Directory;
use crate::faults::Fault;
use crate::keeper::{BYTES_MAX, Compacted, HISTORY_MAX, Keeper, LEASES_MAX, Step, TTL_MIN};
use crate::kept::{
    Change, Changed, LeaseId, Outcome, Snapshot, TRANSACTION_BYTES_MAX, TTL_MAX, Transaction,
};

const SECOND: Duration = Duration::from_secs(1);

fn put(name: &str, value: &str) -> Change {
    Change::Put { name: name.into(), value: value.into(), lease: None }
}

fn put_under(lease: LeaseId, name: &str, value: &str) -> Change {
    Change::Put { name: name.into(), value: value.into(), lease: Some(lease) }
}

fn delete(name: &str) -> Change {
    Change::Delete { name: name.into() }
}

fn transact(keeper: &mut Keeper, expect: &[(&str, u64)], changes: &[Change]) -> Outcome {
    let expect = expect.iter().map(|(name, revision)| (name.to_string(), *revision)).collect();
    keeper.transact(&Transaction { expect, changes: changes.to_vec() }).unwrap()
}

/// Names, revisions and values.
fn records(keeper: &Keeper) -> Vec<(String, u64, String)> {
    let text = |value| String::from_utf8(value).unwrap();
    let records = keeper.read().records.into_iter();
    records.map(|record| (record.name, record.revision, text(record.value))).collect()
}

fn changes(keeper: &Keeper, after: u64) -> Vec<Changed> {
    keeper.since(after).unwrap().cloned().collect()
}

fn changed(revision: u64, records: &[(&str, Option<&str>)]) -> Changed {
    let record =
        |(name, value): &(&str, Option<&str>)| (name.to_string(), value.map(|value| value.into()));
    Changed { revision, records: records.iter().map(record).collect() }
}

fn a_transaction_takes_effect_as_a_whole_or_not_at_all() {
    let keeper = &mut Keeper::new(1);
    assert_eq!(transact(keeper, &[("a", 0)], &[put("a", "1"), put("b", "1")]), Outcome::Done(1));
    assert_eq!(transact(keeper, &[("a", 0)], &[put("a", "2")]), Outcome::Conflict);
    assert_eq!(transact(keeper, &[("b", 1), ("c", 1)], &[put("b", "2")]), Outcome::Conflict);
    assert_eq!(transact(keeper, &[("b", 1), ("c", 0)], &[put("b", "2")]), Outcome::Done(2));
    assert_eq!(records(keeper), [("a".into(), 1, "1".into()), ("b".into(), 2, "2".into())]);
    assert_eq!(transact(keeper, &[("a", 1)], &[delete("a"), put("c", "3")]), Outcome::Done(3));
    // Nothing is changed, so the revision stays.
    assert_eq!(transact(keeper, &[], &[delete("a")]), Outcome::Done(3));
    assert_eq!(transact(keeper, &[("a", 0)], &[]), Outcome::Done(3));
    assert_eq!(records(keeper), [("b".into(), 2, "2".into()), ("c".into(), 3, "3".into())]);
    let of_no_lease = Transaction { expect: vec![], changes: vec![put_under(7, "d", "")] };
    assert!(keeper.transact(&of_no_lease).unwrap_err().0.contains("no lease 7"));
    // What would conflict anyway is a conflict, as in etcd.
    assert_eq!(transact(keeper, &[("b", 1)], &of_no_lease.changes), Outcome::Conflict);
}

fn a_lease_ends_with_its_records() {
    let keeper = &mut Keeper::new(5);
    let (now, later) = (SECOND, SECOND + SECOND / 2);
    let [first, second] = [(); 2].map(|()| keeper.grant(now, SECOND).unwrap());
    assert_eq!((first.id, second.id, first.ttl), (5, 6, SECOND));
    transact(keeper, &[], &[put_under(5, "a", "1"), put_under(5, "b", "1"), put("c", "1")]);
    // A record belongs to the lease of its last change.
    transact(keeper, &[], &[put_under(6, "b", "2"), put_under(5, "d", "2")]);
    transact(keeper, &[], &[put("d", "3")]);
    assert_eq!(keeper.next_end(), Some(2 * SECOND));
    keeper.keep_alive(later, 6).unwrap();
    assert_eq!(keeper.expire(2 * SECOND - TTL_MIN), None);
    assert_eq!(keeper.expire(2 * SECOND), Some(5));
    assert_eq!(keeper.expire(2 * SECOND), None);
    let names =
        |keeper: &Keeper| records(keeper).into_iter().map(|record| record.0).collect::<String>();
    assert_eq!(names(keeper), "bcd");
    assert_eq!(changes(keeper, 3), [changed(4, &[("a", None)])]);
    assert!(keeper.keep_alive(2 * SECOND, 5).unwrap_err().0.contains("no lease 5"));
    keeper.revoke(6).unwrap();
    assert_eq!((names(keeper), keeper.next_end()), ("cd".into(), None));
    assert_eq!(keeper.revision(), 5);
    assert!(keeper.revoke(6).is_err());
    // A lease without records changes nothing that a watch could see.
    let empty = keeper.grant(now, Duration::ZERO).unwrap();
    assert_eq!(empty.ttl, TTL_MIN);
    keeper.revoke(empty.id).unwrap();
    assert_eq!(keeper.revision(), 5);
}

fn a_watch_sees_each_change_once_and_in_order() {
    let keeper = &mut Keeper::new(1);
    for (revision, value) in (1..=5).zip(["1", "2", "3", "4", "5"]) {
        assert_eq!(transact(keeper, &[], &[put("a", value)]), Outcome::Done(revision));
    }
    transact(keeper, &[], &[delete("a"), put("b", "")]);
    let [four, five] = [(4, "4"), (5, "5")].map(|(n, value)| changed(n, &[("a", Some(value))]));
    let six = changed(6, &[("a", None), ("b", Some(""))]);
    assert_eq!(changes(keeper, 3), [four, five.clone(), six.clone()]);
    assert_eq!(changes(keeper, 4), [five, six]);
    assert_eq!(changes(keeper, 6), []);
    assert_eq!(keeper.since(7).err(), Some(Compacted));
    for _ in 0..HISTORY_MAX {
        transact(keeper, &[], &[put("a", "")]);
    }
    assert_eq!(keeper.since(5).err(), Some(Compacted));
    assert_eq!(changes(keeper, 6).len(), HISTORY_MAX);
}

fn long_values_leave_the_history_sooner() {
    let keeper = &mut Keeper::new(1);
    let long = "v".repeat(TRANSACTION_BYTES_MAX - 10);
    for _ in 0..6 {
        transact(keeper, &[], &[put("a", &long)]);
    }
    assert_eq!(keeper.since(1).err(), Some(Compacted));
    assert!(!changes(keeper, 4).is_empty());
}

fn random_change(rng: &mut fastrand::Rng, leases: &[LeaseId]) -> Change {
    let name = ["a", "b", "c", "d"][rng.usize(..4)];
    match rng.u8(..4) {
        0 => delete(name),
        1 if !leases.is_empty() => put_under(leases[rng.usize(..leases.len())], name, "leased"),
        _ => put(name, &rng.u8(..).to_string()),
    }
}

/// Random steps beside a map, with every step logged: the log's steps behind any bytes of the keeper give the same.
fn random_steps_can_be_redone(seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut keeper = Keeper::new(1);
    let mut model: BTreeMap<String, (u64, Option<LeaseId>)> = BTreeMap::new();
    let mut leases: Vec<LeaseId> = Vec::new();
    let (mut kept, mut steps) = (keeper.to_bytes(), Vec::new());
    for n in 0..200 {
        let now = SECOND * n;
        match rng.u8(..8) {
            0 => {
                leases.push(keeper.grant(now, 10 * SECOND).unwrap().id);
                steps.push(Step::Grant(10 * SECOND));
            }
            1 if !leases.is_empty() => {
                let lease = leases.swap_remove(rng.usize(..leases.len()));
                keeper.revoke(lease).unwrap();
                model.retain(|_, (_, of)| *of != Some(lease));
                steps.push(Step::End(lease));
            }
            2 => (kept, steps) = (keeper.to_bytes(), Vec::new()),
            _ => {
                let name = ["a", "b", "c", "d"][rng.usize(..4)];
                let now = model.get(name).map_or(0, |(revision, _)| *revision);
                let expected = if rng.bool() { now } else { rng.u64(..keeper.revision() + 2) };
                let change = random_change(&mut rng, &leases);
                let outcome =
                    transact(&mut keeper, &[(name, expected)], std::slice::from_ref(&change));
                assert_eq!(outcome != Outcome::Conflict, now == expected, "seed {seed}, step {n}");
                let Outcome::Done(revision) = outcome else { continue };
                match &change {
                    Change::Put { name, lease, .. } => {
                        model.insert(name.clone(), (revision, *lease));
                    }
                    Change::Delete { name } => drop(model.remove(name)),
                }
                let expect = vec![(name.to_owned(), expected)];
                steps.push(Step::Transact(Transaction { expect, changes: vec![change] }));
            }
        }
        let found = keeper.read().records.into_iter().map(|record| (record.name, record.revision));
        let wanted = model.iter().map(|(name, (revision, _))| (name.clone(), *revision));
        assert_eq!(found.collect::<Vec<_>>(), wanted.collect::<Vec<_>>(), "seed {seed}, step {n}");
        let mut again = Keeper::from_bytes(now, &kept).unwrap();
        for step in &steps {
            let step = read_all(&bytes_of(step)).expect("a step has a form in bytes");
            again.redo(now, &step).unwrap();
        }
        assert_eq!(
            (again.read(), again.to_bytes()),
            (keeper.read(), keeper.to_bytes()),
            "seed {seed}, step {n}"
        );
        assert!(again.next_end().is_none_or(|end| end == now + 10 * SECOND));
    }
}

#[test]
fn a_keeper_has_limits() {
    let mut keeper = Keeper::new(1);
    assert!(keeper.grant(SECOND, TTL_MAX + SECOND).is_err());
    let long = "v".repeat(TRANSACTION_BYTES_MAX - 10);
    let names: Vec<String> =
        (0..BYTES_MAX / TRANSACTION_BYTES_MAX).map(|n| n.to_string()).collect();
    for name in &names {
        transact(&mut keeper, &[], &[put(name, &long)]);
    }
    let more = Transaction { expect: vec![], changes: vec![put("more", &long)] };
    assert!(keeper.transact(&more).unwrap_err().0.contains("use etcd"));
    transact(&mut keeper, &[], &[delete("0")]);
    assert!(keeper.transact(&more).is_ok(), "what is removed counts no more");
    for _ in 0..LEASES_MAX {
        keeper.grant(SECOND, SECOND).unwrap();
    }
    assert!(keeper.grant(SECOND, SECOND).is_err());
}

#[test]
fn bytes_that_are_no_keeper_are_refused() {
    let mut keeper = Keeper::new(9);
    let lease = keeper.grant(SECOND, SECOND).unwrap().id;
    transact(&mut keeper, &[], &[put_under(lease, "a", "1"), put("b", "2")]);
    let bytes = keeper.to_bytes();
    for end in 0..bytes.len() {
        assert!(Keeper::from_bytes(SECOND, &bytes[..end]).is_none(), "the first {end} bytes");
    }
    let mut changed = bytes.clone();
    changed[0] += 1;
    assert!(Keeper::from_bytes(SECOND, &changed).is_none(), "a later format");
    assert!(Keeper::from_bytes(SECOND, &[&bytes[..], &[0]].concat()).is_none(), "one byte more");
    // The highest revision, and the highest lease.
    for (at, highest) in [(4, u64::MAX), (12, u64::MAX / 2)] {
        let mut last = bytes.clone();
        last[at..at + 8].copy_from_slice(&highest.to_le_bytes());
        assert!(Keeper::from_bytes(SECOND, &last).is_none(), "no number is left: {at}");
    }
}

const CHECKS: [Check; 5] = [
    (
        a_transaction_takes_effect_as_a_whole_or_not_at_all,
        &[Fault::IgnoreExpected, Fault::SameRevision],
    ),
    (a_lease_ends_with_its_records, &[Fault::KeepLeased]),
    (a_watch_sees_each_change_once_and_in_order, &[Fault::SkipChange]),
    (long_values_leave_the_history_sooner, &[]),
    (|| (0..20).for_each(random_steps_can_be_redone), &[Fault::IgnoreExpected, Fault::KeepLeased]),
];

#[test]
fn the_keeper_follows_its_rules() {
    CHECKS.iter().for_each(|(check, _)| check());
}

#[test]
fn each_wrong_variant_of_the_keeper_is_found() {
    crate::assert_variants_are_found(&CHECKS);
}

/// Inputs that are refused as nonsense teach the fuzzer little.
#[test]
fn fuzzing_begins_with_what_can_be_read() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/records");
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let input = std::fs::read(&path).unwrap();
        let (kind, mut rest) = input.split_first().unwrap();
        let is_read = match (kind, rest[0]) {
            (0, _) => {
                let texts = rest.split(|byte| *byte == 0).map(|text| str::from_utf8(text).unwrap());
                let texts: Vec<&str> = texts.collect();
                let pairs = texts.chunks_exact(2).map(|pair| (pair[0], 1, pair[1].as_bytes()));
                Directory::read(pairs).is_ok_and(|read| read.shards.len() + read.moves.len() == 2)
            }
            (1, _) => {
                let bytes = Vec::<u8>::read(&mut rest).unwrap();
                let mut keeper = Keeper::from_bytes(SECOND, &bytes).unwrap();
                let steps = std::iter::from_fn(|| Step::read(&mut rest));
                steps.map(|step| keeper.redo(SECOND, &step)).all(|done| done.is_ok())
                    && rest.is_empty()
            }
            (2, 0) => read_all::<Snapshot>(&rest[1..]).is_some(),
            (2, 1) => read_all::<Changed>(&rest[1..]).is_some(),
            (2, 2) => read_all::<Transaction>(&rest[1..]).is_some(),
            (2, _) => read_all::<Step>(&rest[1..]).is_some(),
            // Messages of a move are read by another crate.
            _ => true,
        };
        assert!(is_read, "{}", path.display());
    }
}
