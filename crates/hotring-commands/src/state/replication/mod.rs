//! The role of this server in replication, and the state of its links. The link's I/O is in `hotring-server`'s
//! `tasks/replicate`; what the roles promise is in `docs/design/replication.md`.

pub mod link;
pub mod redis;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::settings::config::{Config, Source};
use link::{Link, LinkStatus};
use redis::RedisLink;

/// The error of a write on a replica. Clients know the code and the text from Redis.
pub const READONLY: &str = "READONLY You can't write against a read only replica.";

/// The state of replication.
pub struct Replication {
    is_replica: AtomicBool,
    /// The primary to follow; None on a primary. Each change begins a new link, even to the same primary.
    source: watch::Sender<Option<Arc<Source>>>,
    link: Mutex<Link>,
    /// What only a link to a Redis has.
    pub redis: RedisLink,
    /// 40 hexadecimal digits that name the stream to operators and tools. They are not the store's id.
    id: Mutex<String>,
}

impl Replication {
    pub(super) fn new(config: &Config, id: String) -> Self {
        let source = config.replication.source.clone().map(Arc::new);
        Replication {
            is_replica: AtomicBool::new(source.is_some()),
            source: watch::Sender::new(source),
            link: Mutex::new(Link::default()),
            redis: RedisLink::default(),
            id: Mutex::new(id),
        }
    }

    /// Whether this server follows a primary, and so refuses writes.
    #[inline]
    pub fn is_replica(&self) -> bool {
        // ORDERING: Relaxed; a thread learns of a change from the version of the settings.
        self.is_replica.load(Ordering::Relaxed)
    }

    /// The primary to follow; None on a primary.
    pub fn source(&self) -> Option<Arc<Source>> {
        self.source.borrow().clone()
    }

    /// A view of the primary to follow that tells of changes.
    pub fn watch_source(&self) -> watch::Receiver<Option<Arc<Source>>> {
        self.source.subscribe()
    }

    /// Changes the role: follows this primary, or none.
    pub(super) fn follow(&self, source: Option<Source>) {
        let _applying = self.redis.applying();
        // ORDERING: Relaxed, see `is_replica`.
        self.is_replica.store(source.is_some(), Ordering::Relaxed);
        self.link().restart();
        self.source.send_replace(source.map(Arc::new));
    }

    fn link(&self) -> MutexGuard<'_, Link> {
        // No code panics between changes of the link's state.
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state of the link to the primary.
    pub fn update_link(&self, change: impl FnOnce(&mut Link)) {
        change(&mut self.link());
    }

    /// The state of the link to the primary.
    pub fn link_status(&self) -> LinkStatus {
        self.link().status()
    }

    /// The public id of the stream.
    pub fn id(&self) -> String {
        self.id.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets the public id of the stream: a replica shows that of its primary.
    pub fn set_id(&self, id: &str) {
        *self.id.lock().unwrap_or_else(PoisonError::into_inner) = id.to_string();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source() -> Source {
        Source { host: "h".into(), port: 1 }
    }

    #[test]
    fn a_change_of_the_source_is_seen_even_if_it_is_the_same() {
        let replication = Replication::new(&Config::default(), "0".repeat(40));
        let mut watched = replication.watch_source();
        assert!(!replication.is_replica() && replication.source().is_none());
        for _ in 0..2 {
            replication.follow(Some(source()));
            assert!(watched.has_changed().unwrap());
            assert_eq!(watched.borrow_and_update().as_deref(), Some(&source()));
            assert!(replication.is_replica());
        }
        replication.follow(None);
        assert!(watched.has_changed().unwrap() && !replication.is_replica());
    }
}
