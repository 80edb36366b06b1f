//! Large containers: objects that are changed in place.
//!
//! An item has a share of the object in the place of its value ([`hotring_index::Object`]). Readers and the one writer
//! exclude each other by [`Shared`]. The key's order lock ([`crate::logged`]) decides which writer is next, so that a
//! change, its record in the log, and the removal of a container that has lost its last part are one step to other
//! writers.
//!
//! A clone of [`Contents`] takes O(1) and stays as it is: walks over all parts and snapshots use one.

use std::any::Any;
use std::cell::RefCell;
use std::sync::{Arc, LazyLock};

use hotring_containers::Remains;
use hotring_index::{
    AnyIndex, Block, BlockRef, Entry, NewValue, Object, Shared, Visitor, Visitors,
};

use super::{ContainerOptions, Contents, Type};

/// Cut-off nodes freed at once. More are freed in steps, while no one waits.
const FREED_AT_ONCE: usize = 16;
/// Bytes that are freed in one step, at least.
pub(super) const FREE_STEP: usize = 1 << 20;

/// All threads that look at large containers, of whatever store.
static VISITORS: LazyLock<Arc<Visitors>> = LazyLock::new(Visitors::new);

thread_local! {
    static VISITOR: RefCell<Visitor> = RefCell::new(VISITORS.visitor());
}

/// The object that items share.
pub(crate) struct Large {
    contents: Shared<Contents>,
    /// The remains to free, once it has gone.
    remains: Option<Remains>,
}

impl Large {
    pub(super) fn new(contents: Contents) -> Large {
        Large { contents: Shared::new(&VISITORS, contents), remains: None }
    }

    /// The large container that a block stands for.
    pub(crate) fn of(block: BlockRef<'_>) -> Option<&Large> {
        let object: &dyn Any = block.object()?;
        object.downcast_ref()
    }

    /// Reads it; a writer waits for `f`.
    pub(crate) fn read<R>(&self, f: impl FnOnce(&Contents) -> R) -> R {
        VISITOR.with_borrow_mut(|visitor| self.contents.read(visitor, f))
    }

    /// Changes it. The caller has the key's order lock.
    pub(crate) fn write<R>(&self, f: impl FnOnce(&mut Contents) -> R) -> R {
        self.update(|_| Ok(()), |contents, ()| f(contents))
    }

    /// The same for the changes that `decide` finds; readers do not wait for it. An `Err` changes nothing.
    pub(crate) fn update<D, R>(
        &self,
        decide: impl FnOnce(&Contents) -> Result<D, R>,
        change: impl FnOnce(&mut Contents, D) -> R,
    ) -> R {
        VISITOR.with_borrow_mut(|visitor| self.contents.update(visitor, decide, change))
    }

    /// The container as it is now, to be used for as long as one wants.
    pub(crate) fn snapshot(&self) -> Contents {
        self.read(Contents::clone)
    }

    /// Whether another block stands for the same object.
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

/// Parts that changes have cut off a container.
pub(super) struct Cut(pub(super) Remains);

impl Object for Cut {
    fn dismantle(&mut self) -> Option<usize> {
        free_some(&mut self.0)
    }
}

fn free_some(remains: &mut Remains) -> Option<usize> {
    let mut freed = remains.free(1)?;
    while freed < FREE_STEP
        && let Some(more) = remains.free(1)
    {
        freed += more;
    }
    Some(freed)
}

/// Frees the parts that a change has cut off; large ones join the remains to be freed in steps.
pub(crate) fn add_cut(cut: &mut Option<Remains>, mut remains: Remains) {
    for _ in 0..FREED_AT_ONCE {
        if remains.free(1).is_none() {
            return;
        }
    }
    *cut = Some(match cut.take() {
        Some(cut) => cut.and(remains),
        None => remains,
    });
}

/// Frees a container's lost parts in steps, as removed containers are: they take about that many bytes.
pub(super) fn free_in_steps(cut: Option<(Remains, usize)>, index: &AnyIndex) {
    if let Some((cut, bytes)) = cut {
        drop(index.object(Box::new(Cut(cut)), bytes));
    }
}

/// Bytes after which a step of a scan ends: few long parts are as much as many short ones.
const SCAN_BYTES: usize = 1 << 20;

/// The parts that a step of a scan has met.
#[derive(Default)]
pub(crate) struct Met {
    parts: usize,
    bytes: usize,
}

impl Met {
    pub(crate) fn add(&mut self, bytes: usize) {
        self.parts += 1;
        self.bytes += bytes;
    }
}

/// A step of a scan, from a cursor on, over at least `count` parts. `leaf` shows the parts of a leaf, counts them, and
/// returns where the next one begins. Returns the next cursor, 0 at the end.
pub(crate) fn scan(
    cursor: u64,
    count: usize,
    mut leaf: impl FnMut(u32, &mut Met) -> Option<u32>,
) -> u64 {
    let Ok(mut from) = u32::try_from(cursor) else { return 0 };
    let mut met = Met::default();
    loop {
        match leaf(from, &mut met) {
            None => return 0,
            Some(next) if met.parts >= count || met.bytes >= SCAN_BYTES => return next.into(),
            Some(next) => from = next,
        }
    }
}

/// What a container leaves behind, with the parts that changes have cut off.
pub(crate) fn with_cut(remains: Remains, cut: &mut Option<Remains>) -> Remains {
    match cut.take() {
        Some(cut) => remains.and(cut),
        None => remains,
    }
}

/// The large container of an entry, if it has one.
pub(crate) fn of_entry<'a>(entry: &Entry<'a>) -> Option<&'a Large> {
    Large::of(entry.block()?)
}

/// A value that is a large container with these contents.
pub(crate) fn new_value(contents: Contents, index: &AnyIndex) -> NewValue<'static> {
    let (footprint, kind) = (contents.parts.footprint(), contents.parts.kind());
    NewValue::Block { kind, block: index.object(Box::new(Large::new(contents)), footprint) }
}

/// Another value with the same contents, if the block is that of a large container.
pub(crate) fn copy_of(block: &Block, index: &AnyIndex) -> Option<NewValue<'static>> {
    Some(new_value(Large::of(block.lend())?.snapshot(), index))
}

/// The value of a packed form that these changes led to: as it is, or an object if it has become too long.
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
