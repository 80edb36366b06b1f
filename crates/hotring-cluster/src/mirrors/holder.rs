//! The holder's side: which keys it may answer, of one owner, and until when.

use std::collections::{BTreeMap, VecDeque};

use super::{Ask, Dropped, GRANT, Grants, Key, Version};
use crate::ids::Moment;

/// Most questions without an answer. With more the owner is too slow for mirrors.
const ASKED_MAX: usize = 64;

#[derive(Clone, Copy, Debug)]
struct Kept {
    version: Version,
    until: Moment,
}

#[derive(Debug)]
struct Asked {
    number: u64,
    sent: Moment,
    keys: Vec<Key>,
}

/// What a holder has of one owner. Values are kept elsewhere, by key and version.
#[derive(Debug, Default)]
pub struct Holder {
    last: u64,
    /// The questions that may yet be answered. Answers to older ones come too late.
    asked: VecDeque<Asked>,
    kept: BTreeMap<Key, Kept>,
    /// For keys that the owner wanted dropped, the last question before.
    dropped: BTreeMap<Key, u64>,
}

impl Holder {
    /// A question, which must be sent after this. None if too many have no answer.
    pub fn ask(&mut self, now: Moment, keys: Vec<Key>) -> Option<Ask> {
        self.tick(now);
        if self.asked.len() == ASKED_MAX {
            return None;
        }
        self.last += 1;
        let number = self.last;
        self.asked.push_back(Asked { number, sent: now, keys: keys.clone() });
        Some(Ask { number, keys })
    }

    /// The owner has answered.
    pub fn granted(&mut self, now: Moment, grants: Grants) {
        let asked = self.asked.iter().find(|asked| asked.number == grants.number);
        let Some(&Asked { number, sent, .. }) = asked else { return };
        let sent = if wrong!(CountFromArrival) { now } else { sent };
        for (key, grant) in grants.grants {
            let is_dropped = self.dropped.get(&key).is_some_and(|last| number <= *last);
            let relied_on = if wrong!(RelyOnAll) { grant.lasts } else { grant.lasts * 9 / 10 };
            let new = Kept { version: grant.version, until: sent + relied_on };
            if is_dropped && !wrong!(TakeDropped) {
                continue;
            }
            let kept = self.kept.entry(key).or_insert(new);
            if new.version > kept.version {
                *kept = new;
            } else if new.version == kept.version {
                kept.until = kept.until.max(new.until);
            }
        }
    }

    /// The owner wants a key dropped. The message goes back as the answer.
    pub fn drop_key(&mut self, dropped: &Dropped) {
        self.dropped.insert(dropped.key.clone(), self.last);
        if self.kept.get(&dropped.key).is_some_and(|kept| kept.version <= dropped.version) {
            self.kept.remove(&dropped.key);
        }
    }

    /// This node is about to write keys of the owner: it drops those of them that it has.
    pub fn give_up(&mut self, is_written: impl Fn(&[u8]) -> bool) {
        let known = self.kept.keys().chain(self.asked.iter().flat_map(|asked| &asked.keys));
        let written: Vec<Key> = known.filter(|key| is_written(key)).cloned().collect();
        for key in written {
            self.kept.remove(&key);
            self.dropped.insert(key, self.last);
        }
    }

    /// The version of a key that may be read now.
    pub fn version(&self, now: Moment, key: &[u8]) -> Option<Version> {
        self.kept.get(key).filter(|kept| now < kept.until).map(|kept| kept.version)
    }

    /// Keys whose grants last less long than half a grant, to be asked for again if they are still wanted.
    pub fn due(&self, now: Moment) -> impl Iterator<Item = &[u8]> {
        let is_due = move |kept: &Kept| kept.until <= now + GRANT / 2;
        self.kept.iter().filter(move |(_, kept)| is_due(kept)).map(|(key, _)| &**key)
    }

    /// Forgets what is over.
    pub fn tick(&mut self, now: Moment) {
        while self.asked.front().is_some_and(|asked| asked.sent + GRANT <= now) {
            self.asked.pop_front();
        }
        self.kept.retain(|_, kept| kept.until > now);
        let oldest = self.asked.front().map_or(self.last + 1, |asked| asked.number);
        self.dropped.retain(|_, last| *last >= oldest);
    }
}
