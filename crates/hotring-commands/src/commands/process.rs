//! Commands on the entire store or the process: DBSIZE, FLUSHALL, FLUSHDB, TIME, MODULE LIST, SHUTDOWN.

use super::save;
use crate::host::{clock, fiber};
use crate::state::client::{Client, Closing};
use crate::state::context::Context;
use crate::state::failure::{Failure, Outcome};
use crate::state::server::Server;

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
    check_flush(c)?;
    c.store.clear();
    c.store.take_refused()?;
    c.reply.ok();
    Ok(())
}

pub(crate) fn flushall(c: &mut Context<'_>) -> Outcome {
    check_flush(c)?;
    c.store.clear_all();
    c.store.take_refused()?;
    c.reply.ok();
    Ok(())
}

/// Whether the word is a mode of a command that flushes.
pub(super) fn is_flush_mode(word: &[u8]) -> bool {
    word.eq_ignore_ascii_case(b"async") || word.eq_ignore_ascii_case(b"sync")
}

/// Checks the option. ASYNC and SYNC are the same, because removed items are always reclaimed later.
fn check_flush(c: &Context<'_>) -> Outcome {
    match c.args.len() {
        1 => Ok(()),
        2 if is_flush_mode(&c.args[1]) => Ok(()),
        _ => Err(Failure::Syntax),
    }
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

/// Stops the server as Ctrl-C does. As in Redis, a success has no reply.
pub(crate) fn shutdown(c: &mut Context<'_>) -> Outcome {
    let mut saves = false;
    for word in c.args.tail(1).iter() {
        match word.to_ascii_lowercase().as_slice() {
            b"nosave" | b"now" | b"force" => {}
            b"save" => saves = true,
            b"abort" => return save::abort_shutdown(c),
            _ => return Err(Failure::Syntax),
        }
    }
    if saves {
        return save::save_and_shut_down(c);
    }
    shut_down(c.server, c.client);
    Ok(())
}

pub(super) fn shut_down(server: &Server, client: &mut Client) {
    tracing::info!(client = client.shared.id, "SHUTDOWN: finishing the requests that have arrived");
    client.closing = Some(Closing::Killed);
    server.stop();
}
