//! The wrong variants of these engines' steps, by which the suites of the model checkers are tested. Not compiled into
//! ordinary builds.

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
            /// All wrong variants of these engines.
            pub const ALL: &'static [Any] = &[$(Self::$name,)*];
        }
    };
}

faults! {
    /// Mercury: a session does not notice that a bucket has moved meanwhile.
    MovedUnseen,
    /// Mercury: a bucket is marked as moved before its items are in the larger table.
    MovedEarly,
    /// Mercury: buckets are counted as moved before they are.
    CountEarly,
    /// Mercury: the count of moved buckets is published with Relaxed.
    CountRelaxed,
    /// Mercury: the state changes without the sessions' locks.
    NoThreadLocks,
    /// Chaining: leaving items are copied without being sealed.
    ChainUnsealed,
    /// Chaining: values of leaving items are copied without being frozen.
    ChainUnfrozen,
    /// Chaining: a leaving item is retired when it is marked, and again when it is unlinked.
    ChainRetires,
    /// Chaining: a leaving item is marked before the sibling is ready.
    ChainMarksEarly,
    /// Chaining: a miss does not look again although its bucket was split meanwhile.
    ChainUnnoticed,
    /// Chaining: an insert ignores items that came to the head of its chain after its walk.
    ChainBlindInsert,
    /// G-Cuckoo: a miss does not check versions.
    NoVersions,
    /// G-Cuckoo: the slots on a path of kicks are not compared under the locks.
    TrustPath,
    /// G-Cuckoo: an insert does not check under the locks that the key is absent.
    TrustAbsence,
    /// G-Cuckoo: a page is split while others change it.
    SplitUnfrozen,
    /// G-Cuckoo: a scan copies a page while others change it.
    TornScan,
}
