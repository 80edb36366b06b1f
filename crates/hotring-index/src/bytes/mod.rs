//! The operations of sessions on byte-string items: reads without copying, atomic read-modify-write, scans,
//! batches and expiry.

mod by_hash;
mod check;
pub(crate) mod item;
mod key;
mod marks;
mod scrub;
mod seen;
mod sip;
mod update;
pub(crate) mod value;

#[doc(hidden)]
pub use check::Part;
pub use item::Bytes;
pub use key::{Key, KeyHash};
pub use marks::{FREQUENCY_NEW, Marked, Noting};
pub use scrub::{Scrub, ScrubCounts};
pub use value::{Action, Entry, Expiry, NewValue, Value};

use crate::core::hooks::wrong;
use crate::core::item::Kind;
use crate::core::sync::Ordering;
use crate::engine::{Engine, Hit, KeyGoal};
use crate::session::{Pinned, Session};
use check::State;
use item::is_expired;
use seen::{Seen, doom};

/// Keys hashed and looked up together.
const CHUNK: usize = 64;
/// The distance between scan positions, which are reversed 48-bit hashes.
const POSITION: u64 = 1 << 16;
/// Items visited under one pin.
const PIECE: usize = 1024;

/// The next position of a scan that began at `cursor` and has visited everything up to `last`.
fn past(cursor: u64, next: u64, last: u64) -> u64 {
    // The position decreases only after an item with a damaged hash. Skip it, or the walk would never end.
    if next != 0 && next <= cursor { last.wrapping_add(POSITION) } else { next }
}

/// The result of one piece of an expiry step.
struct Piece {
    visited: usize,
    removed: usize,
    work: usize,
    /// Whether the scan has reached the end.
    is_last: bool,
}

impl<E: Engine> Session<Bytes, E> {
    /// Calls `f` with the entry of a key, if it is present at `now` (Unix milliseconds; the clocks of all
    /// sessions should agree). Nothing is copied. Keep `f` short, because memory freed by other sessions
    /// waits for it.
    #[inline]
    pub fn get<'k, R>(
        &mut self,
        key: impl Into<Key<'k>>,
        now: u64,
        f: impl FnOnce(Entry<'_>) -> R,
    ) -> Option<R> {
        let mut pinned = self.pin();
        let goal = pinned.bytes_goal(key.into());
        let hit = pinned.find_for_read(goal)?;
        let seen = Seen::of(hit);
        if seen.is_past(now) {
            return None;
        }
        pinned.mark_access(hit);
        Some(f(seen.entry()))
    }

    /// As [`get`](Self::get), without recording an access ([`Noting`]): for callers that inspect an entry
    /// without using it.
    pub fn peek<'k, R>(
        &mut self,
        key: impl Into<Key<'k>>,
        now: u64,
        f: impl FnOnce(Entry<'_>) -> R,
    ) -> Option<R> {
        self.peek_marked(key, now, |entry, _| f(entry))
    }

    /// As [`peek`](Self::peek), with the access bits.
    pub fn peek_marked<'k, R>(
        &mut self,
        key: impl Into<Key<'k>>,
        now: u64,
        f: impl FnOnce(Entry<'_>, u8) -> R,
    ) -> Option<R> {
        let mut pinned = self.pin();
        let goal = pinned.bytes_goal(key.into());
        let hit = pinned.find_for_read(goal)?;
        let seen = Seen::of(hit);
        (!seen.is_past(now)).then(|| f(seen.entry(), hit.word.count() as u8))
    }

    /// Reads, decides, and acts in one atomic step. `decide` may be called several times, each time with a
    /// newer entry. Returns the result of the call whose decision took effect.
    pub fn update<'k, 'x, R>(
        &mut self,
        key: impl Into<Key<'k>>,
        now: u64,
        decide: impl FnMut(Option<Entry<'_>>) -> (Action<'x>, R),
    ) -> R {
        let mut pinned = self.pin();
        let goal = pinned.bytes_goal(key.into());
        pinned.update(goal, now, decide)
    }

    /// Stores a value unconditionally; true if it replaced a live entry. With [`Expiry::Keep`] this is a
    /// [`Session::update`].
    pub fn put<'k>(
        &mut self,
        key: impl Into<Key<'k>>,
        value: NewValue<'_>,
        expiry: Expiry,
        now: u64,
    ) -> bool {
        let key = key.into();
        let expire_at = match expiry {
            Expiry::Never => None,
            Expiry::At(at) => Some(at.max(1)),
            Expiry::Keep => {
                return self.update(key, now, |old| {
                    (Action::Put { value: value.clone(), expiry }, old.is_some())
                });
            }
        };
        let mut pinned = self.pin();
        let goal = pinned.bytes_goal(key);
        pinned.put_blind(goal, value.content(), expire_at, now)
    }

    /// Removes a key; true if it was present.
    pub fn remove<'k>(&mut self, key: impl Into<Key<'k>>, now: u64) -> bool {
        let mut pinned = self.pin();
        let goal = pinned.bytes_goal(key.into());
        pinned.remove(goal, now)
    }

    /// The version of a key's entry. Assigns a version if the entry has none. A version is never reused in the
    /// index, and any write of the key removes its version.
    pub fn version<'k>(&mut self, key: impl Into<Key<'k>>, now: u64) -> Option<u64> {
        let mut pinned = self.pin();
        let goal = pinned.bytes_goal(key.into());
        pinned.version(goal, now)
    }

    /// Visits about `count` entries from `cursor` and returns the next cursor. Visits all entries of one hash
    /// together, and fewer or no entries if the table is sparse. 0 starts a scan, and 0 is its end. A key that is
    /// present throughout is visited exactly once, even while the table grows. Expired entries are skipped.
    ///
    /// With [`Checksum::Verify`](crate::Checksum::Verify) a damaged entry is recorded
    /// ([`Session::take_damage`]) and shown with an empty value, or skipped if its key is damaged, too.
    pub fn scan(
        &mut self,
        cursor: u64,
        count: usize,
        now: u64,
        mut f: impl FnMut(Entry<'_>),
    ) -> u64 {
        let mut last = cursor;
        let visit = |pinned: &mut Pinned<'_, Bytes, E>, hit: Hit| {
            last = last.max(pinned.shared.kind.item_hash(hit.item).reverse_bits());
            if let Some(damaged) = pinned.damage_of(hit.item) {
                if let Some(key) = &damaged.key {
                    f(Entry::without_value(key));
                }
                pinned.note_damage(damaged);
                return 1;
            }
            let seen = Seen::of(hit);
            if !seen.is_past(now) {
                f(seen.entry());
            }
            1
        };
        let (next, _) = E::scan(&mut self.pin(), cursor, count, visit);
        past(cursor, next, last)
    }

    /// An entry near the position picked by `random`, or `None` if the index is empty. Removes expired
    /// entries on the way.
    pub fn sample<R>(
        &mut self,
        random: u64,
        now: u64,
        f: impl FnOnce(Entry<'_>) -> R,
    ) -> Option<R> {
        let mut cursor = random;
        // One round to the end and one from the start, in pieces, so that pins are short.
        let mut rounds = 0;
        while rounds < 2 {
            let mut pinned = self.pin();
            let from = E::bucket(&mut pinned, cursor.reverse_bits());
            let (next, picked) = pinned.pick(cursor, random, |pinned, hit| {
                let expired = is_expired(pinned.kind(), hit.item, now);
                if expired && doom(pinned.kind(), hit.item, now) {
                    E::kill_at(pinned, hit);
                }
                !expired && pinned.damage_of(hit.item).is_none()
            });
            if let Some(hit) = picked {
                return Some(f(Seen::of(hit).entry()));
            }
            E::sweep(&mut pinned, from, next);
            cursor = next;
            rounds += usize::from(next == 0);
        }
        None
    }

    /// Looks up a batch as one pipeline with many memory accesses in flight, and calls `f` with the number of
    /// each key and its entry, in any order. Each lookup is linearizable; the batch is not atomic. If the order
    /// of effects matters, [`Session::prefetch`] the keys and get them one by one.
    pub fn get_many(
        &mut self,
        keys: &[&[u8]],
        now: u64,
        mut f: impl FnMut(usize, Option<Entry<'_>>),
    ) {
        for (n, chunk) in keys.chunks(CHUNK).enumerate() {
            let mut pinned = self.pin();
            let hashes = pinned.hashes(chunk.len(), |i| chunk[i]);
            let goal = |_: &Bytes, i: usize| KeyGoal { hash: hashes[i], key: chunk[i] };
            let (verifies, suspects) = (pinned.verifies(), pinned.suspects());
            let mut is_damaged = false;
            let (noting, mut unnoted) = (pinned.noting(), Vec::new());
            E::pipeline(&mut pinned, chunk.len(), goal, |i, hit| {
                let is_sound = |hit: &Hit| !verifies || check::state(hit.item) == State::Sound;
                let sound = hit.filter(is_sound);
                is_damaged |= hit.is_some() && sound.is_none();
                let seen = sound.map(Seen::of).filter(|seen| !seen.is_past(now));
                unnoted.extend(seen.map(|seen| seen.hit).filter(|hit| noting.wants(hit.word)));
                f(n * CHUNK + i, seen.map(|seen| seen.entry()));
            });
            unnoted.into_iter().for_each(|hit| pinned.mark_access(hit));
            if is_damaged || pinned.suspects() != suspects {
                // Rare: look up the keys again one by one, so that the damage is recorded.
                for i in 0..chunk.len() {
                    pinned.find_for_read(goal(&pinned.shared.kind, i));
                }
            }
        }
    }

    /// Prefetches the memory that operations on these keys will touch, as one pipeline, and stores the keys'
    /// hashes in `keys`.
    pub fn prefetch(&mut self, keys: &mut [Key<'_>]) {
        let mut pinned = self.pin();
        for chunk in keys.chunks_mut(CHUNK) {
            let n = chunk.len();
            let hashes = pinned.hashes(n, |i| chunk[i].bytes());
            for (key, hash) in chunk.iter_mut().zip(hashes) {
                key.set_hash(hash);
            }
            E::warm(&mut pinned, n, |_, i| KeyGoal { hash: hashes[i], key: chunk[i].bytes() });
        }
    }

    /// Visits about `budget` items (eight empty slots count as one) from the position where the last call of any
    /// session stopped, and removes expired items. Returns the numbers of visited and removed items. Also frees
    /// unreachable memory ([`Session::collect`]).
    pub fn expire_step(&mut self, budget: usize, now: u64) -> (usize, usize) {
        let (mut visited, mut removed, mut work) = (0, 0, 0);
        while work < budget {
            let piece = self.expire_piece((budget - work).min(PIECE), now);
            visited += piece.visited;
            removed += piece.removed;
            work += piece.work.max(1);
            if piece.is_last {
                break;
            }
        }
        self.collect();
        (visited, removed)
    }

    fn expire_piece(&mut self, budget: usize, now: u64) -> Piece {
        let (mut visited, mut removed) = (0, 0);
        let mut pinned = self.pin();
        // ORDERING: Relaxed, a position to continue from; two sessions at one position do no harm.
        let cursor = pinned.shared.expire_cursor.load(Ordering::Relaxed);
        let from = E::bucket(&mut pinned, cursor.reverse_bits());
        let (next, work) = E::scan(&mut pinned, cursor, budget, |pinned, hit| {
            visited += 1;
            let doomed = if wrong!(pinned, NoDoom) {
                is_expired(pinned.kind(), hit.item, now)
            } else {
                doom(pinned.kind(), hit.item, now)
            };
            if doomed && E::kill_at(pinned, hit) {
                removed += 1;
            }
            1
        });
        if removed > 0 {
            E::sweep(&mut pinned, from, next);
        }
        // ORDERING: Relaxed, as above.
        pinned.shared.expire_cursor.store(next, Ordering::Relaxed);
        Piece { visited, removed, work, is_last: next == 0 }
    }
}
