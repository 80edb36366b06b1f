//! The rare steps of these engines: see `hotring_index::hooks`.

hotring_index::rare_steps! {
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
    /// A doubling.
    Grown,
    /// A doubling in steps began.
    ExpansionBegun,
    /// It came to its end.
    Expanded,
    /// A bucket had moved by the time that it was locked.
    MovedMeanwhile,
    /// A split of a chain was begun by two.
    FreezeLost,
    /// A split of a chain was finished by another one.
    SplitHelped,
    /// An item changed while it was being sealed.
    SealLost,
    /// A writer's walk met a sealed item.
    SealedMet,
    /// Copies came too late to be used.
    CopiesUnused,
    /// Copying ended, as others had done it.
    CopyingEnded,
    /// A reader looked again, as something had moved meanwhile.
    LookedAgain,
    /// G-Cuckoo: a replaced item led to its copy.
    CopyFollowed,
    /// A reader took the locks in the end.
    Impatient,
    /// A path had changed since it was found.
    PathLost,
    /// An item went to the stash.
    Stashed,
    /// An item came back from there.
    Unstashed,
    /// The graph was rebuilt.
    GraphRebuilt,
    /// A page was to be split that had been split meanwhile.
    SplitLate,
    /// A scan looked at a bucket or a page again, as it had changed meanwhile.
    ScannedAgain,
}
