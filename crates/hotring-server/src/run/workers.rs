//! Starts the threads of a server.

use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;

use hotring_coordinator::Embedded;
use tokio::sync::mpsc;

use super::names::random_u64;
use crate::admin;
use crate::net::listen::{self, Acceptor};
use crate::net::worker;
use crate::tasks::cluster::{farewell, full_disk};
use crate::tasks::{background, bound, expire, replicate, watchdog};
use hotring_commands::host::start_error::StartError;
use hotring_commands::host::threads::{self, spawn};
use hotring_commands::state::server::Server;

/// The name of the thread that grows the index, on which no operation waits.
const EXPANDER: &str = "hotring-expand";

/// Starts the threads of the connections, and those whose work no client waits for.
pub(super) fn start_threads(
    server: &Arc<Server>,
    embedded: Option<Embedded>,
    tcp: Vec<(TcpListener, listen::Spoken)>,
    unix: Option<UnixListener>,
) -> Result<Vec<JoinHandle<()>>, StartError> {
    let mut threads = Vec::new();
    let mut doors = Vec::new();
    for index in 0..server.settings.config().threads {
        let (door, incoming) = mpsc::unbounded_channel();
        doors.push(door);
        let (server, embedded, seed) = (server.clone(), embedded.clone(), random_u64()?);
        // A runtime is bound to its thread, so it must be built there.
        threads.push(spawn(&threads::io_name(index), move || {
            match worker::event_loop(&server, index) {
                Ok(runtime) => worker::run(&runtime, &server, embedded, index, seed, incoming),
                Err(error) => {
                    tracing::error!(%error, "cannot start an event loop");
                    server.stop();
                }
            }
        })?);
    }
    // `maintain` returns at once for an engine that needs no such thread.
    let expanding = server.clone();
    threads.push(spawn(EXPANDER, move || {
        expanding.store.maintain(|| expanding.process.is_stopping());
    })?);
    let watching = server.clone();
    let bounded = server.clone();
    threads.push(spawn(bound::THREAD, move || bound::run(&bounded))?);
    threads.push(spawn(watchdog::THREAD, move || watchdog::watch(&watching))?);
    let expiring = server.clone();
    threads.push(spawn(expire::THREAD, move || expire::run(&expiring))?);
    let following = server.clone();
    threads.push(spawn(replicate::THREAD, move || replicate::run(&following))?);
    let server = server.clone();
    threads.push(spawn(background::THREAD, move || {
        if let Err(error) = accept(&server, doors, tcp, unix) {
            tracing::error!(%error, "cannot accept connections");
            server.stop();
        }
    })?);
    Ok(threads)
}

/// Starts the thread of the admin address.
pub(super) fn start_admin(
    server: &Arc<Server>,
    listener: TcpListener,
) -> Result<JoinHandle<()>, StartError> {
    let server = server.clone();
    spawn(admin::THREAD, move || {
        if let Err(error) = admin::run(&server, listener) {
            tracing::error!(%error, "cannot serve the admin address");
        }
    })
}

/// Accepts connections until the server stops, and does the periodic upkeep.
fn accept(
    server: &Arc<Server>,
    threads: Vec<mpsc::UnboundedSender<listen::Incoming>>,
    tcp: Vec<(TcpListener, listen::Spoken)>,
    unix: Option<UnixListener>,
) -> std::io::Result<()> {
    let acceptor = Rc::new(Acceptor { server: server.clone(), threads, files_logged: None.into() });
    threads::event_loop()?.block_on(async {
        server.persist.loading.grace().await;
        for (listener, spoken) in tcp {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            tokio::task::spawn_local(acceptor.clone().accept_tcp(listener, spoken));
        }
        if let Some(listener) = unix {
            let listener = tokio::net::UnixListener::from_std(listener)?;
            tokio::task::spawn_local(acceptor.clone().accept_unix(listener));
        }
        tokio::task::spawn_local(background::run(server.clone()));
        tokio::task::spawn_local(farewell::keep(server.clone()));
        tokio::task::spawn_local(full_disk::keep(server.clone()));
        // Dropping the runtime afterwards ends all tasks and closes the listeners.
        server.process.stopping().await;
        Ok(())
    })
}
