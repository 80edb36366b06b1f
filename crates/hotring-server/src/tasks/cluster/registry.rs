//! The node's own records: what it is, and that it is alive.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use hotring_cluster::directory::{alive_name, alive_value, node_name, node_value};
use hotring_coordinator::{Change, Failure, Lease, LeaseId, Transaction};

use super::{Member, PAUSE};

/// The lease under which the node is registered.
#[derive(Default)]
pub(super) struct Registered(Cell<Option<LeaseId>>);

impl Registered {
    /// Takes the lease, to end it.
    pub(super) fn take(&self) -> Option<LeaseId> {
        self.0.take()
    }
}

/// Registers the node, and again whenever its lease has ended.
pub(super) async fn keep(member: Rc<Member>, registered: Rc<Registered>) {
    let mut told = None;
    loop {
        match register(&member).await {
            Ok(lease) => {
                tracing::info!(ttl = ?lease.ttl, "this node is registered with the coordinator");
                told = None;
                registered.0.set(Some(lease.id));
                keep_alive(&member, lease).await;
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
async fn register(member: &Member) -> Result<Lease, Failure> {
    let me = member.server.replication.me();
    let lease = member.ask(member.coordinator.grant(member.lease())).await?;
    let put = |name, value, lease| Change::Put { name, value, lease };
    let changes = vec![
        put(node_name(me.node), node_value(&member.node), None),
        put(alive_name(me.node), alive_value(me.incarnation), Some(lease.id)),
    ];
    let transaction = Transaction { expect: Vec::new(), changes };
    member.ask(member.coordinator.transact(&transaction)).await?;
    Ok(lease)
}

/// Keeps the lease alive until it is over.
async fn keep_alive(member: &Member, lease: Lease) {
    let pause: Duration = lease.ttl / 3;
    loop {
        tokio::time::sleep(pause).await;
        // Whether it lives is the coordinator's word alone: one that does not answer may answer again in time.
        while let Err(failure) = member.ask(member.coordinator.keep_alive(lease.id)).await {
            if matches!(failure, Failure::Refused(_)) {
                return;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}
