//! DUMP and RESTORE: every option and every error. Payloads are those of Redis 7.0.

use hotring_protocol::Version;

use crate::exec::dialogue::{Dialogue, play};

#[test]
fn restore() {
    play(
        r#"
        DUMP k                  -> $-1¶ | _¶
        RESTORE k 0 "\x00\xc0\x0c\n\x00<*\xf8Q\\\x04\xbc\xd5" -> +OK¶
        INCR k                  -> :13¶
        RESTORE k 0 "\x00\xc0\x0c\n\x00<*\xf8Q\\\x04\xbc\xd5" -> -BUSYKEY Target key name already exists.¶
        RESTORE k x x           -> -BUSYKEY Target key name already exists.¶
        RESTORE k 5000 "\x00\xc0\x0c\n\x00<*\xf8Q\\\x04\xbc\xd5" replace -> +OK¶
        GET k                   -> $2¶12¶
        PTTL k                  -> :5000¶
        RESTORE k 1700000009000 "\x00\xc0\x0c\n\x00<*\xf8Q\\\x04\xbc\xd5" REPLACE ABSTTL IDLETIME 5 -> +OK¶
        PTTL k                  -> :9000¶
        RESTORE k 1 "\x00\xc0\x0c\n\x00<*\xf8Q\\\x04\xbc\xd5" REPLACE ABSTTL FREQ 5 -> +OK¶
        EXISTS k                -> :0¶
        RESTORE h 0 "\x10\x17\x17\x00\x00\x00\x04\x00\x81a\x02\x01\x01\x82bb\x03\x85hello\x06\xff\n\x00\xc4\xf7\xcft@y\bX" -> +OK¶
        HVALS h                 -> *2¶$1¶1¶$5¶hello¶
        RESTORE z 0 xx          -> -ERR DUMP payload version or checksum are wrong¶
        RESTORE z x xx          -> -ERR value is not an integer or out of range¶
        RESTORE z -1 xx         -> -ERR Invalid TTL value, must be >= 0¶
        RESTORE z 0 xx BAD      -> -ERR syntax error¶
        RESTORE z 0 xx IDLETIME -> -ERR syntax error¶
        RESTORE z 0 xx IDLETIME x  -> -ERR value is not an integer or out of range¶
        RESTORE z 0 xx IDLETIME -1  -> -ERR Invalid IDLETIME value, must be >= 0¶
        RESTORE z 0 xx FREQ 256 -> -ERR Invalid FREQ value, must be >= 0 and <= 255¶
        RESTORE z 0 xx FREQ 1 IDLETIME 1  -> -ERR syntax error¶
        RESTORE z 0             -> -ERR wrong number of arguments for 'restore' command¶
        EXISTS z                -> :0¶
        "#,
    );
}

#[test]
fn a_dump_restores() {
    let mut dialogue = Dialogue::new(Version::Resp2);
    dialogue.say("SET k \"a string that is longer than a word\"");
    dialogue.say("HSET h f 1 g \"\"");
    for key in ["k", "h"] {
        let reply = dialogue.ask(format!("DUMP {key}\r\n").as_bytes());
        let start = reply.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        let payload = &reply[start..reply.len() - 2];
        let mut request =
            format!("*4\r\n$7\r\nRESTORE\r\n$2\r\nr{key}\r\n$1\r\n0\r\n${}\r\n", payload.len())
                .into_bytes();
        request.extend_from_slice(payload);
        request.extend_from_slice(b"\r\n");
        assert_eq!(dialogue.ask(&request), b"+OK\r\n");
    }
    assert_eq!(dialogue.say("GET rk"), dialogue.say("GET k"));
    assert_eq!(dialogue.say("HGETALL rh"), "*4¶$1¶f¶$1¶1¶$1¶g¶$0¶¶");
}

/// Regression test: IDLETIME and FREQ were ignored, so that a restored key counted as just used.
#[test]
fn a_copy_keeps_the_known_accesses() {
    const NOW: u64 = 1_700_000_000_000;
    const PAYLOAD: &str = r#""\x00\xc0\x0c\n\x00<*\xf8Q\\\x04\xbc\xd5""#;
    let mut dialogue = Dialogue::new(Version::Resp2);
    dialogue.server().store.date_accesses(NOW);
    let mut restored = |options: &str, asked: &str| {
        dialogue.say(&format!("RESTORE k 0 {PAYLOAD} REPLACE {options}"));
        let told = dialogue.say(&format!("OBJECT {asked} k"));
        told.trim_matches([':', '¶']).parse::<u64>().expect("a number")
    };
    assert_eq!(restored("", "IDLETIME"), 0);
    for seconds in [600, 3_600, 86_400] {
        let told = restored(&format!("IDLETIME {seconds}"), "IDLETIME");
        assert!(told <= seconds && told + 30 >= seconds - seconds / 3, "{told} of {seconds}");
    }
    // A frequency says nothing about the idle time.
    assert_eq!(restored("FREQ 9", "IDLETIME"), 0);
    let mut dialogue = Dialogue::new(Version::Resp2);
    dialogue.say("CONFIG SET maxmemory-policy allkeys-lfu maxmemory 1gb");
    let mut freq = |options: &str| {
        dialogue.say(&format!("RESTORE k 0 {PAYLOAD} REPLACE {options}"));
        dialogue.say("OBJECT FREQ k")
    };
    assert_eq!([freq("FREQ 0"), freq("FREQ 77"), freq("FREQ 255")], [":0¶", ":77¶", ":255¶"]);
    assert_eq!(freq("IDLETIME 1000"), freq(""));
    // All ticks have dates: an idle time is at most the age of the oldest tick.
    dialogue.say("CONFIG SET maxmemory-policy allkeys-lru");
    dialogue.say("DEL k");
    let server = dialogue.server();
    (0..10).for_each(|i| {
        server.observe.ages.note(|| 247u8.wrapping_add(i), NOW - 100_000 + u64::from(i) * 10_000);
    });
    let told = |dialogue: &mut Dialogue, seconds: u64| {
        dialogue.say(&format!("RESTORE k 0 {PAYLOAD} REPLACE IDLETIME {seconds}"));
        dialogue.say("OBJECT IDLETIME k")
    };
    assert_eq!(told(&mut dialogue, 55), ":50¶");
    assert_eq!(told(&mut dialogue, 1_000_000), ":100¶");
}
