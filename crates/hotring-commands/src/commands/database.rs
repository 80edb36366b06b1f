//! Databases: SELECT, MOVE, SWAPDB. A node of a cluster has one database only.

use hotring_protocol::parse_i64;

use crate::state::context::Context;
use crate::state::failure::{Failure, Outcome};

const OUT_OF_RANGE: Failure = Failure::text("ERR DB index is out of range");

pub(crate) fn select(c: &mut Context<'_>) -> Outcome {
    let number = int(c.args.at(1))?;
    if number != 0 && c.server.cluster.is_some() {
        return Err(Failure::text("ERR SELECT is not allowed in cluster mode"));
    }
    let number = check(c, number)?;
    go_to(c, number);
    c.reply.ok();
    Ok(())
}

/// Selects a database for the client and for the session of the store.
pub(crate) fn go_to(c: &mut Context<'_>, number: u8) {
    c.client.select(number);
    c.store.select(number);
}

/// Parses the number of a database.
pub(crate) fn number(c: &Context<'_>, text: &[u8]) -> Result<u8, Failure> {
    check(c, int(text)?)
}

fn int(text: &[u8]) -> Result<i64, Failure> {
    let number = parse_i64(text).ok_or(Failure::NotAnInteger)?;
    if i32::try_from(number).is_err() {
        return Err(Failure::text(
            "ERR value is out of range, value must between -2147483648 and 2147483647",
        ));
    }
    Ok(number)
}

fn check(c: &Context<'_>, number: i64) -> Result<u8, Failure> {
    let there_are = c.server.settings.config().databases as i64;
    match u8::try_from(number) {
        Ok(number) if i64::from(number) < there_are => Ok(number),
        _ => Err(OUT_OF_RANGE),
    }
}

pub(crate) fn move_key(c: &mut Context<'_>) -> Outcome {
    if c.server.cluster.is_some() {
        return Err(Failure::text("ERR MOVE is not allowed in cluster mode"));
    }
    let to = number(c, c.args.at(2))?;
    if to == c.client.database {
        return Err(Failure::text("ERR source and destination objects are the same"));
    }
    let moved = c.store.move_to(c.args.at(1), to, c.now)?;
    c.reply.int(moved.into());
    Ok(())
}

pub(crate) fn swapdb(c: &mut Context<'_>) -> Outcome {
    if c.server.cluster.is_some() {
        return Err(Failure::text("ERR SWAPDB is not allowed in cluster mode"));
    }
    let number = |text: &[u8], wrong: &'static str| {
        let number = parse_i64(text).filter(|number| i32::try_from(*number).is_ok());
        number.ok_or(Failure::text(wrong))
    };
    let one = number(c.args.at(1), "ERR invalid first DB index")?;
    let other = number(c.args.at(2), "ERR invalid second DB index")?;
    let (one, other) = (check(c, one)?, check(c, other)?);
    c.store.swap_databases(one, other);
    c.store.take_refused()?;
    c.reply.ok();
    Ok(())
}
