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
//! HotRing (Chen et al., FAST'20) keeps a ring of items per bucket and lets the bucket's head point at the
//! hottest item. Here the rings of all buckets are joined into one. The head becomes a *hint* with a tag of
//! the key's hash, and the cache line that a lookup loads anyway has several hints. A permanent *anchor* in
//! the same line marks the beginning of the bucket's *arc* (its part of the ring), so that an empty ring, a
//! deleted head and a ring of one item are not special cases.
//!
//! # The operations, and the files that contain them
//!
//! * *Lookup*: [`lookup`]. Hints with the key's tag, then a complete line's word for a miss, then a walk.
//! * *Insert*: [`search`] finds the position between x < key < y and unlinks dead items on its way;
//!   `link` in [`write`] reserves a word of the line, links by one CAS on x, and fills the word.
//! * *Update*: in place by a CAS on the value, or `replace` in [`write`]: one CAS on the old item marks
//!   it and makes its copy its successor; then the hint goes to the copy, and the old item is unlinked.
//! * *Delete*: `kill` in [`write`]: one CAS marks the item; then it is unlinked, its hint is cleared
//!   ([`hint`]), and the second of the two retires it.
//! * *Split*: `split` in [`split`] claims the slot with BUSY, links its anchor by one CAS, clears BUSY,
//!   and moves the hints of the bucket's items to the new slot.
//!
//! A model checker runs the same code. At each step that has a wrong variant, the code calls a function of
//! [`variants`], or a macro of [`hooks`](crate::core::hooks).
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
//! # Why walks are correct
//!
//! * P1 Every node that a walk visits was reachable at some moment of the walk, and at such a moment its
//!   successor was the one that the walk read. Reason: the walk starts at a live node (I2), and a node that
//!   was unlinked in between was marked before, so its successor already had its final value (I1).
//! * P2 A walk that ends between nodes x < key < y saw a moment at which x was reachable and y its
//!   successor: the key was absent then (I3). That moment lies within the operation.
//! * P3 By P1 every node that a walk visits was reachable after the walk's pin. So the node is retired, if
//!   at all, after the pin, and not freed before the pin ends. A dead item under a hint is not covered: its
//!   claim keeps the item, but its successor may be freed. Hence no walk may continue from a dead hint.
//! * P4 An item read from a hint word is HINTED at that moment, so it is not retired (I5) and not freed
//!   before the pin ends. A marked item cannot be claimed again (I4).
//!
//! # Linearization points
//!
//! * A hit: the load of the item's unmarked word.
//! * A miss: the moment of P2.
//! * An insert: the CAS on the predecessor's word.
//! * A replacement or removal: the CAS that marks the item.
//! * A write in place: the CAS on the value, or, if the item is marked meanwhile, the moment just before that
//!   mark. No observer can tell the difference, because a session that marks an item *because of* its value
//!   must freeze the value first (I6).
//!
//! # Progress
//!
//! Readers never wait and never restart. A writer restarts only because another operation's CAS succeeded. A
//! failed move of a hint or split of a bucket is abandoned, not retried. Halving the table ([`shrink`])
//! proceeds in steps that any session may take; the halving waits for readers in its grace periods, but no
//! session waits for the halving.
//!
//! # Memory orders
//!
//! Every pointer is loaded with Acquire and published with Release. The linking CAS must acquire, too: a
//! predecessor's word may return to an older value through an insert and a removal, and the removal must
//! happen before the insert that succeeds on the restored word. The CAS that takes an item out of a hint
//! word must also acquire: the word may have received the same item again, and that claim must happen
//! before the claim is cleared. Flags that decide a retire are read with Acquire, so that the other side's
//! removal happens before the retire. Votes, claims and counters are Relaxed: a read-modify-write continues
//! the release sequences of the stores before it.
//!
//! Nothing in the ring is SeqCst. The ring needs one store-load order, between a pin and the first load;
//! [`crate::core::barrier`] provides it.

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

/// HotRing's engine, with `H` hints per slot: 7 (a slot is a cache line of 64 bytes, the default and
/// the fastest), 3 (32 bytes) or 1 (16 bytes; the paper's one movable head, and the only value for
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
