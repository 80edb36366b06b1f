//! Whether the text of a script proves that it can use no keys but those that it declares.
//!
//! Only such a script may run while it holds its keys alone: once it has written, it could neither go on to a key that
//! it does not hold nor start again. Its earlier runs prove nothing, as the next one may take another branch.
//!
//! The text proves it if each call of `redis.call` names its command, and each key of that command is an element of
//! `KEYS`, directly or through local variables that are never assigned to, and `KEYS` and `redis` go nowhere else.
//! Whatever is unusual counts as unproven: that costs time only. `docs/decisions/0013-scripts.md` has the reasons.

mod lexer;
mod parser;
mod value;

use parser::Parser;

/// Whether a script with this text, which Lua accepts, uses no keys but those that it declares.
pub(super) fn is_declared(text: &[u8]) -> bool {
    Parser::new(text).and_then(Parser::all).is_some()
}

#[cfg(test)]
mod tests;
