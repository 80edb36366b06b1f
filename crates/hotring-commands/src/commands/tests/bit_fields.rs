//! BITFIELD and BITFIELD_RO: every type, every way to overflow, every error. The replies are those of Redis.

use hotring_store::Options;

use crate::exec::dialogue::{play, play_with};

#[test]
fn fields_are_read_and_written() {
    play(
        r"
        BITFIELD k                              -> *0¶
        EXISTS k                                -> :0¶
        BITFIELD k GET u8 0                     -> *1¶:0¶
        EXISTS k                                -> :0¶
        BITFIELD k SET i8 0 -1 GET u4 2 GET i4 2 -> *3¶:0¶:15¶:-1¶
        BITFIELD k SET u8 #1 200 GET i8 #1 GET u16 0 -> *3¶:0¶:-56¶:65480¶
        BITFIELD k INCRBY i64 3 -1 GET i64 3    -> *2¶:-126100789566373889¶:-126100789566373889¶
        STRLEN k                                -> :9¶
        BITFIELD_RO k GET u1 0 GET u63 1        -> *2¶:1¶:9207609438158979071¶
        BITFIELD_RO k SET u1 0 1                -> -ERR BITFIELD_RO only supports the GET subcommand¶
        HSET h f v                              -> :1¶
        BITFIELD h GET u1 0                     -> -WRONGTYPE Operation against a key holding the wrong kind of value¶
        BITFIELD h SET u1 0 1                   -> -WRONGTYPE Operation against a key holding the wrong kind of value¶
        ",
    );
}

#[test]
fn overflows() {
    play(
        r"
        BITFIELD k SET u2 0 4 OVERFLOW SAT SET u2 0 4 SET u2 0 -1 SET i2 2 -9 GET i2 2 -> *5¶:0¶:0¶:3¶:0¶:-2¶
        BITFIELD k OVERFLOW FAIL INCRBY u2 0 1 INCRBY i2 2 -1 SET u2 0 9 -> *3¶$-1¶$-1¶$-1¶ | *3¶_¶_¶_¶
        BITFIELD k OVERFLOW wrap INCRBY u2 0 1 INCRBY i2 2 -1 -> *2¶:0¶:1¶
        BITFIELD k OVERFLOW SAT INCRBY u2 0 -1 INCRBY i2 2 7 -> *2¶:0¶:1¶
        BITFIELD m OVERFLOW SAT SET i64 0 9223372036854775807 INCRBY i64 0 1 -> *2¶:0¶:9223372036854775807¶
        BITFIELD m OVERFLOW WRAP INCRBY i64 0 1 -> *1¶:-9223372036854775808¶
        BITFIELD n OVERFLOW FAIL SET u1 31 2    -> *1¶$-1¶ | *1¶_¶
        STRLEN n                                -> :4¶
        ",
    );
}

#[test]
fn errors() {
    let invalid = "-ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.¶";
    for encoding in ["u64", "i65", "u0", "i0", "x8", "u", "8", "u-1", "I8"] {
        play(&format!("BITFIELD k GET {encoding} 0 -> {invalid}\n"));
    }
    play(
        r"
        BITFIELD k GET u8                       -> -ERR syntax error¶
        BITFIELD k SET u8 0                     -> -ERR syntax error¶
        BITFIELD k NONE u8 0                    -> -ERR syntax error¶
        BITFIELD k OVERFLOW                     -> -ERR syntax error¶
        BITFIELD k OVERFLOW none GET u8         -> -ERR Invalid OVERFLOW type specified¶
        BITFIELD k SET u8 0 x                   -> -ERR value is not an integer or out of range¶
        BITFIELD k GET u8 -1                    -> -ERR bit offset is not an integer or out of range¶
        BITFIELD k GET u8 #                     -> -ERR bit offset is not an integer or out of range¶
        BITFIELD k GET u8 #x                    -> -ERR bit offset is not an integer or out of range¶
        BITFIELD k GET u8 4294967296            -> -ERR bit offset is not an integer or out of range¶
        BITFIELD k GET u8 #536870912            -> -ERR bit offset is not an integer or out of range¶
        BITFIELD                                -> -ERR wrong number of arguments for 'bitfield' command¶
        ",
    );
}

#[test]
fn fields_side_by_side_and_far_apart() {
    play(
        r"
        BITFIELD a SET u8 0 1 SET u8 800 2 GET u8 0 GET u8 400 GET u8 800 -> *5¶:0¶:0¶:1¶:0¶:2¶
        BITCOUNT a -> :2¶
        STRLEN a -> :101¶
        BITFIELD b SET u8 100 0 SET u8 0 1 GET u8 1000 -> *3¶:0¶:0¶:0¶
        STRLEN b -> :14¶
        BITFIELD c SET u8 0 255 OVERFLOW SAT INCRBY u8 0 1 OVERFLOW FAIL SET i8 0 127 SET i8 0 128 SET i8 0 -129 SET i8 0 -128 -> *6¶:0¶:255¶:-1¶$-1¶$-1¶:127¶ | *6¶:0¶:255¶:-1¶_¶_¶:127¶
        BITFIELD c OVERFLOW SAT SET i8 0 128 SET i8 0 -129 GET i8 0 -> *3¶:-128¶:127¶:-128¶
        BITFIELD c OVERFLOW FAIL SET u8 0 256 SET u8 0 255 GET u8 0 -> *3¶$-1¶:128¶:255¶ | *3¶_¶:128¶:255¶
        BITFIELD d SET u8 4 255 GET u16 0 -> *2¶:0¶:4080¶
        BITFIELD d SET u8 #3 7 GET u8 24 -> *2¶:0¶:7¶
        ",
    );
}

/// Only results longer than a value are refused; a result of exactly the limit is stored.
#[test]
fn fields_reach_up_to_the_longest_value() {
    let options = Options { value_len_max: 16, ..Options::default() };
    play_with(
        &options,
        r"
        BITFIELD k SET u8 120 1                 -> *1¶:0¶
        STRLEN k                                -> :16¶
        BITFIELD l SET u8 121 1                 -> -ERR string exceeds maximum allowed size (proto-max-bulk-len)¶
        BITFIELD l GET u8 127                   -> *1¶:0¶
        BITFIELD l GET u8 128                   -> -ERR bit offset is not an integer or out of range¶
        EXISTS l                                -> :0¶
        HSET h f v                              -> :1¶
        BITFIELD h SET u8 121 1                 -> -WRONGTYPE Operation against a key holding the wrong kind of value¶
        ",
    );
}
