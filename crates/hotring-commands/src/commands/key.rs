//! Keys, whatever their values: DEL, EXISTS, TOUCH, TYPE, RENAME, COPY, RANDOMKEY.

use hotring_protocol::parse_i64;
use hotring_store::ValueRef;

use super::multi::with_keys;
use crate::state::context::Context;
use crate::state::failure::{Failure, Outcome};

/// DEL and UNLINK: an item's memory is always given back later, so that both are one.
pub(crate) fn del(c: &mut Context<'_>) -> Outcome {
    let n_removed = with_keys(c.args.tail(1), |keys| c.store.remove_many(keys, c.now));
    c.reply.count(n_removed);
    Ok(())
}

pub(crate) fn exists(c: &mut Context<'_>) -> Outcome {
    let n_found = with_keys(c.args.tail(1), |keys| c.store.exists_many(keys, c.now));
    count_lookups(c, n_found);
    c.reply.count(n_found);
    Ok(())
}

pub(crate) fn touch(c: &mut Context<'_>) -> Outcome {
    let n_found = with_keys(c.args.tail(1), |keys| c.store.touch_many(keys, c.now));
    count_lookups(c, n_found);
    c.reply.count(n_found);
    Ok(())
}

fn count_lookups(c: &mut Context<'_>, n_found: usize) {
    let n_keys = c.args.len() - 1;
    c.counters.keyspace_hits.add(n_found as u64);
    c.counters.keyspace_misses.add((n_keys - n_found) as u64);
}

pub(crate) fn type_of(c: &mut Context<'_>) -> Outcome {
    match c.store.peek_value(&c.args[1], c.now, type_name) {
        Some(name) => {
            c.hit();
            c.reply.simple(name);
        }
        None => {
            c.miss();
            c.reply.simple("none");
        }
    }
    Ok(())
}

/// Redis's name of a value's type.
pub(super) fn type_name(value: ValueRef<'_>) -> &'static str {
    match value {
        ValueRef::Int(_) | ValueRef::Bytes(_) | ValueRef::Text(_) => "string",
        ValueRef::Hash(_) => "hash",
        ValueRef::Scored(_) => "zset",
    }
}

pub(crate) fn rename(c: &mut Context<'_>) -> Outcome {
    c.store.rename(&c.args[1], &c.args[2], c.now)?;
    c.reply.ok();
    Ok(())
}

pub(crate) fn renamenx(c: &mut Context<'_>) -> Outcome {
    let renamed = c.store.rename_nx(&c.args[1], &c.args[2], c.now)?;
    c.reply.int(renamed.into());
    Ok(())
}

pub(crate) fn copy(c: &mut Context<'_>) -> Outcome {
    let mut replace = false;
    let options = c.args.tail(3);
    let mut i = 0;
    while let Some(option) = options.get(i) {
        match options.get(i + 1) {
            _ if option.eq_ignore_ascii_case(b"replace") => replace = true,
            Some(database) if option.eq_ignore_ascii_case(b"db") => {
                check_database(database)?;
                i += 1;
            }
            _ => return Err(Failure::Syntax),
        }
        i += 1;
    }
    if c.args[1] == c.args[2] {
        return Err(Failure::text("ERR source and destination objects are the same"));
    }
    let copied = c.store.copy(&c.args[1], &c.args[2], replace, c.now)?;
    c.reply.int(copied.into());
    Ok(())
}

/// There is one database, number 0.
fn check_database(number: &[u8]) -> Outcome {
    let number = parse_i64(number).ok_or(Failure::NotAnInteger)?;
    match i32::try_from(number) {
        Ok(0) => Ok(()),
        Ok(_) => Err(Failure::text("ERR DB index is out of range")),
        Err(_) => Err(Failure::text(
            "ERR value is out of range, value must between -2147483648 and 2147483647",
        )),
    }
}

pub(crate) fn randomkey(c: &mut Context<'_>) -> Outcome {
    match c.store.random_key(c.locals.random.u64(..), c.now) {
        Some(key) => c.reply.bulk(&key),
        None => c.reply.null(),
    }
    Ok(())
}
