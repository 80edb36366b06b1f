//! A short run of the torture: long ones are for a machine of their own.

use super::{bench, number, refused};

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
fn every_width_of_line_is_tortured() {
    for hints in ["1", "3"] {
        let args = ["torture", "--seconds", "1", "--keys", "2k", "--on", "index", "--hints", hints];
        assert_eq!(number(&bench(&args), "index_flaws"), 0.0);
    }
}

#[test]
fn no_threads_are_refused() {
    let refusal = refused(&["torture", "--threads", "0"]);
    assert!(refusal.contains("--threads is 1 to 255"), "{refusal}");
}
