//! Choosing an engine at run time, by name.

use crate::{Chaining, GCuckoo, Locking, Mercury, OsMutex, TestAndSet};
#[cfg(all(target_arch = "x86_64", not(shuttle)))]
use hotring_index::ItemLines;
use hotring_index::{AnyIndex, Bytes, Config, ConfigError, Engine, Index, Maintain, Ring};
use std::sync::Arc;

/// Defines the choice from one list of engines, some of which exist only on some platforms.
macro_rules! engines {
    ($($(#[$doc:meta])* $name:ident, $text:literal => $open:expr $(, if $cfg:meta)?;)+) => {
        /// The engine of an index.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
        #[non_exhaustive]
        pub enum EngineChoice {
            $($(#[$doc])* $(#[cfg($cfg)])? $name,)+
        }

        impl EngineChoice {
            /// All of them.
            pub const ALL: &[Self] = &[$($(#[cfg($cfg)])? Self::$name,)+];

            /// Its unique name.
            pub fn name(self) -> &'static str {
                match self {
                    $($(#[cfg($cfg)])? Self::$name => $text,)+
                }
            }

            /// An empty index with this engine.
            ///
            /// # Errors
            /// Settings that do not go together, or with this engine; or no address space for the
            /// table.
            pub fn open(self, config: Config) -> Result<AnyIndex, ConfigError> {
                match self {
                    $($(#[cfg($cfg)])? Self::$name => $open($text, config),)+
                }
            }
        }

        impl std::str::FromStr for EngineChoice {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                match text {
                    $($(#[cfg($cfg)])? $text => Ok(Self::$name),)+
                    _ => {
                        let names: Vec<&str> = Self::ALL.iter().map(|engine| engine.name()).collect();
                        Err(format!("an engine is one of {}", names.join(", ")))
                    }
                }
            }
        }
    };
}

engines! {
    /// HotRing with lines of 7 hints.
    #[default]
    HotRing, "hotring" => |_, config| AnyIndex::hotring(config);
    /// HotRing with one movable head, as in the paper; required by the strategies Random and Sampling.
    HotRingOneHead, "hotring-one-head" => erased::<Ring<1>>;
    /// Mercury with test-and-set locks.
    Mercury, "mercury" => mercury::<TestAndSet>;
    /// Mercury with mutexes of the operating system.
    MercuryMutex, "mercury-mutex" => mercury::<OsMutex>;
    /// Lock-free chains, the baseline of HotRing's paper.
    Chaining, "chaining" => erased::<Chaining>;
    /// G-Cuckoo with four slots a bucket.
    GCuckoo, "gcuckoo" => erased::<GCuckoo<4>>;
    /// G-Cuckoo with one slot a bucket, as in the paper.
    GCuckooOneSlot, "gcuckoo-one-slot" => erased::<GCuckoo<1>>;
    /// Lines: four tagged items to a cache line.
    Lines, "lines" => erased::<ItemLines>, if all(target_arch = "x86_64", not(shuttle));
}

fn erased<E: Engine>(name: &'static str, config: Config) -> Result<AnyIndex, ConfigError> {
    Ok(AnyIndex::erased(name, Index::<Bytes, E>::new(config)?))
}

fn mercury<L: Locking>(name: &'static str, config: Config) -> Result<AnyIndex, ConfigError> {
    let index = Index::<Bytes, Mercury<L>>::new(config)?;
    let expander = Arc::new(Expanding(index.clone()));
    Ok(AnyIndex::erased(name, index).with_maintenance(expander))
}

/// Mercury whose buckets are moved by a thread, with [`Expander::Thread`](crate::Expander).
struct Expanding<L: Locking>(Index<Bytes, Mercury<L>>);

impl<L: Locking> Maintain for Expanding<L> {
    fn run(&self, stop: &dyn Fn() -> bool) {
        Mercury::maintain(&self.0, stop);
    }

    fn wake(&self) {
        Mercury::wake(&self.0);
    }
}
