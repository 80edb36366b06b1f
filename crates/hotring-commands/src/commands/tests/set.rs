//! Sets: every command, every error.

use crate::exec::dialogue::play;

#[test]
fn members_come_and_go() {
    play(
        "
        SADD s 3 1 2 1          -> :3¶
        SADD s 2                -> :0¶
        OBJECT ENCODING s       -> $6¶intset¶
        TYPE s                  -> +set¶
        SMEMBERS s              -> *3¶$1¶1¶$1¶2¶$1¶3¶ | ~3¶$1¶1¶$1¶2¶$1¶3¶
        SADD s b a              -> :2¶
        OBJECT ENCODING s       -> $8¶listpack¶
        SMEMBERS s              -> *5¶$1¶1¶$1¶2¶$1¶3¶$1¶b¶$1¶a¶ | ~5¶$1¶1¶$1¶2¶$1¶3¶$1¶b¶$1¶a¶
        SREM s 1 2 b x          -> :3¶
        SCARD s                 -> :2¶
        SISMEMBER s a           -> :1¶
        SISMEMBER s b           -> :0¶
        SMISMEMBER s a b 3      -> *3¶:1¶:0¶:1¶
        SMISMEMBER no a b       -> *2¶:0¶:0¶
        EXPIRE s 10             -> :1¶
        SADD s c                -> :1¶
        TTL s                   -> :10¶
        SREM s a c 3            -> :3¶
        EXISTS s                -> :0¶
        SCARD s                 -> :0¶
        SMEMBERS s              -> *0¶ | ~0¶
        SREM s a                -> :0¶
        SADD s                  -> -ERR wrong number of arguments for 'sadd' command¶
        ",
    );
}

#[test]
fn members_move() {
    play(
        "
        SADD a x y              -> :2¶
        SADD b y                -> :1¶
        SMOVE a b x             -> :1¶
        SMOVE a b x             -> :0¶
        SMOVE a b y             -> :1¶
        EXISTS a                -> :0¶
        SMEMBERS b              -> *2¶$1¶y¶$1¶x¶ | ~2¶$1¶y¶$1¶x¶
        SMOVE b b x             -> :1¶
        SMOVE b b z             -> :0¶
        SET str v               -> +OK¶
        SMOVE b str x           -> -WRONGTYPE Operation against a key holding the wrong kind of value¶
        SMOVE str b x           -> -WRONGTYPE Operation against a key holding the wrong kind of value¶
        SMOVE no str x          -> :0¶
        SCARD b                 -> :2¶
        ",
    );
}

#[test]
fn random_members() {
    play(
        "
        SPOP no                 -> $-1¶ | _¶
        SPOP no 2               -> *0¶ | ~0¶
        SRANDMEMBER no          -> $-1¶ | _¶
        SRANDMEMBER no 2        -> *0¶
        SADD s a                -> :1¶
        SRANDMEMBER s           -> $1¶a¶
        SRANDMEMBER s 5         -> *1¶$1¶a¶
        SRANDMEMBER s -3        -> *3¶$1¶a¶$1¶a¶$1¶a¶
        SRANDMEMBER s 0         -> *0¶
        SRANDMEMBER s x         -> -ERR value is not an integer or out of range¶
        SRANDMEMBER s 1 2       -> -ERR syntax error¶
        SPOP s 0                -> *0¶ | ~0¶
        SPOP s -1               -> -ERR value is out of range, must be positive¶
        SPOP s x                -> -ERR value is out of range, must be positive¶
        SPOP s 1 2              -> -ERR syntax error¶
        SPOP s                  -> $1¶a¶
        EXISTS s                -> :0¶
        SADD s 1 2              -> :2¶
        SPOP s 9                -> *2¶$1¶1¶$1¶2¶ | ~2¶$1¶1¶$1¶2¶
        EXISTS s                -> :0¶
        ",
    );
}

#[test]
fn several_sets_at_once() {
    play(
        "
        SADD a 1 2 3            -> :3¶
        SADD b 2 3 4            -> :3¶
        SINTER a b              -> *2¶$1¶2¶$1¶3¶ | ~2¶$1¶2¶$1¶3¶
        SUNION a b              -> *4¶$1¶1¶$1¶2¶$1¶3¶$1¶4¶ | ~4¶$1¶1¶$1¶2¶$1¶3¶$1¶4¶
        SDIFF a b               -> *1¶$1¶1¶ | ~1¶$1¶1¶
        SDIFF a no              -> *3¶$1¶1¶$1¶2¶$1¶3¶ | ~3¶$1¶1¶$1¶2¶$1¶3¶
        SINTER a no             -> *0¶ | ~0¶
        SINTERCARD 2 a b        -> :2¶
        SINTERCARD 2 a b LIMIT 1  -> :1¶
        SINTERCARD 2 a b LIMIT 0  -> :2¶
        SINTERCARD 0 a          -> -ERR numkeys should be greater than 0¶
        SINTERCARD 3 a b        -> -ERR Number of keys can't be greater than number of args¶
        SINTERCARD 1 a LIMIT -1 -> -ERR LIMIT can't be negative¶
        SINTERCARD 1 a LIMIT    -> -ERR syntax error¶
        SINTERSTORE a a b       -> :2¶
        SMEMBERS a              -> *2¶$1¶2¶$1¶3¶ | ~2¶$1¶2¶$1¶3¶
        SET d v EX 100          -> +OK¶
        SUNIONSTORE d a b       -> :3¶
        TTL d                   -> :-1¶
        SDIFFSTORE d a b        -> :0¶
        EXISTS d                -> :0¶
        SET str v               -> +OK¶
        SINTER no str           -> -WRONGTYPE Operation against a key holding the wrong kind of value¶
        SUNIONSTORE a a str     -> -WRONGTYPE Operation against a key holding the wrong kind of value¶
        SCARD a                 -> :2¶
        ",
    );
}

#[test]
fn sscan() {
    play(
        "
        SSCAN s 0 BAD           -> *2¶$1¶0¶*0¶
        SADD s a1 b a2          -> :3¶
        SSCAN s 0               -> *2¶$1¶0¶*3¶$2¶a1¶$1¶b¶$2¶a2¶
        SSCAN s 0 MATCH a* COUNT 1  -> *2¶$1¶0¶*2¶$2¶a1¶$2¶a2¶
        SSCAN s x               -> -ERR invalid cursor¶
        SSCAN s 0 COUNT 0       -> -ERR syntax error¶
        SSCAN s 0 NOVALUES      -> -ERR syntax error¶
        ",
    );
}
