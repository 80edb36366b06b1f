//! What a replica does with the stream and with a full copy: hands the records to its own log under the primary's
//! numbers, and applies them.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use hotring_cluster::{Positions, Stamp};
use hotring_commands::host::clock;
use hotring_commands::state::loading::Stage;
use hotring_commands::state::replication::codec;
use hotring_commands::state::replication::link::LinkStage;
use hotring_commands::state::server::Server;
use hotring_log::{
    Bad, Effect, Found, Log, Lsn, Records, SnapshotWriter, mark_copy, read, unmark_copy, unpack,
};
use hotring_store::Session;

use super::{LinkError, THREAD};

/// Longest batch. It is held in memory until it is complete.
const BATCH_MAX: usize = 4 << 30;

/// Time between two looks at the log.
const LOG_PAUSE: Duration = Duration::from_millis(1);

/// Applies the stream of one link.
pub(super) struct Applier<'a> {
    server: &'a Arc<Server>,
    log: Arc<Log>,
    session: Session,
    stamp: Stamp,
    /// Bytes of the stream that are not applied: the start of a batch. `parsed` of them are whole records.
    pending: Vec<u8>,
    parsed: usize,
    /// The last record of the pending ones, and the last that was applied.
    received: Lsn,
    applied: Lsn,
    records: Records,
    copy: Option<Copy>,
}

/// A full copy under way.
struct Copy {
    /// The part under way, of which some frames have arrived.
    part: Vec<u8>,
    /// Its snapshot, if the replica has files.
    snapshot: Option<SnapshotWriter>,
    keys: u64,
    keys_done: u64,
    /// The record up to which the stream must be applied, once all parts are there.
    end: Option<Lsn>,
}

fn garbled(what: &str) -> LinkError {
    LinkError::Peer(format!("the primary sends {what}"))
}

impl<'a> Applier<'a> {
    /// Goes on behind this record.
    pub(super) fn new(server: &'a Arc<Server>, log: Arc<Log>, stamp: Stamp, last: Lsn) -> Self {
        let mut session = server.store.session_named(THREAD);
        session.repeat_records();
        Applier {
            server,
            log,
            session,
            stamp,
            pending: Vec::new(),
            parsed: 0,
            received: last,
            applied: last,
            records: Records::new(),
            copy: None,
        }
    }

    /// Takes bytes of the stream, and applies the batches that are complete.
    pub(super) async fn take_records(&mut self, bytes: &[u8]) -> Result<(), LinkError> {
        self.pending.extend_from_slice(bytes);
        if self.pending.len() > BATCH_MAX {
            return Err(garbled("a batch that is too long"));
        }
        let pending = std::mem::take(&mut self.pending);
        let done = self.take_batches(&pending).await?;
        self.pending = pending;
        self.pending.drain(..done);
        self.parsed -= done;
        Ok(())
    }

    /// Applies the complete batches at the start of these bytes; returns their length.
    async fn take_batches(&mut self, bytes: &[u8]) -> Result<usize, LinkError> {
        let (mut done, first) = (0, self.received_in_batches() + 1);
        let mut last = first - 1;
        loop {
            let found = match read(&bytes[self.parsed..]) {
                Ok(found) => found,
                Err(Bad::Short { .. }) => break,
                Err(Bad::Zero) if self.parsed == bytes.len() => break,
                Err(_) => return Err(garbled("records that are damaged")),
            };
            if found.lsn != self.received + 1 {
                return Err(garbled("records out of order"));
            }
            self.received = found.lsn;
            self.parsed += found.len;
            if !found.more {
                (done, last) = (self.parsed, self.received);
            }
        }
        if done == 0 {
            return Ok(0);
        }
        self.wait_for_room().await;
        self.apply(&bytes[..done], first, last)?;
        Ok(done)
    }

    /// The last record of the batches that are complete.
    fn received_in_batches(&self) -> Lsn {
        self.applied
    }

    /// Waits while the own log's queue is full.
    async fn wait_for_room(&self) {
        while self.log.is_full() && self.log.trouble().is_none_or(|trouble| trouble.may_pass) {
            self.log.hurry();
            tokio::time::sleep(LOG_PAUSE).await;
        }
    }

    /// Hands whole batches to the log, and applies them.
    fn apply(&mut self, bytes: &[u8], first: Lsn, last: Lsn) -> Result<(), LinkError> {
        let server = self.server;
        let _applying = server.replication.lock_applying();
        if self.copy.is_none() {
            let stamp = self.stamp;
            let may = server
                .replication
                .with_replica(|replica, _| replica.records(stamp, first, last, last));
            if may.flatten() != Some(last) {
                return Err(LinkError::Peer("this server follows another primary now".to_string()));
            }
        }
        let mut rest = bytes;
        while let Ok(found) = read(rest) {
            self.records.push_sealed(&found, &rest[..found.len]);
            rest = &rest[found.len..];
        }
        self.log.append(&mut self.records);
        let (now, mut rest) = (clock::unix_ms(), bytes);
        let mut batch: Vec<Effect<'_>> = Vec::new();
        while let Ok(Found { effect, more, len, .. }) = read(rest) {
            rest = &rest[len..];
            batch.push(effect);
            if !more {
                self.apply_batch(&batch, now)?;
                batch.clear();
            }
        }
        self.applied = last;
        let _ = self.session.take_effects();
        if self.copy.is_none() {
            self.tell();
        }
        Ok(())
    }

    fn apply_batch(&mut self, batch: &[Effect<'_>], now: u64) -> Result<(), LinkError> {
        if let [Effect::Epochs { history }] = *batch {
            let (_, history) =
                codec::epochs_of(history).ok_or_else(|| garbled("epochs out of order"))?;
            let begun = self
                .server
                .replication
                .with_replica(|replica, _| history.last_start().map(|start| replica.began(*start)));
            if self.copy.is_none() && !matches!(begun, Some(Some(Ok(())))) {
                return Err(garbled("epochs out of order"));
            }
            return Ok(());
        }
        self.session.repeat(batch, now).map_err(|unknown| LinkError::Peer(unknown.to_string()))
    }

    /// How far this replica is.
    fn positions(&self) -> Positions {
        let (written, synced) = match self.server.persist.durability.log() {
            Some(log) => (log.written().min(self.applied), log.synced().min(self.applied)),
            None => (0, 0),
        };
        Positions { applied: self.applied, written, synced }
    }

    /// Tells the machine how far this replica is; it answers with an acknowledgement.
    pub(super) fn tell(&self) {
        if self.copy.is_none() {
            let positions = self.positions();
            self.server.replication.with_replica(|replica, _| replica.applied(positions));
        }
    }

    /// Begins a full copy: durably notes that the data is not whole, and drops it.
    pub(super) async fn begin_copy(&mut self, body: &[u8], epochs: &[u8]) -> Result<(), LinkError> {
        let (after, keys) = body.split_at_checked(8).ok_or_else(|| garbled("no copy"))?;
        let [after, keys] = [after, keys].map(|bytes| bytes.try_into().map(u64::from_le_bytes));
        let (Ok(after), Ok(keys)) = (after, keys) else { return Err(garbled("no copy")) };
        let server = self.server;
        tracing::info!(keys, after, "a full copy from the primary begins; the own data is dropped");
        server.replication.update_link(|link| {
            link.enter(LinkStage::Copying);
            link.copy(0, keys);
        });
        server.persist.loading.reach(Stage::Nothing);
        server.settings.renew();
        let files = server.persist.durability.snapshots();
        if let Some(files) = files {
            mark_copy(&*files.storage)?;
        }
        self.log.restart(after);
        while self.log.is_restarting() {
            tokio::time::sleep(LOG_PAUSE).await;
        }
        if let Some(trouble) = self.log.trouble() {
            return Err(LinkError::Peer(format!("the own log fails: {trouble}")));
        }
        let order: Vec<u8> = (0..=u8::MAX).collect();
        let order = order.first_chunk().expect("256 numbers");
        self.session.go_to(0);
        self.session.repeat(&[Effect::Order { order }], 0).expect("it has no value");
        self.session.clear_all();
        let snapshot = match files {
            Some(files) => {
                let mut writer = SnapshotWriter::create(files.storage.clone(), files.id, after)?;
                writer.push(&Effect::Epochs { history: epochs });
                Some(writer)
            }
            None => None,
        };
        (self.received, self.applied, self.parsed) = (after, after, 0);
        self.pending.clear();
        self.copy = Some(Copy { part: Vec::new(), snapshot, keys, keys_done: 0, end: None });
        Ok(())
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
        let (now, session) = (clock::unix_ms(), &mut self.session);
        let (&class, packed) = copy.part.split_first().ok_or_else(|| garbled("an empty part"))?;
        if let Some(snapshot) = &mut copy.snapshot {
            snapshot.set_database(0)?;
            snapshot.set_class(class)?;
        }
        session.go_to(0);
        let (mut failed, mut written) = (None, Ok(()));
        let (snapshot, keys_done) = (&mut copy.snapshot, &mut copy.keys_done);
        let unpacked = unpack(packed, &mut |effects| {
            for effect in effects {
                if let Err(unknown) = session.replay(effect, now) {
                    failed.get_or_insert(unknown);
                }
                *keys_done += u64::from(matches!(effect, Effect::Put { .. }));
                if let (Some(snapshot), Ok(())) = (&mut *snapshot, &written) {
                    written = keep(snapshot, effect);
                }
            }
        });
        let _ = session.take_effects();
        written?;
        if let Some(unknown) = failed {
            return Err(LinkError::Peer(unknown.to_string()));
        }
        unpacked.ok_or_else(|| garbled("a part that is damaged"))?;
        copy.part.clear();
        copy.part.shrink_to(1 << 20);
        let (done, keys) = (copy.keys_done, copy.keys);
        self.server.replication.update_link(|link| link.copy(done, keys));
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
        let Some(copy) = self.copy.take_if(|copy| copy.end.is_some_and(|end| end <= self.applied))
        else {
            return Ok(());
        };
        let server = self.server;
        let (Copy { snapshot, keys_done, .. }, applied) = (copy, self.applied);
        if let (Some(snapshot), Some(files)) = (snapshot, server.persist.durability.snapshots()) {
            let finished = snapshot.finish(applied)?;
            self.log.sync_soon();
            while self.log.synced() < applied {
                if let Some(trouble) = self.log.trouble() {
                    return Err(LinkError::Peer(format!("the own log fails: {trouble}")));
                }
                tokio::time::sleep(LOG_PAUSE).await;
            }
            finished.publish(self.log.synced())?;
            unmark_copy(&*files.storage)?;
        }
        server.replication.with_replica(|replica, _| replica.copied(applied));
        server.persist.loading.reach(Stage::All);
        server.settings.renew();
        server.replication.update_link(|link| link.enter(LinkStage::Connected));
        tracing::info!(keys = keys_done, applied, "the full copy is complete");
        self.tell();
        Ok(())
    }
}

/// Adds an item of a part to the snapshot.
fn keep(snapshot: &mut SnapshotWriter, effect: &Effect<'_>) -> io::Result<()> {
    match *effect {
        Effect::Database { number } => snapshot.set_database(number)?,
        _ => snapshot.push(effect),
    }
    if snapshot.is_full() { snapshot.write_block() } else { Ok(()) }
}
