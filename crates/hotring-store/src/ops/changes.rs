//! Recording what writes have done, and telling the observer.

use crate::changes::Change;
use crate::gate::Hold;
use crate::holds::Keys;
use crate::session::Session;

impl Session {
    /// Begins to note changes, or ends it.
    pub fn note_changes(&mut self, on: bool) {
        self.changes = on.then(Vec::new);
        self.besides.set_noting(on);
    }

    /// Whether changes are noted.
    pub fn notes_changes(&self) -> bool {
        self.changes.is_some()
    }

    /// What this session's writes have done since this was last asked for.
    pub fn take_changes(&mut self) -> Vec<Change> {
        self.changes.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Begins to tell the store's observer ([`Store::set_observer`](crate::Store::set_observer)) of all changes,
    /// or ends it, as `wanted` says, which is asked while no other session uses the store. Once this has returned,
    /// what a change has done is seen by all who read the key from now on, or the observer is told of it.
    pub fn observe(&mut self, wanted: impl FnOnce() -> bool) {
        // Exclusive, so that the reads are over that drop what they find expired.
        self.hold(&Keys::All, Hold::Exclusive, |session| {
            session.besides.watchers.observe(wanted());
        });
    }

    /// Whether the observer is told of all changes.
    pub fn is_observed(&self) -> bool {
        self.besides.watchers.is_observed()
    }

    /// From now on this session's changes are those of `actor`, which the observer is told. At first it is 0.
    #[inline]
    pub fn act_for(&mut self, actor: u64) {
        self.besides.actor = actor;
    }
}
