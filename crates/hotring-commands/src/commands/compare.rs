//! Commands that compare a value or its digest before they change the value: DELEX, DELIFEQ; and DIGEST. SET shares the
//! comparisons.

use hotring_store::{SetCondition, StoreError};

use super::key;
use crate::state::context::Context;
use crate::state::failure::{Failure, Outcome};

/// The comparison that a conditional command makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Digest,
    NotDigest,
}

impl Comparison {
    /// The comparison of an option's name, such as `IFEQ`.
    pub(super) fn of_option(option: &[u8]) -> Option<Self> {
        [
            ("ifeq", Comparison::Equal),
            ("ifne", Comparison::NotEqual),
            ("ifdeq", Comparison::Digest),
            ("ifdne", Comparison::NotDigest),
        ]
        .into_iter()
        .find(|(name, _)| option.eq_ignore_ascii_case(name.as_bytes()))
        .map(|(_, comparison)| comparison)
    }

    /// The condition for a write: `operand` is a value, or a digest in the form that DIGEST returns.
    pub(super) fn with(self, operand: &[u8]) -> Result<SetCondition<'_>, Failure> {
        Ok(match self {
            Comparison::Equal => SetCondition::IfEqual(operand),
            Comparison::NotEqual => SetCondition::IfNotEqual(operand),
            Comparison::Digest => SetCondition::IfDigest(parse_digest(operand)?),
            Comparison::NotDigest => SetCondition::IfNotDigest(parse_digest(operand)?),
        })
    }
}

fn parse_digest(text: &[u8]) -> Result<u64, Failure> {
    let is_digest = text.len() == 16 && text.iter().all(u8::is_ascii_hexdigit);
    str::from_utf8(text)
        .ok()
        .filter(|_| is_digest)
        .and_then(|text| u64::from_str_radix(text, 16).ok())
        .ok_or(Failure::text("ERR must be exactly 16 hexadecimal characters"))
}

pub(crate) fn delex(c: &mut Context<'_>) -> Outcome {
    match c.args.len() {
        2 => return key::del(c),
        4 => {}
        _ => return Err(Failure::Arity("delex".into())),
    }
    // As in Redis, a missing key gets 0 for any comparison, and also without a comparison.
    if !c.store.exists(&c.args[1], c.now) {
        c.reply.int(0);
        return Ok(());
    }
    let comparison = Comparison::of_option(&c.args[2])
        .ok_or(Failure::text("ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE"))?;
    match remove_if(c, comparison.with(c.args.at(3))?) {
        Err(Failure::Store(StoreError::WrongType)) => {
            Err(Failure::text("ERR Key should be of string type if conditions are specified"))
        }
        outcome => outcome,
    }
}

/// Valkey's name for DELEX with IFEQ.
pub(crate) fn delifeq(c: &mut Context<'_>) -> Outcome {
    remove_if(c, SetCondition::IfEqual(c.args.at(2)))
}

fn remove_if(c: &mut Context<'_>, condition: SetCondition<'_>) -> Outcome {
    let removed = c.store.remove_if(&c.args[1], condition, c.now)?;
    c.reply.int(removed.into());
    Ok(())
}

pub(crate) fn digest(c: &mut Context<'_>) -> Outcome {
    let digest = |value: hotring_store::ValueRef<'_>| value.with_bytes(hotring_store::digest);
    match c.store.get_string(&c.args[1], c.now, digest)? {
        Some(digest) => {
            c.hit();
            c.reply.bulk_fmt(format_args!("{digest:016x}"));
        }
        None => {
            c.miss();
            c.reply.null();
        }
    }
    Ok(())
}
