//! The engine of lines as a target.

use hotring_index::{Lines, LinesAnswer, LinesOp, LinesQueue, LinesSession};

use super::worker::Tally;
use super::{Engine, Session};
use crate::workload::operations::{Kind, Stream};

/// A session and its queue, for one thread.
pub struct Both {
    session: LinesSession,
    /// The ticket of a lookup is its key.
    queue: LinesQueue<u64>,
}

impl Engine for Lines {
    type Session<'a> = Both;

    fn session(&self) -> Self::Session<'_> {
        Both { session: Lines::session(self), queue: self.queue() }
    }

    fn index_bytes(&self) -> Option<u64> {
        Some(self.stats().table_bytes)
    }
}

impl Session for Both {
    #[inline(always)]
    fn get(&mut self, key: u64) -> Option<u64> {
        self.session.get(key)
    }

    fn put(&mut self, key: u64, value: u64) {
        self.session.put(key, value);
    }

    fn remove(&mut self, key: u64) {
        self.session.remove(key);
    }

    fn add(&mut self, key: u64, by: u64) {
        self.session.fetch_add(key, by);
    }

    fn settle(&mut self) {
        while self.session.maintain() {}
    }

    fn get_many(&mut self, keys: &[u64], values: &mut [Option<u64>]) {
        self.session.get_many(keys, values);
    }

    fn queued(&mut self, stream: Stream<'_>) -> Tally {
        let mut tally = Tally::default();
        let mut take = |(key, answer): (u64, LinesAnswer)| {
            if let LinesAnswer::Value(value) = answer {
                tally.read(key, value);
            }
        };
        for op in stream.ops {
            let key = op.key();
            let op = match op.kind() {
                Kind::Read => LinesOp::Get(key),
                _ => LinesOp::Put(key, key),
            };
            if let Some(answered) = self.queue.submit(op, key) {
                take(answered);
            }
        }
        self.queue.by_ref().for_each(take);
        tally
    }
}
