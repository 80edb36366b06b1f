//! INCREX: increments a counter with bounds and an expiry.

use hotring_protocol::{ArgsView, parse_i64};
use hotring_store::{CounterExpiry, CounterOptions, Decimal};

use super::expire::{Moment, deadline};
use crate::state::context::Context;
use crate::state::failure::{Failure, Outcome};

/// The options as written; none may be repeated.
#[derive(Default)]
struct Options<'a> {
    by: Option<By<'a>>,
    low: Option<&'a [u8]>,
    high: Option<&'a [u8]>,
    saturates: bool,
    persists: bool,
    time: Option<(Moment, &'a [u8])>,
    /// ENX: only if the key has no expiry.
    unless_set: bool,
}

#[derive(Clone, Copy)]
enum By<'a> {
    Int(&'a [u8]),
    Float(&'a [u8]),
}

impl<'a> Options<'a> {
    fn parse(args: ArgsView<'a>) -> Result<Self, Failure> {
        let mut options = Options::default();
        let mut i = 0;
        while i < args.len() {
            let takes_value = options.take(args.at(i), args.get(i + 1)).ok_or(Failure::Syntax)?;
            i += 1 + usize::from(takes_value);
        }
        let exclusive = usize::from(options.persists)
            + usize::from(options.unless_set || options.time.is_some());
        if exclusive > 1 {
            return Err(Failure::Syntax);
        }
        if options.unless_set && options.time.is_none() {
            return Err(Failure::text("ERR ENX flag requires an expiration"));
        }
        Ok(options)
    }

    /// Reads one option. Returns whether `value` belongs to the option, or None if the option is unknown or repeated.
    fn take(&mut self, option: &[u8], value: Option<&'a [u8]>) -> Option<bool> {
        let flag = match option.to_ascii_lowercase().as_slice() {
            b"byint" => return put(&mut self.by, By::Int(value?)),
            b"byfloat" => return put(&mut self.by, By::Float(value?)),
            b"lbound" => return put(&mut self.low, value?),
            b"ubound" => return put(&mut self.high, value?),
            b"saturate" => &mut self.saturates,
            b"persist" => &mut self.persists,
            b"enx" => &mut self.unless_set,
            name => return put(&mut self.time, (Moment::of_option(name)?, value?)),
        };
        (!std::mem::replace(flag, true)).then_some(false)
    }

    fn expiry(&self, now: u64) -> Result<CounterExpiry, Failure> {
        let Some((moment, time)) = self.time else {
            let kept = CounterExpiry::Leave;
            return Ok(if self.persists { CounterExpiry::Persist } else { kept });
        };
        let at = deadline(moment, time, now, "increx")?;
        let set = CounterExpiry::At(at);
        Ok(if self.unless_set { CounterExpiry::AtUnlessSet(at) } else { set })
    }

    /// Reads the numbers with `parse`, which gets the name of each number for its error.
    fn counter<T: Copy>(
        &self,
        by: T,
        expiry: CounterExpiry,
        parse: impl Fn(&[u8], &str) -> Result<T, Failure>,
        is_below: impl Fn(T, T) -> bool,
    ) -> Result<CounterOptions<T>, Failure> {
        let low = self.low.map(|text| parse(text, "LBOUND")).transpose()?;
        let high = self.high.map(|text| parse(text, "UBOUND")).transpose()?;
        if low.zip(high).is_some_and(|(low, high)| is_below(high, low)) {
            return Err(Failure::text("ERR LBOUND can't be greater than UBOUND"));
        }
        Ok(CounterOptions { by, low, high, saturates: self.saturates, expiry })
    }
}

/// Fills an empty slot and returns true: the option consumes a value. None if the slot is taken.
fn put<T>(slot: &mut Option<T>, value: T) -> Option<bool> {
    slot.is_none().then(|| *slot = Some(value)).map(|()| true)
}

pub(crate) fn increx(c: &mut Context<'_>) -> Outcome {
    let options = Options::parse(c.args.tail(2))?;
    let expiry = options.expiry(c.now)?;
    match options.by {
        None => add_integer(c, &options, 1, expiry),
        Some(By::Int(text)) => add_integer(c, &options, integer(text, "Increment")?, expiry),
        Some(By::Float(text)) => {
            let by = decimal(text, "Increment")?;
            if by.is_infinite() {
                return Err(Failure::text("ERR BYFLOAT increment cannot be Infinity"));
            }
            add_decimal(c, &options, by, expiry)
        }
    }
}

fn add_integer(
    c: &mut Context<'_>,
    options: &Options<'_>,
    by: i64,
    expiry: CounterExpiry,
) -> Outcome {
    let counter = options.counter(by, expiry, integer, |a, b| a < b)?;
    let counted = c.store.incr_ex(&c.args[1], counter, c.now)?;
    c.reply.array(2);
    c.reply.int(counted.value);
    c.reply.int(counted.applied);
    Ok(())
}

fn add_decimal(
    c: &mut Context<'_>,
    options: &Options<'_>,
    by: Decimal,
    expiry: CounterExpiry,
) -> Outcome {
    let counter = options.counter(by, expiry, decimal, Decimal::is_below)?;
    let counted = c.store.incr_ex_float(&c.args[1], counter, c.now)?;
    c.reply.array(2);
    c.reply.decimal(&counted.value);
    c.reply.decimal(&counted.applied);
    Ok(())
}

fn integer(text: &[u8], name: &str) -> Result<i64, Failure> {
    parse_i64(text).ok_or_else(|| format!("ERR {name} is not an integer or out of range").into())
}

fn decimal(text: &[u8], name: &str) -> Result<Decimal, Failure> {
    Decimal::parse(text).map_err(|_| format!("ERR {name} is not a valid float").into())
}
