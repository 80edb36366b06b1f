//! The sources of traces: files, and two synthetic mixes that are hard for one policy or another.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::Result;
use fastrand::Rng;

use crate::workload::scramble::Scramble;
use crate::workload::trace::{Format, Trace};
use crate::workload::zipf::Zipf;

/// Number of accesses in a synthetic trace.
const ACCESSES: u64 = 1_000_000;
const SEED: u64 = 1;

/// A trace named on the command line.
#[derive(Clone, Debug)]
pub enum Source {
    File(PathBuf),
    Scan,
    Shift,
}

/// A trace and its name.
#[derive(Debug)]
pub struct Named {
    pub name: String,
    pub trace: Trace,
}

impl FromStr for Source {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text {
            "scan" => Source::Scan,
            "shift" => Source::Shift,
            path => Source::File(path.into()),
        })
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::File(path) => write!(f, "{}", path.display()),
            Source::Scan => f.write_str("scan"),
            Source::Shift => f.write_str("shift"),
        }
    }
}

impl Source {
    /// Reads the file or generates the synthetic trace, up to `limit` accesses.
    pub fn read(&self, format: Format, limit: u64) -> Result<Named> {
        let drawn = |keys: &mut dyn Iterator<Item = u32>| {
            let limit = usize::try_from(limit).unwrap_or(usize::MAX);
            let bytes: Vec<u8> = keys.take(limit).flat_map(u32::to_le_bytes).collect();
            Trace::parse(bytes.as_slice(), Format::U32le, u64::MAX)
        };
        let (name, trace) = match self {
            Source::File(path) => {
                // The name up to its first dot: "web" of "traces/web.trace.xz".
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let name = name.split('.').next().unwrap_or_default().to_owned();
                (name, Trace::read(path, format, limit)?)
            }
            Source::Scan => ("scan".to_owned(), drawn(&mut scan())?),
            Source::Shift => ("shift".to_owned(), drawn(&mut shift())?),
        };
        Ok(Named { name, trace })
    }
}

/// The first 20,000 of every 100,000 accesses scan keys that are never requested again. Of the others, two in three
/// follow Zipf's law (0.8) over 20,000 keys, and the rest loop over 30,000 other keys.
fn scan() -> impl Iterator<Item = u32> {
    const HOT: u32 = 20_000;
    const LOOP: u32 = 30_000;
    let zipf = Zipf::new(u64::from(HOT), 0.8);
    let mut random = Rng::with_seed(SEED);
    let mut looped = 0;
    (0..ACCESSES as u32).map(move |access| {
        if access % 100_000 < 20_000 {
            return HOT + LOOP + access;
        }
        if random.u64(..3) > 0 {
            return zipf.sample(&mut random) as u32;
        }
        looped = (looped + 1) % LOOP;
        HOT + looped
    })
}

/// Accesses to 50,000 keys by Zipf's law (0.99). Every 50,000 accesses the hot spot moves by a tenth of the keys.
fn shift() -> impl Iterator<Item = u32> {
    const KEYS: u64 = 50_000;
    let zipf = Zipf::new(KEYS, 0.99);
    let scramble = Scramble::new(KEYS, SEED);
    let mut random = Rng::with_seed(SEED);
    (0..ACCESSES).map(move |access| {
        let shifted = access / 50_000 * (KEYS / 10);
        scramble.key((zipf.sample(&mut random) + shifted) % KEYS) as u32
    })
}
