//! The thread that writes snapshots.
//!
//! It walks the store in steps like any client and writes between them. Requests wait for it only
//! once, when all writers leave the gate so that the log position of the snapshot is known.
//! `hotring_log`'s `snapshot.rs` defines what a snapshot is and when it counts;
//! [`crate::tasks::load`] reads it.

use std::error::Error;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hotring_log::{Effect, SnapshotWriter, clean};
use hotring_store::{Origin, SnapshotWalk};

use hotring_commands::host::clock;
use hotring_commands::host::start_error::StartError;
use hotring_commands::host::threads::spawn;
use hotring_commands::state::hot_keys::hottest;
use hotring_commands::state::server::Server;
use hotring_commands::state::snapshots::{CHECK_INTERVAL, Saved, Snapshots};

/// The name of the thread and of its session.
const THREAD: &str = "hotring-save";

/// Hot keys that are written first.
const HOTTEST_MAX: usize = 1024;

/// Time between two checks of the log's position.
const LOG_INTERVAL: Duration = Duration::from_millis(5);

/// Starts the thread.
pub(crate) fn start(server: &Arc<Server>) -> Result<JoinHandle<()>, StartError> {
    let server = server.clone();
    spawn(THREAD, move || {
        let snapshots = server.persist.durability.snapshots().expect("there is a log");
        loop {
            let may_be_due = !server.persist.loading.is_on()
                && !server.persist.durability.is_abandoned()
                && snapshots.log.error().is_none();
            match snapshots.begin_or_wait(may_be_due, &server.settings.config().log.snapshots) {
                None => break,
                Some(false) => {}
                Some(true) => snapshots.end(write(snapshots, &server), |how| match how.is_now {
                    true => server.stop(),
                    false => server.retire(),
                }),
            }
        }
    })
}

/// Writes a snapshot.
fn write(snapshots: &Snapshots, server: &Server) -> Result<Saved, Box<dyn Error>> {
    let log = &snapshots.log;
    let generation = snapshots.generation();
    if let Some(error) = log.error() {
        return Err(error.into());
    }
    if server.persist.loading.is_on() {
        return Err("the data is still being loaded".into());
    }
    let started = clock::monotonic();
    let mut session = server.store.session_named(THREAD);
    session.act(Origin { marks_accesses: false, ..Origin::default() });
    if !session.is_logged() {
        return Err("writes are no longer logged".into());
    }
    // Removes files that a failed snapshot could not remove.
    clean(&*snapshots.storage)?;
    // The new segment must exist before the position is taken, so that the older ones can go.
    log.begin_segment();
    while log.wants_segment() {
        snapshots.rest(LOG_INTERVAL)?;
    }
    if let Some(error) = log.error() {
        return Err(error.into());
    }
    let log_since = log.length();
    let after = session.log_position().ok_or("there is no log")?;
    let mut writer = SnapshotWriter::create(snapshots.storage.clone(), snapshots.id, after)?;
    if let Some(history) = server.replication.epochs() {
        writer.push(&Effect::Epochs { history: &history });
    }
    let mut hot = hottest(&server.threads, clock::unix_ms(), HOTTEST_MAX, server.shows());
    // The walk begins in the database with ID 0.
    hot.retain(|hot| session.database_id_of(hot.database) == 0);
    let mut walk = SnapshotWalk::new(hot.into_iter().map(|hot| hot.key).collect());
    let mut pace = Pace::new(server);
    while walk.step(&mut session, &mut writer)? {
        let keys = server.store.len().max(1) as f64;
        snapshots.set_progress((walk.met() as f64 / keys).min(1.0));
        pace.keep(snapshots, server, writer.written())?;
    }
    let end = session.log_end().ok_or("writes are no longer logged")?;
    drop(session);
    let finished = writer.finish(end)?;
    log.sync_soon();
    while log.synced() < finished.end() && snapshots.generation() == generation {
        if let Some(error) = log.error() {
            return Err(error.into());
        }
        snapshots.rest(LOG_INTERVAL)?;
    }
    let (items, bytes) = (finished.items(), finished.len());
    let removed = snapshots.publish(generation, || finished.publish(log.synced()))?;
    let seconds = started.elapsed().as_secs_f64();
    tracing::info!(items, bytes, seconds, removed, "wrote a snapshot");
    Ok(Saved { after, len: bytes, log: 0, log_since })
}

/// Limits the rate of a snapshot. The setting may change meanwhile.
struct Pace {
    rate: usize,
    /// The time and the byte position from which on `rate` applies.
    since: Instant,
    from: u64,
    /// The byte position at the end of the last step.
    last: u64,
}

impl Pace {
    fn new(server: &Server) -> Pace {
        let rate = server.settings.config().log.snapshots.rate;
        Pace { rate, since: clock::monotonic(), from: 0, last: 0 }
    }

    /// Rests until `written` bytes are allowed by the rate.
    fn keep(
        &mut self,
        snapshots: &Snapshots,
        server: &Server,
        written: u64,
    ) -> Result<(), Box<dyn Error>> {
        loop {
            let rate = server.settings.config().log.snapshots.rate;
            if rate != self.rate {
                *self = Pace { rate, since: clock::monotonic(), from: self.last, last: self.last };
            }
            let early = match rate {
                0 => Duration::ZERO,
                _ => Duration::from_secs_f64((written - self.from) as f64 / rate as f64)
                    .saturating_sub(self.since.elapsed()),
            };
            // A wake-up alone does not allow writing.
            snapshots.rest(early.min(CHECK_INTERVAL))?;
            if early.is_zero() {
                self.last = written;
                return Ok(());
            }
        }
    }
}
