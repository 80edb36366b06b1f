//! What a server is called: random names, and those of a node of a cluster.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use hotring_cluster::directory::Node;
use hotring_cluster::{Identity, Incarnation, NodeId};
use hotring_coordinator::{Coordinator, Embedded};
use hotring_log::Id;

use crate::tasks::cluster::connect::connect;
use crate::tasks::cluster::{self, identity, mirrors, moves};
use hotring_commands::host::start_error::StartError;
use hotring_commands::host::threads::spawn;
use hotring_commands::settings::config::Config;
use hotring_commands::state::reign::Reign;
use hotring_commands::state::replication::Names;
use hotring_commands::state::server::Server;

pub(super) fn random_id() -> Result<Id, StartError> {
    let id = [random_u64()?, random_u64()?].map(u64::to_le_bytes).concat();
    Ok(id.try_into().expect("two times eight bytes"))
}

pub(super) fn random_u64() -> Result<u64, StartError> {
    getrandom::u64().map_err(|e| StartError::new(format!("cannot get random numbers: {e}")))
}

/// New names for replication, of a server whose hash this id seeds. A node of a cluster keeps its own, and knows
/// whether it has lost anything.
pub(super) fn names(seed: Id, config: &Config) -> Result<(Names, Reign), StartError> {
    let node: Vec<u8> =
        [random_u64()?, random_u64()?, random_u64()?].map(u64::to_le_bytes).concat();
    let node = NodeId(*node.first_chunk().expect("three numbers have 24 bytes"));
    let mut me = Identity { node, incarnation: Incarnation(random_u64()?) };
    let mut reign = Reign::default();
    if config.replication.is_recorded() {
        let folder = config.log.is_on.then_some(config.log.data.as_path());
        me.node = identity::node_id(folder, node)?;
        let opened = Reign::open(folder, identity::boot_id(), config.log.when);
        reign = opened.map_err(|why| StartError::new(format!("cannot start: {why}")))?;
    }
    let kept = reign.kept();
    Ok((Names { me, store: random_id()?, seed, stream: run_id()?, kept }, reign))
}

/// What makes the server a node of a cluster.
pub(super) struct Membership {
    node: Node,
    coordinator: Arc<dyn Coordinator>,
    embedded: Option<Embedded>,
}

impl Membership {
    /// None for a server that belongs to no cluster.
    pub(super) fn of(
        config: &Config,
        coordinator: Option<Arc<dyn Coordinator>>,
        addresses: &[SocketAddr],
        tls: &[SocketAddr],
    ) -> Result<Option<Membership>, StartError> {
        let Some(address) = &config.replication.cluster.coordinator else { return Ok(None) };
        let node = identity::announced(config, addresses, tls)?;
        let (coordinator, embedded) = match coordinator {
            Some(coordinator) => (coordinator, None),
            None => connect(address, config)?,
        };
        Ok(Some(Membership { node, coordinator, embedded }))
    }

    /// The coordinator that this node keeps for the others.
    pub(super) fn embedded(&self) -> Option<Embedded> {
        self.embedded.clone()
    }

    /// Starts the threads of the cluster, of moves of slots, and of mirrors.
    pub(super) fn start(self, server: &Arc<Server>) -> Result<[JoinHandle<()>; 3], StartError> {
        let Membership { node, coordinator, .. } = self;
        let (of_moves, moving) = ((node.clone(), coordinator.clone()), server.clone());
        let (server, mirroring) = (server.clone(), server.clone());
        Ok([
            spawn(cluster::THREAD, move || cluster::run(&server, &coordinator, &node))?,
            spawn(moves::THREAD, move || moves::run(&moving, &of_moves.1, &of_moves.0))?,
            spawn(mirrors::THREAD, move || mirrors::run(&mirroring))?,
        ])
    }
}

/// 40 hexadecimal digits, as in Redis.
pub(super) fn run_id() -> Result<String, StartError> {
    let mut id = String::new();
    for _ in 0..3 {
        write!(id, "{:016x}", random_u64()?).expect("writing to a string cannot fail");
    }
    id.truncate(40);
    Ok(id)
}
