//! The state of one thread: who serves which slot as it knows, connections to nodes, requests that wait for another
//! try.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hotring_cluster::{SLOTS, Slot};
use hotring_commands::table::Spec;
use hotring_protocol::PrefixCache;
use tokio::sync::Notify;

use crate::foreign::copying::Copying;
use crate::foreign::prepare::prepare;
use crate::foreign::server::{Kind, Server};
use crate::layout::{Address, Layout, NONE};
use crate::link::{Login, Protocol};
use crate::replies::Replies;
use crate::reply::UNREACHABLE;
use crate::request::{Request, Target, Ticket};
use crate::settle::give_up;
use crate::shared::Shared;
use crate::tracking::Trackers;
use crate::upstream::Upstream;
use crate::upstreams::Upstreams;

/// Pause before requests are tried again.
const RETRY: Duration = Duration::from_millis(10);

/// Users of one thread whose connections are there at the same time.
const USERS_MAX: usize = 1_000;

/// Time between two looks at whether nodes still let clients in that have not logged in.
const OPEN_LOOK: Duration = Duration::from_secs(2);

/// Time between two looks at silent nodes and unused connections.
const TICK: Duration = Duration::from_millis(100);

/// Silence after which nodes that must tell of changes are asked whether they are there.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// Silence after which a node that is no primary any more is given up.
const GONE: Duration = Duration::from_millis(300);

/// Time after which the connections of a user without clients are closed.
const UNUSED: Duration = Duration::from_secs(30);

/// The state of one thread.
pub(crate) struct Thread {
    pub shared: Arc<Shared>,
    /// Commands by the first bytes of requests.
    pub prefixes: RefCell<PrefixCache<&'static Spec>>,
    /// Clients of this thread.
    pub clients: Cell<usize>,
    /// Wakes all clients when the proxy ends.
    pub ending: Notify,
    /// Clients that keep copies.
    pub trackers: Trackers,
    routes: RefCell<Routes>,
    users: RefCell<HashMap<Login, Used>>,
    retries: RefCell<VecDeque<Retry>>,
    has_retries: Notify,
    /// Chooses a node for requests that any node may get.
    turn: Cell<usize>,
    /// The copy that began last, and what must be answered before it may bring keys.
    before_copy: RefCell<Option<BeforeCopy>>,
}

/// Who serves which slot, as this thread knows.
struct Routes {
    /// The version of the layout that was taken over.
    published: u64,
    /// Raised with each change.
    version: u64,
    layout: Arc<Layout>,
    /// For each slot the number of its primary.
    owners: Vec<u16>,
    /// All nodes that were ever named.
    nodes: Vec<Address>,
    numbers: HashMap<Address, u16>,
    /// In a pool, what is known of each node; None if it has left.
    servers: Vec<Option<Arc<Server>>>,
}

/// Requests by the layout before a copy: for each connection the number behind them.
struct BeforeCopy {
    copying: Arc<Copying>,
    marks: Vec<(Weak<Upstream>, u64)>,
    is_over: bool,
}

struct Used {
    upstreams: Rc<Upstreams>,
    /// When it last had clients.
    at: Instant,
}

struct Retry {
    upstreams: Rc<Upstreams>,
    request: Request,
    bytes: Vec<u8>,
}

impl Thread {
    pub(crate) fn new(shared: Arc<Shared>) -> Rc<Self> {
        let routes = Routes {
            published: 0,
            version: 0,
            layout: Arc::default(),
            owners: vec![NONE; SLOTS.into()],
            nodes: Vec::new(),
            numbers: HashMap::new(),
            servers: Vec::new(),
        };
        Rc::new(Thread {
            shared,
            prefixes: RefCell::default(),
            clients: Cell::new(0),
            ending: Notify::new(),
            trackers: Trackers::default(),
            routes: RefCell::new(routes),
            users: RefCell::default(),
            retries: RefCell::default(),
            has_retries: Notify::new(),
            turn: Cell::new(0),
            before_copy: RefCell::default(),
        })
    }

    /// Takes a new layout over, if there is one.
    pub(crate) fn renew(&self) {
        let published = self.shared.version();
        if self.routes.borrow().published != published {
            let before = self.version();
            self.routes.borrow_mut().take(published, self.shared.layout());
            if self.version() != before {
                self.trackers.drop_all();
            }
        }
    }

    /// A number that changes with every change of the routes.
    pub(crate) fn version(&self) -> u64 {
        self.routes.borrow().version
    }

    /// The layout, without changes that single replies have shown.
    pub(crate) fn layout(&self) -> Arc<Layout> {
        self.routes.borrow().layout.clone()
    }

    /// Whether the nodes are servers of a pool.
    pub(crate) fn is_pool(&self) -> bool {
        self.shared.foreign.is_some()
    }

    /// A server of a pool.
    pub(crate) fn server(&self, node: usize) -> Option<Arc<Server>> {
        self.routes.borrow().servers.get(node)?.clone()
    }

    /// Whether a pool has a server of memcached.
    pub(crate) fn has_memcached(&self) -> bool {
        let routes = self.routes.borrow();
        let mut servers = routes.layout.shards().iter().filter_map(|shard| shard.server.as_ref());
        servers.any(|server| server.kind == Kind::Memcached)
    }

    /// Notes that a server of a pool has failed.
    pub(crate) fn note_failure(&self, node: usize, why: &str) {
        if let Some(server) = self.server(node) {
            self.shared.note_failure(&server, why);
        }
    }

    /// The copy of keys that goes on.
    pub(crate) fn copying(&self) -> Option<Arc<Copying>> {
        let copying = self.routes.borrow().layout.copying.clone()?;
        (!copying.is_over()).then_some(copying)
    }

    /// Puts a request into the protocol of its server, if it is in another one.
    pub(crate) fn prepare(
        &self,
        node: usize,
        client: Protocol,
        bytes: &[u8],
        request: &mut Request,
    ) -> Result<Option<Vec<u8>>, Vec<u8>> {
        match self.server(node) {
            None => Ok(None),
            Some(server) => prepare(client, client.at(server.kind), bytes, request),
        }
    }

    /// Why a pool has no server for a request.
    pub(crate) fn refusal(&self, target: Target) -> String {
        let routes = self.routes.borrow();
        let shard = target.slot().and_then(|slot| routes.layout.shard_of(slot));
        match shard.and_then(|shard| shard.server.as_ref()) {
            Some(server) => format!(
                "CLUSTERDOWN The server of this key, {}, is ejected; it returns once it answers probes",
                server.name
            ),
            None => "ERR no server of the pool that could do this is there".to_string(),
        }
    }

    /// The address of a node.
    pub(crate) fn address(&self, node: usize) -> Address {
        self.routes.borrow().nodes[node].clone()
    }

    /// The number of the node at an address.
    pub(crate) fn number_of(&self, address: &str) -> usize {
        self.routes.borrow_mut().number_of(address).into()
    }

    /// Notes what a node has said about a slot, and returns the number of its new owner.
    pub(crate) fn moved(&self, slot: Slot, address: &str) -> usize {
        let routes = &mut *self.routes.borrow_mut();
        let node = routes.number_of(address);
        if routes.owners[usize::from(slot)] != node {
            routes.owners[usize::from(slot)] = node;
            routes.version += 1;
            self.shared.look_again();
            self.trackers.drop_all();
        }
        node.into()
    }

    /// A slot of each primary; slot 0, whose requests wait for a node, while none is known.
    pub(crate) fn slots_of_primaries(&self) -> Vec<Slot> {
        let routes = self.routes.borrow();
        if routes.layout.is_pool {
            // Those of ejected servers as well: a part of an answer would be a wrong one.
            return routes.layout.lowest_slots();
        }
        let mut met = BTreeSet::from([NONE]);
        let slots = (0..SLOTS).zip(&routes.owners);
        let slots = slots.filter(|(_, owner)| met.insert(**owner)).map(|(slot, _)| slot);
        let slots: Vec<Slot> = slots.collect();
        if slots.is_empty() { vec![0] } else { slots }
    }

    /// The nodes that have slots.
    pub(crate) fn primaries(&self) -> Vec<usize> {
        let slots = self.slots_of_primaries().into_iter();
        slots.filter_map(|slot| self.node_for(Target::Slot(slot))).collect()
    }

    /// The node that serves a request.
    pub(crate) fn node_for(&self, target: Target) -> Option<usize> {
        let routes = self.routes.borrow();
        let slot = match target {
            Target::Slot(slot) => slot,
            Target::Any if routes.layout.is_pool => return routes.any_of_pool(&self.turn),
            Target::Any => {
                let shards = routes.layout.shards();
                let turn = self.turn.get().wrapping_add(1);
                self.turn.set(turn);
                let shard = shards.get(turn.checked_rem(shards.len())?)?;
                return routes.numbers.get(&shard.primary).map(|node| usize::from(*node));
            }
        };
        let node = routes.owners[usize::from(slot)];
        (node != NONE).then_some(node.into())
    }

    /// Whether there is room for the connections of another user.
    pub(crate) fn may_add_user(&self, login: &Login) -> bool {
        let users = self.users.borrow();
        users.len() < USERS_MAX || users.contains_key(login)
    }

    /// The connections of a user.
    pub(crate) fn upstreams(&self, login: &Login) -> Rc<Upstreams> {
        let users = &mut *self.users.borrow_mut();
        let at = Instant::now();
        let make = || Used { upstreams: Upstreams::new(login.clone()), at };
        users.entry(login.clone()).or_insert_with(make).upstreams.clone()
    }

    /// Connections to nodes.
    pub(crate) fn connections(&self) -> usize {
        let of_users: usize = self.users.borrow().values().map(|used| used.upstreams.len()).sum();
        of_users + self.trackers.all().iter().map(|upstreams| upstreams.len()).sum::<usize>()
    }

    /// Sends a request to a node, even if that has no room.
    pub(crate) fn send(
        self: &Rc<Self>,
        upstreams: &Rc<Upstreams>,
        node: usize,
        bytes: &[u8],
        mut request: Request,
        now: Instant,
    ) {
        request.begin_again();
        upstreams.upstream(self, node).queue(bytes, request, now);
    }

    /// Asks a node behind all that it was asked over this connection. The reply comes among these.
    pub(crate) fn ask(
        self: &Rc<Self>,
        upstreams: &Rc<Upstreams>,
        node: usize,
        bytes: &[u8],
    ) -> Rc<Replies> {
        let replies = Rc::new(Replies::default());
        let ticket = Ticket { replies: replies.clone(), number: replies.expect(None), part: 0 };
        let now = Instant::now();
        self.send(upstreams, node, bytes, Request::new(Target::Any, ticket, false, now), now);
        replies
    }

    /// Has a request tried again a little later.
    pub(crate) fn retry(&self, upstreams: &Rc<Upstreams>, request: Request, bytes: Vec<u8>) {
        self.shared.counters.retried.add(1);
        request.tickets().for_each(|ticket| ticket.replies.begin_retry());
        self.retries.borrow_mut().push_back(Retry { upstreams: upstreams.clone(), request, bytes });
        self.has_retries.notify_one();
        self.shared.look_again();
    }

    /// Tries requests again. Never ends.
    pub(crate) async fn keep_retrying(self: &Rc<Self>) {
        loop {
            if self.retries.borrow().is_empty() {
                self.has_retries.notified().await;
            }
            tokio::time::sleep(RETRY).await;
            self.renew();
            let now = Instant::now();
            let retries = std::mem::take(&mut *self.retries.borrow_mut());
            for retry in retries {
                self.try_again(retry, now);
            }
        }
    }

    fn try_again(self: &Rc<Self>, retry: Retry, now: Instant) {
        let Retry { upstreams, request, bytes } = retry;
        let is_over =
            request.until <= now || request.tickets().all(|ticket| ticket.replies.is_closed());
        let node = self.node_for(request.target);
        // A node that has refused it for good is not asked again.
        let node = node.filter(|node| request.refused_by.as_ref().is_none_or(|(by, _)| by != node));
        if let Some(error) = self.pool_error(&upstreams, &request, node) {
            request.tickets().for_each(|ticket| ticket.replies.end_retry());
            return request.refuse(&error);
        }
        if !is_over && node.is_none() {
            return self.retries.borrow_mut().push_back(Retry { upstreams, request, bytes });
        }
        request.tickets().for_each(|ticket| ticket.replies.end_retry());
        match node {
            Some(node) if !is_over => self.send(&upstreams, node, &bytes, request, now),
            _ => give_up(request),
        }
    }

    /// Why a request to a pool cannot be tried again, after the pool has changed.
    fn pool_error(
        &self,
        upstreams: &Upstreams,
        request: &Request,
        node: Option<usize>,
    ) -> Option<String> {
        let speaks = request.speaks?;
        let server = node.and_then(|node| self.server(node));
        let Some(server) = server else { return Some(self.refusal(request.target)) };
        let comes = |slot| self.copying().is_some_and(|copying| copying.moves(slot));
        let is_other = speaks != upstreams.login.protocol.at(server.kind);
        (is_other || request.target.slot().is_some_and(comes)).then(|| UNREACHABLE.to_string())
    }

    /// Lets the clients get the replies to what they have sent, and end.
    pub(crate) async fn finish(&self, max: Duration) {
        let until = Instant::now() + max;
        while self.clients.get() > 0 && Instant::now() < until {
            self.ending.notify_waiters();
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Finds out from time to time whether the nodes still let the default user in without a password. Connections from
    /// before do not show that, so that new clients must not share them. Never ends.
    pub(crate) async fn keep_watching_access(self: &Rc<Self>) {
        loop {
            tokio::time::sleep(OPEN_LOOK).await;
            let open: Vec<Rc<Upstreams>> = {
                let users = self.users.borrow();
                let users = users.iter().filter(|(login, _)| login.user.is_none());
                users.map(|(_, used)| used.upstreams.clone()).collect()
            };
            for upstreams in open {
                let was_open = upstreams.is_open();
                upstreams.learn(self).await;
                if was_open && !upstreams.is_open() {
                    self.users.borrow_mut().remove(&upstreams.login);
                }
            }
        }
    }

    /// Gives up silent nodes and closes unused connections. Never ends.
    pub(crate) async fn keep_house(self: &Rc<Self>) {
        let mut heartbeat = Instant::now();
        loop {
            tokio::time::sleep(TICK).await;
            self.renew();
            let now = Instant::now();
            let since = |silence: Duration| now.checked_sub(silence).unwrap_or(now);
            let (usual, gone) = (since(self.shared.settings.node_timeout), since(GONE));
            self.allow_copy();
            let trackers = self.trackers.all();
            if now.duration_since(heartbeat) >= HEARTBEAT && !trackers.is_empty() {
                heartbeat = now;
                let primaries = self.primaries();
                trackers.iter().for_each(|it| it.ask_silent(self, since(HEARTBEAT), &primaries));
            }
            let routes = self.routes.borrow();
            let are_gone = routes.are_gone();
            let is_gone = |node: usize| are_gone[node];
            trackers.iter().for_each(|it| it.break_silent(usual, gone, is_gone));
            let users = &mut *self.users.borrow_mut();
            users.retain(|_, used| {
                used.upstreams.break_silent(usual, gone, is_gone);
                if routes.layout.is_pool {
                    used.upstreams
                        .leave(|node| routes.servers.get(node).is_none_or(Option::is_none));
                }
                if Rc::strong_count(&used.upstreams) > 1 {
                    used.at = now;
                }
                now.duration_since(used.at) < UNUSED
            });
        }
    }
}

impl Thread {
    /// Lets a copy begin once all requests by the layout before it have their replies.
    fn allow_copy(&self) {
        let copying = self.copying();
        let known = &mut *self.before_copy.borrow_mut();
        let Some(copying) = copying else { return *known = None };
        let is_same = |known: &BeforeCopy| Arc::ptr_eq(&known.copying, &copying);
        if !known.as_ref().is_some_and(is_same) {
            let users = self.users.borrow();
            let marks = users.values().flat_map(|used| used.upstreams.marks()).collect();
            *known = Some(BeforeCopy { copying, marks, is_over: false });
        }
        let Some(known) = known else { return };
        let has_passed = |(upstream, mark): &(Weak<Upstream>, u64)| {
            upstream.upgrade().is_none_or(|upstream| upstream.has_passed(*mark))
        };
        if !known.is_over && known.marks.iter().all(has_passed) {
            known.is_over = true;
            known.copying.add_ready();
        }
    }
}

impl Routes {
    /// For each node whether it is not to be waited for. A server that has left a pool may still owe what it has done.
    fn are_gone(&self) -> Vec<bool> {
        if self.layout.is_pool {
            let is_ejected = |server: &Arc<Server>| server.health.is_ejected();
            return self.servers.iter().map(|it| it.as_ref().is_some_and(is_ejected)).collect();
        }
        let mut are_gone = vec![true; self.nodes.len()];
        for owner in self.owners.iter().filter(|owner| **owner != NONE) {
            are_gone[usize::from(*owner)] = false;
        }
        are_gone
    }

    /// A server of a pool that speaks Redis's protocol, each time another one.
    fn any_of_pool(&self, turn: &Cell<usize>) -> Option<usize> {
        let fit = |server: &Server| server.kind != Kind::Memcached && !server.health.is_ejected();
        let servers = self.layout.shards().iter().filter_map(|shard| shard.server.as_ref());
        let fit: Vec<_> = servers.filter(|server| fit(server)).collect();
        turn.set(turn.get().wrapping_add(1));
        let server = fit.get(turn.get().checked_rem(fit.len())?)?;
        self.numbers.get(&server.address).map(|node| usize::from(*node))
    }

    fn take(&mut self, published: u64, layout: Arc<Layout>) {
        self.published = published;
        let mut owners = vec![NONE; SLOTS.into()];
        for (slot, owner) in (0..SLOTS).zip(&mut owners) {
            let is_up = |server: &Arc<Server>| !server.health.is_ejected();
            if let Some(shard) = layout.shard_of(slot)
                && shard.server.as_ref().is_none_or(is_up)
            {
                *owner = self.number_of(&shard.primary);
            }
        }
        // An ejected one may own nothing, and what it owes is still not waited for as long.
        for server in &mut self.servers {
            *server = server.take().filter(|server| server.health.is_ejected());
        }
        for shard in layout.shards() {
            let node = self.number_of(&shard.primary);
            self.servers[usize::from(node)].clone_from(&shard.server);
        }
        // A slot that an ejected server had may be copied to the one that has it already.
        let copies = |layout: &Layout| layout.copying.as_ref().map(Arc::as_ptr);
        if owners != self.owners || copies(&layout) != copies(&self.layout) {
            self.owners = owners;
            self.version += 1;
        }
        self.layout = layout;
    }

    fn number_of(&mut self, address: &str) -> u16 {
        if let Some(number) = self.numbers.get(address) {
            return *number;
        }
        let number = self.nodes.len() as u16;
        let address = Address::from(address);
        self.nodes.push(address.clone());
        self.servers.push(None);
        self.numbers.insert(address, number);
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;

    #[test]
    fn nodes_without_slots_are_gone() {
        let shared = Shared::new(Settings::default(), Box::new(|_, _| true)).unwrap();
        let thread = Thread::new(Arc::new(shared));
        for (slot, address, are_gone) in
            [(7, "a:1", &[false][..]), (8, "b:1", &[false, false]), (7, "b:1", &[true, false])]
        {
            thread.moved(slot, address);
            assert_eq!(thread.routes.borrow().are_gone(), are_gone);
        }
    }
}
