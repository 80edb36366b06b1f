//! The inbox of a connection: encoded messages from other threads that the connection has yet to send.
//!
//! ```text
//!   any thread --> inbox, encoded           --> the connection's task, between two replies
//! ```
//! The connection chooses the kind and the encoding of its messages. The inbox holds that choice under the same lock as
//! the messages. So messages always match the last request, and no message of a subscription follows the reply that
//! ends the subscription.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{MutexGuard, PoisonError};

use hotring_protocol::{Version, Writer};

use super::shared::{ClientShared, MESSAGES, OVERFLOWED, USERS_CHANGED};

/// The messages to send.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    /// Invalidations of cached keys. Must not be sent before a reply that was under way when they arrived: that reply
    /// may contain the old value.
    invalidations: Vec<u8>,
    /// Messages of channels and of MONITOR. They must be sent after the invalidations: a publisher that announces a
    /// change of a key relies on this order.
    messages: Vec<u8>,
    /// There are invalidations among both, which show that a key was written.
    show_writes: bool,
    version: Version,
    /// The connection has subscriptions.
    listens: bool,
}

impl Inbox {
    fn len(&self) -> usize {
        self.invalidations.len() + self.messages.len()
    }

    /// Bytes of memory.
    pub(super) fn memory(&self) -> usize {
        self.invalidations.capacity() + self.messages.capacity()
    }

    pub(super) fn clear(&mut self) {
        (self.invalidations, self.messages) = (Vec::new(), Vec::new());
        self.show_writes = false;
    }

    /// Moves the messages to `out`; true if there are invalidations among them.
    fn move_to(&mut self, out: &mut Vec<u8>) -> bool {
        for bytes in [&mut self.invalidations, &mut self.messages] {
            let bytes = std::mem::take(bytes);
            if out.is_empty() && !bytes.is_empty() {
                *out = bytes;
            } else {
                out.extend_from_slice(&bytes);
            }
        }
        std::mem::take(&mut self.show_writes)
    }
}

/// Each inbox may take up to this many times the unused part of the total limit.
const SHARE: usize = 2;
/// The minimum limit of an inbox in bytes, even if the total is exhausted.
const LEAST: usize = 4 << 10;

/// The total memory of all inboxes. The limit of each inbox shrinks with the unused part of the total, so that
/// connections that read their messages always have space, even if many others do not read.
#[derive(Debug)]
pub struct Inboxes {
    memory: AtomicUsize,
    memory_max: AtomicUsize,
}

impl Default for Inboxes {
    fn default() -> Self {
        Inboxes { memory: AtomicUsize::new(0), memory_max: AtomicUsize::new(usize::MAX) }
    }
}

// ORDERING: Relaxed throughout, a sum that is compared with a limit. An inbox is counted under its lock.
impl Inboxes {
    pub(crate) fn set_max(&self, bytes: usize) {
        self.memory_max.store(bytes, Ordering::Relaxed);
    }

    /// Bytes of all inboxes.
    pub(crate) fn memory(&self) -> usize {
        self.memory.load(Ordering::Relaxed)
    }

    /// The limit of one inbox.
    fn share(&self) -> usize {
        let left = self.memory_max.load(Ordering::Relaxed).saturating_sub(self.memory());
        left.saturating_mul(SHARE).max(LEAST)
    }

    /// Changes an inbox and updates the sum.
    pub(super) fn change<T>(&self, inbox: &mut Inbox, change: impl FnOnce(&mut Inbox) -> T) -> T {
        let before = inbox.memory();
        let changed = change(inbox);
        match inbox.memory() {
            more if more > before => drop(self.memory.fetch_add(more - before, Ordering::Relaxed)),
            less => drop(self.memory.fetch_sub(before - less, Ordering::Relaxed)),
        }
        changed
    }
}

impl ClientShared {
    /// Appends the message that `write` encodes. If more than `max` bytes are unsent afterwards (0: no limit), the
    /// inbox is cleared and the connection must end.
    pub fn deliver(&self, max: usize, write: impl FnOnce(&mut Writer<'_>)) {
        self.put(max, |inbox| write(&mut Writer::new(&mut inbox.messages, inbox.version)));
    }

    /// Appends a message that may be lost: only if at most half of the room is taken then. So it never ends a
    /// connection, and leaves room for messages that must not be lost.
    pub(crate) fn deliver_if_room(&self, message: &[u8]) {
        let inbox = self.inbox();
        // ORDERING: Relaxed, as in `append`.
        let unsent = self.unsent_len.load(Ordering::Relaxed);
        if inbox.len() + unsent + message.len() <= self.inboxes.share() / 2 {
            self.append(inbox, 0, |inbox| inbox.messages.extend_from_slice(message));
        }
    }

    /// As [`deliver`](Self::deliver), for an invalidation. RESP2 has no push messages: a RESP2 connection gets the
    /// invalidation only if it has subscriptions and `by_channel` is set.
    pub(crate) fn invalidate(
        &self,
        max: usize,
        by_channel: bool,
        write: impl FnOnce(&mut Writer<'_>),
    ) {
        self.put(max, |inbox| {
            let to = match inbox.version {
                Version::Resp3 => &mut inbox.invalidations,
                Version::Resp2 if by_channel && inbox.listens => &mut inbox.messages,
                Version::Resp2 => return,
            };
            write(&mut Writer::new(to, inbox.version));
            inbox.show_writes = true;
        });
    }

    fn put(&self, max: usize, write: impl FnOnce(&mut Inbox)) {
        self.append(self.inbox(), max, write);
    }

    fn append(&self, mut inbox: MutexGuard<'_, Inbox>, max: usize, write: impl FnOnce(&mut Inbox)) {
        // ORDERING: Relaxed, here and below: the lock of the inbox orders its contents, the lock of the waker orders
        // the signal before the check for it.
        if self.has_left() || self.signals.load(Ordering::Relaxed) & OVERFLOWED != 0 {
            return;
        }
        let before = inbox.len();
        self.inboxes.change(&mut inbox, write);
        if inbox.len() == before {
            return;
        }
        // ORDERING: Relaxed, a limit need not be exact while the other side is sending.
        let waiting = inbox.len() + self.unsent_len.load(Ordering::Relaxed);
        let is_over = max > 0 && waiting > max || waiting > self.inboxes.share();
        let signal = if is_over { OVERFLOWED } else { MESSAGES };
        if is_over {
            self.inboxes.change(&mut inbox, Inbox::clear);
        }
        let before = self.signals.fetch_or(signal, Ordering::Relaxed);
        drop(inbox);
        if before & signal == 0 {
            self.wake();
        }
    }

    /// Moves the messages to `out`, unless a change of users has not been handled yet: the messages may have arrived
    /// after the change, and the user may have lost the right to them. True if they show that keys were written.
    pub fn fetch(&self, out: &mut Vec<u8>) -> bool {
        self.fetch_from(&mut self.inbox(), out).unwrap_or(false)
    }

    /// Whether the messages show that keys were written.
    pub fn has_invalidations(&self) -> bool {
        self.inbox().show_writes
    }

    /// Changes the version of later messages. Does nothing and returns false if users have changed.
    pub(super) fn change_version(&self, version: Version, out: &mut Vec<u8>) -> bool {
        let mut inbox = self.inbox();
        let is_fetched = self.fetch_from(&mut inbox, out).is_some();
        if is_fetched {
            inbox.version = version;
        }
        is_fetched
    }

    /// Sets whether there are subscriptions.
    pub(super) fn show_listens(&self, listens: bool) {
        self.inbox().listens = listens;
    }

    /// Moves the messages, without invalidations, to `out` and sets whether there are still subscriptions. No message
    /// of an ended subscription may follow. Does nothing and returns false if users have changed.
    pub(super) fn end_messages(&self, listens: bool, out: &mut Vec<u8>) -> bool {
        let mut inbox = self.inbox();
        if self.have_users_changed() {
            return false;
        }
        inbox.listens = listens;
        self.inboxes.change(&mut inbox, |inbox| {
            out.append(&mut inbox.messages);
            inbox.messages = Vec::new();
        });
        true
    }

    fn fetch_from(&self, inbox: &mut Inbox, out: &mut Vec<u8>) -> Option<bool> {
        if self.have_users_changed() {
            return None;
        }
        // ORDERING: Relaxed, under the lock of the inbox.
        self.signals.fetch_and(!MESSAGES, Ordering::Relaxed);
        Some(self.inboxes.change(inbox, |inbox| inbox.move_to(out)))
    }

    /// Whether a change of users has not been handled yet. The caller must hold the lock of the inbox: a thread that
    /// appended a message after the reply to the change has made the signal visible through the same lock.
    fn have_users_changed(&self) -> bool {
        // ORDERING: Relaxed, the lock of the inbox makes the signal visible, as described above.
        self.signals.load(Ordering::Relaxed) & USERS_CHANGED != 0
    }

    pub(super) fn inbox(&self) -> MutexGuard<'_, Inbox> {
        // A panic while a message is encoded would leave an incomplete message, but the encoders do not panic.
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn client() -> ClientShared {
        ClientShared::new(1, String::new(), String::new(), 0, 0)
    }

    fn fetched(client: &ClientShared) -> String {
        let mut out = Vec::new();
        client.fetch(&mut out);
        String::from_utf8(out).unwrap()
    }

    /// Others may hold a connection that has ended for long, and its messages were once held with it.
    #[test]
    fn a_client_that_has_left_holds_no_messages() {
        let client = client();
        let tell = || client.deliver(0, |w| w.simple("news"));
        tell();
        assert!(client.inbox().memory() > 0);
        client.leave();
        assert_eq!(client.inbox().memory(), 0);
        tell();
        assert_eq!(client.inbox().memory(), 0);
    }

    /// Whether a connection listens was once asked before its inbox was locked: a message could follow the reply
    /// that it listens no more, and was taken for another reply.
    #[test]
    fn in_resp2_an_invalidation_reaches_only_subscribers() {
        let client = client();
        let tell = |by_channel| client.invalidate(0, by_channel, |w| w.simple("old"));
        tell(true);
        assert_eq!((fetched(&client).as_str(), client.signals()), ("", 0));
        client.show_listens(true);
        tell(false);
        assert_eq!(fetched(&client), "");
        tell(true);
        let mut out = Vec::new();
        assert!(client.end_messages(false, &mut out));
        assert_eq!(out, b"+old\r\n", "before the reply");
        tell(true);
        assert_eq!(fetched(&client), "", "behind it");
        assert!(client.change_version(Version::Resp3, &mut out));
        tell(false);
        assert_eq!(fetched(&client), "+old\r\n");
    }

    #[test]
    fn invalidations_come_before_messages_and_never_before_a_reply_under_way() {
        let client = client();
        let mut out = Vec::new();
        client.change_version(Version::Resp3, &mut out);
        client.deliver(0, |w| w.simple("news"));
        assert!(!client.has_invalidations());
        client.invalidate(0, false, |w| w.simple("old"));
        assert!(client.has_invalidations());
        assert_eq!(fetched(&client), "+old\r\n+news\r\n");
        assert!(!client.has_invalidations());
        client.deliver(0, |w| w.simple("news"));
        client.invalidate(0, false, |w| w.simple("old"));
        assert!(client.end_messages(false, &mut out));
        assert_eq!(out, b"+news\r\n");
        assert_eq!(fetched(&client), "+old\r\n");
    }

    #[test]
    fn nothing_moves_while_users_have_changed() {
        let client = client();
        client.deliver(0, |w| w.simple("news"));
        client.users_changed();
        let mut out = Vec::new();
        assert!(!client.end_messages(false, &mut out));
        assert!(!client.change_version(Version::Resp3, &mut out));
        assert_eq!((fetched(&client).as_str(), out.len()), ("", 0));
    }

    #[test]
    fn a_message_that_may_be_lost_ends_no_connection() {
        let inboxes = Arc::new(Inboxes::default());
        inboxes.set_max(LEAST / SHARE);
        let client = client().counted_in(&inboxes);
        client.deliver_if_room(b"+one\r\n");
        client.deliver_if_room(&[b'x'; LEAST]);
        assert_eq!((fetched(&client).as_str(), client.signals()), ("+one\r\n", 0));
        // ORDERING: Relaxed, one thread.
        client.unsent_len.store(LEAST, Ordering::Relaxed);
        client.deliver_if_room(b"+two\r\n");
        assert_eq!((fetched(&client).as_str(), client.signals()), ("", 0), "replies fill the room");
    }

    #[test]
    fn inboxes_are_limited_together_and_small_ones_stay() {
        let inboxes = Arc::new(Inboxes::default());
        inboxes.set_max(1 << 20);
        let clients: Vec<_> = (0..40).map(|_| client().counted_in(&inboxes)).collect();
        let overflowed = |c: &ClientShared| c.signals.load(Ordering::Relaxed) & OVERFLOWED != 0;
        for _ in 0..1000 {
            clients.iter().for_each(|client| client.deliver(0, |w| w.bulk(&[7; 1000])));
            assert!(inboxes.memory() <= 1 << 20, "{}", inboxes.memory());
        }
        assert!(clients.iter().all(overflowed), "none fetches anything");
        assert_eq!(inboxes.memory(), 0);
        let (greedy, modest) = (client().counted_in(&inboxes), client().counted_in(&inboxes));
        for _ in 0..2000 {
            greedy.deliver(0, |w| w.bulk(&[7; 1000]));
            modest.deliver(0, |w| w.bulk(&[7; 1000]));
            modest.fetch(&mut Vec::new());
        }
        assert!(overflowed(&greedy) && !overflowed(&modest));
        greedy.leave();
        assert_eq!(inboxes.memory(), 0);
    }
}
