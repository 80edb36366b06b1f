//! Compares the matcher with Lua's own on random patterns and texts.

use std::cell::Cell;

use fastrand::Rng;
use mlua::{Function, Lua, MultiValue, Value};

use super::*;

struct Limit(Cell<usize>);

impl Steps for Limit {
    fn spend(&self, n: usize) -> bool {
        self.0.set(self.0.get().saturating_sub(n + 1));
        self.0.get() > 0
    }
}

fn limit(n: usize) -> Limit {
    Limit(Cell::new(n))
}

/// The result of a match, or its error.
fn ours(text: &[u8], pattern: &[u8], start: usize) -> String {
    let steps = limit(200_000);
    let mut matcher = Matcher::new(text, pattern, &steps);
    let captures = |matcher: &Matcher<'_>, found: Found| {
        let mut shown = format!("{} {}", found.0 + 1, found.1);
        for i in 0..matcher.captures() {
            match matcher.captured(i, found)? {
                Captured::Text(text) => shown.push_str(&format!(" '{}'", text.escape_ascii())),
                Captured::Position(at) => shown.push_str(&format!(" {at}")),
            }
        }
        Ok(shown)
    };
    let found = matcher.find(start, true);
    let shown = found.and_then(|found| found.map(|f| captures(&matcher, f)).transpose());
    match shown {
        Ok(shown) => shown.unwrap_or_else(|| "nothing".to_owned()),
        Err(Fault::Pattern(why)) => why.into_owned(),
        Err(Fault::Stopped) => "stopped".to_owned(),
    }
}

fn luas(find: &Function, lua: &Lua, text: &[u8], pattern: &[u8], start: usize) -> String {
    let (text, pattern) = (lua.create_string(text).unwrap(), lua.create_string(pattern).unwrap());
    // The match itself is its only capture if the pattern has none.
    let found = find.call::<MultiValue>((text, pattern, start + 1));
    match found {
        Err(error) => {
            let why = error.to_string();
            let why = why.strip_prefix("runtime error: ").unwrap_or(&why);
            // The text after the line number of the test's function.
            let why = why.lines().next().unwrap_or_default();
            why.split_once("lua:6: ").map_or(why, |(_, why)| why).to_owned()
        }
        Ok(values) if values.front().is_none_or(Value::is_nil) => "nothing".to_owned(),
        Ok(values) => {
            let shown = values.iter().enumerate().map(|(i, value)| match value {
                Value::String(text) => format!("'{}'", text.as_bytes().escape_ascii()),
                Value::Integer(n) => n.to_string(),
                other => panic!("value {i}: {other:?}"),
            });
            shown.collect::<Vec<_>>().join(" ")
        }
    }
}

const PARTS: &[&str] = &[
    "a", "b", ".", "%a", "%d", "%s", "%w", "%W", "%x", "%p", "%z", "%c", "%l", "%U", "[ab]",
    "[^a]", "[a-c]", "[%a_]", "[]]", "[^]]", "[a-]", "[%-x]", "(", ")", "()", "%1", "%2", "%b()",
    "%bab", "%f[%w]", "%f[^a]", "%%", "$", "^", "%", "[", "]", "-", "*", "+", "?", "\0", "\u{e4}",
    "1", "%b", "%f", "[a", "%0", "[%", "[z-a]", "[%a-z]", "%.",
];
const REPETITIONS: &[&str] = &["", "", "", "*", "+", "-", "?"];
const LETTERS: &[u8] = b"aaabbc()1 _%.\0\xe4]Z";

/// The matcher replaces Lua's, which uses the thread's stack without bound. The results must be the same.
#[test]
fn patterns_match_as_in_lua() {
    let lua = Lua::new();
    // Returns the entire match if the pattern has no captures.
    let find: Function = lua
        .load(
            "local find, sub, select = string.find, string.sub, select
             local function captures(s, from, to, ...)
               if from and select('#', ...) == 0 then return from, to, sub(s, from, to) end
               return from, to, ...
             end
             return function(s, p, at) return captures(s, find(s, p, at)) end",
        )
        .set_name("=lua")
        .eval()
        .unwrap();
    let mut random = Rng::with_seed(0x51ab);
    let mut below = |n: usize| random.usize(..n);
    let (mut found, mut wrong) = (0, 0);
    for _ in 0..20_000 {
        let mut pattern = String::from(if below(8) == 0 { "^" } else { "" });
        for _ in 0..below(6) {
            pattern.push_str(PARTS[below(PARTS.len())]);
            pattern.push_str(REPETITIONS[below(REPETITIONS.len())]);
        }
        if below(8) == 0 {
            pattern.push('$');
        }
        let text: Vec<u8> = (0..below(14)).map(|_| LETTERS[below(LETTERS.len())]).collect();
        let start = below(text.len() + 1);
        let pattern = pattern.as_bytes();
        let until_zero = pattern.split(|byte| *byte == 0).next().unwrap();
        if !until_zero.iter().any(|byte| b"^$*+?.([%-".contains(byte)) {
            continue;
        }
        let here = ours(&text, pattern, start);
        let there = luas(&find, &lua, &text, pattern, start);
        let case = (pattern.escape_ascii().to_string(), text.escape_ascii().to_string(), start);
        assert_eq!(here, there, "{case:?}");
        found += usize::from(here.starts_with(|c: char| c.is_ascii_digit()));
        wrong += usize::from(here.contains("pattern") || here.contains("capture"));
    }
    assert!(found > 3_000 && wrong > 2_000, "{found} found, {wrong} wrong");
}

#[test]
fn every_pattern_ends_within_its_steps() {
    let slow = ("a".repeat(50_000), ".-.-.-.-b".to_owned());
    let open = ("(".repeat(300_000), "%b()".to_owned());
    for (text, pattern) in [slow, open] {
        let steps = limit(3_000_000);
        let mut matcher = Matcher::new(text.as_bytes(), pattern.as_bytes(), &steps);
        assert_eq!(matcher.find(0, true), Err(Fault::Stopped), "{pattern}");
    }
}

/// Regression test: each item of a pattern took a frame of the thread's stack.
#[test]
fn long_patterns_take_no_stack() {
    let text = "a".repeat(50_000);
    for part in ["x*", "a?", ".-", "a-", "x+"] {
        let pattern = part.repeat(50_000);
        let steps = limit(100_000_000);
        let mut matcher = Matcher::new(text.as_bytes(), pattern.as_bytes(), &steps);
        let found = matcher.find(0, true);
        assert!(matches!(found, Ok(_) | Err(Fault::Stopped)), "{part}: {found:?}");
    }
    let pattern = "a?".repeat(CHOICES_MAX + 1);
    let (text, steps) = ("a".repeat(CHOICES_MAX + 1), limit(100_000_000));
    let found = Matcher::new(text.as_bytes(), pattern.as_bytes(), &steps).find(0, true);
    assert_eq!(found, Err(Fault::Pattern("pattern too complex".into())));
}
