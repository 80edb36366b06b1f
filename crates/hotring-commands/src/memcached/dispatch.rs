//! Maps each command of memcached's protocol to its handler and to its properties.

use hotring_protocol::ArgsView;
use hotring_protocol::memcached::Command;

use super::context::{Context, Outcome};
use super::{classic, meta, stats};
use crate::host::clock;
use crate::table::{Spec, lookup};

/// Runs one command and counts it.
#[inline(always)]
pub(super) fn run_counted(
    command: Option<Command>,
    is_timed: bool,
    c: &mut Context<'_>,
) -> Outcome {
    let Some(number) = command.map(|command| command as usize) else { return run(command, c) };
    let by_command = &c.counts.by_command;
    by_command.call(number);
    let start = is_timed.then(clock::monotonic);
    let outcome = run(command, c);
    // The reply treats the key of a damaged item as absent, so an error must replace it.
    let outcome = c.damage().map_or(outcome, Err);
    if outcome.is_err() {
        by_command.fail(number);
    }
    if let Some(start) = start {
        by_command.time(number, start.elapsed());
    }
    outcome
}

/// Runs one command.
fn run(command: Option<Command>, c: &mut Context<'_>) -> Outcome {
    use Command as Cmd;
    match command {
        Some(Cmd::Get) => classic::get(c, false),
        Some(Cmd::Gets) => classic::get(c, true),
        Some(Cmd::MetaGet) => meta::get(c),
        Some(Cmd::Set | Cmd::Add | Cmd::Replace | Cmd::Append | Cmd::Prepend | Cmd::Cas) => {
            classic::store(c, command.expect("it was just matched"))
        }
        Some(Cmd::MetaSet) => meta::set(c),
        Some(Cmd::Gat) => classic::touch_and_get(c, false),
        Some(Cmd::Gats) => classic::touch_and_get(c, true),
        Some(Cmd::Touch) => classic::touch(c),
        Some(Cmd::Incr) => classic::count(c, false),
        Some(Cmd::Decr) => classic::count(c, true),
        Some(Cmd::Delete) => classic::delete(c),
        Some(Cmd::MetaDelete) => meta::delete(c),
        Some(Cmd::MetaArithmetic) => meta::arithmetic(c),
        Some(Cmd::MetaDebug) => meta::debug(c),
        Some(Cmd::MetaNoop) => meta::noop(c),
        Some(Cmd::Stats) => stats::stats(c),
        Some(command) => classic::run_other(c, command),
        None => classic::unknown(c),
    }
}

/// The RESP command with the same effect on a key, for the keyspace notification.
pub(super) fn event(command: Command) -> Option<&'static Spec> {
    use Command as Cmd;
    let name = match command {
        Cmd::Set | Cmd::Add | Cmd::Replace | Cmd::Cas | Cmd::MetaSet | Cmd::MetaGet => "set",
        Cmd::Append | Cmd::Prepend => "append",
        Cmd::Incr | Cmd::Decr | Cmd::MetaArithmetic => "incrby",
        Cmd::Delete | Cmd::MetaDelete => "del",
        Cmd::Touch | Cmd::Gat | Cmd::Gats => "expire",
        _ => return None,
    };
    lookup(name.as_bytes())
}

/// Whether the command is a write. `mg` may change items too, but does not count as one.
pub(super) fn writes(command: Command) -> bool {
    command == Command::FlushAll || command != Command::MetaGet && event(command).is_some()
}

/// Whether the request may change a value or its expiry, which `mg` does by some flags.
pub(super) fn changes(command: Command, args: ArgsView<'_>) -> bool {
    let is_change = |flag: &[u8]| matches!(flag.first(), Some(b'N' | b'T'));
    writes(command) || command == Command::MetaGet && args.tail(2).iter().any(is_change)
}

/// Whether the request needs keys that are not loaded yet.
#[inline]
pub(super) fn misses(command: Option<Command>, c: &mut Context<'_>) -> bool {
    let Some(command) = command.filter(|_| c.server.persist.loading.is_on()) else { return false };
    let keys = command.keys(c.args);
    let is_read = !changes(command, c.args);
    let is_of_keys = !keys.is_empty() || event(command).is_some() || writes(command);
    is_of_keys && (!is_read || c.server.persist.loading.misses(keys.iter(), c.store, c.now))
}
