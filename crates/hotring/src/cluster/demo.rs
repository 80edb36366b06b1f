//! `hotring cluster demo`: a whole cluster on this machine, for as long as the command runs.

use std::fs::{self, File};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Process, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use clap::{Arg, ArgMatches, Command, value_parser};
use hotring_commands::host::threads;
use hotring_proxy::{Proxy, Settings};
use rustix::process::{Pid, Signal, kill_process};
use tokio::signal::unix::{SignalKind, signal};

use super::records::Records;
use super::{create, status};

/// How long a node may take to start, and to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// Time between two looks at a node.
const LOOK: Duration = Duration::from_millis(50);

const NOTES: &str = "\
The nodes listen on 127.0.0.1 only, each on a port of its own from --port on, and behind them a proxy: one port for Redis's \
clients, one for memcached's. The first node also keeps the cluster's records (--coordinator embedded). Without --data everything is in memory and gone at the end.

Ctrl-C ends all nodes. Kill one to see its replica take over:

    hotring cluster status --coordinator 127.0.0.1:7000
    kill -9 PID

Exit codes: 0 after Ctrl-C or SIGTERM; 1 if the cluster cannot start";

/// The subcommand and its flags.
pub(super) fn cli() -> Command {
    let number = |name: &'static str, default: &'static str, most: i64| {
        let range = value_parser!(u16).range(1..=most);
        Arg::new(name).long(name).value_name("N").default_value(default).value_parser(range)
    };
    Command::new("demo")
        .about("Run a cluster on this machine until Ctrl-C")
        .after_help(NOTES)
        .arg(number("port", "7000", 65_000).help("The port of the first node"))
        .arg(number("shards", "3", 20).help("Shards"))
        .arg(number("copies", "2", 5).help("Nodes of a shard, its primary included"))
        .arg(
            Arg::new("data")
                .long("data")
                .value_name("DIR")
                .value_parser(value_parser!(PathBuf))
                .help("Keep the nodes' data and logs in this folder, and go on with what is there"),
        )
}

/// Runs the cluster.
pub(super) fn run(flags: &ArgMatches) -> Result<(), String> {
    let number = |name| *flags.get_one::<u16>(name).expect("it has a default");
    let (first, count) = (number("port"), number("shards") * number("copies"));
    let kept = flags.get_one::<PathBuf>("data");
    let ports: Vec<u16> = (first..).take(usize::from(count)).collect();
    // The last two are the proxy's.
    (first..first + count + 2).try_for_each(check_free)?;
    let folder = Folder::new(kept)?;
    let mut nodes = Nodes::start(&ports, usize::from(number("copies")), &folder, kept.is_some())?;
    nodes.wait_until_up()?;
    let coordinator = format!("127.0.0.1:{first}");
    nodes.wait_until_registered(&coordinator)?;
    if !folder.has_cluster {
        create_cluster(&coordinator, number("copies"))?;
        folder.mark()?;
    }
    let proxy = start_proxy(&ports)?;
    nodes.greet(&coordinator, &proxy, &folder);
    nodes.watch()?;
    nodes.end();
    Ok(())
}

fn check_free(port: u16) -> Result<(), String> {
    let bound = TcpListener::bind(("127.0.0.1", port));
    bound.map(drop).map_err(|why| {
        format!("port {port} cannot be used: {why}; choose the first of other ports with --port")
    })
}

/// Runs a proxy in this process, on the ports behind those of the nodes.
fn start_proxy(ports: &[u16]) -> Result<Proxy, String> {
    let behind = |n| SocketAddr::from(([127, 0, 0, 1], ports[ports.len() - 1] + n));
    Proxy::start(Settings {
        listen: vec![behind(1)],
        memcached: vec![behind(2)],
        nodes: ports.iter().map(|port| format!("127.0.0.1:{port}")).collect(),
        threads: 1,
        ..Settings::default()
    })
}

fn create_cluster(coordinator: &str, copies: u16) -> Result<(), String> {
    let copies = copies.to_string();
    let words = ["create", "--coordinator", coordinator, "--copies", &copies, "--yes"];
    create::run(&create::cli().get_matches_from(words))
}

/// The folder of the nodes' data and logs. A temporary one is removed at the end.
struct Folder {
    path: PathBuf,
    is_temporary: bool,
    has_cluster: bool,
}

impl Folder {
    fn new(kept: Option<&PathBuf>) -> Result<Folder, String> {
        let temporary =
            || std::env::temp_dir().join(format!("hotring-demo-{}", std::process::id()));
        let path = kept.cloned().unwrap_or_else(temporary);
        let made = fs::create_dir_all(&path);
        made.map_err(|why| format!("cannot make the folder {}: {why}", path.display()))?;
        let has_cluster = path.join(MARK).exists();
        Ok(Folder { path, is_temporary: kept.is_none(), has_cluster })
    }

    /// Notes that its nodes form a cluster.
    fn mark(&self) -> Result<(), String> {
        let mark = self.path.join(MARK);
        fs::write(&mark, "").map_err(|why| format!("cannot write {}: {why}", mark.display()))
    }
}

/// The file that says that the nodes of a folder form a cluster.
const MARK: &str = "cluster-created";

impl Drop for Folder {
    fn drop(&mut self) {
        if self.is_temporary {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// A node as a process of its own, so that it can be killed.
struct Node {
    port: u16,
    log: PathBuf,
    process: Child,
    ended: Option<ExitStatus>,
}

impl Node {
    fn look(&mut self) -> io::Result<bool> {
        if self.ended.is_none() {
            self.ended = self.process.try_wait()?;
        }
        Ok(self.ended.is_none())
    }

    /// Why it ended, in words.
    fn obituary(&self) -> String {
        let how = match self.ended.map(|status| (status.code(), status.signal())) {
            Some((Some(code), _)) => format!("with exit code {code}"),
            Some((None, Some(signal))) => format!("by signal {signal}"),
            _ => "somehow".to_string(),
        };
        format!("the node on port {} has ended {how}; its log: {}", self.port, self.log.display())
    }

    fn send(&self, signal: Signal) {
        if self.ended.is_none()
            && let Some(pid) = Pid::from_raw(self.process.id() as i32)
        {
            let _ = kill_process(pid, signal);
        }
    }
}

/// All nodes. None of them outlives this value.
struct Nodes(Vec<Node>);

impl Nodes {
    fn start(ports: &[u16], copies: usize, folder: &Folder, keeps: bool) -> Result<Nodes, String> {
        let mut nodes = Nodes(Vec::new());
        for (at, port) in ports.iter().enumerate() {
            let coordinator =
                if at == 0 { "embedded".to_string() } else { format!("127.0.0.1:{}", ports[0]) };
            let data = folder.path.join(port.to_string());
            let log = folder.path.join(format!("{port}.log"));
            let failed = |why: io::Error| format!("cannot start a node: {why}");
            let mut node = Process::new(std::env::current_exe().map_err(failed)?);
            node.args(["serve", "--listen", &format!("127.0.0.1:{port}"), "--threads", "1"]);
            node.args(["--coordinator", &coordinator, "--zone", &format!("zone-{}", at % copies)]);
            node.arg("--data").arg(&data);
            if keeps {
                node.args(["--log", "everysec"]);
            }
            let told = File::options().create(true).append(true).open(&log).map_err(failed)?;
            // Ctrl-C must reach this process alone, which then ends the nodes in good order.
            node.stdin(Stdio::null()).stdout(Stdio::null()).stderr(told).process_group(0);
            let process = node.spawn().map_err(failed)?;
            nodes.0.push(Node { port: *port, log, process, ended: None });
            if at == 0 {
                // The others ask it for the records.
                nodes.wait_until_up()?;
            }
        }
        Ok(nodes)
    }

    /// Waits until each node takes connections.
    fn wait_until_up(&mut self) -> Result<(), String> {
        let begun = Instant::now();
        for node in &mut self.0 {
            while TcpStream::connect(("127.0.0.1", node.port)).is_err() {
                if !node.look().map_err(|why| why.to_string())? {
                    return Err(format!("{}\n{}", node.obituary(), last_lines(&node.log)));
                }
                if begun.elapsed() > PATIENCE {
                    return Err(format!("the node on port {} does not start", node.port));
                }
                std::thread::sleep(LOOK);
            }
        }
        Ok(())
    }

    /// Waits until the coordinator knows all.
    fn wait_until_registered(&self, coordinator: &str) -> Result<(), String> {
        let words = ["status", "--coordinator", coordinator];
        let records = Records::connect(&status::cli().get_matches_from(words))?;
        let begun = Instant::now();
        while records.read()?.alive.len() < self.0.len() {
            if begun.elapsed() > PATIENCE {
                return Err(format!(
                    "not all nodes register; their logs: {}",
                    self.0[0].log.display()
                ));
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    fn greet(&self, coordinator: &str, proxy: &Proxy, folder: &Folder) {
        println!("\nThe cluster runs. Its nodes:\n");
        for node in &self.0 {
            println!("  127.0.0.1:{}  pid {}", node.port, node.process.id());
        }
        println!(
            "\nA proxy makes one server of them: for any Redis client at {}, for memcached's at {}.\n\nTry it:\n\n  \
             redis-cli -c -p {} set hello world\n  redis-cli -p {} get hello\n  hotring cluster status --coordinator {coordinator}\n  \
             kill -9 PID     # of a primary: its replica takes over\n\nLogs and data: {}\nCtrl-C ends all.\n",
            proxy.addresses()[0],
            proxy.addresses()[1],
            self.0[0].port,
            proxy.addresses()[0].port(),
            folder.path.display()
        );
    }

    /// Waits for Ctrl-C or SIGTERM, and tells of nodes that end before.
    fn watch(&mut self) -> Result<(), String> {
        let runtime = threads::event_loop().map_err(|why| why.to_string())?;
        runtime.block_on(async {
            let failed = |why: io::Error| why.to_string();
            let mut interrupted = signal(SignalKind::interrupt()).map_err(failed)?;
            let mut terminated = signal(SignalKind::terminate()).map_err(failed)?;
            loop {
                tokio::select! {
                    _ = interrupted.recv() => return Ok(()),
                    _ = terminated.recv() => return Ok(()),
                    () = tokio::time::sleep(LOOK) => {}
                }
                for node in &mut self.0 {
                    let was_up = node.ended.is_none();
                    if !node.look().map_err(failed)? && was_up {
                        println!("{}", node.obituary());
                    }
                }
            }
        })
    }

    /// Ends all nodes, the coordinator last: the others tell it that they leave.
    fn end(&mut self) {
        println!("Ending all nodes ...");
        let Some((first, others)) = self.0.split_first_mut() else { return };
        end(others);
        end(std::slice::from_mut(first));
    }
}

fn end(nodes: &mut [Node]) {
    nodes.iter().for_each(|node| node.send(Signal::TERM));
    let begun = Instant::now();
    for node in nodes {
        while node.look().unwrap_or(false) && begun.elapsed() < PATIENCE {
            std::thread::sleep(LOOK);
        }
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        for node in &mut self.0 {
            if node.look().unwrap_or(false) {
                let _ = node.process.kill();
                let _ = node.process.wait();
            }
        }
    }
}

/// The end of a log, for an error.
fn last_lines(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(10)..].join("\n")
}
