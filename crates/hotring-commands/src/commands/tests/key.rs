//! DEL, EXISTS, TOUCH, TYPE, RENAME, COPY, RANDOMKEY: every option and every error.

use hotring_protocol::Version;
use hotring_store::Options;

use crate::exec::dialogue::{Dialogue, play};

#[test]
fn presence() {
    play(
        "
        MSET a 1 b 2 c 3        -> +OK¶
        EXISTS a                -> :1¶
        EXISTS a x b a          -> :3¶
        TOUCH a x a             -> :2¶
        TYPE a                  -> +string¶
        TYPE x                  -> +none¶
        DEL a x a               -> :1¶
        DEL a                   -> :0¶
        UNLINK b c              -> :2¶
        EXISTS a b c            -> :0¶
        DEL                     -> -ERR wrong number of arguments for 'del' command¶
        UNLINK                  -> -ERR wrong number of arguments for 'unlink' command¶
        EXISTS                  -> -ERR wrong number of arguments for 'exists' command¶
        TOUCH                   -> -ERR wrong number of arguments for 'touch' command¶
        TYPE a b                -> -ERR wrong number of arguments for 'type' command¶
        ",
    );
}

#[test]
fn rename() {
    play(
        "
        RENAME a b              -> -ERR no such key¶
        RENAME a a              -> -ERR no such key¶
        RENAMENX a b            -> -ERR no such key¶
        SET a 1 EX 10           -> +OK¶
        SET b 2                 -> +OK¶
        RENAMENX a b            -> :0¶
        RENAMENX a a            -> :0¶
        RENAME a a              -> +OK¶
        RENAME a b              -> +OK¶
        EXISTS a                -> :0¶
        GET b                   -> $1¶1¶
        TTL b                   -> :10¶
        RENAMENX b c            -> :1¶
        TTL c                   -> :10¶
        SET d v                 -> +OK¶
        RENAME d c              -> +OK¶
        TTL c                   -> :-1¶
        RENAME a                -> -ERR wrong number of arguments for 'rename' command¶
        ",
    );
}

#[test]
fn copy() {
    play(
        "
        COPY a b                -> :0¶
        SET a 1 EX 10           -> +OK¶
        COPY a b                -> :1¶
        GET b                   -> $1¶1¶
        TTL b                   -> :10¶
        SET a 2                 -> +OK¶
        COPY a b                -> :0¶
        COPY a b REPLACE        -> :1¶
        GET b                   -> $1¶2¶
        TTL b                   -> :-1¶
        COPY a c DB 0           -> :1¶
        COPY a c db 0 replace   -> :1¶
        COPY a a                -> -ERR source and destination objects are the same¶
        COPY x x                -> -ERR source and destination objects are the same¶
        COPY a d DB 16           -> -ERR DB index is out of range¶
        COPY a d DB -1          -> -ERR DB index is out of range¶
        COPY a d DB x           -> -ERR value is not an integer or out of range¶
        COPY a d DB 4294967296  -> -ERR value is out of range, value must between -2147483648 and 2147483647¶
        COPY a d DB             -> -ERR syntax error¶
        COPY a d NX             -> -ERR syntax error¶
        COPY a                  -> -ERR wrong number of arguments for 'copy' command¶
        EXISTS d                -> :0¶
        ",
    );
}

#[test]
fn randomkey() {
    play(
        "
        RANDOMKEY               -> $-1¶ | _¶
        SET only v              -> +OK¶
        RANDOMKEY               -> $4¶only¶
        EXPIRE only 1           -> :1¶
        + 1000
        RANDOMKEY               -> $-1¶ | _¶
        RANDOMKEY x             -> -ERR wrong number of arguments for 'randomkey' command¶
        ",
    );
}

#[test]
fn a_flush_is_over_for_all_commands_before_its_memory_is_free() {
    let options = Options { cleared_at_once_max: 0, ..Options::default() };
    let mut dialogue = Dialogue::with(Version::Resp2, options);
    for (flush, frees) in [("FLUSHALL ASYNC", false), ("FLUSHDB", true), ("FLUSHALL SYNC", true)] {
        for n in 0..500 {
            assert_eq!(dialogue.say(&format!("SET key:{n} v EX 100")), "+OK¶");
        }
        assert_eq!(dialogue.say(flush), "+OK¶");
        assert_eq!(!dialogue.server().store.session().clear_some(), frees, "{flush}");
        for (request, reply) in [
            ("DBSIZE", ":0¶"),
            ("SCAN 0 COUNT 1000", "*2¶$1¶0¶*0¶"),
            ("KEYS *", "*0¶"),
            ("EXISTS key:1 key:2", ":0¶"),
            ("MGET key:3 key:4", "*2¶$-1¶$-1¶"),
            ("SET key:5 w NX GET", "$-1¶"),
            ("DBSIZE", ":1¶"),
            ("RANDOMKEY", "$5¶key:5¶"),
        ] {
            assert_eq!(dialogue.say(request), reply, "{flush}: {request}");
        }
        assert!(dialogue.say("INFO keyspace").contains("db0:keys=1,expires=0"), "{flush}");
    }
}
