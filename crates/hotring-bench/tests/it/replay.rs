//! Hit counts are the same on every target, however the accesses get there.

use std::io::Write;
use std::path::{Path, PathBuf};

use super::{Server, bench, number, refused};

/// The generated trace, which is always here.
const SMALL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/zipf-0.99.u32le");

/// Hits, misses and distinct keys; they must fit together.
fn counts(text: &str) -> (f64, f64, f64) {
    let (hits, misses) = (number(text, "hits"), number(text, "misses"));
    let (accesses, ratio) = (number(text, "accesses"), number(text, "hit_ratio"));
    assert_eq!(hits + misses, accesses, "{text}");
    assert!((ratio - hits / accesses).abs() < 1e-9, "{text}");
    (hits, misses, number(text, "distinct_keys"))
}

/// The same count on the model, in process and over the wire, alone and crowded.
fn same_everywhere(file: &str, more: &[&str]) -> (f64, f64, f64) {
    let replay = |args: &[&str]| counts(&bench(&[&["replay", file], more, args].concat()));
    let model = replay(&["--target", "model"]);
    let crowded = ["--threads", "3", "--pipeline", "40"];
    assert_eq!(replay(&[]), model, "in process, one after the other");
    assert_eq!(replay(&crowded), model, "in process, threads and prefetched runs");
    let server = Server::start();
    let address = server.address();
    let wire = ["--target", &address, "--prefix"];
    assert_eq!(replay(&[&wire[..], &["a:", "--pipeline", "50"]].concat()), model, "over the wire");
    assert_eq!(replay(&[&wire[..], &["b:"], &crowded].concat()), model, "by several connections");
    model
}

#[test]
fn the_small_trace_counts_the_same_everywhere() {
    let (hits, misses, distinct) = same_everywhere(SMALL, &[]);
    assert_eq!(misses, distinct, "each key is missed once");
    assert_eq!((hits, misses), (1177.0, 323.0));
}

#[test]
fn a_limit_and_other_formats_read_the_same_accesses() {
    let whole = bench(&["replay", SMALL, "--limit", "500"]);
    assert_eq!(number(&whole, "accesses"), 500.0);
    let dir = tempfile::tempdir().expect("a place for files");
    for format in ["lines", "u32be", "u64be"] {
        let path = dir.path().join(format);
        let path = path.to_str().expect("a plain path");
        generate(path, format);
        let other = bench(&["replay", path, "--format", format, "--limit", "500"]);
        assert_eq!(counts(&other), counts(&whole), "{format}");
    }
}

fn generate(path: &str, format: &str) {
    let recipe = ["--keys", "500", "--accesses", "1500", "--theta", "0.99", "--seed", "7"];
    bench(&[&["generate", path, "--format", format], &recipe[..]].concat());
}

#[test]
fn the_small_trace_comes_from_the_generator() {
    let dir = tempfile::tempdir().expect("a place for files");
    let path = dir.path().join("trace");
    generate(path.to_str().expect("a plain path"), "u32le");
    let read = |path: &Path| std::fs::read(path).expect("both files are there");
    assert!(read(&path) == read(Path::new(SMALL)), "see tests/data/README.md");
}

#[test]
fn a_packed_trace_is_unpacked_by_its_content() {
    let mut packed = tempfile::NamedTempFile::new().expect("a place for a file");
    let mut encoder = liblzma::write::XzEncoder::new(&mut packed, 6);
    encoder.write_all(&std::fs::read(SMALL).expect("the trace is there")).expect("room");
    encoder.finish().expect("room");
    let packed = packed.path().to_str().expect("a plain path");
    assert_eq!(counts(&bench(&["replay", packed])), counts(&bench(&["replay", SMALL])));
}

#[test]
fn figures_are_plain_numbers_and_json() {
    let text = bench(&["replay", SMALL, "--value-size", "20..400"]);
    for name in ["accesses_per_second", "latency_ns_p50", "latency_ns_p99", "visits_per_lookup"] {
        assert!(number(&text, name) > 0.0, "{name}");
    }
    let json = bench(&["replay", SMALL, "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).expect("one JSON value");
    assert_eq!(json["hits"], 1177);
    assert!(json["machine"]["kernel"].is_string());
}

#[test]
fn visits_are_reported_over_the_wire() {
    let server = Server::start();
    let text = bench(&["replay", SMALL, "--target", &server.address(), "--pipeline", "10"]);
    assert!((0.5..4.0).contains(&number(&text, "visits_per_lookup")), "{text}");
}

#[test]
fn a_server_that_holds_the_keys_already_is_refused() {
    let server = Server::start();
    let replay = ["replay", SMALL, "--target", &server.address(), "--pipeline", "50"];
    bench(&replay);
    let refusal = refused(&replay);
    assert!(refusal.contains("holds 323 of the trace's keys already"), "{refusal}");
}

#[test]
fn unreadable_files_are_named() {
    let missing = refused(&["replay", "/nowhere/trace"]);
    assert!(missing.contains("cannot open /nowhere/trace"), "{missing}");
    let dir = tempfile::tempdir().expect("a place for files");
    let path = dir.path().join("cut");
    std::fs::write(&path, [1, 2, 3, 4, 5]).expect("room");
    let cut = refused(&["replay", path.to_str().expect("a plain path")]);
    assert!(cut.contains("ends within a number"), "{cut}");
}

/// A recorded trace, if this machine has them.
pub fn recorded(name: &str) -> Option<PathBuf> {
    let Some(dir) = std::env::var_os("HOTRING_TRACES") else {
        // Straight to the terminal: the harness would swallow it for a test that passes.
        let _ = writeln!(std::io::stderr(), "skipped: {name}, as HOTRING_TRACES is not set");
        return None;
    };
    let path = PathBuf::from(dir).join(name);
    assert!(path.exists(), "HOTRING_TRACES is set, but {} is not there", path.display());
    Some(path)
}

// Both traces: headissue GmbH, Jens Wilke (cache2k), CC BY 4.0.

#[test]
fn recorded_page_requests_count_the_same_everywhere() {
    let Some(path) = recorded("web12.trace.xz") else { return };
    let path = path.to_str().expect("a plain path");
    let (hits, misses, _) = same_everywhere(path, &["--format", "u32be"]);
    assert_eq!((hits, misses), (81_851.0, 13_756.0));
}

#[test]
fn recorded_database_accesses_count_the_same_everywhere() {
    let Some(path) = recorded("orm-busy.trace.xz") else { return };
    let path = path.to_str().expect("a plain path");
    let (hits, misses, _) = same_everywhere(path, &[]);
    assert_eq!((hits, misses), (4_923_651.0, 76_349.0));
}
