//! Writes replies into a byte buffer, in the form of the client's protocol version.
//!
//! RESP2 has simple strings, errors, integers, bulk strings and arrays. RESP3's other types are
//! written to a RESP2 client in the form that Redis uses: a map as an array of keys and values, a
//! set or push as an array, a double as a bulk string, a boolean as 0 or 1, a verbatim string as a
//! bulk string, null as a null bulk string.

use std::fmt;
use std::io::Write;

/// The protocol version that a client has chosen with `HELLO`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// The version of a new connection.
    #[default]
    Resp2,
    /// After `HELLO 3`.
    Resp3,
}

/// Appends replies to a buffer.
///
/// [`array`](Self::array) and similar methods announce a number of elements, and the caller must
/// then write that many (for a map twice as many).
#[derive(Debug)]
pub struct Writer<'a> {
    out: &'a mut Vec<u8>,
    version: Version,
}

impl<'a> Writer<'a> {
    /// Appends to `out` for a client that speaks `version`.
    #[inline]
    pub fn new(out: &'a mut Vec<u8>, version: Version) -> Self {
        Self { out, version }
    }

    /// The client's version.
    #[inline]
    pub fn version(&self) -> Version {
        self.version
    }

    /// Length of the buffer, including earlier content.
    #[inline]
    pub fn written(&self) -> usize {
        self.out.len()
    }

    /// The buffer, for raw bytes.
    #[inline]
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        self.out
    }

    /// `+OK`.
    #[inline]
    pub fn ok(&mut self) {
        self.out.extend_from_slice(b"+OK\r\n");
    }

    /// A simple string. CR and LF would end it, and become spaces.
    #[inline]
    pub fn simple(&mut self, text: impl AsRef<[u8]>) {
        self.line(b'+', text.as_ref());
    }

    /// An error. `message` begins with its code, as in `ERR syntax error`. CR and LF become spaces,
    /// so that client input in an error cannot forge a reply.
    pub fn error(&mut self, message: impl AsRef<[u8]>) {
        self.line(b'-', message.as_ref());
    }

    /// As [`error`](Self::error), with formatted text.
    pub fn error_fmt(&mut self, message: fmt::Arguments<'_>) {
        self.out.push(b'-');
        let start = self.out.len();
        self.out.write_fmt(message).expect("a Vec takes every write");
        blank_line_ends(&mut self.out[start..]);
        self.out.extend_from_slice(b"\r\n");
    }

    /// An integer.
    #[inline]
    pub fn int(&mut self, number: i64) {
        self.number_line(b':', number);
    }

    /// A length or count as an integer.
    #[inline]
    pub fn count(&mut self, count: usize) {
        self.number_line(b':', count);
    }

    /// A bulk string.
    #[inline]
    pub fn bulk(&mut self, bytes: &[u8]) {
        // One capacity check instead of three; 24 is more than the longest header.
        self.out.reserve(bytes.len() + 24);
        match bytes.len() {
            len @ 0..10 => self.out.extend_from_slice(&[b'$', b'0' + len as u8, b'\r', b'\n']),
            len @ 10..100 => {
                let (tens, ones) = ((len / 10) as u8, (len % 10) as u8);
                self.out.extend_from_slice(&[b'$', b'0' + tens, b'0' + ones, b'\r', b'\n']);
            }
            len => self.number_line(b'$', len),
        }
        self.out.extend_from_slice(bytes);
        self.out.extend_from_slice(b"\r\n");
    }

    /// The header and the end of a bulk string whose `len` bytes are sent from elsewhere; `mark`
    /// gets their position.
    pub fn bulk_around(&mut self, len: usize, mark: impl FnOnce(usize)) {
        self.number_line(b'$', len);
        mark(self.out.len());
        self.out.extend_from_slice(b"\r\n");
    }

    /// A number as a bulk string.
    #[inline]
    pub fn bulk_int(&mut self, number: i64) {
        self.bulk(itoa::Buffer::new().format(number).as_bytes());
    }

    /// A bulk string of formatted text, formatted in place.
    pub fn bulk_fmt(&mut self, text: fmt::Arguments<'_>) {
        self.body_first(
            |w| {
                let start = w.out.len();
                w.out.write_fmt(text).expect("a Vec takes every write");
                w.out.len() - start
            },
            |w, len| w.number_line(b'$', len),
        );
        self.out.extend_from_slice(b"\r\n");
    }

    /// Writes `body`, and before it the output of `head`: for a reply whose head, such as a number
    /// of elements, is known only afterwards.
    pub fn body_first<R>(
        &mut self,
        body: impl FnOnce(&mut Writer<'_>) -> R,
        head: impl FnOnce(&mut Writer<'_>, R),
    ) {
        let start = self.out.len();
        let result = body(self);
        let body_end = self.out.len();
        head(self, result);
        let head_len = self.out.len() - body_end;
        self.out[start..].rotate_right(head_len);
    }

    /// The null value.
    #[inline]
    pub fn null(&mut self) {
        self.out.extend_from_slice(match self.version {
            Version::Resp2 => b"$-1\r\n",
            Version::Resp3 => b"_\r\n",
        });
    }

    /// The null array, which RESP2 distinguishes from the null string.
    #[inline]
    pub fn null_array(&mut self) {
        self.out.extend_from_slice(match self.version {
            Version::Resp2 => b"*-1\r\n",
            Version::Resp3 => b"_\r\n",
        });
    }

    /// The start of an array of `len` elements.
    #[inline]
    pub fn array(&mut self, len: usize) {
        self.number_line(b'*', len);
    }

    /// The start of a map of `len` pairs.
    #[inline]
    pub fn map(&mut self, len: usize) {
        match self.version {
            Version::Resp2 => self.number_line(b'*', len * 2),
            Version::Resp3 => self.number_line(b'%', len),
        }
    }

    /// The start of a set of `len` elements.
    #[inline]
    pub fn set(&mut self, len: usize) {
        self.aggregate(b'~', len);
    }

    /// The start of a push message of `len` elements.
    #[inline]
    pub fn push(&mut self, len: usize) {
        self.aggregate(b'>', len);
    }

    /// A floating-point number in its shortest exact form.
    pub fn double(&mut self, number: f64) {
        let mut text = [0u8; 32];
        let text = double_text(number, &mut text);
        match self.version {
            Version::Resp2 => self.bulk(text),
            Version::Resp3 => self.line(b',', text),
        }
    }

    /// A boolean.
    pub fn boolean(&mut self, truth: bool) {
        self.out.extend_from_slice(match (self.version, truth) {
            (Version::Resp2, false) => b":0\r\n",
            (Version::Resp2, true) => b":1\r\n",
            (Version::Resp3, false) => b"#f\r\n",
            (Version::Resp3, true) => b"#t\r\n",
        });
    }

    /// A number with exactly this decimal text: a double in RESP3, a bulk string in RESP2.
    pub fn decimal(&mut self, text: &[u8]) {
        match self.version {
            Version::Resp2 => self.bulk(text),
            Version::Resp3 => self.line(b',', text),
        }
    }

    /// An integer that may be longer than 64 bits.
    pub fn big_number(&mut self, digits: &[u8]) {
        match self.version {
            Version::Resp2 => self.bulk(digits),
            Version::Resp3 => self.line(b'(', digits),
        }
    }

    /// A verbatim string: a text for humans. `format` has three letters: `txt` or `mkd`.
    pub fn verbatim(&mut self, format: &str, text: &str) {
        debug_assert_eq!(format.len(), 3, "the kind of a verbatim string has three letters");
        match self.version {
            Version::Resp2 => self.bulk(text.as_bytes()),
            Version::Resp3 => {
                self.number_line(b'=', text.len() + 4);
                self.out.extend_from_slice(format.as_bytes());
                self.out.push(b':');
                self.out.extend_from_slice(text.as_bytes());
                self.out.extend_from_slice(b"\r\n");
            }
        }
    }

    #[inline]
    fn aggregate(&mut self, resp3: u8, len: usize) {
        let kind = if self.version == Version::Resp2 { b'*' } else { resp3 };
        self.number_line(kind, len);
    }

    fn line(&mut self, kind: u8, text: &[u8]) {
        self.out.push(kind);
        let start = self.out.len();
        self.out.extend_from_slice(text);
        blank_line_ends(&mut self.out[start..]);
        self.out.extend_from_slice(b"\r\n");
    }

    #[inline]
    fn number_line(&mut self, kind: u8, number: impl itoa::Integer) {
        let mut digits = itoa::Buffer::new();
        let digits = digits.format(number).as_bytes();
        self.out.reserve(digits.len() + 3);
        self.out.push(kind);
        self.out.extend_from_slice(digits);
        self.out.extend_from_slice(b"\r\n");
    }
}

fn blank_line_ends(text: &mut [u8]) {
    for byte in text {
        if matches!(byte, b'\r' | b'\n') {
            *byte = b' ';
        }
    }
}

/// The shortest text that parses as `number`; at most 24 bytes.
fn double_text(number: f64, buffer: &mut [u8; 32]) -> &[u8] {
    if number.is_nan() {
        return b"nan";
    }
    if number.is_infinite() {
        return if number > 0.0 { b"inf" } else { b"-inf" };
    }
    let capacity = buffer.len();
    let mut rest = &mut buffer[..];
    // Without an exponent the longest numbers would have over 300 digits.
    let written = if number == 0.0 || (1e-5..1e17).contains(&number.abs()) {
        write!(rest, "{number}")
    } else {
        write!(rest, "{number:e}")
    };
    written.expect("17 digits, sign, point and exponent fit");
    let len = capacity - rest.len();
    &buffer[..len]
}
