//! The session's [`Origin`], the [`Effects`] of its operations, and the observer.

use crate::changes::{Change, Effects, Origin};
use crate::gate::Hold;
use crate::holds::Keys;
use crate::session::Session;
use hotring_index::Damaged;

impl Session {
    /// Sets the origin of all following operations. A new session has the default origin.
    #[inline]
    pub fn act(&mut self, origin: Origin) {
        let before = std::mem::replace(&mut self.hooks.origin, origin);
        let marks_differ = origin.marks_accesses != before.marks_accesses;
        let records_differ = origin.records_changes != before.records_changes;
        // Usually only the actor differs.
        if marks_differ || records_differ {
            self.follow_origin(records_differ);
        }
    }

    #[cold]
    fn follow_origin(&mut self, records_differ: bool) {
        let Origin { marks_accesses, records_changes, .. } = self.hooks.origin;
        self.index.set_noted(marks_accesses);
        if records_differ {
            self.changes = records_changes.then(Vec::new);
            self.has_rare_effects = self.verifies || records_changes;
            self.hooks.refresh();
        }
    }

    /// The current origin.
    #[inline]
    pub fn origin(&self) -> Origin {
        self.hooks.origin
    }

    /// Runs `f` as `origin`, and returns its effects.
    pub fn act_within<R>(
        &mut self,
        origin: Origin,
        f: impl FnOnce(&mut Session) -> R,
    ) -> (R, Effects) {
        let before = self.origin();
        self.act(origin);
        let result = f(self);
        let effects = self.take_effects();
        self.act(before);
        (result, effects)
    }

    /// The effects of the operations since the last call. A caller that replies to single operations must take their
    /// [damage](Self::take_damage) and their [changes](Self::take_changes) before, and the rest here.
    #[inline]
    pub fn take_effects(&mut self) -> Effects {
        let logged = self.logging.last.take();
        if !self.has_rare_effects {
            return Effects { logged, ..Effects::default() };
        }
        Effects { logged, damage: self.take_damage(), changes: self.take_changes() }
    }

    /// The first damaged item found since the last call, if items are verified. The operation that found it treated the
    /// key as absent and changed nothing. Setting or removing the key without reading its value repairs it. Costs a
    /// look at one word.
    #[inline(always)]
    pub fn take_damage(&mut self) -> Option<Damaged> {
        self.index.take_damage()
    }

    /// Number of damaged items found so far, if items are verified: for operations that read keys before they overwrite
    /// another.
    pub fn damages(&mut self) -> u64 {
        self.index.damages()
    }

    /// The changes of keys since the last call, if the origin records them.
    #[inline]
    pub fn take_changes(&mut self) -> Vec<Change> {
        self.changes.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Runs `f` so that all of its reads count as accesses.
    pub(crate) fn mark_accesses<R>(&mut self, f: impl FnOnce(&mut Session) -> R) -> R {
        let before = self.origin();
        self.act(Origin { marks_accesses: true, ..before });
        let result = f(self);
        self.act(before);
        result
    }

    /// Begins or ends, as `wanted` says, to report all changes to the store's observer
    /// ([`Store::set_observer`](crate::Store::set_observer)). `wanted` is called while no other session uses the store.
    /// After the return, each change either is visible to all later readers of its key, or reaches the observer.
    pub fn observe(&mut self, wanted: impl FnOnce() -> bool) {
        // Exclusive, so that all reads that remove expired keys have ended.
        self.hold(&Keys::All, Hold::Exclusive, |session| {
            let wanted = wanted();
            session.databases.set("observe", move |all| all.watchers.observe(wanted));
        });
    }

    /// Whether all changes are reported to the observer.
    pub fn is_observed(&self) -> bool {
        self.hooks.watchers.is_observed()
    }
}
