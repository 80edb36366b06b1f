//! GETRANGE, SUBSTR and SETRANGE: every place inside and outside of the value.

use crate::exec::dialogue::play;

#[test]
fn getrange() {
    play(
        "
        GETRANGE k 0 -1         -> $0¶¶
        SET k 0123456789        -> +OK¶
        GETRANGE k 0 3          -> $4¶0123¶
        GETRANGE k 0 0          -> $1¶0¶
        GETRANGE k -3 -1        -> $3¶789¶
        GETRANGE k 8 100        -> $2¶89¶
        GETRANGE k -100 1       -> $2¶01¶
        GETRANGE k -100 -100    -> $1¶0¶
        GETRANGE k 5 3          -> $0¶¶
        GETRANGE k 10 20        -> $0¶¶
        GETRANGE k -1 -5        -> $0¶¶
        GETRANGE k -9223372036854775808 9223372036854775807 -> $10¶0123456789¶
        SUBSTR k 1 2            -> $2¶12¶
        SET n -12345            -> +OK¶
        GETRANGE n 0 1          -> $2¶-1¶
        GETRANGE k x 1          -> -ERR value is not an integer or out of range¶
        GETRANGE k 1 x          -> -ERR value is not an integer or out of range¶
        GETRANGE k 1            -> -ERR wrong number of arguments for 'getrange' command¶
        SUBSTR k 1              -> -ERR wrong number of arguments for 'substr' command¶
        ",
    );
}

#[test]
fn setrange() {
    play(
        r#"
        SETRANGE k 0 ""         -> :0¶
        SETRANGE k 5 ""         -> :0¶
        EXISTS k                -> :0¶
        SETRANGE k 2 ab         -> :4¶
        SETRANGE k 0 xy         -> :4¶
        GET k                   -> $4¶xyab¶
        SETRANGE k 3 zzz        -> :6¶
        GET k                   -> $6¶xyazzz¶
        SETRANGE k 99 ""        -> :6¶
        EXPIRE k 10             -> :1¶
        SETRANGE k 1 _          -> :6¶
        TTL k                   -> :10¶
        SET n 100               -> +OK¶
        SETRANGE n 1 23         -> :3¶
        INCR n                  -> :124¶
        SETRANGE k -1 x         -> -ERR offset is out of range¶
        SETRANGE k x x          -> -ERR value is not an integer or out of range¶
        SETRANGE k 536870912 x  -> -ERR string exceeds maximum allowed size (proto-max-bulk-len)¶
        SETRANGE k 1            -> -ERR wrong number of arguments for 'setrange' command¶
        "#,
    );
}
