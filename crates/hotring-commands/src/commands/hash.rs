//! Hash commands: HSET and its relatives.

use hotring_protocol::{ArgsView, Version, glob_match, parse_i64};
use hotring_store::{Decimal, HashRef, NumberKind, StoreError};

use super::multi::{with_keys, with_pairs};
use super::random::Chosen;
use super::scan;
use crate::host::fiber::rest;
use crate::state::context::Context;
use crate::state::failure::{Failure, Outcome};

pub(crate) fn hset(c: &mut Context<'_>) -> Outcome {
    let added = set(c, "hset")?;
    c.reply.count(added);
    Ok(())
}

pub(crate) fn hmset(c: &mut Context<'_>) -> Outcome {
    set(c, "hmset")?;
    c.reply.ok();
    Ok(())
}

fn set(c: &mut Context<'_>, name: &'static str) -> Result<usize, Failure> {
    let key = c.key();
    let store = |pairs: &[_]| c.store.hash_set(key, pairs, c.now);
    Ok(with_pairs(c.args.tail(2), name, store)??)
}

pub(crate) fn hsetnx(c: &mut Context<'_>) -> Outcome {
    let stored = c.store.hash_set_nx(&c.args[1], &c.args[2], &c.args[3], c.now)?;
    c.reply.int(stored.into());
    Ok(())
}

/// Counts the lookup of the key, and returns whether the key was found.
pub(super) fn is_found(c: &Context<'_>, found: Option<()>) -> bool {
    match found {
        Some(()) => c.hit(),
        None => c.miss(),
    }
    found.is_some()
}

pub(crate) fn hget(c: &mut Context<'_>) -> Outcome {
    let found = c.store.hash(c.key(), c.now, |hash| match hash.get(&c.args[2]) {
        Some(value) => c.reply.bulk(value),
        None => c.reply.null(),
    })?;
    if !is_found(c, found) {
        c.reply.null();
    }
    Ok(())
}

pub(crate) fn hmget(c: &mut Context<'_>) -> Outcome {
    let fields = c.args.tail(2);
    c.reply.array(fields.len());
    let len_max = c.reply_len_max;
    let found = with_keys(fields, |fields| {
        c.store.hash(c.key(), c.now, |hash| {
            hash.get_many(fields, |value| match value {
                // A request may name a field with a long value many times: stop copying once the reply is too long.
                Some(value) if c.reply.written() <= len_max => c.reply.bulk(value),
                _ => c.reply.null(),
            });
        })
    })?;
    if !is_found(c, found) {
        (0..fields.len()).for_each(|_| c.reply.null());
    }
    c.check_reply_len()
}

pub(crate) fn hgetall(c: &mut Context<'_>) -> Outcome {
    let len_max = c.reply_len_max;
    let found = c.store.hash_walk(c.key(), c.now, |hash| {
        c.reply.map(hash.count());
        let is_long = !hash.is_packed();
        for (field, value) in hash.iter() {
            if is_long {
                rest();
            }
            if c.reply.written() > len_max {
                break;
            }
            c.reply.bulk(field);
            c.reply.bulk(value);
        }
    })?;
    if !is_found(c, found) {
        c.reply.map(0);
    }
    c.check_reply_len()
}

pub(crate) fn hkeys(c: &mut Context<'_>) -> Outcome {
    list(c, |(field, _)| field)
}

pub(crate) fn hvals(c: &mut Context<'_>) -> Outcome {
    list(c, |(_, value)| value)
}

/// A field and its value.
type Pair<'a> = (&'a [u8], &'a [u8]);

fn list(c: &mut Context<'_>, part: impl Fn(Pair<'_>) -> &[u8]) -> Outcome {
    let len_max = c.reply_len_max;
    let found = c.store.hash_walk(c.key(), c.now, |hash| {
        c.reply.array(hash.count());
        let is_long = !hash.is_packed();
        for pair in hash.iter() {
            if is_long {
                rest();
            }
            if c.reply.written() > len_max {
                break;
            }
            c.reply.bulk(part(pair));
        }
    })?;
    if !is_found(c, found) {
        c.reply.array(0);
    }
    c.check_reply_len()
}

pub(crate) fn hrandfield(c: &mut Context<'_>) -> Outcome {
    let (chosen, with_values) = Chosen::read(c.args, b"withvalues")?;
    let (version, len_max, reply_left) = (c.reply.version(), c.reply_len_max, c.reply_left());
    let found = c.store.hash_walk(c.key(), c.now, |hash| {
        let pairs = hash.by_rank();
        let ranks = chosen.ranks(pairs.len(), &mut c.locals.random, reply_left)?;
        let in_pairs = with_values && version == Version::Resp3;
        if !matches!(chosen, Chosen::One) {
            c.reply.array(ranks.len() * if with_values && !in_pairs { 2 } else { 1 });
        }
        let is_long = !hash.is_packed();
        for (field, value) in ranks.map_while(|rank| pairs.get(rank)) {
            if is_long {
                rest();
            }
            if in_pairs {
                c.reply.array(2);
            }
            c.reply.bulk(field);
            if with_values {
                c.reply.bulk(value);
            }
            // The entire reply is refused below.
            if c.reply.written() > len_max {
                break;
            }
        }
        Ok::<_, Failure>(())
    })?;
    match (is_found(c, found.transpose()?), chosen) {
        (true, _) => {}
        (false, Chosen::One) => c.reply.null(),
        (false, _) => c.reply.array(0),
    }
    c.check_reply_len()
}

pub(crate) fn hlen(c: &mut Context<'_>) -> Outcome {
    count(c, |hash| hash.len())
}

pub(crate) fn hexists(c: &mut Context<'_>) -> Outcome {
    let field = c.args.at(2);
    count(c, |hash| usize::from(hash.get(field).is_some()))
}

pub(crate) fn hstrlen(c: &mut Context<'_>) -> Outcome {
    let field = c.args.at(2);
    count(c, |hash| hash.get(field).map_or(0, <[u8]>::len))
}

/// Replies with a number computed from the hash; 0 if the key is missing.
fn count(c: &mut Context<'_>, number: impl FnOnce(HashRef<'_>) -> usize) -> Outcome {
    let found = c.store.hash(c.key(), c.now, |hash| c.reply.count(number(hash)))?;
    if !is_found(c, found) {
        c.reply.int(0);
    }
    Ok(())
}

pub(crate) fn hdel(c: &mut Context<'_>) -> Outcome {
    let remove = |fields: &[&[u8]]| c.store.hash_remove(&c.args[1], fields, c.now);
    let removed = with_keys(c.args.tail(2), remove)?;
    c.reply.count(removed);
    Ok(())
}

pub(crate) fn hincrby(c: &mut Context<'_>) -> Outcome {
    let delta = parse_i64(&c.args[3]).ok_or(Failure::NotAnInteger)?;
    let sum = c.store.hash_incr_by(c.key(), &c.args[2], delta, c.now).map_err(of_field)?;
    c.reply.int(sum);
    Ok(())
}

pub(crate) fn hincrbyfloat(c: &mut Context<'_>) -> Outcome {
    let delta = Decimal::parse(&c.args[3])?;
    if delta.is_infinite() {
        return Err(Failure::text("ERR value is NaN or Infinity"));
    }
    let sum = c.store.hash_incr_by_float(&c.args[1], &c.args[2], delta, c.now).map_err(of_field)?;
    c.reply.bulk(&sum);
    Ok(())
}

/// Replaces the store's error by Redis's own text for a field that is not a number.
fn of_field(error: StoreError) -> Failure {
    match error {
        StoreError::NotANumber(NumberKind::Integer) => {
            Failure::text("ERR hash value is not an integer")
        }
        StoreError::NotANumber(NumberKind::Decimal) => {
            Failure::text("ERR hash value is not a float")
        }
        error => error.into(),
    }
}

/// The options of HSCAN and SSCAN: which entries they show.
pub(super) struct Shown<'a> {
    pattern: Option<&'a [u8]>,
    pub(super) count: usize,
    pub(super) values: bool,
}

impl Shown<'_> {
    pub(super) fn fits(&self, name: &[u8]) -> bool {
        self.pattern.is_none_or(|pattern| glob_match(pattern, name))
    }
}

/// Number of fields that HSCAN visits in a large hash without COUNT.
const COUNT_DEFAULT: usize = 10;
/// Most fields that one HSCAN visits in a large hash, whatever its COUNT.
const COUNT_MAX: usize = 1 << 16;

/// Shows all fields of a packed hash in one call, as Redis does: one pass costs less than finding a position in the
/// middle again. A large hash takes several calls.
pub(crate) fn hscan(c: &mut Context<'_>) -> Outcome {
    let cursor = scan::cursor(&c.args[2])?;
    let shown = shown(c.args.tail(3));
    let mut found: Vec<Vec<u8>> = Vec::new();
    let next = c.store.hash(c.key(), c.now, |hash| {
        let shown = shown?;
        Ok::<u64, Failure>(hash.scan(cursor, shown.count, |field, value| {
            if shown.fits(field) {
                found.push(field.to_vec());
                if shown.values {
                    found.push(value.to_vec());
                }
            }
        }))
    })?;
    // As in Redis, the options are not checked if the key is missing.
    let next = next.transpose()?;
    is_found(c, next.map(|_| ()));
    scan::reply_page(c, next.unwrap_or(0), &found)
}

pub(super) fn shown(options: ArgsView<'_>) -> Result<Shown<'_>, Failure> {
    let mut shown = Shown { pattern: None, count: COUNT_DEFAULT, values: true };
    let mut i = 0;
    while let Some(option) = options.get(i) {
        let value = options.get(i + 1).ok_or(Failure::Syntax);
        i += 2;
        match option.to_ascii_lowercase().as_slice() {
            b"match" => shown.pattern = Some(value?),
            b"count" => match parse_i64(value?).ok_or(Failure::NotAnInteger)? {
                count if count < 1 => return Err(Failure::Syntax),
                count => shown.count = usize::try_from(count).unwrap_or(COUNT_MAX).min(COUNT_MAX),
            },
            b"novalues" => {
                shown.values = false;
                i -= 1;
            }
            _ => return Err(Failure::Syntax),
        }
    }
    Ok(shown)
}
