//! CLIENT TRACKING and related commands: replies, invalidations and their receivers and order.

use hotring_protocol::Version;

use crate::exec::dialogue::{Dialogue, play};
use crate::settings::config::Config;
use crate::state::tracking;

/// The message that keys have changed, in RESP3.
fn changed(keys: &[&str]) -> String {
    keys.iter().map(|key| format!(">2¶$10¶invalidate¶*1¶${}¶{key}¶", key.len())).collect()
}

const ALL_CHANGED: &str = ">2¶$10¶invalidate¶_¶";

fn two() -> (Dialogue, Dialogue) {
    let a = Dialogue::new(Version::Resp3);
    let b = a.with_version(Version::Resp2);
    (a, b)
}

#[test]
fn options_are_checked_as_redis_checks_them() {
    let no_switch = |option: &str| {
        format!(
            "-ERR You can't switch {option} before disabling tracking for this client, and then re-enabling it \
             with a different mode.¶"
        )
    };
    let table = r#"
        CLIENT TRACKING             -> -ERR wrong number of arguments for 'client|tracking' command¶
        CLIENT TRACKING yes         -> -ERR syntax error¶
        CLIENT TRACKING on nonsense -> -ERR syntax error¶
        CLIENT TRACKING on REDIRECT -> -ERR syntax error¶
        CLIENT TRACKING on REDIRECT x -> -ERR value is not an integer or out of range¶
        CLIENT TRACKING on REDIRECT 0 -> -ERR The client ID you want redirect to does not exist¶
        CLIENT TRACKING on REDIRECT -1 -> -ERR The client ID you want redirect to does not exist¶
        CLIENT TRACKING on REDIRECT 1 REDIRECT 1 -> -ERR A client can only redirect to a single other client¶
        CLIENT TRACKING on PREFIX a -> -ERR PREFIX option requires BCAST mode to be enabled¶
        CLIENT TRACKING on BCAST OPTIN -> -ERR OPTIN and OPTOUT are not compatible with BCAST¶
        CLIENT TRACKING on OPTIN OPTOUT -> -ERR You can't specify both OPTIN mode and OPTOUT mode¶
        CLIENT CACHING YES          -> -ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled¶
        CLIENT GETREDIR             -> :-1¶
        CLIENT TRACKINGINFO         -> *6¶$5¶flags¶*1¶$3¶off¶$8¶redirect¶:-1¶$8¶prefixes¶*0¶ | %3¶$5¶flags¶~1¶$3¶off¶$8¶redirect¶:-1¶$8¶prefixes¶*0¶
        CLIENT TRACKING off         -> +OK¶
        client tracking ON noloop   -> +OK¶
        CLIENT GETREDIR             -> :0¶
        CLIENT TRACKINGINFO         -> *6¶$5¶flags¶*2¶$2¶on¶$6¶noloop¶$8¶redirect¶:0¶$8¶prefixes¶*0¶ | %3¶$5¶flags¶~2¶$2¶on¶$6¶noloop¶$8¶redirect¶:0¶$8¶prefixes¶*0¶
        CLIENT CACHING YES          -> -ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.¶
        CLIENT CACHING NO           -> -ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.¶
        CLIENT CACHING x            -> -ERR syntax error¶
        CLIENT TRACKING on OPTIN    -> +OK¶
        CLIENT CACHING YES          -> +OK¶
        CLIENT TRACKINGINFO         -> *6¶$5¶flags¶*3¶$2¶on¶$5¶optin¶$11¶caching-yes¶$8¶redirect¶:0¶$8¶prefixes¶*0¶ | %3¶$5¶flags¶~3¶$2¶on¶$5¶optin¶$11¶caching-yes¶$8¶redirect¶:0¶$8¶prefixes¶*0¶
        PING                        -> +PONG¶
        CLIENT TRACKINGINFO         -> *6¶$5¶flags¶*2¶$2¶on¶$5¶optin¶$8¶redirect¶:0¶$8¶prefixes¶*0¶ | %3¶$5¶flags¶~2¶$2¶on¶$5¶optin¶$8¶redirect¶:0¶$8¶prefixes¶*0¶
        RESET                       -> +RESET¶
        CLIENT GETREDIR             -> :-1¶
    "#;
    play(table);
    let mut dialogue = Dialogue::new(Version::Resp3);
    for (line, reply) in [
        ("CLIENT TRACKING on OPTIN", "+OK¶".to_string()),
        ("CLIENT TRACKING on OPTOUT", no_switch("OPTIN/OPTOUT mode")),
        ("CLIENT TRACKING on BCAST", no_switch("BCAST mode on/off")),
        ("CLIENT TRACKING off", "+OK¶".to_string()),
        ("CLIENT TRACKING on BCAST PREFIX b PREFIX a", "+OK¶".to_string()),
        ("CLIENT TRACKING on", no_switch("BCAST mode on/off")),
    ] {
        assert_eq!(dialogue.say(line), reply, "{line}");
    }
    let overlaps = |prefix: &str, kind: &str, other: &str| {
        format!(
            "-ERR Prefix '{prefix}' overlaps with {kind} '{other}'. Prefixes for a single client must not \
             overlap.¶"
        )
    };
    assert_eq!(
        dialogue.say("CLIENT TRACKING on BCAST PREFIX ab"),
        overlaps("ab", "an existing prefix", "a")
    );
    assert_eq!(
        dialogue.say("CLIENT TRACKING on BCAST PREFIX xy PREFIX c PREFIX x"),
        overlaps("xy", "another provided prefix", "x")
    );
    assert_eq!(dialogue.say("CLIENT TRACKING on BCAST PREFIX c"), "+OK¶");
    assert!(dialogue.say("CLIENT TRACKINGINFO").ends_with("*3¶$1¶a¶$1¶b¶$1¶c¶"));
    assert!(dialogue.say("INFO stats").contains("tracking_total_prefixes:3¶"));
    dialogue.say("CONFIG SET max-subscriptions 3");
    assert_eq!(
        dialogue.say("CLIENT TRACKING on BCAST PREFIX d"),
        "-ERR more than 3 prefixes (max-subscriptions)¶"
    );
}

#[test]
fn a_reader_of_a_key_gets_one_invalidation_for_any_change() {
    let (mut a, mut b) = two();
    assert_eq!(a.say("CLIENT TRACKING on"), "+OK¶");
    for change in [
        "SET k x",
        "APPEND k x",
        "DEL k",
        "EXPIRE k 100",
        "PERSIST k",
        "RENAME k l",
        "RENAME l k",
        "COPY l k REPLACE",
        "GETDEL k",
        "GETEX k EX 100",
        "MSET j 1 k 1",
        "SETRANGE k 2 x",
        "SETBIT k 0 1",
        "EVAL \"redis.call('set', 'k', 'x')\" 0",
        "MULTI\r\nSET k x\r\nSET k y\r\nEXEC",
    ] {
        b.say("MSET k v l v\r\nEXPIRE k 1000");
        assert_eq!(a.messages(), "", "before {change}");
        assert_eq!(a.say("GET k"), "$1¶v¶");
        let reply = b.say(change);
        assert!(!reply.contains("-ERR"), "{change}: {reply}");
        assert_eq!(a.messages(), changed(&["k"]), "{change}");
        b.say(change);
        assert_eq!(a.messages(), "", "{change} again");
    }
    // A write without effect sends no invalidation.
    b.say("SET k v");
    a.say("GET k\r\nGET none");
    b.say("SETNX k x\r\nGET k\r\nEXPIRE none 1\r\nDEL none\r\nSET k x IFEQ y");
    assert_eq!(a.messages(), "");
    // Reads of absent keys are tracked, too.
    b.say("SET none 1");
    assert_eq!(a.messages(), changed(&["none"]));
}

#[test]
fn reads_of_all_kinds_count_and_writes_do_not() {
    let (mut a, mut b) = two();
    a.say("CLIENT TRACKING on");
    b.say("HSET h f 1");
    for (read, keys) in [
        ("MGET x y", &["x", "y"][..]),
        ("EXISTS x", &["x"]),
        ("TTL x", &["x"]),
        ("GETRANGE x 0 1", &["x"]),
        ("HGET h f", &["h"]),
        ("MULTI\r\nGET x\r\nGET y\r\nEXEC", &["x", "y"]),
        ("EVAL \"return redis.call('get', KEYS[1])\" 2 x y", &["x"]),
        ("EVAL_RO \"return redis.call('get', 'y')\" 0", &["y"]),
        ("INCR x", &[]),
        ("GETSET x 1", &[]),
        ("SCAN 0", &[]),
    ] {
        a.say(read);
        a.messages();
        b.say("MSET x 1 y 2\r\nHSET h f 2");
        assert_eq!(a.messages(), changed(keys), "{read}");
    }
}

#[test]
fn own_changes_follow_the_reply_except_with_noloop() {
    let (mut a, mut b) = two();
    a.say("CLIENT TRACKING on");
    assert_eq!(
        a.say("GET k\r\nSET k 1\r\nGET k\r\nSET k 2"),
        format!("_¶+OK¶{}$1¶1¶+OK¶{}", changed(&["k"]), changed(&["k"]))
    );
    a.say("GET k");
    assert_eq!(
        a.say("MULTI\r\nSET k 3\r\nGET k\r\nEXEC"),
        format!("+OK¶+QUEUED¶+QUEUED¶*2¶+OK¶$1¶3¶{}", changed(&["k"]))
    );
    a.say("CLIENT TRACKING on NOLOOP");
    assert_eq!(a.say("GET k\r\nSET k 4\r\nGET k"), "$1¶3¶+OK¶$1¶4¶");
    b.say("SET k 5");
    assert_eq!(a.messages(), changed(&["k"]));
    // A flush is reported to all, including the client that does it.
    assert_eq!(a.say("FLUSHALL"), format!("+OK¶{ALL_CHANGED}"));
}

#[test]
fn requests_are_tracked_as_caching_says() {
    let (mut a, mut b) = two();
    let mut check = |a: &mut Dialogue, reads: &str, keys: &[&str]| {
        a.say(reads);
        b.say("MSET x 1 y 2");
        assert_eq!(a.messages(), changed(keys), "{reads}");
    };
    a.say("CLIENT TRACKING on OPTIN");
    check(&mut a, "GET x", &[]);
    check(&mut a, "CLIENT CACHING YES\r\nGET x\r\nGET y", &["x"]);
    check(&mut a, "CLIENT CACHING YES\r\nCLIENT ID\r\nGET x", &["x"]);
    check(&mut a, "CLIENT CACHING YES\r\nNONSENSE\r\nGET x", &[]);
    let transaction = "MULTI\r\nGET x\r\nGET y\r\nEXEC\r\nGET y";
    check(&mut a, &format!("CLIENT CACHING YES\r\n{transaction}"), &["x", "y"]);
    check(&mut a, transaction, &[]);
    check(&mut a, "CLIENT CACHING YES\r\nEVAL \"return redis.call('get', 'x')\" 0", &["x"]);
    a.say("CLIENT TRACKING off\r\nCLIENT TRACKING on OPTOUT");
    check(&mut a, "GET x\r\nCLIENT CACHING NO\r\nGET y", &["x"]);
    check(&mut a, &format!("CLIENT CACHING NO\r\n{transaction}"), &["y"]);
    a.say("CLIENT TRACKING off");
    check(&mut a, "GET x", &[]);
}

#[test]
fn broadcasts_go_by_prefix() {
    let (mut a, mut b) = two();
    let mut all = a.with_version(Version::Resp3);
    a.say("CLIENT TRACKING on BCAST PREFIX user: PREFIX other PREFIX user2");
    all.say("CLIENT TRACKING on BCAST NOLOOP");
    for (write, key, is_prefixed) in [
        ("SET user:1 x", "user:1", true),
        ("SET user: x", "user:", true),
        ("SET user x", "user", false),
        ("SET user2:1 x", "user2:1", true),
        ("DEL user:1", "user:1", true),
        ("SET \"\" x", "", false),
    ] {
        b.say(write);
        assert_eq!(
            a.messages(),
            if is_prefixed { changed(&[key]) } else { String::new() },
            "{write}"
        );
        assert_eq!(all.messages(), changed(&[key]), "{write}");
    }
    assert_eq!(all.say("SET user:1 y"), "+OK¶");
    assert_eq!(a.messages(), changed(&["user:1"]));
    let info = a.say("CLIENT INFO");
    assert!(info.contains(" flags=tB ") && info.contains(" redir=0 "), "{info}");
    // One message, although the client read the key before it began to broadcast.
    a.say("CLIENT TRACKING off\r\nCLIENT TRACKING on\r\nGET user:1");
    a.say("CLIENT TRACKING off\r\nCLIENT TRACKING on BCAST");
    b.say("SET user:1 z");
    assert_eq!((a.messages(), all.messages()), (changed(&["user:1"]), changed(&["user:1"])));
    b.say("FLUSHALL");
    assert_eq!((a.messages().as_str(), all.messages().as_str()), (ALL_CHANGED, ALL_CHANGED));
}

#[test]
fn another_connection_gets_the_message_in_its_version() {
    let mut a = Dialogue::new(Version::Resp2);
    let mut b = a.with_version(Version::Resp2);
    let mut listener = a.with_version(Version::Resp2);
    let redirect = format!("CLIENT TRACKING on REDIRECT {}", listener.id());
    assert_eq!(a.say(&redirect), "+OK¶");
    assert_eq!(a.say("CLIENT GETREDIR"), format!(":{}¶", listener.id()));
    let read_and_change = |a: &mut Dialogue, b: &mut Dialogue| {
        a.say("GET k");
        b.say("INCR k");
        assert_eq!(a.messages(), "");
    };
    read_and_change(&mut a, &mut b);
    assert_eq!(listener.messages(), "", "it does not listen");
    listener.say("SUBSCRIBE __redis__:invalidate");
    read_and_change(&mut a, &mut b);
    assert_eq!(listener.messages(), "*3¶$7¶message¶$20¶__redis__:invalidate¶*1¶$1¶k¶");
    b.say("FLUSHALL");
    assert_eq!(listener.messages(), "*3¶$7¶message¶$20¶__redis__:invalidate¶$-1¶");
    let mut other = a.with_version(Version::Resp3);
    a.say(&format!("CLIENT TRACKING on REDIRECT {}", other.id()));
    read_and_change(&mut a, &mut b);
    assert_eq!((other.messages(), listener.messages()), (changed(&["k"]), String::new()));
    // RESP2 has no messages on the connection itself.
    a.say("CLIENT TRACKING on");
    read_and_change(&mut a, &mut b);
}

#[test]
fn the_end_of_a_redirect_is_reported() {
    let (mut a, mut b) = two();
    let other = a.with_version(Version::Resp3);
    let id = other.id();
    a.say(&format!("CLIENT TRACKING on REDIRECT {id}"));
    a.say("GET k");
    other.end();
    assert_eq!(a.messages(), "");
    b.say("SET k 1");
    let broken = format!(">2¶$21¶tracking-redir-broken¶:{id}¶");
    assert_eq!(a.messages(), broken);
    a.say("GET k");
    b.say("SET k 1");
    assert_eq!(a.messages(), broken, "each time");
    assert!(a.say("CLIENT TRACKINGINFO").contains("$15¶broken_redirect¶"));
    assert!(a.say("CLIENT INFO").contains(" flags=tR db=0 "));
    assert_eq!(a.say("CLIENT TRACKING on\r\nGET k"), "+OK¶$1¶1¶");
    b.say("SET k 1");
    assert_eq!(a.messages(), changed(&["k"]));
}

#[test]
fn tracking_costs_nothing_after_the_last_client_left() {
    let (mut a, mut b) = two();
    let mut session = a.server().store.session();
    assert!(!session.is_observed());
    a.say("CLIENT TRACKING on");
    assert!(session.is_observed());
    let clients = |b: &mut Dialogue, n: usize| {
        assert!(b.say("INFO clients").contains(&format!("tracking_clients:{n}¶")));
    };
    clients(&mut b, 1);
    a.say("GET x\r\nGET y\r\nGET x");
    assert!(b.say("INFO stats").contains("tracking_total_keys:2¶tracking_total_items:2¶"));
    a.end();
    clients(&mut b, 0);
    session.observe(|| b.server().push.tracking.any());
    assert!(!session.is_observed());
}

#[test]
fn tracking_may_begin_in_a_transaction() {
    let (mut a, mut b) = two();
    b.say("SET k 1");
    assert_eq!(
        a.say("MULTI\r\nGET k\r\nCLIENT TRACKING on\r\nGET k\r\nEXEC"),
        "+OK¶+QUEUED¶+QUEUED¶+QUEUED¶*3¶$1¶1¶+OK¶$1¶1¶"
    );
    b.say("SET k 2");
    assert_eq!(a.messages(), changed(&["k"]));
}

#[test]
fn keys_above_the_limit_are_invalidated() {
    let (mut a, mut b) = two();
    assert_eq!(a.say("CONFIG SET tracking-table-max-keys 10"), "+OK¶");
    a.say("CLIENT TRACKING on");
    let mut invalidated = Vec::new();
    for i in 0..100 {
        let reply = a.say(&format!("GET k{i}"));
        invalidated.extend(reply.split('¶').filter(|word| word.starts_with('k')).map(String::from));
    }
    assert_eq!(invalidated.len(), 90);
    assert!(b.say("INFO stats").contains("tracking_total_keys:10¶tracking_total_items:10¶"));
    // Each key is invalidated once, by the limit or by its change.
    for i in 0..100 {
        b.say(&format!("SET k{i} x"));
        invalidated
            .extend(a.messages().split('¶').filter(|word| word.starts_with('k')).map(String::from));
    }
    invalidated.sort();
    invalidated.dedup();
    assert_eq!(invalidated.len(), 100);
    assert_eq!(a.messages(), "");
    assert!(b.say("INFO stats").contains("tracking_total_keys:0¶tracking_total_items:0¶"));
}

/// Regression test: a key with many readers counted once per reader.
#[test]
fn readers_of_one_key_are_not_counted_as_keys() {
    let (mut a, mut b) = two();
    assert_eq!(a.say("CONFIG SET tracking-table-max-keys 1"), "+OK¶");
    let mut readers: Vec<Dialogue> = (0..10).map(|_| a.with_version(Version::Resp3)).collect();
    for reader in &mut readers {
        reader.say("CLIENT TRACKING on");
        assert_eq!(reader.say("GET k"), "_¶");
    }
    assert!(a.say("INFO stats").contains("tracking_total_keys:1¶tracking_total_items:10¶"));
    b.say("SET k 1");
    readers.iter_mut().for_each(|reader| assert_eq!(reader.messages(), changed(&["k"])));
}

/// The value of a field of INFO.
fn figure(a: &mut Dialogue, name: &str) -> usize {
    let info = a.say("INFO");
    let (_, behind) = info.split_once(&format!("¶{name}:")).unwrap();
    behind.split('¶').next().unwrap().parse().unwrap()
}

/// Regression test: the table was bounded by the number of keys, which may be 64 KiB long each.
#[test]
fn memory_is_bounded_for_all_reads() {
    let (mut a, mut b) = two();
    assert_eq!(a.say("CONFIG SET tracking-table-max-memory 100000"), "+OK¶");
    a.say("CLIENT TRACKING on");
    let keys: Vec<String> =
        (0..300).map(|i| format!("{i}:{}", "x".repeat(i * i % 5_000))).collect();
    let mut invalidated = 0;
    for key in &keys {
        invalidated += a.say(&format!("GET {key}")).matches("invalidate").count();
        assert!(figure(&mut b, "tracking_table_memory") <= 100_000);
    }
    let kept = figure(&mut b, "tracking_total_keys");
    assert!(
        kept > 10 && invalidated + kept == keys.len(),
        "{invalidated} invalidated, {kept} kept"
    );
    a.say("FLUSHALL");
    assert_eq!(figure(&mut b, "tracking_table_memory"), 0);
}

/// Regression test: keys longer than the limit filled the table.
#[test]
fn too_long_keys_are_not_tracked() {
    let config = Config { key_len_max: 10, ..Config::default() };
    let mut a = Dialogue::with_config(Version::Resp3, Default::default(), config);
    a.say("CLIENT TRACKING on");
    a.say("GET 0123456789\r\nMGET k 0123456789a");
    assert_eq!(figure(&mut a, "tracking_total_keys"), 2);
}

/// Runs the background walk to its end.
fn drop_left(a: &Dialogue) {
    let mut walk = tracking::Walk::default();
    while a.server().push.tracking.drop_left(&mut walk) {}
}

/// Regression test: keys of closed connections stayed in the table until they changed.
#[test]
fn clients_that_have_left_leave_nothing() {
    let (mut a, mut b) = two();
    let read = |dialogue: &mut Dialogue, n: usize| {
        dialogue.say("CLIENT TRACKING on");
        (0..n).for_each(|i| _ = dialogue.say(&format!("GET k{i}")));
    };
    read(&mut a, 100);
    for _ in 0..100 {
        let mut guest = a.with_version(Version::Resp3);
        read(&mut guest, 10);
        guest.end();
    }
    assert_eq!(figure(&mut b, "tracking_total_items"), 1_100);
    drop_left(&a);
    assert_eq!(figure(&mut b, "tracking_total_items"), 100);
    // The keys of one closed connection are too few for a walk over the table.
    let mut guest = a.with_version(Version::Resp3);
    read(&mut guest, 10);
    guest.end();
    drop_left(&a);
    assert_eq!(figure(&mut b, "tracking_total_items"), 110);
    b.say("SET k0 x");
    assert_eq!(a.messages(), changed(&["k0"]));
    a.say("CLIENT TRACKING off");
    drop_left(&a);
    assert_eq!(figure(&mut b, "tracking_total_items"), 0);
    assert_eq!(figure(&mut b, "tracking_table_memory"), 0);
}

#[test]
fn tracking_restarted_covers_later_reads() {
    let (mut a, mut b) = two();
    a.say("CLIENT TRACKING on\r\nGET x\r\nCLIENT TRACKING on NOLOOP\r\nGET y");
    b.say("SET x 1");
    assert_eq!(a.messages(), changed(&["x"]), "it had not ended");
    a.say("GET x\r\nCLIENT TRACKING off\r\nCLIENT TRACKING on\r\nGET z");
    b.say("MSET x 2 y 2 z 2");
    assert_eq!(a.messages(), changed(&["z"]));
}
