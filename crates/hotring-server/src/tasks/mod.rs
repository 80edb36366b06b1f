//! Threads whose work no client waits for.

pub(crate) mod background;
pub(crate) mod bound;
pub(crate) mod cluster;
pub(crate) mod deadline;
pub(crate) mod expire;
pub(crate) mod load;
pub(crate) mod messages;
pub(crate) mod replicate;
pub(crate) mod watchdog;
pub(crate) mod write_log;
pub(crate) mod write_snapshots;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use hotring_commands::host::threads;
use hotring_commands::state::server::Server;

/// Runs the work of the thread that does `what`, and after a panic again. What others see of it must have locks of its
/// own.
fn run_again(what: &str, pause: Duration, mut work: impl FnMut()) {
    while catch_unwind(AssertUnwindSafe(&mut work)).is_err() {
        tracing::error!("the thread of {what} panicked; it begins again");
        std::thread::sleep(pause);
    }
}

/// Runs a task on an event loop of this thread. Without one the server stops.
fn run_on_event_loop(server: &Server, task: impl Future<Output = ()>) {
    match threads::event_loop() {
        Ok(runtime) => runtime.block_on(task),
        Err(error) => {
            tracing::error!(%error, "cannot start an event loop");
            server.stop();
        }
    }
}
