//! Lists: elements by position, a [`Type`] of container.
//!
//! A short list stores its elements in sequence ([`crate::container::packed`]); a push or pop at either end copies the
//! rest in one piece. A long list is an [`Items`].

pub(crate) mod change;
pub(crate) mod large;
mod packed;

use std::ops::Range;

use crate::container::packed::{Head, push, push_number, split, split_number};
use crate::container::{ContainerOptions, Parts, Type, Weight};
use crate::value::ValueRef;
use change::tally;
pub(crate) use change::{Change, LEN_MAX, Tally};
use large::Items;

/// A list, borrowed for the length of a closure.
#[derive(Clone, Copy, Debug)]
pub struct ListRef<'a>(Form<'a>);

#[derive(Clone, Copy, Debug)]
enum Form<'a> {
    Packed(&'a [u8]),
    Large(&'a Items),
}

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The end with the first element (LEFT).
    Front,
    /// The end with the last element (RIGHT).
    Back,
}

/// The type of lists.
pub(crate) enum List {}

/// Maximum overhead of a change in the log, in bytes: its kind, and two numbers.
const CHANGE_MAX: usize = 21;
/// Bytes by which Redis's form of a short list is longer than the packed form, in addition to one byte per element.
const HEAD_MORE: usize = 5;

const FRONT: u8 = 0;
const BACK: u8 = 1;
const INSERT: u8 = 2;
const SET: u8 = 3;
const REMOVE: u8 = 4;

impl Type for List {
    type Ref<'a> = ListRef<'a>;
    type Parts = Items;
    type Change<'c> = Change<'c>;
    type Tally = Tally;

    const KIND: u8 = 6;
    const KIND_LARGE: u8 = 7;

    fn packed(held: &[u8]) -> ListRef<'_> {
        ListRef(Form::Packed(held))
    }

    fn large(items: &Items) -> ListRef<'_> {
        ListRef(Form::Large(items))
    }

    fn of_value(value: ValueRef<'_>) -> Option<ListRef<'_>> {
        match value {
            ValueRef::List(list) => Some(list),
            _ => None,
        }
    }

    fn of_parts(parts: &Parts) -> Option<&Items> {
        match parts {
            Parts::List(items) => Some(items),
            _ => None,
        }
    }

    fn of_parts_mut(parts: &mut Parts) -> Option<&mut Items> {
        match parts {
            Parts::List(items) => Some(items),
            _ => None,
        }
    }

    fn packed_len_max(list: ListRef<'_>) -> usize {
        match list.0 {
            Form::Packed(held) => held.len(),
            Form::Large(items) => items.footprint(),
        }
    }

    fn weigh(change: &Change<'_>) -> Weight {
        let longest = change.element().len();
        Weight { longest, len: longest + CHANGE_MAX, grows: !matches!(change, Change::Remove(_)) }
    }

    fn changed(list: ListRef<'_>, changes: &[Change<'_>]) -> (Tally, Option<Vec<u8>>) {
        packed::changed(list.held(), changes)
    }

    fn packs(held: &[u8], _: &[Change<'_>], options: &ContainerOptions) -> bool {
        let count = Head::split(held).0.count;
        let len = held.len() + count + HEAD_MORE;
        count <= options.list.entries() && len <= options.list.len()
    }

    fn unpack(held: &[u8], _: &ContainerOptions) -> Option<Parts> {
        let list = List::packed(held);
        let items = Items::of(list.iter());
        (items.len() == list.len()).then_some(Parts::List(items))
    }

    fn apply(items: &mut Items, changes: &[Change<'_>]) -> Tally {
        items.apply(changes)
    }

    fn emptied_by(items: &Items, changes: &[Change<'_>]) -> Option<Tally> {
        let tally = tally(items.len(), changes);
        (tally.len == 0).then_some(tally)
    }

    fn had_no_effect(tally: Tally) -> bool {
        tally.done == 0
    }

    /// Encodes changes: the kind; a position, or the first position and the number of elements to remove; an element
    /// with its length.
    fn changes_to_bytes(changes: &[Change<'_>]) -> Vec<u8> {
        let len = |change: &Change<'_>| change.element().len() + 2 + LEN_MAX;
        let mut bytes = Vec::with_capacity(changes.iter().map(len).sum());
        for change in changes {
            match change {
                Change::Front(_) => bytes.push(FRONT),
                Change::Back(_) => bytes.push(BACK),
                Change::Insert(at, _) => {
                    bytes.push(INSERT);
                    push_number(&mut bytes, *at as u64);
                }
                Change::Set(at, _) => {
                    bytes.push(SET);
                    push_number(&mut bytes, *at as u64);
                }
                Change::Remove(range) => {
                    bytes.push(REMOVE);
                    push_number(&mut bytes, range.start as u64);
                    push_number(&mut bytes, range.len() as u64);
                    continue;
                }
            }
            push(&mut bytes, change.element());
        }
        bytes
    }

    fn changes_from_bytes(mut bytes: &[u8]) -> Option<Vec<Change<'_>>> {
        let mut changes = Vec::new();
        while let Some((tag, tail)) = bytes.split_first() {
            let (at, tail) = match *tag {
                INSERT | SET | REMOVE => split_number(tail)?,
                _ => (0, tail),
            };
            let at = usize::try_from(at).ok()?;
            if *tag == REMOVE {
                let (n, tail) = split_number(tail)?;
                changes.push(Change::Remove(at..at.checked_add(usize::try_from(n).ok()?)?));
                bytes = tail;
                continue;
            }
            let (element, tail) = split(tail)?;
            changes.push(match *tag {
                FRONT => Change::Front(element),
                BACK => Change::Back(element),
                INSERT => Change::Insert(at, element),
                SET => Change::Set(at, element),
                _ => return None,
            });
            bytes = tail;
        }
        Some(changes)
    }
}

impl<'a> ListRef<'a> {
    /// The packed form; empty for a large list.
    pub(crate) fn held(&self) -> &'a [u8] {
        match self.0 {
            Form::Packed(held) => held,
            Form::Large(_) => &[],
        }
    }

    /// Whether the list is packed, that is stored as one value.
    pub fn is_packed(&self) -> bool {
        matches!(self.0, Form::Packed(_))
    }

    /// Memory of the list, in bytes.
    pub fn footprint(&self) -> usize {
        match self.0 {
            Form::Packed(held) => held.len(),
            Form::Large(items) => items.footprint(),
        }
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        match self.0 {
            Form::Packed(held) => Head::split(held).0.count,
            Form::Large(items) => items.len(),
        }
    }

    /// Whether the list has no element, which is never true of a stored list.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The element at a position.
    pub fn get(&self, at: usize) -> Option<&'a [u8]> {
        match self.0 {
            Form::Packed(held) => packed::from(held, at).next(),
            Form::Large(items) => items.get(at),
        }
    }

    /// All elements from a position on. For a long walk use
    /// [`Session::list_walk`](crate::Session::list_walk).
    pub fn iter_from(&self, from: usize) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let (held, large) = match self.0 {
            Form::Packed(held) => (held, None),
            Form::Large(items) => (&[][..], Some(items.iter_from(from))),
        };
        packed::from(held, from).chain(large.into_iter().flatten())
    }

    /// All elements.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.iter_from(0)
    }

    /// All elements before a position, the nearest first.
    pub fn iter_back_from(&self, to: usize) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let (held, large) = match self.0 {
            Form::Packed(held) => (held, None),
            Form::Large(items) => (&[][..], Some(items.iter_back_from(to))),
        };
        let all: Vec<&[u8]> = packed::from(held, 0).take(to).collect();
        all.into_iter().rev().chain(large.into_iter().flatten())
    }

    /// The position of an index: a negative index counts from the end, -1 is the last element. None if there is no such
    /// element.
    pub fn position(&self, index: i64) -> Option<usize> {
        let len = self.len();
        let at = match usize::try_from(index) {
            Ok(at) => Some(at),
            Err(_) => len.checked_sub(usize::try_from(index.unsigned_abs()).ok()?),
        };
        at.filter(|at| *at < len)
    }

    /// The positions from one index to another, both included, cut to the existing elements.
    pub fn range(&self, start: i64, stop: i64) -> Range<usize> {
        let len = self.len() as i64;
        let resolve = |index: i64| if index < 0 { index.saturating_add(len) } else { index };
        let start = resolve(start).max(0);
        let end = resolve(stop).min(len - 1) + 1;
        if start >= end { 0..0 } else { start as usize..end as usize }
    }
}

#[cfg(test)]
mod tests;
