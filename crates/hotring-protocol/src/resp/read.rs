//! Parses replies, for callers inside the server that run its commands.

use std::str;

/// A reply, or the head of an aggregate with its number of elements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Part<'a> {
    /// A simple string.
    Simple(&'a [u8]),
    /// An error.
    Error(&'a [u8]),
    /// An integer.
    Int(i64),
    /// A bulk string.
    Bulk(&'a [u8]),
    /// RESP2's null string or null array.
    Absent,
    /// RESP3's null.
    Null,
    /// A truth value.
    Boolean(bool),
    /// A floating-point number.
    Double(f64),
    /// An integer of any length.
    BigNumber(&'a [u8]),
    /// A text and its three-letter format.
    Verbatim(&'a [u8], &'a [u8]),
    /// An array or a push message.
    Array(usize),
    /// A map, with its number of pairs.
    Map(usize),
    /// A set.
    Set(usize),
}

/// Parses the part at the start of `rest` and leaves the bytes behind it; None if it is incomplete
/// or invalid.
pub fn read_part<'a>(rest: &mut &'a [u8]) -> Option<Part<'a>> {
    let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
    let (kind, line) = rest[..end].split_first()?;
    *rest = &rest[end + 2..];
    Some(match kind {
        b'+' => Part::Simple(line),
        b'-' => Part::Error(line),
        b':' => Part::Int(number(line)?),
        b'$' | b'*' if line == b"-1" => Part::Absent,
        b'$' => Part::Bulk(body(line, rest)?),
        b'=' => {
            let (kind, text) = body(line, rest)?.split_at_checked(3)?;
            Part::Verbatim(kind, text.strip_prefix(b":")?)
        }
        b'*' | b'>' => Part::Array(number(line)?),
        b'%' => Part::Map(number(line)?),
        b'~' => Part::Set(number(line)?),
        b'_' => Part::Null,
        b'#' => Part::Boolean(line == b"t"),
        b',' => Part::Double(number(line)?),
        b'(' => Part::BigNumber(line),
        _ => return None,
    })
}

fn number<T: str::FromStr>(line: &[u8]) -> Option<T> {
    str::from_utf8(line).ok()?.parse().ok()
}

/// The bytes whose length is in `line`.
fn body<'a>(line: &[u8], rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (bytes, after) = rest.split_at_checked(number(line)?)?;
    *rest = after.strip_prefix(b"\r\n")?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::{Version, Writer};

    fn parts(mut reply: &[u8]) -> Vec<Part<'_>> {
        let mut parts = Vec::new();
        while !reply.is_empty() {
            parts.push(read_part(&mut reply).expect("a whole reply"));
        }
        parts
    }

    #[test]
    fn what_was_written_is_read() {
        for version in [Version::Resp2, Version::Resp3] {
            let mut out = Vec::new();
            let mut w = Writer::new(&mut out, version);
            w.map(1);
            w.simple("OK");
            w.bulk(b"a\r\nb");
            w.set(2);
            w.int(-7);
            w.double(1.5);
            w.null();
            w.error("ERR x");
            w.boolean(true);
            w.verbatim("txt", "text");
            w.big_number(b"123");
            w.push(0);
            w.null_array();
            let is_old = version == Version::Resp2;
            let either = |old, new| if is_old { old } else { new };
            let expected = [
                either(Part::Array(2), Part::Map(1)),
                Part::Simple(b"OK"),
                Part::Bulk(b"a\r\nb"),
                either(Part::Array(2), Part::Set(2)),
                Part::Int(-7),
                either(Part::Bulk(b"1.5"), Part::Double(1.5)),
                either(Part::Absent, Part::Null),
                Part::Error(b"ERR x"),
                either(Part::Int(1), Part::Boolean(true)),
                either(Part::Bulk(b"text"), Part::Verbatim(b"txt", b"text")),
                either(Part::Bulk(b"123"), Part::BigNumber(b"123")),
                Part::Array(0),
                either(Part::Absent, Part::Null),
            ];
            assert_eq!(parts(&out), expected);
        }
    }

    #[test]
    fn what_is_no_reply_is_refused() {
        for bad in [
            &b""[..],
            b"+OK",
            b"$3\r\nab\r\n",
            b"$2\r\nabc\r\n",
            b"$-2\r\n",
            b":x\r\n",
            b"?\r\n",
            b"=2\r\nab\r\n",
            b"=4\r\ntxtx\r\n",
            b"\r\n",
            b"*-3\r\n",
            b"$99999999999999999999\r\n",
        ] {
            assert_eq!(read_part(&mut &bad[..]), None, "{}", bad.escape_ascii());
        }
    }
}
