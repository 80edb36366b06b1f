//! The index under measurement.

use anyhow::{Result, bail};
use hotring_index::{Config, HotRing, Ring, U64};

use super::target::{Engine, Named, Session, Target};

/// The index with this many hints a slot. The settings may be refused.
pub fn target(hints: usize, config: Config) -> Result<Box<dyn Target>> {
    Ok(match hints {
        1 => Box::new(named::<1>(config)?),
        3 => Box::new(named::<3>(config)?),
        7 => Box::new(named::<7>(config)?),
        _ => bail!("--hints is 1, 3 or 7"),
    })
}

fn named<const H: usize>(config: Config) -> Result<Named<HotRing<U64, H>>> {
    let name = format!("hotring {:?} {H}", config.strategy).to_lowercase();
    Ok(Named { name, engine: HotRing::<U64, H>::new(config)? })
}

impl<const H: usize> Engine for HotRing<U64, H> {
    type Session<'a> = hotring_index::Session<U64, Ring<H>>;

    fn session(&self) -> Self::Session<'_> {
        HotRing::session(self)
    }

    fn visits(&self) -> Option<(u64, u64)> {
        let stats = self.stats();
        Some((stats.lookups_sampled, stats.visits_sampled))
    }
}

impl<const H: usize> Session for hotring_index::Session<U64, Ring<H>> {
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
