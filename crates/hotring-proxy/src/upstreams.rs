//! The connections of one thread to all nodes, for the clients of one user.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::layout::Address;
use crate::link::{Link, Login};
use crate::request::Target;
use crate::shared::Shared;
use crate::thread::Thread;
use crate::tracking::Tracking;
use crate::upstream::Upstream;

/// Limit of the time to find out whether a user is let in.
const LEARN_MAX: Duration = Duration::from_secs(1);

/// Time between two looks for a node.
const LOOK: Duration = Duration::from_millis(5);

/// Silence after which another node is asked as well: a client must not wait for a node that has none of its keys.
const HEDGE: Duration = Duration::from_millis(50);

/// Connections to nodes, made when they are first needed.
pub(crate) struct Upstreams {
    pub login: Login,
    /// How the copies of the one client are kept true whose connections these are; None: all clients of the user share
    /// them.
    pub tracking: Option<Rc<Tracking>>,
    /// Whether the nodes let this user in, once that is known.
    access: Cell<Option<bool>>,
    /// A node has let this user begin and end a transaction.
    may_transact: Cell<bool>,
    /// By the numbers of the nodes.
    by_node: RefCell<Vec<Option<Rc<Upstream>>>>,
}

impl Upstreams {
    pub(crate) fn new(login: Login) -> Rc<Self> {
        Rc::new(Upstreams {
            login,
            tracking: None,
            access: Cell::new(None),
            may_transact: Cell::new(false),
            by_node: RefCell::default(),
        })
    }

    /// Those of one client that keeps copies, who has used these so far.
    pub(crate) fn tracking(before: &Upstreams, tracking: Rc<Tracking>) -> Rc<Self> {
        Rc::new(Upstreams {
            login: before.login.clone(),
            tracking: Some(tracking),
            access: before.access.clone(),
            may_transact: before.may_transact.clone(),
            by_node: RefCell::default(),
        })
    }

    /// Whether the nodes let this user in. Others must not be able to fill memory.
    pub(crate) fn is_open(&self) -> bool {
        self.access.get() == Some(true)
    }

    /// Whether this user may begin and end transactions, as far as is known.
    pub(crate) fn may_transact(&self) -> bool {
        self.may_transact.get()
    }

    /// Notes that a node has let this user begin and end a transaction.
    pub(crate) fn allow_transactions(&self) {
        self.may_transact.set(true);
    }

    /// Notes that a node has let this user in.
    pub(crate) fn open(&self) {
        self.access.set(Some(true));
    }

    /// Whether it is known that the nodes let this user in, or that they do not.
    pub(crate) fn is_known(&self) -> bool {
        self.access.get().is_some()
    }

    /// Finds out whether the nodes let this user in. Without an answer nothing changes.
    pub(crate) async fn learn(&self, thread: &Thread) {
        if thread.is_pool() {
            return self.access.set(Some(lets_in(&thread.shared, &self.login)));
        }
        if let Ok(Some(reply)) = timeout(LEARN_MAX, self.ask_any(thread)).await {
            self.access.set(Some(!reply.starts_with(b"-NOAUTH")));
        }
    }

    /// The first reply of any node to `PING`; None if all of them refuse the connection.
    async fn ask_any(&self, thread: &Thread) -> Option<Vec<u8>> {
        let shards = loop {
            match thread.layout().shards().len() {
                // Just after its start the proxy knows no node.
                0 => sleep(LOOK).await,
                shards => break shards,
            }
        };
        let mut asked = JoinSet::new();
        for _ in 0..shards {
            let Some(node) = thread.node_for(Target::Any) else { continue };
            asked.spawn_local(ping(
                thread.shared.clone(),
                thread.address(node),
                self.login.clone(),
            ));
            if let Ok(Some(Ok(Some(reply)))) = timeout(HEDGE, asked.join_next()).await {
                return Some(reply);
            }
        }
        while let Some(answer) = asked.join_next().await {
            if let Ok(Some(reply)) = answer {
                return Some(reply);
            }
        }
        None
    }

    /// The connection to a node.
    pub(crate) fn upstream(self: &Rc<Self>, thread: &Rc<Thread>, node: usize) -> Rc<Upstream> {
        let by_node = &mut *self.by_node.borrow_mut();
        if by_node.len() <= node {
            by_node.resize(node + 1, None);
        }
        let upstream = by_node[node].get_or_insert_with(|| {
            let upstream = Upstream::new(node);
            let task = upstream.clone().serve(thread.clone(), Rc::downgrade(self));
            tokio::task::spawn_local(task);
            upstream
        });
        upstream.clone()
    }

    /// The connections, each with the number of the request that comes next.
    pub(crate) fn marks(&self) -> Vec<(Weak<Upstream>, u64)> {
        let by_node = self.by_node.borrow();
        let mark = |upstream: &Rc<Upstream>| (Rc::downgrade(upstream), upstream.next_number());
        by_node.iter().flatten().map(mark).collect()
    }

    /// Closes the connections to servers that have left, once they have no requests.
    pub(crate) fn leave(&self, has_left: impl Fn(usize) -> bool) {
        for known in self.by_node.borrow_mut().iter_mut() {
            let upstream =
                known.take_if(|upstream| has_left(upstream.node) && !upstream.has_work());
            upstream.inspect(|upstream| upstream.close());
        }
    }

    /// Ends connections to nodes that owe replies and have been silent since then. Nodes that are `gone` have less
    /// time.
    pub(crate) fn break_silent(
        &self,
        since: Instant,
        since_if_gone: Instant,
        gone: impl Fn(usize) -> bool,
    ) {
        for upstream in self.by_node.borrow().iter().flatten() {
            upstream.break_if_silent(if gone(upstream.node) { since_if_gone } else { since });
        }
    }

    /// Asks nodes that have said nothing since then whether they are there, and in broadcast mode primaries to which
    /// there is no connection.
    pub(crate) fn ask_silent(
        self: &Rc<Self>,
        thread: &Rc<Thread>,
        since: Instant,
        primaries: &[usize],
    ) {
        let mut to_ask: Vec<usize> = Vec::new();
        for upstream in self.by_node.borrow().iter().flatten() {
            match upstream.has_work() {
                true if upstream.is_silent(since) => thread.shared.look_again(),
                false if upstream.is_silent(since) => to_ask.push(upstream.node),
                _ => {}
            }
        }
        if self.tracking.as_ref().is_some_and(|tracking| tracking.is_broadcast) {
            let by_node = self.by_node.borrow();
            let has_connection = |node: usize| matches!(by_node.get(node), Some(Some(it)) if it.is_connected() || it.has_work());
            to_ask.extend(primaries.iter().filter(|node| !has_connection(**node)));
        }
        for node in to_ask {
            thread.ask(self, node, b"PING\r\n");
        }
    }

    /// The number of connections.
    pub(crate) fn len(&self) -> usize {
        self.by_node.borrow().iter().flatten().count()
    }
}

impl Drop for Upstreams {
    fn drop(&mut self) {
        self.by_node.borrow().iter().flatten().for_each(|upstream| upstream.close());
    }
}

/// The reply of a node to `PING` over a connection of its own; None if there is none.
async fn ping(shared: Arc<Shared>, address: Address, login: Login) -> Option<Vec<u8>> {
    let mut link = Link::dial(&shared, &address, &login).await.ok()?;
    link.ask(b"PING\r\n").await.ok()
}

/// Whether the proxy of a pool lets clients with this login in. There is the default user alone.
pub(crate) fn lets_in(shared: &Shared, login: &Login) -> bool {
    match (&login.user, &shared.settings.clients_password) {
        _ if login.protocol.is_memcached() => true,
        (None, password) => password.is_none(),
        (Some((user, _)), None) => user == b"default",
        (Some((user, given)), Some(password)) => {
            user == b"default" && is_same(given, password.as_bytes())
        }
    }
}

/// Whether texts are the same, in a time that does not tell how much of them is.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let differ = one.iter().zip(other).fold(0, |differ, (a, b)| differ | (a ^ b));
    one.len() == other.len() && differ == 0
}

#[cfg(test)]
mod tests {
    use hotring_protocol::Reply;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::task::LocalSet;

    use super::*;
    use crate::layout::Layout;
    use crate::settings::Settings;

    fn range(slot: u16, listener: &TcpListener) -> Reply {
        let port = listener.local_addr().unwrap().port();
        let host = Reply::Bulk("127.0.0.1".into());
        let slot = || Reply::Int(slot.into());
        Reply::Array(vec![slot(), slot(), Reply::Array(vec![host, Reply::Int(port.into())])])
    }

    /// A client once waited for a silent node that had none of its keys, until `LEARN_MAX`.
    #[tokio::test]
    async fn whether_a_user_is_let_in_is_learnt_beside_silent_nodes() {
        let thread =
            Thread::new(Arc::new(Shared::new(Settings::default(), Box::new(|_, _| true)).unwrap()));
        let [silent, answers] =
            [TcpListener::bind("127.0.0.1:0").await, TcpListener::bind("127.0.0.1:0").await]
                .map(Result::unwrap);
        let reply = Reply::Array(vec![range(0, &silent), range(1, &answers)]);
        thread.shared.publish(Layout::read(&reply, "127.0.0.1").unwrap());
        thread.renew();
        let local = LocalSet::new();
        local.spawn_local(async move {
            loop {
                let mut stream = answers.accept().await.unwrap().0;
                assert_eq!(stream.read(&mut [0; 100]).await.unwrap(), 6);
                stream.write_all(b"+PONG\r\n").await.unwrap();
            }
        });
        // Whichever is asked first.
        for _ in 0..2 {
            let upstreams = Upstreams::new(Login::default());
            local.run_until(upstreams.learn(&thread)).await;
            assert!(upstreams.is_open());
        }
    }

    /// A client that kept copies, and left while its node was silent, once left its connection behind.
    #[tokio::test]
    async fn connections_end_with_their_client_when_the_node_is_silent() {
        let node_timeout = Duration::from_millis(100);
        let settings = Settings { node_timeout, ..Settings::default() };
        let thread = Thread::new(Arc::new(Shared::new(settings, Box::new(|_, _| true)).unwrap()));
        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let node = thread.number_of(&silent.local_addr().unwrap().to_string());
        let shared = Upstreams::new(Login::default());
        let tracking = Tracking::new(b"PING\r\n".to_vec(), 1, false, Rc::default());
        let own = Upstreams::tracking(&shared, tracking);
        let local = LocalSet::new();
        for upstreams in [shared, own] {
            let has_ended = local.run_until(async {
                thread.ask(&upstreams, node, b"PING\r\n");
                let mut stream = silent.accept().await.unwrap().0;
                assert_eq!(stream.read(&mut [0; 100]).await.unwrap(), 6);
                drop(upstreams);
                stream.read(&mut [0; 100]).await.unwrap()
            });
            let has_ended = timeout(Duration::from_secs(5), has_ended).await;
            assert_eq!(has_ended.unwrap(), 0);
        }
    }
}
