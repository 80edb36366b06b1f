//! Flags of commands and categories of access control, with Redis's names.

use std::ops::BitOr;

use super::Group;

macro_rules! bit_set {
    ($(#[$doc:meta])* $set:ident { $($(#[$item_doc:meta])* $name:ident = $bit:literal $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $set(u32);

        impl $set {
            /// The empty set.
            pub const NONE: Self = Self(0);
            $($(#[$item_doc])* pub const $name: Self = Self(1 << $bit);)*

            const NAMES: &[(Self, &str)] = &[$((Self::$name, $text),)*];

            /// Whether this set contains all of `other`.
            #[inline]
            pub const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// The union of both sets, as `|`, but usable in constants.
            pub const fn with(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }

            /// The members of this set that are not in `other`.
            pub const fn without(self, other: Self) -> Self {
                Self(self.0 & !other.0)
            }

            /// Redis's names of all members that it has a name for.
            pub fn names(self) -> impl Iterator<Item = &'static str> + Clone {
                let named = move |(bit, name): &&(Self, &str)| self.contains(*bit) && !name.is_empty();
                Self::NAMES.iter().filter(named).map(|(_, name)| *name)
            }
        }

        impl BitOr for $set {
            type Output = Self;
            fn bitor(self, other: Self) -> Self {
                self.with(other)
            }
        }
    };
}

bit_set! {
    /// Properties of a command, for the server and for clients.
    Flags {
        /// May change data.
        WRITE = 0 "write",
        /// Never changes data.
        READONLY = 1 "readonly",
        /// May need more memory: refused if `maxmemory` is reached.
        DENYOOM = 2 "denyoom",
        /// For administrators.
        ADMIN = 3 "admin",
        /// Must not be called by scripts.
        NOSCRIPT = 4 "noscript",
        /// Served while data is being loaded.
        LOADING = 5 "loading",
        /// Served by a replica with stale data.
        STALE = 6 "stale",
        /// Costs at most about as much as the lookup of a key.
        FAST = 7 "fast",
        /// Served before authentication.
        NO_AUTH = 8 "no_auth",
        /// Must not be called in a transaction.
        NO_MULTI = 9 "no_multi",
        /// Served while a script runs.
        ALLOW_BUSY = 10 "allow_busy",
        /// May keep its connection waiting.
        BLOCKING = 11 "blocking",
        /// Other arguments decide which arguments are keys.
        MOVABLE_KEYS = 12 "movablekeys",
        /// About messages between clients.
        PUBSUB = 14 "pubsub",
        /// Does not appear in the log of slow commands.
        SKIP_SLOWLOG = 13 "skip_slowlog",
        /// MONITOR shows the command at another time, or not at all.
        SKIP_MONITOR = 15 "skip_monitor",
        /// May have no keys.
        NO_MANDATORY_KEYS = 16 "no_mandatory_keys",
        /// Must not be called while data is being loaded in the background.
        NO_ASYNC_LOADING = 17 "no_async_loading",
        /// May change the treatment of later requests, which must be decoded after this command has run. Redis has no
        /// name for this flag.
        ENDS_BATCH = 31 "",
    }
}

bit_set! {
    /// Categories of access control. Categories without a command exist because Redis's rules may name them.
    Categories {
        /// Keys of any type.
        KEYSPACE = 0 "@keyspace",
        /// Reads values.
        READ = 1 "@read",
        /// Writes values.
        WRITE = 2 "@write",
        /// Strings.
        STRING = 3 "@string",
        /// For administrators.
        ADMIN = 4 "@admin",
        /// Cheap.
        FAST = 5 "@fast",
        /// Not cheap.
        SLOW = 6 "@slow",
        /// Can harm other clients or expose their data.
        DANGEROUS = 7 "@dangerous",
        /// About the connection.
        CONNECTION = 8 "@connection",
        /// May keep its connection waiting.
        BLOCKING = 9 "@blocking",
        /// Bits of strings.
        BITMAP = 10 "@bitmap",
        /// Several commands as one.
        TRANSACTION = 11 "@transaction",
        /// Hashes.
        HASH = 12 "@hash",
        /// About messages between clients.
        PUBSUB = 13 "@pubsub",
        /// Programs that the server runs.
        SCRIPTING = 14 "@scripting",
        /// Sets.
        SET = 15 "@set",
        /// Sorted sets.
        SORTED_SET = 16 "@sortedset",
        /// Lists.
        LIST = 17 "@list",
        /// Estimated counts.
        HYPERLOGLOG = 18 "@hyperloglog",
        /// Places on earth.
        GEO = 19 "@geo",
        /// Streams: no command here.
        STREAM = 20 "@stream",
    }
}

impl Categories {
    /// The category of this name, without `@`, in any case.
    pub fn named(name: &[u8]) -> Option<Self> {
        let has_name =
            |text: &str| text.trim_start_matches('@').as_bytes().eq_ignore_ascii_case(name);
        Self::NAMES.iter().find(|(_, text)| has_name(text)).map(|(category, _)| *category)
    }

    /// The names of all categories, without `@`.
    pub fn all_names() -> impl ExactSizeIterator<Item = &'static str> {
        Self::NAMES.iter().map(|(_, text)| text.trim_start_matches('@'))
    }

    /// The categories that follow from a command's other properties.
    pub(super) fn implied_by(group: Group, flags: Flags) -> Self {
        let by_group = match group {
            Group::Connection => Self::CONNECTION,
            Group::Generic => Self::KEYSPACE,
            Group::String => Self::STRING,
            Group::Bitmap => Self::BITMAP,
            Group::Hash => Self::HASH,
            Group::List => Self::LIST,
            Group::Set => Self::SET,
            Group::SortedSet => Self::SORTED_SET,
            Group::Geo => Self::GEO,
            Group::HyperLogLog => Self::HYPERLOGLOG,
            // Not every command of these groups is in the category of the same name.
            Group::Server | Group::PubSub | Group::Scripting | Group::Cluster => Self::NONE,
            Group::Transactions => Self::TRANSACTION,
        };
        // A script's reads are checked when it calls commands.
        let read = if matches!(group, Group::Scripting) { Self::NONE } else { Self::READ };
        let implied = |flag, category| if flags.contains(flag) { category } else { Self::NONE };
        by_group
            | implied(Flags::WRITE, Self::WRITE)
            | implied(Flags::READONLY, read)
            | implied(Flags::BLOCKING, Self::BLOCKING)
            | implied(Flags::PUBSUB, Self::PUBSUB)
            | implied(Flags::ADMIN, Self::ADMIN | Self::DANGEROUS)
            | if flags.contains(Flags::FAST) { Self::FAST } else { Self::SLOW }
    }
}
