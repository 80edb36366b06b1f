//! The rare steps of these engines, which tests count; see `hotring_index::hooks`.

hotring_index::rare_steps! {
    /// An insert lost the compare-exchange that links.
    LinkLost,
    /// A replacement lost the compare-exchange that marks.
    ReplaceLost,
    /// A removal lost the compare-exchange that marks.
    KillLost,
    /// A walk could not cut dead items out and restarted.
    CutLost,
    /// A dead item was left to a new walk.
    UnlinkLeft,
    /// A walk cut out more than one dead item at once.
    RunCut,
    /// A reader passed a dead item.
    DeadPassed,
    /// A doubling.
    Grown,
    /// A doubling in steps began.
    ExpansionBegun,
    /// A doubling in steps ended.
    Expanded,
    /// A bucket had moved by the time it was locked.
    MovedMeanwhile,
    /// Two sessions began the same split of a chain.
    FreezeLost,
    /// Another session finished a split of a chain.
    SplitHelped,
    /// An item changed while it was being sealed.
    SealLost,
    /// A writer's walk met a sealed item.
    SealedMet,
    /// Copies came too late to be used.
    CopiesUnused,
    /// Copying ended early, as another session's copies were published.
    CopyingEnded,
    /// A reader looked again, as something had moved meanwhile.
    LookedAgain,
    /// G-Cuckoo: a replaced item led to its copy.
    CopyFollowed,
    /// A reader took the locks after too many looks.
    Impatient,
    /// A path had changed since it was found.
    PathLost,
    /// An item went to the stash.
    Stashed,
    /// An item came back from the stash.
    Unstashed,
    /// The graph was rebuilt.
    GraphRebuilt,
    /// A split found that the page had been split meanwhile.
    SplitLate,
    /// A scan looked at a bucket or a page again, as it had changed meanwhile.
    ScannedAgain,
}
