//! Decodes requests: a line, and the data block behind it if it has one.
//!
//! The decoder keeps its position when the input ends inside a request, so a request costs O(its
//! length) in however many pieces it arrives. Data above the limit is skipped and never kept;
//! announced lengths must not reserve memory.

use memchr::memchr;

use crate::args::{Args, ArgsView, Span};

use super::Command;

/// Limits for a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest line of a command that takes any number of keys.
    pub keys_line_max: usize,
    /// Longest data.
    pub data_len_max: usize,
}

/// The longest line of every other command; memcached's limit.
const LINE_MAX: usize = 2048;

impl Default for Limits {
    fn default() -> Self {
        Self { keys_line_max: 1 << 20, data_len_max: 1 << 20 }
    }
}

/// A line that does not end within its limit. The next request cannot be found, so the connection
/// must be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineTooLong;

/// The result of [`Decoder::decode`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// The input ends inside a request.
    Incomplete,
    /// A request of `consumed` bytes.
    Request {
        /// Bytes of the input.
        consumed: usize,
    },
    /// Skipped bytes of data above the limit; no action is needed.
    Passed {
        /// Bytes of the input.
        consumed: usize,
    },
}

/// Storage for one request; reuse it for all requests.
#[derive(Debug, Default)]
pub struct Request {
    /// The command; None if no command has this name.
    pub command: Option<Command>,
    args: Args,
    data: BlockState,
}

/// The place of a request's data block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum BlockState {
    #[default]
    Nowhere,
    Here(usize, usize),
    Unended,
    TooLong,
}

/// The data of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data<'a> {
    /// The request has no data block.
    None,
    /// The data, without its line end.
    Block(&'a [u8]),
    /// The line end behind the data is missing.
    Unended,
    /// The data is longer than the limit.
    TooLong,
}

impl Request {
    /// The words of the line, beginning with the command's name; `input` is the slice that was
    /// decoded.
    #[inline]
    pub fn args<'a>(&'a self, input: &'a [u8]) -> ArgsView<'a> {
        self.args.view(input)
    }

    /// The data.
    #[inline]
    pub fn data<'a>(&self, input: &'a [u8]) -> Data<'a> {
        match self.data {
            BlockState::Nowhere => Data::None,
            BlockState::Here(start, end) => Data::Block(&input[start..end]),
            BlockState::Unended => Data::Unended,
            BlockState::TooLong => Data::TooLong,
        }
    }
}

/// Decodes the requests of one connection.
#[derive(Debug, Default)]
pub struct Decoder {
    /// The input up to here has no line end.
    searched: usize,
    /// Length of the input when it last ended inside the request.
    seen: usize,
    /// The length of the request, once its line has been read.
    wanted: usize,
    /// Bytes of data still to be skipped.
    passes: usize,
}

impl Decoder {
    /// A decoder at the start of a request.
    pub fn new() -> Self {
        Self::default()
    }

    /// The length of the input that the next call needs to make progress.
    #[inline]
    pub fn input_len_wanted(&self) -> usize {
        self.wanted.max(self.seen + 1)
    }

    /// Decodes the request at the start of `input`.
    ///
    /// After [`Decoded::Incomplete`] the caller must pass the same bytes again with more behind
    /// them, otherwise the bytes after the consumed ones.
    ///
    /// # Errors
    ///
    /// [`LineTooLong`] if the line does not end within its limit.
    pub fn decode(
        &mut self,
        input: &[u8],
        limits: &Limits,
        request: &mut Request,
    ) -> Result<Decoded, LineTooLong> {
        if self.passes > 0 && !input.is_empty() {
            let consumed = self.passes.min(input.len());
            self.passes -= consumed;
            return Ok(Decoded::Passed { consumed });
        }
        if input.len() < self.wanted {
            return Ok(self.incomplete(input));
        }
        let newline = memchr(b'\n', &input[self.searched..]).map(|at| self.searched + at);
        let line_len = newline.unwrap_or(input.len());
        if line_len > LINE_MAX && (line_len > limits.keys_line_max || !names_keys(input)) {
            return Err(LineTooLong);
        }
        let Some(newline) = newline else {
            self.searched = input.len();
            return Ok(self.incomplete(input));
        };
        // While data is awaited, the line is not searched again.
        self.searched = newline;
        split(&input[..newline], &mut request.args);
        let args = request.args.view(input);
        request.command = args.get(0).and_then(Command::of);
        request.data = BlockState::Nowhere;
        let start = newline + 1;
        let data_len = request.command.and_then(|command| command.data_len(args));
        let Some(data_len) = data_len else { return Ok(self.finish(start)) };
        if data_len > limits.data_len_max {
            request.data = BlockState::TooLong;
            let end = self.finish(start);
            self.passes = data_len + 2;
            return Ok(end);
        }
        let end = start + data_len;
        if input.len() < end + 2 {
            self.wanted = end + 2;
            return Ok(self.incomplete(input));
        }
        let is_ended = input[end..end + 2] == *b"\r\n";
        request.data = if is_ended { BlockState::Here(start, end) } else { BlockState::Unended };
        Ok(self.finish(end + 2))
    }

    fn incomplete(&mut self, input: &[u8]) -> Decoded {
        self.seen = input.len();
        Decoded::Incomplete
    }

    fn finish(&mut self, consumed: usize) -> Decoded {
        *self = Decoder::default();
        Decoded::Request { consumed }
    }
}

/// Whether a line begins with a command that takes any number of keys.
fn names_keys(input: &[u8]) -> bool {
    let line = input.trim_ascii_start();
    let is_near = input.len() - line.len() <= 100;
    let commands: [&[u8]; 4] = [b"get ", b"gets ", b"gat ", b"gats "];
    is_near && commands.iter().any(|command| line.starts_with(command))
}

/// Splits a line into words, which are separated by any number of spaces.
fn split(line: &[u8], args: &mut Args) {
    args.clear();
    // An empty line keeps its carriage return, as in memcached.
    let len = if line.len() > 1 && line.ends_with(b"\r") { line.len() - 1 } else { line.len() };
    let mut start = 0;
    while start < len {
        let word_len = memchr(b' ', &line[start..len]).unwrap_or(len - start);
        if word_len > 0 {
            args.spans.push(Span::new(start, word_len));
        }
        start += word_len + 1;
    }
}
