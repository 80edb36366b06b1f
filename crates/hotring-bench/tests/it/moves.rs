//! The cost of a move of slots, in short form: the figures exist and make sense.

use std::path::Path;

use super::{bench, process};

#[test]
fn a_move_has_its_figures() {
    let folder = tempfile::tempdir().expect("a place for files");
    let Some(program) = process::cluster_program(folder.path()) else {
        return eprintln!("left out: build it before with 'cargo build -p hotring'");
    };
    let (csv, data) = (folder.path().join("moves.csv"), folder.path().join("data"));
    std::fs::create_dir(&data).expect("a place for servers");
    let path = |path: &Path| path.to_str().expect("a plain path").to_owned();
    let (program, csv, data) = (path(&program), path(&csv), path(&data));
    let places = ["--program", &program, "--csv", &csv, "--data", &data];
    let short = ["--keys", "20k", "--rate", "1k", "--others", "500", "--seconds", "0.3"];
    let text = bench(&[&["moves", "--rounds", "2"][..], &short, &places].concat());
    assert_eq!(std::fs::read_dir(data).expect("it is there").count(), 0, "folders are removed");
    let rows = std::fs::read_to_string(csv).expect("it was written");
    let median = |case: &str, figure: &str| -> f64 {
        let is_it = |row: &&str| row.contains(&format!(",{case},{figure},"));
        let row = rows.lines().find(is_it).unwrap_or_else(|| panic!("no {case}, {figure}: {text}"));
        row.rsplit(',').nth(2).expect("a median").parse().expect("a number")
    };
    for case in ["quiet", "moving"] {
        for figure in ["p99 us", "others p50 us", "others p99 us", "others max us"] {
            assert!(median(case, figure) > 0.0, "{text}");
        }
    }
    // The pace is kept, as far as a busy machine lets it.
    assert!((200.0..1_100.0).contains(&median("quiet", "writes/s")), "{text}");
    // About 1,250 keys of 116 bytes are sent; the values alone are more than that.
    assert!((0.12..10.0).contains(&median("moving", "MB sent")), "{text}");
    let [pause, moved, window] =
        ["pause ms", "move s", "window s"].map(|figure| median("moving", figure));
    assert!(0.0 < pause && pause < 1e3 * window && moved < window, "{text}");
    assert!(median("moving", "others p99 of quiet") > 0.0, "{text}");
}
