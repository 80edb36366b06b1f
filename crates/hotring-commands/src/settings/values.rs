//! Parsers and formatters for the values of settings.

use std::str::FromStr;

pub(super) fn number<T>(text: &str, min: T, max: T) -> Result<T, String>
where
    T: FromStr + PartialOrd + std::fmt::Display,
{
    match text.parse::<T>() {
        Ok(n) if n >= min && n <= max => Ok(n),
        // A number that the type cannot hold is out of range, and not malformed.
        Ok(_) => Err(out_of_range(min, max)),
        Err(_) if text.parse::<i64>().is_ok() => Err(out_of_range(min, max)),
        Err(_) => Err(format!("must be a whole number from {min} to {max}")),
    }
}

/// The error of a number out of range. The named maximum is at most that of Redis's signed 64-bit numbers.
fn out_of_range(min: impl std::fmt::Display, max: impl std::fmt::Display) -> String {
    let max = max.to_string();
    let max = max.parse::<i64>().unwrap_or(i64::MAX);
    format!("must be between {min} and {max} inclusive")
}

/// Parses a number that need not be whole, or 0 for the default.
pub(super) fn fraction(text: &str, min: f64, max: f64) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(n) if n == 0.0 || (min..=max).contains(&n) => Ok(n),
        _ => Err(format!("must be a number from {min} to {max}, or 0 for what suits the index")),
    }
}

pub(super) fn boolean(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "yes" | "true" | "on" | "1" => Ok(true),
        "no" | "false" | "off" | "0" => Ok(false),
        _ => Err("must be 'yes' or 'no'".to_string()),
    }
}

pub(super) fn yes_no(value: bool) -> String {
    if value { "yes" } else { "no" }.to_string()
}

/// Parses one of several names, in any case.
pub(super) fn one_of(text: &str, names: &[&'static str]) -> Result<&'static str, String> {
    let found = names.iter().find(|name| name.eq_ignore_ascii_case(text));
    found.copied().ok_or_else(|| format!("must be one of the following: {}", names.join(", ")))
}

/// The error of a value, in the words of Redis's CONFIG SET.
pub(super) fn in_redis_words(why: &str) -> String {
    if why.starts_with("must be a whole number") {
        "argument couldn't be parsed into an integer".to_string()
    } else if why.starts_with("must be a size") {
        "argument must be a memory value".to_string()
    } else if why.starts_with("must be one of the following") {
        format!("argument(s) {why}")
    } else if why.starts_with("must") {
        format!("argument {why}")
    } else {
        why.to_string()
    }
}

/// Parses a number of bytes with Redis's units: `k` is 1000, `kb` is 1024, likewise `m`, `mb`, `g`, `gb`.
pub(super) fn size(text: &str, min: usize) -> Result<usize, String> {
    let lower = text.to_ascii_lowercase();
    let digits = lower.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &lower[digits.len()..] {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return Err("must be a size such as 1048576, 512mb or 1gb".to_string()),
    };
    match digits.parse::<usize>().ok().and_then(|n| n.checked_mul(unit)) {
        Some(n) if n >= min => Ok(n),
        Some(_) => Err(out_of_range(min, i64::MAX)),
        None => Err("must be a size such as 1048576, 512mb or 1gb".to_string()),
    }
}
