//! Records the time of each item's last access, and whether the item was fetched since it was stored: the flags h and l
//! of meta commands.
//!
//! A record costs a write of the item at the first fetch in each second, so records are kept only if a client uses
//! them. The first request with one of the flags turns them on; from then on, every item that this protocol stores and
//! every item that such a request names gets a record.

use std::sync::atomic::Ordering;

use hotring_store::{Access, ItemAction, Metadata, SetExpiry};

use super::context::Context;

impl Context<'_> {
    /// The record for an item that is stored; None while records are off.
    pub(super) fn stored(&self) -> Option<Access> {
        // ORDERING: Relaxed, the flag publishes no other data.
        let wanted = self.server.memcached.accesses.load(Ordering::Relaxed);
        wanted.then(|| Access { at: self.second(), fetched: false })
    }

    /// Turns records on, because a client has asked for one.
    pub(super) fn remember_accesses(&self) {
        // ORDERING: Relaxed, as above. The flag is read before it is written, because all threads share its cache line.
        if !self.server.memcached.accesses.load(Ordering::Relaxed) {
            self.server.memcached.accesses.store(true, Ordering::Relaxed);
        }
    }

    /// Records a fetch. If memory is lacking, the fetch goes unrecorded.
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
