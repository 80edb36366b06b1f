//! The cost of surviving a crash, in short forms: the figures exist and make sense.

use std::path::Path;

use super::bench;
use super::process::program;

/// The figures of a part: servers of this very code, and of Redis where it is installed.
struct Figures {
    rows: Vec<serde_json::Value>,
    redis: bool,
    text: String,
}

fn figures(args: &[&str]) -> Figures {
    let folder = tempfile::tempdir().expect("a place for files");
    let (program, json) = (program(folder.path()), folder.path().join("figures.json"));
    let data = folder.path().join("data");
    std::fs::create_dir(&data).expect("a place for servers");
    let path = |path: &Path| path.to_str().expect("a plain path").to_owned();
    let (program, json, data) = (path(&program), path(&json), path(&data));
    let places = ["--program", &program, "--json", &json, "--data", &data, "--rounds", "2"];
    let text = bench(&[&["durability"], args, &places].concat());
    assert!(text.contains("\nfiles: "), "{text}");
    assert_eq!(std::fs::read_dir(data).expect("it is there").count(), 0, "folders are removed");
    let results = std::fs::read_to_string(json).expect("it was written");
    let results: serde_json::Value = serde_json::from_str(&results).expect("one JSON value");
    let rows = results["rows"].as_array().expect("rows").clone();
    let redis = rows.iter().any(|row| row["case"].as_str().is_some_and(|c| c.starts_with("redis")));
    Figures { rows, redis, text }
}

impl Figures {
    /// The median of a figure in all settings, of which there must be this number.
    fn all(&self, case: &str, figure: &str, settings: usize) -> Vec<f64> {
        let named = self.rows.iter().filter(|row| row["case"] == case && row["figure"] == figure);
        let medians: Vec<f64> = named.map(|row| row["median"].as_f64().expect("one")).collect();
        assert_eq!(medians.len(), settings, "{case}: {figure} of {}", self.text);
        medians
    }
}

#[test]
fn every_promise_of_a_log_has_its_figures() {
    let short = ["--keys", "2k", "--connections", "1,8", "--pipeline", "4", "--seconds", "0.1"];
    let figures = figures(&[&["modes"][..], &short].concat());
    let hotring = ["hotring off", "hotring async", "hotring everysec", "hotring sync"];
    let redis = ["redis off", "redis no", "redis everysec", "redis always"];
    let cases = hotring.iter().chain(redis.iter().filter(|_| figures.redis));
    for case in cases {
        for figure in [
            "requests/s",
            "mean us",
            "p50 us",
            "p99.9 us",
            "CPU us a request",
            "of off",
            "CPU of off",
        ] {
            assert!(figures.all(case, figure, 2).iter().all(|value| *value > 0.0), "{case}");
        }
    }
    for case in hotring.iter().filter(|_| figures.redis) {
        figures.all(case, "of redis", 2);
    }
    // About half of four requests are writes, of each of eight connections: they share syncs.
    let shared = figures.all("hotring sync", "records a sync", 2);
    assert!(shared[0] >= 1.0 && shared[1] > shared[0], "{shared:?} in {}", figures.text);
    for relation in ["of off", "CPU of off"] {
        assert_eq!(figures.all("hotring off", relation, 2), [1.0, 1.0]);
    }
}

#[test]
fn a_synchronous_log_shares_no_sync_where_one_connection_writes_one_record_at_a_time() {
    let one = ["--mix", "writes", "--connections", "1", "--pipeline", "1", "--log", "sync"];
    let short = ["--keys", "1k", "--seconds", "0.05", "--servers", "hotring"];
    let figures = figures(&[&["modes"][..], &one, &short].concat());
    assert!(figures.text.contains("SET only, 1 connection,"), "{}", figures.text);
    assert_eq!(figures.all("hotring sync", "records a sync", 1), [1.0]);
}

#[test]
fn a_killed_server_is_timed_until_it_serves_again() {
    let short = ["--keys", "30k", "--reads", "500", "--writes", "1k"];
    let figures = figures(&[&["restart"][..], &short].concat());
    let hotring = ["hotring, snapshot and log", "hotring, log alone"];
    let redis = ["redis, AOF with RDB preamble", "redis, log alone", "redis, RDB"];
    for case in hotring.iter().chain(redis.iter().filter(|_| figures.redis)) {
        let [accepts, hot, all] = ["accepts ms", "first hot key ms", "all ms"]
            .map(|figure| figures.all(case, figure, 1)[0]);
        assert!(0.0 < accepts && accepts < hot && hot <= all, "{}", figures.text);
        assert!(figures.all(case, "keys/s", 1)[0] > 0.0, "{case}");
        // The values alone are three; the log has a thousand more.
        assert!(figures.all(case, "MB of files", 1)[0] > 3.0, "{}", figures.text);
    }
}

#[test]
fn writers_beside_a_snapshot_have_their_figures() {
    let short = ["--keys", "20k", "--connections", "4", "--seconds", "0.3"];
    let figures = figures(&[&["snapshot"][..], &short].concat());
    for server in ["hotring", "redis"].iter().filter(|name| **name == "hotring" || figures.redis) {
        let (quiet, snapshot) = (format!("{server}, quiet"), format!("{server}, snapshot"));
        for case in [&quiet, &snapshot] {
            for figure in
                ["SET/s", "p50 us", "p99.9 us", "max us", "longest pause us", "memory before MB"]
            {
                assert!(figures.all(case, figure, 1)[0] > 0.0, "{}", figures.text);
            }
        }
        for figure in ["rate of quiet", "snapshots", "seconds of each", "of the window %"] {
            assert!(figures.all(&snapshot, figure, 1)[0] > 0.0, "{}", figures.text);
        }
        // The values alone are two.
        assert!(figures.all(&snapshot, "snapshot MB", 1)[0] > 2.0, "{}", figures.text);
        figures.all(&quiet, "snapshots", 0);
    }
}

#[test]
fn requests_beside_a_snapshot_of_a_giant_hash_have_their_figures() {
    let figures = figures(&["giant", "--fields", "50k", "--seconds", "0.3"]);
    for server in ["hotring", "redis"].iter().filter(|name| **name == "hotring" || figures.redis) {
        let (quiet, snapshot) = (format!("{server}, quiet"), format!("{server}, snapshot"));
        for case in [&quiet, &snapshot, &format!("{server}, busy thread")] {
            for figure in ["HSET p50 us", "SET p99.9 us", "GET max us"] {
                assert!(figures.all(case, figure, 1)[0] > 0.0, "{}", figures.text);
            }
        }
        // The values alone are five.
        assert!(figures.all(&snapshot, "snapshot MB", 1)[0] > 5.0, "{}", figures.text);
        figures.all(&quiet, "snapshot MB", 0);
    }
}

#[test]
fn replicas_have_their_cost() {
    let short = ["--keys", "20k", "--copied", "20k", "--seconds", "0.1", "--copy-seconds", "0.3"];
    let figures = figures(&[&["replicas", "--pipeline", "16"][..], &short].concat());
    for server in ["hotring", "redis"].iter().filter(|name| **name == "hotring" || figures.redis) {
        let replicated = format!("{server}, with a replica");
        for figure in ["SET/s", "CPU us a request", "replica CPU us", "CPU of alone"] {
            assert!(figures.all(&replicated, figure, 1)[0] > 0.0, "{}", figures.text);
        }
        assert_eq!(figures.all(&format!("{server}, alone"), "CPU of alone", 1), [1.0]);
        figures.all(&format!("{server}, alone"), "replica CPU us", 0);
        for case in ["full copy", "load of files"] {
            let seconds = figures.all(&format!("{server}, {case}"), "seconds", 1)[0];
            assert!(seconds > 0.0, "{}", figures.text);
        }
        assert!(figures.all(&format!("{server}, full copy"), "p99.9 of quiet", 1)[0] > 0.0);
    }
    assert!(figures.all("hotring, ack replicated", "rate of with a replica", 1)[0] > 0.0);
    for ack in ["local", "replicated"] {
        let case = format!("hotring, GET beside a writer, ack {ack}");
        for figure in ["GET/s", "CPU us a GET", "SET/s"] {
            assert!(figures.all(&case, figure, 1)[0] > 0.0, "{}", figures.text);
        }
        let ratios = figures.all(&case, "CPU of ack local", usize::from(ack == "replicated"));
        assert!(ratios.iter().all(|ratio| *ratio > 0.0), "{}", figures.text);
    }
}

#[test]
fn files_and_memory_are_counted_as_values_are_overwritten() {
    let folder = tempfile::tempdir().expect("a place for plots");
    let plots = folder.path().to_str().expect("a plain path");
    let figures = figures(&["space", "--keys", "20k", "--passes", "2", "--plot", plots]);
    let servers =
        ["hotring", "redis"].into_iter().filter(|name| *name == "hotring" || figures.redis);
    for server in servers.clone() {
        for case in ["loaded", "overwritten 1x", "overwritten 2x"] {
            let of = |figure| figures.all(&format!("{server}, {case}"), figure, 1)[0];
            assert!(1.0 < of("of live") && of("of live") <= of("most"), "{}", figures.text);
            assert!(of("live MB") <= of("MB written"), "{}", figures.text);
            assert!(of("MB written") <= of("MB allocated"), "{}", figures.text);
            assert!(of("of live, in memory") > 1.0, "{}", figures.text);
        }
        // A log without rewriting has everything ever written: the load and two passes.
        let grown =
            figures.all(&format!("{server}, log only, overwritten 2x"), "of live, written", 1);
        assert!(grown[0] > 3.0, "{}", figures.text);
    }
    // 20,000 keys and values are 2 MB; preallocated space is no part of the written bytes.
    let [length, written] =
        ["MB", "MB written"].map(|figure| figures.all("hotring, loaded", figure, 1)[0]);
    assert!(length > 60.0 && written < 5.0, "{}", figures.text);
    for plot in ["space.svg", "space-memory.svg"] {
        let plot = std::fs::read_to_string(folder.path().join(plot)).expect("it was drawn");
        assert_eq!(plot.matches("log only</text>").count(), servers.clone().count(), "{plot}");
    }
}

#[test]
fn the_figures_of_papers_about_logs_are_measured() {
    let folder = tempfile::tempdir().expect("a place for files");
    let path = |path: &Path| path.to_str().expect("a plain path").to_owned();
    let (program, out) = (path(&program(folder.path())), folder.path().join("report"));
    let which = ["figures", "--scale", "tiny", "--only", "durable-table-1,rhkv-space"];
    let places = ["--program", &program, "--data", &path(folder.path()), "--out", &path(&out)];
    bench(&[&which[..], &places].concat());
    let report = std::fs::read_to_string(out.join("report.json")).expect("it was written");
    let report: serde_json::Value = serde_json::from_str(&report).expect("one JSON value");
    assert!(!report["notes"].to_string().contains("table 1"), "{report}");
    let figures = report["figures"].as_array().expect("figures");
    let ids: Vec<_> = figures.iter().map(|figure| figure["id"].as_str().expect("one")).collect();
    assert_eq!(ids, ["rhkv-space", "durable-table-1"]);
    for (figure, charts) in figures.iter().zip([2, 3]) {
        assert!(!figure["claims"].as_array().expect("claims").is_empty(), "{figure}");
        let drawn = figure["charts"].as_array().expect("charts");
        assert_eq!(drawn.len(), charts, "{figure}");
        for series in drawn.iter().flat_map(|chart| chart["series"].as_array().expect("series")) {
            let points = series["points"].as_array().expect("points");
            assert!(!points.is_empty(), "{series}");
            assert!(points.iter().all(|point| point["y"].as_f64().expect("one") > 0.0), "{series}");
        }
    }
    // A database alone on its server: the log has all of it, the snapshot no less than keys and values.
    let bars = &figures[0]["charts"][0]["series"][0]["points"];
    assert!((0..3).all(|at| bars[at]["y"].as_f64().expect("one") > 1.0), "{bars}");
}
