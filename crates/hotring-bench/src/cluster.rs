//! Servers that form a cluster of single copies with the embedded coordinator, and the commands to it.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::durability::{Rewrites, Setup, Testbed, wait_until};
use crate::folder::Folder;
use crate::resp::{Client, info_field};
use crate::servers::{Data, Kind, Target};

/// The log of both.
const LOG: &str = "everysec";

/// Time between two looks at the servers, which are being measured.
const LOOK: Duration = Duration::from_millis(50);

/// Servers, each a shard of its own. Their processes must end before their folders are removed.
pub struct Cluster {
    program: PathBuf,
    nodes: Vec<Target>,
    _folders: Vec<Folder>,
}

impl Cluster {
    /// Starts this many. The first one has the coordinator, and the shards have equal ranges of slots.
    pub fn start(testbed: &Testbed, count: usize, threads: usize) -> Result<Cluster> {
        let program = testbed.program(Kind::Hotring).map_or_else(|| Kind::Hotring.program(), Ok)?;
        let mut cluster = Cluster { program, nodes: Vec::new(), _folders: Vec::new() };
        let setup =
            Setup { kind: Kind::Hotring, log: Some(LOG), rewrites: Rewrites::Automatic, threads };
        let data = Data { keys: 0, key_len: 0, value_len: 0 };
        for _ in 0..count {
            let coordinator = match cluster.nodes.first() {
                Some(_) => cluster.endpoints()[0].clone(),
                None => "embedded".to_owned(),
            };
            let folder = Folder::new(&testbed.folder(), "cluster")?;
            let mut plan = testbed.plan(setup, &folder, &data);
            plan.settings.push(("coordinator", coordinator));
            cluster.nodes.push(Target::start(&plan)?);
            cluster._folders.push(folder);
        }
        cluster.found()?;
        Ok(cluster)
    }

    fn found(&self) -> Result<()> {
        let count = self.nodes.len();
        wait_until("all servers have registered", || {
            let alive = info_field(&self.client(0)?.info("cluster")?, "cluster_nodes_alive");
            Ok(alive == Some(count))
        })?;
        self.cluster(&["create", "--copies", "1"])?;
        wait_until("all slots are served", || {
            for node in 0..count {
                let info = self.client(node)?.info("cluster")?;
                let unserved: Option<u64> = info_field(&info, "cluster_slots_unserved");
                let may_answer: Option<u64> = info_field(&info, "cluster_may_answer");
                if unserved != Some(0) || may_answer != Some(1) {
                    return Ok(false);
                }
            }
            Ok(true)
        })
    }

    fn client(&self, node: usize) -> Result<Client> {
        Client::connect(&self.nodes[node].address)
    }

    /// The addresses at which they listen.
    pub fn endpoints(&self) -> Vec<String> {
        self.nodes.iter().map(|node| node.address.endpoint.text()).collect()
    }

    /// Runs `hotring cluster`.
    fn cluster(&self, words: &[&str]) -> Result<()> {
        let mut command = Command::new(&self.program);
        command.arg("cluster").args(words).args(["--yes", "--coordinator", &self.endpoints()[0]]);
        let output = command.stdin(Stdio::null()).output().context("cannot run hotring cluster")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "hotring cluster {} fails: {said}", words[0]);
        Ok(())
    }

    /// Moves the first slots to a shard, and waits until they have moved.
    pub fn move_slots(&self, count: u16, to: usize) -> Result<()> {
        self.cluster(&["move", &format!("0-{}", count - 1), "--to", &to.to_string()])
    }

    /// Waits until no server has keys that another one has as well. Together they have this number of keys.
    pub fn wait_until_forgotten(&self, keys: u64) -> Result<()> {
        let clients = (0..self.nodes.len()).map(|node| self.client(node));
        let mut clients = clients.collect::<Result<Vec<_>>>()?;
        wait_until("the source has removed the keys", || {
            std::thread::sleep(LOOK);
            let mut sum = 0;
            for client in &mut clients {
                let counts: Option<String> = info_field(&client.info("keyspace")?, "db0");
                let number = counts.as_deref().and_then(|counts| counts.split(['=', ',']).nth(1));
                sum += number.map_or(Ok(0), str::parse)?;
            }
            Ok(sum == keys)
        })
    }

    /// Bytes that all have sent for moves.
    pub fn sent_bytes(&self) -> Result<u64> {
        let of = |node| {
            let info = self.client(node)?.info("cluster")?;
            let sent: Option<u64> = info_field(&info, "cluster_move_bytes");
            sent.context("the server does not count bytes of moves")
        };
        (0..self.nodes.len()).map(of).sum()
    }
}
