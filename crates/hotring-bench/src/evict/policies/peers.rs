//! Caches from crates.io by their public interfaces, with one shard each and the hasher of the other peers.

use foyer_memory::{Cache, CacheBuilder, CacheProperties, EvictionConfig};
use foyer_memory::{LfuConfig, LruConfig, S3FifoConfig};

use crate::evict::policy::{Policy, Setting};
use crate::targets::Fold;

struct Moka(moka::sync::Cache<u32, (), Fold>);

/// moka: W-TinyLFU.
pub fn moka(setting: &Setting) -> Box<dyn Policy> {
    let builder = moka::sync::Cache::builder().max_capacity(setting.items as u64);
    Box::new(Moka(builder.build_with_hasher(Fold::default())))
}

impl Policy for Moka {
    fn access(&mut self, key: u32) -> bool {
        let hit = self.0.get(&key).is_some();
        if !hit {
            self.0.insert(key, ());
            // Without this call the cache would exceed its capacity until its background work runs.
            self.0.run_pending_tasks();
        }
        hit
    }
}

type QuickMap = quick_cache::unsync::Cache<u32, (), quick_cache::UnitWeighter, Fold>;

struct Quick(QuickMap);

/// quick_cache: similar to CLOCK-Pro and S3-FIFO.
pub fn quick_cache(setting: &Setting) -> Box<dyn Policy> {
    let (items, weighter) = (setting.items, quick_cache::UnitWeighter);
    let lifecycle = quick_cache::unsync::DefaultLifecycle::default();
    Box::new(Quick(QuickMap::with(items, items as u64, weighter, Fold::default(), lifecycle)))
}

impl Policy for Quick {
    fn access(&mut self, key: u32) -> bool {
        let hit = self.0.get(&key).is_some();
        if !hit {
            self.0.insert(key, ());
        }
        hit
    }
}

struct Foyer(Cache<u32, (), Fold, CacheProperties>);

fn foyer(setting: &Setting, config: impl Into<EvictionConfig>) -> Box<dyn Policy> {
    let builder = CacheBuilder::new(setting.items).with_shards(1).with_eviction_config(config);
    Box::new(Foyer(builder.with_hash_builder(Fold::default()).build()))
}

/// foyer with its default settings.
pub fn foyer_lru(setting: &Setting) -> Box<dyn Policy> {
    foyer(setting, LruConfig::default())
}

/// foyer with W-TinyLFU.
pub fn foyer_lfu(setting: &Setting) -> Box<dyn Policy> {
    foyer(setting, LfuConfig::default())
}

/// foyer with S3-FIFO.
pub fn foyer_s3_fifo(setting: &Setting) -> Box<dyn Policy> {
    foyer(setting, S3FifoConfig::default())
}

impl Policy for Foyer {
    fn access(&mut self, key: u32) -> bool {
        let hit = self.0.get(&key).is_some();
        if !hit {
            self.0.insert(key, ());
        }
        hit
    }
}
