//! The node's own records: what it is, and that it is alive.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use hotring_cluster::directory::{Life, alive_name, alive_value, node_name, node_value};
use hotring_commands::host::clock;
use hotring_commands::state::cluster::Cluster;
use hotring_coordinator::{Change, Failure, Lease, LeaseId, Transaction};

use super::{Member, PAUSE};

/// Time between two looks whether the node has got a shard.
const LOOK: Duration = Duration::from_millis(50);

/// The lease under which the node is registered.
#[derive(Default)]
pub(super) struct Registered(Cell<Option<LeaseId>>);

impl Registered {
    /// The lease.
    pub(super) fn get(&self) -> Option<LeaseId> {
        self.0.get()
    }

    /// Takes the lease, to end it.
    pub(super) fn take(&self) -> Option<LeaseId> {
        self.0.take()
    }
}

/// Registers the node, and again whenever its lease has ended.
pub(super) async fn keep(member: Rc<Member>, registered: Rc<Registered>) {
    let mut told = None;
    loop {
        match register(&member, &registered).await {
            Ok((lease, said)) => {
                tracing::info!(ttl = ?lease.ttl, "this node is registered with the coordinator");
                told = None;
                member.note_lease(true);
                keep_alive(&member, lease, said).await;
                member.note_lease(false);
                registered.0.set(None);
                tracing::warn!("this node's lease has ended; it registers again");
            }
            Err(why) => {
                let why = why.to_string();
                if told.as_ref() != Some(&why) {
                    tracing::warn!("this node cannot register: {why}");
                    told = Some(why);
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Grants a lease and writes the node's records.
async fn register(member: &Member, registered: &Registered) -> Result<(Lease, Said), Failure> {
    // What an attempt without an answer wrote may come late, and hang the records on its lease. Once that is over it
    // cannot.
    if let Some(earlier) = registered.0.get() {
        match member.ask(member.coordinator.revoke(earlier)).await {
            Err(unknown @ Failure::Unknown(_)) => return Err(unknown),
            Ok(()) | Err(Failure::Refused(_)) => registered.0.set(None),
        }
    }
    let lease = member.ask(member.coordinator.grant(member.lease())).await?;
    registered.0.set(Some(lease.id));
    let said = Said::of(member);
    write(member, &lease, &said).await?;
    Ok((lease, said))
}

/// How long the record of what the node is stays.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// With the lease: without a folder the next start has another name, and the record would stay for ever.
    Leased,
    /// Until an operator removes it. A node of a shard is found by it, also while the coordinator is away.
    Lasting,
}

impl Way {
    fn of(member: &Member) -> Way {
        let has_folder = member.server.settings.config().log.is_on;
        let is_placed = |cluster: &Cluster| cluster.directory().shard_of_node(cluster.me).is_some();
        match has_folder || member.server.cluster.as_ref().is_some_and(is_placed) {
            true => Way::Lasting,
            false => Way::Leased,
        }
    }
}

/// What the node's records say.
#[derive(Clone, PartialEq, Eq)]
struct Said {
    way: Way,
    life: Life,
}

impl Said {
    /// What they must say now.
    fn of(member: &Member) -> Said {
        let server = &member.server;
        let incarnation = server.replication.me().incarnation;
        let (given_up, _) = server.replication.given_up();
        let life = Life { incarnation, extent: server.extent(), given_up };
        Said { way: Way::of(member), life }
    }
}

/// Writes the node's records.
async fn write(member: &Member, lease: &Lease, said: &Said) -> Result<(), Failure> {
    let node = member.server.replication.me().node;
    let is_leased = said.way == Way::Leased;
    let put = |name, value, lease| Change::Put { name, value, lease };
    let changes = vec![
        put(node_name(node), node_value(&member.node), is_leased.then_some(lease.id)),
        put(alive_name(node), alive_value(&said.life), Some(lease.id)),
    ];
    let transaction = Transaction { expect: Vec::new(), changes };
    member.ask(member.coordinator.transact(&transaction)).await?;
    Ok(())
}

/// Whether the records say this of the node.
fn is_seen(member: &Member, life: &Life) -> bool {
    let is_there = |cluster: &Cluster| cluster.directory().life(cluster.me).as_ref() == Some(life);
    member.server.cluster.as_ref().is_none_or(is_there)
}

/// Keeps the lease alive until it is over, and the records there.
async fn keep_alive(member: &Member, lease: Lease, mut said: Said) {
    let pause: Duration = lease.ttl / 3;
    loop {
        // A record that must last must not end with the lease of a node that is cut off a moment later. Nor must the
        // others wait for what they need.
        let due = clock::monotonic() + pause;
        while clock::monotonic() < due && Said::of(member) == said {
            tokio::time::sleep(LOOK.min(pause)).await;
        }
        // Whether it lives is the coordinator's word alone: one that does not answer may answer again in time.
        while let Err(failure) = member.ask(member.coordinator.keep_alive(lease.id)).await {
            if matches!(failure, Failure::Refused(_)) {
                return;
            }
            tokio::time::sleep(PAUSE).await;
        }
        member.note_lease(true);
        // An earlier start's write that came late may have replaced a record, and its lease's end removed it.
        let wanted = Said::of(member);
        let is_old = wanted != said || !is_seen(member, &said.life);
        if is_old && write(member, &lease, &wanted).await.is_ok() {
            said = wanted;
        }
    }
}
