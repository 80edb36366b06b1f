//! The anchored ring: one ordered, lock-free ring of all items, entered through a table of slots.
//!
//! ```text
//!  table slot j (one cache line)                    the ring, ordered by reversed hash bits, key
//! +---------+--------+--------+-- ... --+
//! | anchor  | hint 1 | hint 2 |  hint 7 |     anchor 0 -> a -> b -> anchor j -> c -> d -> e -> ...
//! +----|----+---|----+---|----+---------+                             ^    |    ^    ^
//!      |        |        |                                            |    |    |    |
//!      +--------|--------|------------- is this node -----------------+    |    |    |
//!               +--------|------------- straight to d ---------------------|----+    |
//!                        +------------- straight to e -----------------------------  +
//! ```
//!
//! HotRing (Chen et al., FAST'20) hangs a ring of items on each bucket and lets the bucket's head
//! point at the hottest of them. Here the rings of all buckets are joined into one. The head is a
//! *hint* with a tag of the key's hash, and there are several of them in the cache line that a
//! lookup has to load anyway. A permanent *anchor* in the same line says where the bucket's arc
//! begins, so that an empty ring, a deleted head and a ring of one item are no special cases.
//!
//! # The operations, and where to read them
//!
//! * *Lookup*: [`lookup`]. Hints with the key's tag, then a complete line's word for a miss, then a walk.
//! * *Insert*: [`search`] finds the place between x < key < y and unlinks dead items on its way;
//!   `link` in [`write`] reserves a word of the line, links by one CAS on x, and fills the word.
//! * *Update*: in place by a CAS on the value, or `replace` in [`write`]: one CAS on the old item marks
//!   it and makes its copy its successor; then the hint goes to the copy, and the old item is unlinked.
//! * *Delete*: `kill` in [`write`]: one CAS marks the item; then it is unlinked, its hint is cleared
//!   ([`hint`]), and the second of the two retires it.
//! * *Split*: `split` in [`split`] claims the slot with BUSY, links its anchor by one CAS, clears BUSY,
//!   and takes along the hints of the bucket's items.
//!
//! A model checker runs the same code. Where it may ask for a wrong variant, the code calls a function
//! of [`variants`], or a macro of [`hooks`](crate::core::hooks).
//!
//! # Invariants
//!
//! * I1 The successor in the word of a MARKed node never changes (its flags may).
//! * I2 Only MARKed nodes leave the chain; every other node can be reached from anchor 0.
//! * I3 Reachable nodes are in order; equal keys only as dead versions before the live one.
//! * I4 HINTED is set by one CAS on an unmarked word, the *claim*. An item in a hint word is HINTED,
//!   and is in one hint word only.
//! * I5 The session that takes an item out of a hint word (or fails to put it in) clears HINTED once.
//!   The session that takes it out of the chain sets UNLINKED if HINTED is set. The second of the two
//!   must retire it, once.
//! * I6 A value word is written by CAS from an unfrozen value only, and FROZEN is never cleared.
//! * I7 An anchor is a start only once it is linked (BUSY is clear) and until it is MARKed.
//! * I8, I9 for complete lines are in [`complete`].
//!
//! # Why walks are right
//!
//! * P1 Every node that a walk visits was reachable at some moment of the walk, and at such a moment
//!   its successor was what the walk read: it starts at a live node (I2), and a node that was taken
//!   out in between was marked before, so its successor was already the one that is read (I1).
//! * P2 A walk that ends between nodes x < key < y saw a moment at which x was reachable and y its
//!   successor: the key was absent then (I3). That moment lies within the operation.
//! * P3 By P1 what a walk visits was reachable after its pin, so it is retired, if at all, later, and
//!   not freed before the pin ends. A dead item under a hint is not covered: it is kept by its
//!   claim, but its successor may be gone. Hence no walk continues from a dead hint.
//! * P4 An item read from a hint word is HINTED at that moment, so not retired (I5), so not freed
//!   before the pin ends. Once marked it cannot be claimed again (I4).
//!
//! # Linearization points
//!
//! A hit: its load of the item's unmarked word. A miss: the moment of P2. An insert: the CAS on the
//! predecessor's word. A replacement or removal: the CAS that marks the item. A write in place: the
//! CAS on the value; if the item is marked meanwhile, just before that mark, which no observer can tell
//! apart, because a session that marks an item *because of* its value must freeze the value first (I6).
//!
//! # Progress
//!
//! Readers never wait and never restart. A writer restarts only because another operation's
//! CAS succeeded. Moving a hint and splitting a bucket are given up, not retried. Halving the table
//! ([`shrink`]) proceeds in steps that any session takes; each grace period that it needs waits for
//! readers, but no session waits for it.
//!
//! # Memory orders
//!
//! Every pointer is loaded with Acquire and published with Release. The linking CAS acquires too: a
//! predecessor's word may return to an older value through an insert and a removal, and the removal
//! must happen before the insert that succeeds on the word it left. So does the CAS that takes an item
//! out of a hint word: the word may have got the same item again, and that claim must happen before it
//! is cleared. Flags that decide a retire are read with Acquire, so that the other side's removal
//! happens before it. Votes, claims and counters are Relaxed: a read-modify-write passes on what the
//! ones before it published.
//! Nothing in the ring is SeqCst; the one store-load order that is needed, between a pin and the
//! first load, is in [`crate::core::barrier`].

mod complete;
mod engine;
mod grow;
mod hint;
mod hotspot;
mod lazy;
mod lookup;
mod pipeline;
mod scan;
pub(crate) mod search;
mod shrink;
mod split;
mod table;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
mod variants;
mod write;

use crate::core::config::Growth;
use crate::core::sync::{TallyI64, TallyU64};
use shrink::Resizing;
use split::EagerWork;
use table::Table;

/// HotRing's engine, with `H` hints a slot: 7 (a slot is a cache line of 64 bytes, the default and
/// the fastest), 3 (32 bytes) or 1 (16 bytes; the paper's one movable head, and the only shape for
/// [`Strategy::Random`](crate::Strategy::Random) and
/// [`Strategy::Sampling`](crate::Strategy::Sampling)).
pub struct Ring<const H: usize> {
    pub(crate) table: Table<H>,
    growth: Growth,
    /// Whether lines may become complete.
    completes: bool,
    resizing: Resizing,
    eager: EagerWork,
    /// Anchors linked so far.
    splits: TallyU64,
    /// The sums of lookups and visits from which the access overhead is measured.
    lookups_before: TallyI64,
    visits_before: TallyI64,
}
