//! The part of a connection's state that any thread may read, and the signals by which threads notify the connection's
//! task.

use std::borrow::Cow;
use std::sync::atomic::{
    AtomicBool, AtomicI64, AtomicU8, AtomicU16, AtomicU64, AtomicUsize, Ordering,
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};

use hotring_store::KeyState;

use super::inbox::{Inbox, Inboxes};
use crate::state::tracking;
use crate::table::CommandId;

/// The way in which CLIENT UNBLOCK has ended a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unblocked {
    /// As if the time limit had passed.
    TimedOut,
    /// With an error.
    Failed,
    /// With an error, because the server has become a replica.
    Demoted,
    /// With the error that sends it elsewhere, because the slot is another shard's now.
    Moved,
}

/// Values of [`ClientShared::waiting`]. `RUNS`: no wait. `WAITS`: a wait for a key. `TIMED_OUT`, `FAILED`, `DEMOTED`
/// and `MOVED`: a wait that has been ended, which the connection's own thread has not noticed yet. `PAUSED`: any other
/// wait, such as for the end of a pause.
pub(super) const RUNS: u8 = 0;
pub(super) const WAITS: u8 = 1;
const TIMED_OUT: u8 = 2;
const FAILED: u8 = 3;
pub(super) const PAUSED: u8 = 4;
/// `CLAIMED`: a session has an element for the client, and the reply is on its way. `ENDED`: the connection's own
/// thread has ended the wait.
const CLAIMED: u8 = 5;
const ENDED: u8 = 6;
const DEMOTED: u8 = 7;
const MOVED: u8 = 8;

/// The names of a client. Strings are boxed, here and below, because there may be many thousands of clients.
#[derive(Clone, Debug)]
pub struct Labels {
    /// The user.
    pub user: Cow<'static, str>,
    /// CLIENT SETNAME.
    pub name: Box<str>,
    /// CLIENT SETINFO LIB-NAME.
    pub lib_name: Box<str>,
    /// CLIENT SETINFO LIB-VER.
    pub lib_ver: Box<str>,
}

/// The part of a connection that any thread may read.
#[derive(Debug)]
pub struct ClientShared {
    /// The ID, from 1, unique in the process.
    pub id: u64,
    /// The address of the client.
    pub peer: Box<str>,
    /// The local address.
    pub local: Box<str>,
    /// The index of the thread that serves it.
    pub thread: usize,
    /// Unix milliseconds of the accept.
    pub connected_at: u64,
    /// Unix milliseconds of the last bytes received.
    pub active_at: AtomicU64,
    /// The last command, as [`CommandId`]'s number plus one; 0 before the first.
    pub last_command: AtomicU16,
    /// The selected database.
    pub database: AtomicU8,
    /// 2 or 3.
    pub protocol: AtomicU8,
    /// Bytes of the unfinished request.
    pub input_len: AtomicUsize,
    /// Reserved bytes of the input buffer beyond `input_len`.
    pub input_free: AtomicUsize,
    /// The start of the current unfinished request in Unix milliseconds; 0 if there is none.
    pub request_since: AtomicU64,
    /// Unix milliseconds since which the client must authenticate; 0 if it need not.
    pub locked_since: AtomicU64,
    /// Unsent bytes.
    pub unsent_len: AtomicUsize,
    /// Memory of the unsent bytes, including this connection's share of long values.
    pub output_memory: AtomicUsize,
    /// Memory of both buffers that the store does not count.
    pub buffers_outside_store: AtomicUsize,
    /// Number of subscribed channels.
    pub channels: AtomicUsize,
    /// Number of subscribed patterns.
    pub patterns: AtomicUsize,
    /// Number of subscribed shard channels.
    pub shards: AtomicUsize,
    /// Queued commands of the transaction; -1 without a transaction.
    pub queued: AtomicI64,
    /// Memory of the queue.
    pub queued_len: AtomicUsize,
    /// Approximate memory of the names of subscriptions, tracking prefixes and watched keys, in the connection's lists
    /// and in the global ones.
    pub names_memory: AtomicUsize,
    /// The connection ends once its replies are sent.
    pub closes: AtomicBool,
    /// The connection is a monitor.
    pub monitors: AtomicBool,
    /// The current wait.
    pub(super) waiting: AtomicU8,
    /// CLIENT NO-EVICT.
    pub no_evict: AtomicBool,
    /// CLIENT NO-TOUCH.
    pub no_touch: AtomicBool,
    /// READONLY: a replica of the key's shard may answer.
    pub reads_copies: AtomicBool,
    /// [`TRACKING`], [`BROADCASTS`], [`BROKEN_REDIRECT`].
    pub tracking: AtomicU8,
    /// The ID to which invalidations are redirected: 0 for none, -1 without tracking.
    pub redirect: AtomicI64,
    has_left: AtomicBool,
    labels: Mutex<Labels>,
    /// The states of the watched keys.
    watched: Mutex<Vec<Arc<KeyState>>>,
    /// [`KILLED`], [`MESSAGES`], [`OVERFLOWED`], [`USERS_CHANGED`].
    pub(super) signals: AtomicU8,
    pub(super) inbox: Mutex<Inbox>,
    waker: Mutex<Option<Waker>>,
    /// The total that includes this connection's inbox.
    pub(super) inboxes: Arc<Inboxes>,
}

/// CLIENT TRACKING ON.
pub const TRACKING: u8 = 1;
/// CLIENT TRACKING ON with BCAST.
pub const BROADCASTS: u8 = 2;
/// The connection that invalidations were redirected to has ended.
pub const BROKEN_REDIRECT: u8 = 4;

/// A client or a background task has asked the connection to end.
pub const KILLED: u8 = 1;
/// The inbox has messages.
pub const MESSAGES: u8 = 2;
/// The inbox has exceeded its limit: the connection must end.
pub const OVERFLOWED: u8 = 4;
/// Users have changed, perhaps this connection's.
pub const USERS_CHANGED: u8 = 8;

pub(super) fn unblocked(waiting: u8) -> Option<Unblocked> {
    match waiting {
        TIMED_OUT => Some(Unblocked::TimedOut),
        FAILED => Some(Unblocked::Failed),
        DEMOTED => Some(Unblocked::Demoted),
        MOVED => Some(Unblocked::Moved),
        _ => None,
    }
}

/// Called when a key that the connection waits for has changed.
impl Wake for ClientShared {
    fn wake(self: Arc<Self>) {
        ClientShared::wake(&self);
    }
}

impl ClientShared {
    /// A connection that has just been accepted.
    pub(crate) fn new(id: u64, peer: String, local: String, thread: usize, now: u64) -> Self {
        ClientShared {
            id,
            peer: peer.into(),
            local: local.into(),
            thread,
            connected_at: now,
            active_at: AtomicU64::new(now),
            last_command: AtomicU16::new(0),
            database: AtomicU8::new(0),
            protocol: AtomicU8::new(2),
            input_len: AtomicUsize::new(0),
            input_free: AtomicUsize::new(0),
            request_since: AtomicU64::new(0),
            locked_since: AtomicU64::new(0),
            unsent_len: AtomicUsize::new(0),
            output_memory: AtomicUsize::new(0),
            buffers_outside_store: AtomicUsize::new(0),
            channels: AtomicUsize::new(0),
            patterns: AtomicUsize::new(0),
            shards: AtomicUsize::new(0),
            queued: AtomicI64::new(-1),
            queued_len: AtomicUsize::new(0),
            names_memory: AtomicUsize::new(0),
            closes: AtomicBool::new(false),
            monitors: AtomicBool::new(false),
            waiting: AtomicU8::new(RUNS),
            no_evict: AtomicBool::new(false),
            no_touch: AtomicBool::new(false),
            reads_copies: AtomicBool::new(false),
            tracking: AtomicU8::new(0),
            redirect: AtomicI64::new(-1),
            has_left: AtomicBool::new(false),
            labels: Mutex::new(Labels {
                user: "default".into(),
                name: Box::default(),
                lib_name: Box::default(),
                lib_ver: Box::default(),
            }),
            watched: Mutex::default(),
            signals: AtomicU8::new(0),
            inbox: Mutex::default(),
            waker: Mutex::default(),
            inboxes: Arc::default(),
        }
    }

    /// This connection, with its inbox counted in `inboxes`.
    pub(crate) fn counted_in(self, inboxes: &Arc<Inboxes>) -> Self {
        ClientShared { inboxes: inboxes.clone(), ..self }
    }

    /// The names that the client has given.
    pub fn labels(&self) -> Labels {
        self.labels.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes the names that the client has given.
    pub(crate) fn relabel(&self, change: impl FnOnce(&mut Labels)) {
        change(&mut self.labels.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// The states of the watched keys.
    pub(crate) fn watched(&self) -> Vec<Arc<KeyState>> {
        self.lock_watched().clone()
    }

    /// Number of watched keys.
    pub(crate) fn watched_len(&self) -> usize {
        self.lock_watched().len()
    }

    pub(super) fn show_watched(&self, watched: &[Arc<KeyState>]) {
        *self.lock_watched() = watched.to_vec();
    }

    fn lock_watched(&self) -> MutexGuard<'_, Vec<Arc<KeyState>>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the waker of the connection's task.
    pub fn set_waker(&self, waker: &Waker) {
        let mut kept = self.waker.lock().unwrap_or_else(PoisonError::into_inner);
        *kept = Some(waker.clone());
    }

    /// Wakes the connection's task, which then checks its signals.
    pub fn wake(&self) {
        let waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Asks the connection to end at once; unsent bytes are dropped.
    pub fn kill(&self) {
        // Ends the wait first, so that no session serves an element to this connection.
        self.end_if_waits(FAILED);
        // ORDERING: Release pairs with the Acquire in `signals`; the lock of the waker would suffice.
        self.signals.fetch_or(KILLED, Ordering::Release);
        self.wake();
    }

    /// Whether a request waits.
    pub fn is_waiting(&self) -> bool {
        // ORDERING: Acquire pairs with the Release in `Client::end_wait`: a thread that sees no wait also sees the
        // `active_at` that the end of the wait has set.
        self.waiting.load(Ordering::Acquire) != RUNS
    }

    /// Whether a request waits, and nothing has ended the wait yet.
    pub(crate) fn is_blocked(&self) -> bool {
        // ORDERING: Relaxed, shown to people.
        matches!(self.waiting.load(Ordering::Relaxed), WAITS | PAUSED)
    }

    /// The way in which CLIENT UNBLOCK has ended the wait; None if it has not, or if the connection has noticed
    /// already.
    pub fn unblocked(&self) -> Option<Unblocked> {
        // ORDERING: Relaxed, the word is the entire message.
        unblocked(self.waiting.load(Ordering::Relaxed))
    }

    /// Ends the wait for a key; false if there is none.
    pub(crate) fn unblock(&self, reason: Unblocked) -> bool {
        let ended = match reason {
            Unblocked::TimedOut => TIMED_OUT,
            Unblocked::Failed => FAILED,
            Unblocked::Demoted => DEMOTED,
            Unblocked::Moved => MOVED,
        };
        let has_ended = self.end_if_waits(ended);
        if has_ended {
            self.wake();
        }
        has_ended
    }

    /// Begins a wait for an element. Must be called before the client enters the queue of a key.
    pub(crate) fn await_element(&self) {
        // ORDERING: Release, as in `Client::begin_wait`.
        self.waiting.store(WAITS, Ordering::Release);
    }

    /// Takes back [`await_element`](Self::await_element); false if an element is on its way.
    pub(crate) fn withdraw(&self) -> bool {
        self.end_if_waits(RUNS)
    }

    /// Ends the wait because a session has an element for the client. Returns true at most once for each wait; that
    /// session must then provide the reply.
    pub(crate) fn claim(&self) -> bool {
        self.end_if_waits(CLAIMED)
    }

    /// Ends the wait for a key on behalf of the connection's own thread; false if an element is on its way.
    pub fn end_own_wait(&self) -> bool {
        // ORDERING: Relaxed, as in `end_if_waits`.
        self.end_if_waits(ENDED) || self.waiting.load(Ordering::Relaxed) != CLAIMED
    }

    fn end_if_waits(&self, ended: u8) -> bool {
        // ORDERING: Relaxed, as in `unblocked`: exactly one attempt to end the wait succeeds, and the word is its
        // entire message.
        self.waiting.compare_exchange(WAITS, ended, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Ends delivery: drops the messages in the inbox and all later ones.
    pub(crate) fn leave(&self) {
        let mut inbox = self.inbox();
        // ORDERING: Relaxed, here and in `has_left`: readers that depend on it hold the lock of the inbox.
        self.has_left.store(true, Ordering::Relaxed);
        self.inboxes.change(&mut inbox, Inbox::clear);
    }

    /// Whether the connection has ended.
    pub(crate) fn has_left(&self) -> bool {
        self.has_left.load(Ordering::Relaxed)
    }

    /// Whether there are subscriptions.
    pub(crate) fn listens(&self) -> bool {
        // ORDERING: Relaxed, three counts that are each published independently.
        let counts = [&self.channels, &self.patterns, &self.shards];
        counts.iter().any(|count| count.load(Ordering::Relaxed) > 0)
    }

    pub(super) fn show_tracking(&self, options: Option<&tracking::Options>) {
        let broadcasts = |options: &tracking::Options| options.mode == tracking::Mode::Broadcast;
        let broadcasts = if options.is_some_and(broadcasts) { BROADCASTS } else { 0 };
        let flags = if options.is_some() { TRACKING | broadcasts } else { 0 };
        let redirect = options.map_or(-1, |options| options.redirect.unwrap_or(0) as i64);
        // ORDERING: Relaxed, shown to people.
        self.tracking.store(flags, Ordering::Relaxed);
        self.redirect.store(redirect, Ordering::Relaxed);
    }

    /// Publishes that the connection that invalidations were redirected to has ended.
    pub(crate) fn note_broken_redirect(&self) {
        // ORDERING: Relaxed, shown to people.
        self.tracking.fetch_or(BROKEN_REDIRECT, Ordering::Relaxed);
    }

    /// Signals that users have changed.
    pub(crate) fn users_changed(&self) {
        // ORDERING: Release pairs with the Acquire in `signals`: a thread that sees the signal also sees the changed
        // users.
        self.signals.fetch_or(USERS_CHANGED, Ordering::Release);
        self.wake();
    }

    /// The signals of other threads: [`KILLED`], [`MESSAGES`], [`OVERFLOWED`], [`USERS_CHANGED`].
    #[inline]
    pub fn signals(&self) -> u8 {
        // ORDERING: Acquire pairs with the Release in `kill` and `users_changed`.
        self.signals.load(Ordering::Acquire)
    }

    /// Publishes the last command of a batch.
    #[inline]
    pub(crate) fn ran(&self, id: CommandId) {
        self.last_command.store(id as u16 + 1, Ordering::Relaxed);
    }
}
