//! The ledger in which the owners of keys publish their changes, so that readers can judge the values they read.
//!
//! Every change of an owned key, a put or a removal, has a sequence number. Its owner must announce the number
//! before the change and confirm it, with the outcome, after it. A reader notes the confirmed state before its
//! read and the announced number after it:
//!
//! * The number of a value lies between the two.
//! * If the two numbers are equal, no change happened meanwhile, and the read must give exactly the confirmed
//!   state. This detects a key that is briefly unreachable, or comes back after its removal.
//!
//! This relies on any read that sees a change also seeing the announcement before it. So the subject must publish
//! with release and read with acquire.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The contents of a value: its key, its writer, and the number of its change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The key that the value was written to.
    pub key: u64,
    /// The thread that wrote the value.
    pub writer: u8,
    /// The number of the change.
    pub sequence: u32,
}

impl Stamp {
    /// The stamp in one word: 24 bits of key, 8 of writer, 32 of sequence.
    pub fn word(self) -> u64 {
        self.key << 40 | u64::from(self.writer) << 32 | u64::from(self.sequence)
    }

    /// Decodes a word.
    pub fn of(word: u64) -> Self {
        Stamp { key: word >> 40, writer: (word >> 32) as u8, sequence: word as u32 }
    }
}

/// A key's state at some point: the last change and whether it left the key present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// The number of the last change; 0 before the first.
    pub sequence: u32,
    /// Whether the key is present.
    pub present: bool,
}

/// Announcements and confirmations of all keys.
pub struct Ledger {
    announced: Vec<AtomicU32>,
    confirmed: Vec<AtomicU64>,
    /// The last announced numbers of the shared keys, by key and writer.
    shared: Vec<AtomicU32>,
    writers: usize,
}

/// Keys that all threads overwrite.
pub const REGISTERS: usize = 8;

impl Ledger {
    /// A ledger of `keys` owned keys and `writers` threads.
    pub fn new(keys: usize, writers: usize) -> Self {
        Ledger {
            announced: (0..keys).map(|_| AtomicU32::new(0)).collect(),
            confirmed: (0..keys).map(|_| AtomicU64::new(0)).collect(),
            shared: (0..REGISTERS * writers).map(|_| AtomicU32::new(0)).collect(),
            writers,
        }
    }

    /// Announces that the owner is about to make the change of this number.
    pub fn announce(&self, key: u64, sequence: u32) {
        self.announced[key as usize].store(sequence, Ordering::Release);
    }

    /// Confirms that the change is made.
    pub fn confirm(&self, key: u64, state: State) {
        let word = u64::from(state.sequence) << 1 | u64::from(state.present);
        self.confirmed[key as usize].store(word, Ordering::Release);
    }

    /// The last announced number of a key. Must be read after the key itself.
    pub fn announced(&self, key: u64) -> u32 {
        self.announced[key as usize].load(Ordering::Acquire)
    }

    /// The last confirmed state of a key. Must be read before the key itself.
    pub fn confirmed(&self, key: u64) -> State {
        let word = self.confirmed[key as usize].load(Ordering::Acquire);
        State { sequence: (word >> 1) as u32, present: word & 1 == 1 }
    }

    /// Announces the writer's next change of a key that all threads overwrite, and returns its number.
    pub fn announce_shared(&self, register: usize, writer: usize) -> u32 {
        self.shared[register * self.writers + writer].fetch_add(1, Ordering::AcqRel) + 1
    }

    /// The last number that the writer announced for a shared key; 0 for a writer that does not exist. Must be
    /// read after the key itself.
    pub fn announced_shared(&self, register: usize, writer: usize) -> u32 {
        if writer >= self.writers {
            return 0;
        }
        self.shared[register * self.writers + writer].load(Ordering::Acquire)
    }
}
