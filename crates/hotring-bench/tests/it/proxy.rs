//! The cost of a proxy, in short form: the figures exist and make sense.

use std::path::Path;

use super::{bench, process};

#[test]
fn a_proxy_has_its_figures() {
    let folder = tempfile::tempdir().expect("a place for files");
    let Some(program) = process::cluster_program(folder.path()) else {
        return eprintln!("left out: build it before with 'cargo build -p hotring'");
    };
    let (csv, data) = (folder.path().join("proxy.csv"), folder.path().join("data"));
    std::fs::create_dir(&data).expect("a place for servers");
    let path = |path: &Path| path.to_str().expect("a plain path").to_owned();
    let (program, csv, data) = (path(&program), path(&csv), path(&data));
    let places = ["--program", &program, "--csv", &csv, "--data", &data];
    let short = ["--keys", "1k", "--connections", "8", "--seconds", "0.2", "--rounds", "1"];
    let text = bench(&[&["proxy", "--pipeline", "4"][..], &short, &places].concat());
    let rows = std::fs::read_to_string(csv).expect("it was written");
    let median = |part: &str, case: &str, figure: &str| -> f64 {
        let is_it = |row: &&str| {
            row.starts_with(&format!("{part},")) && row.contains(&format!(",{case},{figure},"))
        };
        let row = rows.lines().find(is_it).unwrap_or_else(|| panic!("no {case}, {figure}: {text}"));
        row.rsplit(',').nth(2).expect("a median").parse().expect("a number")
    };
    for part in ["reads", "writes"] {
        for case in ["a server itself", "hotring proxy"] {
            for figure in ["CPU us", "requests/s", "p50 us", "p99 us"] {
                assert!(median(part, case, figure) > 0.0, "{text}");
            }
        }
        assert!(median(part, "hotring proxy", "CPU of a server's") > 0.0, "{text}");
    }
    // Eight clients that read by Zipf's law meet at the hottest key.
    let sent = ["0 ms", "20 ms"].map(|case| median("merge window", case, "sent of asked"));
    assert!(0.0 < sent[1] && sent[1] < 0.95 && sent[0] <= 1.0, "{text}");
    let p50 = median("merge window", "20 ms", "p50 us");
    assert!(p50 > 10_000.0, "a read waits for its window: {text}");
}
