//! Hashes: every command, every error, and string commands on a hash.

use hotring_protocol::Version;
use hotring_store::Options;

use crate::exec::dialogue::{Dialogue, play, play_with};

const WRONG: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value¶";

#[test]
fn fields_are_set_and_read() {
    play(
        r#"
        HGET h a                -> $-1¶ | _¶
        HSET h a 1 b 2          -> :2¶
        HSET h a 3 c 4 c 5      -> :1¶
        HGET h a                -> $1¶3¶
        HGET h x                -> $-1¶ | _¶
        HMGET h a x c           -> *3¶$1¶3¶$-1¶$1¶5¶ | *3¶$1¶3¶_¶$1¶5¶
        HMGET no a b            -> *2¶$-1¶$-1¶ | *2¶_¶_¶
        HGETALL h               -> *6¶$1¶a¶$1¶3¶$1¶b¶$1¶2¶$1¶c¶$1¶5¶ | %3¶$1¶a¶$1¶3¶$1¶b¶$1¶2¶$1¶c¶$1¶5¶
        HKEYS h                 -> *3¶$1¶a¶$1¶b¶$1¶c¶
        HVALS h                 -> *3¶$1¶3¶$1¶2¶$1¶5¶
        HLEN h                  -> :3¶
        HEXISTS h a             -> :1¶
        HEXISTS h x             -> :0¶
        HSET h "" "" d 12345    -> :2¶
        HGET h ""               -> $0¶¶
        HSTRLEN h d             -> :5¶
        HSTRLEN h x             -> :0¶
        HMSET h a 9 b 8         -> +OK¶
        HVALS h                 -> *5¶$1¶9¶$1¶8¶$1¶5¶$0¶¶$5¶12345¶
        HSETNX h a 7            -> :0¶
        HSETNX h e 7            -> :1¶
        HSETNX new f v          -> :1¶
        HGETALL no              -> *0¶ | %0¶
        HKEYS no                -> *0¶
        HVALS no                -> *0¶
        HLEN no                 -> :0¶
        HSET h a                -> -ERR wrong number of arguments for 'hset' command¶
        HSET h a 1 b            -> -ERR wrong number of arguments for 'hset' command¶
        HMSET h a 1 b           -> -ERR wrong number of arguments for 'hmset' command¶
        HGETALL h x             -> -ERR wrong number of arguments for 'hgetall' command¶
        "#,
    );
}

#[test]
fn a_hash_goes_with_its_last_field() {
    play(
        "
        HDEL h a                -> :0¶
        HSET h a 1 b 2 c 3      -> :3¶
        EXPIRE h 10             -> :1¶
        HDEL h a x a            -> :1¶
        HKEYS h                 -> *2¶$1¶b¶$1¶c¶
        HSET h a 4              -> :1¶
        TTL h                   -> :10¶
        HKEYS h                 -> *3¶$1¶b¶$1¶c¶$1¶a¶
        HDEL h a b c            -> :3¶
        EXISTS h                -> :0¶
        HSET h a 1              -> :1¶
        TTL h                   -> :-1¶
        EXPIRE h 10             -> :1¶
        + 10000
        HLEN h                  -> :0¶
        ",
    );
}

#[test]
fn fields_count() {
    play(
        "
        HINCRBY h n 5           -> :5¶
        HINCRBY h n -7          -> :-2¶
        HSET h big 9223372036854775807 text x pad 012  -> :3¶
        HINCRBY h big 1         -> -ERR increment or decrement would overflow¶
        HINCRBY h text 1        -> -ERR hash value is not an integer¶
        HINCRBY h pad 1         -> -ERR hash value is not an integer¶
        HINCRBY h n x           -> -ERR value is not an integer or out of range¶
        HGET h n                -> $2¶-2¶
        HINCRBYFLOAT h f 10.50  -> $4¶10.5¶
        HINCRBYFLOAT h f 0.1    -> $4¶10.6¶
        HINCRBYFLOAT h n 1.5e1  -> $2¶13¶
        HINCRBYFLOAT h text 1   -> -ERR hash value is not a float¶
        HINCRBYFLOAT h f x      -> -ERR value is not a valid float¶
        HINCRBYFLOAT h f inf    -> -ERR value is NaN or Infinity¶
        HGET h f                -> $4¶10.6¶
        ",
    );
}

#[test]
fn hscan() {
    play(
        "
        HSCAN h 0               -> *2¶$1¶0¶*0¶
        HSCAN h 0 BAD           -> *2¶$1¶0¶*0¶
        HSET h a1 1 b 2 a2 3    -> :3¶
        HSCAN h 0               -> *2¶$1¶0¶*6¶$2¶a1¶$1¶1¶$1¶b¶$1¶2¶$2¶a2¶$1¶3¶
        HSCAN h 5 MATCH a* COUNT 1  -> *2¶$1¶0¶*4¶$2¶a1¶$1¶1¶$2¶a2¶$1¶3¶
        HSCAN h 0 NOVALUES MATCH a*  -> *2¶$1¶0¶*2¶$2¶a1¶$2¶a2¶
        HSCAN h x               -> -ERR invalid cursor¶
        HSCAN h 0 COUNT 0       -> -ERR syntax error¶
        HSCAN h 0 COUNT x       -> -ERR value is not an integer or out of range¶
        HSCAN h 0 MATCH         -> -ERR syntax error¶
        HSCAN h 0 TYPE string   -> -ERR syntax error¶
        ",
    );
}

#[test]
fn random_fields() {
    play(
        "
        HRANDFIELD no           -> $-1¶ | _¶
        HRANDFIELD no 2         -> *0¶
        HSET h a 1              -> :1¶
        HRANDFIELD h            -> $1¶a¶
        HRANDFIELD h 5          -> *1¶$1¶a¶
        HRANDFIELD h -2         -> *2¶$1¶a¶$1¶a¶
        HRANDFIELD h 0          -> *0¶
        HRANDFIELD h 3 WithValues   -> *2¶$1¶a¶$1¶1¶ | *1¶*2¶$1¶a¶$1¶1¶
        HRANDFIELD h -2 WITHVALUES  -> *4¶$1¶a¶$1¶1¶$1¶a¶$1¶1¶ | *2¶*2¶$1¶a¶$1¶1¶*2¶$1¶a¶$1¶1¶
        HRANDFIELD h x          -> -ERR value is not an integer or out of range¶
        HRANDFIELD h 1 2        -> -ERR syntax error¶
        HRANDFIELD h 1 WITHVALUES 2  -> -ERR syntax error¶
        HRANDFIELD h -9223372036854775808  -> -ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807¶
        HRANDFIELD h 9223372036854775807 WITHVALUES  -> -ERR value is out of range¶
        HSET h b 2              -> :1¶
        HRANDFIELD h 2          -> *2¶$1¶a¶$1¶b¶
        HPEXPIRE h 10 FIELDS 1 a    -> *1¶:1¶
        + 10
        HRANDFIELD h 9          -> *1¶$1¶b¶
        HRANDFIELD h -3         -> *3¶$1¶b¶$1¶b¶$1¶b¶
        CONFIG SET hash-max-listpack-entries 1  -> +OK¶
        HSET h c 3 d 4          -> :2¶
        OBJECT ENCODING h       -> $9¶hashtable¶
        HPEXPIRE h 10 FIELDS 2 b c  -> *2¶:1¶:1¶
        + 10
        HRANDFIELD h 9          -> *1¶$1¶d¶
        SET s v                 -> +OK¶
        HRANDFIELD s            -> -WRONGTYPE Operation against a key holding the wrong kind of value¶
        ",
    );
    let mut dialogue = Dialogue::with(Version::Resp2, Options::default());
    dialogue.say("CONFIG SET hash-max-listpack-entries 1");
    for i in 0..100 {
        dialogue.say(&format!("HSET h {i} {i}"));
    }
    let seen: std::collections::BTreeSet<_> =
        (0..2_000).map(|_| dialogue.say("HRANDFIELD h")).collect();
    assert_eq!(seen.len(), 100);
    let one = dialogue.say("HRANDFIELD h 99 WITHVALUES");
    assert!(one.starts_with("*198¶"), "{one}");
    let mut fields: Vec<_> = one.split('¶').skip(2).step_by(4).collect();
    fields.sort();
    fields.dedup();
    assert_eq!(fields.len(), 99);
}

#[test]
fn keys_of_hashes_are_keys() {
    play(
        "
        HSET h a 1              -> :1¶
        SET s v                 -> +OK¶
        TYPE h                  -> +hash¶
        SCAN 0 TYPE hash        -> *2¶$1¶0¶*1¶$1¶h¶
        SCAN 0 TYPE STRING      -> *2¶$1¶0¶*1¶$1¶s¶
        SCAN 0 TYPE list        -> *2¶$1¶0¶*0¶
        COPY h c                -> :1¶
        RENAME c r              -> +OK¶
        HGET r a                -> $1¶1¶
        HSET r a 2              -> :0¶
        HGET h a                -> $1¶1¶
        MGET s h                -> *2¶$1¶v¶$-1¶ | *2¶$1¶v¶_¶
        SET h v NX              -> $-1¶ | _¶
        SET h v XX              -> +OK¶
        TYPE h                  -> +string¶
        DELEX r IFEQ x          -> -ERR Key should be of string type if conditions are specified¶
        DELEX r                 -> :1¶
        ",
    );
}

#[test]
fn each_type_refuses_the_other_types_commands() {
    let on_hash = [
        "GET h",
        "SET h v GET",
        "SET h v IFEQ x",
        "SET h v IFDNE 0000000000000000",
        "GETSET h v",
        "GETDEL h",
        "GETEX h",
        "GETEX h PERSIST",
        "GETEX h EX 5",
        "APPEND h x",
        "STRLEN h",
        "INCR h",
        "INCRBYFLOAT h 1",
        "INCREX h",
        "INCREX h BYFLOAT 1",
        "GETRANGE h 0 1",
        "SETRANGE h 0 x",
        "SETRANGE h 0 \"\"",
        "SETBIT h 1 1",
        "GETBIT h 1",
        "BITCOUNT h",
        "BITPOS h 1",
        "BITOP OR d s h",
        "DIGEST h",
        "DELIFEQ h x",
    ];
    let on_string = [
        "HSET s f v",
        "HMSET s f v",
        "HSETNX s f v",
        "HGET s f",
        "HMGET s f",
        "HGETALL s",
        "HKEYS s",
        "HVALS s",
        "HLEN s",
        "HEXISTS s f",
        "HSTRLEN s f",
        "HDEL s f",
        "HINCRBY s f 1",
        "HINCRBYFLOAT s f 1",
        "HSCAN s 0",
    ];
    for history in [0, 2] {
        let options = Options { history, ..Options::default() };
        let mut dialogue = Dialogue::with(Version::Resp2, options);
        dialogue.say("HSET h f v");
        dialogue.say("SET s a-string-that-is-longer-than-a-word");
        dialogue.say("SET s another-string-that-is-longer-than-a-word");
        for request in on_hash.iter().chain(&on_string) {
            assert_eq!(dialogue.say(request), WRONG, "{request}");
        }
        assert_eq!(dialogue.say("HGET h f"), "$1¶v¶");
        assert_eq!(dialogue.say("EXISTS d"), ":0¶");
    }
}

/// A hash among strings: the history restarts, and is not shown as bytes of another form.
#[test]
fn hashes_have_no_history() {
    let options = Options { history: 2, ..Options::default() };
    play_with(
        &options,
        "
        SET k 1                 -> +OK¶
        SET k 2                 -> +OK¶
        DEL k                   -> :1¶
        HSET k f v              -> :1¶
        HSET k f w              -> :0¶
        HISTORY k               -> *0¶
        SET k 3                 -> +OK¶
        HISTORY k               -> *0¶
        SET k 4                 -> +OK¶
        GET k                   -> $1¶4¶
        ROLLBACK k 1            -> +OK¶
        GET k                   -> $1¶3¶
        ",
    );
}

#[test]
fn long_hashes_are_hashes() {
    play(
        "
        CONFIG SET hash-max-listpack-entries 2  -> +OK¶
        HSET h a 1 b 2          -> :2¶
        OBJECT ENCODING h       -> $8¶listpack¶
        HSET h c 3              -> :1¶
        OBJECT ENCODING h       -> $9¶hashtable¶
        HGET h c                -> $1¶3¶
        HLEN h                  -> :3¶
        HINCRBY h a 4           -> :5¶
        HSCAN h 0 MATCH a       -> *2¶$1¶0¶*2¶$1¶a¶$1¶5¶
        COPY h other            -> :1¶
        HDEL h b                -> :1¶
        OBJECT ENCODING h       -> $9¶hashtable¶
        HGET other b            -> $1¶2¶
        APPEND h x              -> -WRONGTYPE Operation against a key holding the wrong kind of value¶
        EXPIRE h 100            -> :1¶
        HSET h d 4              -> :1¶
        TTL h                   -> :100¶
        HDEL h a c d            -> :3¶
        EXISTS h                -> :0¶
        CONFIG SET hash-max-listpack-entries 512 hash-max-ziplist-value 3  -> +OK¶
        HSET v a 123            -> :1¶
        OBJECT ENCODING v       -> $8¶listpack¶
        HSET v a 1234           -> :0¶
        OBJECT ENCODING v       -> $9¶hashtable¶
        ",
    );
}
