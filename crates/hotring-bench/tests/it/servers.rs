//! Servers over the wire: every kind of request is checked, and nothing is left behind.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::{Server, bench, refused};

/// Rounds that are as short as they can be: these tests are about answers, not about figures.
const SHORT: [&str; 9] =
    ["servers", "--rounds", "1", "--warmup", "0", "--seconds", "0.03", "--keys", "2k"];

/// Runs the tool and gives the rows that it writes.
fn rows(args: &[&str]) -> Vec<serde_json::Value> {
    let folder = tempfile::tempdir().expect("a place for a file");
    let path = folder.path().join("rows.json");
    let json = path.to_str().expect("a plain path");
    bench(&[&SHORT, args, &["--json", json]].concat());
    let text = std::fs::read_to_string(&path).expect("it was written");
    let results: serde_json::Value = serde_json::from_str(&text).expect("one JSON value");
    assert!(results["machine"]["kernel"].is_string());
    results["rows"].as_array().expect("rows").clone()
}

#[test]
fn all_workloads_run_against_a_server_that_is_left_empty() {
    let server = Server::start();
    let address = server.address();
    let rows = rows(&[
        "--target",
        &address,
        "--spawn",
        "null",
        "--workloads",
        "a,c,d,f,w,miss",
        "--pipeline",
        "1,16",
        "--connections",
        "5",
        "--client-threads",
        "2",
        "--skew",
        "0.99",
        "--base",
        &address,
    ]);
    let (ours, null): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row["server"] != "null");
    assert_eq!((ours.len(), null.len()), (12, 12));
    for row in ours {
        assert!(row["requests_per_second"].as_f64() > Some(0.0), "{row}");
        // The server is found by where it listens: it is this very process.
        assert!(row["cpu_us"].as_f64() > Some(0.0), "{row}");
        assert!(row["cpu_of_null"].as_f64() > Some(0.0), "{row}");
        assert_eq!(row["cpu_of_base"].as_f64(), Some(1.0), "{row}");
        assert!(row["version"].as_str().is_some_and(|v| v.starts_with("hotring ")), "{row}");
    }
    for row in null {
        assert_eq!(row["cpu_of_null"].as_f64(), Some(1.0), "{row}");
    }
    assert_eq!(ask(&address, "DBSIZE"), ":0");
}

#[test]
fn an_open_loop_keeps_its_rate() {
    let server = Server::start();
    let rows = rows(&["--target", &server.address(), "--rate", "1000,3000", "--pipeline", "4"]);
    assert_eq!(rows.len(), 2);
    for (row, asked) in rows.iter().zip([1000.0, 3000.0]) {
        assert_eq!(row["asked_per_second"].as_f64(), Some(asked));
        // The last of a schedule is due one interval before the end.
        let rate = row["requests_per_second"].as_f64().expect("a number");
        assert!(rate > 0.0 && rate < asked * 1.05, "{row}");
        assert!(row["latency_us_p50"].as_f64() > Some(0.0), "{row}");
    }
}

#[test]
fn the_papers_figures_over_the_wire_have_all_that_is_installed() {
    let (folder, scratch) = (tempfile::tempdir(), tempfile::tempdir());
    let (folder, scratch) = (folder.expect("a place for files"), scratch.expect("and another"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_hotring-bench"));
    command.args(["figures", "--scale", "tiny", "--only", "rhkv-7,rhkv-8", "--out"]);
    let output = command.arg(folder.path()).env("TMPDIR", scratch.path()).output();
    let output = output.expect("the tool was built");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // Also of a server that is not there, or does not start, nothing is left.
    assert_eq!(std::fs::read_dir(scratch.path()).expect("it is there").count(), 0);
    let text = std::fs::read_to_string(folder.path().join("report.json")).expect("it was written");
    let report: serde_json::Value = serde_json::from_str(&text).expect("one JSON value");
    for (figure, charts) in [(0, 4), (1, 2)] {
        let figure = &report["figures"][figure];
        assert_eq!(figure["charts"].as_array().map(Vec::len), Some(charts), "{figure}");
        for chart in figure["charts"].as_array().expect("charts") {
            let series = chart["series"].as_array().expect("series");
            let null = series.iter().find(|series| series["name"] == "null").expect("always there");
            let places = chart["categories"].as_array().map(Vec::len);
            assert_eq!(null["points"].as_array().map(Vec::len), places, "{chart}");
        }
    }
}

#[test]
fn started_servers_end_with_the_tool() {
    let folder = tempfile::tempdir().expect("a place for files");
    let mut command = Command::new(env!("CARGO_BIN_EXE_hotring-bench"));
    // Not hotring itself: the program beside this tool may be an old build.
    command.args(SHORT).args(["--spawn", "redis,memcached,null"]);
    command.args(["--server-threads", "2", "--sockets", "tcp,unix"]);
    command.args(["--pipeline", "3", "--connections", "4", "--value-size", "100"]);
    let output = command.env("TMPDIR", folder.path()).output().expect("the tool was built");
    let (text, notes) = (String::from_utf8(output.stdout), String::from_utf8(output.stderr));
    let (text, notes) = (text.expect("text"), notes.expect("text"));
    assert!(output.status.success(), "{notes}");
    // The null server is always there; a server that is not installed is reported.
    assert_eq!(text.lines().filter(|line| line.starts_with("| null ")).count(), 2, "{text}");
    for name in ["redis", "memcached"] {
        let measured = text.lines().filter(|line| line.starts_with(&format!("| {name} "))).count();
        let said = notes.contains(&format!("note: {name} left out"));
        assert!(measured == 2 && !said || measured == 0 && said, "{text}{notes}");
    }
    let left = std::fs::read_dir(folder.path()).expect("it is there").count();
    assert_eq!(left, 0, "logs and sockets are removed");
}

#[test]
fn started_servers_end_when_the_tool_is_interrupted() {
    let folder = tempfile::tempdir().expect("a place for files");
    let mut command = Command::new(env!("CARGO_BIN_EXE_hotring-bench"));
    command.args(["servers", "--spawn", "null", "--seconds", "600"]).stdout(Stdio::null());
    let tool = command.env("TMPDIR", folder.path()).stderr(Stdio::null()).spawn();
    let mut tool = Ended(tool.expect("the tool was built"));
    // Its log says that the server accepts connections.
    let server = wait_for(|| children(tool.0.id()).first().copied());
    wait_for(|| {
        let files = std::fs::read_dir(folder.path()).expect("it is there").flatten();
        let mut said = files.filter_map(|file| std::fs::read_to_string(file.path()).ok());
        said.find(|text| text.contains("null server on"))
    });
    let killed = Command::new("kill").args(["-TERM", &tool.0.id().to_string()]).status();
    assert!(killed.expect("a shell's kill").success());
    let status = tool.0.wait().expect("it is a child of this process");
    assert_eq!(status.code(), Some(130));
    wait_for(|| (!Path::new(&format!("/proc/{server}")).exists()).then_some(()));
    assert_eq!(std::fs::read_dir(folder.path()).expect("it is there").count(), 0);
}

/// A child that does not outlive a test that fails.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits long: how long it takes says nothing, that it never happens does.
fn wait_for<T>(ready: impl Fn() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = ready() {
            return found;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "it does not happen");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The processes that this one has started.
fn children(parent: u32) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").expect("this is Linux").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_child = |pid: &u32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        status.lines().any(|line| line == format!("PPid:\t{parent}"))
    };
    pids.filter(is_child).collect()
}

#[test]
fn a_server_that_loses_a_key_gets_no_figure() {
    let forgetful = scripted(|command| match command {
        "INFO" => "$20\r\nredis_version:1.2.3\n\r\n",
        "SET" => "+OK\r\n",
        "GET" => "$-1\r\n",
        _ => ":0\r\n",
    });
    let refusal = refused(&[&SHORT[..], &["--target", &forgetful]].concat());
    let wanted = format!("{forgetful} failed: wrong answer to Get of key ");
    assert!(refusal.contains(&wanted), "{refusal}");
}

#[test]
fn a_server_that_is_in_use_is_left_alone() {
    let used = scripted(|command| match command {
        "DBSIZE" => ":7\r\n",
        "INFO" => "$0\r\n\r\n",
        _ => "-ERR no other command is to come\r\n",
    });
    let refusal = refused(&[&SHORT[..], &["--target", &used]].concat());
    assert!(refusal.contains("holds 7 keys, which could be overwritten"), "{refusal}");
}

/// A server that answers every command as it is told, until this process ends.
fn scripted(answer: fn(&str) -> &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = format!("redis://{}", listener.local_addr().expect("it is bound"));
    let serve = move |stream: TcpStream| {
        let mut replies = stream.try_clone().expect("a socket can be shared");
        let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
        while let Some(args) = lines.next() {
            let args: usize = args.trim_start_matches('*').parse().expect("an array");
            // Before each argument is its length.
            let args: Vec<String> = lines.by_ref().take(2 * args).skip(1).step_by(2).collect();
            if replies.write_all(answer(&args[0]).as_bytes()).is_err() {
                return;
            }
        }
    };
    std::thread::spawn(move || {
        listener
            .incoming()
            .flatten()
            .for_each(|stream| drop(std::thread::spawn(move || serve(stream))));
    });
    address
}

/// One request without arguments, and the first line of its reply.
fn ask(address: &str, request: &str) -> String {
    let place = address.strip_prefix("redis://").expect("over TCP");
    let mut stream = BufReader::new(TcpStream::connect(place).expect("it listens"));
    stream.get_mut().write_all(format!("{request}\r\n").as_bytes()).expect("it reads");
    let mut line = String::new();
    stream.read_line(&mut line).expect("it answers");
    line.trim_end().to_owned()
}
