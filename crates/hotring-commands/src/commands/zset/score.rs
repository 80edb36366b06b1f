//! Scores as text: parsed as Redis does, formatted in the shortest form that parses to the same score.

use std::io::Write;

use hotring_protocol::{Version, Writer};
use hotring_store::{MemberEnd, ScoreEnd, Scored};

use crate::state::failure::Failure;

/// Longest text of a score, in bytes.
const TEXT_MAX: usize = 32;
/// Most bytes that a score takes in a reply, including the header of its pair.
pub(super) const LEN_MAX: usize = "*2\r\n$32\r\n\r\n".len() + TEXT_MAX;
/// Integers up to this magnitude are formatted without an exponent.
const INTEGER_MAX: f64 = (1_u64 << 52) as f64;

/// The text of a score.
pub(super) struct Text {
    bytes: [u8; TEXT_MAX],
    len: usize,
}

impl Text {
    pub(super) fn of(score: f64) -> Text {
        let mut text = Text { bytes: [0; TEXT_MAX], len: 0 };
        if score.is_infinite() {
            text.push(if score > 0.0 { b"inf" } else { b"-inf" });
        } else if score == 0.0 {
            text.push(if score.is_sign_negative() { b"-0" } else { b"0" });
        } else if score.abs() < INTEGER_MAX && score.fract() == 0.0 {
            text.push_number(score as i64);
        } else {
            text.push_shortest(score);
        }
        text
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    fn push(&mut self, part: &[u8]) {
        self.bytes[self.len..self.len + part.len()].copy_from_slice(part);
        self.len += part.len();
    }

    fn push_number(&mut self, number: i64) {
        let mut rest = &mut self.bytes[self.len..];
        write!(rest, "{number}").expect("20 bytes fit");
        self.len = TEXT_MAX - rest.len();
    }

    fn push_zeros(&mut self, n: usize) {
        (0..n).for_each(|_| self.push(b"0"));
    }

    /// Appends the shortest digits that parse to the same score: plain if few zeros are needed, else with an exponent.
    fn push_shortest(&mut self, score: f64) {
        let mut buffer = [0; TEXT_MAX];
        let mut rest = &mut buffer[..];
        write!(rest, "{:e}", score.abs()).expect("17 digits, point and exponent fit");
        let written = TEXT_MAX - rest.len();
        let text = &buffer[..written];
        let e = text.iter().position(|byte| *byte == b'e').expect("it has an exponent");
        let exponent = std::str::from_utf8(&text[e + 1..]).expect("it is ASCII");
        let exponent: i32 = exponent.parse().expect("it is a number");
        let mut digits = [0; TEXT_MAX];
        let mut n = 0;
        for digit in text[..e].iter().filter(|byte| byte.is_ascii_digit()) {
            digits[n] = *digit;
            n += 1;
        }
        if score < 0.0 {
            self.push(b"-");
        }
        self.push_digits(&digits[..n], exponent);
    }

    /// Appends digits; the first one has the weight 10^`exponent`.
    fn push_digits(&mut self, digits: &[u8], exponent: i32) {
        let n = digits.len();
        // The exponent of the last digit.
        let last = exponent + 1 - n as i32;
        let size = exponent.unsigned_abs() as usize;
        if last >= 0 && size < n + 7 {
            self.push(digits);
            self.push_zeros(last.unsigned_abs() as usize);
        } else if last < 0 && (last > -7 || size < 4) {
            if exponent < 0 {
                self.push(b"0.");
                self.push_zeros(size - 1);
                self.push(digits);
            } else {
                let (whole, fraction) = digits.split_at(size + 1);
                self.push(whole);
                self.push(b".");
                self.push(fraction);
            }
        } else {
            self.push(&digits[..1]);
            if n > 1 {
                self.push(b".");
                self.push(&digits[1..]);
            }
            self.push(if exponent < 0 { b"e-" } else { b"e+" });
            self.push_number(size as i64);
        }
    }
}

/// Replies with a score: a double in RESP3, a string in RESP2.
pub(super) fn reply_score(reply: &mut Writer<'_>, score: f64) {
    reply.decimal(Text::of(score).as_bytes());
}

/// Begins the reply for `len` members, with or without their scores.
pub(super) fn begin_members(
    reply: &mut Writer<'_>,
    version: Version,
    len: usize,
    with_scores: bool,
) {
    let is_flat = with_scores && version == Version::Resp2;
    reply.array(if is_flat { 2 * len } else { len });
}

/// Replies with one member. In RESP3 a member and its score form an array.
pub(super) fn reply_member(
    reply: &mut Writer<'_>,
    version: Version,
    entry: Scored<'_>,
    with_scores: bool,
) {
    if with_scores && version == Version::Resp3 {
        reply.array(2);
    }
    reply.bulk(entry.member);
    if with_scores {
        reply_score(reply, entry.score);
    }
}

/// Parses a score as C's `strtod` does. None for NaN, for overflow and underflow, and for text that is no number.
pub(in crate::commands) fn parse(text: &[u8]) -> Option<f64> {
    let number = parse_loosely(text)?;
    let has_digit = |digits: std::ops::RangeInclusive<u8>| {
        let mantissa = text.split(|byte| matches!(byte, b'e' | b'E')).next();
        mantissa.is_some_and(|text| text.iter().any(|byte| digits.contains(byte)))
    };
    let overflows = number.is_infinite() && has_digit(b'0'..=b'9');
    let underflows = number == 0.0 && !is_hexadecimal(text) && has_digit(b'1'..=b'9');
    (!overflows && !underflows).then_some(number)
}

/// As `parse`, but accepts overflow and underflow.
fn parse_loosely(text: &[u8]) -> Option<f64> {
    if is_hexadecimal(text) {
        return parse_hexadecimal(text);
    }
    let number: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (!number.is_nan()).then_some(number)
}

fn is_hexadecimal(text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"-").or(text.strip_prefix(b"+")).unwrap_or(text);
    digits.starts_with(b"0x") || digits.starts_with(b"0X")
}

/// Parses an integer in hexadecimal digits.
fn parse_hexadecimal(text: &[u8]) -> Option<f64> {
    let is_negative = text[0] == b'-';
    let digits = text.iter().position(|byte| matches!(byte, b'x' | b'X'))? + 1;
    let digits = std::str::from_utf8(&text[digits..]).ok()?;
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let number = u64::from_str_radix(digits, 16).ok()? as f64;
    Some(if is_negative { -number } else { number })
}

/// Parses an end of a range of scores; `(` excludes the end itself.
pub(super) fn score_end(text: &[u8]) -> Result<ScoreEnd, Failure> {
    let (is_exclusive, text) = match text.strip_prefix(b"(") {
        Some(text) => (true, text),
        None => (false, text),
    };
    let text = text.trim_ascii_start();
    // As in Redis, an empty text is 0.
    let score = if text.is_empty() { Some(0.0) } else { parse_loosely(text) };
    let score = score.ok_or(Failure::text("ERR min or max is not a float"))?;
    Ok(ScoreEnd { score, is_exclusive })
}

/// Parses an end of a range of members.
pub(super) fn member_end(text: &[u8]) -> Result<MemberEnd<'_>, Failure> {
    match text {
        b"-" => Ok(MemberEnd::First),
        b"+" => Ok(MemberEnd::Last),
        [b'[', member @ ..] => Ok(MemberEnd::Inclusive(member)),
        [b'(', member @ ..] => Ok(MemberEnd::Exclusive(member)),
        _ => Err(Failure::text("ERR min or max not valid string range item")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_written_in_the_shortest_form() {
        for (score, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-17.0, "-17"),
            (0.1, "0.1"),
            (3.5, "3.5"),
            (-2.25, "-2.25"),
            (1e-5, "0.00001"),
            (1.5e-10, "1.5e-10"),
            (1e17, "1e+17"),
            (1e20, "1e+20"),
            (1e300, "1e+300"),
            (5e-324, "5e-324"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (4_503_599_627_370_495.0, "4503599627370495"),
            (9_007_199_254_740_992.0, "9007199254740992"),
            (1_234_567.125, "1234567.125"),
        ] {
            assert_eq!(String::from_utf8_lossy(Text::of(score).as_bytes()), text);
            assert_eq!(parse(text.as_bytes()).map(f64::to_bits), Some(score.to_bits()));
        }
    }

    #[test]
    fn only_scores_are_read() {
        for (text, score) in [
            ("+5", Some(5.0)),
            ("0x10", Some(16.0)),
            ("-0xff", Some(-255.0)),
            ("Infinity", Some(f64::INFINITY)),
            ("-inf", Some(f64::NEG_INFINITY)),
            (".5", Some(0.5)),
            ("0e9", Some(0.0)),
            ("nan", None),
            ("1e400", None),
            ("1e-400", None),
            ("", None),
            (" 1", None),
            ("1 ", None),
            ("1x", None),
            ("0x", None),
        ] {
            assert_eq!(parse(text.as_bytes()), score, "{text}");
        }
        assert_eq!(score_end(b"(1.5").unwrap(), ScoreEnd { score: 1.5, is_exclusive: true });
        assert!(score_end(b"x").is_err() && member_end(b"a").is_err() && member_end(b"").is_err());
    }
}
