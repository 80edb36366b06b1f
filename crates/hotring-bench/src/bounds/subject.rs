//! A server in a process of its own, and the memory of that process.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};

use super::values::CONNECTIONS;
use crate::machine::{reset_peak_of, resident_of, resident_peak_of};
use crate::resp::{Client, info_field};
use crate::servers::{Data, Kind, Plan, Spawned, Transport};

/// A running server, with its memory from before the load.
pub struct Subject {
    server: Spawned,
    pub control: Client,
    /// The memory of the server before anything was stored.
    pub empty: Memory,
}

/// The memory of a server's process, by the kernel and by the server's own report, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// Resident size, by the kernel.
    pub resident: i64,
    /// `used_memory` of INFO; the fields below are INFO's, too.
    pub used: i64,
    pub rss: i64,
    pub allocated: i64,
    pub active: i64,
    pub fragmentation: f64,
}

/// Requests before the first measurement. They make the program's own memory resident.
const WARM_UP: usize = 1000;
/// Time to wait for background work that a server does after a request.
const REST: Duration = Duration::from_secs(1);

impl Subject {
    /// Starts a server and warms it up with requests for missing keys.
    pub fn start(program: Option<PathBuf>, threads: usize) -> Result<Self> {
        Self::start_with(program, threads, Vec::new())
    }

    /// Starts a server with settings and warms it up.
    pub fn start_with(
        program: Option<PathBuf>,
        threads: usize,
        settings: Vec<(&'static str, String)>,
    ) -> Result<Self> {
        let none = Data { keys: 0, key_len: 0, value_len: 0 };
        let plan = Plan::new(Kind::Hotring, Transport::Tcp, threads, "hotring", &none);
        let server = Plan { program, settings, ..plan }.start()?;
        let mut control = Client::connect(&server.address)?;
        for _ in 0..WARM_UP {
            control.call(&[b"GET", b"none"])?;
            control.call(&[b"DEL", b"none"])?;
        }
        let pid = server.pid();
        memory(&mut control, pid)?;
        std::thread::sleep(REST);
        let empty = memory(&mut control, pid)?;
        Ok(Subject { server, control, empty })
    }

    pub fn connect(&self) -> Result<Client> {
        Client::connect(&self.server.address)
    }

    pub fn connect_all(&self) -> Result<Vec<Client>> {
        (0..CONNECTIONS).map(|_| self.connect()).collect()
    }

    pub fn pid(&self) -> u32 {
        self.server.pid()
    }

    /// The current resident size of the process, in bytes.
    pub fn resident(&self) -> Result<i64> {
        signed(resident_of(self.server.pid())?)
    }

    /// The memory of the process and the server's report of it, once the server is idle.
    pub fn rested(&mut self) -> Result<Memory> {
        std::thread::sleep(REST);
        memory(&mut self.control, self.server.pid())
    }

    pub fn reset_peak(&self) -> Result<()> {
        reset_peak_of(self.server.pid())
    }

    /// The peak resident size of the process since the last [`reset_peak`](Self::reset_peak), in bytes.
    pub fn peak(&self) -> Result<i64> {
        signed(resident_peak_of(self.server.pid())?)
    }

    pub fn config(&mut self, name: &str, value: &str) -> Result<()> {
        self.control.call(&[b"CONFIG", b"SET", name.as_bytes(), value.as_bytes()])?;
        Ok(())
    }
}

fn memory(control: &mut Client, pid: u32) -> Result<Memory> {
    let info = control.info("memory")?;
    let resident = signed(resident_of(pid)?)?;
    let field = |name: &str| -> Result<i64> {
        info_field(&info, name).with_context(|| format!("INFO has no {name}"))
    };
    Ok(Memory {
        resident,
        used: field("used_memory")?,
        rss: field("used_memory_rss")?,
        allocated: field("allocator_allocated")?,
        active: field("allocator_active")?,
        fragmentation: info_field(&info, "mem_fragmentation_ratio")
            .context("INFO has no mem_fragmentation_ratio")?,
    })
}

fn signed(bytes: u64) -> Result<i64> {
    i64::try_from(bytes).context("the size of the process exceeds an i64")
}
