//! Replays the log: one thread reads and checks it, workers apply it. Each worker gets all records
//! of its share of the keys, in order.

use std::error::Error;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Instant;

use hotring_log::{
    Effect, Records, RecoverError, Recovered, Snapshot, Storage, pack, recover_behind, unpack,
};
use hotring_store::{KeyFates, Session, UnknownForm};

use super::PROGRESS_INTERVAL;
use hotring_commands::host::clock;
use hotring_commands::state::server::Server;

/// Bytes per piece handed to a worker, and the most pieces in a worker's queue.
const PIECE_LEN: usize = 64 << 10;
const PIECES: usize = 4;

/// Records between two checks of the clock for the progress report.
const LOOK_RECORDS: u64 = 1 << 14;

/// Work for a worker.
enum Piece {
    Effects(Vec<u8>),
    /// Removes all keys of the database at this place. Acknowledged once all earlier pieces are applied.
    Clear(u8, SyncSender<()>),
}

/// The state of the log, and the keys that each worker must skip in the rest of the snapshot.
pub(super) type Replayed = (Recovered, Vec<KeyFates>);

/// Replays the log behind a snapshot whose rest is not read yet. Returns the keys that each worker must
/// skip in the rest; None if the server stops meanwhile.
pub(super) fn replay(
    server: &Server,
    disk: &dyn Storage,
    snapshot: Option<&Snapshot>,
) -> Result<Option<Replayed>, Box<dyn Error>> {
    let started = clock::monotonic();
    let parts = std::thread::available_parallelism().map_or(1, usize::from);
    let (recovered, done) = std::thread::scope(|scope| {
        let mut workers = Vec::new();
        let mut pieces = Vec::new();
        for _ in 0..parts {
            let (sender, receiver) = sync_channel(PIECES);
            pieces.push(sender);
            let session = server.store.session();
            workers.push(scope.spawn(move || work(session, &receiver, snapshot.is_some())));
        }
        let recovered = Reader::new(server, pieces, started).run(disk, snapshot);
        let done: Vec<_> =
            workers.into_iter().map(|worker| worker.join().expect("replaying panicked")).collect();
        (recovered, done)
    });
    let fates = done.into_iter().collect::<Result<Vec<_>, _>>()?;
    let recovered = match recovered {
        Err(RecoverError::Stopped) => return Ok(None),
        recovered => recovered?,
    };
    tracing::info!(
        records = recovered.records,
        bytes = recovered.bytes,
        keys = server.store.len(),
        seconds = started.elapsed().as_secs_f64(),
        "the log is read"
    );
    Ok(Some((recovered, fates)))
}

/// Applies the pieces of one worker.
fn work(
    mut session: Session,
    pieces: &Receiver<Piece>,
    has_rest: bool,
) -> Result<KeyFates, UnknownForm> {
    let (mut fates, mut unknown, now) = (KeyFates::new(has_rest), None, clock::unix_ms());
    for piece in pieces {
        match piece {
            Piece::Effects(packed) => {
                let known = unpack(&packed, &mut |effects| {
                    if let Err(form) = session.replay_before_rest(effects, now, &mut fates) {
                        unknown.get_or_insert(form);
                    }
                });
                debug_assert!(known.is_some(), "it was packed by this process");
            }
            Piece::Clear(place, done) => {
                fates.clear(place);
                // The reader waits for it unless it has panicked.
                let _ = done.send(());
            }
        }
    }
    unknown.map_or(Ok(fates), Err)
}

/// Reads the log and distributes its records.
struct Reader<'a> {
    server: &'a Server,
    session: Session,
    /// For each worker its channel, and the bytes of the next piece.
    parts: Vec<(SyncSender<Piece>, Vec<u8>)>,
    /// The place of the current record's database, and of the last one in each worker's pieces.
    place: u8,
    places: Vec<u8>,
    scratch: Records,
    reported: Instant,
    /// The server is stopping. Checked with each piece.
    stops: bool,
}

impl<'a> Reader<'a> {
    fn new(server: &'a Server, pieces: Vec<SyncSender<Piece>>, started: Instant) -> Self {
        let places = vec![0; pieces.len()];
        let parts: Vec<_> = pieces.into_iter().map(|sender| (sender, Vec::new())).collect();
        let (session, scratch) = (server.store.session(), Records::new());
        let (place, reported, stops) = (0, started, false);
        Reader { server, session, parts, place, places, scratch, reported, stops }
    }

    fn run(
        mut self,
        disk: &dyn Storage,
        snapshot: Option<&Snapshot>,
    ) -> Result<Recovered, RecoverError> {
        let (after, end) = snapshot.map_or((0, 0), |s| (s.after(), s.end()));
        let id = snapshot.map(Snapshot::id);
        let recovered = recover_behind(disk, id, (after + 1, end), &mut |lsn, effects| {
            self.place = 0;
            effects.iter().for_each(|effect| self.hand_out(effect));
            // ORDERING: Relaxed, a figure.
            self.server.persist.loading.records.store(lsn - after, Ordering::Relaxed);
            if lsn.is_multiple_of(LOOK_RECORDS) && self.reported.elapsed() >= PROGRESS_INTERVAL {
                self.reported = clock::monotonic();
                let keys = self.server.store.len();
                tracing::info!(records = lsn - after, keys, "reading the log");
            }
            if self.stops { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        (0..self.parts.len()).for_each(|part| self.send(part));
        Ok(recovered)
    }

    fn hand_out(&mut self, effect: &Effect<'_>) {
        let key = match *effect {
            Effect::Put { key, .. }
            | Effect::Remove { key }
            | Effect::Expire { key, .. }
            | Effect::Change { key, .. }
            | Effect::Pin { key }
            | Effect::Unpin { key } => key,
            Effect::Clear => return self.clear(),
            Effect::Database { number } => return self.place = number,
            Effect::Order { .. } => {
                // An order maps numbers to databases and touches no key: the reader applies it.
                return self.session.replay(effect, 0).expect("it has no value");
            }
            Effect::Epochs { history } => return self.server.replication.recovered(history),
            Effect::Durable { .. } => return,
        };
        let part = self.session.part(key, self.parts.len());
        let packed = &mut self.parts[part].1;
        if std::mem::replace(&mut self.places[part], self.place) != self.place {
            let number = self.place;
            pack(&Effect::Database { number }, &mut self.scratch, packed);
        }
        pack(effect, &mut self.scratch, packed);
        if packed.len() >= PIECE_LEN {
            self.send(part);
        }
    }

    fn send(&mut self, part: usize) {
        let (sender, packed) = &mut self.parts[part];
        let piece = std::mem::replace(packed, Vec::with_capacity(PIECE_LEN + PIECE_LEN / 4));
        // A worker ends early only by a panic, which joining it reports.
        let _ = sender.send(Piece::Effects(piece));
        self.stops = self.server.process.is_stopping();
    }

    /// Removes all keys of the current database. All workers apply their earlier pieces first.
    fn clear(&mut self) {
        (0..self.parts.len()).for_each(|part| self.send(part));
        let (done, all_done) = sync_channel(self.parts.len());
        for (sender, _) in &self.parts {
            let _ = sender.send(Piece::Clear(self.place, done.clone()));
        }
        drop(done);
        all_done.iter().for_each(|()| ());
        self.session.within(self.place, Session::clear);
    }
}
