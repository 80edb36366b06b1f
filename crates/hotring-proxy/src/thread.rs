//! The state of one thread: who serves which slot as it knows, connections to nodes, requests that wait for another
//! try.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hotring_cluster::{SLOTS, Slot};
use hotring_commands::table::Spec;
use hotring_protocol::PrefixCache;
use tokio::sync::Notify;

use crate::layout::{Address, Layout};
use crate::link::Login;
use crate::pool::Pool;
use crate::request::{Request, Target};
use crate::settle::give_up;
use crate::shared::Shared;

/// Pause before requests are tried again.
const RETRY: Duration = Duration::from_millis(10);

/// Users of one thread whose connections are there at the same time.
const POOLS_MAX: usize = 1_000;

/// Time between two looks at whether nodes still let clients in that have not logged in.
const OPEN_LOOK: Duration = Duration::from_secs(2);

/// Time between two looks at silent nodes and unused pools.
const TICK: Duration = Duration::from_millis(100);

/// Silence after which a node that is no primary any more is given up.
const GONE: Duration = Duration::from_millis(300);

/// Time after which the connections of a user without clients are closed.
const UNUSED: Duration = Duration::from_secs(30);

/// The owner of a slot that no node serves.
const NONE: u16 = u16::MAX;

/// The state of one thread.
pub(crate) struct Thread {
    pub shared: Arc<Shared>,
    /// Commands by the first bytes of requests.
    pub prefixes: RefCell<PrefixCache<&'static Spec>>,
    /// Clients of this thread.
    pub clients: Cell<usize>,
    /// Wakes all clients when the proxy ends.
    pub ending: Notify,
    routes: RefCell<Routes>,
    pools: RefCell<HashMap<Login, Used>>,
    retries: RefCell<VecDeque<Retry>>,
    has_retries: Notify,
    /// Chooses a node for requests that any node may get.
    turn: Cell<usize>,
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
}

struct Used {
    pool: Rc<Pool>,
    /// When it last had clients.
    at: Instant,
}

struct Retry {
    pool: Rc<Pool>,
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
        };
        Rc::new(Thread {
            shared,
            prefixes: RefCell::default(),
            clients: Cell::new(0),
            ending: Notify::new(),
            routes: RefCell::new(routes),
            pools: RefCell::default(),
            retries: RefCell::default(),
            has_retries: Notify::new(),
            turn: Cell::new(0),
        })
    }

    /// Takes a new layout over, if there is one.
    pub(crate) fn renew(&self) {
        let published = self.shared.version();
        let routes = &mut *self.routes.borrow_mut();
        if routes.published != published {
            routes.take(published, self.shared.layout());
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
        }
        node.into()
    }

    /// A slot of each primary; slot 0, whose requests wait for a node, while none is known.
    pub(crate) fn slots_of_primaries(&self) -> Vec<Slot> {
        let routes = self.routes.borrow();
        let mut met = BTreeSet::from([NONE]);
        let slots = (0..SLOTS).zip(&routes.owners);
        let slots = slots.filter(|(_, owner)| met.insert(**owner)).map(|(slot, _)| slot);
        let slots: Vec<Slot> = slots.collect();
        if slots.is_empty() { vec![0] } else { slots }
    }

    /// The node that serves a request.
    pub(crate) fn node_for(&self, target: Target) -> Option<usize> {
        let routes = self.routes.borrow();
        let slot = match target {
            Target::Slot(slot) => slot,
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
    pub(crate) fn may_add_pool(&self, login: &Login) -> bool {
        let pools = self.pools.borrow();
        pools.len() < POOLS_MAX || pools.contains_key(login)
    }

    /// The connections of a user.
    pub(crate) fn pool(&self, login: &Login) -> Rc<Pool> {
        let pools = &mut *self.pools.borrow_mut();
        let at = Instant::now();
        let make = || Used { pool: Pool::new(login.clone()), at };
        pools.entry(login.clone()).or_insert_with(make).pool.clone()
    }

    /// Connections to nodes.
    pub(crate) fn connections(&self) -> usize {
        self.pools.borrow().values().map(|used| used.pool.len()).sum()
    }

    /// Sends a request to a node, even if that has no room.
    pub(crate) fn send(
        self: &Rc<Self>,
        pool: &Rc<Pool>,
        node: usize,
        bytes: &[u8],
        mut request: Request,
        now: Instant,
    ) {
        request.begin_again();
        pool.upstream(self, node).queue(bytes, request, now);
    }

    /// Has a request tried again a little later.
    pub(crate) fn retry(&self, pool: &Rc<Pool>, request: Request, bytes: Vec<u8>) {
        self.shared.counters.retried.add(1);
        request.tickets().for_each(|ticket| ticket.replies.begin_retry());
        self.retries.borrow_mut().push_back(Retry { pool: pool.clone(), request, bytes });
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
        let Retry { pool, request, bytes } = retry;
        let is_over =
            request.until <= now || request.tickets().all(|ticket| ticket.replies.is_closed());
        let node = self.node_for(request.target);
        // A node that has refused it for good is not asked again.
        let node = node.filter(|node| request.refused_by.as_ref().is_none_or(|(by, _)| by != node));
        if !is_over && node.is_none() {
            return self.retries.borrow_mut().push_back(Retry { pool, request, bytes });
        }
        request.tickets().for_each(|ticket| ticket.replies.end_retry());
        match node {
            Some(node) if !is_over => self.send(&pool, node, &bytes, request, now),
            _ => give_up(request),
        }
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
            let open: Vec<Rc<Pool>> = {
                let pools = self.pools.borrow();
                let pools = pools.iter().filter(|(login, _)| login.user.is_none());
                pools.map(|(_, used)| used.pool.clone()).collect()
            };
            for pool in open {
                let was_open = pool.is_open();
                pool.learn(self).await;
                if was_open && !pool.is_open() {
                    self.pools.borrow_mut().remove(&pool.login);
                }
            }
        }
    }

    /// Gives up silent nodes and closes unused connections. Never ends.
    pub(crate) async fn keep_house(self: &Rc<Self>) {
        loop {
            tokio::time::sleep(TICK).await;
            self.renew();
            let now = Instant::now();
            let since = |silence: Duration| now.checked_sub(silence).unwrap_or(now);
            let (usual, gone) = (since(self.shared.settings.node_timeout), since(GONE));
            let routes = self.routes.borrow();
            let pools = &mut *self.pools.borrow_mut();
            pools.retain(|_, used| {
                used.pool.break_silent(usual, gone, |node| !routes.owners.contains(&(node as u16)));
                if Rc::strong_count(&used.pool) > 1 {
                    used.at = now;
                }
                now.duration_since(used.at) < UNUSED
            });
        }
    }
}

impl Routes {
    fn take(&mut self, published: u64, layout: Arc<Layout>) {
        self.published = published;
        let mut owners = vec![NONE; SLOTS.into()];
        for (slot, owner) in (0..SLOTS).zip(&mut owners) {
            if let Some(shard) = layout.shard_of(slot) {
                *owner = self.number_of(&shard.primary);
            }
        }
        if owners != self.owners {
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
        self.numbers.insert(address, number);
        number
    }
}
