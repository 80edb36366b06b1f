//! The records that a replica has and its primary has not: what their repair needs from one link to the next.

use std::sync::{Mutex, MutexGuard, PoisonError};

use hotring_store::TailKeys;

/// The divergent tail of this server.
#[derive(Debug, Default)]
pub struct DivergentTail(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The keys of tails that are cut off, which do not have the primary's values.
    cut: Option<TailKeys>,
    /// A tail cannot be repaired, so the next link must ask for a full copy.
    needs_copy: bool,
}

impl DivergentTail {
    fn state(&self) -> MutexGuard<'_, State> {
        // No code panics between changes of the state.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A repair is impossible.
    pub fn refuse_repair(&self) {
        self.state().needs_copy = true;
    }

    /// Whether a repair was impossible on the link before.
    pub fn needs_copy(&self) -> bool {
        self.state().needs_copy
    }

    /// The tail is cut off. An earlier one may still lack values.
    pub fn cut_off(&self, keys: TailKeys) {
        self.state().cut.get_or_insert_default().add_all(keys);
    }

    /// Runs `f` on the keys that lack values.
    pub fn with_keys<R>(&self, f: impl FnOnce(&TailKeys) -> R) -> R {
        f(self.state().cut.as_ref().unwrap_or(&TailKeys::default()))
    }

    /// All data is the primary's, or will be replaced by it.
    pub fn end(&self) {
        *self.state() = State::default();
    }
}

#[cfg(test)]
mod tests {
    use hotring_log::Effect;

    use super::*;

    fn keys(key: &[u8]) -> TailKeys {
        let mut keys = TailKeys::default();
        keys.add(&[Effect::Remove { key }]);
        keys
    }

    /// A second tail that cannot be repaired must not make the first one forgotten.
    #[test]
    fn keys_lack_values_until_all_are_there() {
        let tail = DivergentTail::default();
        tail.cut_off(keys(b"a"));
        tail.refuse_repair();
        assert!(tail.needs_copy());
        tail.cut_off(keys(b"b"));
        assert_eq!(tail.with_keys(|keys| keys.iter().count()), 2);
        tail.end();
        assert!(!tail.needs_copy() && tail.with_keys(|keys| keys.iter().count()) == 0);
    }
}
