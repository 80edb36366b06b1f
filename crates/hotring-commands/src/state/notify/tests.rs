//! Tests of the setting, and of the events of each command as a client receives them that subscribes to its own.

use hotring_log::Effect;
use hotring_protocol::Version;
use hotring_store::Origin;

use crate::exec::dialogue::Dialogue;
use crate::settings::config::Notify;

#[test]
fn the_setting_is_read_and_written_as_by_redis() {
    for (text, written) in [
        ("", ""),
        ("KEA", "AKE"),
        ("AKE", "AKE"),
        ("KEg$lszhexdt", "AKE"),
        ("xgKn", "gxnK"),
        ("g", "g"),
        ("Kx", "xK"),
        ("KEAn", "AnKE"),
    ] {
        assert_eq!(Notify::parse(text).unwrap().text(), written, "{text}");
        assert_eq!(Notify::parse(written), Notify::parse(text));
    }
    assert!(Notify::parse("Kq").unwrap_err().starts_with("Invalid event class character."));
    assert!(Notify::parse("Km").is_err());
    for (text, on) in [("", false), ("K", false), ("KE", false), ("gx", false), ("Kg", true)] {
        assert_eq!(Notify::parse(text).unwrap().is_on(), on, "{text}");
    }
}

/// The events behind the reply to a line, as `event key`.
fn events(dialogue: &mut Dialogue, line: &str) -> String {
    let reply = dialogue.say(line);
    let told = reply.split(">4¶$8¶pmessage¶$14¶__keyevent@0_*").skip(1);
    let told = told.map(|message| {
        let parts: Vec<_> = message.trim_end_matches('¶').split('¶').collect();
        format!("{} {}", parts[2].trim_start_matches("__keyevent@0__:"), parts[4])
    });
    told.collect::<Vec<_>>().join(", ")
}

/// A replica applies records, not commands, so the type of the value names the event.
#[test]
fn events_of_applied_records_are_named_by_the_type_of_the_value() {
    let mut dialogue = Dialogue::new(Version::Resp3);
    dialogue.say("CONFIG SET notify-keyspace-events EAn\r\nPSUBSCRIBE __keyevent@0_*");
    let server = dialogue.server();
    let mut store = server.store.session();
    store.act(Origin { records_changes: true, ..Origin::default() });
    let put = |key, value, expire_at| Effect::Put { key, form: 0, expire_at, value };
    let records = [
        put(b"s", b"a string", None),
        put(b"s", b"another one", Some(33_000_000_000_000)),
        Effect::Expire { key: b"s", expire_at: None },
        Effect::Remove { key: b"s" },
        put(b"t", b"a string", None),
    ];
    for record in &records {
        store.replay(record, 1).expect("a known form");
    }
    store.hash_set(b"h", &[(b"f", b"v")], 1).expect("room");
    super::tell_applied(&mut store, &server, &server.settings.config());
    let told = events(&mut dialogue, "PING");
    assert_eq!(told, "new s, expire s, persist s, del s, new t, set t, new h, hset h");
}

#[test]
fn each_change_has_the_name_that_redis_gives_it() {
    let mut dialogue = Dialogue::new(Version::Resp3);
    dialogue.say("CONFIG SET notify-keyspace-events EAn\r\nPSUBSCRIBE __keyevent@0_*");
    for (line, expected) in [
        ("HSET f a 1 b 2 c 3 d 4", "new f, hset f"),
        ("HEXPIRE f 10 FIELDS 2 a x", "hexpire f"),
        ("HEXPIRE f 10 NX FIELDS 1 a", ""),
        ("HPERSIST f FIELDS 1 a", "hpersist f"),
        ("HSETEX f EX 5 FIELDS 1 a 1", "hset f, hexpire f"),
        ("HSETEX f KEEPTTL FIELDS 1 a 1", "hset f"),
        ("HGETEX f PERSIST FIELDS 1 a", "hpersist f"),
        ("HGETEX f FIELDS 1 a", ""),
        ("HGETEX f EX 5 FIELDS 1 a", "hexpire f"),
        ("HEXPIRE f 0 FIELDS 1 a", "hdel f"),
        ("HGETDEL f FIELDS 1 b", "hdel f"),
        ("HPEXPIRE f 10 FIELDS 1 c", "hexpire f"),
        ("HGETDEL f FIELDS 2 c d", "hdel f, del f"),
        ("SET a 1", "new a, set a"),
        ("SET a 1 EX 100", "set a, expire a"),
        ("SET a 1 NX", ""),
        ("SET a 1 PXAT 1", "set a, expire a, expired a"),
        ("SET a 1 EXAT 1 XX", ""),
        ("SET a 1 EXAT 1 NX GET", "new a, set a, expire a, expired a"),
        ("SET a 1 NX", "new a, set a"),
        ("SET a 2 XX GET KEEPTTL", "set a"),
        ("GET a", ""),
        ("SETEX a 10 x", "set a, expire a"),
        ("SETNX b 1", "new b, set b"),
        ("GETSET b 2", "set b"),
        ("GETDEL b", "del b"),
        ("GETDEL b", ""),
        ("SET b 1", "new b, set b"),
        ("GETEX b EX 10", "expire b"),
        ("GETEX b PERSIST", "persist b"),
        ("GETEX b", ""),
        ("GETEX b EXAT 1", "del b"),
        ("BITFIELD bf SET u8 0 1", "new bf, setbit bf"),
        ("BITFIELD bf SET u8 0 1 INCRBY u8 0 0", ""),
        ("BITFIELD bf SET u8 8 0", "setbit bf"),
        ("GEOADD g 1 2 a", "new g, zadd g"),
        ("GEOADD g 1 2 a", ""),
        ("GEOSEARCHSTORE h g FROMLONLAT 1 2 BYRADIUS 1 km", "new h, geosearchstore h"),
        ("GEORADIUS g 1 2 1 km STORE h", "georadiusstore h"),
        ("GEORADIUSBYMEMBER g a 1 km STOREDIST h", "georadiusstore h"),
        ("GEORADIUS none 1 2 1 km STORE h", "del h"),
        ("PFADD p a", "new p, pfadd p"),
        ("PFADD p a", ""),
        ("PFCOUNT p", ""),
        ("PFMERGE p p", "pfadd p"),
        ("APPEND b x", "new b, append b"),
        ("SETRANGE b 0 y", "setrange b"),
        ("SETRANGE b 0 \"\"", ""),
        ("INCR c", "new c, incrby c"),
        ("DECRBY c 2", "incrby c"),
        ("INCRBYFLOAT c 1.5", "incrbyfloat c"),
        ("INCR c", ""),
        ("MSET d 1 e 2", "new d, set d, new e, set e"),
        ("MSETNX d 1 f 2", ""),
        ("RENAME d dd", "new dd, rename_from d, rename_to dd"),
        ("RENAMENX dd e", ""),
        ("COPY dd d", "new d, copy_to d"),
        ("DEL d dd none", "del d, del dd"),
        ("EXPIRE c 100", "expire c"),
        ("EXPIRE c 50 GT", ""),
        ("PERSIST c", "persist c"),
        ("PEXPIREAT c 1", "del c"),
        ("SETBIT q 1 1", "new q, setbit q"),
        ("BITOP NOT q2 q", "new q2, set q2"),
        ("BITOP AND q2 none", "del q2"),
        ("LPUSH l a b", "new l, lpush l"),
        ("RPUSHX l c", "rpush l"),
        ("LPUSHX none c", ""),
        ("LSET l 0 x", "lset l"),
        ("LINSERT l BEFORE x y", "linsert l"),
        ("LREM l 0 y", "lrem l"),
        ("LPOP none", ""),
        ("LTRIM l 0 1", "ltrim l"),
        ("LMOVE l m LEFT RIGHT", "new m, rpush m, lpop l"),
        ("RPOPLPUSH m m", "lpush m, rpop m"),
        ("RPOPLPUSH m l", "lpush l, rpop m, del m"),
        ("LMPOP 2 m l RIGHT", "rpop l"),
        ("RPOP l 5", "rpop l, del l"),
        ("RPUSH l a", "new l, rpush l"),
        ("LREM l 1 a", "lrem l, del l"),
        ("HSET h f 1 g 2", "new h, hset h"),
        ("HINCRBY h f 1", "hincrby h"),
        ("HDEL h none", ""),
        ("HDEL h f", "hdel h"),
        ("HDEL h g", "hdel h, del h"),
        ("MULTI\r\nSET m 1\r\nDEL m\r\nEXEC", "new m, set m, del m"),
        ("FLUSHALL", ""),
        ("CONFIG SET notify-keyspace-events E$\r\nSET a 1 EX 10\r\nDEL a", "set a"),
        ("CONFIG SET notify-keyspace-events \"\"\r\nSET a 1", ""),
    ] {
        assert_eq!(events(&mut dialogue, line), expected, "{line}");
    }
}

#[test]
fn both_channels_report_an_expiry_before_the_next_write() {
    let mut dialogue = Dialogue::new(Version::Resp3);
    dialogue.say("CONFIG SET notify-keyspace-events KEx$\r\nPSUBSCRIBE *");
    dialogue.say("SET k 1 PX 100");
    dialogue.pass(100);
    let told = |channel: &str, message: &str| {
        let (c, m) = (channel.len(), message.len());
        format!(">4¶$8¶pmessage¶$1¶*¶${c}¶{channel}¶${m}¶{message}¶")
    };
    assert_eq!(
        dialogue.say("SET k 2"),
        format!(
            "+OK¶{}{}{}{}",
            told("__keyspace@0__:k", "expired"),
            told("__keyevent@0__:expired", "k"),
            told("__keyspace@0__:k", "set"),
            told("__keyevent@0__:set", "k")
        )
    );
}

#[test]
fn the_expiry_of_a_field_is_reported_before_the_write_that_found_it() {
    let mut dialogue = Dialogue::new(Version::Resp3);
    dialogue.say("CONFIG SET notify-keyspace-events EA\r\nPSUBSCRIBE __keyevent@0_*");
    dialogue.say("HSETEX f PX 10 FIELDS 1 a 1\r\nHSET f b 1");
    dialogue.pass(10);
    assert_eq!(events(&mut dialogue, "HSET f b 2"), "hexpired f, hset f");
    dialogue.say("HPEXPIRE f 10 FIELDS 1 b");
    dialogue.pass(10);
    assert_eq!(events(&mut dialogue, "HSET f b 2"), "hexpired f, del f, hset f");
}
