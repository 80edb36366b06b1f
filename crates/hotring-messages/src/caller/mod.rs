//! The client's end without I/O: what is sent when, what is sent again, and the fate of each call.
//!
//! 1. A request is sent only while more RECVs are posted than calls are in flight: each reply finds its slot.
//! 2. A number is never used for two requests. A copy that is sent again has the number of the first one.
//! 3. A write that was sent and has no answer when its session or its deadline is over has an unknown fate. It is
//!    never sent in another session. A call that was never sent surely was not done.
//! 4. The floor, which every request tells, is the lowest write in flight: the server may forget all below it.
//!
//! Calls in flight together have no order among each other. Operations of one call run in order.

mod datagrams;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::message::{
    Answers, Head, Hello, Message, MessageError, Operation, Operations, Refusal, Request, Status,
    Term, Welcome,
};
use datagrams::Datagrams;

/// Copies of a request after which the pause between them grows no longer.
const PAUSES: u32 = 8;

/// How long a client waits for a place at a server that is full.
const FULL_PAUSE: Duration = Duration::from_secs(1);

/// Bytes of a request's message besides its operations.
const REQUEST_LEN: usize = crate::message::HEAD_LEN + 8;

/// Who the client is.
#[derive(Clone, Debug)]
pub struct Login {
    /// The user; empty for the default one.
    pub user: Vec<u8>,
    /// The password; empty for none.
    pub password: Vec<u8>,
}

/// How a client behaves.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Without an answer for this long, a request is sent again; later copies come after longer pauses. Over a reliable
    /// endpoint nothing is lost but with its connection, and this should be longer than any request takes.
    pub retry: Duration,
    /// With a time, short answers may come as datagrams where the endpoint has them. One that has not come within this
    /// time is asked for again, and then comes over the connection. It should be longer than most requests take.
    pub datagrams: Option<Duration>,
    /// Most calls that wait to be sent.
    pub queue_max: usize,
    /// The longest message that the own endpoint sends and receives, in bytes.
    pub message_len_max: usize,
}

/// The name of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// Why a call was not even begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unstarted {
    /// [`Options::queue_max`] calls are waiting: take outcomes first.
    QueueFull,
    /// No operation, too many of them, or a wait beside others.
    Misused,
    /// The operations do not fit into a message: make several calls of them.
    TooLong,
}

/// How a call has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Each operation's answer, in order. None for one that is damaged: the operation was run, but neither version
    /// nor value can be believed.
    Done(Vec<Option<Given>>),
    /// Nothing was done, and nothing will be.
    NotDone(Reason),
    /// A write was done once, or will be, or never. Read the key to know.
    Unknown,
}

/// An answer in memory of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// How the operation has ended.
    pub status: Status,
    /// The key's version afterwards.
    pub version: u64,
    /// The value, the sum, or a text.
    pub value: Vec<u8>,
}

/// Why nothing was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The deadline came first: wait longer, or see whether the server runs.
    Late,
    /// User or password are wrong.
    Denied,
    /// The server reads no messages as long as this one: make several calls of it.
    TooLong,
    /// The server says that the request breaks the format: report the client's fault.
    Misused,
}

/// A client's state.
#[derive(Debug)]
pub struct Caller {
    /// A random number of this client alone.
    client: u64,
    login: Login,
    options: Options,
    datagrams: Datagrams,
    session: Option<Session>,
    /// The greeting under way, during which nothing else is sent.
    greeting: Option<Greeting>,
    /// The next number of a request or greeting.
    next_id: u64,
    next_ticket: u64,
    /// How many RECVs are posted.
    receives: usize,
    queue: VecDeque<Call>,
    in_flight: BTreeMap<u64, Call>,
    /// No call's deadline or repetition is before this, so that each message need not look at all calls.
    first_due: Duration,
    ended: VecDeque<(Ticket, Outcome)>,
}

#[derive(Debug)]
struct Session {
    number: u64,
    term: Term,
    welcome: Welcome,
}

#[derive(Debug)]
struct Greeting {
    id: u64,
    again_at: Duration,
}

#[derive(Debug)]
struct Call {
    ticket: Ticket,
    batch: Batch,
    deadline: Duration,
    /// How often it was sent in its session.
    copies: u32,
    /// Whether the answer to the last copy may come as a datagram.
    by_datagram: bool,
    again_at: Duration,
}

/// Operations in memory of their own, which fit into a message.
#[derive(Debug)]
pub struct Batch {
    count: u16,
    operations: Vec<u8>,
    is_write: bool,
    /// How long the operation itself may wait.
    wait: Duration,
}

impl Batch {
    pub fn new(operations: &[Operation<'_>], options: &Options) -> Result<Batch, Unstarted> {
        let wait = operations.iter().find_map(Operation::wait_ms);
        if operations.is_empty() || (wait.is_some() && operations.len() > 1) {
            return Err(Unstarted::Misused);
        }
        let mut bytes = Vec::new();
        let count = Operations::encode(operations, &mut bytes).ok_or(Unstarted::Misused)?.len();
        if REQUEST_LEN + bytes.len() > options.message_len_max {
            return Err(Unstarted::TooLong);
        }
        let is_write = operations.iter().any(Operation::is_write);
        let wait = Duration::from_millis(wait.unwrap_or(0));
        Ok(Batch { count: count as u16, operations: bytes, is_write, wait })
    }

    /// The call ends after this time, and the server must not go on waiting for the key.
    fn shorten_wait(&mut self, left: Duration) {
        if self.wait <= left {
            return;
        }
        // A part of a millisecond counts whole: the server must not end the wait before the call does.
        let left_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX).saturating_add(1);
        let waits = self.operations().iter().map(|operation| operation.waiting_at_most(left_ms));
        let (waits, mut bytes) = (waits.collect::<Vec<_>>(), Vec::new());
        Operations::encode(&waits, &mut bytes).expect("they are as long as before");
        (self.operations, self.wait) = (bytes, Duration::from_millis(left_ms));
    }

    fn operations(&self) -> Operations<'_> {
        Operations::read(self.count, &self.operations).expect("they were written by this side")
    }
}

impl Caller {
    /// A client that has no session yet. Its random number must be its own: another client with it would get its
    /// replies. None if the login does not fit into a message.
    pub fn new(client: u64, login: Login, options: Options) -> Option<Caller> {
        let fits = hello(client, &login, &[], &options).fits();
        fits.then_some(Caller {
            client,
            login,
            options,
            datagrams: Datagrams::default(),
            session: None,
            greeting: Some(Greeting { id: 1, again_at: Duration::ZERO }),
            next_id: 2,
            next_ticket: 1,
            receives: 0,
            queue: VecDeque::new(),
            in_flight: BTreeMap::new(),
            first_due: Duration::ZERO,
            ended: VecDeque::new(),
        })
    }

    /// Begins a call, which must have ended by `deadline`.
    pub fn start(
        &mut self,
        operations: &[Operation<'_>],
        deadline: Duration,
    ) -> Result<Ticket, Unstarted> {
        let batch = Batch::new(operations, &self.options)?;
        if self.queue.len() >= self.options.queue_max {
            return Err(Unstarted::QueueFull);
        }
        Ok(self.start_batch(batch, deadline))
    }

    /// As [`Caller::start`], for whoever counts the calls.
    pub(crate) fn start_batch(&mut self, batch: Batch, deadline: Duration) -> Ticket {
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.first_due = self.first_due.min(deadline);
        let (copies, by_datagram, again_at) = (0, false, Duration::ZERO);
        self.queue.push_back(Call { ticket, batch, deadline, copies, by_datagram, again_at });
        ticket
    }

    /// One more RECV is posted.
    pub fn posted(&mut self) {
        self.receives += 1;
    }

    /// The connection is another one: the client greets again, and then sends what is not answered.
    pub fn reconnected(&mut self) {
        // What was lost was lost with the connection.
        self.in_flight.values_mut().for_each(|call| call.by_datagram = false);
        self.datagrams = Datagrams::default();
        self.greet();
    }

    /// Whether datagrams are wanted. See [`Options::datagrams`].
    pub fn wants_datagrams(&self) -> bool {
        self.options.datagrams.is_some()
    }

    /// Where datagrams come from the next greeting on; empty for nowhere.
    pub fn set_datagram_address(&mut self, address: Vec<u8>) {
        let fits = hello(self.client, &self.login, &address, &self.options).fits();
        self.datagrams.address = if fits { address } else { Vec::new() };
    }

    fn greet(&mut self) {
        let id = self.take_id();
        self.greeting = Some(Greeting { id, again_at: Duration::ZERO });
    }

    fn take_id(&mut self) -> u64 {
        if wrong!(ReuseIds) {
            let is_free = |id: &u64| !self.in_flight.contains_key(id);
            return (1..).find(is_free).expect("few are in flight");
        }
        self.next_id += 1;
        self.next_id - 1
    }

    /// The next outcome.
    pub fn take(&mut self) -> Option<(Ticket, Outcome)> {
        self.ended.pop_front()
    }

    /// When [`Caller::next_message`] may have something to do, if no message comes first.
    pub fn next_time(&self) -> Option<Duration> {
        let Some(greeting) = &self.greeting else { return self.next_due() };
        let all = self.in_flight.values().chain(&self.queue);
        all.map(|call| call.deadline.min(greeting.again_at)).min()
    }

    fn next_due(&self) -> Option<Duration> {
        let in_flight = self.in_flight.values().map(|call| call.again_at.min(call.deadline));
        in_flight.chain(self.queue.iter().map(|call| call.deadline)).min()
    }

    /// The first deadline of all calls.
    pub fn next_deadline(&self) -> Option<Duration> {
        self.in_flight.values().chain(&self.queue).map(|call| call.deadline).min()
    }

    /// Whether the server has let the client in, over the present connection.
    pub fn is_welcome(&self) -> bool {
        self.session.is_some() && self.greeting.is_none()
    }

    /// Whether a call has not ended.
    pub fn has_calls(&self) -> bool {
        !self.queue.is_empty() || !self.in_flight.is_empty()
    }

    /// Ends the calls whose deadline has come. [`Caller::next_message`] does, too.
    pub fn end_due(&mut self, now: Duration) {
        if self.first_due <= now {
            self.end_late(now);
        }
    }

    /// Writes the next message that must be sent, over what `out` holds. False if there is none now.
    pub fn next_message(&mut self, now: Duration, out: &mut Vec<u8>) -> bool {
        self.end_due(now);
        if self.greeting.is_some() {
            return self.write_hello(now, out);
        }
        let id = self.take_due(now).or_else(|| self.take_queued());
        let (Some(id), Some(session)) = (id, &self.session) else { return false };
        let floor = self.floor();
        let call = self.in_flight.get_mut(&id).expect("it is in flight");
        if call.by_datagram {
            self.datagrams.lose(now);
        }
        call.copies += 1;
        call.batch.shorten_wait(call.deadline.saturating_sub(now));
        let may_be_lost = call.copies == 1 && call.batch.wait.is_zero();
        // Behind a lost answer there must be time for another one.
        let left = call.deadline.saturating_sub(now) / 2;
        let quick = self.options.datagrams.filter(|quick| *quick < left);
        let quick = quick.filter(|_| may_be_lost && self.datagrams.are_open(now));
        call.by_datagram = quick.is_some();
        let slow = self.options.retry.saturating_mul(call.copies.min(PAUSES));
        let pause = quick.unwrap_or(slow);
        call.again_at = now.saturating_add(call.batch.wait).saturating_add(pause);
        self.first_due = self.first_due.min(call.again_at);
        let head = Head { id, session: session.number, term: session.term };
        let (by_datagram, operations) = (call.by_datagram, call.batch.operations());
        Message::Request(head, Request { floor, by_datagram, operations }).write(out);
        true
    }

    fn write_hello(&mut self, now: Duration, out: &mut Vec<u8>) -> bool {
        let may_greet = self.has_calls() && self.receives > 0;
        let due = self.greeting.as_mut().filter(|greeting| may_greet && greeting.again_at <= now);
        let Some(greeting) = due else { return false };
        greeting.again_at = now.saturating_add(self.options.retry);
        let head = Head { id: greeting.id, ..Head::default() };
        let address = &self.datagrams.address;
        Message::Hello(head, hello(self.client, &self.login, address, &self.options)).write(out);
        true
    }

    /// A call whose request must be sent again.
    fn take_due(&mut self, now: Duration) -> Option<u64> {
        if self.first_due > now {
            return None;
        }
        let mut in_flight = self.in_flight.iter();
        let due = in_flight.find(|(_, call)| call.again_at <= now).map(|(id, _)| *id);
        if due.is_none() {
            self.first_due = self.next_due().unwrap_or(Duration::MAX);
        }
        due
    }

    /// Takes the first call from the queue that may be sent. A write that must wait for the floor holds up no read.
    fn take_queued(&mut self) -> Option<u64> {
        let session = self.session.as_ref()?;
        let len_max = session.welcome.message_len_max as usize;
        let is_long = |call: &Call| REQUEST_LEN + call.batch.operations.len() > len_max;
        while self.queue.front().is_some_and(is_long) {
            let call = self.queue.pop_front().expect("it was there");
            self.ended.push_back((call.ticket, Outcome::NotDone(Reason::TooLong)));
        }
        let has_credit = self.in_flight.len() < self.receives || wrong!(NoCredits);
        let is_in_window =
            self.next_id.saturating_sub(self.floor()) < u64::from(session.welcome.window);
        let may = |call: &Call| has_credit && (is_in_window || !call.batch.is_write);
        let at = self.queue.iter().position(|call| may(call) && !is_long(call))?;
        let id = self.take_id();
        self.in_flight.insert(id, self.queue.remove(at)?);
        Some(id)
    }

    fn floor(&self) -> u64 {
        let mut writes = self.in_flight.iter().filter(|(_, call)| call.batch.is_write);
        let lowest = writes.next().map(|(id, _)| *id);
        if wrong!(ReuseIds) {
            return lowest.unwrap_or(0);
        }
        lowest.unwrap_or(self.next_id)
    }

    /// Takes a message, for which a RECV was used up.
    pub fn receive(&mut self, now: Duration, bytes: &[u8]) -> Result<(), MessageError> {
        self.receives = self.receives.saturating_sub(1);
        match Message::read(bytes)? {
            Message::Welcome(head, welcome) => self.welcome(now, head, welcome),
            Message::Reply(head, answers) => return self.reply(head, answers),
            Message::Refusal(head, refusal) => self.refusal(now, head, refusal),
            Message::Hello(..) | Message::Request(..) => return Err(MessageError::Content),
        }
        Ok(())
    }

    fn welcome(&mut self, now: Duration, head: Head, welcome: Welcome) {
        if self.greeting.as_ref().is_none_or(|greeting| greeting.id != head.id) {
            return;
        }
        self.greeting = None;
        let is_same =
            |session: &Session| session.number == head.session && session.term == head.term;
        if self.session.as_ref().is_some_and(is_same) {
            self.in_flight.values_mut().for_each(|call| call.again_at = now);
            self.first_due = now;
        } else {
            self.end_session();
        }
        self.session = Some(Session { number: head.session, term: head.term, welcome });
    }

    /// What is in flight stays there for good, or begins again if it only reads.
    fn end_session(&mut self) {
        self.session = None;
        let in_flight = std::mem::take(&mut self.in_flight);
        for (id, mut call) in in_flight.into_iter().rev() {
            call.again_at = Duration::ZERO;
            if !call.batch.is_write {
                (call.copies, call.by_datagram) = (0, false);
                self.queue.push_front(call);
            } else if wrong!(ResendUnknown) {
                self.in_flight.insert(id, call);
            } else {
                self.ended.push_back((call.ticket, Outcome::Unknown));
            }
        }
    }

    fn reply(&mut self, head: Head, answers: Answers<'_>) -> Result<(), MessageError> {
        let session = self.session.as_ref();
        let is_own =
            |session: &Session| session.number == head.session && session.term == head.term;
        if !session.is_some_and(is_own) {
            return Ok(());
        }
        let Some(call) = self.in_flight.get(&head.id) else { return Ok(()) };
        if answers.len() != call.batch.operations().len() {
            return Err(MessageError::Content);
        }
        let pairs = call.batch.operations().iter().zip(answers.iter());
        let given = pairs.map(|(operation, answer)| {
            let is_right = answer.is_of(operation.key()) || wrong!(TrustAnswers);
            let (status, version) = (answer.status, answer.version);
            is_right.then(|| Given { status, version, value: answer.value.to_vec() })
        });
        let outcome = Outcome::Done(given.collect());
        let call = self.in_flight.remove(&head.id).expect("it was there");
        if call.by_datagram {
            self.datagrams.come();
        }
        self.ended.push_back((call.ticket, outcome));
        Ok(())
    }

    fn refusal(&mut self, now: Duration, head: Head, refusal: Refusal) {
        if let Some(greeting) = self.greeting.as_mut().filter(|greeting| greeting.id == head.id) {
            // The server itself makes guesses slow.
            let pause = if refusal == Refusal::Denied { Duration::ZERO } else { FULL_PAUSE };
            greeting.again_at = now.saturating_add(self.options.retry.min(pause));
            if refusal == Refusal::Denied {
                let queue = std::mem::take(&mut self.queue);
                let in_flight = std::mem::take(&mut self.in_flight);
                for call in in_flight.into_values().chain(queue) {
                    self.end(call, Reason::Denied);
                }
            }
            return;
        }
        let is_own = self.session.as_ref().is_some_and(|session| session.number == head.session);
        if !is_own || !self.in_flight.contains_key(&head.id) {
            return;
        }
        match refusal {
            Refusal::SessionOver => {
                self.end_session();
                self.greet();
            }
            Refusal::ReplyGone | Refusal::Misused => {
                let call = self.in_flight.remove(&head.id).expect("it was there");
                self.end(call, Reason::Misused);
            }
            // Answers to greetings.
            Refusal::Denied | Refusal::Full => {}
        }
    }

    fn end_late(&mut self, now: Duration) {
        let late = self.in_flight.extract_if(.., |_, call| call.deadline <= now);
        let late: Vec<Call> = late.map(|(_, call)| call).collect();
        late.into_iter().for_each(|call| self.end(call, Reason::Late));
        let mut at = 0;
        while let Some(call) = self.queue.get(at) {
            if call.deadline <= now {
                let call = self.queue.remove(at).expect("it is there");
                self.end(call, Reason::Late);
            } else {
                at += 1;
            }
        }
    }

    /// Ends a call that has no answer.
    fn end(&mut self, call: Call, reason: Reason) {
        let may_be_done = call.batch.is_write && call.copies > 0 && !wrong!(CallLateNotDone);
        let outcome = if may_be_done { Outcome::Unknown } else { Outcome::NotDone(reason) };
        self.ended.push_back((call.ticket, outcome));
    }
}

fn hello<'a>(client: u64, login: &'a Login, address: &'a [u8], options: &Options) -> Hello<'a> {
    let Login { user, password } = login;
    let message_len_max = options.message_len_max as u32;
    Hello { client, message_len_max, user, password, address }
}

#[cfg(test)]
mod tests;
