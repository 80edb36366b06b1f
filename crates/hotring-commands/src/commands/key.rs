//! Commands on keys of any type: DEL, EXISTS, TOUCH, TYPE, RENAME, COPY, RANDOMKEY.

use hotring_store::ValueRef;

use super::database;
use super::multi::with_keys;
use crate::state::context::Context;
use crate::state::failure::{Failure, Outcome};

/// DEL and UNLINK are the same command, because the memory of removed items is always freed later.
pub(crate) fn del(c: &mut Context<'_>) -> Outcome {
    let n_removed = with_keys(c.args.tail(1), |keys| c.store.remove_many(keys, c.now));
    c.store.take_refused()?;
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

/// Redis's name for the type of a value.
pub(super) fn type_name(value: ValueRef<'_>) -> &'static str {
    match value {
        ValueRef::Int(_) | ValueRef::Bytes(_) | ValueRef::Text(_) => "string",
        ValueRef::Hash(_) => "hash",
        ValueRef::List(_) => "list",
        ValueRef::Set(_) => "set",
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
    let (mut replace, mut to) = (false, c.client.database);
    let options = c.args.tail(3);
    let mut i = 0;
    while let Some(option) = options.get(i) {
        match options.get(i + 1) {
            _ if option.eq_ignore_ascii_case(b"replace") => replace = true,
            Some(database) if option.eq_ignore_ascii_case(b"db") => {
                to = database::number(c, database)?;
                i += 1;
            }
            _ => return Err(Failure::Syntax),
        }
        i += 1;
    }
    if to != 0 && c.server.cluster.is_some() {
        return Err(Failure::text(
            "ERR Copying to another database is not allowed in cluster mode",
        ));
    }
    if to == c.client.database && c.args[1] == c.args[2] {
        return Err(Failure::text("ERR source and destination objects are the same"));
    }
    let copied = c.store.copy_to(&c.args[1], (to, &c.args[2]), replace, c.now)?;
    c.reply.int(copied.into());
    Ok(())
}

pub(crate) fn randomkey(c: &mut Context<'_>) -> Outcome {
    super::process::finish_clear(c);
    match c.store.random_key(c.locals.random.u64(..), c.now) {
        Some(key) => c.reply.bulk(&key),
        None => c.reply.null(),
    }
    Ok(())
}
