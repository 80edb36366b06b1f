//! Lists: elements by position, a [`Type`] of container.
//!
//! A short list has its elements one behind the other ([`crate::container::packed`]). A push or a pop at either end
//! copies the rest in one piece. A long list is [`Items`].

pub(crate) mod large;
mod packed;

use std::ops::Range;

use crate::container::packed::{Head, push, push_number, split, split_number};
use crate::container::{ContainerOptions, Parts, Type, Weight};
use crate::value::ValueRef;
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
    /// Where the first element is (LEFT).
    Front,
    /// Where the last one is (RIGHT).
    Back,
}

/// A change of a list. Positions are those before it. One that the list does not have is passed over: the log may
/// meet a younger list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change<'c> {
    /// Before the first element.
    Front(&'c [u8]),
    /// Behind the last one.
    Back(&'c [u8]),
    /// Before the element at a position.
    Insert(usize, &'c [u8]),
    /// In the place of the element at a position.
    Set(usize, &'c [u8]),
    /// Without these elements. Removals that follow each other go from back to front, so that one pass does them.
    Remove(Range<usize>),
}

/// The effect of changes on a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Elements that the list has then.
    pub(crate) len: usize,
    /// Elements that came, changed or went.
    pub(crate) done: usize,
}

/// The type.
pub(crate) enum List {}

/// Bytes that the length of an element takes at most.
pub(crate) const LEN_MAX: usize = 5;
/// Bytes that a change takes in the log at most, besides its element: its kind, and two numbers.
const CHANGE_MAX: usize = 21;
/// Bytes by which Redis's form of a short list is longer than ours, besides one for each element.
const HEAD_MORE: usize = 5;

const FRONT: u8 = 0;
const BACK: u8 = 1;
const INSERT: u8 = 2;
const SET: u8 = 3;
const REMOVE: u8 = 4;

impl Change<'_> {
    /// The length after the change, and the number of elements it touches. None if there is no such position.
    fn effect(&self, len: usize) -> Option<Tally> {
        let (len, done) = match self {
            Change::Front(_) | Change::Back(_) => (len + 1, 1),
            Change::Insert(at, _) if *at < len => (len + 1, 1),
            Change::Set(at, _) if *at < len => (len, 1),
            Change::Remove(range) if range.start < range.end.min(len) => {
                let gone = range.end.min(len) - range.start;
                (len - gone, gone)
            }
            _ => return None,
        };
        Some(Tally { len, done })
    }

    fn element(&self) -> &[u8] {
        match self {
            Change::Front(element)
            | Change::Back(element)
            | Change::Insert(_, element)
            | Change::Set(_, element) => element,
            Change::Remove(_) => &[],
        }
    }
}

/// The effect of changes on a list of this length.
fn tally(len: usize, changes: &[Change<'_>]) -> Tally {
    changes.iter().fold(Tally { len, done: 0 }, |tally, change| match change.effect(tally.len) {
        Some(effect) => Tally { len: effect.len, done: tally.done + effect.done },
        None => tally,
    })
}

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
        let items = Items::of(list);
        (items.len() == list.len()).then_some(Parts::List(items))
    }

    fn apply(items: &mut Items, changes: &[Change<'_>]) -> Tally {
        items.apply(changes)
    }

    fn emptied_by(items: &Items, changes: &[Change<'_>]) -> Option<Tally> {
        let tally = tally(items.len(), changes);
        (tally.len == 0).then_some(tally)
    }

    fn is_nothing(tally: Tally) -> bool {
        tally.done == 0
    }

    /// The kind; a position, or the first and the number of those that go; an element with its length.
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
        while let Some((tag, behind)) = bytes.split_first() {
            let (at, behind) = match *tag {
                INSERT | SET | REMOVE => split_number(behind)?,
                _ => (0, behind),
            };
            let at = usize::try_from(at).ok()?;
            if *tag == REMOVE {
                let (n, behind) = split_number(behind)?;
                changes.push(Change::Remove(at..at.checked_add(usize::try_from(n).ok()?)?));
                bytes = behind;
                continue;
            }
            let (element, behind) = split(behind)?;
            changes.push(match *tag {
                FRONT => Change::Front(element),
                BACK => Change::Back(element),
                INSERT => Change::Insert(at, element),
                SET => Change::Set(at, element),
                _ => return None,
            });
            bytes = behind;
        }
        Some(changes)
    }
}

impl<'a> ListRef<'a> {
    /// The list as it is held in one value; nothing of a large one.
    pub(crate) fn held(&self) -> &'a [u8] {
        match self.0 {
            Form::Packed(held) => held,
            Form::Large(_) => &[],
        }
    }

    /// Whether it is held as one value.
    pub fn is_packed(&self) -> bool {
        matches!(self.0, Form::Packed(_))
    }

    /// Bytes that it is held in.
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

    /// Whether it has no element, which no stored list is.
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

    /// The position that an index means: one below 0 counts from the end, -1 being the last. None if there is no
    /// such element.
    pub fn position(&self, index: i64) -> Option<usize> {
        let len = self.len();
        let at = match usize::try_from(index) {
            Ok(at) => Some(at),
            Err(_) => len.checked_sub(usize::try_from(index.unsigned_abs()).ok()?),
        };
        at.filter(|at| *at < len)
    }

    /// The positions from one index to another, both included, as far as there are elements.
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
