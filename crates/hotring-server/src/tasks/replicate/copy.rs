//! A full copy on the upper side of a link: a thread that walks the store as a snapshot does, beside the clients.
//!
//! For each part it notes the last record *before* it reads, at a replica the last one that is applied. The link sends
//! the stream up to that record, then the part, then the later records: so no key of the part is older than the records
//! before it, and the records behind it bring every key up to date. Nothing of the stream is kept aside meanwhile. The
//! keys of a divergent tail are sent the same way, and those of slots that move to another shard.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hotring_commands::host::clock;
use hotring_commands::host::threads::spawn;
use hotring_commands::state::hot_keys::hottest;
use hotring_commands::state::moves::Progress;
use hotring_commands::state::replication::codec;
use hotring_commands::state::server::Server;
use hotring_log::{ALL, Effect, Lsn, Records, pack};
use hotring_store::{Origin, Session, SnapshotFailed, SnapshotWalk, WalkSink};
use tokio::sync::mpsc::{self, Receiver, Sender};

use super::LinkError;

/// The name of the thread and of its session.
const THREAD: &str = "hotring-copy";

/// Hot keys that are sent first.
const HOTTEST_MAX: usize = 1024;

/// Length at which a part is sent.
const PART_LEN: usize = 256 << 10;

/// Parts that wait for the link at most.
const PARTS: usize = 2;

/// Longest sleep of the thread, so that it notices the end of its link.
const SLEEP_MAX: Duration = Duration::from_millis(100);

/// Time between two looks whether records are applied.
const APPLY_PAUSE: Duration = Duration::from_millis(1);

/// Says whether a copy has a key.
pub(in crate::tasks) type IsWanted = dyn Fn(&[u8]) -> bool + Send + Sync;

/// Says which keys a copy has, and hears how far it is.
pub(in crate::tasks) struct Wanted {
    pub(in crate::tasks) is_wanted: Arc<IsWanted>,
    pub(in crate::tasks) progress: Arc<Progress>,
}

/// What the link must send next.
pub(in crate::tasks) enum Item {
    /// The copy begins: the stream goes on behind this record, and about this many keys follow.
    Begin(Lsn, u64),
    /// A part, behind the stream up to this record.
    Part(Lsn, Vec<u8>),
    /// All parts are sent; the copy is exact once the replica has applied the stream up to this record.
    End(Lsn),
    /// The copy cannot be made.
    Failed(String),
}

/// Starts a copy of all keys, or of those that are wanted. Their records must be selected from the stream likewise.
pub(in crate::tasks) fn start(
    server: &Arc<Server>,
    wanted: Option<Wanted>,
) -> Result<Receiver<Item>, LinkError> {
    start_with(server, move |server, items| walk(server, items, wanted))
}

/// Starts to send the present state of these keys, which the replica has named.
pub(super) fn start_keys(
    server: &Arc<Server>,
    names: Vec<u8>,
) -> Result<Receiver<Item>, LinkError> {
    start_with(server, move |server, items| send_keys(server, items, &names))
}

fn start_with(
    server: &Arc<Server>,
    work: impl FnOnce(&Server, &Sender<Item>) -> Result<(), Option<String>> + Send + 'static,
) -> Result<Receiver<Item>, LinkError> {
    let (items, receiver) = mpsc::channel(PARTS);
    let server = server.clone();
    let thread = spawn(THREAD, move || {
        if let Err(Some(why)) = work(&server, &items) {
            let _ = items.blocking_send(Item::Failed(why));
        }
    });
    thread.map_err(|why| LinkError::Peer(why.to_string()))?;
    Ok(receiver)
}

/// Walks the store. Fails without a reason if the link is gone.
fn walk(
    server: &Server,
    items: &Sender<Item>,
    wanted: Option<Wanted>,
) -> Result<(), Option<String>> {
    let mut session = begin(server);
    let after = {
        // The copy is taken for the stream in the epoch of its link. An epoch that is applied at a replica before the
        // copy begins has ended the link by the end of this lock. One that begins later is in the stream.
        let _applying = server.replication.lock_applying();
        position(&session)?
    };
    send(items, Item::Begin(after, server.store.len() as u64))?;
    let mut hot = hottest(&server.threads, clock::unix_ms(), HOTTEST_MAX, server.shows());
    // The walk begins in place 0.
    hot.retain(|hot| session.database_id_of(hot.database) == 0);
    let hot = hot.into_iter().map(|hot| hot.key).collect();
    let (mut walk, progress) = match wanted {
        Some(Wanted { is_wanted, progress }) => {
            (SnapshotWalk::of_some(hot, move |key| is_wanted(key)), Some(progress))
        }
        None => (SnapshotWalk::new(hot), None),
    };
    let mut parts = Parts::default();
    let mut pace = Pace::new();
    loop {
        if parts.block.is_empty() {
            parts.upto = position(&session)?;
        }
        let goes_on = walk.step(&mut session, &mut parts).map_err(|why| Some(why.to_string()))?;
        if let Some(progress) = &progress {
            progress.note_walk(walk.looked_at(), walk.met());
        }
        if !goes_on {
            parts.write_block().map_err(|why| Some(why.to_string()))?;
        }
        for (upto, part) in std::mem::take(&mut parts.full) {
            pace.keep(server, items, part.len())?;
            send(items, Item::Part(upto, part))?;
        }
        if !goes_on {
            break;
        }
    }
    end(&mut session, items)
}

/// A session for reading everything.
fn begin(server: &Server) -> Session {
    let mut session = server.store.session_named(THREAD);
    session.act(Origin { marks_accesses: false, ..Origin::default() });
    session
}

/// The record up to which everything is in the store.
fn position(session: &Session) -> Result<Lsn, Option<String>> {
    session.log_position().ok_or_else(|| Some("there is no log".to_string()))
}

/// Waits until all records of now are in the store. A replica logs records before it applies them, so the link may have
/// sent some that its keys do not show yet.
fn settle(server: &Server, session: &Session, items: &Sender<Item>) -> Result<(), Option<String>> {
    let last = server.persist.durability.stream().map_or(0, |log| log.handed());
    while position(session)? < last {
        if items.is_closed() {
            return Err(None);
        }
        std::thread::sleep(APPLY_PAUSE);
    }
    Ok(())
}

/// All is read.
fn end(session: &mut Session, items: &Sender<Item>) -> Result<(), Option<String>> {
    let end = session.log_end().ok_or_else(|| Some("writes are no longer logged".to_string()))?;
    send(items, Item::End(end))
}

/// Sends the present state of keys.
fn send_keys(server: &Server, items: &Sender<Item>, names: &[u8]) -> Result<(), Option<String>> {
    let keys = codec::keys_of(names).ok_or_else(|| Some("it names no keys".to_string()))?;
    let mut session = begin(server);
    settle(server, &session, items)?;
    let (mut pace, mut part, mut upto) = (Pace::new(), Vec::new(), 0);
    let mut keys = keys.into_iter().peekable();
    while let Some(key) = keys.next() {
        if part.is_empty() {
            upto = position(&session)?;
            part.push(ALL);
        }
        let packed = session.export([key]);
        part.extend(packed.map_err(|why| Some(SnapshotFailed::Damaged(why).to_string()))?);
        if part.len() >= PART_LEN || keys.peek().is_none() {
            pace.keep(server, items, part.len())?;
            send(items, Item::Part(upto, std::mem::take(&mut part)))?;
        }
    }
    end(&mut session, items)
}

fn send(items: &Sender<Item>, item: Item) -> Result<(), Option<String>> {
    items.blocking_send(item).map_err(|_| None)
}

/// Collects parts. The first byte of each is its class.
#[derive(Default)]
struct Parts {
    /// The record that was the last when the first key of the block was read.
    upto: Lsn,
    block: Vec<u8>,
    class: u8,
    database: u8,
    scratch: Records,
    full: Vec<(Lsn, Vec<u8>)>,
}

impl WalkSink for Parts {
    fn push(&mut self, effect: &Effect<'_>) {
        if self.block.is_empty() {
            self.block.push(self.class);
            if self.database != 0 {
                let database = Effect::Database { number: self.database };
                pack(&database, &mut self.scratch, &mut self.block);
            }
        }
        pack(effect, &mut self.scratch, &mut self.block);
    }

    fn is_full(&self) -> bool {
        self.block.len() >= PART_LEN
    }

    fn write_block(&mut self) -> io::Result<()> {
        if !self.block.is_empty() {
            self.full.push((self.upto, std::mem::take(&mut self.block)));
        }
        Ok(())
    }

    fn set_class(&mut self, class: u8) -> io::Result<()> {
        if class != self.class {
            self.write_block()?;
            self.class = class;
        }
        Ok(())
    }

    fn set_database(&mut self, number: u8) -> io::Result<()> {
        if number != self.database {
            self.write_block()?;
            self.database = number;
        }
        Ok(())
    }
}

/// Limits the rate of a copy. The setting may change meanwhile.
struct Pace {
    rate: usize,
    since: Instant,
    sent: u64,
}

impl Pace {
    fn new() -> Pace {
        Pace { rate: 0, since: clock::monotonic(), sent: 0 }
    }

    /// Rests until this many more bytes are allowed. Fails if the link is gone.
    fn keep(
        &mut self,
        server: &Server,
        items: &Sender<Item>,
        bytes: usize,
    ) -> Result<(), Option<String>> {
        loop {
            let rate = server.settings.config().replication.copy_rate;
            if rate != self.rate {
                *self = Pace { rate, ..Pace::new() };
            }
            let early = match rate {
                0 => Duration::ZERO,
                _ => Duration::from_secs_f64(self.sent as f64 / rate as f64)
                    .saturating_sub(self.since.elapsed()),
            };
            if items.is_closed() {
                return Err(None);
            }
            if early.is_zero() {
                self.sent += bytes as u64;
                return Ok(());
            }
            std::thread::sleep(early.min(SLEEP_MAX));
        }
    }
}

#[cfg(test)]
mod tests {
    use hotring_commands::settings::config::Config;
    use hotring_commands::state::server::Parts;
    use tokio::sync::mpsc::error::TryRecvError;

    use super::*;

    /// At a replica the record of an epoch used to be applied a moment before its machine knew of the epoch. A copy
    /// that began in between was taken for the stream before it, and the replica below repaired it or copied all again.
    #[test]
    fn a_copy_begins_before_an_epoch_or_after_it() {
        let server =
            Arc::new(Server::new(Parts::unconnected(Default::default(), Config::default())));
        let applying = server.replication.lock_applying();
        let mut items = start(&server, None).unwrap();
        std::thread::sleep(Duration::from_millis(100));
        assert!(matches!(items.try_recv(), Err(TryRecvError::Empty)), "an epoch may be beginning");
        drop(applying);
        assert!(items.blocking_recv().is_some());
    }
}
