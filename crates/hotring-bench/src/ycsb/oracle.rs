//! The physical limit: an array that is indexed by the key. No index can be faster, as it has at
//! least this to do; nothing is looked up, compared, counted or reclaimed.

use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result, anyhow};
use memmap2::{Advice, MmapMut};
use zerocopy::FromBytes;

use super::target::{Engine, Named, Session, Target};

/// As it appears in tables.
pub const NAME: &str = "oracle";

/// One key: whether it is present, and its value.
type Cell = [AtomicU64; 2];

/// The array.
#[derive(Clone, Copy)]
pub struct Oracle {
    /// Never unmapped: a run has one, until its end.
    cells: &'static [Cell],
}

/// An array for keys below `keys`, in huge pages where the kernel gives them.
pub fn target(keys: u64) -> Result<Box<dyn Target>> {
    let length = usize::try_from(keys)?.checked_mul(size_of::<Cell>()).context("too many keys")?;
    let map = MmapMut::map_anon(length).context("no memory for the direct array")?;
    if map.advise(Advice::HugePage).is_err() {
        eprintln!("note: no huge pages for the direct array");
    }
    let bytes: &'static mut [u8] = &mut *Box::<MmapMut>::leak(Box::new(map));
    let cells = <[Cell]>::mut_from_bytes(bytes).map_err(|error| anyhow!("{error}"))?;
    Ok(Box::new(Named { name: NAME.into(), engine: Oracle { cells } }))
}

impl Engine for Oracle {
    type Session<'a> = Oracle;

    fn session(&self) -> Oracle {
        *self
    }
}

// Keys are independent words here, and the threads' ends are a join: relaxed will do.
impl Session for Oracle {
    fn get(&mut self, key: u64) -> Option<u64> {
        let [present, value] = self.cells.get(usize::try_from(key).ok()?)?;
        let present = present.load(Ordering::Relaxed) != 0;
        present.then(|| value.load(Ordering::Relaxed))
    }

    fn put(&mut self, key: u64, value: u64) {
        let cell = &self.cells[key as usize];
        cell[1].store(value, Ordering::Relaxed);
        cell[0].store(1, Ordering::Relaxed);
    }

    fn remove(&mut self, key: u64) {
        self.cells[key as usize][0].store(0, Ordering::Relaxed);
    }

    fn add(&mut self, key: u64, by: u64) {
        self.cells[key as usize][1].fetch_add(by, Ordering::Relaxed);
    }
}
