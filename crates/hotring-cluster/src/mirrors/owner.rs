//! The owner's side: which keys are guarded, who holds them and until when.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Ask, Dropped, GRANT, Grant, Grants, Key, Version};
use crate::directory::MoveId;
use crate::ids::{Epoch, Moment};
use crate::slots::{SlotSet, slot_of};

/// Most holders of a key. A write waits for each.
const HOLDERS_MAX: usize = 1024;

/// After a guard has ended for a write, none begins for so long: what waited is applied first.
const REST: Duration = GRANT;

/// A holder as this start of the owner knows it: another connection is another one.
pub type HolderId = u64;

/// What the primary must do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Have the store refuse writes of this key, then call [`Owner::guarded`].
    Guard(Key),
    /// Let the store apply writes of this key again.
    Release(Key),
    /// Tell a holder to drop a key.
    Revoke(HolderId, Dropped),
}

/// Why nothing of some slots may be mirrored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Closing {
    /// The role is handed over: all slots.
    Handover,
    /// This move is about to end.
    Move(MoveId),
}

#[derive(Debug)]
enum State {
    /// The store does not guard the key yet. False if it is to be released as soon as it does.
    Begins { is_wanted: bool },
    /// Holders may have it.
    Granted(Mirror),
    /// It is granted no more.
    Revoked(Mirror),
    /// Its guard has ended, and none begins before this.
    Rests(Moment),
}

#[derive(Debug)]
struct Mirror {
    version: Version,
    /// When the grant of each holder is over.
    holders: BTreeMap<HolderId, Moment>,
}

/// The mirrors of the keys of one primary, in one epoch.
#[derive(Debug)]
pub struct Owner {
    epoch: Epoch,
    writes_from: Moment,
    keys: BTreeMap<Key, State>,
    closed: BTreeMap<Closing, SlotSet>,
    numbers: u64,
    acts: Vec<Act>,
}

impl Owner {
    /// A replica that has become primary, after the right of its predecessor had ended. `numbers` is the last number
    /// that an earlier owner of this process has given: holders may still have replies of its versions.
    pub fn promoted(epoch: Epoch, numbers: u64) -> Self {
        Owner {
            epoch,
            writes_from: Moment::ZERO,
            keys: BTreeMap::new(),
            closed: BTreeMap::new(),
            numbers,
            acts: Vec::new(),
        }
    }

    /// A primary whose process has started at this moment, and may have granted something in an earlier start.
    pub fn restarted(started: Moment, epoch: Epoch) -> Self {
        let writes_from = if wrong!(ForgetGrants) { Moment::ZERO } else { started + GRANT };
        Owner { writes_from, ..Owner::promoted(epoch, 0) }
    }

    /// The last number that this owner has given.
    pub fn numbers(&self) -> u64 {
        self.numbers
    }

    /// The store must apply no write before this.
    pub fn writes_from(&self) -> Moment {
        self.writes_from
    }

    /// Takes what the primary must do, in order.
    pub fn acts(&mut self) -> Vec<Act> {
        std::mem::take(&mut self.acts)
    }

    /// Whether the store guards a key, or is about to.
    pub fn is_guarded(&self, key: &[u8]) -> bool {
        self.keys.get(key).is_some_and(State::is_guarded)
    }

    /// Keys that the store guards, or is about to, each with the holders whose grants may last.
    pub fn guarded(&self) -> impl Iterator<Item = (&[u8], usize)> {
        let guarded = self.keys.iter().filter(|(_, state)| state.is_guarded());
        guarded
            .map(|(key, state)| (&**key, state.mirror().map_or(0, |mirror| mirror.holders.len())))
    }

    /// Whether a grant of the key to this holder may last.
    pub fn is_held(&self, key: &[u8], holder: HolderId) -> bool {
        let mirror = self.keys.get(key).and_then(State::mirror);
        mirror.is_some_and(|mirror| mirror.holders.contains_key(&holder))
    }

    /// The version of a key that may be granted.
    pub fn version(&self, key: &[u8]) -> Option<Version> {
        match self.keys.get(key) {
            Some(State::Granted(mirror)) => Some(mirror.version),
            _ => None,
        }
    }

    /// A key is to be mirrored. False if it rests, or its slot is closed.
    pub fn begin(&mut self, key: &[u8]) -> bool {
        if self.is_closed(key) || self.keys.contains_key(key) {
            return self.is_guarded(key);
        }
        self.keys.insert(key.into(), State::Begins { is_wanted: true });
        self.acts.push(Act::Guard(key.into()));
        true
    }

    /// The store refuses writes of this key, and all that it accepted before are applied.
    pub fn has_guard(&mut self, now: Moment, key: &[u8]) {
        let Some(State::Begins { is_wanted }) = self.keys.get(key) else { return };
        if !is_wanted {
            return self.release(now, key);
        }
        self.numbers += 1;
        let version = Version { epoch: self.epoch, number: self.numbers };
        self.keys.insert(key.into(), State::Granted(Mirror { version, holders: BTreeMap::new() }));
    }

    /// A holder asks. `answers_until` is the end of the primary's right to answer, `expires_in` the time to the expiry
    /// of a key that has one. The values must be read after this.
    pub fn ask(
        &mut self,
        now: Moment,
        holder: HolderId,
        ask: &Ask,
        answers_until: Option<Moment>,
        expires_in: impl Fn(&[u8]) -> Option<Duration>,
    ) -> Grants {
        let right = answers_until.map_or(Duration::ZERO, |until| until.saturating_sub(now));
        let right = if wrong!(OutliveRight) { GRANT } else { right.min(GRANT) };
        let mut grants = Vec::new();
        for key in &ask.keys {
            let Some(State::Granted(mirror)) = self.keys.get_mut(key) else { continue };
            let expiry = expires_in(key).filter(|_| !wrong!(OutliveKey));
            let lasts = expiry.map_or(right, |expiry| expiry.min(right));
            let is_known = mirror.holders.contains_key(&holder);
            if lasts.is_zero() || !is_known && mirror.holders.len() == HOLDERS_MAX {
                continue;
            }
            let until = mirror.holders.entry(holder).or_default();
            *until = (*until).max(now + lasts);
            grants.push((key.clone(), Grant { version: mirror.version, lasts }));
        }
        Grants { number: ask.number, grants }
    }

    /// A key is to be mirrored no more: a write waits for it, it is hot no longer, or it would be evicted.
    pub fn revoke(&mut self, now: Moment, key: &[u8]) {
        let Some(state) = self.keys.get_mut(key) else { return };
        match state {
            State::Begins { is_wanted } => *is_wanted = false,
            State::Granted(mirror) => {
                let version = mirror.version;
                mirror.holders.retain(|_, until| *until > now);
                let mirror = Mirror { version, holders: std::mem::take(&mut mirror.holders) };
                self.acts.extend(
                    mirror
                        .holders
                        .keys()
                        .map(|holder| Act::Revoke(*holder, Dropped { key: key.into(), version })),
                );
                *state = State::Revoked(mirror);
                self.release_if_free(now, key);
            }
            State::Revoked(_) | State::Rests(_) => {}
        }
    }

    /// A holder has dropped a key.
    pub fn dropped(&mut self, now: Moment, holder: HolderId, dropped: &Dropped) {
        let Some(State::Revoked(mirror)) = self.keys.get_mut(&dropped.key) else { return };
        if mirror.version == dropped.version || wrong!(AnyVersion) {
            mirror.holders.remove(&holder);
            self.release_if_free(now, &dropped.key);
        }
    }

    /// A holder has dropped a key without being asked, and all that it asked before.
    pub fn gave_up(&mut self, now: Moment, holder: HolderId, key: &[u8]) {
        match self.keys.get_mut(key) {
            Some(State::Granted(mirror)) => _ = mirror.holders.remove(&holder),
            Some(State::Revoked(mirror)) => {
                mirror.holders.remove(&holder);
                self.release_if_free(now, key);
            }
            _ => {}
        }
    }

    /// Nothing of these slots is mirrored any more, and nothing will be until [`Owner::open`].
    pub fn close(&mut self, now: Moment, closing: Closing, slots: SlotSet) {
        let keys: Vec<Key> =
            self.keys.keys().filter(|key| slots.contains(slot_of(key))).cloned().collect();
        self.closed.insert(closing, slots);
        keys.iter().for_each(|key| self.revoke(now, key));
    }

    /// Whether no grant of these slots lasts, also none of an earlier start. They are closed.
    pub fn is_clear(&self, now: Moment, closing: Closing) -> bool {
        let Some(slots) = self.closed.get(&closing) else { return false };
        let is_guarded = self.guarded().any(|(key, _)| slots.contains(slot_of(key)));
        now >= self.writes_from && !is_guarded || wrong!(LeaveGrants)
    }

    /// The slots stay here after all.
    pub fn open(&mut self, closing: Closing) {
        self.closed.remove(&closing);
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Moment) {
        let mut free = Vec::new();
        self.keys.retain(|key, state| {
            match state {
                State::Rests(until) => return *until > now,
                State::Granted(mirror) => mirror.holders.retain(|_, until| *until > now),
                State::Revoked(mirror) => {
                    mirror.holders.retain(|_, until| *until > now);
                    free.extend(mirror.holders.is_empty().then(|| key.clone()));
                }
                State::Begins { .. } => {}
            }
            true
        });
        free.iter().for_each(|key| self.release(now, key));
    }

    /// When [`Owner::tick`] is due for a write that waits.
    pub fn next_end(&self) -> Option<Moment> {
        let ends = self.keys.values().filter_map(|state| match state {
            State::Revoked(mirror) => mirror.holders.values().max().copied(),
            _ => None,
        });
        ends.min()
    }

    fn is_closed(&self, key: &[u8]) -> bool {
        let slot = slot_of(key);
        self.closed.values().any(|slots| slots.contains(slot))
    }

    fn release_if_free(&mut self, now: Moment, key: &[u8]) {
        let is_held =
            |state: &State| state.mirror().is_some_and(|mirror| !mirror.holders.is_empty());
        if !self.keys.get(key).is_some_and(is_held) || wrong!(ApplyFirst) {
            self.release(now, key);
        }
    }

    fn release(&mut self, now: Moment, key: &[u8]) {
        self.keys.insert(key.into(), State::Rests(now + REST));
        self.acts.push(Act::Release(key.into()));
    }
}

impl State {
    fn is_guarded(&self) -> bool {
        !matches!(self, State::Rests(_))
    }

    fn mirror(&self) -> Option<&Mirror> {
        match self {
            State::Granted(mirror) | State::Revoked(mirror) => Some(mirror),
            State::Begins { .. } | State::Rests(_) => None,
        }
    }
}
