//! What drives the mirrors of this node's hot keys: whether there may be any, which keys, and what the store guards for
//! them. `hotring-server`'s `tasks/cluster/mirrors` calls it.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use hotring_cluster::mirrors::{Closing, GRANT, Heat, Key, MirrorAct};
use hotring_cluster::{SLOTS, slot_of};
use hotring_store::{Session, ValueRef};

use crate::host::clock;
use crate::state::cluster::Cluster;
use crate::state::hot_keys::{HotKey, hottest};
use crate::state::mirrors::Mirrors;
use crate::state::server::Server;

/// Time between two choices of keys.
const CHOICE: Duration = Duration::from_millis(250);

/// Notes of a key from which on it may be mirrored: some tens of requests a second. Below, mirrors save nothing.
const NOTES_MIN: u32 = 256;

/// Pause of a failover between two looks.
const LOOK: Duration = Duration::from_millis(1);

/// What the driving thread keeps.
#[derive(Debug, Default)]
pub struct Driver {
    chosen_at: Option<Instant>,
}

impl Server {
    /// Goes on with the mirrors. To be called every few milliseconds while some key is mirrored.
    pub fn drive_mirrors(&self, session: &mut Session, driver: &mut Driver) {
        let Some(cluster) = &self.cluster else { return };
        let (mirrors, config) = (&cluster.mirrors, self.settings.config());
        let settings = &config.replication.cluster;
        let epoch = self.replication.led_epoch().filter(|_| settings.mirrors);
        {
            // Guards of an owner that is gone must not come behind this: no owner would end them.
            let _alone = mirrors.lock_guards();
            if mirrors.lead(epoch) {
                self.guard_nothing(session);
            }
        }
        let is_due = driver.chosen_at.is_none_or(|at| at.elapsed() >= CHOICE);
        if is_due && epoch.is_some() {
            driver.chosen_at = Some(clock::monotonic());
            let named: HashSet<&Key> = settings.mirror_always.iter().collect();
            let mut heats = self.heats(session, 2 * settings.mirror_budget.keys);
            heats.retain(|heat| !named.contains(&heat.key));
            heats.extend(self.named(cluster, &settings.mirror_always, session));
            mirrors.choose(settings.mirror_budget, heats);
        }
        self.change_guards(mirrors, session);
    }

    /// Has the store guard what the mirrors want.
    fn change_guards(&self, mirrors: &Mirrors, session: &mut Session) {
        let _alone = mirrors.lock_guards();
        let acts = mirrors.take_guards();
        if acts.is_empty() {
            return;
        }
        self.guard_keys(&acts, session);
        let guarded = acts.iter().filter_map(|act| match act {
            MirrorAct::Guard(key) => Some(key),
            MirrorAct::Release(_) | MirrorAct::Revoke(..) => None,
        });
        let unfit: Vec<Key> =
            guarded.filter(|key| string_len(session, key).is_none()).cloned().collect();
        mirrors.changed(&acts, &unfit);
    }

    /// Those of these keys that are strings of this node.
    fn named(&self, cluster: &Cluster, keys: &[Key], session: &mut Session) -> Vec<Heat> {
        let directory = cluster.served().directory.clone();
        let mine = directory.shard_of_node(cluster.me).map(|(id, _)| id);
        // A slot that a move brings here has keys of which no client may know yet.
        let is_here = |key: &&Key| mine.is_some() && directory.owners.of(slot_of(key)) == mine;
        let heat = |key: &Key| {
            let bytes = string_len(session, key)?;
            Some(Heat { key: key.clone(), share: (0.0, 0.0), bytes, is_named: true })
        };
        keys.iter().filter(is_here).filter_map(heat).collect()
    }

    /// The hottest strings of this node.
    fn heats(&self, session: &mut Session, len: usize) -> Vec<Heat> {
        let now = clock::unix_ms();
        let hottest = hottest(&self.threads, now, len, self.shows());
        let heat = |hot: HotKey| {
            let bytes = string_len(session, &hot.key).filter(|_| hot.database == 0)?;
            let low = if hot.notes < NOTES_MIN { 0.0 } else { hot.low };
            Some(Heat { key: hot.key, share: (low, hot.high), bytes, is_named: false })
        };
        hottest.into_iter().filter_map(heat).collect()
    }

    /// The role is about to be handed over: waits until no mirror is left.
    pub(super) fn end_mirrors(&self, session: &mut Session) {
        let Some(cluster) = &self.cluster else { return };
        cluster.mirrors.close(Closing::Handover, (0..SLOTS).collect());
        let until = clock::monotonic() + GRANT;
        while !cluster.mirrors.is_clear(Closing::Handover) && clock::monotonic() < until {
            self.change_guards(&cluster.mirrors, session);
            std::thread::sleep(LOOK);
        }
    }

    /// The role stays here, or has come back.
    pub(super) fn allow_mirrors(&self) {
        if let Some(cluster) = &self.cluster {
            cluster.mirrors.open(Closing::Handover);
        }
    }
}

/// The length of a key's value, if that is a string.
fn string_len(session: &mut Session, key: &[u8]) -> Option<usize> {
    let len = |value: ValueRef<'_>| value.is_string().then(|| value.len());
    let len = session.peek_value(key, clock::unix_ms(), len);
    session.take_damage();
    len.flatten()
}
