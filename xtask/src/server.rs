//! A `hotring serve` of the release build on a free port of loopback, ended with the check.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::process;

/// How long the start and the end may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// A running server.
pub struct Server {
    process: Child,
    /// Where it listens.
    pub port: u16,
}

impl Server {
    /// Starts `hotring` and waits until it accepts connections.
    pub fn start(hotring: &Path) -> Result<Self> {
        Self::start_with(hotring, &[])
    }

    /// The same, with more flags.
    pub fn start_with(hotring: &Path, flags: &[&str]) -> Result<Self> {
        // Bound and let go again: the port is most likely still free a moment later.
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let mut command = process::command(hotring);
        // What tests read from the environment is no setting of the server.
        let variables = std::env::vars_os().map(|(name, _)| name);
        variables.filter(|name| name.to_string_lossy().starts_with("HOTRING_")).for_each(|name| {
            command.env_remove(name);
        });
        let process = command
            .args(["serve", "--listen", &format!("127.0.0.1:{port}")])
            .args(flags)
            .stdin(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start {}", hotring.display()))?;
        let mut server = Server { process, port };
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            if let Some(status) = server.process.try_wait()? {
                bail!("the server ended at once with {status}");
            }
            ensure!(Instant::now() < deadline, "the server does not listen on port {port}");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Presses Ctrl-C and waits for the end.
    pub fn interrupt(mut self) -> Result<ExitStatus> {
        let pid = self.pid().to_string();
        ensure!(
            process::succeeds(process::command("kill").args(["-INT", &pid])),
            "cannot send SIGINT"
        );
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.process.try_wait()? {
                return Ok(status);
            }
            ensure!(Instant::now() < deadline, "the server does not end after SIGINT");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Fails if it has ended already, which is what is wanted.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
