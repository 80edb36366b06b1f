//! Which keys are mirrored: those that the operator has named, then the hottest, within a budget, unless they are
//! written now and then.
//!
//! Every write of a mirrored key costs a message to each holder. So the key rests after it: for a quarter of a second
//! if it was mirrored for half a second before, otherwise twice as long as the last time. A key that the operator has
//! named rests for two seconds at most.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::time::Duration;

use super::{Key, REPLY_MAX};
use crate::ids::Moment;

/// A key begins to be mirrored if it surely has this share of the owner's requests.
const ENTERS: f64 = 1.0 / 64.0;

/// It ends if it surely has less than this.
const LEAVES: f64 = ENTERS / 4.0;

/// A key takes the place of another that surely has less than this part of its share.
const DISPLACES: f64 = 0.5;

/// A mirror that has lasted for so long has paid.
const PAYS: Duration = Duration::from_millis(500);

const FIRST_REST: Duration = Duration::from_millis(250);
const LONGEST_REST: Duration = Duration::from_secs(64);
/// Of a named key.
const LONGEST_NAMED_REST: Duration = Duration::from_secs(2);

/// Most keys whose rest is known. The one that ends first is forgotten.
const RESTING_MAX: usize = 1024;

/// What may be mirrored at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Most keys.
    pub keys: usize,
    /// Most bytes of their values, in each holder.
    pub bytes: usize,
}

/// How hot a key is.
#[derive(Clone, Debug, PartialEq)]
pub struct Heat {
    /// The key.
    pub key: Key,
    /// The bounds of its share of the requests for the owner's keys, answered by mirrors or by the owner.
    pub share: (f64, f64),
    /// The length of its value.
    pub bytes: usize,
    /// The operator has named it: it is mirrored however cold it is.
    pub is_named: bool,
}

/// What is to change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Keys that are to be mirrored.
    pub begin: Vec<Key>,
    /// Keys that are to be mirrored no more.
    pub end: Vec<Key>,
}

#[derive(Clone, Copy, Debug)]
struct Rest {
    since: Moment,
    lasts: Duration,
}

impl Rest {
    /// When it is forgotten: only a key that is written again before rests for longer.
    fn forgotten_at(&self) -> Moment {
        self.since + self.lasts * 2
    }
}

/// The keys that are mirrored, and those that rest.
#[derive(Debug, Default)]
pub struct Choice {
    /// The mirrored keys, each since when.
    chosen: BTreeMap<Key, Moment>,
    rests: BTreeMap<Key, Rest>,
}

impl Choice {
    /// A mirrored key was written, and is mirrored no more.
    pub fn written(&mut self, now: Moment, key: &[u8]) {
        let Some(since) = self.chosen.remove(key) else { return };
        let has_paid = now.saturating_sub(since) >= PAYS;
        let before = self.rests.get(key).filter(|_| !has_paid);
        let before = before.map_or(Duration::ZERO, |rest| rest.lasts);
        let lasts = (before * 2).clamp(FIRST_REST, LONGEST_REST);
        if self.rests.len() == RESTING_MAX && !self.rests.contains_key(key) {
            let first = self.rests.iter().min_by_key(|(_, rest)| rest.forgotten_at());
            if let Some(key) = first.map(|(key, _)| key.clone()) {
                self.rests.remove(&key);
            }
        }
        self.rests.insert(key.into(), Rest { since: now, lasts });
    }

    /// Of the chosen keys only these are mirrored: the owner refuses some for a moment, and others end with their slot.
    pub fn keep_only(&mut self, is_mirrored: impl Fn(&[u8]) -> bool) {
        self.chosen.retain(|key, _| is_mirrored(key));
    }

    /// Chooses again. `heats` has every key with a share worth naming. Named keys come first, in their order.
    pub fn decide(&mut self, now: Moment, budget: Budget, mut heats: Vec<Heat>) -> Changes {
        self.rests.retain(|_, rest| now < rest.forgotten_at());
        heats.sort_by(|a, b| match (a.is_named, b.is_named) {
            // The sort is stable.
            (true, true) => Ordering::Equal,
            (false, false) => b.share.0.total_cmp(&a.share.0).then_with(|| a.key.cmp(&b.key)),
            _ => b.is_named.cmp(&a.is_named),
        });
        let (mut left, bytes_max) = (budget, budget.bytes.min(REPLY_MAX));
        // A named key keeps its place while it rests: another key must not enter only to leave again.
        heats.retain(|heat| !heat.is_named || heat.bytes <= bytes_max && left.take(heat.bytes));
        let (mut stays, others): (Vec<Heat>, Vec<Heat>) =
            heats.into_iter().partition(|heat| self.chosen.contains_key(&heat.key));
        stays.retain(|heat| heat.is_named || heat.share.1 >= LEAVES && left.take(heat.bytes));
        let mut begin = Vec::new();
        let enters =
            |heat: &Heat| heat.is_named || heat.share.0 >= ENTERS && heat.bytes <= bytes_max;
        for heat in others.into_iter().filter(enters) {
            let is_coldest =
                |cold: &Heat| !cold.is_named && cold.share.1 < heat.share.0 * DISPLACES;
            if self.rests_now(now, &heat) {
                continue;
            } else if heat.is_named || left.take(heat.bytes) {
                begin.push(heat.key);
            } else if stays.last().is_some_and(is_coldest) {
                // The key begins once that one's place is free.
                stays.pop();
                break;
            }
        }
        let is_over = |key: &Key, _: &mut Moment| stays.iter().all(|heat| heat.key != *key);
        let end = self.chosen.extract_if(.., is_over).map(|(key, _)| key).collect();
        self.chosen.extend(begin.iter().map(|key| (key.clone(), now)));
        Changes { begin, end }
    }

    fn rests_now(&self, now: Moment, heat: &Heat) -> bool {
        let Some(rest) = self.rests.get(&heat.key) else { return false };
        let longest = if heat.is_named { LONGEST_NAMED_REST } else { LONGEST_REST };
        now < rest.since + rest.lasts.min(longest)
    }
}

impl Budget {
    fn take(&mut self, bytes: usize) -> bool {
        let fits = self.keys > 0 && bytes <= self.bytes;
        if fits {
            self.keys -= 1;
            self.bytes -= bytes;
        }
        fits
    }
}
