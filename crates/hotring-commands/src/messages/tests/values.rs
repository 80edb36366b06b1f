//! What operations do to values, versions and expiries.

use super::*;

const K: &[u8] = b"k";

#[test]
fn values_are_those_of_the_other_protocols() {
    let mut d = Dialogue::new();
    assert_eq!(d.get("k"), ABSENT);
    let first = d.set("k", "one");
    assert_eq!(first.status, Status::Done);
    assert_eq!(d.get("k"), done(first.version, "one"));
    assert_eq!(d.redis("GET k"), "$3¶one¶");
    assert_eq!(d.redis("SET k two"), "+OK¶");
    let second = d.get("k");
    assert_eq!(second.value, b"two");
    assert!(second.version > first.version, "another value has another version: {second:?}");
    assert_eq!(d.get("k"), second, "and keeps it");
    assert_eq!(d.ask(Operation::Delete { key: K }), done(0, ""));
    assert_eq!(d.ask(Operation::Delete { key: K }), ABSENT);
    assert_eq!(d.redis("EXISTS k"), ":0¶");
}

#[test]
fn a_list_is_not_read_but_overwritten() {
    let mut d = Dialogue::new();
    assert_eq!(d.redis("RPUSH k a"), ":1¶");
    for operation in [Operation::Get { key: K }, Operation::Increment { key: K, by: 1 }] {
        let (status, why) = d.say(operation);
        assert_eq!(status, Status::Failed);
        assert!(why.starts_with("WRONGTYPE "), "{why}");
    }
    assert_eq!(d.ask(Operation::Expire { key: K, after_ms: 5_000 }), done(0, ""));
    assert_eq!(d.redis("PTTL k"), ":5000¶");
    assert_eq!(d.set("k", "x").status, Status::Done);
    assert_eq!(d.redis("GET k"), "$1¶x¶");
}

#[test]
fn an_update_needs_the_key_and_keeps_its_expiry() {
    let mut d = Dialogue::new();
    assert_eq!(d.ask(Operation::Update { key: K, value: b"v" }), ABSENT);
    assert_eq!(d.redis("EXISTS k"), ":0¶");
    let set = d.ask(Operation::Set { key: K, value: b"v", expiry_ms: 5_000 });
    let updated = d.ask(Operation::Update { key: K, value: b"w" });
    assert!(updated.version > set.version);
    assert_eq!((d.redis("GET k"), d.redis("PTTL k")), ("$1¶w¶".into(), ":5000¶".into()));
    assert_eq!(d.set("k", "x").status, Status::Done);
    assert_eq!(d.redis("PTTL k"), ":-1¶", "a set without an expiry ends it");
    let longest = Operation::Set { key: K, value: b"v", expiry_ms: u64::MAX };
    assert_eq!(d.ask(longest).status, Status::Done);
    assert_ne!(d.redis("PTTL k"), ":-1¶");
}

#[test]
fn a_version_is_compared_at_the_write() {
    let mut d = Dialogue::new();
    let swap = |version| Operation::CompareAndSet { key: K, value: b"new", version };
    assert_eq!(d.ask(swap(1)), ABSENT);
    let set = d.set("k", "old");
    let swapped = d.ask(swap(set.version));
    assert_eq!(swapped.status, Status::Done);
    assert!(swapped.version > set.version);
    let late = d.ask(swap(set.version));
    assert_eq!(late, Given { status: Status::Conflict, ..done(swapped.version, "") });
    assert_eq!(d.redis("SET k other"), "+OK¶");
    assert_eq!(d.ask(swap(swapped.version)).status, Status::Conflict);
    assert_eq!(d.redis("GET k"), "$5¶other¶");
}

#[test]
fn sums_are_those_of_incrby() {
    let mut d = Dialogue::new();
    let add = |by| Operation::Increment { key: K, by };
    assert_eq!(d.say(add(5)), (Status::Done, "5".into()));
    assert_eq!(d.say(add(-7)), (Status::Done, "-2".into()));
    assert_eq!(d.redis("INCR k"), ":-1¶");
    assert_eq!(d.say(add(i64::MIN)).1, "ERR increment or decrement would overflow");
    assert_eq!(d.redis("GET k"), "$2¶-1¶");
    assert_eq!(d.redis("SET k x PX 900"), "+OK¶");
    assert_eq!(d.say(add(1)).1, "ERR value is not an integer or out of range");
    assert_eq!(d.redis("SET k 1 PX 900"), "+OK¶");
    assert_eq!(d.say(add(1)), (Status::Done, "2".into()));
    assert_eq!(d.redis("PTTL k"), ":900¶");
}

#[test]
fn keys_expire() {
    let mut d = Dialogue::new();
    let expire = |after_ms| Operation::Expire { key: K, after_ms };
    assert_eq!(d.ask(expire(10)), ABSENT);
    let set = d.set("k", "v");
    assert_eq!(d.ask(expire(10)), done(0, ""));
    d.now += 9;
    assert_eq!(d.get("k"), done(set.version, "v"), "the value stays the same");
    d.now += 1;
    assert_eq!(d.get("k"), ABSENT);
    d.set("k", "v");
    assert_eq!(d.ask(expire(0)), done(0, ""));
    assert_eq!(d.redis("EXISTS k"), ":0¶");
    d.set("k", "v");
    assert_eq!(d.ask(expire(u64::MAX)).status, Status::Done);
    assert_eq!(d.get("k").value, b"v");
}

#[test]
fn all_values_of_a_request_fit_into_a_message() {
    let mut d = Dialogue::new();
    let long = "x".repeat(40_000);
    assert_eq!(d.set("long", &long).status, Status::Done);
    assert_eq!(d.set("k", "v").status, Status::Done);
    let get = |key: &'static [u8]| Operation::Get { key };
    let given = d.run(&[get(b"long"), get(b"long"), get(b"k")]).expect("it is not held back");
    assert_eq!((&*given[0].value, &*given[2].value), (long.as_bytes(), &b"v"[..]));
    assert_eq!(given[1].status, Status::Failed);
}

#[test]
fn earlier_values_are_told_and_written_again() {
    let mut d = Dialogue::of(Parts::unconnected(
        Options { history: 3, ..Options::default() },
        Config::default(),
    ));
    let history = Operation::History { key: K, count: 2 };
    assert_eq!(d.ask(history), ABSENT);
    for value in ["one", "two", "three", "four"] {
        d.set("k", value);
    }
    let told = d.ask(history);
    let mut expected = Vec::new();
    for (version, value) in [(3_u64, "three"), (2, "two")] {
        expected.extend_from_slice(&version.to_le_bytes());
        expected.extend_from_slice(&START.to_le_bytes());
        expected.extend_from_slice(&(value.len() as u32).to_le_bytes());
        expected.extend_from_slice(value.as_bytes());
    }
    assert_eq!(told, Given { status: Status::Done, version: 4, value: expected });
    assert_eq!(d.ask(Operation::Rollback { key: K, version: 9 }), ABSENT);
    let before = d.get("k").version;
    assert_eq!(d.ask(Operation::Rollback { key: K, version: 2 }), done(0, ""));
    let after = d.get("k");
    assert_eq!(after.value, b"two");
    assert!(after.version > before, "another value has another version: {after:?}");
    let mut without = Dialogue::new();
    without.set("k", "v");
    let (status, why) = without.say(Operation::Rollback { key: K, version: 1 });
    assert_eq!(status, Status::Failed);
    assert!(why.contains("'history'"), "{why}");
}

#[test]
fn operations_of_a_request_run_in_order_each_with_its_answer() {
    let mut d = Dialogue::new();
    d.redis("RPUSH list a");
    let given = d.run(&[
        Operation::Increment { key: K, by: 1 },
        Operation::Get { key: b"list" },
        Operation::Increment { key: K, by: 1 },
        Operation::WaitForChange { key: K, limit_ms: 1 },
        Operation::Get { key: K },
    ]);
    let given = given.expect("it is not held back");
    let statuses: Vec<Status> = given.iter().map(|given| given.status).collect();
    use Status::{Done, Failed};
    assert_eq!(statuses, [Done, Failed, Done, Failed, Done]);
    assert_eq!(given[4], done(given[2].version, "2"));
    assert_eq!(d.run(&[]), Ok(Vec::new()));
}
