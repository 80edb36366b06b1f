//! Cuts requests out of the input.
//!
//! A request is either a multibulk, `*2\r\n$3\r\nGET\r\n$1\r\nk\r\n`, or an inline line
//! that a person types, `GET k\r\n`. The decoder keeps its place when the input ends
//! inside a request: the next call goes on from there, so that a request costs O(its
//! bytes) in however many pieces it arrives, and a long argument is jumped over.
//!
//! Announced lengths reserve nothing: memory grows with the bytes that really come.

use memchr::memchr;

use super::inline;
use crate::args::{Args, Span};
use crate::error::ProtocolError;
use crate::number::parse_i64;

/// The longest `*` or `$` line that is waited for; also Redis's limit.
const COUNT_LINE_MAX: usize = 64 * 1024;

/// What a client may send. Two values make the limits before and after authentication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most arguments of one request.
    pub args_max: usize,
    /// Longest argument in bytes.
    pub bulk_len_max: usize,
    /// Longest inline request in bytes.
    pub inline_len_max: usize,
    /// Chooses the error text: whether it is for want of authentication that more is refused.
    pub authenticated: bool,
}

impl Limits {
    /// For clients that have yet to authenticate: no one may fill memory unasked.
    pub const UNAUTHENTICATED: Self = Self {
        args_max: 10,
        bulk_len_max: 16 * 1024,
        inline_len_max: 64 * 1024,
        authenticated: false,
    };
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            args_max: 1024 * 1024,
            bulk_len_max: 512 * 1024 * 1024,
            inline_len_max: 64 * 1024,
            authenticated: true,
        }
    }
}

/// What [`Decoder::decode`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// The input ends inside a request.
    Incomplete,
    /// A request of `consumed` bytes. It may be empty and then wants no reply.
    Request {
        /// How much of the input the request took.
        consumed: usize,
    },
}

/// Finds requests in a connection's input; one per connection.
///
/// After an error the connection is to be closed; the decoder is of no further use.
#[derive(Debug, Default)]
pub struct Decoder {
    /// Everything before it is decoded.
    at: usize,
    /// Everything from `at` to here holds no line end.
    searched: usize,
    /// Arguments still to come; 0 before the `*` line.
    args_left: usize,
    /// Length of the argument that begins at `at`, once its `$` line is read.
    bulk_len: Option<usize>,
    /// Length of the input when it last ended inside the request.
    seen: usize,
    /// The arguments found so far, while the request is incomplete.
    found: Vec<Span>,
}

impl Decoder {
    /// A decoder at the start of a request.
    pub fn new() -> Self {
        Self::default()
    }

    /// True if part of a request has been seen and the rest has not.
    #[inline]
    pub fn is_mid_request(&self) -> bool {
        self.seen > 0
    }

    /// How long the input must at least be for the next call to get any further. Lets
    /// a caller read a long argument in one piece.
    #[inline]
    pub fn input_len_wanted(&self) -> usize {
        match self.bulk_len {
            Some(len) => self.at + len + 2,
            None => self.seen + 1,
        }
    }

    /// Looks for the next request at the start of `input`.
    ///
    /// After [`Decoded::Incomplete`] the caller passes the same bytes again with more
    /// behind them. After [`Decoded::Request`] it passes what follows the consumed ones.
    #[inline]
    pub fn decode(
        &mut self,
        input: &[u8],
        limits: &Limits,
        args: &mut Args,
    ) -> Result<Decoded, ProtocolError> {
        args.clear();
        let decoded = match input.first() {
            None => Decoded::Incomplete,
            Some(b'*') => {
                if self.args_left > 0 {
                    args.spans = std::mem::take(&mut self.found);
                }
                self.multibulk(input, limits, args)?
            }
            Some(_) => self.inline(input, limits, args)?,
        };
        self.note_incomplete(decoded, input, args);
        Ok(decoded)
    }

    /// As [`decode`](Self::decode), of a request of `n_args` arguments the first of which is known to be
    /// `name`.
    #[inline]
    pub(crate) fn decode_behind(
        &mut self,
        name: Span,
        n_args: usize,
        input: &[u8],
        limits: &Limits,
        args: &mut Args,
    ) -> Result<Decoded, ProtocolError> {
        args.clear();
        args.spans.push(name);
        let (start, len) = name.place();
        self.at = start + len + 2;
        self.args_left = n_args - 1;
        let decoded = self.arguments(input, limits, args)?;
        self.note_incomplete(decoded, input, args);
        Ok(decoded)
    }

    /// Keeps what was found if the rest of the request has not come.
    #[inline]
    fn note_incomplete(&mut self, decoded: Decoded, input: &[u8], args: &mut Args) {
        if decoded == Decoded::Incomplete {
            self.seen = input.len();
            if !args.is_empty() {
                self.found = std::mem::take(&mut args.spans);
            }
        }
    }

    fn multibulk(
        &mut self,
        input: &[u8],
        limits: &Limits,
        args: &mut Args,
    ) -> Result<Decoded, ProtocolError> {
        if self.args_left == 0 {
            let Some(count) = self.count_line(input, ProtocolError::TooBigMultibulkCount)? else {
                return Ok(Decoded::Incomplete);
            };
            self.args_left = check_args(count, limits)?;
        }
        self.arguments(input, limits, args)
    }

    /// The arguments that are still to come.
    #[inline]
    fn arguments(
        &mut self,
        input: &[u8],
        limits: &Limits,
        args: &mut Args,
    ) -> Result<Decoded, ProtocolError> {
        while self.args_left > 0 {
            let len = match self.bulk_len {
                Some(len) => len,
                None => match short_bulk_line(&input[self.at..]) {
                    Some((line_len, len)) if len <= limits.bulk_len_max => {
                        self.at += line_len;
                        len
                    }
                    _ => match self.bulk_line(input, limits)? {
                        Some(len) => len,
                        None => return Ok(Decoded::Incomplete),
                    },
                },
            };
            // Two bytes end an argument; as in Redis nobody looks which.
            if input.len() - self.at < len + 2 {
                self.bulk_len = Some(len);
                return Ok(Decoded::Incomplete);
            }
            args.spans.push(Span::new(self.at, len));
            self.at += len + 2;
            self.bulk_len = None;
            self.args_left -= 1;
        }
        Ok(self.finish())
    }

    /// Reads a `$` line and gives the length of the argument behind it.
    #[cold]
    fn bulk_line(&mut self, input: &[u8], limits: &Limits) -> Result<Option<usize>, ProtocolError> {
        let Some(&kind) = input.get(self.at) else { return Ok(None) };
        let Some(len) = self.count_line(input, ProtocolError::TooBigBulkCount)? else {
            return Ok(None);
        };
        if kind != b'$' {
            return Err(ProtocolError::ExpectedBulk(kind));
        }
        match len.and_then(|len| usize::try_from(len).ok()) {
            Some(len) if len <= limits.bulk_len_max => Ok(Some(len)),
            Some(_) if !limits.authenticated => Err(ProtocolError::UnauthenticatedBulkLength),
            _ => Err(ProtocolError::InvalidBulkLength),
        }
    }

    /// Reads the number of a line of one type byte and a number, and moves behind the
    /// line. `None`: the line is not there yet; `Some(None)`: it holds no number.
    fn count_line(
        &mut self,
        input: &[u8],
        too_long: ProtocolError,
    ) -> Result<Option<Option<i64>>, ProtocolError> {
        let from = self.searched.max(self.at);
        let Some(offset) = memchr(b'\r', &input[from..]) else {
            self.searched = input.len();
            if input.len() - self.at > COUNT_LINE_MAX {
                return Err(too_long);
            }
            return Ok(None);
        };
        let end = from + offset;
        if end + 2 > input.len() {
            self.searched = end;
            return Ok(None);
        }
        // A line may be empty, without even the byte for the type.
        let number = input.get(self.at + 1..end).and_then(parse_i64);
        self.at = end + 2;
        Ok(Some(number))
    }

    fn inline(
        &mut self,
        input: &[u8],
        limits: &Limits,
        args: &mut Args,
    ) -> Result<Decoded, ProtocolError> {
        let newline = memchr(b'\n', &input[self.searched..]).map(|offset| self.searched + offset);
        let line_len = newline.unwrap_or(input.len());
        if line_len > limits.inline_len_max {
            return Err(ProtocolError::TooBigInlineRequest);
        }
        if newline.is_none() {
            self.searched = input.len();
            return Ok(Decoded::Incomplete);
        }
        let line = &input[..line_len];
        inline::split(line.strip_suffix(b"\r").unwrap_or(line), args)?;
        self.at = line_len + 1;
        Ok(self.finish())
    }

    #[inline]
    fn finish(&mut self) -> Decoded {
        let consumed = self.at;
        self.at = 0;
        self.searched = 0;
        self.seen = 0;
        Decoded::Request { consumed }
    }
}

/// The length of a `$` line, end included, and that which it announces, if it is one of up to three digits,
/// as nearly all are.
#[inline(always)]
fn short_bulk_line(input: &[u8]) -> Option<(usize, usize)> {
    let digit = |byte: u8| Some(usize::from(byte.wrapping_sub(b'0'))).filter(|digit| *digit < 10);
    let (line_len, len, least) = match *input {
        [b'$', a, b'\r', _, ..] => (4, digit(a)?, 0),
        [b'$', a, b, b'\r', _, ..] => (5, digit(a)? * 10 + digit(b)?, 10),
        [b'$', a, b, c, b'\r', _, ..] => (6, digit(a)? * 100 + digit(b)? * 10 + digit(c)?, 100),
        _ => return None,
    };
    // No zeros in front.
    (len >= least).then_some((line_len, len))
}

/// The number of arguments that a `*` line announces; not even a null array has any.
fn check_args(count: Option<i64>, limits: &Limits) -> Result<usize, ProtocolError> {
    let count = count.ok_or(ProtocolError::InvalidMultibulkLength)?;
    match usize::try_from(count.max(0)) {
        Ok(count) if count <= limits.args_max => Ok(count),
        _ if !limits.authenticated => Err(ProtocolError::UnauthenticatedMultibulkLength),
        _ => Err(ProtocolError::InvalidMultibulkLength),
    }
}
