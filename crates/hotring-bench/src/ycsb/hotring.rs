//! The engines of hotring-index under measurement.

use anyhow::{Result, bail};
use hotring_index::{Config, Index, Ring, U64};

use super::target::{Engine, Named, Scattered, Session, Target};

/// Which keys the numbers of a workload are.
#[derive(Clone, Copy, Debug)]
pub enum Keys {
    /// The numbers themselves.
    Dense,
    /// As if drawn at random from all of 64 bits.
    Scattered,
}

/// An index with this engine. The settings may be refused.
pub fn target<E: hotring_index::Engine>(
    name: &str,
    config: Config,
    keys: Keys,
) -> Result<Box<dyn Target>> {
    let (name, engine) = (name.into(), Index::<U64, E>::new(config)?);
    Ok(match keys {
        Keys::Dense => Box::new(Named { name, engine }),
        Keys::Scattered => Box::new(Named { name, engine: Scattered::new(engine) }),
    })
}

/// HotRing with this many hints a slot.
pub fn rings(hints: usize, config: Config, keys: Keys) -> Result<Box<dyn Target>> {
    let name = format!("hotring {:?} {hints}", config.strategy).to_lowercase();
    match hints {
        1 => target::<Ring<1>>(&name, config, keys),
        3 => target::<Ring<3>>(&name, config, keys),
        7 => target::<Ring<7>>(&name, config, keys),
        _ => bail!("--hints is 1, 3 or 7"),
    }
}

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

impl<E: hotring_index::Engine> Session for hotring_index::Session<U64, E> {
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

    fn get_many(&mut self, keys: &[u64], values: &mut [Option<u64>]) {
        Self::get_many(self, keys, values);
    }
}
