//! Reads complete replies from bytes that arrive in pieces.

use super::read::{Part, ReplyError, ReplyLimits, find_part};

/// A reply. Simple strings and errors are meant for display: invalid UTF-8 in them is replaced.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// A simple string.
    Simple(String),
    /// An error.
    Error(String),
    /// An integer.
    Int(i64),
    /// A bulk string.
    Bulk(Vec<u8>),
    /// RESP3's null, RESP2's null string or null array.
    Null,
    /// A truth value.
    Boolean(bool),
    /// A floating-point number.
    Double(f64),
    /// An integer of any length.
    BigNumber(String),
    /// A text without its format.
    Verbatim(Vec<u8>),
    /// An array.
    Array(Vec<Reply>),
    /// A map.
    Map(Vec<(Reply, Reply)>),
    /// A set.
    Set(Vec<Reply>),
    /// A push message.
    Push(Vec<Reply>),
}

/// Gathers the bytes of a connection and reads replies from them.
///
/// Memory grows only with the bytes that have arrived, never with a length that the sender announces.
#[derive(Debug, Default)]
pub struct ReplyReader {
    limits: ReplyLimits,
    /// Unread bytes are `input[start..]`.
    input: Vec<u8>,
    start: usize,
    /// The aggregates that are being read, from the outermost.
    open: Vec<Open>,
}

/// An aggregate of which `left` elements are missing.
#[derive(Debug)]
struct Open {
    kind: Kind,
    left: usize,
    elements: Vec<Reply>,
}

#[derive(Debug)]
enum Kind {
    Array,
    Map,
    Set,
    Push,
    Attribute,
}

impl ReplyReader {
    /// A reader for one connection.
    pub fn new(limits: ReplyLimits) -> Self {
        ReplyReader { limits, ..ReplyReader::default() }
    }

    /// Adds bytes that have arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        self.input.drain(..self.start);
        self.start = 0;
        self.input.extend_from_slice(bytes);
    }

    /// Bytes that belong to no complete part.
    pub fn unread(&self) -> &[u8] {
        &self.input[self.start..]
    }

    /// The next reply; None if its end has not arrived. After an error the reader must not be used.
    pub fn next_reply(&mut self) -> Result<Option<Reply>, ReplyError> {
        loop {
            let input = &self.input[self.start..];
            let Some((part, len)) = find_part(input, &self.limits)? else { return Ok(None) };
            let left = part.n_elements();
            let value = match value(part.of(input)) {
                Ok(value) => Some(value),
                Err(_) if self.open.len() >= self.limits.depth => return Err(ReplyError::TooDeep),
                Err(kind) => {
                    self.open.push(Open { kind, left, elements: Vec::new() });
                    None
                }
            };
            self.start += len;
            if let Some(reply) = self.close(value) {
                return Ok(Some(reply));
            }
        }
    }

    /// Puts a value into the innermost aggregate, and closes aggregates that have become complete.
    /// Returns the reply once it is complete.
    fn close(&mut self, mut value: Option<Reply>) -> Option<Reply> {
        loop {
            if let Some(value) = value.take() {
                let Some(open) = self.open.last_mut() else { return Some(value) };
                open.elements.push(value);
                open.left -= 1;
            }
            value = self.open.pop_if(|open| open.left == 0)?.close();
            // An attribute is not part of the reply: the value that it describes takes its place.
            value.as_ref()?;
        }
    }
}

impl Open {
    fn close(self) -> Option<Reply> {
        let mut elements = self.elements.into_iter();
        Some(match self.kind {
            Kind::Array => Reply::Array(elements.collect()),
            Kind::Set => Reply::Set(elements.collect()),
            Kind::Push => Reply::Push(elements.collect()),
            Kind::Map => {
                let pair = || Some((elements.next()?, elements.next()?));
                Reply::Map(std::iter::from_fn(pair).collect())
            }
            Kind::Attribute => return None,
        })
    }
}

/// The value of a part, or the kind of aggregate that it begins.
fn value(part: Part<&[u8]>) -> Result<Reply, Kind> {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    Ok(match part {
        Part::Simple(bytes) => Reply::Simple(text(bytes)),
        Part::Error(bytes) => Reply::Error(text(bytes)),
        Part::Int(number) => Reply::Int(number),
        Part::Bulk(bytes) => Reply::Bulk(bytes.to_vec()),
        Part::Absent | Part::Null => Reply::Null,
        Part::Boolean(truth) => Reply::Boolean(truth),
        Part::Double(number) => Reply::Double(number),
        Part::BigNumber(digits) => Reply::BigNumber(text(digits)),
        Part::Verbatim(_, bytes) => Reply::Verbatim(bytes.to_vec()),
        Part::Array(_) => return Err(Kind::Array),
        Part::Map(_) => return Err(Kind::Map),
        Part::Set(_) => return Err(Kind::Set),
        Part::Push(_) => return Err(Kind::Push),
        Part::Attribute(_) => return Err(Kind::Attribute),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Reply {
        Reply::Bulk(text.into())
    }

    /// Replies to a stream that arrives `step` bytes at a time.
    fn replies(input: &[u8], step: usize) -> Vec<Reply> {
        let mut reader = ReplyReader::default();
        let mut replies = Vec::new();
        for bytes in input.chunks(step) {
            reader.push(bytes);
            while let Some(reply) = reader.next_reply().unwrap() {
                replies.push(reply);
            }
        }
        assert_eq!(reader.unread(), b"");
        assert!(reader.open.is_empty());
        replies
    }

    #[test]
    fn replies_are_the_same_however_they_arrive() {
        let input =
            b"+OK\r\n*4\r\n$3\r\na\r\n\r\n:-5\r\n*0\r\n$-1\r\n%2\r\n+a\r\n~1\r\n_\r\n+b\r\n*-1\r\n\
            >2\r\n=5\r\ntxt:x\r\n(12\r\n-ERR \xff\r\n%0\r\n#t\r\n,1.5\r\n";
        let expected = [
            Reply::Simple("OK".into()),
            Reply::Array(vec![bulk("a\r\n"), Reply::Int(-5), Reply::Array(vec![]), Reply::Null]),
            Reply::Map(vec![
                (Reply::Simple("a".into()), Reply::Set(vec![Reply::Null])),
                (Reply::Simple("b".into()), Reply::Null),
            ]),
            Reply::Push(vec![Reply::Verbatim(b"x".into()), Reply::BigNumber("12".into())]),
            Reply::Error("ERR \u{fffd}".into()),
            Reply::Map(vec![]),
            Reply::Boolean(true),
            Reply::Double(1.5),
        ];
        for step in [1, 2, 3, 7, input.len()] {
            assert_eq!(replies(input, step), expected, "{step}");
        }
    }

    #[test]
    fn attributes_are_left_out() {
        let attribute = "|1\r\n+ttl\r\n*1\r\n:5\r\n";
        let input =
            format!("{attribute}*2\r\n{attribute}:1\r\n{attribute}{attribute}:2\r\n|0\r\n:3\r\n");
        let expected = [Reply::Array(vec![Reply::Int(1), Reply::Int(2)]), Reply::Int(3)];
        assert_eq!(replies(input.as_bytes(), 1), expected);
    }

    #[test]
    fn limits_hold_for_depth_and_for_every_part() {
        let limits = ReplyLimits { depth: 3, bulk_len: 2, ..ReplyLimits::default() };
        let read = |input: &str| {
            let mut reader = ReplyReader::new(limits);
            reader.push(input.as_bytes());
            reader.next_reply()
        };
        assert_eq!(read(&"*1\r\n".repeat(3)), Ok(None));
        assert_eq!(read(&"*1\r\n".repeat(4)), Err(ReplyError::TooDeep));
        assert_eq!(read("*2\r\n*1\r\n*1\r\n:1\r\n*1\r\n"), Ok(None));
        assert_eq!(read("*1\r\n$3\r\n"), Err(ReplyError::TooLong));
        assert_eq!(read("*1\r\nx\r\n"), Err(ReplyError::Malformed(b"x".into())));
    }

    #[test]
    fn memory_grows_only_with_the_input() {
        let mut reader = ReplyReader::default();
        reader.push(b"*1000000000\r\n%1000000000\r\n$1000000000\r\nab");
        assert_eq!(reader.next_reply(), Ok(None));
        assert_eq!(reader.unread(), b"$1000000000\r\nab");
        let elements: usize = reader.open.iter().map(|open| open.elements.capacity()).sum();
        assert!(reader.input.capacity() < 1000 && elements == 0);
    }
}
