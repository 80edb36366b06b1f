//! Numeric string commands: INCR, DECR, INCRBY, DECRBY, INCRBYFLOAT.

use hotring_protocol::parse_i64;

use crate::state::context::Context;
use crate::state::failure::{Failure, Outcome};

pub(crate) fn incr(c: &mut Context<'_>) -> Outcome {
    add(c, 1)
}

pub(crate) fn decr(c: &mut Context<'_>) -> Outcome {
    add(c, -1)
}

pub(crate) fn incrby(c: &mut Context<'_>) -> Outcome {
    let delta = parse_i64(&c.args[2]).ok_or(Failure::NotAnInteger)?;
    add(c, delta)
}

pub(crate) fn decrby(c: &mut Context<'_>) -> Outcome {
    let delta = parse_i64(&c.args[2]).ok_or(Failure::NotAnInteger)?;
    let delta = delta.checked_neg().ok_or(Failure::text("ERR decrement would overflow"))?;
    add(c, delta)
}

fn add(c: &mut Context<'_>, delta: i64) -> Outcome {
    let sum = c.store.incr_by(c.key(), delta, c.now)?;
    c.reply.int(sum);
    Ok(())
}

pub(crate) fn incrbyfloat(c: &mut Context<'_>) -> Outcome {
    let sum = c.store.incr_by_float(&c.args[1], &c.args[2], c.now)?;
    c.reply.bulk(&sum);
    Ok(())
}
