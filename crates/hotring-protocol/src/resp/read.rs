//! Reads replies part by part. A part is a value, or the head of an aggregate with its length.
//!
//! The sender is not trusted: every length is checked against [`ReplyLimits`], and nothing is
//! allocated here.

use std::fmt;
use std::ops::Range;
use std::str;

/// Bytes of a malformed line that an error shows.
const SHOWN_LEN: usize = 80;

/// A value, or the head of an aggregate. `T` stands for its texts: bytes, or their ranges in the
/// input.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Part<T> {
    /// A simple string.
    Simple(T),
    /// An error, of one line or a bulk.
    Error(T),
    /// An integer.
    Int(i64),
    /// A bulk string.
    Bulk(T),
    /// RESP2's null string or null array.
    Absent,
    /// RESP3's null.
    Null,
    /// A truth value.
    Boolean(bool),
    /// A floating-point number.
    Double(f64),
    /// An integer of any length.
    BigNumber(T),
    /// A three-letter format and a text.
    Verbatim(T, T),
    /// An array.
    Array(usize),
    /// A map, with its number of pairs.
    Map(usize),
    /// A set.
    Set(usize),
    /// A push message.
    Push(usize),
    /// Attribute pairs that describe the reply behind them.
    Attribute(usize),
}

impl<T> Part<T> {
    /// The number of replies that belong to this part and follow it.
    pub fn n_elements(&self) -> usize {
        match *self {
            Part::Array(n) | Part::Set(n) | Part::Push(n) => n,
            Part::Map(n) | Part::Attribute(n) => n.saturating_mul(2),
            _ => 0,
        }
    }

    fn map<U>(self, mut f: impl FnMut(T) -> U) -> Part<U> {
        match self {
            Part::Simple(text) => Part::Simple(f(text)),
            Part::Error(text) => Part::Error(f(text)),
            Part::Int(number) => Part::Int(number),
            Part::Bulk(bytes) => Part::Bulk(f(bytes)),
            Part::Absent => Part::Absent,
            Part::Null => Part::Null,
            Part::Boolean(truth) => Part::Boolean(truth),
            Part::Double(number) => Part::Double(number),
            Part::BigNumber(digits) => Part::BigNumber(f(digits)),
            Part::Verbatim(format, text) => Part::Verbatim(f(format), f(text)),
            Part::Array(n) => Part::Array(n),
            Part::Map(n) => Part::Map(n),
            Part::Set(n) => Part::Set(n),
            Part::Push(n) => Part::Push(n),
            Part::Attribute(n) => Part::Attribute(n),
        }
    }
}

impl Part<Range<usize>> {
    /// Replaces the ranges by the texts; `input` must be the bytes in which the part was found.
    pub fn of(self, input: &[u8]) -> Part<&[u8]> {
        self.map(|range| &input[range])
    }
}

/// Limits of a reply.
#[derive(Clone, Copy, Debug)]
pub struct ReplyLimits {
    /// Longest line: a simple string, an error or the head of another part.
    pub line_len: usize,
    /// Longest bulk string.
    pub bulk_len: usize,
    /// Most elements of an array, or pairs of a map.
    pub n_elements: usize,
    /// Deepest nesting of aggregates.
    pub depth: usize,
}

impl ReplyLimits {
    /// No limits, for replies that the process has written itself.
    pub const NONE: ReplyLimits = ReplyLimits {
        line_len: usize::MAX,
        bulk_len: usize::MAX,
        n_elements: usize::MAX,
        depth: usize::MAX,
    };
}

/// 64 KiB in a line, 1 GiB in a bulk string, 2^30 elements, 16 levels.
impl Default for ReplyLimits {
    fn default() -> Self {
        ReplyLimits { line_len: 64 << 10, bulk_len: 1 << 30, n_elements: 1 << 30, depth: 16 }
    }
}

/// Why bytes are not a reply. The connection must be closed: where the next reply begins is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplyError {
    /// The bytes are not valid RESP; holds the start of the line.
    Malformed(Vec<u8>),
    /// A line, a string or an aggregate above the limit.
    TooLong,
    /// More levels of aggregates than the limit.
    TooDeep,
}

impl fmt::Display for ReplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplyError::Malformed(line) => {
                write!(f, "the reply is not one that Redis would send: {}", line.escape_ascii())
            }
            ReplyError::TooLong => f.write_str("the reply is too long"),
            ReplyError::TooDeep => f.write_str("the reply has too many levels"),
        }
    }
}

impl std::error::Error for ReplyError {}

/// A part with the ranges of its texts, and its length including line ends.
type Found = (Part<Range<usize>>, usize);

/// Finds the part at the start of `input`; None if it is incomplete.
pub fn find_part(input: &[u8], limits: &ReplyLimits) -> Result<Option<Found>, ReplyError> {
    let Some(end) = memchr::memchr(b'\n', input) else {
        let is_short = input.len() <= limits.line_len;
        return if is_short { Ok(None) } else { Err(ReplyError::TooLong) };
    };
    if end > limits.line_len {
        return Err(ReplyError::TooLong);
    }
    let [kind, text @ .., b'\r'] = &input[..end] else { return Err(malformed(input, end)) };
    let (range, len) = (1..end - 1, end + 1);
    let number = number::<i64>(text);
    let elements = || count(number, limits.n_elements).ok_or(ReplyError::TooLong);
    let part = match (kind, number) {
        (b'+', _) => Part::Simple(range),
        (b'-', _) => Part::Error(range),
        (b':', Some(number)) => Part::Int(number),
        (b'$' | b'*', Some(-1)) => Part::Absent,
        (b'$' | b'=' | b'!', Some(0..)) => {
            let n = count(number, limits.bulk_len).ok_or(ReplyError::TooLong)?;
            let Some(body) = input[len..].get(..n.saturating_add(2)) else { return Ok(None) };
            let part = body.ends_with(b"\r\n").then(|| bulk(*kind, len, &body[..n])).flatten();
            return part.map(|part| Some((part, len + n + 2))).ok_or_else(|| malformed(input, end));
        }
        (b'*', Some(0..)) => Part::Array(elements()?),
        (b'>', Some(0..)) => Part::Push(elements()?),
        (b'%', Some(0..)) => Part::Map(elements()?),
        (b'~', Some(0..)) => Part::Set(elements()?),
        (b'|', Some(0..)) => Part::Attribute(elements()?),
        (b'_', None) if text.is_empty() => Part::Null,
        (b'#', None) if text == b"t" || text == b"f" => Part::Boolean(text == b"t"),
        (b',', _) => Part::Double(self::number(text).ok_or_else(|| malformed(input, end))?),
        (b'(', _) => Part::BigNumber(range),
        _ => return Err(malformed(input, end)),
    };
    Ok(Some((part, len)))
}

/// Removes the part at the start of `rest` and returns it, without limits; None if it is incomplete
/// or malformed.
pub fn read_part<'a>(rest: &mut &'a [u8]) -> Option<Part<&'a [u8]>> {
    let input = *rest;
    let (part, len) = find_part(input, &ReplyLimits::NONE).ok()??;
    *rest = &input[len..];
    Some(part.of(input))
}

/// The part whose head announces a body, which is at `start`.
fn bulk(kind: u8, start: usize, body: &[u8]) -> Option<Part<Range<usize>>> {
    let range = start..start + body.len();
    match kind {
        b'$' => Some(Part::Bulk(range)),
        b'!' => Some(Part::Error(range)),
        _ if body.get(3) == Some(&b':') => {
            Some(Part::Verbatim(start..start + 3, start + 4..range.end))
        }
        _ => None,
    }
}

/// The number in a line.
fn number<T: str::FromStr>(text: &[u8]) -> Option<T> {
    str::from_utf8(text).ok()?.parse().ok()
}

/// The number as a length, if it is within the limit.
fn count(number: Option<i64>, max: usize) -> Option<usize> {
    usize::try_from(number?).ok().filter(|n| *n <= max)
}

fn malformed(input: &[u8], end: usize) -> ReplyError {
    let line = input[..end].strip_suffix(b"\r").unwrap_or(&input[..end]);
    ReplyError::Malformed(line[..line.len().min(SHOWN_LEN)].to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::{Version, Writer};

    fn parts(mut reply: &[u8]) -> Vec<Part<&[u8]>> {
        let mut parts = Vec::new();
        while !reply.is_empty() {
            parts.push(read_part(&mut reply).expect("a whole reply"));
        }
        parts
    }

    #[test]
    fn written_replies_are_read_back() {
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
                Part::Simple(&b"OK"[..]),
                Part::Bulk(b"a\r\nb"),
                either(Part::Array(2), Part::Set(2)),
                Part::Int(-7),
                either(Part::Bulk(b"1.5"), Part::Double(1.5)),
                either(Part::Absent, Part::Null),
                Part::Error(b"ERR x"),
                either(Part::Int(1), Part::Boolean(true)),
                either(Part::Bulk(b"text"), Part::Verbatim(b"txt", b"text")),
                either(Part::Bulk(b"123"), Part::BigNumber(b"123")),
                either(Part::Array(0), Part::Push(0)),
                either(Part::Absent, Part::Null),
            ];
            assert_eq!(parts(&out), expected);
        }
    }

    #[test]
    fn parts_that_only_other_servers_send_are_read() {
        let read = parts(b"!5\r\nERR x\r\n|1\r\n,inf\r\n,-inf\r\n#f\r\n:+5\r\n$0\r\n\r\n");
        let expected = [
            Part::Error(&b"ERR x"[..]),
            Part::Attribute(1),
            Part::Double(f64::INFINITY),
            Part::Double(f64::NEG_INFINITY),
            Part::Boolean(false),
            Part::Int(5),
            Part::Bulk(b""),
        ];
        assert_eq!(read, expected);
        assert_eq!(Part::<()>::Map(usize::MAX).n_elements(), usize::MAX);
    }

    #[test]
    fn invalid_replies_are_refused() {
        for bad in [
            "$3\r\nabcde",
            "$2\r\nabc\r\n",
            "$-2\r\n",
            "$x\r\n",
            ":x\r\n",
            ":\r\n",
            ",x\r\n",
            "?\r\n",
            "=2\r\nab\r\n",
            "=4\r\ntxtx\r\n",
            "=-1\r\n",
            "!-1\r\n",
            "\r\n",
            "\n",
            "*-3\r\n",
            "%-1\r\n",
            "_x\r\n",
            "_1\r\n",
            "#x\r\n",
            "#1\r\n",
            "+OK\n",
            "HTTP/1.1 400\r\n",
            "$99999999999999999999\r\n",
        ] {
            let found = find_part(bad.as_bytes(), &ReplyLimits::NONE);
            assert!(matches!(found, Err(ReplyError::Malformed(_))), "{bad:?}: {found:?}");
            assert_eq!(read_part(&mut bad.as_bytes()), None, "{bad:?}");
        }
        let long = [b'x'; 1000];
        let error = find_part(&[&long[..], b"\r\n"].concat(), &ReplyLimits::NONE).unwrap_err();
        assert_eq!(error, ReplyError::Malformed(long[..SHOWN_LEN].to_vec()));
    }

    #[test]
    fn limits_are_kept_before_the_bytes_arrive() {
        let limits = ReplyLimits { line_len: 5, bulk_len: 3, n_elements: 2, depth: 1 };
        let find = |input: &str| find_part(input.as_bytes(), &limits);
        for fine in ["+abc\r\n", "$3\r\nabc\r\n", "*2\r\n", "%2\r\n"] {
            assert!(matches!(find(fine), Ok(Some(_))), "{fine:?}");
        }
        for long in
            ["+abcd\r\n", "+abcde", "$4\r\n", "=4\r\n", "*3\r\n", "%3\r\n", "~3\r\n", ">3\r\n"]
        {
            assert_eq!(find(long), Err(ReplyError::TooLong), "{long:?}");
        }
        for incomplete in ["", "+", "+abcd", "$3\r\n", "$3\r\nabc\r", "*2\r"] {
            assert_eq!(find(incomplete), Ok(None), "{incomplete:?}");
        }
    }
}
