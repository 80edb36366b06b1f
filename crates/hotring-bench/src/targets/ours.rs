//! The engines of hotring-index as targets.

use hotring_index::{Bytes, Expiry, Guard, Index, Kind, NewValue, U64, Value};

use super::{BytesEngine, BytesSession, Engine, Session, Tally, worker};
use crate::workload::operations::Stream;

/// Buckets that are settled under one pin.
const BUCKETS_AHEAD: u32 = 256;
/// The current time of all operations. Nothing expires here.
const NOW: u64 = 1;

impl<E: hotring_index::Engine> Engine for Index<U64, E> {
    type Session<'a> = hotring_index::Session<U64, E>;

    fn session(&self) -> Self::Session<'_> {
        Index::session(self)
    }

    fn visits(&self) -> Option<(u64, u64)> {
        let stats = self.stats();
        Some((stats.lookups_sampled, stats.visits_sampled))
    }

    fn index_bytes(&self) -> Option<u64> {
        Some(self.stats().table_bytes)
    }
}

/// The operations that sessions and guards have in common.
macro_rules! single_operations {
    () => {
        #[inline(always)]
        fn get(&mut self, key: u64) -> Option<u64> {
            Self::get(self, key)
        }

        fn put(&mut self, key: u64, value: u64) {
            Self::put(self, key, value);
        }

        fn remove(&mut self, key: u64) {
            Self::remove(self, key);
        }

        fn add(&mut self, key: u64, by: u64) {
            self.fetch_add(key, by);
        }
    };
}

impl<E: hotring_index::Engine> Session for hotring_index::Session<U64, E> {
    single_operations!();

    fn settle(&mut self) {
        settle(self);
    }

    // Runs under a guard, as other maps do that have guards.
    fn one_by_one(&mut self, stream: Stream<'_>) -> Tally {
        worker::one_by_one(&mut self.guard(), stream)
    }

    fn get_many(&mut self, keys: &[u64], values: &mut [Option<u64>]) {
        Self::get_many(self, keys, values);
    }
}

impl<E: hotring_index::Engine> Session for Guard<'_, E> {
    single_operations!();
}

impl<E: hotring_index::Engine> BytesEngine for Index<Bytes, E> {
    type Session<'a> = hotring_index::Session<Bytes, E>;

    fn session(&self) -> Self::Session<'_> {
        Index::session(self)
    }

    fn visits(&self) -> Option<(u64, u64)> {
        let stats = self.stats();
        Some((stats.lookups_sampled, stats.visits_sampled))
    }

    fn index_bytes(&self) -> Option<u64> {
        Some(self.stats().table_bytes)
    }
}

impl<E: hotring_index::Engine> BytesSession for hotring_index::Session<Bytes, E> {
    fn get<R>(&mut self, key: &[u8], see: impl FnOnce(&[u8]) -> R) -> Option<R> {
        Self::get(self, key, NOW, |entry| see(bytes_of(entry.value)))
    }

    fn put(&mut self, key: &[u8], value: &[u8]) {
        let value = NewValue::Bytes { kind: 0, bytes: value.into() };
        Self::put(self, key, value, Expiry::Never, NOW);
    }

    fn remove(&mut self, key: &[u8]) {
        Self::remove(self, key, NOW);
    }

    fn settle(&mut self) {
        settle(self);
    }

    fn get_many(&mut self, keys: &[&[u8]], mut see: impl FnMut(usize, &[u8])) {
        Self::get_many(self, keys, NOW, |i, entry| {
            if let Some(entry) = entry {
                see(i, bytes_of(entry.value));
            }
        });
    }
}

fn settle<K: Kind, E: hotring_index::Engine>(session: &mut hotring_index::Session<K, E>) {
    while session.growth_step(BUCKETS_AHEAD) {}
}

fn bytes_of(value: Value<'_>) -> &[u8] {
    match value {
        Value::Bytes { bytes, .. } => bytes,
        Value::Word { .. } => unreachable!("no word was put"),
    }
}
