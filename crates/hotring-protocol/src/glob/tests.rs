//! Tests of glob patterns, including Redis's reading of odd ones.

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
        [b'*', rest @ ..] => (0..=text.len()).any(|at| matches_by_definition(rest, &text[at..])),
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
        .flat_map(|len| (0..1 << len).map(move |bits| (0..len).map(|i| (bits >> i, i)).collect()))
        .map(|bits: Vec<(u32, u32)>| bits.iter().map(|(bit, _)| b'a' + (bit & 1) as u8).collect())
        .collect();
    for n in 0..PARTS.len().pow(5) {
        let pattern: String = (0..5).map(|i| PARTS[n / PARTS.len().pow(i) % PARTS.len()]).collect();
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
