//! The memory that containers take: the growth of a process by many small or a few large containers.

use std::time::Duration;

use anyhow::Result;

use super::cases::{field, fill, member, scored};
use super::figures::{Figures, Row};
use super::side::Side;
use super::{ContainersArgs, SERVERS};
use crate::durability::server_name;
use crate::report;
use crate::resp::Client;

/// The plural name of a type, the command that fills it, the function that adds a part, and the arguments per
/// part.
type Shape = (&'static str, &'static [u8], fn(&mut Client, u64), u64);

const SHAPES: [Shape; 4] = [
    ("lists", b"RPUSH", single, 1),
    ("sets", b"SADD", single, 1),
    ("sorted sets", b"ZADD", scored, 2),
    ("hashes", b"HSET", field, 2),
];

/// Elements, members or fields of a small container.
const SMALL: u64 = 10;
/// The number of large containers, each with a tenth of `--members` parts.
const LARGE: u64 = 4;
/// The number of rounds. Memory differs little between them.
const ROUNDS: usize = 3;
/// Time to wait for the background work after a write.
const REST: Duration = Duration::from_millis(50);

fn single(client: &mut Client, i: u64) {
    client.arg(member(i).as_bytes());
}

pub fn measure(args: &ContainersArgs) -> Result<Vec<Row>> {
    let large = args.members / 10;
    // The small containers have as many parts together as the large ones.
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
                    figures.add(&case, "bytes a part", server_name(kind), bytes);
                }
                bar.inc(1);
            }
        }
    }
    bar.finish_and_clear();
    Ok(figures.rows())
}

/// Bytes per part of `count` containers. Some unmeasured containers come first, because they also cause one-time
/// allocations.
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
