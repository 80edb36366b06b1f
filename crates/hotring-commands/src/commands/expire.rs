//! Expiry: EXPIRE and its variants, TTL and its variants, PERSIST.

use hotring_protocol::{ArgsView, parse_i64};
use hotring_store::ExpireCondition;

use crate::state::context::Context;
use crate::state::failure::{Failure, Outcome};
use crate::table::quoted;

/// A way to state an expiry time: the unit, and whether the number is relative or a Unix time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    InSeconds,
    InMilliseconds,
    AtSecond,
    AtMillisecond,
}

impl Moment {
    /// The kind of time that an option of SET or GETEX takes.
    pub(super) fn of_option(option: &[u8]) -> Option<Self> {
        [
            ("ex", Moment::InSeconds),
            ("px", Moment::InMilliseconds),
            ("exat", Moment::AtSecond),
            ("pxat", Moment::AtMillisecond),
        ]
        .into_iter()
        .find(|(name, _)| option.eq_ignore_ascii_case(name.as_bytes()))
        .map(|(_, moment)| moment)
    }

    /// The expiry time in Unix milliseconds; `None` on overflow.
    pub(super) fn unix_ms(self, number: i64, now: u64) -> Option<i64> {
        let now = i64::try_from(now).ok()?;
        match self {
            Moment::InSeconds => number.checked_mul(1000)?.checked_add(now),
            Moment::InMilliseconds => number.checked_add(now),
            Moment::AtSecond => number.checked_mul(1000),
            Moment::AtMillisecond => Some(number),
        }
    }
}

/// The expiry of a key that is being written, in Unix milliseconds. Zero and negative numbers are errors here; a time
/// in the past is not.
pub(super) fn deadline(
    moment: Moment,
    number: &[u8],
    now: u64,
    command: &str,
) -> Result<u64, Failure> {
    let number = parse_i64(number).ok_or(Failure::NotAnInteger)?;
    let at = if number > 0 { moment.unix_ms(number, now) } else { None };
    // The sum of a positive number and the current time is positive.
    at.map(i64::cast_unsigned).ok_or_else(|| invalid_time(command))
}

fn invalid_time(command: &str) -> Failure {
    format!("ERR invalid expire time in '{command}' command").into()
}

pub(crate) fn expire(c: &mut Context<'_>) -> Outcome {
    expire_at(c, Moment::InSeconds, "expire")
}

pub(crate) fn pexpire(c: &mut Context<'_>) -> Outcome {
    expire_at(c, Moment::InMilliseconds, "pexpire")
}

pub(crate) fn expireat(c: &mut Context<'_>) -> Outcome {
    expire_at(c, Moment::AtSecond, "expireat")
}

pub(crate) fn pexpireat(c: &mut Context<'_>) -> Outcome {
    expire_at(c, Moment::AtMillisecond, "pexpireat")
}

/// Sets the expiry of a key. A time in the past, even before 1970, deletes the key.
fn expire_at(c: &mut Context<'_>, moment: Moment, name: &str) -> Outcome {
    let condition = condition(c.args.tail(3))?;
    let number = parse_i64(&c.args[2]).ok_or(Failure::NotAnInteger)?;
    let at = moment.unix_ms(number, c.now).ok_or_else(|| invalid_time(name))?;
    let at = u64::try_from(at).unwrap_or(0);
    let changed = c.store.expire_at(&c.args[1], at, condition, c.now)?;
    c.reply.int(changed.into());
    Ok(())
}

fn condition(options: ArgsView<'_>) -> Result<ExpireCondition, Failure> {
    let (mut nx, mut xx, mut gt, mut lt) = (false, false, false, false);
    for option in options.iter() {
        match option.to_ascii_lowercase().as_slice() {
            b"nx" => nx = true,
            b"xx" => xx = true,
            b"gt" => gt = true,
            b"lt" => lt = true,
            _ => {
                let option = quoted(option);
                return Err(format!("ERR Unsupported option {option}").into());
            }
        }
    }
    if nx && (xx || gt || lt) {
        return Err(Failure::text(
            "ERR NX and XX, GT or LT options at the same time are not compatible",
        ));
    }
    if gt && lt {
        return Err(Failure::text("ERR GT and LT options at the same time are not compatible"));
    }
    Ok(match (nx, xx, gt, lt) {
        // A key without an expiry counts as the latest of all: LT alone applies to it, and GT implies XX.
        (_, true, _, true) => ExpireCondition::IfSomeAndEarlier,
        (_, _, _, true) => ExpireCondition::IfEarlier,
        (_, _, true, _) => ExpireCondition::IfLater,
        (_, true, _, _) => ExpireCondition::IfSome,
        (true, ..) => ExpireCondition::IfNone,
        _ => ExpireCondition::Always,
    })
}

pub(crate) fn ttl(c: &mut Context<'_>) -> Outcome {
    time_of_expiry(c, |at, now| seconds(at.saturating_sub(now)))
}

pub(crate) fn pttl(c: &mut Context<'_>) -> Outcome {
    time_of_expiry(c, |at, now| at.saturating_sub(now))
}

pub(crate) fn expiretime(c: &mut Context<'_>) -> Outcome {
    time_of_expiry(c, |at, _| seconds(at))
}

pub(crate) fn pexpiretime(c: &mut Context<'_>) -> Outcome {
    time_of_expiry(c, |at, _| at)
}

/// Milliseconds as seconds, rounded to the nearest as in Redis.
fn seconds(milliseconds: u64) -> u64 {
    milliseconds.saturating_add(500) / 1000
}

fn time_of_expiry(c: &mut Context<'_>, shown: impl FnOnce(u64, u64) -> u64) -> Outcome {
    let expiry = c.store.expiry(&c.args[1], c.now);
    if expiry.is_some() {
        c.hit();
    } else {
        c.miss();
    }
    c.reply.int(match expiry {
        None => -2,
        Some(None) => -1,
        Some(Some(at)) => i64::try_from(shown(at, c.now)).unwrap_or(i64::MAX),
    });
    Ok(())
}

pub(crate) fn persist(c: &mut Context<'_>) -> Outcome {
    let changed = c.store.persist(&c.args[1], c.now)?;
    c.reply.int(changed.into());
    Ok(())
}
