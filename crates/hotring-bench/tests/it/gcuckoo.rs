//! The purpose of predetermination, as `gcuckoo` shows it.

use super::{bench, number, refused};

#[test]
fn only_the_plain_scheme_wastes_kicks() {
    let text = bench(&["gcuckoo", "--slots", "65536", "--limit", "300"]);
    assert_eq!(number(&text, "gcuckoo_wasted_kicks"), 0.0, "{text}");
    assert_eq!(number(&text, "search_wasted_kicks"), 0.0, "{text}");
    assert!(number(&text, "gcuckoo_failed") > 0.0, "it goes beyond what fits: {text}");
    let (failed, wasted) = (number(&text, "plain_failed"), number(&text, "plain_wasted_kicks"));
    assert!(failed > 0.0, "{text}");
    assert_eq!(wasted, failed * 300.0, "the limit each time: {text}");
}

#[test]
fn slots_must_be_a_power_of_two() {
    assert!(refused(&["gcuckoo", "--slots", "1000"]).contains("--slots is 2^k"));
}
