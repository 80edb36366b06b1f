//! Measures the cost of durable records for several ways of writing them.
//!
//! ```console
//! cargo run --release -p hotring-log --example ways -- /srv/disk
//! ```
//!
//! Writes groups of several lengths one after the other to a new file in the folder (default: the
//! current one), syncs each before the next, and prints the time: median, 99th percentile, and
//! groups per second. The ways take turns, five rounds each, and the medians of the rounds are
//! printed. The file is removed afterwards.
//!
//! *grows*: the file gets longer with each group. *preallocated*: the space was allocated before,
//! but not written. *zeros*: the space was filled with zeros before. *direct*: bypasses the
//! system's cache in blocks of 4 KiB, the last of which is rewritten with the next group. *dsync*:
//! each write returns when it is durable, without a separate sync.

use std::error::Error;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::fs::{FallocateFlags, OFlags, fallocate};

const GROUPS: usize = 400;
const ROUNDS: usize = 5;
/// Bytes per group: one small record, those of some connections, a long pipeline.
const LENGTHS: [usize; 3] = [150, 4 << 10, 64 << 10];
const BLOCK: usize = 4096;

#[derive(Clone, Copy)]
enum Room {
    None,
    Preallocated,
    Zeros,
}

#[derive(Clone, Copy)]
struct Way {
    name: &'static str,
    room: Room,
    direct: bool,
    dsync: bool,
}

const WAYS: [Way; 6] = [
    Way { name: "grows", room: Room::None, direct: false, dsync: false },
    Way { name: "preallocated", room: Room::Preallocated, direct: false, dsync: false },
    Way { name: "zeros", room: Room::Zeros, direct: false, dsync: false },
    Way { name: "zeros, dsync", room: Room::Zeros, direct: false, dsync: true },
    Way { name: "zeros, direct", room: Room::Zeros, direct: true, dsync: false },
    Way { name: "zeros, direct, dsync", room: Room::Zeros, direct: true, dsync: true },
];

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).map_or_else(|| PathBuf::from("."), PathBuf::from);
    println!("{}, {GROUPS} groups a round, {ROUNDS} rounds", folder.display());
    println!("{:<22} {:>8} {:>9} {:>9} {:>10}", "", "bytes", "p50 us", "p99 us", "groups/s");
    for len in LENGTHS {
        let mut rounds = vec![Vec::new(); WAYS.len()];
        for round in 0..ROUNDS {
            for turn in 0..WAYS.len() {
                let at = (round + turn) % WAYS.len();
                rounds[at].push(measure(&folder, WAYS[at], len)?);
            }
        }
        for (way, rounds) in WAYS.iter().zip(&rounds) {
            let [p50, p99, rate] = [0, 1, 2].map(|figure| {
                let mut values: Vec<f64> = rounds.iter().map(|round| round[figure]).collect();
                values.sort_by(f64::total_cmp);
                values[ROUNDS / 2]
            });
            println!("{:<22} {len:>8} {p50:>9.1} {p99:>9.1} {rate:>10.0}", way.name);
        }
    }
    Ok(())
}

/// One round of one way: median and 99th percentile in microseconds, and groups a second.
fn measure(folder: &Path, way: Way, len: usize) -> io::Result<[f64; 3]> {
    let path = folder.join(format!("hotring-ways-{}", std::process::id()));
    let result = run(&path, way, len);
    std::fs::remove_file(&path)?;
    let mut micros = result?;
    let rate = GROUPS as f64 / micros.iter().sum::<f64>() * 1e6;
    micros.sort_by(f64::total_cmp);
    Ok([micros[GROUPS / 2], micros[GROUPS * 99 / 100], rate])
}

fn run(path: &Path, way: Way, len: usize) -> io::Result<Vec<f64>> {
    prepare(path, way.room, GROUPS * len + BLOCK)?;
    let mut flags = OFlags::empty();
    flags.set(OFlags::DIRECT, way.direct);
    flags.set(OFlags::DSYNC, way.dsync);
    let file = OpenOptions::new().write(true).custom_flags(flags.bits() as i32).open(path)?;
    // All bytes to write, aligned to a block in memory.
    let memory = vec![b'r'; GROUPS * len + 3 * BLOCK];
    let memory = &memory[memory.as_ptr().align_offset(BLOCK)..];
    let mut micros = Vec::new();
    for group in 0..GROUPS {
        let (mut from, mut to) = (group * len, (group + 1) * len);
        if way.direct {
            (from, to) = (from / BLOCK * BLOCK, to.next_multiple_of(BLOCK));
        }
        let begun = Instant::now();
        file.write_all_at(&memory[from..to], from as u64)?;
        if !way.dsync {
            file.sync_data()?;
        }
        micros.push(begun.elapsed().as_secs_f64() * 1e6);
    }
    Ok(micros)
}

/// Prepares the file like a new segment.
fn prepare(path: &Path, room: Room, len: usize) -> io::Result<()> {
    let file = File::create(path)?;
    match room {
        Room::None => {}
        Room::Preallocated => fallocate(&file, FallocateFlags::empty(), 0, len as u64)?,
        Room::Zeros => file.write_all_at(&vec![0; len], 0)?,
    }
    file.sync_all()
}
