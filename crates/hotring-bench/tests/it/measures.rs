//! Measurements at toy size: they run, they check their targets, they say what they ran on.

use super::process::Process;
use super::{bench, number, refused};

const TOY: [&str; 11] = [
    "ycsb",
    "--keys",
    "5k",
    "--ops",
    "20k",
    "--rounds",
    "3",
    "--warmup-max",
    "1",
    "--skew",
    "uniform,1.22",
];

#[test]
fn every_workload_runs_in_both_modes() {
    let more = ["--workloads", "a,b,c,d,f,w,miss,grow", "--threads", "1,2"];
    let text = bench(&[&TOY[..], &more].concat());
    let rows = text.lines().filter(|line| line.contains("hotring vote 7")).count();
    assert_eq!(rows, 8 * 2 * 2 * 2, "{text}");
    for said in ["machine: ", "kernel: ", "transparent huge pages: ", "rustc 1.", "commit "] {
        assert!(text.contains(said), "no {said:?} in:\n{text}");
    }
}

#[test]
fn sizes_skews_and_latencies_are_options() {
    let more = ["--skew", "latest,shift:1.22", "--key-size", "20", "--value-size", "100"];
    let rest = ["--targets", "hotring,mercury", "--workloads", "b", "--threads", "2", "--latency"];
    let toy = ["ycsb", "--keys", "5k", "--ops", "20k", "--rounds", "1", "--warmup-max", "1"];
    let text = bench(&[&toy[..], &more, &rest].concat());
    for said in ["| latest:0.99 |", "| shift:1.22 ", "p99.99 ns", "| mercury "] {
        assert!(text.contains(said), "no {said:?} in:\n{text}");
    }
    let refusal = refused(&[&toy[..], &["--key-size", "1"]].concat());
    assert!(refusal.contains("told apart up to 256"), "{refusal}");
    let refusal = refused(&["ycsb", "--keys", "900G", "--targets", "oracle"]);
    assert!(refusal.contains("GiB of memory are missing"), "{refusal}");
}

#[test]
fn a_trace_is_a_stream() {
    let dir = tempfile::tempdir().expect("a place for files");
    let path = dir.path().join("hot.trace");
    let path = path.to_str().expect("plain");
    bench(&["generate", path, "--keys", "1k", "--accesses", "10k"]);
    let options = ["--warmup-max", "1", "--rounds", "1", "--workloads", "a,miss", "--threads", "2"];
    let text = bench(&[&["ycsb", "--trace", path][..], &options].concat());
    assert!(text.contains("trace: 10000 accesses to "), "{text}");
    assert_eq!(text.lines().filter(|line| line.contains("| trace |")).count(), 2 * 2 * 2, "{text}");
}

#[test]
fn every_strategy_runs_where_the_line_allows_it() {
    let more = ["--strategies", "none,random,sampling,vote", "--hints", "1,3", "--workloads", "b"];
    let text = bench(&[&TOY[..], &more, &["--threads", "1"]].concat());
    for name in ["none 1", "none 3", "random 1", "sampling 1", "vote 1", "vote 3"] {
        assert!(text.contains(&format!("hotring {name}")), "no {name} in:\n{text}");
    }
    assert!(!text.contains("random 3") && !text.contains("sampling 3"), "{text}");
    let alone = ["--strategies", "random", "--hints", "7"];
    let refusal = refused(&[&TOY[..], &alone].concat());
    assert!(refusal.contains("one hint a slot"), "{refusal}");
}

#[test]
fn engines_are_measured_at_equal_index_memory() {
    let more = ["--targets", "hotring,chaining", "--hints", "1,7", "--workloads", "c"];
    let equal = ["--threads", "2", "--index-bytes", "8", "--keys", "50k", "--scatter"];
    let toy = [
        "ycsb",
        "--ops",
        "20k",
        "--rounds",
        "3",
        "--warmup-max",
        "1",
        "--skew",
        "0.99",
        "--modes",
        "scalar",
    ];
    let text = bench(&[&toy[..], &more, &equal].concat());
    let bytes = |text: &str, name: &str| {
        let row = text.lines().find(|line| line.contains(name)).expect("a row of it");
        row.split('|').nth_back(3).expect("a cell").trim().to_owned()
    };
    // The power of two above 8 bytes for each of 50,000 keys.
    let expected = format!("{:.2}", (1 << 19) as f64 / 50_000.0);
    for name in ["chaining", "hotring vote 1", "hotring vote 7"] {
        assert_eq!(bytes(&text, name), expected, "{name}: {text}");
    }
    let paper = ["--threads", "1", "--keys", "32768", "--keys-per-bucket", "8"];
    let text = bench(&[&toy[..], &more, &paper].concat());
    for name in ["chaining", "hotring vote 1", "hotring vote 7"] {
        assert_eq!(bytes(&text, name), "1", "one word for 8 keys, {name}: {text}");
    }
    let refusal = refused(&[&toy[..], &more, &equal, &["--items-per-slot", "4"]].concat());
    assert!(refusal.contains("--items-per-slot"), "{refusal}");
}

#[test]
fn rows_go_to_csv_and_json() {
    let dir = tempfile::tempdir().expect("a place for files");
    let (csv, json) = (dir.path().join("rows.csv"), dir.path().join("run.json"));
    let files = ["--csv", csv.to_str().expect("plain"), "--json", json.to_str().expect("plain")];
    bench(&[&TOY[..], &["--workloads", "c", "--threads", "1"], &files].concat());
    let csv = std::fs::read_to_string(csv).expect("it was written");
    assert!(csv.starts_with("workload,skew,mode,threads,target,mops_median"), "{csv}");
    assert_eq!(csv.lines().count(), 1 + 2 * 2 * 2, "{csv}");
    let json = std::fs::read_to_string(json).expect("it was written");
    let json: serde_json::Value = serde_json::from_str(&json).expect("one JSON value");
    assert_eq!(json["rows"].as_array().map(Vec::len), Some(8));
    assert!(json["rows"][0]["mops_median"].as_f64().is_some_and(|mops| mops > 0.0));
}

#[test]
fn memory_adds_up() {
    let text = bench(&["memory", "--keys", "500k"]);
    let parts = ["items_bytes", "table_bytes", "slack_bytes"].map(|part| number(&text, part));
    assert_eq!(number(&text, "total_bytes"), parts.iter().sum::<f64>(), "{text}");
    assert!((24.0..100.0).contains(&number(&text, "total_bytes_per_key")), "{text}");
}

#[test]
fn memory_of_a_server_is_that_of_its_process() {
    // Allocations of other tests do not count.
    let server = Process::start();
    let (address, pid) = (server.address(), server.pid().to_string());
    let load = ["memory", "--keys", "200k", "--target", &address, "--pid", &pid];
    let text = bench(&load);
    assert!(number(&text, "total_bytes_per_key") > 16.0, "{text}");
    let refusal = refused(&load);
    assert!(refusal.contains("holds 200000 keys"), "{refusal}");
}

#[test]
fn reclamation_compares_pins_and_shows_waiting_memory() {
    let text =
        bench(&["reclamation", "--iterations", "20k", "--rounds", "3", "--overwrites", "20k"]);
    for said in ["crossbeam-epoch: pin", "seize: enter", "own epochs"] {
        assert!(text.contains(said), "no {said:?} in:\n{text}");
    }
    let waiting = |when: &str| {
        let row = text.lines().rfind(|line| line.starts_with(when)).expect("a row of it");
        row.split('|').nth(3).expect("a cell").trim().parse::<u64>().expect("a number")
    };
    assert!(waiting("| stopped") > 1 << 20, "what a stopped reader holds up: {text}");
    assert!(waiting("| gone") < 1 << 20, "freed once it is gone: {text}");
}

#[test]
fn mercury_compares_locks_and_expansions() {
    let text = bench(&["mercury", "--keys", "20k", "--ops", "20k", "--rounds", "1"]);
    let rows = |what: &str| text.lines().filter(|line| line.starts_with(what)).count();
    assert_eq!((rows("| none"), rows("| test-and-set"), rows("| OS mutex")), (1, 2, 2), "{text}");
    assert_eq!((rows("| GET "), rows("| GET, PUT by halves")), (6, 6), "{text}");
    for said in ["machine: ", "before", "during", "after", "grown by the session", " 32768 |"] {
        assert!(text.contains(said), "no {said:?} in:\n{text}");
    }
}
