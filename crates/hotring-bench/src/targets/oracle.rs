//! The physical limit: an array indexed by the key. No index can be faster, because each must at least read
//! memory once; the array compares, counts and reclaims nothing. In batches it prefetches all cells before it
//! reads the first one, which is the limit for batches.
//!
//! Keys are numbered from 0, so a key is present if it is below the end. A presence word in each cell would cost
//! a third of the rate, because the code that depends on it waits for memory. A session keeps the end from its
//! beginning, and reads the current end only for keys beyond that.

use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result};
use hotring_index::prefetch_value;

use super::{Engine, Session};

/// Cells that are prefetched before the first of them is read.
const DEPTH: usize = 64;

/// The cell of one key, with the 16 bytes that a key and its value take.
#[derive(Default)]
pub struct Cell {
    value: AtomicU64,
    _key: u64,
}

/// The array of all cells.
pub struct Oracle {
    cells: Vec<Cell>,
    /// One more than the last present key.
    end: AtomicU64,
}

/// One thread's access to the array.
pub struct Reader<'a> {
    /// The cells of the keys that were present when the session began.
    first: &'a [Cell],
    oracle: &'a Oracle,
}

impl Oracle {
    /// An array for keys below `keys`.
    pub fn new(keys: u64) -> Result<Self> {
        let keys = usize::try_from(keys)?;
        let mut cells = Vec::new();
        cells.try_reserve_exact(keys).context("no memory for the direct array")?;
        cells.resize_with(keys, Cell::default);
        Ok(Oracle { cells, end: AtomicU64::new(0) })
    }

    fn end(&self) -> u64 {
        self.end.load(Ordering::Relaxed)
    }
}

impl Engine for Oracle {
    type Session<'a> = Reader<'a>;

    fn session(&self) -> Self::Session<'_> {
        Reader { first: &self.cells[..self.end() as usize], oracle: self }
    }
}

impl Reader<'_> {
    fn cell(&self, key: u64) -> &AtomicU64 {
        &self.oracle.cells[key as usize].value
    }
}

// Relaxed suffices: keys are independent words here, and threads are joined at the end.
impl Session for Reader<'_> {
    #[inline(always)]
    fn get(&mut self, key: u64) -> Option<u64> {
        match self.first.get(key as usize) {
            Some(cell) => Some(cell.value.load(Ordering::Relaxed)),
            None => {
                std::hint::cold_path();
                (key < self.oracle.end()).then(|| self.cell(key).load(Ordering::Relaxed))
            }
        }
    }

    fn put(&mut self, key: u64, value: u64) {
        self.cell(key).store(value, Ordering::Relaxed);
        if key >= self.oracle.end() {
            self.oracle.end.fetch_max(key + 1, Ordering::Relaxed);
        }
    }

    /// Removes the last keys only, which suffices to undo the inserts of a stream.
    fn remove(&mut self, key: u64) {
        self.oracle.end.fetch_min(key, Ordering::Relaxed);
    }

    fn add(&mut self, key: u64, by: u64) {
        self.cell(key).fetch_add(by, Ordering::Relaxed);
    }

    fn get_many(&mut self, keys: &[u64], values: &mut [Option<u64>]) {
        for (keys, values) in keys.chunks(DEPTH).zip(values.chunks_mut(DEPTH)) {
            let cells = keys.iter().filter_map(|&key| self.oracle.cells.get(key as usize));
            cells.for_each(prefetch_value);
            for (&key, value) in keys.iter().zip(values) {
                *value = self.get(key);
            }
        }
    }
}
