//! LCS: every option and every error. The replies are those of Redis.

use crate::exec::dialogue::play;

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
