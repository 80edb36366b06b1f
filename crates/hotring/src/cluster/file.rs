//! The description of a cluster as TOML, and loads of slots as lines.

use std::collections::BTreeMap;

use hotring_cluster::{SLOTS, ShardId, Slot, SlotSet, USUAL_WEIGHT};
use toml_edit::{Document, Item, Table};

/// A cluster as it is, and the nodes as they should be.
#[derive(Debug, Default)]
pub(super) struct Cluster {
    /// Nodes of a shard, its primary included.
    pub(super) copies: usize,
    pub(super) shards: BTreeMap<ShardId, Shard>,
    pub(super) nodes: Vec<Node>,
}

#[derive(Debug, Default)]
pub(super) struct Shard {
    pub(super) slots: SlotSet,
    /// Identifiers by hand.
    pub(super) ids: Option<Vec<u64>>,
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) name: String,
    pub(super) shard: Option<ShardId>,
    pub(super) zone: String,
    pub(super) weight: u32,
    pub(super) leaves: bool,
}

/// Reads the description. Errors begin with the line.
pub(super) fn cluster(text: &str) -> Result<Cluster, String> {
    let document = Document::parse(text).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start);
        format!("line {}: {}", line_of(text, start), error.message())
    })?;
    let top = Part { text, table: document.as_table() };
    top.knows(&["copies", "shard", "node"])?;
    let copies = top.number("copies", 1..=100)?.unwrap_or(1) as usize;
    let mut cluster = Cluster { copies, ..Cluster::default() };
    for part in top.tables("shard")? {
        part.knows(&["number", "slots", "ids"])?;
        let number = part.number("number", SHARDS)?.ok_or_else(|| part.lacks("number"))? as ShardId;
        let slots = part.string("slots")?.unwrap_or_default().parse::<SlotSet>();
        let slots = slots.map_err(|why| part.at("slots", &why.to_string()))?;
        if cluster.shards.insert(number, Shard { slots, ids: part.ids()? }).is_some() {
            return Err(part.at("number", &format!("shard {number} is there twice")));
        }
    }
    for part in top.tables("node")? {
        part.knows(&["name", "shard", "zone", "weight", "leaves"])?;
        let name = part.string("name")?.ok_or_else(|| part.lacks("name"))?.to_owned();
        if cluster.nodes.iter().any(|node| node.name == name) {
            return Err(part.at("name", &format!("node {name} is there twice")));
        }
        let weight = 1..=i64::from(hotring_cluster::MAX_WEIGHT);
        let node = Node {
            name,
            shard: part.number("shard", SHARDS)?.map(|number| number as ShardId),
            zone: part.string("zone")?.unwrap_or_default().to_owned(),
            weight: part.number("weight", weight)?.map_or(USUAL_WEIGHT, |weight| weight as u32),
            leaves: part.flag("leaves")?,
        };
        match node.shard {
            Some(shard) => _ = cluster.shards.entry(shard).or_default(),
            None if node.leaves => {
                let why = "a node that leaves must be in a shard: add shard, or remove the node";
                return Err(part.at("leaves", why));
            }
            None => {}
        }
        cluster.nodes.push(node);
    }
    Ok(cluster)
}

/// New shards must find numbers above these.
const SHARDS: std::ops::RangeInclusive<i64> = 0..=1_000_000;

/// Reads lines of a slot and its load. Slots without a line have none.
pub(super) fn loads(text: &str) -> Result<Vec<u64>, String> {
    let mut loads = vec![None; usize::from(SLOTS)];
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let mut words = line.split_whitespace();
        let slot = words.next().and_then(|word| word.parse::<Slot>().ok());
        let load = words.next().and_then(|word| word.parse().ok());
        match (slot.filter(|slot| *slot < SLOTS), load, words.next()) {
            (Some(slot), Some(load), None) => {
                if loads[usize::from(slot)].replace(load).is_some() {
                    return Err(format!("line {}: slot {slot} is there twice", at + 1));
                }
            }
            _ => return Err(format!("line {}: write a slot and a number: 7 1500", at + 1)),
        }
    }
    Ok(loads.into_iter().map(Option::unwrap_or_default).collect())
}

fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|&byte| byte == b'\n').count() + 1
}

/// A table with the text that it comes from.
struct Part<'t> {
    text: &'t str,
    table: &'t Table,
}

impl<'t> Part<'t> {
    fn item(&self, name: &str) -> Option<&'t Item> {
        self.table.get(name)
    }

    fn at(&self, name: &str, why: &str) -> String {
        let key = self.table.key(name).and_then(|key| key.span());
        let start = key.or(self.table.span()).map_or(0, |span| span.start);
        format!("line {}: {why}", line_of(self.text, start))
    }

    fn lacks(&self, name: &str) -> String {
        self.at(name, &format!("{name} is missing"))
    }

    fn knows(&self, names: &[&str]) -> Result<(), String> {
        match self.table.iter().find(|(name, _)| !names.contains(name)) {
            Some((name, _)) => {
                Err(self
                    .at(name, &format!("{name} is unknown here: there are {}", names.join(", "))))
            }
            None => Ok(()),
        }
    }

    fn tables(&self, name: &str) -> Result<Vec<Part<'t>>, String> {
        let Some(item) = self.item(name) else { return Ok(Vec::new()) };
        let tables = item.as_array_of_tables();
        let tables =
            tables.ok_or_else(|| self.at(name, &format!("write [[{name}]] before each {name}")))?;
        Ok(tables.iter().map(|table| Part { text: self.text, table }).collect())
    }

    fn string(&self, name: &str) -> Result<Option<&'t str>, String> {
        let Some(item) = self.item(name) else { return Ok(None) };
        item.as_str().map(Some).ok_or_else(|| self.at(name, &format!("{name} must be a string")))
    }

    fn flag(&self, name: &str) -> Result<bool, String> {
        let Some(item) = self.item(name) else { return Ok(false) };
        item.as_bool().ok_or_else(|| self.at(name, &format!("{name} must be true or false")))
    }

    fn number(
        &self,
        name: &str,
        range: std::ops::RangeInclusive<i64>,
    ) -> Result<Option<i64>, String> {
        let Some(item) = self.item(name) else { return Ok(None) };
        item.as_integer().filter(|number| range.contains(number)).map(Some).ok_or_else(|| {
            let (first, last) = range.into_inner();
            self.at(name, &format!("{name} must be a number from {first} to {last}"))
        })
    }

    fn ids(&self) -> Result<Option<Vec<u64>>, String> {
        let Some(item) = self.item("ids") else { return Ok(None) };
        let id = |text: &str| u64::from_str_radix(text.strip_prefix("0x")?, 16).ok();
        let ids =
            item.as_array().and_then(|ids| ids.iter().map(|item| id(item.as_str()?)).collect());
        let why = "ids must be a list of hexadecimal strings, [\"0x1f00\"]";
        ids.map(Some).ok_or_else(|| self.at("ids", why))
    }
}
