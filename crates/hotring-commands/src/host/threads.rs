//! Creation of threads and their event loops, and the names of threads.

use std::thread::JoinHandle;

use tokio::runtime::LocalRuntime;

use crate::host::start_error::StartError;

/// The name of I/O thread `index` and of its session of the store.
pub fn io_name(index: usize) -> String {
    format!("hotring-io-{index}")
}

/// Runs `work` on a thread of this name.
pub fn spawn(
    name: &str,
    work: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, StartError> {
    std::thread::Builder::new()
        .name(name.to_string())
        .spawn(work)
        .map_err(|e| StartError::new(format!("cannot start a thread: {e}")))
}

/// The event loop of an I/O thread, of the accepting thread or of the admin thread.
pub fn event_loop() -> std::io::Result<LocalRuntime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build_local(Default::default())
}
