//! A queue of operations in flight, which callers fill one by one.
//!
//! A batch loses time at its beginning and its end, where few lookups are in flight to share the wait for memory. A
//! queue stays full from one caller to the next. An operation pauses once its home line has been prefetched, and each
//! later call resumes operations in turn until one has its answer.
//!
//! Entries hold line numbers of the session's table. So the queue must own its session, and must restart all lookups
//! when the session has gone on to another table.

use super::lane::{Best, Form, Search, by_form};
use super::lookup::look_up;
use super::pipeline::{IN_FLIGHT_MAX, Pending, Step};
use super::session::LinesSession;

/// An operation on one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinesOp {
    /// [`LinesSession::get`].
    Get(u64),
    /// [`LinesSession::put`] of this value.
    Put(u64, u64),
    /// [`LinesSession::insert`] of this value.
    Insert(u64, u64),
    /// [`LinesSession::take`].
    Take(u64),
}

/// The answer of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinesAnswer {
    /// Of a lookup or a removal: the value of the key, if it was present.
    Value(Option<u64>),
    /// Of a put: whether the key was present. Of an insert: whether the value was stored, as the key was absent.
    Done(bool),
}

/// Up to 64 operations in flight, so that the lines they wait for are fetched in parallel: for callers that come one
/// by one, such as the connections of a server. One thread uses a queue.
///
/// Operations in flight are concurrent with each other: each takes effect at one moment between its submission and its
/// answer, in any order. An operation that must come after another must be submitted after the answer of the other.
/// Every operation is answered exactly once. Operations in flight when the queue is dropped get no answer, and their
/// writes are not made.
///
/// ```
/// # #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))] {
/// use hotring_index::{Lines, LinesAnswer, LinesConfig, LinesOp};
///
/// let lines = Lines::new(LinesConfig::default())?;
/// lines.session().put(7, 70);
///
/// // The second argument says whose operation it is. It comes back with the answer.
/// let mut queue = lines.queue();
/// assert_eq!(queue.submit(LinesOp::Get(7), "Ada"), None);
/// assert_eq!(queue.submit(LinesOp::Insert(8, 80), "Grace"), None);
///
/// // Nothing more to submit: the rest of the answers.
/// let mut answers: Vec<_> = queue.by_ref().collect();
/// answers.sort_by_key(|(caller, _)| *caller);
/// assert_eq!(
///     answers,
///     [("Ada", LinesAnswer::Value(Some(70))), ("Grace", LinesAnswer::Done(true))]
/// );
/// assert!(queue.is_empty());
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct LinesQueue<T> {
    session: LinesSession,
    /// The operations in flight, at most `IN_FLIGHT_MAX`.
    entries: Vec<Pending<Submitted<T>>>,
    /// The entry whose turn it is.
    turn: usize,
    /// The generation of the table that all entries refer to.
    generation: u64,
}

/// An operation, and the caller's token.
struct Submitted<T> {
    op: LinesOp,
    token: T,
}

impl LinesOp {
    fn key(self) -> u64 {
        let (Self::Get(key) | Self::Put(key, _) | Self::Insert(key, _) | Self::Take(key)) = self;
        key
    }
}

impl<T> LinesQueue<T> {
    pub(super) fn new(session: LinesSession) -> Self {
        let generation = session.table().generation;
        Self { session, entries: Vec::with_capacity(IN_FLIGHT_MAX), turn: 0, generation }
    }

    /// Starts an operation. If the queue is full, answers one of the operations in flight.
    #[inline(always)]
    pub fn submit(&mut self, op: LinesOp, token: T) -> Option<(T, LinesAnswer)> {
        if self.entries.len() < IN_FLIGHT_MAX {
            self.entries.push(start(&self.session, op, token));
            return None;
        }
        let answer = self.complete_one();
        let started = start(&self.session, op, token);
        let ended = std::mem::replace(&mut self.entries[self.turn], started);
        self.pass_turn();
        Some((ended.payload.token, answer))
    }

    /// Operations in flight.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing is in flight.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Passes the turn to the next entry.
    #[inline(always)]
    fn pass_turn(&mut self) {
        self.turn += 1;
        if self.turn >= self.entries.len() {
            self.turn = 0;
        }
    }

    /// Resumes operations until one has its answer. Its entry then is the one whose turn it is, and must be removed.
    /// There must be an operation in flight.
    #[inline(always)]
    fn complete_one(&mut self) -> LinesAnswer {
        // As in `get`: the best form is compiled into the caller's code, the others are not.
        let answer = if self.session.form == Form::BEST {
            self.complete_one_by::<Best>()
        } else {
            self.complete_one_otherwise()
        };
        self.follow_session();
        answer
    }

    #[cold]
    #[inline(never)]
    fn complete_one_otherwise(&mut self) -> LinesAnswer {
        by_form!(self.session.form, S => self.complete_one_by::<S>())
    }

    #[inline(always)]
    fn complete_one_by<S: Search>(&mut self) -> LinesAnswer {
        loop {
            let entry = &mut self.entries[self.turn];
            let op = entry.payload.op;
            let LinesOp::Get(key) = op else { return self.run(op) };
            let shape = &self.session.shape;
            let value = match entry.look::<S>(shape) {
                Ok(value) => Some(value),
                Err(control) => match entry.next_line(shape, control) {
                    Step::Miss => None,
                    Step::Fallback => self.settle::<S>(key),
                    Step::Continue => {
                        self.pass_turn();
                        continue;
                    }
                },
            };
            self.session.count_read(key);
            return LinesAnswer::Value(value);
        }
    }

    /// Runs an operation whose home line has been prefetched.
    fn run(&mut self, op: LinesOp) -> LinesAnswer {
        match op {
            LinesOp::Get(key) => LinesAnswer::Value(self.session.get(key)),
            LinesOp::Put(key, value) => LinesAnswer::Done(self.session.put(key, value)),
            LinesOp::Insert(key, value) => LinesAnswer::Done(self.session.insert(key, value)),
            LinesOp::Take(key) => LinesAnswer::Value(self.session.take(key)),
        }
    }

    /// Answers a lookup by the plain path.
    #[cold]
    #[inline(never)]
    fn settle<S: Search>(&self, key: u64) -> Option<u64> {
        look_up::<S>(self.session.table(), self.session.hash(key))
    }

    /// Restarts all lookups if the session has gone on to another table, in a write or here.
    #[inline(always)]
    fn follow_session(&mut self) {
        self.session.switch_table_if_left();
        if self.session.table().generation != self.generation {
            self.restart();
        }
    }

    #[cold]
    #[inline(never)]
    fn restart(&mut self) {
        self.generation = self.session.table().generation;
        self.entries = std::mem::take(&mut self.entries)
            .into_iter()
            .map(|Pending { payload: Submitted { op, token }, .. }| start(&self.session, op, token))
            .collect();
    }
}

/// Prefetches the home line of an operation's key.
#[inline(always)]
fn start<T>(session: &LinesSession, op: LinesOp, token: T) -> Pending<Submitted<T>> {
    let (shape, hash) = (&session.shape, session.hash(op.key()));
    let submitted = Submitted { op, token };
    match op {
        LinesOp::Get(_) => Pending::start(shape, hash, submitted),
        _ => Pending::start_write(shape, hash, submitted),
    }
}

/// The answers of the operations in flight. More operations may be submitted after the end.
impl<T> Iterator for LinesQueue<T> {
    type Item = (T, LinesAnswer);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.entries.is_empty() {
            return None;
        }
        let answer = self.complete_one();
        let ended = self.entries.swap_remove(self.turn);
        self.pass_turn();
        Some((ended.payload.token, answer))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.len(), Some(self.len()))
    }
}
