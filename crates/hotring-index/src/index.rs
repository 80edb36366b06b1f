//! `Index`: the shared handle to an index, for creating sessions, setting limits and reading statistics.

use crate::core::block::{Block, Buffer, Object};
use crate::core::config::{Config, ConfigError};
use crate::core::item::Kind;
use crate::core::limbo::Stalled;
use crate::core::memory_limit::{PeerMemory, Taken};
use crate::core::reclaim;
use crate::core::stats::Stats;
use crate::core::sync::Arc;
use crate::engine::Engine;
use crate::ring::Ring;
use crate::session::{Session, Shared};

/// A HotRing hash index with `H` hints per slot (see [`Ring`]).
pub type HotRing<K, const H: usize = 7> = Index<K, Ring<H>>;

/// A session of a [`HotRing`].
pub type HotRingSession<K, const H: usize = 7> = Session<K, Ring<H>>;

/// A hash index of items of kind `K` with the engine `E`. Cloning gives another handle to the same index.
pub struct Index<K: Kind, E: Engine = Ring<7>> {
    #[doc(hidden)]
    pub shared: Arc<Shared<K, E>>,
}

impl<K: Kind, E: Engine> Clone for Index<K, E> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<K: Kind, E: Engine> Index<K, E> {
    /// An empty index.
    ///
    /// # Errors
    /// Incompatible settings, or no address space for the table.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        Ok(Self { shared: Arc::new(Shared::new(config)?) })
    }

    /// A new session for the calling thread.
    ///
    /// # Panics
    /// [`Index::try_session`] refuses.
    pub fn session(&self) -> Session<K, E> {
        self.try_session(None).expect("this engine serves several sessions at a time")
    }

    /// A new session for the calling thread, with a name for [`Stalled`], such as the thread's name. The first
    /// 32 bytes of the name are kept.
    ///
    /// # Panics
    /// [`Index::try_session`] refuses.
    pub fn session_named(&self, name: &str) -> Session<K, E> {
        self.try_session(Some(name)).expect("this engine serves several sessions at a time")
    }

    /// A new session for the calling thread, named or not.
    ///
    /// # Errors
    /// The engine serves one session at a time, and a session exists.
    pub fn try_session(&self, name: Option<&str>) -> Result<Session<K, E>, ConfigError> {
        Session::new(self.shared.clone(), name)
    }

    /// The session that stays pinned while removed memory piles up behind it: at least a sixteenth
    /// of [`Config::limbo_max`] (or 64 MiB) since its pin. O(sessions).
    pub fn stalled(&self) -> Option<Stalled> {
        self.shared.collector.stalled()
    }

    /// Changes [`Config::limbo_max`].
    pub fn set_limbo_max(&self, bytes: u64) {
        self.shared.collector.limit().set_max(bytes);
    }

    /// Sets the memory limit. It covers the items (including removed items that are not yet freed), the
    /// table, and [`Index::set_external_memory`]. `u64::MAX`, the default, means no limit.
    /// [`Session::admit`] refuses while usage exceeds the limit.
    pub fn set_memory_max(&self, bytes: u64) {
        self.shared.budget.set_max(bytes);
        // Publishes the result: a session that was refused may be admitted under the new limit.
        let _ = self.shared.check_memory(0);
    }

    /// Sets the number of bytes used outside the index that count toward the limit.
    pub fn set_external_memory(&self, bytes: u64) {
        self.shared.budget.set_external(bytes);
    }

    /// Makes the memory of other indexes count toward the limit as well. This index calls `peers` whenever it
    /// sums up its own memory. Only the first call has an effect.
    pub fn set_peer_memory(&self, peers: PeerMemory) {
        self.shared.budget.set_peers(peers);
    }

    /// The memory of this index alone.
    pub fn own_bytes(&self) -> Taken {
        self.shared.own_bytes()
    }

    /// Sets the number of free bytes between items that may be held beyond the limit. Any excess counts as
    /// used, after compaction has tried to return it. `u64::MAX`, the default: free bytes do not count. A
    /// smaller number makes compaction move more items.
    pub fn set_memory_spare(&self, bytes: u64) {
        self.shared.budget.set_spare(bytes);
    }

    /// A [`Buffer`] for a future value of about this many bytes.
    ///
    /// # Errors
    /// The system has no address space left.
    pub fn buffer(&self, capacity: usize) -> std::io::Result<Buffer> {
        Buffer::new(self.shared.blocks.clone(), capacity)
    }

    /// A value that holds an object, which takes this many bytes of memory. Only for items without checksums:
    /// an item with a checksum must contain its value.
    pub fn object(&self, object: Box<dyn Object>, bytes: usize) -> Block {
        Block::of_object(&self.shared.blocks, object, bytes)
    }

    /// The number of items present; exact when no operation is running. O(sessions).
    pub fn len(&self) -> usize {
        self.shared.items().max(0) as usize
    }

    /// Whether there is no item.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The statistics of the index. O(sessions).
    pub fn stats(&self) -> Stats {
        let shared = &*self.shared;
        let sum = |counter: fn(&reclaim::Record) -> i64| shared.sum(counter).max(0) as u64;
        Stats {
            items: sum(|r| r.items.load()),
            expiring: sum(|r| r.expiring.load()),
            bytes: sum(|r| r.item_bytes.load()) + shared.blocks.bytes(),
            block_bytes: shared.blocks.bytes(),
            limbo_bytes: shared.collector.limbo_bytes().max(0) as u64,
            limbo_max: shared.collector.limit().max(),
            mapped_bytes: shared.arena.mapped_bytes() as u64 + shared.blocks.bytes(),
            held_bytes: shared.arena.held_bytes() as u64 + shared.blocks.bytes(),
            table_bytes: shared.engine.table_bytes(),
            external_bytes: shared.budget.external(),
            memory_max: shared.budget.max(),
            slots: shared.engine.slots(),
            lookups_sampled: sum(|r| r.lookups.load()),
            visits_sampled: sum(|r| r.visits.load()),
            head_moves: sum(|r| r.head_moves.load()),
            sampling_rounds: sum(|r| r.sampling_rounds.load()),
            oldest_pin: shared.collector.oldest_pin(),
            engine: shared.engine.stats(),
        }
    }
}
