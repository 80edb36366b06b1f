//! Loads a server's data at its start: the hottest part of the snapshot, then the log, then the
//! rest of the snapshot.

mod replay;
#[cfg(test)]
mod tests;

use std::error::Error;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use hotring_log::{
    ALL, Effect, HOTTEST, Id, Snapshot, Storage, clean, drop_unfinished_copy, is_by_a_replica,
    prune,
};
use hotring_store::{KeyFates, Session, UnknownForm};

use crate::tasks::write_log;
use hotring_commands::host::clock;
use hotring_commands::host::start_error::StartError;
use hotring_commands::host::threads::spawn;
use hotring_commands::state::loading::{LoadingStatus, Stage};
use hotring_commands::state::server::Server;
use hotring_commands::state::snapshots::{Saved, Snapshots};

/// The name of the thread that loads the rest.
const THREAD: &str = "hotring-load";

/// Time between two lines about the progress.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// Loads everything that the first reply needs, and starts the threads of the log and one that loads the
/// rest, if there is any. Returns these threads, or none if the server stops meanwhile. An empty disk gets
/// the id.
pub(crate) fn start(
    server: &Arc<Server>,
    disk: Arc<dyn Storage>,
    id: Id,
) -> Result<Vec<JoinHandle<()>>, StartError> {
    let failed = |why: &dyn Display| StartError::new(format!("cannot start with the log: {why}"));
    let hottest = hottest(server, &*disk).map_err(|why| failed(&why))?;
    let Some((recovered, snapshot, fates)) = hottest else {
        tracing::info!("the server stops before its data is loaded");
        return Ok(Vec::new());
    };
    let (after, len) = snapshot.as_ref().map_or((0, 0), |s| (s.after(), s.len()));
    let saved = Saved { after, len, log: recovered.needed, log_since: 0 };
    let mut threads = write_log::start(server, disk, (recovered, saved), id)?;
    let snapshot = snapshot.filter(|_| fates.iter().any(|fate| !fate.is_over()));
    let Some(snapshot) = snapshot else {
        end(server);
        return Ok(threads);
    };
    server.persist.loading.reach(Stage::Hot);
    let LoadingStatus { records, since, .. } = server.persist.loading.status();
    let (keys, ms) = (server.store.len(), clock::unix_ms().saturating_sub(since));
    tracing::info!(keys, records, ms, "the hottest keys are served, loading the others");
    let server = server.clone();
    threads.push(spawn(THREAD, move || {
        // State that a panic leaves behind is not used again.
        let work = AssertUnwindSafe(|| rest(&server, &snapshot, &fates));
        let done = catch_unwind(work).unwrap_or_else(|_| Err("its thread panicked".into()));
        if let Err(error) = done {
            let failure = format!("cannot load the data: {error}");
            tracing::error!("{failure}");
            server.persist.loading.fail(failure);
            server.stop();
        }
    })?);
    Ok(threads)
}

/// Loads the keys that are not hot, unless the server stops.
fn rest(server: &Server, snapshot: &Snapshot, fates: &[KeyFates]) -> Result<(), Box<dyn Error>> {
    // Not earlier: requests for hot keys must not wait while the table grows.
    server.store.expect(snapshot.items(), || server.process.is_stopping());
    read_snapshot(server, snapshot, ALL, &|session, effects, now| {
        session.replay_rest(effects, now, fates)
    })?;
    if !server.process.is_stopping() {
        end(server);
    }
    Ok(())
}

/// Ends loading: from here on writes are accepted and logged.
fn end(server: &Server) {
    // First the role: a primary removes by records what has expired, from its first record on.
    begin_role(server);
    server.store.session().switch_log(true);
    server.persist.loading.reach(Stage::All);
    server.settings.renew();
    server.tasks.expirer.wake();
    let LoadingStatus { since, total, records, .. } = server.persist.loading.status();
    let (keys, ms) = (server.store.len(), clock::unix_ms().saturating_sub(since));
    tracing::info!(keys, records, snapshot_bytes = total, ms, "all data is loaded");
}

/// Takes the server's role in replication. Nothing has been written yet.
pub(crate) fn begin_role(server: &Server) {
    let durability = &server.persist.durability;
    let by_a_replica = |files: &Snapshots| is_by_a_replica(&*files.storage).unwrap_or(true);
    match server.replication.is_replica() {
        true if durability.snapshots().is_some_and(by_a_replica) => {
            server.replication.recovered_by_a_replica();
        }
        true => {}
        false => server.note_own_data(),
    }
    if let (Some(log), Some(backlog)) = (durability.stream(), durability.backlog()) {
        server.replication.begin(&mut server.store.session(), log, backlog);
    }
}

type Hottest = (hotring_log::Recovered, Option<Snapshot>, Vec<KeyFates>);

/// Replays the hottest part of the newest snapshot and then the log. None if the server stops
/// meanwhile.
fn hottest(server: &Server, disk: &dyn Storage) -> Result<Option<Hottest>, Box<dyn Error>> {
    if drop_unfinished_copy(disk)? {
        tracing::warn!(
            "a full copy from a primary was not finished: its part is removed, and the server begins empty"
        );
    }
    if clean(disk)? > 0 {
        tracing::warn!("removed a snapshot that an earlier server did not finish");
    }
    let snapshot = Snapshot::newest(disk)?;
    if let Some(snapshot) = &snapshot {
        // ORDERING: Relaxed, a figure.
        server.persist.loading.total.store(snapshot.len(), Ordering::Relaxed);
        read_snapshot(server, snapshot, HOTTEST, &|session, effects, now| {
            effects.iter().try_for_each(|effect| {
                if let Effect::Epochs { history } = effect {
                    server.replication.recovered(history);
                }
                session.replay(effect, now)
            })
        })?;
    }
    if server.process.is_stopping() {
        return Ok(None);
    }
    let replayed = replay::replay(server, disk, snapshot.as_ref())?;
    let Some((recovered, fates)) = replayed else { return Ok(None) };
    if recovered.cut > 0 {
        tracing::warn!(
            bytes = recovered.cut,
            "the log ended in the middle of a write, as after a crash: the incomplete end is cut off"
        );
    }
    if recovered.unguarded {
        tracing::warn!(
            "manifest.hrm is missing: if the newest segments were lost with it, their records are gone unnoticed; \
             the next sync writes a new one"
        );
    }
    // A crash may have prevented this earlier.
    prune(disk, snapshot.as_ref().map_or(0, Snapshot::after))?;
    Ok(Some((recovered, snapshot, fates)))
}

/// Applies the effects of a block.
type Put<'a> = &'a (dyn Fn(&mut Session, &[Effect<'_>], u64) -> Result<(), UnknownForm> + Sync);

/// Reads a snapshot up to this class, with one thread per core. Stops when the server stops.
fn read_snapshot(
    server: &Server,
    snapshot: &Snapshot,
    class: u8,
    put: Put<'_>,
) -> Result<(), Box<dyn Error>> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (done, all_done) = mpsc::channel::<()>();
    let read = std::thread::scope(|scope| {
        let work = || {
            let done = done.clone();
            scope.spawn(move || {
                let result = read_blocks(server, snapshot, class, put);
                drop(done);
                result
            })
        };
        let threads: Vec<_> = (0..threads).map(|_| work()).collect();
        drop(done);
        while all_done.recv_timeout(PROGRESS_INTERVAL) == Err(mpsc::RecvTimeoutError::Timeout) {
            let percent = server.persist.loading.status().percent() as u64;
            tracing::info!(percent, keys = server.store.len(), "reading the snapshot");
        }
        let results = threads.into_iter().map(|thread| thread.join().expect("reading panicked"));
        results.collect::<Vec<_>>().into_iter().collect::<Result<(), _>>()
    });
    read.map_err(|error| -> Box<dyn Error> { error })
}

fn read_blocks(
    server: &Server,
    snapshot: &Snapshot,
    class: u8,
    put: Put<'_>,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let (mut session, now) = (server.store.session(), clock::unix_ms());
    let (mut buffer, mut unknown) = (Vec::new(), None);
    while !server.process.is_stopping() {
        // A block names its database unless that is the first one.
        session.go_to(0);
        let mut apply = |effects: &[Effect<'_>]| {
            if let Err(form) = put(&mut session, effects, now) {
                unknown.get_or_insert(form);
            }
        };
        let Some(len) = snapshot.read_block(class, &mut buffer, &mut apply)? else { break };
        if let Some(form) = unknown {
            return Err(format!("{}: {form}", snapshot.name()).into());
        }
        // ORDERING: Relaxed, a figure.
        server.persist.loading.read.fetch_add(len, Ordering::Relaxed);
    }
    Ok(())
}
