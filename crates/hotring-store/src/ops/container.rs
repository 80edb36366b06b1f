//! Shared code of the operations on containers of all types: reading, walking and changing one.

use hotring_index::Key;

use crate::container::large;
use crate::container::{Decision, Type, view_container};
use crate::error::StoreError;
use crate::session::Session;

impl Session {
    /// Calls `f` with the container. Writers wait meanwhile, so `f` must be short. None if the key is absent.
    pub(crate) fn read_container<'k, T: Type, R>(
        &mut self,
        key: impl Into<Key<'k>>,
        now: u64,
        f: impl FnOnce(T::Ref<'_>) -> R,
    ) -> Result<Option<R>, StoreError> {
        let key = key.into();
        let found = self.read(key, now, |entry| view_container::<T, R>(&entry, f));
        self.unless_emptied(key.bytes(), now, found)
    }

    /// Like [`read_container`](Self::read_container), for a walk over the entire container: writers of a large
    /// container do not wait for `f`.
    pub(crate) fn walk_container<'k, T: Type, R>(
        &mut self,
        key: impl Into<Key<'k>>,
        now: u64,
        f: impl FnOnce(T::Ref<'_>) -> R,
    ) -> Result<Option<R>, StoreError> {
        let key = key.into();
        // Either closure may be the one that consumes `f`.
        let mut f = Some(f);
        let mut call = |container: T::Ref<'_>| f.take().map(|f| f(container));
        let found = self.read(key, now, |entry| match large::of_entry(&entry) {
            Some(large) => Ok(Err(large.snapshot())),
            None => view_container::<T, _>(&entry, &mut call).map(Ok),
        });
        match self.unless_emptied(key.bytes(), now, found)? {
            Some(Ok(result)) => Ok(result),
            Some(Err(contents)) => {
                let parts = T::of_parts(&contents.parts).ok_or(StoreError::WrongType)?;
                Ok(call(T::large(parts)))
            }
            None => Ok(None),
        }
    }

    /// Decides on the key's container (an empty one if the key is absent) and makes the changes. `decide` may be called
    /// several times.
    pub(crate) fn update_container<'k, 'c, T: Type, R>(
        &mut self,
        key: impl Into<Key<'k>>,
        now: u64,
        decide: impl FnMut(T::Ref<'_>) -> Decision<'c, T, R>,
    ) -> Result<(T::Tally, R), StoreError> {
        let key = key.into();
        self.check_key(key.bytes())?;
        self.admit()?;
        self.change_container::<T, R>(key, now, decide)
    }

    /// Like [`update_container`](Self::update_container), for a write that has been admitted.
    pub(crate) fn change_container<'k, 'c, T: Type, R>(
        &mut self,
        key: impl Into<Key<'k>>,
        now: u64,
        decide: impl FnMut(T::Ref<'_>) -> Decision<'c, T, R>,
    ) -> Result<(T::Tally, R), StoreError> {
        let limits = self.limits;
        self.try_change_in_order(key.into(), |write, objects| {
            write.change_container::<T, R>(objects, limits, now, decide)
        })?
    }
}
