//! Deliberately wrong variants of the machines' steps, which the simulator must find. Only tests have them.

/// `wrong!(Fault)` tells whether this thread's test asked for a wrong variant; `wrong!(Fault => code)` runs
/// `code` in it.
#[cfg(test)]
macro_rules! wrong {
    ($fault:ident) => {
        crate::faults::is(crate::faults::Fault::$fault)
    };
    ($fault:ident => $code:expr) => {
        if wrong!($fault) {
            $code;
        }
    };
}

#[cfg(not(test))]
macro_rules! wrong {
    ($fault:ident) => {
        false
    };
    ($fault:ident => $code:expr) => {};
}

// The simulator alone chooses; the crate's own test build only has the branches.
#[cfg(test)]
#[allow(unused_imports)]
pub use variants::{Fault, is, set};

#[cfg(test)]
mod variants {
    use std::cell::Cell;

    /// A wrong variant of one step, as a shortcut would suggest. Some are steps of the machines' owner.
    #[allow(dead_code)]
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Fault {
        /// A write is acknowledged before the replicas have it.
        AckEarly,
        /// A replica outside of the in-sync set is promoted.
        PromoteOutside,
        /// A promotion begins no epoch.
        ForgetEpoch,
        /// An empty primary goes on, and its replicas believe it.
        TrustEmpty,
        /// A replica applies records whose batch has not ended.
        HalfBatch,
        /// The last point in common is the smaller of the last records.
        LsnsAlone,
        /// A replica counts only once the transaction that adds it is known to be through.
        AddLate,
        /// A replica no longer counts as soon as the transaction that removes it is sent.
        RemoveEarly,
        /// A promoted replica does not wait for the end of its promise.
        BreakPromise,
        /// Acknowledgements of an earlier connection count.
        AnySession,
        /// A restarted replica counts as caught up although it lacks what came before the primary's epoch.
        CaughtUpEarly,
        /// A replica whose connection ended in the middle of a repair counts as whole on the next one.
        ForgetRepair,
        /// A replica that has dropped its data for a copy counts as whole if the connection ends in the middle.
        ForgetCopy,
        /// A replica says that it is not whole as soon as a copy is announced, though it still has everything.
        DropEarly,
        /// A member of the recorded set is told to give up data before it is removed.
        RepairMembers,
        /// A replica tells its replicas that they are in sync if they have what it has.
        SyncBelow,
        /// A replica feeds its replicas on when its stream begins an epoch.
        FeedOverEpoch,
        /// Someone else adds a replica to the in-sync set.
        AddAsMember,
        /// A member is removed by a primary that may hear no other node.
        RemoveUnheard,
        /// An answer of the records lets any member be removed that is silent when it comes, however old it is.
        HeedOldAnswers,
        /// What a full disk keeps back counts as part of the stream.
        TellUnwritten,
        /// A replica is added to the set before it has heard that it has caught up.
        NameUnaware,
        /// A primary does not take over what others have changed in its record.
        HeedNobody,
        /// A node goes on after the loss of a whole set before all members have come back.
        InheritEarly,
        /// Of all members the one with the least goes on.
        InheritLeast,
        /// A node tells how far its data goes although that lacks the present reign.
        TellAll,
        /// A node tells how far its data goes while the primary lives.
        TellEarly,
        /// What a node told of an earlier epoch counts.
        AnyExtent,
        /// A node goes on after the loss of a whole set although the set has changed.
        InheritAnyway,
        /// A node gets a shard although its own record has changed.
        PlaceTwice,
        /// A change of a node that is no longer the controller takes effect.
        AnyController,
        /// A node that came back and died again counts as dead since its first death.
        CountOn,
        /// The dead replica leaves before the other one has anything.
        ReplaceAtOnce,
        /// A replacement does not look whether the shard has changed.
        AnyShard,
        /// A replica is replaced although it has come back.
        AnyDeath,
        /// A move steps back although its transaction may take effect.
        StepBackUnknown,
        /// A move begins again, and an import over, without looking whether an earlier attempt is through.
        OpenUnread,
        /// A move is committed although the target has another primary than when the attempt began.
        AnyTarget,
        /// A move is committed although its record is another than when the attempt began.
        AnyRecord,
        /// Reads go on at the source while the transaction is on its way.
        ReadsGoOn,
        /// An earlier mark counts as the last one.
        AnyMark,
        /// The target's new primary gives an import up without looking whether the slots are its own.
        DropUnread,
        /// The target takes slots back before it has removed the keys that it gave away.
        OpenUnclean,
        /// The target shows an import as soon as it has everything.
        ShowEarly,
        /// An import goes on with what an earlier attempt has left.
        KeepOld,
        /// A shard gives slots on before it shows the keys that came with them.
        GiveUnshown,
        /// The target says that it has what its replicas lack.
        HasAlone,
        /// A move goes on although the target may not have synced the keys.
        HoldUnsynced,
        /// The target says that it has synced what it has only written.
        SyncedEarly,
        /// A guard ends before its holders have dropped the key.
        ApplyFirst,
        /// A grant is longer than the owner's right to answer.
        OutliveRight,
        /// A grant is longer than the key's life.
        OutliveKey,
        /// A holder that has dropped an earlier version counts as if it had dropped the present one.
        AnyVersion,
        /// A primary that was started again does not wait for the grants of its earlier start.
        ForgetGrants,
        /// A role, or slots, are handed over while grants last.
        LeaveGrants,
        /// A holder counts a grant from when it arrives.
        CountFromArrival,
        /// A holder relies on all of a grant, although its clock may be slower.
        RelyOnAll,
        /// A holder uses the answer to a question from before it dropped the key.
        TakeDropped,
        /// A value that may be undone goes with a grant.
        GrantUncommitted,
        /// The empty hash tag of `{}` counts as the key.
        EmptyTag,
        /// A place that is an identifier belongs to the next one.
        ClosedRange,
        /// Places after the last identifier belong to it.
        NoWrap,
        /// Every shard has the same share.
        NoWeights,
        /// A shard may have any load.
        NoBound,
        /// A transaction takes effect whatever the records' revisions are.
        IgnoreExpected,
        /// A change does not raise the revision.
        SameRevision,
        /// The records of a lease that is over stay.
        KeepLeased,
        /// A watch begins one change too late.
        SkipChange,
    }

    impl Fault {
        /// All that schedules of the simulator find.
        #[allow(dead_code)]
        pub const ALL: &[Self] = &[
            Self::AckEarly,
            Self::PromoteOutside,
            Self::ForgetEpoch,
            Self::TrustEmpty,
            Self::HalfBatch,
            Self::LsnsAlone,
            Self::AddLate,
            Self::RemoveEarly,
            Self::BreakPromise,
            Self::AnySession,
            Self::CaughtUpEarly,
            Self::ForgetRepair,
            Self::ForgetCopy,
            Self::DropEarly,
            Self::RepairMembers,
            Self::SyncBelow,
            Self::FeedOverEpoch,
            Self::AddAsMember,
            Self::NameUnaware,
            Self::HeedNobody,
            Self::RemoveUnheard,
            Self::HeedOldAnswers,
            Self::TellUnwritten,
            Self::InheritEarly,
            Self::InheritLeast,
            Self::TellAll,
            Self::ApplyFirst,
            Self::OutliveRight,
            Self::CountFromArrival,
            Self::TakeDropped,
            Self::GrantUncommitted,
        ];
    }

    thread_local! {
        static CHOSEN: Cell<Option<Fault>> = const { Cell::new(None) };
    }

    #[allow(dead_code)]
    /// Chooses the wrong variant of this thread.
    pub fn set(fault: Option<Fault>) {
        CHOSEN.set(fault);
    }

    /// Whether this thread runs the wrong variant.
    pub fn is(fault: Fault) -> bool {
        CHOSEN.get() == Some(fault)
    }
}
