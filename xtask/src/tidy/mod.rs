//! Checks the tracked files for style rules that rustfmt and clippy do not know.
//!
//! Each rule is a function that returns the faults of one file; `edges`, `layers` and `layout` check
//! complete crates instead. No rule can check that a comment is true.

mod code;
mod edges;
mod interfaces;
mod layers;
mod layout;
mod names;
#[cfg(test)]
mod tests;
mod text;
mod wording;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::process;
use crate::suite::Done;
use crate::workspace::root;

/// One file of the repository.
struct Source {
    /// Path from the root, with `/`.
    path: String,
    text: String,
}

impl Source {
    fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Whether the file is in `folder`, a path from the root that ends with `/`.
    fn is_in(&self, folder: &str) -> bool {
        self.path.starts_with(folder)
    }

    /// Whether the file has only test code.
    fn is_test(&self) -> bool {
        let folder = |name| self.path.split('/').any(|part| part == name);
        folder("tests") || folder("examples") || self.path.ends_with("/tests.rs")
    }

    /// Lines, numbered from 1.
    fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(i, line)| (i + 1, line))
    }

    /// The lines of a page that are in no code block.
    fn prose(&self) -> impl Iterator<Item = (usize, &str)> {
        let mut is_code = false;
        self.lines().filter(move |(_, line)| {
            let is_fence = line.trim_start().starts_with("```");
            is_code ^= is_fence;
            !is_code && !is_fence
        })
    }
}

/// A fault and its line. Line 0 means the complete file.
#[derive(Debug, PartialEq, Eq)]
struct Fault {
    line: usize,
    message: String,
}

impl Fault {
    fn at(line: usize, message: impl Into<String>) -> Self {
        Fault { line, message: message.into() }
    }
}

type Rule = fn(&Source) -> Vec<Fault>;

const RULES: &[Rule] = &[
    text::words,
    text::outside,
    text::links,
    wording::phrases,
    names::names,
    interfaces::variables,
    interfaces::sections,
    interfaces::fields,
    code::header,
    code::length,
    code::width,
    code::unsafe_forbidden,
    code::effects,
    code::ordering,
];

/// Checks all files and the package graph.
pub fn run() -> Result<Done> {
    let sources = sources()?;
    let mut faults = edges::check()?;
    faults.extend(layers::check(&sources));
    faults.extend(layout::check(&sources));
    for source in &sources {
        for fault in RULES.iter().flat_map(|rule| rule(source)) {
            faults.push(format!("{}:{}: {}", source.path, fault.line, fault.message));
        }
    }
    for fault in &faults {
        println!("{fault}");
    }
    match faults.len() {
        0 => println!("  {} files are tidy", sources.len()),
        n => bail!("faults: {n}, listed above"),
    }
    Ok(Done::Passed(sources.len()))
}

/// Tracked files, and new ones that are not ignored, if they are text.
fn sources() -> Result<Vec<Source>> {
    let mut git = process::command("git");
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let list = process::output(&mut git).context("tidy asks git for the list of files")?;
    let mut sources = Vec::new();
    for path in list.split('\0').filter(|path| !path.is_empty()) {
        let full: PathBuf = root().join(path);
        // The file may be deleted in the working copy only.
        let Ok(bytes) = fs::read(&full) else { continue };
        if let Ok(text) = String::from_utf8(bytes) {
            sources.push(Source { path: path.to_string(), text });
        }
    }
    Ok(sources)
}
