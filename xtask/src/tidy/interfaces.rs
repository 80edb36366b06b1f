//! Checks that the environment variables, the sections and fields of INFO, and the metrics named in pages exist.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use super::{Fault, Source, sources};

/// Prefixes of this project's environment variables, and of those that set a default.
const PREFIX: &str = "HOTRING_";
const DEFAULTS: &str = "HOTRING_DEFAULT_";

/// The page of settings that is written from their table. Each setting is a variable, too.
const SETTINGS: &str = "docs/hotring.toml";

/// Rust files in which a literal does not mean that the variable is read: tests of settings pass any,
/// and this rule's tests name ones that do not exist.
const NOT_READERS: &[&str] =
    &["crates/hotring-commands/src/settings/", "crates/hotring/tests/", "xtask/src/tidy/"];

/// The page of metrics that is written from their table. A metric's full name is in no source file.
const METRICS: &str = "docs/metrics.md";

/// Names with underscores that other programs define.
const FOREIGN: &[&str] = &["scan_iter"];

/// The text by which the file with the table of INFO's sections is found.
const SECTIONS: &str = "const SECTIONS: &[Section]";

struct Known {
    variables: BTreeSet<String>,
    sections: BTreeSet<String>,
    /// Identifiers and parts of literals with an underscore, and metrics.
    fields: BTreeSet<String>,
}

/// A page must not name an environment variable that no source file reads.
pub fn variables(source: &Source) -> Vec<Fault> {
    if !source.path.ends_with(".md") {
        return Vec::new();
    }
    let named = source.lines().flat_map(|(n, line)| variables_in(line).map(move |name| (n, name)));
    let unknown = named.filter(|(_, name)| !known().variables.contains(*name));
    unknown.map(|(n, name)| Fault::at(n, format!("{name}: nothing reads this variable"))).collect()
}

/// A page must not name a section of INFO that the server does not have.
pub fn sections(source: &Source) -> Vec<Fault> {
    if !source.path.ends_with(".md") {
        return Vec::new();
    }
    let (mut faults, mut in_block) = (Vec::new(), false);
    for (n, line) in source.lines() {
        in_block ^= line.trim_start().starts_with("```");
        let named: Vec<&str> = match in_block {
            true => sections_in(line).collect(),
            false => line.split('`').skip(1).step_by(2).flat_map(sections_in).collect(),
        };
        for name in named.into_iter().filter(|name| !known().sections.contains(*name)) {
            faults.push(Fault::at(n, format!("INFO {name}: there is no such section")));
        }
    }
    faults
}

/// A page must not name a field of INFO, a metric or an identifier that is nowhere in the code.
pub fn fields(source: &Source) -> Vec<Fault> {
    if !source.path.ends_with(".md") || source.path == METRICS {
        return Vec::new();
    }
    let mut faults = Vec::new();
    for (n, line) in source.prose() {
        let words = line.split('`').skip(1).step_by(2).flat_map(str::split_whitespace);
        // A field may be shown with its value, a metric with its labels.
        let names = words.filter_map(|word| word.split([':', '{']).next());
        for name in names.filter(|name| is_field(name) && !FOREIGN.contains(name)) {
            if !known().fields.contains(name) {
                faults.push(Fault::at(n, format!("{name}: there is no such field or metric")));
            }
        }
    }
    faults
}

/// Whether a word is in lower case, in parts that underscores join.
fn is_field(word: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
    };
    word.contains('_') && word.split('_').all(is_part)
}

/// The words of a text that may be fields.
fn fields_in(text: &str) -> impl Iterator<Item = &str> {
    let is_other = |c: char| !c.is_ascii_alphanumeric() && c != '_';
    text.split(is_other).filter(|word| is_field(word))
}

/// The variables in a text. A prefix (`HOTRING_DEFAULT_...`) does not count.
fn variables_in(text: &str) -> impl Iterator<Item = &str> {
    let is_other = |c: char| !c.is_ascii_uppercase() && !c.is_ascii_digit() && c != '_';
    let words = text.split(is_other);
    words.filter(|word| word.starts_with(PREFIX) && !word.ends_with('_'))
}

/// The sections in a request such as `INFO memory stats`.
fn sections_in(text: &str) -> impl Iterator<Item = &str> {
    let is_name = |word: &&str| word.bytes().all(|b| b.is_ascii_lowercase());
    text.split_whitespace().skip_while(|word| *word != "INFO").skip(1).take_while(is_name)
}

fn known() -> &'static Known {
    static KNOWN: OnceLock<Known> = OnceLock::new();
    KNOWN.get_or_init(|| {
        let sources = sources().unwrap_or_default();
        let rust = || sources.iter().filter(|source| source.is_rust());
        let readers = rust().filter(|s| !NOT_READERS.iter().any(|folder| s.is_in(folder)));
        let mut variables: BTreeSet<String> =
            readers.flat_map(|source| literals(&source.text)).map(str::to_owned).collect();
        for source in sources.iter().filter(|source| source.path == SETTINGS) {
            for name in source.text.lines().filter_map(setting) {
                let name = name.to_ascii_uppercase().replace('-', "_");
                variables.extend([PREFIX, DEFAULTS].map(|prefix| format!("{prefix}{name}")));
            }
        }
        let table = rust().find(|s| s.text.contains(SECTIONS) && !s.is_in("xtask/"));
        let sections = table.into_iter().flat_map(|source| sections_of(&source.text)).collect();
        let readers = rust().filter(|source| !source.is_in("xtask/src/tidy/"));
        let texts = readers.chain(sources.iter().filter(|source| source.path == METRICS));
        let fields = texts.flat_map(|source| fields_in(&source.text)).map(str::to_owned).collect();
        Known { variables, sections, fields }
    })
}

/// The name in a line of the page of settings, such as `#port = 6379`.
fn setting(line: &str) -> Option<&str> {
    let (name, _) = line.trim_start_matches('#').split_once(" = ")?;
    (!name.contains(' ')).then_some(name)
}

/// The string literals of a file, except those of several lines.
fn literals(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(|line| line.split('"').skip(1).step_by(2))
}

/// The sections that a file has in its table, and the words that it compares arguments with.
fn sections_of(text: &str) -> impl Iterator<Item = String> {
    let rows = text.lines().filter_map(|line| line.trim_start().strip_prefix("(\""));
    let words = text.split("b\"").skip(1);
    rows.chain(words).filter_map(|rest| rest.split('"').next()).map(str::to_ascii_lowercase)
}
