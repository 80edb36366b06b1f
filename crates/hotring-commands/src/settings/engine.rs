//! Converts the settings of the index and its engine to the index's own types, and refuses settings that exclude each
//! other. Errors use the names of the settings.

use std::fmt;
use std::str::FromStr;

use hotring_engines::{Atomicity, EngineChoice, Expander, GCuckooConfig, MercuryConfig};
use hotring_store::index::{Config as IndexConfig, Growth, RcuCounts, Strategy};

/// The settings of the index, with the values of the table of settings.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexSettings {
    /// The engine.
    pub engine: Engine,
    /// The strategy by which HotRing finds hot items.
    pub strategy: IndexStrategy,
    /// R: one access in this many may move a hint of HotRing; 0 for the strategy's default.
    pub period: u32,
    /// Whether sampling begins fewer rounds where rounds bring no improvement.
    pub backoff: bool,
    /// The item for which sampling counts a write that replaces an item.
    pub rcu_counts: IndexRcuCounts,
    /// The number of items visited per lookup above which HotRing's table grows; 0 for the default for its slots.
    pub visits_max: f64,
    /// The number of items per slot below which the table never grows; 0 for the default.
    pub items_min: f64,
    /// The number of items per slot above which the table always grows; 0 for the default.
    pub items_max: f64,
    /// The bytes of table per key below which the table grows; 0 for the engine's default.
    pub bytes_per_key: u32,
    /// The kind of Mercury's locks.
    pub mercury_locking: MercuryLocking,
    /// The number of slots in a bucket of G-Cuckoo: 1 or 4.
    pub gcuckoo_slots: u32,
    /// The method by which G-Cuckoo isolates concurrent operations.
    pub gcuckoo_atomicity: GCuckooAtomicity,
    /// The number of entries in each thread's cache of recent items, with G-Cuckoo; 0 for none.
    pub gcuckoo_cache: usize,
}

impl Default for IndexSettings {
    fn default() -> Self {
        Self {
            engine: Engine::HotRing,
            strategy: IndexStrategy::Auto,
            period: 0,
            backoff: false,
            rcu_counts: IndexRcuCounts::Item,
            visits_max: 0.0,
            items_min: 0.0,
            items_max: 0.0,
            bytes_per_key: 0,
            mercury_locking: MercuryLocking::TestAndSet,
            gcuckoo_slots: 4,
            gcuckoo_atomicity: GCuckooAtomicity::Optimistic,
            gcuckoo_cache: 0,
        }
    }
}

/// Defines an enum whose values have names in settings.
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
        Lines = "lines",
    }
}

named! {
    /// The strategy by which HotRing finds hot items; `Auto` is the only value for other engines.
    IndexStrategy {
        Auto = "auto",
        Vote = "vote",
        Random = "random",
        Sampling = "sampling",
        None = "none",
    }
}

named! {
    /// The item for which HotRing counts a write that replaces an item.
    IndexRcuCounts {
        Item = "item",
        Predecessor = "predecessor",
    }
}

named! {
    /// The kind of Mercury's locks.
    MercuryLocking {
        TestAndSet = "test-and-set",
        Mutex = "mutex",
        None = "none",
    }
}

named! {
    /// The method by which G-Cuckoo isolates concurrent operations.
    GCuckooAtomicity {
        Optimistic = "optimistic",
        Lock = "lock",
        Hle = "hle",
        Rtm = "rtm",
    }
}

impl IndexSettings {
    /// The engine and the configuration of the index; an error if settings exclude each other.
    pub fn resolve(&self) -> Result<(EngineChoice, IndexConfig), String> {
        self.refuse_strangers()?;
        let mut config = IndexConfig::default();
        if self.bytes_per_key > 0 {
            config.growth = Some(Growth::BytesPerKey(f64::from(self.bytes_per_key)));
        }
        let choice = match self.engine {
            Engine::HotRing => self.hotring(&mut config)?,
            Engine::Chaining => EngineChoice::Chaining,
            Engine::Mercury => {
                config.engine = MercuryConfig { expander: Expander::Thread }.into();
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
                let atomicity = match self.gcuckoo_atomicity {
                    GCuckooAtomicity::Optimistic => Atomicity::Optimistic,
                    GCuckooAtomicity::Lock => Atomicity::Lock,
                    GCuckooAtomicity::Hle => Atomicity::Hle,
                    GCuckooAtomicity::Rtm => Atomicity::Rtm,
                };
                let cache_entries = self.gcuckoo_cache;
                let settings = GCuckooConfig { atomicity, cache_entries, ..Default::default() };
                config.engine = settings.into();
                match self.gcuckoo_slots {
                    1 => EngineChoice::GCuckooOneSlot,
                    _ => EngineChoice::GCuckoo,
                }
            }
            // The parser refuses this engine on processors that cannot run it.
            Engine::Lines => self.engine.to_string().parse()?,
        };
        Ok((choice, config))
    }

    fn hotring(&self, config: &mut IndexConfig) -> Result<EngineChoice, String> {
        let (choice, hints, strategy) = match self.strategy {
            IndexStrategy::Auto | IndexStrategy::Vote => (EngineChoice::HotRing, 7, Strategy::Vote),
            IndexStrategy::None => (EngineChoice::HotRing, 7, Strategy::None),
            IndexStrategy::Random => (EngineChoice::HotRingOneHead, 1, Strategy::Random),
            IndexStrategy::Sampling => (EngineChoice::HotRingOneHead, 1, Strategy::Sampling),
        };
        let is_predecessor = self.rcu_counts == IndexRcuCounts::Predecessor;
        for (name, is_set) in
            [("index-backoff", self.backoff), ("index-rcu-counts", is_predecessor)]
        {
            if is_set && strategy != Strategy::Sampling {
                return Err(format!("{name} is for index-strategy sampling alone: leave it out"));
            }
        }
        config.strategy = strategy;
        config.period = (self.period > 0).then_some(self.period);
        config.backoff = self.backoff;
        if is_predecessor {
            config.rcu_counts = RcuCounts::Predecessor;
        }
        self.thresholds(hints, &mut config.growth)?;
        Ok(choice)
    }

    /// Sets the thresholds at which HotRing's table doubles, if any of the settings is given.
    fn thresholds(&self, hints: usize, growth: &mut Option<Growth>) -> Result<(), String> {
        let set = [self.visits_max, self.items_min, self.items_max];
        if set == [0.0; 3] {
            return Ok(());
        }
        if growth.is_some() {
            return Err("index-bytes-per-key alone says when the table doubles: leave it out, or \
                        index-visits-max, index-items-min and index-items-max"
                .to_string());
        }
        let mut suited = Growth::suited(hints);
        let Growth::Auto { visits_max, items_min, items_max, items_low } = &mut suited else {
            return Ok(());
        };
        for (value, set) in
            [&mut *visits_max, &mut *items_min, &mut *items_max].into_iter().zip(set)
        {
            *value = if set == 0.0 { *value } else { set };
        }
        if items_min > items_max {
            return Err(format!(
                "index-items-min is {items_min} and must be at most index-items-max, which is {items_max}"
            ));
        }
        *items_low = *items_min / 4.0;
        *growth = Some(suited);
        Ok(())
    }

    /// Refuses settings of engines other than the chosen one.
    fn refuse_strangers(&self) -> Result<(), String> {
        let default = IndexSettings::default();
        let set = [
            ("index-strategy", self.strategy != default.strategy, &[Engine::HotRing][..]),
            ("index-period", self.period != default.period, &[Engine::HotRing]),
            ("index-backoff", self.backoff != default.backoff, &[Engine::HotRing]),
            ("index-rcu-counts", self.rcu_counts != default.rcu_counts, &[Engine::HotRing]),
            ("index-visits-max", self.visits_max != default.visits_max, &[Engine::HotRing]),
            ("index-items-min", self.items_min != default.items_min, &[Engine::HotRing]),
            ("index-items-max", self.items_max != default.items_max, &[Engine::HotRing]),
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
    fn settings_of_another_engine_are_refused_by_name() {
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

    /// The paper's mode could not be had in a server: its R, its counting of writes and its trigger were settings of
    /// the library alone.
    #[test]
    fn the_papers_mode_can_be_set() {
        let paper = IndexSettings {
            strategy: IndexStrategy::Sampling,
            period: 5,
            rcu_counts: IndexRcuCounts::Predecessor,
            visits_max: 2.0,
            items_max: 9.0,
            ..Default::default()
        };
        let (choice, config) = paper.resolve().unwrap();
        let growth =
            Growth::Auto { visits_max: 2.0, items_min: 2.0, items_max: 9.0, items_low: 0.5 };
        assert_eq!((choice, config.period), (EngineChoice::HotRingOneHead, Some(5)));
        assert_eq!((config.rcu_counts, config.growth), (RcuCounts::Predecessor, Some(growth)));
        let (_, config) = IndexSettings::default().resolve().unwrap();
        assert_eq!((config.period, config.growth), (None, None));
        let (_, config) = IndexSettings { backoff: true, ..paper.clone() }.resolve().unwrap();
        assert!(config.backoff);
        let refused = |settings: IndexSettings| settings.resolve().map(|_| ()).unwrap_err();
        let vote = IndexSettings { strategy: IndexStrategy::Vote, ..paper.clone() };
        assert!(refused(vote).starts_with("index-rcu-counts is for index-strategy sampling"));
        let random = IndexSettings {
            strategy: IndexStrategy::Random,
            rcu_counts: IndexRcuCounts::Item,
            backoff: true,
            ..paper.clone()
        };
        assert!(refused(random).starts_with("index-backoff is for index-strategy sampling"));
        let crossed = IndexSettings { items_min: 10.0, ..paper.clone() };
        assert!(refused(crossed).contains("at most index-items-max, which is 9"));
        let both = IndexSettings { bytes_per_key: 8, ..paper.clone() };
        assert!(refused(both).starts_with("index-bytes-per-key alone"));
        let mercury = IndexSettings { engine: Engine::Mercury, period: 5, ..Default::default() };
        assert!(refused(mercury).starts_with("index-period is not for the index mercury"));
    }

    #[test]
    fn names_are_read_back() {
        for name in ["hotring", "chaining", "mercury", "gcuckoo", "lines"] {
            assert_eq!(Engine::from_str(name).unwrap().to_string(), name);
        }
        assert_eq!(
            Engine::from_str("btree"),
            Err("must be one of hotring, chaining, mercury, gcuckoo, lines".to_string())
        );
    }
}
