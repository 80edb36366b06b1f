//! A `hotring serve` process on a free loopback port, killed on drop.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::process;

/// Time limit for start and stop.
const PATIENCE: Duration = Duration::from_secs(20);

/// A running server.
pub struct Server {
    process: Child,
    /// The port of the server.
    pub port: u16,
}

impl Server {
    /// Starts `hotring` and waits until it accepts connections.
    pub fn start(hotring: &Path) -> Result<Self> {
        Self::start_with(hotring, &[])
    }

    /// Starts `hotring` with these flags and waits until it accepts connections.
    pub fn start_with(hotring: &Path, flags: &[&str]) -> Result<Self> {
        // Bound and released: the port is most likely still free a moment later.
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let mut command = process::command(hotring);
        // Variables for the tests must not become settings of the server.
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
                bail!("the server exited at its start with {status}");
            }
            ensure!(Instant::now() < deadline, "the server does not listen on port {port}");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Sends SIGINT and waits for the end.
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
        // Fails if it has ended already, which is fine.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
