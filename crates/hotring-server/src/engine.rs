//! Which engine the index has, and with what settings: from names and numbers to the index's own
//! types. What does not go together is refused here, in the words of the settings.

use std::fmt;
use std::str::FromStr;

use hotring_store::index::{
    Atomicity, Config as IndexConfig, EngineChoice, Expander, Growth, Strategy,
};

/// The settings that decide about the index, each as the table of settings has it.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexSettings {
    /// The engine.
    pub engine: Engine,
    /// How HotRing finds hot items.
    pub strategy: IndexStrategy,
    /// Bytes of table a key below which the table grows; 0 for what suits the engine.
    pub bytes_per_key: u32,
    /// What Mercury's locks are.
    pub mercury_locking: MercuryLocking,
    /// Slots in a bucket of G-Cuckoo: 1 or 4.
    pub gcuckoo_slots: u32,
    /// How G-Cuckoo keeps operations apart.
    pub gcuckoo_atomicity: GCuckooAtomicity,
    /// Entries of each thread's cache of recent items, with G-Cuckoo; 0 for none.
    pub gcuckoo_cache: usize,
}

impl Default for IndexSettings {
    fn default() -> Self {
        Self {
            engine: Engine::HotRing,
            strategy: IndexStrategy::Auto,
            bytes_per_key: 0,
            mercury_locking: MercuryLocking::TestAndSet,
            gcuckoo_slots: 4,
            gcuckoo_atomicity: GCuckooAtomicity::Optimistic,
            gcuckoo_cache: 0,
        }
    }
}

/// An enum whose values have names in settings.
macro_rules! named {
    ($(#[$doc:meta])* $name:ident { $($(#[$value_doc:meta])* $value:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs)]
        pub enum $name {
            $($(#[$value_doc])* $value,)+
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $(Self::$value => $text,)+
                })
            }
        }

        impl FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                match text.to_ascii_lowercase().as_str() {
                    $($text => Ok(Self::$value),)+
                    _ => Err(format!("must be one of {}", [$($text),+].join(", "))),
                }
            }
        }
    };
}

named! {
    /// The engines.
    Engine {
        HotRing = "hotring",
        Chaining = "chaining",
        Mercury = "mercury",
        GCuckoo = "gcuckoo",
    }
}

named! {
    /// How HotRing finds hot items; `Auto` is for engines that have no choice.
    IndexStrategy {
        Auto = "auto",
        Vote = "vote",
        Random = "random",
        Sampling = "sampling",
        None = "none",
    }
}

named! {
    /// What Mercury's locks are.
    MercuryLocking {
        TestAndSet = "test-and-set",
        Mutex = "mutex",
        None = "none",
    }
}

named! {
    /// How G-Cuckoo keeps operations apart.
    GCuckooAtomicity {
        Optimistic = "optimistic",
        Lock = "lock",
        Hle = "hle",
        Rtm = "rtm",
    }
}

impl IndexSettings {
    /// The engine and the index's settings.
    pub(crate) fn resolve(&self) -> Result<(EngineChoice, IndexConfig), String> {
        self.refuse_strangers()?;
        let mut config = IndexConfig::default();
        if self.bytes_per_key > 0 {
            config.growth = Some(Growth::BytesPerKey(f64::from(self.bytes_per_key)));
        }
        let choice = match self.engine {
            Engine::HotRing => self.hotring(&mut config),
            Engine::Chaining => EngineChoice::Chaining,
            Engine::Mercury => {
                config.mercury.expander = Expander::Thread;
                match self.mercury_locking {
                    MercuryLocking::TestAndSet => EngineChoice::Mercury,
                    MercuryLocking::Mutex => EngineChoice::MercuryMutex,
                    MercuryLocking::None => {
                        return Err(
                            "mercury-locking none is for a single thread, and a server has \
                                    several: use test-and-set or mutex (`hotring-bench mercury` \
                                    measures what no locks would bring)"
                                .to_string(),
                        );
                    }
                }
            }
            Engine::GCuckoo => {
                config.gcuckoo.atomicity = match self.gcuckoo_atomicity {
                    GCuckooAtomicity::Optimistic => Atomicity::Optimistic,
                    GCuckooAtomicity::Lock => Atomicity::Lock,
                    GCuckooAtomicity::Hle => Atomicity::Hle,
                    GCuckooAtomicity::Rtm => Atomicity::Rtm,
                };
                config.gcuckoo.cache_entries = self.gcuckoo_cache;
                match self.gcuckoo_slots {
                    1 => EngineChoice::GCuckooOneSlot,
                    _ => EngineChoice::GCuckoo,
                }
            }
        };
        Ok((choice, config))
    }

    fn hotring(&self, config: &mut IndexConfig) -> EngineChoice {
        let (choice, strategy) = match self.strategy {
            IndexStrategy::Auto | IndexStrategy::Vote => (EngineChoice::HotRing, Strategy::Vote),
            IndexStrategy::None => (EngineChoice::HotRing, Strategy::None),
            IndexStrategy::Random => (EngineChoice::HotRingOneHead, Strategy::Random),
            IndexStrategy::Sampling => (EngineChoice::HotRingOneHead, Strategy::Sampling),
        };
        config.strategy = strategy;
        choice
    }

    /// Refuses settings of engines other than the chosen one.
    fn refuse_strangers(&self) -> Result<(), String> {
        let default = IndexSettings::default();
        let set = [
            ("index-strategy", self.strategy != default.strategy, &[Engine::HotRing][..]),
            (
                "index-bytes-per-key",
                self.bytes_per_key != default.bytes_per_key,
                &[Engine::HotRing, Engine::Chaining],
            ),
            (
                "mercury-locking",
                self.mercury_locking != default.mercury_locking,
                &[Engine::Mercury],
            ),
            ("gcuckoo-slots", self.gcuckoo_slots != default.gcuckoo_slots, &[Engine::GCuckoo]),
            (
                "gcuckoo-atomicity",
                self.gcuckoo_atomicity != default.gcuckoo_atomicity,
                &[Engine::GCuckoo],
            ),
            ("gcuckoo-cache", self.gcuckoo_cache != default.gcuckoo_cache, &[Engine::GCuckoo]),
        ];
        for (name, is_set, engines) in set {
            if is_set && !engines.contains(&self.engine) {
                let names: Vec<String> = engines.iter().map(Engine::to_string).collect();
                return Err(format!(
                    "{name} is not for the index {}: leave it out, or use --index {}",
                    self.engine,
                    names.join(" or --index ")
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_engine_has_is_refused_by_name() {
        let mercury = IndexSettings { engine: Engine::Mercury, ..Default::default() };
        assert!(mercury.resolve().is_ok());
        let sampling = IndexSettings { strategy: IndexStrategy::Sampling, ..mercury.clone() };
        assert_eq!(
            sampling.resolve().map(|_| ()),
            Err(
                "index-strategy is not for the index mercury: leave it out, or use --index hotring"
                    .to_string()
            )
        );
        let equal = IndexSettings { bytes_per_key: 8, ..mercury.clone() };
        assert!(equal.resolve().unwrap_err().ends_with("--index hotring or --index chaining"));
        let unlocked = IndexSettings { mercury_locking: MercuryLocking::None, ..mercury };
        assert!(unlocked.resolve().unwrap_err().contains("test-and-set"));
        let slots = IndexSettings { gcuckoo_slots: 1, ..Default::default() };
        assert!(slots.resolve().unwrap_err().ends_with("--index gcuckoo"));
    }

    #[test]
    fn strategies_that_move_one_head_get_one() {
        let with = |strategy| {
            let settings = IndexSettings { strategy, ..Default::default() };
            settings.resolve().map(|(choice, config)| (choice, config.strategy))
        };
        let one = EngineChoice::HotRingOneHead;
        assert_eq!(with(IndexStrategy::Sampling), Ok((one, Strategy::Sampling)));
        assert_eq!(with(IndexStrategy::Random), Ok((one, Strategy::Random)));
        assert_eq!(with(IndexStrategy::Auto), Ok((EngineChoice::HotRing, Strategy::Vote)));
    }

    #[test]
    fn names_are_read_back() {
        for name in ["hotring", "chaining", "mercury", "gcuckoo"] {
            assert_eq!(Engine::from_str(name).unwrap().to_string(), name);
        }
        assert_eq!(
            Engine::from_str("btree"),
            Err("must be one of hotring, chaining, mercury, gcuckoo".to_string())
        );
    }
}
