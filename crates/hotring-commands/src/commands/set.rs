//! Set commands: SADD and its relatives.

use hotring_protocol::{ArgsView, parse_i64};
use hotring_store::{Member, SetForm, SetOperation, SetRef, SetSnapshot};

use super::hash::{is_found, shown};
use super::multi::with_keys;
use super::random::Chosen;
use super::scan;
use crate::host::fiber::rest;
use crate::state::context::Context;
use crate::state::failure::{Failure, Outcome};

pub(crate) fn sadd(c: &mut Context<'_>) -> Outcome {
    let key = c.key();
    let added = with_keys(c.args.tail(2), |members| c.store.set_add(key, members, c.now))?;
    c.reply.count(added);
    Ok(())
}

pub(crate) fn srem(c: &mut Context<'_>) -> Outcome {
    let key = c.key();
    let remove = |members: &[&[u8]]| c.store.set_remove(key, members, c.now);
    let removed = with_keys(c.args.tail(2), remove)?;
    c.reply.count(removed);
    Ok(())
}

pub(crate) fn smove(c: &mut Context<'_>) -> Outcome {
    let moved = c.store.set_move(&c.args[1], &c.args[2], &c.args[3], c.now)?;
    c.reply.int(moved.into());
    Ok(())
}

pub(crate) fn scard(c: &mut Context<'_>) -> Outcome {
    number(c, |set| set.len())
}

pub(crate) fn sismember(c: &mut Context<'_>) -> Outcome {
    let member = c.args.at(2);
    number(c, |set| usize::from(set.contains(member)))
}

/// Replies with a number computed from the set; 0 if the key is missing.
fn number(c: &mut Context<'_>, number: impl FnOnce(SetRef<'_>) -> usize) -> Outcome {
    let found = c.store.set_members(c.key(), c.now, |set| c.reply.count(number(set)))?;
    if !is_found(c, found) {
        c.reply.int(0);
    }
    Ok(())
}

pub(crate) fn smismember(c: &mut Context<'_>) -> Outcome {
    let members = c.args.tail(2);
    let found = c.store.set_members(c.key(), c.now, |set| {
        c.reply.array(members.len());
        members.iter().for_each(|member| c.reply.int(set.contains(member).into()));
    })?;
    if !is_found(c, found) {
        c.reply.array(members.len());
        (0..members.len()).for_each(|_| c.reply.int(0));
    }
    Ok(())
}

pub(crate) fn smembers(c: &mut Context<'_>) -> Outcome {
    let len_max = c.reply_len_max;
    let found = c.store.set_walk(c.key(), c.now, |set| {
        c.reply.set(set.count());
        let is_long = set.form() == SetForm::Table;
        for member in set.iter() {
            if is_long {
                rest();
            }
            member.with_bytes(|member| c.reply.bulk(member));
            // The entire reply is refused below.
            if c.reply.written() > len_max {
                return;
            }
        }
    })?;
    if !is_found(c, found) {
        c.reply.set(0);
    }
    c.check_reply_len()
}

pub(crate) fn spop(c: &mut Context<'_>) -> Outcome {
    let count = match c.args.len() {
        2 => None,
        3 => {
            let count = parse_i64(&c.args[2]).and_then(|count| usize::try_from(count).ok());
            Some(count.ok_or(Failure::text("ERR value is out of range, must be positive"))?)
        }
        _ => return Err(Failure::Syntax),
    };
    let limits = (count.unwrap_or(1), c.reply_capacity(b""));
    let random = |below| c.locals.random.usize(..below);
    let popped = c.store.set_pop(&c.args[1], limits, random, c.now)?;
    match (count, popped.first()) {
        (Some(_), _) => {
            c.reply.set(popped.len());
            popped.iter().for_each(|member| c.reply.bulk(member));
        }
        (None, Some(member)) => c.reply.bulk(member),
        (None, None) => c.reply.null(),
    }
    Ok(())
}

pub(crate) fn srandmember(c: &mut Context<'_>) -> Outcome {
    match c.args.len() {
        2 => one_random(c),
        3 => several_random(c),
        _ => Err(Failure::Syntax),
    }
}

fn one_random(c: &mut Context<'_>) -> Outcome {
    let found = c.store.set_members(c.key(), c.now, |set| {
        match set.of_rank(c.locals.random.usize(..set.count().max(1))) {
            Some(member) => member.with_bytes(|member| c.reply.bulk(member)),
            None => c.reply.null(),
        }
    })?;
    if !is_found(c, found) {
        c.reply.null();
    }
    Ok(())
}

/// SRANDMEMBER with a count: distinct members, or, with a negative count, independent draws.
fn several_random(c: &mut Context<'_>) -> Outcome {
    let chosen = Chosen::counted(&c.args[2])?;
    let (len_max, reply_left) = (c.reply_len_max, c.reply_left());
    let (key, now) = (c.args.at(1), c.now);
    let (store, random) = (&mut c.store, &mut c.locals.random);
    let (mut found, mut fits) = (Ok(None), Ok(()));
    c.reply.body_first(
        |reply| {
            let mut written = 0;
            let mut write = |member: Member<'_>| {
                if reply.written() <= len_max {
                    member.with_bytes(|member| reply.bulk(member));
                    written += 1;
                }
                reply.written() <= len_max
            };
            found = if let Chosen::Distinct(n) = chosen {
                let random = |below| random.usize(..below);
                store.set_choose(key, n, random, now, |member| _ = write(member))
            } else {
                store.set_walk(key, now, |set| {
                    match chosen.ranks(set.count(), random, reply_left) {
                        Ok(ranks) => {
                            let is_long = set.form() == SetForm::Table;
                            let step = |_: &_| {
                                if is_long {
                                    rest()
                                }
                            };
                            _ = ranks.map_while(|rank| set.of_rank(rank)).inspect(step).all(write);
                        }
                        Err(failure) => fits = Err(failure),
                    }
                })
            };
            written
        },
        |reply, written| reply.array(written),
    );
    is_found(c, found?);
    fits?;
    c.check_reply_len()
}

pub(crate) fn sinter(c: &mut Context<'_>) -> Outcome {
    combined(c, SetOperation::Intersection)
}

pub(crate) fn sunion(c: &mut Context<'_>) -> Outcome {
    combined(c, SetOperation::Union)
}

pub(crate) fn sdiff(c: &mut Context<'_>) -> Outcome {
    combined(c, SetOperation::Difference)
}

pub(crate) fn sinterstore(c: &mut Context<'_>) -> Outcome {
    stored(c, SetOperation::Intersection)
}

pub(crate) fn sunionstore(c: &mut Context<'_>) -> Outcome {
    stored(c, SetOperation::Union)
}

pub(crate) fn sdiffstore(c: &mut Context<'_>) -> Outcome {
    stored(c, SetOperation::Difference)
}

/// Replies with the result of an operation on sets, read at one point in time.
fn combined(c: &mut Context<'_>, operation: SetOperation) -> Outcome {
    let sets = snapshots(c, c.args.tail(1))?;
    let len_max = c.reply_len_max;
    c.reply.body_first(
        |reply| {
            let mut count = 0;
            operation.run(&sets, rest, |member| {
                reply.bulk(member);
                count += 1;
                reply.written() <= len_max
            });
            count
        },
        |reply, count| reply.set(count),
    );
    c.check_reply_len()
}

/// Snapshots of the sets of these keys at one point in time; counts the lookups.
fn snapshots(c: &mut Context<'_>, keys: ArgsView<'_>) -> Result<Vec<SetSnapshot>, Failure> {
    let sets = with_keys(keys, |keys| c.store.sets_at_once(keys, c.now))?;
    let hits = sets.iter().filter(|set| set.is_present()).count() as u64;
    c.counters.keyspace_hits.add(hits);
    c.counters.keyspace_misses.add(sets.len() as u64 - hits);
    Ok(sets)
}

fn stored(c: &mut Context<'_>, operation: SetOperation) -> Outcome {
    let store = |keys: &[&[u8]]| c.store.set_store(operation, &c.args[1], keys, c.now);
    let count = with_keys(c.args.tail(2), store)?;
    c.reply.count(count);
    Ok(())
}

pub(crate) fn sintercard(c: &mut Context<'_>) -> Outcome {
    let n_keys = parse_i64(&c.args[1])
        .and_then(|n| usize::try_from(n).ok())
        .filter(|n| *n > 0)
        .ok_or(Failure::text("ERR numkeys should be greater than 0"))?;
    if n_keys > c.args.len() - 2 {
        return Err(Failure::text("ERR Number of keys can't be greater than number of args"));
    }
    let limit = limit(c.args.tail(2 + n_keys))?;
    let sets = snapshots(c, c.args.slice(2..2 + n_keys))?;
    let mut count = 0;
    SetOperation::Intersection.run(&sets, rest, |_| {
        count += 1;
        count != limit
    });
    c.reply.count(count);
    Ok(())
}

/// Parses LIMIT: most members to count; 0 for no limit.
fn limit(options: ArgsView<'_>) -> Result<usize, Failure> {
    let (mut limit, mut i) = (0, 0);
    while let Some(option) = options.get(i) {
        let value = options.get(i + 1).ok_or(Failure::Syntax)?;
        if !option.eq_ignore_ascii_case(b"limit") {
            return Err(Failure::Syntax);
        }
        limit = parse_i64(value)
            .and_then(|n| usize::try_from(n).ok())
            .ok_or(Failure::text("ERR LIMIT can't be negative"))?;
        i += 2;
    }
    Ok(limit)
}

/// Shows all members of a packed set in one call, as Redis does. A large set takes several calls.
pub(crate) fn sscan(c: &mut Context<'_>) -> Outcome {
    let cursor = scan::cursor(&c.args[2])?;
    let shown = shown(c.args.tail(3)).and_then(|shown| match shown.values {
        true => Ok(shown),
        // NOVALUES is an option of HSCAN only.
        false => Err(Failure::Syntax),
    });
    let mut found: Vec<Vec<u8>> = Vec::new();
    let next = c.store.set_members(c.key(), c.now, |set| {
        let shown = shown?;
        Ok::<u64, Failure>(set.scan(cursor, shown.count, |member| {
            member.with_bytes(|member| {
                if shown.fits(member) {
                    found.push(member.to_vec());
                }
            });
        }))
    })?;
    // As in Redis, the options are not checked if the key is missing.
    let next = next.transpose()?;
    is_found(c, next.map(|_| ()));
    scan::reply_page(c, next.unwrap_or(0), &found)
}
