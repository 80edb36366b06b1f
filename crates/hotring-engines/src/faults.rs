//! The wrong variants of these engines' steps, for the suites of the model checkers. Not in ordinary
//! builds.

use hotring_index::checks::Fault as Any;

macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Names of wrong variants, each a value of the index's own `Fault`.
        pub struct Fault;

        #[allow(non_upper_case_globals)]
        impl Fault {
            /// Items are published with Relaxed: of the ring and of chains.
            pub const RelaxedPublish: Any = Any::RelaxedPublish;
            $($(#[$doc])* pub const $name: Any = Any::Engine(stringify!($name));)*
            /// All that only these engines have.
            pub const ALL: &'static [Any] = &[$(Self::$name,)*];
        }
    };
}

faults! {
    /// Mercury: a bucket that has moved meanwhile is taken for the one that it was.
    MovedUnseen,
    /// Mercury: a bucket is shown to have moved before its items are in the larger table.
    MovedEarly,
    /// Mercury: buckets are counted as moved before they are.
    CountEarly,
    /// Mercury: the count of moved buckets is published with Relaxed.
    CountRelaxed,
    /// Mercury: the state changes without the sessions' locks.
    NoThreadLocks,
    /// Leaving items are copied without being sealed.
    ChainUnsealed,
    /// Its values are copied without being frozen.
    ChainUnfrozen,
    /// It is retired when it is marked, and again when it is unlinked.
    ChainRetires,
    /// It is marked before the sibling is ready.
    ChainMarksEarly,
    /// A miss in a chain is not looked at again although its bucket was split meanwhile.
    ChainUnnoticed,
    /// An insert ignores items that came to the head of its chain after its walk.
    ChainBlindInsert,
    /// G-Cuckoo: a miss does not look at versions.
    NoVersions,
    /// The slots on a path of kicks are not compared under the locks.
    TrustPath,
    /// Whether the key is present is not asked again under the locks.
    TrustAbsence,
    /// A page is split while others change it.
    SplitUnfrozen,
    /// A scan copies a page while others change it.
    TornScan,
}
