//! Sets: members, a [`Type`] of container.
//!
//! A short set is packed into one value (see `packed.rs`): sorted integers, or members in order of insertion. A long
//! set is a [`Members`].

pub(crate) mod build;
pub(crate) mod change;
pub(crate) mod large;
mod packed;

use crate::container::packed::{Head, push_number, split_number};
use crate::container::{ContainerOptions, Parts, Type, Weight};
use crate::value::ValueRef;
use change::LEN_MAX;
pub use change::Member;
pub(crate) use change::{Change, Tally};
use large::Members;
use packed::Body;

/// A set, borrowed for the length of a closure.
#[derive(Clone, Copy, Debug)]
pub struct SetRef<'a>(Form<'a>);

#[derive(Clone, Copy, Debug)]
enum Form<'a> {
    Packed(&'a [u8]),
    Large(&'a Members),
}

/// The form in which a set is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetForm {
    /// One value: sorted integers.
    Ints,
    /// One value: members in order of insertion.
    List,
    /// An object with a hash table of the members.
    Table,
}

/// The type of sets.
pub(crate) enum Set {}

impl Type for Set {
    type Ref<'a> = SetRef<'a>;
    type Parts = Members;
    type Change<'c> = Change<'c>;
    type Tally = Tally;

    const KIND: u8 = 8;
    const KIND_LARGE: u8 = 9;

    fn packed(held: &[u8]) -> SetRef<'_> {
        SetRef(Form::Packed(held))
    }

    fn large(members: &Members) -> SetRef<'_> {
        SetRef(Form::Large(members))
    }

    fn of_value(value: ValueRef<'_>) -> Option<SetRef<'_>> {
        match value {
            ValueRef::Set(set) => Some(set),
            _ => None,
        }
    }

    fn of_parts(parts: &Parts) -> Option<&Members> {
        match parts {
            Parts::Set(members) => Some(members),
            _ => None,
        }
    }

    fn of_parts_mut(parts: &mut Parts) -> Option<&mut Members> {
        match parts {
            Parts::Set(members) => Some(members),
            _ => None,
        }
    }

    fn packed_len_max(set: SetRef<'_>) -> usize {
        match set.0 {
            Form::Packed(held) => packed::len_max(held),
            Form::Large(members) => members.len_of_all() + LEN_MAX * members.len(),
        }
    }

    fn weigh(change: &Change<'_>) -> Weight {
        let len = change.member.len();
        // Removed members were within the limits when they were added.
        let longest = if change.adds { len } else { 0 };
        Weight { longest, len: len + LEN_MAX + 1, grows: change.adds }
    }

    fn changed(set: SetRef<'_>, changes: &[Change<'_>]) -> (Tally, Option<Vec<u8>>) {
        packed::changed(set.held(), changes)
    }

    fn packs(held: &[u8], changes: &[Change<'_>], options: &ContainerOptions) -> bool {
        let count = Head::split(held).0.count;
        if Body::of(held).is_ints() {
            return count <= options.set_ints.entries();
        }
        let len_max = options.set.len();
        count <= options.set.entries()
            && changes.iter().all(|change| !change.adds || change.member.len() <= len_max)
    }

    fn unpack(held: &[u8], options: &ContainerOptions) -> Option<Parts> {
        let set = Set::packed(held);
        let mut members = Members::new(options.keys);
        set.iter().for_each(|member| _ = member.with_bytes(|member| members.add(member)));
        (members.len() == set.len()).then_some(Parts::Set(members))
    }

    fn apply(members: &mut Members, changes: &[Change<'_>]) -> Tally {
        members.apply(changes)
    }

    fn emptied_by(members: &Members, changes: &[Change<'_>]) -> Option<Tally> {
        members.emptied_by(changes)
    }

    fn had_no_effect(tally: Tally) -> bool {
        tally.added + tally.removed == 0
    }

    /// Encodes changes: twice the length of the member, plus 1 if it is added; the member.
    fn changes_to_bytes(changes: &[Change<'_>]) -> Vec<u8> {
        let mut bytes =
            Vec::with_capacity(changes.iter().map(|change| Set::weigh(change).len).sum());
        for change in changes {
            push_number(&mut bytes, change.member.len() as u64 * 2 + u64::from(change.adds));
            bytes.extend_from_slice(&change.member);
        }
        bytes
    }

    fn changes_from_bytes(mut bytes: &[u8]) -> Option<Vec<Change<'_>>> {
        let mut changes = Vec::new();
        while !bytes.is_empty() {
            let (number, tail) = split_number(bytes)?;
            let (member, tail) = tail.split_at_checked(usize::try_from(number / 2).ok()?)?;
            changes.push(Change { member: member.into(), adds: number % 2 == 1 });
            bytes = tail;
        }
        Some(changes)
    }
}

impl<'a> SetRef<'a> {
    /// The packed form; empty for a large set.
    pub(crate) fn held(&self) -> &'a [u8] {
        match self.0 {
            Form::Packed(held) => held,
            Form::Large(_) => &[],
        }
    }

    /// The form in which the set is stored.
    pub fn form(&self) -> SetForm {
        match self.0 {
            Form::Packed(held) if Body::of(held).is_ints() => SetForm::Ints,
            Form::Packed(_) => SetForm::List,
            Form::Large(_) => SetForm::Table,
        }
    }

    /// Memory of the set, in bytes.
    pub fn footprint(&self) -> usize {
        match self.0 {
            Form::Packed(held) => held.len(),
            Form::Large(members) => members.footprint(),
        }
    }

    /// Number of members.
    pub fn len(&self) -> usize {
        match self.0 {
            Form::Packed(held) => Head::split(held).0.count,
            Form::Large(members) => members.len(),
        }
    }

    /// Number of members that a walk shows, even if the count of a packed set is damaged.
    pub fn count(&self) -> usize {
        match self.0 {
            Form::Packed(held) => Body::of(held).count(),
            Form::Large(members) => members.len(),
        }
    }

    /// Whether the set has no member, which is never true of a stored set.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The members: sorted integers, the members of a list in order of insertion, or those of a large set in order of
    /// their hashes.
    pub fn iter(&self) -> impl Iterator<Item = Member<'a>> + use<'a> {
        let (packed, large) = match self.0 {
            Form::Packed(held) => (Some(Body::of(held).iter()), None),
            Form::Large(members) => (None, Some(members.iter().map(Member::Bytes))),
        };
        packed.into_iter().flatten().chain(large.into_iter().flatten())
    }

    /// Whether the set contains this member.
    pub fn contains(&self, member: &[u8]) -> bool {
        match self.0 {
            Form::Packed(held) => Body::of(held).contains(member),
            Form::Large(members) => members.contains(member),
        }
    }

    /// Calls `f` with each member that all `others` have, too, until `f` returns false; and `step` for each member.
    /// False if a set is packed: then it calls neither.
    pub(crate) fn intersect_large(
        &self,
        others: &[SetRef<'a>],
        step: impl FnMut(),
        f: impl FnMut(&[u8]) -> bool,
    ) -> bool {
        let large = |set: &SetRef<'a>| match set.0 {
            Form::Packed(_) => None,
            Form::Large(members) => Some(members),
        };
        let Some(members) = large(self) else { return false };
        let Some(others) = others.iter().map(large).collect::<Option<Vec<_>>>() else {
            return false;
        };
        members.intersect(&others, step, f);
        true
    }

    /// The member at a rank in the order of a walk. None past the end. O(log n) for a large set.
    pub fn of_rank(&self, rank: usize) -> Option<Member<'a>> {
        match self.0 {
            Form::Packed(held) => Body::of(held).of_rank(rank),
            Form::Large(members) => members.of_rank(rank).map(Member::Bytes),
        }
    }

    /// Calls `f` with about `count` members from a cursor on, and returns the next cursor, 0 at the end. Begin with 0.
    /// Visits every member that exists from the first call to the last. A packed set is shown in full.
    pub fn scan(&self, cursor: u64, count: usize, mut f: impl FnMut(Member<'a>)) -> u64 {
        match self.0 {
            Form::Packed(held) => {
                Body::of(held).iter().for_each(f);
                0
            }
            Form::Large(members) => members.scan(cursor, count, |member| f(Member::Bytes(member))),
        }
    }

    /// Whether a lookup of a member walks over many members.
    pub(crate) fn is_long_list(&self) -> bool {
        /// Number of members up to which a walk costs about as much as an index.
        const WALK_MAX: usize = 32;
        self.form() == SetForm::List && self.len() > WALK_MAX
    }
}

#[cfg(test)]
mod tests;
