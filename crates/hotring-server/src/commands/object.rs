//! How values are held: OBJECT, MEMORY.

use hotring_protocol::parse_i64;
use hotring_store::ValueRef;

use crate::context::Context;
use crate::failure::{Failure, Outcome};

/// Longest string that Redis keeps in one piece with its key's object.
const EMBEDDED_LEN_MAX: usize = 44;

/// Redis's names for forms like these: a number, a short string, a long one, a list of fields.
pub(crate) fn encoding(c: &mut Context<'_>) -> Outcome {
    let name = c.store.get(&c.args[2], c.now, |value| match value {
        ValueRef::Int(_) => "int",
        ValueRef::Bytes(bytes) if bytes.len() <= EMBEDDED_LEN_MAX => "embstr",
        ValueRef::Bytes(_) => "raw",
        ValueRef::Hash(_) => "listpack",
    });
    match name {
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

/// The whole item; there is nothing to sample.
pub(crate) fn memory_usage(c: &mut Context<'_>) -> Outcome {
    let options = c.args.tail(3);
    for i in (0..options.len()).step_by(2) {
        let count = options.get(i + 1).filter(|_| options.at(i).eq_ignore_ascii_case(b"samples"));
        let count = parse_i64(count.ok_or(Failure::Syntax)?).ok_or(Failure::NotAnInteger)?;
        if count < 0 {
            return Err(Failure::Syntax);
        }
    }
    match c.store.memory(&c.args[2], c.now) {
        Some(bytes) => c.reply.count(bytes),
        None => c.reply.null(),
    }
    Ok(())
}

pub(crate) fn memory_purge(c: &mut Context<'_>) -> Outcome {
    c.store.collect();
    c.reply.ok();
    Ok(())
}

#[cfg(test)]
mod tests;
