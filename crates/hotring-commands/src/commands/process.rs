//! Commands on the entire store or the process: DBSIZE, FLUSHALL, FLUSHDB, TIME, MODULE LIST, SHUTDOWN.

use super::save;
use crate::host::clock;
use crate::state::client::{Client, Closing};
use crate::state::context::Context;
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
