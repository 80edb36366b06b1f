//! Static analysis of scripts: decides whether the text of a script proves that it uses only the keys that it declares.
//!
//! Only such a script may run while it holds nothing but its keys. Any other script may reach a key that it does not
//! hold after it has written, and can then neither continue nor start again. Earlier runs of a script prove nothing,
//! because the next run may take another branch.
//!
//! A text is a proof if each call of `redis.call` names its command, each key of that command is an element of `KEYS`,
//! directly or through local variables that are never assigned to, and `KEYS` and `redis` are used in no other way. Any
//! unusual text counts as unproven, which costs only time. `docs/decisions/0013-scripts.md` has the reasons.

mod lexer;
mod parser;
mod value;

use parser::Parser;

/// Whether a script with this text provably uses only the keys that it declares. Lua must have accepted the text.
pub(super) fn is_declared(text: &[u8]) -> bool {
    Parser::new(text).and_then(Parser::all).is_some()
}

#[cfg(test)]
mod tests;
