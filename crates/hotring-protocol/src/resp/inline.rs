//! Splits an inline request, a line as a person types it, into words.
//!
//! Words may be in double quotes, where `\n \r \t \b \a \xHH` and `\` before any other byte are
//! escapes, or in single quotes, where only `\'` is one. A quote may begin inside a word, but a
//! space or the end of the line must follow its end.

use crate::args::{Args, Span};
use crate::error::ProtocolError;

/// Splits `line` (without its end) into `args`.
pub(super) fn split(line: &[u8], args: &mut Args) -> Result<(), ProtocolError> {
    args.inline = true;
    let mut rest = line;
    loop {
        let blanks = rest.iter().take_while(|&&byte| is_space(byte)).count();
        rest = &rest[blanks..];
        if rest.is_empty() {
            return Ok(());
        }
        let start = args.unescaped.len();
        rest = word(rest, &mut args.unescaped)?;
        args.spans.push(Span::new(start, args.unescaped.len() - start));
    }
}

/// C's isspace, including vertical tab and form feed.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// Appends the first word of `rest` to `out` and returns the rest.
fn word<'a>(mut rest: &'a [u8], out: &mut Vec<u8>) -> Result<&'a [u8], ProtocolError> {
    loop {
        match *rest {
            // Inside a word, vertical tab and form feed are ordinary bytes.
            [] | [b' ' | b'\n' | b'\r' | b'\t', ..] => return Ok(rest),
            [b'"', ref quoted @ ..] => return double_quoted(quoted, out),
            [b'\'', ref quoted @ ..] => return single_quoted(quoted, out),
            [byte, ref tail @ ..] => {
                out.push(byte);
                rest = tail;
            }
        }
    }
}

fn double_quoted<'a>(mut rest: &'a [u8], out: &mut Vec<u8>) -> Result<&'a [u8], ProtocolError> {
    loop {
        let (byte, tail) = match *rest {
            [b'"', ref tail @ ..] => return after_quote(tail),
            [b'\\', b'x', high, low, ref tail @ ..]
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                (hex_digit(high) << 4 | hex_digit(low), tail)
            }
            [b'\\', escaped, ref tail @ ..] => (unescape(escaped), tail),
            [byte, ref tail @ ..] => (byte, tail),
            [] => return Err(ProtocolError::UnbalancedQuotes),
        };
        out.push(byte);
        rest = tail;
    }
}

fn single_quoted<'a>(mut rest: &'a [u8], out: &mut Vec<u8>) -> Result<&'a [u8], ProtocolError> {
    loop {
        let (byte, tail) = match *rest {
            [b'\'', ref tail @ ..] => return after_quote(tail),
            [b'\\', b'\'', ref tail @ ..] => (b'\'', tail),
            [byte, ref tail @ ..] => (byte, tail),
            [] => return Err(ProtocolError::UnbalancedQuotes),
        };
        out.push(byte);
        rest = tail;
    }
}

fn after_quote(rest: &[u8]) -> Result<&[u8], ProtocolError> {
    match rest.first() {
        Some(&byte) if !is_space(byte) => Err(ProtocolError::UnbalancedQuotes),
        _ => Ok(rest),
    }
}

fn unescape(byte: u8) -> u8 {
    match byte {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 0x08,
        b'a' => 0x07,
        other => other,
    }
}

fn hex_digit(byte: u8) -> u8 {
    match byte {
        b'0'..=b'9' => byte - b'0',
        _ => (byte | 0x20) - b'a' + 10,
    }
}
