//! The durable store's circle: its figures 3 and 4, without a proxy between, beside the slots of a plan.

use anyhow::Result;
use fastrand::Rng;
use hotring_cluster::{Circle, Member, Owners, Placement, drawn, slot_of};

use super::circle_slots::{alike, apply};
use super::entry::{Bench, Entry};
use super::figure::{Claim, Measured, Paper, Source, Subject};
use crate::plots::chart::{Axis, Chart, Point, Series};
use crate::report::Spread;

/// The figures of this file.
pub const ENTRIES: [Entry; 2] = [
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
];

const NODES: u32 = 8;
const KEYS: usize = 1_000;
const IDENTIFIERS: usize = 8;

/// How keys are named.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Naming {
    Words,
    Numbers,
}

const NAMINGS: [(&str, Naming); 2] =
    [("words", Naming::Words), ("key:0 to key:999", Naming::Numbers)];

/// How keys come to nodes: by a place on the circle, or, without one, by the slots of a cluster that has grown shard by
/// shard.
const WAYS: [(&str, Option<Placement>); 4] = [
    ("slots", None),
    ("mixed", Some(Placement::Mixed)),
    ("FNV-1a", Some(Placement::Fnv1a)),
    ("FNV-1", Some(Placement::Fnv1)),
];

/// How often identifiers and words are drawn. Once at the scale of tests, which must be quick.
pub(super) fn draws(bench: &Bench) -> u64 {
    (25 * (bench.size.rounds as u64 - 1)).max(1)
}

/// A random word.
pub(super) fn word(rng: &mut Rng) -> String {
    (0..rng.usize(4..16)).map(|_| rng.lowercase()).collect()
}

fn keys(naming: Naming, seed: u64) -> Vec<String> {
    let mut rng = Rng::with_seed(seed);
    let key = |number| match naming {
        Naming::Words => word(&mut rng),
        Naming::Numbers => format!("key:{number}"),
    };
    (0..KEYS).map(key).collect()
}

/// The owners after one shard after the other has joined.
fn grown(identifiers: usize, seed: u64) -> Result<Owners> {
    let member = |shard| Member {
        ids: drawn(seed, shard).take(identifiers).collect(),
        ..Member::drawn(shard, 100, seed)
    };
    let members: Vec<Member> = (0..NODES).map(member).collect();
    (1..=members.len()).try_fold(Owners::default(), |owners, count| {
        Ok(apply(&owners, &members[..count], &alike())?.0)
    })
}

/// Keys of each node, with a number of identifiers each.
fn keys_of_nodes(
    identifiers: usize,
    placement: Option<Placement>,
    naming: Naming,
    seed: u64,
) -> Result<Vec<f64>> {
    let mut counts = vec![0.0; NODES as usize];
    let mut count = |node: Option<u32>| counts[node.expect("there are nodes") as usize] += 1.0;
    let keys = keys(naming, seed);
    let Some(placement) = placement else {
        let owners = grown(identifiers, seed)?;
        keys.iter().for_each(|key| count(owners.of(slot_of(key.as_bytes()))));
        return Ok(counts);
    };
    let points =
        (0..NODES).flat_map(|node| drawn(seed, node).take(identifiers).map(move |id| (id, node)));
    let circle = Circle::new(points).map_err(|same| anyhow::anyhow!("{same:?}"))?;
    keys.iter().for_each(|key| count(circle.owner(placement.place(key.as_bytes()))));
    Ok(counts)
}

/// The keys of all nodes in each draw, for 1 to 8 identifiers.
fn by_identifiers(
    bench: &Bench,
    placement: Option<Placement>,
    naming: Naming,
) -> Result<Vec<Vec<Vec<f64>>>> {
    let drawn = |identifiers| {
        (0..draws(bench)).map(|seed| keys_of_nodes(identifiers, placement, naming, seed)).collect()
    };
    (1..=IDENTIFIERS).map(drawn).collect()
}

fn spreads(counts: &[Vec<Vec<f64>>], of: impl Fn(&[f64]) -> f64) -> Vec<Spread> {
    let spread = |draws: &Vec<Vec<f64>>| {
        Spread::of(&draws.iter().map(|nodes| of(nodes)).collect::<Vec<f64>>())
    };
    counts.iter().map(spread).collect()
}

fn series(name: String, spreads: &[Spread]) -> Series {
    let points = (1..).zip(spreads).map(|(x, &spread)| Point::spread(f64::from(x), spread));
    Series::measured(name, points.collect())
}

fn least(counts: &[f64]) -> f64 {
    counts.iter().copied().fold(f64::INFINITY, f64::min)
}

/// The greatest of these.
pub(super) fn most(counts: &[f64]) -> f64 {
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

fn chart(title: String, series: Vec<Series>) -> Chart {
    Chart::lines(title, Axis::linear("identifiers of a node"), Axis::linear("keys"), series)
}

fn extremes(bench: &Bench) -> Result<Measured> {
    let mut measured = Measured { notes: notes(bench), ..Measured::default() };
    for (way, placement) in WAYS {
        let mean = vec![Spread::from(KEYS as f64 / f64::from(NODES)); IDENTIFIERS];
        let mut lines = vec![series("mean".to_owned(), &mean)];
        for (name, naming) in NAMINGS {
            let counts = by_identifiers(bench, placement, naming)?;
            lines.push(series(format!("most, {name}"), &spreads(&counts, most)));
            lines.push(series(format!("least, {name}"), &spreads(&counts, least)));
            if naming == Naming::Words && placement.is_some() {
                let gap = spreads(&counts, |nodes| most(nodes) - least(nodes));
                measured.claims.push(falls(&format!("{name}, {way}: most less least"), &gap));
            }
        }
        measured.charts.push(chart(format!("Keys of a node: {way}"), lines));
    }
    Ok(measured)
}

fn deviations(bench: &Bench) -> Result<Measured> {
    let mut measured = Measured { notes: notes(bench), ..Measured::default() };
    for (name, naming) in NAMINGS {
        let mut lines = Vec::new();
        for (way, placement) in WAYS {
            let spreads = spreads(&by_identifiers(bench, placement, naming)?, deviation);
            if naming == Naming::Words && placement.is_some() {
                measured.claims.push(falls(&format!("{name}, {way}"), &spreads));
            }
            lines.push(series(way.to_owned(), &spreads));
        }
        let title = format!("Standard deviation of a node's keys: {name}");
        measured.charts.push(chart(title, lines));
    }
    Ok(measured)
}

fn notes(bench: &Bench) -> Vec<String> {
    vec![
        format!(
            "Medians of {} draws of identifiers and words. Keys are counted where they are placed, not put \
             through a proxy as in the paper: that would change no count.",
            draws(bench)
        ),
        "Random words stand for the paper's search terms. Its hash is FNV; mixed means FNV-1a with one \
         more step that lets each byte change all bits. Numbered keys are ours: FNV-1 puts most of them on \
         one node, however many identifiers there are. Slots are those of a hotring cluster that has grown \
         from one shard to eight by plans."
            .to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deviations_are_right_and_all_keys_are_counted() {
        assert_eq!(deviation(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]), 2.0);
        assert_eq!((least(&[3.0, 1.0]), most(&[3.0, 1.0])), (1.0, 3.0));
        for (way, placement) in WAYS {
            for (_, naming) in NAMINGS {
                let counts = keys_of_nodes(3, placement, naming, 5).unwrap();
                assert_eq!(counts.iter().sum::<f64>(), 1_000.0, "{way}");
            }
        }
        // One of eight by slots: as far from 125 as by throws of dice.
        let counts = keys_of_nodes(1, None, Naming::Words, 5).unwrap();
        assert!(least(&counts) > 75.0 && most(&counts) < 175.0, "{counts:?}");
    }
}
