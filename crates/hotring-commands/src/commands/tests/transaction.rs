//! The commands of transactions, as a client sees them.

use hotring_protocol::Version;

use crate::exec::dialogue::{Dialogue, play};
use crate::state::client::Closing;

#[test]
fn queued_commands_run_at_exec_in_spite_of_errors() {
    play(
        r#"
        EXEC                -> -ERR EXEC without MULTI¶
        DISCARD             -> -ERR DISCARD without MULTI¶
        MULTI               -> +OK¶
        MULTI               -> -ERR MULTI calls can not be nested¶
        WATCH a             -> -ERR WATCH inside MULTI is not allowed¶
        set a x             -> +QUEUED¶
        INCR a              -> +QUEUED¶
        UNWATCH             -> +QUEUED¶
        GET missing         -> +QUEUED¶
        APPEND a y          -> +QUEUED¶
        MGET a b            -> +QUEUED¶
        EXEC                -> *6¶+OK¶-ERR value is not an integer or out of range¶+OK¶$-1¶:2¶*2¶$2¶xy¶$-1¶ | *6¶+OK¶-ERR value is not an integer or out of range¶+OK¶_¶:2¶*2¶$2¶xy¶_¶
        EXEC                -> -ERR EXEC without MULTI¶
        GET a               -> $2¶xy¶
        MULTI               -> +OK¶
        EXEC                -> *0¶
        MULTI               -> +OK¶
        SET a z             -> +QUEUED¶
        DISCARD             -> +OK¶
        GET a               -> $2¶xy¶
        "#,
    );
}

#[test]
fn a_request_that_is_refused_spoils_the_transaction() {
    play(
        r#"
        MULTI               -> +OK¶
        SET a 1             -> +QUEUED¶
        NONSENSE x          -> -ERR unknown command 'NONSENSE', with args beginning with: 'x' ¶
        SET a 2             -> +QUEUED¶
        EXEC                -> -EXECABORT Transaction discarded because of previous errors.¶
        EXISTS a            -> :0¶
        MULTI               -> +OK¶
        GET                 -> -ERR wrong number of arguments for 'get' command¶
        EXEC                -> -EXECABORT Transaction discarded because of previous errors.¶
        MULTI               -> +OK¶
        SHUTDOWN            -> -ERR Command not allowed inside a transaction¶
        PING                -> +QUEUED¶
        EXEC                -> -EXECABORT Transaction discarded because of previous errors.¶
        MULTI               -> +OK¶
        DISCARD x           -> -ERR wrong number of arguments for 'discard' command¶
        EXEC                -> -EXECABORT Transaction discarded because of previous errors.¶
        MULTI               -> +OK¶
        EXEC x              -> -EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command¶
        PING                -> +PONG¶
        EXEC x              -> -EXECABORT Transaction discarded because of: wrong number of arguments for 'exec' command¶
        MULTI               -> +OK¶
        EXEC                -> *0¶
        "#,
    );
}

#[test]
fn a_watched_key_that_has_changed_stops_the_transaction() {
    play(
        r#"
        WATCH               -> -ERR wrong number of arguments for 'watch' command¶
        WATCH a b a         -> +OK¶
        MULTI               -> +OK¶
        SET a 1             -> +QUEUED¶
        EXEC                -> *1¶+OK¶
        WATCH a b           -> +OK¶
        SET b 1             -> +OK¶
        MULTI               -> +OK¶
        SET a 2             -> +QUEUED¶
        EXEC                -> *-1¶ | _¶
        GET a               -> $1¶1¶
        MULTI               -> +OK¶
        EXEC                -> *0¶
        WATCH a             -> +OK¶
        SET a 3             -> +OK¶
        UNWATCH             -> +OK¶
        MULTI               -> +OK¶
        EXEC                -> *0¶
        WATCH a             -> +OK¶
        SET a 4             -> +OK¶
        MULTI               -> +OK¶
        DISCARD             -> +OK¶
        MULTI               -> +OK¶
        EXEC                -> *0¶
        WATCH a             -> +OK¶
        SET a 4             -> +OK¶
        WATCH a             -> +OK¶
        MULTI               -> +OK¶
        EXEC                -> *-1¶ | _¶
        SET e 1 PX 100      -> +OK¶
        WATCH e             -> +OK¶
        + 99
        MULTI               -> +OK¶
        EXEC                -> *0¶
        WATCH e             -> +OK¶
        + 1
        MULTI               -> +OK¶
        PING                -> +QUEUED¶
        EXEC                -> *-1¶ | _¶
        WATCH e             -> +OK¶
        + 1000
        MULTI               -> +OK¶
        EXEC                -> *0¶
        "#,
    );
}

/// An EXEC too many once let go of the keys that the next transaction relied upon.
#[test]
fn exec_without_multi_keeps_the_watched_keys() {
    play(
        "
        WATCH a             -> +OK¶
        SET a 1             -> +OK¶
        EXEC                -> -ERR EXEC without MULTI¶
        MULTI               -> +OK¶
        PING                -> +QUEUED¶
        EXEC                -> *-1¶ | _¶
        ",
    );
}

#[test]
fn reset_ends_it_and_whole_store_commands_take_part() {
    play(
        r#"
        MULTI               -> +OK¶
        SET a 1             -> +QUEUED¶
        RESET               -> +RESET¶
        EXEC                -> -ERR EXEC without MULTI¶
        SET a 1             -> +OK¶
        WATCH a             -> +OK¶
        SET a 2             -> +OK¶
        RESET               -> +RESET¶
        MULTI               -> +OK¶
        DBSIZE              -> +QUEUED¶
        KEYS *              -> +QUEUED¶
        SCAN 0 COUNT 100    -> +QUEUED¶
        RANDOMKEY           -> +QUEUED¶
        FLUSHALL            -> +QUEUED¶
        SET b 1             -> +QUEUED¶
        RENAME b c          -> +QUEUED¶
        WAITKEY c 0         -> +QUEUED¶
        DBSIZE              -> +QUEUED¶
        EXEC                -> *9¶:1¶*1¶$1¶a¶*2¶$1¶0¶*1¶$1¶a¶$1¶a¶+OK¶+OK¶+OK¶:0¶:1¶
        GET c               -> $1¶1¶
        "#,
    );
}

#[test]
fn the_version_of_the_protocol_may_change_within() {
    let mut dialogue = Dialogue::new(Version::Resp2);
    let line = "MULTI\r\nGET k\r\nHELLO 3\r\nGET k\r\nEXEC\r\nGET k";
    let reply = dialogue.say(line);
    assert!(reply.starts_with("+OK¶+QUEUED¶+QUEUED¶+QUEUED¶*3¶$-1¶%7¶"), "{reply}");
    assert!(reply.ends_with("*0¶_¶_¶"), "{reply}");
}

#[test]
fn the_number_of_watched_keys_is_limited() {
    let mut dialogue = Dialogue::new(Version::Resp2);
    assert_eq!(dialogue.say("CONFIG SET max-watched-keys 2"), "+OK¶");
    assert_eq!(dialogue.say("WATCH a b a"), "+OK¶");
    let refused = "-ERR 2 keys are watched already (max-watched-keys)¶";
    assert_eq!(dialogue.say("WATCH c"), refused);
    let info = dialogue.say("CLIENT INFO");
    // Nothing waits to be sent: it is only read from.
    assert!(info.contains(" watch=2 ") && info.contains(" events=r "), "{info}");
    assert_eq!(dialogue.say("UNWATCH"), "+OK¶");
    assert_eq!(dialogue.say("WATCH c"), "+OK¶");
}

#[test]
fn a_transaction_takes_no_more_memory_than_a_request_may() {
    let mut dialogue = Dialogue::new(Version::Resp2);
    assert_eq!(dialogue.say("CONFIG SET client-query-buffer-limit 1mb"), "+OK¶");
    assert_eq!(dialogue.say("MULTI"), "+OK¶");
    let value = format!("SET k {}", "v".repeat(60_000));
    let queued = (0..100).take_while(|_| dialogue.say(&value) == "+QUEUED¶").count();
    assert!((5..20).contains(&queued), "{queued} of 60,000 bytes each");
    assert_eq!(dialogue.closing(), Some(Closing::InputLimit));
}

#[test]
fn a_reply_above_the_limit_ends_the_connection_and_all_of_it_has_run() {
    let mut dialogue = Dialogue::new(Version::Resp2);
    assert_eq!(dialogue.say("CONFIG SET output-buffer-hard-limit 100kb"), "+OK¶");
    assert_eq!(dialogue.say(&format!("SET k {}", "v".repeat(50_000))), "+OK¶");
    let gets = "GET k\r\n".repeat(5);
    assert_eq!(
        dialogue.say(&format!("MULTI\r\n{gets}INCR n\r\nEXEC")),
        "+OK¶+QUEUED¶+QUEUED¶+QUEUED¶+QUEUED¶+QUEUED¶+QUEUED¶"
    );
    assert_eq!(dialogue.closing(), Some(Closing::OutputLimit));
    let mut session = dialogue.server().store.session();
    assert!(session.exists(b"n", 0), "the transaction took place");
}

#[test]
fn a_client_with_changed_watched_keys_is_shown() {
    let mut a = Dialogue::new(Version::Resp3);
    let mut b = a.with_version(Version::Resp3);
    let flags = |dialogue: &mut Dialogue, request: &str| {
        let reply = dialogue.say(request);
        let line = reply.lines().find(|line| line.contains("id=1 ")).unwrap().to_string();
        line.split(" flags=").nth(1).unwrap().split(' ').next().unwrap().to_string()
    };
    a.say("SET k 1\r\nWATCH k none");
    assert_eq!(flags(&mut b, "CLIENT LIST"), "N");
    b.say("SET none 1");
    assert_eq!(flags(&mut b, "CLIENT LIST"), "d");
    assert_eq!(flags(&mut a, "CLIENT INFO"), "d");
    a.say("MULTI");
    assert_eq!(flags(&mut b, "MULTI\r\nGET x\r\nCLIENT LIST\r\nEXEC"), "xd");
    assert_eq!(a.say("EXEC"), "_¶");
    assert_eq!(flags(&mut b, "CLIENT LIST"), "N");
    // The second key is too long: the first is watched all the same.
    let long = "x".repeat(100_000);
    a.ask(format!("*3\r\n$5\r\nWATCH\r\n$1\r\nk\r\n$100000\r\n{long}\r\n").as_bytes());
    b.say("SET k 2");
    assert_eq!(flags(&mut b, "CLIENT LIST"), "d");
    a.say("UNWATCH");
    assert_eq!(flags(&mut b, "CLIENT LIST"), "N");
}
