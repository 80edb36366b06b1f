//! Operations on sets: reads and writes of one set, and operations on several sets at one moment. A key without members
//! is absent. The expiry stays, except for stored results.

use std::collections::{HashMap, HashSet};

use hotring_index::AnySession as Index;
use hotring_index::{Action, Block, Entry, Expiry, Key, NewValue};

use crate::changes::Step;
use crate::container::write::check_len;
use crate::container::{Changes, Type, is_present, large, view_container};
use crate::error::StoreError;
use crate::gathered::{PREFETCH_KEYS, no_keys, prefetched};
use crate::ops::reply_capacity::ReplyCapacity;
use crate::session::Session;
use crate::set::build::Builder;
use crate::set::large::Members;
use crate::set::{Change, Member, Set, SetForm, SetRef};
use crate::value::{len_of, reborrow};

/// If more than one in `WALK_FROM` members is chosen, a walk over all of them is faster than a lookup of each.
const WALK_FROM: usize = 16;

/// A snapshot of a set, which never changes and can be kept. A large set is shared, not copied.
#[derive(Debug, Default)]
pub struct SetSnapshot(Held);

#[derive(Debug, Default)]
enum Held {
    /// The key is absent.
    #[default]
    Absent,
    Copied(Vec<u8>),
    Shared(Block),
    Large(Members),
}

/// An operation on several sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetOperation {
    /// The members that all sets have.
    Intersection,
    /// The members that any set has.
    Union,
    /// The members of the first set that no other set has.
    Difference,
}

impl SetSnapshot {
    pub(crate) fn of(entry: &Entry<'_>, now: u64) -> Result<SetSnapshot, StoreError> {
        if !is_present(entry, now) {
            return Ok(SetSnapshot::default());
        }
        if let Some(large) = large::of_entry(entry) {
            let members = large.read(|contents| Set::of_parts(&contents.parts).cloned());
            return members
                .map(|members| SetSnapshot(Held::Large(members)))
                .ok_or(StoreError::WrongType);
        }
        view_container::<Set, _>(entry, |set| {
            let shared = entry.block().and_then(|block| block.to_block().part(set.held()));
            SetSnapshot(shared.map_or_else(|| Held::Copied(set.held().to_vec()), Held::Shared))
        })
    }

    /// The set; an empty one if the key is absent.
    pub fn view(&self) -> SetRef<'_> {
        match &self.0 {
            Held::Absent => Set::packed(&[]),
            Held::Copied(held) => Set::packed(held),
            Held::Shared(block) => Set::packed(block),
            Held::Large(members) => Set::large(members),
        }
    }

    /// Whether the key is present.
    pub fn is_present(&self) -> bool {
        !matches!(self.0, Held::Absent)
    }
}

/// A set prepared for many membership tests.
#[derive(Debug)]
pub(crate) struct MemberTest<'a> {
    set: SetRef<'a>,
    /// An index of the members of a long list.
    members: Option<HashSet<&'a [u8]>>,
}

impl<'a> MemberTest<'a> {
    pub(crate) fn new(set: SetRef<'a>) -> MemberTest<'a> {
        let bytes = |member| match member {
            Member::Bytes(bytes) => Some(bytes),
            Member::Int(_) => None,
        };
        let members = set.is_long_list().then(|| set.iter().filter_map(bytes).collect());
        MemberTest { set, members }
    }

    pub(crate) fn contains(&self, member: &[u8]) -> bool {
        match &self.members {
            Some(members) => members.contains(member),
            None => self.set.contains(member),
        }
    }
}

impl SetOperation {
    /// Calls `f` once with each member of the result, until it returns false; and `step` for each member that is
    /// visited.
    pub fn run(
        self,
        sets: &[SetSnapshot],
        mut step: impl FnMut(),
        mut f: impl FnMut(&[u8]) -> bool,
    ) {
        let sets = sets.iter().map(SetSnapshot::view);
        match self {
            SetOperation::Intersection => intersect(sets.collect(), step, f),
            SetOperation::Union => {
                let mut before: Vec<MemberTest<'_>> = Vec::new();
                for set in sets {
                    let is_new = |member: &[u8]| !before.iter().any(|set| set.contains(member));
                    if !each(set, &mut step, |member| !is_new(member) || f(member)) {
                        return;
                    }
                    before.push(MemberTest::new(set));
                }
            }
            SetOperation::Difference => {
                let mut sets = sets;
                let Some(first) = sets.next() else { return };
                if first.is_empty() {
                    return;
                }
                let others: Vec<_> = sets.map(MemberTest::new).collect();
                let is_other = |member: &[u8]| others.iter().any(|set| set.contains(member));
                each(first, step, |member| is_other(member) || f(member));
            }
        }
    }
}

/// Walks over the smallest set, to minimize the lookups in the others.
fn intersect(mut sets: Vec<SetRef<'_>>, mut step: impl FnMut(), mut f: impl FnMut(&[u8]) -> bool) {
    sets.sort_by_key(SetRef::len);
    let Some((smallest, others)) = sets.split_first() else { return };
    if smallest.is_empty() || smallest.intersect_large(others, &mut step, &mut f) {
        return;
    }
    let others: Vec<_> = others.iter().map(|set| MemberTest::new(*set)).collect();
    each(*smallest, step, |member| !others.iter().all(|set| set.contains(member)) || f(member));
}

/// Calls `f` with each member of a set until it returns false; true if it never did.
fn each(set: SetRef<'_>, mut step: impl FnMut(), mut f: impl FnMut(&[u8]) -> bool) -> bool {
    set.iter().inspect(|_| step()).all(|member| member.with_bytes(&mut f))
}

impl Session {
    /// Calls `f` with the set. None if the key is absent.
    ///
    /// # Errors
    /// [`StoreError::WrongType`]
    pub fn set_members<'k, R>(
        &mut self,
        key: impl Into<Key<'k>>,
        now: u64,
        f: impl FnOnce(SetRef<'_>) -> R,
    ) -> Result<Option<R>, StoreError> {
        self.read_container::<Set, R>(key, now, f)
    }

    /// Like [`set_members`](Self::set_members), for a walk over the entire set: writers of a large set do not wait for
    /// `f`.
    ///
    /// # Errors
    /// Those of [`set_members`](Self::set_members).
    pub fn set_walk<'k, R>(
        &mut self,
        key: impl Into<Key<'k>>,
        now: u64,
        f: impl FnOnce(SetRef<'_>) -> R,
    ) -> Result<Option<R>, StoreError> {
        self.walk_container::<Set, R>(key, now, f)
    }

    /// Adds members and returns the number of new ones.
    ///
    /// # Errors
    /// [`StoreError::WrongType`], [`StoreError::ValueTooLong`] if the set would be too long, and those of every write.
    pub fn set_add<'k>(
        &mut self,
        key: impl Into<Key<'k>>,
        members: &[&[u8]],
        now: u64,
    ) -> Result<usize, StoreError> {
        self.admit_bytes(members.iter().map(|member| member.len()).sum())?;
        if let [member] = members {
            let change = [Change::add(member)];
            let (tally, ()) =
                self.update_container::<Set, _>(key, now, |_| Ok((Changes::Given(&change), ())))?;
            return Ok(tally.added);
        }
        let changes: Vec<Change<'_>> = members.iter().map(|member| Change::add(member)).collect();
        let (tally, ()) =
            self.update_container::<Set, _>(key, now, |_| Ok((Changes::Given(&changes), ())))?;
        Ok(tally.added)
    }

    /// Removes members and returns the number of removed ones. Removes the key with its last member.
    ///
    /// # Errors
    /// Those of [`set_add`](Self::set_add) except [`StoreError::OutOfMemory`]: the smaller set takes less memory.
    pub fn set_remove<'k>(
        &mut self,
        key: impl Into<Key<'k>>,
        members: &[&[u8]],
        now: u64,
    ) -> Result<usize, StoreError> {
        let changes: Vec<Change<'_>> =
            members.iter().map(|member| Change::remove(member)).collect();
        let key = key.into();
        self.check_key(key.bytes())?;
        self.admit_little()?;
        let (tally, ()) =
            self.change_container::<Set, _>(key, now, |_| Ok((Changes::Given(&changes), ())))?;
        Ok(tally.removed)
    }

    /// Removes up to `count` members, chosen at random, and returns them. `random` must return a number below its
    /// argument. The log names the members.
    ///
    /// # Errors
    /// Those of [`set_remove`](Self::set_remove); [`StoreError::ValuesTooLong`], and nothing is removed, if several
    /// members do not fit `room`.
    pub fn set_pop(
        &mut self,
        key: &[u8],
        (count, capacity): (usize, ReplyCapacity),
        mut random: impl FnMut(usize) -> usize,
        now: u64,
    ) -> Result<Vec<Vec<u8>>, StoreError> {
        self.check_key(key)?;
        self.admit_little()?;
        let (_, popped) = self.change_container::<Set, _>(key, now, |set| {
            let n = count.min(set.count());
            let (mut popped, mut capacity_left) = (Vec::new(), capacity.for_parts(n));
            let mut fits = Ok(());
            choose(set, count, &mut random, |member| {
                // Members that do not fit are not collected.
                if fits.is_ok() {
                    fits = member.with_bytes(|member| capacity_left.add(member));
                    popped.push(member.to_vec());
                }
            });
            fits?;
            let removed = |member: &Vec<u8>| Change { member: member.clone().into(), adds: false };
            Ok((Changes::Many(popped.iter().map(removed).collect()), popped))
        })?;
        Ok(popped)
    }

    /// Calls `f` with up to `count` members, chosen at random, each once. `random` must return a number below its
    /// argument. None if the key is absent.
    ///
    /// # Errors
    /// [`StoreError::WrongType`]
    pub fn set_choose(
        &mut self,
        key: &[u8],
        count: usize,
        random: impl FnMut(usize) -> usize,
        now: u64,
        f: impl FnMut(Member<'_>),
    ) -> Result<Option<()>, StoreError> {
        self.set_walk(key, now, |set| choose(set, count, random, f))
    }

    /// Moves a member from one set to another, at one moment for every observer. False if the member was absent.
    ///
    /// # Errors
    /// Those of [`set_add`](Self::set_add), for either key.
    pub fn set_move(
        &mut self,
        from: &[u8],
        to: &[u8],
        member: &[u8],
        now: u64,
    ) -> Result<bool, StoreError> {
        self.check_key(to)?;
        self.admit_little()?;
        self.hold_keys([from, to], |session| {
            session.check_role()?;
            let damages = session.damages();
            let has = |set: SetRef<'_>| set.contains(member);
            let Some(is_present) = session.read_container::<Set, _>(from, now, has)? else {
                return Ok(false);
            };
            session.read_container::<Set, _>(to, now, |_| ())?;
            if !is_present || from == to {
                return Ok(is_present);
            }
            let (add, remove) = ([Change::add(member)], [Change::remove(member)]);
            // The step that may fail comes first.
            let (tally, ()) =
                session.change_container::<Set, _>(to, now, |_| Ok((Changes::Given(&add), ())))?;
            if session.damages() != damages {
                // The member was not added, so it must not be removed.
                return Ok(false);
            }
            if tally.added > 0 {
                session.note_step(Step::MovedIn);
            }
            session.change_container::<Set, _>(from, now, |_| Ok((Changes::Given(&remove), ())))?;
            session.note_step(Step::MovedOut);
            Ok(true)
        })
    }

    /// Snapshots of the sets of these keys, all at one moment.
    ///
    /// # Errors
    /// [`StoreError::WrongType`] if any key holds another type.
    pub fn sets_at_once(
        &mut self,
        keys: &[&[u8]],
        now: u64,
    ) -> Result<Vec<SetSnapshot>, StoreError> {
        if let [key] = keys {
            let set = self.read(*key, now, |entry| SetSnapshot::of(&entry, now)).transpose()?;
            return Ok(vec![set.unwrap_or_default()]);
        }
        self.read_many(keys, |index| snapshots(index, keys, now))
    }

    /// Stores the result of an operation on the sets of these keys at `to`, replacing its old value, and returns its
    /// length. Removes `to` if the result is empty. All at one moment for every observer.
    ///
    /// # Errors
    /// Those of [`set_add`](Self::set_add) and [`sets_at_once`](Self::sets_at_once).
    pub fn set_store(
        &mut self,
        operation: SetOperation,
        to: &[u8],
        keys: &[&[u8]],
        now: u64,
    ) -> Result<usize, StoreError> {
        self.check_key(to)?;
        self.admit()?;
        let all = std::iter::once(to).chain(keys.iter().copied());
        self.hold_keys(all, |session| {
            session.check_role()?;
            let damages = session.damages();
            let sets = session.sets_at_once(keys, now)?;
            if session.damages() != damages {
                // A result without one of the sets must not replace the value of `to`.
                return Ok(0);
            }
            let mut builder = Builder::new(&session.containers);
            let waiting = &mut session.gate.waiting;
            let mut add = |member: &[u8]| {
                builder.add(member);
                true
            };
            match operation {
                // The builder keeps equal members once.
                SetOperation::Union => {
                    sets.iter().for_each(|set| _ = each(set.view(), || waiting.rest(), &mut add));
                }
                _ => operation.run(&sets, || waiting.rest(), add),
            }
            let made = builder.finish(&session.store, check_len)?;
            session.admit_bytes(made.as_ref().map_or(0, |(value, _)| len_of(value)))?;
            match made {
                Some((value, count)) => {
                    session.change(to, |to| to.put(reborrow(&value), Expiry::Never, now));
                    Ok(count)
                }
                None => {
                    session.change(to, |to| to.update(now, |_| (Action::Remove, ())));
                    Ok(0)
                }
            }
        })
    }

    /// Encodes a set with these members; None without members.
    pub(crate) fn encode_set<'m>(
        &mut self,
        members: impl Iterator<Item = &'m [u8]>,
    ) -> Result<Option<NewValue<'static>>, StoreError> {
        let mut builder = Builder::new(&self.containers);
        for member in members {
            self.gate.waiting.rest();
            self.limits.check_value(member.len())?;
            builder.add(member);
        }
        Ok(builder.finish(&self.store, check_len)?.map(|(value, _)| value))
    }
}

/// Reads the sets one after the other; the caller ensures that they are of one moment.
fn snapshots(index: &mut Index, keys: &[&[u8]], now: u64) -> Result<Vec<SetSnapshot>, StoreError> {
    let (mut sets, mut space) = (Vec::with_capacity(keys.len()), no_keys());
    for batch in keys.chunks(PREFETCH_KEYS) {
        for &key in prefetched(index, batch, &mut space) {
            let set = index.get(key, now, |entry| SetSnapshot::of(&entry, now)).transpose()?;
            sets.push(set.unwrap_or_default());
        }
    }
    Ok(sets)
}

/// Calls `f` with up to `count` different members; all selections are equally likely.
fn choose<'a>(
    set: SetRef<'a>,
    count: usize,
    mut random: impl FnMut(usize) -> usize,
    mut f: impl FnMut(Member<'a>),
) {
    let len = set.count();
    if count >= len {
        return set.iter().for_each(f);
    }
    if count == 1 {
        return set.of_rank(random(len)).into_iter().for_each(f);
    }
    if set.form() == SetForm::Table && count > len / WALK_FROM {
        return choose_in_walk(set, count, random, f);
    }
    // A list finds a rank only by a walk, so its members are collected once.
    let list: Option<Vec<Member<'a>>> = (set.form() == SetForm::List).then(|| set.iter().collect());
    // The first steps of a shuffle of all ranks. Only the ranks that have moved are stored.
    let mut moved: HashMap<usize, usize> = HashMap::new();
    for first in 0..count {
        let at = first + random(len - first);
        let rank = moved.get(&at).copied().unwrap_or(at);
        let instead = moved.get(&first).copied().unwrap_or(first);
        moved.insert(at, instead);
        let member = match &list {
            Some(list) => list.get(rank).copied(),
            None => set.of_rank(rank),
        };
        member.into_iter().for_each(&mut f);
    }
}

/// Like `choose`, in one walk over a set with more than `count` members: each is chosen with the remaining probability.
fn choose_in_walk<'a>(
    set: SetRef<'a>,
    count: usize,
    mut random: impl FnMut(usize) -> usize,
    mut f: impl FnMut(Member<'a>),
) {
    let (mut wanted, mut left) = (count, set.count());
    for member in set.iter() {
        if random(left) < wanted {
            f(member);
            wanted -= 1;
        }
        left -= 1;
    }
}
