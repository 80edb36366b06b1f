//! A killed server keeps its acknowledged writes: a short form.

use super::bench;
use super::process::program;

/// The rows of the table, by cells.
fn rows(text: &str) -> Vec<Vec<String>> {
    let rows = text.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| log"));
    rows.map(|row| row.split('|').map(|cell| cell.trim().to_owned()).collect()).collect()
}

#[test]
fn acknowledged_writes_outlive_a_kill() {
    let folder = tempfile::tempdir().expect("a place for files");
    let program = program(folder.path());
    let program = program.to_str().expect("a plain path");
    let text = bench(&["crash", "--kills", "4", "--life", "200", "--program", program]);
    let rows = rows(&text);
    let modes: Vec<&str> = rows.iter().map(|row| row[1].as_str()).collect();
    assert_eq!(modes, ["sync", "everysec", "async"], "{text}");
    for row in &rows {
        assert!(row[3].parse::<u64>().expect("a number") > 100, "too few writes to tell: {text}");
    }
    // The tool itself checks this: it ends with an error otherwise.
    assert_eq!((rows[0][4].as_str(), rows[1][4].as_str()), ("0", "0"), "{text}");
    // The mode that acknowledges unwritten data shows that the tool would notice.
    assert_ne!(rows[2][4], "0", "{text}");
}
