//! LCS: every option and every error. The replies are those of Redis.

use hotring_store::Options;

use crate::exec::dialogue::{play, play_with};

#[test]
fn subsequences() {
    play(
        r"
        LCS a b                     -> $0¶¶
        LCS a b LEN                 -> :0¶
        MSET a ohmytext b mynewtext -> +OK¶
        LCS a b                     -> $6¶mytext¶
        LCS a b len                 -> :6¶
        LCS a b IDX                 -> *4¶$7¶matches¶*2¶*2¶*2¶:4¶:7¶*2¶:5¶:8¶*2¶*2¶:2¶:3¶*2¶:0¶:1¶$3¶len¶:6¶ | %2¶$7¶matches¶*2¶*2¶*2¶:4¶:7¶*2¶:5¶:8¶*2¶*2¶:2¶:3¶*2¶:0¶:1¶$3¶len¶:6¶
        LCS a b IDX MINMATCHLEN 4 WITHMATCHLEN -> *4¶$7¶matches¶*1¶*3¶*2¶:4¶:7¶*2¶:5¶:8¶:4¶$3¶len¶:6¶ | %2¶$7¶matches¶*1¶*3¶*2¶:4¶:7¶*2¶:5¶:8¶:4¶$3¶len¶:6¶
        LCS a b IDX MINMATCHLEN -4 MINMATCHLEN 9 -> *4¶$7¶matches¶*0¶$3¶len¶:6¶ | %2¶$7¶matches¶*0¶$3¶len¶:6¶
        LCS a b IDX MINMATCHLEN -1 -> *4¶$7¶matches¶*2¶*2¶*2¶:4¶:7¶*2¶:5¶:8¶*2¶*2¶:2¶:3¶*2¶:0¶:1¶$3¶len¶:6¶ | %2¶$7¶matches¶*2¶*2¶*2¶:4¶:7¶*2¶:5¶:8¶*2¶*2¶:2¶:3¶*2¶:0¶:1¶$3¶len¶:6¶
        LCS a none                  -> $0¶¶
        LCS a b LEN IDX             -> -ERR If you want both the length and indexes, please just use IDX.¶
        LCS a b MINMATCHLEN         -> -ERR syntax error¶
        LCS a b MINMATCHLEN x       -> -ERR value is not an integer or out of range¶
        LCS a b NONE                -> -ERR syntax error¶
        HSET h f v                  -> :1¶
        LCS a h NONE                -> -ERR The specified keys must contain string values¶
        LCS h a                     -> -ERR The specified keys must contain string values¶
        LCS a                       -> -ERR wrong number of arguments for 'lcs' command¶
        ",
    );
}

#[test]
fn of_several_the_one_that_redis_chooses() {
    play(
        r"
        MSET x ab y ba z axbyc w byaxc -> +OK¶
        LCS x y -> $1¶b¶
        LCS y x -> $1¶a¶
        LCS z w -> $3¶byc¶
        LCS w z -> $3¶axc¶
        LCS x y IDX MINMATCHLEN 0 -> *4¶$7¶matches¶*1¶*2¶*2¶:1¶:1¶*2¶:0¶:0¶$3¶len¶:1¶ | %2¶$7¶matches¶*1¶*2¶*2¶:1¶:1¶*2¶:0¶:0¶$3¶len¶:1¶
        LCS z w IDX WITHMATCHLEN -> *4¶$7¶matches¶*2¶*3¶*2¶:4¶:4¶*2¶:4¶:4¶:1¶*3¶*2¶:2¶:3¶*2¶:0¶:1¶:2¶$3¶len¶:3¶ | %2¶$7¶matches¶*2¶*3¶*2¶:4¶:4¶*2¶:4¶:4¶:1¶*3¶*2¶:2¶:3¶*2¶:0¶:1¶:2¶$3¶len¶:3¶
        LCS x x IDX -> *4¶$7¶matches¶*1¶*2¶*2¶:0¶:1¶*2¶:0¶:1¶$3¶len¶:2¶ | %2¶$7¶matches¶*1¶*2¶*2¶:0¶:1¶*2¶:0¶:1¶$3¶len¶:2¶
        LCS x x IDX MINMATCHLEN 2 -> *4¶$7¶matches¶*1¶*2¶*2¶:0¶:1¶*2¶:0¶:1¶$3¶len¶:2¶ | %2¶$7¶matches¶*1¶*2¶*2¶:0¶:1¶*2¶:0¶:1¶$3¶len¶:2¶
        LCS x x IDX MINMATCHLEN 3 -> *4¶$7¶matches¶*0¶$3¶len¶:2¶ | %2¶$7¶matches¶*0¶$3¶len¶:2¶
        LCS z z -> $5¶axbyc¶
        ",
    );
}

/// The table of lengths takes four bytes for each pair of ends.
#[test]
fn the_table_is_at_most_as_long_as_a_value() {
    let options = Options { value_len_max: 100, ..Options::default() };
    play_with(
        &options,
        r"
        MSET a abcd b dbca c abcde              -> +OK¶
        LCS a b LEN                             -> :2¶
        LCS a c                                 -> -ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len¶
        LCS c a LEN                             -> -ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len¶
        ",
    );
}
