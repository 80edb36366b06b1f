//! Slots on the circle, with 1 to 1,000 shards: how even plans are by slots and by keys, and what a join and a leave
//! move.

use anyhow::Result;
use fastrand::Rng;
use hotring_cluster::{Member, Owners, Placement, SLOTS, balance, plan, slot_of};

use super::circle::{draws, most, word};
use super::entry::{Bench, Entry};
use super::figure::{Claim, Measured, Paper, Source, Subject};
use crate::plots::chart::{Axis, Chart, Point, Series};
use crate::report::Spread;

/// The figures of this file.
pub const ENTRIES: [Entry; 2] = [
    Entry {
        subject: Subject {
            id: "durable-slots",
            title: "The fullest of 1 to 1,000 shards",
            source: Source { paper: Paper::DurableStore, reference: "section 5" },
            paper: "Slots of fixed size would decouple keys from identifiers (future work, not measured).",
        },
        measure: evenness,
    },
    Entry {
        subject: Subject {
            id: "durable-moves",
            title: "Slots that a join and a leave move",
            source: Source { paper: Paper::DurableStore, reference: "section 3.2" },
            paper: "The N-th node takes 1/N of the keys when it joins. When a node leaves, only its keys move.",
        },
        measure: moves,
    },
];

/// Shards of a figure; one more is there after a join.
const SHARDS: [u32; 10] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000];

/// Keys of a store, so that each of 1,000 shards has a thousand.
const KEYS: usize = 1_000_000;

/// Each slot alike.
pub(super) fn alike() -> Vec<u64> {
    vec![1; usize::from(SLOTS)]
}

fn members(shards: u32, seed: u64) -> Vec<Member> {
    (0..shards).map(|shard| Member::drawn(shard, 100, seed)).collect()
}

/// The owners after a plan, and the number of slots that it moves.
pub(super) fn apply(owners: &Owners, members: &[Member], loads: &[u64]) -> Result<(Owners, usize)> {
    let (mut after, mut moved) = (owners.clone(), 0);
    for planned in plan(owners, members, loads)? {
        moved += planned.slots.len();
        planned.slots.iter().for_each(|slot| after.give(slot, planned.to));
    }
    Ok((after, moved))
}

/// The owners by the circle alone: the first shard on the way that has less than `limit` slots.
fn by_circle(members: &[Member], limit: f64) -> Owners {
    let points = members.iter().flat_map(|member| member.ids.iter().map(|&id| (id, member.shard)));
    let mut points: Vec<(u64, u32)> = points.collect();
    points.sort_unstable();
    let (mut owners, mut counts) = (Owners::default(), vec![0; members.len()]);
    for slot in 0..SLOTS {
        let place = Placement::Mixed.place(&slot.to_be_bytes());
        let at = points.partition_point(|&(id, _)| id < place);
        let mut way = points[at..].iter().chain(&points[..at]);
        let room = |&&(_, shard): &&(u64, u32)| f64::from(counts[shard as usize]) + 1.0 <= limit;
        let &(_, shard) = way.find(room).expect("the limits together exceed all slots");
        counts[shard as usize] += 1;
        owners.give(slot, shard);
    }
    owners
}

/// The bounded load of consistent hashing, in whole slots.
fn bounded(shards: u32) -> f64 {
    let share = share_of(shards);
    (1.05 * share).max(share.ceil())
}

fn share_of(shards: u32) -> f64 {
    f64::from(SLOTS) / f64::from(shards)
}

fn differences(one: &Owners, other: &Owners) -> f64 {
    (0..SLOTS).filter(|&slot| one.of(slot) != other.of(slot)).count() as f64
}

/// What `of` says in each draw, for each number of shards and each of `N` lines.
fn by_shards<const N: usize>(
    bench: &Bench,
    mut of: impl FnMut(u32, u64) -> Result<[f64; N]>,
) -> Result<[Vec<Spread>; N]> {
    let steps = bench.steps(SHARDS.len() as u64 * draws(bench), "draws");
    let mut values = [const { Vec::new() }; N].map(|_: Vec<f64>| vec![Vec::new(); SHARDS.len()]);
    for seed in 0..draws(bench) {
        for (at, shards) in SHARDS.into_iter().enumerate() {
            let line = of(shards, seed)?;
            values.iter_mut().zip(line).for_each(|(to, value)| to[at].push(value));
            steps.inc(1);
        }
    }
    steps.finish_and_clear();
    Ok(values.map(|line| line.iter().map(|values| Spread::of(values)).collect()))
}

fn chart(title: &str, axis: &str, y: &str, lines: &[(&str, &[Spread])]) -> Chart {
    let points = |spreads: &[Spread]| {
        let points = SHARDS.iter().zip(spreads);
        points.map(|(&x, &spread)| Point::spread(f64::from(x), spread)).collect()
    };
    let series = lines.iter().map(|(name, spreads)| Series::measured(*name, points(spreads)));
    Chart::lines(title, Axis::log(axis), Axis::linear(y), series.collect())
}

/// How full the fullest shard of a cluster is whose last shard has joined.
fn evenness(bench: &Bench) -> Result<Measured> {
    let alike = alike();
    let mut keys = (u64::MAX, Vec::new());
    let lines = by_shards(bench, |shards, seed| {
        if keys.0 != seed {
            keys = (seed, keys_of_slots(seed));
        }
        let (now, next) = (members(shards - 1, seed), members(shards, seed));
        let founded = match shards {
            1 => Owners::default(),
            _ => apply(&Owners::default(), &now, &alike)?.0,
        };
        let (by_slots, _) = apply(&founded, &next, &alike)?;
        let (by_keys, _) = apply(&by_slots, &next, &keys.1)?;
        let alone = by_circle(&next, f64::INFINITY);
        let limited = by_circle(&next, bounded(shards));
        Ok([
            balance(&by_slots, &next, &alike),
            balance(&limited, &next, &alike),
            balance(&alone, &next, &alike),
            balance(&by_slots, &next, &keys.1),
            balance(&by_keys, &next, &keys.1),
            balance(&alone, &next, &keys.1),
        ])
    })?;
    let is_bounded = |(&shards, spread): (&u32, &Spread)| {
        spread.max * share_of(shards) <= bounded(shards) + 1e-6
    };
    let held = SHARDS.iter().zip(&lines[0]).filter(|&pair| is_bounded(pair)).count();
    let claims = vec![Claim::holds(
        "No shard has more than 1.05 of its share, or the next whole slot (ours)",
        "after a join, in every draw",
        held,
        SHARDS.len(),
    )];
    let [slots, limited, alone, keys_by_slots, keys_by_keys, keys_alone] = &lines;
    let bounded_name = "circle, bounded load 1.05";
    let by_slots: [(&str, &[Spread]); 3] =
        [("plans", slots), (bounded_name, limited), ("circle without a bound", alone)];
    let by_keys: [(&str, &[Spread]); 3] = [
        ("plans by slots", keys_by_slots),
        ("then by keys", keys_by_keys),
        ("circle without a bound", keys_alone),
    ];
    let charts = vec![
        chart("Slots of the fullest shard", "shards", "of its share", &by_slots),
        chart("Keys of the fullest shard", "shards", "of its share", &by_keys),
    ];
    let notes = vec![
        notes(bench),
        format!(
            "The last shard has joined the others. Keys: {KEYS} random words; they differ from slots by chance."
        ),
    ];
    Ok(Measured { claims, charts, notes })
}

/// How many of many random words each slot has.
fn keys_of_slots(seed: u64) -> Vec<u64> {
    let mut rng = Rng::with_seed(seed);
    let mut keys = vec![0; usize::from(SLOTS)];
    (0..KEYS).for_each(|_| keys[usize::from(slot_of(word(&mut rng).as_bytes()))] += 1);
    keys
}

/// What moves when a shard joins, and when it leaves again.
fn moves(bench: &Bench) -> Result<Measured> {
    let alike = alike();
    let lines = by_shards(bench, |shards, seed| {
        let (now, next) = (members(shards, seed), members(shards + 1, seed));
        let share = share_of(shards + 1);
        let (owners, _) = apply(&Owners::default(), &now, &alike)?;
        let (joined, count) = apply(&owners, &next, &alike)?;
        let again =
            differences(&by_circle(&now, bounded(shards)), &by_circle(&next, bounded(shards + 1)));
        // The first one leaves.
        let had = (0..SLOTS).filter(|&slot| joined.of(slot) == Some(0)).count();
        let (_, left) = apply(&joined, &next[1..], &alike)?;
        Ok([count as f64 / share, again / share, left as f64 / had as f64])
    })?;
    let [join, again, leave] = &lines;
    let of = |spreads: &[Spread], of: fn(&Spread) -> f64| {
        most(&spreads.iter().map(of).collect::<Vec<f64>>())
    };
    let near = |what: &str, seen: f64, tolerance: f64| {
        Claim::near("1/N of the data moves", what, 1.0, seen, tolerance)
    };
    let claims = vec![
        near("of 1/N, the highest median", of(join, |spread| spread.median), 0.15),
        near("of 1/N, the most of any draw", of(join, |spread| spread.max), 0.3),
        Claim::holds(
            "Only the keys of a node that leaves move",
            "in every draw",
            leave.iter().filter(|spread| (spread.min, spread.max) == (1.0, 1.0)).count(),
            SHARDS.len(),
        ),
    ];
    let joins: [(&str, &[Spread]); 2] =
        [("plans", join), ("computed again, bounded load 1.05", again)];
    let charts = vec![
        chart("Slots that a join moves", "shards before", "of 1/N", &joins),
        chart("Slots that a leave moves", "shards after", "of the leaver's", &[("plans", leave)]),
    ];
    Ok(Measured { claims, charts, notes: vec![notes(bench)] })
}

fn notes(bench: &Bench) -> String {
    format!(
        "128 identifiers a shard, equal weights, {} draws. A plan starts from the table before; the circle's lines \
         compute all owners from the shards alone.",
        draws(bench)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_kept_and_differences_counted() {
        let members = members(7, 1);
        let owners = by_circle(&members, bounded(7));
        let fullest = balance(&owners, &members, &alike());
        assert!((1.04..=1.05).contains(&fullest), "{fullest}");
        assert_eq!(differences(&owners, &owners), 0.0);
        assert_eq!(keys_of_slots(1).iter().sum::<u64>(), KEYS as u64);
    }
}
