//! The latest slow requests with their durations, for SLOWLOG.
//!
//! The command table and the size of the request decide whether a request is timed. Timed are commands that walk over
//! keys, hashes, bits or long values, commands about the server, and all other commands if they have many arguments or
//! many bytes. A GET or SET of a short value is not timed: reading the clock would cost more than the figure is worth.
//! So the wait of such a command for a session that holds its key does not appear here, but that session's command
//! does.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hotring_protocol::ArgsView;

/// The maximum number of kept arguments of a request.
const ARGS_MAX: usize = 32;
/// The maximum number of kept bytes of an argument.
const ARG_LEN_MAX: usize = 128;

/// A slow request.
#[derive(Debug)]
pub(crate) struct SlowRequest {
    /// Counts from 0, over the life of the process.
    pub id: u64,
    /// Unix seconds.
    pub at: u64,
    /// The duration in microseconds.
    pub took: u64,
    /// The arguments, shortened.
    pub args: Vec<Vec<u8>>,
    /// The client's address.
    pub peer: String,
    /// The client's name.
    pub name: String,
}

/// The log, shared by all threads.
#[derive(Debug)]
pub struct SlowLog {
    /// The minimum duration in microseconds of a kept request; negative to keep none.
    threshold: AtomicI64,
    len_max: AtomicUsize,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    next_id: u64,
    /// The requests, latest first.
    requests: VecDeque<Arc<SlowRequest>>,
}

impl SlowLog {
    pub(crate) fn new(threshold: i64, len_max: usize) -> Self {
        let kept = Mutex::default();
        SlowLog { threshold: threshold.into(), len_max: len_max.into(), kept }
    }

    /// Applies changed settings.
    pub(crate) fn set(&self, threshold: i64, len_max: usize) {
        // ORDERING: Relaxed, here and below: no other memory is read through either value.
        self.threshold.store(threshold, Ordering::Relaxed);
        self.len_max.store(len_max, Ordering::Relaxed);
        self.kept().requests.truncate(len_max);
    }

    /// Keeps a request if its duration reaches the threshold. `who` returns the client's address and name.
    pub(crate) fn note(
        &self,
        args: ArgsView<'_>,
        took: Duration,
        now: u64,
        who: impl FnOnce() -> (String, String),
    ) {
        let took = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        // ORDERING: Relaxed, as above.
        let threshold = self.threshold.load(Ordering::Relaxed);
        if u64::try_from(threshold).is_ok_and(|threshold| took >= threshold) {
            self.keep(args, took, now, who());
        }
    }

    #[cold]
    fn keep(&self, args: ArgsView<'_>, took: u64, now: u64, (peer, name): (String, String)) {
        // ORDERING: Relaxed, as above.
        let len_max = self.len_max.load(Ordering::Relaxed);
        let args = shortened(args);
        let mut kept = self.kept();
        let id = kept.next_id;
        kept.next_id += 1;
        let request = SlowRequest { id, at: now / 1000, took, args, peer, name };
        kept.requests.push_front(Arc::new(request));
        kept.requests.truncate(len_max);
    }

    /// The latest requests, latest first.
    pub(crate) fn latest(&self, count: usize) -> Vec<Arc<SlowRequest>> {
        self.kept().requests.iter().take(count).cloned().collect()
    }

    /// The number of kept requests.
    pub fn len(&self) -> usize {
        self.kept().requests.len()
    }

    /// Removes all requests.
    pub(crate) fn clear(&self) {
        self.kept().requests.clear();
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The arguments, shortened to the limits, with a note about the omitted part in Redis's words.
fn shortened(args: ArgsView<'_>) -> Vec<Vec<u8>> {
    let shown = if args.len() > ARGS_MAX { ARGS_MAX - 1 } else { args.len() };
    let shorten = |arg: &[u8]| match arg.len().checked_sub(ARG_LEN_MAX) {
        None | Some(0) => arg.to_vec(),
        Some(more) => [&arg[..ARG_LEN_MAX], format!("... ({more} more bytes)").as_bytes()].concat(),
    };
    let mut kept: Vec<Vec<u8>> = args.slice(0..shown).iter().map(shorten).collect();
    if shown < args.len() {
        kept.push(format!("... ({} more arguments)", args.len() - shown).into_bytes());
    }
    kept
}
