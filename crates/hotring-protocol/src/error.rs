//! Violations of the wire format. Each one must end the connection.

use std::fmt;

/// Input that is not a request. Its text is Redis's own; the reply is `ERR ` and the text, and the
/// connection closes after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProtocolError {
    /// The text after `*` is not a number, or the number exceeds the limit.
    InvalidMultibulkLength,
    /// More arguments than a client may send before it has authenticated.
    UnauthenticatedMultibulkLength,
    /// The text after `$` is not a number, or the number is negative or exceeds the limit.
    InvalidBulkLength,
    /// A longer argument than a client may send before it has authenticated.
    UnauthenticatedBulkLength,
    /// An argument that does not begin with `$`, and its first byte.
    ExpectedBulk(u8),
    /// An inline request without a line end within the limit.
    TooBigInlineRequest,
    /// A `*` line without a line end within the limit.
    TooBigMultibulkCount,
    /// A `$` line without a line end within the limit.
    TooBigBulkCount,
    /// An inline request with an open quote, or text right after a closed one.
    UnbalancedQuotes,
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Protocol error: ")?;
        f.write_str(match self {
            Self::InvalidMultibulkLength => "invalid multibulk length",
            Self::UnauthenticatedMultibulkLength => "unauthenticated multibulk length",
            Self::InvalidBulkLength => "invalid bulk length",
            Self::UnauthenticatedBulkLength => "unauthenticated bulk length",
            // CR and LF become spaces, as in the reply; other non-ASCII bytes are escaped, so that
            // the reply is always UTF-8.
            Self::ExpectedBulk(b'\r' | b'\n') => "expected '$', got ' '",
            Self::ExpectedBulk(byte) if byte.is_ascii() => {
                return write!(f, "expected '$', got '{}'", char::from(*byte));
            }
            Self::ExpectedBulk(byte) => return write!(f, "expected '$', got '\\x{byte:02x}'"),
            Self::TooBigInlineRequest => "too big inline request",
            Self::TooBigMultibulkCount => "too big mbulk count string",
            Self::TooBigBulkCount => "too big bulk count string",
            Self::UnbalancedQuotes => "unbalanced quotes in request",
        })
    }
}

impl std::error::Error for ProtocolError {}
