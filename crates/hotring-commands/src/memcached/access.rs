//! When items were accessed, and whether they have been fetched since they were stored: the flags h and l of
//! meta commands.
//!
//! To remember that costs a write of the item for the first fetch of a second, so that it is done only where
//! a client wants to know. The first question begins it: from then on each item that this protocol
//! stores carries the time, and so does each one that is asked about. Until then it costs nothing.

use std::sync::atomic::Ordering;

use hotring_store::{Access, ItemAction, Metadata, SetExpiry};

use super::context::Context;

impl Context<'_> {
    /// What is remembered of an item that is stored now.
    pub(super) fn stored(&self) -> Option<Access> {
        // ORDERING: Relaxed, nothing else is read through it.
        let wanted = self.server.memcached.accesses.load(Ordering::Relaxed);
        wanted.then(|| Access { at: self.second(), fetched: false })
    }

    /// Begins to remember, as a client has asked.
    pub(super) fn remember_accesses(&self) {
        // ORDERING: Relaxed, as above. Looked at first, so that the line stays with all threads.
        if !self.server.memcached.accesses.load(Ordering::Relaxed) {
            self.server.memcached.accesses.store(true, Ordering::Relaxed);
        }
    }

    /// Remembers that an item has been fetched. Without memory for that it is not remembered.
    #[cold]
    pub(super) fn mark_fetched(&mut self, key: &[u8]) {
        let second = self.second();
        let marked = self.store.update_item(key, self.now, |item| match item {
            Some(item) if is_due(item.metadata, second) => {
                let metadata =
                    Metadata { access: fetched(item.metadata.access, second), ..item.metadata };
                (ItemAction::Amend { metadata, expiry: SetExpiry::Keep }, ())
            }
            _ => (ItemAction::Keep, ()),
        });
        if let Err(error) = marked {
            tracing::debug!(%error, "an access is not remembered");
        }
    }
}

/// Whether a fetch of the item changes what is remembered of it.
#[inline]
pub(super) fn is_due(metadata: Metadata, second: u32) -> bool {
    metadata.access.is_some_and(|access| !access.fetched || access.at != second)
}

/// What is remembered of an item after a fetch, if anything is.
pub(super) fn fetched(access: Option<Access>, second: u32) -> Option<Access> {
    access.map(|_| Access { at: second, fetched: true })
}
