//! Bit commands on strings: SETBIT, GETBIT, BITCOUNT, BITPOS, BITOP.

use hotring_protocol::{ArgsView, parse_i64};
use hotring_store::{BitOp, BitRange};

use super::multi::with_keys;
use crate::state::context::Context;
use crate::state::failure::{Failure, Outcome};

pub(crate) fn setbit(c: &mut Context<'_>) -> Outcome {
    // As in Redis, a bad offset is reported before a bad bit.
    let offset = offset(c)?;
    let bit = match &c.args[3] {
        b"0" => false,
        b"1" => true,
        _ => return Err(Failure::text("ERR bit is not an integer or out of range")),
    };
    let old = c.store.set_bit(&c.args[1], offset, bit, c.now)?;
    c.reply.int(old.into());
    Ok(())
}

pub(crate) fn getbit(c: &mut Context<'_>) -> Outcome {
    let offset = offset(c)?;
    let bit = c.store.bit(&c.args[1], offset, c.now)?;
    c.reply.int(bit.into());
    Ok(())
}

/// Parses the bit offset, which must lie within the longest allowed value.
fn offset(c: &Context<'_>) -> Result<u64, Failure> {
    let offset = parse_i64(&c.args[2]).and_then(|offset| u64::try_from(offset).ok());
    offset
        .filter(|offset| offset / 8 < c.store.value_len_max() as u64)
        .ok_or(Failure::text("ERR bit offset is not an integer or out of range"))
}

pub(crate) fn bitcount(c: &mut Context<'_>) -> Outcome {
    let range = match c.args.len() {
        2 => BitRange::ALL,
        // Unlike BITPOS, BITCOUNT does not accept a start without an end.
        4 | 5 => range(c.args.tail(2))?,
        _ => return Err(Failure::Syntax),
    };
    let count = c.store.bit_count(&c.args[1], range, c.now)?;
    c.reply.int(count as i64);
    Ok(())
}

pub(crate) fn bitpos(c: &mut Context<'_>) -> Outcome {
    let bit = match parse_i64(&c.args[2]).ok_or(Failure::NotAnInteger)? {
        0 => false,
        1 => true,
        _ => return Err(Failure::text("ERR The bit argument must be 1 or 0.")),
    };
    let range = match c.args.len() {
        3 => BitRange::ALL,
        4..=6 => range(c.args.tail(3))?,
        _ => return Err(Failure::Syntax),
    };
    let found = c.store.bit_pos(&c.args[1], bit, range, c.now)?;
    c.reply.int(found.map_or(-1, |at| at as i64));
    Ok(())
}

/// Parses `start [end [BYTE | BIT]]`; the checks are in Redis's order, so that the first error agrees.
fn range(args: ArgsView<'_>) -> Result<BitRange, Failure> {
    let integer = |text| parse_i64(text).ok_or(Failure::NotAnInteger);
    let start = integer(args.at(0))?;
    let end = args.get(1).map(integer).transpose()?;
    let in_bits = match args.get(2) {
        None => false,
        Some(unit) if unit.eq_ignore_ascii_case(b"byte") => false,
        Some(unit) if unit.eq_ignore_ascii_case(b"bit") => true,
        Some(_) => return Err(Failure::Syntax),
    };
    Ok(BitRange { start, end, in_bits })
}

pub(crate) fn bitop(c: &mut Context<'_>) -> Outcome {
    let op = match c.args[1].to_ascii_lowercase().as_slice() {
        b"and" => BitOp::And,
        b"or" => BitOp::Or,
        b"xor" => BitOp::Xor,
        b"not" => BitOp::Not,
        _ => return Err(Failure::Syntax),
    };
    let sources = c.args.tail(3);
    if op == BitOp::Not && sources.len() != 1 {
        return Err(Failure::text("ERR BITOP NOT must be called with a single source key."));
    }
    let len = with_keys(sources, |sources| c.store.bit_op(op, &c.args[2], sources, c.now))?;
    c.reply.count(len);
    Ok(())
}
