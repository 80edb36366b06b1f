//! The arguments of one request, as ranges of the input instead of copies.
//!
//! The arguments of a multibulk request are ranges of the caller's input buffer. An inline request
//! may hold quotes and escapes, so its arguments are unescaped into a buffer that [`Args`] owns.
//! [`ArgsView`] hides the difference.

use std::ops::{Index, Range};

/// Above this many arguments the memory of the ranges is freed instead of kept for the next request
/// (64 KiB at 16 bytes each).
const KEPT_SPANS_MAX: usize = 4096;

/// The range of one argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    start: usize,
    end: usize,
}

impl Span {
    #[inline]
    pub(crate) fn new(start: usize, len: usize) -> Self {
        Self { start, end: start + len }
    }

    /// Its start and length.
    pub(crate) fn start_and_len(self) -> (usize, usize) {
        (self.start, self.end - self.start)
    }
}

/// Storage for the arguments of one request; reuse it for all requests.
#[derive(Debug, Default)]
pub struct Args {
    pub(crate) spans: Vec<Span>,
    /// Unescaped bytes of an inline request; empty for a multibulk one.
    pub(crate) unescaped: Vec<u8>,
    pub(crate) inline: bool,
}

impl Args {
    /// An empty set of arguments.
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of arguments, including the command's name. 0 after an empty line.
    #[inline]
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// True after an empty line or an empty multibulk, which get no reply.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// The `i`th argument; `input` is the slice that was decoded.
    ///
    /// # Panics
    /// If `i >= len()`.
    #[inline]
    pub fn get<'a>(&'a self, input: &'a [u8], i: usize) -> &'a [u8] {
        self.view(input).at(i)
    }

    /// The arguments together with the slice that was decoded.
    #[inline]
    pub fn view<'a>(&'a self, input: &'a [u8]) -> ArgsView<'a> {
        let bytes = if self.inline { &self.unescaped } else { input };
        ArgsView { bytes, spans: &self.spans }
    }

    pub(crate) fn clear(&mut self) {
        if self.spans.capacity() > KEPT_SPANS_MAX {
            self.spans = Vec::new();
        }
        self.spans.clear();
        self.unescaped.clear();
        self.inline = false;
    }
}

/// A request's arguments: a cheap copy that indexes like a slice of byte strings.
#[derive(Clone, Copy, Default)]
pub struct ArgsView<'a> {
    bytes: &'a [u8],
    spans: &'a [Span],
}

impl<'a> ArgsView<'a> {
    /// Number of arguments, including the command's name.
    #[inline]
    pub fn len(self) -> usize {
        self.spans.len()
    }

    /// True if there is not even a command name.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.spans.is_empty()
    }

    /// The `i`th argument, if there is one.
    #[inline]
    pub fn get(self, i: usize) -> Option<&'a [u8]> {
        self.spans.get(i).map(|span| &self.bytes[span.start..span.end])
    }

    /// The `i`th argument with the lifetime of the input, which `Index` cannot give.
    ///
    /// # Panics
    /// If `i >= len()`.
    #[inline]
    pub fn at(self, i: usize) -> &'a [u8] {
        let span = self.spans[i];
        &self.bytes[span.start..span.end]
    }

    /// The arguments in `range`, as a separate view.
    ///
    /// # Panics
    ///
    /// If the range leaves `0..len()`.
    #[inline]
    pub fn slice(self, range: Range<usize>) -> ArgsView<'a> {
        ArgsView { bytes: self.bytes, spans: &self.spans[range] }
    }

    /// The arguments from the `i`th on; empty if there are none.
    #[inline]
    pub fn tail(self, i: usize) -> ArgsView<'a> {
        ArgsView { bytes: self.bytes, spans: self.spans.get(i..).unwrap_or(&[]) }
    }

    /// All arguments in order.
    #[inline]
    pub fn iter(self) -> impl DoubleEndedIterator<Item = &'a [u8]> + ExactSizeIterator + Clone {
        self.spans.iter().map(move |span| &self.bytes[span.start..span.end])
    }
}

/// Requests copied out of the input for later; all their arguments are in one buffer.
#[derive(Debug, Default)]
pub struct KeptArgs {
    bytes: Vec<u8>,
    spans: Vec<Span>,
    /// For each request, the index in `spans` at which it ends.
    ends: Vec<usize>,
}

impl KeptArgs {
    /// Appends a copy of a request.
    pub fn push(&mut self, request: ArgsView<'_>) {
        request.iter().for_each(|arg| self.add(arg));
        self.end();
    }

    /// Adds an argument to a request that is being built.
    pub fn add(&mut self, arg: &[u8]) {
        self.spans.push(Span::new(self.bytes.len(), arg.len()));
        self.bytes.extend_from_slice(arg);
    }

    /// Ends the request that is being built.
    pub fn end(&mut self) {
        self.ends.push(self.spans.len());
    }

    /// Removes all requests and keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.spans.clear();
        self.ends.clear();
    }

    /// Number of requests.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// True if there are no requests.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes of memory in use.
    pub fn memory(&self) -> usize {
        self.bytes.capacity()
            + self.spans.capacity() * size_of::<Span>()
            + self.ends.capacity() * size_of::<usize>()
    }

    /// All requests in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = ArgsView<'_>> + Clone {
        (0..self.ends.len()).map(|i| {
            let start = if i == 0 { 0 } else { self.ends[i - 1] };
            ArgsView { bytes: &self.bytes, spans: &self.spans[start..self.ends[i]] }
        })
    }
}

impl Index<usize> for ArgsView<'_> {
    type Output = [u8];

    #[inline]
    fn index(&self, i: usize) -> &[u8] {
        self.at(i)
    }
}

impl std::fmt::Debug for ArgsView<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter().map(|arg| arg.escape_ascii().to_string())).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::{Decoder, Limits};

    #[test]
    fn kept_requests_outlive_the_input_and_know_their_memory() {
        let (mut decoder, mut args, mut kept) = (Decoder::new(), Args::new(), KeptArgs::default());
        assert!(kept.is_empty());
        for line in ["SET k 'a b'\r\n", "*2\r\n$3\r\nGET\r\n$0\r\n\r\n", "PING\r\n"] {
            let input = line.as_bytes().to_vec();
            decoder.decode(&input, &Limits::default(), &mut args).unwrap();
            kept.push(args.view(&input));
        }
        let shown: Vec<_> = kept.iter().map(|request| format!("{request:?}")).collect();
        assert_eq!(shown, [r#"["SET", "k", "a b"]"#, r#"["GET", ""]"#, r#"["PING"]"#]);
        assert_eq!(kept.len(), 3);
        let before = kept.memory();
        kept.clear();
        kept.add(b"DEL");
        kept.add(b"x");
        kept.end();
        assert_eq!(format!("{:?}", kept.iter().next().unwrap()), r#"["DEL", "x"]"#);
        let long = format!("ECHO {}\r\n", "x".repeat(10_000)).into_bytes();
        decoder.decode(&long, &Limits::default(), &mut args).unwrap();
        kept.push(args.view(&long));
        assert!(kept.memory() >= before + 9_000, "{} then {before}", kept.memory());
    }
}
