//! What each slot of a cluster has, as the primaries tell, and how much it is used.

use std::time::{Duration, Instant};

use clap::ArgMatches;
use hotring_cluster::directory::Directory;
use hotring_cluster::{NodeId, SLOTS, ShardId, Slot};

use super::records::Records;
use super::talk::Access;
use crate::client::Answer;

/// Accesses a shard without which a plan would follow chance: its error is then about 3 %.
const ACCESSES_MIN: f64 = 1_000.0;

/// Loads are whole numbers: accesses in this many seconds.
const UNIT_SECONDS: f64 = 1_000.0;

/// How many accesses a shard's slots have had, and when it said so.
type Told = (Instant, Vec<(Slot, u64)>);

/// A number of each slot.
pub(super) fn loads(
    directory: &Directory,
    metric: &str,
    flags: &ArgMatches,
) -> Result<Vec<u64>, String> {
    let (access, mut loads) = (Access::of(flags)?, vec![0; usize::from(SLOTS)]);
    for (shard, (_, record)) in &directory.shards {
        for (slot, load) in ask(directory, (*shard, record.primary.node), metric, &access)? {
            loads[usize::from(slot)] = load;
        }
    }
    Ok(loads)
}

/// How often the keys of each slot are used, measured for some seconds. None after Ctrl-C.
pub(super) fn heat(
    records: &Records,
    directory: &Directory,
    seconds: u64,
    flags: &ArgMatches,
) -> Result<Option<Vec<u64>>, String> {
    let access = Access::of(flags)?;
    let primaries =
        directory.shards.iter().map(|(shard, (_, record))| (*shard, record.primary.node));
    let all = || -> Result<Vec<Told>, String> {
        let told = |primary| Ok((Instant::now(), ask(directory, primary, "accesses", &access)?));
        primaries.clone().map(told).collect()
    };
    let before = all()?;
    if records.is_interrupted(Duration::from_secs(seconds))? {
        return Ok(None);
    }
    let after = all()?;
    let (loads, count) = rates(&before, &after)?;
    let least = ACCESSES_MIN * before.len() as f64;
    match (count as f64) < least {
        true => Err(format!(
            "there were {count} accesses, too few to tell slots apart: at least {least} are needed. Measure for longer \
             (--seconds), or balance by slots or keys"
        )),
        false => Ok(Some(loads)),
    }
}

/// The accesses of each slot by time, and of all slots.
fn rates(before: &[Told], after: &[Told]) -> Result<(Vec<u64>, u64), String> {
    let (mut loads, mut count) = (vec![0; usize::from(SLOTS)], 0);
    for ((began, before), (ended, after)) in before.iter().zip(after) {
        let seconds = (*ended - *began).as_secs_f64();
        let other = || "a node began to count again, or slots have moved: try again".to_string();
        if !before.iter().map(|(slot, _)| slot).eq(after.iter().map(|(slot, _)| slot)) {
            return Err(other());
        }
        for ((slot, before), (_, after)) in before.iter().zip(after) {
            let new = after.checked_sub(*before).ok_or_else(other)?;
            count += new;
            loads[usize::from(*slot)] = (new as f64 * UNIT_SECONDS / seconds).round() as u64;
        }
    }
    Ok((loads, count))
}

/// What a shard's primary says of its slots.
fn ask(
    directory: &Directory,
    (shard, primary): (ShardId, NodeId),
    metric: &str,
    access: &Access<'_>,
) -> Result<Vec<(Slot, u64)>, String> {
    let last = (SLOTS - 1).to_string();
    let mut words = vec!["CLUSTER", "SLOT-STATS", "SLOTSRANGE", "0", &last];
    if metric == "accesses" {
        words.push(metric);
    }
    let answer = access.connect(directory, primary)?.ask(&words)?;
    told(&answer, metric)
        .ok_or_else(|| format!("shard {shard} does not tell the {metric} of slots"))
}

/// The slots of a reply with one of their numbers.
fn told(answer: &Answer, metric: &str) -> Option<Vec<(Slot, u64)>> {
    let Answer::List(slots) = answer else { return None };
    let one = |slot: &Answer| {
        let Answer::List(parts) = slot else { return None };
        let [Answer::Number(slot), Answer::List(fields)] = &parts[..] else { return None };
        let is_it = |pair: &&[Answer]| matches!(&pair[0], Answer::Text(name) if name == metric);
        let [_, Answer::Number(load)] = fields.chunks_exact(2).find(is_it)? else { return None };
        let slot = Slot::try_from(*slot).ok().filter(|slot| *slot < SLOTS)?;
        Some((slot, u64::try_from(*load).ok()?))
    };
    slots.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_are_read_as_nodes_tell_them() {
        let text = |text: &str| Answer::Text(text.to_string());
        let fields =
            vec![text("key-count"), Answer::Number(3), text("memory-bytes"), Answer::Number(90)];
        let slot = Answer::List(vec![Answer::Number(7), Answer::List(fields)]);
        let answer = Answer::List(vec![slot]);
        assert_eq!(told(&answer, "memory-bytes"), Some(vec![(7, 90)]));
        assert_eq!(told(&answer, "cpu-usec"), None);
        assert_eq!(told(&Answer::Nothing, "key-count"), None);
    }

    #[test]
    fn rates_are_those_between_two_looks_at_each_shard() {
        let begin = Instant::now();
        let at =
            |seconds, told: &[(Slot, u64)]| (begin + Duration::from_secs(seconds), told.to_vec());
        let before = [at(0, &[(7, 100), (8, 5)]), at(1, &[(9, 0)])];
        let after = [at(10, &[(7, 130), (8, 5)]), at(21, &[(9, 30)])];
        let (loads, count) = rates(&before, &after).unwrap();
        assert_eq!((count, loads[7], loads[8], loads[9]), (60, 3_000, 0, 1_500));
        let again = rates(&before, &[at(10, &[(7, 99), (8, 5)]), at(21, &[(9, 30)])]).unwrap_err();
        assert!(again.starts_with("a node began to count again"), "{again}");
        rates(&before, &[at(10, &[(7, 130), (6, 5)]), at(21, &[(9, 30)])]).unwrap_err();
        rates(&before, &[at(10, &[(7, 130)]), at(21, &[(9, 30)])]).unwrap_err();
    }
}
