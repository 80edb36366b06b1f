//! Atomic commands on several strings: MGET, MSET, MSETNX, MSETEX.

use hotring_protocol::{ArgsView, parse_i64};
use hotring_store::{MSetCondition, SetExpiry};

use super::string::{Ttl, set_expiry};
use crate::state::context::Context;
use crate::state::failure::{Failure, Outcome};

/// Requests with up to this many keys or pairs need no allocation: their list is on the stack.
pub(super) const LISTED_MAX: usize = 32;

/// Calls `f` with all of `args` as one slice.
pub(super) fn with_keys<'a, R>(args: ArgsView<'a>, f: impl FnOnce(&[&'a [u8]]) -> R) -> R {
    match args.len() {
        1 => f(&[args.at(0)]),
        n @ 0..=LISTED_MAX => {
            let mut listed: [&[u8]; LISTED_MAX] = [b""; LISTED_MAX];
            listed.iter_mut().zip(args.iter()).for_each(|(slot, key)| *slot = key);
            f(&listed[..n])
        }
        _ => f(&args.iter().collect::<Vec<_>>()),
    }
}

/// A key and its new value.
type Pair<'a> = (&'a [u8], &'a [u8]);

/// Calls `f` with the pairs of keys and values; an arity error if the last key has no value.
pub(super) fn with_pairs<'a, R>(
    args: ArgsView<'a>,
    name: &'static str,
    f: impl FnOnce(&[Pair<'a>]) -> R,
) -> Result<R, Failure> {
    if !args.len().is_multiple_of(2) {
        return Err(Failure::Arity(name.into()));
    }
    let pair = |i| (args.at(i), args.at(i + 1));
    let n = args.len() / 2;
    if n == 1 {
        return Ok(f(&[pair(0)]));
    }
    let mut pairs = (0..args.len()).step_by(2).map(pair);
    if n > LISTED_MAX {
        return Ok(f(&pairs.collect::<Vec<_>>()));
    }
    let mut listed: [Pair<'a>; LISTED_MAX] = [(b"", b""); LISTED_MAX];
    listed.iter_mut().zip(&mut pairs).for_each(|(slot, pair)| *slot = pair);
    Ok(f(&listed[..n]))
}

pub(crate) fn mget(c: &mut Context<'_>) -> Outcome {
    let keys = c.args.tail(1);
    let mut n_hits = 0;
    c.reply.array(keys.len());
    let len_max = c.reply_left();
    with_keys(keys, |keys| {
        c.store.mget_within(keys, len_max, c.now, |_, value, block| match value {
            Some(value) => {
                n_hits += 1;
                c.locals.long_values.reply(&mut c.reply, value, block);
            }
            None => c.reply.null(),
        })
    })?;
    c.counters.keyspace_hits.add(n_hits);
    c.counters.keyspace_misses.add(keys.len() as u64 - n_hits);
    Ok(())
}

pub(crate) fn mset(c: &mut Context<'_>) -> Outcome {
    with_pairs(c.args.tail(1), "mset", |pairs| c.store.mset(pairs, c.now))??;
    c.reply.ok();
    Ok(())
}

pub(crate) fn msetnx(c: &mut Context<'_>) -> Outcome {
    let stored = with_pairs(c.args.tail(1), "msetnx", |pairs| c.store.mset_nx(pairs, c.now))??;
    c.reply.int(stored.into());
    Ok(())
}

pub(crate) fn msetex(c: &mut Context<'_>) -> Outcome {
    let n_pairs = parse_i64(&c.args[1])
        .and_then(|n| usize::try_from(n).ok())
        .filter(|n| (1..=i32::MAX as usize).contains(n))
        .ok_or(Failure::text("ERR invalid numkeys value"))?;
    let end = 2 + 2 * n_pairs;
    if end > c.args.len() {
        return Err(Failure::text("ERR wrong number of key-value pairs"));
    }
    let (condition, expiry) = msetex_options(c.args.tail(end), c.now)?;
    let stored = with_pairs(c.args.slice(2..end), "msetex", |pairs| {
        c.store.mset_ex(pairs, condition, expiry, c.now)
    })??;
    c.reply.int(stored.into());
    Ok(())
}

fn msetex_options(options: ArgsView<'_>, now: u64) -> Result<(MSetCondition, SetExpiry), Failure> {
    let mut condition = MSetCondition::Always;
    let mut ttl = Ttl::Unsaid;
    let mut i = 0;
    while let Some(option) = options.get(i) {
        if option.eq_ignore_ascii_case(b"nx") && condition != MSetCondition::IfAllPresent {
            condition = MSetCondition::IfNonePresent;
            i += 1;
        } else if option.eq_ignore_ascii_case(b"xx") && condition != MSetCondition::IfNonePresent {
            condition = MSetCondition::IfAllPresent;
            i += 1;
        } else {
            i = ttl.take(options, i, b"keepttl")?;
        }
    }
    Ok((condition, set_expiry(ttl, now, "msetex")?))
}
