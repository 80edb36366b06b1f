//! Substring commands: GETRANGE (and its old name SUBSTR), SETRANGE.

use hotring_protocol::parse_i64;
use hotring_store::ValueRef;

use crate::state::context::Context;
use crate::state::failure::{Failure, Outcome};

pub(crate) fn getrange(c: &mut Context<'_>) -> Outcome {
    let start = parse_i64(&c.args[2]).ok_or(Failure::NotAnInteger)?;
    let end = parse_i64(&c.args[3]).ok_or(Failure::NotAnInteger)?;
    c.store.get_range(&c.args[1], start, end, c.now, |part, block| {
        c.locals.long_values.reply(&mut c.reply, ValueRef::Bytes(part), block);
    })?;
    Ok(())
}

pub(crate) fn setrange(c: &mut Context<'_>) -> Outcome {
    let offset = parse_i64(&c.args[2]).ok_or(Failure::NotAnInteger)?;
    let offset =
        usize::try_from(offset).map_err(|_| Failure::text("ERR offset is out of range"))?;
    let len = c.store.set_range(&c.args[1], offset, &c.args[3], c.now)?;
    c.reply.count(len);
    Ok(())
}
