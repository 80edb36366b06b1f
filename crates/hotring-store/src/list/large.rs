//! The elements of a large list.

use hotring_containers::{List, Remains};

use super::change::{Change, Tally};
use crate::container::detached::{add_cut, with_cut};
use crate::container::packed::{Head, push};

/// The elements of a large list. Clone: O(1).
#[derive(Default)]
pub(crate) struct Items {
    list: List,
    /// Detached parts that were too many to be freed at once.
    cut: Option<Remains>,
}

impl Clone for Items {
    fn clone(&self) -> Items {
        Items { list: self.list.clone(), cut: None }
    }
}

impl std::fmt::Debug for Items {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Items").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl Items {
    /// Copies these elements.
    pub(crate) fn of<'a>(elements: impl Iterator<Item = &'a [u8]>) -> Items {
        let mut items = Items::default();
        elements.for_each(|element| items.list.push_back(element));
        items
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// Memory in bytes, which is an upper bound of the packed length.
    pub(crate) fn footprint(&self) -> usize {
        self.list.footprint()
    }

    pub(crate) fn get(&self, at: usize) -> Option<&[u8]> {
        self.list.get(at)
    }

    pub(crate) fn iter_from(&self, from: usize) -> impl Iterator<Item = &[u8]> {
        self.list.iter_from(from)
    }

    pub(crate) fn iter_back_from(&self, to: usize) -> impl Iterator<Item = &[u8]> {
        self.list.iter_back_from(to)
    }

    /// Applies changes in their order.
    pub(crate) fn apply(&mut self, changes: &[Change<'_>]) -> Tally {
        let mut done = 0;
        for change in changes {
            let Some(effect) = change.effect(self.len()) else { continue };
            done += effect.done;
            match change {
                Change::Front(element) => self.list.push_front(element),
                Change::Back(element) => self.list.push_back(element),
                Change::Insert(at, element) => self.list.insert(*at, element),
                Change::Set(at, element) => _ = self.list.set(*at, element),
                Change::Remove(range) => self.remove(range.start, effect.done),
            }
        }
        Tally { len: self.len(), done }
    }

    fn remove(&mut self, at: usize, n: usize) {
        let remains = self.list.remove(at..at + n);
        add_cut(&mut self.cut, remains);
    }

    /// Takes the detached parts, for the caller to free.
    pub(crate) fn take_cut(&mut self) -> Option<Remains> {
        self.cut.take()
    }

    /// Encodes the packed form.
    pub(crate) fn to_packed(&self, number: u64) -> Vec<u8> {
        let mut held = Head { number, count: self.len() }.begin(self.footprint());
        self.iter_from(0).for_each(|element| push(&mut held, element));
        held
    }

    /// Takes all nodes, for the caller to free, and leaves no elements.
    pub(crate) fn take_remains(&mut self) -> Remains {
        with_cut(std::mem::take(&mut self.list).into_remains(), &mut self.cut)
    }
}
