//! GET, SET and their variants, APPEND, STRLEN: every option and every error.

use hotring_protocol::Version;
use hotring_store::Options;

use crate::exec::dialogue::{Dialogue, play};

#[test]
fn get_and_set() {
    play(
        r#"
        GET k                   -> $-1¶ | _¶
        SET k v                 -> +OK¶
        GET k                   -> $1¶v¶
        get k                   -> $1¶v¶
        SET k "two words"       -> +OK¶
        GET k                   -> $9¶two words¶
        SET "" ""               -> +OK¶
        GET ""                  -> $0¶¶
        SET k 12                -> +OK¶
        GET k                   -> $2¶12¶
        SET k 012               -> +OK¶
        GET k                   -> $3¶012¶
        SET k -9223372036854775808  -> +OK¶
        GET k                   -> $20¶-9223372036854775808¶
        GET                     -> -ERR wrong number of arguments for 'get' command¶
        GET a b                 -> -ERR wrong number of arguments for 'get' command¶
        SET k                   -> -ERR wrong number of arguments for 'set' command¶
        "#,
    );
}

#[test]
fn set_only_if() {
    play(
        "
        SET k 1 XX              -> $-1¶ | _¶
        GET k                   -> $-1¶ | _¶
        SET k 1 NX              -> +OK¶
        SET k 2 NX              -> $-1¶ | _¶
        GET k                   -> $1¶1¶
        SET k 2 xx              -> +OK¶
        SET k 3 NX NX           -> $-1¶ | _¶
        SET k 3 NX XX           -> -ERR syntax error¶
        SET k 3 XX NX           -> -ERR syntax error¶
        SET k 3 QQ              -> -ERR syntax error¶
        SET k 3 PERSIST         -> -ERR syntax error¶
        GET k                   -> $1¶2¶
        SETNX k 9               -> :0¶
        SETNX n 9               -> :1¶
        MGET k n                -> *2¶$1¶2¶$1¶9¶
        ",
    );
}

#[test]
fn set_and_get_at_once() {
    play(
        "
        SET k 1 GET             -> $-1¶ | _¶
        SET k 2 GET             -> $1¶1¶
        SET k 3 NX GET          -> $1¶2¶
        GET k                   -> $1¶2¶
        SET k 3 GET XX          -> $1¶2¶
        GET k                   -> $1¶3¶
        SET n 1 XX GET          -> $-1¶ | _¶
        EXISTS n                -> :0¶
        SET n 1 NX GET EX 10    -> $-1¶ | _¶
        TTL n                   -> :10¶
        GETSET n 2              -> $1¶1¶
        TTL n                   -> :-1¶
        GETSET m 2              -> $-1¶ | _¶
        GETDEL n                -> $1¶2¶
        GETDEL n                -> $-1¶ | _¶
        EXISTS n                -> :0¶
        GETSET k                -> -ERR wrong number of arguments for 'getset' command¶
        ",
    );
}

#[test]
fn set_with_an_expiry() {
    play(
        "
        SET k v EX 10           -> +OK¶
        PTTL k                  -> :10000¶
        SET k v px 1500         -> +OK¶
        PTTL k                  -> :1500¶
        + 500
        PTTL k                  -> :1000¶
        SET k w KEEPTTL         -> +OK¶
        PTTL k                  -> :1000¶
        SET k w XX KEEPTTL GET  -> $1¶w¶
        + 999
        GET k                   -> $1¶w¶
        + 1
        GET k                   -> $-1¶ | _¶
        SET k v KEEPTTL         -> +OK¶
        TTL k                   -> :-1¶
        SET k v EX 10           -> +OK¶
        SET k v                 -> +OK¶
        TTL k                   -> :-1¶
        SET k v EXAT 1800000000 -> +OK¶
        EXPIRETIME k            -> :1800000000¶
        SET k v PXAT 1800000000123 -> +OK¶
        PEXPIRETIME k           -> :1800000000123¶
        SET k v EX 5 EX 7       -> +OK¶
        TTL k                   -> :7¶
        SET k v EXAT 1          -> +OK¶
        EXISTS k                -> :0¶
        SET k v PXAT 1 GET      -> $-1¶ | _¶
        EXISTS k                -> :0¶
        SETEX k 3 v             -> +OK¶
        PTTL k                  -> :3000¶
        PSETEX k 3 v            -> +OK¶
        PTTL k                  -> :3¶
        + 3
        TYPE k                  -> +none¶
        ",
    );
}

#[test]
fn set_with_a_wrong_expiry() {
    play(
        "
        SET k v EX              -> -ERR syntax error¶
        SET k v EX 10 PX 10     -> -ERR syntax error¶
        SET k v EX 10 KEEPTTL   -> -ERR syntax error¶
        SET k v KEEPTTL EXAT 10 -> -ERR syntax error¶
        SET k v EX NX           -> -ERR value is not an integer or out of range¶
        SET k v EX 1.5          -> -ERR value is not an integer or out of range¶
        SET k v EX 007          -> -ERR value is not an integer or out of range¶
        SET k v PX 9223372036854775808 -> -ERR value is not an integer or out of range¶
        SET k v EX 0            -> -ERR invalid expire time in 'set' command¶
        SET k v PX -1           -> -ERR invalid expire time in 'set' command¶
        SET k v EXAT 0          -> -ERR invalid expire time in 'set' command¶
        SET k v PXAT -5         -> -ERR invalid expire time in 'set' command¶
        SET k v EX 9223372036854775807   -> -ERR invalid expire time in 'set' command¶
        SET k v EX 9223372036854775      -> -ERR invalid expire time in 'set' command¶
        SET k v PX 9223372036854775807   -> -ERR invalid expire time in 'set' command¶
        SET k v EXAT 9223372036854776    -> -ERR invalid expire time in 'set' command¶
        SETEX k 0 v             -> -ERR invalid expire time in 'setex' command¶
        SETEX k x v             -> -ERR value is not an integer or out of range¶
        PSETEX k -1 v           -> -ERR invalid expire time in 'psetex' command¶
        PSETEX k 1              -> -ERR wrong number of arguments for 'psetex' command¶
        EXISTS k                -> :0¶
        ",
    );
}

#[test]
fn getex() {
    play(
        "
        GETEX k                 -> $-1¶ | _¶
        GETEX k EX 0            -> $-1¶ | _¶
        GETEX k EX              -> -ERR syntax error¶
        SET k v                 -> +OK¶
        GETEX k                 -> $1¶v¶
        TTL k                   -> :-1¶
        GETEX k EX 10           -> $1¶v¶
        PTTL k                  -> :10000¶
        GETEX k                 -> $1¶v¶
        PTTL k                  -> :10000¶
        GETEX k px 20           -> $1¶v¶
        PTTL k                  -> :20¶
        GETEX k PERSIST         -> $1¶v¶
        TTL k                   -> :-1¶
        GETEX k EXAT 1800000000 -> $1¶v¶
        EXPIRETIME k            -> :1800000000¶
        GETEX k PXAT 1800000000500 -> $1¶v¶
        PEXPIRETIME k           -> :1800000000500¶
        GETEX k EX 0            -> -ERR invalid expire time in 'getex' command¶
        GETEX k EX x            -> -ERR value is not an integer or out of range¶
        GETEX k EX 9 PERSIST    -> -ERR syntax error¶
        GETEX k PERSIST PX 9    -> -ERR syntax error¶
        GETEX k EX 9 PX 9       -> -ERR syntax error¶
        GETEX k KEEPTTL         -> -ERR syntax error¶
        GETEX k NX              -> -ERR syntax error¶
        PEXPIRETIME k           -> :1800000000500¶
        GETEX k EXAT 1          -> $1¶v¶
        GETEX k                 -> $-1¶ | _¶
        ",
    );
}

#[test]
fn append_and_strlen() {
    play(
        "
        STRLEN k                -> :0¶
        APPEND k 12             -> :2¶
        INCR k                  -> :13¶
        APPEND k 4              -> :3¶
        GET k                   -> $3¶134¶
        STRLEN k                -> :3¶
        APPEND k ' and text'    -> :12¶
        GET k                   -> $12¶134 and text¶
        APPEND k ''             -> :12¶
        EXPIRE k 10             -> :1¶
        APPEND k !              -> :13¶
        TTL k                   -> :10¶
        APPEND empty ''         -> :0¶
        STRLEN empty            -> :0¶
        SET n -123              -> +OK¶
        STRLEN n                -> :4¶
        APPEND k                -> -ERR wrong number of arguments for 'append' command¶
        STRLEN                  -> -ERR wrong number of arguments for 'strlen' command¶
        ",
    );
}

#[test]
fn keys_of_any_bytes_up_to_their_limit() {
    let mut dialogue = Dialogue::new(Version::Resp2);
    let set =
        |len: usize| format!("*3\r\n$3\r\nSET\r\n${len}\r\n{}\r\n$1\r\nv\r\n", "k".repeat(len));
    assert_eq!(dialogue.ask(set(65_536).as_bytes()), b"+OK\r\n");
    let refused = dialogue.ask(set(65_537).as_bytes());
    assert_eq!(refused, b"-ERR key of 65537 bytes exceeds the maximum of 65536\r\n");
    assert_eq!(dialogue.say("DBSIZE"), ":1¶");
    let binary: Vec<u8> = (0..=255).collect();
    let set = [b"*3\r\n$3\r\nSET\r\n$256\r\n", &binary[..], b"\r\n$256\r\n", &binary[..], b"\r\n"]
        .concat();
    assert_eq!(dialogue.ask(&set), b"+OK\r\n");
    let get = [b"*2\r\n$3\r\nGET\r\n$256\r\n", &binary[..], b"\r\n"].concat();
    assert_eq!(dialogue.ask(&get), [b"$256\r\n", &binary[..], b"\r\n"].concat());
}

#[test]
fn a_value_never_grows_beyond_its_limit() {
    let options = Options { value_len_max: 1000, ..Options::default() };
    let mut dialogue = Dialogue::with(Version::Resp2, options);
    let refused = "-ERR string exceeds maximum allowed size (proto-max-bulk-len)¶";
    let (longest, longer) = ("v".repeat(1000), "v".repeat(1001));
    for request in ["SET k", "SETNX k", "SETEX k 10", "GETSET k", "MSET k", "MSETNX k", "APPEND k"]
    {
        assert_eq!(dialogue.say(&format!("{request} {longer}")), refused, "{request}");
    }
    assert_eq!(dialogue.say("EXISTS k"), ":0¶");
    assert_eq!(dialogue.say(&format!("SET k {longest}")), "+OK¶");
    assert_eq!(dialogue.say("APPEND k v"), refused);
    assert_eq!(dialogue.say("SETRANGE k 999 v"), ":1000¶");
    for offset in ["1000", "9223372036854775807"] {
        assert_eq!(dialogue.say(&format!("SETRANGE k {offset} v")), refused, "{offset}");
        assert_eq!(dialogue.say(&format!("SETRANGE missing {offset} v")), refused, "{offset}");
    }
    assert_eq!(dialogue.say("STRLEN k"), ":1000¶");
    assert_eq!(dialogue.say("EXISTS missing"), ":0¶");
}
