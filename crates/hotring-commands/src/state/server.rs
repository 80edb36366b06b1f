//! The state that all threads of a server share, divided into parts, and the operations that touch several parts.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use hotring_cluster::{NodeId, TakeOver};
use hotring_log::{Lsn, mark_source};
use hotring_store::{Role, Session, Store};

use crate::acl::Acl;
use crate::host::clock;
use crate::settings::config::{Config, Source};
use crate::state::client::{ClientShared, Clients};
use crate::state::cluster::Cluster;
use crate::state::memcached;
use crate::state::observe::Observe;
use crate::state::pause::Paused;
use crate::state::persist::Persist;
use crate::state::process::Process;
use crate::state::push::Push;
use crate::state::reign::Reign;
use crate::state::replication::roles::Task;
use crate::state::replication::{HALF_RECEIVED, Names, Replication, UNFINISHED_COPY};
use crate::state::scripts::Scripts;
use crate::state::settings::{SetLogLevel, Settings};
use crate::state::tasks::Tasks;
use crate::state::thread_shared::ThreadShared;

/// The shared state of one server.
pub struct Server {
    /// The keys and values.
    pub store: Store,
    pub settings: Settings,
    /// Every I/O thread's shared part: first those of connections, then one for each endpoint of messages.
    pub threads: Vec<ThreadShared>,
    /// The shared part of the thread that runs the requests of a primary.
    pub link_thread: ThreadShared,
    pub clients: Clients,
    /// The users, and the log of denials.
    pub acl: Acl,
    /// The shared state of memcached's protocol.
    pub memcached: memcached::Shared,
    pub observe: Observe,
    pub persist: Persist,
    pub replication: Replication,
    /// The cluster to which the server belongs.
    pub cluster: Option<Cluster>,
    /// Whether this node of a cluster will know after a restart that it lost nothing.
    pub reign: Reign,
    pub tasks: Tasks,
    pub push: Push,
    /// The cached scripts.
    pub scripts: Scripts,
    pub process: Process,
}

/// The parts that a server is built from.
pub struct Parts {
    /// The keys and values.
    pub store: Store,
    /// The settings, with the actual addresses and the actual number of threads.
    pub config: Config,
    /// The TCP addresses on which the server listens.
    pub addresses: Vec<SocketAddr>,
    /// The shared state of memcached's protocol.
    pub memcached: memcached::Shared,
    /// The unix socket, if there is one.
    pub unix_path: Option<PathBuf>,
    /// 40 hexadecimal digits.
    pub run_id: String,
    /// What the server is called in replication.
    pub names: Names,
    /// The name of this node, if it belongs to a cluster.
    pub node: Option<NodeId>,
    /// The note by which such a node knows after a restart that it lost nothing.
    pub reign: Reign,
    /// Sets the level of the server's own log.
    pub log_level: SetLogLevel,
}

#[cfg(any(test, fuzzing, feature = "testing"))]
impl Parts {
    /// As [`unconnected`](Self::unconnected), for a node of a cluster.
    pub fn of_node(options: hotring_store::Options, config: Config, node: NodeId) -> Self {
        Parts { node: Some(node), ..Self::unconnected(options, config) }
    }

    /// The parts of a server with one thread and without sockets.
    pub fn unconnected(options: hotring_store::Options, config: Config) -> Self {
        Parts {
            store: Store::new(options).expect("an empty store fits into memory"),
            config: Config { threads: 1, ..config },
            addresses: Vec::new(),
            memcached: memcached::Shared::default(),
            unix_path: None,
            run_id: "0".repeat(40),
            names: Names::unconnected(),
            node: None,
            reign: Reign::default(),
            log_level: Box::new(|_| {}),
        }
    }
}

impl Server {
    /// A server without connections.
    pub fn new(mut parts: Parts) -> Self {
        parts.config.clustered = parts.node.is_some();
        let config = &parts.config;
        let push = Push::new(config);
        let is_first = parts.store.set_observer(push.tracking.clone());
        debug_assert!(is_first, "a store belongs to one server");
        Server {
            threads: (0..config.threads + config.fabric.listen.len())
                .map(|_| ThreadShared::default())
                .collect(),
            link_thread: ThreadShared::default(),
            clients: Clients::new(config),
            acl: Acl::new(&config.requirepass),
            memcached: parts.memcached,
            observe: Observe::new(config, parts.store.notings()),
            persist: Persist::new(config),
            replication: Replication::new(config, parts.names),
            cluster: parts.node.map(Cluster::new),
            reign: parts.reign,
            tasks: Tasks::default(),
            push,
            scripts: Scripts::default(),
            process: Process::new(parts.run_id, parts.addresses, parts.unix_path),
            settings: Settings::new(parts.config, parts.log_level),
            store: parts.store,
        }
    }

    /// Redis's name of the way in which the server runs.
    pub(crate) fn mode(&self) -> &'static str {
        if self.cluster.is_some() { "cluster" } else { "standalone" }
    }

    /// The last record of the stream, of a replica the last that it has applied. It stands in for Redis's offsets,
    /// which count bytes.
    pub(crate) fn stream_position(&self) -> Lsn {
        if let Some(position) = self.replication.redis.position() {
            return position;
        }
        let stream = self.persist.durability.stream();
        self.replication.applied().unwrap_or_else(|| stream.map_or(0, |log| log.handed()))
    }

    /// The shared part of the I/O thread with this index, or of the thread that runs the requests of a primary.
    #[inline]
    pub(crate) fn thread(&self, index: usize) -> &ThreadShared {
        self.threads.get(index).unwrap_or(&self.link_thread)
    }

    /// The shared parts of all threads that run requests.
    pub(crate) fn running_threads(&self) -> impl Iterator<Item = &ThreadShared> {
        self.threads.iter().chain([&self.link_thread])
    }

    /// Applies `change` to the settings. Changes are serialized; nothing changes if `change` fails.
    pub(crate) fn change_config<E: From<String>>(
        &self,
        change: impl FnOnce(&Config) -> Result<Config, E>,
    ) -> Result<(), E> {
        let _alone = self.settings.lock_changing();
        let config = self.settings.config();
        let changed = change(&config)?;
        if changed.log_level != config.log_level {
            self.settings.set_log_level(changed.log_level);
        }
        let failed = |why| format!("ERR CONFIG SET failed: {why}");
        changed.log.check_after(&config.log).map_err(failed)?;
        changed.replication.check(&changed.log).map_err(failed)?;
        changed.limit_memory(&self.store).map_err(failed)?;
        if changed.log.when != config.log.when {
            let failed = |why| {
                format!("ERR CONFIG SET failed: cannot note that a restart may lose writes: {why}")
            };
            self.reign.change(changed.log.when).map_err(failed)?;
        }
        self.persist.durability.change(&changed.log);
        if let Some(backlog) = self.persist.durability.backlog() {
            backlog.set_max(changed.replication.backlog_max as u64);
        }
        if changed.replication != config.replication {
            let stream = self.persist.durability.stream();
            self.replication.set_rules(&changed.replication, stream.map(|log| &**log));
        }
        self.store.set_watches_max(changed.waiting_max);
        self.store.set_hash_packed_max(changed.hash_packed_fields_max, changed.hash_packed_len_max);
        let (elements, bytes) = changed.list_packed_max();
        self.store.set_list_packed_max(elements, bytes);
        self.store.set_set_packed_max(
            changed.set_packed_ints_max,
            changed.set_packed_members_max,
            changed.set_packed_len_max,
        );
        self.store.set_scored_packed_max(
            changed.scored_packed_members_max,
            changed.scored_packed_len_max,
        );
        self.store.set_text_plain_max(changed.text_plain_max);
        self.observe.set_limits(&changed);
        self.push.tracking.set_limits(&changed);
        self.clients.set_limits(&changed);
        self.settings.replace(changed);
        Ok(())
    }

    /// Becomes the replica of a primary. The link's task does the rest.
    pub(crate) fn follow(&self, source: Source, session: &mut Session) {
        // Received records of the previous primary must not come between.
        let _applying = self.replication.lock_applying();
        self.set_source(Some(source), true);
        session.switch_log(true);
        let last = session.switch_role(Role::Replica, clock::unix_ms());
        let stream = self.persist.durability.stream().map(|log| &**log);
        self.replication.become_replica(last.unwrap_or(0), stream);
        if let (Some(log), Some(backlog)) =
            (self.persist.durability.stream(), self.persist.durability.backlog())
        {
            // Its own replicas, should it become a primary, go on from there.
            backlog.turn_on(log);
        }
        // From here on no client begins to wait for a key.
        self.clients.unblock_demoted();
        // What clients keep may be old from here on.
        self.push.tracking.forget_all();
    }

    /// Whether writes up to this record may be acknowledged.
    #[inline]
    pub fn has_reached(&self, lsn: Lsn) -> bool {
        let durability = &self.persist.durability;
        durability.has_reached(lsn)
            || durability.stream().is_some_and(|log| {
                // Here, and not on a thread that each batch of writes would have to wake.
                log.replicated() < lsn && {
                    self.replication.grown(log);
                    log.has_reached(lsn)
                }
            })
    }

    /// Does what the machine of the role asks for.
    pub fn work_for_role(&self, task: Task, session: &mut Session) {
        match task {
            Task::PauseWrites => {
                self.end_mirrors(session);
                self.clients.pause.begin(u64::MAX >> 2, Paused::Writes, clock::unix_ms());
                self.settings.renew();
                // A batch that has begun does not see the pause: the store refuses its writes.
                session.switch_role(Role::Replica, clock::unix_ms());
                if let Some(log) = self.persist.durability.stream() {
                    log.wake_for_waiter();
                    self.replication.paused(log);
                }
            }
            Task::BecomePrimary => {
                if let Some(log) =
                    self.persist.durability.stream().filter(|_| !self.persist.loading.is_on())
                {
                    self.replication.become_primary(session, log);
                }
            }
            Task::ResumeWrites => {
                self.allow_mirrors();
                session.switch_role(Role::Primary, clock::unix_ms());
                self.resume_writes();
            }
            Task::Follow(source) => {
                self.follow(source, session);
                self.resume_writes();
            }
            Task::TakeOver(from) => self.take_over(*from, session),
            Task::StepDown => self.step_down(session),
        }
    }

    pub(super) fn resume_writes(&self) {
        self.clients.pause.end();
        self.settings.renew();
        self.clients.all().iter().for_each(|client| client.wake());
    }

    /// Becomes a primary, because the primary hands its role over, or the records say so.
    pub fn take_over(&self, from: TakeOver, session: &mut Session) {
        let _applying = self.replication.lock_applying();
        self.take_over_locked(from, session);
    }

    /// The same, by a caller that has locked what is applied.
    pub(super) fn take_over_locked(&self, from: TakeOver, session: &mut Session) {
        let Some(log) = self.persist.durability.stream() else { return };
        let (epoch, inherited) = (from.epoch.0, from.inherited);
        if !self.replication.take_over(session, from, log) {
            return;
        }
        self.serve_as_primary(session);
        if inherited && let Some(cluster) = &self.cluster {
            cluster.count_recovery();
            tracing::warn!(
                "all members of this shard's in-sync set have come back, and this node has the most: it goes on by itself. \
                 Acknowledged writes that no node had on its disk are lost"
            );
        }
        tracing::warn!(epoch, "this server is the primary of its data");
    }

    /// Accepts writes, because an epoch of this server has begun.
    pub(super) fn serve_as_primary(&self, session: &mut Session) {
        self.note_reign();
        self.allow_mirrors();
        if let Some(cluster) = &self.cluster {
            cluster.count_promotion();
        }
        session.follow(true);
        session.switch_role(Role::Primary, clock::unix_ms());
        self.set_source(None, false);
        self.tasks.expirer.wake();
    }

    /// Becomes a primary with the data that it has.
    ///
    /// # Errors
    /// Only a part of the previous primary's data is there, or it came by another replica. With `is_forced` data by a
    /// replica is enough, and the part of a Redis's data is kept; that of a hotring's never is, as it is of no single
    /// moment.
    pub(crate) fn promote(
        &self,
        session: &mut Session,
        is_forced: bool,
    ) -> Result<(), &'static str> {
        let _applying = self.replication.lock_applying();
        if self.persist.loading.is_unfinished_copy() {
            match self.replication.redis.is_on() {
                true if is_forced => {}
                true => return Err(UNFINISHED_COPY),
                false => return Err(HALF_RECEIVED),
            }
        }
        let stream = self.persist.durability.stream().map(|log| &**log);
        self.replication.promote(session, stream, is_forced)?;
        let is_followed = self.replication.has_epochs();
        if !is_followed && self.persist.durability.log().is_none() {
            // No replica can go on from here.
            session.switch_log(false);
        }
        session.follow(is_followed);
        session.switch_role(Role::Primary, clock::unix_ms());
        self.set_source(None, false);
        self.tasks.expirer.wake();
        Ok(())
    }

    /// Changes the primary to follow, also in the settings unless records say it. Each thread learns of the role with
    /// the settings.
    ///
    /// Only here a change of the role locks the settings: it waits for sessions that hold keys, and a transaction that
    /// holds some may change settings.
    pub(super) fn set_source(&self, source: Option<Source>, is_replica: bool) {
        let _alone = self.settings.lock_changing();
        let config = self.settings.config();
        if !is_replica {
            self.note_own_data();
        }
        self.replication.set_source(source.clone(), is_replica);
        if config.replication.is_recorded() {
            return self.settings.renew();
        }
        let mut config = (*config).clone();
        config.replication.source = source;
        config.changed.insert("replicaof");
        self.settings.replace(config);
    }

    /// Notes in the log's folder that the data is that of a primary, wherever it came from.
    pub fn note_own_data(&self) {
        let Some(files) = self.persist.durability.snapshots() else { return };
        if let Err(why) = mark_source(&*files.storage, false) {
            // At worst a later promotion asks for force.
            tracing::warn!("cannot note that this server has the data of a primary: {why}");
        }
    }

    /// Reloads the ACL file and the files of TLS. A fault in a file is logged, and its previous contents stay in force.
    pub fn reload(&self) {
        match self.load_users() {
            Some(Ok(())) => tracing::info!("the ACL file is reloaded"),
            Some(Err(why)) => tracing::warn!("{why}"),
            None => {}
        }
        if self.process.tls.current().is_some() {
            let _alone = self.settings.lock_changing();
            match self.process.tls.load(&self.settings.config().tls) {
                Ok(()) => tracing::info!("the files of TLS are reloaded"),
                Err(why) => tracing::warn!("TLS stays as it is: {why}"),
            }
        }
    }

    /// Reads the ACL file, if there is one.
    pub fn load_users(&self) -> Option<Result<(), String>> {
        let _alone = self.settings.lock_changing();
        let config = self.settings.config();
        let loaded = self.acl.load(config.aclfile.as_ref()?, &config.requirepass);
        if loaded.is_ok() {
            self.users_changed();
        }
        Some(loaded)
    }

    /// Has every connection look up its user again, and ends what was granted to users as they were.
    pub(crate) fn users_changed(&self) {
        self.clients.users_changed();
        self.cluster.iter().for_each(|cluster| cluster.mirrors.end_all());
    }

    /// Writes the ACL file, if there is one.
    pub(crate) fn save_users(&self) -> Option<io::Result<()>> {
        let _alone = self.settings.lock_changing();
        Some(self.acl.save(self.settings.config().aclfile.as_ref()?))
    }

    /// Whether protected mode refuses a RESP connection from `peer`.
    pub fn is_protected_from(&self, peer: IpAddr) -> bool {
        self.is_protected_if(self.acl.default_user().is_open(), peer)
    }

    /// Whether protected mode refuses a memcached connection from `peer`.
    pub fn is_memcached_protected_from(&self, peer: IpAddr) -> bool {
        self.is_protected_if(self.memcached.users.is_none(), peer)
    }

    /// Whether protected mode refuses a client of the proxy from `peer`, which for memcached asks for no password.
    pub fn is_proxy_protected_from(&self, peer: IpAddr, is_memcached: bool) -> bool {
        self.is_protected_if(is_memcached || self.acl.default_user().is_open(), peer)
    }

    /// Protected mode refuses peers other than this host while no password is needed.
    fn is_protected_if(&self, is_open: bool, peer: IpAddr) -> bool {
        !peer.to_canonical().is_loopback() && self.settings.config().protected_mode && is_open
    }

    /// Removes a connection that has ended; a second call does nothing.
    pub fn leave(&self, client: &ClientShared) {
        if self.clients.remove(client) {
            // ORDERING: Relaxed, a hint for balancing.
            self.threads[client.thread].connections.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Ends the server in order: a primary of a cluster hands its role over first, if it can.
    pub fn retire(&self) {
        match self.cluster.is_some() && !self.replication.is_replica() {
            true => self.process.retire(),
            false => self.stop(),
        }
    }

    /// Asks all threads to finish the received requests and then to end.
    pub fn stop(&self) {
        self.process.stop();
        self.store.wake_maintenance();
        self.tasks.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A connection leaves at its end, and again when its socket is dropped.
    #[test]
    fn a_connection_leaves_once() {
        let server = Server::new(Parts::unconnected(Default::default(), Config::default()));
        let connections = || server.threads[0].connections.load(Ordering::Relaxed);
        server.threads[0].connections.store(2, Ordering::Relaxed);
        let client = server.clients.enter("peer".into(), "local".into(), 0);
        assert_eq!((server.clients.len(), server.clients.find(client.id).is_some()), (1, true));
        server.leave(&client);
        server.leave(&client);
        assert_eq!((server.clients.len(), connections()), (0, 1));
    }
    /// EXEC may hold keys while it runs CONFIG SET, and a change of the role waits for all keys: both stood still.
    #[test]
    fn settings_change_while_a_role_waits_for_keys() {
        let server = std::sync::Arc::new(Server::new(Parts::unconnected(
            Default::default(),
            Config::default(),
        )));
        server.follow(Source { host: "h".into(), port: 7 }, &mut server.store.session());
        let (done, is_done) = std::sync::mpsc::channel();
        let mut holder = server.store.session();
        let promoted = holder.exclusive(&[b"k"], |_| {
            let (promoting, changing) = (server.clone(), server.clone());
            let promoted =
                std::thread::spawn(move || promoting.promote(&mut promoting.store.session(), true));
            std::thread::sleep(std::time::Duration::from_millis(50));
            std::thread::spawn(move || {
                let changed = changing.change_config(|config| Ok::<_, String>(config.clone()));
                _ = done.send(changed);
            });
            let changed = is_done.recv_timeout(std::time::Duration::from_secs(10));
            assert_eq!(changed, Ok(Ok(())), "the settings are locked");
            assert!(!promoted.is_finished(), "it did not wait for the key");
            promoted
        });
        assert_eq!(promoted.join().unwrap(), Ok(()));
    }
}
