//! SAVE, BGSAVE, BGREWRITEAOF, LASTSAVE, the snapshot of SHUTDOWN SAVE, and the persistence fields of INFO.
//! [`crate::state::snapshots`] holds the state of snapshots. BGREWRITEAOF takes a snapshot, because a snapshot is what
//! shortens the log here.

use std::fmt::Write as _;

use hotring_protocol::Writer;

use crate::state::client::Wait;
use crate::state::context::Context;
use crate::state::durability::Durability;
use crate::state::facts::Facts;
use crate::state::failure::{Failure, Outcome};
use crate::state::persist::Persist;
use crate::state::server::Server;
use crate::state::snapshots::{EndHow, SnapshotStatus, Snapshots};

const NO_LOG: Failure =
    Failure::text("ERR a snapshot needs a log beside it: start the server with log everysec");
const UNDER_WAY: Failure = Failure::text("ERR Background save already in progress");

/// SAVE. This function does not block: it begins a wait, and [`end_wait`] replies once the snapshot is complete.
pub(crate) fn save(c: &mut Context<'_>) -> Outcome {
    let number = snapshots(&c.server.persist)?.ask().ok_or(UNDER_WAY)?;
    c.client.begin_wait(Wait::Save { number });
    Ok(())
}

pub(crate) fn bgsave(c: &mut Context<'_>) -> Outcome {
    let is_later = match c.args.len() {
        1 => false,
        2 if c.args[1].eq_ignore_ascii_case(b"schedule") => true,
        _ => return Err(Failure::Syntax),
    };
    let snapshots = snapshots(&c.server.persist)?;
    if snapshots.ask().is_some() {
        c.reply.simple("Background saving started");
    } else if is_later {
        snapshots.ask_for_next();
        c.reply.simple("Background saving scheduled");
    } else {
        return Err(UNDER_WAY);
    }
    Ok(())
}

pub(crate) fn bgrewriteaof(c: &mut Context<'_>) -> Outcome {
    snapshots(&c.server.persist)?
        .ask()
        .ok_or(Failure::text("ERR Background append only file rewriting already in progress"))?;
    c.reply.simple("Background append only file rewriting started");
    Ok(())
}

/// Unix seconds of the last save; before the first save that of the start, as in Redis.
pub(crate) fn lastsave(c: &mut Context<'_>) -> Outcome {
    c.reply.int(last_save(c.server) as i64);
    Ok(())
}

/// Asks for a snapshot after which the server ends. Returns its number; None if there are no snapshots.
pub(super) fn save_before_end(persist: &Persist, how: EndHow) -> Option<u64> {
    snapshots(persist).ok().map(|snapshots| snapshots.request_shutdown(how))
}

/// Cancels [`save_before_end`]; false if no client has asked for it.
pub(super) fn abort_end(persist: &Persist) -> bool {
    snapshots(persist).is_ok_and(Snapshots::abort_shutdown)
}

/// Whether a client that waits for this snapshot must keep waiting.
pub(crate) fn is_awaited(durability: &Durability, number: u64) -> bool {
    durability.snapshots().is_some_and(|snapshots| snapshots.ended(number).is_none())
}

/// Replies to a client that has waited for this snapshot. Returns the error, if the reply is one.
pub(crate) fn end_wait(server: &Server, number: u64, reply: &mut Writer<'_>) -> Option<String> {
    let ended = server.persist.durability.snapshots().and_then(|snapshots| snapshots.ended(number));
    let error = match ended {
        Some(Ok(())) => {
            reply.ok();
            return None;
        }
        Some(Err(why)) => format!("ERR the snapshot failed: {why}"),
        None => "UNBLOCKED the server is shutting down".to_string(),
    };
    reply.error(&error);
    Some(error)
}

fn snapshots(persist: &Persist) -> Result<&Snapshots, Failure> {
    persist.durability.snapshots().ok_or(NO_LOG)
}

/// Unix seconds of the last save, or of the start.
fn last_save(server: &Server) -> u64 {
    let saved_at = server.persist.durability.snapshots().and_then(|s| s.status().saved_at);
    saved_at.unwrap_or(server.process.started_at) / 1000
}

/// Appends the fields about snapshots to INFO.
pub(super) fn add_status(f: &Facts<'_>, text: &mut String) {
    let status = f.server.persist.durability.snapshots().map(Snapshots::status);
    let status = status.as_ref();
    let seconds = |time: std::time::Duration| time.as_secs() as i64;
    let running = status.and_then(|status| status.running);
    let last = status.and_then(|status| status.last.as_ref());
    let took = last.and_then(|last| last.as_ref().ok()).map_or(-1, |time| seconds(*time));
    let failed = last.and_then(|last| last.as_ref().err());
    let mut field = |name: &str, value: i64| {
        write!(text, "{name}:{value}\r\n").expect("writing to a string cannot fail");
    };
    field("rdb_changes_since_last_save", status.map_or(0, |s: &SnapshotStatus| s.changes as i64));
    field("rdb_bgsave_in_progress", running.is_some().into());
    field("rdb_last_save_time", last_save(f.server) as i64);
    field("rdb_last_bgsave_time_sec", took);
    field("rdb_current_bgsave_time_sec", running.map_or(-1, seconds));
    field("aof_rewrite_in_progress", running.is_some().into());
    field("aof_current_size", status.map_or(0, |s| s.log_len as i64));
    field("aof_base_size", status.map_or(0, |s| s.len as i64));
    field("snapshot_progress_percent", status.map_or(0, |s| (s.progress * 100.0) as i64));
    let result = if failed.is_some() { "err" } else { "ok" };
    write!(text, "rdb_last_bgsave_status:{result}\r\n").expect("writing to a string cannot fail");
    if let Some(why) = failed {
        let why = why.replace(['\r', '\n'], " ");
        write!(text, "snapshot_last_error:{why}\r\n").expect("writing to a string cannot fail");
    }
}
