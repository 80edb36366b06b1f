//! The server's end over an endpoint. It reads requests, and hands out those that must be run as jobs; it knows neither
//! keys nor users.
//!
//! A slot goes round: posted, a job, the reply in the same slot, posted again. So what is under way is bounded by the
//! number of slots, and a server that has too much to do reads no more. A job that waits for long is put aside and
//! gives its slot back: waits must never take all slots from the writes that would end them. Their owner bounds them.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::endpoint::{Completion, Endpoint, Peer, Slot};
use crate::message::{Answer, Answers, Head, Hello, Message, Operations, Refusal, Status, Term};
use crate::reply_cache::{Admission, ReplyCache};

/// Who says which peers may stay, and who they are.
pub trait Host {
    /// Whether a peer that has connected from this address may stay.
    fn admits(&mut self, peer: Peer, origin: &str) -> bool;

    /// Whether a greeting's user and password are right, and no other client has greeted over this connection.
    fn knows(&mut self, peer: Peer, hello: &Hello<'_>) -> bool;

    /// A peer has left or was sent away. Those that were not admitted do not count.
    fn left(&mut self, peer: Peer);
}

/// A request that must be run.
#[derive(Debug)]
pub struct Job {
    peer: Peer,
    head: Head,
    is_write: bool,
    slot: Slot,
    len: usize,
}

impl Job {
    /// The client's connection.
    pub fn peer(&self) -> Peer {
        self.peer
    }
}

/// A job that was put aside.
#[derive(Debug)]
pub struct Wait {
    peer: Peer,
    head: Head,
}

impl Wait {
    /// The client's connection.
    pub fn peer(&self) -> Peer {
        self.peer
    }
}

/// Slots that are never posted, for the answers of waits.
const SPARE: usize = 1;

/// A server of messages.
#[derive(Debug)]
pub struct Server<E> {
    endpoint: E,
    cache: ReplyCache,
    /// Messages that the endpoint had no room for.
    unsent: VecDeque<(Peer, Slot, usize)>,
    /// Answers of waits that have no slot yet.
    answers: VecDeque<(Peer, Vec<u8>)>,
    /// Connected peers that have not greeted yet, and since when.
    strangers: BTreeMap<Peer, Duration>,
    /// Greetings with a wrong password, and when they are refused.
    denied: BTreeMap<Peer, (Duration, Head)>,
    greeting_max: Duration,
    denial_delay: Duration,
    completions: Vec<Completion>,
    encoded: Vec<u8>,
    out: Vec<u8>,
}

impl<E: Endpoint> Server<E> {
    /// Posts the slots of the endpoint, of which there must be two at least.
    pub fn new(mut endpoint: E, cache: ReplyCache) -> Server<E> {
        assert!(endpoint.slab().free_len() > SPARE, "more slots than the spare ones");
        while endpoint.slab().free_len() > SPARE {
            let slot = endpoint.slab().take().expect("some are free");
            endpoint.post(slot);
        }
        Server {
            endpoint,
            cache,
            unsent: VecDeque::new(),
            answers: VecDeque::new(),
            strangers: BTreeMap::new(),
            denied: BTreeMap::new(),
            greeting_max: Duration::MAX,
            denial_delay: Duration::ZERO,
            completions: Vec::new(),
            encoded: Vec::new(),
            out: Vec::new(),
        }
    }

    /// The endpoint, to wait.
    pub fn endpoint(&mut self) -> &mut E {
        &mut self.endpoint
    }

    /// Begins a term. See [`ReplyCache::begin`].
    pub fn begin(&mut self, term: Term) {
        self.cache.begin(term);
    }

    /// How long a connected peer may take to greet, and how long the refusal of a wrong password is held back.
    /// Meanwhile no other greeting of the peer is looked at.
    pub fn set_patience(&mut self, greeting_max: Duration, denial_delay: Duration) {
        (self.greeting_max, self.denial_delay) = (greeting_max, denial_delay);
    }

    /// Takes what has arrived. Each job must be given to [`Server::finish`], [`Server::put_aside`] or
    /// [`Server::discard`].
    pub fn step(&mut self, now: Duration, host: &mut impl Host, jobs: &mut Vec<Job>) {
        self.endpoint.poll(&mut self.completions);
        for completion in std::mem::take(&mut self.completions) {
            match completion {
                Completion::Sent(slot) if self.endpoint.slab().free_len() < SPARE => {
                    self.endpoint.slab().give(slot);
                }
                Completion::Sent(slot) => self.endpoint.post(slot),
                Completion::Received { from: Some(peer), slot, len } => {
                    self.receive(now, peer, slot, len, host, jobs);
                }
                // Only a greeting could come from a stranger, and those come over connections.
                Completion::Received { from: None, slot, .. } => self.endpoint.post(slot),
                Completion::Came(peer) => {
                    if host.admits(peer, &self.endpoint.origin(peer)) {
                        self.strangers.insert(peer, now);
                    } else {
                        self.endpoint.leave(peer);
                    }
                }
                Completion::Left(peer) => {
                    self.forget(peer);
                    host.left(peer);
                }
            }
        }
        let is_late = |_: &Peer, since: &mut Duration| now - *since >= self.greeting_max;
        let late: Vec<_> = self.strangers.extract_if(.., is_late).collect();
        for (peer, _) in late {
            self.send_away(peer);
            host.left(peer);
        }
        self.refuse_denied(now);
        self.flush();
    }

    /// Ends a peer's connection. Its client may come back over another one.
    pub fn send_away(&mut self, peer: Peer) {
        self.endpoint.leave(peer);
        self.forget(peer);
    }

    fn forget(&mut self, peer: Peer) {
        self.cache.leave(peer);
        self.strangers.remove(&peer);
        self.denied.remove(&peer);
    }

    fn refuse_denied(&mut self, now: Duration) {
        let due: Vec<_> = self.denied.extract_if(.., |_, (due, _)| *due <= now).collect();
        for (peer, (_, head)) in due {
            let head = Head { term: self.cache.term(), ..head };
            Message::Refusal(head, Refusal::Denied).write(&mut self.out);
            self.answers.push_back((peer, self.out.clone()));
        }
    }

    fn receive(
        &mut self,
        now: Duration,
        peer: Peer,
        slot: Slot,
        len: usize,
        host: &mut impl Host,
        jobs: &mut Vec<Job>,
    ) {
        let len_max = self.endpoint.limits().message_len_max as u32;
        let bytes = &self.endpoint.slab().bytes(&slot)[..len];
        let refuse = |head: Head, term, refusal, out: &mut Vec<u8>| {
            Message::Refusal(Head { term, ..head }, refusal).write(out);
        };
        let term = self.cache.term();
        match Message::read(bytes) {
            Ok(Message::Hello(head, hello)) => {
                if self.denied.contains_key(&peer) {
                    return self.endpoint.post(slot);
                }
                if !host.knows(peer, &hello) {
                    self.denied.insert(peer, (now + self.denial_delay, head));
                    return self.endpoint.post(slot);
                }
                match self.cache.greet(now, peer, &hello, len_max) {
                    Ok((session, welcome)) => {
                        self.strangers.remove(&peer);
                        let head = Head { id: head.id, session, term };
                        Message::Welcome(head, welcome).write(&mut self.out);
                    }
                    Err(refusal) => refuse(head, term, refusal, &mut self.out),
                }
            }
            Ok(Message::Request(head, request)) => {
                let is_write = request.operations.iter().any(|operation| operation.is_write());
                match self.cache.admit(now, peer, &head, &request) {
                    Admission::Run => {
                        jobs.push(Job { peer, head, is_write, slot, len });
                        return;
                    }
                    Admission::Again(reply) => {
                        self.out.clear();
                        self.out.extend_from_slice(reply);
                    }
                    Admission::Drop => return self.endpoint.post(slot),
                    Admission::Refuse(refusal) => refuse(head, term, refusal, &mut self.out),
                }
            }
            // What is damaged is asked for again. What else is sent to a server is no request.
            Ok(_) | Err(_) => return self.endpoint.post(slot),
        }
        self.send(peer, slot);
    }

    /// The operations of a job.
    pub fn operations(&mut self, job: &Job) -> Operations<'_> {
        let bytes = &self.endpoint.slab().bytes(&job.slot)[..job.len];
        match Message::read(bytes) {
            Ok(Message::Request(_, request)) => request.operations,
            _ => unreachable!("a job's message was read before, and its slot is not posted"),
        }
    }

    /// Sends a job's answers, one for each operation. Call it once what they acknowledge is as safe as it must be.
    pub fn finish(&mut self, job: Job, answers: &[Answer<'_>]) {
        if !self.write_reply(&job.head, answers) && !self.write_short_reply(&job, answers) {
            let head = Head { term: self.cache.term(), ..job.head };
            Message::Refusal(head, Refusal::ReplyGone).write(&mut self.out);
        }
        if self.cache.finish(&job.head, job.is_write, &self.out) {
            // A client that has come back meanwhile waits there: a copy of its write was dropped.
            let peer = self.cache.peer(&job.head).filter(|_| job.is_write);
            self.send(peer.unwrap_or(job.peer), job.slot);
        } else {
            self.endpoint.post(job.slot);
        }
    }

    /// Ends a job without an answer, as its effect is undone or nothing can be told of it.
    pub fn discard(&mut self, job: Job) {
        self.endpoint.post(job.slot);
    }

    /// Puts a job aside that waits for a change, and gives its slot back. Such a job has one operation and writes
    /// nothing.
    pub fn put_aside(&mut self, job: Job) -> Wait {
        let Job { peer, head, is_write, slot, .. } = job;
        debug_assert!(!is_write, "the reply of a write is kept by its job");
        self.endpoint.post(slot);
        Wait { peer, head }
    }

    /// Whether the client still waits. If not, the wait can be dropped.
    pub fn is_awaited(&self, wait: &Wait) -> bool {
        self.cache.is_awaited(wait.peer, &wait.head)
    }

    /// Sends the answer of a job that was put aside.
    pub fn answer(&mut self, wait: Wait, answer: &Answer<'_>) {
        if self.is_awaited(&wait) && self.write_reply(&wait.head, std::slice::from_ref(answer)) {
            self.answers.push_back((wait.peer, self.out.clone()));
            self.flush();
        }
    }

    /// Whether the reply fits into a message.
    fn write_reply(&mut self, head: &Head, answers: &[Answer<'_>]) -> bool {
        let Some(answers) = Answers::encode(answers, &mut self.encoded) else { return false };
        Message::Reply(*head, answers).write(&mut self.out);
        let len_max = self.endpoint.limits().message_len_max;
        self.out.len() <= len_max.min(self.cache.message_len_max(head))
    }

    /// A reply whose reads have failed for want of room.
    fn write_short_reply(&mut self, job: &Job, answers: &[Answer<'_>]) -> bool {
        let text = b"the reply is too long for a message: ask for fewer keys at once";
        let operations = self.operations(job).iter().zip(answers);
        let shorten = operations.map(|(operation, answer)| match operation.is_write() {
            true => *answer,
            false => Answer::new(operation.key(), Status::Failed, answer.version, text),
        });
        let answers: Vec<Answer<'_>> = shorten.collect();
        self.write_reply(&job.head, &answers)
    }

    fn send(&mut self, peer: Peer, slot: Slot) {
        let len = self.out.len();
        self.endpoint.slab().bytes_mut(&slot)[..len].copy_from_slice(&self.out);
        self.unsent.push_back((peer, slot, len));
        self.flush();
    }

    fn flush(&mut self) {
        while !self.answers.is_empty()
            && let Some(slot) = self.endpoint.slab().take()
        {
            let (peer, bytes) = self.answers.pop_front().expect("there is one");
            self.endpoint.slab().bytes_mut(&slot)[..bytes.len()].copy_from_slice(&bytes);
            self.unsent.push_back((peer, slot, bytes.len()));
        }
        for _ in 0..self.unsent.len() {
            let Some((peer, slot, len)) = self.unsent.pop_front() else { return };
            // Another peer may have room.
            if let Err(slot) = self.endpoint.send(peer, slot, len) {
                self.unsent.push_back((peer, slot, len));
            }
        }
    }
}
