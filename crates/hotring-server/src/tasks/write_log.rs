//! The threads that write and sync the write-ahead log.

use std::sync::Arc;
use std::thread::JoinHandle;

use hotring_log::{
    AckWhen, Backlog, Id, Log, LogError, Options, Recovered, Relay, Storage, Writer,
};

use crate::tasks::write_snapshots;
use hotring_commands::host::clock;
use hotring_commands::host::start_error::StartError;
use hotring_commands::host::threads::spawn;
use hotring_commands::settings::config::OnError;
use hotring_commands::state::durability::refusal;
use hotring_commands::state::server::Server;
use hotring_commands::state::snapshots::{Saved, Snapshots};

/// The names of the threads.
const WRITER: &str = "hotring-log";
const SYNCER: &str = "hotring-sync";

/// Continues the log behind the recovered part: starts the threads that write it, sync it and make
/// snapshots. Writes are not logged yet. An empty disk gets the id.
pub(crate) fn start(
    server: &Arc<Server>,
    disk: Arc<dyn Storage>,
    (recovered, saved): (Recovered, Saved),
    id: Id,
) -> Result<Vec<JoinHandle<()>>, StartError> {
    let settings = &server.settings.config().log;
    let log = Log::new(recovered.last, settings.when, settings.queue_max as u64);
    let log = Arc::new(log);
    let id = recovered.id.unwrap_or(id);
    let options = Options { id, segment_len: settings.segment_len as u64 };
    let (mut writer, syncer) = Writer::new(log.clone(), disk.clone(), options, &recovered);
    let backlog = new_backlog(server);
    writer.feed(backlog.clone());
    server.store.set_log(log.clone());
    let snapshots = Snapshots::new(disk, id, log.clone(), saved);
    server.persist.durability.begin(log, backlog, Some(snapshots));
    // The settings may have changed since `settings` was read.
    let changing = server.settings.lock_changing();
    server.persist.durability.change(&server.settings.config().log);
    drop(changing);
    let writing = server.clone();
    Ok(vec![
        spawn(WRITER, move || write(&writing, writer))?,
        spawn(SYNCER, move || {
            while syncer.wait() {
                syncer.step();
            }
        })?,
        write_snapshots::start(server)?,
    ])
}

/// Begins a log without files, which passes writes to replicas once there is one. Writes are not logged until then.
pub(crate) fn start_without_files(server: &Arc<Server>) -> Result<JoinHandle<()>, StartError> {
    let queue_max = server.settings.config().log.queue_max as u64;
    let log = Arc::new(Log::new(0, AckWhen::Handed, queue_max));
    let backlog = new_backlog(server);
    server.store.set_log(log.clone());
    server.persist.durability.begin(log.clone(), backlog.clone(), None);
    let mut relay = Relay::new(log, backlog);
    spawn(WRITER, move || {
        while relay.step() {
            relay.wait();
        }
    })
}

fn new_backlog(server: &Server) -> Arc<Backlog> {
    Arc::new(Backlog::new(server.settings.config().replication.backlog_max as u64))
}

/// Writes the log until it is closed.
fn write(server: &Server, mut writer: Writer) {
    let log = server.persist.durability.log().expect("there is a writer");
    let (mut was_full, mut known) = (false, None);
    let started = clock::monotonic();
    while writer.step(started.elapsed()) {
        let error = log.error();
        // A change of log-on-error must take effect while the log has an error.
        let todo = error.is_some().then(|| server.settings.config().log.on_error);
        if todo != known {
            known = todo;
            log_error(server, error.as_ref());
        }
        let is_full = server.persist.durability.is_full();
        if is_full != was_full {
            was_full = is_full;
            server.settings.renew();
        }
        writer.wait();
    }
    let lost = log.handed() - log.written();
    if lost > 0 {
        tracing::error!(
            records = lost,
            "the last writes are lost: the log could not be completely written"
        );
    }
}

/// Reports an error, or its end, to people and to the threads.
fn log_error(server: &Server, error: Option<&LogError>) {
    match (error, server.settings.config().log.on_error) {
        // The log stays abandoned until the server is restarted.
        (None, _) if server.persist.durability.is_abandoned() => {}
        (None, _) => tracing::warn!("the log can be written again: writes are accepted"),
        (Some(error), OnError::Stop) => tracing::error!("{}", refusal(error)),
        (Some(error), OnError::Continue) => {
            tracing::error!(
                "the log cannot be written: {error}. log-on-error is continue: from now on writes are \
                 lost when the server ends, until it is restarted"
            );
            server.store.session().switch_log(false);
            server.persist.durability.abandon();
            if let Err(why) = server.reign.abandon() {
                tracing::error!("a restart may take this node for one that lost nothing: {why}");
            }
        }
    }
    server.settings.renew();
}
