//! G-Cuckoo: a cuckoo hash table that knows before the first kick whether there is a vacancy (Wu, Huang and Zhou,
//! "RHKV", FGCS 2018, sections 4.3, 4.6, 4.7 and 5), extended by concurrency, growth and removal.
//!
//! ```text
//!  directory            page (a pair of tables, a stash)             items
//! +----------+     table 1  | . | w | . | . | w | ... |
//! | hash & m |---> table 2  | w | . | w | . | . | ... |     w = tag, address --> next | key | value
//! +----------+     stash    | w | . | . | . | . | . | . | . |
//! ```
//!
//! An item is in one of two buckets, determined by its hash, or in the stash of its page. If both
//! are full, an insert moves one of their items to its other bucket, and so on: *kicks*. With `S` = 1
//! slot per bucket, as in the paper, the kicks may never end. The page keeps the cuckoo graph
//! ([`graph`]), which predicts that, and then the item goes to the stash. With `S` = 4 slots there is
//! nearly always a vacancy within four kicks, and a breadth-first search finds the nearest
//! ([`vacancy`]). In both cases nothing moves before the entire path is known.
//!
//! # Why pages
//!
//! The table is many small pairs of tables, under a directory ([`directory`]). Each is exactly what
//! the paper describes. Two things become possible: growth pays for one page at a time ([`split`]),
//! where a pair of large tables must be rehashed as a whole; and a scan can promise to visit each
//! key once ([`scan`]), as a page is one range of hashes, however items move within it. A table of
//! one large page is the paper's own: `page_buckets` large, and growth fixed.
//!
//! # Invariants
//!
//! * V1 An item named by a word of a current page is not retired: it leaves the table first.
//! * V2 Words that name items of a key change only under the locks of the groups of both its buckets; a
//!   word of the stash only under the page's lock, too. Every change raises the versions of these groups if
//!   readers check versions.
//! * V3 A moved item is in its new slot before it leaves the old one.
//! * V4 A session that takes an item out marks it under the same locks, with the address of its copy if
//!   there is one. An item in the table with an unmarked word is the key's live one.
//! * V5 A page is replaced only once all its groups are frozen. It never changes afterwards, and its halves
//!   begin with its contents.
//! * V6 A hash has one entry in the directory. The entry names the key's page, from the store that put it
//!   there to the one that replaces it.
//!
//! # Why answers are right
//!
//! A hit is a load of an unmarked word of an item with the key that was found in the table: it was live at that moment
//! (V4), wherever its word was read, even in a page that was split since. A miss saw the versions of both groups
//! unchanged and unlocked from before its look to after it, so at the first moment no word of the key was there (V2).
//! If the page was replaced, that happened after the reader had found it in the directory, hence within its operation;
//! just before that the page was the key's, and had the content that the reader saw (V5). A writer compares everything
//! under the locks: that the page is not frozen, that the key is absent, or that the item to remove is still there.
//!
//! Items read from the table are not freed before the pin ends (V1, and E3 of the collector).
//! Pages wait for a grace period, too.
//!
//! # Progress
//!
//! Readers never wait for a hit. A miss waits while a writer of one of its two groups is at work, and takes the locks
//! itself after some rounds. Writers of one group wait for each other; writers of a page wait while it is split. Equal
//! hashes cannot make an insertion fail or loop: an item without a vacancy goes to the stash, which grows; a page is
//! split only while that can help ([`write`], `is_crowded`; [`directory`], `ENTRIES_PER_PAGE`).

#[cfg(any(loom, shuttle))]
mod at_rest;
mod bucket_pair;
mod cache;
mod counts;
mod directory;
mod engine;
mod graph;
mod htm;
pub(crate) mod lab;
mod lock;
mod page;
mod read;
mod scan;
mod split;
mod tables;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
mod vacancy;
mod write;

pub use counts::GCuckooStats;
pub use graph::Case;

use crate::settings::{Atomicity, GCuckooConfig};
use cache::Cache;
use counts::{Counts, Ledger};
use directory::Directory;
use hotring_index::sync::Arc;
use hotring_index::{Config, ConfigError, Growth};
use page::Scratch;

/// Buckets in each table of a page. With four slots per bucket, a page has 32 KiB of slots; with
/// one, 16 KiB of slots and as much for the graph. Splitting such a page takes about a tenth of a
/// millisecond.
const PAGE_BUCKETS: usize = 512;
const PAGE_BUCKETS_SINGLE: usize = 1024;

/// The engine: `S` slots per bucket, 4 (the default) or 1 (the paper's).
///
/// | | `S` = 1 | `S` = 4 |
/// | --- | --- | --- |
/// | a page is split above a load of | 0.45 | 0.9 |
/// | slots that a lookup reads | 2 | 8 |
/// | an insertion | predetermined by the cuckoo graph | the nearest vacancy, at most 4 kicks |
/// | writers of a page | one at a time | those of different groups together |
pub struct GCuckoo<const S: usize = 4> {
    directory: Directory<S>,
    mode: Atomicity,
    grows: bool,
    cache_entries: usize,
    ledger: Arc<Ledger>,
}

/// A session's part of the engine.
#[doc(hidden)]
pub struct Local {
    counts: Arc<Counts>,
    ledger: Arc<Ledger>,
    scratch: Scratch,
    /// Buffer for the words that a scan copies.
    words: Vec<u64>,
    cache: Cache,
}

impl Drop for Local {
    fn drop(&mut self) {
        self.ledger.close(&self.counts);
    }
}

impl<const S: usize> GCuckoo<S> {
    fn build(config: &Config) -> Result<Self, ConfigError> {
        let settings: GCuckooConfig = config.engine.get()?;
        let buckets = check::<S>(config, &settings)?;
        let slots = 2 * buckets * S;
        let pages = config.slots_initial.div_ceil(slots).next_power_of_two();
        let pages_max = config.slots_max.div_ceil(slots).max(pages);
        Ok(Self {
            directory: Directory::new(pages, pages_max, buckets as u32),
            mode: settings.atomicity,
            grows: config.growth != Some(Growth::Fixed),
            cache_entries: settings.cache_entries,
            ledger: Arc::default(),
        })
    }

    fn new_local(&self) -> Local {
        Local {
            counts: self.ledger.open(),
            ledger: self.ledger.clone(),
            scratch: Scratch::default(),
            words: Vec::new(),
            cache: Cache::new(self.cache_entries),
        }
    }

    fn sum(&self) -> GCuckooStats {
        let mut stats = self.ledger.sum();
        self.directory.for_each(|page| stats.stash += page.stashed() as u64);
        stats.pages = self.directory.pages();
        stats.htm_supported = htm::is_supported();
        stats.htm_enabled = self.mode == Atomicity::Rtm;
        stats
    }
}

/// Refuses settings that this engine does not support. Returns the buckets of each table of a page.
fn check<const S: usize>(config: &Config, settings: &GCuckooConfig) -> Result<usize, ConfigError> {
    let refuse = |why: &'static str| Err(ConfigError::Unsupported(why));
    if S != 1 && S != 4 {
        return refuse("a bucket of G-Cuckoo has 1 slot (the paper's) or 4");
    }
    if !matches!(config.growth, None | Some(Growth::Fixed)) {
        return refuse(
            "G-Cuckoo grows by splitting full pages, and supports no other limit: leave growth at \
             its default, or fix it",
        );
    }
    if !(settings.cache_entries == 0 || settings.cache_entries.is_power_of_two())
        || settings.cache_entries > 1 << 20
    {
        return refuse("the cache of recent items has 2^k entries, at most 2^20, or 0 for none");
    }
    let buckets = match settings.page_buckets {
        0 if S == 1 => PAGE_BUCKETS_SINGLE,
        0 => PAGE_BUCKETS,
        buckets => buckets,
    };
    if !buckets.is_power_of_two() || buckets > 1 << 24 {
        return refuse("a table of a page has 2^k buckets, at most 2^24");
    }
    match settings.atomicity {
        Atomicity::Optimistic | Atomicity::Lock => {}
        Atomicity::Hle if htm::IS_X86 => {}
        Atomicity::Hle => {
            return refuse("only x86-64 has lock elision: use the atomicity lock");
        }
        Atomicity::Rtm if htm::is_supported() || settings.force_rtm => {}
        Atomicity::Rtm => {
            return refuse(
                "this processor has no hardware transactions (RTM): use the atomicity optimistic",
            );
        }
    }
    Ok(buckets)
}
