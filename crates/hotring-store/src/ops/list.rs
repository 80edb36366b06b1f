//! Operations on lists: single-key reads and writes, and the move of an element between lists, which holds both keys. A
//! key without elements is absent. The expiry stays.

use hotring_index::Key;

use crate::changes::{Change as Recorded, Changed, Step};
use crate::container::packed::{Head, push, split};
use crate::container::{Changes, Decision};
use crate::error::StoreError;
use crate::list::{self, Change, End, List, ListRef, Tally};
use crate::ops::reply_capacity::ReplyCapacity;
use crate::session::Session;

/// Elements of a list: the contents of a new list, or the elements that an operation has removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Elements {
    /// The elements, each with its length.
    held: Vec<u8>,
    len: usize,
}

impl Elements {
    /// Adds an element after the others.
    pub fn add(&mut self, element: &[u8]) {
        push(&mut self.held, element);
        self.len += 1;
    }

    /// Encodes a list of these elements; None if there are none.
    pub(crate) fn into_list(self) -> Option<Vec<u8>> {
        let mut held = Head { number: 1, count: self.len }.begin(self.held.len());
        held.extend_from_slice(&self.held);
        (self.len > 0).then_some(held)
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The elements, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &self.held[..];
        std::iter::from_fn(move || {
            let (element, tail) = split(rest)?;
            rest = tail;
            Some(element)
        })
    }

    /// The first element.
    pub fn first(&self) -> Option<&[u8]> {
        self.iter().next()
    }
}

impl Session {
    /// Calls `f` with the list. Writers wait meanwhile, so `f` must be short. None if the key is absent.
    ///
    /// # Errors
    /// [`StoreError::WrongType`]
    pub fn list<'k, R>(
        &mut self,
        key: impl Into<Key<'k>>,
        now: u64,
        f: impl FnOnce(ListRef<'_>) -> R,
    ) -> Result<Option<R>, StoreError> {
        self.read_container::<List, R>(key, now, f)
    }

    /// Like [`list`](Self::list), for a walk over much of it: writers of a large list do not wait for `f`.
    ///
    /// # Errors
    /// Those of [`list`](Self::list).
    pub fn list_walk<'k, R>(
        &mut self,
        key: impl Into<Key<'k>>,
        now: u64,
        f: impl FnOnce(ListRef<'_>) -> R,
    ) -> Result<Option<R>, StoreError> {
        self.walk_container::<List, R>(key, now, f)
    }

    /// Adds elements at an end, one after the other, and returns the new length; 0, and does nothing, if `must_exist`
    /// is set and the key is absent.
    ///
    /// # Errors
    /// [`StoreError::WrongType`], [`StoreError::ValueTooLong`] if an element or the list would be too long, and those
    /// of every write.
    pub fn list_push<'k>(
        &mut self,
        key: impl Into<Key<'k>>,
        end: End,
        elements: &[&[u8]],
        must_exist: bool,
        now: u64,
    ) -> Result<usize, StoreError> {
        self.admit_bytes(elements.iter().map(|element| element.len()).sum())?;
        let push_one;
        let push_all: Vec<Change<'_>>;
        let changes = match elements {
            [element] => {
                push_one = [pushed(end, element)];
                &push_one[..]
            }
            elements => {
                push_all = elements.iter().map(|element| pushed(end, element)).collect();
                &push_all
            }
        };
        let (tally, ()) = self.update_list(key, now, |list| {
            let is_done = !must_exist || !list.is_empty();
            Ok((Changes::Given(if is_done { changes } else { &[] }), ()))
        })?;
        self.note_step(Step::Pushed(end));
        Ok(tally.len)
    }

    /// Removes up to `count` elements from an end and returns them, the outermost first. None if the key is absent.
    /// Removes the key with its last element.
    ///
    /// # Errors
    /// [`StoreError::WrongType`]; [`StoreError::ValuesTooLong`], and nothing is removed, if several elements do not fit
    /// `room`; and those of writes that take no memory.
    pub fn list_pop<'k>(
        &mut self,
        key: impl Into<Key<'k>>,
        end: End,
        (count, capacity): (usize, ReplyCapacity),
        now: u64,
    ) -> Result<Option<Elements>, StoreError> {
        let (_, elements) = self.shrink_list(key, now, |list| {
            let len = list.len();
            if len == 0 {
                return Ok((Changes::NONE, None));
            }
            let n = count.min(len);
            let range = match end {
                End::Front => 0..n,
                End::Back => len - n..len,
            };
            let (mut elements, mut capacity_left) = (Elements::default(), capacity.for_parts(n));
            if let (1, Some(element)) = (n, list.get(range.start)) {
                elements.held.reserve_exact(element.len() + list::LEN_MAX);
                elements.add(element);
                return Ok((Changes::One(Change::Remove(range)), Some(elements)));
            }
            let mut add = |element: &[u8]| {
                capacity_left.add(element)?;
                elements.add(element);
                Ok::<_, StoreError>(())
            };
            match end {
                End::Back => list.iter_back_from(len).take(n).try_for_each(&mut add)?,
                End::Front => list.iter_from(range.start).take(n).try_for_each(&mut add)?,
            }
            Ok(((n > 0).then_some(Change::Remove(range)).into(), Some(elements)))
        })?;
        self.note_step(Step::Popped(end));
        Ok(elements)
    }

    /// Removes elements like [`list_pop`](Self::list_pop), from the first of these keys that has a list, in one step to
    /// every observer. Also returns the position of that key.
    ///
    /// # Errors
    /// Those of [`list_pop`](Self::list_pop).
    pub fn list_pop_first(
        &mut self,
        keys: &[&[u8]],
        end: End,
        limits: (usize, ReplyCapacity),
        now: u64,
    ) -> Result<Option<(usize, Elements)>, StoreError> {
        let pop = |session: &mut Session| {
            for (i, key) in keys.iter().enumerate() {
                if let Some(elements) = session.list_pop(key, end, limits, now)? {
                    return Ok(Some((i, elements)));
                }
            }
            Ok(None)
        };
        match keys {
            [_] => pop(self),
            keys => self.hold_keys(keys.iter().copied(), pop),
        }
    }

    /// Replaces the element at an index. None if the key is absent, false if there is no such element.
    ///
    /// # Errors
    /// Those of [`list_push`](Self::list_push).
    pub fn list_set(
        &mut self,
        key: &[u8],
        index: i64,
        element: &[u8],
        now: u64,
    ) -> Result<Option<bool>, StoreError> {
        self.admit_bytes(element.len())?;
        let (_, done) = self.update_list(key, now, |list| {
            let at = list.position(index);
            let change = at.map(|at| Change::Set(at, element));
            Ok((change.into(), (!list.is_empty()).then_some(at.is_some())))
        })?;
        Ok(done)
    }

    /// Inserts an element before or after the first one that equals `pivot`, and returns the new length. None if the
    /// key is absent, 0 if there is no such element.
    ///
    /// # Errors
    /// Those of [`list_push`](Self::list_push).
    pub fn list_insert(
        &mut self,
        key: &[u8],
        is_before: bool,
        pivot: &[u8],
        element: &[u8],
        now: u64,
    ) -> Result<Option<usize>, StoreError> {
        self.admit_bytes(element.len())?;
        let (tally, done) = self.update_list(key, now, |list| {
            let at = list.iter().position(|other| other == pivot);
            let change = at.map(|at| match at + usize::from(!is_before) {
                at if at == list.len() => Change::Back(element),
                at => Change::Insert(at, element),
            });
            Ok((change.into(), (!list.is_empty()).then_some(at.is_some())))
        })?;
        Ok(done.map(|done| if done { tally.len } else { 0 }))
    }

    /// Removes up to `count` elements that equal this one, from the front on; all if `count` is 0; from the back on if
    /// it is negative. Returns the number of removed elements.
    ///
    /// # Errors
    /// [`StoreError::WrongType`], and those of writes that take no memory.
    pub fn list_remove(
        &mut self,
        key: &[u8],
        count: i64,
        element: &[u8],
        now: u64,
    ) -> Result<usize, StoreError> {
        let most = match usize::try_from(count.unsigned_abs()) {
            Ok(0) | Err(_) => usize::MAX,
            Ok(most) => most,
        };
        let (tally, ()) = self.shrink_list(key, now, |list| {
            let len = list.len();
            let is_it = |(at, other): (usize, &[u8])| (other == element).then_some(at);
            let mut positions: Vec<usize> = if count < 0 {
                let back = list.iter_back_from(len).enumerate();
                back.filter_map(|(i, other)| is_it((len - 1 - i, other))).take(most).collect()
            } else {
                list.iter().enumerate().filter_map(is_it).take(most).collect()
            };
            if count >= 0 {
                positions.reverse();
            }
            Ok((Changes::Many(removals(&positions)), ()))
        })?;
        Ok(tally.done)
    }

    /// Removes all elements except those from one index to another, both included. False if the key is absent.
    ///
    /// # Errors
    /// [`StoreError::WrongType`], and those of writes that take no memory.
    pub fn list_trim(
        &mut self,
        key: &[u8],
        start: i64,
        stop: i64,
        now: u64,
    ) -> Result<bool, StoreError> {
        let (tally, is_present) = self.shrink_list(key, now, |list| {
            let (kept, len) = (list.range(start, stop), list.len());
            let around = [kept.end..len, 0..kept.start];
            let removes = around.into_iter().filter(|range| !range.is_empty());
            Ok((Changes::Many(removes.map(Change::Remove).collect()), len > 0))
        })?;
        if let Some(changes) = self.changes.as_mut().filter(|_| is_present && tally.done == 0) {
            // Redis reports a change even if nothing was to be removed.
            let kind = Changed::Stored { is_new: false, expires: false };
            changes.push(Recorded {
                database_id: self.database_id,
                key: key.into(),
                kind,
                step: None,
            });
        }
        Ok(is_present)
    }

    /// Moves the element at an end of `from` to an end of `to`, which may be the same key, in one step to every
    /// observer. Returns the element; None if `from` is absent.
    ///
    /// # Errors
    /// Those of [`list_push`](Self::list_push), for either key; then nothing is moved.
    pub fn list_move(
        &mut self,
        from: &[u8],
        to: &[u8],
        (from_end, to_end): (End, End),
        now: u64,
    ) -> Result<Option<Elements>, StoreError> {
        self.check_key(to)?;
        self.admit()?;
        self.hold_keys([from, to], |session| {
            let damages = session.damages();
            let taken = session.list(from, now, |list| {
                let at = outermost(list, from_end)?;
                Some((at, one(list, at)?))
            })?;
            let Some((at, element)) = taken.flatten() else { return Ok(None) };
            let pushed = pushed(to_end, element.first().unwrap_or_default());
            let removed = Change::Remove(at..at + 1);
            if from == to {
                let changes = [removed, pushed];
                session.change_list(from, now, &changes)?;
                session.note_step(Step::Moved { from: from_end, to: to_end });
            } else {
                // The step that may fail comes first.
                session.change_list(to, now, &[pushed])?;
                if session.damages() != damages {
                    // The element was not added, so it must not be removed.
                    return Ok(None);
                }
                session.note_step(Step::Pushed(to_end));
                session.change_list(from, now, &[removed])?;
                session.note_step(Step::Popped(from_end));
            }
            Ok(Some(element))
        })
    }

    /// Adds a detail to the last change, if the origin records changes.
    pub(crate) fn note_step(&mut self, step: Step) {
        if let Some(change) = self.changes.as_mut().and_then(|changes| changes.last_mut()) {
            // The last change may be an expiry or an eviction, if nothing else was done.
            if matches!(change.kind, Changed::Stored { .. } | Changed::Removed) {
                change.step.get_or_insert(step);
            }
        }
    }

    fn update_list<'k, 'c, R>(
        &mut self,
        key: impl Into<Key<'k>>,
        now: u64,
        decide: impl FnMut(ListRef<'_>) -> Decision<'c, List, R>,
    ) -> Result<(Tally, R), StoreError> {
        self.update_container::<List, R>(key, now, decide)
    }

    /// Like [`update_list`](Self::update_list), for changes that shorten the list: the shorter list takes less memory.
    fn shrink_list<'k, 'c, R>(
        &mut self,
        key: impl Into<Key<'k>>,
        now: u64,
        decide: impl FnMut(ListRef<'_>) -> Decision<'c, List, R>,
    ) -> Result<(Tally, R), StoreError> {
        let key = key.into();
        self.check_key(key.bytes())?;
        self.admit_little()?;
        self.change_container::<List, R>(key, now, decide)
    }

    fn change_list(
        &mut self,
        key: &[u8],
        now: u64,
        changes: &[Change<'_>],
    ) -> Result<(), StoreError> {
        self.change_container::<List, _>(key, now, |_| Ok((Changes::Given(changes), ())))?;
        Ok(())
    }
}

fn pushed(end: End, element: &[u8]) -> Change<'_> {
    match end {
        End::Front => Change::Front(element),
        End::Back => Change::Back(element),
    }
}

/// The position of the element at an end.
fn outermost(list: ListRef<'_>, end: End) -> Option<usize> {
    let last = list.len().checked_sub(1)?;
    Some(if end == End::Front { 0 } else { last })
}

fn one(list: ListRef<'_>, at: usize) -> Option<Elements> {
    let mut elements = Elements::default();
    elements.add(list.get(at)?);
    Some(elements)
}

/// Removals of these positions, which must be given from the last to the first. Joins neighbours.
fn removals<'c>(positions: &[usize]) -> Vec<Change<'c>> {
    let mut changes: Vec<Change<'c>> = Vec::new();
    for at in positions {
        match changes.last_mut() {
            Some(Change::Remove(range)) if range.start == at + 1 => range.start = *at,
            _ => changes.push(Change::Remove(*at..at + 1)),
        }
    }
    changes
}
