//! BITFIELD and BITFIELD_RO: integers of any width at any bit offset of a string.

use hotring_protocol::parse_i64;
use hotring_store::{BitField, FieldAction, FieldOp, Overflow};

use crate::state::context::Context;
use crate::state::failure::{Failure, Outcome};

pub(crate) fn bitfield(c: &mut Context<'_>) -> Outcome {
    let ops = ops(c)?;
    act(c, &ops)
}

pub(crate) fn bitfield_ro(c: &mut Context<'_>) -> Outcome {
    let ops = ops(c)?;
    if ops.iter().any(|(_, action)| *action != FieldAction::Get) {
        return Err(Failure::text("ERR BITFIELD_RO only supports the GET subcommand"));
    }
    act(c, &ops)
}

fn act(c: &mut Context<'_>, ops: &[FieldOp]) -> Outcome {
    let answers = c.store.bit_fields(&c.args[1], ops, c.now)?;
    c.reply.array(answers.len());
    for answer in answers {
        match answer {
            Some(number) => c.reply.int(number),
            None => c.reply.null(),
        }
    }
    Ok(())
}

fn ops(c: &Context<'_>) -> Result<Vec<FieldOp>, Failure> {
    let args = c.args.tail(2);
    let (mut ops, mut overflow, mut i) = (Vec::new(), Overflow::Wrap, 0);
    while let Some(word) = args.get(i) {
        let n_behind = args.len() - i - 1;
        let is = |name: &str, n| word.eq_ignore_ascii_case(name.as_bytes()) && n_behind >= n;
        if is("overflow", 1) {
            overflow = overflow_of(args.at(i + 1))?;
            i += 2;
            continue;
        }
        let (is_set, is_add) = (is("set", 3), is("incrby", 3));
        if !is_set && !is_add && !is("get", 2) {
            return Err(Failure::Syntax);
        }
        let field = field(c, args.at(i + 1), args.at(i + 2))?;
        if !is_set && !is_add {
            ops.push((field, FieldAction::Get));
            i += 3;
            continue;
        }
        let number = parse_i64(args.at(i + 3)).ok_or(Failure::NotAnInteger)?;
        let action = if is_set { FieldAction::Set } else { FieldAction::Add };
        ops.push((field, action(number, overflow)));
        i += 4;
    }
    Ok(ops)
}

fn overflow_of(name: &[u8]) -> Result<Overflow, Failure> {
    match name.to_ascii_lowercase().as_slice() {
        b"wrap" => Ok(Overflow::Wrap),
        b"sat" => Ok(Overflow::Saturate),
        b"fail" => Ok(Overflow::Fail),
        _ => Err(Failure::text("ERR Invalid OVERFLOW type specified")),
    }
}

/// Parses a field: a type such as `i16`, and a bit offset, or `#n` for the n-th field of that width.
fn field(c: &Context<'_>, encoding: &[u8], offset: &[u8]) -> Result<BitField, Failure> {
    let (is_signed, bits_max) = (encoding.first() == Some(&b'i'), 63);
    let bits = parse_i64(encoding.get(1..).unwrap_or_default())
        .filter(|_| is_signed || encoding.first() == Some(&b'u'))
        .filter(|bits| (1..=bits_max + i64::from(is_signed)).contains(bits))
        .ok_or(Failure::text(
            "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.",
        ))?;
    let offset = match offset.strip_prefix(b"#") {
        Some(index) => parse_i64(index).and_then(|index| index.checked_mul(bits)),
        None => parse_i64(offset),
    };
    let offset = offset
        .and_then(|offset| u64::try_from(offset).ok())
        .filter(|offset| offset / 8 < c.store.value_len_max() as u64)
        .ok_or(Failure::text("ERR bit offset is not an integer or out of range"))?;
    Ok(BitField { offset, bits: bits as u32, is_signed })
}
