//! SETBIT, GETBIT, BITCOUNT, BITPOS, BITOP: every option and every error.

use crate::exec::dialogue::play;

#[test]
fn setbit_and_getbit() {
    play(
        r"
        GETBIT k 7              -> :0¶
        SETBIT k 7 1            -> :0¶
        SETBIT k 7 1            -> :1¶
        GETBIT k 7              -> :1¶
        GETBIT k 6              -> :0¶
        GETBIT k 4294967295     -> :0¶
        STRLEN k                -> :1¶
        EXPIRE k 10             -> :1¶
        SETBIT k 16 0           -> :0¶
        STRLEN k                -> :3¶
        TTL k                   -> :10¶
        SETBIT k 7 0            -> :1¶
        BITCOUNT k              -> :0¶
        SET n 12                -> +OK¶
        GETBIT n 2              -> :1¶
        SETBIT n 15 1           -> :0¶
        INCR n                  -> :14¶
        SETBIT k -1 1           -> -ERR bit offset is not an integer or out of range¶
        SETBIT k x 1            -> -ERR bit offset is not an integer or out of range¶
        SETBIT k 4294967296 2   -> -ERR bit offset is not an integer or out of range¶
        SETBIT k 9223372036854775807 1  -> -ERR bit offset is not an integer or out of range¶
        GETBIT k 4294967296     -> -ERR bit offset is not an integer or out of range¶
        SETBIT k 1 2            -> -ERR bit is not an integer or out of range¶
        SETBIT k 1 x            -> -ERR bit is not an integer or out of range¶
        SETBIT k 1              -> -ERR wrong number of arguments for 'setbit' command¶
        GETBIT k                -> -ERR wrong number of arguments for 'getbit' command¶
        ",
    );
}

#[test]
fn bitcount() {
    play(
        r#"
        BITCOUNT k              -> :0¶
        BITCOUNT k 0 -1         -> :0¶
        SET k foobar            -> +OK¶
        BITCOUNT k              -> :26¶
        BITCOUNT k 0 0          -> :4¶
        BITCOUNT k 1 1 BYTE     -> :6¶
        BITCOUNT k -2 -1        -> :7¶
        BITCOUNT k -100 -100    -> :4¶
        BITCOUNT k -99 -100     -> :0¶
        BITCOUNT k 5 30 BIT     -> :17¶
        BITCOUNT k 5 5 bit      -> :1¶
        BITCOUNT k -9 -8 bit    -> :1¶
        BITCOUNT k 100 200      -> :0¶
        BITCOUNT k 3 1          -> :0¶
        BITCOUNT k 0 9223372036854775807 -> :26¶
        SET e ""                -> +OK¶
        BITCOUNT e 0 -1         -> :0¶
        SET long "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff" -> +OK¶
        BITCOUNT long           -> :160¶
        BITCOUNT long 1 158 BIT -> :158¶
        BITCOUNT k 0            -> -ERR syntax error¶
        BITCOUNT k 0 1 BYTES    -> -ERR syntax error¶
        BITCOUNT no 0 1 BYTES   -> -ERR syntax error¶
        BITCOUNT k 0 1 BIT 2    -> -ERR syntax error¶
        BITCOUNT k 0 x          -> -ERR value is not an integer or out of range¶
        BITCOUNT k x 0          -> -ERR value is not an integer or out of range¶
        BITCOUNT                -> -ERR wrong number of arguments for 'bitcount' command¶
        "#,
    );
}

#[test]
fn bitpos() {
    play(
        r#"
        BITPOS k 0              -> :0¶
        BITPOS k 1              -> :-1¶
        BITPOS k 0 5 7          -> :0¶
        SET k "\xff\xf0\x00\x00\x00\x00\x00\x00\x00\x00\x00\x10" -> +OK¶
        BITPOS k 0              -> :12¶
        BITPOS k 1              -> :0¶
        BITPOS k 1 2            -> :91¶
        BITPOS k 1 2 10         -> :-1¶
        BITPOS k 1 -1           -> :91¶
        BITPOS k 0 0 0          -> :-1¶
        BITPOS k 1 9 95 BIT     -> :9¶
        BITPOS k 1 12 95 BIT    -> :91¶
        BITPOS k 0 0 11 BIT     -> :-1¶
        BITPOS k 0 -4 -1 bit    -> :92¶
        SET k "\xff\xff\xff"    -> +OK¶
        BITPOS k 0              -> :24¶
        BITPOS k 0 1            -> :24¶
        BITPOS k 0 0 -1         -> :-1¶
        BITPOS k 0 3            -> :-1¶
        BITPOS k 1 -99 -98      -> :0¶
        SET e ""                -> +OK¶
        BITPOS e 0              -> :-1¶
        BITPOS e 1              -> :-1¶
        BITPOS k 2              -> -ERR The bit argument must be 1 or 0.¶
        BITPOS k x              -> -ERR value is not an integer or out of range¶
        BITPOS k 1 x            -> -ERR value is not an integer or out of range¶
        BITPOS k 1 0 x          -> -ERR value is not an integer or out of range¶
        BITPOS k 1 0 1 WORD     -> -ERR syntax error¶
        BITPOS k 1 0 1 BIT 2    -> -ERR syntax error¶
        BITPOS k                -> -ERR wrong number of arguments for 'bitpos' command¶
        "#,
    );
}

#[test]
fn bitop() {
    play(
        r#"
        MSET a abcdef b abc     -> +OK¶
        BITOP AND d a b         -> :6¶
        GET d                   -> $6¶abc𝟶𝟶𝟶¶
        BITOP OR d a b          -> :6¶
        GET d                   -> $6¶abcdef¶
        BITOP xor d a b         -> :6¶
        GET d                   -> $6¶𝟶𝟶𝟶def¶
        BITOP XOR d a b b       -> :6¶
        GET d                   -> $6¶abcdef¶
        BITOP AND d no a        -> :6¶
        BITCOUNT d              -> :0¶
        SET n 12 EX 10          -> +OK¶
        BITOP NOT n n           -> :2¶
        TTL n                   -> :-1¶
        BITOP NOT n n           -> :2¶
        INCR n                  -> :13¶
        BITOP OR d d d          -> :6¶
        BITOP OR d no           -> :0¶
        EXISTS d                -> :0¶
        BITOP NOT d a b         -> -ERR BITOP NOT must be called with a single source key.¶
        BITOP NAND d a b        -> -ERR syntax error¶
        BITOP AND d             -> -ERR wrong number of arguments for 'bitop' command¶
        "#
        .replace('𝟶', "\0")
        .as_str(),
    );
}
