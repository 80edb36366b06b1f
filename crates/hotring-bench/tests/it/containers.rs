//! Containers beside Redis, in the shortest form: every part has its rows.

use std::path::Path;
use std::process::Command;

use super::process::program;
use super::{bench, refused};

#[test]
fn every_part_has_a_row_for_each_case() {
    if Command::new("redis-server").arg("--version").output().is_err() {
        eprintln!("note: redis-server is not installed");
        return;
    }
    let folder = tempfile::tempdir().expect("a place for files");
    let (program, json) = (program(folder.path()), folder.path().join("rows.json"));
    let path = |path: &Path| path.to_str().expect("a plain path").to_owned();
    let (program, json, data) = (path(&program), path(&json), path(folder.path()));
    let short = ["--rounds", "1", "--requests", "20", "--members", "2k", "--string", "1k"];
    let places = ["--program", &program, "--json", &json, "--data", &data];
    bench(&[&["containers"], &short[..], &places[..]].concat());
    let results = std::fs::read_to_string(json).expect("it was written");
    let results: serde_json::Value = serde_json::from_str(&results).expect("one JSON value");
    let rows = results["rows"].as_array().expect("rows");
    let of = |setting: &str, unit: &str| {
        let rows = rows.iter().filter(|row| row["setting"] == setting && row["unit"] == unit);
        let rows: Vec<_> = rows.collect();
        // The time of a running thread is known to its last tick: now and then a turn this short seems to take none.
        let n_positive =
            |name: &str| rows.iter().filter(|row| row[name].as_f64() > Some(0.0)).count();
        let is_positive = |name: &str| n_positive(name) + 2 >= rows.len() && n_positive(name) > 0;
        // What small containers take may fit in memory that the process has already.
        let may_be_zero = !["ns of CPU", "of one thread"].contains(&unit);
        assert!(may_be_zero || is_positive("redis") && is_positive("hotring"), "{rows:?}");
        rows.len()
    };
    let times = ["no log, P=1", "no log, P=16"].map(|setting| of(setting, "ns of CPU"));
    // At P=1 a message, too.
    assert_eq!(times, [33, 32]);
    assert_eq!(of("no log, P=1", "ms that another client waits"), 2);
    let logged = ["ns of CPU", "bytes logged"].map(|unit| of("everysec, P=16", unit));
    assert_eq!(logged, [15, 15]);
    assert_eq!(of("memory", "bytes a part"), 8);
    let readers = ["threads of hotring: 1, P=16", "threads of hotring: 2, P=16"];
    assert_eq!(readers.map(|setting| of(setting, "ns of CPU")), [2, 2]);
    assert_eq!(of("two threads, by CPU, P=16", "of one thread"), 2);
}

#[test]
fn sizes_that_make_no_sense_are_refused() {
    for (flag, value) in [("--rounds", "0"), ("--members", "1k"), ("--string", "600M")] {
        assert!(refused(&["containers", flag, value]).contains(flag.trim_start_matches('-')));
    }
}
