//! WAIT and WAITAOF: wait until the writes so far are at replicas, or on disks.
//!
//! The handlers do not block: they begin a wait, and [`tell`] replies at its end. Both take all writes of all clients
//! so far, which include the client's own.

use std::time::Duration;

use hotring_log::Lsn;
use hotring_protocol::{Writer, parse_i64};

use crate::state::client::{Wait, Wanted};
use crate::state::context::Context;
use crate::state::failure::{Failure, Outcome};
use crate::state::server::Server;

pub(crate) fn wait(c: &mut Context<'_>) -> Outcome {
    if c.server.replication.is_replica() {
        return Err(Failure::text(
            "ERR WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a replica is \
             configured to be writable (which is not the default) writes to replicas are just local and are not propagated.",
        ));
    }
    let count = parse_i64(c.args.at(1)).ok_or(Failure::NotAnInteger)?;
    let limit = limit(c.args.at(2))?;
    begin(c, Wanted::Applied(usize::try_from(count).unwrap_or(0)), limit)
}

pub(crate) fn waitaof(c: &mut Context<'_>) -> Outcome {
    let here = parse_i64(c.args.at(1)).ok_or(Failure::NotAnInteger)?;
    let replicas = parse_i64(c.args.at(2)).filter(|n| *n >= 0).ok_or(Failure::NotAnInteger)?;
    let limit = limit(c.args.at(3))?;
    if !(0..=1).contains(&here) {
        return Err(Failure::text("ERR value is out of range, must be between 0 and 1"));
    }
    if here == 1 && c.server.persist.durability.log().is_none() {
        return Err(Failure::text(
            "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.",
        ));
    }
    if c.server.replication.is_replica() {
        return Err(Failure::text(
            "ERR WAITAOF cannot be used with replica instances. Please also note that writes to replicas are just local \
             and are not propagated.",
        ));
    }
    let replicas = usize::try_from(replicas).unwrap_or(usize::MAX);
    begin(c, Wanted::Synced { here: here == 1, replicas }, limit)
}

/// Parses a timeout in milliseconds; 0 for no limit.
fn limit(text: &[u8]) -> Result<Option<Duration>, Failure> {
    let number =
        parse_i64(text).ok_or(Failure::text("ERR timeout is not an integer or out of range"))?;
    let limit = u64::try_from(number).map_err(|_| Failure::text("ERR timeout is negative"))?;
    Ok((limit > 0).then(|| Duration::from_millis(limit)))
}

/// Begins the wait, or replies if there is nothing to wait for.
fn begin(c: &mut Context<'_>, wanted: Wanted, limit: Option<Duration>) -> Outcome {
    let Some(log) = c.server.persist.durability.stream() else {
        tell(c.server, 0, wanted, &mut c.reply);
        return Ok(());
    };
    let lsn = log.handed();
    if is_safe(c.server, lsn, wanted) || !c.client.may_wait() {
        tell(c.server, lsn, wanted, &mut c.reply);
        return Ok(());
    }
    match wanted {
        Wanted::Synced { here: true, .. } => log.sync_soon(),
        _ => log.hurry(),
    }
    c.client.begin_wait(Wait::Safe { lsn, wanted, limit });
    Ok(())
}

/// Whether the record is as safe as wanted, or its own log can make it no safer.
pub(crate) fn is_safe(server: &Server, lsn: Lsn, wanted: Wanted) -> bool {
    match wanted {
        Wanted::Applied(count) => count == 0 || server.replication.applied_by(lsn) >= count,
        Wanted::Synced { here, replicas } => {
            (!here || !server.persist.durability.may_sync(lsn))
                && (replicas == 0 || server.replication.synced_by(lsn) >= replicas)
        }
    }
}

/// Replies how safe the record is.
pub(crate) fn tell(server: &Server, lsn: Lsn, wanted: Wanted, reply: &mut Writer<'_>) {
    match wanted {
        Wanted::Applied(_) => reply.int(server.replication.applied_by(lsn) as i64),
        Wanted::Synced { .. } => {
            let log = server.persist.durability.log();
            reply.array(2);
            reply.int(log.is_some_and(|log| log.synced() >= lsn).into());
            reply.int(server.replication.synced_by(lsn) as i64);
        }
    }
}
