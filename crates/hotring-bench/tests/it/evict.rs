//! The table of eviction policies: known hits of a small trace, files, and refused options.

use super::replay::recorded;
use super::{Server, bench, refused};

/// The generated trace, which is always here.
const SMALL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/zipf-0.99.u32le");

/// A policy's cells.
fn cells<'t>(text: &'t str, policy: &str) -> Vec<&'t str> {
    let row = |line: &&str| line.trim_start_matches("| ").starts_with(&format!("{policy} "));
    let line = text.lines().find(row).unwrap_or_else(|| panic!("no row {policy:?} in:\n{text}"));
    line.trim_matches('|').split('|').skip(1).map(str::trim).collect()
}

#[test]
fn the_small_trace_has_known_hits_by_every_policy() {
    let text = bench(&["evict", SMALL, "--sizes", "5,20,100"]);
    assert!(text.contains("zipf-0: 1500 accesses to 323 keys"), "{text}");
    for of in ["16 (5 %)", "65 (20 %)", "323 (100 %)"] {
        assert!(text.contains(of), "no {of:?} in:\n{text}");
    }
    let all = (1500.0 - 323.0) / 15.0;
    for policy in
        ["optimum", "heat", "s3-fifo", "sieve", "arc", "2q", "lru", "lfu", "clock", "fifo"]
    {
        assert_eq!(cells(&text, policy)[2], format!("{all:.2}"), "everything fits: {policy}");
    }
    // Counted by a few lines of Python.
    assert_eq!(cells(&text, "optimum")[..2], ["51.73", "71.60"]);
    assert_eq!(cells(&text, "lru")[..2], ["30.67", "53.67"]);
    assert_eq!(cells(&text, "fifo")[..2], ["26.07", "48.80"]);
}

#[test]
fn generated_traces_are_short_if_asked_and_figures_go_to_files() {
    let dir = tempfile::tempdir().expect("a place for files");
    let file = |name: &str| dir.path().join(name).to_str().expect("a plain path").to_owned();
    let (csv, json, plots) = (file("evict.csv"), file("evict.json"), file("plots"));
    let toy = ["evict", "scan", "shift", "--limit", "60k", "--sizes", "1,10"];
    let files = ["--csv", &csv, "--json", &json, "--plot", &plots];
    let text = bench(&[&toy[..], &files].concat());
    assert!(text.contains("scan: 60000 accesses") && text.contains("shift: 60000 acc"), "{text}");
    let read = |path: &str| std::fs::read_to_string(path).expect("it was written");
    let rows = read(&csv);
    assert_eq!(
        rows.lines().count(),
        1 + text.lines().filter(|l| cell_row(l)).count() * 2,
        "{rows}"
    );
    assert!(rows.contains("scan,heat,1.0,") && rows.contains("shift,lru,10.0,"), "{rows}");
    assert!(read(&json).contains("\"command\""));
    for name in ["scan.svg", "shift.svg"] {
        let plot = read(&format!("{plots}/{name}"));
        assert!(plot.starts_with("<svg xmlns=") && plot.contains(">heat</text>"), "{plot}");
    }
}

/// A row of a table, neither its head nor the line below.
fn cell_row(line: &str) -> bool {
    line.starts_with("| ") && !line.starts_with("| policy")
}

#[test]
fn unknown_records_are_refused() {
    let refusal = refused(&["evict", SMALL, "--only", "lru,most"]);
    assert!(refusal.contains("no policy \"most\"") && refusal.contains("heat"), "{refusal}");
    let refusal = refused(&["evict", SMALL, "--sizes", "0"]);
    assert!(refusal.contains("no percentage above 0"), "{refusal}");
    let refusal = refused(&["evict", SMALL, "--only", "heat", "--plot", "/nowhere"]);
    assert!(refusal.contains("compares with lru"), "{refusal}");
    let refusal = refused(&["evict", "no-such-file"]);
    assert!(refusal.contains("cannot open no-such-file"), "{refusal}");
    let text = bench(&["evict", SMALL, "--only", "lru,heat", "--sizes", "10"]);
    assert_eq!(text.lines().filter(|line| cell_row(line)).count(), 2, "{text}");
}

// The trace: headissue GmbH, Jens Wilke (cache2k), CC BY 4.0.
#[test]
fn heat_has_more_hits_than_exact_lru_on_a_recorded_trace() {
    let Some(path) = recorded("orm-busy.trace.xz") else { return };
    let path = path.to_str().expect("a plain path");
    let text = bench(&["evict", path, "--only", "heat,lru,s3-fifo", "--sizes", "1,5,10,25"]);
    let ratios = |policy| {
        let of = |cell: &str| cell.parse::<f64>().expect("a ratio");
        cells(&text, policy).into_iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(cells(&text, "lru"), ["77.03", "84.13", "88.01", "93.37"], "as others count it");
    for ((heat, lru), s3_fifo) in
        ratios("heat").into_iter().zip(ratios("lru")).zip(ratios("s3-fifo"))
    {
        assert!(heat > lru && heat > s3_fifo - 1.0, "{text}");
    }
}

/// Hits in percent of a policy that is in the table, at one size.
fn ratio(text: &str, policy: &str) -> f64 {
    cells(text, policy)[0].parse().expect("a ratio")
}

/// The store's policies, and the same policies alone.
const STORED: [(&str, &str); 8] = [
    ("heat", "heat"),
    ("allkeys-lru", "redis lru"),
    ("allkeys-lfu", "redis lfu"),
    ("allkeys-random", "random"),
    ("volatile-lru", "redis lru"),
    ("volatile-lfu", "redis lfu"),
    ("volatile-random", "random"),
    // The first stored key expires first.
    ("volatile-ttl", "fifo"),
];

#[test]
fn the_stores_policies_hit_like_the_pure_ones() {
    let server = Server::start();
    let only = ["--only", "heat,fifo,random,redis lru,redis lfu"];
    // So long that the bytes a session writes between two checks of the limit are few against an item.
    let value = ["--sizes", "20", "--value", "131072"];
    let more = ["--store", "--server", &server.address()];
    let text = bench(&[&["evict", SMALL], &only[..], &value, &more].concat());
    for (policy, pure) in STORED {
        // Of 1,500 accesses and two draws, chance alone makes a difference of 1.2 at one sigma.
        let most = if pure == "random" { 6.0 } else { 3.0 };
        let pure = ratio(&text, pure);
        for place in ["store", "server"] {
            let here = ratio(&text, &format!("{place} {policy}"));
            assert!((here - pure).abs() < most, "{place} {policy}: {text}");
        }
    }
}

#[test]
fn a_server_that_is_in_use_is_not_replayed_against() {
    let server = Server::start();
    bench(&["replay", SMALL, "--target", &server.address()]);
    let refusal = refused(&["evict", SMALL, "--server", &server.address()]);
    assert!(refusal.contains("is not empty"), "{refusal}");
}
