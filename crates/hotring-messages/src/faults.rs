//! Deliberately wrong variants of the machines' steps, which the simulator must find. Only tests have them.

/// `wrong!(Fault)` tells whether this thread's test asked for a wrong variant.
#[cfg(test)]
macro_rules! wrong {
    ($fault:ident) => {
        crate::faults::is(crate::faults::Fault::$fault)
    };
}

#[cfg(not(test))]
macro_rules! wrong {
    ($fault:ident) => {
        false
    };
}

// The simulator alone chooses; the crate's own test build only has the branches.
#[cfg(test)]
#[allow(unused_imports)]
pub use variants::{Fault, is, set};

#[cfg(test)]
mod variants {
    use std::cell::Cell;

    /// A wrong variant of one step, as a shortcut would suggest.
    #[allow(dead_code)]
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Fault {
        /// Every copy of a request is run.
        NoReplyCache,
        /// A copy that arrives while the first one runs is run, too.
        RunTwice,
        /// A request counts whatever incarnation and epoch it names.
        AnyTerm,
        /// Sessions go on over a change of the epoch.
        KeepOverEpoch,
        /// A client that greets again begins an empty session under the old number.
        EmptySession,
        /// A late copy of a request below the floor is run.
        RunBelowFloor,
        /// A reply that is too long to keep leaves nothing.
        ForgetLong,
        /// The reply is forgotten that its client waits for, with those below the floor.
        ForgetFloor,
        /// The answer to a write that is asked for again while it runs is a datagram.
        LoseTwice,
        /// A session that makes room for another client keeps its number.
        SameSession,
        /// A write of an earlier session is sent again in the next one.
        ResendUnknown,
        /// The number of an ended call is used again.
        ReuseIds,
        /// A write is given up as not done although it was sent.
        CallLateNotDone,
        /// A request is sent before a RECV is posted for its reply.
        NoCredits,
        /// The checksum of an answer is not looked at.
        TrustAnswers,
        /// The checksum of a message is not looked at.
        TrustMessages,
    }

    impl Fault {
        /// All of them.
        #[allow(dead_code)]
        pub const ALL: &[Self] = &[
            Self::NoReplyCache,
            Self::RunTwice,
            Self::AnyTerm,
            Self::KeepOverEpoch,
            Self::EmptySession,
            Self::RunBelowFloor,
            Self::ForgetLong,
            Self::ForgetFloor,
            Self::LoseTwice,
            Self::SameSession,
            Self::ResendUnknown,
            Self::ReuseIds,
            Self::CallLateNotDone,
            Self::NoCredits,
            Self::TrustAnswers,
            Self::TrustMessages,
        ];
    }

    thread_local! {
        static CHOSEN: Cell<Option<Fault>> = const { Cell::new(None) };
    }

    /// Chooses the wrong variant of this thread, or none.
    #[allow(dead_code)]
    pub fn set(fault: Option<Fault>) {
        CHOSEN.set(fault);
    }

    /// Whether this thread runs a wrong variant.
    pub fn is(fault: Fault) -> bool {
        CHOSEN.get() == Some(fault)
    }
}
