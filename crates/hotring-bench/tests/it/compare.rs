//! The comparison with its aims at toy size: every part has its rows, and says what it ran on.

use super::{bench, refused};

const TOY: [&str; 13] = [
    "compare",
    "--keys",
    "20k",
    "--ops",
    "8k",
    "--rounds",
    "1",
    "--warmup",
    "0",
    "--warmup-max",
    "0",
    "--seconds",
    "0.002",
];

#[test]
fn every_part_has_its_rows() {
    let dir = tempfile::tempdir().expect("a place for files");
    let (csv, json) = (dir.path().join("rates.csv"), dir.path().join("run.json"));
    let files = ["--csv", csv.to_str().expect("plain"), "--json", json.to_str().expect("plain")];
    let text = bench(&[&TOY[..], &files].concat());
    for said in [
        "machine: ",
        "| 8 keys a bucket: B 1.22, best ring ",
        "| 16 keys a bucket: MISS uniform, best ring ",
        "| 8 keys a bucket: C 1.22, one head ",
        "| 100-byte values, 8 keys a bucket: W 1.22, best ring ",
        "| free memory: bytes a key, all told ",
        "| free memory: A 0.99, one by one ",
        "| free memory: C 1.22, 64 in flight, against the oracle in flight ",
        "| free memory: B uniform, 2 threads over 1 ",
        "| shift at 1.22: seconds to 90 % of the steady rate ",
        "| growth under load: lowest window of a run without growth ",
        "| p99.99 of single reads, reclamation of 100-byte values",
        "aims reached: ",
        "| DLHT, batches of 32 ",
        "measured by the authors of hotring on another 2-core machine",
    ] {
        assert!(text.contains(said), "no {said:?} in:\n{text}");
    }
    let csv = std::fs::read_to_string(csv).expect("it was written");
    assert!(csv.starts_with("part,workload,skew,threads,target,mode,mops_median"), "{csv}");
    let json = std::fs::read_to_string(json).expect("it was written");
    let json: serde_json::Value = serde_json::from_str(&json).expect("one JSON value");
    let ratios = json["ratios"].as_array().expect("a list");
    // Effects over time may vanish in windows as short as here.
    let rounds = ratios.iter().filter(|row| !row["ours"].is_null() && row["threads"] == 1);
    assert!(rounds.clone().count() > 20, "{} rows", ratios.len());
    assert!(rounds.clone().all(|row| row["figure"]["median"].as_f64() > Some(0.0)));
    assert_eq!(json["rates"].as_array().map(Vec::len), Some(csv.lines().count() - 1));
}

#[test]
fn parts_can_be_left_out() {
    let text = bench(&[&TOY[..], &["--parts", "tails", "--threads", "1"]].concat());
    assert!(text.contains("aims reached: ") && !text.contains("free memory"), "{text}");
    let refusal = refused(&["compare", "--keys", "1"]);
    assert!(refusal.contains("1024 or more"), "{refusal}");
}
