//! Fields of hashes that expire: every command, every error, DUMP.

use crate::exec::dialogue::{Dialogue, play};

const WRONG: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value¶";

#[test]
fn expiries_are_set_and_read() {
    play(
        "
        HSET h a 1 b 2 c 3                            -> :3¶
        HEXPIRE h 100 FIELDS 2 a x                    -> *2¶:1¶:-2¶
        HTTL h FIELDS 3 a b x                         -> *3¶:100¶:-1¶:-2¶
        HPTTL h FIELDS 1 a                            -> *1¶:100000¶
        HEXPIRE no 100 FIELDS 1 a                     -> *1¶:-2¶
        HTTL no FIELDS 2 a b                          -> *2¶:-2¶:-2¶
        HEXPIRE h 50 NX FIELDS 2 a b                  -> *2¶:0¶:1¶
        HEXPIRE h 60 XX FIELDS 2 b c                  -> *2¶:1¶:0¶
        HEXPIRE h 60 GT FIELDS 2 a c                  -> *2¶:0¶:0¶
        HPEXPIRE h 70000 lt FIELDS 2 a c              -> *2¶:1¶:1¶
        HPTTL h FIELDS 3 a b c                        -> *3¶:70000¶:60000¶:70000¶
        HPERSIST h FIELDS 3 c c x                     -> *3¶:1¶:-1¶:-2¶
        HPERSIST no FIELDS 1 a                        -> *1¶:-2¶
        HEXPIREAT h 4000000000 FIELDS 1 a             -> *1¶:1¶
        HEXPIRETIME h FIELDS 2 a c                    -> *2¶:4000000000¶:-1¶
        HPEXPIREAT h 4000000000001 FIELDS 1 a         -> *1¶:1¶
        HPEXPIRETIME h FIELDS 1 a                     -> *1¶:4000000000001¶
        HEXPIRETIME h FIELDS 1 a                      -> *1¶:4000000001¶
        HINCRBY h a 5                                 -> :6¶
        HPEXPIRETIME h FIELDS 1 a                     -> *1¶:4000000000001¶
        HSET h a 1                                    -> :0¶
        HTTL h FIELDS 1 a                             -> *1¶:-1¶
        HEXPIRE h 0 FIELDS 3 a a x                    -> *3¶:2¶:-2¶:-2¶
        HPEXPIREAT h 1 FIELDS 2 b c                   -> *2¶:2¶:2¶
        EXISTS h                                      -> :0¶
        ",
    );
}

#[test]
fn fields_are_read_and_set_with_their_expiry() {
    play(
        "
        HSETEX h EX 100 FIELDS 2 a 1 b 2              -> :1¶
        HTTL h FIELDS 2 a b                           -> *2¶:100¶:100¶
        HSETEX h FNX FIELDS 2 b 9 c 9                 -> :0¶
        HSETEX h FXX FIELDS 2 b 9 c 9                 -> :0¶
        HSETEX h FXX KEEPTTL FIELDS 1 b 9             -> :1¶
        HSETEX h FIELDS 1 a 8                         -> :1¶
        HTTL h FIELDS 2 a b                           -> *2¶:-1¶:100¶
        HSETEX h FIELDS 1 c 3 PXAT 4000000000000 FNX  -> :1¶
        HPEXPIRETIME h FIELDS 1 c                     -> *1¶:4000000000000¶
        HGETEX h PX 5000 FIELDS 2 a x                 -> *2¶$1¶8¶$-1¶ | *2¶$1¶8¶_¶
        HPTTL h FIELDS 1 a                            -> *1¶:5000¶
        HGETEX h FIELDS 1 a                           -> *1¶$1¶8¶
        HGETEX h FIELDS 1 a PERSIST                   -> *1¶$1¶8¶
        HTTL h FIELDS 1 a                             -> *1¶:-1¶
        HGETEX no FIELDS 1 a                          -> *1¶$-1¶ | *1¶_¶
        HGETEX no EX 5 FIELDS 1 a                     -> *1¶$-1¶ | *1¶_¶
        HGETEX h EXAT 1 FIELDS 1 c                    -> *1¶$1¶3¶
        HGETDEL h FIELDS 3 a a x                      -> *3¶$1¶8¶$-1¶$-1¶ | *3¶$1¶8¶_¶_¶
        HGETDEL no FIELDS 1 a                         -> *1¶$-1¶ | *1¶_¶
        HLEN h                                        -> :1¶
        HSETEX h EXAT 1 FIELDS 1 b 2                  -> :1¶
        EXISTS h                                      -> :0¶
        ",
    );
}

/// A hash of which no field's time was left was there for many commands until the wheel had removed it.
#[test]
fn a_hash_without_a_field_in_its_time_is_absent() {
    const EMPTIED: &str = "HSETEX h PX 5 FIELDS 2 a 1 b 2";
    for table in [
        "EXISTS h h -> :0¶",
        "TOUCH h h  -> :0¶",
        "TOUCH h    -> :0¶",
        "TYPE h     -> +none¶",
        "RANDOMKEY  -> $-1¶ | _¶",
        "SCAN 0     -> *2¶$1¶0¶*0¶",
        "KEYS *     -> *0¶",
        "DEL h      -> :0¶",
        "UNLINK h x -> :0¶",
        "GET h      -> $-1¶ | _¶",
        "GETRANGE h 0 -1 -> $0¶¶",
        "STRLEN h   -> :0¶",
        "GETDEL h   -> $-1¶ | _¶",
        "LLEN h     -> :0¶",
        "LRANGE h 0 -1 -> *0¶",
        "SCARD h    -> :0¶",
        "SMEMBERS h -> *0¶ | ~0¶",
        "SUNION h h -> *0¶ | ~0¶",
        "ZCARD h    -> :0¶",
        "ZUNION 1 h -> *0¶",
        "BITCOUNT h -> :0¶",
        "EXPIRE h 9 -> :0¶",
        "PERSIST h  -> :0¶",
        "TTL h      -> :-2¶",
        "SETNX h v  -> :1¶",
        "SET h v XX -> $-1¶ | _¶",
        "SET h v NX -> +OK¶",
        "SET h v GET -> $-1¶ | _¶",
        "MSETNX h v x y -> :1¶",
        "RENAME h x -> -ERR no such key¶",
        "COPY h x   -> :0¶",
        "OBJECT ENCODING h -> $-1¶ | _¶",
        "OBJECT FREQ h -> $-1¶ | _¶",
        "MEMORY USAGE h -> $-1¶ | _¶",
        "DUMP h     -> $-1¶ | _¶",
        "SORT h     -> *0¶",
        "LPUSHX h v -> :0¶",
    ] {
        play(&format!("{EMPTIED} -> :1¶\n + 10\n {table}"));
    }
    for (request, look) in [
        ("APPEND h v -> :1¶", "GET h -> $1¶v¶"),
        ("INCR h -> :1¶", "GET h -> $1¶1¶"),
        ("SETBIT h 7 1 -> :0¶", "STRLEN h -> :1¶"),
        ("RPUSH h v -> :1¶", "LLEN h -> :1¶"),
        ("SADD h v -> :1¶", "SCARD h -> :1¶"),
        ("ZADD h 1 v -> :1¶", "ZCARD h -> :1¶"),
        ("HSET h c 3 -> :1¶", "HKEYS h -> *1¶$1¶c¶"),
        ("SET h v KEEPTTL -> +OK¶", "TTL h -> :-1¶"),
        ("SETRANGE h 1 v -> :2¶", "TTL h -> :-1¶"),
    ] {
        // Its own expiry goes with it.
        play(&format!(
            "{EMPTIED} -> :1¶\n EXPIRE h 100 -> :1¶\n + 10\n {request}\n {look}\n TTL h -> :-1¶"
        ));
    }
}

#[test]
fn mistakes_are_reported() {
    let mut dialogue = Dialogue::new(hotring_protocol::Version::Resp2);
    dialogue.say("SET s v");
    dialogue.say("HSET h a 1");
    let missing = "-ERR Mandatory argument FIELDS is missing or not at the right position¶";
    let mismatch = "-ERR The `numfields` parameter must match the number of arguments¶";
    for command in ["HEXPIRE", "HPEXPIRE", "HEXPIREAT", "HPEXPIREAT"] {
        let name = command.to_lowercase();
        let many = "-ERR Parameter `numFields` should be greater than 0¶".to_string();
        for (rest, answer) in [
            ("s abc FIELDS 1 a", WRONG.to_string()),
            ("h abc FIELDS 1 a", "-ERR value is not an integer or out of range¶".into()),
            ("h -1 FIELDS 1 a", "-ERR invalid expire time, must be >= 0¶".into()),
            (
                "h 9223372036854775807 FIELDS 1 a",
                format!("-ERR invalid expire time in '{name}' command¶"),
            ),
            (
                "h 70368744177664 FIELDS 1 a",
                format!("-ERR invalid expire time in '{name}' command¶"),
            ),
            ("h 1 NX XX FIELDS 1 a", missing.into()),
            ("h 1 BOGUS 1 a", missing.into()),
            ("h 1 FIELDS 0 a", many.clone()),
            ("h 1 FIELDS x a", many),
            ("h 1 FIELDS 2 a", mismatch.into()),
            ("h 1 FIELDS 1 a b", mismatch.into()),
            ("h 1 FIELDS 1", format!("-ERR wrong number of arguments for '{name}' command¶")),
        ] {
            assert_eq!(dialogue.say(&format!("{command} {rest}")), answer, "{command} {rest}");
        }
    }
    let positive = "-ERR Number of fields must be a positive integer¶";
    for command in ["HTTL", "HPTTL", "HEXPIRETIME", "HPEXPIRETIME", "HPERSIST", "HGETDEL"] {
        for (rest, answer) in [
            ("s FIELDS 1 a", WRONG),
            ("h BOGUS 1 a", missing),
            ("h FIELDS 0 a", positive),
            ("h FIELDS -1 a", positive),
            ("h FIELDS 2 a", mismatch),
        ] {
            assert_eq!(dialogue.say(&format!("{command} {rest}")), answer, "{command} {rest}");
        }
    }
    for (line, answer) in [
        ("HGETEX s FIELDS 1 a", WRONG),
        ("HGETEX h EX 1 FIELDS 0 a", "-ERR invalid number of fields¶"),
        ("HGETEX h FIELDS 2 a", "-ERR wrong number of arguments¶"),
        ("HGETEX h EX 1 PX 1 FIELDS 1 a", GET_ONE),
        ("HGETEX h PERSIST EX 1 FIELDS 1 a", GET_ONE),
        ("HGETEX h KEEPTTL FIELDS 1 a", "-ERR unknown argument: KEEPTTL¶"),
        ("HGETEX h FIELDS 1 a EX", "-ERR missing expire time¶"),
        ("HGETEX h EX -1 FIELDS 1 a", "-ERR invalid expire time, must be >= 0¶"),
        ("HGETEX h EX 1 PERSIST x", GET_ONE),
        ("HSETEX s FIELDS 1 a 1", WRONG),
        ("HSETEX h FIELDS 2 a 1", "-ERR wrong number of arguments¶"),
        ("HSETEX h FIELDS x a 1", "-ERR invalid number of fields¶"),
        ("HSETEX h FNX FXX FIELDS 1 a 1", SET_CONDITION),
        ("HSETEX h EX 1 KEEPTTL FIELDS 1 a 1", SET_ONE),
        ("HSETEX h PERSIST FIELDS 1 a 1", "-ERR unknown argument: PERSIST¶"),
        ("HSETEX h FNX EX 5 KEEP", "-ERR unknown argument: KEEP¶"),
    ] {
        assert_eq!(dialogue.say(line), answer, "{line}");
    }
}

const GET_ONE: &str = "-ERR Only one of EX, PX, EXAT, PXAT or PERSIST arguments can be specified¶";
const SET_ONE: &str = "-ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified¶";
const SET_CONDITION: &str = "-ERR Only one of FXX or FNX arguments can be specified¶";

#[test]
fn a_field_whose_time_is_over_is_absent_for_all() {
    play(
        r#"
        HSET h a 1 b 2 c 3                            -> :3¶
        HPEXPIRE h 100 FIELDS 2 a b                   -> *2¶:1¶:1¶
        + 99
        OBJECT ENCODING h                             -> $10¶listpackex¶
        HLEN h                                        -> :3¶
        + 1
        HLEN h                                        -> :1¶
        HGET h a                                      -> $-1¶ | _¶
        HGETALL h                                     -> *2¶$1¶c¶$1¶3¶ | %1¶$1¶c¶$1¶3¶
        HSCAN h 0                                     -> *2¶$1¶0¶*2¶$1¶c¶$1¶3¶
        HEXISTS h b                                   -> :0¶
        HSTRLEN h b                                   -> :0¶
        HMGET h a c                                   -> *2¶$-1¶$1¶3¶ | *2¶_¶$1¶3¶
        EVAL "return redis.call('hvals', KEYS[1])" 1 h -> *1¶$1¶3¶
        HTTL h FIELDS 2 a c                           -> *2¶:-2¶:-1¶
        HSETNX h a 5                                  -> :1¶
        HINCRBY h b 1                                 -> :1¶
        HTTL h FIELDS 2 a b                           -> *2¶:-1¶:-1¶
        EXPIRE h 500                                  -> :1¶
        HPEXPIRE h 10 FIELDS 3 a b c                  -> *3¶:1¶:1¶:1¶
        + 10
        EXISTS h                                      -> :0¶
        TYPE h                                        -> +none¶
        TTL h                                         -> :-2¶
        DUMP h                                        -> $-1¶ | _¶
        HSET h a 1                                    -> :1¶
        TTL h                                         -> :-1¶
        HSETEX h PX 10 FIELDS 1 a 2                   -> :1¶
        + 10
        HDEL h a                                      -> :0¶
        HGETDEL h FIELDS 1 a                          -> *1¶$-1¶ | *1¶_¶
        "#,
    );
}
