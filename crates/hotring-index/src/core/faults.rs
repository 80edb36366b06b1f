//! Deliberately wrong variants of the protocol's steps, for model checkers. Ordinary builds contain none.

/// A wrong variant of one step, as a shortcut or the papers' text would suggest. The suites must fail for
/// each of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fault {
    /// The correct protocol.
    #[default]
    None,
    /// The wrong variant with this name, of an engine of another crate.
    Engine(&'static str),
    /// The head is moved without a claim; the deleter clears it and retires at once.
    NaiveHead,
    /// As `NaiveHead`, but the mover checks the item again after the move, and undoes the move if it is dead.
    RecheckHead,
    /// A walk starts at a dead head.
    TrustDead,
    /// From a dead head the walk continues to the first live item.
    FollowDead,
    /// An item is retired when it leaves the chain, although a hint holds it.
    NoUnlinkWait,
    /// The check whether a hint holds the item uses Relaxed.
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
    /// A walk takes dead items out of the chain by a plain store.
    CutStored,
    /// A session's queue of old versions keeps items, not hashes, and looks at them under a later pin.
    QueueTrustsItem,
    /// A session retires the items in its queue of old versions, although another walk may have unlinked them.
    QueueRetires,
    /// The table shrinks without grace periods.
    NoGrace,
    /// The table shrinks without its anchors being marked before they are unlinked.
    NoAnchorMark,
    /// A hint of a discarded slot is dropped without releasing its claim.
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
    /// The hint word of a replaced item is cleared like that of a removed item.
    ClearReplaced,
    /// A reader does not read the anchor a second time.
    NoSecondLook,
    /// A split hands hints over without making the parent's line incomplete.
    SplitKeepsComplete,
    /// A split leaves a candidate in the parent's line while its own line is not usable yet.
    SplitTrustsCandidate,
    /// A complete line answers for every key whose lookup reaches the line.
    ServesAll,
    /// A line answers for a bucket split from it even if another bucket may lie in between.
    ServesChildren,
    /// A displaced hint leaves COMPLETE alone.
    DisplaceKeepsComplete,
    /// A hint with the key's tag is assumed to point to the key's item.
    TrustTag,
    /// An expired item is marked without its expiry being closed first.
    NoDoom,
    /// Memory is freed one epoch too early.
    FreeEarly,
    /// A pin is not ordered before the loads that follow.
    NoPinFence,
    /// An item is moved without being frozen.
    MoveUnfrozen,
    /// An access is noted by a plain store of the word read before, not by a compare-exchange.
    NoteStored,
    /// A review clears the access bits and sets the new bits in a second step.
    NoteTorn,
    /// Lines: an item is moved to the next table without being frozen.
    LinesMoveUnfrozen,
    /// Lines: a copy thaws before the old lane is cleared.
    LinesThawFirst,
    /// Lines: a move within the table is not counted.
    LinesNoCount,
    /// Lines: REACH is raised after the insert has released LOCK.
    LinesReachLate,
    /// Lines: a home that waits to be tidied is tidied without its LOCK.
    LinesTidyUnlocked,
    /// Lines: a home that was moved to the next table is taken for a home without the key.
    LinesStaleTable,
    /// Lines: a miss does not read the home a second time.
    LinesNoSecondLook,
    /// Lines: a miss relies on lanes that were read before word 0.
    LinesFirstLook,
    /// Lines: the old lane of an item that was moved is cleared with Relaxed.
    LinesRelaxedClear,
    /// Lines: a copy thaws with Relaxed.
    LinesRelaxedThaw,
    /// Lines: the next table is published with Relaxed.
    LinesRelaxedNext,
    /// Lines: homes are counted as moved before they are moved.
    LinesCountedEarly,
    /// Lines: a table is freed although a session announces it.
    LinesFreeEarly,
    /// Lines: an item goes from the stash to a lane without being frozen.
    LinesStashUnfrozen,
    /// Lines: the pages of a window are returned without checking the window before it.
    LinesOneWindow,
}

/// The rule by which memory becomes free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reclaim {
    /// The collector.
    #[default]
    Epochs,
    /// Nothing is freed, and every access that epochs might not cover panics.
    Oracle,
}
