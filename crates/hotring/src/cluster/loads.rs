//! What each slot of a cluster has, as the primaries tell.

use clap::ArgMatches;
use hotring_cluster::directory::Directory;
use hotring_cluster::{SLOTS, Slot};

use super::talk;
use crate::client::Answer;

/// One of the numbers of each slot.
pub(super) fn loads(
    directory: &Directory,
    metric: &str,
    flags: &ArgMatches,
) -> Result<Vec<u64>, String> {
    let mut loads = vec![0; usize::from(SLOTS)];
    let (first, last) = ("0".to_string(), (SLOTS - 1).to_string());
    for (shard, (_, record)) in &directory.shards {
        let mut node = talk::connect(directory, record.primary.node, flags)?;
        let answer = node.ask(&["CLUSTER", "SLOT-STATS", "SLOTSRANGE", &first, &last])?;
        let told = told(&answer, metric);
        let told =
            told.ok_or_else(|| format!("shard {shard} does not tell the {metric} of slots"))?;
        for (slot, load) in told {
            loads[usize::from(slot)] = load;
        }
    }
    Ok(loads)
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
}
