//! CLUSTER SLOT-STATS: keys and bytes of slots, by a walk over all keys as for the keys of a slot.

use std::cmp::Reverse;

use hotring_cluster::{SLOTS, Slot, slot_of};
use hotring_protocol::parse_i64;

use super::keys::STEP_KEYS;
use super::{cluster, slot};
use crate::host::fiber;
use crate::state::context::Context;
use crate::state::failure::{Failure, Outcome};

const BAD_LIMIT: &str = "ERR Limit has to lie in between 1 and 16384 (maximum number of slots).";

/// What is told of a slot.
#[derive(Clone, Copy, Default)]
struct Stat {
    keys: u64,
    bytes: u64,
}

/// What orders the slots.
enum Metric {
    Keys,
    Bytes,
}

impl Metric {
    fn of(&self, stat: Stat) -> u64 {
        match self {
            Metric::Keys => stat.keys,
            Metric::Bytes => stat.bytes,
        }
    }
}

/// The slots that are asked for.
enum Wanted {
    Range(Slot, Slot),
    Ordered { by: Metric, limit: usize, rises: bool },
}

pub(crate) fn slot_stats(c: &mut Context<'_>) -> Outcome {
    cluster(c)?;
    let wanted = wanted(c)?;
    let stats = walk(c);
    let mut slots = owned(c)?;
    match wanted {
        Wanted::Range(first, last) => slots.retain(|slot| (first..=last).contains(slot)),
        Wanted::Ordered { by, limit, rises } => {
            let value = |slot: &Slot| by.of(stats[usize::from(*slot)]);
            match rises {
                true => slots.sort_by_key(value),
                false => slots.sort_by_key(|slot| Reverse(value(slot))),
            }
            slots.truncate(limit);
        }
    }
    c.reply.array(slots.len());
    for slot in slots {
        let Stat { keys, bytes } = stats[usize::from(slot)];
        c.reply.array(2);
        c.reply.int(slot.into());
        c.reply.map(2);
        for (name, number) in [("key-count", keys), ("memory-bytes", bytes)] {
            c.reply.bulk(name.as_bytes());
            c.reply.int(number as i64);
        }
    }
    Ok(())
}

fn wanted(c: &Context<'_>) -> Result<Wanted, Failure> {
    let (kind, rest) = (c.args.at(2), c.args.tail(3));
    if kind.eq_ignore_ascii_case(b"slotsrange") && rest.len() == 2 {
        let bad = Failure::text("ERR Invalid or out of range slot");
        let (Some(first), Some(last)) = (slot(rest.at(0)), slot(rest.at(1))) else {
            return Err(bad);
        };
        if first > last {
            let why =
                format!("ERR Start slot number {first} is greater than end slot number {last}");
            return Err(why.into());
        }
        return Ok(Wanted::Range(first, last));
    }
    if !kind.eq_ignore_ascii_case(b"orderby") {
        return Err(Failure::Syntax);
    }
    let by = match rest.at(0) {
        name if name.eq_ignore_ascii_case(b"key-count") => Metric::Keys,
        name if name.eq_ignore_ascii_case(b"memory-bytes") => Metric::Bytes,
        _ => return Err(Failure::text("ERR Unrecognized sort metric for ORDERBY.")),
    };
    let (mut limit, mut rises, mut at) = (usize::from(SLOTS), false, 1);
    while at < rest.len() {
        let word = rest.at(at);
        if word.eq_ignore_ascii_case(b"limit") && at + 1 < rest.len() {
            let number = parse_i64(rest.at(at + 1)).and_then(|n| usize::try_from(n).ok());
            let number = number.filter(|n| (1..=usize::from(SLOTS)).contains(n));
            limit = number.ok_or(Failure::text(BAD_LIMIT))?;
            at += 1;
        } else if word.eq_ignore_ascii_case(b"asc") || word.eq_ignore_ascii_case(b"desc") {
            rises = word.eq_ignore_ascii_case(b"asc");
        } else {
            return Err(Failure::Syntax);
        }
        at += 1;
    }
    Ok(Wanted::Ordered { by, limit, rises })
}

/// The slots of this node's shard.
fn owned(c: &Context<'_>) -> Result<Vec<Slot>, Failure> {
    let cluster = cluster(c)?;
    let directory = cluster.directory();
    let Some((shard, _)) = directory.shard_of_node(cluster.me) else { return Ok(Vec::new()) };
    Ok((0..SLOTS).filter(|slot| directory.owners.of(*slot) == Some(shard)).collect())
}

/// Counts all keys.
fn walk(c: &mut Context<'_>) -> Vec<Stat> {
    let mut stats = vec![Stat::default(); usize::from(SLOTS)];
    let mut cursor = 0;
    loop {
        cursor = c.store.scan_memory(cursor, STEP_KEYS as usize, c.now, |key, bytes| {
            let stat = &mut stats[usize::from(slot_of(key))];
            stat.keys += 1;
            stat.bytes += bytes as u64;
        });
        c.store.take_damage();
        if cursor == 0 {
            return stats;
        }
        fiber::rest_after(STEP_KEYS);
    }
}
