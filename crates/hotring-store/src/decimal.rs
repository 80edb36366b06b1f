//! Exact decimal addition of numbers given as text.
//!
//! Redis adds in 80-bit floating point and prints `%.17Lf` without trailing zeros, so that 0.1 + 0.2 gives 0.3. Rust
//! has no such type, and an f64 would give 0.30000000000000004. So numbers are kept as `digits * 10^-scale` with
//! 128-bit digits and added exactly. An f64 takes over only where the digits do not fit (about 38 digits).

use crate::error::{NumberKind, StoreError};

/// Maximum digits after the decimal point in a result.
const SCALE_MAX: u32 = 17;
/// Longest text that is read as a number, in bytes; the limit of Redis.
const TEXT_LEN_MAX: usize = 5 * 1024;
/// Larger exponents are clamped to this: they are out of range for any number that fits.
const EXPONENT_MAX: i64 = 100_000;

/// A parsed number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number {
    /// `digits * 10^-scale`.
    Exact { digits: i128, scale: u32 },
    /// A number that needs more digits, or an infinity.
    Float(f64),
}

pub(crate) const ZERO: Number = Number::Exact { digits: 0, scale: 0 };

/// Reads `[+-] digits [. digits] [e [+-] digits]`, or an infinity, and nothing around it.
pub(crate) fn parse(text: &[u8]) -> Result<Number, StoreError> {
    if text.len() > TEXT_LEN_MAX {
        return Err(StoreError::NotANumber(NumberKind::Decimal));
    }
    let (negative, unsigned) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    if unsigned.eq_ignore_ascii_case(b"inf") || unsigned.eq_ignore_ascii_case(b"infinity") {
        let infinity = f64::INFINITY;
        return Ok(Number::Float(if negative { -infinity } else { infinity }));
    }
    let (mantissa, exponent) =
        split_exponent(unsigned).ok_or(StoreError::NotANumber(NumberKind::Decimal))?;
    let (whole, fraction) = match mantissa.iter().position(|byte| *byte == b'.') {
        Some(point) => (&mantissa[..point], &mantissa[point + 1..]),
        None => (mantissa, &b""[..]),
    };
    let is_digits = |text: &[u8]| text.iter().all(u8::is_ascii_digit);
    if whole.len() + fraction.len() == 0 || !is_digits(whole) || !is_digits(fraction) {
        return Err(StoreError::NotANumber(NumberKind::Decimal));
    }
    if let Some(exact) = exact(negative, whole, fraction, exponent) {
        return Ok(exact);
    }
    // The text is ASCII in a form that Rust parses, too.
    let text = str::from_utf8(text).map_err(|_| StoreError::NotANumber(NumberKind::Decimal))?;
    text.parse().map(Number::Float).map_err(|_| StoreError::NotANumber(NumberKind::Decimal))
}

/// Splits the number at `e` into mantissa and exponent, which is 0 without an `e`.
fn split_exponent(text: &[u8]) -> Option<(&[u8], i64)> {
    let Some(at) = text.iter().position(|byte| byte.eq_ignore_ascii_case(&b'e')) else {
        return Some((text, 0));
    };
    let (negative, digits) = match &text[at + 1..] {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let size = digits
        .iter()
        .fold(0, |sum: i64, digit| (sum * 10 + i64::from(digit - b'0')).min(EXPONENT_MAX));
    Some((&text[..at], if negative { -size } else { size }))
}

fn exact(negative: bool, whole: &[u8], fraction: &[u8], exponent: i64) -> Option<Number> {
    let zeros = fraction.iter().rev().take_while(|digit| **digit == b'0').count();
    let fraction = &fraction[..fraction.len() - zeros];
    let mut digits: i128 = 0;
    for digit in whole.iter().chain(fraction) {
        digits = digits.checked_mul(10)?.checked_add(i128::from(digit - b'0'))?;
    }
    if digits == 0 {
        return Some(ZERO);
    }
    let scale = i64::try_from(fraction.len()).ok()? - exponent;
    if scale < 0 {
        let shift = u32::try_from(-scale).ok()?;
        digits = digits.checked_mul(10i128.checked_pow(shift)?)?;
    }
    let digits = if negative { -digits } else { digits };
    Some(Number::Exact { digits, scale: u32::try_from(scale.max(0)).ok()? })
}

/// The sum as Redis prints it.
pub(crate) fn add_to_text(a: Number, b: Number) -> Result<Vec<u8>, StoreError> {
    text(add(a, b))
}

/// The sum.
pub(crate) fn add(a: Number, b: Number) -> Number {
    match add_exact(a, b) {
        Some((digits, scale)) => Number::Exact { digits, scale },
        None => Number::Float(a.approximate() + b.approximate()),
    }
}

/// The number as Redis prints it.
pub(crate) fn text(number: Number) -> Result<Vec<u8>, StoreError> {
    match number {
        Number::Exact { digits, scale } => Ok(exact_text(digits, scale)),
        Number::Float(float) if float.is_finite() => Ok(trimmed(format!("{float:.17}"))),
        Number::Float(_) => Err(StoreError::Overflow(NumberKind::Decimal)),
    }
}

fn add_exact(a: Number, b: Number) -> Option<(i128, u32)> {
    let (Number::Exact { digits: a, scale: a_scale }, Number::Exact { digits: b, scale: b_scale }) =
        (a, b)
    else {
        return None;
    };
    let scale = a_scale.max(b_scale);
    let widen = |digits: i128, by: u32| match digits {
        0 => Some(0),
        _ => digits.checked_mul(10i128.checked_pow(by)?),
    };
    let sum = widen(a, scale - a_scale)?.checked_add(widen(b, scale - b_scale)?)?;
    Some((sum, scale))
}

fn exact_text(digits: i128, scale: u32) -> Vec<u8> {
    let (digits, scale) = if scale <= SCALE_MAX {
        (digits, scale)
    } else {
        // A divisor that does not fit exceeds any digits, so the remainder rounds to 0.
        let rounded = 10i128.checked_pow(scale - SCALE_MAX).map_or(0, |by| divide_even(digits, by));
        (rounded, SCALE_MAX)
    };
    // At least one digit stays before the point.
    let width = scale as usize + 1;
    let mut text = format!("{:0width$}", digits.unsigned_abs());
    text.insert(text.len() - scale as usize, '.');
    if digits < 0 {
        text.insert(0, '-');
    }
    trimmed(text)
}

/// Division that rounds to the nearest, halves to even, as printf does.
fn divide_even(digits: i128, by: i128) -> i128 {
    let (quotient, rest) = (digits / by, (digits % by).abs());
    let away = rest > by - rest || (rest == by - rest && quotient % 2 != 0);
    if away { quotient + digits.signum() } else { quotient }
}

/// Removes trailing zeros after the point, a point at the end, and the sign of zero.
fn trimmed(text: String) -> Vec<u8> {
    let text = text.trim_end_matches('0').trim_end_matches('.');
    match text {
        "" | "-" | "-0" => b"0".to_vec(),
        text => text.as_bytes().to_vec(),
    }
}

impl Number {
    /// The number with the other sign.
    pub(crate) fn negated(self) -> Number {
        match self {
            // No overflow: the digits come from their absolute value.
            Number::Exact { digits, scale } => Number::Exact { digits: -digits, scale },
            Number::Float(float) => Number::Float(-float),
        }
    }

    /// Whether the number is an infinity, or a NaN that results from infinities.
    pub(crate) fn is_infinite(self) -> bool {
        matches!(self, Number::Float(float) if !float.is_finite())
    }

    /// Whether it is below another number.
    pub(crate) fn is_below(self, other: Number) -> bool {
        match add_exact(self, other.negated()) {
            Some((digits, _)) => digits < 0,
            None => self.approximate() < other.approximate(),
        }
    }

    fn approximate(self) -> f64 {
        match self {
            // Both conversions round once; the decimal text would round once too.
            Number::Exact { digits, scale } => digits as f64 / 10f64.powi(scale.cast_signed()),
            Number::Float(float) => float,
        }
    }
}

/// Reads canonical decimal text: no sign but "-", no leading zeros, no "-0", in range of i64. Redis accepts
/// exactly this as an integer, so other texts are not integers at all.
pub(crate) fn parse_int(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    // 19 digits: those of i64::MAX.
    if digits.is_empty() || digits.len() > 19 || (digits[0] == b'0' && text.len() > 1) {
        return None;
    }
    let mut magnitude: u64 = 0;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        // No overflow: 19 digits are below 10^19 < 2^64.
        magnitude = magnitude * 10 + u64::from(digit - b'0');
    }
    if negative { 0i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(a: &str, b: &str) -> Result<String, StoreError> {
        let text = add_to_text(parse(a.as_bytes())?, parse(b.as_bytes())?)?;
        Ok(String::from_utf8(text).unwrap())
    }

    #[test]
    fn sums_come_out_as_people_write_them() {
        for (a, b, expected) in [
            ("0.1", "0.2", "0.3"),
            ("10.50", "0.1", "10.6"),
            ("10.6", "-5", "5.6"),
            ("5.0e3", "2.0e2", "5200"),
            ("0", "0", "0"),
            ("-0", "-0", "0"),
            ("1", "-1", "0"),
            ("1.5", "-1.5", "0"),
            (".5", "5.", "5.5"),
            ("+1", "1E+1", "11"),
            ("100", "200", "300"),
            ("3", "1e-17", "3.00000000000000001"),
            ("3", "1e-18", "3"),
            ("-0.00000000000000001", "0", "-0.00000000000000001"),
            ("9223372036854775807", "1", "9223372036854775808"),
            ("1.000000000000000000000000000000000000000000000000000", "1", "2"),
            ("1e-99999999999999999999", "2", "2"),
            ("0e99999999999999999999", "2", "2"),
        ] {
            assert_eq!(sum(a, b).as_deref(), Ok(expected), "{a} + {b}");
        }
    }

    #[test]
    fn halves_at_the_last_digit_go_to_even() {
        assert_eq!(sum("0.000000000000000005", "0").unwrap(), "0");
        assert_eq!(sum("0.000000000000000015", "0").unwrap(), "0.00000000000000002");
        assert_eq!(sum("-0.000000000000000025", "0").unwrap(), "-0.00000000000000002");
        assert_eq!(sum("0.0000000000000000051", "0").unwrap(), "0.00000000000000001");
    }

    #[test]
    fn large_numbers_are_printed_without_an_exponent() {
        let text = sum("1e300", "1").unwrap();
        assert_eq!(text.len(), 301);
        assert!(text.starts_with("1000000000000000"), "{text}");
        assert!(!text.contains(['e', '.']), "{text}");
    }

    #[test]
    fn values_that_are_not_numbers_are_refused() {
        let not = [
            "", " ", "+", "-", ".", "e5", "1e", "1e+", "1 ", " 1", "1.2.3", "1e5.5", "0x10", "nan",
            "-nan", "--1", "1_000", "1,5", "abc", "in", "infinit",
        ];
        for text in not {
            assert_eq!(
                parse(text.as_bytes()),
                Err(StoreError::NotANumber(NumberKind::Decimal)),
                "{text:?}"
            );
        }
        assert_eq!(
            parse("1".repeat(TEXT_LEN_MAX + 1).as_bytes()),
            Err(StoreError::NotANumber(NumberKind::Decimal))
        );
    }

    #[test]
    fn sums_without_a_finite_value_are_refused() {
        for (a, b) in [("inf", "1"), ("1", "-Infinity"), ("inf", "-inf"), ("1e400", "0")] {
            assert_eq!(sum(a, b), Err(StoreError::Overflow(NumberKind::Decimal)), "{a} + {b}");
        }
        assert_eq!(sum("1.7e308", "1.7e308"), Err(StoreError::Overflow(NumberKind::Decimal)));
    }
}
