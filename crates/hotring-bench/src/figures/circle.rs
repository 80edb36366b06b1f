//! The durable store's circle: its figures 3 and 4, without a master between, and how slots on the circle do.

use anyhow::Result;
use fastrand::Rng;
use hotring_cluster::{Circle, Member, Owners, Placement, SLOTS, balance, drawn, plan};

use super::entry::{Bench, Entry};
use super::figure::{Claim, Measured, Paper, Source, Subject};
use crate::plots::chart::{Axis, Chart, Point, Series};
use crate::report::Spread;

/// The figures of this file.
pub const ENTRIES: [Entry; 3] = [
    Entry {
        subject: Subject {
            id: "durable-3",
            title: "Keys of a node, by identifiers of each",
            source: Source { paper: Paper::DurableStore, reference: "figure 3" },
            paper: "8 nodes with 1 to 8 random identifiers each, 1,000 keys: more identifiers bring the \
                    least and the most keys of a node closer together (a plot; the mean is 125).",
        },
        measure: extremes,
    },
    Entry {
        subject: Subject {
            id: "durable-4",
            title: "Standard deviation of a node's keys, by identifiers of each",
            source: Source { paper: Paper::DurableStore, reference: "figure 4" },
            paper: "With the setting of figure 3 the standard deviation falls as identifiers are added \
                    (a plot).",
        },
        measure: deviations,
    },
    Entry {
        subject: Subject {
            id: "durable-slots",
            title: "Slots on the circle, with 1 to 1,000 shards",
            source: Source { paper: Paper::DurableStore, reference: "section 5" },
            paper: "The N-th node takes 1/N of the keys when it joins (section 3.2). Slots of fixed size \
                    would decouple keys from identifiers (future work, not measured).",
        },
        measure: slots,
    },
];

const NODES: u32 = 8;
const KEYS: usize = 1_000;
const IDENTIFIERS: usize = 8;

/// How keys are named, and placed.
const WAYS: [(&str, bool, Placement); 4] = [
    ("words, mixed", false, Placement::Mixed),
    ("words, FNV-1", false, Placement::Fnv1),
    ("key:0 to key:999, mixed", true, Placement::Mixed),
    ("key:0 to key:999, FNV-1", true, Placement::Fnv1),
];

/// Each round draws other identifiers and words.
fn seeds(bench: &Bench) -> u64 {
    20 * bench.size.rounds as u64
}

/// Keys of each node.
fn keys_of_nodes(
    identifiers: usize,
    numbered: bool,
    placement: Placement,
    seed: u64,
) -> Result<Vec<f64>> {
    let points =
        (0..NODES).flat_map(|node| drawn(seed, node).take(identifiers).map(move |id| (id, node)));
    let circle = Circle::new(points).map_err(|same| anyhow::anyhow!("{same:?}"))?;
    let mut rng = Rng::with_seed(seed);
    let mut counts = vec![0.0; NODES as usize];
    for number in 0..KEYS {
        let key = match numbered {
            true => format!("key:{number}"),
            false => (0..rng.usize(4..16)).map(|_| rng.lowercase()).collect(),
        };
        let node = circle.owner(placement.place(key.as_bytes()));
        counts[node.expect("the circle has nodes") as usize] += 1.0;
    }
    Ok(counts)
}

/// What `of` makes of the keys of all nodes, with 1 to 8 identifiers.
fn by_identifiers(
    bench: &Bench,
    (_, numbered, placement): (&str, bool, Placement),
    of: impl Fn(&[f64]) -> f64,
) -> Result<Vec<Spread>> {
    let spread = |identifiers| {
        let values = (0..seeds(bench))
            .map(|seed| Ok(of(&keys_of_nodes(identifiers, numbered, placement, seed)?)));
        Ok(Spread::of(&values.collect::<Result<Vec<f64>>>()?))
    };
    (1..=IDENTIFIERS).map(spread).collect()
}

fn points(spreads: &[Spread]) -> Vec<Point> {
    (1..).zip(spreads).map(|(x, &spread)| Point::spread(f64::from(x), spread)).collect()
}

fn least(counts: &[f64]) -> f64 {
    counts.iter().copied().fold(f64::INFINITY, f64::min)
}

fn most(counts: &[f64]) -> f64 {
    counts.iter().copied().fold(0.0, f64::max)
}

fn deviation(counts: &[f64]) -> f64 {
    let mean = counts.iter().sum::<f64>() / counts.len() as f64;
    (counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / counts.len() as f64).sqrt()
}

/// In how many of the seven steps from 1 to 8 identifiers the median falls.
fn falls(name: &str, spreads: &[Spread]) -> Claim {
    let held = spreads.windows(2).filter(|pair| pair[1].median < pair[0].median).count();
    Claim::holds("It falls with each further identifier", name, held, spreads.len() - 1)
}

fn extremes(bench: &Bench) -> Result<Measured> {
    let mut measured = Measured { notes: notes(bench), ..Measured::default() };
    for way in WAYS {
        let series = [
            ("most", by_identifiers(bench, way, most)?),
            ("mean", vec![Spread::from(KEYS as f64 / f64::from(NODES)); IDENTIFIERS]),
            ("least", by_identifiers(bench, way, least)?),
        ];
        if !way.1 {
            let gap = by_identifiers(bench, way, |counts| most(counts) - least(counts))?;
            measured.claims.push(falls(&format!("{}: most less least", way.0), &gap));
        }
        let series = series.iter().map(|(name, spreads)| Series::measured(*name, points(spreads)));
        let (x, y) = (Axis::linear("identifiers of a node"), Axis::linear("keys"));
        measured.charts.push(Chart::lines(
            format!("Keys of a node: {}", way.0),
            x,
            y,
            series.collect(),
        ));
    }
    Ok(measured)
}

fn deviations(bench: &Bench) -> Result<Measured> {
    let mut measured = Measured { notes: notes(bench), ..Measured::default() };
    let mut series = Vec::new();
    for way in WAYS {
        let spreads = by_identifiers(bench, way, deviation)?;
        if !way.1 {
            measured.claims.push(falls(way.0, &spreads));
        }
        series.push(Series::measured(way.0, points(&spreads)));
    }
    let (x, y) = (Axis::linear("identifiers of a node"), Axis::linear("keys"));
    measured.charts.push(Chart::lines("Standard deviation of a node's keys", x, y, series));
    Ok(measured)
}

fn notes(bench: &Bench) -> Vec<String> {
    vec![
        format!(
            "Medians of {} draws of identifiers. Keys are placed directly, not put through a master.",
            seeds(bench)
        ),
        "Random words stand for the paper's search terms. Its hash is FNV; mixed means FNV-1a with one \
         more step that lets each byte change all bits. Numbered keys are ours: FNV-1 puts most of them on \
         one node, however many identifiers there are."
            .to_owned(),
    ]
}

/// Shards of the last figure.
const SHARDS: [u32; 10] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000];

fn members(shards: u32, seed: u64) -> Vec<Member> {
    (0..shards).map(|shard| Member::drawn(shard, 100, seed)).collect()
}

fn apply(owners: &Owners, members: &[Member], loads: &[u64]) -> Result<(Owners, usize)> {
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

fn differences(one: &Owners, other: &Owners) -> f64 {
    (0..SLOTS).filter(|&slot| one.of(slot) != other.of(slot)).count() as f64
}

fn slots(bench: &Bench) -> Result<Measured> {
    let alike = vec![1; usize::from(SLOTS)];
    // One at the scale of tests, which must be quick.
    let rounds = (5 * (bench.size.rounds as u64 - 1)).max(1);
    let steps = bench.steps(SHARDS.len() as u64 * rounds, "draws");
    let (mut fullest, mut moved) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    let (mut plans_fullest, mut plans_moved) = (Vec::new(), Vec::new());
    for shards in SHARDS {
        let mut round = [const { Vec::new() }; 4];
        for seed in 0..rounds {
            let (now, next) = (members(shards, seed), members(shards + 1, seed));
            let share = share_of(shards + 1);
            let (owners, _) = apply(&Owners::default(), &now, &alike)?;
            let (joined, count) = apply(&owners, &next, &alike)?;
            let alone = by_circle(&next, f64::INFINITY);
            let again = differences(
                &by_circle(&now, bounded(shards)),
                &by_circle(&next, bounded(shards + 1)),
            );
            round[0].push(balance(&joined, &next, &alike));
            round[1].push(balance(&alone, &next, &alike));
            round[2].push(count as f64 / share);
            round[3].push(again / share);
            steps.inc(1);
        }
        let [plans, alone, by_plan, again] = round.map(|values| Spread::of(&values));
        let x = f64::from(shards);
        [plans, alone].iter().zip(&mut fullest).for_each(|(s, to)| to.push(Point::spread(x, *s)));
        [by_plan, again].iter().zip(&mut moved).for_each(|(s, to)| to.push(Point::spread(x, *s)));
        plans_fullest.push((plans.max * share_of(shards + 1)).round() <= bounded(shards + 1));
        plans_moved.push(by_plan.max);
    }
    steps.finish_and_clear();
    let held = plans_fullest.iter().filter(|&&held| held).count();
    let claims = vec![
        Claim::holds(
            "No shard has more than 1.05 of its share, or the next whole slot (ours)",
            "after a join, in every draw",
            held,
            SHARDS.len(),
        ),
        Claim::near(
            "1/N of the data moves",
            "of 1/N, the most of any draw",
            1.0,
            most(&plans_moved),
            0.15,
        ),
    ];
    let chart = |title: &str, y: &str, [one, other]: [Vec<Point>; 2], names: [&str; 2]| {
        let series = vec![Series::measured(names[0], one), Series::measured(names[1], other)];
        Chart::lines(title, Axis::log("shards before the join"), Axis::linear(y), series)
    };
    let charts = vec![
        chart("The fullest shard", "of its share", fullest, ["plans", "circle without a bound"]),
        chart(
            "Slots that a join moves",
            "of 1/N",
            moved,
            ["plans", "computed again, bounded load 1.05"],
        ),
    ];
    let notes = vec![format!(
        "128 identifiers a shard, equal weights, {rounds} draws. A plan starts from the table before; the \
         other line computes all owners from the shards alone."
    )];
    Ok(Measured { claims, charts, notes })
}

fn share_of(shards: u32) -> f64 {
    f64::from(SLOTS) / f64::from(shards)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deviations_and_bounds_are_right() {
        assert_eq!(deviation(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]), 2.0);
        assert_eq!((least(&[3.0, 1.0]), most(&[3.0, 1.0])), (1.0, 3.0));
        let members = members(7, 1);
        let limit = bounded(7);
        let owners = by_circle(&members, limit);
        let fullest = balance(&owners, &members, &[1; SLOTS as usize]);
        assert!((1.04..=1.05).contains(&fullest), "{fullest}");
        assert_eq!(differences(&owners, &owners), 0.0);
        assert_eq!(
            keys_of_nodes(3, true, Placement::Fnv1, 5).unwrap().iter().sum::<f64>(),
            1_000.0
        );
    }
}
