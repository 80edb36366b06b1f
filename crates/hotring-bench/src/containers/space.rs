//! The memory that containers take: the growth of a process by many small or some large ones.

use std::time::Duration;

use anyhow::Result;

use super::cases::{field, fill, member, scored};
use super::figures::{Figures, Row};
use super::side::Side;
use super::{ContainersArgs, SERVERS};
use crate::durability::name;
use crate::report;
use crate::resp::Client;

/// A type, the command that fills it, and how.
type Shape = (&'static str, &'static [u8], fn(&mut Client, u64), u64);

const SHAPES: [Shape; 4] = [
    ("lists", b"RPUSH", single, 1),
    ("sets", b"SADD", single, 1),
    ("sorted sets", b"ZADD", scored, 2),
    ("hashes", b"HSET", field, 2),
];

/// Parts of a small container.
const SMALL: u64 = 10;
/// Large containers that are measured, of a tenth of `--members` parts each.
const LARGE: u64 = 4;
/// Rounds: memory differs little between them.
const ROUNDS: usize = 3;
/// What a server does after a write is over then.
const REST: Duration = Duration::from_millis(50);

fn single(client: &mut Client, i: u64) {
    client.arg(member(i).as_bytes());
}

pub fn measure(args: &ContainersArgs) -> Result<Vec<Row>> {
    let large = args.members / 10;
    // As many parts of small ones as of large ones.
    let cases = [(SMALL, LARGE * large / SMALL), (large, LARGE)];
    let rounds = args.rounds().min(ROUNDS);
    let bar = report::progress((rounds * SHAPES.len() * cases.len()) as u64, "memory");
    let mut figures = Figures::new("memory");
    for round in 0..rounds {
        for shape in SHAPES {
            for (parts, count) in cases {
                for turn in 0..SERVERS.len() {
                    let kind = SERVERS[(round + turn) % SERVERS.len()];
                    let setup = args.setup(kind, None, 1);
                    let mut side = Side::start(&args.testbed, setup, 1)?;
                    let bytes = growth(&mut side, shape, parts, count)?;
                    let case = format!("{count} {} of {parts}", shape.0);
                    figures.add(&case, "bytes a part", name(kind), bytes);
                }
                bar.inc(1);
            }
        }
    }
    bar.finish_and_clear();
    Ok(figures.rows())
}

/// Bytes for each part of `count` containers. Before them come some that are not measured: the first also take what
/// the server takes only once.
fn growth(side: &mut Side, shape: Shape, parts: u64, count: u64) -> Result<f64> {
    let before = count.div_ceil(SMALL);
    make(side, shape, parts, 0..before)?;
    let start = side.resident()?;
    make(side, shape, parts, before..before + count)?;
    Ok(side.resident()?.saturating_sub(start) as f64 / (count * parts) as f64)
}

fn make(side: &mut Side, shape: Shape, parts: u64, numbers: std::ops::Range<u64>) -> Result<()> {
    let (_, command, part, words) = shape;
    for number in numbers {
        let key = format!("container:{number}");
        fill(side.client(), &[command, key.as_bytes()], parts, part, words)?;
    }
    std::thread::sleep(REST);
    Ok(())
}
