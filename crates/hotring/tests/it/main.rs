//! Tests of the program: its start, its start errors, its end by signals, and its messages to the
//! service manager.

mod cluster;
mod cluster_changes;
mod cluster_demo;
mod cluster_messages;
mod cluster_moves;
mod cluster_tls;
mod files;
mod idle;
mod messages;
mod nemesis;
mod proxy;
mod redis;
mod replication;
#[path = "../../../hotring-store/tests/it/search.rs"]
mod search;
mod transfer;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, tcgetattr};

/// The program, without settings from the environment of the tests.
fn hotring(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hotring"));
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("HOTRING_") || text.starts_with("NOTIFY_") || text == "REDISCLI_AUTH" {
            command.env_remove(name);
        }
    }
    command.args(words).stdin(Stdio::null());
    command
}

fn output(command: &mut Command) -> Output {
    command.output().expect("the program runs")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A folder for one test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("hotring-it-{}-{name}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Folder(path)
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A server on its own port, with a server log in JSON.
struct Server {
    process: Child,
    log: Box<dyn BufRead + Send>,
    address: String,
    /// The addresses for messages.
    fabric: String,
    /// The lines that it wrote before it listened.
    told: String,
}

impl Server {
    fn start(command: &mut Command) -> Self {
        command.args(["--log-format", "json", "--threads", "1"]);
        let mut process = command.stderr(Stdio::piped()).spawn().expect("the program runs");
        let log = Box::new(BufReader::new(process.stderr.take().unwrap()));
        let mut server = Server {
            process,
            log,
            address: String::new(),
            fabric: String::new(),
            told: String::new(),
        };
        loop {
            let line = next_line(&mut server.log);
            match line["addresses"].as_str() {
                Some(addresses) => {
                    server.address = addresses.trim_matches(['[', ']']).to_string();
                    server.fabric = line["fabric"].as_str().unwrap_or_default().to_string();
                    return server;
                }
                None => server.told.push_str(&line.to_string()),
            }
        }
    }

    fn connect(&self) -> BufReader<TcpStream> {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        BufReader::new(stream)
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.process);
        kill_process(pid, signal).expect("it is our child");
    }

    /// Reads its server log from now on, so that it never waits for a reader.
    fn read_log_beside(&mut self) -> Arc<Mutex<String>> {
        let told = Arc::new(Mutex::new(self.told.clone()));
        let (log, all) =
            (std::mem::replace(&mut self.log, Box::new(std::io::empty())), told.clone());
        std::thread::spawn(move || {
            for line in log.lines().map_while(Result::ok) {
                all.lock().unwrap().push_str(&(line + "\n"));
            }
        });
        told
    }

    /// Its status, and the rest of its server log.
    fn end(&mut self) -> (ExitStatus, String) {
        let mut rest = String::new();
        self.log.read_to_string(&mut rest).unwrap();
        (self.process.wait().unwrap(), rest)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It has ended already unless the test has failed.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn next_line(log: &mut impl BufRead) -> serde_json::Value {
    let mut line = String::new();
    log.read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
}

fn say(stream: &mut BufReader<TcpStream>, line: &str) -> String {
    stream.get_mut().write_all(format!("{line}\r\n").as_bytes()).unwrap();
    let mut reply = String::new();
    stream.read_line(&mut reply).unwrap();
    reply.trim_end().to_string()
}

#[test]
fn sigterm_answers_received_requests_and_exits_with_0() {
    let mut server = Server::start(&mut hotring(&["serve", "--port", "0"]));
    let mut stream = server.connect();
    let len = 1 << 20;
    assert_eq!(say(&mut stream, &format!("SETRANGE big {} v", len - 1)), format!(":{len}"));
    // More than the kernel's buffers hold: most of it waits in the server when the signal comes.
    let n = 30;
    stream.get_mut().write_all("GET big\r\n".repeat(n).as_bytes()).unwrap();
    let mut all = vec![0];
    stream.read_exact(&mut all).unwrap();
    server.signal(Signal::TERM);
    stream.read_to_end(&mut all).unwrap();
    assert_eq!(all.len(), n * (len + "$1048576\r\n\r\n".len()));
    let (status, log) = server.end();
    assert!(status.success(), "{status}: {log}");
    for line in log.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let has = |name: &str| line[name].is_string();
        assert!(has("timestamp") && has("level") && has("message"), "{line}");
    }
    assert!(log.contains("SIGTERM: finishing what has arrived"), "{log}");
}

/// Regression test: SIGTERM waited for ever for a stuck thread.
#[test]
fn sigterm_ends_a_server_with_a_stuck_thread() {
    let folder = Folder::new("deadline");
    let data = folder.0.join("data");
    let mut command = hotring(&["serve", "--port", "0", "--enable-debug-command", "yes"]);
    command.args(["--shutdown-timeout", "1", "--log", "everysec", "--data"]).arg(&data);
    let mut server = Server::start(&mut command);
    let mut stream = server.connect();
    assert_eq!(say(&mut stream, "SET k v"), "+OK");
    stream.get_mut().write_all(b"DEBUG SLEEP 50\r\n").unwrap();
    std::thread::sleep(Duration::from_millis(200));
    let start = std::time::Instant::now();
    server.signal(Signal::TERM);
    let (status, log) = server.end();
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    assert_eq!(status.code(), Some(70), "{log}");
    assert!(
        log.contains(
            "shutdown took longer than 1 s (shutdown-timeout); hotring-io-0 was last seen"
        ),
        "{log}"
    );
    assert!(log.contains("the log is synced"), "{log}");
}

#[test]
fn the_service_manager_learns_of_start_and_end() {
    let folder = Folder::new("notify");
    let path = folder.0.join("notify.sock");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut command = hotring(&["serve", "--port", "0"]);
    let mut server = Server::start(command.env("NOTIFY_SOCKET", &path));
    let message = || {
        let mut bytes = [0; 100];
        let n = socket.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..n]).trim_end().to_string()
    };
    assert_eq!(message(), "READY=1");
    server.signal(Signal::INT);
    assert_eq!(message(), "STOPPING=1");
    assert!(server.end().0.success());
}

#[test]
fn sources_of_settings_are_read_in_their_order() {
    let folder = Folder::new("sources");
    let conf = folder.file(
        "redis.conf",
        "port 1\ntimeout 1\ntcp-keepalive 1\nhz 10\nmaxclients 1\nsave \"\"\nbind 127.0.0.1\n",
    );
    let toml = folder.file("hotring.toml", "port = 0 # any\ntimeout = 2\nrequest-timeout = 2\n");
    let words = ["serve", "--redis-conf", &conf, "--config", &toml, "--maxclients", "3"];
    let mut command = hotring(&words);
    command.env("HOTRING_REQUEST_TIMEOUT", "3");
    let mut server = Server::start(&mut command);
    assert!(server.told.contains("line 4: hz has no effect here"), "{}", server.told);
    let mut stream = server.connect();
    let mut setting = |name: &str| {
        let lines: Vec<String> = std::iter::once(say(&mut stream, &format!("CONFIG GET {name}")))
            .chain((0..4).map(|_| {
                let mut line = String::new();
                stream.read_line(&mut line).unwrap();
                line.trim_end().to_string()
            }))
            .collect();
        lines[4].clone()
    };
    let seen = ["timeout", "tcp-keepalive", "request-timeout", "maxclients"].map(&mut setting);
    assert_eq!(seen, ["2", "1", "3", "3"]);
    assert_eq!(say(&mut stream, "CONFIG SET timeout 9"), "+OK");
    assert_eq!(say(&mut stream, "CONFIG REWRITE"), "+OK");
    let text = std::fs::read_to_string(&toml).unwrap();
    let expected =
        // Settings from other sources stay there.
        "port = 0 # any\ntimeout = 9\nrequest-timeout = 2\n";
    let lines = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_string).collect();
        lines.sort();
        lines
    };
    assert_eq!(lines(&text), lines(expected));
    server.signal(Signal::TERM);
    assert!(server.end().0.success());
    // Without a file there is nothing to rewrite.
    let mut server = Server::start(&mut hotring(&["serve", "--port", "0"]));
    let reply = say(&mut server.connect(), "CONFIG REWRITE");
    assert_eq!(reply, "-ERR The server is running without a config file");
    server.signal(Signal::TERM);
    assert!(server.end().0.success());
}

/// A new terminal: the user's side and the program's side.
fn terminal() -> (OwnedFd, OwnedFd) {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap();
    let theirs = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
    (ours, theirs)
}

/// Regression test: the terminal was left without echo.
#[test]
fn a_lost_connection_leaves_the_terminal_as_it_was() {
    let mut server = Server::start(&mut hotring(&["serve", "--port", "0"]));
    let (ours, theirs) = terminal();
    let modes = || tcgetattr(&theirs).unwrap().local_modes;
    let before = modes();
    assert!(before.contains(LocalModes::ICANON | LocalModes::ECHO));
    let mut top = hotring(&["top", "--address", &server.address]);
    top.stdin(theirs.try_clone().unwrap()).stdout(theirs.try_clone().unwrap());
    let mut top = top.stderr(Stdio::piped()).spawn().unwrap();
    let mut seen = std::fs::File::from(ours.try_clone().unwrap());
    // Ends when the other side is closed, or with the test.
    std::thread::spawn(move || std::io::copy(&mut seen, &mut std::io::sink()));
    while modes().contains(LocalModes::ICANON) {
        assert!(top.try_wait().unwrap().is_none(), "it has ended before it waited for a key");
        std::thread::yield_now();
    }
    server.signal(Signal::TERM);
    assert!(server.end().0.success());
    assert_eq!(top.wait().unwrap().code(), Some(1));
    assert_eq!(modes(), before);
}

#[test]
fn a_server_that_asks_for_a_password_lives() {
    let mut server =
        Server::start(&mut hotring(&["serve", "--port", "0", "--requirepass", "secret"]));
    let words = ["ping", "--address", &server.address];
    let ping = output(&mut hotring(&words));
    assert!(ping.status.success(), "{}", stderr(&ping));
    assert!(ping.stdout.starts_with(b"NOAUTH "));
    let ping = output(hotring(&words).env("REDISCLI_AUTH", "secret"));
    assert_eq!((ping.status.code(), ping.stdout.as_slice()), (Some(0), &b"PONG\n"[..]));
    assert_eq!(output(hotring(&words).env("REDISCLI_AUTH", "wrong")).status.code(), Some(1));
    server.signal(Signal::TERM);
    assert!(server.end().0.success());
}

/// Regression test: the greeting and the message to systemd were sent twice, the first time before
/// signals were handled.
#[test]
fn it_says_once_that_it_is_there() {
    let mut server = Server::start(&mut hotring(&["serve", "--port", "0"]));
    server.signal(Signal::TERM);
    let (status, log) = server.end();
    assert!(status.success());
    assert!(!log.contains("accepting connections"), "{log}");
}

/// Regression test: no line said that data was not kept, or that existing data was not read.
#[test]
fn a_start_reports_how_data_is_kept() {
    let folder = Folder::new("data");
    let data = folder.0.join("data").display().to_string();
    let start = |log: &str| {
        let words = ["serve", "--port", "0", "--log", log, "--data", &data];
        let mut process = hotring(&words).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let told =
            lines.find_map(|line| line.unwrap().trim().strip_prefix("data:").map(str::to_string));
        kill_process(Pid::from_child(&process), Signal::TERM).unwrap();
        lines.for_each(drop);
        assert!(process.wait().unwrap().success());
        told.unwrap_or_default()
    };
    let told = start("off");
    assert!(told.contains("NOT KEPT") && told.contains("--log everysec --data DIR"), "{told}");
    assert!(!folder.0.join("data").exists(), "a look at the folder makes none");
    let told = start("everysec");
    assert!(told.contains(&format!("kept in {data} (log everysec)")), "{told}");
    // No key has been written: there is nothing to lose.
    assert!(start("off").contains("NOT KEPT"));
    let words = ["serve", "--port", "0", "--log", "everysec", "--data", &data];
    let mut server = Server::start(&mut hotring(&words));
    assert_eq!(say(&mut server.connect(), "SET k v"), "+OK");
    server.signal(Signal::TERM);
    assert!(server.end().0.success());
    // Without the log its key would not be there.
    let refused = output(&mut hotring(&["serve", "--port", "0", "--data", &data]));
    assert_eq!(refused.status.code(), Some(1));
    let text = stderr(&refused);
    assert!(text.contains(&format!("--log everysec --data {data}")), "{text}");
}

/// The address of the example is of no machine, so the start ends there and not before.
#[test]
fn the_example_of_a_node_has_settings_that_there_are() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/cluster/node.toml");
    let started = output(&mut hotring(&["serve", "--config", file]));
    assert_eq!(started.status.code(), Some(1));
    let why = stderr(&started);
    assert!(why.contains("192.0.2.11"), "{why}");
}

#[test]
fn an_unknown_setting_stops_the_start() {
    let folder = Folder::new("wrong");
    let toml = folder.file("hotring.toml", "port = 0\nmax-clients = 3\n");
    let wrong = output(&mut hotring(&["serve", "--config", &toml]));
    assert_eq!(wrong.status.code(), Some(1));
    let text = stderr(&wrong);
    assert!(text.contains("hotring.toml, line 2: there is no setting 'max-clients'"), "{text}");
    assert!(text.contains("did you mean 'maxclients'?"), "{text}");
    let wrong = output(hotring(&["serve", "--port", "0"]).env("HOTRING_THREAD", "1"));
    assert_eq!(wrong.status.code(), Some(1));
    let text = stderr(&wrong);
    assert!(text.contains("variable HOTRING_THREAD: there is no setting 'thread'"), "{text}");
    let wrong = output(&mut hotring(&["serve", "--max-clients", "3"]));
    assert_eq!(wrong.status.code(), Some(2));
    assert!(stderr(&wrong).contains("--maxclients"), "{}", stderr(&wrong));
}

/// Regression test: TLS addresses were left out.
#[test]
fn protected_mode_is_reported_for_tls_addresses() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../hotring-server/tests/it/certificates");
    let [cert, key] = ["server.pem", "server.key"].map(|name| format!("{folder}/{name}"));
    let words = ["serve", "--listen", "127.0.0.1:0", "--tls-listen", "0.0.0.0:0"];
    let mut command = hotring(&words);
    command.args(["--tls-cert-file", &cert, "--tls-key-file", &key, "--tls-auth-clients", "no"]);
    let mut server = Server::start(&mut command);
    let told = &server.told;
    assert!(told.contains("protected mode: ") && told.contains("0.0.0.0:"), "{told}");
    server.signal(Signal::TERM);
    assert!(server.end().0.success());
}

#[test]
fn the_small_programs_ask_a_server() {
    let mut server = Server::start(&mut hotring(&["serve", "--port", "0"]));
    let address = server.address.clone();
    let ping = output(&mut hotring(&["ping", "--address", &address]));
    assert!(ping.status.success(), "{}", stderr(&ping));
    assert_eq!(ping.stdout, b"PONG\n");
    let mut stream = server.connect();
    say(&mut stream, "CLIENT SETNAME worker");
    // At least one in 511 pipelines is sampled, and keys are shown once they were met twice.
    (0..1_100).for_each(|_| drop(say(&mut stream, "GET hot:key")));
    let top = output(&mut hotring(&["top", "--once", "--address", &address]));
    let text = String::from_utf8_lossy(&top.stdout);
    assert!(top.status.success(), "{}", stderr(&top));
    for wanted in ["rates ", "memory ", "COMMAND ", "CLIENT SETNAME ", " %  hot:key", "worker"] {
        assert!(text.contains(wanted), "no {wanted:?} in {text}");
    }
    server.signal(Signal::TERM);
    assert!(server.end().0.success());
    let gone = output(&mut hotring(&["ping", "--address", &address]));
    assert_eq!(gone.status.code(), Some(1));
    assert!(stderr(&gone).contains(&format!("cannot connect to {address}")), "{}", stderr(&gone));
}
