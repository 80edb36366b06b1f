//! INCR and its variants: every error.

use crate::exec::dialogue::play;

#[test]
fn integers() {
    play(
        "
        INCR n                  -> :1¶
        INCR n                  -> :2¶
        INCRBY n 40             -> :42¶
        DECR n                  -> :41¶
        DECRBY n 50             -> :-9¶
        INCRBY n -1             -> :-10¶
        DECRBY n -10            -> :0¶
        GET n                   -> $1¶0¶
        DECR m                  -> :-1¶
        EXPIRE n 10             -> :1¶
        INCR n                  -> :1¶
        TTL n                   -> :10¶
        + 10000
        INCR n                  -> :1¶
        TTL n                   -> :-1¶
        ",
    );
}

#[test]
fn other_values_than_integers_are_refused_and_kept() {
    for value in ["text", "", "1.0", " 1", "1 ", "+1", "01", "-0", "9223372036854775808"] {
        play(&format!(
            "
            SET k '{value}'     -> +OK¶
            INCR k              -> -ERR value is not an integer or out of range¶
            DECRBY k 3          -> -ERR value is not an integer or out of range¶
            INCRBY n '{value}'  -> -ERR value is not an integer or out of range¶
            DECRBY n '{value}'  -> -ERR value is not an integer or out of range¶
            STRLEN k            -> :{}¶
            EXISTS n            -> :0¶
            ",
            value.len()
        ));
    }
}

#[test]
fn sums_that_64_bits_do_not_hold_are_refused() {
    play(
        "
        SET max 9223372036854775807   -> +OK¶
        INCR max                -> -ERR increment or decrement would overflow¶
        INCRBY max 1            -> -ERR increment or decrement would overflow¶
        DECRBY max -1           -> -ERR increment or decrement would overflow¶
        GET max                 -> $19¶9223372036854775807¶
        SET min -9223372036854775808  -> +OK¶
        DECR min                -> -ERR increment or decrement would overflow¶
        INCRBY min -1           -> -ERR increment or decrement would overflow¶
        INCRBY min 9223372036854775807 -> :-1¶
        DECRBY n -9223372036854775808 -> -ERR decrement would overflow¶
        INCRBY n -9223372036854775808 -> :-9223372036854775808¶
        INCRBY n                -> -ERR wrong number of arguments for 'incrby' command¶
        ",
    );
}

#[test]
fn fractions() {
    play(
        "
        INCRBYFLOAT f 10.50     -> $4¶10.5¶
        INCRBYFLOAT f 0.1       -> $4¶10.6¶
        INCRBYFLOAT f -5        -> $3¶5.6¶
        INCRBYFLOAT f 5.0e3     -> $6¶5005.6¶
        EXPIRE f 10             -> :1¶
        INCRBYFLOAT f -.6       -> $4¶5005¶
        TTL f                   -> :10¶
        INCR f                  -> :5006¶
        SET f 3.0               -> +OK¶
        INCRBYFLOAT f 0         -> $1¶3¶
        SET f 0.1               -> +OK¶
        INCRBYFLOAT f 0.2       -> $3¶0.3¶
        INCRBYFLOAT f x         -> -ERR value is not a valid float¶
        INCRBYFLOAT f ''        -> -ERR value is not a valid float¶
        INCRBYFLOAT f ' 1'      -> -ERR value is not a valid float¶
        INCRBYFLOAT f nan       -> -ERR value is not a valid float¶
        INCRBYFLOAT f inf       -> -ERR increment would produce NaN or Infinity¶
        INCRBYFLOAT f -Infinity -> -ERR increment would produce NaN or Infinity¶
        SET t text              -> +OK¶
        INCRBYFLOAT t 1         -> -ERR value is not a valid float¶
        GET f                   -> $3¶0.3¶
        ",
    );
}
