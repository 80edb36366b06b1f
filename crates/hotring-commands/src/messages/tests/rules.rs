//! Who may do what, what is refused or held back, and who is told.

use super::*;
use crate::state::client::Closing;
use crate::state::loading::Stage;

const K: &[u8] = b"k";

#[test]
fn a_user_may_do_what_the_command_of_the_same_effect_may() {
    let mut d = Dialogue::new();
    assert_eq!(d.redis("ACL SETUSER reader on >pw ~a* +get +waitkey"), "+OK¶");
    d.set("a", "1");
    let shared = d.client.shared.clone();
    assert!(log_in(&d.server, &shared, b"reader", b"wrong").is_none());
    assert!(log_in(&d.server, &shared, b"stranger", b"pw").is_none());
    assert!(d.redis("ACL LOG").contains("auth"), "both are noted");
    d.client = log_in(&d.server, &shared, b"reader", b"pw").expect("the password is right");
    assert_eq!(d.get("a").value, b"1");
    let no_key = "NOPERM No permissions to access a key";
    assert_eq!(d.say(Operation::Get { key: b"b" }), (Status::Failed, no_key.into()));
    for (operation, name) in [
        (Operation::Set { key: b"a", value: b"2", expiry_ms: 0 }, "set"),
        (Operation::Update { key: b"a", value: b"2" }, "set"),
        (Operation::CompareAndSet { key: b"a", value: b"2", version: 1 }, "set"),
        (Operation::Delete { key: b"a" }, "del"),
        (Operation::Increment { key: b"a", by: 1 }, "incrby"),
        (Operation::Expire { key: b"a", after_ms: 1 }, "pexpire"),
        (Operation::History { key: b"a", count: 1 }, "history"),
        (Operation::Rollback { key: b"a", version: 1 }, "rollback"),
    ] {
        let why = format!("NOPERM User reader has no permissions to run the '{name}' command");
        assert_eq!(d.say(operation), (Status::Failed, why));
    }
    assert_eq!(d.redis("GET a"), "$1¶1¶");
    assert!(d.redis("ACL LOG").contains("rollback"));
    let wait = Operation::WaitForChange { key: b"b", limit_ms: 1 };
    let refused = d.executor.watch(&mut d.client, &wait, Waker::noop().clone(), d.now);
    assert_eq!(refused.expect_err("not its key").given[0].value, no_key.as_bytes());
}

#[test]
fn a_removed_user_is_gone_and_another_password_is_needed() {
    let mut d = Dialogue::new();
    assert_eq!(d.redis("ACL SETUSER guest on >pw ~* +@all"), "+OK¶");
    let shared = d.client.shared.clone();
    d.client = log_in(&d.server, &shared, b"guest", b"pw").expect("the password is right");
    assert_eq!(d.get("k"), ABSENT);
    assert_eq!(d.redis("ACL DELUSER guest"), ":1¶");
    assert_eq!(d.run(&[Operation::Get { key: K }]), Err(Held::Gone));
    assert_eq!(d.client.closing, Some(Closing::Killed));
    assert_eq!(d.redis("CONFIG SET requirepass secret"), "+OK¶");
    assert!(log_in(&d.server, &shared, b"", b"").is_none());
    assert!(log_in(&d.server, &shared, b"", b"secret").is_some());
    assert!(log_in(&d.server, &shared, b"default", b"secret").is_some());
}

#[test]
fn a_pause_holds_requests_back() {
    let mut d = Dialogue::new();
    assert_eq!(d.redis("CLIENT PAUSE 100 WRITE"), "+OK¶");
    let (get, add) = (Operation::Get { key: K }, Operation::Increment { key: K, by: 1 });
    assert_eq!(d.run(&[get, add]), Err(Held::Back));
    assert_eq!(d.run(&[get]), Ok(vec![ABSENT]));
    d.now += 100;
    assert_eq!(d.say(add), (Status::Done, "1".into()), "it ran once");
    assert_eq!(d.redis("CLIENT PAUSE 100 ALL"), "+OK¶");
    assert_eq!(d.run(&[get]), Err(Held::Back));
}

/// The thread would sleep, and all its clients with it.
#[test]
fn a_key_that_another_client_holds_holds_requests_back() {
    let mut d = Dialogue::new();
    d.set("k", "v");
    let (get, other) = (Operation::Get { key: K }, Operation::Get { key: b"other" });
    let server = d.server.clone();
    server.store.session().exclusive(&[K], |_| {
        assert_eq!(d.run(&[other, get]), Err(Held::Back));
        assert_eq!(d.run(&[other]), Ok(vec![ABSENT]));
        assert_eq!(d.redis("ACL SETUSER reader on >pw ~a* +get"), "+OK¶");
        let free = std::mem::replace(
            &mut d.client,
            log_in(
                &server,
                &server.clients.enter("peer".into(), "local".into(), 0),
                b"reader",
                b"pw",
            )
            .expect("the password is right"),
        );
        assert!(d.say(get).1.starts_with("NOPERM "), "who may not use it waits for nothing");
        d.client = free;
    });
    assert_eq!(d.get("k").value, b"v");
}

#[test]
fn a_removed_user_waits_no_longer() {
    let mut d = Dialogue::new();
    assert_eq!(d.redis("ACL SETUSER guest on >pw ~* +@all"), "+OK¶");
    let shared = d.client.shared.clone();
    d.client = log_in(&d.server, &shared, b"guest", b"pw").expect("the password is right");
    let wait = Operation::WaitForChange { key: K, limit_ms: 10 };
    d.executor.begin(&mut d.client, [wait].into_iter(), d.now).expect("nothing holds it");
    let watch = d.executor.watch(&mut d.client, &wait, Waker::noop().clone(), d.now);
    let watch = watch.expect("it waits");
    assert_eq!(d.redis("ACL DELUSER guest"), ":1¶");
    d.redis("SET k secret");
    assert_eq!(d.executor.poll_watch(&mut d.client, &watch, d.now).err(), Some(Held::Gone));
}

#[test]
fn what_was_refused_is_not_taken_back() {
    let operations = [
        Operation::Increment { key: K, by: 1 },
        Operation::Get { key: K },
        Operation::Increment { key: b"other", by: 1 },
    ];
    let mut given = vec![done(1, "1"), done(1, "1"), ABSENT];
    take_back(operations.into_iter(), &mut given, 0b011, "lost");
    let statuses: Vec<Status> = given.iter().map(|given| given.status).collect();
    assert_eq!(statuses, [Status::Unknown, Status::Failed, Status::Absent]);
}

#[test]
fn what_was_refused_waits_for_nothing() {
    let mut d = Dialogue::new();
    assert_eq!(d.redis("ACL SETUSER reader on >pw ~a* +get"), "+OK¶");
    let shared = d.client.shared.clone();
    d.client = log_in(&d.server, &shared, b"reader", b"pw").expect("the password is right");
    let operations = [Operation::Get { key: K }, Operation::Get { key: b"a" }];
    d.executor.begin(&mut d.client, operations.into_iter(), d.now).expect("nothing holds it");
    let ran = d.executor.run(&mut d.client, operations.into_iter(), d.now);
    assert_eq!(ran.has_run, 0b10);
}

#[test]
fn a_replica_answers_reads_alone() {
    let mut d = Dialogue::new();
    d.redis("SET k v");
    assert_eq!(d.redis("REPLICAOF 127.0.0.1 1"), "+OK¶");
    let (status, why) = d.say(Operation::Increment { key: K, by: 1 });
    assert_eq!(status, Status::Failed);
    assert!(why.starts_with("READONLY "), "{why}");
    assert_eq!(d.get("k"), done(0, "v"), "it gets no version");
    assert_eq!(d.redis("REPLICAOF NO ONE"), "+OK¶");
    assert_eq!(d.set("k", "w").status, Status::Done);
}

#[test]
fn a_change_of_the_role_ends_what_was_told() {
    let mut d = Dialogue::new();
    let before = d.server.replication.told_epoch();
    d.redis("REPLICAOF 127.0.0.1 1");
    let between = d.server.replication.told_epoch();
    d.redis("REPLICAOF NO ONE");
    let after = d.server.replication.told_epoch();
    assert!(before != between && between != after && before != after);
}

#[test]
fn nothing_is_answered_before_it_is_loaded() {
    let mut d = Dialogue::new();
    d.redis("SET k v");
    d.server.persist.loading.reach(Stage::Hot);
    assert_eq!(d.get("k").value, b"v", "this key is loaded");
    for operation in [Operation::Get { key: b"other" }, Operation::Increment { key: K, by: 1 }] {
        let (status, why) = d.say(operation);
        assert_eq!(status, Status::Failed);
        assert!(why.starts_with("LOADING "), "{why}");
    }
}

#[test]
fn listeners_and_caches_learn_of_changes() {
    let mut d = Dialogue::new();
    d.redis("CONFIG SET notify-keyspace-events KEA");
    d.redis("HELLO 3");
    d.redis("PSUBSCRIBE __keyevent@0__:*");
    d.redis("CLIENT TRACKING ON");
    d.set("k", "1");
    let told = d.messages();
    assert!(told.contains("__keyevent@0__:set¶$1¶k¶"), "{told}");
    assert_eq!(d.redis("GET k"), "$1¶1¶");
    d.ask(Operation::Increment { key: K, by: 1 });
    let told = d.messages();
    assert!(told.contains("__keyevent@0__:incrby¶$1¶k¶"), "{told}");
    assert!(told.contains("invalidate"), "{told}");
    d.ask(Operation::Expire { key: K, after_ms: 5 });
    assert!(d.messages().contains("__keyevent@0__:expire¶"));
    d.now += 5;
    d.get("k");
    d.set("k", "2");
    d.ask(Operation::Delete { key: K });
    let told = d.messages();
    assert!(told.contains("__keyevent@0__:del¶"), "{told}");
}

#[test]
fn operations_count_as_commands() {
    let mut d = Dialogue::new();
    d.set("k", "x");
    d.get("k");
    d.get("other");
    d.say(Operation::Increment { key: K, by: 1 });
    let stats = d.redis("INFO commandstats");
    assert!(stats.contains("cmdstat_get:calls=2,"), "{stats}");
    assert!(stats.contains("cmdstat_incrby:calls=1,"), "{stats}");
    let stats = d.redis("INFO stats");
    assert!(stats.contains("keyspace_hits:1¶") && stats.contains("keyspace_misses:1¶"), "{stats}");
}

#[test]
fn a_wait_ends_with_the_change() {
    let mut d = Dialogue::new();
    d.redis("SET k 1");
    let watch = |d: &mut Dialogue, operation: Operation<'_>| {
        d.executor.begin(&mut d.client, [operation].into_iter(), d.now).expect("nothing holds it");
        d.executor.watch(&mut d.client, &operation, Waker::noop().clone(), d.now)
    };
    let value = |value| Operation::WaitForValue { key: K, value, limit_ms: 10 };
    let ran = watch(&mut d, value(b"1")).expect_err("the value is there");
    assert_eq!(ran.given, [done(0, "")]);
    let change =
        watch(&mut d, Operation::WaitForChange { key: K, limit_ms: 10 }).expect("it waits");
    let two = watch(&mut d, value(b"2")).expect("it waits");
    let waits = |d: &mut Dialogue, watch: &hotring_store::Watch| {
        matches!(d.executor.poll_watch(&mut d.client, watch, d.now), Ok(Waited::Waiting(_)))
    };
    assert!(waits(&mut d, &change) && waits(&mut d, &two));
    d.redis("SET k 3");
    assert!(!waits(&mut d, &change) && waits(&mut d, &two));
    d.redis("SET k 2");
    match d.executor.poll_watch(&mut d.client, &two, d.now) {
        Ok(Waited::Ended(ran)) => assert_eq!(ran.given, [done(0, "")]),
        waits => panic!("{waits:?}"),
    }
    d.redis("CONFIG SET max-waiting-clients 0");
    let refused = watch(&mut d, Operation::WaitForChange { key: K, limit_ms: 10 });
    let refused = refused.expect_err("there are too many").given.remove(0);
    assert_eq!(refused.status, Status::Failed);
}
