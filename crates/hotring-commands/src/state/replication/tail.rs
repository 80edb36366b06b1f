//! The records that a replica has and its primary has not: what their repair needs from one link to the next.

use std::sync::{Mutex, MutexGuard, PoisonError};

use hotring_store::TailKeys;

/// The divergent tail of this server.
#[derive(Debug, Default)]
pub struct DivergentTail(Mutex<State>);

#[derive(Debug, Default)]
enum State {
    #[default]
    None,
    /// It cannot be repaired, so the next link must ask for a full copy.
    NeedsCopy,
    /// It is cut off, and these keys do not have the primary's values.
    Cut(TailKeys),
}

impl DivergentTail {
    fn state(&self) -> MutexGuard<'_, State> {
        // No code panics between changes of the state.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A repair is impossible.
    pub fn refuse_repair(&self) {
        *self.state() = State::NeedsCopy;
    }

    /// Whether a repair was impossible on the link before.
    pub fn needs_copy(&self) -> bool {
        matches!(*self.state(), State::NeedsCopy)
    }

    /// The tail is about to be cut off. An earlier one may still lack values.
    pub fn cut_off(&self, mut keys: TailKeys) {
        let mut state = self.state();
        if let State::Cut(earlier) = std::mem::take(&mut *state) {
            keys.add_all(earlier);
        }
        *state = State::Cut(keys);
    }

    /// Runs `f` on the keys that lack values.
    pub fn with_keys<R>(&self, f: impl FnOnce(&TailKeys) -> R) -> R {
        match &*self.state() {
            State::Cut(keys) => f(keys),
            State::None | State::NeedsCopy => f(&TailKeys::default()),
        }
    }

    /// All data is the primary's, or will be replaced by it.
    pub fn end(&self) {
        *self.state() = State::None;
    }
}
