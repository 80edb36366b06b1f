//! Numbers as memcached reads them, like C: leading spaces and a sign are allowed, and everything
//! behind a space is ignored.

/// Parses an unsigned 64-bit number.
///
/// ```
/// use hotring_protocol::memcached::parse_u64;
/// assert_eq!(parse_u64(b"18446744073709551615"), Some(u64::MAX));
/// assert_eq!(parse_u64(b" +7 apples"), Some(7));
/// for refused in ["", "-1", "x", "7x", "18446744073709551616"] {
///     assert_eq!(parse_u64(refused.as_bytes()), None);
/// }
/// ```
pub fn parse_u64(text: &[u8]) -> Option<u64> {
    let (negative, magnitude) = parse(text)?;
    (!negative || magnitude == 0).then_some(magnitude)
}

/// Parses an unsigned 32-bit number, as [`parse_u64`].
pub fn parse_u32(text: &[u8]) -> Option<u32> {
    parse_u64(text).and_then(|number| u32::try_from(number).ok())
}

/// Parses a signed 32-bit number.
pub fn parse_i32(text: &[u8]) -> Option<i32> {
    let (negative, magnitude) = parse(text)?;
    let magnitude = i64::try_from(magnitude).ok()?;
    i32::try_from(if negative { -magnitude } else { magnitude }).ok()
}

/// The sign and the magnitude.
fn parse(text: &[u8]) -> Option<(bool, u64)> {
    let text = text.trim_ascii_start();
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let mut magnitude = 0u64;
    for (i, byte) in digits.iter().enumerate() {
        match byte {
            b'0'..=b'9' => {
                magnitude = magnitude.checked_mul(10)?.checked_add(u64::from(byte - b'0'))?;
            }
            byte if i > 0 && byte.is_ascii_whitespace() => return Some((negative, magnitude)),
            _ => return None,
        }
    }
    (!digits.is_empty()).then_some((negative, magnitude))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_c_does() {
        let cases: [(&str, Option<i32>); 13] = [
            ("0", Some(0)),
            ("-0", Some(0)),
            ("+12", Some(12)),
            ("007", Some(7)),
            ("  -5", Some(-5)),
            ("5 x", Some(5)),
            ("2147483647", Some(i32::MAX)),
            ("-2147483648", Some(i32::MIN)),
            ("2147483648", None),
            ("-2147483649", None),
            ("--5", None),
            ("5x", None),
            (" ", None),
        ];
        for (text, number) in cases {
            assert_eq!(parse_i32(text.as_bytes()), number, "{text:?}");
        }
        assert_eq!((parse_u64(b"-0"), parse_u64(b"-1"), parse_u64(b"-")), (Some(0), None, None));
        assert_eq!((parse_u32(b"4294967295"), parse_u32(b"4294967296")), (Some(u32::MAX), None));
        assert_eq!(parse_u64(b"99999999999999999999999"), None);
    }
}
