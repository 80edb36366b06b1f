//! CLUSTER SLOT-STATS: keys and bytes of slots, by a walk over all keys as for the keys of a slot, and accesses, which
//! need no walk.

use std::cmp::Reverse;

use hotring_cluster::{SLOTS, Slot, slot_of};
use hotring_protocol::parse_i64;

use super::keys::STEP_KEYS;
use super::{cluster, slot};
use crate::host::fiber;
use crate::state::context::Context;
use crate::state::failure::{Failure, Outcome};
use crate::state::slot_accesses;

const BAD_LIMIT: &str = "ERR Limit has to lie in between 1 and 16384 (maximum number of slots).";

/// What is told of a slot.
#[derive(Clone, Copy, Default)]
struct Stat {
    keys: u64,
    bytes: u64,
    accesses: u64,
}

/// What is told of a slot and may order the slots.
#[derive(Clone, Copy)]
enum Metric {
    Keys,
    Bytes,
    /// Ours.
    Accesses,
}

const METRICS: [Metric; 3] = [Metric::Keys, Metric::Bytes, Metric::Accesses];

impl Metric {
    fn name(self) -> &'static str {
        match self {
            Metric::Keys => "key-count",
            Metric::Bytes => "memory-bytes",
            Metric::Accesses => "accesses",
        }
    }

    fn of(self, stat: Stat) -> u64 {
        match self {
            Metric::Keys => stat.keys,
            Metric::Bytes => stat.bytes,
            Metric::Accesses => stat.accesses,
        }
    }
}

/// The slots that are asked for.
enum Wanted {
    Range { first: Slot, last: Slot, walks: bool },
    Ordered { by: Metric, limit: usize, rises: bool },
}

pub(crate) fn slot_stats(c: &mut Context<'_>) -> Outcome {
    cluster(c)?;
    let wanted = wanted(c)?;
    let (mut stats, told) = match wanted {
        Wanted::Range { walks: false, .. } => (no_stats(), &METRICS[2..]),
        _ => (walk(c), &METRICS[..]),
    };
    let accesses = slot_accesses::all(c.server.running_threads());
    stats.iter_mut().zip(accesses).for_each(|(stat, accesses)| stat.accesses = accesses);
    let mut slots = owned(c)?;
    match wanted {
        Wanted::Range { first, last, .. } => slots.retain(|slot| (first..=last).contains(slot)),
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
        c.reply.array(2);
        c.reply.int(slot.into());
        c.reply.map(told.len());
        for metric in told {
            c.reply.bulk(metric.name().as_bytes());
            c.reply.int(metric.of(stats[usize::from(slot)]) as i64);
        }
    }
    Ok(())
}

fn wanted(c: &Context<'_>) -> Result<Wanted, Failure> {
    let (kind, rest) = (c.args.at(2), c.args.tail(3));
    let accesses_only = rest.get(2).is_some_and(|word| word.eq_ignore_ascii_case(b"accesses"));
    if kind.eq_ignore_ascii_case(b"slotsrange") && rest.len() == 2 + usize::from(accesses_only) {
        let bad = Failure::text("ERR Invalid or out of range slot");
        let (Some(first), Some(last)) = (slot(rest.at(0)), slot(rest.at(1))) else {
            return Err(bad);
        };
        if first > last {
            let why =
                format!("ERR Start slot number {first} is greater than end slot number {last}");
            return Err(why.into());
        }
        return Ok(Wanted::Range { first, last, walks: !accesses_only });
    }
    if !kind.eq_ignore_ascii_case(b"orderby") {
        return Err(Failure::Syntax);
    }
    let is_it = |metric: &Metric| rest.at(0).eq_ignore_ascii_case(metric.name().as_bytes());
    let by = METRICS.into_iter().find(is_it);
    let by = by.ok_or(Failure::text("ERR Unrecognized sort metric for ORDERBY."))?;
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

fn no_stats() -> Vec<Stat> {
    vec![Stat::default(); usize::from(SLOTS)]
}

/// Counts all keys.
fn walk(c: &mut Context<'_>) -> Vec<Stat> {
    let mut stats = no_stats();
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
