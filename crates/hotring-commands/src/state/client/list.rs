//! The list of all connections, with the state that they share.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{ClientShared, Inboxes, Unblocked};
use crate::host::clock;
use crate::settings::config::{Config, memory};
use crate::state::pause::ClientPause;

/// The connections.
pub struct Clients {
    list: Mutex<BTreeMap<u64, Arc<ClientShared>>>,
    id_last: AtomicU64,
    /// Memory of the messages that all connections have yet to fetch.
    inboxes: Arc<Inboxes>,
    /// The state of CLIENT PAUSE.
    pub pause: ClientPause,
}

impl Clients {
    pub(in crate::state) fn new(config: &Config) -> Self {
        let clients = Clients {
            list: Mutex::default(),
            id_last: AtomicU64::new(0),
            inboxes: Arc::default(),
            pause: ClientPause::default(),
        };
        clients.set_limits(config);
        clients
    }

    /// Applies changed settings.
    pub(in crate::state) fn set_limits(&self, config: &Config) {
        self.inboxes.set_max(memory::messages_of(config.memory_max));
    }

    /// Bytes of messages that connections have yet to fetch.
    pub(crate) fn messages_memory(&self) -> usize {
        self.inboxes.memory()
    }

    /// Registers a new connection, served by `thread`. The acceptor has counted it already.
    pub fn enter(&self, peer: String, local: String, thread: usize) -> Arc<ClientShared> {
        // ORDERING: Relaxed, only uniqueness matters.
        let id = self.id_last.fetch_add(1, Ordering::Relaxed) + 1;
        let client = ClientShared::new(id, peer, local, thread, clock::unix_ms());
        let client = Arc::new(client.counted_in(&self.inboxes));
        self.lock().insert(id, client.clone());
        client
    }

    /// Removes a connection that has ended; false if it was removed before.
    pub(in crate::state) fn remove(&self, client: &ClientShared) -> bool {
        client.leave();
        self.lock().remove(&client.id).is_some()
    }

    /// Number of connections whose request waits, for any reason.
    pub fn blocked(&self) -> usize {
        self.all().iter().filter(|client| client.is_blocked()).count()
    }

    /// All connections, oldest first.
    pub fn all(&self) -> Vec<Arc<ClientShared>> {
        self.lock().values().cloned().collect()
    }

    /// The connection with this ID.
    pub(crate) fn find(&self, id: u64) -> Option<Arc<ClientShared>> {
        self.lock().get(&id).cloned()
    }

    /// Number of connections.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Bytes of the buffers of all connections.
    pub fn buffers_memory(&self) -> usize {
        self.lock().values().map(|client| client.buffers_memory()).sum()
    }

    /// Bytes of these buffers that the store does not count.
    pub fn memory_outside_store(&self) -> usize {
        self.lock().values().map(|client| client.memory_outside_store()).sum()
    }

    /// Makes all connections look up their users again, because users have changed.
    pub(crate) fn users_changed(&self) {
        self.lock().values().for_each(|client| client.users_changed());
    }

    /// Ends all waits for keys, because the server has become a replica.
    pub(in crate::state) fn unblock_demoted(&self) {
        self.all().iter().for_each(|client| _ = client.unblock(Unblocked::Demoted));
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<ClientShared>>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
