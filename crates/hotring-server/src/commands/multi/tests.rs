//! MGET, MSET and MSETNX: few keys and many.

use hotring_protocol::Version;

use super::LISTED_MAX;
use crate::commands::string::dialogue::{Dialogue, play};

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
