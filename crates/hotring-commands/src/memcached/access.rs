//! Times of access, and whether items were fetched since they were stored: the flags h and l of meta
//! commands.
//!
//! A record costs a write of the item at the first fetch in a second, so it is kept only if a client uses
//! it. It begins with the first request for it: from then on every item that this protocol stores, and
//! every item asked about, carries the record.

use std::sync::atomic::Ordering;

use hotring_store::{Access, ItemAction, Metadata, SetExpiry};

use super::context::Context;

impl Context<'_> {
    /// The record of an item that is stored now.
    pub(super) fn stored(&self) -> Option<Access> {
        // ORDERING: Relaxed, nothing else is read through it.
        let wanted = self.server.memcached.accesses.load(Ordering::Relaxed);
        wanted.then(|| Access { at: self.second(), fetched: false })
    }

    /// Turns the record on, because a client has asked for it.
    pub(super) fn remember_accesses(&self) {
        // ORDERING: Relaxed, as above. Read first, because all threads share the cache line.
        if !self.server.memcached.accesses.load(Ordering::Relaxed) {
            self.server.memcached.accesses.store(true, Ordering::Relaxed);
        }
    }

    /// Records a fetch. Without free memory the fetch goes unrecorded.
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

/// Whether a fetch changes the item's record.
#[inline]
pub(super) fn is_due(metadata: Metadata, second: u32) -> bool {
    metadata.access.is_some_and(|access| !access.fetched || access.at != second)
}

/// The record after a fetch, if the item has one.
pub(super) fn fetched(access: Option<Access>, second: u32) -> Option<Access> {
    access.map(|_| Access { at: second, fetched: true })
}
