//! The failure of a command, which the command's function returns instead of writing a reply.
//!
//! Dispatch turns a `Failure` into the error reply and counts it; commands must not write errors themselves. The texts
//! are those of Redis wherever Redis has one, because clients match on them.

use std::borrow::Cow;

use hotring_store::{NumberKind, StoreError};

use crate::table::quoted;

/// The result of a command's function: `Ok` if the reply has been written.
pub(crate) type Outcome = Result<(), Failure>;

/// The reason why a command has no ordinary reply.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The arguments do not fit the command's grammar.
    Syntax,
    /// An argument is not a decimal 64-bit integer.
    NotAnInteger,
    /// The number of arguments is wrong for this command or subcommand (its lower-case name).
    Arity(Cow<'static, str>),
    /// The reply exceeds the output limit: the connection ends instead.
    ReplyTooLong,
    /// The item of this key fails its checksum.
    Damaged(Box<[u8]>),
    /// The store refused.
    Store(StoreError),
    /// Any other text; the first word is the error code (`ERR ...`).
    Text(Cow<'static, str>),
    /// As [`Failure::Text`], of a request that has done nothing: it counts as rejected.
    Refused(&'static str),
    /// As [`Failure::Text`], from a command that a script has called: it has been counted already.
    Counted(String),
}

impl Failure {
    /// A failure with a fixed text, error code included.
    pub(crate) const fn text(message: &'static str) -> Self {
        Failure::Text(Cow::Borrowed(message))
    }

    /// The reply's text, error code included, without the leading `-` and the line end.
    pub(crate) fn message(&self) -> Cow<'static, str> {
        match self {
            Failure::Syntax => "ERR syntax error".into(),
            Failure::NotAnInteger => "ERR value is not an integer or out of range".into(),
            Failure::Arity(name) => {
                format!("ERR wrong number of arguments for '{name}' command").into()
            }
            Failure::ReplyTooLong => "ERR the reply is longer than output-buffer-hard-limit".into(),
            Failure::Damaged(key) => format!(
                "DAMAGED the item of key '{}' fails its checksum; overwrite or delete it (see SCRUB)",
                quoted(key)
            )
            .into(),
            Failure::Store(error @ StoreError::WrongType) => {
                format!("WRONGTYPE {}", text_of(error)).into()
            }
            // The code and the beginning of the text are those of the error for `maxmemory`, which clients know.
            Failure::Store(StoreError::Stalled(stalled)) => format!(
                "OOM command not allowed when {} bytes of removed values wait for thread '{}', \
                 which does not leave its command; the limit is {} (unreclaimed-limit). Reads and \
                 DEL work; writes will again when that thread goes on, or with a higher limit",
                stalled.limbo_bytes, stalled.session, stalled.limbo_max
            )
            .into(),
            Failure::Store(StoreError::OutOfMemory(_)) => {
                "OOM command not allowed when used memory > 'maxmemory'.".into()
            }
            Failure::Store(StoreError::ReadOnly) => {
                "READONLY You can't write against a read only replica.".into()
            }
            // Clients of a cluster know the code: they ask again.
            Failure::Store(error @ StoreError::Displaced) => {
                format!("TRYAGAIN {}", text_of(error)).into()
            }
            Failure::Store(StoreError::TooManyWatches { max }) => {
                format!("ERR {max} clients are waiting already (max-waiting-clients)").into()
            }
            Failure::Store(error) => format!("ERR {}", text_of(error)).into(),
            Failure::Text(text) => text.clone(),
            Failure::Refused(text) => Cow::Borrowed(text),
            Failure::Counted(text) => text.clone().into(),
        }
    }
}

/// The text of a store error without its code, in Redis's words where Redis has such an error.
pub(crate) fn text_of(error: &StoreError) -> Cow<'static, str> {
    Cow::Borrowed(match error {
        StoreError::ValueTooLong { .. } => {
            "string exceeds maximum allowed size (proto-max-bulk-len)"
        }
        StoreError::WrongType => "Operation against a key holding the wrong kind of value",
        StoreError::NotANumber(NumberKind::Integer) => "value is not an integer or out of range",
        StoreError::NotANumber(NumberKind::Decimal) => "value is not a valid float",
        StoreError::InfiniteValue => "value cannot be Infinity",
        StoreError::Overflow(NumberKind::Integer) => "increment or decrement would overflow",
        StoreError::Overflow(NumberKind::Decimal) => "increment would produce NaN or Infinity",
        StoreError::ChangeOverflow(NumberKind::Integer) => "applied increment would overflow",
        StoreError::ChangeOverflow(NumberKind::Decimal) => "applied increment would be Infinity",
        StoreError::HistoryOff => {
            "no earlier values are kept; set 'history' to the number of values to keep"
        }
        StoreError::NoSuchKey => "no such key",
        error => return error.to_string().into(),
    })
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::ValuesTooLong { .. } => Failure::ReplyTooLong,
            error => Failure::Store(error),
        }
    }
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Failure::Text(message.into())
    }
}
