//! Decimal numbers as Redis reads them: strictly.

/// Reads the one canonical decimal form of an `i64`.
///
/// No spaces, no plus sign, no leading zeros, no minus zero, no overflow: exactly the
/// strings that printing a number gives.
///
/// ```
/// use hotring_protocol::parse_i64;
/// assert_eq!(parse_i64(b"-9223372036854775808"), Some(i64::MIN));
/// for refused in ["", "+1", "007", "-0", " 1", "1 ", "0x1", "9223372036854775808"] {
///     assert_eq!(parse_i64(refused.as_bytes()), None);
/// }
/// ```
#[inline]
pub fn parse_i64(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'0'] => return Some(0),
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    // 19 digits hold every i64, and below 20 the sum cannot overflow a u64.
    if !matches!(digits.first(), Some(b'1'..=b'9')) || digits.len() > 19 {
        return None;
    }
    let mut magnitude = 0u64;
    for &digit in digits {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        magnitude = magnitude * 10 + u64::from(digit);
    }
    if negative { 0i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() }
}
