//! Applies the stream of another store's records while readers go on: what makes a store a replica
//! ([`Role::Replica`](crate::Role)).
//!
//! # Picture
//! ```text
//!   group of whole batches --> Applier --> own log, with the same numbers
//!                                 |
//!                 by hash of the key, in the order of the stream
//!                    v            v            v
//!                 lane 0       lane 1       lane 2        a Worker each, on a thread of the caller
//!                    |            |            |
//!                    +------------+------------+--> position: all records up to it are applied
//! ```
//! Without workers the applier applies all records by itself.
//!
//! # What readers see
//! * Each key's records are applied by one lane, in their order: a reader of one key never sees an older value after a
//!   newer one.
//! * A batch of several records is applied while the session holds all of its keys, as `EXEC` does at the primary: a
//!   reader sees all of it or nothing. If its keys are in several lanes, these lanes meet at the batch
//!   ([`lanes::Meeting`]): each has applied everything before it, and goes on after it.
//! * Records of different keys may be seen in another order than at the primary, unless they are of one batch.
//!
//! # Positions
//! A record is in the own log before it is applied. [`Store::applied`](crate::Store::applied) is the last record up to
//! which every lane has applied all, and the only position that may be acknowledged.

mod batch;
mod keys;
mod lanes;

use std::fmt;
use std::sync::Arc;

use hotring_log::{Batch, Effect, Lsn, NoRun, Records, Run, unpack};

use crate::logged::UnknownForm;
use crate::session::Session;
use crate::store::Store;
use batch::Pending;
use lanes::{Lanes, Span};

pub use keys::TailKeys;
pub use lanes::Worker;

/// Takes the groups of a stream in order and applies them, by itself or through its [`Worker`]s.
pub struct Applier {
    session: Session,
    lanes: Arc<Lanes>,
    /// The last record that was taken.
    taken: Lsn,
    /// Buffer for records on their way to the own log.
    records: Records,
    /// For each lane the records of the present group that were not sent yet.
    spans: Vec<Vec<Span>>,
}

/// Why records were not applied. The applier must not go on: the store needs another copy of its primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApplyError {
    /// The bytes are no records that follow the last ones. Nothing of the group was applied.
    Stream(NoRun),
    /// A value has a form that is unknown to this version.
    Form(UnknownForm),
    /// The own log does not take the records: it has failed, or does not end with the record before them.
    Log,
    /// A worker has ended before its time.
    Worker,
}

impl fmt::Display for ApplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ApplyError::Stream(cause) => cause.fmt(f),
            ApplyError::Form(cause) => cause.fmt(f),
            ApplyError::Log => f.write_str("the own log does not take the records"),
            ApplyError::Worker => f.write_str("a thread that applies records has ended"),
        }
    }
}

impl std::error::Error for ApplyError {}

impl From<UnknownForm> for ApplyError {
    fn from(cause: UnknownForm) -> ApplyError {
        ApplyError::Form(cause)
    }
}

impl Applier {
    /// An applier for records behind `last`, and this number of workers, which must [run](Worker::run) on threads of
    /// their own. One core applies more than a million small records a second without any.
    ///
    /// There must be no other applier, and the store must be a replica
    /// ([`Session::switch_role`](crate::Session::switch_role)).
    pub fn new(store: &Store, last: Lsn, workers: usize) -> (Applier, Vec<Worker>) {
        let session = |name: &str| {
            let mut session = store.session_named(name);
            session.applies = true;
            session
        };
        let lanes = Arc::new(Lanes::new(store.logged.clone(), workers));
        lanes.begin_at(last);
        let workers: Vec<_> = (0..workers)
            .map(|lane| Worker::new(session(&format!("apply-{lane}")), lanes.clone(), lane))
            .collect();
        let spans = workers.iter().map(|_| Vec::new()).collect();
        let records = Records::new();
        (Applier { session: session("apply"), lanes, taken: last, records, spans }, workers)
    }

    /// The session that applies records if there are no workers, and those of whole stores: for its
    /// [`Origin`](crate::Origin) and [`Effects`](crate::Effects).
    pub fn session(&mut self) -> &mut Session {
        &mut self.session
    }

    /// The last record that was taken. It may not be applied yet: [`Store::applied`](crate::Store::applied).
    pub fn taken(&self) -> Lsn {
        self.taken
    }

    /// Takes a group of whole batches, as they are in the primary's log: adds it to the own log, if writes are logged,
    /// and applies it. Batches that were taken before are left out. Waits while the workers have much to do. Returns
    /// the number of the last record.
    ///
    /// # Errors
    /// Nothing more may be applied after an error.
    pub fn apply(&mut self, group: &Arc<Vec<u8>>, now: u64) -> Result<Lsn, ApplyError> {
        let run = Run::behind(self.taken, group).map_err(ApplyError::Stream)?;
        if run.is_empty() {
            return Ok(self.taken);
        }
        self.log(&run)?;
        match self.spans.is_empty() {
            true => {
                self.apply_here(&run, now)?;
                self.lanes.pass(run.last());
            }
            false => {
                self.hand_out(group, &run, now);
                self.lanes.check()?;
            }
        }
        self.taken = run.last();
        Ok(self.taken)
    }

    /// Applies a part of a copy of the primary's store: packed effects ([`hotring_log::pack`]), as a snapshot's block
    /// has them. They may be older or newer than the records taken before, but not than those that follow, up to the
    /// position that the primary has noted before it read them.
    ///
    /// # Errors
    /// Those of [`apply`](Self::apply).
    pub fn copy(&mut self, packed: &[u8], now: u64) -> Result<(), ApplyError> {
        self.settle()?;
        self.session.go_to(0);
        replay_packed(&mut self.session, packed, now)
    }

    /// Waits until all records that were taken are applied.
    ///
    /// # Errors
    /// Those of [`apply`](Self::apply).
    pub fn settle(&mut self) -> Result<(), ApplyError> {
        self.lanes.settle();
        self.lanes.check()
    }

    /// Expects records behind another one from now on: after a copy.
    ///
    /// # Errors
    /// Those of [`apply`](Self::apply).
    pub fn begin_at(&mut self, last: Lsn) -> Result<(), ApplyError> {
        self.settle()?;
        self.lanes.begin_at(last);
        self.taken = last;
        Ok(())
    }

    /// Adds a run to the own log.
    fn log(&mut self, run: &Run<'_>) -> Result<(), ApplyError> {
        if !self.session.logged.is_on() {
            return Ok(());
        }
        let Some(log) = self.session.logged.log() else { return Ok(()) };
        if log.handed() != self.taken {
            return Err(ApplyError::Log);
        }
        self.records.push_run(run);
        match log.append(&mut self.records) == run.last() {
            true => Ok(()),
            false => Err(ApplyError::Log),
        }
    }

    /// Applies a run on this thread.
    fn apply_here(&mut self, run: &Run<'_>, now: u64) -> Result<(), UnknownForm> {
        let session = &mut self.session;
        let mut done = Ok(());
        let mut queue = Pending::new();
        run.batches(|_, effects| {
            if done.is_ok() {
                done = queue.add(effects, session, now);
            }
        });
        done?;
        queue.flush(session, now)
    }

    /// Hands a run out to the workers.
    fn hand_out(&mut self, group: &Arc<Vec<u8>>, run: &Run<'_>, now: u64) {
        // The run is the end of the group.
        let base = group.len() - run.bytes().len();
        let (mut wanted, lanes) = (Vec::new(), self.spans.len());
        run.batches(|Batch { first, last, lsn }, effects| {
            if let Some((database_id, effect)) = single(effects)
                && let Some(key) = effect.key()
            {
                let lane = self.session.part(key, lanes);
                self.spans[lane].push(Span::single(base + last, database_id, lsn));
                return;
            }
            wanted.clear();
            wanted.resize(lanes, false);
            for effect in effects {
                match (effect, effect.key()) {
                    (_, Some(key)) => wanted[self.session.part(key, lanes)] = true,
                    (Effect::Clear | Effect::Order { .. }, None) => wanted.fill(true),
                    (_, None) => {}
                }
            }
            let span = Span::batch(base + first, lsn);
            match wanted.iter().filter(|wanted| **wanted).count() {
                0 => {}
                1 => {
                    let lane = wanted.iter().position(|wanted| *wanted).unwrap_or_default();
                    self.spans[lane].push(span);
                }
                count => {
                    for lane in (0..lanes).filter(|lane| wanted[*lane]) {
                        self.lanes.send(lane, group, &mut self.spans[lane], now);
                    }
                    let len = effects.iter().map(len_of).sum();
                    self.lanes.meet(&wanted, count, group, (span, len), now);
                }
            }
        });
        for (lane, spans) in self.spans.iter_mut().enumerate() {
            self.lanes.send(lane, group, spans, now);
        }
        self.lanes.sent_all(run.last());
    }
}

/// The database and the effect of a batch that changes one key by one record.
fn single<'a>(effects: &[Effect<'a>]) -> Option<(u8, Effect<'a>)> {
    let (database_id, effect) = match *effects {
        [effect] => (0, effect),
        [Effect::Database { number }, effect] => (number, effect),
        _ => return None,
    };
    effect.key().map(|_| (database_id, effect))
}

/// Bytes of an effect, about.
fn len_of(effect: &Effect<'_>) -> usize {
    let content = match effect {
        Effect::Put { value, .. } => value.len(),
        Effect::Change { change, .. } => change.len(),
        _ => 0,
    };
    effect.key().map_or(0, <[u8]>::len) + content
}

/// Replays packed effects.
fn replay_packed(session: &mut Session, packed: &[u8], now: u64) -> Result<(), ApplyError> {
    let mut done = Ok(());
    let unpacked = unpack(packed, &mut |effects| {
        if done.is_ok() {
            done = session.replay_singles(effects, now);
        }
    });
    match unpacked {
        Some(_) => Ok(done?),
        None => Err(ApplyError::Stream(NoRun::Torn)),
    }
}

impl Drop for Applier {
    fn drop(&mut self) {
        // What was taken is in the own log. Once this is over, the store may become a primary.
        self.lanes.settle();
        self.lanes.close();
    }
}
