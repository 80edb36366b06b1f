//! Rare steps: in debug builds and under checkers each notes that it was taken, so that a suite can
//! show that it came by all of them, and those that depend on bad luck can be forced. In release
//! builds all of it is nothing.
//!
//! `sometimes!(Step)` notes a step. `lost!(Step, cas)` is whether a compare-exchange failed; forced,
//! it fails without having been tried. `wrong!(pinned, Fault)` is whether a checker asked for a
//! wrong variant (see `checks`); `wrong!(pinned, Fault => code)` is what it does then.
//!
//! A crate of engines has steps and faults of its own: `rare_steps!` defines the steps in its module
//! `rare`, and the macros look for both in the crate that calls them.
#![allow(clippy::crate_in_macro_def)]

/// Defines `Step` and counts of the steps, in the module `rare` of a crate of engines.
#[doc(hidden)]
#[macro_export]
macro_rules! rare_steps {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        #[cfg(any(debug_assertions, loom, shuttle))]
        mod kept {
            use $crate::sync::{Ordering, TallyU64};

            /// A step that ordinary runs rarely take.
            #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
            pub enum Step {
                $($(#[$doc])* $name,)*
            }

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
        pub(crate) use kept::note;
        #[cfg(any(debug_assertions, loom, shuttle))]
        pub use kept::{Step, taken};
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
    /// A bucket was split off before anybody asked for it.
    SplitAhead,
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
    StampedAnew,
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

    /// Whether this one is.
    #[doc(hidden)]
    pub fn forced() -> bool {
        // ORDERING: Relaxed, advice.
        let one_in = ONE_IN.load(Ordering::Relaxed);
        // ORDERING: Relaxed, a number of a turn.
        one_in != 0 && TURN.fetch_add(1, Ordering::Relaxed).is_multiple_of(one_in)
    }
}

#[cfg(any(debug_assertions, loom, shuttle))]
pub use forcing::{force, forced};

/// Notes that a rare step was taken.
#[doc(hidden)]
#[macro_export]
macro_rules! sometimes {
    ($step:ident) => {
        #[cfg(any(debug_assertions, loom, shuttle))]
        crate::hooks::note(crate::hooks::Step::$step);
    };
}

/// Whether a compare-exchange failed; noted, and in debug builds sometimes so without a try.
#[doc(hidden)]
#[macro_export]
macro_rules! lost {
    ($step:ident, $cas:expr) => {{
        #[cfg(any(debug_assertions, loom, shuttle))]
        let forced = $crate::hooks::forced();
        #[cfg(not(any(debug_assertions, loom, shuttle)))]
        let forced = false;
        let lost = forced || $cas.is_err();
        if lost {
            $crate::sometimes!($step);
        }
        lost
    }};
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

pub(crate) use {lost, sometimes, wrong};
