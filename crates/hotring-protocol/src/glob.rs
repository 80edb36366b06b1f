//! Glob patterns of `KEYS` and `SCAN MATCH`, over bytes.
//!
//! `*` matches any run, `?` any byte, `[abc]`, `[a-c]`, `[^abc]` one byte of a set, `\x` the byte x
//! itself. Odd patterns mean what they mean to Redis: an open class ends with the pattern, a range
//! may be reversed, a final `\` is literal.
//!
//! Only the last `*` is ever retried: any match that an earlier one could give, the last one gives
//! too. So the cost is at most the product of the two lengths, and a pattern like `*a*a*a*a*b` is
//! not exponential.

/// Does `pattern` match all of `text`?
///
/// ```
/// use hotring_protocol::glob_match;
/// assert!(glob_match(b"user:[0-9]*", b"user:42"));
/// assert!(!glob_match(b"user:[^0-9]*", b"user:42"));
/// ```
pub fn glob_match(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // Where to retry after the last star: the pattern behind it, and the text that it may consume
    // next.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        if pattern.get(p) == Some(&b'*') {
            p += 1;
            if p == pattern.len() {
                return true;
            }
            retry = Some((p, t));
            continue;
        }
        if t == text.len() {
            // A longer run for the star only shortens the rest of the text.
            return p == pattern.len();
        }
        match match_one(&pattern[p..], text[t]) {
            Some(used) => {
                p += used;
                t += 1;
            }
            None => match &mut retry {
                None => return false,
                Some((after_star, eaten)) => {
                    *eaten += 1;
                    (p, t) = (*after_star, *eaten);
                }
            },
        }
    }
}

/// Matches one byte against the first element of `pattern` (not a star) and returns the length of
/// that element; `None` without a match.
fn match_one(pattern: &[u8], byte: u8) -> Option<usize> {
    match *pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'[', ref class @ ..] => match_class(class, byte).map(|used| used + 1),
        [b'\\', escaped, ..] => (escaped == byte).then_some(2),
        [literal, ..] => (literal == byte).then_some(1),
    }
}

/// Matches one byte against a class, behind its opening bracket.
fn match_class(class: &[u8], byte: u8) -> Option<usize> {
    let negated = class.first() == Some(&b'^');
    let mut at = usize::from(negated);
    let mut found = false;
    loop {
        at += match class[at..] {
            [] => break,
            [b'\\', escaped, ..] => {
                found |= escaped == byte;
                2
            }
            [b']', ..] => {
                at += 1;
                break;
            }
            [from, b'-', to, ..] => {
                found |= (from.min(to)..=from.max(to)).contains(&byte);
                3
            }
            [literal, ..] => {
                found |= literal == byte;
                1
            }
        };
    }
    (found != negated).then_some(at)
}

#[cfg(test)]
mod tests;
