//! The abstract values of the static analysis: what is known about a Lua value before the script runs.

use crate::table::{KeyRange, Spec, lookup, subcommands};

/// The static knowledge about a value, before the script runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value<'t> {
    /// One of the declared keys, or nil, which commands refuse as an argument.
    Key,
    /// `KEYS` itself. It must be tracked: code that gets hold of `KEYS` could change it.
    Keys,
    /// `redis` itself.
    Redis,
    /// `redis.call` or `redis.pcall`.
    Call,
    /// `unpack`.
    Unpack,
    /// `ipairs` or `pairs`.
    Walk,
    /// The result of `ipairs(KEYS)`, which contains `KEYS`.
    Walked,
    Text(&'t [u8]),
    Number(usize),
    /// Any number of declared keys. Only at the end of a list.
    Unpacked,
    /// Any number of unknown values. Only at the end of a list.
    Many,
    /// One unknown value.
    Other,
}

impl<'t> Value<'t> {
    /// A number literal. Only integers of at most four digits are known values.
    pub(super) fn number(text: &[u8]) -> Self {
        let is_short = text.len() <= 4 && text.iter().all(u8::is_ascii_digit);
        let number = std::str::from_utf8(text).ok().filter(|_| is_short);
        number.and_then(|text| text.parse().ok()).map_or(Value::Other, Value::Number)
    }

    /// Some if the script may use the value in any way; None if its use must be tracked.
    pub(super) fn plain(self) -> Option<()> {
        let must_be_known =
            matches!(self, Value::Keys | Value::Redis | Value::Call | Value::Walked);
        (!must_be_known).then_some(())
    }

    pub(super) fn all_plain(values: &[Self]) -> Option<()> {
        values.iter().try_for_each(|value| value.plain())
    }

    /// The value after truncation to one value, as Lua does where only one fits.
    pub(super) fn single(self) -> Self {
        match self {
            Value::Unpacked => Value::Key,
            Value::Many => Value::Other,
            value => value,
        }
    }

    /// The value that variable number `i` gets from an assignment of `values`. None if a variable must not hold that
    /// value.
    pub(super) fn assigned(values: &[Self], i: usize) -> Option<Self> {
        // Variables beyond the last expression get its further values, or nil.
        let value = match (values.get(i), values.last()) {
            (Some(value), _) => value.single(),
            (None, Some(Value::Unpacked)) => Value::Key,
            (None, _) => Value::Other,
        };
        match value {
            Value::Walked => None,
            Value::Text(_) | Value::Number(_) => Some(Value::Other),
            value => Some(value),
        }
    }

    /// The result of a binary operator.
    pub(super) fn joined(self, operator: &[u8], second: Self) -> Option<Self> {
        let (first, second) = (self.single(), second.single());
        Value::all_plain(&[first, second])?;
        Some(match (operator, first, second) {
            (b"or", Value::Key, Value::Key) => Value::Key,
            // If the first value is false or nil, so is the result, and commands refuse it as an argument.
            (b"and", _, Value::Key) => Value::Key,
            // `unpack` always exists, so that `or` yields it.
            (b"or", Value::Unpack, _) => Value::Unpack,
            _ => Value::Other,
        })
    }

    /// `value.name`
    pub(super) fn field(self, name: &[u8]) -> Option<Self> {
        match (self, name) {
            (Value::Redis, b"call" | b"pcall") => Some(Value::Call),
            (Value::Redis, _) => Some(Value::Other),
            _ => self.plain().map(|()| Value::Other),
        }
    }

    /// `value[...]`
    pub(super) fn element(self) -> Option<Self> {
        match self {
            Value::Keys => Some(Value::Key),
            _ => self.plain().map(|()| Value::Other),
        }
    }

    /// `value(...)`
    pub(super) fn called(self, args: &[Self]) -> Option<Self> {
        match (self, args) {
            (Value::Walk, [Value::Keys]) => return Some(Value::Walked),
            (Value::Unpack, [Value::Keys, range @ ..]) => {
                Value::all_plain(range)?;
                return Some(Value::Unpacked);
            }
            _ => {}
        }
        Value::all_plain(args)?;
        match self {
            Value::Call => names_declared_keys(args).then_some(Value::Other),
            _ => self.plain().map(|()| Value::Many),
        }
    }
}

/// Whether a command with these arguments, its name first, uses only declared keys.
fn names_declared_keys(args: &[Value<'_>]) -> bool {
    let Some(spec) = command(args) else { return false };
    let (named, more) = match args.split_last() {
        Some((more @ (Value::Many | Value::Unpacked), named)) => (named, Some(*more)),
        _ => (args, None),
    };
    let n_args = if more.is_some() { usize::MAX } else { args.len() };
    let is_given = |range: &KeyRange| {
        let Some(positions) = positions(*range, named, n_args) else { return false };
        let is_key = |position: usize| named.get(position).is_none_or(|value| *value == Value::Key);
        let step = usize::from(range.step);
        let has_more = positions.end > named.len() && more == Some(Value::Many);
        !has_more && (positions.start..positions.end.min(named.len())).step_by(step).all(is_key)
    };
    !spec.may_touch_any_key() && !spec.may_leave_database(n_args) && spec.keys.iter().all(is_given)
}

/// The command or subcommand, if the text names it literally.
fn command(args: &[Value<'_>]) -> Option<&'static Spec> {
    let Some(Value::Text(name)) = args.first() else { return None };
    let spec = lookup(name)?;
    if subcommands(spec.id).next().is_none() {
        return Some(spec);
    }
    let Some(Value::Text(name)) = args.get(1) else { return None };
    subcommands(spec.id).find(|sub| sub.own_name().as_bytes().eq_ignore_ascii_case(name))
}

/// The range of argument positions from the first key to the last. If the number of keys is unknown, the range covers
/// all remaining arguments; None if the position of the keys is unknown.
fn positions(
    range: KeyRange,
    named: &[Value<'_>],
    n_args: usize,
) -> Option<std::ops::Range<usize>> {
    let first = usize::from(range.first);
    let end = match range.last {
        last @ 0.. => last as usize + 1,
        KeyRange::COUNTED => match named.get(first - 1) {
            Some(Value::Number(n)) => first + n * usize::from(range.step),
            _ => usize::MAX,
        },
        _ if range.is_unknown() || range.keyword().is_some() => return None,
        last => n_args.saturating_sub(usize::from(last.unsigned_abs()) - 1),
    };
    Some(first..end)
}
