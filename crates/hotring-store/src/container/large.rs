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

use super::{ContainerOptions, Contents, Type};

/// Maximum number of detached nodes freed within a change. More are freed in steps later, when no session waits.
const FREED_AT_ONCE: usize = 16;
/// Minimum bytes freed in one step.
pub(super) const FREE_STEP: usize = 1 << 20;

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

/// Detached parts of a container that are still to free.
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

/// Frees the parts that a change has detached; if there are many, adds the rest to `cut` to be freed in steps.
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

/// Frees detached parts in steps, like removed containers. They take about the given number of bytes.
pub(super) fn free_in_steps(cut: Option<(Remains, usize)>, index: &AnyIndex) {
    if let Some((cut, bytes)) = cut {
        drop(index.object(Box::new(Cut(cut)), bytes));
    }
}

/// Bytes after which a step of a scan ends, so that few long parts cost no more than many short ones.
const SCAN_BYTES: usize = 1 << 20;

/// The amount of parts that a step of a scan has visited.
#[derive(Default)]
pub(crate) struct Visited {
    parts: usize,
    bytes: usize,
}

impl Visited {
    pub(crate) fn add(&mut self, bytes: usize) {
        self.parts += 1;
        self.bytes += bytes;
    }
}

/// A step of a scan from a cursor on, over at least `count` parts. `leaf` shows the parts of a leaf, counts them, and
/// returns the begin of the next leaf. Returns the next cursor, 0 at the end.
pub(crate) fn scan(
    cursor: u64,
    count: usize,
    mut leaf: impl FnMut(u32, &mut Visited) -> Option<u32>,
) -> u64 {
    let Ok(mut from) = u32::try_from(cursor) else { return 0 };
    let mut visited = Visited::default();
    loop {
        match leaf(from, &mut visited) {
            None => return 0,
            Some(next) if visited.parts >= count || visited.bytes >= SCAN_BYTES => {
                return next.into();
            }
            Some(next) => from = next,
        }
    }
}

/// Joins the nodes of a container with its detached parts, for freeing.
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
