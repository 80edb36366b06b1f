//! A short run of the torture: long ones are for a machine of their own.

use super::{bench, number, refused};
use hotring_engines::EngineChoice;

#[test]
fn a_short_torture_finds_no_flaw() {
    let text = bench(&["torture", "--seconds", "1", "--keys", "5k", "--threads", "3"]);
    for subject in ["index", "store"] {
        assert_eq!(number(&text, &format!("{subject}_flaws")), 0.0, "{text}");
        assert!(number(&text, &format!("{subject}_operations")) > 50_000.0, "{text}");
        assert!(number(&text, &format!("{subject}_slots_peak")) > 100.0, "it grew: {text}");
    }
}

#[test]
fn every_engine_is_tortured() {
    for engine in EngineChoice::ALL {
        let args = ["torture", "--seconds", "1", "--keys", "2k", "--engine", engine.name()];
        let text = bench(&args);
        assert_eq!(number(&text, "index_flaws"), 0.0, "{text}");
        assert_eq!(number(&text, "store_flaws"), 0.0, "{text}");
    }
}

#[test]
fn no_threads_are_refused() {
    let refusal = refused(&["torture", "--threads", "0"]);
    assert!(refusal.contains("--threads is 1 to 255"), "{refusal}");
}
