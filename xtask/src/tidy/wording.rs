//! Rules for wording: phrases that pages and comments must not use.

use super::{Fault, Source};

/// Phrases that pages and comments must not have, each with better ones.
const PHRASES: &[(&str, &str)] = &[
    ("anew", "write \"again\", \"restart\" or \"rebuild\""),
    ("for who", "name the subject"),
    ("by who", "name the subject"),
    ("of who", "name the subject"),
    ("to who", "name the subject"),
    ("who wants", "name the subject"),
    ("what is to be", "write \"must be\" and a noun"),
    ("nobody", "write \"no client\", \"no thread\""),
    ("somebody", "name the subject"),
    ("the former", "repeat the noun"),
    ("the latter", "repeat the noun"),
    ("so many", "give the number or its name"),
    ("so much", "give the amount or its name"),
    ("what there is", "name the thing"),
    ("what comes of", "write \"the result of\""),
    ("has become of", "write \"the outcome of\""),
    ("takes note of", "write \"records\" or \"counts\""),
    ("as one likes", "name the choice"),
];

/// Pages and comments must not use the phrases above. Code in pages does not count.
pub fn phrases(source: &Source) -> Vec<Fault> {
    let texts: Vec<(usize, String)> = if source.path.ends_with(".md") {
        let words = |line: &str| line.split('`').step_by(2).collect::<Vec<_>>().join("`");
        source.prose().map(|(n, line)| (n, words(line))).collect()
    } else if source.is_rust() {
        let comments = source.lines().filter_map(|(n, line)| Some((n, line.split_once("//")?.1)));
        comments.map(|(n, text)| (n, text.to_string())).collect()
    } else {
        Vec::new()
    };
    let mut faults = Vec::new();
    for (n, text) in texts {
        let text = text.to_ascii_lowercase();
        let found = PHRASES.iter().filter(|(phrase, _)| has(&text, phrase));
        faults
            .extend(found.map(|(phrase, better)| Fault::at(n, format!("\"{phrase}\": {better}"))));
    }
    faults
}

/// Whether the text has these words, not only as parts of others.
fn has(text: &str, phrase: &str) -> bool {
    let is_letter = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    text.match_indices(phrase).any(|(at, _)| {
        let (before, behind) = (&text[..at], &text[at + phrase.len()..]);
        !is_letter(before.chars().next_back()) && !is_letter(behind.chars().next())
    })
}
