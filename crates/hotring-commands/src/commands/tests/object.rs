//! OBJECT, MEMORY, and the commands that tell of saving and replicas.

use hotring_protocol::Version;

use crate::exec::dialogue::{Dialogue, play};

#[test]
fn object() {
    let (short, long) = ("s".repeat(44), "l".repeat(45));
    play(&format!(
        "
        OBJECT ENCODING k       -> $-1¶ | _¶
        OBJECT REFCOUNT k       -> $-1¶ | _¶
        OBJECT FREQ k           -> $-1¶ | _¶
        OBJECT IDLETIME k       -> $-1¶ | _¶
        MSET n -12 s {short} l {long}  -> +OK¶
        HSET h f v              -> :1¶
        OBJECT ENCODING n       -> $3¶int¶
        object encoding s       -> $6¶embstr¶
        OBJECT ENCODING l       -> $3¶raw¶
        OBJECT ENCODING h       -> $8¶listpack¶
        OBJECT REFCOUNT h       -> :1¶
        OBJECT IDLETIME n       -> :0¶
        OBJECT ENCODING         -> -ERR wrong number of arguments for 'object|encoding' command¶
        OBJECT                  -> -ERR wrong number of arguments for 'object' command¶
        OBJECT WEIGHT n         -> -ERR unknown subcommand 'WEIGHT'. Try OBJECT HELP.¶
        "
    ));
}

/// It was an error but by the policies with lru: Redis's clients ask by any.
#[test]
fn idle_time_is_shown_by_every_policy_without_frequencies() {
    const NOW: u64 = 1_700_000_000_000;
    let mut dialogue = Dialogue::new(Version::Resp2);
    dialogue.server().store.date_accesses(NOW);
    dialogue.say("SET k v");
    for minutes in (0..60).step_by(5) {
        let now = NOW + minutes * 60_000;
        dialogue.server().store.date_accesses(now);
        dialogue.server().store.session().age_some(0, 10, now);
    }
    dialogue.pass(3_600_000);
    let reply = dialogue.say("OBJECT IDLETIME k");
    let seconds: u64 = reply.trim_matches([':', '¶']).parse().unwrap();
    assert!((3_000..=3_600).contains(&seconds), "{reply}");
    for policy in ["noeviction", "heat", "allkeys-random", "volatile-ttl", "allkeys-lru"] {
        dialogue.say(&format!("CONFIG SET maxmemory-policy {policy} maxmemory 1gb"));
        let reply = dialogue.say("OBJECT IDLETIME k");
        assert!(reply.starts_with(':'), "{policy}: {reply}");
    }
    dialogue.say("CONFIG SET maxmemory-policy volatile-lfu");
    assert!(dialogue.say("OBJECT IDLETIME k").starts_with("-ERR An LFU maxmemory policy"));
}

#[test]
fn memory_usage_is_the_size_of_the_items() {
    play(
        "
        MEMORY USAGE k          -> $-1¶ | _¶
        SET k v                 -> +OK¶
        MEMORY USAGE k SAMPLES -1  -> -ERR syntax error¶
        MEMORY USAGE k SAMPLES x  -> -ERR value is not an integer or out of range¶
        MEMORY USAGE k x        -> -ERR syntax error¶
        MEMORY PURGE            -> +OK¶
        ",
    );
    let mut dialogue = Dialogue::new(Version::Resp2);
    let mut usage = |request: &str| -> usize {
        dialogue.say(request);
        let reply = dialogue.say("MEMORY USAGE k SAMPLES 0");
        reply.trim_matches([':', '¶']).parse().unwrap()
    };
    let word = usage("SET k 1");
    assert_eq!(usage("SET k 12345678"), word, "numbers and short strings take a word");
    let expiring = usage("EXPIRE k 100");
    assert_eq!(expiring, word + 8, "an expiry takes another");
    let long = usage(&format!("SET k {}", "x".repeat(1000)));
    assert!((1000..1040).contains(&long), "{long}");
}

#[test]
fn nothing_is_saved_or_replicated() {
    play(
        "
        WAIT 0 0                -> :0¶
        WAIT 1 100              -> :0¶
        WAIT x 0                -> -ERR value is not an integer or out of range¶
        WAIT 1 x                -> -ERR timeout is not an integer or out of range¶
        WAIT 1 -1               -> -ERR timeout is negative¶
        ROLE                    -> *3¶$6¶master¶:0¶*0¶
        ",
    );
    let reply = Dialogue::new(Version::Resp2).say("LASTSAVE");
    let seconds: u64 = reply.trim_matches([':', '¶']).parse().unwrap();
    assert!(
        seconds > 1_700_000_000,
        "it is the time of the start, whatever the dialogue's clock says"
    );
}
