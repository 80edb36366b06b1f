//! Decides what to do with a request: which nodes get it, and how their replies become one.

use std::fmt;

use hotring_cluster::{Slot, slot_of};
use hotring_commands::table::{CommandId, Flags, Group, Spec};
use hotring_protocol::ArgsView;

use crate::combine::{Combine, split_cursor};

/// What to do with a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// The shard of this slot gets it.
    Slot(Slot),
    /// The shards of these slots get parts of it.
    Split(Vec<Part>, Combine),
    /// Every shard gets it.
    Everywhere(Combine),
    /// Any shard may get it.
    Anywhere,
    /// The shard of this slot gets a SCAN with its own cursor.
    Scan(Slot, u64),
    /// SCAN from the beginning.
    ScanFirst,
    /// The proxy answers it.
    Here,
    /// It needs a connection of its own, or changes the state of the client's connection.
    Alone,
    /// It is refused.
    Refused(Refusal),
}

/// The part of a request whose keys are in one slot.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub slot: Slot,
    /// The positions of its keys among the arguments.
    pub keys: Vec<usize>,
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It must be atomic, and its keys are in several slots.
    Across,
    /// It is about one node.
    OfNode(&'static str),
    /// It is about the cluster that the proxy hides.
    Cluster,
    /// It needs what the proxy does not have.
    Missing(&'static str),
    /// A value is missing.
    Arity(&'static str),
    /// A cursor that the proxy has not given.
    Cursor,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Across => f.write_str(
                "CROSSSLOT the keys of this request are on several nodes, and it must be atomic: give them one hash tag, as in {tag}key",
            ),
            Refusal::OfNode(name) => write!(
                f,
                "ERR {name} is about one node, and this is a proxy of many: ask the node itself; ROUTE key names the one that has a key"
            ),
            Refusal::Cluster => f.write_str("ERR This instance has cluster support disabled"),
            Refusal::Missing(name) => {
                write!(f, "ERR {name} does not work through a proxy: connect to the nodes")
            }
            Refusal::Arity(name) => {
                write!(f, "ERR wrong number of arguments for '{name}' command")
            }
            Refusal::Cursor => f.write_str("ERR invalid cursor"),
        }
    }
}

/// What to do with a request of this command. Servers of some slots may take one key in a request.
pub(crate) fn plan(
    spec: &'static Spec,
    args: ArgsView<'_>,
    takes_one_key: impl Fn(Slot) -> bool,
) -> Plan {
    // Nearly all requests.
    if let Some(at) = spec.sole_key()
        && !spec.flags.contains(Flags::BLOCKING)
        && spec.id != CommandId::Watch
    {
        return Plan::Slot(slot_of(args.at(at)));
    }
    match spec.id {
        CommandId::Ping
        | CommandId::Echo
        | CommandId::Select
        | CommandId::ClientId
        | CommandId::ClientGetName
        | CommandId::ClientSetName
        | CommandId::ClientSetInfo
        | CommandId::ClientInfo
        | CommandId::ClientList
        | CommandId::ClientNoEvict
        | CommandId::ClientNoTouch
        | CommandId::ClientReply
        | CommandId::ClientCaching
        | CommandId::Info
        | CommandId::ReadOnly
        | CommandId::ReadWrite
        | CommandId::Role
        | CommandId::Multi
        | CommandId::Discard
        | CommandId::Exec => Plan::Here,
        CommandId::Auth
        | CommandId::Hello
        | CommandId::Reset
        | CommandId::Quit
        | CommandId::Watch
        | CommandId::Unwatch
        | CommandId::ClientTracking
        | CommandId::ClientTrackingInfo
        | CommandId::ClientGetRedir
        | CommandId::Wait => Plan::Alone,
        CommandId::Scan => scan(args),
        CommandId::Keys | CommandId::Pinned => Plan::Everywhere(Combine::Concatenate),
        CommandId::RandomKey => Plan::Everywhere(Combine::Some),
        CommandId::PubSubNumSub
        | CommandId::PubSubNumPat
        | CommandId::PubSubChannels
        | CommandId::PubSubShardNumSub
        | CommandId::PubSubShardChannels
        | CommandId::ClientKill
        | CommandId::ClientPause
        | CommandId::ClientUnpause
        | CommandId::ClientUnblock
        | CommandId::WaitAof
        | CommandId::Move
        | CommandId::SwapDb
        | CommandId::HotringMirror => Plan::Refused(Refusal::Missing(spec.name)),
        // Messages on one channel must stay in their order.
        CommandId::Publish => Plan::Slot(slot_of(args.at(1))),
        CommandId::AclWhoAmI | CommandId::ConfigGet => Plan::Anywhere,
        _ if spec.group == Group::Cluster => Plan::Refused(Refusal::Cluster),
        _ if spec.flags.contains(Flags::BLOCKING) => match sole_slot(spec, args) {
            Some(Err(refusal)) => Plan::Refused(refusal),
            Some(Ok(_)) => Plan::Alone,
            // Malformed, as the node will say.
            None => Plan::Anywhere,
        },
        // Those that take a connection of their own.
        _ if is_subscribing(spec) => Plan::Alone,
        _ if spec.flags.contains(Flags::ADMIN) => Plan::Refused(Refusal::OfNode(spec.name)),
        _ => by_keys(spec, args, takes_one_key),
    }
}

/// What to do with such a request in a pool. Its servers know the proxy by the login of the pool's file, and not who
/// asks: no client may learn or change by that what concerns a server itself.
pub(crate) fn within_pool(spec: &'static Spec, plan: Plan) -> Plan {
    match (spec.id, plan) {
        (CommandId::AclWhoAmI | CommandId::ConfigGet, _) => Plan::Here,
        (
            CommandId::ClientTracking
            | CommandId::ClientTrackingInfo
            | CommandId::ClientGetRedir
            | CommandId::ClientCaching,
            _,
        ) => Plan::Refused(Refusal::Missing(spec.name)),
        (_, Plan::Anywhere | Plan::Everywhere(_)) if !is_for_clients(spec) => {
            Plan::Refused(Refusal::OfNode(spec.name))
        }
        (_, plan) => plan,
    }
}

/// Whether a command is about keys, commands or scripts, and not about the server that executes it.
fn is_for_clients(spec: &Spec) -> bool {
    let is_listed = matches!(
        spec.id,
        CommandId::Time
            | CommandId::LolWut
            | CommandId::Command
            | CommandId::DbSize
            | CommandId::FlushAll
            | CommandId::FlushDb
            | CommandId::Keys
            | CommandId::Pinned
            | CommandId::RandomKey
            | CommandId::ScriptExists
            | CommandId::ScriptFlush
            | CommandId::ScriptLoad
    );
    // With keys: scripts without any, and malformed requests.
    is_listed || spec.parent == Some(CommandId::Command) || !spec.keys.is_empty()
}

/// Whether the command begins or ends a subscription.
pub(crate) fn is_subscribing(spec: &Spec) -> bool {
    matches!(
        spec.id,
        CommandId::Subscribe
            | CommandId::PSubscribe
            | CommandId::SSubscribe
            | CommandId::Unsubscribe
            | CommandId::PUnsubscribe
            | CommandId::SUnsubscribe
    )
}

/// The slot of all keys of a request; None without keys.
pub(crate) fn sole_slot(spec: &Spec, args: ArgsView<'_>) -> Option<Result<Slot, Refusal>> {
    let mut slots = spec.routing_keys_of(args).map(slot_of);
    let first = slots.next()?;
    Some(if slots.all(|slot| slot == first) { Ok(first) } else { Err(Refusal::Across) })
}

fn scan(args: ArgsView<'_>) -> Plan {
    match split_cursor(args.at(1)) {
        _ if args.at(1) == b"0" => Plan::ScanFirst,
        Some((slot, cursor)) => Plan::Scan(slot, cursor),
        None => Plan::Refused(Refusal::Cursor),
    }
}

/// By the keys that a request names, and without any by Redis's hints for those who pass requests on.
fn by_keys(spec: &'static Spec, args: ArgsView<'_>, takes_one_key: impl Fn(Slot) -> bool) -> Plan {
    match sole_slot(spec, args) {
        Some(Ok(slot)) if takes_one_key(slot) && spec.routing_keys_of(args).nth(1).is_some() => {
            split(spec, args, takes_one_key).unwrap_or(Plan::Slot(slot))
        }
        Some(Ok(slot)) => Plan::Slot(slot),
        Some(Err(refusal)) => split(spec, args, takes_one_key).unwrap_or(Plan::Refused(refusal)),
        None if !spec.tips.iter().any(|tip| tip.starts_with("request_policy:all_")) => {
            Plan::Anywhere
        }
        None => match response_policy(spec) {
            Some(combine) => Plan::Everywhere(combine),
            None => Plan::Refused(Refusal::OfNode(spec.name)),
        },
    }
}

fn response_policy(spec: &Spec) -> Option<Combine> {
    let policy = spec.tips.iter().find_map(|tip| tip.strip_prefix("response_policy:"))?;
    match policy {
        "all_succeeded" => Some(Combine::AllSucceeded),
        "one_succeeded" => Some(Combine::OneSucceeded),
        "agg_sum" => Some(Combine::Sum),
        "agg_logical_and" => Some(Combine::And),
        _ => None,
    }
}

/// Splits a request that need not be atomic into one for each slot, or for each key.
fn split(spec: &Spec, args: ArgsView<'_>, takes_one_key: impl Fn(Slot) -> bool) -> Option<Plan> {
    let mut parts: Vec<Part> = Vec::new();
    let mut places: Vec<Vec<u32>> = Vec::new();
    let is_splittable = matches!(
        spec.id,
        CommandId::MGet
            | CommandId::MSet
            | CommandId::Del
            | CommandId::Unlink
            | CommandId::Exists
            | CommandId::Touch
    );
    if !is_splittable {
        return None;
    }
    if spec.id == CommandId::MSet && args.len().is_multiple_of(2) {
        return Some(Plan::Refused(Refusal::Arity(spec.name)));
    }
    let mut by_slot = std::collections::HashMap::new();
    for (place, (at, _)) in spec.uses_of(args).enumerate() {
        let slot = slot_of(args.at(at));
        let mut add = || {
            parts.push(Part { slot, keys: Vec::new() });
            places.push(Vec::new());
            parts.len() - 1
        };
        let part = match takes_one_key(slot) {
            true => add(),
            false => *by_slot.entry(slot).or_insert_with(add),
        };
        parts[part].keys.push(at);
        places[part].push(place as u32);
    }
    let combine = match spec.id {
        CommandId::MGet => Combine::Interleave(places),
        CommandId::MSet => Combine::AllSucceeded,
        _ => Combine::Sum,
    };
    Some(Plan::Split(parts, combine))
}

/// Writes a part of a request: its keys, each with the arguments that follow it up to the next one.
pub(crate) fn write_part(spec: &Spec, args: ArgsView<'_>, part: &Part, out: &mut Vec<u8>) {
    let step = spec.keys.first().map_or(1, |range| usize::from(range.step));
    write_head(1 + part.keys.len() * step, out);
    write_word(args.at(0), out);
    let words = part.keys.iter().flat_map(|at| *at..*at + step);
    words.for_each(|at| write_word(args.at(at), out));
}

/// Writes a request of these words.
pub(crate) fn write_request<'a>(words: impl ExactSizeIterator<Item = &'a [u8]>, out: &mut Vec<u8>) {
    write_head(words.len(), out);
    words.for_each(|word| write_word(word, out));
}

fn write_head(n: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(format!("*{n}\r\n").as_bytes());
}

fn write_word(word: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
    out.extend_from_slice(word);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotring_commands::table::resolve;
    use hotring_protocol::{Args, Decoder, Limits};

    fn read<R>(line: &str, f: impl FnOnce(ArgsView<'_>) -> R) -> R {
        let input = format!("{line}\r\n").into_bytes();
        let (mut decoder, mut args) = (Decoder::new(), Args::new());
        decoder.decode(&input, &Limits::default(), &mut args).unwrap();
        f(args.view(&input))
    }

    fn with<R>(line: &str, f: impl FnOnce(&'static Spec, ArgsView<'_>) -> R) -> R {
        read(line, |args| f(resolve(args).unwrap(), args))
    }

    fn planned(line: &str) -> Plan {
        with(line, |spec, args| plan(spec, args, |_| false))
    }

    #[test]
    fn requests_go_where_their_keys_are() {
        let slot = |key: &str| Plan::Slot(slot_of(key.as_bytes()));
        for line in
            ["GET a", "SET a 1", "ZADD a 1 x", "OBJECT ENCODING a", "EVAL s 1 a b", "PFCOUNT a"]
        {
            assert_eq!(planned(line), slot("a"), "{line}");
        }
        assert_eq!(planned("MGET {t}a {t}b"), slot("t"));
        assert_eq!(planned("SPUBLISH a m"), slot("a"));
        assert_eq!(planned("PUBLISH a m"), slot("a"));
        for line in ["EVAL s 0", "TIME", "COMMAND", "BLMPOP 0 0 LEFT LEFT"] {
            assert_eq!(planned(line), Plan::Anywhere, "{line}");
        }
        for line in ["RENAME a b", "MSETNX a 1 b 2", "SINTER a b", "BLPOP a b 0"] {
            assert_eq!(planned(line), Plan::Refused(Refusal::Across), "{line}");
        }
        for line in ["BLPOP a 0", "WAITKEY a 5", "SUBSCRIBE c", "CLIENT TRACKING ON", "AUTH p"] {
            assert_eq!(planned(line), Plan::Alone, "{line}");
        }
        for line in ["SHUTDOWN", "REPLICAOF a 1", "MONITOR", "SLOWLOG LEN", "ACL LIST"] {
            assert!(matches!(planned(line), Plan::Refused(Refusal::OfNode(_))), "{line}");
        }
        assert_eq!(planned("CLUSTER SLOTS"), Plan::Refused(Refusal::Cluster));
        assert_eq!(planned("DBSIZE"), Plan::Everywhere(Combine::Sum));
        assert_eq!(planned("FLUSHALL"), Plan::Everywhere(Combine::AllSucceeded));
        assert_eq!(planned("SCRIPT EXISTS a"), Plan::Everywhere(Combine::And));
        assert_eq!(planned("SCRIPT LOAD a"), Plan::Everywhere(Combine::AllSucceeded));
        assert_eq!(planned("SCAN 0"), Plan::ScanFirst);
        assert_eq!(planned("SCAN 16385"), Plan::Scan(1, 1));
    }

    #[test]
    fn what_need_not_be_atomic_is_split_by_slots() {
        let Plan::Split(parts, combine) = planned("MGET a b {a}2 a") else { panic!() };
        assert_eq!(combine, Combine::Interleave(vec![vec![0, 2, 3], vec![1]]));
        let texts: Vec<_> = parts
            .iter()
            .map(|part| {
                let mut out = Vec::new();
                with("MGET a b {a}2 a", |spec, args| write_part(spec, args, part, &mut out));
                String::from_utf8(out).unwrap()
            })
            .collect();
        assert_eq!(texts[0], "*4\r\n$4\r\nMGET\r\n$1\r\na\r\n$4\r\n{a}2\r\n$1\r\na\r\n");
        assert_eq!(texts[1], "*2\r\n$4\r\nMGET\r\n$1\r\nb\r\n");
        let Plan::Split(parts, Combine::AllSucceeded) = planned("MSET a 1 b 2") else { panic!() };
        let mut out = Vec::new();
        with("MSET a 1 b 2", |spec, args| write_part(spec, args, &parts[1], &mut out));
        assert_eq!(out, b"*3\r\n$4\r\nMSET\r\n$1\r\nb\r\n$1\r\n2\r\n");
        assert!(matches!(planned("DEL a b"), Plan::Split(_, Combine::Sum)));
    }

    #[test]
    fn servers_that_take_one_key_get_a_request_for_each() {
        let planned = |line, one: bool| with(line, |spec, args| plan(spec, args, |_| one));
        assert_eq!(planned("DEL {a}1 {a}2", false), Plan::Slot(slot_of(b"a")));
        let Plan::Split(parts, Combine::Sum) = planned("DEL {a}1 {a}2", true) else { panic!() };
        assert_eq!(parts.len(), 2);
        let Plan::Split(parts, how) = planned("MGET {a}1 b {a}2", true) else { panic!() };
        assert_eq!((parts.len(), how), (3, Combine::Interleave(vec![vec![0], vec![1], vec![2]])));
        assert_eq!(planned("DEL a", true), Plan::Slot(slot_of(b"a")));
    }

    /// What is about a server must not be done as the proxy's own user.
    #[test]
    fn clients_of_a_pool_learn_nothing_about_its_servers() {
        let planned =
            |line: &str| with(line, |spec, args| within_pool(spec, plan(spec, args, |_| false)));
        for line in ["EVAL s 0", "TIME", "COMMAND DOCS get", "SINTERCARD 0 a"] {
            assert_eq!(planned(line), Plan::Anywhere, "{line}");
        }
        for line in ["CONFIG GET *", "ACL WHOAMI"] {
            assert_eq!(planned(line), Plan::Here, "{line}");
        }
        for line in ["CLIENT TRACKING ON", "CLIENT CACHING YES"] {
            assert!(matches!(planned(line), Plan::Refused(_)), "{line}");
        }
        for line in ["ACL GENPASS", "ACL CAT", "MEMORY STATS", "LATENCY LATEST", "SCRIPT KILL"] {
            assert!(matches!(planned(line), Plan::Refused(_)), "{line}");
        }
        assert_eq!(planned("DBSIZE"), Plan::Everywhere(Combine::Sum));
        let reach = |spec: &'static Spec| {
            let n = usize::from(spec.arity.unsigned_abs());
            let words = spec.name.split('|').chain(std::iter::repeat("0")).take(n);
            let line = words.collect::<Vec<_>>().join(" ");
            read(&line, |args| within_pool(spec, plan(spec, args, |_| false)))
        };
        let about_servers = hotring_commands::table::specs().filter(|spec| {
            spec.flags.contains(Flags::ADMIN)
                || [Some(CommandId::Acl), Some(CommandId::Config)].contains(&spec.parent)
        });
        for spec in about_servers {
            assert!(matches!(reach(spec), Plan::Refused(_) | Plan::Here), "{}", spec.name);
        }
    }

    /// A command that is added to the table must not slip through by accident.
    #[test]
    fn commands_without_keys_are_never_written_to_an_arbitrary_node() {
        let mut wrong = Vec::new();
        for spec in hotring_commands::table::specs() {
            let n = usize::from(spec.arity.unsigned_abs());
            let words: Vec<&str> = spec.name.split('|').collect();
            let line: Vec<_> = words.into_iter().chain(std::iter::repeat("1")).take(n).collect();
            let planned = read(&line.join(" "), |args| plan(spec, args, |_| false));
            if planned == Plan::Anywhere && spec.flags.contains(Flags::WRITE) {
                wrong.push(spec.name);
            }
        }
        assert!(wrong.is_empty(), "{wrong:?}");
    }
}
