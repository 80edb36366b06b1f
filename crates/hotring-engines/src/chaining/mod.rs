//! Chaining Hash: a lock-free chain for each bucket, new items at its head. The baseline of HotRing's
//! paper (FAST'20 section 4.1), on the same items, hashes, memory and reclamation as the ring.
//!
//! ```text
//!  table                   chain: newest first, in no other order
//! +--------------+
//! | bucket 0     | -> c -> a -> nothing
//! | bucket 1     | -> b -> x -> b' -> d -> nothing      x: dead, not yet unlinked
//! | bucket 2 = 0 |    not split off yet: its keys are in bucket 0
//! | bucket 3     | -> nothing
//! +--------------+
//! ```
//!
//! A bucket is one word ([`word`]): its first item, and its *level*, the number of hash bits that
//! its items have in common. In a table of 2^n buckets a bucket is on level n, or on n - 1 until it
//! is split. The paper's table has a fixed size. A server's table must grow, so this one doubles,
//! bucket by bucket.
//!
//! # Steps
//!
//! * *Insert*: sets the bucket's word, from its value at the start of the walk, to the new item. One CAS.
//! * *Remove*: MARK in the item's own `next` (Harris 2001). *Replace*: MARK and REPL there, and the
//!   copy as successor; the copy's successor is that of the old item. One CAS each.
//! * *Unlink*: sets the word before a run of marked items to the first item behind it. The session whose
//!   CAS succeeds retires the run. Walks of writers unlink on their way; a session whose own unlinking
//!   fails walks again.
//! * *Split* of bucket i of level n, of which i + 2^n becomes the *sibling*: the items with hash bit
//!   n set *leave*, the others are not touched.
//!   1. FROZEN in i's word: no insert, no unlinking at the head.
//!   2. SEALED (and REPL) in the `next` of every live item that leaves: it cannot be marked,
//!      replaced, or unlinked behind.
//!   3. Values and expiries of the sealed items are frozen; private copies of the items are made.
//!   4. The sibling's word from 0 to the chain of copies. The losers of this CAS free their copies.
//!   5. MARK in every sealed item.
//!   6. i's word to level n + 1, without FROZEN; the winner of this CAS walks once to unlink the
//!      items that left.
//!
//! # Invariants
//!
//! * C1 The successor in the word of a MARKed or SEALED item never changes.
//! * C2 Only MARKed items are unlinked, by a CAS on a word that is neither MARKed, SEALED nor FROZEN.
//! * C3 Items never change their order: a new item comes to the head, a copy right behind the item that it replaces.
//! * C4 Levels only rise, one at a time; a sibling's word leaves 0 once, by step 4; FROZEN is set and
//!   cleared once on each level. So no split can be taken for another, or done twice.
//! * C5 A key has one *home* at each moment: the bucket whose number its hash has on its level; but the home of a key
//!   that leaves is the sibling as soon as the sibling is ready (step 4). Homes only go forward. All live items of a
//!   key are in its home. An item is live if it is not MARKed, and not SEALED once the sibling is ready.
//! * C6 A value or expiry that is frozen never changes; step 3 freezes before any copy is made, and
//!   all helpers therefore make the same copies.
//! * C7 While a bucket is not FROZEN, no item in it is SEALED without MARK (step 5 is before step 6).
//!
//! # Why a hit is right
//!
//! A reader chooses the bucket by the words themselves, not by the table's size alone: at the moment of the reader's
//! last load the bucket is the key's home. An unmarked, unsealed item with the key is live at the load of its word. A
//! SEALED one, MARKed or not, belongs to a split whose step 4 came after the reader's choice (before it, the sibling
//! would have been the choice), hence within the operation; just before that step the item was live, with the value
//! that it is frozen with.
//!
//! # Why a miss is right
//!
//! The chain is unordered, so a miss is known only at the end of the chain. Take a walk from the word h of bucket i
//! that ended without the key, and assume that i is the key's home throughout. An item of the key that was live in the
//! chain at h and stays live is met: by C3 it stays behind the walk's position; the walk stands on an item that is
//! linked, or that was unlinked with its successor fixed (C1, C2), so all items that were behind it then are still
//! behind it. An item that is replaced meanwhile is either met live, or dead before its copy, or unlinked with the
//! copy in its place. So if the key was there at h, it was removed during the walk: the miss takes effect at the
//! moment after that, or at h itself. And i was the home throughout if it still is at the end (C5). The reader checks
//! that ([`search`], *the second look*), because leaving items are unlinked. If it is not, the walk goes on in the new
//! home. That happens at most once for each doubling under one operation: readers write nothing and never wait.
//!
//! # Why an insert is right
//!
//! Its CAS on the word succeeds only if the word has the value from the beginning of the walk (or from the walk's own
//! unlinking). The level is part of the word, so the bucket is still the home (C4, C5). The first item's address is
//! part of it, too: items that came to the head meanwhile were unlinked again, so they are dead (C2), and the address
//! is the same item's, since the walk's pin keeps it from being freed. Behind it no key can appear, only go or be
//! replaced (C3). So the key, absent at the walk's end, is absent at the CAS.
//!
//! # Why items are retired once, and not too early
//!
//! An item is linked once, behind one word. It is unlinked by a CAS that cuts a run from behind a word that is not
//! dead, and after that no live word leads to it: each item is in one run that was cut. Each item that a walk visits
//! was linked at some moment of the walk, by the argument for misses, so it is retired after the walk's pin. Helpers
//! of a split that is long over may still look at its items; they have been pinned since before these items were
//! unlinked, and change nothing: all items are sealed and marked, and the copies are published.
//!
//! # Progress
//!
//! Writers restart only because another operation's CAS succeeded, or to finish a split that they
//! have met. A split has no owner, so any session can finish it. A doubling begins when all splits of the one before
//! are done; each insert does [`grow`]'s share of them, and so does a collecting session.
//!
//! # Cost
//!
//! * Half of the items are copied at a doubling, so each key is copied about once while a table grows from
//!   nothing. Large values are no exception: a session that splits a bucket with half a gigabyte copies
//!   half a gigabyte. The alternatives are in `docs/decisions/0006-chaining-growth.md`.
//! * Helpers copy in parallel, and only the copies of one helper are used. Before each copy a
//!   helper checks whether copies are still needed.
//! * A bucket's length is bounded only by the number of keys that collide, and a split is done in
//!   one go: splitting a bucket full of colliding keys takes as long as copying them.
//! * The table does not shrink.
//!
//! # Memory orders
//!
//! As in the ring: pointers are loaded with Acquire and published with AcqRel; the insert's CAS
//! acquires, too, since the word may have returned to an older value. The second look comes after
//! loads that acquire: a session that read the chain after an unlinking of step 6 sees at least the
//! FROZEN of step 1. Every change of a `next` or a bucket's word, except in private items, is a
//! read-modify-write, so release sequences last.

mod change;
#[cfg(any(loom, shuttle))]
mod checks;
mod engine;
mod grow;
mod pipeline;
mod scan;
pub(crate) mod search;
mod split;
mod table;
pub(crate) mod word;

use hotring_index::sync::TallyU64;
use table::Table;

/// Chaining Hash's engine: lock-free chains, newest items first, 8 bytes of table a bucket.
///
/// The engine does not distinguish hot items. The table doubles by
/// [`Growth::BytesPerKey`](hotring_index::Growth::BytesPerKey), with 8 bytes per key by default, and does not shrink.
pub struct Chaining {
    pub(crate) table: Table,
    /// Bytes of table for each key; 0 if the table does not grow.
    bytes_per_key: f64,
    /// Buckets that an insert looks at while the table grows.
    splits_an_insert: u64,
    items_copied: TallyU64,
}
