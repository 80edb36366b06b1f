//! SORT and SORT_RO: every option, every error.

use hotring_protocol::Version;

use crate::exec::dialogue::{Dialogue, play};

#[test]
fn numbers_and_texts_are_sorted() {
    play(
        "
        SORT no                 -> *0¶
        RPUSH l 3 1 20 2.5      -> :4¶
        SORT l                  -> *4¶$1¶1¶$3¶2.5¶$1¶3¶$2¶20¶
        SORT l DESC             -> *4¶$2¶20¶$1¶3¶$3¶2.5¶$1¶1¶
        SORT l ALPHA            -> *4¶$1¶1¶$3¶2.5¶$2¶20¶$1¶3¶
        SORT_RO l alpha desc    -> *4¶$1¶3¶$2¶20¶$3¶2.5¶$1¶1¶
        SORT l LIMIT 1 2        -> *2¶$3¶2.5¶$1¶3¶
        SORT l LIMIT -5 1       -> *1¶$1¶1¶
        SORT l LIMIT 3 -1       -> *1¶$2¶20¶
        SORT l LIMIT 4 1        -> *0¶
        SORT l LIMIT 0 0        -> *0¶
        SORT l LIMIT x 1        -> -ERR value is not an integer or out of range¶
        SORT l LIMIT 1          -> -ERR syntax error¶
        SORT l BY               -> -ERR syntax error¶
        SORT l x                -> -ERR syntax error¶
        SORT_RO l STORE d       -> -ERR syntax error¶
        RPUSH l x               -> :5¶
        SORT l                  -> -ERR One or more scores can't be converted into double¶
        SADD s 3 1 2            -> :3¶
        SORT s DESC             -> *3¶$1¶3¶$1¶2¶$1¶1¶
        ZADD z 9 a 1 c 5 b      -> :3¶
        SORT z ALPHA            -> *3¶$1¶a¶$1¶b¶$1¶c¶
        SORT z BY nosort        -> *3¶$1¶c¶$1¶b¶$1¶a¶
        SORT z BY nosort DESC LIMIT 0 2   -> *2¶$1¶a¶$1¶b¶
        SORT l BY nosort DESC LIMIT 1 3   -> *3¶$3¶2.5¶$2¶20¶$1¶1¶
        SORT l BY nosort LIMIT 1 9        -> *4¶$1¶1¶$2¶20¶$3¶2.5¶$1¶x¶
        SET str v               -> +OK¶
        SORT str                -> -WRONGTYPE Operation against a key holding the wrong kind of value¶
        RPUSH e \"\" \" 1\" -1  -> :3¶
        SORT e                  -> *3¶$2¶-1¶$0¶¶$2¶ 1¶
        ",
    );
}

#[test]
fn patterns_name_keys_and_fields() {
    play(
        "
        RPUSH l 1 2 3           -> :3¶
        MSET w_1 30 w_2 20 w_3 10 o_1 a o_2 b  -> +OK¶
        SORT l BY w_*           -> *3¶$1¶3¶$1¶2¶$1¶1¶
        SORT l BY o_* ALPHA     -> *3¶$1¶3¶$1¶1¶$1¶2¶
        SORT l BY o_*           -> -ERR One or more scores can't be converted into double¶
        SORT l BY w_* GET # GET o_* GET const  -> *9¶$1¶3¶$-1¶$-1¶$1¶2¶$1¶b¶$-1¶$1¶1¶$1¶a¶$-1¶ | *9¶$1¶3¶_¶_¶$1¶2¶$1¶b¶_¶$1¶1¶$1¶a¶_¶
        SORT l BY w_* LIMIT 0 1 STORE d   -> :1¶
        LRANGE d 0 -1           -> *1¶$1¶3¶
        SORT l GET o_* STORE d  -> :3¶
        LRANGE d 0 -1           -> *3¶$1¶a¶$1¶b¶$0¶¶
        EXPIRE l 100            -> :1¶
        SORT l DESC STORE l     -> :3¶
        TTL l                   -> :-1¶
        LRANGE l 0 -1           -> *3¶$1¶3¶$1¶2¶$1¶1¶
        SORT no STORE l         -> :0¶
        EXISTS l                -> :0¶
        SADD s b a c            -> :3¶
        SORT s BY nosort STORE d   -> :3¶
        LRANGE d 0 -1           -> *3¶$1¶a¶$1¶b¶$1¶c¶
        MULTI                   -> +OK¶
        SORT s ALPHA GET o_*    -> +QUEUED¶
        SORT s ALPHA STORE d    -> +QUEUED¶
        EXEC                    -> *2¶*3¶$-1¶$-1¶$-1¶:3¶ | *2¶*3¶_¶_¶_¶:3¶
        COMMAND GETKEYS SORT a BY store GET x STORE y STORE z  -> *2¶$1¶a¶$1¶z¶
        ",
    );
}

#[test]
fn patterns_name_fields_of_hashes() {
    let mut dialogue = Dialogue::new(Version::Resp2);
    for request in [
        "RPUSH l 1 2 3",
        "HSET h_1 f 5 g x",
        "HSET h_2 f 4",
        "SET h_3 s",
        "HSET 1-> f y",
        "SET 2-> s",
    ] {
        assert!(dialogue.say(request).starts_with(':') || request.starts_with("SET"));
    }
    for (request, reply) in [
        ("SORT l BY h_*->f", "*3¶$1¶3¶$1¶2¶$1¶1¶"),
        ("SORT l BY h_*->g ALPHA LIMIT 2 1", "*1¶$1¶1¶"),
        ("SORT l GET h_*->g", "*3¶$1¶x¶$-1¶$-1¶"),
        ("SORT l GET h_*", "*3¶$-1¶$-1¶$1¶s¶"),
        // Without a name behind the arrow it is a part of the key.
        ("SORT l GET *->", "*3¶$-1¶$1¶s¶$-1¶"),
        ("SORT l BY h_*->f STORE d", ":3¶"),
        ("LRANGE d 0 -1", "*3¶$1¶3¶$1¶2¶$1¶1¶"),
        ("EVAL \"return redis.call('SORT', 'l', 'BY', 'h_*->f')\" 0", "*3¶$1¶3¶$1¶2¶$1¶1¶"),
        ("EVAL \"return redis.call('SORT', KEYS[1], 'GET', 'h_*->g')\" 1 l", "*3¶$1¶x¶$-1¶$-1¶"),
    ] {
        assert_eq!(dialogue.say(request), reply, "{request}");
    }
}

#[test]
fn patterns_need_leave_to_read_all_keys() {
    play(
        "
        RPUSH l 1               -> :1¶
        ACL SETUSER default resetkeys ~l ~d  -> +OK¶
        SORT l BY nosort STORE d  -> :1¶
        SORT l BY x*            -> -ERR BY option of SORT denied due to insufficient ACL permissions.¶
        SORT l GET #            -> -ERR GET option of SORT denied due to insufficient ACL permissions.¶
        SORT l STORE e          -> -NOPERM No permissions to access a key¶
        ACL SETUSER default %R~*  -> +OK¶
        SORT l BY x* GET #      -> *1¶$1¶1¶
        ",
    );
}

#[test]
fn equal_weights_constants_and_large_limits() {
    play(
        r#"
        RPUSH l 3 1 2 -> :3¶
        MSET t_1 5 t_2 5 t_3 5 -> +OK¶
        SORT l BY t_* -> *3¶$1¶1¶$1¶2¶$1¶3¶
        SORT l BY t_* DESC -> *3¶$1¶3¶$1¶2¶$1¶1¶
        SORT l BY t_* ALPHA -> *3¶$1¶3¶$1¶1¶$1¶2¶
        SORT l LIMIT 1 9223372036854775807 -> *2¶$1¶2¶$1¶3¶
        SORT l LIMIT 9223372036854775807 9223372036854775807 -> *0¶
        SORT l BY nosort BY t_* -> *3¶$1¶3¶$1¶1¶$1¶2¶
        SORT l BY t_* BY nosort -> *3¶$1¶3¶$1¶1¶$1¶2¶
        SORT l BY none_* -> *3¶$1¶1¶$1¶2¶$1¶3¶
        SORT l BY none_* ALPHA DESC -> *3¶$1¶3¶$1¶1¶$1¶2¶
        SADD s b a c -> :3¶
        SORT s BY nosort DESC STORE d -> :3¶
        LRANGE d 0 -1 -> *3¶$1¶c¶$1¶b¶$1¶a¶
        EVAL "return redis.call('SORT',KEYS[1],'BY','nosort')" 1 s -> *3¶$1¶a¶$1¶b¶$1¶c¶
        EVAL "return redis.call('SORT',KEYS[1],'BY','nosort','DESC','LIMIT',0,2)" 1 s -> *2¶$1¶c¶$1¶b¶
        RPUSH e "" " 7" 3 -1e2 0x10 inf -> :6¶
        SORT e -> *6¶$4¶-1e2¶$0¶¶$1¶3¶$2¶ 7¶$4¶0x10¶$3¶inf¶
        "#,
    );
}

#[test]
fn lookups_by_patterns_count() {
    let mut dialogue = Dialogue::new(Version::Resp2);
    for request in ["RPUSH l 3 1 2", "MSET t_1 5 t_2 5 t_3 5", "CONFIG RESETSTAT"] {
        dialogue.say(request);
    }
    assert_eq!(dialogue.say("SORT l BY t_* GET none_*"), "*3¶$-1¶$-1¶$-1¶");
    let stats = dialogue.say("INFO stats");
    assert!(stats.contains("keyspace_hits:4¶") && stats.contains("keyspace_misses:3¶"), "{stats}");
}
