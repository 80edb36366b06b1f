//! The origin of operations, taking their effects, and telling the observer.

use crate::changes::{Change, Effects, Origin};
use crate::gate::Hold;
use crate::holds::Keys;
use crate::session::Session;
use hotring_index::Damaged;

impl Session {
    /// Makes all operations from now on those of `origin`. At first they are those of the default origin.
    #[inline]
    pub fn act(&mut self, origin: Origin) {
        let before = std::mem::replace(&mut self.hooks.origin, origin);
        let marks_differ = origin.marks_accesses != before.marks_accesses;
        let records_differ = origin.records_changes != before.records_changes;
        // Mostly the next client acts, and nothing else differs.
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

    /// Whose operations these are.
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

    /// All that operations have left since it was last taken. Who replies to single operations takes their
    /// [damage](Self::take_damage) and their [changes](Self::take_changes) before, and the rest here.
    #[inline]
    pub fn take_effects(&mut self) -> Effects {
        let logged = self.logging.last.take();
        if !self.has_rare_effects {
            return Effects { logged, ..Effects::default() };
        }
        Effects { logged, damage: self.take_damage(), changes: self.take_changes() }
    }

    /// The first damaged item that was met since it was last taken, if items are verified. For the operation that met
    /// it the key was absent, and the operation on an absent key was left undone. To set the key or to
    /// remove it, without looking at its value, is the repair. Costs a look at one word.
    #[inline(always)]
    pub fn take_damage(&mut self) -> Option<Damaged> {
        self.index.take_damage()
    }

    /// How many damaged items have been met so far, if items are verified: for operations that look at keys before they
    /// overwrite another.
    pub fn damages(&mut self) -> u64 {
        self.index.damages()
    }

    /// The changes of keys since they were last taken, if the origin records them.
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

    /// Begins to tell the store's observer ([`Store::set_observer`](crate::Store::set_observer)) of all changes,
    /// or ends it, as `wanted` says, which is asked while no other session uses the store. Once this has returned,
    /// each change either is visible to all later readers of its key, or reaches the observer.
    pub fn observe(&mut self, wanted: impl FnOnce() -> bool) {
        // Exclusive, so that all reads that drop expired keys are over.
        self.hold(&Keys::All, Hold::Exclusive, |session| {
            let wanted = wanted();
            session.databases.set("observe", move |all| all.watchers.observe(wanted));
        });
    }

    /// Whether the observer is told of all changes.
    pub fn is_observed(&self) -> bool {
        self.hooks.watchers.is_observed()
    }
}
