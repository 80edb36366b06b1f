//! The one table of commands.
//!
//! `list.rs` and `sublist.rs` hold it, written with the macros of `define.rs`. From it come the name lookup and the
//! check of the number of arguments ([`resolve`]), the [`CommandId`], the replies
//! of `COMMAND` (`reply.rs`), the place of the keys in a request (`keys.rs`), the
//! page of documentation (`markdown.rs`), and the handlers in `crate::commands`, by id. A command that is not in the
//! table does not exist; one that is there is served.

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
    /// Its number, which counters and handlers are found by.
    pub id: CommandId,
    /// Lower-case name; of a subcommand with its parent's, as `client|id`.
    pub name: &'static str,
    /// The command that this one is a subcommand of.
    pub parent: Option<CommandId>,
    /// Number of arguments with the name (and the subcommand's name); negative: at least.
    pub arity: i16,
    /// The properties of the command, for servers and clients.
    pub flags: Flags,
    /// Categories of access control besides those that follow from group and flags.
    extra_categories: Categories,
    /// Which arguments are keys.
    pub keys: &'static [KeyRange],
    /// Which arguments are no keys, though the clients of a cluster choose a server by them as by keys.
    routed_by: &'static [KeyRange],
    /// The place of the only key, where every request has one: nearly all requests are such.
    sole_key: u8,
    /// Where the documentation files it.
    pub group: Group,
    /// The first version of Redis that has it; `hotring` where Redis has no such command.
    pub since: &'static str,
    /// Syntax of the arguments behind the name.
    pub syntax: &'static str,
    /// Order of its cost.
    pub complexity: &'static str,
    /// A summary, one sentence.
    pub summary: &'static str,
    /// Hints for clients that spread requests over several servers.
    pub tips: &'static [&'static str],
    /// From this many arguments on, the name counted, it is worth the time to read a clock twice.
    timed_from: usize,
}

/// A command that is quick for one key is timed from this many arguments on: it takes some microseconds then.
const TIMED_ARGS: usize = 64;

/// Where the documentation files a command.
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
        }
    }
}

/// All commands without subcommands, in the table's order.
pub fn commands() -> &'static [Spec] {
    &list::COMMANDS
}

/// How many ids there are: each [`CommandId`] as a number is below this.
pub const COMMAND_IDS: usize = list::COMMANDS.len() + list::SUBCOMMANDS.len();

/// All commands and subcommands, in the order of their ids.
pub fn specs() -> impl Iterator<Item = &'static Spec> {
    list::COMMANDS.iter().chain(&list::SUBCOMMANDS)
}

/// The subcommands of a command; most have none.
pub fn subcommands(of: CommandId) -> impl Iterator<Item = &'static Spec> {
    list::SUBCOMMANDS.iter().filter(move |spec| spec.parent == Some(of))
}

impl Spec {
    /// Is `n_args`, which counts the name, a number of arguments that the command takes?
    #[inline]
    pub fn takes(&self, n_args: usize) -> bool {
        let arity = usize::from(self.arity.unsigned_abs());
        if self.arity < 0 { n_args >= arity } else { n_args == arity }
    }

    /// The place of the key, if every request has exactly one.
    #[inline]
    pub fn sole_key(&self) -> Option<usize> {
        (self.sole_key > 0).then_some(self.sole_key.into())
    }

    /// Whether a request of this many arguments may take long, so that its time is taken.
    #[inline]
    pub fn is_timed(&self, n_args: usize) -> bool {
        n_args >= self.timed_from
    }

    /// The name without its parent's: `id` of `client|id`.
    pub fn own_name(&self) -> &'static str {
        self.name.rsplit('|').next().expect("rsplit gives at least one part")
    }

    /// All categories of access control that the command is in.
    pub fn categories(&self) -> Categories {
        // A command that only holds subcommands has no subject itself.
        let is_parent = subcommands(self.id).next().is_some();
        let group = if is_parent { Group::Server } else { self.group };
        let implied = Categories::implied_by(group, self.flags);
        // A command that names its types does not take any.
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

    /// With few arguments it takes hardly longer than to read a clock.
    const fn quick(self) -> Self {
        Self { timed_from: TIMED_ARGS, ..self }
    }

    /// As [`quick`](Self::quick), with fewer arguments than this, which may ask for much.
    const fn quick_below(self, n_args: usize) -> Self {
        Self { timed_from: n_args, ..self }
    }

    const fn tips(self, tips: &'static [&'static str]) -> Self {
        Self { tips, ..self }
    }
}

#[cfg(test)]
mod tests;
