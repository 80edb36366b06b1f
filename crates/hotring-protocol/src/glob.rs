//! Glob patterns of `KEYS` and `SCAN MATCH`, over bytes.
//!
//! `*` matches any run, `?` any byte, `[abc]`, `[a-c]`, `[^abc]` one byte of a set, `\x` the byte x
//! itself. Malformed patterns have the meaning that Redis gives them: an open class ends with the
//! pattern, a range may be reversed, a final `\` is literal.
//!
//! Only the last `*` is ever retried: any match that retrying an earlier `*` could find, retrying
//! the last one finds too. So the cost is at most the product of the two lengths, and a pattern
//! like `*a*a*a*a*b` is not exponential.

/// Whether `pattern` matches the entire `text`.
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
            // A retry cannot help: a longer run for the star only shortens the rest of the text.
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
mod tests {
    use super::glob_match;

    #[track_caller]
    fn check(pattern: &str, matching: &[&str], others: &[&str]) {
        for text in matching {
            assert!(glob_match(pattern.as_bytes(), text.as_bytes()), "{pattern:?} {text:?}");
        }
        for text in others {
            assert!(!glob_match(pattern.as_bytes(), text.as_bytes()), "{pattern:?} {text:?}");
        }
    }

    #[test]
    fn literals_and_wildcards() {
        check("", &[""], &["a"]);
        check("abc", &["abc"], &["", "ab", "abcd", "ABC"]);
        check("a?c", &["abc", "a?c", "a\0c"], &["ac", "abbc"]);
        check("*", &["", "a", "a\r\nb"], &[]);
        check("**", &["", "a"], &[]);
        check("a*", &["a", "ab", "a*"], &["", "ba"]);
        check("*a", &["a", "ba", "aa"], &["", "ab"]);
        check("a*b*c", &["abc", "aXbXc", "abbcc"], &["ac", "acb", "abcd"]);
        check("*a*", &["a", "xax"], &["", "x"]);
        check("*?", &["a", "ab"], &[""]);
        check("?*?", &["ab", "abc"], &["", "a"]);
    }

    #[test]
    fn classes() {
        check("[abc]", &["a", "b", "c"], &["", "d", "ab"]);
        check("[a-c]x", &["ax", "bx", "cx"], &["dx", "a", "x"]);
        check("[c-a]", &["a", "b", "c"], &["d"]);
        check("[^a-c]", &["d", "^", "\0"], &["a", "b", "c", ""]);
        check("[a^]", &["a", "^"], &["b"]);
        check("[\\]a]", &["]", "a"], &["\\", "b"]);
        check("[a\\-c]", &["a", "-", "c"], &["b", "\\"]);
        check("[0-9a-f]", &["0", "9", "a", "f"], &["g", "-"]);
        check("*[0-9]", &["7", "abc7"], &["abc", "7a"]);
    }

    #[test]
    fn odd_patterns_mean_what_they_mean_to_redis() {
        check("[abc", &["a", "b", "c"], &["", "[", "ab"]);
        check("[", &[], &["", "[", "a"]);
        check("[]", &[], &["", "]", "[]"]);
        check("[^]", &["a", "]"], &["", "ab"]);
        check("[^", &["a", "^"], &[""]);
        check("[a-", &["a", "-"], &["b", "["]);
        // A range takes the bracket as its end.
        check("[a-]", &["a", "]", "^", "_"], &["-", "b"]);
        check("[\\", &["\\"], &["["]);
        check("\\*", &["*"], &["\\*", "a"]);
        check("\\\\", &["\\"], &["\\\\"]);
        check("a\\", &["a\\"], &["a"]);
        check("\\a", &["a"], &["\\a"]);
        check("]", &["]"], &[]);
    }

    /// The definition: slow but plain.
    fn matches_by_definition(pattern: &[u8], text: &[u8]) -> bool {
        match pattern {
            [] => text.is_empty(),
            [b'*', rest @ ..] => {
                (0..=text.len()).any(|at| matches_by_definition(rest, &text[at..]))
            }
            [b'?', rest @ ..] => !text.is_empty() && matches_by_definition(rest, &text[1..]),
            [b'[', b'a', b'b', b']', rest @ ..] => {
                matches!(text.first(), Some(b'a' | b'b')) && matches_by_definition(rest, &text[1..])
            }
            [literal, rest @ ..] => {
                text.first() == Some(literal) && matches_by_definition(rest, &text[1..])
            }
        }
    }

    #[test]
    fn all_short_patterns_match_by_definition() {
        const PARTS: [&str; 5] = ["*", "?", "a", "b", "[ab]"];
        let texts: Vec<Vec<u8>> = (0..=5u32)
            .flat_map(|len| {
                (0..1 << len).map(move |bits| (0..len).map(|i| (bits >> i, i)).collect())
            })
            .map(|bits: Vec<(u32, u32)>| {
                bits.iter().map(|(bit, _)| b'a' + (bit & 1) as u8).collect()
            })
            .collect();
        for n in 0..PARTS.len().pow(5) {
            let pattern: String =
                (0..5).map(|i| PARTS[n / PARTS.len().pow(i) % PARTS.len()]).collect();
            for text in &texts {
                assert_eq!(
                    glob_match(pattern.as_bytes(), text),
                    matches_by_definition(pattern.as_bytes(), text),
                    "{pattern:?} {text:?}"
                );
            }
        }
    }

    #[test]
    fn many_stars_cost_no_more_than_the_product_of_the_lengths() {
        // Backtracking into every star would try more than 10^50 ways.
        let pattern = [b"*a".repeat(100), b"*b".to_vec()].concat();
        let text = b"a".repeat(10_000);
        assert!(!glob_match(&pattern, &text));
        assert!(glob_match(&pattern, &[text, b"b".to_vec()].concat()));
        let classes = b"*[^b]".repeat(60);
        assert!(!glob_match(&classes, &b"b".repeat(10_000)));
    }
}
