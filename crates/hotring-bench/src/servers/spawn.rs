//! Starts servers on loopback, without persistence unless a plan asks for it, and ends them in every case.
//!
//! A started server is in a list until it has ended. It must be ended when its [`Spawned`] is dropped, when
//! Ctrl-C or SIGTERM arrives (a thread waits for these), and when this process panics.

use std::fs::File;
use std::future::poll_fn;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Mutex, Once, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use tokio::signal::unix::{SignalKind, signal};

use super::measure::Data;
use crate::address::{Address, Endpoint, Protocol};
use crate::{folder, machine};

/// A server that can be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// hotring, from this program's folder
    Hotring,
    /// redis-server, if installed
    Redis,
    /// memcached, if installed
    Memcached,
    /// The null server, as the upper limit
    Null,
    /// `hotring proxy`
    #[value(skip)]
    Proxy,
    /// twemproxy, whose program is nutcracker, if installed
    #[value(skip)]
    Twemproxy,
}

/// A kind of socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Transport {
    /// TCP on loopback
    Tcp,
    /// A unix socket
    Unix,
}

/// The settings for starting a server.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The kind of server.
    pub kind: Kind,
    /// The program, if it differs from [`Kind::program`].
    pub program: Option<PathBuf>,
    /// The kind of socket.
    pub transport: Transport,
    /// Threads that serve requests.
    pub threads: usize,
    /// The index engine of hotring.
    pub engine: String,
    /// The length of a null server's values, in bytes.
    pub value_len: usize,
    /// The memory that the server needs, in MiB.
    pub memory_mib: u64,
    /// The number of connections that the server must accept.
    pub connections: usize,
    /// Whether to pin the server to the first cores, one for each thread.
    pub pinned: bool,
    /// The log of hotring or Redis. Without one nothing is persistent.
    pub log: Option<LogPlan>,
    /// The server to which a proxy sends its requests, as host and port.
    pub behind: String,
    /// Names and values of hotring's settings.
    pub settings: Vec<(&'static str, String)>,
}

/// The log of a server.
#[derive(Clone, Debug)]
pub struct LogPlan {
    /// The time of acknowledgement, as a value of hotring's `--log` or Redis's `--appendfsync`. "off" means no
    /// log, but a dump on request.
    pub when: String,
    /// The folder of the log.
    pub data: PathBuf,
}

/// A started server, which is ended when this is dropped.
#[derive(Debug)]
pub struct Spawned {
    child: Child,
    /// The address on which the server listens.
    pub address: Address,
}

/// A process to end, and its files to remove.
struct Running {
    pid: u32,
    files: Vec<PathBuf>,
}

static RUNNING: Mutex<Vec<Running>> = Mutex::new(Vec::new());

/// The longest time for a server to accept connections, or to end.
const PATIENCE: Duration = Duration::from_secs(30);

impl Kind {
    /// The path of the program. Gives an error that says where a missing one was searched.
    pub fn program(self) -> Result<PathBuf> {
        let this = std::env::current_exe().context("this program has no path")?;
        let folder = this.parent().context("this program lies nowhere")?;
        match self {
            Kind::Null => Ok(this),
            Kind::Hotring | Kind::Proxy => {
                let program = folder.join("hotring");
                let hint = "build it with the same profile: cargo build --release -p hotring";
                if program.exists() {
                    Ok(program)
                } else {
                    bail!("no {}, {hint}", program.display())
                }
            }
            Kind::Redis => installed("redis-server", folder),
            Kind::Memcached => installed("memcached", folder),
            Kind::Twemproxy => installed("nutcracker", folder),
        }
    }

    fn protocol(self) -> Protocol {
        match self {
            Kind::Hotring | Kind::Redis | Kind::Proxy | Kind::Twemproxy => Protocol::Resp,
            Kind::Memcached => Protocol::Memcached,
            Kind::Null => Protocol::Null,
        }
    }
}

/// A program in the PATH, or in the folder where this project's checks install theirs.
fn installed(name: &str, folder: &Path) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([folder.join("../tools/bin")]);
    let mut programs = folders.map(|folder| folder.join(name));
    programs.find(|program| program.exists()).with_context(|| format!("{name} is not installed"))
}

/// A generous estimate of the overhead per key in a server, in bytes, on top of key and value.
const OVERHEAD: u64 = 256;

impl Plan {
    /// A server with memory for the data and for a hundred connections, on any core.
    pub fn new(
        kind: Kind,
        transport: Transport,
        threads: usize,
        engine: &str,
        data: &Data,
    ) -> Self {
        let each = (data.key_len + data.value_len) as u64 + OVERHEAD;
        Plan {
            kind,
            program: None,
            transport,
            threads,
            engine: engine.to_owned(),
            value_len: data.value_len,
            memory_mib: 2 * data.keys * each / (1 << 20) + 256,
            connections: 100,
            pinned: false,
            log: None,
            behind: String::new(),
            settings: Vec::new(),
        }
    }

    /// The name of the server.
    pub fn name(&self) -> String {
        match self.kind {
            Kind::Hotring if self.engine != "hotring" => format!("hotring ({})", self.engine),
            Kind::Hotring => "hotring".into(),
            Kind::Redis => "redis".into(),
            Kind::Memcached => "memcached".into(),
            Kind::Null => "null".into(),
            Kind::Proxy => "hotring proxy".into(),
            Kind::Twemproxy => "twemproxy".into(),
        }
    }

    /// Starts the server, and returns once it accepts connections.
    pub fn start(&self) -> Result<Spawned> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        end_all_with_this();
        let program = self.program.clone().map_or_else(|| self.kind.program(), Ok)?;
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("hotring-bench-{}-{number}", std::process::id());
        let log = std::env::temp_dir().join(format!("{name}.log"));
        let socket = std::env::temp_dir().join(format!("{name}.sock"));
        let endpoint = match self.transport {
            Transport::Tcp => Endpoint::Tcp(free_address()?),
            Transport::Unix => Endpoint::Unix(socket.clone()),
        };
        let conf = std::env::temp_dir().join(format!("{name}.yml"));
        let args = match (self.kind, &endpoint) {
            (Kind::Proxy | Kind::Twemproxy, Endpoint::Tcp(listen)) => {
                self.proxy_args(listen, &conf)?
            }
            _ => self.args(&endpoint),
        };
        let output = File::create(&log).with_context(|| format!("no {}", log.display()))?;
        let mut command = Command::new(program);
        command.args(args).stdin(Stdio::null());
        command.stdout(output.try_clone()?).stderr(output);
        let child = {
            // The lock spans start and registration, so that ending all servers cannot miss this one.
            let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
            let files = vec![log.clone(), socket, conf];
            let child = self.launch(command).inspect_err(|_| remove(&files))?;
            running.push(Running { pid: child.id(), files });
            child
        };
        let address = Address { protocol: self.kind.protocol(), endpoint };
        let mut spawned = Spawned { child, address };
        spawned.wait_until_ready(&log).with_context(|| format!("cannot start {}", self.name()))?;
        Ok(spawned)
    }

    /// Starts the process in a thread of its own, because a process inherits the cores of the thread that starts
    /// it.
    fn launch(&self, mut command: Command) -> Result<Child> {
        let launch = || {
            if self.pinned {
                machine::pin_to(0..self.threads)?;
            }
            command.spawn().with_context(|| format!("cannot run {}", self.name()))
        };
        std::thread::scope(|scope| scope.spawn(launch).join()).expect("starting does not panic")
    }

    /// The arguments of a proxy. A twemproxy has them in a file, which this writes.
    fn proxy_args(&self, listen: &str, conf: &Path) -> Result<Vec<String>> {
        let (behind, threads) = (&self.behind, self.threads.to_string());
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        if self.kind == Kind::Proxy {
            let mut args: Vec<String> = words(&["proxy", "--listen", listen, "--node", behind]);
            args.extend(words(&["--threads", &threads, "--loglevel", "warning"]) as Vec<String>);
            args.extend(self.settings.iter().flat_map(|(n, v)| [format!("--{n}"), v.clone()]));
            return Ok(args);
        }
        let text = format!(
            "pool:\n  listen: {listen}\n  redis: true\n  hash: fnv1a_64\n  distribution: ketama\n  servers:\n   - {behind}:1\n"
        );
        std::fs::write(conf, text).with_context(|| format!("no {}", conf.display()))?;
        let statistics = free_address()?;
        let port = statistics.rsplit_once(':').map_or("0", |(_, port)| port);
        Ok(words(&["-c", &conf.display().to_string(), "-a", "127.0.0.1", "-s", port]))
    }

    fn args(&self, endpoint: &Endpoint) -> Vec<String> {
        let threads = self.threads.to_string();
        let (tcp, socket) = match endpoint {
            Endpoint::Tcp(tcp) => (tcp.as_str(), String::new()),
            Endpoint::Unix(path) => ("127.0.0.1:0", path.display().to_string()),
        };
        let port = tcp.rsplit_once(':').map_or("0", |(_, port)| port);
        let mut args: Vec<&str> = match self.kind {
            Kind::Hotring => vec![
                "serve",
                "--listen",
                tcp,
                "--threads",
                &threads,
                "--index",
                &self.engine,
                "--loglevel",
                "warning",
            ],
            Kind::Redis => vec![
                "--bind",
                "127.0.0.1",
                "--port",
                port,
                "--io-threads",
                &threads,
                "--io-threads-do-reads",
                "yes",
                "--save",
                "",
                "--daemonize",
                "no",
            ],
            Kind::Memcached => vec!["-U", "0", "-t", &threads],
            Kind::Null => vec!["null-server", "--listen", tcp, "--threads", &threads],
            Kind::Proxy | Kind::Twemproxy => Vec::new(),
        };
        let (memory, connections) =
            (self.memory_mib.to_string(), (self.connections + 64).to_string());
        let value_len = self.value_len.to_string();
        let data = self.log.as_ref().map(|log| log.data.display().to_string());
        match (&self.log, &data, self.kind) {
            (Some(log), Some(data), Kind::Redis) if log.when == "off" => {
                args.extend(["--dir", data]);
            }
            (Some(log), Some(data), Kind::Redis) => {
                args.extend(["--appendonly", "yes", "--appendfsync", &log.when, "--dir", data]);
            }
            (Some(log), Some(data), _) => args.extend(["--log", &log.when, "--data", data]),
            _ => {}
        }
        match self.kind {
            Kind::Memcached => {
                args.extend(["-m", &memory, "-c", &connections, "-u", "root"]);
                match endpoint {
                    Endpoint::Tcp(_) => args.extend(["-l", "127.0.0.1", "-p", port]),
                    Endpoint::Unix(_) => args.extend(["-s", &socket]),
                }
            }
            Kind::Null => args.extend(["--value-size", &value_len]),
            _ => {}
        }
        if !socket.is_empty() && self.kind != Kind::Memcached {
            args.extend(["--unixsocket", &socket]);
        }
        let mut args: Vec<String> = args.into_iter().map(str::to_owned).collect();
        for (name, value) in &self.settings {
            args.extend([format!("--{name}"), value.clone()]);
        }
        args
    }
}

/// An address on loopback that was free a moment ago.
fn free_address() -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").context("loopback has no free port")?;
    Ok(listener.local_addr()?.to_string())
}

impl Spawned {
    /// The process of the server.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills the server, and returns once its process has ended.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill().context("the server can't be killed")?;
        self.child.wait().context("the server can't be waited for")?;
        Ok(())
    }

    fn wait_until_ready(&mut self, log: &Path) -> Result<()> {
        let start = Instant::now();
        while self.address.endpoint.connect().is_err() {
            let output = || std::fs::read_to_string(log).unwrap_or_default();
            if let Some(status) = self.child.try_wait()? {
                bail!("it ended with {status}, saying: {}", output());
            }
            if start.elapsed() > PATIENCE {
                bail!("it does not accept connections at {}, and says: {}", self.address, output());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn end(&mut self) {
        terminate(self.child.id());
        let start = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) {
            if start.elapsed() > PATIENCE {
                // If this fails, there is no other way to end the process.
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Spawned {
    fn drop(&mut self) {
        // The lock is held until the process has ended, so that no other process with its number is ended.
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        let pid = self.child.id();
        self.end();
        running.iter().filter(|one| one.pid == pid).for_each(Running::clean);
        running.retain(|one| one.pid != pid);
    }
}

impl Running {
    fn end(&self) {
        terminate(self.pid);
        self.clean();
    }

    /// Waits until the process has ended, so that nothing writes to its folder any more.
    fn wait(&self) {
        let Some(pid) = Pid::from_raw(self.pid.cast_signed()) else { return };
        let start = Instant::now();
        // An error means that the process has ended.
        while let Ok(None) = waitpid(Some(pid), WaitOptions::NOHANG) {
            match start.elapsed() {
                waited if waited > 2 * PATIENCE => return,
                waited if waited > PATIENCE => drop(kill_process(pid, Signal::KILL)),
                _ => {}
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn clean(&self) {
        remove(&self.files);
    }
}

/// Removes those files that exist: the server may have removed its socket itself, and few have a configuration.
fn remove(files: &[PathBuf]) {
    files.iter().for_each(|file| drop(std::fs::remove_file(file)));
}

fn terminate(pid: u32) {
    if let Some(pid) = Pid::from_raw(pid.cast_signed()) {
        // This fails if the process has already ended, which is fine.
        let _ = kill_process(pid, Signal::TERM);
    }
}

/// Makes sure that all servers are ended when this process is interrupted or panics.
fn end_all_with_this() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            usual(panic);
            // If the lock is taken, its holder is the thread that panics, so the list cannot be used.
            RUNNING.try_lock().iter().flat_map(|running| running.iter()).for_each(Running::end);
        }));
        let (ready, is_ready) = sync_channel(0);
        std::thread::spawn(move || {
            if let Err(error) = end_all_on_signal(&ready) {
                eprintln!("note: servers stay behind after Ctrl-C: {error:#}");
            }
        });
        // An error means that the thread has given up and reported why.
        let _ = is_ready.recv();
    });
}

fn end_all_on_signal(ready: &SyncSender<()>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        ready.send(())?;
        poll_fn(|turn| {
            let came = interrupt.poll_recv(turn).is_ready() | terminate.poll_recv(turn).is_ready();
            if came { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        anyhow::Ok(())
    })?;
    // The lock is held to the end: a client whose server has ended must wait here, and must not start another
    // server.
    let running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
    running.iter().for_each(Running::end);
    running.iter().for_each(Running::wait);
    folder::remove_all();
    eprintln!("interrupted; {} servers ended", running.len());
    std::process::exit(130);
}
