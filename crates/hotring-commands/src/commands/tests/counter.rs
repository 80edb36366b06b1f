//! INCREX: bounds, expiries, and every error. The expected replies are those of Redis 8.8.

use crate::exec::dialogue::play;

#[test]
fn integers_within_bounds() {
    play(
        "
        INCREX k                -> *2¶:1¶:1¶
        INCREX k BYINT 10       -> *2¶:11¶:10¶
        INCREX k BYINT -5 UBOUND 20  -> *2¶:6¶:-5¶
        INCREX k BYINT 10 UBOUND 15  -> *2¶:6¶:0¶
        INCREX k BYINT 10 UBOUND 15 SATURATE  -> *2¶:15¶:9¶
        INCREX k BYINT -20 LBOUND 0  -> *2¶:15¶:0¶
        INCREX k BYINT -20 LBOUND 0 UBOUND 9 SATURATE  -> *2¶:0¶:-15¶
        GET k                   -> $1¶0¶
        INCREX new BYINT 5 LBOUND 10  -> *2¶:0¶:0¶
        EXISTS new              -> :0¶
        SET k 50                -> +OK¶
        INCREX k BYINT 5 UBOUND 30  -> *2¶:50¶:0¶
        INCREX k BYINT -25 UBOUND 30  -> *2¶:25¶:-25¶
        SET k 50                -> +OK¶
        INCREX k BYINT 5 UBOUND 30 SATURATE  -> *2¶:30¶:-20¶
        SET k 9223372036854775800  -> +OK¶
        INCREX k BYINT 10       -> *2¶:9223372036854775800¶:0¶
        INCREX k BYINT 10 SATURATE  -> *2¶:9223372036854775807¶:7¶
        INCREX k BYINT 1 SATURATE UBOUND -9223372036854775808  -> -ERR applied increment would overflow¶
        GET k                   -> $19¶9223372036854775807¶
        SET k 1.5               -> +OK¶
        INCREX k                -> -ERR value is not an integer or out of range¶
        ",
    );
}

#[test]
fn fractions_within_bounds() {
    play(
        "
        INCREX k BYFLOAT 1.5    -> *2¶$3¶1.5¶$3¶1.5¶ | *2¶,1.5¶,1.5¶
        INCREX k BYFLOAT 0.1    -> *2¶$3¶1.6¶$3¶0.1¶ | *2¶,1.6¶,0.1¶
        INCREX k BYFLOAT 100 UBOUND 42.5  -> *2¶$3¶1.6¶$1¶0¶ | *2¶,1.6¶,0¶
        INCREX k BYFLOAT 100 UBOUND 42.5 SATURATE  -> *2¶$4¶42.5¶$4¶40.9¶ | *2¶,42.5¶,40.9¶
        INCREX k BYFLOAT -100 LBOUND -inf UBOUND inf  -> *2¶$5¶-57.5¶$4¶-100¶ | *2¶,-57.5¶,-100¶
        GET k                   -> $5¶-57.5¶
        INCREX k BYFLOAT 1 LBOUND inf SATURATE  -> -ERR applied increment would be Infinity¶
        SET k inf               -> +OK¶
        INCREX k BYFLOAT 1      -> -ERR value cannot be Infinity¶
        INCREX k BYFLOAT inf    -> -ERR BYFLOAT increment cannot be Infinity¶
        INCREX k BYFLOAT x      -> -ERR Increment is not a valid float¶
        SET k text              -> +OK¶
        INCREX k BYFLOAT 1      -> -ERR value is not a valid float¶
        ",
    );
}

#[test]
fn expiry() {
    play(
        "
        INCREX k EX 10          -> *2¶:1¶:1¶
        TTL k                   -> :10¶
        INCREX k                -> *2¶:2¶:1¶
        TTL k                   -> :10¶
        INCREX k EX 100 ENX     -> *2¶:3¶:1¶
        TTL k                   -> :10¶
        INCREX k PX 5000 UBOUND 3  -> *2¶:3¶:0¶
        TTL k                   -> :10¶
        INCREX k PERSIST UBOUND 3  -> *2¶:3¶:0¶
        TTL k                   -> :10¶
        INCREX k PERSIST        -> *2¶:4¶:1¶
        TTL k                   -> :-1¶
        INCREX k ENX PX 5000    -> *2¶:5¶:1¶
        PTTL k                  -> :5000¶
        INCREX k EXAT 1 ENX     -> *2¶:6¶:1¶
        INCREX k EXAT 1         -> *2¶:7¶:1¶
        EXISTS k                -> :0¶
        INCREX k BYINT 7 EX 10 ENX  -> *2¶:7¶:7¶
        + 10000
        INCREX k PXAT 1700000020000  -> *2¶:1¶:1¶
        PTTL k                  -> :10000¶
        ",
    );
}

#[test]
fn mistakes() {
    play(
        "
        INCREX                  -> -ERR wrong number of arguments for 'increx' command¶
        INCREX k FOO            -> -ERR syntax error¶
        INCREX k BYINT          -> -ERR syntax error¶
        INCREX k BYINT 1 BYINT 2  -> -ERR syntax error¶
        INCREX k BYINT 1 BYFLOAT 2  -> -ERR syntax error¶
        INCREX k LBOUND 1 LBOUND 2  -> -ERR syntax error¶
        INCREX k UBOUND         -> -ERR syntax error¶
        INCREX k SATURATE SATURATE  -> -ERR syntax error¶
        INCREX k EX 10 EX 20    -> -ERR syntax error¶
        INCREX k EX 10 PX 20    -> -ERR syntax error¶
        INCREX k EX 10 PERSIST  -> -ERR syntax error¶
        INCREX k PERSIST ENX    -> -ERR syntax error¶
        INCREX k ENX ENX EX 10  -> -ERR syntax error¶
        INCREX k ENX            -> -ERR ENX flag requires an expiration¶
        INCREX k EX 0           -> -ERR invalid expire time in 'increx' command¶
        INCREX k EX x           -> -ERR value is not an integer or out of range¶
        INCREX k BYINT x        -> -ERR Increment is not an integer or out of range¶
        INCREX k LBOUND 1.5     -> -ERR LBOUND is not an integer or out of range¶
        INCREX k UBOUND inf     -> -ERR UBOUND is not an integer or out of range¶
        INCREX k BYFLOAT 1 UBOUND x  -> -ERR UBOUND is not a valid float¶
        INCREX k LBOUND 10 UBOUND 5  -> -ERR LBOUND can't be greater than UBOUND¶
        INCREX k BYFLOAT 1 LBOUND 1.2 UBOUND 1.1  -> -ERR LBOUND can't be greater than UBOUND¶
        EXISTS k                -> :0¶
        ",
    );
}
