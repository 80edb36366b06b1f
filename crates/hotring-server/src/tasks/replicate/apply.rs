//! What a replica does with the stream and with a full copy: hands the records to its own log under the primary's
//! numbers, and applies them.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hotring_cluster::{Course, Positions, Stamp};
use hotring_commands::host::clock;
use hotring_commands::host::threads::spawn;
use hotring_commands::state::notify;
use hotring_commands::state::replication::codec;
use hotring_commands::state::replication::link::{Copied, LinkStage};
use hotring_commands::state::server::Server;
use hotring_log::{
    Effect, Log, Lsn, SnapshotWriter, effect_at, head, mark_copy, unmark_copy, unpack,
};
use hotring_store::{Applier, ApplyError, Origin};

use super::LinkError;
use super::repair::{check_log, restarted};

/// Longest batch. It is held in memory until it is complete.
const BATCH_MAX: usize = 4 << 30;

/// No stream gets this far: a peer that claims more is not believed.
const POSITION_MAX: Lsn = Lsn::MAX / 2;

/// Time between two lines about the progress of a full copy.
const PROGRESS: Duration = Duration::from_secs(5);

/// Keys for which the table gets room at the beginning of a copy, if the primary says that as many come; and how many
/// for each one that has come.
const ROOM_MIN: u64 = 1 << 20;
const ROOM_PER_KEY: u64 = 16;

/// The name of the thread that makes it.
const ROOM_THREAD: &str = "hotring-room";

/// How long requests may take that were checked before slots had gone, and are answered all the same.
const GRACE: Duration = Duration::from_millis(5);

/// Time between two looks at the log.
const LOG_PAUSE: Duration = Duration::from_millis(1);

/// Applies the stream of one link.
pub(super) struct Follower<'a> {
    server: &'a Arc<Server>,
    log: Arc<Log>,
    applier: Applier,
    stamp: Stamp,
    /// Bytes of the stream that are not applied: the start of a batch.
    pending: Vec<u8>,
    /// Of these the whole records, up to the record `received`.
    parsed: usize,
    received: Lsn,
    copy: Option<Copy>,
    /// The own data is a beginning of the primary's stream: no full copy must come first.
    is_its_stream: bool,
}

/// A full copy under way, or the repair of a divergent tail.
struct Copy {
    /// It is a repair: the stream is followed meanwhile.
    repairs: bool,
    /// The part under way, of which some frames have arrived.
    part: Vec<u8>,
    /// Its snapshot, if the replica has files.
    snapshot: Option<SnapshotWriter>,
    /// What is applied of the parts.
    copied: Copied,
    /// The time of the last line about the progress.
    reported: Instant,
    /// Keys for which the table has room, or is about to have.
    room: u64,
    /// The thread that makes it.
    growing: Option<JoinHandle<()>>,
    /// The record up to which the stream must be applied, once all parts are there.
    end: Option<Lsn>,
}

impl Copy {
    fn begin(repairs: bool, copied: Copied) -> Copy {
        let (part, reported) = (Vec::new(), clock::monotonic());
        Copy { repairs, part, snapshot: None, copied, reported, room: 0, growing: None, end: None }
    }

    /// Publishes the progress.
    fn show(&mut self, server: &Server) {
        let copied = self.copied;
        server.replication.update_link(|link| link.copy(copied));
        if self.reported.elapsed() >= PROGRESS {
            self.reported = clock::monotonic();
            let Copied { bytes, keys, keys_total: of, .. } = copied;
            tracing::info!(keys, of, bytes, "receiving a full copy of the primary");
        }
    }

    /// Grows the table ahead of the keys, as each doubling moves those that are there. The primary's word counts only
    /// as far as keys have come. A thread of its own does it, as a large table takes seconds, in which the link must
    /// answer its primary; without one the table grows as keys come.
    fn make_room(&mut self, server: &Arc<Server>) {
        let (here, keys) = (server.store.len() as u64, self.copied.keys_total);
        let is_growing = self.growing.as_ref().is_some_and(|growing| !growing.is_finished());
        if self.room < keys && 2 * here >= self.room && !is_growing {
            let room = keys.min((here * ROOM_PER_KEY).max(ROOM_MIN));
            let server = server.clone();
            // The table needs no more than that, whatever becomes of this copy.
            let grow = move || server.store.expect(room, || server.process.is_stopping());
            (self.room, self.growing) = (room, spawn(ROOM_THREAD, grow).ok());
        }
    }
}

fn garbled(what: &str) -> LinkError {
    LinkError::Peer(format!("the primary sends {what}"))
}

fn unfit(why: ApplyError) -> LinkError {
    LinkError::Peer(why.to_string())
}

impl<'a> Follower<'a> {
    /// Goes on behind this record.
    pub(super) fn new(
        server: &'a Arc<Server>,
        log: Arc<Log>,
        stamp: Stamp,
        last: Lsn,
        course: Course,
    ) -> Self {
        let is_its_stream = course != Course::FullCopy;
        let (applier, _) = Applier::new(&server.store, last, 0);
        let (pending, parsed, received) = (Vec::new(), 0, last);
        Follower {
            server,
            log,
            applier,
            stamp,
            pending,
            parsed,
            received,
            copy: None,
            is_its_stream,
        }
    }

    /// Takes bytes of the stream, and applies the batches that are complete.
    pub(super) async fn take_records(&mut self, bytes: &[u8]) -> Result<(), LinkError> {
        self.pending.extend_from_slice(bytes);
        if self.pending.len() > BATCH_MAX {
            return Err(garbled("a batch that is too long"));
        }
        let (mut done, mut last, mut epochs) = (0, 0, Vec::new());
        let before = self.received;
        while let Some(found) =
            head(&self.pending[self.parsed..]).map_err(|_| garbled("records that are damaged"))?
        {
            if found.lsn != self.received + 1 {
                return Err(garbled("records out of order"));
            }
            if found.is_epochs {
                epochs.push(self.parsed);
            }
            self.received = found.lsn;
            self.parsed += found.len;
            if !found.more {
                (done, last) = (self.parsed, found.lsn);
            }
        }
        if self.received != before {
            let received = self.received;
            self.server.replication.update_link(|link| link.receive(received));
        }
        if done == 0 {
            return Ok(());
        }
        let rest = self.pending.split_off(done);
        let group = Arc::new(std::mem::replace(&mut self.pending, rest));
        self.parsed -= done;
        self.wait_for_room().await;
        epochs.retain(|at| *at < done);
        self.apply(&group, last, &epochs)
    }

    /// Waits while the own log's queue is full.
    async fn wait_for_room(&self) {
        while self.log.is_full() && self.log.error().is_none_or(|error| error.is_temporary) {
            self.log.wake_for_waiter();
            tokio::time::sleep(LOG_PAUSE).await;
        }
    }

    /// Hands whole batches to the log, and applies them. `epochs` are the places of records that state epochs.
    fn apply(
        &mut self,
        group: &Arc<Vec<u8>>,
        last: Lsn,
        epochs: &[usize],
    ) -> Result<(), LinkError> {
        let server = self.server;
        let _applying = server.replication.lock_applying();
        let (stamp, first) = (self.stamp, self.applier.taken() + 1);
        let is_copying = self.is_copying();
        // Nothing more may be applied once this server follows another primary, or is one.
        let may = server.replication.with_replica(|replica, _| {
            is_copying || replica.records(stamp, first, last, last) == Some(last)
        });
        if may != Some(true) {
            return Err(LinkError::Peer("this server follows another primary now".to_string()));
        }
        let config = server.settings.config();
        // What is not whole is not served, and no client is told of it.
        let records_changes = notify::is_wanted(&config) && self.copy.is_none();
        self.applier.session().act(Origin { records_changes, ..Origin::default() });
        self.applier.apply(group, clock::unix_ms()).map_err(unfit)?;
        notify::tell_applied(self.applier.session(), server, &config);
        let _ = self.applier.session().take_effects();
        // The applier has verified the records. Under the same lock: whoever sees that such a record is applied must
        // find the machine in its epoch.
        epochs.iter().try_for_each(|at| self.begin_epoch(&group[*at..]))?;
        // Under the same lock too: a promotion that comes next must begin behind these records.
        self.tell();
        Ok(())
    }

    /// A record that states the epochs was applied.
    fn begin_epoch(&mut self, record: &[u8]) -> Result<(), LinkError> {
        let out_of_order = || garbled("epochs out of order");
        let Effect::Epochs { history } = effect_at(record, 0) else { return Err(out_of_order()) };
        let (_, history) = codec::epochs_of(history).ok_or_else(out_of_order)?;
        let is_new = history.epoch() > self.stamp.epoch;
        if is_new && self.copy.is_some() {
            // What the copy would be taken for is the stream before.
            return Err(LinkError::Peer("an epoch has begun in the middle of a copy".to_string()));
        }
        if self.is_copying() {
            return Ok(());
        }
        let start = *history.last_start().ok_or_else(out_of_order)?;
        let begun = self.server.replication.with_replica(|replica, _| replica.began(start));
        if matches!(begun, Some(Ok(()))) { Ok(()) } else { Err(out_of_order()) }
    }

    /// Whether a full copy is under way.
    fn is_copying(&self) -> bool {
        self.copy.as_ref().is_some_and(|copy| !copy.repairs)
    }

    /// How far this replica is.
    fn positions(&self) -> Positions {
        let applied = self.server.store.applied();
        let (written, synced) = match self.server.persist.durability.log() {
            Some(log) => (log.written().min(applied), log.synced().min(applied)),
            None => (0, 0),
        };
        Positions { applied, written, synced }
    }

    /// Tells the machine how far this replica is; it answers with an acknowledgement.
    pub(super) fn tell(&self) {
        if !self.is_copying() {
            let positions = self.positions();
            let is_full = self.server.persist.durability.is_failing();
            self.server.replication.with_replica(|replica, _| {
                replica.note_full(is_full);
                replica.applied(positions);
            });
            if let Some(cluster) = self.server.cluster.as_ref().filter(|_| self.is_its_stream) {
                cluster.note_applied(positions.applied);
            }
        }
    }

    /// Takes the primary's word on which slots it has. Keys of those that have gone may be removed by what comes next.
    pub(super) async fn take_tenure(&mut self, body: &[u8], more: bool) -> Result<(), LinkError> {
        let tenure = codec::tenure_of(body).filter(|_| !more);
        let tenure = tenure.ok_or_else(|| garbled("no tenure"))?;
        let Some(cluster) = &self.server.cluster else { return Ok(()) };
        let applied = if self.is_its_stream { self.positions().applied } else { 0 };
        let gone = {
            // Roles change under this lock: the word of an earlier primary must not outlive its role.
            let replication = &self.server.replication;
            let _applying = replication.lock_applying();
            let stamp = self.stamp;
            if replication.with_replica(|replica, _| replica.is_linked_by(stamp)) != Some(true) {
                return Err(LinkError::Peer("this server follows another primary now".to_string()));
            }
            cluster.hear_tenure(tenure, applied)
        };
        if let Some(gone) = gone {
            tokio::time::sleep(GRACE).await;
            cluster.note_forgetting(gone);
        }
        Ok(())
    }

    /// Begins a full copy: durably notes that the data is not whole, and drops it.
    pub(super) async fn begin_copy(&mut self, body: &[u8], epochs: &[u8]) -> Result<(), LinkError> {
        let (after, keys) = body.split_at_checked(8).ok_or_else(|| garbled("no copy"))?;
        let [after, keys] = [after, keys].map(|bytes| bytes.try_into().map(u64::from_le_bytes));
        let (Ok(after), Ok(keys)) = (after, keys) else { return Err(garbled("no copy")) };
        if after > POSITION_MAX {
            return Err(garbled("a copy behind the end of all records"));
        }
        // Its next epoch must have a later record.
        let begun = codec::epochs_of(epochs).and_then(|(_, history)| history.last_start().copied());
        if begun.is_none_or(|start| start.first > after) {
            return Err(garbled("a copy from before its own epoch"));
        }
        let server = self.server;
        // A cut that an earlier link has requested may still be under way. A log that takes nothing could not take the
        // copy either: then the data must stay.
        restarted(&self.log).await?;
        self.drop_data()?;
        tracing::info!(keys, after, "a full copy from the primary begins; the own data is dropped");
        let copied = Copied { keys_total: keys, ..Copied::default() };
        server.replication.update_link(|link| {
            link.enter(LinkStage::Copying);
            link.copy(copied);
        });
        let files = server.persist.durability.snapshots();
        self.log.restart(after);
        restarted(&self.log).await?;
        let order: Vec<u8> = (0..=u8::MAX).collect();
        let order = order.first_chunk().expect("256 numbers");
        let session = self.applier.session();
        session.go_to(0);
        session.replay(&Effect::Order { order }, 0).expect("it has no value");
        session.clear_all();
        self.applier.begin_at(after).map_err(unfit)?;
        let snapshot = match files {
            Some(files) => {
                let mut writer = SnapshotWriter::create(files.storage.clone(), files.id, after)?;
                writer.push(&Effect::Epochs { history: epochs });
                Some(writer)
            }
            None => None,
        };
        (self.received, self.parsed) = (after, 0);
        self.pending.clear();
        self.copy = Some(Copy { snapshot, ..Copy::begin(false, copied) });
        Ok(())
    }

    /// Notes that the data is not whole: on the disk, then for promotions. Fails if nothing may be dropped.
    fn drop_data(&self) -> Result<(), LinkError> {
        let server = self.server;
        // A promotion comes before, or is refused: roles change under this lock only.
        let _applying = server.replication.lock_applying();
        let stamp = self.stamp;
        let other = || LinkError::Peer("this server follows another primary now".to_string());
        if server.replication.with_replica(|replica, _| replica.may_drop(stamp)) != Some(true) {
            return Err(other());
        }
        let (loading, files) = (&server.persist.loading, server.persist.durability.snapshots());
        // An earlier copy or repair may not have come to its end.
        let was_readable = !loading.is_unfinished_copy();
        loading.begin_copy();
        server.settings.renew();
        let marked = files.map_or(Ok(()), |files| {
            files.abandon();
            mark_copy(&*files.storage)
        });
        let may = marked.is_ok()
            && server.replication.with_replica(|replica, _| replica.drop_data(stamp)) == Some(true);
        if may {
            server.replication.tail.end();
            return Ok(());
        }
        if was_readable {
            // All data is there as it was, and a restart must find it.
            let unmarked = self.unmark();
            loading.end_copy();
            server.settings.renew();
            unmarked?;
        }
        marked?;
        Err(other())
    }

    /// Removes the note that the data is not whole, if it is there.
    fn unmark(&self) -> io::Result<()> {
        let files = self.server.persist.durability.snapshots();
        files.map_or(Ok(()), |files| unmark_copy(&*files.storage))
    }

    /// Begins to repair the keys of a divergent tail, which is cut off. Returns their names for the primary.
    pub(super) fn begin_repair(&mut self) -> Vec<u8> {
        self.copy = Some(Copy::begin(true, Copied::default()));
        let applier = &mut self.applier;
        let names = self.server.replication.tail.with_keys(|keys| {
            applier.forget(keys);
            codec::keys_to_bytes(keys.iter())
        });
        let _ = applier.session().take_effects();
        names
    }

    /// Takes a frame of a part, which is applied once it is complete.
    pub(super) fn take_part(&mut self, body: &[u8], more: bool) -> Result<(), LinkError> {
        let copy = self.copy.as_mut().ok_or_else(|| garbled("a part without a copy"))?;
        copy.part.extend_from_slice(body);
        if copy.part.len() > BATCH_MAX {
            return Err(garbled("a part that is too long"));
        }
        if more {
            return Ok(());
        }
        copy.make_room(self.server);
        let (&class, packed) = copy.part.split_first().ok_or_else(|| garbled("an empty part"))?;
        self.applier.copy(packed, clock::unix_ms()).map_err(unfit)?;
        let _ = self.applier.session().take_effects();
        if let Some(snapshot) = &mut copy.snapshot {
            keep(snapshot, class, packed)?;
        }
        copy.copied.bytes += packed.len() as u64;
        copy.copied.keys = self.server.store.len() as u64;
        copy.part.clear();
        copy.part.shrink_to(1 << 20);
        copy.show(self.server);
        Ok(())
    }

    /// All parts are there.
    pub(super) fn take_copy_end(&mut self, body: &[u8]) -> Result<(), LinkError> {
        let end =
            body.try_into().map(u64::from_le_bytes).map_err(|_| garbled("no end of a copy"))?;
        let copy = self.copy.as_mut().ok_or_else(|| garbled("the end of no copy"))?;
        copy.end = Some(end);
        Ok(())
    }

    /// Ends the copy once the stream is applied far enough: makes it durable, and serves it.
    pub(super) async fn finish_copy(&mut self) -> Result<(), LinkError> {
        let Some(copy) =
            self.copy.take_if(|copy| copy.end.is_some_and(|end| end <= self.applier.taken()))
        else {
            return Ok(());
        };
        let server = self.server;
        let (Copy { snapshot, copied, repairs, .. }, applied) = (copy, self.applier.taken());
        if let (Some(snapshot), Some(files)) = (snapshot, server.persist.durability.snapshots()) {
            let finished = snapshot.finish(applied)?;
            self.log.sync_soon();
            while self.log.synced() < applied {
                check_log(&self.log)?;
                tokio::time::sleep(LOG_PAUSE).await;
            }
            finished.publish(self.log.synced())?;
            unmark_copy(&*files.storage)?;
        } else if repairs {
            // A copy that could not begin may have left its note.
            self.unmark()?;
        }
        self.serve(repairs)?;
        let (keys, bytes) = (server.store.len(), copied.bytes);
        match repairs {
            true => tracing::info!(
                bytes,
                applied,
                "the keys of the cut records have the primary's values"
            ),
            false => tracing::info!(keys, bytes, applied, "the full copy is complete"),
        }
        self.tell();
        Ok(())
    }

    /// Everything is there: from here on it is read.
    fn serve(&mut self, repairs: bool) -> Result<(), LinkError> {
        let (server, applied) = (self.server, self.applier.taken());
        let applying = server.replication.lock_applying();
        let is_whole = server.replication.with_replica(|replica, _| {
            if repairs {
                replica.repaired(applied)
            } else {
                replica.copied(applied)
            }
            replica.is_whole()
        });
        if is_whole != Some(true) {
            return Err(LinkError::Peer("this server follows another primary now".to_string()));
        }
        self.is_its_stream = true;
        server.replication.tail.end();
        server.replication.end_marks(self.applier.session(), &applying);
        server.persist.loading.end_copy();
        server.settings.renew();
        server.replication.update_link(|link| link.enter(LinkStage::Connected));
        Ok(())
    }
}

/// Adds a part to the snapshot.
fn keep(snapshot: &mut SnapshotWriter, class: u8, packed: &[u8]) -> io::Result<()> {
    snapshot.set_database(0)?;
    snapshot.set_class(class)?;
    let mut kept = Ok(());
    unpack(packed, &mut |effects| {
        for effect in effects {
            match (&kept, *effect) {
                (Err(_), _) => {}
                (Ok(()), Effect::Database { number }) => kept = snapshot.set_database(number),
                (Ok(()), _) => snapshot.push(effect),
            }
        }
    });
    kept?;
    if snapshot.is_full() { snapshot.write_block() } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use hotring_commands::settings::config::Config;
    use hotring_commands::state::server::Parts;

    use super::*;

    /// The link's thread used to grow the table itself, which takes seconds for a hundred million keys: meanwhile the
    /// replica answered none of its primary's beats.
    #[test]
    fn another_thread_grows_the_table_for_a_copy() {
        let server =
            Arc::new(Server::new(Parts::unconnected(Default::default(), Config::default())));
        let slots = server.store.stats().index.slots;
        let mut copy = Copy::begin(false, Copied { keys_total: ROOM_MIN, ..Copied::default() });
        copy.make_room(&server);
        let growing = copy.growing.take().expect("a thread was started");
        assert_eq!(growing.thread().name(), Some(ROOM_THREAD));
        growing.join().unwrap();
        assert!(server.store.stats().index.slots > 100 * slots);
        // There is room for all keys.
        copy.make_room(&server);
        assert!(copy.growing.is_none());
    }
}
