//! Tests of the decoder and the flags: results, errors, and input in arbitrary pieces.

mod random;

use super::*;

const LIMITS: Limits = Limits { keys_line_max: 4096, data_len_max: 100 };

#[test]
fn commands_stand_at_their_names() {
    for (i, name) in NAMES.iter().enumerate() {
        assert_eq!(Command::of(name.as_bytes()).map(|command| command as usize), Some(i), "{name}");
    }
}

/// A request as text: its words, and its data.
fn shown(request: &Request, input: &[u8]) -> String {
    let words: Vec<_> =
        request.args(input).iter().map(|word| word.escape_ascii().to_string()).collect();
    let data = match request.data(input) {
        Data::None => String::new(),
        Data::Block(data) => format!(" = {}", data.escape_ascii()),
        Data::Unended => " = unended".into(),
        Data::TooLong => " = too long".into(),
    };
    let known = if request.command.is_some() { "" } else { "?" };
    format!("{known}{}{data}", words.join("|"))
}

/// All requests of a stream that arrives in pieces, and whether a line was too long.
fn decode_stream(stream: &[u8], mut next_piece: impl FnMut() -> usize) -> (Vec<String>, bool) {
    let (mut decoder, mut request) = (Decoder::new(), Request::default());
    let (mut start, mut end, mut found) = (0, 0, Vec::new());
    loop {
        let input = &stream[start..end];
        match decoder.decode(input, &LIMITS, &mut request) {
            Err(LineTooLong) => return (found, true),
            Ok(Decoded::Incomplete) if end == stream.len() => return (found, false),
            Ok(Decoded::Incomplete) => {
                assert!(decoder.input_len_wanted() > input.len());
                end = (end + next_piece().max(1)).min(stream.len());
            }
            Ok(Decoded::Passed { consumed }) => {
                assert!(consumed > 0 && consumed <= input.len());
                start += consumed;
            }
            Ok(Decoded::Request { consumed }) => {
                assert!(consumed > 0 && consumed <= input.len());
                found.push(shown(&request, input));
                start += consumed;
            }
        }
    }
}

fn requests(stream: &[u8]) -> Vec<String> {
    decode_stream(stream, || stream.len()).0
}

#[test]
fn lines_and_their_data_are_cut_out() {
    let long = "x".repeat(101);
    let too_long = format!("set k 0 0 101\r\n{long}\r\nget k\r\n");
    let cases: [(&str, &[&str]); 14] = [
        ("get a b\r\nget c\n", &["get|a|b", "get|c"]),
        ("  get   a  \r\n", &["get|a"]),
        ("\r\n\n", &["?\\r", "?"]),
        ("GET a\r\nnonsense\r\n", &["?GET|a", "?nonsense"]),
        ("set k 1 2 3\r\na\nb\r\nget k\r\n", &["set|k|1|2|3 = a\\nb", "get|k"]),
        ("set k 1 2 0 noreply\r\n\r\n", &["set|k|1|2|0|noreply = "]),
        ("set k 0 0 1\r\nabc\r\n", &["set|k|0|0|1 = unended", "?\\r"]),
        ("set k 0 0 -1\r\nget k\r\n", &["set|k|0|0|-1", "get|k"]),
        ("set k 0 0 9223372036854775808\r\nget k\r\n", &["set|k|0|0|9223372036854775808", "get|k"]),
        ("set k 0 0\r\nget k\r\n", &["set|k|0|0", "get|k"]),
        ("cas k 0 0 1 7\r\nx\r\nmn\r\n", &["cas|k|0|0|1|7 = x", "mn"]),
        ("ms k 2 T0 c\r\nhi\r\nms k S2\r\n", &["ms|k|2|T0|c = hi", "ms|k|S2"]),
        ("ms k 2147483647\r\nmn\r\n", &["ms|k|2147483647", "mn"]),
        (&too_long, &["set|k|0|0|101 = too long", "get|k"]),
    ];
    for (input, expected) in cases {
        assert_eq!(requests(input.as_bytes()), expected, "{input:?}");
        let bytewise = decode_stream(input.as_bytes(), || 1);
        assert_eq!(
            bytewise,
            (expected.iter().map(|s| s.to_string()).collect(), false),
            "{input:?}"
        );
    }
}

#[test]
fn a_long_line_is_one_of_many_keys_or_the_end() {
    let keys = " key".repeat(600);
    for (input, is_fine) in [
        (format!("get{keys}\r\n"), true),
        (format!("  gats 0{keys}\r\n"), true),
        (format!("delete{keys}\r\n"), false),
        (format!("set{keys}"), false),
        (format!("{}get{keys}", " ".repeat(101)), false),
        (format!("get{}\r\n", " key".repeat(1100)), false),
    ] {
        for piece in [1, 7, input.len()] {
            let (found, ends) = decode_stream(input.as_bytes(), || piece);
            assert_eq!(
                (found.len(), ends),
                if is_fine { (1, false) } else { (0, true) },
                "{piece}"
            );
        }
    }
}

#[test]
fn data_that_is_too_long_is_never_wanted_at_once() {
    let (mut decoder, mut request) = (Decoder::new(), Request::default());
    let line = b"set k 0 0 2147483645\r\n";
    let found = decoder.decode(line, &LIMITS, &mut request);
    assert_eq!(found, Ok(Decoded::Request { consumed: line.len() }));
    let piece = [b'x'; 1000];
    let mut left = 2_147_483_647usize;
    for _ in 0..50 {
        assert_eq!(decoder.input_len_wanted(), 1);
        let passed = decoder.decode(&piece, &LIMITS, &mut request);
        assert_eq!(passed, Ok(Decoded::Passed { consumed: 1000 }));
        left -= 1000;
    }
    assert!(left > 0);
}

#[test]
fn a_request_whose_data_is_on_the_way_says_how_long_it_is() {
    let (mut decoder, mut request) = (Decoder::new(), Request::default());
    let input = b"set k 0 0 50\r\nabc";
    assert_eq!(decoder.decode(input, &LIMITS, &mut request), Ok(Decoded::Incomplete));
    assert_eq!(decoder.input_len_wanted(), "set k 0 0 50\r\n".len() + 52);
}

/// The flags of one line, or the reply.
fn flags<R>(line: &str, f: impl FnOnce(MetaFlags<'_>) -> R) -> Result<R, &'static str> {
    let (mut decoder, mut request) = (Decoder::new(), Request::default());
    let input = format!("{line}\r\n").into_bytes();
    decoder.decode(&input, &LIMITS, &mut request).unwrap();
    MetaFlags::parse(request.args(&input).tail(2)).map(f)
}

#[test]
fn flags_are_read_with_their_values() {
    let read = flags("mg k v N30 T-1 R0 C5 E6 F7 MA J8 D9 Oabc q", |flags| {
        assert_eq!((flags.vivify, flags.ttl, flags.recache), (Some(30), Some(-1), Some(0)));
        assert_eq!((flags.cas, flags.new_cas, flags.client_flags), (Some(5), Some(6), 7));
        assert_eq!((flags.mode, flags.initial, flags.delta), (Some(b'A'), 8, 9));
        assert!(flags.has(b'v') && flags.has(b'q') && !flags.has(b'k') && flags.changes());
        let opaque = flags.iter().find(|word| word[0] == b'O');
        assert_eq!(opaque, Some(&b"Oabc"[..]));
    });
    assert_eq!(read, Ok(()));
    assert_eq!(flags("mg k", |flags| (flags.delta, flags.changes())), Ok((1, false)));
    let many = "mg k b c f h k l q s t u v Oxxx I x C1 E1 N1";
    assert!(flags(many, |_| ()).is_ok());
    let refused = [
        ("mg k v v", "CLIENT_ERROR duplicate flag"),
        ("mg k !", "CLIENT_ERROR invalid flag"),
        ("mg k \u{fc}", "CLIENT_ERROR duplicate flag"),
        ("mg k Nx", "CLIENT_ERROR bad token in command line format"),
        ("mg k T", "CLIENT_ERROR bad token in command line format"),
        ("mg k C-1", "CLIENT_ERROR bad token in command line format"),
        ("mg k F4294967296", "CLIENT_ERROR bad command line format"),
        ("ma k J", "CLIENT_ERROR invalid numeric initial value"),
        ("ma k Dx", "CLIENT_ERROR invalid numeric delta value"),
        ("ma k Mincr", "CLIENT_ERROR incorrect length for M token"),
        ("mg k Nx !", "CLIENT_ERROR invalid flag"),
        ("mg k O12345678901234567890123456789012", "CLIENT_ERROR opaque token too long"),
        (
            "mg k b c f h k l q s t u v Oxxx I x C1 E1 N1 T1",
            "CLIENT_ERROR options flags are too long",
        ),
    ];
    for (line, reply) in refused {
        assert_eq!(flags(line, |_| ()), Err(reply), "{line}");
    }
}

#[test]
fn keys_may_come_in_base64() {
    let key = MetaKey::parse(b"Zm9vIGJhcg==", true).unwrap();
    assert_eq!(
        (key.bytes(), key.word(), key.is_encoded()),
        (&b"foo bar"[..], &b"Zm9vIGJhcg=="[..], true)
    );
    let plain = MetaKey::parse(b"Zm9v", false).unwrap();
    assert_eq!((plain.bytes(), plain.is_encoded()), (&b"Zm9v"[..], false));
    let longest = "QUJD".repeat(62);
    assert_eq!(MetaKey::parse(longest.as_bytes(), true).unwrap().bytes(), b"ABC".repeat(62));
    for bad in ["Zm9", "Z", "=", "!!!!"] {
        let refused = MetaKey::parse(bad.as_bytes(), true);
        assert_eq!(refused.err(), Some("CLIENT_ERROR error decoding key"), "{bad}");
    }
    let too_long = [b'k'; 251];
    assert!(
        MetaKey::parse(&too_long, false).is_err() && MetaKey::parse(&too_long[1..], false).is_ok()
    );
}

#[test]
fn replies_are_written_as_memcached_does() {
    let mut out = Vec::new();
    let mut writer = Writer::new(&mut out);
    writer.value(b"key", 7, b"a\r\nb", None);
    writer.value(b"key", 0, b"", Some(u64::MAX));
    writer.line("END");
    writer.text("HD");
    writer.flag(b't', -1);
    writer.word(b"Oxyz");
    writer.end();
    writer.stat("name", "value");
    let expected = "VALUE key 7 4\r\na\r\nb\r\nVALUE key 0 0 18446744073709551615\r\n\r\nEND\r\n\
                    HD t-1 Oxyz\r\nSTAT name value\r\n";
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}
