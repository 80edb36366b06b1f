//! The repair of a divergent tail on the replica's side: the server has records that its primary has not, perhaps
//! because it was primary itself and died with them.
//!
//! They cannot be undone one by one. So the server notes their keys, cuts its stream behind the last record in common,
//! follows the primary from there, and asks for the present state of those keys. Until it has that, it answers no
//! reads.
//!
//! A link that ends in the middle does no harm: the stream is a beginning of the primary's at each moment, and the
//! keys are kept. Nor is a crash: what the log has after the cut is no longer divergent.

use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use hotring_cluster::Stamp;
use hotring_commands::host::clock;
use hotring_commands::state::replication::link::{Copied, LinkStage};
use hotring_commands::state::server::Server;
use hotring_log::{Effect, Log, Lsn, Run, Snapshot, check, first_record};
use hotring_store::TailKeys;

use super::LinkError;

/// Time between two looks at the log.
const LOG_PAUSE: Duration = Duration::from_millis(1);

/// The lowest record behind which this server could cut its stream, as far as that is known without a look at the
/// records.
pub(super) fn floor(server: &Server) -> Lsn {
    let durability = &server.persist.durability;
    if server.replication.tail.needs_copy() {
        return Lsn::MAX;
    }
    let Some(files) = durability.snapshots() else {
        let backlog = durability.backlog().filter(|backlog| backlog.is_on());
        return backlog.map_or(Lsn::MAX, |backlog| backlog.status().start);
    };
    // A snapshot may have what records up to its end did, so its end must stay.
    let snapshot =
        Snapshot::newest(&*files.storage).map(|snapshot| snapshot.map_or(0, |s| s.end()));
    match (snapshot, first_record(&*files.storage)) {
        (Ok(end), Ok(Some(first))) => end.max(first - 1),
        _ => Lsn::MAX,
    }
}

/// Waits until all records are written.
async fn written(log: &Log) -> Result<(), LinkError> {
    while log.written() < log.handed() {
        check_log(log)?;
        log.wake_for_waiter();
        tokio::time::sleep(LOG_PAUSE).await;
    }
    Ok(())
}

/// Fails if the own log does.
pub(super) fn check_log(log: &Log) -> Result<(), LinkError> {
    match log.error() {
        Some(error) => Err(LinkError::Peer(format!("the own log fails: {error}"))),
        None => Ok(()),
    }
}

/// The keys in the own records behind this one. All records are written.
fn keys_behind(server: &Server, after: Lsn) -> Result<TailKeys, String> {
    let (durability, mut keys) = (&server.persist.durability, TailKeys::default());
    if let Some(files) = durability.snapshots() {
        let mut add = |_, effects: &[Effect<'_>]| keys.add(effects);
        let read = check(&*files.storage, Some(files.id), after + 1, &mut add);
        let read = read.map_err(|why| why.to_string())?;
        return match (read.error, read.torn) {
            (Some(why), _) => Err(why.to_string()),
            (None, Some((name, at, _))) => Err(format!("{name} is damaged at {at}")),
            (None, None) => Ok(keys),
        };
    }
    let backlog = durability.backlog().ok_or("there is no log")?;
    let (mut at, last) = (after, backlog.status().last);
    while at < last {
        let Poll::Ready(chunk) = backlog.poll_after(at, Waker::noop()) else { break };
        let chunk = chunk.map_err(|gone| gone.to_string())?;
        let bytes = chunk.pieces(at, Lsn::MAX).collect::<Vec<_>>().concat();
        let run = Run::behind(at, &bytes).map_err(|why| why.to_string())?;
        run.batches(|_, effects| keys.add(effects));
        at = chunk.last();
    }
    Ok(keys)
}

/// Begins the repair of the records behind this one: from here on nothing is read, and the stream ends there.
pub(super) async fn begin(
    server: &Arc<Server>,
    log: &Log,
    stamp: Stamp,
    after: Lsn,
) -> Result<(), LinkError> {
    written(log).await?;
    let (reading, started) = (server.clone(), clock::monotonic());
    let keys = tokio::task::spawn_blocking(move || keys_behind(&reading, after)).await;
    let keys = keys.unwrap_or_else(|_| Err("reading them panicked".to_string()));
    let refused = |why: &str| {
        server.replication.tail.refuse_repair();
        let what = "the records that the primary lacks cannot be repaired";
        LinkError::Peer(format!("{what}, so all data will be copied: {why}"))
    };
    let keys = keys.map_err(|why| refused(&why))?;
    // No beat was read meanwhile, so that the link is about to end, or has ended.
    let lease = server.settings.config().replication.lease();
    if started.elapsed() > lease / 2 {
        return Err(refused("reading them takes too long"));
    }
    if keys.needs_copy() {
        return Err(refused("they concern whole databases, or too many keys"));
    }
    let count = keys.iter().count();
    enter(server, stamp, after, keys)?;
    tracing::warn!(
        after,
        last = log.handed(),
        keys = count,
        "this server has records that its primary lacks: they are cut off, and their keys get the primary's values"
    );
    Ok(())
}

/// Cuts the stream, unless the role has changed, or a snapshot was written meanwhile.
fn enter(server: &Server, stamp: Stamp, after: Lsn, keys: TailKeys) -> Result<(), LinkError> {
    // A promotion comes before, or is refused: roles change under this lock only.
    let _applying = server.replication.lock_applying();
    let cannot = || LinkError::Peer("its records cannot be cut off now".to_string());
    if server.replication.with_replica(|replica, _| replica.may_cut(stamp, after)) != Some(true) {
        return Err(cannot());
    }
    // An earlier repair may not have come to its end.
    let was_readable = !server.persist.loading.is_unfinished_copy();
    server.persist.loading.begin_copy();
    server.settings.renew();
    if let Some(files) = server.persist.durability.snapshots() {
        files.abandon();
    }
    let may = floor(server) <= after;
    let is_cut = may
        && server.replication.with_replica(|replica, _| replica.cut(stamp, after)) == Some(true);
    if !is_cut {
        if was_readable {
            server.persist.loading.end_copy();
            server.settings.renew();
        }
        return Err(cannot());
    }
    server.replication.tail.cut_off(keys);
    Ok(())
}

/// Cuts the own log behind this record if it has later ones. They were noted before.
pub(super) async fn cut(server: &Server, log: &Log, last: Lsn) -> Result<(), LinkError> {
    server.replication.update_link(|link| {
        link.enter(LinkStage::Copying);
        link.copy(Copied::default());
    });
    if log.handed() > last {
        log.cut(last);
    }
    restarted(log).await
}

/// Waits for the end of a restart or a cut of the own log.
pub(super) async fn restarted(log: &Log) -> Result<(), LinkError> {
    while log.is_restarting() {
        check_log(log)?;
        tokio::time::sleep(LOG_PAUSE).await;
    }
    check_log(log)
}
