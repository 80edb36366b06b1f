//! Lists: every command, every error, and string commands on a list.

use hotring_protocol::Version;
use hotring_store::Options;

use crate::exec::dialogue::{Dialogue, play};

const WRONG: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value¶";

#[test]
fn elements_are_pushed_popped_and_read() {
    play(
        "
        LPUSH l a b             -> :2¶
        RPUSH l c d             -> :4¶
        LRANGE l 0 -1           -> *4¶$1¶b¶$1¶a¶$1¶c¶$1¶d¶
        LRANGE l 1 1            -> *1¶$1¶a¶
        LRANGE l 3 1            -> *0¶
        LRANGE no 0 -1          -> *0¶
        LRANGE l x 1            -> -ERR value is not an integer or out of range¶
        LLEN l                  -> :4¶
        LLEN no                 -> :0¶
        LINDEX l -1             -> $1¶d¶
        LINDEX l 4              -> $-1¶ | _¶
        LINDEX l x              -> -ERR value is not an integer or out of range¶
        LINDEX no x             -> $-1¶ | _¶
        LPUSHX no a             -> :0¶
        RPUSHX l e              -> :5¶
        LPUSHX l f              -> :6¶
        LPOP l                  -> $1¶f¶
        RPOP l 2                -> *2¶$1¶e¶$1¶d¶
        LPOP l 0                -> *0¶
        LPOP l -1               -> -ERR value is out of range, must be positive¶
        LPOP l x                -> -ERR value is out of range, must be positive¶
        LPOP l 1 2              -> -ERR wrong number of arguments for 'lpop' command¶
        LPOP no                 -> $-1¶ | _¶
        LPOP no 2               -> *-1¶ | _¶
        EXPIRE l 10             -> :1¶
        RPOP l 10               -> *3¶$1¶c¶$1¶a¶$1¶b¶
        EXISTS l                -> :0¶
        RPUSH l a               -> :1¶
        TTL l                   -> :-1¶
        TYPE l                  -> +list¶
        ",
    );
}

#[test]
fn elements_in_the_middle_change() {
    play(
        r#"
        RPUSH l a b c b a b     -> :6¶
        LSET l 0 x              -> +OK¶
        LSET l -1 y             -> +OK¶
        LSET l 6 z              -> -ERR index out of range¶
        LSET l q z              -> -ERR value is not an integer or out of range¶
        LSET no q z             -> -ERR no such key¶
        LINSERT l BEFORE b 1    -> :7¶
        LINSERT l after y 2     -> :8¶
        LINSERT l after none 2  -> :-1¶
        LINSERT no after y 2    -> :0¶
        LINSERT l at y 2        -> -ERR syntax error¶
        LRANGE l 0 -1           -> *8¶$1¶x¶$1¶1¶$1¶b¶$1¶c¶$1¶b¶$1¶a¶$1¶y¶$1¶2¶
        LPOS l b                -> :2¶
        LPOS l b RANK 2         -> :4¶
        LPOS l b RANK -1        -> :4¶
        LPOS l b COUNT 0        -> *2¶:2¶:4¶
        LPOS l b COUNT 0 RANK -1 MAXLEN 4  -> *1¶:4¶
        LPOS l b MAXLEN 2       -> $-1¶ | _¶
        LPOS l none             -> $-1¶ | _¶
        LPOS l none COUNT 1     -> *0¶
        LPOS no b COUNT 1       -> *0¶
        LPOS l b RANK           -> -ERR syntax error¶
        LPOS l b COUNT -1       -> -ERR COUNT can't be negative¶
        LPOS l b MAXLEN -1      -> -ERR MAXLEN can't be negative¶
        LREM l 1 b              -> :1¶
        LREM l -1 none          -> :0¶
        LREM l x none           -> -ERR value is not an integer or out of range¶
        LTRIM l 1 -2            -> +OK¶
        LRANGE l 0 -1           -> *5¶$1¶1¶$1¶c¶$1¶b¶$1¶a¶$1¶y¶
        LTRIM l 5 9             -> +OK¶
        EXISTS l                -> :0¶
        LTRIM l 0 1             -> +OK¶
        "#,
    );
}

#[test]
fn elements_move() {
    play(
        "
        RPUSH a 1 2 3           -> :3¶
        LMOVE a b LEFT RIGHT    -> $1¶1¶
        RPOPLPUSH a b           -> $1¶3¶
        LRANGE b 0 -1           -> *2¶$1¶3¶$1¶1¶
        LMOVE a a LEFT RIGHT    -> $1¶2¶
        LMOVE b b right left    -> $1¶1¶
        LRANGE b 0 -1           -> *2¶$1¶1¶$1¶3¶
        LMOVE a b UP RIGHT      -> -ERR syntax error¶
        LMOVE no b LEFT RIGHT   -> $-1¶ | _¶
        SET s x                 -> +OK¶
        LMOVE a s LEFT RIGHT    -> -WRONGTYPE Operation against a key holding the wrong kind of value¶
        LMOVE no s LEFT RIGHT   -> $-1¶ | _¶
        LMPOP 3 no a b LEFT     -> *2¶$1¶a¶*1¶$1¶2¶
        EXISTS a                -> :0¶
        LMPOP 2 no b RIGHT COUNT 5  -> *2¶$1¶b¶*2¶$1¶3¶$1¶1¶
        LMPOP 2 a b LEFT        -> *-1¶ | _¶
        LMPOP 0 a LEFT          -> -ERR numkeys should be greater than 0¶
        LMPOP 2 a LEFT          -> -ERR syntax error¶
        LMPOP 1 a LEFT COUNT 0  -> -ERR count should be greater than 0¶
        LMPOP 1 a LEFT COUNT    -> -ERR syntax error¶
        LMPOP 2 s a LEFT        -> -WRONGTYPE Operation against a key holding the wrong kind of value¶
        ",
    );
}

#[test]
fn each_type_refuses_the_other_types_commands() {
    let on_string = [
        "LPUSH s x",
        "RPUSHX s x",
        "LPOP s",
        "RPOP s 2",
        "LLEN s",
        "LINDEX s 0",
        "LRANGE s 0 1",
        "LSET s 0 x",
        "LSET s q x",
        "LINSERT s BEFORE a b",
        "LREM s 0 x",
        "LTRIM s 0 1",
        "LPOS s x",
        "LMOVE s l LEFT LEFT",
        "RPOPLPUSH l s",
    ];
    let on_list =
        ["GET l", "APPEND l x", "INCR l", "HGET l f", "HSET l f v", "SETBIT l 1 1", "STRLEN l"];
    for history in [0, 2] {
        let options = Options { history, ..Options::default() };
        let mut dialogue = Dialogue::with(Version::Resp2, options);
        dialogue.say("RPUSH l a b");
        dialogue.say("SET s a-string-that-is-longer-than-a-word");
        for request in on_string.iter().chain(&on_list) {
            assert_eq!(dialogue.say(request), WRONG, "{request}");
        }
        assert_eq!(dialogue.say("LLEN l"), ":2¶");
    }
}

#[test]
fn long_lists_are_lists() {
    play(
        "
        CONFIG SET list-max-listpack-size 2  -> +OK¶
        RPUSH l a b             -> :2¶
        OBJECT ENCODING l       -> $8¶listpack¶
        RPUSH l c               -> :3¶
        OBJECT ENCODING l       -> $9¶quicklist¶
        LRANGE l 0 -1           -> *3¶$1¶a¶$1¶b¶$1¶c¶
        LPOS l c                -> :2¶
        COPY l other            -> :1¶
        LPOP l                  -> $1¶a¶
        LINDEX other 0          -> $1¶a¶
        RPOP l 5                -> *2¶$1¶c¶$1¶b¶
        EXISTS l                -> :0¶
        CONFIG SET list-max-ziplist-size -1 list-compress-depth 1  -> +OK¶
        CONFIG GET list-compress-depth  -> *2¶$19¶list-compress-depth¶$1¶1¶ | %1¶$19¶list-compress-depth¶$1¶1¶
        RPUSH v a               -> :1¶
        OBJECT ENCODING v       -> $8¶listpack¶
        ",
    );
}
