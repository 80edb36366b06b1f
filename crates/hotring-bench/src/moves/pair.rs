//! Two servers that form a cluster, and the commands to it.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::address::Endpoint;
use crate::durability::{Rewrites, Setup, Testbed, wait_until};
use crate::folder::Folder;
use crate::resp::{Client, info_field};
use crate::servers::{Data, Kind, Target};

/// The log of both.
const LOG: &str = "everysec";

/// Time between two looks at the servers, which are being measured.
const LOOK: Duration = Duration::from_millis(50);

/// Two servers, each a shard of its own. Their processes must end before their folders are removed.
pub struct Pair {
    program: PathBuf,
    nodes: Vec<Target>,
    _folders: Vec<Folder>,
}

impl Pair {
    /// Starts both. The first one has the coordinator, and shard 0 the lower half of the slots.
    pub fn start(testbed: &Testbed, threads: usize) -> Result<Pair> {
        let program = testbed.program(Kind::Hotring).map_or_else(|| Kind::Hotring.program(), Ok)?;
        let mut pair = Pair { program, nodes: Vec::new(), _folders: Vec::new() };
        let setup =
            Setup { kind: Kind::Hotring, log: Some(LOG), rewrites: Rewrites::Automatic, threads };
        let data = Data { keys: 0, key_len: 0, value_len: 0 };
        for _ in 0..2 {
            let coordinator = match pair.nodes.first() {
                Some(_) => pair.endpoints()[0].clone(),
                None => "embedded".to_owned(),
            };
            let folder = Folder::new(&testbed.folder(), "moves")?;
            let mut plan = testbed.plan(setup, &folder, &data);
            plan.settings.push(("coordinator", coordinator));
            pair.nodes.push(Target::start(&plan)?);
            pair._folders.push(folder);
        }
        pair.found()?;
        Ok(pair)
    }

    fn found(&self) -> Result<()> {
        wait_until("both servers have registered", || {
            let alive = info_field(&self.client(0)?.info("cluster")?, "cluster_nodes_alive");
            Ok(alive == Some(2))
        })?;
        self.cluster(&["create", "--copies", "1"])?;
        wait_until("all slots are served", || {
            let is_ok = |node| {
                let info = self.client(node)?.info("cluster")?;
                let unserved: Option<u64> = info_field(&info, "cluster_slots_unserved");
                let may_answer: Option<u64> = info_field(&info, "cluster_may_answer");
                anyhow::Ok(unserved == Some(0) && may_answer == Some(1))
            };
            Ok(is_ok(0)? && is_ok(1)?)
        })
    }

    fn client(&self, node: usize) -> Result<Client> {
        Client::connect(&self.nodes[node].address)
    }

    /// Where they listen.
    pub fn endpoints(&self) -> Vec<String> {
        let tcp = |node: &Target| match &node.address.endpoint {
            Endpoint::Tcp(endpoint) => endpoint.clone(),
            Endpoint::Unix(path) => path.display().to_string(),
        };
        self.nodes.iter().map(tcp).collect()
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

    /// Waits until no server has keys that the other one has as well. Both have this number of keys.
    pub fn wait_until_forgotten(&self, keys: u64) -> Result<()> {
        let mut clients = [self.client(0)?, self.client(1)?];
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

    /// Bytes that both have sent for moves.
    pub fn sent_bytes(&self) -> Result<u64> {
        let of = |node| {
            let info = self.client(node)?.info("cluster")?;
            let sent: Option<u64> = info_field(&info, "cluster_move_bytes");
            sent.context("the server does not count bytes of moves")
        };
        Ok(of(0)? + of(1)?)
    }
}
