//! Faults: wrong variants of single steps of these engines, which the suites of the model checkers
//! must notice. Compiled only for the model checkers.

use hotring_index::checks::Fault as Any;

macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The faults, each a value of the index's own `Fault`.
        pub struct Fault;

        #[allow(non_upper_case_globals)]
        impl Fault {
            /// The ring and chains publish items with Relaxed.
            pub const RelaxedPublish: Any = Any::RelaxedPublish;
            $($(#[$doc])* pub const $name: Any = Any::Engine(stringify!($name));)*
            /// The faults that only these engines have.
            pub const ALL: &'static [Any] = &[$(Self::$name,)*];
        }
    };
}

faults! {
    /// Mercury: an operation uses a bucket that has moved meanwhile.
    MovedUnseen,
    /// Mercury: a bucket is marked as moved before its items are in the larger table.
    MovedEarly,
    /// Mercury: buckets are counted as moved before they are.
    CountEarly,
    /// Mercury: the count of moved buckets is published with Relaxed.
    CountRelaxed,
    /// Mercury: the state changes without the sessions' locks.
    NoThreadLocks,
    /// Chaining: a split copies a leaving item without sealing it.
    ChainUnsealed,
    /// Chaining: a split copies a leaving item without freezing its value.
    ChainUnfrozen,
    /// Chaining: a leaving item is retired when it is marked, and again when it is unlinked.
    ChainRetires,
    /// Chaining: a leaving item is marked before the sibling is ready.
    ChainMarksEarly,
    /// Chaining: a lookup reports a miss although the bucket was split during its walk.
    ChainUnnoticed,
    /// Chaining: an insert ignores items that were added to the head of its chain after its walk.
    ChainBlindInsert,
    /// G-Cuckoo: a lookup reports a miss without comparing versions.
    NoVersions,
    /// G-Cuckoo: an insert does not compare the slots on its path of kicks again under the locks.
    TrustPath,
    /// G-Cuckoo: an insert does not check again under the locks that the key is absent.
    TrustAbsence,
    /// G-Cuckoo: a page is split while other sessions change it.
    SplitUnfrozen,
    /// G-Cuckoo: a scan copies a page while other sessions change it.
    TornScan,
}
