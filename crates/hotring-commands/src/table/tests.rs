//! Tests of the table: its entries are consistent, and found.

use std::collections::HashSet;

use super::syntax::{Argument, Kind, parse};
use super::*;
use fastrand::Rng;
use hotring_protocol::{Args, ArgsView, Decoder, Limits, Part, Version, Writer, read_part};

fn with_request<R>(line: &str, f: impl FnOnce(ArgsView<'_>) -> R) -> R {
    let (input, mut args) = (format!("{line}\n").into_bytes(), Args::new());
    Decoder::new().decode(&input, &Limits::default(), &mut args).unwrap();
    f(args.view(&input))
}

fn all() -> impl Iterator<Item = &'static Spec> {
    commands().iter().chain(&list::SUBCOMMANDS)
}

#[test]
fn every_command_is_found_in_any_case() {
    for spec in commands() {
        let (lower, upper) = (spec.name, spec.name.to_ascii_uppercase());
        let mixed = format!("{}{}", &upper[..1], &lower[1..]);
        for name in [lower, &upper, &mixed] {
            assert_eq!(lookup(name.as_bytes()).unwrap().id, spec.id, "{name}");
        }
        for wrong in [format!("{lower}x"), lower[1..].to_owned(), format!(" {lower}")] {
            let found = lookup(wrong.as_bytes());
            assert!(found.is_none_or(|other| other.name == wrong), "{wrong}");
        }
    }
    // Bytes that differ from letters in the bit of the case are not those letters.
    for name in [&b""[..], b"G\x05T", b"client|id", b"getgetgetgetgetget", &[b'g'; 10_000]] {
        assert!(lookup(name).is_none());
    }
}

#[test]
fn the_table_is_consistent() {
    let names: HashSet<_> = all().map(|spec| spec.name).collect();
    assert_eq!(names.len(), all().count(), "a name stands twice");
    for (i, spec) in all().enumerate() {
        assert_eq!(spec.id as usize, i, "{}", spec.name);
        assert_eq!(spec.name, spec.name.to_ascii_lowercase());
        assert_ne!(spec.arity, 0);
        assert!(spec.summary.ends_with('.') && spec.summary.len() < 100, "{}", spec.name);
        assert!(!(spec.flags.contains(Flags::WRITE) && spec.flags.contains(Flags::READONLY)));
        let write_or_read = Flags::WRITE | Flags::READONLY;
        let touches_data = spec.flags.names().any(|n| write_or_read.names().any(|m| m == n));
        // The transaction looks at watched keys, the script at its keys.
        let looks = touches_data || matches!(spec.group, Group::Transactions | Group::Scripting);
        assert!(spec.keys.is_empty() || looks, "{}", spec.name);
    }
    for sub in &list::SUBCOMMANDS {
        let parent = commands().iter().find(|spec| Some(spec.id) == sub.parent).unwrap();
        assert_eq!(sub.name, format!("{}|{}", parent.name, sub.own_name()));
        assert!(lookup::has_subcommands(parent.id));
    }
}

/// Fewest and most arguments that a syntax allows.
fn argument_counts(arguments: &[Argument]) -> (usize, Option<usize>) {
    let mut total = (0, Some(0));
    for argument in arguments {
        let token = usize::from(argument.token.is_some());
        let (min, max) = match &argument.kind {
            Kind::Token(_) => (1, Some(1)),
            Kind::Value(_) => (1 + token, Some(1 + token)),
            Kind::Block(parts) => argument_counts(parts),
            Kind::OneOf(parts) => {
                let counts: Vec<_> =
                    parts.iter().map(|part| argument_counts(std::slice::from_ref(part))).collect();
                (
                    counts.iter().map(|count| count.0).min().unwrap(),
                    // No limit for one is no limit for all.
                    counts.iter().map(|count| count.1).try_fold(0, |max, n| Some(max.max(n?))),
                )
            }
        };
        let max = if argument.multiple { None } else { max };
        total.0 += if argument.optional { 0 } else { min };
        total.1 = total.1.zip(max).map(|(sum, max)| sum + max);
    }
    total
}

#[test]
fn the_syntax_fits_the_number_of_arguments() {
    // PING and QUIT take more arguments than they document, as in Redis.
    for spec in all().filter(|spec| !["ping", "quit"].contains(&spec.name)) {
        let names = spec.name.split('|').count();
        let (min, max) = argument_counts(&parse(spec.syntax));
        if subcommands(spec.id).next().is_some() {
            continue;
        }
        let arity = usize::from(spec.arity.unsigned_abs());
        assert_eq!(min + names, arity, "{}", spec.name);
        assert_eq!(max == Some(min), spec.arity > 0, "{}", spec.name);
    }
}

#[test]
fn syntax_becomes_a_tree() {
    let value =
        |name| Argument { kind: Kind::Value(name), token: None, optional: false, multiple: false };
    let token =
        |name| Argument { kind: Kind::Token(name), token: None, optional: false, multiple: false };
    assert_eq!(parse(""), []);
    assert_eq!(parse("key [key ...]"), [Argument { multiple: true, ..value("key") }]);
    let pair = Kind::Block(vec![value("key"), value("value")]);
    assert_eq!(
        parse("key value [key value ...]"),
        [Argument { kind: pair, token: None, optional: false, multiple: true }]
    );
    let expiry =
        Kind::OneOf(vec![Argument { token: Some("EX"), ..value("seconds") }, token("KEEPTTL")]);
    assert_eq!(
        parse("key [GET] [EX seconds | KEEPTTL]"),
        [
            value("key"),
            Argument { optional: true, ..token("GET") },
            Argument { kind: expiry, token: None, optional: true, multiple: false },
        ]
    );
    let hello = parse("[protover [AUTH username password] [SETNAME clientname]]");
    let Kind::Block(parts) = &hello[0].kind else { panic!("{hello:?}") };
    assert_eq!((hello[0].optional, parts.len()), (true, 3));
}

#[test]
fn requests_resolve_to_commands_or_to_the_errors_of_redis() {
    for (line, name) in [
        ("get k", "get"),
        ("SET k v NX", "set"),
        ("client ID", "client|id"),
        ("CLIENT setname x", "client|setname"),
        ("command", "command"),
        ("Command Docs", "command|docs"),
        ("config get a b c", "config|get"),
        ("ping", "ping"),
    ] {
        with_request(line, |request| assert_eq!(resolve(request).unwrap().name, name));
        assert_eq!(lookup_full(name.to_ascii_uppercase().as_bytes()).unwrap().name, name);
    }
    for wrong in ["client|", "client|nope", "client|id|x", "get|x", "|", "nope|id"] {
        assert!(lookup_full(wrong.as_bytes()).is_none(), "{wrong}");
    }
    for (line, text) in [
        ("get", "wrong number of arguments for 'get' command"),
        ("GET a b", "wrong number of arguments for 'get' command"),
        ("mset k", "wrong number of arguments for 'mset' command"),
        ("client", "wrong number of arguments for 'client' command"),
        ("client setname", "wrong number of arguments for 'client|setname' command"),
        ("client nope x", "unknown subcommand 'nope'. Try CLIENT HELP."),
        ("nope", "unknown command 'nope', with args beginning with: "),
        ("nope a 'b c'", "unknown command 'nope', with args beginning with: 'a' 'b c' "),
        ("\"\"", "unknown command '', with args beginning with: "),
    ] {
        with_request(line, |request| {
            assert_eq!(resolve(request).unwrap_err().to_string(), format!("ERR {text}"));
        });
    }
}

#[test]
fn an_error_quotes_a_bounded_part_of_the_request() {
    let long = "x".repeat(1000);
    with_request(&format!("{long} {long} {long}"), |request| {
        let text = resolve(request).unwrap_err().to_string();
        let shown = &long[..128];
        assert_eq!(
            text,
            format!("ERR unknown command '{shown}', with args beginning with: '{shown}' ")
        );
    });
    with_request(&"ab ".repeat(1000), |request| {
        // Each argument takes five bytes, quotes and space included, and the last one
        // begins below 128.
        let text = resolve(request).unwrap_err().to_string();
        assert_eq!(text.matches("'ab' ").count(), 26);
        assert!(text.ends_with("'ab' 'ab' "), "{text}");
    });
}

#[test]
fn keys_of_requests() {
    for (line, keys) in [
        ("get k", "k"),
        ("set k v EX 10", "k"),
        ("mget a b c", "a b c"),
        ("mset a 1 b 2", "a b"),
        ("mset a 1 b", "a b"),
        ("rename a b", "a b"),
        ("copy a b replace", "a b"),
        ("eval return 2 a b c", "a b"),
        ("evalsha x 0 a", ""),
        ("evalsha x -1 a", ""),
        ("eval x 9223372036854775807 a b", "a b"),
        ("ping", ""),
        ("scan 0", ""),
        ("flushall", ""),
    ] {
        with_request(line, |request| {
            let spec = lookup(&request[0]).unwrap();
            let found: Vec<_> = spec.keys_of(request).collect();
            assert_eq!(String::from_utf8(found.join(&b' ')).unwrap(), keys, "{line}");
        });
    }
    // Too few arguments give fewer keys, not a panic.
    for spec in commands() {
        with_request(spec.name, |request| assert_eq!(spec.keys_of(request).count(), 0));
    }
}

#[test]
fn uses_of_keys_follow_the_options() {
    for (line, uses) in [
        ("get k", "1r"),
        ("strlen k", "1"),
        ("set k get", "1w"),
        ("set k v ex 10", "1w"),
        ("set k v GET", "1rw"),
        ("set k v ifeq x", "1rw"),
        ("mset a 1 b 2", "1w 3w"),
        ("msetex 2 a 1 b 2 nx", "2w 4w"),
        ("msetex 9 a 1", "2w"),
        ("msetex -1 a 1", ""),
        ("rename a b", "1rw 2w"),
        ("copy a b", "1r 2w"),
        ("bitop and d a b", "2w 3r 4r"),
        ("bitfield k get u8 0", "1r"),
        ("bitfield k get u8 0 incrby u8 0 1", "1rw"),
        ("lcs a b", "1r 2r"),
        ("del a b", "1w 2w"),
        ("delex a", "1w"),
        ("delex a ifeq x", "1rw"),
        ("delifeq a x", "1rw"),
        ("watch a b", "1 2"),
        ("scan 0", ""),
        ("georadius k 1 2 3 m", "1r"),
        ("georadius k 1 2 3 m asc store d", "1r 8w"),
        ("georadius k 1 2 3 m store d STOREDIST e", "1r 9w"),
        ("georadius k 1 2 3 m store", "1r"),
        ("georadiusbymember store m 3 m count 1 storedist d", "1r 8w"),
        ("georadius_ro k 1 2 3 m store d", "1r"),
        ("geosearchstore d k fromlonlat 1 2 byradius 3 m", "1w 2r"),
        ("pfcount a b", "1r 2r"),
        ("pfmerge d a b", "1rw 2r 3r"),
    ] {
        with_request(line, |request| {
            let spec = lookup(&request[0]).unwrap();
            let show = |(position, access): (usize, Access)| {
                let letter = |is_so, letter| if is_so { letter } else { "" };
                format!("{position}{}{}", letter(access.reads(), "r"), letter(access.writes(), "w"))
            };
            let found: Vec<_> = spec.uses_of(request).map(show).collect();
            assert_eq!(found.join(" "), uses, "{line}");
            let positions = spec.uses_of(request).map(|(position, _)| request.at(position));
            assert!(positions.eq(spec.keys_of(request)), "{line}");
        });
    }
}

/// They were once in @connection and @keyspace, and rules about those allowed them.
#[test]
fn a_container_of_subcommands_is_in_no_category_of_a_type() {
    for name in ["client", "object", "pubsub", "config", "script"] {
        let categories = lookup(name.as_bytes()).unwrap().categories();
        assert_eq!(categories.names().collect::<Vec<_>>(), ["@slow"], "{name}");
    }
}

#[test]
fn no_request_makes_the_table_panic() {
    let mut random = Rng::with_seed(7);
    let words = ["get", "EVAL", "client", "ID", "bitop", "9223372036854775807", "-1", "0", "2", ""];
    for _ in 0..20_000 {
        let n = 1 + random.u64(..6);
        let line: Vec<String> =
            (0..n).map(|_| format!("\"{}\"", words[random.usize(..words.len())])).collect();
        with_request(&line.join(" "), |request| {
            let by_name = lookup(&request[0]);
            for spec in by_name.into_iter().chain(resolve(request)) {
                assert!(spec.keys_of(request).count() <= request.len());
                assert!(spec.uses_of(request).all(|(position, _)| position < request.len()));
            }
        });
    }
}

/// Takes a reply off `replies`; panics at errors and nulls, too.
fn take_reply(replies: &mut &[u8]) {
    let n_elements = match read_part(replies) {
        Some(Part::Simple(_) | Part::Int(_) | Part::Bulk(_)) => 0,
        Some(part @ (Part::Array(_) | Part::Set(_) | Part::Map(_))) => part.n_elements(),
        other => panic!("unexpected part {other:?}"),
    };
    (0..n_elements).for_each(|_| take_reply(replies));
}

#[test]
fn replies_about_commands_are_well_formed() {
    for version in [Version::Resp2, Version::Resp3] {
        for spec in all() {
            let mut out = Vec::new();
            command_info(spec, &mut Writer::new(&mut out, version));
            let mut replies = &out[..];
            take_reply(&mut replies);
            assert!(replies.is_empty(), "{}", spec.name);
            out.clear();
            command_docs(spec, &mut Writer::new(&mut out, version));
            let mut replies = &out[..];
            take_reply(&mut replies);
            take_reply(&mut replies);
            assert!(replies.is_empty(), "{}", spec.name);
        }
    }
}

#[test]
fn the_reply_about_get() {
    let mut out = Vec::new();
    command_info(lookup(b"get").unwrap(), &mut Writer::new(&mut out, Version::Resp3));
    let expected = "*10 $3 get :2 ~2 +readonly +fast :1 :1 :1 ~3 +@read +@string +@fast ~0 \
        ~1 %3 $5 flags ~2 +RO +access $12 begin_search %2 $4 type $5 index $4 spec %1 $5 index :1 \
        $9 find_keys %2 $4 type $5 range $4 spec %3 $7 lastkey :0 $7 keystep :1 $5 limit :0 ~0 ";
    assert_eq!(String::from_utf8(out).unwrap(), expected.replace(' ', "\r\n"));
    let mut out = Vec::new();
    command_docs(lookup(b"expire").unwrap(), &mut Writer::new(&mut out, Version::Resp2));
    let text = String::from_utf8(out).unwrap();
    for part in
        ["$5\r\ngroup\r\n$7\r\ngeneric\r\n", "$5\r\noneof\r\n", "$2\r\nNX\r\n", "+optional\r\n"]
    {
        assert!(text.contains(part), "{part:?} in {text:?}");
    }
}

#[test]
fn the_page_lists_every_command_that_can_be_called() {
    let page = markdown();
    let parents = ["acl", "client", "config", "module", "scrub", "script", "latency"];
    let shown = |spec: &&Spec| !parents.contains(&spec.name) && !spec.name.ends_with("|help");
    for spec in all().filter(shown) {
        let name = spec.name.to_ascii_uppercase().replace('|', " ");
        assert!(
            page.contains(&format!("| `{name}`")) || page.contains(&format!("| `{name} ")),
            "{name}"
        );
    }
}
