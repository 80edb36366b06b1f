//! OBJECT: the encoding of a value and its access statistics.

use hotring_store::{Accesses, SetForm, ValueRef};

use crate::state::context::Context;
use crate::state::failure::{Failure, Outcome};

/// Longest string that Redis stores inline with the key's object (`embstr`), in bytes.
const EMBEDDED_LEN_MAX: usize = 44;

/// Redis's name for the encoding that corresponds to a value's form.
pub(super) fn encoding_name(value: ValueRef<'_>) -> &'static str {
    match value {
        ValueRef::Int(_) => "int",
        ValueRef::Bytes(bytes) if bytes.len() <= EMBEDDED_LEN_MAX => "embstr",
        ValueRef::Bytes(_) | ValueRef::Text(_) => "raw",
        ValueRef::Hash(hash) if hash.is_packed() && hash.expires() => "listpackex",
        ValueRef::Hash(hash) if hash.is_packed() => "listpack",
        ValueRef::Hash(_) => "hashtable",
        ValueRef::List(list) if list.is_packed() => "listpack",
        ValueRef::List(_) => "quicklist",
        ValueRef::Set(set) => match set.form() {
            SetForm::Ints => "intset",
            SetForm::List => "listpack",
            SetForm::Table => "hashtable",
        },
        ValueRef::Scored(scored) if scored.is_packed() => "listpack",
        ValueRef::Scored(_) => "skiplist",
    }
}

pub(crate) fn encoding(c: &mut Context<'_>) -> Outcome {
    match c.store.peek_value(&c.args[2], c.now, encoding_name) {
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
    match c.store.accesses(&c.args[2], c.now) {
        None => c.reply.null(),
        Some(Accesses::Frequency(frequency)) => c.reply.int(frequency.into()),
        Some(_) => {
            return Err(Failure::text(
                "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that \
                 when switching between policies at runtime LRU and LFU data will take some time to adjust.",
            ));
        }
    }
    Ok(())
}

/// Replies with a lower bound of the idle time, in seconds.
///
/// The LRU policies know the idle time to a 128th of the time in which `maxmemory` bytes are written. `heat` counts
/// visits without their times, so the reply is 0. The other policies use the clock.
pub(crate) fn idletime(c: &mut Context<'_>) -> Outcome {
    c.server.observe.ages.note(|| c.server.store.tick(), c.now);
    match c.store.accesses(&c.args[2], c.now) {
        None => c.reply.null(),
        Some(Accesses::Frequency(_)) => {
            return Err(Failure::text(
                "ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when \
                 switching between policies at runtime LRU and LFU data will take some time to adjust.",
            ));
        }
        Some(accesses) => c.reply.int(idle_seconds(c, accesses) as i64),
    }
    Ok(())
}

/// Seconds since the last use; 0 if unknown.
pub(super) fn idle_seconds(c: &Context<'_>, accesses: Accesses) -> u64 {
    match accesses {
        Accesses::Age(age) => c.server.observe.ages.since(age, c.now) / 1000,
        Accesses::Idle(ms) => ms / 1000,
        _ => 0,
    }
}
