//! Moves of slots, as the threads of a node share them: links of sources that have come, and slots that may be this
//! shard's any moment. What decides is in `hotring-cluster`, what drives that in `hotring-server`'s
//! `tasks/cluster/moves`.

pub mod codec;
mod progress;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hotring_cluster::directory::{Directory, MoveId, Wanted};
use hotring_cluster::moves::ToSource;
use hotring_cluster::{ShardId, Slot, SlotSet};
use hotring_log::wire::Kind;
use tokio::sync::{Notify, mpsc};

pub use progress::{MoveStatus, Progress, Sent};

/// Most links that wait for the thread of the moves. It takes them at once.
const ARRIVALS_MAX: usize = 64;

/// A frame that a source has sent.
pub struct Arrived {
    pub kind: Kind,
    /// More frames of the same message follow.
    pub more: bool,
    pub body: Vec<u8>,
}

/// A link of a source that has come to this node.
pub struct Arrival {
    pub id: MoveId,
    /// The shard that gives the slots.
    pub from: ShardId,
    /// Where the source is.
    pub peer: String,
    /// What it sends.
    pub frames: mpsc::Receiver<Arrived>,
    /// Where answers go.
    pub answers: mpsc::UnboundedSender<ToSource>,
}

/// The moves of slots at one node.
#[derive(Default)]
pub struct Moves {
    arrivals: Mutex<Vec<Arrival>>,
    arrived: Notify,
    expected: Mutex<Vec<(MoveId, SlotSet)>>,
    expects: AtomicBool,
    attempts: AtomicU32,
    given: Mutex<BTreeMap<MoveId, Arc<Progress>>>,
    sent_bytes: AtomicU64,
    flushes: AtomicU64,
}

impl Moves {
    /// Hands a link over to the thread of the moves. False if that is too busy.
    pub fn arrive(&self, arrival: Arrival) -> bool {
        let mut arrivals = lock(&self.arrivals);
        let has_room = arrivals.len() < ARRIVALS_MAX;
        if has_room {
            arrivals.push(arrival);
            self.arrived.notify_one();
        }
        has_room
    }

    /// The links that have come.
    pub fn take_arrivals(&self) -> Vec<Arrival> {
        std::mem::take(&mut lock(&self.arrivals))
    }

    /// Waits until a link comes.
    pub async fn arrived(&self) {
        self.arrived.notified().await;
    }

    /// The highest number of an attempt of this process to give slots away.
    pub fn attempts(&self) -> u32 {
        // ORDERING: Relaxed; one thread makes attempts.
        self.attempts.load(Ordering::Relaxed)
    }

    /// Attempts up to this one were made.
    pub fn note_attempt(&self, number: u32) {
        // ORDERING: Relaxed, as above.
        self.attempts.fetch_max(number, Ordering::Relaxed);
    }

    /// An attempt to give slots away begins.
    pub fn begin_attempt(&self, id: MoveId) -> Arc<Progress> {
        let progress = Arc::new(Progress::new());
        lock(&self.given).insert(id, progress.clone());
        progress
    }

    /// It has ended.
    pub fn end_attempt(&self, id: MoveId) {
        lock(&self.given).remove(&id);
    }

    /// The moves that these records want, by their numbers. `gives` is the shard whose slots this node gives, if any.
    pub(super) fn statuses(&self, records: &Directory, gives: Option<ShardId>) -> Vec<MoveStatus> {
        let given = lock(&self.given);
        let status = |(id, (_, wanted)): (&MoveId, &(_, Wanted))| {
            let is_own = gives == Some(wanted.from);
            let now = given.get(id).map(Arc::as_ref).filter(|_| is_own);
            MoveStatus::new(*id, wanted.clone(), is_own, now)
        };
        records.moves.iter().map(status).collect()
    }

    /// The bytes of keys and changes that this node has sent for moves since its start.
    pub fn sent_bytes(&self) -> u64 {
        // ORDERING: Relaxed, a figure.
        self.sent_bytes.load(Ordering::Relaxed)
    }

    /// Counts bytes that were sent.
    pub fn note_sent(&self, bytes: usize) {
        // ORDERING: Relaxed, as above.
        self.sent_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// From here on the slots of a move may be this shard's any moment, though the table that this node knows does not
    /// say so yet.
    pub fn expect(&self, id: MoveId, slots: SlotSet) {
        let mut expected = lock(&self.expected);
        expected.retain(|(known, _)| *known != id);
        expected.push((id, slots));
        // ORDERING: Relaxed, a hint; the list has a lock.
        self.expects.store(true, Ordering::Relaxed);
    }

    /// The slots of a move are this shard's by the table, or will not be.
    pub fn expect_no_more(&self, id: MoveId) {
        let mut expected = lock(&self.expected);
        expected.retain(|(known, _)| *known != id);
        // ORDERING: Relaxed, as above.
        self.expects.store(!expected.is_empty(), Ordering::Relaxed);
    }

    /// Whether some slots may be this shard's any moment.
    pub(crate) fn expects_any(&self) -> bool {
        // ORDERING: Relaxed, as above.
        self.expects.load(Ordering::Relaxed)
    }

    /// A request that removes all keys waits for a move.
    pub(crate) fn note_flush(&self) {
        // ORDERING: Relaxed, nothing else is read through it.
        self.flushes.fetch_add(1, Ordering::Relaxed);
    }

    /// How often such a request has begun to wait.
    pub fn flushes(&self) -> u64 {
        // ORDERING: Relaxed, as above.
        self.flushes.load(Ordering::Relaxed)
    }

    /// Whether a slot may be this shard's any moment. A client that another node has sent here because of that must
    /// not be sent back.
    pub(crate) fn expects(&self, slot: Slot) -> bool {
        self.expects_any() && lock(&self.expected).iter().any(|(_, slots)| slots.contains(slot))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code panics between changes of these lists.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_expected_while_a_move_says_so() {
        let moves = Moves::default();
        assert!(!moves.expects(7));
        moves.expect(1, "5-7".parse().unwrap());
        moves.expect(2, "7-9".parse().unwrap());
        assert_eq!([4, 5, 7, 9].map(|slot| moves.expects(slot)), [false, true, true, true]);
        moves.expect_no_more(1);
        assert_eq!([5, 7].map(|slot| moves.expects(slot)), [false, true]);
        moves.expect_no_more(2);
        assert!(!moves.expects(7));
    }
}
