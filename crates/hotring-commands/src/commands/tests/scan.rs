//! SCAN and KEYS: complete, filtered, and every error.

use hotring_protocol::Version;

use crate::exec::dialogue::{Dialogue, play};

#[test]
fn nothing_and_one_key() {
    play(
        "
        SCAN 0                  -> *2¶$1¶0¶*0¶
        KEYS *                  -> *0¶
        SET user:1 v            -> +OK¶
        SCAN 0                  -> *2¶$1¶0¶*1¶$6¶user:1¶
        SCAN 0 MATCH user:*     -> *2¶$1¶0¶*1¶$6¶user:1¶
        SCAN 0 match x* COUNT 5 -> *2¶$1¶0¶*0¶
        SCAN 0 MATCH x* MATCH * -> *2¶$1¶0¶*1¶$6¶user:1¶
        SCAN 0 TYPE string      -> *2¶$1¶0¶*1¶$6¶user:1¶
        SCAN 0 type STRING      -> *2¶$1¶0¶*1¶$6¶user:1¶
        SCAN 0 TYPE hash        -> *2¶$1¶0¶*0¶
        SCAN 0 COUNT 9223372036854775807 -> *2¶$1¶0¶*1¶$6¶user:1¶
        KEYS user:?             -> *1¶$6¶user:1¶
        KEYS user:[^1]          -> *0¶
        EXPIRE user:1 1         -> :1¶
        + 1000
        SCAN 0                  -> *2¶$1¶0¶*0¶
        KEYS *                  -> *0¶
        ",
    );
}

#[test]
fn errors() {
    play(
        "
        SCAN x                  -> -ERR invalid cursor¶
        SCAN 1x                 -> -ERR invalid cursor¶
        SCAN -1                 -> -ERR invalid cursor¶
        SCAN 18446744073709551616 -> -ERR invalid cursor¶
        SCAN 0 COUNT            -> -ERR syntax error¶
        SCAN 0 COUNT 0          -> -ERR syntax error¶
        SCAN 0 COUNT -1         -> -ERR syntax error¶
        SCAN 0 COUNT x          -> -ERR value is not an integer or out of range¶
        SCAN 0 MATCH            -> -ERR syntax error¶
        SCAN 0 QQ 1             -> -ERR syntax error¶
        SCAN 0 MATCH * QQ       -> -ERR syntax error¶
        SCAN                    -> -ERR wrong number of arguments for 'scan' command¶
        KEYS                    -> -ERR wrong number of arguments for 'keys' command¶
        KEYS a b                -> -ERR wrong number of arguments for 'keys' command¶
        ",
    );
}

/// The bulk strings of a reply whose strings hold no ¶.
fn strings(reply: &str) -> Vec<String> {
    let lines: Vec<&str> = reply.split('¶').collect();
    let headers = lines.iter().enumerate().filter(|(_, line)| line.starts_with('$'));
    headers.map(|(i, _)| lines[i + 1].to_owned()).collect()
}

fn scan_all(dialogue: &mut Dialogue, options: &str) -> (Vec<String>, usize) {
    let (mut cursor, mut keys, mut n_calls) = ("0".to_owned(), Vec::new(), 0);
    loop {
        let mut page = strings(&dialogue.say(&format!("SCAN {cursor} {options}")));
        cursor = page.remove(0);
        keys.append(&mut page);
        n_calls += 1;
        // Clients read a cursor into a signed number of 64 bits, or into a double.
        assert!(
            cursor.parse::<u64>().is_ok_and(|cursor| cursor < 1 << 53),
            "{cursor} is too large"
        );
        if cursor == "0" {
            keys.sort();
            return (keys, n_calls);
        }
    }
}

#[test]
fn every_key_is_found_once() {
    let mut dialogue = Dialogue::new(Version::Resp2);
    let mut all: Vec<String> = (0..3000).map(|i| format!("key:{i}")).collect();
    all.iter().for_each(|key| assert_eq!(dialogue.say(&format!("SET {key} v")), "+OK¶"));
    all.sort();
    for options in ["", "COUNT 1", "COUNT 100", "COUNT 100000", "MATCH key:*"] {
        let (keys, n_calls) = scan_all(&mut dialogue, options);
        assert_eq!(keys, all, "{options}");
        assert_eq!(n_calls == 1, options == "COUNT 100000", "{options}: {n_calls} calls");
    }
    let some: Vec<_> = all.iter().filter(|key| key.ends_with('7')).cloned().collect();
    assert_eq!(scan_all(&mut dialogue, "MATCH *7 COUNT 50").0, some);
    let (none, n_calls) = scan_all(&mut dialogue, "TYPE list COUNT 50");
    assert!(none.is_empty() && n_calls > 10, "{none:?} in {n_calls} calls");
    let mut keys = strings(&dialogue.say("KEYS *7"));
    keys.sort();
    assert_eq!(keys, some);
}

#[test]
fn a_long_reply_ends_a_scan_early_and_loses_nothing() {
    let mut dialogue = Dialogue::new(Version::Resp2);
    for i in 0..3000 {
        assert_eq!(dialogue.say(&format!("SET {i:01500} v")), "+OK¶");
    }
    let (keys, n_calls) = scan_all(&mut dialogue, "COUNT 1000000");
    assert_eq!(keys, (0..3000).map(|i| format!("{i:01500}")).collect::<Vec<_>>());
    assert!((3..=6).contains(&n_calls), "{n_calls} calls");
    // A name that does not match must not end the scan.
    assert_eq!(scan_all(&mut dialogue, "MATCH *7 COUNT 1000000").1, 1);
}
