//! INCREX: a counter with bounds and an expiry, for rate limits and quotas. A single-key write that reads the value as
//! a number.

use hotring_index::{Action, Entry, Expiry, NewValue};

use crate::decimal::{self, Number};
use crate::error::{NumberKind, StoreError};
use crate::metadata::with_flags_of;
use crate::session::Session;
use crate::value::{ValueRef, encode_owned, int, view_string};

/// The effect of [`Session::incr_ex`] on the expiry, if it changes the value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CounterExpiry {
    /// The expiry stays.
    #[default]
    Leave,
    /// The expiry is removed.
    Persist,
    /// The key expires at this Unix millisecond; if that is not after `now`, it is removed.
    At(u64),
    /// Like `At`, if the key is absent or has no expiry.
    AtUnlessSet(u64),
}

/// The increment of [`Session::incr_ex`] and the bounds of the sum: numbers of one kind.
#[derive(Clone, Copy, Debug)]
pub struct CounterOptions<T> {
    /// The increment.
    pub by: T,
    /// The lower bound of the sum.
    pub low: Option<T>,
    /// The upper bound of the sum, which should not be below the lower one.
    pub high: Option<T>,
    /// Whether a sum out of bounds is set to the bound; otherwise nothing is done.
    pub saturates: bool,
    /// The new expiry.
    pub expiry: CounterExpiry,
}

/// The result of [`Session::incr_ex`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted<T> {
    /// The value after the operation.
    pub value: T,
    /// The amount added.
    pub applied: T,
}

/// The numbers that a counter can hold, in the form that is added.
trait Count: Copy {
    /// The form that callers see.
    type Shown;
    const ZERO: Self;
    fn of_value(value: ValueRef<'_>) -> Result<Self, StoreError>;
    /// The sum, or the end of the range that it exceeds.
    fn add(self, by: Self) -> Result<Self, Self>;
    fn is_below(self, other: Self) -> bool;
    /// The difference of this number and `old`.
    fn since(self, old: Self) -> Result<Self, StoreError>;
    fn shown(self) -> Result<Self::Shown, StoreError>;
    fn stored(self) -> Result<NewValue<'static>, StoreError>;
}

impl Session {
    /// Adds to the integer (0 if the key is absent), if the sum is within the bounds and 64 bits.
    ///
    /// # Errors
    /// [`StoreError::NotANumber`], [`StoreError::ChangeOverflow`] if a bound differs from the value by more than 64
    /// bits can hold, and those of every write.
    pub fn incr_ex(
        &mut self,
        key: &[u8],
        options: CounterOptions<i64>,
        now: u64,
    ) -> Result<Counted<i64>, StoreError> {
        self.count(key, options, now)
    }

    /// Like [`incr_ex`](Self::incr_ex), for decimal numbers as in [`incr_by_float`](Self::incr_by_float); returns them
    /// as text.
    ///
    /// # Errors
    /// [`StoreError::NotANumber`], [`StoreError::InfiniteValue`], [`StoreError::ChangeOverflow`], and those
    /// of every write.
    pub fn incr_ex_float(
        &mut self,
        key: &[u8],
        options: CounterOptions<Decimal>,
        now: u64,
    ) -> Result<Counted<Vec<u8>>, StoreError> {
        let CounterOptions { by, low, high, saturates, expiry } = options;
        let number = |decimal: Decimal| decimal.0;
        let (low, high) = (low.map(number), high.map(number));
        self.count(key, CounterOptions { by: by.0, low, high, saturates, expiry }, now)
    }

    fn count<T: Count>(
        &mut self,
        key: &[u8],
        options: CounterOptions<T>,
        now: u64,
    ) -> Result<Counted<T::Shown>, StoreError> {
        self.check_key(key)?;
        self.write(key, |key| {
            key.update(now, |entry| match decide(&options, entry, now) {
                Ok((action, value, applied)) => {
                    let shown = value
                        .shown()
                        .and_then(|value| Ok(Counted { value, applied: applied.shown()? }));
                    (action, shown)
                }
                Err(error) => (Action::Keep, Err(error)),
            })
        })?
    }
}

/// Decides on the item. Returns the action, the new value, and its difference from the old one.
fn decide<T: Count>(
    options: &CounterOptions<T>,
    entry: Option<Entry<'_>>,
    now: u64,
) -> Result<(Action<'static>, T, T), StoreError> {
    let old = entry.map_or(Ok(T::ZERO), |entry| view_string(&entry, T::of_value)?)?;
    let (sum, is_beyond) = match old.add(options.by) {
        Ok(sum) => (sum, false),
        Err(end) => (end, true),
    };
    let bound = match (options.low, options.high) {
        (Some(low), _) if sum.is_below(low) => Some(low),
        (_, Some(high)) if high.is_below(sum) => Some(high),
        _ => is_beyond.then_some(sum),
    };
    if bound.is_some() && !options.saturates {
        return Ok((Action::Keep, old, T::ZERO));
    }
    let value = bound.unwrap_or(sum);
    let applied = value.since(old)?;
    let has_expiry = entry.is_some_and(|entry| entry.expire_at.is_some());
    let action = match options.expiry.of_item(has_expiry, now) {
        Some(expiry) => Action::Put { value: with_flags_of(entry, value.stored()?), expiry },
        None => Action::Remove,
    };
    Ok((action, value, applied))
}

impl CounterExpiry {
    /// The item's new expiry; None if the item must be removed.
    fn of_item(self, has_expiry: bool, now: u64) -> Option<Expiry> {
        match self {
            Self::Leave => Some(Expiry::Keep),
            Self::AtUnlessSet(_) if has_expiry => Some(Expiry::Keep),
            Self::Persist => Some(Expiry::Never),
            Self::At(at) | Self::AtUnlessSet(at) => (at > now).then_some(Expiry::At(at)),
        }
    }
}

impl Count for i64 {
    type Shown = i64;
    const ZERO: i64 = 0;

    fn of_value(value: ValueRef<'_>) -> Result<i64, StoreError> {
        match value {
            ValueRef::Int(n) => Ok(n),
            _ => Err(StoreError::NotANumber(NumberKind::Integer)),
        }
    }

    fn add(self, by: i64) -> Result<i64, i64> {
        self.checked_add(by).ok_or(self.saturating_add(by))
    }

    fn is_below(self, other: i64) -> bool {
        self < other
    }

    fn since(self, old: i64) -> Result<i64, StoreError> {
        self.checked_sub(old).ok_or(StoreError::ChangeOverflow(NumberKind::Integer))
    }

    fn shown(self) -> Result<i64, StoreError> {
        Ok(self)
    }

    fn stored(self) -> Result<NewValue<'static>, StoreError> {
        Ok(int(self))
    }
}

/// A decimal number parsed from text.
#[derive(Clone, Copy, Debug)]
pub struct Decimal(Number);

impl Decimal {
    /// Parses a number: digits, a point, an exponent, or `inf`.
    ///
    /// # Errors
    /// [`StoreError::NotANumber`]
    pub fn parse(text: &[u8]) -> Result<Decimal, StoreError> {
        decimal::parse(text).map(Decimal)
    }

    pub(crate) fn number(self) -> Number {
        self.0
    }

    /// Whether it is an infinity.
    pub fn is_infinite(self) -> bool {
        self.0.is_infinite()
    }

    /// Whether it is below another number.
    pub fn is_below(self, other: Decimal) -> bool {
        self.0.is_below(other.0)
    }
}

impl Count for Number {
    type Shown = Vec<u8>;
    const ZERO: Number = decimal::ZERO;

    fn of_value(value: ValueRef<'_>) -> Result<Number, StoreError> {
        let number = value.with_bytes(decimal::parse)?;
        if number.is_infinite() { Err(StoreError::InfiniteValue) } else { Ok(number) }
    }

    fn add(self, by: Number) -> Result<Number, Number> {
        let sum = decimal::add(self, by);
        if !sum.is_infinite() {
            return Ok(sum);
        }
        let end = Number::Float(f64::MAX);
        Err(if by.is_below(decimal::ZERO) { end.negated() } else { end })
    }

    fn is_below(self, other: Number) -> bool {
        Number::is_below(self, other)
    }

    fn since(self, old: Number) -> Result<Number, StoreError> {
        let applied = decimal::add(self, old.negated());
        if applied.is_infinite() {
            Err(StoreError::ChangeOverflow(NumberKind::Decimal))
        } else {
            Ok(applied)
        }
    }

    fn shown(self) -> Result<Vec<u8>, StoreError> {
        decimal::text(self)
    }

    fn stored(self) -> Result<NewValue<'static>, StoreError> {
        decimal::text(self).map(encode_owned)
    }
}
