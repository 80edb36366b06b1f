//! The records of a cluster as a coordinator keeps them, and the view of them all.
//!
//! ```text
//!   cluster      {"id":"..."}                   which cluster these records are of
//!   nodes/ID     {"host":..,"port":..,..}       a node that belongs to the cluster, alive or not
//!   alive/ID     {"incarnation":".."}           its present start, under the lease that it keeps
//!   shards/N     {"epoch":..,"primary":..,..}   a primary, its in-sync set, its replicas
//!   slots        {"N":"0-5460,..",..}           the owner of each slot
//!   moves/ID     {"from":1,"to":2,"slots":..}  slots that are to change their owner, until they have
//!   controller   {"node":".."}                  the node that repairs shards, under the lease that it keeps
//!   replacing/N  {"dead":"..","spare":".."}     a replica of a shard that another one is to replace
//!   leaving/ID   {"epoch":7}                    a node that an operator has drained: it gets no shard by itself
//! ```
//! The values are JSON, so that an operator can read them with the coordinator's own tools.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::ids::{Epoch, Identity, Incarnation, NodeId};
use crate::plan::Owners;
use crate::records::{Revision, Shard, ShardId};
use crate::slots::{SLOTS, Slot, SlotSet};

/// A node of the cluster, as it made itself known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// The address at which clients and other nodes reach it.
    pub host: String,
    /// Its port for RESP.
    pub port: u16,
    /// Its port for RESP over TLS, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_port: Option<u16>,
    /// Nodes of one zone may fail together.
    #[serde(default)]
    pub zone: String,
    /// What it can carry, 100 as a rule.
    pub weight: u32,
}

/// The number of a move of slots.
pub type MoveId = u64;

/// A move of slots that is wanted or under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The shard that gives the slots.
    pub from: ShardId,
    /// The shard that gets them.
    pub to: ShardId,
    /// The slots.
    pub slots: SlotSet,
}

/// A dead replica, and the one that stands in for it: one of them goes once the other is in sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replacing {
    /// The replica that was dead.
    pub dead: NodeId,
    /// The other one.
    pub spare: NodeId,
}

/// All records of a cluster at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Directory {
    /// What identifies the cluster, once there is one.
    pub cluster: Option<(Revision, String)>,
    /// The nodes that belong to the cluster.
    pub nodes: BTreeMap<NodeId, (Revision, Node)>,
    /// The present start of each node whose lease lives. It detects death, no more.
    pub alive: BTreeMap<NodeId, Incarnation>,
    /// The shards.
    pub shards: BTreeMap<ShardId, (Revision, Shard)>,
    /// The revision of the table of slots, 0 without one.
    pub slots_revision: Revision,
    /// The table of slots.
    pub owners: Owners,
    /// The moves of slots that are wanted or under way.
    pub moves: BTreeMap<MoveId, (Revision, Wanted)>,
    /// The node that repairs shards.
    pub controller: Option<(Revision, NodeId)>,
    /// The shards with a replica that is being replaced.
    pub replacing: BTreeMap<ShardId, (Revision, Replacing)>,
    /// The nodes that get no shard by themselves, with the epoch of their last one.
    pub leaving: BTreeMap<NodeId, Epoch>,
}

/// A record that cannot be read. Its cluster must not be changed before an operator has looked at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRecord {
    /// The record's name.
    pub name: String,
    /// What is wrong with it.
    pub why: String,
}

impl fmt::Display for BadRecord {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "the coordinator's record '{}' cannot be read: {}", self.name, self.why)
    }
}

impl std::error::Error for BadRecord {}

/// The text of [`Shard`].
#[derive(Serialize, Deserialize)]
struct ShardText {
    epoch: u64,
    promoted: u64,
    primary: String,
    incarnation: String,
    in_sync: Vec<String>,
    replicas: Vec<String>,
}

/// The text of [`Wanted`].
#[derive(Serialize, Deserialize)]
struct WantedText {
    from: ShardId,
    to: ShardId,
    slots: String,
}

#[derive(Serialize, Deserialize)]
struct AliveText {
    incarnation: String,
}

#[derive(Serialize, Deserialize)]
struct ControllerText {
    node: String,
}

/// The text of [`Replacing`].
#[derive(Serialize, Deserialize)]
struct ReplacingText {
    dead: String,
    spare: String,
}

#[derive(Serialize, Deserialize)]
struct LeavingText {
    epoch: u64,
}

#[derive(Serialize, Deserialize)]
struct ClusterText {
    id: String,
}

/// The name of the record that says which cluster this is.
pub const CLUSTER: &str = "cluster";
/// The name of the table of slots.
pub const SLOT_TABLE: &str = "slots";
/// The name of the record that says which node repairs shards.
pub const CONTROLLER: &str = "controller";

/// The name of a node's record.
pub fn node_name(id: NodeId) -> String {
    format!("nodes/{id}")
}

/// The name of the record that exists while a node's lease lives.
pub fn alive_name(id: NodeId) -> String {
    format!("alive/{id}")
}

/// The name of a shard's record.
pub fn shard_name(shard: ShardId) -> String {
    format!("shards/{shard}")
}

/// The name of a move's record.
pub fn move_name(id: MoveId) -> String {
    format!("moves/{id}")
}

/// The name of the record of a replica that is being replaced.
pub fn replacing_name(shard: ShardId) -> String {
    format!("replacing/{shard}")
}

/// The name of the record of a drained node.
pub fn leaving_name(id: NodeId) -> String {
    format!("leaving/{id}")
}

/// The value of the record that says which cluster this is.
pub fn cluster_value(id: &str) -> Vec<u8> {
    json(&ClusterText { id: id.to_owned() })
}

/// The value of a node's record.
pub fn node_value(node: &Node) -> Vec<u8> {
    json(node)
}

/// The value of the record of a node that is alive.
pub fn alive_value(incarnation: Incarnation) -> Vec<u8> {
    json(&AliveText { incarnation: incarnation.to_string() })
}

/// The value of a shard's record.
pub fn shard_value(shard: &Shard) -> Vec<u8> {
    let names = |nodes: &[NodeId]| nodes.iter().map(NodeId::to_string).collect();
    json(&ShardText {
        epoch: shard.epoch.0,
        promoted: shard.promoted.0,
        primary: shard.primary.node.to_string(),
        incarnation: shard.primary.incarnation.to_string(),
        in_sync: names(&shard.in_sync),
        replicas: names(&shard.replicas),
    })
}

/// The value of the table of slots.
pub fn slots_value(owners: &Owners) -> Vec<u8> {
    let text: BTreeMap<ShardId, String> =
        sets(owners).into_iter().map(|(shard, slots)| (shard, slots.to_string())).collect();
    json(&text)
}

/// The value of a move's record.
pub fn move_value(wanted: &Wanted) -> Vec<u8> {
    let Wanted { from, to, slots } = wanted;
    json(&WantedText { from: *from, to: *to, slots: slots.to_string() })
}

/// The value of the record that says which node repairs shards.
pub fn controller_value(node: NodeId) -> Vec<u8> {
    json(&ControllerText { node: node.to_string() })
}

/// The value of the record of a replica that is being replaced.
pub fn replacing_value(replacing: &Replacing) -> Vec<u8> {
    let Replacing { dead, spare } = replacing;
    json(&ReplacingText { dead: dead.to_string(), spare: spare.to_string() })
}

/// The value of the record of a drained node: the epoch of its last shard.
pub fn leaving_value(epoch: Epoch) -> Vec<u8> {
    json(&LeavingText { epoch: epoch.0 })
}

/// The slots of each shard that has any.
pub fn sets(owners: &Owners) -> BTreeMap<ShardId, SlotSet> {
    let mut of: BTreeMap<ShardId, Vec<Slot>> = BTreeMap::new();
    for slot in 0..SLOTS {
        if let Some(shard) = owners.of(slot) {
            of.entry(shard).or_default().push(slot);
        }
    }
    of.into_iter().map(|(shard, slots)| (shard, slots.into_iter().collect())).collect()
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("texts and numbers have a form in JSON")
}

impl Directory {
    /// Reads all records: name, revision, value. Names of another kind are left alone, since a later version may
    /// have written them.
    pub fn read<'a>(
        records: impl IntoIterator<Item = (&'a str, Revision, &'a [u8])>,
    ) -> Result<Directory, BadRecord> {
        let mut directory = Directory::default();
        for (name, revision, value) in records {
            directory
                .take(name, revision, value)
                .map_err(|why| BadRecord { name: name.to_owned(), why })?;
        }
        Ok(directory)
    }

    fn take(&mut self, name: &str, revision: Revision, value: &[u8]) -> Result<(), String> {
        match name.split_once('/') {
            None if name == CLUSTER => {
                self.cluster = Some((revision, parse::<ClusterText>(value)?.id));
            }
            None if name == SLOT_TABLE => {
                self.owners = owners_of(value)?;
                self.slots_revision = revision;
            }
            None if name == CONTROLLER => {
                let text: ControllerText = parse(value)?;
                self.controller = Some((revision, node_id(&text.node)?));
            }
            Some(("replacing", number)) => {
                let text: ReplacingText = parse(value)?;
                let (dead, spare) = (node_id(&text.dead)?, node_id(&text.spare)?);
                self.replacing.insert(parse_number(number)?, (revision, Replacing { dead, spare }));
            }
            Some(("leaving", id)) => {
                let text: LeavingText = parse(value)?;
                self.leaving.insert(node_id(id)?, epoch(text.epoch)?);
            }
            Some(("nodes", id)) => {
                self.nodes.insert(node_id(id)?, (revision, parse(value)?));
            }
            Some(("alive", id)) => {
                let text: AliveText = parse(value)?;
                self.alive.insert(node_id(id)?, incarnation(&text.incarnation)?);
            }
            Some(("shards", number)) => {
                self.shards.insert(parse_number(number)?, (revision, shard_of(value)?));
            }
            Some(("moves", number)) => {
                self.moves.insert(parse_number(number)?, (revision, wanted_of(value)?));
            }
            _ => {}
        }
        Ok(())
    }

    /// The shard that owns a slot.
    pub fn shard_of_slot(&self, slot: Slot) -> Option<(ShardId, &Shard)> {
        let id = self.owners.of(slot)?;
        Some((id, &self.shards.get(&id)?.1))
    }

    /// The shard to which a node belongs, as its primary or as a replica.
    pub fn shard_of_node(&self, node: NodeId) -> Option<(ShardId, &Shard)> {
        let belongs = |shard: &Shard| shard.primary.node == node || shard.replicas.contains(&node);
        let mut shards = self.shards.iter().map(|(id, (_, shard))| (*id, shard));
        shards.find(|(_, shard)| belongs(shard))
    }

    /// A node that lives and belongs to no shard.
    pub fn is_idle(&self, id: NodeId) -> bool {
        self.is_alive(id) && self.nodes.contains_key(&id) && self.shard_of_node(id).is_none()
    }

    /// The node of this name.
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(&id).map(|(_, node)| node)
    }

    /// Whether a node's lease lives.
    pub fn is_alive(&self, id: NodeId) -> bool {
        self.alive.contains_key(&id)
    }

    /// Whether the primary of a shard lives in the start that its record names. One that was started again serves
    /// nothing before it has claimed the record, which it does only if it lost nothing.
    pub fn has_primary(&self, shard: &Shard) -> bool {
        self.alive.get(&shard.primary.node) == Some(&shard.primary.incarnation)
    }
}

fn parse<T: DeserializeOwned>(value: &[u8]) -> Result<T, String> {
    serde_json::from_slice(value).map_err(|error| error.to_string())
}

fn parse_number<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| "its name has no number".to_owned())
}

fn node_id(text: &str) -> Result<NodeId, String> {
    NodeId::parse(text).ok_or_else(|| format!("'{text}' is no node: 40 hexadecimal digits"))
}

fn node_ids(texts: &[String]) -> Result<Vec<NodeId>, String> {
    texts.iter().map(|text| node_id(text)).collect()
}

fn incarnation(text: &str) -> Result<Incarnation, String> {
    Incarnation::parse(text).ok_or_else(|| format!("'{text}' is no start: 16 hexadecimal digits"))
}

fn epoch(number: u64) -> Result<Epoch, String> {
    let epoch = Some(Epoch(number)).filter(|&epoch| epoch < Epoch::MAX);
    epoch.ok_or_else(|| format!("the epoch {number} is too high"))
}

fn shard_of(value: &[u8]) -> Result<Shard, String> {
    let text: ShardText = parse(value)?;
    let node = node_id(&text.primary)?;
    Ok(Shard {
        epoch: epoch(text.epoch)?,
        promoted: epoch(text.promoted)?,
        primary: Identity { node, incarnation: incarnation(&text.incarnation)? },
        in_sync: node_ids(&text.in_sync)?,
        replicas: node_ids(&text.replicas)?,
    })
}

fn wanted_of(value: &[u8]) -> Result<Wanted, String> {
    let WantedText { from, to, slots } = parse(value)?;
    let slots: SlotSet = slots.parse().map_err(|bad| format!("{bad}"))?;
    match slots.is_empty() || from == to {
        true => Err("it moves nothing".to_owned()),
        false => Ok(Wanted { from, to, slots }),
    }
}

fn owners_of(value: &[u8]) -> Result<Owners, String> {
    let text: BTreeMap<ShardId, String> = parse(value)?;
    let mut owners = Owners::default();
    for (shard, slots) in text {
        let slots: SlotSet = slots.parse().map_err(|bad| format!("{bad}"))?;
        for slot in slots.iter() {
            if let Some(other) = owners.of(slot) {
                return Err(format!("slot {slot} has two owners: shard {other} and shard {shard}"));
            }
            owners.give(slot, shard);
        }
    }
    Ok(owners)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records() -> Vec<(String, Revision, Vec<u8>)> {
        let (one, two) = (NodeId([1; 20]), NodeId([2; 20]));
        let node = |port| Node {
            host: "10.0.0.1".into(),
            port,
            tls_port: None,
            zone: "a".into(),
            weight: 100,
        };
        let shard = Shard {
            epoch: Epoch(3),
            promoted: Epoch(2),
            primary: Identity { node: one, incarnation: Incarnation(u64::MAX) },
            in_sync: vec![two],
            replicas: vec![two],
        };
        let mut owners = Owners::default();
        (0..SLOTS).filter(|slot| *slot != 7).for_each(|slot| owners.give(slot, 4));
        vec![
            (CLUSTER.into(), 1, cluster_value("c")),
            (node_name(one), 2, node_value(&node(6379))),
            (node_name(two), 3, node_value(&node(6380))),
            (alive_name(two), 4, alive_value(Incarnation(9))),
            (shard_name(4), 5, shard_value(&shard)),
            (SLOT_TABLE.into(), 6, slots_value(&owners)),
            ("later/thing".into(), 7, b"?".to_vec()),
            (CONTROLLER.into(), 8, controller_value(one)),
            (replacing_name(4), 9, replacing_value(&Replacing { dead: two, spare: one })),
            (leaving_name(two), 10, leaving_value(Epoch(6))),
        ]
    }

    fn read(records: &[(String, Revision, Vec<u8>)]) -> Result<Directory, BadRecord> {
        let records = records.iter();
        Directory::read(records.map(|(name, revision, value)| (&name[..], *revision, &value[..])))
    }

    #[test]
    fn records_are_read_as_they_were_written() {
        let directory = read(&records()).unwrap();
        assert_eq!(directory.cluster, Some((1, "c".to_owned())));
        assert_eq!(directory.node(NodeId([2; 20])).unwrap().port, 6380);
        assert!(directory.is_alive(NodeId([2; 20])) && !directory.is_alive(NodeId([1; 20])));
        let (id, shard) = directory.shard_of_slot(8).unwrap();
        assert_eq!((id, shard.epoch, shard.promoted), (4, Epoch(3), Epoch(2)));
        assert_eq!(shard.primary.incarnation, Incarnation(u64::MAX));
        assert_eq!(directory.shard_of_node(NodeId([2; 20])).unwrap().0, 4);
        assert_eq!(directory.shard_of_slot(7), None);
        assert_eq!((directory.slots_revision, directory.shards[&4].0), (6, 5));
        assert_eq!(directory.controller, Some((8, NodeId([1; 20]))));
        let replacing = Replacing { dead: NodeId([2; 20]), spare: NodeId([1; 20]) };
        assert_eq!(directory.replacing[&4], (9, replacing));
        assert_eq!(directory.leaving[&NodeId([2; 20])], Epoch(6));
    }

    #[test]
    fn a_record_that_cannot_be_right_is_named() {
        let bad = [
            ("nodes/12", r#"{"host":"h","port":1,"weight":1}"#, "no node"),
            (&node_name(NodeId([1; 20])), r#"{"host":"h"}"#, "port"),
            ("shards/x", "{}", "no number"),
            ("slots", r#"{"1":"0-5","2":"5-9"}"#, "two owners"),
            ("slots", r#"{"1":"16384"}"#, "not a slot"),
            ("cluster", "", "EOF"),
            ("moves/x", "{}", "no number"),
            ("moves/1", r#"{"from":1,"to":1,"slots":"0"}"#, "moves nothing"),
            ("moves/1", r#"{"from":1,"to":2,"slots":""}"#, "moves nothing"),
        ];
        for (name, value, why) in bad {
            let error = Directory::read([(name, 1, value.as_bytes())]).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains(why), "{name}: {error}");
        }
        let highest = records()[4].2.clone();
        let text = String::from_utf8(highest).unwrap().replace("3", &u64::MAX.to_string());
        let error = Directory::read([("shards/4", 1, text.as_bytes())]).unwrap_err();
        assert!(error.why.contains("too high"), "{error}");
    }
}
