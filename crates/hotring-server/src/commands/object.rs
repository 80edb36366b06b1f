//! How values are held: OBJECT.

use hotring_store::ValueRef;

use crate::context::Context;
use crate::failure::{Failure, Outcome};

/// Longest string that Redis keeps in one piece with its key's object.
const EMBEDDED_LEN_MAX: usize = 44;

/// Redis's names for forms like these: a number, a short string, a long one, a list of fields.
pub(super) fn encoding_name(value: ValueRef<'_>) -> &'static str {
    match value {
        ValueRef::Int(_) => "int",
        ValueRef::Bytes(bytes) if bytes.len() <= EMBEDDED_LEN_MAX => "embstr",
        ValueRef::Bytes(_) => "raw",
        ValueRef::Hash(_) => "listpack",
    }
}

pub(crate) fn encoding(c: &mut Context<'_>) -> Outcome {
    match c.store.get(&c.args[2], c.now, encoding_name) {
        Some(name) => c.reply.bulk(name.as_bytes()),
        None => c.reply.null(),
    }
    Ok(())
}

pub(crate) fn refcount(c: &mut Context<'_>) -> Outcome {
    match c.store.exists(&c.args[2], c.now) {
        true => c.reply.int(1),
        false => c.reply.null(),
    }
    Ok(())
}

pub(crate) fn freq(c: &mut Context<'_>) -> Outcome {
    refuse(
        c,
        "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that \
         when switching between policies at runtime LRU and LFU data will take some time to adjust.",
    )
}

pub(crate) fn idletime(c: &mut Context<'_>) -> Outcome {
    refuse(c, "ERR the time of the last access is not tracked")
}

/// Null for a missing key, else the reason.
fn refuse(c: &mut Context<'_>, reason: &'static str) -> Outcome {
    if c.store.exists(&c.args[2], c.now) {
        return Err(Failure::text(reason));
    }
    c.reply.null();
    Ok(())
}

#[cfg(test)]
mod tests;
