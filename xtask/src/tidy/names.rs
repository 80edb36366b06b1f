//! Checks that the files, settings and flags named in pages exist.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use super::{Fault, Source, sources};

/// File name endings.
const ENDINGS: &[&str] =
    &[".rs", ".md", ".toml", ".lua", ".csv", ".svg", ".yml", ".sh", ".py", ".txt", ".service"];

/// Words with hyphens that are not names of this project.
const FOREIGN: &[&str] = &["fast-command", "faster-rs", "orm-busy", "timeout-ms"];

/// Names that exist.
struct Known {
    paths: Vec<String>,
    /// String literals of code and manifests, and identifiers with hyphens for underscores, as in
    /// flags.
    words: BTreeSet<String>,
}

/// Names in code spans and flags in examples must exist.
pub fn names(source: &Source) -> Vec<Fault> {
    if !source.path.ends_with(".md") {
        return Vec::new();
    }
    let known = known();
    let mut faults = Vec::new();
    let mut in_block = false;
    for (n, line) in source.lines() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
            continue;
        }
        let words: Vec<&str> = match in_block {
            true if line.contains("hotring") => {
                line.split_whitespace().filter(|word| is_flag(word)).collect()
            }
            true => Vec::new(),
            false => spans(line).flat_map(str::split_whitespace).collect(),
        };
        for word in words.into_iter().filter(|word| !known.has(word)) {
            faults.push(Fault::at(n, format!("{word}: there is no such file, setting or flag")));
        }
    }
    faults
}

/// The code spans of a line.
fn spans(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

fn is_flag(word: &str) -> bool {
    word.strip_prefix("--").is_some_and(is_name)
}

/// Whether a word is in lower case, in parts that hyphens join.
fn is_name(word: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
    };
    word.split('-').all(is_part)
}

impl Known {
    /// Whether a word exists, or is not covered by this rule.
    fn has(&self, word: &str) -> bool {
        if is_path(word) {
            return self.has_path(word.trim_end_matches('/'));
        }
        let name = word.strip_prefix("--").unwrap_or(word);
        let is_ours = is_name(name) && (is_flag(word) || name.contains('-'));
        !is_ours || FOREIGN.contains(&name) || self.words.contains(name)
    }

    /// A path from the root, or the end of one.
    fn has_path(&self, path: &str) -> bool {
        let inside = format!("/{path}/");
        self.paths.iter().any(|known| {
            known == path
                || known.ends_with(&inside[..inside.len() - 1])
                || format!("/{known}").contains(&inside)
        })
    }
}

/// Whether a word names a file of the project: with an ending, and neither absolute nor a pattern.
fn is_path(word: &str) -> bool {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"./-_".contains(&b);
    let is_named = ENDINGS.iter().any(|ending| word.len() > ending.len() && word.ends_with(ending));
    is_named && word.bytes().all(is_plain) && !word.starts_with(['/', '.'])
}

fn known() -> &'static Known {
    static KNOWN: OnceLock<Known> = OnceLock::new();
    KNOWN.get_or_init(|| {
        let sources = sources().unwrap_or_default();
        // The rule's own tests name files that do not exist.
        let is_code =
            |s: &&Source| !s.is_in("xtask/src/tidy/") && (s.is_rust() || s.path.ends_with(".toml"));
        let code = sources.iter().filter(is_code);
        let words = code.flat_map(|source| words_of(&source.text)).collect();
        Known { paths: sources.into_iter().map(|source| source.path).collect(), words }
    })
}

/// String literals of one word, and identifiers as in flags.
fn words_of(text: &str) -> impl Iterator<Item = String> {
    let literals = text.split('"').map(|word| word.trim_start_matches('-'));
    let is_other = |c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-';
    let identifiers = text.split(is_other).map(|word| word.replace('_', "-"));
    literals.map(str::to_string).chain(identifiers).filter(|word| is_name(word))
}
