//! Test hooks: coverage of rare steps, forced failures, and wrong variants. Release builds contain none.
//!
//! * `sometimes!(Step)` counts a rare step, so that a suite can show that it took it.
//!   `sometimes!(condition => Step)` does if the condition holds.
//! * `cas` is a compare-exchange of the protocol. It counts its failures, and a debug build can force
//!   some: they fail without being tried.
//! * `wrong!(pinned, Fault)` is whether a model checker asked for this wrong variant (`core/faults.rs`);
//!   `wrong!(pinned, Fault => code)` runs code in its place. `order!(pinned, order, Fault)` is the
//!   memory order, or Relaxed in the wrong variant.
//!
//! A crate of engines has steps and faults of its own: `rare_steps!` defines the steps in its module
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
            // ORDERING: Relaxed on failure: nothing is read through the value that was found.
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

            /// How often a step was taken in this process so far.
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
    /// An insert lost the compare-exchange that links.
    LinkLost,
    /// A replacement lost the one that marks.
    ReplaceLost,
    /// A removal lost the one that marks.
    KillLost,
    /// A walk could not cut dead items out and restarted.
    CutLost,
    /// A dead item was left to a new walk.
    UnlinkLeft,
    /// A walk cut out more than one dead item at once.
    RunCut,
    /// A reader passed a dead item.
    DeadPassed,
    /// A bucket was split off before its first use.
    SplitEagerly,
    /// A split gave a free word to an item that had none.
    LineFilled,
    /// A new item took the hint of the one behind the anchor.
    CrowdedIn,
    /// A candidate for completeness turned out to lack an item.
    CandidateDropped,
    /// A hint led to a removed item.
    DeadHint,
    /// A hint led to a replaced item.
    StaleHint,
    /// A reader put the live version where a replaced one was.
    StaleMended,
    /// A claim was refused: another session has it, or the item is dead.
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
    /// A dead version was left in the chain by a write of a hinted item.
    LazyReplace,
    /// This many were left that a writer cleaned up.
    DebtPaid,
    /// A bucket was being split off by another session.
    SplitBusy,
    /// A split lost the compare-exchange that links its anchor.
    SplitLost,
    /// A split took hints along.
    HandedOver,
    /// A hint that a split took along found no place.
    NotHandedOver,
    /// A write in place met a frozen value.
    Frozen,
    /// An expired item could not be removed, as it was renewed.
    DoomLost,
    /// An insert reserved a word of its line.
    Reserved,
    /// A reader met a reserved word with its tag.
    ReservedMet,
    /// A reservation was given back.
    Unreserved,
    /// A complete line answered a miss.
    LineMiss,
    /// A line stopped being complete while it was read.
    LineChanged,
    /// A line became a candidate.
    Candidate,
    /// A candidate's stamp had become useless.
    StampRenewed,
    /// A line became complete.
    Complete,
    /// A doubling.
    Grown,
    /// A halving began.
    Shrinking,
    /// A halving was undone, as the table was wanted.
    ShrinkUndone,
    /// A halving came to its end.
    Shrunk,
    /// A hint was taken out of a slot that goes.
    SweptHint,
    /// A dead anchor was taken out of the chain.
    AnchorCut,
    /// Memory of an ended session was freed.
    OrphansFreed,
    /// A batch gave a key back to the plain lookup.
    Diverted,
    /// An item was moved to other memory.
    Moved,
    /// Lines: an item found no lane.
    Stashed,
    /// Lines: a write met an item on its way to another table.
    FrozenMet,
}

#[cfg(any(debug_assertions, loom, shuttle))]
mod forcing {
    use crate::core::sync::{Ordering, TallyU64};

    /// One in this many is forced; 0 is none.
    static ONE_IN: TallyU64 = TallyU64::new(0);
    static TURN: TallyU64 = TallyU64::new(0);

    /// From now on one in this many of the steps that can be forced is; 0 is none.
    pub fn force(one_in: u64) {
        // ORDERING: Relaxed, advice.
        ONE_IN.store(one_in, Ordering::Relaxed);
    }

    /// Whether the next step that can be forced must be.
    #[doc(hidden)]
    pub fn is_failure_forced() -> bool {
        // ORDERING: Relaxed, advice.
        let one_in = ONE_IN.load(Ordering::Relaxed);
        // ORDERING: Relaxed, a number of a turn.
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
        // ORDERING: Relaxed, the fault. The caller says why its order suffices.
        if $crate::wrong!($pinned, $fault) { $crate::sync::Ordering::Relaxed } else { $order }
    };
}

pub(crate) use {order, sometimes, wrong};
