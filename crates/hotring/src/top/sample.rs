//! A sample of a server's statistics at one moment.

use std::collections::BTreeMap;
use std::time::Instant;

use crate::client::{Answer, Client, Error};

/// INFO with its section of hot keys, and CLIENT LIST.
#[derive(Debug)]
pub(super) struct Sample {
    pub at: Instant,
    info: BTreeMap<String, String>,
    /// The fields of each client.
    pub clients: Vec<BTreeMap<String, String>>,
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
        Ok(Sample::read(Instant::now(), &info, &clients))
    }

    pub(super) fn read(at: Instant, info: &str, clients: &str) -> Self {
        let pairs = info.lines().filter_map(|line| line.split_once(':'));
        Sample {
            at,
            info: pairs.map(|(name, value)| (name.to_string(), value.to_string())).collect(),
            clients: clients.lines().map(|line| fields(line, ' ')).collect(),
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
