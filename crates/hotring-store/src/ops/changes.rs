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
        if origin != self.origin {
            self.change_origin(origin);
        }
    }

    fn change_origin(&mut self, origin: Origin) {
        self.hooks.actor = origin.actor;
        if origin.marks_accesses != self.origin.marks_accesses {
            self.index.set_noted(origin.marks_accesses);
        }
        if origin.records_changes != self.origin.records_changes {
            self.changes = origin.records_changes.then(Vec::new);
            self.hooks.set_recording(origin.records_changes);
            self.has_rare_effects = self.verifies || origin.records_changes;
        }
        self.origin = origin;
    }

    /// Whose operations these are.
    #[inline]
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// Runs `f` as `origin`, and returns its effects.
    pub fn act_within<R>(
        &mut self,
        origin: Origin,
        f: impl FnOnce(&mut Session) -> R,
    ) -> (R, Effects) {
        let before = self.origin;
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
    /// it the key was absent, and what the operation would have done on that was left undone. To set the key or to
    /// remove it, without looking at its value, is the repair. Costs a look at one word.
    #[inline(always)]
    pub fn take_damage(&mut self) -> Option<Damaged> {
        self.index.take_damage()
    }

    /// What writes have done to keys since it was last taken, if the origin records it.
    #[inline]
    pub fn take_changes(&mut self) -> Vec<Change> {
        self.changes.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Runs `f` so that all of its reads count as accesses.
    pub(crate) fn mark_accesses<R>(&mut self, f: impl FnOnce(&mut Session) -> R) -> R {
        let before = self.origin;
        self.act(Origin { marks_accesses: true, ..before });
        let result = f(self);
        self.act(before);
        result
    }

    /// Begins to tell the store's observer ([`Store::set_observer`](crate::Store::set_observer)) of all changes,
    /// or ends it, as `wanted` says, which is asked while no other session uses the store. Once this has returned,
    /// what a change has done is seen by all who read the key from now on, or the observer is told of it.
    pub fn observe(&mut self, wanted: impl FnOnce() -> bool) {
        // Exclusive, so that the reads are over that drop what they find expired.
        self.hold(&Keys::All, Hold::Exclusive, |session| {
            session.hooks.watchers.observe(wanted());
        });
    }

    /// Whether the observer is told of all changes.
    pub fn is_observed(&self) -> bool {
        self.hooks.watchers.is_observed()
    }
}
