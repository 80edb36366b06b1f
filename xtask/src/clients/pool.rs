//! redis-py before a memcached and pymemcache before a redis-server, each through a proxy that translates.

use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::install_python;
use crate::process;
use crate::suite::Done;
use crate::workspace::{root, target};

/// Time limit for a start.
const PATIENCE: Duration = Duration::from_secs(20);

/// A process that listens on a port, killed on drop.
struct Listening {
    process: Child,
    port: u16,
}

impl Listening {
    /// Starts a program; `words` makes its arguments of the port.
    fn start(program: &Path, words: impl FnOnce(u16) -> Vec<String>) -> Result<Listening> {
        // Bound and released: the port is most likely still free a moment later.
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let mut command = process::command(program);
        command.args(words(port)).stdin(Stdio::null()).stdout(Stdio::null());
        let process = command.spawn();
        let process = process.with_context(|| format!("cannot start {}", program.display()))?;
        let started = Listening { process, port };
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            ensure!(Instant::now() < deadline, "{} does not listen", program.display());
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(started)
    }

    /// A proxy before one server. `listens` is the flag of the address for the clients to check.
    fn proxy(hotring: &Path, listens: &str, protocol: &str, server: u16) -> Result<Listening> {
        let file = target().join(format!("clients/pool-{protocol}.toml"));
        let line = format!("a = {{ address = \"127.0.0.1:{server}\", protocol = \"{protocol}\" }}");
        fs::write(&file, format!("[servers]\n{line}\n"))?;
        let file = file.display().to_string();
        Listening::start(hotring, |port| {
            let at = format!("127.0.0.1:{port}");
            let mut words = vec!["proxy".into(), "--pool".into(), file, listens.into(), at];
            if listens != "--listen" {
                words.extend(["--listen".to_string(), "127.0.0.1:0".to_string()]);
            }
            words
        })
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        _ = self.process.kill();
        _ = self.process.wait();
    }
}

/// Checks both clients.
pub fn check(hotring: &Path) -> Result<Done> {
    let folder = root().join("tests/clients");
    let lists = ["python/requirements.txt", "memcached/requirements.txt"];
    let installed = lists.map(|list| install_python("venv", &folder.join(list)));
    let [Ok(python), Ok(_)] = installed else {
        return Ok(Done::Skipped("redis-py or pymemcache cannot be installed".to_string()));
    };
    let words = |text: &str, port: u16| {
        format!("{text} {port}").split(' ').map(str::to_string).collect::<Vec<_>>()
    };
    let cache =
        Listening::start(Path::new("memcached"), |port| words("-l 127.0.0.1 -u root -p", port))?;
    let redis = Listening::start(Path::new("redis-server"), |port| {
        words("--bind 127.0.0.1 --save  --appendonly no --port", port)
    })?;
    let two = [
        Listening::proxy(hotring, "--listen", "memcached", cache.port)?,
        Listening::proxy(hotring, "--memcached", "redis", redis.port)?,
    ];
    let mut program: Command = process::command(&python);
    program.arg(folder.join("python/pool.py")).args(two.each_ref().map(|it| it.port.to_string()));
    let mut checks = 0;
    process::run_lines(&mut program, |line| checks += usize::from(line.starts_with("ok: ")))?;
    ensure!(checks == 2, "{checks} of 2 checks have run");
    Ok(Done::Passed(checks))
}
