//! Large containers: objects that are modified in place.
//!
//! The value of the item is a reference-counted share of the object ([`hotring_index::Object`]). [`Shared`] lets
//! readers and the one writer exclude each other. The key's order lock ([`crate::logged`]) determines the next writer,
//! so that a change, its log record, and the removal of a container that has lost its last part are one step to other
//! writers.
//!
//! A clone of [`Contents`] takes O(1) and never changes: walks over all parts and snapshots use one.

use std::any::Any;
use std::cell::RefCell;
use std::sync::{Arc, LazyLock};

use hotring_containers::Remains;
use hotring_index::{
    AnyIndex, Block, BlockRef, Entry, NewValue, Object, Shared, Visitor, Visitors,
};

use super::detached::free_some;
use super::{ContainerOptions, Contents, Type};

/// All threads that access large containers, of all stores in the process.
static VISITORS: LazyLock<Arc<Visitors>> = LazyLock::new(Visitors::new);

thread_local! {
    static VISITOR: RefCell<Visitor> = RefCell::new(VISITORS.visitor());
}

/// The object that items share.
pub(crate) struct Large {
    contents: Shared<Contents>,
    /// The nodes still to free, once the object is unused.
    remains: Option<Remains>,
}

impl Large {
    pub(super) fn new(contents: Contents) -> Large {
        Large { contents: Shared::new(&VISITORS, contents), remains: None }
    }

    /// The large container in a block, if it is one.
    pub(crate) fn of(block: BlockRef<'_>) -> Option<&Large> {
        let object: &dyn Any = block.object()?;
        object.downcast_ref()
    }

    /// Reads the container. Writers wait for `f`, so it must be short.
    pub(crate) fn read<R>(&self, f: impl FnOnce(&Contents) -> R) -> R {
        VISITOR.with_borrow_mut(|visitor| self.contents.read(visitor, f))
    }

    /// Changes the container. The caller must hold the key's order lock.
    pub(crate) fn write<R>(&self, f: impl FnOnce(&mut Contents) -> R) -> R {
        self.update(|_| Ok(()), |contents, ()| f(contents))
    }

    /// Like [`write`](Self::write), with the changes that `decide` returns; readers do not wait for `decide`. An `Err`
    /// changes nothing.
    pub(crate) fn update<D, R>(
        &self,
        decide: impl FnOnce(&Contents) -> Result<D, R>,
        change: impl FnOnce(&mut Contents, D) -> R,
    ) -> R {
        VISITOR.with_borrow_mut(|visitor| self.contents.update(visitor, decide, change))
    }

    /// An immutable snapshot of the container, which can be kept.
    pub(crate) fn snapshot(&self) -> Contents {
        self.read(Contents::clone)
    }

    /// Whether a block refers to this object.
    pub(crate) fn is_of(&self, block: BlockRef<'_>) -> bool {
        Large::of(block).is_some_and(|other| std::ptr::eq(self, other))
    }
}

impl Object for Large {
    fn dismantle(&mut self) -> Option<usize> {
        if self.remains.is_none() {
            self.remains = Some(self.contents.get_mut().parts.take_remains());
        }
        free_some(self.remains.as_mut()?)
    }
}

/// The large container of an entry, if it has one.
pub(crate) fn of_entry<'a>(entry: &Entry<'a>) -> Option<&'a Large> {
    Large::of(entry.block()?)
}

/// A new large container with these contents.
pub(crate) fn new_value(contents: Contents, index: &AnyIndex) -> NewValue<'static> {
    let (footprint, kind) = (contents.parts.footprint(), contents.parts.kind());
    NewValue::Block { kind, block: index.object(Box::new(Large::new(contents)), footprint) }
}

/// A large container with a copy of the contents, if the block is one.
pub(crate) fn copy_of(block: &Block, index: &AnyIndex) -> Option<NewValue<'static>> {
    Some(new_value(Large::of(block.lend())?.snapshot(), index))
}

/// The value for a packed form after these changes: the form itself, or an object if it has become too long.
pub(crate) fn value_of<T: Type>(
    held: Vec<u8>,
    changes: &[T::Change<'_>],
    options: &ContainerOptions,
    index: &AnyIndex,
) -> NewValue<'static> {
    if options.takes_objects && !T::packs(&held, changes, options) {
        let (head, _) = super::packed::Head::split(&held);
        let parts = T::unpack(&held, options).expect("the form was made by this process");
        return new_value(Contents { number: head.number, parts }, index);
    }
    NewValue::Bytes { kind: T::KIND, bytes: held.into() }
}

/// A long value that a walk shares with the store, and looks at when no session waits for it.
pub(crate) enum LongValue {
    Block(Block),
    /// A snapshot of a large container.
    Container(Contents),
}

impl LongValue {
    pub(crate) fn of(block: BlockRef<'_>) -> LongValue {
        match Large::of(block) {
            Some(large) => LongValue::Container(large.snapshot()),
            None => LongValue::Block(block.to_block()),
        }
    }
}
