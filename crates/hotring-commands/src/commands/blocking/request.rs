//! Parses the blocking commands: their keys, the elements that they want, and the timeout.

use hotring_store::End;

use super::{limit, take_or_wait};
use crate::commands::{list, zset};
use crate::state::blocked::Want;
use crate::state::context::Context;
use crate::state::failure::Outcome;

pub(crate) fn blpop(c: &mut Context<'_>) -> Outcome {
    pop(c, &Want::Element(End::Front))
}

pub(crate) fn brpop(c: &mut Context<'_>) -> Outcome {
    pop(c, &Want::Element(End::Back))
}

pub(crate) fn bzpopmin(c: &mut Context<'_>) -> Outcome {
    pop(c, &Want::Member(End::Front))
}

pub(crate) fn bzpopmax(c: &mut Context<'_>) -> Outcome {
    pop(c, &Want::Member(End::Back))
}

/// Parses `key [key ...] timeout`.
fn pop(c: &mut Context<'_>, want: &Want) -> Outcome {
    let last = c.args.len() - 1;
    let limit = limit(&c.args[last])?;
    let keys: Vec<&[u8]> = c.args.slice(1..last).iter().collect();
    take_or_wait(c, want, &keys, limit)
}

pub(crate) fn blmove(c: &mut Context<'_>) -> Outcome {
    let (from, to) = (list::end(&c.args[3])?, list::end(&c.args[4])?);
    shift(c, from, to, 5)
}

pub(crate) fn brpoplpush(c: &mut Context<'_>) -> Outcome {
    shift(c, End::Back, End::Front, 3)
}

fn shift(c: &mut Context<'_>, from: End, to: End, limit_at: usize) -> Outcome {
    let limit = limit(&c.args[limit_at])?;
    let want = Want::Move { from, to, destination: c.args[2].into() };
    take_or_wait(c, &want, &[c.args.at(1)], limit)
}

pub(crate) fn blmpop(c: &mut Context<'_>) -> Outcome {
    let limit = limit(&c.args[1])?;
    let (keys, end, count) = list::counted_pop(c.args, 2)?;
    let keys: Vec<&[u8]> = keys.iter().collect();
    take_or_wait(c, &Want::Elements(end, count), &keys, limit)
}

pub(crate) fn bzmpop(c: &mut Context<'_>) -> Outcome {
    let limit = limit(&c.args[1])?;
    let (keys, is_max, count) = zset::counted_pop(c.args, 2)?;
    let end = if is_max { End::Back } else { End::Front };
    take_or_wait(c, &Want::Members(end, count), &keys, limit)
}
