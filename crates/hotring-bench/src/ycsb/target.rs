//! What can be measured. A new peer implements [`Engine`] and [`Session`], in `peers.rs` or a file
//! of its own, and gets a name in `TargetName`.
//!
//! `Engine` is what a map looks like to a workload; the loops over it are generic, so that nothing
//! is called through a pointer while the clock runs. `Target` is the same behind one pointer, so
//! that a run can hold many and alternate between them.

use indicatif::ProgressBar;

use super::measure::Mode;
use super::stream::{Kind, Op};
use crate::report::Strides;
use crate::workload::random::mix;

/// A concurrent map from u64 to u64.
pub trait Engine: Send + Sync {
    /// One thread's access to it.
    type Session<'a>: Session
    where
        Self: 'a;

    /// Opens a session.
    fn session(&self) -> Self::Session<'_>;

    /// Lookups that were sampled, and the items that they visited, since the start.
    fn visits(&self) -> Option<(u64, u64)> {
        None
    }

    /// Bytes of the index alone, without items.
    fn index_bytes(&self) -> Option<u64> {
        None
    }
}

/// One thread's access to an engine.
pub trait Session {
    /// The value of a key.
    fn get(&mut self, key: u64) -> Option<u64>;
    /// Sets a key that may be there or not.
    fn put(&mut self, key: u64, value: u64);
    /// Removes a key.
    fn remove(&mut self, key: u64);

    /// Adds to the value of a present key.
    fn add(&mut self, key: u64, by: u64) {
        let old = self.get(key).unwrap_or_default();
        self.put(key, old.wrapping_add(by));
    }

    /// Looks up several keys: one after the other where the engine knows nothing better.
    fn get_many(&mut self, keys: &[u64], values: &mut [Option<u64>]) {
        for (key, value) in keys.iter().zip(values) {
            *value = self.get(*key);
        }
    }
}

/// What a stream of operations came to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Reads that found their key.
    pub found: u64,
    /// Reads that did not.
    pub missed: u64,
    /// Of the values read, so that no read can be optimised away.
    pub digest: u64,
}

impl Tally {
    fn read(&mut self, value: Option<u64>) {
        match value {
            Some(value) => {
                self.found += 1;
                self.digest ^= value;
            }
            None => self.missed += 1,
        }
    }
}

/// A named engine behind one pointer.
pub trait Target: Sync {
    /// As it appears in tables.
    fn name(&self) -> &str;
    /// Puts the keys `0..keys`.
    fn load(&self, keys: u64, bar: &ProgressBar);
    /// Runs a stream in the calling thread.
    fn run(&self, ops: &[Op], mode: Mode) -> Tally;
    /// Takes back what the stream inserted.
    fn undo(&self, ops: &[Op]);
    /// Lookups that were sampled, and the items that they visited, since the start.
    fn visits(&self) -> Option<(u64, u64)>;
    /// Bytes of the index alone, without items.
    fn index_bytes(&self) -> Option<u64>;
}

/// An engine with its name.
pub struct Named<E> {
    /// As it appears in tables.
    pub name: String,
    /// What is measured.
    pub engine: E,
}

impl<E: Engine> Target for Named<E> {
    fn name(&self) -> &str {
        &self.name
    }

    fn load(&self, keys: u64, bar: &ProgressBar) {
        let mut session = self.engine.session();
        let mut strides = Strides::on(bar);
        for key in 0..keys {
            session.put(key, key);
            strides.add(1);
        }
    }

    fn run(&self, ops: &[Op], mode: Mode) -> Tally {
        let mut session = self.engine.session();
        match mode {
            Mode::Scalar => scalar(&mut session, ops),
            Mode::Batched(batch) => batched(&mut session, ops, batch),
        }
    }

    fn undo(&self, ops: &[Op]) {
        let mut session = self.engine.session();
        for op in ops {
            if op.kind() == Kind::Insert {
                session.remove(op.key());
            }
        }
    }

    fn visits(&self) -> Option<(u64, u64)> {
        self.engine.visits()
    }

    fn index_bytes(&self) -> Option<u64> {
        self.engine.index_bytes()
    }
}

/// An engine whose keys are the workload's numbers, scattered over all of 64 bits.
pub struct Scattered<S> {
    inner: S,
    keys: Vec<u64>,
}

impl<E: Engine> Engine for Scattered<E> {
    type Session<'a>
        = Scattered<E::Session<'a>>
    where
        E: 'a;

    fn session(&self) -> Self::Session<'_> {
        Scattered::new(self.inner.session())
    }

    fn visits(&self) -> Option<(u64, u64)> {
        self.inner.visits()
    }

    fn index_bytes(&self) -> Option<u64> {
        self.inner.index_bytes()
    }
}

impl<S> Scattered<S> {
    /// Scatters the keys of an engine, or of a session of it.
    pub fn new(inner: S) -> Self {
        Self { inner, keys: Vec::new() }
    }
}

impl<S: Session> Session for Scattered<S> {
    fn get(&mut self, key: u64) -> Option<u64> {
        self.inner.get(mix(key))
    }

    fn put(&mut self, key: u64, value: u64) {
        self.inner.put(mix(key), value);
    }

    fn remove(&mut self, key: u64) {
        self.inner.remove(mix(key));
    }

    fn add(&mut self, key: u64, by: u64) {
        self.inner.add(mix(key), by);
    }

    fn get_many(&mut self, keys: &[u64], values: &mut [Option<u64>]) {
        self.keys.clear();
        self.keys.extend(keys.iter().map(|&key| mix(key)));
        self.inner.get_many(&self.keys, values);
    }
}

fn scalar(session: &mut impl Session, ops: &[Op]) -> Tally {
    let mut tally = Tally::default();
    for op in ops {
        match op.kind() {
            Kind::Read => tally.read(session.get(op.key())),
            _ => write(session, *op),
        }
    }
    tally
}

fn write(session: &mut impl Session, op: Op) {
    match op.kind() {
        Kind::Modify => session.add(op.key(), 1),
        _ => session.put(op.key(), op.key()),
    }
}

/// Reads of a window are looked up together, after its writes: that is what a server does with a
/// pipeline of independent requests.
fn batched(session: &mut impl Session, ops: &[Op], batch: usize) -> Tally {
    let mut tally = Tally::default();
    let mut keys = Vec::with_capacity(batch);
    let mut values = vec![None; batch];
    for window in ops.chunks(batch) {
        keys.clear();
        for op in window {
            match op.kind() {
                Kind::Read => keys.push(op.key()),
                _ => write(session, *op),
            }
        }
        session.get_many(&keys, &mut values[..keys.len()]);
        values[..keys.len()].iter().for_each(|&value| tally.read(value));
    }
    tally
}
