//! Tests of the admin address: valid and consistent metrics, health checks, the status page, and
//! the files for dashboards and alerts, which must name only existing metrics.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

use hotring_server::{Config, metrics_markdown, start};

use crate::wire::{TestServer, Wire, request};

fn server() -> TestServer {
    TestServer::with(|config| config.admin = Some("127.0.0.1:0".to_string()))
}

/// The status line with the headers, and the body.
fn ask(address: SocketAddr, head: &str) -> (String, String) {
    ask_as(address, "localhost", head)
}

/// The same with `host` as the server's name.
fn ask_as(address: SocketAddr, host: &str, head: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    write!(stream, "{head} HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no HTTP: {text}"));
    (head.to_string(), body.to_string())
}

/// The same of a request for this path.
pub fn get(address: SocketAddr, path: &str) -> (String, String) {
    ask(address, &format!("GET {path}"))
}

/// Regression test: a worker that was stuck for ever was reported as healthy.
#[test]
fn a_thread_that_is_stuck_is_not_healthy() {
    let server = TestServer::with(|config| {
        config.admin = Some("127.0.0.1:0".to_string());
        config.threads = 1;
        config.watchdog_ms = 500;
        config.debug_command = hotring_server::Guard::Yes;
    });
    assert!(get(server.admin(), "/healthz").0.starts_with("HTTP/1.1 200 "));
    let mut wire = server.connect();
    // Long enough to be reached on a busy machine.
    wire.send(&request(&["DEBUG", "SLEEP", "4"]));
    let until = |wanted: &str| {
        for _ in 0..1_000 {
            let (head, body) = get(server.admin(), "/healthz");
            if head.starts_with(wanted) {
                return body;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("/healthz never answered {wanted}")
    };
    let body = until("HTTP/1.1 503 ");
    assert!(body.starts_with("the thread hotring-io-0 has been stuck for "), "{body}");
    assert_eq!(wire.reply().text(), "OK");
    assert_eq!(until("HTTP/1.1 200 "), "ok\n");
}

/// The values of metrics by name and labels; every line must be one, or a comment.
pub fn metrics(address: SocketAddr) -> BTreeMap<String, f64> {
    let (head, body) = get(address, "/metrics");
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert!(head.contains("content-type: text/plain; version=0.0.4"), "{head}");
    let mut values = BTreeMap::new();
    let mut typed = BTreeSet::new();
    for line in body.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            typed.insert(rest.split(' ').next().unwrap().to_string());
        } else if !line.starts_with("# HELP ") {
            let (name, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line:?}"));
            let family = family(name.split('{').next().unwrap());
            assert!(typed.contains(family), "{line:?} has no type");
            let value = value.parse().unwrap_or_else(|_| panic!("{line:?}"));
            assert!(values.insert(name.to_string(), value).is_none(), "{name} twice");
        }
    }
    values
}

/// The metric of a line: the lines of histograms have other names.
fn family(name: &str) -> &str {
    let parts = ["_bucket", "_sum", "_count"];
    parts.into_iter().find_map(|part| name.strip_suffix(part)).unwrap_or(name)
}

#[test]
fn metrics_count_events() {
    let server = server();
    let admin = server.admin();
    let mut wire = server.connect();
    for i in 0..10 {
        assert_eq!(wire.say(&format!("SET key:{i} v EX 100")).text(), "OK");
    }
    wire.say("GET key:1");
    wire.say("GET nothing");
    wire.say("INCR key:1");
    wire.say("GET");
    let seen = metrics(admin);
    let value = |name: &str| *seen.get(name).unwrap_or_else(|| panic!("no {name}"));
    assert_eq!(value("hotring_commands_total{cmd=\"set\",protocol=\"redis\"}"), 10.0);
    assert_eq!(value("hotring_commands_total{cmd=\"get\",protocol=\"redis\"}"), 2.0);
    assert_eq!(value("hotring_command_failures_total{cmd=\"incr\",protocol=\"redis\"}"), 1.0);
    assert_eq!(value("hotring_command_rejections_total{cmd=\"get\",protocol=\"redis\"}"), 1.0);
    assert_eq!(value("hotring_error_replies_total"), 2.0);
    assert_eq!(value("hotring_requests_total"), 14.0);
    assert_eq!(value("hotring_keyspace_hits_total"), 1.0);
    assert_eq!(value("hotring_keyspace_misses_total"), 1.0);
    assert_eq!(value("hotring_db_keys{db=\"0\"}"), 10.0);
    assert_eq!(value("hotring_db_keys_expiring{db=\"0\"}"), 10.0);
    assert_eq!(value("hotring_connected_clients"), 1.0);
    assert_eq!(value("hotring_connections_received_total"), 1.0);
    assert!(value("hotring_memory_used_bytes") > 0.0);
    assert!(value("hotring_memory_rss_bytes") > 100_000.0);
    assert!(value("hotring_net_input_bytes_total") > 100.0);
    // The first command of a thread is always timed.
    let timed = "hotring_command_duration_seconds";
    assert!(value(&format!("{timed}_sum{{cmd=\"set\",protocol=\"redis\"}}")) > 0.0);
    let last = value(&format!("{timed}_bucket{{cmd=\"set\",protocol=\"redis\",le=\"+Inf\"}}"));
    assert_eq!(last, value(&format!("{timed}_count{{cmd=\"set\",protocol=\"redis\"}}")));
    let le = format!("{timed}_bucket{{cmd=\"set\",protocol=\"redis\",le=\"0.000001\"}}");
    assert!(value(&le) <= last, "{le}");
    // Counters of Prometheus must never go back.
    wire.say("CONFIG RESETSTAT");
    assert_eq!(metrics(admin)["hotring_commands_total{cmd=\"set\",protocol=\"redis\"}"], 10.0);
}

#[test]
fn pages_are_there_and_nothing_else() {
    let server = server();
    let admin = server.admin();
    assert_eq!(get(admin, "/healthz").1, "ok\n");
    assert_eq!(get(admin, "/readyz").1, "ready\n");
    let mut wire = server.connect();
    assert_eq!(wire.ask(&["CLIENT", "SETNAME", "<script>"]).text(), "OK");
    assert_eq!(wire.ask(&["SET", "greeting", "hello"]).text(), "OK");
    let (head, page) = get(admin, "/");
    assert!(head.contains("content-security-policy: default-src 'none'"), "{head}");
    assert!(page.contains("&lt;script&gt;") && !page.contains("<script"), "{page}");
    for wanted in ["Rates", "Memory and keys", "Largest values", "Clients", "CLIENT SETNAME"] {
        assert!(page.contains(wanted), "no {wanted} in {page}");
    }
    assert!(get(admin, "/config").0.starts_with("HTTP/1.1 404 "));
    assert!(ask(admin, "POST /metrics").0.starts_with("HTTP/1.1 405 "));
    assert!(ask(admin, "NONSENSE").0.starts_with("HTTP/1.1 400 "));
    let long = format!("GET /{}", "x".repeat(100_000));
    assert!(ask_carelessly(admin, &long).starts_with("HTTP/1.1 4"));
    // It still answers.
    assert_eq!(get(admin, "/healthz").1, "ok\n");
}

/// As `ask`, for a server that may close before it has read everything.
fn ask_carelessly(address: SocketAddr, head: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let _ = write!(stream, "{head} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Regression test: a foreign page whose host name resolved to 127.0.0.1 could read everything.
#[test]
fn on_loopback_only_the_machines_own_names_are_answered() {
    let server = server();
    let status = |host: &str| {
        let head = ask_as(server.admin(), host, "GET /metrics").0;
        head.split(' ').nth(1).unwrap().to_string()
    };
    for host in ["127.0.0.1", "localhost:9121", "LOCALHOST", "[::1]:9121", "[::1]"] {
        assert_eq!(status(host), "200", "{host}");
    }
    for host in ["evil.example", "evil.example:9121", "127.0.0.1.evil.example", "a@b@c", ""] {
        assert_eq!(status(host), "421", "{host}");
    }
    // Others can reach it anyway, by any name.
    let server = TestServer::with(|config| {
        config.admin = Some("0.0.0.0:0".to_string());
        config.protected_mode = false;
    });
    let here = ([127, 0, 0, 1], server.admin().port()).into();
    assert!(ask_as(here, "cache.internal", "GET /healthz").0.starts_with("HTTP/1.1 200 "));
}

/// Idle connections would keep others out.
#[test]
fn a_connection_is_for_one_request() {
    let (head, _) = get(server().admin(), "/healthz");
    assert!(head.contains("connection: close"), "{head}");
}

/// Regression test: each silent connection held a place for ten seconds, and 64 of them kept all
/// others out.
#[test]
fn silent_connections_keep_no_client_out() {
    let server = server();
    let mut silent: Vec<TcpStream> =
        (0..100).map(|_| TcpStream::connect(server.admin()).unwrap()).collect();
    assert_eq!(get(server.admin(), "/healthz").1, "ok\n");
    // The oldest was closed.
    assert_eq!(silent[0].read_to_end(&mut Vec::new()).unwrap_or(0), 0, "it was answered");
}

#[test]
fn commands_of_memcached_are_counted_apart() {
    let server = TestServer::with(|config| {
        config.admin = Some("127.0.0.1:0".to_string());
        config.memcached.listen = vec!["127.0.0.1:0".to_string()];
    });
    let mut stream = TcpStream::connect(server.memcached_address()).unwrap();
    stream
        .write_all(b"set a 0 0 1\r\nx\r\nget a b\r\nincr a 1\r\nmg a v\r\nbogus\r\nquit\r\n")
        .unwrap();
    let mut replies = String::new();
    stream.read_to_string(&mut replies).unwrap();
    let seen = metrics(server.admin());
    let count = |metric: &str, cmd: &str| {
        let name = format!("hotring_{metric}{{cmd=\"{cmd}\",protocol=\"memcached\"}}");
        seen.get(&name).copied()
    };
    for (cmd, failures) in [("set", 0.0), ("get", 0.0), ("incr", 1.0), ("mg", 0.0), ("quit", 0.0)] {
        assert_eq!(count("commands_total", cmd), Some(1.0), "{cmd}: {replies}");
        assert_eq!(count("command_failures_total", cmd), Some(failures), "{cmd}: {replies}");
        // The first requests of a thread are timed.
        assert_eq!(count("command_duration_seconds_count", cmd), Some(1.0), "{cmd}");
    }
    assert_eq!(count("commands_total", "gets"), None);
    assert!(!seen.keys().any(|name| name.contains("protocol=\"redis\"")), "{seen:?}");
    assert!(get(server.admin(), "/").1.contains("<td>MG<td>memcached<td class=n>1"));
}

#[test]
fn while_clients_are_let_go_it_says_so() {
    let server = server();
    let admin = server.admin();
    let mut wire = server.connect();
    let value = "v".repeat(1 << 20);
    assert_eq!(wire.ask(&["SET", "big", &value]).text(), "OK");
    let n = 50;
    wire.send(&request(&["GET", "big"]).repeat(n));
    // The first reply is under way: the other requests have been read with it, or are in the
    // kernel's buffers.
    assert_eq!(wire.reply().text().len(), value.len());
    server.ask_to_stop();
    let (head, body) = get(admin, "/readyz");
    assert!(head.starts_with("HTTP/1.1 503 "), "{head}");
    assert_eq!(body, "shutting down\n");
    assert_eq!(get(admin, "/healthz").1, "ok\n");
    assert!(get(admin, "/").1.contains("The server is shutting down."));
    wire.read_to_end();
    server.stop();
    assert!(TcpStream::connect(admin).is_err(), "it has outlived the server");
}

#[test]
fn addresses_that_others_can_reach_need_a_clear_word() {
    let config = Config { port: 0, admin: Some("0.0.0.0:0".to_string()), ..Config::default() };
    let Err(error) = start(config) else { panic!("the server started") };
    assert!(error.to_string().contains("--protected-mode no"), "{error}");
    let without = TestServer::new();
    assert!(without.admin_address().is_none());
    assert_eq!(Wire::connect(without.address).say("PING").text(), "PONG");
}

/// Names of metrics in a text, with histograms under their own names.
fn named(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let names = text.match_indices("hotring_").map(|(at, _)| {
        let rest = &text[at..];
        &rest[..rest.find(|c| !is_part(c)).unwrap_or(rest.len())]
    });
    names.map(|name| family(name).to_string()).collect()
}

#[test]
fn dashboards_and_alerts_name_metrics_that_there_are() {
    let there = named(&metrics_markdown());
    assert!(there.len() > 30 && there.contains("hotring_command_duration_seconds"), "{there:?}");
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../packaging/monitoring");
    for file in ["dashboard.json", "alerts.yml"] {
        let text = std::fs::read_to_string(folder.join(file)).unwrap();
        let used = named(&text);
        assert!(used.len() > 5, "{file} names {used:?}");
        let unknown: Vec<_> = used.difference(&there).collect();
        assert!(unknown.is_empty(), "{file} names {unknown:?}, which are not exported");
    }
    let text = std::fs::read_to_string(folder.join("dashboard.json")).unwrap();
    let dashboard: serde_json::Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    assert!(panels.len() > 5);
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        let targets = panel["targets"].as_array().unwrap();
        assert!(targets.iter().all(|target| target["expr"].is_string()), "{panel}");
    }
}
