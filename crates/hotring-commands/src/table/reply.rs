//! The replies of `COMMAND`, `COMMAND INFO` and `COMMAND DOCS`, from the command table.

use super::syntax::{self, Argument, Kind};
use super::{KeyRange, Spec, subcommands};
use hotring_protocol::Writer;

/// Writes one command as an element of the replies of `COMMAND` and `COMMAND INFO`.
pub fn command_info(spec: &Spec, reply: &mut Writer<'_>) {
    reply.array(10);
    reply.bulk(spec.name.as_bytes());
    reply.int(spec.arity.into());
    name_set(reply, spec.flags.names());
    let (first, last, step) = spec.key_positions();
    reply.int(first);
    reply.int(last);
    reply.int(step);
    name_set(reply, spec.categories().names());
    reply.set(spec.tips.len());
    for tip in spec.tips {
        reply.bulk(tip.as_bytes());
    }
    reply.set(spec.keys.len() + spec.routed_by.len());
    for range in spec.keys.iter().chain(spec.routed_by) {
        key_range(*range, reply);
    }
    match subcommands(spec.id).count() {
        // As Redis does, write no subcommands as an empty set, and some as an array.
        0 => reply.set(0),
        count => reply.array(count),
    }
    for sub in subcommands(spec.id) {
        command_info(sub, reply);
    }
}

fn name_set(reply: &mut Writer<'_>, names: impl Iterator<Item = &'static str> + Clone) {
    reply.set(names.clone().count());
    for name in names {
        reply.simple(name);
    }
}

/// Writes the specification of a range of keys, in the format of Redis 7.
fn key_range(range: KeyRange, reply: &mut Writer<'_>) {
    reply.map(3);
    reply.bulk(b"flags");
    name_set(reply, range.access.names().iter().copied());
    if range.is_unknown() {
        for part in [&b"begin_search"[..], b"find_keys"] {
            reply.bulk(part);
            reply.map(2);
            pair(reply, "type", "unknown");
            reply.bulk(b"spec");
            reply.map(0);
        }
        return;
    }
    let is_counted = range.last == KeyRange::COUNTED;
    begin_search(range, is_counted, reply);
    reply.bulk(b"find_keys");
    reply.map(2);
    if is_counted {
        return counted_keys(range, reply);
    }
    pair(reply, "type", "range");
    reply.bulk(b"spec");
    reply.map(3);
    reply.bulk(b"lastkey");
    // A last key that is not counted from the end is counted from the first.
    let last = i64::from(range.last);
    reply.int(match range.keyword() {
        Some(_) => 0,
        None if last < 0 => last,
        None => last - i64::from(range.first),
    });
    reply.bulk(b"keystep");
    reply.int(range.step.into());
    reply.bulk(b"limit");
    reply.int(0);
}

/// Writes the part of the specification that locates the first key.
fn begin_search(range: KeyRange, is_counted: bool, reply: &mut Writer<'_>) {
    reply.bulk(b"begin_search");
    reply.map(2);
    let first = i64::from(range.first);
    if let Some(word) = range.keyword() {
        pair(reply, "type", "keyword");
        reply.bulk(b"spec");
        reply.map(2);
        pair(reply, "keyword", word);
        reply.bulk(b"startfrom");
        reply.int(first);
        return;
    }
    pair(reply, "type", "index");
    reply.bulk(b"spec");
    reply.map(1);
    reply.bulk(b"index");
    reply.int(first - i64::from(is_counted));
}

/// Writes the part of the specification that locates keys whose number precedes them.
fn counted_keys(range: KeyRange, reply: &mut Writer<'_>) {
    pair(reply, "type", "keynum");
    reply.bulk(b"spec");
    reply.map(3);
    for (name, number) in [("keynumidx", 0), ("firstkey", 1), ("keystep", range.step)] {
        reply.bulk(name.as_bytes());
        reply.int(number.into());
    }
}

/// Writes one command's name and documentation, as a pair of the map in the reply of `COMMAND DOCS`.
pub fn command_docs(spec: &Spec, reply: &mut Writer<'_>) {
    let arguments = syntax::parse(spec.syntax);
    let n_subcommands = subcommands(spec.id).count();
    reply.bulk(spec.name.as_bytes());
    reply.map(4 + usize::from(!arguments.is_empty()) + usize::from(n_subcommands > 0));
    pair(reply, "summary", spec.summary);
    pair(reply, "since", spec.since);
    pair(reply, "group", spec.group.name());
    pair(reply, "complexity", spec.complexity);
    if !arguments.is_empty() {
        reply.bulk(b"arguments");
        reply.array(arguments.len());
        for item in &arguments {
            argument(item, reply);
        }
    }
    if n_subcommands > 0 {
        reply.bulk(b"subcommands");
        reply.map(n_subcommands);
        for sub in subcommands(spec.id) {
            command_docs(sub, reply);
        }
    }
}

fn argument(argument: &Argument, reply: &mut Writer<'_>) {
    let (name, kind, parts) = match &argument.kind {
        Kind::Token(token) => (token.to_ascii_lowercase(), "pure-token", None),
        Kind::Value(name) => ((*name).to_owned(), value_type(name), None),
        Kind::OneOf(parts) => ("option".to_owned(), "oneof", Some(parts)),
        Kind::Block(parts) => ("group".to_owned(), "block", Some(parts)),
    };
    let token = match argument.kind {
        Kind::Token(token) => Some(token),
        _ => argument.token,
    };
    let is_value = matches!(argument.kind, Kind::Value(_));
    let has_flags = argument.optional || argument.multiple;
    reply.map(
        2 + usize::from(is_value)
            + usize::from(kind == "key")
            + usize::from(token.is_some())
            + usize::from(has_flags)
            + usize::from(parts.is_some()),
    );
    pair(reply, "name", &name);
    pair(reply, "type", kind);
    if is_value {
        pair(reply, "display_text", &name);
    }
    if kind == "key" {
        reply.bulk(b"key_spec_index");
        // The second of two keys with different uses has its own specification.
        reply.int(matches!(name.as_str(), "newkey" | "destination").into());
    }
    if let Some(token) = token {
        pair(reply, "token", token);
    }
    if has_flags {
        reply.bulk(b"flags");
        reply.set(usize::from(argument.optional) + usize::from(argument.multiple));
        if argument.optional {
            reply.simple("optional");
        }
        if argument.multiple {
            reply.simple("multiple");
        }
    }
    if let Some(parts) = parts {
        reply.bulk(b"arguments");
        reply.array(parts.len());
        for part in parts {
            self::argument(part, reply);
        }
    }
}

/// The type of a value, derived from its name.
fn value_type(name: &str) -> &'static str {
    match name {
        "key" | "newkey" | "source" | "destination" => "key",
        "pattern" => "pattern",
        "unix-time-seconds" | "unix-time-milliseconds" => "unix-time",
        "float-increment" => "double",
        "seconds" | "milliseconds" | "increment" | "decrement" | "offset" | "start" | "end"
        | "cursor" | "count" | "index" | "destination-db" | "client-id" | "protover" => "integer",
        _ => "string",
    }
}

fn pair(reply: &mut Writer<'_>, name: &str, value: &str) {
    reply.bulk(name.as_bytes());
    reply.bulk(value.as_bytes());
}
