//! Rules for all text files: no marks of unfinished work, no references outside the repository, no dead links.

use std::fs;
use std::path::Path;

use super::{Fault, Source};
use crate::workspace::root;

/// Marks of unfinished work, split so that this file does not hold them.
const UNFINISHED: &[&str] = &[
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("todo", "!("),
    concat!("unimpl", "emented!("),
];

/// Paths and references outside of the repository, split likewise.
const OUTSIDE: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
    concat!("sha", "red/"),
    concat!("session", " ends"),
];

/// Nothing may be unfinished.
pub fn words(source: &Source) -> Vec<Fault> {
    // Lock files contain names of foreign packages.
    if source.path.ends_with("Cargo.lock") || source.path.ends_with("package-lock.json") {
        return Vec::new();
    }
    let found = |line: &str| UNFINISHED.iter().find(|word| line.contains(**word)).copied();
    let faults = source.lines().filter_map(|(n, line)| Some((n, found(line)?)));
    faults.map(|(n, word)| Fault::at(n, format!("{word}: finish it or leave it out"))).collect()
}

/// No paths of one machine and no numbers of a tracker: a reader has only the repository.
pub fn outside(source: &Source) -> Vec<Fault> {
    let found = |line: &str| OUTSIDE.iter().any(|word| line.contains(word)) || names_issue(line);
    let faults = source.lines().filter(|(_, line)| found(line));
    faults.map(|(n, _)| Fault::at(n, "refers to something outside of the repository")).collect()
}

fn names_issue(line: &str) -> bool {
    let digit = |rest: &str| rest.trim_start_matches('#').starts_with(|c: char| c.is_ascii_digit());
    line.to_ascii_lowercase().split(concat!("iss", "ue ")).skip(1).any(digit)
}

/// Relative links in Markdown must lead to a file, and to a heading of it if they name one.
pub fn links(source: &Source) -> Vec<Fault> {
    if !source.path.ends_with(".md") {
        return Vec::new();
    }
    let page = root().join(&source.path);
    let folder = page.parent().expect("a file lies in a folder");
    let mut faults = Vec::new();
    for (n, line) in source.prose() {
        for target in targets(line) {
            let dead = dead_link(folder, &source.text, target);
            faults.extend(dead.map(|message| Fault::at(n, format!("link to {target}, {message}"))));
        }
    }
    faults
}

/// Why a link of the page `own` in `folder` leads nowhere, if so.
fn dead_link(folder: &Path, own: &str, target: &str) -> Option<&'static str> {
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = folder.join(file);
    if !file.is_empty() && !path.exists() {
        return Some("which does not exist");
    }
    let text = match file {
        "" => own.to_string(),
        _ if file.ends_with(".md") => fs::read_to_string(path).unwrap_or_default(),
        _ => return None,
    };
    let mut headings = text.lines().filter_map(|line| line.strip_prefix('#'));
    let is_there = headings.any(|line| anchor_of(line.trim_start_matches('#')) == anchor);
    (!anchor.is_empty() && !is_there).then_some("but the page has no such heading")
}

/// The anchor that GitHub gives to a heading.
fn anchor_of(heading: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    heading
        .trim()
        .to_lowercase()
        .chars()
        .filter(kept)
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

/// The relative link targets of a line.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| {
        let target = rest.split([')', ' ']).next()?;
        (!target.is_empty() && !target.contains(':')).then_some(target)
    })
}
