//! Tests of multibulk requests: exact vectors, every prefix, every bad length, limits.

use super::*;

const VALID: &[(&str, &[&str])] = &[
    ("*1\r\n$4\r\nPING\r\n", &["PING"]),
    ("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nvalue\r\n", &["SET", "k", "value"]),
    ("*2\r\n$3\r\nGET\r\n$0\r\n\r\n", &["GET", ""]),
    ("*2\r\n$4\r\nECHO\r\n$10\r\n0123\r\n6789\r\n", &["ECHO", "0123\r\n6789"]),
    ("*2\r\n$4\r\nECHO\r\n$3\r\n\0\0\0\r\n", &["ECHO", "\0\0\0"]),
    ("*0\r\n", &[]),
    ("*-1\r\n", &[]),
    ("*-9223372036854775808\r\n", &[]),
    // As in Redis, the two bytes behind an argument may be anything.
    ("*1\r\n$4\r\nPING\n\r", &["PING"]),
];

#[test]
fn valid_requests_decode_whole_and_from_every_prefix() {
    let limits = Limits::default();
    for (text, words) in VALID {
        let whole = Ok(Some(request(words, text.len())));
        assert_eq!(decode_once(text.as_bytes(), &limits), whole, "{text:?}");
        for split in 0..text.len() {
            let (mut decoder, mut args) = (Decoder::new(), Args::new());
            let prefix = &text.as_bytes()[..split];
            assert_eq!(
                decoder.decode(prefix, &limits, &mut args),
                Ok(Decoded::Incomplete),
                "{prefix:?}"
            );
            assert!(decoder.input_len_wanted() > split, "{text:?} at {split}");
            assert!(decoder.input_len_wanted() <= text.len(), "{text:?} at {split}");
            let decoded = decoder.decode(text.as_bytes(), &limits, &mut args);
            assert_eq!(decoded.map(|d| found(d, &args, text.as_bytes())), whole, "{text:?}");
            assert!(!decoder.is_mid_request());
        }
    }
}

#[test]
fn pipelined_requests_come_one_by_one_however_they_arrive() {
    let stream: String = VALID.iter().map(|(text, _)| *text).collect();
    let stream = stream.repeat(20).into_bytes();
    let mut random = Rng::with_seed(0x9e37_79b9_7f4a_7c15);
    for piece_max in [1, 2, 7, 40, 1000] {
        // One Args for all connections, as in a server.
        let (mut decoder, mut args) = (Decoder::new(), Args::new());
        let (mut start, mut end, mut seen) = (0, 0, 0);
        while start < stream.len() {
            let input = &stream[start..end];
            match decoder.decode(input, &Limits::default(), &mut args).unwrap() {
                Decoded::Incomplete => {
                    end = (end + 1 + random.usize(..piece_max)).min(stream.len())
                }
                decoded @ Decoded::Request { consumed } => {
                    let (text, words) = VALID[seen % VALID.len()];
                    assert_eq!(found(decoded, &args, input), Some(request(words, text.len())));
                    seen += 1;
                    start += consumed;
                }
            }
        }
        assert_eq!(seen, VALID.len() * 20);
    }
}

#[test]
fn a_partial_request_survives_other_connections_use_of_the_arguments() {
    let mut args = Args::new();
    let (mut first, mut second) = (Decoder::new(), Decoder::new());
    let (text, limits) = (b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nvalue\r\n", Limits::default());
    assert_eq!(first.decode(&text[..22], &limits, &mut args), Ok(Decoded::Incomplete));
    let other = second.decode(b"*1\r\n$4\r\nPING\r\n", &limits, &mut args).unwrap();
    assert_eq!(other, Decoded::Request { consumed: 14 });
    let decoded = first.decode(text, &limits, &mut args).unwrap();
    assert_eq!(found(decoded, &args, text), Some(request(&["SET", "k", "value"], text.len())));
}

#[test]
fn bad_counts_are_refused_and_good_ones_are_not() {
    use ProtocolError::*;
    let refused = [
        "007",
        "00",
        "+1",
        "-0",
        "--1",
        " 1",
        "1 ",
        "",
        "-",
        "x",
        "1\0",
        "\0",
        "0x10",
        "1.0",
        "2147483648",
        "4294967295",
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775809",
        "18446744073709551617",
        "99999999999999999999",
        "1\n",
    ];
    let limits = Limits::default();
    for count in refused {
        let multibulk = format!("*{count}\r\n");
        assert_eq!(
            decode_once(multibulk.as_bytes(), &limits),
            Err(InvalidMultibulkLength),
            "{multibulk:?}"
        );
        let bulk = format!("*1\r\n${count}\r\n");
        assert_eq!(decode_once(bulk.as_bytes(), &limits), Err(InvalidBulkLength), "{bulk:?}");
    }
    // A null array is skipped, but a null argument is an error.
    for count in ["-1", "-2", "-2147483649"] {
        let multibulk = format!("*{count}\r\n");
        let skipped = Ok(Some(request(&[], multibulk.len())));
        assert_eq!(decode_once(multibulk.as_bytes(), &limits), skipped);
        let bulk = format!("*1\r\n${count}\r\n");
        assert_eq!(decode_once(bulk.as_bytes(), &limits), Err(InvalidBulkLength), "{bulk:?}");
    }
}

#[test]
fn the_limits_are_exact_and_say_why() {
    use ProtocolError::*;
    let known = Limits { args_max: 3, bulk_len_max: 5, ..Limits::default() };
    let unknown = Limits { authenticated: false, ..known.clone() };
    for limits in [&known, &unknown] {
        assert_eq!(decode_once(b"*3\r\n$5\r\n", limits), Ok(None));
    }
    assert_eq!(decode_once(b"*4\r\n", &known), Err(InvalidMultibulkLength));
    assert_eq!(decode_once(b"*4\r\n", &unknown), Err(UnauthenticatedMultibulkLength));
    assert_eq!(decode_once(b"*1\r\n$6\r\n", &known), Err(InvalidBulkLength));
    assert_eq!(decode_once(b"*1\r\n$6\r\n", &unknown), Err(UnauthenticatedBulkLength));
    // An invalid length is reported as such before authentication, too.
    assert_eq!(decode_once(b"*1\r\n$x\r\n", &unknown), Err(InvalidBulkLength));
    assert_eq!(decode_once(b"*x\r\n", &unknown), Err(InvalidMultibulkLength));
    let default = Limits::default();
    assert_eq!(decode_once(b"*1048576\r\n", &default), Ok(None));
    assert_eq!(decode_once(b"*1048577\r\n", &default), Err(InvalidMultibulkLength));
    assert_eq!(decode_once(b"*1\r\n$536870912\r\n", &default), Ok(None));
    assert_eq!(decode_once(b"*1\r\n$536870913\r\n", &default), Err(InvalidBulkLength));
}

#[test]
fn an_announced_length_reserves_nothing_and_is_waited_for_in_one_step() {
    let (mut decoder, mut args) = (Decoder::new(), Args::new());
    let input = b"*1048576\r\n$536870912\r\nabc";
    assert_eq!(decoder.decode(input, &Limits::default(), &mut args), Ok(Decoded::Incomplete));
    assert_eq!(decoder.input_len_wanted(), 22 + 536_870_912 + 2);
    assert!(args.spans.capacity() == 0 && decoder.is_mid_request());
}

#[test]
fn other_types_than_bulk_strings_are_no_arguments() {
    for byte in [b'+', b':', b'*', b'%', b'_', b'#', b'P', b' ', b'\r', b'\n', 0, 0xff] {
        let input = [b"*1\r\n".as_slice(), &[byte], b"3\r\nGET\r\n"].concat();
        let error = decode_once(&input, &Limits::default()).unwrap_err();
        assert_eq!(error, ProtocolError::ExpectedBulk(byte));
        // As in Redis, a line is not checked before it is complete.
        assert_eq!(decode_once(&input[..5], &Limits::default()), Ok(None));
    }
}

#[test]
fn count_lines_without_end_are_refused_at_the_limit() {
    let limits = Limits::default();
    for (start, error) in
        [("*", ProtocolError::TooBigMultibulkCount), ("*1\r\n$", ProtocolError::TooBigBulkCount)]
    {
        let mut input = start.as_bytes().to_vec();
        input.resize(start.rfind(['*', '$']).unwrap() + 64 * 1024, b'1');
        assert_eq!(decode_once(&input, &limits), Ok(None));
        input.push(b'1');
        assert_eq!(decode_once(&input, &limits), Err(error));
    }
}

#[test]
fn errors_have_the_texts_of_redis() {
    use ProtocolError::*;
    for (error, text) in [
        (InvalidMultibulkLength, "invalid multibulk length"),
        (UnauthenticatedMultibulkLength, "unauthenticated multibulk length"),
        (InvalidBulkLength, "invalid bulk length"),
        (UnauthenticatedBulkLength, "unauthenticated bulk length"),
        (ExpectedBulk(b'x'), "expected '$', got 'x'"),
        (ExpectedBulk(b'\r'), "expected '$', got ' '"),
        (ExpectedBulk(0xff), "expected '$', got '\\xff'"),
        (TooBigInlineRequest, "too big inline request"),
        (TooBigMultibulkCount, "too big mbulk count string"),
        (TooBigBulkCount, "too big bulk count string"),
        (UnbalancedQuotes, "unbalanced quotes in request"),
    ] {
        assert_eq!(error.to_string(), format!("Protocol error: {text}"));
    }
}

#[test]
fn input_byte_by_byte_costs_the_bytes_and_not_their_square() {
    // 3 MB of arguments in pieces of one byte: a decoder that started over each time would visit
    // over 10^12 bytes.
    let mut input = b"*100001\r\n".to_vec();
    for _ in 0..100_000 {
        input.extend_from_slice(b"$20\r\n01234567890123456789\r\n");
    }
    input.extend_from_slice(b"$1\r\n!\r\n");
    let (mut decoder, mut args) = (Decoder::new(), Args::new());
    for end in 0..input.len() {
        let decoded = decoder.decode(&input[..end], &Limits::default(), &mut args);
        assert_eq!(decoded, Ok(Decoded::Incomplete));
    }
    let decoded = decoder.decode(&input, &Limits::default(), &mut args);
    assert_eq!(decoded, Ok(Decoded::Request { consumed: input.len() }));
    assert_eq!((args.len(), args.get(&input, 100_000)), (100_001, b"!".as_slice()));
}
