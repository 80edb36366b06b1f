//! Which node serves which slot, as the nodes themselves tell it by `CLUSTER SLOTS`.

use std::sync::Arc;

use hotring_cluster::{SLOTS, Slot};
use hotring_protocol::Reply;

use crate::foreign::copying::Copying;
use crate::foreign::server::Server;

/// The address of a node, `HOST:PORT`.
pub(crate) type Address = Arc<str>;

/// A shard of an owner table that no shard serves.
pub(crate) const NONE: u16 = u16::MAX;

/// The shards of a cluster and their slots.
#[derive(Debug)]
pub(crate) struct Layout {
    /// The shards, in the order of their lowest slots.
    shards: Vec<Shard>,
    /// For each slot the index of its shard.
    owners: Vec<u16>,
    /// It is a pool, whose servers know nothing of each other.
    pub is_pool: bool,
    /// Keys that are on their way from their servers by the last layout.
    pub copying: Option<Arc<Copying>>,
}

/// A shard.
#[derive(Debug)]
pub(crate) struct Shard {
    /// Its lowest slot.
    lowest: Slot,
    /// The address of its primary.
    pub primary: Address,
    /// The addresses of its replicas.
    pub replicas: Vec<Address>,
    /// In a pool, what is known of its server.
    pub server: Option<Arc<Server>>,
}

impl Default for Layout {
    fn default() -> Self {
        Layout {
            shards: Vec::new(),
            owners: vec![NONE; SLOTS.into()],
            is_pool: false,
            copying: None,
        }
    }
}

impl Layout {
    /// Reads a reply to `CLUSTER SLOTS` of the node that was asked at this host.
    ///
    /// # Errors
    ///
    /// A text for the operator, if it is another reply.
    pub(crate) fn read(reply: &Reply, host: &str) -> Result<Self, String> {
        let ranges = match reply {
            Reply::Array(ranges) => ranges,
            Reply::Error(error) => return Err(error.clone()),
            _ => return Err("the reply to CLUSTER SLOTS is no array".to_string()),
        };
        let mut layout = Layout::default();
        for range in ranges {
            layout.add(range, host).ok_or("the reply to CLUSTER SLOTS is not that of Redis")?;
        }
        Ok(layout)
    }

    /// The layout of a pool: for each slot the position of its server.
    pub(crate) fn of_pool(
        servers: &[Arc<Server>],
        owners: Vec<u16>,
        copying: Option<Arc<Copying>>,
    ) -> Self {
        let mut layout = Layout { is_pool: true, copying, ..Layout::default() };
        let mut numbers = vec![NONE; servers.len()];
        for (slot, at) in (0..SLOTS).zip(owners) {
            let Some(server) = servers.get(usize::from(at)) else { continue };
            let number = &mut numbers[usize::from(at)];
            if *number == NONE {
                *number = layout.shards.len() as u16;
                layout.shards.push(Shard {
                    lowest: slot,
                    primary: server.address.clone(),
                    replicas: Vec::new(),
                    server: Some(server.clone()),
                });
            }
            layout.owners[usize::from(slot)] = *number;
        }
        layout
    }

    /// Adds a range: its first and last slot, its primary and its replicas.
    fn add(&mut self, range: &Reply, host: &str) -> Option<()> {
        let Reply::Array(parts) = range else { return None };
        let [Reply::Int(first), Reply::Int(last), nodes @ ..] = &parts[..] else { return None };
        let slot = |number: &i64| Slot::try_from(*number).ok().filter(|slot| *slot < SLOTS);
        let (first, last) = (slot(first)?, slot(last)?);
        let mut nodes = nodes.iter().map(|node| address(node, host));
        let primary = nodes.next()??;
        let known = self.shards.iter().position(|shard| shard.primary == primary);
        let at = match known {
            Some(at) => at,
            None => {
                let replicas = nodes.flatten().collect();
                self.shards.push(Shard { lowest: first, primary, replicas, server: None });
                self.shards.len() - 1
            }
        };
        let mine = u16::try_from(at).ok()?;
        self.owners.get_mut(usize::from(first)..=usize::from(last))?.fill(mine);
        let shard = &mut self.shards[at];
        shard.lowest = shard.lowest.min(first);
        Some(())
    }

    /// The shards, in no order.
    pub(crate) fn shards(&self) -> &[Shard] {
        &self.shards
    }

    /// The shard of a slot.
    pub(crate) fn shard_of(&self, slot: Slot) -> Option<&Shard> {
        self.shards.get(usize::from(self.owners[usize::from(slot)]))
    }

    /// The number of slots of a node.
    pub(crate) fn slots_of(&self, primary: &str) -> usize {
        let owner = self.shards.iter().position(|shard| *shard.primary == *primary);
        self.owners.iter().filter(|at| owner == Some(usize::from(**at))).count()
    }

    /// The lowest slot of each shard.
    pub(crate) fn lowest_slots(&self) -> Vec<Slot> {
        self.shards.iter().map(|shard| shard.lowest).collect()
    }

    /// The lowest slot of the first shard, by their lowest slots.
    pub(crate) fn first(&self) -> Option<Slot> {
        self.shards.iter().map(|shard| shard.lowest).min()
    }

    /// The lowest slot of the shard that comes after the one of this slot.
    pub(crate) fn after(&self, slot: Slot) -> Option<Slot> {
        let lowest = self.shard_of(slot).map_or(slot, |shard| shard.lowest);
        self.shards.iter().map(|shard| shard.lowest).filter(|other| *other > lowest).min()
    }
}

/// The address of a node in the reply. A node that knows no name of its own is where the asked one is.
fn address(node: &Reply, host: &str) -> Option<Address> {
    let Reply::Array(parts) = node else { return None };
    let [name, Reply::Int(port), ..] = &parts[..] else { return None };
    let port = u16::try_from(*port).ok()?;
    let name = match name {
        Reply::Bulk(name) if !name.is_empty() => std::str::from_utf8(name).ok()?,
        Reply::Bulk(_) | Reply::Null => host,
        _ => return None,
    };
    Some(format!("{name}:{port}").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(host: &str, port: i64) -> Reply {
        Reply::Array(vec![Reply::Bulk(host.into()), Reply::Int(port), Reply::Bulk("id".into())])
    }

    fn range(first: i64, last: i64, nodes: &[Reply]) -> Reply {
        Reply::Array([&[Reply::Int(first), Reply::Int(last)], nodes].concat())
    }

    #[test]
    fn the_reply_of_a_node_is_a_layout() {
        let reply = Reply::Array(vec![
            range(10, 16_383, &[node("b", 1), node("c", 2)]),
            range(0, 4, &[node("", 7)]),
            range(6, 9, &[node("", 7)]),
        ]);
        let layout = Layout::read(&reply, "asked").unwrap();
        let primary = |slot| layout.shard_of(slot).map(|shard| &*shard.primary);
        assert_eq!([0, 4, 6, 9].map(primary), [Some("asked:7"); 4]);
        assert_eq!([5, 10, 16_383].map(primary), [None, Some("b:1"), Some("b:1")]);
        assert_eq!(layout.shard_of(10).unwrap().replicas, ["c:2".into()]);
        assert_eq!(
            (layout.first(), layout.after(0), layout.after(7)),
            (Some(0), Some(10), Some(10))
        );
        assert_eq!(layout.after(12), None);
    }

    #[test]
    fn other_replies_are_refused() {
        let error = Reply::Error("ERR This instance has cluster support disabled".into());
        assert_eq!(
            Layout::read(&error, "").unwrap_err(),
            "ERR This instance has cluster support disabled"
        );
        for wrong in [
            Reply::Null,
            Reply::Array(vec![Reply::Null]),
            Reply::Array(vec![range(0, 16_384, &[node("a", 1)])]),
            Reply::Array(vec![range(0, -1, &[node("a", 1)])]),
            Reply::Array(vec![range(3, 2, &[node("a", 70_000)])]),
            Reply::Array(vec![range(0, 1, &[])]),
        ] {
            assert!(Layout::read(&wrong, "").is_err(), "{wrong:?}");
        }
    }
}
