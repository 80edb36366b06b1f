//! Decodes RESP requests.
//!
//! A request is either a multibulk, `*2\r\n$3\r\nGET\r\n$1\r\nk\r\n`, or an inline line that a
//! person types, `GET k\r\n`. The decoder keeps its position when the input ends inside a request,
//! and the next call continues there. So a request costs O(its length) in however many pieces it
//! arrives, and a long argument is skipped over.
//!
//! Announced lengths must not reserve memory: it grows only with the bytes that arrive.

use memchr::memchr;

use super::inline;
use crate::args::{Args, Span};
use crate::error::ProtocolError;
use crate::number::parse_i64;

/// The longest `*` or `$` line, as in Redis.
const COUNT_LINE_MAX: usize = 64 * 1024;

/// Limits for a client. There is one set before and one after authentication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most arguments of one request.
    pub args_max: usize,
    /// Longest argument in bytes.
    pub bulk_len_max: usize,
    /// Longest inline request in bytes.
    pub inline_len_max: usize,
    /// Selects the error text: whether more is refused only because the client is not
    /// authenticated.
    pub authenticated: bool,
}

impl Limits {
    /// For clients that have not authenticated: they must not be able to fill memory.
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

/// The result of [`Decoder::decode`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// The input ends inside a request.
    Incomplete,
    /// A request of `consumed` bytes. It may be empty and then gets no reply.
    Request {
        /// Bytes of the input.
        consumed: usize,
    },
}

/// Decodes the requests of one connection.
///
/// After an error the connection must be closed and the decoder must not be used again.
#[derive(Debug, Default)]
pub struct Decoder {
    /// Everything before is decoded.
    at: usize,
    /// There is no line end between `at` and here.
    searched: usize,
    /// Arguments still missing; 0 before the `*` line.
    args_left: usize,
    /// Length of the argument at `at`, once its `$` line has been read.
    bulk_len: Option<usize>,
    /// Length of the input when it last ended inside the request.
    seen: usize,
    /// The arguments so far, while the request is incomplete.
    found: Vec<Span>,
}

impl Decoder {
    /// A decoder at the start of a request.
    pub fn new() -> Self {
        Self::default()
    }

    /// True inside a request whose rest has not arrived.
    #[inline]
    pub fn is_mid_request(&self) -> bool {
        self.seen > 0
    }

    /// The length of the input that the next call needs to make progress, so that a caller can read
    /// a long argument in one piece.
    #[inline]
    pub fn input_len_wanted(&self) -> usize {
        match self.bulk_len {
            Some(len) => self.at + len + 2,
            None => self.seen + 1,
        }
    }

    /// Decodes the request at the start of `input`.
    ///
    /// After [`Decoded::Incomplete`] the caller must pass the same bytes again with more behind
    /// them, after [`Decoded::Request`] the bytes behind the consumed ones.
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
        self.keep_incomplete(decoded, input, args);
        Ok(decoded)
    }

    /// Like [`decode`](Self::decode), for a request of `n_args` arguments whose first is known to
    /// be `name`.
    #[inline(always)]
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
        let (start, len) = name.start_and_len();
        self.at = start + len + 2;
        self.args_left = n_args - 1;
        let decoded = self.arguments(input, limits, args)?;
        self.keep_incomplete(decoded, input, args);
        Ok(decoded)
    }

    /// Keeps the arguments so far if the request is incomplete.
    #[inline]
    fn keep_incomplete(&mut self, decoded: Decoded, input: &[u8], args: &mut Args) {
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

    /// Decodes the missing arguments. Inlined at each of its few call sites: an outlined call costs 94 instructions
    /// per request.
    #[inline(always)]
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
            // Two bytes end an argument; like Redis, this does not check which.
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

    /// Reads a `$` line and returns the length of the argument behind it.
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

    /// Reads a line of a type byte and a number, and moves behind it. `None`: the line is
    /// incomplete; `Some(None)`: it has no number.
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
        // A line may be empty, even without the type byte.
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

/// The length of a `$` line, including its end, and the length that it announces, for up to three
/// digits, as in nearly all requests.
#[inline(always)]
fn short_bulk_line(input: &[u8]) -> Option<(usize, usize)> {
    let digit = |byte: u8| Some(usize::from(byte.wrapping_sub(b'0'))).filter(|digit| *digit < 10);
    let (line_len, len, least) = match *input {
        [b'$', a, b'\r', _, ..] => (4, digit(a)?, 0),
        [b'$', a, b, b'\r', _, ..] => (5, digit(a)? * 10 + digit(b)?, 10),
        [b'$', a, b, c, b'\r', _, ..] => (6, digit(a)? * 100 + digit(b)? * 10 + digit(c)?, 100),
        _ => return None,
    };
    // Leading zeros are refused.
    (len >= least).then_some((line_len, len))
}

/// Checks the number of arguments of a `*` line; a null array has none.
fn check_args(count: Option<i64>, limits: &Limits) -> Result<usize, ProtocolError> {
    let count = count.ok_or(ProtocolError::InvalidMultibulkLength)?;
    match usize::try_from(count.max(0)) {
        Ok(count) if count <= limits.args_max => Ok(count),
        _ if !limits.authenticated => Err(ProtocolError::UnauthenticatedMultibulkLength),
        _ => Err(ProtocolError::InvalidMultibulkLength),
    }
}
