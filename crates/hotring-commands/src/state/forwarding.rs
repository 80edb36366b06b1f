//! Messages of PUBLISH and SPUBLISH on their way to the other nodes of a cluster.
//!
//! ```text
//!   PUBLISH --> outbox of each other node --> its link (tasks/messages.rs of hotring-server) --> HOTRING.DELIVER
//! ```
//! 1. A message travels one hop: HOTRING.DELIVER never forwards.
//! 2. A publisher never waits for a node. An outbox is bounded, and what does not fit is dropped and counted, as is
//!    what is published while there is no link.
//! 3. An outbox is a queue, and so is its link: the messages of one publisher arrive in their order.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use hotring_cluster::NodeId;
use tokio::sync::Notify;

/// The bound of an outbox if subscribers have none.
const OUTBOX_MAX: usize = 32 << 20;

/// The outboxes of the other nodes.
#[derive(Debug, Default)]
pub struct Forwarding {
    outboxes: RwLock<Vec<Arc<Outbox>>>,
    /// Messages that were handed to a link, and those that were not.
    sent: AtomicU64,
    dropped: AtomicU64,
}

/// The messages for one node.
#[derive(Debug)]
pub struct Outbox {
    pub node: NodeId,
    /// Whether the node belongs to the shard of this one, and gets the messages of shard channels.
    is_of_shard: AtomicBool,
    queue: Mutex<Queue>,
    arrived: Notify,
    /// Messages that did not fit since the last look.
    overflowed: AtomicU64,
}

/// Requests that wait for the link.
#[derive(Debug, Default)]
struct Queue {
    has_link: bool,
    requests: Vec<u8>,
    len: u64,
}

/// Figures of forwarding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForwardingStatus {
    /// Nodes that a link connects.
    pub links: usize,
    /// Messages that were handed to a link, once for each node, and those that were dropped.
    pub sent: u64,
    pub dropped: u64,
}

impl Forwarding {
    /// Puts a message into the outboxes of all other nodes, or of those of the shard. An outbox holds at most `max`
    /// bytes; 0 for the usual bound.
    pub(crate) fn send(&self, is_shard: bool, channel: &[u8], message: &[u8], max: usize) {
        let outboxes = self.outboxes.read().unwrap_or_else(PoisonError::into_inner);
        // ORDERING: Relaxed, a node that joins or leaves the shard now gets the message or not.
        let is_for =
            |outbox: &&Arc<Outbox>| !is_shard || outbox.is_of_shard.load(Ordering::Relaxed);
        let mut outboxes = outboxes.iter().filter(is_for).peekable();
        if outboxes.peek().is_none() {
            return;
        }
        let request = request(is_shard, channel, message);
        let max = if max == 0 { OUTBOX_MAX } else { max };
        let dropped = outboxes.filter(|outbox| !outbox.put(&request, max)).count();
        // ORDERING: Relaxed, a figure.
        self.dropped.fetch_add(dropped as u64, Ordering::Relaxed);
    }

    /// Adds the outbox of a node, which takes messages once it has a link.
    pub fn open(&self, node: NodeId) -> Arc<Outbox> {
        let outbox = Arc::new(Outbox {
            node,
            is_of_shard: AtomicBool::new(false),
            queue: Mutex::default(),
            arrived: Notify::new(),
            overflowed: AtomicU64::new(0),
        });
        self.outboxes.write().unwrap_or_else(PoisonError::into_inner).push(outbox.clone());
        outbox
    }

    /// Removes an outbox.
    pub fn close(&self, outbox: &Arc<Outbox>) {
        let mut outboxes = self.outboxes.write().unwrap_or_else(PoisonError::into_inner);
        outboxes.retain(|other| !Arc::ptr_eq(other, outbox));
    }

    /// Counts messages that a link has taken.
    pub fn count_sent(&self, messages: u64) {
        // ORDERING: Relaxed, a figure.
        self.sent.fetch_add(messages, Ordering::Relaxed);
    }

    /// The present figures.
    pub fn status(&self) -> ForwardingStatus {
        let outboxes = self.outboxes.read().unwrap_or_else(PoisonError::into_inner);
        // ORDERING: Relaxed, figures.
        let figure = |figure: &AtomicU64| figure.load(Ordering::Relaxed);
        ForwardingStatus {
            links: outboxes.iter().filter(|outbox| outbox.queue().has_link).count(),
            sent: figure(&self.sent),
            dropped: figure(&self.dropped),
        }
    }
}

impl Outbox {
    /// Says whether the node belongs to the shard of this one.
    pub fn set_of_shard(&self, is_of_shard: bool) {
        // ORDERING: Relaxed, as in `Forwarding::send`.
        self.is_of_shard.store(is_of_shard, Ordering::Relaxed);
    }

    /// A link is there, or is gone. What waits for one that is gone would be old news to the next.
    pub fn set_linked(&self, has_link: bool) {
        *self.queue() = Queue { has_link, ..Queue::default() };
    }

    /// Waits for messages and takes them all: their requests, and their number.
    pub async fn take(&self) -> (Vec<u8>, u64) {
        loop {
            if let Some(taken) = self.take_now() {
                return taken;
            }
            self.arrived.notified().await;
        }
    }

    fn take_now(&self) -> Option<(Vec<u8>, u64)> {
        let mut queue = self.queue();
        let len = std::mem::take(&mut queue.len);
        (len > 0).then(|| (std::mem::take(&mut queue.requests), len))
    }

    /// The number of messages that did not fit since the last call.
    pub fn take_overflowed(&self) -> u64 {
        // ORDERING: Relaxed, a figure.
        self.overflowed.swap(0, Ordering::Relaxed)
    }

    /// Adds a request; false if it is dropped.
    fn put(&self, request: &[u8], max: usize) -> bool {
        let mut queue = self.queue();
        let fits = queue.requests.len() + request.len() <= max;
        if queue.has_link && fits {
            queue.requests.extend_from_slice(request);
            queue.len += 1;
            drop(queue);
            self.arrived.notify_one();
            return true;
        }
        if !fits {
            // ORDERING: Relaxed, a figure.
            self.overflowed.fetch_add(1, Ordering::Relaxed);
        }
        false
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        // No code panics between changes of the queue.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The request that delivers a message to the clients of another node.
fn request(is_shard: bool, channel: &[u8], message: &[u8]) -> Vec<u8> {
    let kind: &[u8] = if is_shard { b"shard" } else { b"all" };
    let mut request = b"*4\r\n".to_vec();
    for word in [b"HOTRING.DELIVER", kind, channel, message] {
        request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        request.extend_from_slice(word);
        request.extend_from_slice(b"\r\n");
    }
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(outbox: &Outbox) -> Option<(String, u64)> {
        let (requests, len) = outbox.take_now()?;
        Some((String::from_utf8(requests).unwrap().replace("\r\n", " "), len))
    }

    #[test]
    fn messages_wait_for_their_link_in_order() {
        let forwarding = Forwarding::default();
        forwarding.send(false, b"c", b"lost", 0);
        let outbox = forwarding.open(NodeId([1; 20]));
        forwarding.send(false, b"c", b"no link", 0);
        assert_eq!(forwarding.status(), ForwardingStatus { links: 0, sent: 0, dropped: 1 });
        outbox.set_linked(true);
        forwarding.send(false, b"c", b"1", 0);
        forwarding.send(true, b"c", b"of no shard here", 0);
        outbox.set_of_shard(true);
        forwarding.send(true, b"s", b"2", 0);
        let both =
            "*4 $15 HOTRING.DELIVER $3 all $1 c $1 1 *4 $15 HOTRING.DELIVER $5 shard $1 s $1 2 ";
        assert_eq!(taken(&outbox), Some((both.to_string(), 2)));
        assert_eq!(taken(&outbox), None);
        forwarding.send(false, b"c", b"old news", 0);
        outbox.set_linked(false);
        outbox.set_linked(true);
        assert_eq!(taken(&outbox), None);
        forwarding.close(&outbox);
        forwarding.send(false, b"c", b"nobody", 0);
        assert_eq!(forwarding.status().dropped, 1);
    }

    /// A node that does not keep up must not cost memory without a bound, nor hold a publisher up.
    #[test]
    fn what_does_not_fit_is_dropped_and_counted() {
        let forwarding = Forwarding::default();
        let [slow, quick] = [1, 2].map(|n| forwarding.open(NodeId([n; 20])));
        slow.set_linked(true);
        quick.set_linked(true);
        let len = request(false, b"c", b"1").len();
        for _ in 0..5 {
            forwarding.send(false, b"c", b"1", 2 * len);
            assert_eq!(taken(&quick).unwrap().1, 1);
        }
        assert_eq!((slow.take_overflowed(), quick.take_overflowed()), (3, 0));
        assert_eq!((forwarding.status().dropped, slow.take_overflowed()), (3, 0));
        assert_eq!(taken(&slow).unwrap().1, 2, "the first ones are kept");
    }
}
