//! Waiting for an element of a key, and serving those who wait ([`crate::watch`]).

use std::sync::Arc;

use hotring_log::Lsn;

use crate::session::Session;
use crate::watch::{Place, Taker, Turn, Watchers};

impl Session {
    /// Has the taker wait for elements of the keys, behind all who wait for the same already, until it is claimed or
    /// the place is dropped. The caller must hold all the keys ([`Session::exclusive`]), and have found no element.
    pub fn line_up(&mut self, keys: &[&[u8]], taker: &Arc<dyn Taker>) -> Place {
        let keys = keys.iter().map(|key| (self.stripe(key), *key));
        Watchers::line_up(&self.hooks.watchers, keys, taker)
    }

    /// Claims the first taker in the key's line whose turn it is, as `turn` says of each. Who gets one must take an
    /// element for it. The caller must hold the key, and have found an element. `turn` must not use the store.
    pub fn claim_first(
        &mut self,
        key: &[u8],
        turn: impl FnMut(&Arc<dyn Taker>) -> Turn,
    ) -> Option<Arc<dyn Taker>> {
        self.hooks.watchers.claim_first(self.stripe(key), key, turn)
    }

    /// The first `n` in the key's line.
    pub fn first_in_line(&self, key: &[u8], n: usize) -> Vec<Arc<dyn Taker>> {
        self.hooks.watchers.first_in_line(self.stripe(key), key, n)
    }

    /// Whether writes of this session have stored values under keys that have a line. Whoever uses lines must serve
    /// them at the end of an operation, outside of holds.
    #[inline(always)]
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The first of the keys that this session has to serve.
    pub fn next_ready(&mut self) -> Option<Box<[u8]>> {
        (!self.ready.is_empty()).then(|| self.ready.remove(0))
    }

    /// The last record of the log that this session's writes have made since the effects were taken.
    pub fn last_logged(&self) -> Option<Lsn> {
        self.logging.last
    }

    /// Counts a record of another session among this one's: what this session does next acknowledges it.
    pub fn note_logged(&mut self, lsn: Lsn) {
        self.logging.last = self.logging.last.max(Some(lsn));
    }
}
