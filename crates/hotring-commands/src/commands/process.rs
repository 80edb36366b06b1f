//! Commands on the entire store or the process: DBSIZE, FLUSHALL, FLUSHDB, TIME, MODULE LIST, SHUTDOWN.

use hotring_protocol::Writer;
use hotring_store::Session;

use super::save;
use crate::host::{clock, fiber};
use crate::state::client::{Client, Closing, Wait};
use crate::state::context::Context;
use crate::state::failure::{Failure, Outcome};
use crate::state::server::Server;
use crate::state::snapshots::EndHow;

/// The error of a SHUTDOWN that did not end the server. Clients know it from Redis.
const NOT_SHUT_DOWN: &str = "ERR Errors trying to SHUTDOWN. Check logs.";

/// Keys that a step of a clear removes.
const CLEARED_KEYS: u32 = 256;

/// Keys that a walk meets at once.
const STEP_KEYS: u32 = 64;

pub(crate) fn dbsize(c: &mut Context<'_>) -> Outcome {
    let hidden = hidden(c);
    c.reply.int(c.store.len().0.saturating_sub(hidden) as i64);
    Ok(())
}

/// The number of keys that are there and that clients do not see. There are some while slots move only.
fn hidden(c: &mut Context<'_>) -> u64 {
    let (Some(cluster), Some(grounds)) = (&c.server.cluster, c.store.grounds()) else { return 0 };
    let version = c.store.grounds_version();
    if cluster.is_clean(version) {
        return 0;
    }
    let (mut cursor, mut hidden) = (0, 0);
    loop {
        // At time 0 nothing has expired, as in the number of all keys.
        cursor = c.store.scan(cursor, STEP_KEYS as usize, 0, |key, _| {
            hidden += u64::from(grounds.hides(key));
        });
        c.store.take_damage();
        if cursor == 0 {
            break;
        }
        fiber::rest_after(STEP_KEYS);
    }
    // With the same grounds in the end, and with no key on its way, none can have come.
    if hidden == 0 && !grounds.is_importing() && c.store.grounds_version() == version {
        cluster.note_clean(version);
    }
    hidden
}

pub(crate) fn flushdb(c: &mut Context<'_>) -> Outcome {
    flush(c, Session::clear)
}

pub(crate) fn flushall(c: &mut Context<'_>) -> Outcome {
    flush(c, Session::clear_all)
}

/// Removes keys. Without ASYNC, the client waits until their memory is free, but no other client does.
fn flush(c: &mut Context<'_>, clear: fn(&mut Session)) -> Outcome {
    let waits = match c.args.get(1) {
        _ if c.args.len() > 2 => return Err(Failure::Syntax),
        Some(mode) if !is_flush_mode(mode) => return Err(Failure::Syntax),
        Some(mode) => mode.eq_ignore_ascii_case(b"sync"),
        None => true,
    };
    clear(c.store);
    c.store.take_refused()?;
    if waits {
        finish_clear(c);
    }
    c.reply.ok();
    Ok(())
}

/// Removes what a flush has left, in turns with other connections. Within a transaction or script that holds all keys
/// it does nothing: others would wait for it.
pub(super) fn finish_clear(c: &mut Context<'_>) {
    while !c.store.is_alone() && c.store.clear_some() {
        fiber::rest_after(CLEARED_KEYS);
    }
}

/// Whether the word is a mode of a command that flushes.
pub(super) fn is_flush_mode(word: &[u8]) -> bool {
    word.eq_ignore_ascii_case(b"async") || word.eq_ignore_ascii_case(b"sync")
}

pub(crate) fn time(c: &mut Context<'_>) -> Outcome {
    let (seconds, microseconds) = clock::unix_parts();
    c.reply.array(2);
    c.reply.bulk_int(seconds as i64);
    c.reply.bulk_int(i64::from(microseconds));
    Ok(())
}

/// Replies with an empty list: hotring has no modules.
pub(crate) fn modules(c: &mut Context<'_>) -> Outcome {
    c.reply.array(0);
    Ok(())
}

/// Ends the server as Ctrl-C does. As in Redis, a success has no reply. NOW leaves out the handover of a cluster's
/// primary, and FORCE ends the server even if its snapshot fails.
pub(crate) fn shutdown(c: &mut Context<'_>) -> Outcome {
    let words: Vec<Vec<u8>> = c.args.tail(1).iter().map(<[u8]>::to_ascii_lowercase).collect();
    let known = [&b"nosave"[..], b"save", b"now", b"force", b"abort"];
    let has = |word: &[u8]| words.iter().any(|said| said == word);
    let is_known = words.iter().all(|said| known.contains(&&said[..]));
    if !is_known || has(b"abort") && words.len() > 1 || has(b"save") && has(b"nosave") {
        return Err(Failure::Syntax);
    }
    if has(b"abort") {
        return abort_shutdown(c);
    }
    let how = EndHow { is_forced: has(b"force"), is_now: has(b"now") };
    let mut snapshot = None;
    if has(b"save") {
        snapshot = save::save_before_end(&c.server.persist, how);
        if snapshot.is_none() && !how.is_forced {
            tracing::warn!("SHUTDOWN SAVE refused: there is no log, and no snapshot without one");
            return Err(Failure::text(NOT_SHUT_DOWN));
        }
    }
    tracing::info!(client = c.client.shared.id, "SHUTDOWN: finishing what has arrived");
    match (snapshot, how.is_now) {
        // The server ends even if this client disconnects meanwhile.
        (Some(_), _) => {}
        (None, true) => c.server.stop(),
        (None, false) => c.server.retire(),
    }
    match c.server.process.is_stopping() {
        true => c.client.closing = Some(Closing::Killed),
        // Even if there is nothing to wait for any more: a snapshot may have failed already.
        false => c.client.begin_wait(Wait::End { snapshot }),
    }
    Ok(())
}

/// SHUTDOWN ABORT: cancels the SHUTDOWN of another client, as long as that saves or hands over.
fn abort_shutdown(c: &mut Context<'_>) -> Outcome {
    let saves = save::abort_end(&c.server.persist);
    if !c.server.process.abort_retirement() && !saves {
        return Err(Failure::text("ERR No shutdown in progress."));
    }
    c.reply.ok();
    Ok(())
}

/// Whether a client that waits for the end of the server, and for a snapshot before, must keep waiting.
pub(crate) fn is_awaited(server: &Server, snapshot: Option<u64>) -> bool {
    snapshot.is_some_and(|number| save::is_awaited(&server.persist.durability, number))
        || server.process.is_retiring()
}

/// Ends the connection of a client that has waited for the end of the server. If the server does not end, replies with
/// an error and returns it.
pub(crate) fn end_wait(
    server: &Server,
    client: &mut Client,
    reply: &mut Writer<'_>,
) -> Option<String> {
    if server.process.is_stopping() {
        client.closing = Some(Closing::Killed);
        return None;
    }
    reply.error(NOT_SHUT_DOWN);
    Some(NOT_SHUT_DOWN.to_string())
}
