//! A HyperLogLog sketch in the string format of Redis: a header of 16 bytes, then 16384 registers.
//!
//! ```text
//! "HYLL"  form  0 0 0  count: 8 bytes, little endian; the highest bit says that it no longer holds
//! dense:  6 bits a register, the lowest bits first
//! sparse: 00nnnnnn            n + 1 registers that are 0
//!         01nnnnnn nnnnnnnn   the same, up to 16384
//!         1vvvvvnn            n + 1 registers that are v + 1
//! ```

use super::estimate::Histogram;

/// Number of registers: 2 to the number of hash bits that select the register.
pub(super) const N_REGISTERS: usize = 1 << INDEX_BITS;
/// Greatest register value: that of an element whose remaining hash bits are all 0.
pub(super) const VALUE_MAX: u8 = 64 - INDEX_BITS as u8 + 1;
const INDEX_BITS: u32 = 14;
const HEADER_LEN: usize = 16;
const DENSE_LEN: usize = HEADER_LEN + N_REGISTERS * 6 / 8;
const MAGIC: &[u8; 4] = b"HYLL";
const DENSE: u8 = 0;
const SPARSE: u8 = 1;
/// Flag in the last byte of the cached count: the count is out of date.
const IS_STALE: u8 = 0x80;
/// Limits of the sparse form: the longest run of zeros in one byte, the longest run of another value, and the greatest
/// value.
const ZEROS_MAX: usize = 64;
const RUN_MAX: usize = 4;
const SPARSE_VALUE_MAX: u8 = 32;
/// Number of runs examined after a change, to merge equal neighbours.
const JOINED_MAX: usize = 5;
const SEED: u64 = 0xadc8_3b19;

/// The error for registers that do not match their encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Corrupt;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sketch {
    bytes: Vec<u8>,
}

impl Default for Sketch {
    /// An empty sketch: all registers are 0, in the sparse form.
    fn default() -> Self {
        let mut bytes = vec![0; HEADER_LEN];
        bytes[..4].copy_from_slice(MAGIC);
        bytes[4] = SPARSE;
        push_zeros(&mut bytes, N_REGISTERS);
        Sketch { bytes }
    }
}

/// A run of equal registers in the sparse form.
#[derive(Clone, Copy)]
struct Run {
    value: u8,
    len: usize,
    /// Encoded length in bytes.
    n_bytes: usize,
}

/// Decodes the first run of `bytes`.
fn first_run(bytes: &[u8]) -> Result<Run, Corrupt> {
    let first = *bytes.first().ok_or(Corrupt)?;
    let low = usize::from(first & 0x3f);
    Ok(match first >> 6 {
        0 => Run { value: 0, len: low + 1, n_bytes: 1 },
        1 => {
            let second = usize::from(*bytes.get(1).ok_or(Corrupt)?);
            Run { value: 0, len: (low << 8 | second) + 1, n_bytes: 2 }
        }
        _ => Run { value: (first >> 2 & 0x1f) + 1, len: usize::from(first & 3) + 1, n_bytes: 1 },
    })
}

fn push_zeros(bytes: &mut Vec<u8>, len: usize) {
    if len > ZEROS_MAX {
        let n = len - 1;
        bytes.extend([0x40 | (n >> 8) as u8, n as u8]);
    } else if len > 0 {
        bytes.push((len - 1) as u8);
    }
}

fn value_run(value: u8, len: usize) -> u8 {
    0x80 | (value - 1) << 2 | (len - 1) as u8
}

fn push_values(bytes: &mut Vec<u8>, value: u8, len: usize) {
    if len > 0 {
        bytes.push(value_run(value, len));
    }
}

/// The cached count, if the bytes are a sketch and the count is up to date.
pub(super) fn kept_count(bytes: &[u8]) -> Option<u64> {
    let count: [u8; 8] = bytes.get(8..HEADER_LEN)?.try_into().ok()?;
    let holds = is_sketch(bytes) && count[7] & IS_STALE == 0;
    holds.then(|| u64::from_le_bytes(count))
}

fn is_sketch(bytes: &[u8]) -> bool {
    let has_header = bytes.len() >= HEADER_LEN && bytes.starts_with(MAGIC);
    has_header && (bytes[4] == SPARSE || (bytes[4] == DENSE && bytes.len() == DENSE_LEN))
}

impl Sketch {
    /// Parses a sketch. None if the bytes are not one.
    pub(super) fn of(bytes: Vec<u8>) -> Option<Sketch> {
        is_sketch(&bytes).then_some(Sketch { bytes })
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn is_dense(&self) -> bool {
        self.bytes[4] == DENSE
    }

    pub(super) fn forget_count(&mut self) {
        self.bytes[HEADER_LEN - 1] |= IS_STALE;
    }

    pub(super) fn keep_count(&mut self, count: u64) {
        self.bytes[8..HEADER_LEN].copy_from_slice(&count.to_le_bytes());
    }

    /// Adds an element. Returns whether a register has changed.
    pub(super) fn add(&mut self, element: &[u8], sparse_max: usize) -> Result<bool, Corrupt> {
        let hash = murmur(element);
        let index = hash as usize & (N_REGISTERS - 1);
        // A sentinel bit after the hash bounds the count of trailing zeros.
        let rest = (hash >> INDEX_BITS) | 1 << (64 - INDEX_BITS);
        self.raise_one(index, rest.trailing_zeros() as u8 + 1, sparse_max)
    }

    /// Raises each register to the value in `to` if that is higher.
    pub(super) fn raise(&mut self, to: &Registers, sparse_max: usize) -> Result<(), Corrupt> {
        for (index, value) in to.0.iter().enumerate().filter(|(_, value)| **value > 0) {
            self.raise_one(index, *value, sparse_max)?;
        }
        Ok(())
    }

    fn raise_one(&mut self, index: usize, value: u8, sparse_max: usize) -> Result<bool, Corrupt> {
        match self.is_dense() {
            true => Ok(self.raise_dense(index, value)),
            false => self.raise_sparse(index, value, sparse_max),
        }
    }

    fn raise_dense(&mut self, index: usize, value: u8) -> bool {
        let raises = dense_register(&self.bytes[HEADER_LEN..], index) < value;
        if raises {
            set_dense_register(&mut self.bytes[HEADER_LEN..], index, value);
        }
        raises
    }

    fn raise_sparse(
        &mut self,
        index: usize,
        value: u8,
        sparse_max: usize,
    ) -> Result<bool, Corrupt> {
        if value > SPARSE_VALUE_MAX {
            self.make_dense()?;
            return Ok(self.raise_dense(index, value));
        }
        let (mut at, mut before, mut first) = (HEADER_LEN, None, 0);
        let run = loop {
            let run = first_run(&self.bytes[at..])?;
            if index < first + run.len {
                break run;
            }
            before = Some(at);
            (at, first) = (at + run.n_bytes, first + run.len);
        };
        if run.value >= value {
            return Ok(false);
        }
        let mut runs = Vec::with_capacity(5);
        let (left, right) = (index - first, first + run.len - 1 - index);
        let push = if run.value == 0 {
            |runs: &mut Vec<u8>, _: u8, len: usize| push_zeros(runs, len)
        } else {
            push_values
        };
        push(&mut runs, run.value, left);
        push_values(&mut runs, value, 1);
        push(&mut runs, run.value, right);
        let grows = runs.len() > run.n_bytes;
        if grows && self.bytes.len() + runs.len() - run.n_bytes > sparse_max {
            self.make_dense()?;
            return Ok(self.raise_dense(index, value));
        }
        self.bytes.splice(at..at + run.n_bytes, runs);
        self.join(before.unwrap_or(HEADER_LEN));
        self.forget_count();
        Ok(true)
    }

    /// Merges adjacent runs of equal values, starting with the run at `at`.
    fn join(&mut self, mut at: usize) {
        for _ in 0..JOINED_MAX {
            let Ok(run) = first_run(&self.bytes[at..]) else { return };
            let next = at + run.n_bytes;
            let joined = match first_run(&self.bytes[next.min(self.bytes.len())..]) {
                Ok(next) if run.value > 0 && next.value == run.value => run.len + next.len,
                _ => usize::MAX,
            };
            if joined <= RUN_MAX {
                self.bytes[next] = value_run(run.value, joined);
                self.bytes.remove(at);
            } else {
                at = next;
            }
        }
    }

    /// Converts the sketch to the dense form, with six bits per register.
    pub(super) fn make_dense(&mut self) -> Result<(), Corrupt> {
        if self.is_dense() {
            return Ok(());
        }
        let mut dense = vec![0; DENSE_LEN];
        dense[..HEADER_LEN].copy_from_slice(&self.bytes[..HEADER_LEN]);
        dense[4] = DENSE;
        self.each_run(|first, run| {
            for index in first..first + if run.value > 0 { run.len } else { 0 } {
                set_dense_register(&mut dense[HEADER_LEN..], index, run.value);
            }
        })?;
        self.bytes = dense;
        Ok(())
    }

    /// Calls `f` with each run of the sparse form and the index of its first register.
    fn each_run(&self, mut f: impl FnMut(usize, Run)) -> Result<(), Corrupt> {
        let (mut rest, mut first) = (&self.bytes[HEADER_LEN..], 0);
        while !rest.is_empty() {
            let run = first_run(rest)?;
            if first + run.len > N_REGISTERS {
                return Err(Corrupt);
            }
            f(first, run);
            (rest, first) = (&rest[run.n_bytes..], first + run.len);
        }
        if first == N_REGISTERS { Ok(()) } else { Err(Corrupt) }
    }

    pub(super) fn histogram(&self) -> Result<Histogram, Corrupt> {
        let mut registers = Registers::default();
        registers.merge(self)?;
        Ok(registers.histogram())
    }
}

/// Reads a register of the dense form.
fn dense_register(registers: &[u8], index: usize) -> u8 {
    let (at, shift) = (index * 6 / 8, index * 6 % 8);
    let second = registers.get(at + 1).copied().unwrap_or(0);
    (u16::from_le_bytes([registers[at], second]) >> shift) as u8 & 0x3f
}

fn set_dense_register(registers: &mut [u8], index: usize, value: u8) {
    let (at, shift) = (index * 6 / 8, index * 6 % 8);
    let [mask, bits] = [0x3f, value].map(|bits| (u16::from(bits) << shift).to_le_bytes());
    for i in 0..2 {
        if mask[i] != 0 {
            registers[at + i] = (registers[at + i] & !mask[i]) | bits[i];
        }
    }
}

/// Decoded registers, to merge several sketches.
pub(super) struct Registers([u8; N_REGISTERS]);

impl Default for Registers {
    fn default() -> Self {
        Registers([0; N_REGISTERS])
    }
}

impl Registers {
    /// Raises each register to its value in `sketch` if that is higher.
    pub(super) fn merge(&mut self, sketch: &Sketch) -> Result<(), Corrupt> {
        if sketch.is_dense() {
            for (index, register) in self.0.iter_mut().enumerate() {
                *register = dense_register(&sketch.bytes[HEADER_LEN..], index).max(*register);
            }
            return Ok(());
        }
        sketch.each_run(|first, run| {
            for register in &mut self.0[first..first + run.len] {
                *register = run.value.max(*register);
            }
        })
    }

    pub(super) fn histogram(&self) -> Histogram {
        let mut histogram = [0; 64];
        for register in &self.0 {
            histogram[usize::from(*register)] += 1;
        }
        histogram
    }
}

/// MurmurHash64A by Austin Appleby, with Redis's seed.
fn murmur(bytes: &[u8]) -> u64 {
    const M: u64 = 0xc6a4_a793_5bd1_e995;
    let mut hash = SEED ^ (bytes.len() as u64).wrapping_mul(M);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let word = u64::from_le_bytes(*word).wrapping_mul(M);
        hash = (hash ^ (word ^ word >> 47).wrapping_mul(M)).wrapping_mul(M);
    }
    if !rest.is_empty() {
        let mut word = [0; 8];
        word[..rest.len()].copy_from_slice(rest);
        hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(M);
    }
    hash = (hash ^ hash >> 47).wrapping_mul(M);
    hash ^ hash >> 47
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raised(registers: &[(usize, u8)], sparse_max: usize) -> Sketch {
        let mut sketch = Sketch::default();
        for (index, value) in registers {
            sketch.raise_one(*index, *value, sparse_max).unwrap();
        }
        sketch
    }

    /// No element that one could find has such a register.
    #[test]
    fn the_sparse_form_holds_values_of_up_to_32() {
        assert!(!raised(&[(5, 32)], 3_000).is_dense());
        let dense = raised(&[(4, 32), (5, 33)], 3_000);
        assert!(dense.is_dense());
        let registers = [4, 5, 6].map(|at| dense_register(&dense.bytes[HEADER_LEN..], at));
        assert_eq!(registers, [32, 33, 0]);
    }

    /// As after `hll-sparse-max-bytes` was made smaller.
    #[test]
    fn a_long_one_stays_sparse_while_it_does_not_grow() {
        let mut sketch = raised(&[(10, 3), (20, 3)], 3_000);
        let len = sketch.bytes.len();
        assert_eq!(sketch.raise_one(10, 4, len - 1), Ok(true));
        assert_eq!((sketch.is_dense(), sketch.bytes.len()), (false, len));
        assert_eq!(sketch.raise_one(15, 4, len - 1), Ok(true));
        assert!(sketch.is_dense());
    }

    #[test]
    fn up_to_four_equal_registers_are_one_run() {
        let registers: Vec<(usize, u8)> = (0..5).map(|i| (i, 7)).collect();
        // The header, the runs, and two bytes for the rest.
        assert_eq!(raised(&registers[..4], 3_000).bytes.len(), HEADER_LEN + 1 + 2);
        assert_eq!(raised(&registers, 3_000).bytes.len(), HEADER_LEN + 2 + 2);
    }
}
