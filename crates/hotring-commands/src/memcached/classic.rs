//! The classic commands of memcached: get, set, incr, delete and so on, with fixed positional arguments.

use hotring_protocol::ArgsView;
use hotring_protocol::memcached::{Command, parse_i32, parse_u32, parse_u64};
use hotring_store::{ItemAction, Metadata, SetExpiry, StoreError};

use super::access::{fetched, is_due};
use super::context::{Context, Outcome, Refusal, check_key};
use super::item::{Change, Changed, Mode, Put, Stored};
use super::{VERSION, block};
use crate::state::client::Closing;
use crate::state::memcached::Count;
use crate::state::memcached::Done;

const BAD_TIME: Refusal = Refusal::Text("CLIENT_ERROR invalid exptime argument");

/// get and gets.
pub(super) fn get(c: &mut Context<'_>, with_cas: bool) -> Outcome {
    let keys = words(c, 2..=usize::MAX)?.tail(1);
    for key in keys.iter() {
        let key = check_key(key)?;
        let found = show(c, key, with_cas)?;
        count_get(c, key, found);
        c.check_reply_len()?;
    }
    c.reply.line("END");
    Ok(())
}

fn count_get(c: &Context<'_>, key: &[u8], found: bool) {
    c.count(Count::CmdGet);
    c.count(if found { Count::GetHits } else { Count::GetMisses });
    if found {
        c.counters.keyspace_hits.add(1)
    } else {
        c.counters.keyspace_misses.add(1)
    }
    let done = if found { Done::Hit } else { Done::Miss };
    c.server.memcached.detail.note(key, done, c.config.memcached.prefixes_max);
}

/// The outcome of showing an item.
enum Shown {
    Yes,
    /// The item is shown, and the fetch must be recorded.
    AndFetched,
    /// The item has no CAS number yet and must be written first.
    Unnumbered,
    /// The value has a type that this protocol lacks.
    Unknown,
}

/// Writes an item to the reply. False if the key is missing.
fn show(c: &mut Context<'_>, key: &[u8], with_cas: bool) -> Result<bool, Refusal> {
    let second = c.second();
    let reply = &mut c.reply;
    let shown = c.store.item(key, c.now, |item| {
        let Metadata { flags, unique: cas, .. } = item.metadata;
        if !item.value.is_string() {
            return Shown::Unknown;
        }
        if with_cas && cas.is_none() {
            return Shown::Unnumbered;
        }
        let cas = cas.filter(|_| with_cas);
        item.value.with_bytes(|value| reply.value(key, flags, value, cas));
        if is_due(item.metadata, second) { Shown::AndFetched } else { Shown::Yes }
    });
    match shown {
        Some(Shown::Yes) => Ok(true),
        Some(Shown::AndFetched) => {
            c.mark_fetched(key);
            Ok(true)
        }
        Some(Shown::Unnumbered) => show_changed(c, key, true, SetExpiry::Keep),
        Some(Shown::Unknown) | None => Ok(false),
    }
}

/// Writes an item to the reply, and gives the item a CAS number or another expiry. False if the key is missing.
fn show_changed(
    c: &mut Context<'_>,
    key: &[u8],
    with_cas: bool,
    expiry: SetExpiry,
) -> Result<bool, Refusal> {
    let second = c.second();
    let numbers = with_cas.then(|| c.store.unique_numbers());
    let start = c.reply.written();
    let reply = &mut c.reply;
    let shown = c.store.update_item(key, c.now, |item| {
        // The closure may run more than once.
        reply.forget(start);
        let Some(item) = item.filter(|item| item.value.is_string()) else {
            return (ItemAction::Keep, false);
        };
        let cas =
            numbers.as_ref().map(|numbers| item.metadata.unique.unwrap_or_else(|| numbers.next()));
        let access = fetched(item.metadata.access, second);
        let metadata = Metadata { unique: cas.or(item.metadata.unique), access, ..item.metadata };
        item.value.with_bytes(|value| reply.value(key, metadata.flags, value, cas));
        (ItemAction::Amend { metadata, expiry }, true)
    })?;
    Ok(shown)
}

/// gat and gats.
pub(super) fn touch_and_get(c: &mut Context<'_>, with_cas: bool) -> Outcome {
    let words = words(c, 3..=usize::MAX)?;
    let expiry = c.expiry(parse_i32(words.at(1)).ok_or(BAD_TIME)?);
    for key in words.tail(2).iter() {
        let key = check_key(key)?;
        let found = show_changed(c, key, with_cas, expiry)?;
        c.count(Count::CmdTouch);
        c.count(if found { Count::TouchHits } else { Count::TouchMisses });
        count_get(c, key, found);
        c.check_reply_len()?;
    }
    c.reply.line("END");
    Ok(())
}

/// touch.
pub(super) fn touch(c: &mut Context<'_>) -> Outcome {
    let words = words(c, 3..=4)?;
    quietly(c, |c| {
        let key = check_key(words.at(1))?;
        let expiry = c.expiry(parse_i32(words.at(2)).ok_or(BAD_TIME)?);
        let second = c.second();
        let found = c.store.update_item(key, c.now, |item| {
            let Some(item) = item else { return (ItemAction::Keep, false) };
            let access = fetched(item.metadata.access, second);
            (ItemAction::Amend { metadata: Metadata { access, ..item.metadata }, expiry }, true)
        })?;
        c.count(Count::CmdTouch);
        c.count(if found { Count::TouchHits } else { Count::TouchMisses });
        c.reply.line(if found { "TOUCHED" } else { "NOT_FOUND" });
        Ok(())
    })
}

/// set, add, replace, append, prepend and cas.
pub(super) fn store(c: &mut Context<'_>, command: Command) -> Outcome {
    let is_cas = command == Command::Cas;
    let words = words(c, if is_cas { 6..=7 } else { 5..=6 })?;
    quietly(c, |c| {
        let key = check_key(words.at(1))?;
        let flags = parse_u32(words.at(2)).ok_or(Refusal::BAD_LINE)?;
        let expiry = c.expiry(parse_i32(words.at(3)).ok_or(Refusal::BAD_LINE)?);
        let cas = if is_cas { parse_u64(words.at(5)).ok_or(Refusal::BAD_LINE)? } else { 0 };
        let mode = match command {
            Command::Add => Mode::Add,
            Command::Replace => Mode::Replace,
            Command::Append => Mode::Append(None),
            Command::Prepend => Mode::Prepend(None),
            Command::Cas => Mode::Cas,
            _ => Mode::Set,
        };
        let value = match block(c.data) {
            Ok(value) => value,
            Err(refusal) => return Err(not_stored(c, key, mode, refusal)),
        };
        let len_max = c.config.memcached.value_len_max;
        let (new_cas, wants_cas, takes_stale) = (None, false, false);
        let put =
            Put { key, value, len_max, flags, expiry, mode, cas, new_cas, wants_cas, takes_stale };
        let stored = match c.put(put) {
            Ok(stored) => stored,
            Err(refusal) => return Err(not_stored(c, key, mode, refusal)),
        };
        c.reply.line(match stored {
            Stored::Yes { .. } => "STORED",
            Stored::No => "NOT_STORED",
            Stored::Exists => "EXISTS",
            Stored::NotFound => "NOT_FOUND",
        });
        Ok(())
    })
}

/// After a failed set the old value must not stay: the client believes it replaced.
pub(super) fn not_stored(c: &mut Context<'_>, key: &[u8], mode: Mode, refusal: Refusal) -> Refusal {
    let without_memory =
        |error: &StoreError| matches!(error, StoreError::Stalled(_) | StoreError::OutOfMemory(_));
    let removes = match &refusal {
        Refusal::TooLong => {
            c.count(Count::StoreTooLarge);
            true
        }
        Refusal::Store(error) => without_memory(error),
        _ => false,
    };
    if removes && mode == Mode::Set {
        c.store.remove(key, c.now);
        // The refusal of the set is what the client gets.
        let _ = c.store.take_refused();
    }
    refusal
}

/// incr and decr.
pub(super) fn count(c: &mut Context<'_>, subtracts: bool) -> Outcome {
    let words = words(c, 3..=4)?;
    quietly(c, |c| {
        let key = check_key(words.at(1))?;
        let delta = parse_u64(words.at(2))
            .ok_or(Refusal::Text("CLIENT_ERROR invalid numeric delta argument"))?;
        let (vivify, expiry, new_cas) = (None, SetExpiry::Keep, None);
        let wants_cas = false;
        let change = Change { key, subtracts, delta, vivify, expiry, cas: 0, new_cas, wants_cas };
        let changed = c.change(change)?;
        count_change(c, subtracts, changed);
        match changed {
            Changed::To { number, .. } => c.reply.number_line(number),
            Changed::NotANumber => return Err(NOT_A_NUMBER),
            Changed::NotFound | Changed::Exists => c.reply.line("NOT_FOUND"),
        }
        Ok(())
    })
}

pub(super) const NOT_A_NUMBER: Refusal =
    Refusal::Text("CLIENT_ERROR cannot increment or decrement non-numeric value");

/// Counts the outcome of incr or decr.
pub(super) fn count_change(c: &Context<'_>, subtracts: bool, changed: Changed) {
    match (changed, subtracts) {
        (Changed::To { is_new: false, .. }, false) => c.count(Count::IncrHits),
        (Changed::To { is_new: false, .. }, true) => c.count(Count::DecrHits),
        (Changed::NotFound, false) => c.count(Count::IncrMisses),
        (Changed::NotFound, true) => c.count(Count::DecrMisses),
        _ => {}
    }
}

/// delete. Old clients send a time of 0.
pub(super) fn delete(c: &mut Context<'_>) -> Outcome {
    let words = words(c, 2..=4)?;
    quietly(c, |c| {
        let is_known = match words.len() {
            3 => words.at(2) == b"0" || words.at(2) == NOREPLY,
            4 => words.at(2) == b"0" && words.at(3) == NOREPLY,
            _ => true,
        };
        if !is_known {
            let usage = "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]";
            return Err(usage.into());
        }
        let key = check_key(words.at(1))?;
        let removed = c.store.remove(key, c.now);
        c.store.take_refused()?;
        let prefixes_max = c.config.memcached.prefixes_max;
        c.server.memcached.detail.note(key, Done::Delete, prefixes_max);
        c.count(if removed { Count::DeleteHits } else { Count::DeleteMisses });
        c.reply.line(if removed { "DELETED" } else { "NOT_FOUND" });
        Ok(())
    })
}

/// Runs a command that concerns the server or the connection.
pub(super) fn run_other(c: &mut Context<'_>, command: Command) -> Outcome {
    match command {
        Command::FlushAll => return flush_all(c),
        Command::Verbosity => return verbosity(c),
        Command::CacheMemlimit => return memlimit(c),
        Command::Version => c.reply.line(format!("VERSION {VERSION}")),
        Command::Quit => c.client.closing = Some(Closing::Asked),
        Command::Shutdown => c.reply.line("ERROR: shutdown not enabled"),
        Command::Watch => c.reply.line("CLIENT_ERROR watch commands not allowed"),
        Command::LruCrawler => c.reply.line("CLIENT_ERROR lru crawler disabled"),
        Command::Slabs if c.args.get(1) == Some(b"reassign") => {
            c.reply.line("CLIENT_ERROR slab reassignment disabled");
        }
        _ => return Err(Refusal::ERROR),
    }
    Ok(())
}

fn flush_all(c: &mut Context<'_>) -> Outcome {
    let words = words(c, 1..=3)?;
    quietly(c, |c| {
        c.count(Count::CmdFlush);
        let has_time = words.len() > 1 + usize::from(is_quiet(words));
        let time = match has_time {
            true => parse_i32(words.at(1)).ok_or(BAD_TIME)?,
            false => 0,
        };
        match c.expiry(time) {
            SetExpiry::At(at) if at > c.now => c.server.memcached.flush_at(at),
            _ => {
                c.server.memcached.flush_now(c.store);
                c.store.take_refused()?;
            }
        }
        c.reply.line("OK");
        Ok(())
    })
}

/// Accepted without effect: the level of the server log is the setting `loglevel`.
fn verbosity(c: &mut Context<'_>) -> Outcome {
    let words = words(c, 2..=3)?;
    quietly(c, |c| {
        parse_u32(words.at(1)).ok_or(Refusal::BAD_LINE)?;
        c.reply.line("OK");
        Ok(())
    })
}

/// `cache_memlimit` has no effect, because both protocols share the memory limit. Clients treat any reply but OK as an
/// error, so only the server log reports this.
fn memlimit(c: &mut Context<'_>) -> Outcome {
    let words = words(c, 2..=3)?;
    quietly(c, |c| {
        let reply = match parse_u32(words.at(1)).ok_or(Refusal::ERROR)? {
            0..8 => "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m",
            8..=1_000_000_000 => {
                tracing::warn!(
                    "cache_memlimit is without effect: the limit is the setting maxmemory"
                );
                "OK"
            }
            _ => "MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes",
        };
        c.reply.line(reply);
        Ok(())
    })
}

/// Replies to an unknown command. An HTTP request closes the connection: it comes from a browser that was lured to this
/// port.
pub(super) fn unknown(c: &mut Context<'_>) -> Outcome {
    let last = c.args.len().checked_sub(1).map(|last| c.args.at(last));
    if last.is_some_and(|word| word.starts_with(b"HTTP/")) {
        c.client.closing = Some(Closing::CrossProtocol);
        return Ok(());
    }
    Err(Refusal::ERROR)
}

/// The words of the line; an error if their number is not in `len`.
fn words<'a>(
    c: &Context<'a>,
    len: std::ops::RangeInclusive<usize>,
) -> Result<ArgsView<'a>, Refusal> {
    if len.contains(&c.args.len()) { Ok(c.args) } else { Err(Refusal::ERROR) }
}

const NOREPLY: &[u8] = b"noreply";

fn is_quiet(words: ArgsView<'_>) -> bool {
    words.len() > 1 && words.at(words.len() - 1) == NOREPLY
}

/// Runs a command. `noreply` as the last word suppresses the reply.
fn quietly(c: &mut Context<'_>, run: impl FnOnce(&mut Context<'_>) -> Outcome) -> Outcome {
    let start = c.reply.written();
    let outcome = run(c);
    if !is_quiet(c.args) {
        return outcome;
    }
    // It has done nothing, and runs again once its key has moved.
    if let Err(Refusal::Store(StoreError::Displaced)) = outcome {
        return outcome;
    }
    // Damage must be reported here: otherwise the caller would report it in spite of `noreply`.
    if let Err(refusal) = c.damage().map_or(outcome, Err) {
        c.refuse(start, refusal);
    }
    c.reply.forget(start);
    Ok(())
}
