//! Which records a reply depends on: for each group of keys the last record, and whether a write is under way.
//!
//! A reply must not show a write that a failover can undo. So while writes are marked
//! ([`crate::Session::mark_writes`]), a session that has read keys asks for the last record of each
//! ([`crate::Session::last_records`]), and its reply waits until the replicas have that record. Keys share a mark with
//! others, so a reply may wait for a write of another key.
//!
//! # Why no write is missed
//! A write raises `under_way` before it changes the index. After its record is in the log it publishes the record's
//! number, and then lowers `under_way`; all of that under the key's order lock, or in a hold of the key. A session that
//! has seen the write's value therefore finds it under way, or finds its number. In the first case it waits for a hold
//! of the key to end, and takes the order lock once: then the write it has seen is over, and its number is published.
//! It need not wait until no write is under way, so a key that is always written cannot starve it.
//!
//! Marking begins in a hold of all keys. All writes before it count as one write of all keys, with the last record that
//! there is at that moment: it is unknown which of them the replicas have.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use hotring_log::Lsn;

use crate::gate::Fault;
use crate::holds::Keys;

/// Number of marks, as many as order locks.
const MARKS: usize = 1 << MARK_BITS;
const MARK_BITS: u32 = 10;

#[derive(Default)]
struct Mark {
    under_way: AtomicU32,
    last: AtomicU64,
}

/// The marks of a store.
pub(crate) struct Marks {
    marks: Box<[Mark; MARKS]>,
    /// Of sessions that hold all keys.
    all: Mark,
    fault: Fault,
}

impl Mark {
    fn begin(&self) {
        // ORDERING: Relaxed; whoever sees the change of the index that follows sees this, because the index publishes
        // its changes with Release.
        self.under_way.fetch_add(1, Ordering::Relaxed);
    }

    fn end(&self, record: Option<Lsn>) {
        if let Some(lsn) = record {
            // ORDERING: Relaxed; the Release below publishes it.
            self.last.fetch_max(lsn, Ordering::Relaxed);
        }
        // ORDERING: Release pairs with the Acquire in `is_under_way`.
        self.under_way.fetch_sub(1, Ordering::Release);
    }

    fn is_under_way(&self) -> bool {
        // ORDERING: Acquire pairs with the Release in `end`: without a write under way, its number is seen.
        self.under_way.load(Ordering::Acquire) > 0
    }

    fn last(&self) -> Lsn {
        // ORDERING: Acquire; `is_under_way`, or the locks that the reader has taken, order it.
        self.last.load(Ordering::Acquire)
    }
}

impl Marks {
    pub(crate) fn new(fault: Fault) -> Marks {
        let marks: Vec<_> = std::iter::repeat_with(Mark::default).take(MARKS).collect();
        let marks = marks.try_into().unwrap_or_else(|_| unreachable!("there are as many"));
        Marks { marks, all: Mark::default(), fault }
    }

    /// Forgets all writes, and counts this record as one of all keys. The caller must hold all keys.
    pub(crate) fn begin_at(&self, last: Lsn) {
        // ORDERING: Relaxed, here and below: no other session is within the gate, which orders it.
        self.marks.iter().for_each(|mark| mark.last.store(0, Ordering::Relaxed));
        self.all.last.store(last, Ordering::Relaxed);
    }

    fn of(&self, hash: u64) -> &Mark {
        &self.marks[(hash >> (u64::BITS - MARK_BITS)) as usize]
    }

    fn each(&self, keys: &Keys, f: impl Fn(&Mark)) {
        match keys {
            Keys::All => f(&self.all),
            Keys::These(hashes) => hashes.iter().for_each(|hash| f(self.of(*hash))),
        }
    }

    /// A write of the key begins. It must end.
    pub(crate) fn begin(&self, hash: u64) {
        if self.fault != Fault::LateMark {
            self.of(hash).begin();
        }
    }

    /// A write of the key has ended, with this record.
    pub(crate) fn end(&self, hash: u64, record: Option<Lsn>) {
        if self.fault == Fault::LateMark {
            self.of(hash).begin();
        }
        self.of(hash).end(record);
    }

    /// Writes of these keys begin, in a hold. They must end.
    pub(crate) fn begin_all(&self, keys: &Keys) {
        if self.fault != Fault::LateMark {
            self.each(keys, Mark::begin);
        }
    }

    /// Writes of these keys have ended; the last record of the hold is this one.
    pub(crate) fn end_all(&self, keys: &Keys, record: Option<Lsn>) {
        if self.fault == Fault::LateMark {
            self.each(keys, Mark::begin);
        }
        self.each(keys, |mark| mark.end(record));
    }

    /// Whether a write of the key, or of all keys, may be under way.
    pub(crate) fn is_under_way(&self, hash: u64) -> bool {
        self.of(hash).is_under_way() || self.all.is_under_way()
    }

    /// The last record of any of these keys, or of all keys; 0 without a key. None if a write of one of them may be
    /// under way.
    #[inline]
    pub(crate) fn settled(&self, hashes: impl Iterator<Item = u64>) -> Option<Lsn> {
        if self.all.is_under_way() {
            return None;
        }
        let (mut last, of_all) = (0, self.all.last());
        for hash in hashes {
            let mark = self.of(hash);
            if mark.is_under_way() {
                return None;
            }
            last = last.max(mark.last()).max(of_all);
        }
        Some(last)
    }

    /// For each group of keys of which a write may be under way, the hash of one such key.
    pub(crate) fn under_way(&self) -> impl Iterator<Item = u64> {
        let numbered = (0..).zip(&*self.marks);
        numbered.filter(|(_, mark)| mark.is_under_way()).map(|(n, _)| n << (u64::BITS - MARK_BITS))
    }

    /// The last record of the key, or of all keys.
    pub(crate) fn last(&self, hash: u64) -> Lsn {
        self.of(hash).last().max(self.all.last())
    }
}
