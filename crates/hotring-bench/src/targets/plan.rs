//! The names of targets, and how each is built.

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use hotring_engines::{Chaining, GCuckoo, Mercury, OsMutex, TestAndSet};
use hotring_index::{Bytes, Config, Growth, Index, Ring, U64};
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use hotring_index::{ItemLines, Lines, LinesConfig};

use super::bytes::Written;
use super::oracle::Oracle;
#[cfg(feature = "peers")]
use super::peers::{Dashmap, Fold, Masstree, MasstreeOfText, Papaya, Scc, Text};
use super::{BytesEngine, Engine, Named, Shape, Target};
use crate::workload::operations::Keys;

/// The targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TargetName {
    /// The ring, with any strategy and number of hints
    Hotring,
    /// Lines, on x86-64 and aarch64: words in the table itself, or tagged items
    Lines,
    /// Lock-free chains, the baseline of HotRing's paper
    Chaining,
    /// Mercury with test-and-set locks
    Mercury,
    /// Mercury with mutexes of the operating system
    MercuryMutex,
    /// G-Cuckoo with four slots per bucket
    Gcuckoo,
    /// G-Cuckoo with one slot per bucket, as in its paper
    GcuckooOneSlot,
    /// papaya's lock-free map (with the feature "peers")
    Papaya,
    /// dashmap: shards behind locks (with the feature "peers")
    Dashmap,
    /// scc's HashMap: buckets behind locks (with the feature "peers")
    Scc,
    /// Masstree, from the crate of that name (with the feature "peers")
    Masstree,
    /// libcuckoo's cuckoohash_map (with the feature "cpp-peers")
    Libcuckoo,
    /// oneTBB's concurrent_hash_map (with the feature "cpp-peers")
    Tbb,
    /// A plain array indexed by the key: the physical limit, not an index
    Oracle,
}

impl TargetName {
    /// Whether the ring is compared with the target: any but the ring itself and the oracle.
    pub fn is_peer(self) -> bool {
        !matches!(self, TargetName::Hotring | TargetName::Oracle)
    }
}

/// The settings for building a target. Settings of another engine are refused when it is built.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The target to build.
    pub target: TargetName,
    /// The name in tables, if it differs from the target's.
    pub label: Option<String>,
    /// Hints per slot of the ring: 1, 3 or 7.
    pub hints: usize,
    /// The settings of our engines.
    pub config: Config,
    /// The sizes of keys and values.
    pub shape: Shape,
    /// The form of the keys. The oracle always has dense ones.
    pub keys: Keys,
    /// Upper bound of the key numbers: the number of the oracle's cells.
    pub numbers: u64,
}

impl Plan {
    /// The target with default settings, for keys numbered below `numbers`.
    pub fn new(target: TargetName, numbers: u64) -> Self {
        Plan {
            target,
            label: None,
            hints: 7,
            config: Config::default(),
            shape: Shape::WORDS,
            keys: Keys::Dense,
            numbers,
        }
    }

    /// Sets the table to at least this number of bytes per key, and less than twice that. All targets with the
    /// same number get tables of the same size. For the ring and for chains.
    pub fn with_index_bytes(mut self, bytes_per_key: f64) -> Self {
        self.config.growth = Some(Growth::BytesPerKey(bytes_per_key));
        self.config.slots_initial = BYTES_INITIAL / self.slot_bytes();
        self
    }

    /// Sets the table to a fixed size, with at least one slot (or bucket) for every `items` keys.
    pub fn with_items_per_slot(mut self, keys: u64, items: f64) -> Self {
        self.config.growth = Some(Growth::Fixed);
        self.config.slots_initial = (keys as f64 / items).ceil() as usize;
        self
    }

    /// Sets the table to the fixed size, in bytes, that chains take with `per_bucket` keys per bucket. For the
    /// ring and for chains; exact where `keys` is a power of two times `per_bucket`.
    pub fn with_keys_per_bucket(self, keys: u64, per_bucket: f64) -> Self {
        let words = (self.slot_bytes() / 8) as f64;
        self.with_items_per_slot(keys, per_bucket * words)
    }

    /// The name in tables.
    pub fn name(&self) -> String {
        let kind = self.target.to_possible_value().expect("no variant is skipped");
        match (&self.label, self.target) {
            (Some(label), _) => label.clone(),
            (None, TargetName::Hotring) => {
                format!("hotring {:?} {}", self.config.strategy, self.hints).to_lowercase()
            }
            _ => kind.get_name().to_owned(),
        }
    }

    /// Builds the empty target. Gives an error for settings that the target does not support.
    pub fn build(&self) -> Result<Box<dyn Target>> {
        let Shape { key_bytes, value_bytes } = self.shape;
        ensure!(key_bytes > 0 && value_bytes > 0, "keys and values have at least one byte");
        let tells = self.shape.keys_max();
        let dense = self.keys == Keys::Dense || tells == u64::MAX;
        ensure!(dense, "scattered keys have 8 bytes or more");
        ensure!(
            self.numbers <= tells,
            "keys of {key_bytes} bytes can be told apart up to {tells}, not {}: make them longer",
            self.numbers
        );
        match self.target {
            TargetName::Hotring => match self.hints {
                1 => self.ours::<Ring<1>>(),
                3 => self.ours::<Ring<3>>(),
                7 => self.ours::<Ring<7>>(),
                hints => bail!("a slot has 1, 3 or 7 hints, not {hints}"),
            },
            TargetName::Lines => self.lines(),
            TargetName::Chaining => self.ours::<Chaining>(),
            TargetName::Mercury => self.ours::<Mercury<TestAndSet>>(),
            TargetName::MercuryMutex => self.ours::<Mercury<OsMutex>>(),
            TargetName::Gcuckoo => self.ours::<GCuckoo<4>>(),
            TargetName::GcuckooOneSlot => self.ours::<GCuckoo<1>>(),
            TargetName::Papaya | TargetName::Dashmap | TargetName::Scc | TargetName::Masstree => {
                self.peer()
            }
            TargetName::Libcuckoo | TargetName::Tbb => self.cpp_peer(),
            TargetName::Oracle => self.oracle(),
        }
        .with_context(|| format!("cannot build {}", self.name()))
    }

    fn ours<E: hotring_index::Engine>(&self) -> Result<Box<dyn Target>> {
        Ok(if self.shape == Shape::WORDS {
            self.words(Index::<U64, E>::new(self.config.clone())?)
        } else {
            self.bytes(Index::<Bytes, E>::new(self.config.clone())?)
        })
    }

    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    fn lines(&self) -> Result<Box<dyn Target>> {
        if self.shape != Shape::WORDS {
            return self.ours::<ItemLines>();
        }
        let Config { seed, huge_pages, .. } = self.config;
        let capacity = match self.config.growth {
            None => 0,
            Some(Growth::Fixed) => self.numbers,
            Some(_) => bail!("lines grow by their load"),
        };
        let config = LinesConfig { seed, capacity, huge_pages, ..LinesConfig::default() };
        Ok(self.words(Lines::new(config)?))
    }

    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    fn lines(&self) -> Result<Box<dyn Target>> {
        bail!("lines need x86-64 or aarch64")
    }

    #[cfg(feature = "peers")]
    fn peer(&self) -> Result<Box<dyn Target>> {
        let by = Fold::default();
        let is_words = self.shape == Shape::WORDS;
        Ok(match self.target {
            TargetName::Papaya if is_words => self.words(Papaya::<u64, u64>::with_hasher(by)),
            TargetName::Papaya => self.bytes(Papaya::<Text, Text>::with_hasher(by)),
            TargetName::Dashmap if is_words => self.words(Dashmap::<u64, u64>::with_hasher(by)),
            TargetName::Dashmap => self.bytes(Dashmap::<Text, Text>::with_hasher(by)),
            TargetName::Masstree if is_words => self.words(Masstree::new()),
            TargetName::Masstree => {
                let longest = masstree::MAX_KEY_LENGTH;
                ensure!(self.shape.key_bytes <= longest, "keys of at most {longest} bytes");
                self.bytes(MasstreeOfText::new())
            }
            _ if is_words => self.words(Scc::<u64, u64>::with_hasher(by)),
            _ => self.bytes(Scc::<Text, Text>::with_hasher(by)),
        })
    }

    #[cfg(not(feature = "peers"))]
    fn peer(&self) -> Result<Box<dyn Target>> {
        bail!("it is not built in: build with --features peers")
    }

    #[cfg(feature = "cpp-peers")]
    fn cpp_peer(&self) -> Result<Box<dyn Target>> {
        use super::cpp;
        let library = match self.target {
            TargetName::Libcuckoo => hotring_cpp_peers::Library::Libcuckoo,
            _ => hotring_cpp_peers::Library::Tbb,
        };
        Ok(if self.shape == Shape::WORDS {
            self.words(cpp::words(library)?)
        } else {
            self.bytes(cpp::strings(library)?)
        })
    }

    #[cfg(not(feature = "cpp-peers"))]
    fn cpp_peer(&self) -> Result<Box<dyn Target>> {
        bail!("it is not built in: build with --features cpp-peers")
    }

    fn oracle(&self) -> Result<Box<dyn Target>> {
        ensure!(
            self.shape == Shape::WORDS,
            "the direct array holds a word a key: values of 8 bytes"
        );
        let engine = Oracle::new(self.numbers)?;
        Ok(Box::new(Named { name: self.name(), keys: Keys::Dense, engine }))
    }

    fn words(&self, engine: impl Engine + 'static) -> Box<dyn Target> {
        Box::new(Named { name: self.name(), keys: self.keys, engine })
    }

    fn bytes(&self, engine: impl BytesEngine + 'static) -> Box<dyn Target> {
        self.words(Written::new(engine, self.shape))
    }

    /// Bytes of one slot (or bucket) of the table.
    pub fn slot_bytes(&self) -> usize {
        match self.target {
            TargetName::Hotring => 8 * (self.hints + 1),
            _ => 8,
        }
    }

    /// An upper bound of the memory per key while the table grows, rounded up from measurements. Decides whether
    /// memory suffices.
    pub fn bytes_per_key(&self) -> f64 {
        let table = match (self.target, self.config.growth) {
            (TargetName::Oracle, _) => return 16.0,
            // Includes the rest of the old table while the table doubles.
            (TargetName::Lines, _) => 72.0,
            (_, Some(Growth::BytesPerKey(bytes))) => 2.0 * bytes,
            (_, Some(Growth::Fixed)) => {
                let slots = self.config.slots_initial.next_power_of_two();
                (slots * self.slot_bytes()) as f64 / self.numbers as f64
            }
            (TargetName::Hotring, _) | (TargetName::Chaining | TargetName::Mercury, _) => 16.0,
            (TargetName::MercuryMutex, _) => 32.0,
            (TargetName::Gcuckoo | TargetName::GcuckooOneSlot, _) => 24.0,
            (TargetName::Scc, _) => 40.0,
            (TargetName::Papaya, _) => 56.0,
            (TargetName::Masstree, _) => 96.0,
            (TargetName::Dashmap | TargetName::Libcuckoo, _) => 24.0,
            (TargetName::Tbb, _) => 48.0,
        };
        let beyond_words = (self.shape.key_bytes + self.shape.value_bytes).saturating_sub(16);
        let item = match (self.target, self.shape == Shape::WORDS) {
            // Words are in the table itself.
            (TargetName::Lines, true) => 0,
            (_, true) => 24,
            // Another header, and rounding; in peers, two allocations.
            (_, false) => 24 + 64 + beyond_words,
        };
        table + item as f64
    }
}

/// The size of each table at the start in bytes, where all tables must have the same.
const BYTES_INITIAL: usize = 64 << 10;
