//! What every coordinator must do, whichever it is. Each check has a coordinator without records.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hotring_coordinator::{
    Change, Changed, Coordinator, Failure, LeaseId, Outcome, Revision, Transaction, Watch,
};
use tokio::time::timeout;

/// Longer than anything here takes, on a loaded machine too.
pub const LONG: Duration = Duration::from_secs(20);

pub fn put(name: &str, value: &str) -> Change {
    Change::Put { name: name.into(), value: value.into(), lease: None }
}

pub fn put_under(lease: LeaseId, name: &str, value: &str) -> Change {
    Change::Put { name: name.into(), value: value.into(), lease: Some(lease) }
}

pub fn delete(name: &str) -> Change {
    Change::Delete { name: name.into() }
}

pub fn transaction(expect: &[(&str, Revision)], changes: &[Change]) -> Transaction {
    let expect = expect.iter().map(|(name, revision)| (name.to_string(), *revision)).collect();
    Transaction { expect, changes: changes.to_vec() }
}

/// The outcome of a transaction, which must be known.
pub async fn transact(
    coordinator: &dyn Coordinator,
    expect: &[(&str, Revision)],
    changes: &[Change],
) -> Outcome {
    coordinator.transact(&transaction(expect, changes)).await.expect("an outcome")
}

/// The revision of a transaction, which must be through.
pub async fn done(
    coordinator: &dyn Coordinator,
    expect: &[(&str, Revision)],
    changes: &[Change],
) -> Revision {
    match transact(coordinator, expect, changes).await {
        Outcome::Done(revision) => revision,
        Outcome::Conflict => panic!("a conflict of {changes:?} with {expect:?}"),
    }
}

/// All records.
pub async fn records(coordinator: &dyn Coordinator) -> Vec<(String, Revision, String)> {
    let text = |value| String::from_utf8(value).unwrap();
    let records = coordinator.read().await.expect("all records").records.into_iter();
    records.map(|record| (record.name, record.revision, text(record.value))).collect()
}

/// The next change of a watch.
pub async fn next(watch: &mut Watch) -> Changed {
    timeout(LONG, watch.recv()).await.expect("a change").expect("the watch goes on")
}

/// Waits for the end of a watch, past its changes.
pub async fn ends(mut watch: Watch) {
    let end = async { while watch.recv().await.is_some() {} };
    timeout(LONG, end).await.expect("the watch ends");
}

fn changed(revision: Revision, records: &[(&str, Option<&str>)]) -> Changed {
    let record =
        |(name, value): &(&str, Option<&str>)| (name.to_string(), value.map(|value| value.into()));
    Changed { revision, records: records.iter().map(record).collect() }
}

fn is_refused<T: std::fmt::Debug>(result: Result<T, Failure>) -> bool {
    match result {
        Err(Failure::Refused(why)) => !why.is_empty(),
        other => panic!("{other:?} instead of a refusal"),
    }
}

/// All checks, each with a coordinator that `make` gives it.
pub async fn conforms(make: impl AsyncFn(&str) -> Arc<dyn Coordinator>) {
    transactions(&*make("transactions").await).await;
    refusals(&*make("refusals").await).await;
    leases(&*make("leases").await).await;
    watches(&*make("watches").await).await;
    many_records(&*make("many").await).await;
    increments(make("increments").await).await;
}

async fn transactions(it: &dyn Coordinator) {
    let begin = it.read().await.unwrap();
    assert_eq!(begin.records, []);
    let first = done(it, &[("a", 0)], &[put("a", "1"), put("b/c", "1")]).await;
    assert!(first > begin.revision);
    let both = [("a".into(), first, "1".into()), ("b/c".into(), first, "1".into())];
    assert_eq!(records(it).await, both);
    // A record that is there, an absent one, one of several: nothing of it takes effect.
    for expect in [&[("a", 0)][..], &[("c", first)], &[("a", first), ("b/c", first - 1)]] {
        let outcome = transact(it, expect, &[put("a", "2"), delete("b/c")]).await;
        assert_eq!(outcome, Outcome::Conflict, "{expect:?}");
    }
    assert_eq!(records(it).await, both);
    let expect = [("a", first), ("b/c", first), ("c", 0)];
    let second = done(it, &expect, &[put("a", "2"), delete("b/c"), put("c", "")]).await;
    assert!(second > first);
    assert_eq!(
        records(it).await,
        [("a".into(), second, "2".into()), ("c".into(), second, "".into())]
    );
    assert!(it.read().await.unwrap().revision >= second);
    // Comparing alone, and removing what is not there.
    done(it, &[("a", second), ("b/c", 0)], &[]).await;
    done(it, &[], &[delete("b/c")]).await;
    assert_eq!(transact(it, &[("a", first)], &[]).await, Outcome::Conflict);
    assert_eq!(done(it, &[("b/c", 0)], &[put("b/c", "3")]).await, records(it).await[1].1);
}

async fn refusals(it: &dyn Coordinator) {
    let refused =
        async |changes: &[Change]| is_refused(it.transact(&transaction(&[], changes)).await);
    assert!(refused(&[put("a", "1"), delete("a")]).await);
    assert!(refused(&[put("", "1")]).await);
    assert!(refused(&[put_under(12_345, "a", "1"), put("b", "1")]).await);
    let many: Vec<Change> = (0..129).map(|n| put(&n.to_string(), "")).collect();
    assert!(refused(&many).await);
    assert!(refused(&[put("a", &"v".repeat(1 << 20))]).await);
    assert_eq!(records(it).await, []);
    done(it, &[], &many[1..]).await;
    assert_eq!(records(it).await.len(), 128);
    assert!(is_refused(it.keep_alive(12_345).await));
    assert!(is_refused(it.revoke(12_345).await));
    assert!(is_refused(it.grant(Duration::from_secs(1 << 40)).await));
}

async fn leases(it: &dyn Coordinator) {
    let wish = Duration::from_millis(300);
    let lease = it.grant(wish).await.unwrap();
    let other = it.grant(Duration::from_secs(60)).await.unwrap();
    assert!(lease.ttl >= wish && other.ttl >= Duration::from_secs(60) && lease.id != other.id);
    let changes = [put_under(lease.id, "a", "1"), put_under(other.id, "b", "1"), put("c", "1")];
    let written = done(it, &[], &changes).await;
    let mut watch = it.watch(written).await.unwrap();
    // Kept alive for more than its length.
    let start = Instant::now();
    let mut kept = start;
    while start.elapsed() < lease.ttl + lease.ttl / 2 {
        tokio::time::sleep(lease.ttl / 4).await;
        kept = Instant::now();
        it.keep_alive(lease.id).await.unwrap();
    }
    assert_eq!(records(it).await.len(), 3);
    let ended = next(&mut watch).await;
    let lived = kept.elapsed();
    assert!(ended.revision > written);
    assert_eq!(ended.records, [("a".to_owned(), None)]);
    // 0.1 s: no two clocks and their ticks are alike.
    assert!(lived + Duration::from_millis(100) >= lease.ttl, "it lived for {lived:?}");
    assert!(is_refused(it.keep_alive(lease.id).await));
    let left = |n: usize| async move { assert_eq!(records(it).await.len(), n) };
    left(2).await;
    it.keep_alive(other.id).await.unwrap();
    it.revoke(other.id).await.unwrap();
    assert_eq!(next(&mut watch).await.records, [("b".to_owned(), None)]);
    left(1).await;
    assert!(is_refused(it.keep_alive(other.id).await));
    assert!(is_refused(it.revoke(other.id).await));
}

async fn watches(it: &dyn Coordinator) {
    let begin = it.read().await.unwrap().revision;
    let mut early = it.watch(begin).await.unwrap();
    let mut written = Vec::new();
    for n in 0..20 {
        let (value, name) = (n.to_string(), ["a", "b"][n % 2]);
        let revision = done(it, &[], &[put(name, &value)]).await;
        written.push(changed(revision, &[(name, Some(&value))]));
    }
    let middle = written[10].revision;
    let mut late = it.watch(middle).await.unwrap();
    let revision = done(it, &[], &[delete("a"), put("c", "x")]).await;
    let both = changed(revision, &[("a", None), ("c", Some("x"))]);
    written.push(both.clone());
    for wanted in &written {
        let mut found = next(&mut early).await;
        found.records.sort();
        assert_eq!(found, *wanted);
    }
    for wanted in &written[11..] {
        let mut found = next(&mut late).await;
        found.records.sort();
        assert_eq!(found, *wanted);
    }
    // A watch that is given up is in no other's way.
    drop(early);
    let last = done(it, &[], &[put("d", "y")]).await;
    assert_eq!(next(&mut late).await, changed(last, &[("d", Some("y"))]));
    ends(it.watch(last + 1_000_000).await.unwrap()).await;
}

async fn many_records(it: &dyn Coordinator) {
    let value = |n: usize| format!("{n} ").repeat(4096 / (n.to_string().len() + 1));
    for hundred in 0..3 {
        let numbers = 100 * hundred..100 * (hundred + 1);
        let changes: Vec<Change> = numbers.map(|n| put(&format!("{n:04}"), &value(n))).collect();
        done(it, &[], &changes).await;
    }
    let found = records(it).await;
    assert_eq!(found.len(), 300);
    for (n, (name, _, found)) in found.iter().enumerate() {
        assert_eq!((name, found), (&format!("{n:04}"), &value(n)));
    }
}

/// Each adds to the same number, by comparing. Nothing is added twice, and nothing is lost.
async fn increments(it: Arc<dyn Coordinator>) {
    const EACH: u64 = 20;
    let add = |it: Arc<dyn Coordinator>| async move {
        let mut n_added = 0;
        while n_added < EACH {
            let found = records(&*it).await;
            let (revision, n) =
                found.first().map_or((0, 0), |(_, at, n)| (*at, n.parse().unwrap()));
            let next: u64 = n + 1;
            let outcome = transact(&*it, &[("n", revision)], &[put("n", &next.to_string())]).await;
            n_added += u64::from(outcome != Outcome::Conflict);
        }
    };
    let tasks: Vec<_> = (0..8).map(|_| tokio::spawn(add(it.clone()))).collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(records(&*it).await[0].2, (8 * EACH).to_string());
}
