//! Wrong variants of the protocol's steps, for model checkers. Not in ordinary builds.

/// A wrong variant of one step, as a shortcut or the papers' text would suggest. The suites must fail for
/// each of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fault {
    /// The real thing.
    #[default]
    None,
    /// A wrong variant of an engine of another crate, by its name.
    Engine(&'static str),
    /// The head is moved without a claim; the deleter clears it and retires at once.
    NaiveHead,
    /// The same, and the mover looks again after the move and undoes it.
    RecheckHead,
    /// A walk starts at a dead head.
    TrustDead,
    /// From a dead head the walk goes on to the first live item.
    FollowDead,
    /// An item is retired when it leaves the chain, although a hint holds it.
    NoUnlinkWait,
    /// Whether a hint holds the item is read with Relaxed.
    RelaxedUnlinked,
    /// The value is not frozen before it is replaced or removed because of it.
    NoFreeze,
    /// A value is written in place by a swap.
    StoreInPlace,
    /// A bucket is a start before its anchor is linked.
    NoBusy,
    /// The bit that keeps a bucket from being a start is cleared with Relaxed.
    RelaxedBusy,
    /// Items are published with Relaxed.
    RelaxedPublish,
    /// An item is linked with Release, not AcqRel.
    ReleaseLink,
    /// An item is replaced by its predecessor's word alone, without a mark.
    ReplaceDrop,
    /// The table shrinks without grace periods.
    NoGrace,
    /// The table shrinks without its anchors being marked before they are unlinked.
    NoAnchorMark,
    /// A hint of a slot that goes is dropped without its claim being released.
    ShrinkForgetsClaim,
    /// The table shrinks while its lines may be complete.
    ShrinkComplete,
    /// A line becomes complete without a grace period.
    CompleteNoGrace,
    /// The stamp is one epoch old, and one grace period is enough.
    CompleteStampEarly,
    /// An insert without a word leaves COMPLETE alone.
    InsertKeepsComplete,
    /// An insert without a word clears COMPLETE, but not CANDIDATE.
    InsertKeepsCandidate,
    /// An item is linked before it has a word of its line.
    LinkFirst,
    /// Reserved words are overlooked.
    ReservedMissed,
    /// A replaced item's word is cleared like a removed one's.
    ClearReplaced,
    /// A reader does not look at the anchor again.
    NoSecondLook,
    /// A split hands hints over without making the parent's line incomplete.
    SplitKeepsComplete,
    /// A split leaves a candidate in the parent's line while its own line is not usable yet.
    SplitTrustsCandidate,
    /// A complete line answers for all keys whose lookups come to it.
    ServesAll,
    /// A line answers for a bucket split from it even where another may lie in between.
    ServesChildren,
    /// A displaced hint leaves COMPLETE alone.
    DisplaceKeepsComplete,
    /// A hint with the key's tag is taken for the key's.
    TrustTag,
    /// An expired item is marked without its expiry being closed first.
    NoDoom,
    /// Memory is freed one epoch too early.
    FreeEarly,
    /// A pin is not ordered before the loads that follow.
    NoPinFence,
    /// An item is moved without being frozen.
    MoveUnfrozen,
    /// An access is noted by a plain store of the word that was read.
    NoteStored,
    /// A review clears the access bits, and then sets the new ones.
    NoteTorn,
    /// Lines: an item is moved to the next table without being frozen.
    LinesMoveUnfrozen,
    /// Lines: a copy thaws before the old lane is cleared.
    LinesThawFirst,
    /// Lines: a move within the table is not counted.
    LinesNoCount,
    /// Lines: REACH is raised after the insert has given LOCK back.
    LinesReachLate,
    /// Lines: a home that has moved on is taken for one without the key.
    LinesStaleTable,
    /// Lines: a miss does not look at the home again.
    LinesNoSecondLook,
    /// Lines: a look at the lanes before word 0 was read counts for a miss.
    LinesFirstLook,
    /// Lines: the old lane of an item that was moved is cleared with Relaxed.
    LinesRelaxedClear,
    /// Lines: a copy thaws with Relaxed.
    LinesRelaxedThaw,
    /// Lines: the next table is published with Relaxed.
    LinesRelaxedNext,
    /// Lines: homes are counted as moved before they are.
    LinesCountedEarly,
    /// Lines: a table is freed although a session announces it.
    LinesFreeEarly,
    /// Lines: an item goes from the stash to a lane without being frozen.
    LinesStashUnfrozen,
    /// Lines: pages of a window go back without a look at the window before.
    LinesOneWindow,
}

/// The rule by which memory becomes free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reclaim {
    /// The collector.
    #[default]
    Epochs,
    /// Nothing is freed, and everything that epochs might not cover is complained about.
    Oracle,
}
