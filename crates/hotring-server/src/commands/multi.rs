//! Several strings at one moment: MGET, MSET, MSETNX.

use hotring_protocol::ArgsView;

use super::string::bulk;
use crate::context::Context;
use crate::failure::{Failure, Outcome};

/// Up to this many keys or pairs are listed on the stack.
const LISTED_MAX: usize = 32;

/// Hands all of `args` to `f` as one slice.
pub(super) fn with_keys<'a, R>(args: ArgsView<'a>, f: impl FnOnce(&[&'a [u8]]) -> R) -> R {
    let mut listed: [&[u8]; LISTED_MAX] = [b""; LISTED_MAX];
    match args.len() {
        1 => f(&[args.at(0)]),
        n @ 0..=LISTED_MAX => {
            listed.iter_mut().zip(args.iter()).for_each(|(place, key)| *place = key);
            f(&listed[..n])
        }
        _ => f(&args.iter().collect::<Vec<_>>()),
    }
}

/// A key and its new value.
type Pair<'a> = (&'a [u8], &'a [u8]);

/// Hands the keys and values behind the command's name to `f`.
fn with_pairs<'a, R>(
    args: ArgsView<'a>,
    name: &'static str,
    f: impl FnOnce(&[Pair<'a>]) -> R,
) -> Result<R, Failure> {
    let args = args.tail(1);
    if !args.len().is_multiple_of(2) {
        return Err(Failure::Arity(name.into()));
    }
    let mut pairs = (0..args.len()).step_by(2).map(|i| (args.at(i), args.at(i + 1)));
    let mut listed: [Pair<'a>; LISTED_MAX] = [(b"", b""); LISTED_MAX];
    let n = args.len() / 2;
    if n > LISTED_MAX {
        return Ok(f(&pairs.collect::<Vec<_>>()));
    }
    listed.iter_mut().zip(&mut pairs).for_each(|(place, pair)| *place = pair);
    Ok(f(&listed[..n]))
}

pub(crate) fn mget(c: &mut Context<'_>) -> Outcome {
    let keys = c.args.tail(1);
    let mut n_hits = 0;
    c.reply.array(keys.len());
    let room = c.room();
    with_keys(keys, |keys| {
        c.store.mget_within(keys, room, c.now, |_, value| match value {
            Some(value) => {
                n_hits += 1;
                bulk(&mut c.reply, value);
            }
            None => c.reply.null(),
        })
    })?;
    c.counters.keyspace_hits.add(n_hits);
    c.counters.keyspace_misses.add(keys.len() as u64 - n_hits);
    Ok(())
}

pub(crate) fn mset(c: &mut Context<'_>) -> Outcome {
    with_pairs(c.args, "mset", |pairs| c.store.mset(pairs, c.now))??;
    c.reply.ok();
    Ok(())
}

pub(crate) fn msetnx(c: &mut Context<'_>) -> Outcome {
    let stored = with_pairs(c.args, "msetnx", |pairs| c.store.mset_nx(pairs, c.now))??;
    c.reply.int(stored.into());
    Ok(())
}

#[cfg(test)]
mod tests;
