//! The replies that a client waits for. They come from several nodes, and leave in the order of its requests.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::task::{Context, Poll, Waker};

use hotring_cluster::Slot;
use hotring_protocol::Version;

use crate::combine::{Combine, combine};
use crate::reply::DROP_ALL;

/// Bytes of waiting messages about old copies, and of their places, above which one takes their place.
const TOLD_MAX: usize = 1 << 20;

/// The replies of one client. Its session and the connections to nodes, all on one thread, share it.
#[derive(Debug, Default)]
pub(crate) struct Replies(RefCell<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// The number of the request whose place is the first.
    first: u64,
    /// A place for each request whose reply is not ready.
    places: VecDeque<Expected>,
    /// Bytes of the replies in the places.
    kept: usize,
    /// Bytes of the messages about old copies in the places, and of these places.
    told: usize,
    /// The place of the last message to drop all copies, until it is taken.
    drops_all: Option<u64>,
    /// Replies that may be sent.
    ready: Vec<u8>,
    /// Requests without a reply that may write.
    writes: usize,
    /// The connections by which the client has written last, for each node.
    written: BTreeMap<usize, u64>,
    /// Requests that wait for another try.
    retried: usize,
    /// The client's task, while it waits.
    waker: Option<Waker>,
    /// The client has gone.
    is_closed: bool,
}

/// A reply that is not ready.
#[derive(Debug)]
struct Expected {
    /// The slot of the request's keys, if that is all that it concerns.
    slot: Option<Slot>,
    place: Place,
    /// A message about old copies.
    is_message: bool,
}

#[derive(Debug)]
enum Place {
    Empty,
    Filled(Vec<u8>),
    Joined(Box<Join>),
}

/// The replies to the parts of a request.
#[derive(Debug)]
struct Join {
    parts: Vec<Vec<u8>>,
    left: usize,
    combine: Combine,
    version: Version,
}

impl Replies {
    /// Makes a place for the reply to a request with keys of this slot, or that may concern others, and returns its
    /// number.
    pub(crate) fn expect(&self, slot: Option<Slot>) -> u64 {
        self.add(slot, Place::Empty)
    }

    /// Makes a place for the replies to this many parts of a request, at least one.
    pub(crate) fn expect_parts(&self, n: usize, combine: Combine, version: Version) -> u64 {
        let parts = vec![Vec::new(); n];
        self.add(None, Place::Joined(Box::new(Join { parts, left: n, combine, version })))
    }

    fn add(&self, slot: Option<Slot>, place: Place) -> u64 {
        let inner = &mut *self.0.borrow_mut();
        inner.places.push_back(Expected { slot, place, is_message: false });
        inner.first + inner.places.len() as u64 - 1
    }

    /// Puts the reply to a part of a request at its place. A request that is not split has part 0.
    pub(crate) fn fill(&self, number: u64, part: usize, reply: &[u8]) {
        let inner = &mut *self.0.borrow_mut();
        if inner.is_closed {
            return;
        }
        let Some(index) = number.checked_sub(inner.first).map(|index| index as usize) else {
            return;
        };
        let Some(Expected { place, .. }) = inner.places.get_mut(index) else { return };
        match place {
            Place::Joined(join) => {
                join.parts[part] = reply.to_vec();
                join.left -= 1;
                inner.kept += reply.len();
                if join.left > 0 {
                    return;
                }
                inner.kept -= join.parts.iter().map(Vec::len).sum::<usize>();
                let whole = combine(&join.combine, &join.parts, join.version);
                inner.kept += whole.len();
                *place = Place::Filled(whole);
            }
            _ if index == 0 => {
                inner.ready.extend_from_slice(reply);
                inner.places.pop_front();
                inner.first += 1;
                // An empty reply counts as well: the client may wait for room, or for the last of its replies.
                inner.wake();
            }
            _ => {
                inner.kept += reply.len();
                *place = Place::Filled(reply.to_vec());
            }
        }
        inner.advance();
    }

    /// Adds a reply that is known at once.
    pub(crate) fn answer(&self, reply: &[u8]) {
        let number = self.expect(None);
        self.fill(number, 0, reply);
    }

    /// Adds a message that copies are old, behind the replies to all requests so far. One that says no more than the
    /// message before it is left out. If too many wait, a message to drop all copies takes their place.
    pub(crate) fn tell(&self, message: &[u8]) {
        let inner = &mut *self.0.borrow_mut();
        let next = inner.first + inner.places.len() as u64;
        if inner.is_closed || inner.drops_all.is_some_and(|number| number + 1 == next) {
            return;
        }
        let cost = message.len() + size_of::<Expected>();
        let message = match inner.told + cost > TOLD_MAX {
            true => {
                inner.withdraw_messages();
                DROP_ALL
            }
            false => message,
        };
        if message == DROP_ALL {
            inner.drops_all = Some(inner.first + inner.places.len() as u64);
        }
        inner.kept += message.len();
        inner.told += message.len() + size_of::<Expected>();
        let place = Place::Filled(message.to_vec());
        inner.places.push_back(Expected { slot: None, place, is_message: true });
        inner.advance();
    }

    /// Adds a message that answers no request.
    pub(crate) fn push(&self, message: &[u8]) {
        self.0.borrow_mut().ready.extend_from_slice(message);
    }

    /// Counts a request that may write and has no reply yet.
    pub(crate) fn begin_write(&self) {
        self.0.borrow_mut().writes += 1;
    }

    /// Counts a request that may write and has its reply.
    pub(crate) fn end_write(&self) {
        self.0.borrow_mut().writes -= 1;
    }

    /// Notes the connection to a node by which a write was answered.
    pub(crate) fn note_write(&self, node: usize, connection: u64) {
        self.0.borrow_mut().written.insert(node, connection);
    }

    /// The nodes to which the client has written, with the connections of its last writes.
    pub(crate) fn written(&self) -> BTreeMap<usize, u64> {
        self.0.borrow().written.clone()
    }

    /// Whether a request that may write has no reply yet.
    pub(crate) fn awaits_write(&self) -> bool {
        self.0.borrow().writes > 0
    }

    /// Counts a request that waits for another try. Meanwhile the client's later requests must wait as well.
    pub(crate) fn begin_retry(&self) {
        self.0.borrow_mut().retried += 1;
    }

    /// Counts a request that is tried again.
    pub(crate) fn end_retry(&self) {
        let inner = &mut *self.0.borrow_mut();
        inner.retried -= 1;
        inner.wake();
    }

    /// Whether a request waits for another try.
    pub(crate) fn awaits_retry(&self) -> bool {
        self.0.borrow().retried > 0
    }

    /// Whether no request behind this one waits for a reply that may concern the same keys.
    pub(crate) fn is_last(&self, number: u64) -> bool {
        let inner = self.0.borrow();
        let index = number.checked_sub(inner.first).map(|index| index as usize);
        let Some((own, index)) = index.and_then(|at| Some((inner.places.get(at)?, at))) else {
            return true;
        };
        let concerns = |other: &Expected| {
            let is_same = own.slot.is_none() || other.slot.is_none() || own.slot == other.slot;
            is_same && !matches!(other.place, Place::Filled(_))
        };
        !inner.places.range(index + 1..).any(concerns)
    }

    /// The number of requests whose replies are not ready.
    pub(crate) fn waiting(&self) -> usize {
        self.0.borrow().places.len()
    }

    /// Bytes of all replies that have not been taken.
    pub(crate) fn bytes(&self) -> usize {
        let inner = self.0.borrow();
        inner.kept + inner.ready.len()
    }

    /// Appends the replies that may be sent to `out`.
    pub(crate) fn take_ready(&self, out: &mut Vec<u8>) {
        let inner = &mut *self.0.borrow_mut();
        if inner.drops_all.is_some_and(|number| number < inner.first) {
            inner.drops_all = None;
        }
        let ready = &mut inner.ready;
        match out.is_empty() {
            true => std::mem::swap(out, ready),
            false => out.append(ready),
        }
    }

    /// The replies that are sent next, once there are some.
    pub(crate) async fn first(&self) -> Vec<u8> {
        let mut reply = Vec::new();
        poll_fn(|cx| {
            self.wake_later(cx);
            self.take_ready(&mut reply);
            if reply.is_empty() { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
        reply
    }

    /// Forgets where the client has written.
    pub(crate) fn forget_written(&self) {
        self.0.borrow_mut().written.clear();
    }

    /// Wakes this task once a reply may be sent, or a request is tried again.
    pub(crate) fn wake_later(&self, cx: &Context<'_>) {
        let waker = &mut self.0.borrow_mut().waker;
        match waker {
            Some(known) => known.clone_from(cx.waker()),
            None => *waker = Some(cx.waker().clone()),
        }
    }

    /// Drops all replies, those to come as well.
    pub(crate) fn close(&self) {
        let inner = &mut *self.0.borrow_mut();
        inner.is_closed = true;
        (inner.places, inner.ready, inner.kept) = (VecDeque::new(), Vec::new(), 0);
    }

    /// Whether the client has gone.
    pub(crate) fn is_closed(&self) -> bool {
        self.0.borrow().is_closed
    }
}

impl Inner {
    /// Lets the replies at the front go.
    fn advance(&mut self) {
        while let Some(Expected { place: Place::Filled(_), .. }) = self.places.front()
            && let Some(Expected { place: Place::Filled(reply), is_message, .. }) =
                self.places.pop_front()
        {
            self.first += 1;
            self.kept -= reply.len();
            if is_message {
                self.told -= reply.len() + size_of::<Expected>();
            }
            self.ready.extend_from_slice(&reply);
            self.wake();
        }
    }

    /// Takes back the messages about old copies that are in the places. Those behind the last request leave no place.
    fn withdraw_messages(&mut self) {
        while let Some(Expected { place: Place::Filled(message), is_message: true, .. }) =
            self.places.back()
        {
            self.kept -= message.len();
            self.places.pop_back();
        }
        for Expected { place, is_message, .. } in &mut self.places {
            if let Place::Filled(message) = place
                && std::mem::take(is_message)
            {
                self.kept -= std::mem::take(message).len();
            }
        }
        self.told = 0;
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::task::Wake;

    use super::*;

    fn ready(replies: &Replies) -> String {
        let mut out = Vec::new();
        replies.take_ready(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn replies_leave_in_the_order_of_the_requests() {
        let replies = Replies::default();
        let (a, b) = (replies.expect(Some(1)), replies.expect(Some(2)));
        let c = replies.expect_parts(2, Combine::Sum, Version::Resp2);
        replies.answer(b"+d\r\n");
        replies.fill(b, 0, b"+b\r\n");
        assert_eq!((ready(&replies), replies.waiting(), replies.bytes()), (String::new(), 4, 8));
        replies.fill(a, 0, b"+a\r\n");
        assert_eq!((ready(&replies), replies.waiting()), ("+a\r\n+b\r\n".into(), 2));
        replies.fill(c, 1, b":2\r\n");
        assert_eq!((ready(&replies), replies.bytes()), (String::new(), 8));
        assert!(replies.is_last(c + 1) && replies.is_last(c));
        let again = replies.expect(None);
        assert!(replies.is_last(again) && !replies.is_last(c));
        replies.fill(again, 0, b"");
        replies.fill(c, 0, b":3\r\n");
        assert_eq!(ready(&replies), ":5\r\n+d\r\n");
        assert_eq!((replies.waiting(), replies.bytes()), (0, 0));
        replies.answer(b"+e\r\n");
        assert_eq!(ready(&replies), "+e\r\n");
    }

    /// Requests that ask not to be answered once left their client waiting for ever.
    #[test]
    fn an_empty_reply_wakes_the_client() {
        for is_behind in [false, true] {
            let (replies, woken) = (Replies::default(), Arc::new(Woken::default()));
            let first = is_behind.then(|| replies.expect(None));
            let empty = replies.expect(None);
            let waker = Waker::from(woken.clone());
            replies.fill(empty, 0, b"");
            first.inspect(|first| replies.fill(*first, 0, b""));
            assert_eq!(replies.waiting(), 0);
            let more = replies.expect(None);
            replies.wake_later(&Context::from_waker(&waker));
            replies.fill(more, 0, b"");
            assert!(woken.0.load(Ordering::Relaxed), "behind another: {is_behind}");
        }
    }

    #[derive(Default)]
    struct Woken(AtomicBool);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    /// A node that does not answer once let them add up without end.
    #[test]
    fn messages_that_wait_are_bounded() {
        let replies = Replies::default();
        let first = replies.expect(None);
        replies.tell(b">early");
        let second = replies.expect(None);
        let message = [b'>'; 1000];
        for _ in 0..TOLD_MAX / message.len() * 3 {
            replies.tell(&message);
        }
        assert_eq!((replies.waiting(), replies.bytes()), (4, DROP_ALL.len()));
        // What is read behind may change again.
        let third = replies.expect(None);
        replies.tell(b">late");
        replies.fill(third, 0, b"+3");
        replies.fill(second, 0, b"+2");
        replies.fill(first, 0, b"+1");
        let all = String::from_utf8(DROP_ALL.to_vec()).unwrap();
        assert_eq!(ready(&replies), format!("+1+2{all}+3>late"));
        assert_eq!((replies.waiting(), replies.bytes(), replies.0.borrow().told), (0, 0, 0));
    }

    /// A move of many slots once sent one for each.
    #[test]
    fn one_message_to_drop_all_is_enough() {
        let all = String::from_utf8(DROP_ALL.to_vec()).unwrap();
        let replies = Replies::default();
        let tell_all = || (0..3).for_each(|_| replies.tell(DROP_ALL));
        let first = replies.expect(None);
        tell_all();
        let second = replies.expect(None);
        tell_all();
        replies.fill(first, 0, b"+1");
        assert_eq!(ready(&replies), format!("+1{all}"));
        tell_all();
        replies.fill(second, 0, b"+2");
        replies.tell(b">key");
        assert_eq!(ready(&replies), format!("+2{all}"));
        replies.tell(b">key");
        tell_all();
        assert_eq!(ready(&replies), format!(">key{all}"));
        tell_all();
        assert_eq!(ready(&replies), all);
    }

    #[test]
    fn requests_for_other_slots_do_not_count_as_behind() {
        let replies = Replies::default();
        let first = replies.expect(Some(1));
        replies.answer(b"+here\r\n");
        let other = replies.expect(Some(2));
        assert!(replies.is_last(first) && replies.is_last(other));
        let same = replies.expect(Some(1));
        assert!(!replies.is_last(first) && replies.is_last(same));
        replies.fill(same, 0, b"+x\r\n");
        assert!(replies.is_last(first));
    }

    #[test]
    fn nothing_is_kept_for_a_client_that_has_gone() {
        let replies = Replies::default();
        let (a, b) = (replies.expect(None), replies.expect(None));
        replies.fill(b, 0, b"+b\r\n");
        replies.close();
        replies.fill(a, 0, b"+a\r\n");
        assert_eq!((ready(&replies), replies.bytes(), replies.waiting()), (String::new(), 0, 0));
    }
}
