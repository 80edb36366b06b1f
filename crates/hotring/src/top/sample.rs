//! A sample of a server's statistics at one moment.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::client::{Answer, Client, Error};

/// INFO with its section of hot keys, CLIENT LIST, and CLUSTER NODES of a node of a cluster.
#[derive(Debug)]
pub(super) struct Sample {
    pub at: Instant,
    info: BTreeMap<String, String>,
    /// The fields of each client.
    pub clients: Vec<BTreeMap<String, String>>,
    /// The nodes of the server's cluster.
    pub nodes: Vec<Node>,
}

/// A node of a cluster, from its line of CLUSTER NODES.
#[derive(Debug)]
pub(super) struct Node {
    pub id: String,
    pub address: String,
    pub is_me: bool,
    pub has_failed: bool,
    /// The primary that a replica follows.
    pub primary: Option<String>,
    pub epoch: u64,
    /// The first and last slots of its ranges.
    pub slots: Vec<(u16, u16)>,
}

impl Node {
    fn read(line: &str) -> Option<Node> {
        let mut words = line.split(' ');
        let (id, address, flags) = (words.next()?, words.next()?, words.next()?);
        let primary = Some(words.next()?).filter(|primary| *primary != "-");
        let epoch = words.nth(2)?.parse().ok()?;
        let has = |flag: &str| flags.split(',').any(|other| other == flag);
        let range = |text: &str| {
            let (first, last) = text.split_once('-').unwrap_or((text, text));
            Some((first.parse().ok()?, last.parse().ok()?))
        };
        Some(Node {
            id: id.to_string(),
            address: address.split('@').next()?.to_string(),
            is_me: has("myself"),
            has_failed: has("fail"),
            primary: primary.map(str::to_string),
            epoch,
            slots: words.skip(1).filter_map(range).collect(),
        })
    }

    /// The number of its slots.
    pub(super) fn slot_count(&self) -> usize {
        self.slots.iter().map(|(first, last)| usize::from(last - first) + 1).sum()
    }
}

/// Statistics of one command.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct CommandFigures {
    pub calls: f64,
    pub us_per_call: f64,
    pub p50: Option<f64>,
    pub p99: Option<f64>,
}

impl Sample {
    /// Requests a sample from a server.
    pub(super) fn take(client: &mut Client) -> Result<Self, Error> {
        let mut text = |request: &str| {
            Ok::<_, Error>(match client.ask(request)? {
                Answer::Text(text) => text,
                _ => String::new(),
            })
        };
        // The section is not part of `all`.
        let (info, clients) = (text("INFO all hotkeys")?, text("CLIENT LIST")?);
        let mut sample = Sample::read(Instant::now(), &info, &clients);
        if sample.text("cluster_enabled") == "1" {
            sample.read_nodes(&text("CLUSTER NODES")?);
        }
        Ok(sample)
    }

    /// Takes up the reply of CLUSTER NODES.
    pub(super) fn read_nodes(&mut self, text: &str) {
        self.nodes = text.lines().filter_map(Node::read).collect();
    }

    pub(super) fn read(at: Instant, info: &str, clients: &str) -> Self {
        let pairs = info.lines().filter_map(|line| line.split_once(':'));
        Sample {
            at,
            info: pairs.map(|(name, value)| (name.to_string(), value.to_string())).collect(),
            clients: clients.lines().map(|line| fields(line, ' ')).collect(),
            nodes: Vec::new(),
        }
    }

    /// A field of INFO; empty if there is none of this name.
    pub(super) fn text(&self, name: &str) -> &str {
        self.info.get(name).map_or("", String::as_str)
    }

    /// A field of INFO as a number; 0 if it is missing or not a number.
    pub(super) fn number(&self, name: &str) -> f64 {
        self.text(name).parse().unwrap_or(0.0)
    }

    /// A field of database 0: `keys` or `expires`.
    pub(super) fn keyspace(&self, part: &str) -> f64 {
        values(self.text("db0")).find(|(name, _)| *name == part).map_or(0.0, |(_, value)| value)
    }

    /// The fields of each attached replica.
    pub(super) fn replicas(&self) -> Vec<BTreeMap<String, String>> {
        let replica = |i: usize| Some(fields(self.info.get(&format!("slave{i}"))?, ','));
        (0..).map_while(replica).collect()
    }

    /// The fields of each move of slots that the server lists.
    pub(super) fn moves(&self) -> Vec<BTreeMap<String, String>> {
        let listed = |i: usize| Some(fields(self.info.get(&format!("cluster_move_{i}"))?, ','));
        (0..).map_while(listed).collect()
    }

    /// The hottest keys in descending order, each behind its share in percent.
    pub(super) fn hot_keys(&self) -> Vec<(f64, &str)> {
        let hot_key = |i: usize| {
            let text = self.info.get(&format!("hotkey_{i}"))?;
            // The key is the last field, as it may contain anything.
            let (figures, key) = text.split_once(",key=")?;
            let percent = values(figures).find(|(name, _)| *name == "percent")?.1;
            Some((percent, key))
        };
        (0..).map_while(hot_key).collect()
    }

    /// The statistics of each command, by name.
    pub(super) fn commands(&self) -> BTreeMap<&str, CommandFigures> {
        let mut commands = BTreeMap::new();
        for (name, text) in &self.info {
            let Some(name) = name.strip_prefix("cmdstat_") else { continue };
            let stat = |wanted: &str| values(text).find(|(n, _)| *n == wanted).map(|(_, v)| v);
            let times = self.text(&format!("latency_percentiles_usec_{name}"));
            let time = |wanted: &str| values(times).find(|(n, _)| *n == wanted).map(|(_, v)| v);
            let figures = CommandFigures {
                calls: stat("calls").unwrap_or(0.0),
                us_per_call: stat("usec_per_call").unwrap_or(0.0),
                p50: time("p50"),
                p99: time("p99"),
            };
            commands.insert(name, figures);
        }
        commands
    }
}

/// The parts of `a=x,b=y`, with this separator.
fn fields(text: &str, separator: char) -> BTreeMap<String, String> {
    let pairs = text.split(separator).filter_map(|field| field.split_once('='));
    pairs.map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

/// The numeric parts of `a=1,b=2`.
fn values(text: &str) -> impl Iterator<Item = (&str, f64)> {
    text.split(',').filter_map(|part| {
        let (name, value) = part.split_once('=')?;
        Some((name, value.parse().ok()?))
    })
}
