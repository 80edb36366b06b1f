//! The targets of measurements: our engines, other maps, and the physical limit set by memory.
//!
//! A map of numbers implements [`Engine`] and [`Session`], a map of byte strings [`BytesEngine`] and
//! [`BytesSession`]; the loops over them are generic, so that the timed code calls nothing through a pointer.
//! [`Target`] hides both kinds behind one pointer, so that a run can hold many and alternate between them. A new
//! peer needs its own file or a section in `peers.rs`, and a name in `plan.rs`, where targets are built.

mod bytes;
#[cfg(feature = "cpp-peers")]
mod cpp;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod lines;
mod oracle;
mod ours;
#[cfg(feature = "peers")]
mod peers;
mod plan;
#[cfg(test)]
mod tests;
mod worker;

use indicatif::ProgressBar;

pub use bytes::Shape;
#[cfg(feature = "peers")]
pub use peers::Fold;
pub use plan::{Plan, TargetName};
pub use worker::{Mode, Tally};

use crate::report::Strides;
use crate::workload::operations::{Keys, Op, Stream};
use worker::Running;

/// A concurrent map from u64 to u64.
pub trait Engine: Send + Sync {
    /// One thread's access to the map.
    type Session<'a>: Session
    where
        Self: 'a;

    /// Opens a session.
    fn session(&self) -> Self::Session<'_>;

    /// Sampled lookups and the items that they visited, since the start.
    fn visits(&self) -> Option<(u64, u64)> {
        None
    }

    /// Bytes of the index alone, without items.
    fn index_bytes(&self) -> Option<u64> {
        None
    }
}

/// One thread's access to an engine.
pub trait Session: Sized {
    /// The value of a key. Must be inlined everywhere: one more call costs a tenth of a lookup.
    fn get(&mut self, key: u64) -> Option<u64>;
    /// Sets a key, whether present or absent.
    fn put(&mut self, key: u64, value: u64);
    /// Removes a key.
    fn remove(&mut self, key: u64);

    /// Adds to the value of a present key.
    fn add(&mut self, key: u64, by: u64) {
        let old = self.get(key).unwrap_or_default();
        self.put(key, old.wrapping_add(by));
    }

    /// Does the work after a load that later operations would otherwise do bit by bit.
    fn settle(&mut self) {}

    /// Runs operations one after the other, in the fastest way that the engine offers.
    fn one_by_one(&mut self, stream: Stream<'_>) -> Tally {
        worker::one_by_one(self, stream)
    }

    /// Runs operations through a queue that keeps many in flight, or one after the other if the engine has no
    /// queue.
    fn queued(&mut self, stream: Stream<'_>) -> Tally {
        self.one_by_one(stream)
    }

    /// Looks up several keys, one after the other if the engine has no better way.
    fn get_many(&mut self, keys: &[u64], values: &mut [Option<u64>]) {
        for (key, value) in keys.iter().zip(values) {
            *value = self.get(*key);
        }
    }
}

/// A concurrent map of byte strings.
pub trait BytesEngine: Send + Sync {
    /// One thread's access to the map.
    type Session<'a>: BytesSession
    where
        Self: 'a;

    /// Opens a session.
    fn session(&self) -> Self::Session<'_>;

    /// See [`Engine::visits`].
    fn visits(&self) -> Option<(u64, u64)> {
        None
    }

    /// See [`Engine::index_bytes`].
    fn index_bytes(&self) -> Option<u64> {
        None
    }
}

/// One thread's access to a map of byte strings.
pub trait BytesSession {
    /// Calls `see` with the value of a key.
    fn get<R>(&mut self, key: &[u8], see: impl FnOnce(&[u8]) -> R) -> Option<R>;
    /// Sets a key, whether present or absent.
    fn put(&mut self, key: &[u8], value: &[u8]);
    /// Removes a key.
    fn remove(&mut self, key: &[u8]);

    /// See [`Session::settle`].
    fn settle(&mut self) {}

    /// Calls `see` with the index and the value of each present key, in any order.
    fn get_many(&mut self, keys: &[&[u8]], mut see: impl FnMut(usize, &[u8])) {
        for (i, key) in keys.iter().enumerate() {
            self.get(key, |value| see(i, value));
        }
    }
}

/// A named engine behind one pointer.
pub trait Target: Send + Sync {
    /// The name in tables.
    fn name(&self) -> &str;
    /// The form of its keys, which decides the form of its streams.
    fn keys(&self) -> Keys;
    /// Loads the keys numbered `0..keys`.
    fn load(&self, keys: u64, bar: &ProgressBar);
    /// A session for the calling thread.
    fn worker(&self) -> Box<dyn Worker + '_>;
    /// Sampled lookups and the items that they visited, since the start.
    fn visits(&self) -> Option<(u64, u64)>;
    /// Bytes of the index alone, without items.
    fn index_bytes(&self) -> Option<u64>;
}

/// One thread that works on a target.
pub trait Worker {
    /// Runs operations.
    fn run(&mut self, stream: Stream<'_>, mode: Mode) -> Tally;
    /// Runs operations one after the other, and passes the nanoseconds of each read to `read`.
    fn time(&mut self, ops: &[Op], read: &mut dyn FnMut(u64)) -> Tally;
    /// Does the work that later operations would otherwise do bit by bit.
    fn settle(&mut self);
    /// Removes the keys that the operations inserted.
    fn undo(&mut self, ops: &[Op]);
}

/// A map of numbers with scattered keys, for maps without a plan.
pub fn named(name: &str, engine: impl Engine + 'static) -> Box<dyn Target> {
    Box::new(Named { name: name.to_owned(), keys: Keys::Scattered, engine })
}

/// An engine with its name.
struct Named<E> {
    name: String,
    keys: Keys,
    engine: E,
}

impl<E: Engine> Target for Named<E> {
    fn name(&self) -> &str {
        &self.name
    }

    fn keys(&self) -> Keys {
        self.keys
    }

    fn load(&self, keys: u64, bar: &ProgressBar) {
        let mut session = self.engine.session();
        let mut strides = Strides::on(bar);
        for number in 0..keys {
            let key = self.keys.key(number);
            session.put(key, key);
            strides.add(1);
        }
        session.settle();
    }

    fn worker(&self) -> Box<dyn Worker + '_> {
        Box::new(Running::on(self.engine.session()))
    }

    fn visits(&self) -> Option<(u64, u64)> {
        self.engine.visits()
    }

    fn index_bytes(&self) -> Option<u64> {
        self.engine.index_bytes()
    }
}
