//! A server to measure: its address, its process, and its description of itself.

use std::io::{BufRead, BufReader, Write};
use std::str::FromStr;

use anyhow::{Context, Result, bail};

use super::process;
use super::spawn::{Kind, Plan, Spawned};
use crate::address::{Address, Endpoint, Protocol};
use crate::resp::{Client, Reply, info_field};

/// A running server as given on the command line: an address, followed by `?pid=N` if its listening socket does
/// not lead to the process.
#[derive(Clone, Debug)]
pub struct Given {
    address: Address,
    pid: Option<u32>,
}

impl FromStr for Given {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((address, more)) = text.split_once('?') else {
            return Ok(Given { address: text.parse()?, pid: None });
        };
        let pid = more.strip_prefix("pid=").and_then(|pid| pid.parse().ok());
        let pid = pid.ok_or_else(|| format!("{more:?} behind an address is not like pid=1234"))?;
        Ok(Given { address: address.parse()?, pid: Some(pid) })
    }
}

/// A running server.
#[derive(Debug)]
pub struct Target {
    /// The name in tables.
    pub name: String,
    /// The address of the server.
    pub address: Address,
    /// The process, if it is on this machine and known.
    pub pid: Option<u32>,
    /// Threads that serve requests, if the server was started here.
    pub threads: Option<usize>,
    /// The name and version that the server reports.
    pub version: String,
    /// A note for readers of the figures.
    pub note: &'static str,
    /// Whether the server is pinned to the first cores.
    pub pinned: bool,
    spawned: Option<Spawned>,
}

impl Target {
    /// A server that is already running. It must be empty.
    pub fn given(given: &Given) -> Result<Self> {
        let Given { address, pid } = given;
        let mut target = Target::new(address.to_string(), address.clone(), version(address)?);
        target.pid = pid.or_else(|| process::listener(&address.endpoint));
        if target.pid.is_none() {
            eprintln!("note: no process found for {address}, so no processor time: give ?pid=N");
        }
        let held = target.held()?;
        if held > 0 {
            bail!("{address} holds {held} keys, which could be overwritten: empty it first");
        }
        Ok(target)
    }

    /// Starts a server.
    pub fn start(plan: &Plan) -> Result<Self> {
        let spawned = plan.start()?;
        // It ends a connection that asks.
        let version = match plan.kind {
            Kind::Twemproxy => plan.name(),
            _ => version(&spawned.address)?,
        };
        let mut target = Target::new(plan.name(), spawned.address.clone(), version);
        target.pid = Some(spawned.pid());
        target.threads = Some(plan.threads);
        target.pinned = plan.pinned;
        target.spawned = Some(spawned);
        Ok(target)
    }

    /// Kills the server, which must have been started here, and returns once its process has ended.
    pub fn kill(mut self) -> Result<()> {
        self.spawned.take().context("it was not started here")?.kill()
    }

    fn new(name: String, address: Address, version: String) -> Self {
        // Counted with strace: 16,625 calls of sendmsg for 17,456 replies; 1.6.45 makes 6,475 for 103,584.
        let note = if version == "memcached 1.6.18" {
            "1.6.18 sends one message per reply also where requests are pipelined; newer ones don't"
        } else {
            ""
        };
        Target {
            name,
            address,
            pid: None,
            threads: None,
            version,
            note,
            pinned: false,
            spawned: None,
        }
    }

    /// The kind of socket.
    pub fn transport(&self) -> &'static str {
        match self.address.endpoint {
            Endpoint::Tcp(_) => "tcp",
            Endpoint::Unix(_) => "unix",
        }
    }

    /// Whether the server was started here, so that its data may be lost.
    pub fn is_spawned(&self) -> bool {
        self.spawned.is_some()
    }

    /// The name, with threads and socket where they distinguish targets.
    pub fn label(&self) -> String {
        let mut label = self.name.clone();
        if let Some(threads) = self.threads {
            label = format!("{label}, {threads} thread{}", if threads == 1 { "" } else { "s" });
        }
        if self.is_spawned() && self.transport() == "unix" {
            format!("{label}, unix")
        } else {
            label
        }
    }

    /// The number of keys in the server.
    pub fn held(&self) -> Result<u64> {
        match self.address.protocol {
            Protocol::Null => Ok(0),
            Protocol::Resp => match Client::connect(&self.address)?.call(&[b"DBSIZE"])? {
                Reply::Integer(size) => Ok(u64::try_from(size)?),
                other => bail!("DBSIZE answers {other:?}"),
            },
            Protocol::Memcached => Ok(stat(&self.address, "curr_items")?.parse()?),
        }
    }
}

fn version(address: &Address) -> Result<String> {
    match address.protocol {
        Protocol::Null => Ok(concat!("null server ", env!("CARGO_PKG_VERSION")).into()),
        Protocol::Memcached => Ok(format!("memcached {}", stat(address, "version")?)),
        Protocol::Resp => {
            let info = Client::connect(address)?.info("server")?;
            // Successors of Redis also name the version of Redis that they resemble, so `redis` comes last.
            let named = ["hotring", "valkey", "dragonfly", "redis"].into_iter().find_map(|name| {
                let version: String = info_field(&info, &format!("{name}_version"))?;
                Some(format!("{name} {version}"))
            });
            Ok(named.unwrap_or_else(|| "unknown".into()))
        }
    }
}

/// A value of memcached's general statistics.
fn stat(address: &Address, name: &str) -> Result<String> {
    let mut stream = BufReader::new(address.endpoint.connect()?);
    stream.get_mut().write_all(b"stats\r\n")?;
    for line in stream.lines() {
        let line = line?;
        match line.strip_prefix("STAT ").and_then(|line| line.split_once(' ')) {
            Some((found, value)) if found == name => return Ok(value.trim().to_owned()),
            Some(_) => {}
            None => break,
        }
    }
    bail!("{address} has no statistic {name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_may_be_named_behind_an_address() {
        let given: Given = "redis://127.0.0.1:1?pid=77".parse().unwrap();
        assert_eq!(
            (given.address.to_string().as_str(), given.pid),
            ("redis://127.0.0.1:1", Some(77))
        );
        assert_eq!("unix:///run/s".parse::<Given>().unwrap().pid, None);
        for bad in ["redis://127.0.0.1:1?pid=x", "redis://127.0.0.1:1?name=1", "?pid=1"] {
            assert!(bad.parse::<Given>().is_err(), "{bad}");
        }
    }
}
