//! Slots that move: which of them the store holds, hides or fills, and the removal of keys that are no longer its own.
//! Nothing here decides when: that is the business of whoever runs the machines of a move
//! ([`hotring_cluster::moves`]).

use std::sync::Arc;

use hotring_cluster::SlotSet;
use hotring_cluster::directory::MoveId;
use hotring_cluster::mirrors::MirrorAct;
use hotring_log::Lsn;
use hotring_store::{Forgotten, Grounds, Session};

use crate::state::cluster::{Cluster, Held, Served};
use crate::state::server::Server;

/// What is hidden and may be removed.
pub struct Forgetting {
    grounds: Option<Arc<Grounds>>,
    publication: u64,
}

impl Server {
    /// Has the store obey the records as last published. To be called after each change of them, and regularly, but not
    /// while the data is loading.
    pub fn renew_grounds(&self, session: &mut Session) {
        let (Some(cluster), follows) = (&self.cluster, self.replication.is_replica()) else {
            return;
        };
        self.renew_tenure(cluster);
        if cluster.needs_other_grounds(session.grounds().as_deref(), follows) {
            self.change_grounds(session, |_| ());
        }
    }

    /// Has the requests for slots of a move wait, or with None no longer. Returns the last record of the log at that
    /// moment: with requests that wait, no write of these slots follows.
    pub fn hold_slots(&self, id: MoveId, held: Option<Held>, session: &mut Session) -> Option<Lsn> {
        self.change_grounds(session, |served| served.hold(id, held))
    }

    /// Lets the keys of a move come ([`hotring_store::Importer`]), or with None no longer: what has come is then hidden
    /// until the table gives it to this shard, or it is forgotten. Returns the last record of the log at that moment.
    pub fn import_slots(
        &self,
        id: MoveId,
        slots: Option<SlotSet>,
        session: &mut Session,
    ) -> Option<Lsn> {
        self.change_grounds(session, |served| served.import(id, slots))
    }

    /// Begins to remove what is hidden now. Whoever waits a while before the first key lets requests end that were
    /// checked before it was hidden; those that have not ended are answered as if they began later.
    pub fn begin_to_forget(&self, session: &Session) -> Forgetting {
        // In this order: what is hidden by the publication that is noted may be less, and never more.
        let grounds = session.grounds();
        let publication = self.cluster.as_ref().map_or(0, |cluster| {
            // Replicas hear of it before the first removal.
            self.renew_tenure(cluster);
            cluster.version()
        });
        Forgetting { grounds, publication }
    }

    /// Removes hidden keys among about `count` from `cursor` on, but none that was open when that began, none that is
    /// coming, and none that `is_kept` accepts. The caller must have records of the epoch in which it is
    /// primary, by which the slots of all others are not its shard's.
    pub fn forget_some(
        &self,
        session: &mut Session,
        of: &Forgetting,
        (cursor, count): (u64, usize),
        is_kept: impl Fn(&[u8]) -> bool,
    ) -> Forgotten {
        let Some(grounds) = &of.grounds else { return Forgotten::default() };
        if let Some(cluster) = &self.cluster {
            cluster.note_forgetting(of.publication);
        }
        session.forget_some(cursor, count, |key| !grounds.hides(key) || is_kept(key))
    }

    /// Whether clients may see a key, by what the store serves now: for lists that were made before.
    pub fn shows(&self) -> impl Fn(&[u8]) -> bool + use<> {
        let grounds = self.store.grounds();
        move |key| grounds.as_ref().is_none_or(|grounds| !grounds.hides(key))
    }

    /// Has the store guard other keys. After the return every write of a guarded key is refused, and all that were
    /// accepted before are applied.
    pub(crate) fn guard_keys(&self, acts: &[MirrorAct], session: &mut Session) {
        self.change_grounds(session, |served| served.guard(acts));
    }

    /// Has the store guard no key any more.
    pub(super) fn guard_nothing(&self, session: &mut Session) {
        self.change_grounds(session, |served| served.guarded = Arc::default());
    }

    fn renew_tenure(&self, cluster: &Cluster) {
        if let Some(log) = self.persist.durability.stream() {
            cluster.renew_tenure(self.replication.led_epoch(), || log.handed());
        }
    }

    fn change_grounds(
        &self,
        session: &mut Session,
        change: impl FnOnce(&mut Served),
    ) -> Option<Lsn> {
        let cluster = self.cluster.as_ref()?;
        // Before requests that waited go on: a FLUSHALL removes keys that were given away, too.
        self.renew_tenure(cluster);
        let last = {
            let _alone = cluster.lock_grounds();
            let follows = self.replication.is_replica();
            session.change_grounds(|version| cluster.make_grounds(version, follows, change))
        };
        // Requests that wait are checked again.
        self.clients.all().iter().for_each(|client| client.wake());
        last
    }
}
