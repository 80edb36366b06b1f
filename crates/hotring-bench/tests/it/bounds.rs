//! A server's promises about memory, in a short form: a server of this very code in a process of its own. The loads
//! that take longest run optimised, by `cargo xtask prove memory`.

use std::path::Path;

use super::bench;
use super::process::program;

/// The permitted growth of the process for a request, as a multiple of the value.
const LARGE_MAX: f64 = 1.1;

/// A figure.
#[derive(Debug)]
struct Figure {
    case: String,
    name: String,
    value: f64,
}

fn figures(args: &[&str]) -> Vec<Figure> {
    let folder = tempfile::tempdir().expect("a place for files");
    let (program, json) = (program(folder.path()), folder.path().join("figures.json"));
    let path = |path: &Path| path.to_str().expect("a plain path").to_owned();
    let files = ["--program", &path(&program), "--json", &path(&json)];
    let text = bench(&[&["bounds"], args, &files].concat());
    assert!(text.contains(&format!("| {} ", args[0])), "{text}");
    let results = std::fs::read_to_string(json).expect("it was written");
    let results: serde_json::Value = serde_json::from_str(&results).expect("one JSON value");
    let rows = results["rows"].as_array().expect("rows").iter();
    let word = |row: &serde_json::Value| row.as_str().expect("a word").to_owned();
    rows.map(|row| Figure {
        case: word(&row["case"]),
        name: word(&row["figure"]),
        value: row["value"].as_f64().expect("a number"),
    })
    .collect()
}

/// All of this name, which must be at most this value, in this number of cases.
fn at_most(figures: &[Figure], name: &str, max: f64, cases: usize) {
    let named: Vec<_> = figures.iter().filter(|figure| figure.name == name).collect();
    assert_eq!(named.len(), cases, "{name}: {figures:#?}");
    let more: Vec<_> = named.iter().filter(|figure| figure.value > max).collect();
    assert!(more.is_empty(), "{name} above {max}: {more:#?}");
}

#[test]
#[ignore = "cargo xtask prove memory"]
fn memory_goes_back_after_most_was_removed() {
    // It takes a minute at most, even on a busy machine. Some MiB are always held beside items: with less data they
    // would be a large part.
    let mut figures = figures(&["fall", "--data", "192M", "--stop-when-kept"]);
    let end = figures.pop().expect("a figure");
    at_most(&[end], "times the rest alone", 1.3, 1);
}

#[test]
fn info_agrees_with_the_memory_of_the_process() {
    let mut figures = figures(&["info", "--data", "64M"]);
    // It counts items without the memory held beside them.
    figures.retain(|figure| !figure.case.ends_with(": used_memory"));
    at_most(&figures, "off by, of the latter", 0.03, 9);
}

#[test]
fn the_process_stays_near_maxmemory() {
    // Free memory between items counts against the limit in part only.
    at_most(&figures(&["limit", "--maxmemory", "8M"]), "over MiB", 16.0, 3);
}

#[test]
fn a_long_value_takes_no_more_than_itself() {
    let figures = figures(&["large", "--value", "50M"]);
    at_most(&figures, "peak more, of the value", LARGE_MAX, 8);
    at_most(&figures, "afterwards more, of the value", 1.1, 8);
}

/// The smallest limit with a promise is 32 MiB. Loads of many writes take it, which is quicker.
const SMALLEST: &str = "34M";

/// Connections that read nothing take memory of their own, and a thread that frees memory late while other tests
/// take the processor leaves some 10 MiB: either is a large part of a smaller limit.
const LARGER: &str = "64M";

/// Under this load the process stays near `maxmemory`, even while other tests take the processor.
fn tight(load: &str, maxmemory: &str) {
    let figures = figures(&["tight", "--load", load, "--maxmemory", maxmemory, "--stop-when-kept"]);
    at_most(&figures, "growth at most, of maxmemory", 1.25, 1);
    at_most(&figures, "over in the end, of what may be", 1.0, 1);
}

#[test]
#[ignore = "cargo xtask prove memory"]
fn longer_and_longer_values_stay_near_maxmemory() {
    tight("grow", LARGER);
}

#[test]
#[ignore = "cargo xtask prove memory"]
fn values_that_are_appended_to_stay_near_maxmemory() {
    tight("append", SMALLEST);
}

#[test]
#[ignore = "cargo xtask prove memory"]
fn earlier_values_stay_near_maxmemory() {
    tight("history", LARGER);
}

#[test]
#[ignore = "cargo xtask prove memory"]
fn requests_that_are_shown_and_not_fetched_stay_near_maxmemory() {
    tight("monitor", LARGER);
}

#[test]
#[ignore = "cargo xtask prove memory"]
fn invalidations_that_are_not_fetched_stay_near_maxmemory() {
    tight("broadcast", LARGER);
}

#[test]
#[ignore = "cargo xtask prove memory"]
fn messages_that_are_not_fetched_stay_near_maxmemory() {
    tight("messages", LARGER);
}

#[test]
#[ignore = "cargo xtask prove memory"]
fn the_table_of_tracking_stays_near_maxmemory() {
    tight("tracking", LARGER);
}

#[test]
#[ignore = "cargo xtask prove memory"]
fn scripts_stay_near_maxmemory() {
    tight("scripts", LARGER);
}

#[test]
#[ignore = "cargo xtask prove memory"]
fn names_stay_near_maxmemory() {
    tight("names", LARGER);
}
