//! HISTORY and ROLLBACK: every option and every error, with and without a history.

use hotring_protocol::Version;
use hotring_store::Options;

use crate::exec::dialogue::{Dialogue, play, play_with};
use crate::state::client::Closing;

fn keeping(history: usize) -> Options {
    Options { history, ..Options::default() }
}

#[test]
fn earlier_values_are_listed_newest_first() {
    play_with(
        &keeping(2),
        "
        HISTORY k               -> *-1¶ | _¶
        SET k 1                 -> +OK¶
        HISTORY k               -> *0¶
        + 5
        INCR k                  -> :2¶
        HISTORY k               -> *1¶*3¶:1¶:1700000000005¶$1¶1¶
        + 5
        APPEND k x              -> :2¶
        EXPIRE k 100            -> :1¶
        HISTORY k               -> *2¶*3¶:2¶:1700000000010¶$1¶2¶*3¶:1¶:1700000000005¶$1¶1¶
        HISTORY k COUNT 1       -> *1¶*3¶:2¶:1700000000010¶$1¶2¶
        history k count 9       -> *2¶*3¶:2¶:1700000000010¶$1¶2¶*3¶:1¶:1700000000005¶$1¶1¶
        SET k y                 -> +OK¶
        HISTORY k               -> *2¶*3¶:3¶:1700000000010¶$2¶2x¶*3¶:2¶:1700000000010¶$1¶2¶
        GET k                   -> $1¶y¶
        STRLEN k                -> :1¶
        DEL k                   -> :1¶
        SET k 1                 -> +OK¶
        HISTORY k               -> *0¶
        HISTORY k COUNT 0       -> -ERR COUNT should be greater than 0¶
        HISTORY k COUNT -1      -> -ERR COUNT should be greater than 0¶
        HISTORY k COUNT x       -> -ERR value is not an integer or out of range¶
        HISTORY k COUNT         -> -ERR syntax error¶
        HISTORY k 1             -> -ERR syntax error¶
        HISTORY k LIMIT 1       -> -ERR syntax error¶
        HISTORY k COUNT 1 2     -> -ERR syntax error¶
        HISTORY                 -> -ERR wrong number of arguments for 'history' command¶
        ",
    );
}

#[test]
fn an_earlier_value_comes_back() {
    play_with(
        &keeping(3),
        "
        ROLLBACK k 1            -> $-1¶ | _¶
        SET k 1                 -> +OK¶
        SET k two               -> +OK¶
        ROLLBACK k 2            -> $-1¶ | _¶
        ROLLBACK k 1            -> +OK¶
        GET k                   -> $1¶1¶
        INCR k                  -> :2¶
        HISTORY k COUNT 2       -> *2¶*3¶:3¶:1700000000000¶$1¶1¶*3¶:2¶:1700000000000¶$3¶two¶
        ROLLBACK k 0            -> $-1¶ | _¶
        ROLLBACK k -1           -> $-1¶ | _¶
        ROLLBACK k x            -> -ERR value is not an integer or out of range¶
        ROLLBACK k              -> -ERR wrong number of arguments for 'rollback' command¶
        ",
    );
}

#[test]
fn without_a_history_nothing_is_kept_and_the_error_says_so() {
    play(
        "
        HISTORY k               -> *-1¶ | _¶
        SET k 1                 -> +OK¶
        SET k 2                 -> +OK¶
        HISTORY k               -> *0¶
        ROLLBACK k 1            -> -ERR no earlier values are kept; set 'history' to the number of values to keep¶
        ",
    );
    let mut dialogue = Dialogue::new(Version::Resp2);
    let info = dialogue.say("INFO memory");
    assert!(info.contains("¶history_enabled:0¶history_values_per_key:0¶"), "{info}");
}

#[test]
fn a_history_that_is_longer_than_a_reply_may_be_is_not_built() {
    let mut dialogue = Dialogue::with(Version::Resp2, keeping(16));
    for i in 0..17 {
        assert_eq!(dialogue.say(&format!("SET k {i}{}", "v".repeat(10_000))), "+OK¶");
    }
    assert!(dialogue.say("HISTORY k").len() > 160_000);
    assert_eq!(dialogue.say("CONFIG SET output-buffer-hard-limit 50k"), "+OK¶");
    assert_eq!(dialogue.say("HISTORY k"), "");
    assert_eq!(dialogue.closing(), Some(Closing::OutputLimit));
}
