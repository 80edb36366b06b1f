//! The memory use of a connection, published for other threads.

use std::sync::atomic::Ordering;

use super::{Client, ClientShared};

/// Bytes of overhead per name. Each name is in two lists; this covers the nodes of both and the allocator's overhead.
const NAME_MEMORY: usize = 160;

impl Client {
    /// Publishes the memory of the names of subscriptions, tracking prefixes and watched keys.
    pub(super) fn publish_names(&self) {
        let prefixes = self.tracking().into_iter().flat_map(|options| &options.prefixes);
        let others = prefixes.map(|prefix| prefix.len());
        let others = others.chain(self.transaction.watched.iter().map(|stamp| stamp.key().len()));
        let (names, len) = others.fold(
            (self.subscriptions.len(), self.subscriptions.names_len()),
            |(names, sum), len| (names + 1, sum + len),
        );
        // ORDERING: Relaxed, a figure.
        self.shared.names_memory.store(names * NAME_MEMORY + 2 * len, Ordering::Relaxed);
    }
}

impl ClientShared {
    /// Bytes of the buffers, the lists and the inbox.
    pub fn buffers_memory(&self) -> usize {
        self.own_memory() + self.inbox().memory()
    }

    /// As [`buffers_memory`](Self::buffers_memory), without the inbox.
    pub(crate) fn own_memory(&self) -> usize {
        let buffers = [&self.input_len, &self.input_free, &self.output_memory];
        let lists = [&self.queued_len, &self.names_memory];
        // ORDERING: Relaxed, each is published on its own, and the sum is compared with a limit.
        buffers.iter().chain(&lists).map(|field| field.load(Ordering::Relaxed)).sum()
    }

    /// As [`buffers_memory`](Self::buffers_memory), without long values in memory of the store.
    pub(crate) fn memory_outside_store(&self) -> usize {
        let own = [&self.buffers_outside_store, &self.queued_len, &self.names_memory];
        // ORDERING: Relaxed, as above.
        let own: usize = own.iter().map(|field| field.load(Ordering::Relaxed)).sum();
        own + self.inbox().memory()
    }
}
