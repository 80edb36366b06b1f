//! Test hooks: coverage of rare steps, forced failures, and wrong variants. Release builds contain none.
//!
//! * `sometimes!(Step)` counts a rare step, so that a suite can show that it ran the step.
//!   `sometimes!(condition => Step)` counts it only if the condition holds.
//! * `cas` is a compare-exchange of the protocol. It counts its failures. A debug build can force some
//!   failures without executing the instruction.
//! * `wrong!(pinned, Fault)` tells whether a model checker asked for this wrong variant (`core/faults.rs`);
//!   `wrong!(pinned, Fault => code)` runs `code` in that variant. `order!(pinned, order, Fault)` is the
//!   memory order, or Relaxed in the wrong variant.
//!
//! A crate of engines has its own steps and faults: `rare_steps!` defines the steps in the crate's module
//! `hooks`, and the macros use the modules of the crate that calls them.
#![allow(clippy::crate_in_macro_def)]

/// Defines `Step`, the counts of the steps, and `cas`, in the module `hooks` of a crate of engines.
#[doc(hidden)]
#[macro_export]
macro_rules! rare_steps {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// A step that ordinary runs rarely take.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Step {
            $($(#[$doc])* $name,)*
        }

        /// A compare-exchange of the protocol; false if it failed. Debug builds count failures as
        /// `lost`, and force some of them.
        #[inline(always)]
        pub(crate) fn cas(
            word: &$crate::sync::AtomicU64,
            from: u64,
            to: u64,
            order: $crate::sync::Ordering,
            lost: Step,
        ) -> bool {
            #[cfg(any(debug_assertions, loom, shuttle))]
            if $crate::hooks::is_failure_forced() {
                note(lost);
                return false;
            }
            // ORDERING: Relaxed on failure: nothing is read through the returned value.
            let won = word.compare_exchange(from, to, order, $crate::sync::Ordering::Relaxed);
            #[cfg(any(debug_assertions, loom, shuttle))]
            if won.is_err() {
                note(lost);
            }
            #[cfg(not(any(debug_assertions, loom, shuttle)))]
            let _ = lost;
            won.is_ok()
        }

        #[cfg(any(debug_assertions, loom, shuttle))]
        mod counts {
            use crate::hooks::Step;
            use $crate::sync::{Ordering, TallyU64};

            impl Step {
                /// All of them.
                pub const ALL: &[Self] = &[$(Self::$name,)*];
            }

            static TAKEN: [TallyU64; Step::ALL.len()] =
                [const { TallyU64::new(0) }; Step::ALL.len()];

            pub(crate) fn note(step: Step) {
                // ORDERING: Relaxed, a count.
                TAKEN[step as usize].fetch_add(1, Ordering::Relaxed);
            }

            /// The number of times this process has taken the step.
            pub fn taken(step: Step) -> u64 {
                // ORDERING: Relaxed, a count.
                TAKEN[step as usize].load(Ordering::Relaxed)
            }
        }

        #[cfg(any(debug_assertions, loom, shuttle))]
        pub(crate) use counts::note;
        #[cfg(any(debug_assertions, loom, shuttle))]
        pub use counts::taken;
    };
}

rare_steps! {
    /// An insert lost the compare-exchange that links its item.
    LinkLost,
    /// A replacement lost the compare-exchange that marks the old item.
    ReplaceLost,
    /// A removal lost the compare-exchange that marks its item.
    KillLost,
    /// A walk failed to unlink dead items and restarted.
    CutLost,
    /// An operation left a dead item for a new walk to unlink.
    UnlinkLeft,
    /// A walk unlinked more than one dead item at once.
    RunCut,
    /// A reader passed a dead item.
    DeadPassed,
    /// A bucket was split off before its first use.
    SplitEagerly,
    /// A split gave a free word to an item that had none.
    LineFilled,
    /// A new item took the hint of the item behind the anchor.
    CrowdedIn,
    /// A candidate for completeness turned out to lack an item.
    CandidateDropped,
    /// A hint led to a removed item.
    DeadHint,
    /// A hint led to a replaced item.
    StaleHint,
    /// A reader pointed a hint from a replaced version to the live one.
    StaleMended,
    /// A claim failed: another session holds it, or the item is dead.
    ClaimRefused,
    /// A claimed item did not get its hint word.
    MoveLost,
    /// An item died before its hint was in place.
    DeadOnArrival,
    /// An item left the chain while a hint held it.
    UnlinkedHinted,
    /// An item was retired by the session that released its claim.
    RetiredByRelease,
    /// A copy found no hint word to inherit.
    NothingInherited,
    /// A write to a hinted item left the dead version in the chain.
    LazyReplace,
    /// A writer unlinked the dead versions of the keys in its queue.
    QueueUnlinked,
    /// A writer unlinked the dead versions, because their estimated number had reached the limit.
    DebtPaid,
    /// A bucket was being split off by another session.
    SplitBusy,
    /// A split lost the compare-exchange that links its anchor.
    SplitLost,
    /// A split moved hints to the new slot.
    HandedOver,
    /// A hint moved by a split found no free word in the new slot.
    NotHandedOver,
    /// A write in place found the value frozen.
    Frozen,
    /// An expired item could not be removed, because another session renewed its expiry.
    DoomLost,
    /// An insert reserved a word of its line.
    Reserved,
    /// A reader found a reserved word with its key's tag.
    ReservedMet,
    /// A reservation was given back.
    Unreserved,
    /// A complete line answered a miss.
    LineMiss,
    /// A line stopped being complete while it was read.
    LineChanged,
    /// A line became a candidate.
    Candidate,
    /// A candidate's stamp was too old and was renewed.
    StampRenewed,
    /// A line became complete.
    Complete,
    /// The table doubled.
    Grown,
    /// A halving began.
    Shrinking,
    /// A halving was undone, because the table was needed.
    ShrinkUndone,
    /// A halving was completed.
    Shrunk,
    /// A hint was removed from a slot that a halving discards.
    SweptHint,
    /// A dead anchor was unlinked from the chain.
    AnchorCut,
    /// Memory of an ended session was freed.
    OrphansFreed,
    /// A batch handed a key to the plain lookup.
    FellBack,
    /// An item was moved to other memory.
    Moved,
    /// Lines: an item found no free lane.
    Stashed,
    /// Lines: a write found an item that is being moved to another table.
    FrozenMet,
}

#[cfg(any(debug_assertions, loom, shuttle))]
mod forcing {
    use crate::core::sync::{Ordering, TallyU64};

    /// One failure in this many attempts is forced; 0: none.
    static ONE_IN: TallyU64 = TallyU64::new(0);
    static TURN: TallyU64 = TallyU64::new(0);

    /// Forces a failure in one of this many forcible steps; 0: none.
    pub fn force(one_in: u64) {
        // ORDERING: Relaxed, advice.
        ONE_IN.store(one_in, Ordering::Relaxed);
    }

    /// Whether the next forcible step must fail. Counts the step.
    #[doc(hidden)]
    pub fn is_failure_forced() -> bool {
        // ORDERING: Relaxed, advice.
        let one_in = ONE_IN.load(Ordering::Relaxed);
        // ORDERING: Relaxed, a count of attempts.
        one_in != 0 && TURN.fetch_add(1, Ordering::Relaxed).is_multiple_of(one_in)
    }
}

#[cfg(any(debug_assertions, loom, shuttle))]
pub use forcing::{force, is_failure_forced};

/// Counts a rare step.
#[doc(hidden)]
#[macro_export]
macro_rules! sometimes {
    ($step:ident) => {
        #[cfg(any(debug_assertions, loom, shuttle))]
        crate::hooks::note(crate::hooks::Step::$step);
    };
    ($condition:expr => $step:ident) => {
        #[cfg(any(debug_assertions, loom, shuttle))]
        if $condition {
            crate::hooks::note(crate::hooks::Step::$step);
        }
    };
}

/// Whether a checker asked for this wrong variant.
#[doc(hidden)]
#[macro_export]
macro_rules! wrong {
    ($pinned:expr, $($fault:ident)|+ => $($instead:tt)+) => {
        #[cfg(any(loom, shuttle))]
        if $crate::wrong!($pinned, $($fault)|+) {
            $($instead)+
        }
    };
    ($pinned:expr, $($fault:ident)|+) => {{
        #[cfg(any(loom, shuttle))]
        let wrong = matches!($pinned.shared.config.fault, $(crate::faults::Fault::$fault)|+);
        #[cfg(not(any(loom, shuttle)))]
        let wrong = {
            let _ = &$pinned;
            false
        };
        wrong
    }};
}

/// A memory order, which a wrong variant weakens to Relaxed.
#[doc(hidden)]
#[macro_export]
macro_rules! order {
    ($pinned:expr, $order:expr, $fault:ident) => {
        // ORDERING: Relaxed is the fault. The caller states why its own order suffices.
        if $crate::wrong!($pinned, $fault) { $crate::sync::Ordering::Relaxed } else { $order }
    };
}

pub(crate) use {order, sometimes, wrong};
