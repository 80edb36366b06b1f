//! Tests of replies, byte for byte, to clients of both versions.

use crate::resp::{Version, Writer};

fn written(version: Version, write: impl Fn(&mut Writer<'_>)) -> String {
    // Behind other bytes, as in a buffer of several replies.
    let mut out = b"+before\r\n".to_vec();
    write(&mut Writer::new(&mut out, version));
    String::from_utf8(out).unwrap().strip_prefix("+before\r\n").unwrap().to_owned()
}

#[track_caller]
fn check(write: impl Fn(&mut Writer<'_>), resp2: &str, resp3: &str) {
    assert_eq!(written(Version::Resp2, &write), resp2);
    assert_eq!(written(Version::Resp3, &write), resp3);
}

#[track_caller]
fn check_same(write: impl Fn(&mut Writer<'_>), both: &str) {
    check(write, both, both);
}

#[test]
fn replies_of_both_versions() {
    check_same(|w| w.ok(), "+OK\r\n");
    check_same(|w| w.simple("PONG"), "+PONG\r\n");
    check_same(|w| w.int(0), ":0\r\n");
    check_same(|w| w.int(i64::MIN), ":-9223372036854775808\r\n");
    check_same(|w| w.count(12), ":12\r\n");
    check_same(|w| w.bulk(b""), "$0\r\n\r\n");
    check_same(|w| w.bulk(b"a\r\nb"), "$4\r\na\r\nb\r\n");
    check_same(|w| w.bulk_int(-120), "$4\r\n-120\r\n");
    check_same(|w| w.bulk_fmt(format_args!("{}-{:>9}", 1, 2)), "$11\r\n1-        2\r\n");
    check_same(|w| w.array(0), "*0\r\n");
    check_same(|w| w.array(100), "*100\r\n");
    let counted = |w: &mut Writer<'_>| {
        let body = |w: &mut Writer<'_>| (1..=3).inspect(|i| w.int(*i)).count();
        w.body_first(body, |w, n| w.array(n));
    };
    check_same(counted, "*3\r\n:1\r\n:2\r\n:3\r\n");
    check_same(|w| w.error("ERR syntax error"), "-ERR syntax error\r\n");
}

#[test]
fn replies_of_version_3_are_downgraded() {
    check(|w| w.null(), "$-1\r\n", "_\r\n");
    check(|w| w.null_array(), "*-1\r\n", "_\r\n");
    check(|w| w.map(2), "*4\r\n", "%2\r\n");
    check(|w| w.set(2), "*2\r\n", "~2\r\n");
    check(|w| w.push(3), "*3\r\n", ">3\r\n");
    check(|w| w.boolean(true), ":1\r\n", "#t\r\n");
    check(|w| w.boolean(false), ":0\r\n", "#f\r\n");
    check(|w| w.verbatim("txt", "hi\r\n"), "$4\r\nhi\r\n\r\n", "=8\r\ntxt:hi\r\n\r\n");
}

#[test]
fn doubles_are_short_and_exact() {
    for (number, text) in [
        (0.0, "0"),
        (3.0, "3"),
        (-2.5, "-2.5"),
        (0.1, "0.1"),
        (1e16, "10000000000000000"),
        (1e300, "1e300"),
        (-1.7976931348623157e308, "-1.7976931348623157e308"),
        (5e-324, "5e-324"),
        (f64::INFINITY, "inf"),
        (f64::NEG_INFINITY, "-inf"),
        (f64::NAN, "nan"),
    ] {
        let bulk = format!("${}\r\n{text}\r\n", text.len());
        check(|w| w.double(number), &bulk, &format!(",{text}\r\n"));
    }
    assert!(written(Version::Resp3, |w| w.double(-0.000_012_345_678_901_234_567)).len() < 30);
}

#[test]
fn no_text_splits_a_reply() {
    check_same(|w| w.error("ERR no\r\n+OK"), "-ERR no  +OK\r\n");
    check_same(|w| w.error(b"ERR \n"), "-ERR  \r\n");
    check_same(|w| w.error_fmt(format_args!("ERR '{}'", "\r\n:1")), "-ERR '  :1'\r\n");
    check_same(|w| w.simple("a\rb\nc"), "+a b c\r\n");
}
