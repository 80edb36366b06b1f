//! Ends the process if the shutdown takes too long: a stuck thread must not keep it alive.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::Duration;

use crate::tasks::watchdog;
use hotring_commands::host::clock;
use hotring_commands::host::threads;
use hotring_commands::host::threads::spawn;
use hotring_commands::state::server::Server;

/// The exit code of a forced end.
pub(crate) const EXIT_CODE: i32 = 70;

/// Time between two checks of the log.
const PAUSE: Duration = Duration::from_millis(10);

/// Ends the process after `shutdown-timeout`, from a thread that waits for no other, unless the
/// returned sender is dropped first.
pub(crate) fn begin(server: &Arc<Server>) -> Option<Sender<()>> {
    let time = Duration::from_secs(server.settings.config().shutdown_timeout_s);
    let (has_ended, ended) = mpsc::channel();
    let server = server.clone();
    if time.is_zero() {
        return None;
    }
    let waits = spawn("hotring-deadline", move || {
        if ended.recv_timeout(time) == Err(RecvTimeoutError::Timeout) {
            abandon(&server, time);
        }
    });
    if let Err(error) = waits {
        tracing::warn!("shutdown-timeout is not in effect: {error}");
        return None;
    }
    Some(has_ended)
}

/// Lets the log be written as far as possible, and ends the process.
fn abandon(server: &Server, time: Duration) {
    let stuck = watchdog::slowest(server).map_or(String::new(), |(index, age)| {
        format!("; {} was last seen {:.1} s ago", threads::io_name(index), age.as_secs_f64())
    });
    let log = match server.persist.durability.log() {
        None => "there is no log",
        Some(log) => {
            log.sync_soon();
            let until = clock::monotonic() + time;
            while log.synced() < log.handed() && clock::monotonic() < until {
                std::thread::sleep(PAUSE);
            }
            match log.synced() < log.handed() {
                true => "the log is NOT completely synced",
                false => "the log is synced",
            }
        }
    };
    tracing::error!(
        code = EXIT_CODE,
        "shutdown took longer than {} s (shutdown-timeout){stuck}: exiting now; {log}",
        time.as_secs()
    );
    std::process::exit(EXIT_CODE);
}
