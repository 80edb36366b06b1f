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
    /// A ring buffer. Its `len` entries from `first` on are in flight, in the order of their turns.
    entries: Box<[Option<Pending<Submitted<T>>>; IN_FLIGHT_MAX]>,
    first: usize,
    len: usize,
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
        let entries = Box::new([const { None }; IN_FLIGHT_MAX]);
        Self { session, entries, first: 0, len: 0, generation }
    }

    /// Starts an operation. If the queue is full, answers one of the operations in flight.
    #[inline(always)]
    pub fn submit(&mut self, op: LinesOp, token: T) -> Option<(T, LinesAnswer)> {
        self.follow_session();
        let answer = if self.len == IN_FLIGHT_MAX { self.complete_one() } else { None };
        let (shape, hash) = (self.session.shape, self.session.hash(op.key()));
        let submitted = Submitted { op, token };
        let lookup = match op {
            LinesOp::Get(_) => Pending::start(&shape, hash, submitted),
            _ => Pending::start_write(&shape, hash, submitted),
        };
        self.entries[(self.first + self.len) % IN_FLIGHT_MAX] = Some(lookup);
        self.len += 1;
        answer
    }

    /// Operations in flight.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing is in flight.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Answers one of the operations in flight.
    #[inline(always)]
    fn complete_one(&mut self) -> Option<(T, LinesAnswer)> {
        // As in `get`: the best form is compiled into the caller's code, the others are not.
        if self.session.form == Form::BEST {
            self.complete_one_by::<Best>()
        } else {
            self.complete_one_otherwise()
        }
    }

    #[inline(never)]
    fn complete_one_otherwise(&mut self) -> Option<(T, LinesAnswer)> {
        by_form!(self.session.form, S => self.complete_one_by::<S>())
    }

    /// Resumes entries in turn until one has its answer.
    #[inline(always)]
    fn complete_one_by<S: Search>(&mut self) -> Option<(T, LinesAnswer)> {
        while self.len > 0 {
            let at = self.first % IN_FLIGHT_MAX;
            self.first += 1;
            let entry =
                self.entries[at].as_mut().expect("`len` entries from `first` on are present");
            let op = entry.payload.op;
            let answer = if let LinesOp::Get(key) = op {
                let value = match entry.hit::<S>(&self.session.shape) {
                    Some(value) => Some(value),
                    None => match entry.next_line::<S>(&self.session.shape) {
                        Step::Done(value) => value,
                        Step::Fallback => self.settle::<S>(key),
                        Step::Continue => {
                            // To the end of the ring; if the ring is full, that is the same slot.
                            self.entries.swap(at, (self.first + self.len - 1) % IN_FLIGHT_MAX);
                            continue;
                        }
                    },
                };
                self.session.count_read(key);
                LinesAnswer::Value(value)
            } else {
                self.run(op)
            };
            self.len -= 1;
            return self.entries[at].take().map(|entry| (entry.payload.token, answer));
        }
        None
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
        let (session, entries) = (&self.session, &mut self.entries);
        self.generation = session.table().generation;
        for entry in entries.iter_mut() {
            let hash = |submitted: &Submitted<T>| session.hash(submitted.op.key());
            *entry = entry.take().map(|Pending { payload, .. }| {
                Pending::start(&session.shape, hash(&payload), payload)
            });
        }
    }
}

/// The answers of the operations in flight. More operations may be submitted after the end.
impl<T> Iterator for LinesQueue<T> {
    type Item = (T, LinesAnswer);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.follow_session();
        self.complete_one()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.len, Some(self.len))
    }
}
