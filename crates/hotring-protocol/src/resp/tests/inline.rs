//! Tests of inline requests: words, quotes, escapes, limits.

use super::*;

fn words(line: &str) -> Result<Vec<String>, ProtocolError> {
    let line = format!("{line}\r\n");
    let found = decode_once(line.as_bytes(), &Limits::default())?.expect("the line is complete");
    assert_eq!(found.consumed, line.len());
    // Latin-1, so that a test can write any byte as a character.
    Ok(found.args.iter().map(|arg| arg.iter().map(|&b| b as char).collect()).collect())
}

#[test]
fn lines_split_into_words() {
    for (line, expected) in [
        ("PING", &["PING"][..]),
        ("", &[]),
        ("   ", &[]),
        ("  SET \t k   v ", &["SET", "k", "v"]),
        ("\x0b\x0cGET\x0bk", &["GET\x0bk"]),
        ("SET k \"\"", &["SET", "k", ""]),
        ("SET k ''", &["SET", "k", ""]),
        (r#"SET k "two words""#, &["SET", "k", "two words"]),
        (r#"SET k pre"fix ed""#, &["SET", "k", "prefix ed"]),
        (r#""a" 'b'"#, &["a", "b"]),
        (r#""\n\r\t\b\a\\\"\q""#, &["\n\r\t\x08\x07\\\"q"]),
        (r#""\x00\xfF\x7g\x""#, &["\0\u{ff}x7gx"]),
        (r"'it\'s \n'", &["it's \\n"]),
        (r"a\nb", &["a\\nb"]),
        ("a\0b", &["a\0b"]),
        ("$4", &["$4"]),
    ] {
        assert_eq!(words(line).unwrap(), expected, "{line:?}");
    }
}

#[test]
fn open_quotes_and_text_behind_a_quote_are_refused() {
    for line in [
        "\"",
        "'",
        "SET k \"v",
        "SET k 'v",
        "\"a\"b",
        "'a'b",
        "\"a\"\"b\"",
        "'a\\'",
        "\"a\\\"",
        "\"\\",
    ] {
        assert_eq!(words(line), Err(ProtocolError::UnbalancedQuotes), "{line:?}");
    }
}

#[test]
fn a_bare_newline_ends_a_line_too() {
    let limits = Limits::default();
    assert_eq!(decode_once(b"PING\nPING\n", &limits), Ok(Some(request(&["PING"], 5))));
    assert_eq!(decode_once(b"\n", &limits), Ok(Some(request(&[], 1))));
    assert_eq!(decode_once(b"\r\n", &limits), Ok(Some(request(&[], 2))));
    assert_eq!(decode_once(b"PING\r", &limits), Ok(None));
}

#[test]
fn every_prefix_of_a_line_is_incomplete() {
    let line = b"SET \"a key\" 'a value'\r\n";
    let (mut decoder, mut args) = (Decoder::new(), Args::new());
    for end in 0..line.len() {
        let decoded = decoder.decode(&line[..end], &Limits::default(), &mut args);
        assert_eq!(decoded, Ok(Decoded::Incomplete));
    }
    let decoded = decoder.decode(line, &Limits::default(), &mut args).unwrap();
    assert_eq!(
        found(decoded, &args, line),
        Some(request(&["SET", "a key", "a value"], line.len()))
    );
}

#[test]
fn long_lines_are_refused_with_and_without_their_end() {
    let limits = Limits::default();
    let mut line = vec![b'a'; 64 * 1024];
    assert_eq!(decode_once(&line, &limits), Ok(None));
    line.push(b'\n');
    assert_eq!(decode_once(&line, &limits).unwrap().unwrap().args[0].len(), 64 * 1024);
    line[64 * 1024] = b'a';
    assert_eq!(decode_once(&line, &limits), Err(ProtocolError::TooBigInlineRequest));
    line.push(b'\n');
    assert_eq!(decode_once(&line, &limits), Err(ProtocolError::TooBigInlineRequest));
}

#[test]
fn the_words_of_a_web_browser_are_seen() {
    // A page in a browser can send these lines to a server on loopback; the caller closes the
    // connection when it sees the first words.
    for line in ["POST / HTTP/1.1", "Host: localhost:6379"] {
        assert!(["POST", "Host:"].contains(&words(line).unwrap()[0].as_str()));
    }
}
