//! MONITOR: the connections that are shown every request, and the format of the shown lines.
//!
//! Threads check for monitors once per batch, together with the settings: without monitors, MONITOR costs a request
//! nothing. A request is shown after it has run, but a script is shown before its commands.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hotring_protocol::ArgsView;

use crate::acl::has_secrets;
use crate::host::clock;
use crate::state::client::ClientShared;
use crate::state::settings::Settings;
use crate::table::{Flags, Spec};

/// The connections that are shown all requests.
#[derive(Default)]
pub struct Monitors {
    clients: Mutex<BTreeMap<u64, Arc<ClientShared>>>,
    len: AtomicUsize,
}

/// The sender of a request.
#[derive(Clone, Copy)]
pub(crate) enum From<'a> {
    Client(&'a ClientShared),
    /// A script, with the database that is selected.
    Script(u8),
}

impl Monitors {
    /// Whether there are any monitors.
    pub(crate) fn any(&self) -> bool {
        // ORDERING: Relaxed; it is not defined from which request on a new monitor sees the requests of other threads.
        self.len.load(Ordering::Relaxed) > 0
    }

    /// Adds a connection.
    pub(crate) fn enter(&self, client: &Arc<ClientShared>) {
        let mut clients = self.lock();
        clients.insert(client.id, Arc::clone(client));
        self.publish(&clients);
    }

    /// Removes a connection.
    pub(crate) fn leave(&self, client: &ClientShared) {
        let mut clients = self.lock();
        clients.remove(&client.id);
        self.publish(&clients);
    }

    /// Shows a request that has run, unless the command has the flag `SKIP_MONITOR`: such a command is never shown, or
    /// shows itself.
    pub(crate) fn show(
        &self,
        spec: &Spec,
        args: ArgsView<'_>,
        from: From<'_>,
        settings: &Settings,
    ) {
        if !spec.flags.contains(Flags::SKIP_MONITOR) {
            self.show_always(spec, args, from, settings);
        }
    }

    /// Shows a request, even if its command has the flag `SKIP_MONITOR`. Administrative commands are never shown: they
    /// may hold secrets.
    pub(crate) fn show_always(
        &self,
        spec: &Spec,
        args: ArgsView<'_>,
        from: From<'_>,
        settings: &Settings,
    ) {
        if !self.any() || spec.flags.contains(Flags::ADMIN) {
            return;
        }
        let line = line(spec, args, from);
        let inbox_max = settings.config().subscriber_output_max;
        for client in self.lock().values() {
            client.deliver(inbox_max, |w| w.simple(&line));
        }
    }

    fn publish(&self, clients: &BTreeMap<u64, Arc<ClientShared>>) {
        // ORDERING: Relaxed, as in `any`.
        self.len.store(clients.len(), Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<ClientShared>>> {
        // A panic during a change leaves the map consistent.
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The line of a request: time, database, address, and the quoted arguments.
fn line(spec: &Spec, args: ArgsView<'_>, from: From<'_>) -> String {
    let (seconds, microseconds) = clock::unix_parts();
    let (database, peer) = match from {
        // ORDERING: Relaxed, this thread has written it.
        From::Client(client) => (client.database.load(Ordering::Relaxed), &*client.peer),
        From::Script(database) => (database, "lua"),
    };
    let mut line = format!("{seconds}.{microseconds:06} [{database} {peer}]");
    let hides = has_secrets(spec.id, args);
    for (i, arg) in args.iter().enumerate() {
        line.push_str(" \"");
        if hides && i > 0 {
            line.push_str("(redacted)");
        } else {
            arg.iter().for_each(|byte| push_shown(*byte, &mut line));
        }
        line.push('"');
    }
    line
}

fn push_shown(byte: u8, line: &mut String) {
    match byte {
        b'"' | b'\\' => line.extend(['\\', byte.into()]),
        b'\n' => line.push_str("\\n"),
        b'\r' => line.push_str("\\r"),
        b'\t' => line.push_str("\\t"),
        0x07 => line.push_str("\\a"),
        0x08 => line.push_str("\\b"),
        b' '..=b'~' => line.push(byte.into()),
        _ => write!(line, "\\x{byte:02x}").expect("a String takes every write"),
    }
}
