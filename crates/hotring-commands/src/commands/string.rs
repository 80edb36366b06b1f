//! String commands on entire values: GET, SET and their variants, APPEND, STRLEN.

use hotring_protocol::ArgsView;
use hotring_store::{SetCondition, SetExpiry, SetOptions, Text, TtlChange, ValueRef};

use super::compare::Comparison;
use super::expire::{Moment, deadline};
use crate::state::context::Context;
use crate::state::failure::{Failure, Outcome};

/// Replies with an old value that the store has returned, or with null.
fn old_value(c: &mut Context<'_>, old: Option<Text>) {
    match old {
        Some(text) => {
            c.hit();
            c.locals.long_values.reply(&mut c.reply, ValueRef::Bytes(&text), text.block());
        }
        None => {
            c.miss();
            c.reply.null();
        }
    }
}

pub(crate) fn get(c: &mut Context<'_>) -> Outcome {
    let found = c.store.get_shared(c.key(), c.now, |value, block| {
        c.locals.long_values.reply(&mut c.reply, value, block);
    })?;
    null_unless_found(c, found);
    Ok(())
}

fn null_unless_found(c: &mut Context<'_>, found: Option<()>) {
    match found {
        Some(()) => c.hit(),
        None => {
            c.miss();
            c.reply.null();
        }
    }
}

pub(crate) fn set(c: &mut Context<'_>) -> Outcome {
    if c.args.len() == 3 {
        let options =
            SetOptions { buffer: c.locals.long_values.buffer.as_ref(), ..SetOptions::default() };
        c.store.set(c.key(), &c.args[2], options, c.now)?;
        c.reply.ok();
        return Ok(());
    }
    let mut options = set_options(c.args.tail(3), c.now)?;
    options.buffer = c.locals.long_values.buffer.as_ref();
    let outcome = c.store.set(c.key(), &c.args[2], options, c.now)?;
    match outcome.stored {
        _ if options.return_old => old_value(c, outcome.old),
        true => c.reply.ok(),
        false => c.reply.null(),
    }
    Ok(())
}

/// The expiry options of SET, MSETEX and GETEX.
#[derive(Clone, Copy)]
pub(super) enum Ttl<'a> {
    Unsaid,
    /// KEEPTTL of SET and MSETEX, PERSIST of GETEX.
    Word,
    Time(Moment, &'a [u8]),
}

impl<'a> Ttl<'a> {
    /// Reads the option at `options[i]` if it concerns the expiry; `word` is the option without a time. Returns the
    /// index after the option. An option may be repeated; two different ones are a syntax error.
    pub(super) fn take(
        &mut self,
        options: ArgsView<'a>,
        i: usize,
        word: &[u8],
    ) -> Result<usize, Failure> {
        let option = options.at(i);
        if option.eq_ignore_ascii_case(word) && !matches!(self, Ttl::Time(..)) {
            *self = Ttl::Word;
            return Ok(i + 1);
        }
        let moment = Moment::of_option(option).ok_or(Failure::Syntax)?;
        let clashes = match self {
            Ttl::Unsaid => false,
            Ttl::Word => true,
            Ttl::Time(before, _) => *before != moment,
        };
        match options.get(i + 1) {
            Some(time) if !clashes => *self = Ttl::Time(moment, time),
            _ => return Err(Failure::Syntax),
        }
        Ok(i + 2)
    }
}

/// The conditions of SET.
enum Condition<'a> {
    Always,
    Absent,
    Present,
    Compared(Comparison, &'a [u8]),
}

fn set_options(options: ArgsView<'_>, now: u64) -> Result<SetOptions<'_>, Failure> {
    let mut when = Condition::Always;
    let mut return_old = false;
    let mut ttl = Ttl::Unsaid;
    let mut i = 0;
    while let Some(option) = options.get(i) {
        let is = |word: &str| option.eq_ignore_ascii_case(word.as_bytes());
        if is("nx") && matches!(when, Condition::Always | Condition::Absent) {
            when = Condition::Absent;
        } else if is("xx") && matches!(when, Condition::Always | Condition::Present) {
            when = Condition::Present;
        } else if is("get") {
            return_old = true;
        } else if let Some(comparison) = Comparison::of_option(option) {
            when = compared(&when, comparison, options.get(i + 1))?;
            i += 1;
        } else {
            i = ttl.take(options, i, b"keepttl")?;
            continue;
        }
        i += 1;
    }
    let expiry = set_expiry(ttl, now, "set")?;
    let condition = match when {
        Condition::Always => SetCondition::Always,
        Condition::Absent => SetCondition::IfAbsent,
        Condition::Present => SetCondition::IfPresent,
        Condition::Compared(comparison, operand) => comparison.with(operand)?,
    };
    Ok(SetOptions { condition, expiry, return_old, buffer: None })
}

/// Reads the operand of a comparison. A comparison may be repeated; two different ones are a syntax error.
fn compared<'a>(
    before: &Condition<'_>,
    comparison: Comparison,
    operand: Option<&'a [u8]>,
) -> Result<Condition<'a>, Failure> {
    let fits = match before {
        Condition::Always => true,
        Condition::Compared(other, _) => *other == comparison,
        _ => false,
    };
    operand
        .filter(|_| fits)
        .map(|operand| Condition::Compared(comparison, operand))
        .ok_or(Failure::Syntax)
}

/// The effect of the options of SET and MSETEX on the expiry.
pub(super) fn set_expiry(ttl: Ttl<'_>, now: u64, command: &str) -> Result<SetExpiry, Failure> {
    Ok(match ttl {
        Ttl::Unsaid => SetExpiry::Clear,
        Ttl::Word => SetExpiry::Keep,
        Ttl::Time(moment, time) => SetExpiry::At(deadline(moment, time, now, command)?),
    })
}

pub(crate) fn setnx(c: &mut Context<'_>) -> Outcome {
    let options =
        SetOptions { buffer: c.locals.long_values.buffer.as_ref(), ..SetOptions::if_absent() };
    let outcome = c.store.set(&c.args[1], &c.args[2], options, c.now)?;
    c.reply.int(outcome.stored.into());
    Ok(())
}

pub(crate) fn setex(c: &mut Context<'_>) -> Outcome {
    set_for(c, Moment::InSeconds, "setex")
}

pub(crate) fn psetex(c: &mut Context<'_>) -> Outcome {
    set_for(c, Moment::InMilliseconds, "psetex")
}

fn set_for(c: &mut Context<'_>, moment: Moment, name: &str) -> Outcome {
    let at = deadline(moment, &c.args[2], c.now, name)?;
    let buffer = c.locals.long_values.buffer.as_ref();
    let options = SetOptions { expiry: SetExpiry::At(at), buffer, ..SetOptions::default() };
    c.store.set(&c.args[1], &c.args[3], options, c.now)?;
    c.reply.ok();
    Ok(())
}

pub(crate) fn getset(c: &mut Context<'_>) -> Outcome {
    let buffer = c.locals.long_values.buffer.as_ref();
    let options = SetOptions { return_old: true, buffer, ..SetOptions::default() };
    let outcome = c.store.set(&c.args[1], &c.args[2], options, c.now)?;
    old_value(c, outcome.old);
    Ok(())
}

pub(crate) fn getdel(c: &mut Context<'_>) -> Outcome {
    let old = c.store.get_del(&c.args[1], c.now)?;
    old_value(c, old);
    Ok(())
}

pub(crate) fn getex(c: &mut Context<'_>) -> Outcome {
    let options = c.args.tail(2);
    let mut ttl = Ttl::Unsaid;
    let mut i = 0;
    while i < options.len() {
        i = ttl.take(options, i, b"persist")?;
    }
    let change = match ttl {
        Ttl::Unsaid => TtlChange::Leave,
        Ttl::Word => TtlChange::Persist,
        Ttl::Time(moment, time) => match deadline(moment, time, c.now, "getex") {
            Ok(at) => TtlChange::At(at),
            // Redis looks up the key before it checks the time: a missing key hides the error.
            Err(failure) if c.store.get_string(&c.args[1], c.now, |_| ())?.is_some() => {
                return Err(failure);
            }
            Err(_) => TtlChange::Leave,
        },
    };
    let found = c.store.get_ex(&c.args[1], change, c.now, |value, block| {
        c.locals.long_values.reply(&mut c.reply, value, block);
    })?;
    null_unless_found(c, found);
    Ok(())
}

pub(crate) fn append(c: &mut Context<'_>) -> Outcome {
    let len = c.store.append(&c.args[1], &c.args[2], c.now)?;
    c.reply.count(len);
    Ok(())
}

pub(crate) fn strlen(c: &mut Context<'_>) -> Outcome {
    match c.store.get_string(&c.args[1], c.now, |value| value.len())? {
        Some(len) => {
            c.hit();
            c.reply.count(len);
        }
        None => {
            c.miss();
            c.reply.int(0);
        }
    }
    Ok(())
}
