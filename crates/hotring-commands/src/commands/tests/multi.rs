//! MGET, MSET and MSETNX: few keys and many.

use hotring_protocol::Version;

use crate::commands::multi::LISTED_MAX;
use crate::exec::dialogue::{Dialogue, play};

#[test]
fn several_values() {
    play(
        "
        MSET a 1 b 2            -> +OK¶
        MGET a x b a            -> *4¶$1¶1¶$-1¶$1¶2¶$1¶1¶ | *4¶$1¶1¶_¶$1¶2¶$1¶1¶
        MSET a 1 a 2            -> +OK¶
        MGET a                  -> *1¶$1¶2¶
        EXPIRE a 10             -> :1¶
        MSET a 3                -> +OK¶
        TTL a                   -> :-1¶
        MSETNX c 1 b 3          -> :0¶
        MGET b c                -> *2¶$1¶2¶$-1¶ | *2¶$1¶2¶_¶
        MSETNX c 1 d 2 c 3      -> :1¶
        MGET c d                -> *2¶$1¶3¶$1¶2¶
        MGET                    -> -ERR wrong number of arguments for 'mget' command¶
        MSET a                  -> -ERR wrong number of arguments for 'mset' command¶
        MSET a 1 b              -> -ERR wrong number of arguments for 'mset' command¶
        MSETNX e 1 f            -> -ERR wrong number of arguments for 'msetnx' command¶
        EXISTS e f              -> :0¶
        ",
    );
}

#[test]
fn more_keys_than_the_stack_holds() {
    for n in [1, 2, LISTED_MAX - 1, LISTED_MAX, LISTED_MAX + 1, 5000] {
        let mut dialogue = Dialogue::new(Version::Resp2);
        let pairs: String = (0..n).map(|i| format!(" k{i} v{i}")).collect();
        let keys: String = (0..n).map(|i| format!(" k{i}")).collect();
        assert_eq!(dialogue.say(&format!("MSETNX{pairs}")), ":1¶");
        assert_eq!(dialogue.say(&format!("MSETNX{pairs}")), ":0¶");
        let values: String =
            (0..n).map(|i| format!("v{i}")).map(|v| format!("${}¶{v}¶", v.len())).collect();
        assert_eq!(dialogue.say(&format!("MGET{keys}")), format!("*{n}¶{values}"));
        assert_eq!(dialogue.say(&format!("EXISTS{keys}")), format!(":{n}¶"));
        assert_eq!(dialogue.say(&format!("DEL{keys} k0")), format!(":{n}¶"));
        assert_eq!(dialogue.say("DBSIZE"), ":0¶");
    }
}

#[test]
fn several_with_one_expiry() {
    play(
        "
        MSETEX 2 a 1 b 2 EX 10  -> :1¶
        MGET a b                -> *2¶$1¶1¶$1¶2¶
        TTL a                   -> :10¶
        TTL b                   -> :10¶
        MSETEX 2 a 3 c 3 NX     -> :0¶
        MSETEX 2 a 3 c 3 XX     -> :0¶
        EXISTS c                -> :0¶
        MSETEX 2 a 3 b 3 XX KEEPTTL  -> :1¶
        TTL b                   -> :10¶
        MSETEX 2 b 4 b 5        -> :1¶
        GET b                   -> $1¶5¶
        TTL b                   -> :-1¶
        MSETEX 1 c 1 NX PX 500  -> :1¶
        PTTL c                  -> :500¶
        MSETEX 2 b 4 c 5 EXAT 1 -> :1¶
        EXISTS b c              -> :0¶
        MSETEX a 1 b            -> -ERR invalid numkeys value¶
        MSETEX 0 a 1            -> -ERR invalid numkeys value¶
        MSETEX -1 a 1           -> -ERR invalid numkeys value¶
        MSETEX 2147483648 a 1   -> -ERR invalid numkeys value¶
        MSETEX 2147483647 a 1   -> -ERR wrong number of key-value pairs¶
        MSETEX 2 a 1 b          -> -ERR wrong number of key-value pairs¶
        MSETEX 1 a 1 b          -> -ERR syntax error¶
        MSETEX 1 a 1 NX XX      -> -ERR syntax error¶
        MSETEX 1 a 1 EX 10 PX 10  -> -ERR syntax error¶
        MSETEX 1 a 1 KEEPTTL EX 10  -> -ERR syntax error¶
        MSETEX 1 a 1 EX         -> -ERR syntax error¶
        MSETEX 1 a 1 EX 0       -> -ERR invalid expire time in 'msetex' command¶
        MSETEX 1 a 1 EX x       -> -ERR value is not an integer or out of range¶
        MSETEX 1 a              -> -ERR wrong number of arguments for 'msetex' command¶
        COMMAND GETKEYS MSETEX 2 a 1 b 2 EX 10  -> *2¶$1¶a¶$1¶b¶
        COMMAND GETKEYS MSETEX 0 a 1  -> -ERR The command has no key arguments¶
        COMMAND GETKEYS EVAL x 0      -> *0¶
        COMMAND GETKEYSANDFLAGS RENAME a b  -> *2¶*2¶$1¶a¶*3¶+RW¶+access¶+delete¶*2¶$1¶b¶*2¶+OW¶+update¶ | *2¶*2¶$1¶a¶~3¶+RW¶+access¶+delete¶*2¶$1¶b¶~2¶+OW¶+update¶
        COMMAND GETKEYSANDFLAGS PING  -> -ERR The command has no key arguments¶
        ",
    );
}
