//! A session's counts of this engine, and the sums over all sessions.

use hotring_index::sync::{Arc, Mutex};
use hotring_index::toolkit::{Counter, EngineStats};

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counts of one session: only it writes them, any session reads them.
        #[derive(Default)]
        #[repr(align(128))]
        pub(crate) struct Counts {
            $($(#[$doc])* pub(crate) $name: Counter,)*
            /// The longest path of kicks.
            pub(crate) path_max: Counter,
        }

        /// The counts of G-Cuckoo, over all sessions since the index was made.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct GCuckooStats {
            $($(#[$doc])* pub $name: u64,)*
            /// The longest path of kicks.
            pub path_max: u64,
            /// Kicks for insertions that then found no vacancy. Always 0, as a vacancy is known
            /// before the first kick.
            pub kicks_wasted: u64,
            /// Items in stashes now.
            pub stash: u64,
            /// Pages now.
            pub pages: u64,
            /// Whether this processor has hardware transactions.
            pub htm_supported: bool,
            /// Whether hardware transactions are used.
            pub htm_enabled: bool,
        }

        impl GCuckooStats {
            fn add(&mut self, counts: &Counts) {
                $(self.$name = self.$name.wrapping_add(counts.$name.load() as u64);)*
                self.path_max = self.path_max.max(counts.path_max.load() as u64);
                // A session that counts meanwhile may seem to have used more than it made.
                self.kicks_wasted = self.kicks.saturating_sub(self.kicks_used);
            }

            /// The counts from the report of an index with G-Cuckoo.
            pub fn of(stats: &EngineStats) -> Option<Self> {
                Some(Self {
                    $($name: stats.get(stringify!($name))?,)*
                    path_max: stats.get("path_max")?,
                    kicks_wasted: stats.get("kicks_wasted")?,
                    stash: stats.get("stash")?,
                    pages: stats.get("pages")?,
                    htm_supported: stats.get("htm_supported")? != 0,
                    htm_enabled: stats.get("htm_enabled")? != 0,
                })
            }

            /// All fields by name, for reports.
            pub(crate) fn fields(&self) -> Vec<(&'static str, u64)> {
                let mut fields = vec![$((stringify!($name), self.$name),)*];
                fields.extend([
                    ("path_max", self.path_max),
                    ("kicks_wasted", self.kicks_wasted),
                    ("stash", self.stash),
                    ("pages", self.pages),
                    ("htm_supported", u64::from(self.htm_supported)),
                    ("htm_enabled", u64::from(self.htm_enabled)),
                ]);
                fields
            }
        }
    };
}

counts! {
    /// Items that insertions moved.
    kicks,
    /// Of these, items moved for insertions that succeeded.
    kicks_used,
    /// Items that went into a stash.
    stashed,
    /// Items that came back from a stash into the tables.
    unstashed,
    /// Insertions known in advance to have no vacancy: case C3. Only with one slot per bucket.
    predetermined,
    /// Of these, insertions for which the graph said maybe, after removals, and a walk that moves
    /// nothing decided.
    maybes,
    /// Pages that were split.
    splits,
    /// Times that a reader looked again, as something had moved.
    retries,
    /// Readers that took the locks, as their groups kept changing.
    impatient,
    /// Transactions that committed.
    htm_commits,
    /// Transactions that aborted.
    htm_aborts,
    /// Operations that took the lock after aborted transactions.
    htm_fallbacks,
    /// Lookups that asked the cache of recent items.
    cache_lookups,
    /// Of these, lookups that the cache answered.
    cache_hits,
}

#[derive(Default)]
struct Totals {
    ended: GCuckooStats,
    live: Vec<Arc<Counts>>,
}

/// The counts of all sessions, those that have ended included.
#[derive(Default)]
pub(crate) struct Ledger(Mutex<Totals>);

impl Ledger {
    pub(crate) fn open(&self) -> Arc<Counts> {
        let counts = Arc::new(Counts::default());
        self.0.lock().expect("nothing panics here").live.push(counts.clone());
        counts
    }

    pub(crate) fn close(&self, counts: &Arc<Counts>) {
        let mut totals = self.0.lock().expect("nothing panics here");
        totals.ended.add(counts);
        totals.live.retain(|other| !Arc::ptr_eq(other, counts));
    }

    pub(crate) fn sum(&self) -> GCuckooStats {
        let totals = self.0.lock().expect("nothing panics here");
        let mut sum = totals.ended;
        totals.live.iter().for_each(|counts| sum.add(counts));
        sum
    }
}
