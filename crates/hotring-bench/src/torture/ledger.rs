//! The owners of keys publish their changes here, so that readers can judge what they read.
//!
//! Every change of an owned key, a put or a removal, has a sequence number. Its owner announces
//! the number before the change and confirms it, with the outcome, after it. A reader notes what
//! was confirmed before its read and what was announced after it:
//!
//! * a value's number lies between the two;
//! * where the two are the same number, nothing happened meanwhile, and the read must have given
//!   exactly the confirmed state: a key that is briefly unreachable, or comes back from the dead,
//!   shows here.
//!
//! This relies on reads that see a change also seeing the announcement before it, that is, on the
//! subject publishing with release and reading with acquire. It has to.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The contents of a value: its owner, its writer, and its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The key that it was written to.
    pub key: u64,
    /// The thread that wrote it.
    pub writer: u8,
    /// The number of the change.
    pub sequence: u32,
}

impl Stamp {
    /// All of it in one word: 24 bits of key, 8 of writer, 32 of sequence.
    pub fn word(self) -> u64 {
        self.key << 40 | u64::from(self.writer) << 32 | u64::from(self.sequence)
    }

    /// The contents of a word.
    pub fn of(word: u64) -> Self {
        Stamp { key: word >> 40, writer: (word >> 32) as u8, sequence: word as u32 }
    }
}

/// A key's state at some point: the last change and whether it left the key present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// The number of the last change; 0 before the first.
    pub sequence: u32,
    /// Whether the key is there.
    pub present: bool,
}

/// Announcements and confirmations of all keys.
pub struct Ledger {
    announced: Vec<AtomicU32>,
    confirmed: Vec<AtomicU64>,
    /// Numbers handed out for the keys that all threads write, by key and writer.
    shared: Vec<AtomicU32>,
    writers: usize,
}

/// Keys that all threads overwrite.
pub const REGISTERS: usize = 8;

impl Ledger {
    /// For `keys` owned keys and `writers` threads.
    pub fn new(keys: usize, writers: usize) -> Self {
        Ledger {
            announced: (0..keys).map(|_| AtomicU32::new(0)).collect(),
            confirmed: (0..keys).map(|_| AtomicU64::new(0)).collect(),
            shared: (0..REGISTERS * writers).map(|_| AtomicU32::new(0)).collect(),
            writers,
        }
    }

    /// Says that the owner is about to make a change of this number.
    pub fn announce(&self, key: u64, sequence: u32) {
        self.announced[key as usize].store(sequence, Ordering::Release);
    }

    /// Says that the change is made.
    pub fn confirm(&self, key: u64, state: State) {
        let word = u64::from(state.sequence) << 1 | u64::from(state.present);
        self.confirmed[key as usize].store(word, Ordering::Release);
    }

    /// To be asked after a read.
    pub fn announced(&self, key: u64) -> u32 {
        self.announced[key as usize].load(Ordering::Acquire)
    }

    /// To be asked before a read.
    pub fn confirmed(&self, key: u64) -> State {
        let word = self.confirmed[key as usize].load(Ordering::Acquire);
        State { sequence: (word >> 1) as u32, present: word & 1 == 1 }
    }

    /// The next number of this writer for a key that all threads overwrite.
    pub fn announce_shared(&self, register: usize, writer: usize) -> u32 {
        self.shared[register * self.writers + writer].fetch_add(1, Ordering::AcqRel) + 1
    }

    /// To be asked after a read of such a key; 0 for a writer that does not exist.
    pub fn announced_shared(&self, register: usize, writer: usize) -> u32 {
        if writer >= self.writers {
            return 0;
        }
        self.shared[register * self.writers + writer].load(Ordering::Acquire)
    }
}
