//! The macro that makes the command table from the list of commands, and constants for common properties.

use super::{Access, Categories, Flags, KeyRange};

/// Makes the IDs and the two tables from the list. Ignores the handlers.
macro_rules! specs {
    (
        commands {
            $($id:ident = $name:literal $arity:literal $group:ident
                => $handler_mod:ident::$handler:ident $(. $set:ident ( $($value:expr),* ))*;)*
        }
        subcommands {
            $($sub:ident of $parent:ident = $sub_name:literal $sub_arity:literal $sub_group:ident
                => $sub_mod:ident::$sub_handler:ident $(. $sub_set:ident ( $($sub_value:expr),* ))*;)*
        }
    ) => {
        /// Every command and subcommand.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum CommandId {
            $(#[doc = concat!("`", $name, "`")] $id,)*
            $(#[doc = concat!("`", $sub_name, "`")] $sub,)*
        }

        /// The commands, in the order of their IDs.
        pub(super) static COMMANDS: [Spec; [$(CommandId::$id),*].len()] = [
            $(Spec::new(CommandId::$id, $name, $arity, Group::$group)$(.$set($($value),*))*,)*
        ];

        pub(super) static SUBCOMMANDS: [Spec; [$(CommandId::$sub),*].len()] = [
            $(Spec::new(CommandId::$sub, $sub_name, $sub_arity, Group::$sub_group)
                .child_of(CommandId::$parent)$(.$sub_set($($sub_value),*))*,)*
        ];

        /// Whether each command has subcommands, by ID.
        pub(super) static PARENTS: [bool; COMMANDS.len()] = {
            let mut parents = [false; COMMANDS.len()];
            $(parents[CommandId::$parent as usize] = true;)*
            parents
        };
    };
}
pub(super) use specs;

pub(super) const FAST: Flags = Flags::FAST;
pub(super) const READ: Flags = Flags::READONLY;
pub(super) const READ_FAST: Flags = READ.with(FAST);
pub(super) const WRITE: Flags = Flags::WRITE;
pub(super) const WRITE_FAST: Flags = WRITE.with(FAST);
/// Writes that may need more memory.
pub(super) const GROW: Flags = WRITE.with(Flags::DENYOOM);
pub(super) const GROW_FAST: Flags = GROW.with(FAST);
/// Served at any time.
pub(super) const ALWAYS: Flags = Flags::LOADING.with(Flags::STALE);
pub(super) const ALWAYS_FAST: Flags = ALWAYS.with(FAST);
/// Served at any time, but not to scripts.
pub(super) const DIRECT: Flags = ALWAYS.with(Flags::NOSCRIPT);
/// Served to clients that have yet to authenticate. Such a command may change the rights of the connection.
pub(super) const GREETING: Flags =
    DIRECT.with(FAST).with(Flags::NO_AUTH).with(Flags::ALLOW_BUSY).with(Flags::ENDS_BATCH);
/// For administrators, and also callable by scripts.
pub(super) const WATCHING: Flags = ALWAYS.with(Flags::ADMIN);
pub(super) const ADMIN: Flags = DIRECT.with(Flags::ADMIN);
pub(super) const SAVING: Flags = Flags::ADMIN.with(Flags::NOSCRIPT).with(Flags::NO_ASYNC_LOADING);
/// Changes permissions of connections.
pub(super) const USERS: Flags = ADMIN.with(Flags::ENDS_BATCH);
/// Would change the layout of a cluster by hand.
pub(super) const BY_HAND: Flags = Flags::ADMIN.with(Flags::STALE).with(Flags::NO_ASYNC_LOADING);
/// Commands of transactions.
pub(super) const FRAME: Flags = DIRECT.with(FAST).with(Flags::ALLOW_BUSY);
/// Sends messages, or subscribes to them.
pub(super) const MESSAGES: Flags = ALWAYS.with(Flags::PUBSUB);
/// Subscribes to messages, which may restrict the later commands of the connection.
pub(super) const SUBSCRIBING: Flags = MESSAGES.with(Flags::NOSCRIPT).with(Flags::ENDS_BATCH);
/// May block its connection.
pub(super) const BLOCKING: Flags = Flags::BLOCKING.with(Flags::NOSCRIPT).with(Flags::ENDS_BATCH);
/// Writes, and may block its connection, except within a transaction or script.
pub(super) const WAITING: Flags = WRITE.with(Flags::BLOCKING).with(Flags::ENDS_BATCH);
/// Runs a script.
pub(super) const SCRIPT: Flags = Flags::NOSCRIPT
    .with(Flags::STALE)
    .with(Flags::SKIP_MONITOR)
    .with(Flags::NO_MANDATORY_KEYS)
    .with(Flags::MOVABLE_KEYS);
pub(super) const SCRIPT_READ: Flags = SCRIPT.with(READ);

/// The argument after the name is the only key.
pub(super) const fn one(access: Access) -> [KeyRange; 1] {
    [KeyRange { first: 1, last: 1, step: 1, access }]
}
/// The argument after the subcommand's name is the only key.
pub(super) const fn second(access: Access) -> [KeyRange; 1] {
    [KeyRange { first: 2, last: 2, step: 1, access }]
}
/// Every `step`th argument is a key, from the first on.
pub(super) const fn every(step: u8, access: Access) -> [KeyRange; 1] {
    [KeyRange { first: 1, last: -1, step, access }]
}
/// All arguments except the last one are keys.
pub(super) const fn all_but_last(access: Access) -> [KeyRange; 1] {
    [KeyRange { first: 1, last: -2, step: 1, access }]
}
/// The second argument is the number of keys, which follow it.
pub(super) const fn counted(access: Access) -> [KeyRange; 1] {
    [KeyRange { first: 3, last: KeyRange::COUNTED, step: 1, access }]
}
/// The first argument is the number of keys, which follow it.
pub(super) const fn counted_first(access: Access) -> [KeyRange; 1] {
    [KeyRange { first: 2, last: KeyRange::COUNTED, step: 1, access }]
}
/// The first two arguments are keys with different uses.
pub(super) const fn pair(from: Access, to: Access) -> [KeyRange; 2] {
    [
        KeyRange { first: 1, last: 1, step: 1, access: from },
        KeyRange { first: 2, last: 2, step: 1, access: to },
    ]
}

/// The key of GEORADIUS and GEORADIUSBYMEMBER, and the destination key, which options from argument `from` on may name.
pub(super) const fn geo_stored(from: u8) -> [KeyRange; 3] {
    let store = KeyRange { first: from, last: KeyRange::STORE, step: 1, access: Access::Overwrite };
    [one(Access::Read)[0], store, KeyRange { last: KeyRange::STOREDIST, ..store }]
}

/// The first argument is the destination key; all others are source keys.
pub(super) const fn into(to: Access) -> [KeyRange; 2] {
    [
        KeyRange { first: 1, last: 1, step: 1, access: to },
        KeyRange { first: 2, last: -1, step: 1, access: Access::Read },
    ]
}

/// The first argument is the destination key; the second is the number of source keys, which follow it.
pub(super) const fn into_from_counted() -> [KeyRange; 2] {
    [
        KeyRange { first: 1, last: 1, step: 1, access: Access::Overwrite },
        KeyRange { first: 3, last: KeyRange::COUNTED, step: 1, access: Access::Read },
    ]
}

pub(super) const ALL_NODES: &str = "request_policy:all_nodes";
pub(super) const ALL_SHARDS: &str = "request_policy:all_shards";
pub(super) const MULTI_SHARD: &str = "request_policy:multi_shard";
pub(super) const SPECIAL_REQUEST: &str = "request_policy:special";
pub(super) const SPECIAL_RESPONSE: &str = "response_policy:special";
pub(super) const ALL_SUCCEEDED: &str = "response_policy:all_succeeded";
pub(super) const SUM: &str = "response_policy:agg_sum";
pub(super) const MINIMUM: &str = "response_policy:agg_min";
pub(super) const VARIES: &str = "nondeterministic_output";
pub(super) const ORDER_VARIES: &str = "nondeterministic_output_order";
pub(super) const EACH_PLACE: &str = "O(n + log m): n members near the area, m in all";
pub(super) const EACH_KEY: &str = "O(n) in the number of keys";
pub(super) const EACH_CHANNEL: &str = "O(n) in the number of names";
pub(super) const EACH_BYTE: &str = "O(n) in the length of the value";
/// Holds for short hashes as well, although they are searched field by field: their length is bounded.
pub(super) const EACH_FIELD: &str = "O(n) in the number of fields named";
pub(super) const WHOLE_HASH: &str = "O(n) in the number of fields";
/// Holds for short lists as well, although they are searched element by element: their length is bounded.
pub(super) const IN_LIST: &str = "O(log n) in the number of elements";
pub(super) const EACH_ELEMENT: &str = "O(n) in the number of elements";
pub(super) const EACH_MEMBER: &str = "O(n) in the number of members named";
pub(super) const WHOLE_SET: &str = "O(n) in the number of members";
pub(super) const SMALLEST_SET: &str = "O(n m): n members of the smallest set, m sets";
pub(super) const SORTS: &str = "O(n + m log m): m elements sorted, n answered";
pub(super) const ALL_SETS: &str = "O(n) in the number of all members";
pub(super) const EACH_BYTE_OF_KEY: &str = "O(n) in the length of the key";
pub(super) const EACH_NODE: &str = "O(n) in the number of nodes and slots";
pub(super) const BY_SCRIPT: &str = "the cost of the script";
/// Replaces the version of Redis for commands that Redis does not have.
pub(super) const OURS: &str = "hotring";
pub(super) const WHOLE_STORE: &str = "O(n) in the number of all keys";
/// The key that SORT reads, and the keys that its patterns name.
pub(super) const SORTED: [KeyRange; 2] = [
    KeyRange { first: 1, last: 1, step: 1, access: Access::Read },
    KeyRange { first: 1, last: KeyRange::UNKNOWN, step: 1, access: Access::Read },
];
/// The categories of the types that SORT accepts.
pub(super) const SORTABLE: Categories =
    Categories::LIST.with(Categories::SET).with(Categories::SORTED_SET).with(Categories::DANGEROUS);
