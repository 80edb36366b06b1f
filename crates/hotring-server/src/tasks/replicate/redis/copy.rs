//! Receives a full copy: an RDB file that streams straight into the store. One thread reads it, others store the keys;
//! neither the file nor the keys are ever held as a whole.
//!
//! The data is emptied only once the header of the file has arrived. From then on until the end of the file it is
//! unfinished: clients are answered `-LOADING`.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use hotring_commands::exec::follow::Refused;
use hotring_commands::host::clock;
use hotring_commands::rdb::file::{Found, Reader};
use hotring_commands::rdb::{Item, ReadError, shown};
use hotring_commands::settings::config::Unknown;
use hotring_commands::state::replication::link::Copied;
use hotring_commands::state::server::Server;
use hotring_log::{Log, mark_copy, unmark_copy};
use hotring_store::{Session, StoreError};

use super::queue::{Closes, Fails, Piece, Queue};
use super::wire::{Ended, Wire};

/// Keys that are handed over together, and their bytes unless a single one is longer.
const PIECE: usize = 256;
const PIECE_LEN: usize = 1 << 20;
/// Most threads that store keys.
const THREADS_MAX: usize = 4;
/// Time between two signs of life to the primary, and between two lines about the progress.
const LIFE: Duration = Duration::from_secs(1);
const PROGRESS: Duration = Duration::from_secs(5);
/// Time between two looks at this server's own log, for space in its queue or for the end of a sync.
const LOG_PAUSE: Duration = Duration::from_millis(1);
/// Length of the mark behind a file of unknown length.
const MARK_LEN: usize = 40;

/// The mark of the end of the file.
enum Form {
    Length(u64),
    /// These bytes follow the file.
    Mark(String),
}

/// Receives a full copy in place of all data.
pub(super) fn copy(server: &Arc<Server>, wire: &mut Wire<'_>) -> Result<(), Ended> {
    let head = wire.line()?;
    let malformed = || Ended::Lost(format!("not the head of a full copy: {}", head.escape_debug()));
    let form = match head.strip_prefix('$').ok_or_else(malformed)?.split_once(':') {
        Some(("EOF", mark)) if mark.len() == MARK_LEN => Form::Mark(mark.to_string()),
        _ => Form::Length(head[1..].parse().map_err(|_| malformed())?),
    };
    let link = &server.replication.redis;
    // ORDERING: Relaxed here and below, figures.
    link.copy_len.store(if let Form::Length(len) = form { len } else { 0 }, Relaxed);
    link.copy_keys.store(0, Relaxed);
    let begun = clock::monotonic();
    let mut input = Input {
        wire,
        server,
        left: if let Form::Length(len) = form { len } else { u64::MAX },
        read: 0,
        ended: None,
        alive: begun,
        told: begun,
    };
    let read = read(server, &mut input, matches!(form, Form::Length(_)));
    if let Some(ended) = input.ended.take() {
        return Err(ended);
    }
    read?;
    if let Form::Mark(mark) = form {
        let mut found = [0; MARK_LEN];
        input.read_exact(&mut found).map_err(|error| input.ended.take().unwrap_or(error.into()))?;
        if found != mark.as_bytes() {
            return Err(Ended::Lost("the full copy does not end with its mark".into()));
        }
    }
    input.show();
    let (keys, bytes) = (link.copy_keys.load(Relaxed), input.read);
    let seconds = begun.elapsed().as_secs_f64();
    tracing::info!(keys, bytes, seconds, "the full copy of the primary is complete");
    Ok(())
}

fn read(server: &Arc<Server>, input: &mut Input<'_, '_>, has_length: bool) -> Result<(), Ended> {
    let mut reader = Reader::new(input, None).map_err(damaged)?;
    begin(server)?;
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
    let queue = Queue::default();
    let read = std::thread::scope(|scope| {
        let _closes = Closes(&queue);
        for _ in 0..threads {
            scope.spawn(|| {
                let _fails = Fails(&queue);
                if let Err(ended) = store_all(server, &queue) {
                    queue.fail(ended);
                }
            });
        }
        hand_out(server, &mut reader, &queue)
    });
    if let Some(ended) = queue.take_failure() {
        return Err(ended);
    }
    read?;
    if has_length { reader.check_end().map_err(damaged) } else { Ok(()) }
}

/// Notes durably that the data is not whole, shows clients that it loads, and empties the store.
fn begin(server: &Server) -> Result<(), Ended> {
    // A cut that a link to another primary has requested would remove what is logged from here on.
    if let Some(log) = server.persist.durability.stream() {
        wait_for_log(server, log, || !log.is_restarting(), &mut || Ok(()))?;
    }
    // A promotion comes before the data is dropped, or it is refused.
    let _applying = server.replication.lock_applying();
    if !server.replication.is_replica() {
        return Err(Ended::Asked);
    }
    if let Some(files) = server.persist.durability.snapshots() {
        mark_copy(&*files.storage)?;
    }
    server.persist.loading.begin_copy();
    server.settings.renew();
    if let Some(log) = server.persist.durability.stream() {
        server.replication.leave_stream(log);
    }
    session(server).clear_all();
    Ok(())
}

/// Waits until the own log has come so far. `live` is called meanwhile.
fn wait_for_log(
    server: &Server,
    log: &Log,
    has_come: impl Fn() -> bool,
    live: &mut dyn FnMut() -> Result<(), Ended>,
) -> Result<(), Ended> {
    while !has_come() {
        if let Some(error) = log.error() {
            return Err(Ended::Lost(format!("the own log fails: {error}")));
        }
        if server.process.is_stopping() {
            return Err(Ended::Asked);
        }
        live()?;
        std::thread::sleep(LOG_PAUSE);
    }
    Ok(())
}

/// Makes the copy durable, and shows clients that the data is complete. `live` is called meanwhile.
pub(super) fn finish(
    server: &Server,
    live: &mut dyn FnMut() -> Result<(), Ended>,
) -> Result<(), Ended> {
    let durability = &server.persist.durability;
    if let (Some(files), Some(log)) = (durability.snapshots(), durability.stream()) {
        let last = log.handed();
        log.sync_soon();
        wait_for_log(server, log, || log.synced() >= last, live)?;
        unmark_copy(&*files.storage)?;
    }
    server.persist.loading.end_copy();
    server.settings.renew();
    server.tasks.expirer.wake();
    Ok(())
}

/// A session that may write on behalf of the primary.
fn session(server: &Server) -> Session {
    let mut session = server.store.session();
    session.follow_foreign();
    session
}

fn damaged(error: ReadError) -> Ended {
    Ended::Lost(format!("the full copy is damaged: {error}"))
}

/// Reads keys and hands them to the threads, until all are stored or a thread has failed.
fn hand_out(
    server: &Server,
    reader: &mut Reader<&mut Input<'_, '_>>,
    queue: &Queue,
) -> Result<(), Ended> {
    let mut piece = Piece::default();
    let send = |piece: &mut Piece, reader: &mut Reader<&mut Input<'_, '_>>| {
        server.replication.redis.copy_keys.fetch_add(piece.items.len() as u64, Relaxed);
        queue.push(std::mem::take(piece), &mut || reader.input().live())
    };
    let databases = server.settings.config().databases;
    while let Some(found) = reader.read().map_err(damaged)? {
        match found {
            Found::Item(item) if usize::from(item.database) >= databases => {
                pass_over(server, &format!("database {}", item.database), &item.key)?;
            }
            Found::Item(item) => {
                piece.len += item.len();
                piece.items.push(item);
                let is_full = piece.items.len() >= PIECE || piece.len >= PIECE_LEN;
                if is_full && !send(&mut piece, reader)? {
                    return Ok(());
                }
            }
            Found::Unknown { key, name, .. } => pass_over(server, &name, &key)?,
            Found::Part(name) => pass_over(server, name, b"")?,
        }
    }
    send(&mut piece, reader)?;
    queue.finish(&mut || reader.input().live()).map(drop)
}

/// Stores keys as they come.
fn store_all(server: &Server, queue: &Queue) -> Result<(), Ended> {
    let mut session = session(server);
    while let Some(Piece { items, len }) = queue.take() {
        while server.persist.durability.is_full() && !server.process.is_stopping() {
            std::thread::sleep(LOG_PAUSE);
        }
        if !server.replication.is_replica() {
            return Err(Ended::Asked);
        }
        items.into_iter().try_for_each(|item| store(server, &mut session, item))?;
        queue.stored(len);
        session.collect();
    }
    Ok(())
}

fn store(server: &Server, session: &mut Session, item: Item) -> Result<(), Ended> {
    session.select(item.database);
    let (key, content) = (item.key, item.value.into_content());
    // At time 0 no key has expired: the primary removes expired keys.
    match session.put_content(&key, content, item.expire_at, true, 0) {
        Ok(_) => Ok(()),
        Err(StoreError::ValueTooLong { .. }) => {
            pass_over(server, "a value beyond proto-max-bulk-len", &key)
        }
        Err(StoreError::KeyTooLong { .. }) => pass_over(server, "a key beyond max-key-len", &key),
        Err(error) => Err(Ended::Lost(format!("cannot store {}: {error}", shown(&key)))),
    }
}

/// Counts a key or part that this server cannot have.
fn pass_over(server: &Server, kind: &str, key: &[u8]) -> Result<(), Ended> {
    server.replication.redis.count_unknown(kind);
    match server.settings.config().replication.unknown {
        Unknown::Skip => Ok(()),
        Unknown::Stop => {
            let of_key = if key.is_empty() { "" } else { ", the key " };
            let what = format!("{kind}{of_key}{}", shown(key));
            Err(Ended::Refused(Refused { what, is_lasting: true, is_torn: true }))
        }
    }
}

/// The bytes of the file as they arrive.
struct Input<'a, 'w> {
    wire: &'a mut Wire<'w>,
    server: &'a Server,
    /// Bytes of the file that are to come, and those that have been read.
    left: u64,
    read: u64,
    /// The reason why the link ended, if reading failed.
    ended: Option<Ended>,
    /// The times of the last sign of life to the primary, and of the last line about the progress.
    alive: Instant,
    told: Instant,
}

impl Input<'_, '_> {
    /// Tells the primary now and then that this server is alive. Fails if the link must end.
    fn live(&mut self) -> Result<(), Ended> {
        if self.alive.elapsed() >= LIFE {
            self.alive = clock::monotonic();
            self.wire.write(b"\n")?;
        }
        self.wire.check_asked()
    }

    /// Waits for bytes. In the meantime, and while many come, the primary hears that this server is alive.
    fn wait(&mut self) -> Result<(), Ended> {
        while self.wire.unread().is_empty() {
            self.wire.receive()?;
            self.live()?;
        }
        self.server.replication.update_link(|link| link.hear());
        self.show();
        if self.told.elapsed() >= PROGRESS {
            self.told = clock::monotonic();
            let keys = self.server.replication.redis.copy_keys.load(Relaxed);
            let of = self.server.replication.redis.copy_len.load(Relaxed);
            tracing::info!(keys, bytes = self.read, of, "receiving a full copy of the primary");
        }
        Ok(())
    }

    /// Publishes the progress.
    fn show(&self) {
        let redis = &self.server.replication.redis;
        let (bytes_total, keys) = (redis.copy_len.load(Relaxed), redis.copy_keys.load(Relaxed));
        let copied = Copied { bytes: self.read, bytes_total, keys, keys_total: 0 };
        self.server.replication.update_link(|link| link.copy(copied));
    }
}

impl Read for Input<'_, '_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 || out.is_empty() {
            return Ok(0);
        }
        if self.wire.unread().is_empty()
            && let Err(ended) = self.wait()
        {
            self.ended = Some(ended);
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        let unread = self.wire.unread();
        let len = out.len().min(unread.len()).min(usize::try_from(self.left).unwrap_or(usize::MAX));
        out[..len].copy_from_slice(&unread[..len]);
        self.wire.consume(len);
        self.left -= len as u64;
        self.read += len as u64;
        Ok(len)
    }
}
