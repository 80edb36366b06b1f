//! The command table, the single source of every property of a command.
//!
//! The table is in `list.rs`, `containers.rs`, `geo.rs`, `cluster.rs` and `sublist.rs`, written with the macros of
//! `define.rs`. The following are derived from it: name lookup and the check of the number of arguments ([`resolve`]),
//! the [`CommandId`], the replies of `COMMAND` (`reply.rs`), the positions of keys in a request (`keys.rs`), the
//! documentation page (`markdown.rs`), and the handlers in `crate::commands`, by ID. The server serves exactly the
//! commands in the table.

mod cluster;
mod containers;
mod define;
mod flags;
mod geo;
mod keys;
mod list;
mod lookup;
mod markdown;
mod redis;
mod reply;
mod sublist;
mod syntax;

pub(crate) use cluster::with_cluster;
pub(crate) use containers::with_containers;
pub use flags::{Categories, Flags};
pub(crate) use geo::with_geo;
pub(crate) use keys::stored_key;
pub use keys::{Access, KeyRange};
pub use list::CommandId;
pub(crate) use list::all_commands;
pub use lookup::{CommandError, called, lookup, lookup_full, quoted, resolve};
pub use markdown::markdown;
pub use redis::{RedisCommand, is_redis_command, redis_commands};
pub use reply::{command_docs, command_info};
pub(crate) use sublist::with_subcommands;

/// One command or subcommand.
#[derive(Debug)]
pub struct Spec {
    /// The ID, which is the index of the command's counters and handler.
    pub id: CommandId,
    /// The lower-case name. The name of a subcommand includes its parent's, such as `client|id`.
    pub name: &'static str,
    /// The parent command, if this is a subcommand.
    pub parent: Option<CommandId>,
    /// The number of arguments, including the name (and the subcommand's name); negative for a minimum.
    pub arity: i16,
    /// The properties of the command, for servers and clients.
    pub flags: Flags,
    /// Categories of access control in addition to those implied by group and flags.
    extra_categories: Categories,
    /// The arguments that are keys.
    pub keys: &'static [KeyRange],
    /// The arguments that are not keys, but by which the clients of a cluster choose a server as by keys.
    routed_by: &'static [KeyRange],
    /// The position of the key, if every request has exactly one; otherwise 0. A fast path for most requests.
    sole_key: u8,
    /// The group in the documentation.
    pub group: Group,
    /// The first version of Redis that has the command; `hotring` if Redis has no such command.
    pub since: &'static str,
    /// The syntax of the arguments after the name.
    pub syntax: &'static str,
    /// The complexity of the command.
    pub complexity: &'static str,
    /// A summary, one sentence.
    pub summary: &'static str,
    /// Hints for clients that distribute requests over several servers.
    pub tips: &'static [&'static str],
    /// The minimum number of arguments, including the name, of a timed request. With fewer arguments the command is too
    /// quick to read a clock twice.
    timed_from: usize,
}

/// A command that is quick for one key is timed from this many arguments on, because it then takes some microseconds.
const TIMED_ARGS: usize = 64;

/// The group of a command in the documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// About the connection itself.
    Connection,
    /// About keys with values of any type.
    Generic,
    /// About the process.
    Server,
    /// About strings.
    String,
    /// About the bits of strings.
    Bitmap,
    /// Several commands as one.
    Transactions,
    /// About hashes.
    Hash,
    /// About lists.
    List,
    /// About sets.
    Set,
    /// About sorted sets.
    SortedSet,
    /// About places on earth.
    Geo,
    /// About estimated counts.
    HyperLogLog,
    /// About messages between clients.
    PubSub,
    /// Programs that run in the server.
    Scripting,
    /// About the cluster to which the server belongs.
    Cluster,
}

impl Group {
    /// Redis's name of the group.
    pub fn name(self) -> &'static str {
        match self {
            Self::Connection => "connection",
            Self::Generic => "generic",
            Self::Server => "server",
            Self::String => "string",
            Self::Bitmap => "bitmap",
            Self::Transactions => "transactions",
            Self::Hash => "hash",
            Self::List => "list",
            Self::Set => "set",
            Self::SortedSet => "sorted-set",
            Self::Geo => "geo",
            Self::HyperLogLog => "hyperloglog",
            Self::PubSub => "pubsub",
            Self::Scripting => "scripting",
            Self::Cluster => "cluster",
        }
    }
}

/// All commands, not including subcommands, in the table's order.
pub fn commands() -> &'static [Spec] {
    &list::COMMANDS
}

/// The number of IDs: each [`CommandId`] as a number is below this.
pub const COMMAND_IDS: usize = list::COMMANDS.len() + list::SUBCOMMANDS.len();

/// All commands and subcommands, in the order of their IDs.
pub fn specs() -> impl Iterator<Item = &'static Spec> {
    list::COMMANDS.iter().chain(&list::SUBCOMMANDS)
}

/// The subcommands of a command; most have none.
pub fn subcommands(of: CommandId) -> impl Iterator<Item = &'static Spec> {
    list::SUBCOMMANDS.iter().filter(move |spec| spec.parent == Some(of))
}

impl Spec {
    /// Whether the command takes `n_args` arguments, including the name.
    #[inline]
    pub fn takes(&self, n_args: usize) -> bool {
        let arity = usize::from(self.arity.unsigned_abs());
        if self.arity < 0 { n_args >= arity } else { n_args == arity }
    }

    /// The position of the key, if every request has exactly one.
    #[inline]
    pub fn sole_key(&self) -> Option<usize> {
        (self.sole_key > 0).then_some(self.sole_key.into())
    }

    /// Whether a request with this many arguments may take long and must be timed.
    #[inline]
    pub fn is_timed(&self, n_args: usize) -> bool {
        n_args >= self.timed_from
    }

    /// The name without the parent's name: `id` of `client|id`.
    pub fn own_name(&self) -> &'static str {
        self.name.rsplit('|').next().expect("rsplit gives at least one part")
    }

    /// All categories of access control that the command is in.
    pub fn categories(&self) -> Categories {
        // A command that only holds subcommands has no subject itself.
        let is_parent = subcommands(self.id).next().is_some();
        let group = if is_parent { Group::Server } else { self.group };
        let implied = Categories::implied_by(group, self.flags);
        // A command that names its types is not for keys of any type.
        match self.extra_categories.contains(Categories::LIST) {
            true => self.extra_categories | implied.without(Categories::KEYSPACE),
            false => self.extra_categories | implied,
        }
    }

    const fn new(id: CommandId, name: &'static str, arity: i16, group: Group) -> Self {
        Self {
            id,
            name,
            parent: None,
            arity,
            flags: Flags::NONE,
            extra_categories: Categories::NONE,
            keys: &[],
            routed_by: &[],
            sole_key: 0,
            group,
            since: "1.0.0",
            syntax: "",
            complexity: "O(1)",
            summary: "",
            tips: &[],
            timed_from: 0,
        }
    }

    const fn child_of(self, parent: CommandId) -> Self {
        Self { parent: Some(parent), ..self }
    }

    const fn flags(self, flags: Flags) -> Self {
        Self { flags, ..self }
    }

    const fn categories_too(self, extra_categories: Categories) -> Self {
        Self { extra_categories, ..self }
    }

    const fn keys(self, keys: &'static [KeyRange]) -> Self {
        let sole_key = match keys {
            [range] if range.last >= 0 && range.last as u8 == range.first => range.first,
            _ => 0,
        };
        Self { keys, sole_key, ..self }
    }

    const fn routed_by(self, routed_by: &'static [KeyRange]) -> Self {
        Self { routed_by, ..self }
    }

    const fn since(self, since: &'static str) -> Self {
        Self { since, ..self }
    }

    const fn args(self, syntax: &'static str) -> Self {
        Self { syntax, ..self }
    }

    const fn cost(self, complexity: &'static str) -> Self {
        Self { complexity, ..self }
    }

    const fn about(self, summary: &'static str) -> Self {
        Self { summary, ..self }
    }

    /// Marks a command that, with few arguments, takes hardly longer than reading a clock: it is then not timed.
    const fn quick(self) -> Self {
        Self { timed_from: TIMED_ARGS, ..self }
    }

    /// As [`quick`](Self::quick), but timed from `n_args` arguments on, because an argument may ask for much work.
    const fn quick_below(self, n_args: usize) -> Self {
        Self { timed_from: n_args, ..self }
    }

    const fn tips(self, tips: &'static [&'static str]) -> Self {
        Self { tips, ..self }
    }
}

#[cfg(test)]
mod tests;
