//! Commands on the entire store or the process: DBSIZE, FLUSHALL, FLUSHDB, TIME, MODULE LIST, WAIT, WAITAOF,
//! SHUTDOWN.

use std::time::Duration;

use hotring_log::Lsn;
use hotring_protocol::{Writer, parse_i64};

use super::save;
use crate::host::clock;
use crate::state::client::{Client, Closing, Wait};
use crate::state::context::Context;
use crate::state::durability::Durability;
use crate::state::failure::{Failure, Outcome};
use crate::state::server::Server;

pub(crate) fn dbsize(c: &mut Context<'_>) -> Outcome {
    c.reply.int(c.store.len().0 as i64);
    Ok(())
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

/// Checks the option. ASYNC and SYNC are the same, because removed items are always reclaimed later.
fn check_flush(c: &Context<'_>) -> Outcome {
    let known =
        |word: &[u8]| word.eq_ignore_ascii_case(b"async") || word.eq_ignore_ascii_case(b"sync");
    match c.args.len() {
        1 => Ok(()),
        2 if known(&c.args[1]) => Ok(()),
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

/// Replies 0 at once: there are no replicas to wait for.
pub(crate) fn wait(c: &mut Context<'_>) -> Outcome {
    parse_i64(&c.args[1]).ok_or(Failure::NotAnInteger)?;
    let timeout = parse_i64(&c.args[2])
        .ok_or(Failure::text("ERR timeout is not an integer or out of range"))?;
    if timeout < 0 {
        return Err(Failure::text("ERR timeout is negative"));
    }
    c.reply.int(0);
    Ok(())
}

/// WAITAOF: replies once all earlier writes of all connections are on disk. There are no replicas to wait for.
///
/// This function does not block: it begins a wait, and [`tell_synced`] replies.
pub(crate) fn waitaof(c: &mut Context<'_>) -> Outcome {
    let log = parse_i64(&c.args[1]).ok_or(Failure::NotAnInteger)?;
    parse_i64(&c.args[2]).filter(|n| *n >= 0).ok_or(Failure::NotAnInteger)?;
    let timeout = parse_i64(&c.args[3])
        .ok_or(Failure::text("ERR timeout is not an integer or out of range"))?;
    let timeout = u64::try_from(timeout).map_err(|_| Failure::text("ERR timeout is negative"))?;
    let lsn = match (log, c.server.persist.durability.log()) {
        (0 | 1, Some(log)) => log.handed(),
        (0, None) => 0,
        (1, None) => {
            return Err(Failure::text(
                "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.",
            ));
        }
        _ => return Err(Failure::text("ERR value is out of range, must be between 0 and 1")),
    };
    if log == 1 && c.server.persist.durability.may_sync(lsn) {
        c.server.persist.durability.log().inspect(|log| log.sync_soon());
        let limit = (timeout > 0).then(|| Duration::from_millis(timeout));
        c.client.begin_wait(Wait::Synced { lsn, limit });
    } else {
        tell_synced(&c.server.persist.durability, lsn, &mut c.reply);
    }
    Ok(())
}

/// Replies whether the log is on disk up to this record, and that 0 replicas have it.
pub(crate) fn tell_synced(durability: &Durability, lsn: Lsn, reply: &mut Writer<'_>) {
    let is_synced = durability.log().is_some_and(|log| log.synced() >= lsn);
    reply.array(2);
    reply.int(is_synced.into());
    reply.int(0);
}

/// Stops the server as Ctrl-C does. As in Redis, a success has no reply.
pub(crate) fn shutdown(c: &mut Context<'_>) -> Outcome {
    let mut saves = false;
    for word in c.args.tail(1).iter() {
        match word.to_ascii_lowercase().as_slice() {
            b"nosave" | b"now" | b"force" => {}
            b"save" => saves = true,
            b"abort" => return save::do_not_end(c),
            _ => return Err(Failure::Syntax),
        }
    }
    if saves {
        return save::save_and_end(c);
    }
    end(c.server, c.client);
    Ok(())
}

pub(super) fn end(server: &Server, client: &mut Client) {
    tracing::info!(client = client.shared.id, "SHUTDOWN: finishing what has arrived");
    client.closing = Some(Closing::Killed);
    server.stop();
}
