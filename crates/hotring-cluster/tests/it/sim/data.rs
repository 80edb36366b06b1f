//! What a node stores: the records of the stream, the values of the keys, and what survives a crash.

use crate::history::{History, Start};
use crate::ids::{Lsn, StoreId};

/// Pairs of keys; a write changes both keys of a pair, as one batch.
pub const PAIRS: usize = 3;

/// The value of each key. Values of a pair only grow.
pub type Values = [u64; 2 * PAIRS];

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Effect {
    Put(usize, u64),
    Begin(Start),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Record {
    pub effect: Effect,
    /// Whether it ends its batch.
    pub ends: bool,
}

/// The data of a node in one of its lives.
#[derive(Clone, Debug)]
pub struct Data {
    pub store: StoreId,
    pub history: History,
    /// The record with which the oldest snapshot ends.
    pub base: Lsn,
    base_values: Values,
    base_history: History,
    records: Vec<Record>,
    pub values: Values,
    /// The record that wrote each key last; the base for older ones.
    pub written_by: [Lsn; 2 * PAIRS],
}

impl Data {
    pub fn empty(store: StoreId) -> Self {
        Data::copied(store, History::new(), 0, [0; 2 * PAIRS])
    }

    /// The data after a full copy.
    pub fn copied(store: StoreId, history: History, base: Lsn, values: Values) -> Self {
        Data {
            store,
            base_history: history.clone(),
            history,
            base,
            base_values: values,
            records: Vec::new(),
            values,
            written_by: [base; 2 * PAIRS],
        }
    }

    pub fn last(&self) -> Lsn {
        self.base + self.records.len() as Lsn
    }

    /// The records from `first` to the end.
    pub fn from(&self, first: Lsn) -> &[Record] {
        &self.records[(first - self.base - 1) as usize..]
    }

    pub fn push(&mut self, record: Record) {
        self.records.push(record);
        let last = self.last();
        match record.effect {
            Effect::Put(key, value) => {
                self.values[key] = value;
                self.written_by[key] = last;
            }
            Effect::Begin(start) => self.history.begin(start).expect("epochs rise"),
        }
    }

    /// The keys of the records behind `after`.
    pub fn keys_behind(&self, after: Lsn) -> Vec<usize> {
        let keys = self.from(after + 1).iter().filter_map(|record| match record.effect {
            Effect::Put(key, _) => Some(key),
            Effect::Begin(_) => None,
        });
        keys.collect()
    }

    /// Removes the records behind `after`. What they did stays.
    pub fn cut(&mut self, after: Lsn) {
        self.records.truncate((after - self.base) as usize);
        self.history.cut(after);
    }

    /// Gives keys the values that they have at the last record.
    pub fn give(&mut self, values: &[(usize, u64)]) {
        let last = self.last();
        for (key, value) in values {
            self.values[*key] = *value;
            self.written_by[*key] = last;
        }
    }

    /// What recovery finds if the records up to `last` are on the disk: whole batches.
    pub fn recover(&mut self, last: Lsn) {
        let kept = (last.max(self.base) - self.base) as usize;
        let mut records = std::mem::take(&mut self.records);
        records.truncate(kept);
        while records.last().is_some_and(|record| !record.ends) {
            records.pop();
        }
        let (store, history) = (self.store, self.base_history.clone());
        *self = Data::copied(store, history, self.base, self.base_values);
        records.into_iter().for_each(|record| self.push(record));
    }
}
