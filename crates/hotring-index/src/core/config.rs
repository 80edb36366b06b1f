//! The settings of an index. Each default is safe and fast.

use std::any::Any;
use std::fmt;
use std::io;
use std::sync::Arc;

/// The method of detecting hot items (FAST'20 section 3.2, and an extension).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Strategy {
    /// Heads never move. For measuring the value of hotness.
    None,
    /// HotRing-r: each R-th access moves the head to its item. One hint per slot.
    Random,
    /// HotRing-s: an R-th access to a cold item starts counting; the head then moves to the item from which
    /// the counted accesses would have cost least. One hint per slot.
    Sampling,
    /// A majority vote in the hint words themselves; any number of hints.
    #[default]
    Vote,
}

/// The item for which a read-copy-update write counts as an access (FAST'20 section 3.2.2, Fig. 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum RcuCounts {
    /// The written item. In this crate a write to a hinted item does not need the item's predecessor.
    #[default]
    Item,
    /// The predecessor of the written item, as in the paper.
    Predecessor,
}

/// The rule by which the table doubles and halves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Growth {
    /// The table never changes its size.
    Fixed,
    /// The table doubles when lookups visit more than `visits_max` items on average and a slot has at least
    /// `items_min` items on average, and always when a slot has more than `items_max` items on average.
    Auto {
        /// Items visited per lookup; 1 is the best possible.
        visits_max: f64,
        /// Items per slot below which the table never grows.
        items_min: f64,
        /// Items per slot above which the table always grows.
        items_max: f64,
        /// Items per slot below which the table shrinks, down to its initial size. Must be well below half of
        /// `items_min`, or the table grows and shrinks in turn. 0: the table never shrinks.
        items_low: f64,
    },
    /// The table doubles when it has fewer than this many bytes per item. Two engines with the same setting
    /// have tables of equal size at any number of items (if they started with the same size), which allows
    /// comparisons at equal index memory (FAST'20 section 4.1). The table does not shrink. For HotRing and
    /// Chaining Hash.
    BytesPerKey(f64),
}

impl Growth {
    /// The default of HotRing for this number of hints per slot: a [`Growth::Auto`].
    pub fn suited(hints: usize) -> Self {
        if hints == 1 {
            return Self::Auto { visits_max: 1.5, items_min: 2.0, items_max: 4.0, items_low: 0.5 };
        }
        // One full line of hints, so that most items of an arc have a hint.
        let items_max = (hints + 1) as f64;
        let items_min = items_max * 0.75;
        Self::Auto { visits_max: 1.5, items_min, items_max, items_low: items_min / 4.0 }
    }
}

/// The detection of memory corruption in items (RHKV section 4.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Checksum {
    /// Nothing: items have no checksum.
    #[default]
    Off,
    /// Every item has a CRC32C of key, value and version (8 more bytes), and values are not changed in
    /// place. [`Session::scrub_step`](crate::Session::scrub_step) checks the items.
    Write,
    /// As `Write`, and each read checks the item before returning it.
    Verify,
}

impl Checksum {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Off, Self::Write, Self::Verify];

    /// The name in settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Write => "write",
            Self::Verify => "verify",
        }
    }
}

/// The settings of an index.
#[derive(Clone, Debug)]
pub struct Config {
    /// Seed of the hash and of the sessions' random numbers. Must be random if keys come from untrusted
    /// clients.
    pub seed: [u64; 2],
    /// The method of detecting hot items.
    pub strategy: Strategy,
    /// R: one access in R (on average) may move a head. `None` picks the default of the strategy: 5, as in the
    /// paper, or 32 for [`Strategy::Vote`], whose lines are full of hints from the start. Votes raise R up to
    /// eightfold while nothing changes.
    pub period: Option<u32>,
    /// Whether [`Strategy::Sampling`] samples less often while sampling changes nothing.
    pub backoff: bool,
    /// The item for which a read-copy-update write counts, with [`Strategy::Sampling`].
    pub rcu_counts: RcuCounts,
    /// The growth rule. `None` picks the default of the engine: 6 to 8 items per slot with several hints, 2 to 4
    /// with one hint, and 8 bytes of table per key for chains.
    pub growth: Option<Growth>,
    /// Slots at the start, rounded up to a power of two.
    pub slots_initial: usize,
    /// Maximum number of slots, rounded up to a power of two. Address space is reserved for all of them, memory
    /// is used only for the slots in use. If the system refuses, fewer slots are reserved.
    pub slots_max: usize,
    /// Ask the system for huge pages (2 MiB) for the table and the items.
    pub huge_pages: bool,
    /// Let a line that hints all its items answer a miss without reading any of them. `None`: enabled if
    /// possible, that is, with [`Strategy::Vote`] and more than one hint per slot.
    pub complete_lines: Option<bool>,
    /// The number of lookups that a batch keeps in flight, 1 to 64.
    pub pipeline_depth: usize,
    /// Bytes of removed items that may wait for a session that stays pinned, before
    /// [`Session::admit`](crate::Session::admit) refuses; `u64::MAX` for no limit. Should be several times the
    /// largest item plus 1 MiB per session; a smaller limit refuses writes without need.
    pub limbo_max: u64,
    /// Checksums of items. For [`Bytes`](crate::Bytes) alone.
    pub checksum: Checksum,
    /// Settings of a single engine other than HotRing, whose settings are above.
    pub engine: EngineConfig,
    /// The wrong variant that a checker asks for.
    #[cfg(any(loom, shuttle))]
    #[doc(hidden)]
    pub fault: crate::core::faults::Fault,
    /// The rule by which memory becomes free, for a checker.
    #[cfg(any(loom, shuttle))]
    #[doc(hidden)]
    pub reclaim: crate::core::faults::Reclaim,
}

/// Slots reserved by default: 64 GiB of addresses, which become memory only as they are used.
const SLOTS_MAX_DEFAULT: usize = 1 << 30;

impl Default for Config {
    fn default() -> Self {
        Self {
            seed: [0x9e37_79b9_7f4a_7c15, 0xd1b5_4a32_d192_ed03],
            strategy: Strategy::default(),
            period: None,
            backoff: false,
            rcu_counts: RcuCounts::default(),
            growth: None,
            slots_initial: 1 << 10,
            slots_max: SLOTS_MAX_DEFAULT,
            huge_pages: true,
            complete_lines: None,
            pipeline_depth: 64,
            limbo_max: crate::core::limbo::LIMBO_MAX_DEFAULT,
            checksum: Checksum::default(),
            engine: EngineConfig::default(),
            #[cfg(any(loom, shuttle))]
            fault: crate::core::faults::Fault::None,
            #[cfg(any(loom, shuttle))]
            reclaim: crate::core::faults::Reclaim::Epochs,
        }
    }
}

/// Hint counts that fill a slot of 16, 32 or 64 bytes together with the anchor.
#[cfg(not(any(loom, shuttle)))]
const HINTS_ALLOWED: [usize; 3] = [1, 3, 7];
/// Two hints make the checkers' state space smaller.
#[cfg(any(loom, shuttle))]
const HINTS_ALLOWED: [usize; 4] = [1, 2, 3, 7];

impl Config {
    /// Checks the settings of every engine, and refuses settings of another engine.
    pub(crate) fn check(&self, engine: &str) -> Result<(), ConfigError> {
        let refuse = |why: &'static str| Err(ConfigError::Unsupported(why));
        if engine != "hotring" && !self.has_default_hotspots() {
            return refuse(
                "only HotRing moves hot items to the front: leave strategy, period, backoff, \
                 rcu_counts and complete_lines at their defaults, or use the engine hotring",
            );
        }
        if self.slots_initial > self.slots_max || self.slots_max > 1 << 32 {
            return refuse("slots_initial is at most slots_max, and that at most 2^32");
        }
        if !(1..=64).contains(&self.pipeline_depth) {
            return refuse("the pipeline depth is 1 to 64");
        }
        Ok(())
    }

    fn has_default_hotspots(&self) -> bool {
        let default = Config::default();
        self.strategy == default.strategy
            && self.period == default.period
            && self.backoff == default.backoff
            && self.rcu_counts == default.rcu_counts
            && self.complete_lines != Some(true)
    }

    /// Checks the settings of HotRing.
    pub(crate) fn check_ring(&self, hints: usize) -> Result<(), ConfigError> {
        let refuse = |why: &'static str| Err(ConfigError::Unsupported(why));
        if !HINTS_ALLOWED.contains(&hints) {
            return refuse("a slot has 1, 3 or 7 hints");
        }
        let paper = matches!(self.strategy, Strategy::Random | Strategy::Sampling);
        if paper && hints != 1 {
            return refuse("the strategies Random and Sampling move one head: use one hint a slot");
        }
        if self.complete_lines == Some(true) && !self.can_complete(hints) {
            return refuse("complete lines need the strategy Vote and more than one hint a slot");
        }
        if self.rcu_counts == RcuCounts::Predecessor && self.strategy != Strategy::Sampling {
            return refuse("only the strategy Sampling counts a write for the predecessor");
        }
        if self.period == Some(0) {
            return refuse("the period R is at least 1");
        }
        Ok(())
    }

    fn can_complete(&self, hints: usize) -> bool {
        self.strategy == Strategy::Vote && hints > 1
    }

    /// Whether lines may become complete, see [`Config::complete_lines`].
    pub(crate) fn completes(&self, hints: usize) -> bool {
        self.complete_lines.unwrap_or(self.can_complete(hints))
    }

    /// R, see [`Config::period`].
    pub(crate) fn period(&self) -> u32 {
        self.period.unwrap_or(if self.strategy == Strategy::Vote { 32 } else { 5 })
    }

    pub(crate) fn growth_for(&self, hints: usize) -> Growth {
        self.growth.unwrap_or(Growth::suited(hints))
    }
}

/// Settings of a single engine, in a type defined by that engine. Empty by default.
#[derive(Clone, Debug, Default)]
pub struct EngineConfig(Option<OfEngine>);

#[derive(Clone, Debug)]
struct OfEngine {
    name: &'static str,
    settings: Arc<dyn EngineSettings>,
}

trait EngineSettings: Any + fmt::Debug + Send + Sync {}

impl<T: Any + fmt::Debug + Send + Sync> EngineSettings for T {}

impl EngineConfig {
    /// The settings of the engine with this name.
    pub fn new(name: &'static str, settings: impl Any + fmt::Debug + Send + Sync) -> Self {
        Self(Some(OfEngine { name, settings: Arc::new(settings) }))
    }

    /// The settings for the calling engine, or its defaults if none are given.
    ///
    /// # Errors
    /// The settings belong to another engine.
    #[doc(hidden)]
    pub fn get<T: Any + Clone + Default>(&self) -> Result<T, ConfigError> {
        let Some(given) = &self.0 else { return Ok(T::default()) };
        let settings: &dyn Any = &*given.settings;
        settings.downcast_ref().cloned().ok_or(ConfigError::OtherEngine(given.name))
    }

    /// Checks that no settings are given, for an engine that has none.
    ///
    /// # Errors
    /// Settings of another engine are given.
    #[doc(hidden)]
    pub fn refuse(&self) -> Result<(), ConfigError> {
        self.0.as_ref().map_or(Ok(()), |given| Err(ConfigError::OtherEngine(given.name)))
    }
}

/// Why an index could not be built.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConfigError {
    /// An impossible combination of settings; the text names the settings and a remedy.
    Unsupported(&'static str),
    /// The settings in [`Config::engine`] belong to the engine with this name.
    OtherEngine(&'static str),
    /// The system refused the address space even for the smallest table.
    NoMemory(io::Error),
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported(why) => f.write_str(why),
            Self::OtherEngine(name) => write!(
                f,
                "the engine's own settings are those of {name}: leave them out, or use the engine {name}"
            ),
            Self::NoMemory(error) => write!(f, "the system refused memory for the table: {error}"),
        }
    }
}

impl std::error::Error for ConfigError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::NoMemory(error) => Some(error),
            Self::Unsupported(_) | Self::OtherEngine(_) => None,
        }
    }
}
