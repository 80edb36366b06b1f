//! The physical limit: an array that is indexed by the key. No index can be faster, as it has at
//! least this to do; nothing is looked up, compared, counted or reclaimed. In batches it asks for
//! all cells before it reads the first one, which is the limit for batches.

use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result};
use hotring_index::prefetch_value;

use super::{Engine, Session};

/// Cells that are asked for before the first of them is read.
const DEPTH: usize = 64;

/// One key: whether it is present, and its value.
#[derive(Default)]
pub struct Cell {
    present: AtomicU64,
    value: AtomicU64,
}

/// The array.
pub struct Oracle {
    cells: Vec<Cell>,
}

impl Oracle {
    /// An array for keys below `keys`.
    pub fn new(keys: u64) -> Result<Self> {
        let keys = usize::try_from(keys)?;
        let mut cells = Vec::new();
        cells.try_reserve_exact(keys).context("no memory for the direct array")?;
        cells.resize_with(keys, Cell::default);
        Ok(Oracle { cells })
    }
}

impl Engine for Oracle {
    type Session<'a> = &'a [Cell];

    fn session(&self) -> Self::Session<'_> {
        &self.cells
    }
}

// Keys are independent words here, and the threads' ends are a join: relaxed will do.
impl Session for &[Cell] {
    #[inline(always)]
    fn get(&mut self, key: u64) -> Option<u64> {
        let cell = <[Cell]>::get(self, usize::try_from(key).ok()?)?;
        // Both at once: a branch between them would wait for memory.
        let (present, value) =
            (cell.present.load(Ordering::Relaxed), cell.value.load(Ordering::Relaxed));
        (present != 0).then_some(value)
    }

    fn put(&mut self, key: u64, value: u64) {
        let cell = &self[key as usize];
        cell.value.store(value, Ordering::Relaxed);
        cell.present.store(1, Ordering::Relaxed);
    }

    fn remove(&mut self, key: u64) {
        self[key as usize].present.store(0, Ordering::Relaxed);
    }

    fn add(&mut self, key: u64, by: u64) {
        self[key as usize].value.fetch_add(by, Ordering::Relaxed);
    }

    fn get_many(&mut self, keys: &[u64], values: &mut [Option<u64>]) {
        for (keys, values) in keys.chunks(DEPTH).zip(values.chunks_mut(DEPTH)) {
            let cells = keys.iter().filter_map(|&key| <[Cell]>::get(self, key as usize));
            cells.for_each(prefetch_value);
            for (&key, value) in keys.iter().zip(values) {
                *value = self.get(key);
            }
        }
    }
}
