//! What a node serves while mirrors may answer reads of one of its keys.

use std::panic::{AssertUnwindSafe, catch_unwind};

use hotring_cluster::mirrors::{Ask, Budget, Closing, GRANT, Heat, Key, MirrorAct};
use hotring_cluster::{Epoch, Moment};
use hotring_protocol::{Args, Decoder, Limits, Version};

use super::cluster::{accesses, node_of};

use crate::exec::dialogue::Dialogue;
use crate::state::cluster::Held;
use crate::state::routes::Routes;
use crate::table::resolve;

/// Node 1, whose store guards `b`.
fn guarding() -> Dialogue {
    let dialogue = node_of(1, Version::Resp2);
    guard(&dialogue);
    dialogue
}

fn guard(dialogue: &Dialogue) {
    change_guard(dialogue, MirrorAct::Guard);
}

fn change_guard(dialogue: &Dialogue, act: fn(Key) -> MirrorAct) {
    let server = dialogue.server();
    let mut session = server.store.session();
    server.renew_grounds(&mut session);
    server.guard_keys(&[act(b"b"[..].into())], &mut session);
}

/// The read cached its count in the value, which mirrors went on to answer as it had been.
#[test]
fn a_count_is_not_cached_in_a_mirrored_sketch() {
    let mut dialogue = node_of(1, Version::Resp2);
    dialogue.say("PFADD b x");
    guard(&dialogue);
    // This bit says that the cached count is not valid.
    assert_eq!(dialogue.say("PFCOUNT b\r\nGETBIT b 120"), ":1¶:1¶");
    change_guard(&dialogue, MirrorAct::Release);
    assert_eq!(dialogue.say("PFCOUNT b\r\nGETBIT b 120"), ":1¶:0¶");
}

/// Only what mirrors told was counted once, so that a key cooled down although the node itself served it.
#[test]
fn requests_for_the_slot_of_a_mirrored_key_count() {
    let mut dialogue = guarding();
    dialogue.say("GET b\r\nSET {b}x 1\r\nGET {b}x\r\nMGET b {b}x");
    assert_eq!(accesses(&mut dialogue, 3300), "5");
    // What waits was counted each time it was looked at.
    let mut other = dialogue.with_version(Version::Resp2);
    for _ in 0..3 {
        assert!(other.offer("SET b 1").is_none(), "it waits");
        other.pass(10);
        assert!(other.may_go_on());
    }
    assert_eq!(accesses(&mut dialogue, 3300), "5");
    change_guard(&dialogue, MirrorAct::Release);
    assert_eq!(other.offer("SET b 1").as_deref(), Some("+OK¶"));
    assert_eq!(accesses(&mut dialogue, 3300), "6");
}

/// Whether a batch of this request alone needs no check.
fn is_served(dialogue: &mut Dialogue, line: &str) -> bool {
    let server = dialogue.server();
    let routes = Routes::new(server.cluster.as_ref().expect("it is a node"));
    let (input, mut args) = (format!("{line}\n").into_bytes(), Args::new());
    Decoder::new().decode(&input, &Limits::default(), &mut args).unwrap();
    let args = args.view(&input);
    routes.serves(resolve(args).unwrap(), args, dialogue.client())
}

#[test]
fn reads_of_mirrored_keys_need_no_check() {
    let mut dialogue = guarding();
    for (line, expected) in
        [("GET b", true), ("GET {b}x", true), ("SET b 1", false), ("SET {b}x 1", false)]
    {
        assert_eq!(is_served(&mut dialogue, line), expected, "{line}");
    }
    let server = dialogue.server();
    let held = Held { slots: "3300".parse().unwrap(), reads: true };
    server.hold_slots(7, Some(held), &mut server.store.session());
    assert!(!is_served(&mut dialogue, "GET b"), "it waits for the end of a move");
}

/// Node 1 and a client that holds `b`.
fn holding() -> Dialogue {
    let mut dialogue = node_of(1, Version::Resp2);
    hold(&mut dialogue);
    dialogue
}

/// Has the node mirror `b`, and this client hold it.
fn hold(dialogue: &mut Dialogue) {
    dialogue.say("SET b 1");
    let (server, epoch) = (dialogue.server(), Some(Epoch(1)));
    let mirrors = &server.cluster.as_ref().expect("it is a node").mirrors;
    mirrors.lead(epoch);
    let heat = Heat { key: b"b"[..].into(), share: (1.0, 1.0), bytes: 1, is_named: false };
    mirrors.choose(Budget { keys: 1, bytes: 1 }, vec![heat]);
    mirrors.changed(&mirrors.take_guards(), &[]);
    let ask = Ask { number: 0, keys: vec![b"b"[..].into()] };
    let granted =
        mirrors.ask(&dialogue.client().shared, &ask, (epoch, Some(Moment::MAX)), |_| None);
    assert_eq!(granted.grants.len(), 1);
}

/// The keys that two holders have, `b` and `{b}x`, and whose writes wait.
fn hold_both(one: &mut Dialogue, other: &mut Dialogue) {
    one.say("SET b 1\r\nSET {b}x 1");
    let (server, epoch) = (one.server(), Some(Epoch(1)));
    let mirrors = &server.cluster.as_ref().expect("it is a node").mirrors;
    mirrors.lead(epoch);
    let keys = [&b"b"[..], b"{b}x"].map(Key::from);
    let heats = keys.iter().map(|key| Heat {
        key: key.clone(),
        share: (1.0, 1.0),
        bytes: 1,
        is_named: false,
    });
    mirrors.choose(Budget { keys: 2, bytes: 2 }, heats.collect());
    let (acts, mut session) = (mirrors.take_guards(), server.store.session());
    server.renew_grounds(&mut session);
    server.guard_keys(&acts, &mut session);
    mirrors.changed(&acts, &[]);
    let ask = Ask { number: 0, keys: keys.into() };
    for dialogue in [one, other] {
        let holder = &dialogue.client().shared;
        let granted = mirrors.ask(holder, &ask, (epoch, Some(Moment::MAX)), |_| None);
        assert_eq!(granted.grants.len(), 2);
    }
}

/// Neither was heard to drop a key while its own write waited: both waited for the ends of the grants.
#[test]
fn holders_that_write_each_others_keys_wait_for_no_grant() {
    let mut one = node_of(1, Version::Resp2);
    let mut other = one.with_version(Version::Resp2);
    hold_both(&mut one, &mut other);
    for (dialogue, line) in [(&mut one, "SET b 2"), (&mut other, "SET {b}x 2")] {
        assert!(dialogue.say("HOTRING.MIRROR DROPPED").ends_with("+OK¶"));
        assert!(dialogue.offer(line).is_none(), "it waits");
    }
    let server = one.server();
    assert!(server.cluster.as_ref().expect("it is a node").mirrors.keys().is_empty());
}

/// Holders keep replies by their versions: one of an earlier owner could answer again.
#[test]
fn no_version_is_granted_twice() {
    let mut dialogue = holding();
    let server = dialogue.server();
    let mirrors = &server.cluster.as_ref().expect("it is a node").mirrors;
    let before = mirrors.version(b"b");
    mirrors.lead(None);
    std::thread::sleep(GRANT);
    hold(&mut dialogue);
    assert!(mirrors.version(b"b") > before);
}

/// Clients without the right to write, and even without a login, once ended mirrors.
#[test]
fn only_requests_that_may_run_end_mirrors() {
    let mut dialogue = node_of(1, Version::Resp2);
    dialogue.say("ACL SETUSER plain on nopass ~* -@all +get");
    hold(&mut dialogue);
    guard(&dialogue);
    let server = dialogue.server();
    let mirrors = &server.cluster.as_ref().expect("it is a node").mirrors;
    let mut plain = dialogue.with_version(Version::Resp2);
    plain.say("AUTH plain any");
    assert!(plain.say("HOTRING.MIRROR LIST").starts_with("-NOPERM"));
    assert_eq!(dialogue.say("ACL LOG"), "*0¶", "a proxy asks for each of its users");
    assert!(plain.say("SET b 2").starts_with("-NOPERM"));
    assert!(mirrors.version(b"b").is_some());
    assert!(dialogue.with_version(Version::Resp2).offer("SET b 2").is_none(), "it waits");
    assert!(mirrors.version(b"b").is_none());
}

/// Any user could make keys hot that no client had read.
#[test]
fn only_hits_of_holders_count_and_only_administrators_hold() {
    let mut holder = holding();
    let mut other = holder.with_version(Version::Resp2);
    let hits = |dialogue: &mut Dialogue, line: &str| {
        let reply = dialogue.say(line);
        assert!(reply.starts_with("*2¶"), "{reply}");
        dialogue.server().cluster.as_ref().expect("it is a node").mirrors.status().hits
    };
    assert_eq!(hits(&mut other, "HOTRING.MIRROR ASK b 7"), 0);
    assert_eq!(hits(&mut holder, "HOTRING.MIRROR ASK b 5"), 5);
    assert_eq!(hits(&mut holder, "HOTRING.MIRROR ASK b 100000000"), 5 + (1 << 20));
    other.say("ACL SETUSER plain on nopass ~* +@all -@admin");
    other.say("AUTH plain any");
    assert!(other.say("HOTRING.MIRROR ASK b 0").starts_with("-NOPERM"));
}

/// A proxy answered reads for as long as the grant was renewed, although its user might not read any more.
#[test]
fn mirrors_end_when_users_change() {
    for change in ["ACL SETUSER x", "ACL DELUSER x", "CONFIG SET requirepass y"] {
        let dialogue = holding();
        let mut admin = dialogue.with_version(Version::Resp2);
        let server = dialogue.server();
        let mirrors = &server.cluster.as_ref().expect("it is a node").mirrors;
        assert!(mirrors.version(b"b").is_some());
        assert!(!admin.say(change).starts_with('-'));
        assert!(mirrors.version(b"b").is_none(), "{change}");
    }
}

/// A move whose task had panicked left its slots without mirrors until the server was started again.
#[test]
fn slots_have_mirrors_again_once_no_move_runs() {
    let mut dialogue = node_of(1, Version::Resp2);
    let server = dialogue.server();
    let mirrors = &server.cluster.as_ref().expect("it is a node").mirrors;
    mirrors.close(Closing::Move(7), "3300".parse().unwrap());
    mirrors.close(Closing::Handover, "3301".parse().unwrap());
    server.end_moves(&mut server.store.session());
    hold(&mut dialogue);
    assert!(mirrors.is_clear(Closing::Handover), "only moves have ended");
}

/// The guard stayed, and with it every write of the key waited for ever.
#[test]
fn a_panic_leaves_no_guard() {
    let dialogue = holding();
    let server = dialogue.server();
    let mirrors = &server.cluster.as_ref().expect("it is a node").mirrors;
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _alone = mirrors.lock_guards();
        panic!("while the store gets its guards");
    }));
    assert!(panicked.is_err());
    // Whether the store is to guard nothing.
    let leads = || {
        let _alone = mirrors.lock_guards();
        mirrors.lead(Some(Epoch(1)))
    };
    let at_once = leads();
    assert!(mirrors.version(b"b").is_none(), "the store may not guard it");
    std::thread::sleep(GRANT);
    assert!(at_once | leads());
    assert!(!leads());
}
