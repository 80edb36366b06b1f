//! Rules, their effect, and their text.

use hotring_protocol::{Args, Decoder, Limits};

use super::log::Entry;
use super::*;
use crate::table::resolve;

fn acl() -> Acl {
    Acl::new(&Secret::default())
}

fn set(acl: &Acl, name: &str, rules: &str) -> Result<(), String> {
    let rules: Vec<&[u8]> = rules.split_whitespace().map(str::as_bytes).collect();
    acl.set_user(name.as_bytes(), &rules)
}

fn described(acl: &Acl, name: &str) -> String {
    String::from_utf8(acl.user(name.as_bytes()).expect("it is there").describe()).unwrap()
}

/// The fate of a request as a client would type it.
fn check(user: &User, line: &str) -> Result<(), Denied> {
    let (input, mut args) = (format!("{line}\n").into_bytes(), Args::new());
    Decoder::new().decode(&input, &Limits::default(), &mut args).unwrap();
    let request = args.view(&input);
    user.check(resolve(request).unwrap(), request)
}

#[test]
fn rules_are_shown_in_the_form_of_setuser() {
    for (rules, told) in [
        ("", "off sanitize-payload resetchannels -@all"),
        ("on nopass ~* &* +@all", "on nopass sanitize-payload ~* &* +@all"),
        ("allkeys allchannels allcommands", "off sanitize-payload ~* &* +@all"),
        ("+get +set -get", "off sanitize-payload resetchannels -@all +set -get"),
        ("+get +GET", "off sanitize-payload resetchannels -@all +get"),
        ("+config|get +config", "off sanitize-payload resetchannels -@all +config"),
        ("+config -config|set", "off sanitize-payload resetchannels -@all +config -config|set"),
        ("+@all -@dangerous -KEYS", "off sanitize-payload resetchannels +@all -@dangerous -keys"),
        ("+@read +@all", "off sanitize-payload resetchannels +@all"),
        ("+@list +@geo", "off sanitize-payload resetchannels -@all +@list +@geo"),
        ("+select|0", "off sanitize-payload resetchannels -@all +select|0"),
        // Commands of Redis that are not here.
        ("+ZADD -xgroup|create", "off sanitize-payload resetchannels -@all +zadd -xgroup|create"),
        ("+@all -cluster +@all -cluster", "off sanitize-payload resetchannels +@all -cluster"),
        ("~a* ~b ~a*", "off sanitize-payload ~a* ~b resetchannels -@all"),
        ("%R~a %W~a %rw~b %W~c", "off sanitize-payload ~a ~b %W~c resetchannels -@all"),
        ("&a* &b &a*", "off sanitize-payload resetchannels &a* &b -@all"),
        ("~a resetkeys &a resetchannels", "off sanitize-payload resetchannels -@all"),
        (
            "(~a +get) (%R~b &c +@read )",
            "off sanitize-payload resetchannels -@all (~a resetchannels -@all +get) \
             (%R~b resetchannels &c -@all +@read)",
        ),
        ("(~a +get) clearselectors", "off sanitize-payload resetchannels -@all"),
        ("on >a ~* &* +@all (+get) reset", "off sanitize-payload resetchannels -@all"),
        ("skip-sanitize-payload", "off skip-sanitize-payload resetchannels -@all"),
    ] {
        let acl = acl();
        assert_eq!(set(&acl, "u", rules), Ok(()), "{rules}");
        assert_eq!(described(&acl, "u"), format!("user u {told}"), "{rules}");
        // The text of a user makes the same user.
        let line = described(&acl, "u");
        assert_eq!(set(&acl, "v", line.strip_prefix("user u ").unwrap()), Ok(()));
        assert_eq!(described(&acl, "v"), line.replace("user u", "user v"));
        let [u, v] = ["u", "v"].map(|name| acl.user(name.as_bytes()).unwrap().selector_rules());
        assert_eq!(u, v);
    }
}

#[test]
fn wrong_rules_change_nothing() {
    let acl = acl();
    set(&acl, "u", "on >secret ~a &a +get").unwrap();
    let before = described(&acl, "u");
    for (rules, why) in [
        ("+set nonsense", "Syntax error"),
        ("+nonsense", "Unknown command or category name in ACL"),
        ("+@nonsense", "Unknown command or category name in ACL"),
        ("-nonsense", "Unknown command or category name in ACL"),
        ("+config|nonsense", "Unknown command or category name in ACL"),
        ("-select|0", "Unknown command or category name in ACL"),
        ("+config|get|port", "Allowing first-arg of a subcommand is not supported"),
        ("+select|", "Syntax error"),
        ("%~a", "Syntax error"),
        ("%X~a", "Syntax error"),
        ("%RR~a", "Syntax error"),
        ("allkeys ~a", "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid"),
        ("&* &a", "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid"),
        ("<other", "The password you are trying to remove from the user does not exist"),
        ("#secret", "The password hash must be exactly 64 characters"),
        ("!secret", "The password hash must be exactly 64 characters"),
        ("(+get nonsense)", "Syntax error"),
    ] {
        let error = set(&acl, "u", rules).unwrap_err();
        assert!(error.starts_with("ERR Error in ACL SETUSER modifier '"), "{error}");
        assert!(error.contains(&format!("': {why}")), "{rules}: {error}");
        assert_eq!(described(&acl, "u"), before, "{rules}");
    }
    let error = set(&acl, "u", "on (+get +set").unwrap_err();
    assert_eq!(error, "ERR Unmatched parenthesis in acl selector starting at '(+get'.");
    for name in ["a b", "a\0b", "a\tb", "a\nb"] {
        let error = acl.set_user(name.as_bytes(), &[]).unwrap_err();
        assert_eq!(error, "ERR Usernames can't contain spaces or null characters");
    }
    assert_eq!(acl.users().len(), 2);
    assert!(acl.set_user(b"u", &[b"~a b"]).unwrap_err().contains("Syntax error"));
}

#[test]
fn a_request_is_allowed_as_a_whole_or_not() {
    let acl = acl();
    let cases = [
        ("+get ~a*", "get abc", Ok(())),
        ("+get ~a*", "get bc", Err(Denied::Key(1))),
        ("+get ~a*", "set abc 1", Err(Denied::Command)),
        ("+get", "get a", Err(Denied::Key(1))),
        ("+mget ~a* ~b*", "mget a1 b1 c1 a2", Err(Denied::Key(3))),
        ("+mset ~a*", "mset a 1 b 2", Err(Denied::Key(3))),
        ("+@all ~a*", "ping", Ok(())),
        // AUTH needs no right.
        ("", "auth x", Ok(())),
        ("", "hello", Ok(())),
        ("", "ping", Err(Denied::Command)),
        // Rights for reading and for writing.
        ("+@all %R~r* %W~w*", "get r", Ok(())),
        ("+@all %R~r* %W~w*", "get w", Err(Denied::Key(1))),
        ("+@all %R~r* %W~w*", "set w 1", Ok(())),
        ("+@all %R~r* %W~w*", "set r 1", Err(Denied::Key(1))),
        ("+@all %R~r* %W~w*", "set w 1 GET", Err(Denied::Key(1))),
        ("+@all %R~r* %W~w*", "set w 1 IFEQ 2", Err(Denied::Key(1))),
        ("+@all %R~r* %W~w*", "getset w 1", Err(Denied::Key(1))),
        ("+@all %R~r* %W~w*", "incr w", Err(Denied::Key(1))),
        ("+@all %R~r* %W~w*", "copy r w", Ok(())),
        ("+@all %R~r* %W~w*", "copy w r", Err(Denied::Key(1))),
        ("+@all %R~r* %W~w*", "copy r r", Err(Denied::Key(2))),
        ("+@all %R~r* %W~w*", "strlen w", Ok(())),
        ("+@all %R~r* %W~w*", "strlen x", Err(Denied::Key(1))),
        ("+@all %RW~b*", "incr b", Ok(())),
        // Categories, subcommands, first arguments.
        ("+@read ~*", "get a", Ok(())),
        ("+@read ~*", "set a 1", Err(Denied::Command)),
        ("+@all -@dangerous ~*", "flushall", Err(Denied::Command)),
        ("+@all -@dangerous ~*", "keys *", Err(Denied::Command)),
        ("+@all -@dangerous +keys ~*", "keys *", Ok(())),
        ("+config|get", "config get port", Ok(())),
        ("+config|get", "config set port 1", Err(Denied::Command)),
        ("+config -config|set", "config set port 1", Err(Denied::Command)),
        ("+config -config|set", "config resetstat", Ok(())),
        ("-@all +@all -config", "config get port", Err(Denied::Command)),
        ("+select|0", "select 0", Ok(())),
        ("+select|0", "select 1", Err(Denied::Command)),
        ("+select|0 -select", "select 0", Err(Denied::Command)),
        // Channels.
        ("+@all &news.*", "publish news.1 x", Ok(())),
        ("+@all &news.*", "publish other x", Err(Denied::Channel(1))),
        ("+@all &news.*", "subscribe news.1 news.2 other", Err(Denied::Channel(3))),
        ("+@all &news.*", "psubscribe news.*", Ok(())),
        ("+@all &news.*", "psubscribe news.1*", Err(Denied::Channel(1))),
        ("+@all &news.*", "unsubscribe other", Ok(())),
        ("+@all", "publish a x", Err(Denied::Channel(1))),
        // Each selector for itself: not the command of one with the keys of another.
        ("+get ~a (+set ~b)", "get a", Ok(())),
        ("+get ~a (+set ~b)", "set b 1", Ok(())),
        ("+get ~a (+set ~b)", "get b", Err(Denied::Key(1))),
        ("+get ~a (+set ~b)", "set a 1", Err(Denied::Key(1))),
        ("+mget ~a (+mget ~b)", "mget a b", Err(Denied::Key(2))),
        ("+get ~a (+set ~b)", "del a", Err(Denied::Command)),
        ("+get ~a (+publish &c)", "publish d x", Err(Denied::Channel(1))),
    ];
    for (rules, request, expected) in cases {
        set(&acl, "u", &format!("reset {rules}")).unwrap();
        let user = acl.user(b"u").unwrap();
        assert_eq!(check(&user, request), expected, "{rules}: {request}");
    }
}

#[test]
fn passwords_can_be_several_and_are_kept_as_digests() {
    let acl = acl();
    let is_in = |password: &str| acl.authenticate(b"u", password.as_bytes()).is_some();
    assert!(!is_in("one"), "there is no such user");
    set(&acl, "u", "on >one >two").unwrap();
    assert!(is_in("one") && is_in("two") && !is_in("three") && !is_in(""));
    let hash = "3fc4ccfe745870e2c0d99f71f30ff0656c8dedd41cc1d7d3d376b0dbe685e2f3";
    assert!(described(&acl, "u").contains(hash), "SHA-256 of two");
    set(&acl, "u", &format!("<one !{hash}")).unwrap();
    assert!(!is_in("one") && !is_in("two"));
    set(&acl, "u", &format!("#{hash}")).unwrap();
    assert!(is_in("two"));
    set(&acl, "u", "off").unwrap();
    assert!(!is_in("two"), "it is off");
    set(&acl, "u", "on nopass").unwrap();
    assert!(is_in("anything"));
    set(&acl, "u", "resetpass").unwrap();
    assert!(!is_in("anything") && !is_in("two"));
    assert!(!format!("{acl:?} {:?}", Secret::new("two")).contains("two"));
}

#[test]
fn only_a_user_who_may_do_everything_is_free() {
    let acl = acl();
    let is_free = |rules: &str| {
        set(&acl, "u", &format!("reset {rules}")).unwrap();
        Access::authenticated(acl.user(b"u").unwrap()).is_free()
    };
    assert!(is_free("~* &* +@all"));
    assert!(is_free("~* &* +@all -get +get"));
    assert!(is_free("(~* &* +@all)"));
    for rules in ["", "~* &*", "~* +@all", "&* +@all", "~a* &* +@all", "~* &* +@all -get"] {
        assert!(!is_free(rules), "{rules}");
    }
    assert!(Access::new(acl.default_user()).is_free());
    acl.set_default_password(&Secret::new("x"));
    let access = Access::new(acl.default_user());
    assert!(access.is_locked() && !access.is_free());
    acl.set_default_password(&Secret::default());
    let access = acl.renew(&access, std::iter::empty()).unwrap();
    assert!(!access.is_locked() && access.is_free(), "no password is asked for any more");
}

#[test]
fn a_connection_ends_with_its_user_and_its_channels() {
    let acl = acl();
    set(&acl, "u", "on nopass +@all &a* &b").unwrap();
    let access = Access::authenticated(acl.user(b"u").unwrap());
    let listened = || {
        [
            (ChannelKind::Channel, &b"a1"[..]),
            (ChannelKind::Pattern, b"b"),
            (ChannelKind::Shard, b"a2"),
        ]
        .into_iter()
    };
    let renewed = |access: &Access| acl.renew(access, listened());
    assert!(renewed(&access).is_some());
    set(&acl, "u", "resetchannels &a? &b").unwrap();
    assert!(renewed(&access).is_some());
    set(&acl, "u", "resetchannels &a1 &b").unwrap();
    assert!(renewed(&access).is_none(), "nor is the shard channel a2 allowed");
    set(&acl, "u", "resetchannels &a1 &b*").unwrap();
    assert!(renewed(&access).is_none(), "the pattern b is not word for word allowed");
    set(&acl, "u", "allchannels").unwrap();
    assert!(renewed(&access).is_some());
    assert_eq!(acl.delete(&[b"u", b"nobody"]), Ok(1));
    assert!(renewed(&access).is_none());
    set(&acl, "u", "on nopass +@all allchannels").unwrap();
    assert!(renewed(&access).is_none(), "another user of the same name");
    assert!(acl.delete(&[b"u", b"default"]).is_err());
    assert!(acl.user(b"u").is_some());
}

/// A pattern of keys was once enough to be shown the names of hot keys, without any command.
#[test]
fn to_read_a_key_takes_a_pattern_and_a_command() {
    let acl = acl();
    for (rules, may) in [
        ("~a* +get", true),
        ("~a* +@read", true),
        ("%R~a* +hgetall", true),
        // SET has an option that tells the old value.
        ("~a* +set", true),
        ("~a*", false),
        ("~* -@all +info +ping", false),
        ("~* +exists +strlen +type", false),
        ("~* +del +append", false),
        ("~* +eval +evalsha", false),
        ("%W~a* +get", false),
        ("~b* +get", false),
        ("+get", false),
        ("~a* (~b* +get)", false),
        ("+get (~a* +getrange)", true),
    ] {
        set(&acl, "u", &format!("reset {rules}")).unwrap();
        assert_eq!(acl.user(b"u").unwrap().may_read(b"abc"), may, "{rules}");
    }
}

#[test]
fn denials_that_are_alike_are_counted_together() {
    let log = DenialLog::default();
    let note = |object: &str, now| {
        let (reason, origin) = (Reason::Key, Origin::Client);
        let client = format!("client at {now}");
        log.add(Denial { reason, origin, object: object.as_bytes(), user: b"u", now, client }, 3);
    };
    note("a", 1_000);
    note("b", 2_000);
    note("a", 61_000);
    let shown = || {
        let text =
            |e: Entry| format!("{}:{}x{}", e.id, String::from_utf8(e.object).unwrap(), e.count);
        log.latest(10).into_iter().map(text).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(shown(), "0:ax2 1:bx1");
    assert_eq!(log.latest(1)[0].client, "client at 61000");
    note("a", 121_001);
    assert_eq!(shown(), "2:ax1 0:ax2 1:bx1");
    note(&"c".repeat(5_000), 121_002);
    assert_eq!(log.latest(10).len(), 3, "no more are kept");
    assert_eq!(log.latest(1)[0].object.len(), 1024);
    assert_eq!((log.count(Reason::Key), log.count(Reason::Auth)), (5, 0));
    log.clear();
    assert_eq!(shown(), "");
}
