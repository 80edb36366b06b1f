//! Rules for Rust files: header, length, width, unsafe code, effects of libraries, and comments on memory orders.

use super::{Fault, Source};

/// Most lines per file.
const LINES_MAX: usize = 650;

/// Most columns of a comment line; rustfmt limits the other lines.
const COLUMNS_MAX: usize = 120;

/// The only crates with unsafe code: the index, its other engines, the bindings to C++ maps that they are
/// compared with, and the client for C.
const UNSAFE_CRATES: &[&str] = &[
    "crates/hotring-index/",
    "crates/hotring-engines/",
    "crates/hotring-cpp-peers/",
    "crates/hotring-c/",
    "crates/hotring-messages/",
];

/// Crates that must get time, randomness, threads and network from their callers.
const PURE: &[&str] = &[
    "crates/hotring-index/src/",
    "crates/hotring-engines/src/",
    "crates/hotring-store/src/",
    "crates/hotring-protocol/src/",
    "crates/hotring-log/src/",
    "crates/hotring-cluster/src/",
];

/// The only file of these crates that may open files.
const OPENS_FILES: &str = "crates/hotring-log/src/storage/disk.rs";

const EFFECTS: &[&str] = &[
    "Instant",
    "SystemTime",
    "thread::spawn",
    "thread::sleep",
    "std::net",
    "std::fs",
    "tokio",
    "getrandom",
    "rand::",
    "Rng::new",
    "RandomState",
];

/// Sources in which each use of an atomic must have an ORDERING comment.
const ORDERED: &[&str] = &[
    "crates/hotring-index/src/",
    "crates/hotring-log/src/",
    "crates/hotring-store/src/gate",
    "crates/hotring-store/src/watch",
];

/// Most lines between an ORDERING comment and the use of the atomic.
const ORDERING_LINES: usize = 6;

/// A file must say at its top what it is.
pub fn header(source: &Source) -> Vec<Fault> {
    let good = !source.is_rust() || source.text.starts_with("//!");
    if good { Vec::new() } else { vec![Fault::at(1, "no //! header that says what the file is")] }
}

/// Comments must fit next to another file on a screen.
pub fn width(source: &Source) -> Vec<Fault> {
    if !source.is_rust() {
        return Vec::new();
    }
    let is_wide = |line: &str| line.trim_start().starts_with("//") && columns(line) > COLUMNS_MAX;
    let wide = source.lines().filter(|(_, line)| is_wide(line));
    wide.map(|(n, line)| {
        let columns = columns(line);
        Fault::at(n, format!("a comment of {columns} columns, more than {COLUMNS_MAX}"))
    })
    .collect()
}

fn columns(line: &str) -> usize {
    line.chars().count()
}

/// A file must be short enough to be read in one go.
pub fn length(source: &Source) -> Vec<Fault> {
    let lines = source.text.lines().count();
    if source.is_rust() && lines > LINES_MAX {
        return vec![Fault::at(lines, format!("{lines} lines, more than {LINES_MAX}: split it"))];
    }
    Vec::new()
}

/// The root file of every other crate must forbid unsafe code.
pub fn unsafe_forbidden(source: &Source) -> Vec<Fault> {
    let is_root = ["/src/lib.rs", "/src/main.rs"].iter().any(|end| source.path.ends_with(end));
    let may = UNSAFE_CRATES.iter().any(|folder| source.is_in(folder));
    if !is_root || may || source.text.contains("#![forbid(unsafe_code)]") {
        return Vec::new();
    }
    vec![Fault::at(1, "no #![forbid(unsafe_code)]")]
}

/// Libraries must not read clocks, draw random numbers, start threads, or open files or sockets.
pub fn effects(source: &Source) -> Vec<Fault> {
    let is_pure = PURE.iter().any(|folder| source.is_in(folder)) && source.path != OPENS_FILES;
    if !source.is_rust() || source.is_test() || !is_pure {
        return Vec::new();
    }
    let found = |line: &str| EFFECTS.iter().find(|word| names(line, word)).copied();
    product_code(source)
        .filter_map(|(n, line)| Some((n, found(line)?)))
        .map(|(n, word)| Fault::at(n, format!("{word}: a library gets this from its caller")))
        .collect()
}

/// Each atomic operation must say why its memory order is enough.
pub fn ordering(source: &Source) -> Vec<Fault> {
    if !source.is_rust() || source.is_test() || !ORDERED.iter().any(|f| source.is_in(f)) {
        return Vec::new();
    }
    let lines: Vec<&str> = source.text.lines().collect();
    product_code(source)
        .filter(|(_, line)| orders(line))
        .filter(|(n, _)| {
            let above = &lines[n.saturating_sub(ORDERING_LINES + 1)..*n];
            !above.iter().any(|line| line.contains("ORDERING"))
        })
        .map(|(n, _)| {
            Fault::at(n, format!("no ORDERING comment in the {ORDERING_LINES} lines above"))
        })
        .collect()
}

fn orders(line: &str) -> bool {
    let orders = ["Relaxed", "Acquire", "Release", "AcqRel", "SeqCst"];
    orders.iter().any(|order| line.contains(&format!("Ordering::{order}")))
        || orders.iter().any(|order| line.contains(&format!("({order})")))
        || orders.iter().any(|order| line.contains(&format!(", {order})")))
}

/// Whether `word` occurs as a whole word.
fn names(line: &str, word: &str) -> bool {
    let part_of_name = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !before.is_some_and(part_of_name)
            && (word.ends_with(':') || !after.is_some_and(part_of_name))
    })
}

/// Lines of code with their numbers, without comments and without a test module at the end.
fn product_code(source: &Source) -> impl Iterator<Item = (usize, &str)> {
    let end = source.text.find("#[cfg(test)]\nmod tests {").unwrap_or(source.text.len());
    let lines = source.text[..end].lines().enumerate();
    lines
        .map(|(i, line)| (i + 1, line.split("//").next().unwrap_or_default()))
        .filter(|(_, line)| !line.trim_start().starts_with("use "))
}
