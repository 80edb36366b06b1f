//! Mirrors of both shards' keys, at a holder that reads what it has in each step.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

use super::parts::Shard;
use super::world::{KEYS, World};
use crate::ids::Moment;
use crate::mirrors::{Ask, Closing, Dropped, Grants, Holder, Key, MirrorAct, Owner, Version};
use crate::slots::{SLOTS, SlotSet};

/// Made once: a schedule asks for it in most of its steps.
static ALL_SLOTS: LazyLock<SlotSet> = LazyLock::new(|| (0..SLOTS).collect());

/// The move's number.
const MOVE: Closing = Closing::Move(0);

#[derive(Debug)]
enum Note {
    Ask(Ask),
    Grants(Grants, Vec<(u8, Version, Option<u64>)>),
    Revoke(Dropped),
    Dropped(Dropped),
}

/// The values of keys, with their versions.
type Known = BTreeMap<u8, (Version, Option<u64>)>;

/// A holder, with what it has of each shard.
#[derive(Debug, Default)]
pub(super) struct Mirrors {
    of: [(Holder, Known); 2],
    notes: Vec<(Moment, usize, Note)>,
}

fn key_of(key: u8) -> Key {
    [key].into()
}

impl Shard {
    pub(super) fn owner(&mut self) -> &mut Owner {
        self.owner.as_mut().expect("each shard has one")
    }
}

impl World {
    /// Whether a write of a key may be applied. If not, it waits for its mirrors.
    pub(super) fn may_write(&mut self, at: usize, key: u8) -> bool {
        let now = self.now;
        let owner = self.shards[at].owner();
        owner.revoke(now, &[key]);
        let may_write = now >= owner.writes_from() && !owner.is_guarded(&[key]);
        self.act_on_mirrors(at);
        may_write
    }

    /// A move of all slots is about to let writes wait.
    pub(super) fn close_mirrors(&mut self, at: usize) {
        let now = self.now;
        self.shards[at].owner().close(now, MOVE, ALL_SLOTS.clone());
        self.act_on_mirrors(at);
    }

    pub(super) fn open_mirrors(&mut self, at: usize) {
        self.shards[at].owner().open(MOVE);
    }

    /// Whether nothing of a closed shard is mirrored.
    pub(super) fn is_clear(&mut self, at: usize) -> bool {
        let now = self.now;
        self.shards[at].owner().is_clear(now, MOVE)
    }

    fn act_on_mirrors(&mut self, at: usize) {
        let now = self.now;
        loop {
            let acts = self.shards[at].owner().acts();
            if acts.is_empty() {
                return;
            }
            for act in acts {
                match act {
                    MirrorAct::Guard(key) => self.shards[at].owner().has_guard(now, &key),
                    MirrorAct::Release(_) => self.stats.revoked += 1,
                    MirrorAct::Revoke(_, dropped) => self.pass(at, Note::Revoke(dropped)),
                }
            }
        }
    }

    /// The shard has forgotten its grants, and a power cut may take values that were read.
    pub(super) fn forget_mirrors(&mut self, at: usize) {
        self.mirrors.of[at] = Default::default();
        self.mirrors.notes.retain(|(_, of, _)| *of != at);
    }

    fn pass(&mut self, at: usize, note: Note) {
        if !self.chance(3) {
            let when = self.later();
            self.mirrors.notes.push((when, at, note));
        }
    }

    /// What has arrived is taken, the holder reads and asks.
    pub(super) fn step_mirrors(&mut self) -> Result<(), String> {
        let now = self.now;
        let due = self.mirrors.notes.extract_if(.., |(at, ..)| *at <= now).collect::<Vec<_>>();
        for (_, at, note) in due {
            self.take_note(at, note);
        }
        for at in 0..2 {
            self.shards[at].owner().tick(now);
            self.act_on_mirrors(at);
            if self.rng.u32(..8) == 0
                && let Some(ask) = self.mirrors.of[at].0.ask(now, (0..KEYS).map(key_of).collect())
            {
                self.pass(at, Note::Ask(ask));
            }
        }
        for (at, (holder, values)) in self.mirrors.of.iter().enumerate() {
            for (key, (version, value)) in values {
                if holder.version(now, &[*key]) != Some(*version) {
                    continue;
                }
                self.stats.mirrored += 1;
                let right = self.truth.get(key);
                if value.as_ref() != right {
                    return Err(format!(
                        "a mirror of shard {at} answers {value:?} for key {key}, not {right:?}"
                    ));
                }
            }
        }
        Ok(())
    }

    fn take_note(&mut self, at: usize, note: Note) {
        let now = self.now;
        match note {
            Note::Ask(ask) => {
                // Nothing is granted of what the shard does not serve.
                if !self.serves(at) {
                    return;
                }
                for key in ask.keys.iter().filter(|_| self.rng.u32(..4) == 0) {
                    self.shards[at].owner().begin(key);
                }
                self.act_on_mirrors(at);
                let until = Some(now + Duration::from_secs(1));
                let grants = self.shards[at].owner().ask(now, 0, &ask, until, |_| None);
                let values = grants.grants.iter().map(|(key, grant)| {
                    (key[0], grant.version, self.shards[at].values.get(&key[0]).copied())
                });
                let values = values.collect();
                self.pass(at, Note::Grants(grants, values));
            }
            Note::Grants(grants, new) => {
                let (holder, values) = &mut self.mirrors.of[at];
                holder.granted(now, grants);
                for (key, version, value) in new {
                    let kept = values.entry(key).or_insert((version, value));
                    *kept = (*kept).max((version, value));
                }
            }
            Note::Revoke(dropped) => {
                self.mirrors.of[at].0.drop_key(&dropped);
                self.pass(at, Note::Dropped(dropped));
            }
            Note::Dropped(dropped) => {
                self.shards[at].owner().dropped(now, 0, &dropped);
                self.act_on_mirrors(at);
            }
        }
    }
}
