//! A pool as the proxy knows it: reads its file, and makes a layout of it by the circle.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hotring_cluster::{Circle, Placement, SLOTS, Slot, drawn, identifiers};
use tokio::sync::Notify;

use super::copying::{Copying, Way};
use super::file::{File, Options, load};
use super::server::Server;
use crate::layout::Layout;

/// The slots are evenly spread over the circle, as those of a cluster.
const PLACE_SHIFT: u32 = u64::BITS - SLOTS.ilog2();

/// A pool of servers.
pub(crate) struct Foreign {
    path: PathBuf,
    inner: Mutex<Inner>,
    copy_begins: Notify,
}

struct Inner {
    options: Options,
    servers: Vec<Arc<Server>>,
    /// For each slot the position of its server, while none is ejected.
    owners: Vec<u16>,
    /// Raised with each change, and with each layout that is being made.
    turn: u64,
    copying: Option<Arc<Copying>>,
    /// How the last copy has ended.
    last_copy: String,
}

impl Foreign {
    /// Reads the file.
    ///
    /// # Errors
    ///
    /// A text for the operator.
    pub(crate) fn open(path: PathBuf) -> Result<Self, String> {
        let File { options, servers } = load(&path)?;
        let servers: Vec<_> = servers.into_iter().map(Arc::new).collect();
        let owners = owners(&servers, |_| true)?;
        let last_copy = "none".to_string();
        let inner = Inner { options, servers, owners, turn: 0, copying: None, last_copy };
        Ok(Foreign { path, inner: Mutex::new(inner), copy_begins: Notify::new() })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn options(&self) -> Options {
        self.inner().options.clone()
    }

    pub(crate) fn servers(&self) -> Vec<Arc<Server>> {
        self.inner().servers.clone()
    }

    /// Whether a server is reached over TLS.
    pub(crate) fn has_tls(&self) -> bool {
        self.inner().servers.iter().any(|server| server.tls)
    }

    /// The servers, and those that have left and whose keys are copied.
    pub(crate) fn asked_servers(&self) -> Vec<Arc<Server>> {
        let inner = self.inner();
        let sources = inner.copying.iter().flat_map(|copying| copying.sources());
        inner.servers.iter().cloned().chain(sources).collect()
    }

    /// The server at an address; also one that has left, while its keys are copied.
    pub(crate) fn server(&self, address: &str) -> Option<Arc<Server>> {
        self.asked_servers().into_iter().find(|server| *server.address == *address)
    }

    /// The copy that goes on.
    pub(crate) fn copying(&self) -> Option<Arc<Copying>> {
        self.inner().copying.clone()
    }

    /// How the last copy has ended.
    pub(crate) fn last_copy(&self) -> String {
        self.inner().last_copy.clone()
    }

    /// Waits until a copy begins.
    pub(crate) async fn copy_begun(&self) {
        self.copy_begins.notified().await;
    }

    /// Has a layout published. If others do so as well, the newest is: they begin after the changes that they know.
    pub(crate) fn republish(&self, publish: impl FnOnce(Layout)) {
        let (turn, servers, goes_next) = {
            let inner = &mut *self.inner();
            inner.turn += 1;
            // While keys are copied they go to their new servers alone.
            let goes_next = inner.options.goes_next && inner.copying.is_none();
            (inner.turn, inner.servers.clone(), goes_next)
        };
        let is_up = |server: &Server| !server.health.is_ejected();
        let has_ejected = || !servers.iter().all(|server| is_up(server));
        // Without the lock, which every connection to a server needs: the circle takes long if there are many.
        let next = (goes_next && has_ejected()).then(|| owners(&servers, is_up).ok()).flatten();
        let inner = self.inner();
        if inner.turn == turn {
            publish(inner.layout(next));
        }
    }

    /// Reads the file again. What it says is taken as a whole or not at all.
    ///
    /// # Errors
    ///
    /// A text for the operator.
    pub(crate) fn reload(
        &self,
        copies: bool,
        may_use_tls: bool,
        publish: impl FnOnce(Layout),
    ) -> Result<(), String> {
        let File { options, servers } = load(&self.path)?;
        let (known, old) = {
            let inner = self.inner();
            inner.check_no_copy()?;
            (inner.servers.clone(), inner.owners.clone())
        };
        let servers = take_over(servers, &known, may_use_tls)?;
        let owners = owners(&servers, |_| true)?;
        let moved = (0..SLOTS).zip(old.iter().zip(&owners)).map(|(slot, (from, to))| {
            let from = known[usize::from(*from)].clone();
            (slot, Way { from, to: servers[usize::from(*to)].clone() })
        });
        let moved: HashMap<Slot, Way> =
            moved.filter(|(_, way)| way.from.address != way.to.address).collect();
        let begins_copy = copies && !moved.is_empty();
        {
            let inner = &mut *self.inner();
            inner.check_no_copy()?;
            if !inner.servers.iter().map(Arc::as_ptr).eq(known.iter().map(Arc::as_ptr)) {
                return Err("another client has it read at the same time: try again".to_string());
            }
            tracing::info!(
                servers = servers.len(),
                slots_moved = moved.len(),
                "the pool is read again"
            );
            if begins_copy {
                inner.copying = Some(Arc::new(Copying::new(moved)));
            }
            (inner.options, inner.servers, inner.owners) = (options, servers, owners);
            inner.turn += 1;
        }
        self.republish(publish);
        if begins_copy {
            self.copy_begins.notify_one();
        }
        Ok(())
    }

    /// Ends the copy.
    pub(crate) fn end_copy(&self, how: String, publish: impl FnOnce(Layout)) {
        {
            let inner = &mut *self.inner();
            inner.last_copy = how;
            if let Some(copying) = inner.copying.take() {
                copying.end();
            }
            inner.turn += 1;
        }
        self.republish(publish);
    }
}

impl Inner {
    /// The layout; `next` says who has which slot while servers are ejected.
    fn layout(&self, next: Option<Vec<u16>>) -> Layout {
        let owners = next.unwrap_or_else(|| self.owners.clone());
        Layout::of_pool(&self.servers, owners, self.copying.clone())
    }

    fn check_no_copy(&self) -> Result<(), String> {
        match self.copying {
            None => Ok(()),
            Some(_) => Err("keys are being copied: read the file again once INFO shows that the copy has ended, or end it by POOL COPY STOP".to_string()),
        }
    }
}

/// The servers of a file; those that the proxy knows already keep their health.
fn take_over(
    servers: Vec<Server>,
    known: &[Arc<Server>],
    may_use_tls: bool,
) -> Result<Vec<Arc<Server>>, String> {
    let servers = servers.into_iter().map(|mut server| {
        let known = known.iter().find(|known| known.address == server.address);
        match known {
            Some(known) if known.kind != server.kind => {
                Err(format!("{} has another protocol now: restart the proxy", server.name))
            }
            _ if server.tls && !may_use_tls => {
                Err(format!("{} is the first server with tls: restart the proxy", server.name))
            }
            Some(known) => {
                server.health = known.health.clone();
                Ok(Arc::new(server))
            }
            None => Ok(Arc::new(server)),
        }
    });
    servers.collect()
}

/// For each slot the position of its server, among those that are in.
fn owners(servers: &[Arc<Server>], is_in: impl Fn(&Server) -> bool) -> Result<Vec<u16>, String> {
    let members = servers.iter().zip(0u32..).filter(|(server, _)| is_in(server));
    let points = members.flat_map(|(server, member)| {
        let seed = Placement::Mixed.place(server.name.as_bytes());
        drawn(seed, 0).take(identifiers(server.weight)).map(move |id| (id, member))
    });
    let circle = Circle::new(points)
        .map_err(|_| "two servers have the same place on the circle: rename one")?;
    let owner = |slot: Slot| circle.owner(u64::from(slot) << PLACE_SHIFT).map(|at| at as u16);
    (0..SLOTS).map(owner).collect::<Option<_>>().ok_or_else(|| "no server is left".to_string())
}

#[cfg(test)]
mod tests {
    use super::super::server::Kind;
    use super::*;

    fn servers(listed: &[(&str, u32)]) -> Vec<Arc<Server>> {
        let server = |(name, weight): &(&str, u32)| {
            Arc::new(Server {
                name: name.to_string(),
                address: Arc::from(format!("{name}:1")),
                kind: Kind::Redis,
                weight: *weight,
                login: None,
                tls: false,
                health: Arc::default(),
            })
        };
        listed.iter().map(server).collect()
    }

    fn names(listed: &[(&str, u32)], is_in: impl Fn(&Server) -> bool) -> Vec<String> {
        let servers = servers(listed);
        let owners = owners(&servers, is_in).unwrap();
        owners.iter().map(|at| servers[usize::from(*at)].name.clone()).collect()
    }

    #[test]
    fn slots_follow_names_and_weights() {
        let two = names(&[("a", 100), ("b", 100)], |_| true);
        assert_eq!(two, names(&[("b", 100), ("a", 100)], |_| true));
        let three = names(&[("a", 100), ("b", 100), ("c", 200)], |_| true);
        let share =
            |name: &str| three.iter().filter(|owner| *owner == name).count() as f64 / 16_384.0;
        assert!((0.35..0.65).contains(&share("c")), "{}", share("c"));
        // A server that joins takes slots, and others change nothing among themselves.
        assert!(two.iter().zip(&three).all(|(old, new)| old == new || new == "c"));
        // An ejected one leaves its slots to the next.
        assert_eq!(two, names(&[("a", 100), ("b", 100), ("c", 200)], |server| server.name != "c"));
    }
}
