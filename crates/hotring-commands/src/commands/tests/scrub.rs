//! SCRUB, and the replies of every command that meets a damaged item.

use hotring_protocol::Version;
use hotring_store::Options;
use hotring_store::index::{Checksum, Config as IndexConfig, Part};

use crate::exec::dialogue::{Dialogue, play, play_with};
use crate::state::scrub::Walk;

fn with(checksum: Checksum) -> Options {
    Options { index: IndexConfig { checksum, ..IndexConfig::default() }, ..Options::default() }
}

/// Runs the background task until it has nothing left to do.
fn walk(dialogue: &Dialogue, walk: &mut Walk, now: u64) {
    let server = dialogue.server();
    let mut store = server.store.session();
    while server.tasks.scrubber.step(walk, &mut store, now) {}
}

const STARTED: u64 = 1_700_000_000_000;

#[test]
fn without_checksums_there_is_nothing_to_look_for() {
    play(
        "
        SCRUB START             -> -ERR items have no checksums: start the server with the setting 'checksum' at write or verify¶
        SCRUB STOP              -> -ERR no scrub is running¶
        SCRUB                   -> -ERR wrong number of arguments for 'scrub' command¶
        SCRUB NOW               -> -ERR unknown subcommand 'NOW'. Try SCRUB HELP.¶
        ",
    );
    let mut dialogue = Dialogue::new(Version::Resp3);
    let status = dialogue.say("SCRUB STATUS");
    assert!(status.starts_with("%10¶$5¶state¶$4¶idle¶$16¶progress_percent¶$3¶0.0¶"), "{status}");
    assert!(status.ends_with("$12¶damaged_keys¶*0¶"), "{status}");
    let info = dialogue.say("INFO checksums");
    assert!(info.contains("checksum:off¶damaged_reads:0¶scrub_state:idle¶"), "{info}");
}

#[test]
fn a_walk_begins_and_ends_on_request() {
    play_with(
        &with(Checksum::Write),
        "
        SCRUB START RATE 0      -> -ERR RATE should be greater than 0¶
        SCRUB START RATE -1     -> -ERR RATE should be greater than 0¶
        SCRUB START RATE x      -> -ERR value is not an integer or out of range¶
        SCRUB START RATE        -> -ERR syntax error¶
        SCRUB START SPEED 1     -> -ERR syntax error¶
        SCRUB START RATE 1 2    -> -ERR syntax error¶
        SCRUB START             -> +OK¶
        SCRUB START             -> -ERR a scrub is running already; SCRUB STOP ends it¶
        SCRUB STATUS now        -> -ERR wrong number of arguments for 'scrub|status' command¶
        SCRUB STOP              -> +OK¶
        SCRUB STOP              -> -ERR no scrub is running¶
        scrub start rate 1000   -> +OK¶
        ",
    );
}

#[test]
fn a_walk_names_damaged_items() {
    let mut dialogue = Dialogue::with(Version::Resp2, with(Checksum::Write));
    for i in 0..2_000 {
        dialogue.say(&format!("SET key:{i} some-value"));
    }
    dialogue.say("SET \"k\\x01\" some-value");
    assert_eq!(dialogue.say("SCRUB START"), "+OK¶");
    let mut damager = dialogue.server().store.session();
    let mut steps = Walk::new();
    damager
        .with_damage(b"k\x01", Part::Value, 9, || {
            walk(&dialogue, &mut steps, STARTED + 70);
            assert!(dialogue.say("GET \"k\\x01\"").starts_with("$10¶"), "reads do not look");
        })
        .unwrap();
    let status = dialogue.say("SCRUB STATUS");
    for part in [
        "*20¶$5¶state¶$4¶done¶$16¶progress_percent¶$5¶100.0¶$5¶items¶:2001¶$5¶bytes¶:",
        "$22¶items_without_checksum¶:0¶$7¶damaged¶:1¶$4¶rate¶:0¶",
        "started_at_ms¶:1700000000000¶$11¶ended_at_ms¶:1700000000070¶",
        "$12¶damaged_keys¶*1¶$5¶k\\x01¶",
    ] {
        assert!(status.contains(part), "{part} is missing in {status}");
    }
    let info = dialogue.say("INFO");
    assert!(info.contains("¶scrub_state:done¶scrub_progress_percent:100.0¶"), "{info}");
    assert!(info.contains("¶scrub_items:2001¶"), "{info}");
    assert!(info.contains("¶scrub_damaged:1¶"), "{info}");
    // Another walk begins from nothing.
    assert_eq!(dialogue.say("SCRUB START"), "+OK¶");
    assert!(dialogue.say("SCRUB STATUS").contains("$5¶items¶:0¶"));
    walk(&dialogue, &mut steps, STARTED + 80);
    let status = dialogue.say("SCRUB STATUS");
    assert!(status.contains("items¶:2001¶") && status.contains("damaged¶:0¶"), "{status}");
}

#[test]
fn a_walk_keeps_its_rate_and_stops_on_request() {
    let mut dialogue = Dialogue::with(Version::Resp2, with(Checksum::Verify));
    for i in 0..2_000 {
        dialogue.say(&format!("SET key:{i} {i}"));
    }
    assert_eq!(dialogue.say("SCRUB START RATE 100"), "+OK¶");
    let mut steps = Walk::new();
    let mut seen = Vec::new();
    for seconds in 0..4 {
        walk(&dialogue, &mut steps, STARTED + 1000 * seconds);
        seen.push(dialogue.server().tasks.scrubber.status().counts.items);
    }
    assert_eq!(seen, [0, 100, 200, 300]);
    // A clock that is set back stops the walk until it has caught up.
    walk(&dialogue, &mut steps, STARTED - 5_000);
    assert_eq!(dialogue.server().tasks.scrubber.status().counts.items, 300);
    assert_eq!(dialogue.say("SCRUB STOP"), "+OK¶");
    walk(&dialogue, &mut steps, STARTED + 9_000);
    let status = dialogue.say("SCRUB STATUS");
    assert!(status.contains("$7¶stopped¶") && status.contains("items¶:300¶"), "{status}");
}

/// Requests that look at the value of `k`, and those that do not and so repair.
const LOOKS: &[&str] = &[
    "WAITKEY k 0",
    "WAITKEY k 0 VALUE 41",
    "GET k",
    "STRLEN k",
    "GETRANGE k 0 -1",
    "EXISTS k",
    "TYPE k",
    "TTL k",
    "PEXPIRETIME k",
    "TOUCH k other",
    "MGET other k",
    "EXISTS other k",
    "INCR k",
    "DECRBY k 3",
    "INCRBYFLOAT k 0.5",
    "APPEND k x",
    "SETRANGE k 2 x",
    "SETNX k x",
    "SET k x NX",
    "SET k x XX",
    "SET k x GET",
    "SET k x KEEPTTL",
    "GETSET k x",
    "GETDEL k",
    "GETEX k EX 5",
    "EXPIRE k 5",
    "PERSIST k",
    "MSETNX new 1 k 1",
    "RENAME k new",
    "RENAMENX other k",
    "COPY k new",
    "COPY other k",
    "HISTORY k",
    "WAITKEY k 0",
    "WAITKEY k 0 VALUE 41",
];
const REPAIRS: &[&str] = &[
    "SET k x",
    "SET k x EX 100",
    "SETEX k 100 x",
    "MSET other 1 k 1",
    "RENAME other k",
    "COPY other k REPLACE",
    "DEL k",
    "UNLINK other k",
    "FLUSHALL",
];

#[test]
fn a_damaged_value_is_never_shown() {
    const DAMAGED: &str =
        "-DAMAGED the item of key 'k' fails its checksum; overwrite or delete it (see SCRUB)¶";
    for version in [Version::Resp2, Version::Resp3] {
        for (value, part) in [("41", Part::Word), ("a-long-value", Part::Value)] {
            let mut dialogue = Dialogue::with(version, with(Checksum::Verify));
            dialogue.say(&format!("SET k {value}"));
            dialogue.say("SET other 1");
            let mut damager = dialogue.server().store.session();
            damager
                .with_damage(b"k", part, 4, || {
                    for (i, request) in LOOKS.iter().enumerate() {
                        assert_eq!(dialogue.say(request), DAMAGED, "{request}");
                        let info = dialogue.say("INFO checksums");
                        assert!(info.contains(&format!("¶damaged_reads:{}¶", i + 1)), "{info}");
                        assert_eq!(dialogue.say("GET other"), "$1¶1¶", "after {request}");
                        assert_eq!(dialogue.say("DBSIZE"), ":2¶", "after {request}");
                    }
                    let keys = dialogue.say("KEYS *");
                    assert!(keys.contains("$1¶k¶") && keys.contains("$5¶other¶"), "{keys}");
                    assert!(dialogue.say("SCAN 0").contains("$1¶k¶"));
                    assert_eq!(dialogue.say("RANDOMKEY"), "$5¶other¶");
                    // In a batch the others are answered.
                    let replies =
                        dialogue.ask(b"GET other\r\nGET k\r\nPING\r\nGET k\r\nGET other\r\n");
                    let replies = String::from_utf8(replies).unwrap().replace("\r\n", "¶");
                    assert_eq!(replies, format!("$1¶1¶{DAMAGED}+PONG¶{DAMAGED}$1¶1¶"));
                })
                .unwrap();
            let length = value.len();
            assert_eq!(dialogue.say("GET k"), format!("${length}¶{value}¶"), "nobody wrote it");
        }
    }
}

#[test]
fn a_write_that_ignores_the_old_value_repairs_it() {
    for request in REPAIRS {
        let mut dialogue = Dialogue::with(Version::Resp2, with(Checksum::Verify));
        dialogue.say("SET k some-long-value");
        dialogue.say("SET other 1");
        let mut damager = dialogue.server().store.session();
        damager
            .with_damage(b"k", Part::Value, 4, || {
                let reply = dialogue.say(request);
                assert!(!reply.starts_with('-'), "{request}: {reply}");
                let reply = dialogue.say("GET k");
                assert!(!reply.starts_with('-'), "{request}: {reply}");
                assert!(dialogue.say("INFO checksums").contains("¶damaged_reads:0¶"));
            })
            .unwrap();
    }
}

#[test]
fn a_sorted_list_does_not_make_way_for_rows_that_are_damaged() {
    let mut dialogue = Dialogue::with(Version::Resp2, with(Checksum::Verify));
    for request in ["RPUSH l 1 2", "RPUSH d old", "SET w_1 some-value", "SET w_2 other"] {
        dialogue.say(request);
    }
    let mut damager = dialogue.server().store.session();
    damager
        .with_damage(b"w_1", Part::Value, 9, || {
            let reply = dialogue.say("SORT l GET w_* STORE d");
            assert!(reply.starts_with('-') && reply.contains("w_1"), "{reply}");
        })
        .unwrap();
    assert_eq!(dialogue.say("LRANGE d 0 -1"), "*1¶$3¶old¶");
    assert_eq!(dialogue.say("SORT l GET w_* STORE d"), ":2¶");
}
