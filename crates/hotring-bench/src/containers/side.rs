//! One of the two compared servers, with its connections.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::cases::{Case, Draw};
use crate::durability::{Setup, Subject, Testbed};
use crate::resp::Client;
use crate::servers::{CpuTime, Data, Kind};

/// A server with the containers of the cases.
pub struct Side {
    pub kind: Kind,
    has_log: bool,
    /// Bytes in the server's files after the last turn.
    logged: Option<u64>,
    pid: u32,
    subject: Subject,
    clients: Vec<Client>,
    /// The number of the next new member of a set.
    next: u64,
}

/// The result of a turn, per request.
pub struct Taken {
    pub nanoseconds: f64,
    /// Bytes written to files, if the server has a log.
    pub logged: Option<f64>,
}

/// The share of its requests that a turn sends first, unmeasured: one in this number.
const WARMUP: u64 = 8;
/// The log is complete when it has not grown for this long.
const QUIET: Duration = Duration::from_millis(100);
/// The longest wait for a complete log.
const PATIENCE: Duration = Duration::from_secs(60);

impl Side {
    /// Starts a server without data.
    pub fn start(testbed: &Testbed, setup: Setup<'_>, connections: usize) -> Result<Side> {
        let data = Data { keys: 0, key_len: 8, value_len: 8 };
        let subject = testbed.start(setup, &data)?;
        let pid = subject.target.pid.context("it was started here")?;
        let connect = |_| Client::connect(&subject.target.address);
        let clients = (0..connections).map(connect).collect::<Result<Vec<_>>>()?;
        let has_log = setup.log.is_some();
        Ok(Side { kind: setup.kind, has_log, logged: None, pid, subject, clients, next: 0 })
    }

    /// One of the server's connections.
    pub fn client(&mut self) -> &mut Client {
        &mut self.clients[0]
    }

    /// One more connection.
    pub fn connect(&self) -> Result<Client> {
        Client::connect(&self.subject.target.address)
    }

    /// The server's process.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Bytes of memory that the server's process has in use.
    pub fn resident(&self) -> Result<u64> {
        self.subject.resident()
    }

    /// Sends requests with `depth` in flight on each connection. Equal seeds give equal requests.
    pub fn turn(&mut self, case: &Case, (depth, requests): (u64, u64), seed: u64) -> Result<Taken> {
        let mut draw = Draw::new(seed, self.next);
        let at_once = depth * self.clients.len() as u64;
        let rounds = requests.div_ceil(at_once).max(1);
        let warmup = rounds.div_ceil(WARMUP);
        let logged = self.has_log.then(|| self.logged.map_or_else(|| self.log_len(), Ok));
        let logged = logged.transpose()?;
        self.send(case, depth, warmup, &mut draw)?;
        let before = CpuTime::of(self.pid)?;
        self.send(case, depth, rounds, &mut draw)?;
        let cpu = CpuTime::of(self.pid)?.since(&before);
        self.next = draw.next();
        let nanoseconds = cpu.as_nanos() as f64 / (rounds * at_once) as f64;
        let Some(logged) = logged else { return Ok(Taken { nanoseconds, logged: None }) };
        let after = self.log_len()?;
        self.logged = Some(after);
        let bytes = after.saturating_sub(logged) as f64 / ((warmup + rounds) * at_once) as f64;
        Ok(Taken { nanoseconds, logged: Some(bytes) })
    }

    fn send(&mut self, case: &Case, depth: u64, rounds: u64, draw: &mut Draw) -> Result<()> {
        for _ in 0..rounds {
            for client in &mut self.clients {
                (0..depth).for_each(|_| (case.push)(client, draw));
                client.flush()?;
            }
            for client in &mut self.clients {
                (0..depth).try_for_each(|_| case.take_answer(client))?;
            }
        }
        Ok(())
    }

    /// Bytes in the server's files once all requests so far are logged.
    fn log_len(&self) -> Result<u64> {
        let begun = Instant::now();
        // Redis does not preallocate, and for its last pages the system does not yet count bytes as written.
        let written = || match (self.kind, self.subject.folder.sizes()) {
            (Kind::Redis, sizes) => sizes.length,
            (_, sizes) => sizes.written,
        };
        let (mut bytes, mut since) = (written(), begun);
        while since.elapsed() < QUIET {
            ensure!(begun.elapsed() < PATIENCE, "the log goes on growing for {PATIENCE:?}");
            std::thread::sleep(QUIET / 10);
            let now = written();
            if now != bytes {
                (bytes, since) = (now, Instant::now());
            }
        }
        Ok(bytes)
    }
}
