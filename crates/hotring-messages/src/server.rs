//! The server's end over an endpoint. It reads requests, and hands out those that must be run as jobs; it knows neither
//! keys nor users.
//!
//! A slot goes round: posted, a job, the reply in the same slot, posted again. So what is under way is bounded by the
//! number of slots, and a server that has too much to do reads no more. A job that waits for long gives its slot back:
//! waits must never take all slots from the writes that would end them. Their owner bounds them.
//!
//! A peer that does not take what is sent to it keeps slots, too. If such peers have most slots they are sent away: the
//! replies to their writes are kept for the connection over which they come back.

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
    by_datagram: bool,
    message: Place,
}

/// Where a job's message is.
#[derive(Debug)]
enum Place {
    /// In a slot, with its length.
    Slot(Slot, usize),
    /// In memory of its own, as the job is held back.
    Own(Box<[u8]>),
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

/// How long a peer may take nothing of what is sent to it while such peers have more than half of the slots. For how
/// long otherwise, its endpoint says.
const UNREAD_MAX: Duration = Duration::from_millis(100);

/// Slots that are never posted, for the answers of waits.
const SPARE: usize = 1;

/// A server of messages.
#[derive(Debug)]
pub struct Server<E> {
    endpoint: E,
    cache: ReplyCache,
    /// Messages that the endpoint had no room for.
    unsent: VecDeque<(Peer, Slot, usize)>,
    /// Answers of waits and of jobs that were held back, which have no slot yet.
    answers: VecDeque<(Peer, Vec<u8>)>,
    /// Connected peers that have not greeted yet, and since when.
    strangers: BTreeMap<Peer, Duration>,
    /// Greetings with a wrong password, and when they are refused.
    denied: BTreeMap<Peer, (Duration, Head)>,
    slots: usize,
    patience: Patience,
    completions: Vec<Completion>,
    encoded: Vec<u8>,
    out: Vec<u8>,
}

/// How long the server is patient with its peers.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// How long a connected peer may take to greet.
    pub greeting_max: Duration,
    /// How long the refusal of a wrong password is held back. Meanwhile no other greeting of the peer is looked at.
    pub denial_delay: Duration,
}

impl<E: Endpoint> Server<E> {
    /// Posts the slots of the endpoint, of which there must be two at least.
    pub fn new(mut endpoint: E, cache: ReplyCache) -> Server<E> {
        let slots = endpoint.slab().free_len();
        assert!(slots > SPARE, "more slots than the spare ones");
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
            slots,
            patience: Patience { greeting_max: Duration::MAX, denial_delay: Duration::ZERO },
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

    /// Sets the limits. Without a call there are none.
    pub fn set_patience(&mut self, patience: Patience) {
        self.patience = patience;
    }

    /// Forgets clients that are gone. See [`ReplyCache::sweep`].
    pub fn sweep(&mut self, now: Duration) {
        self.cache.sweep(now);
    }

    /// Whether all that was given to it has left this end.
    pub fn has_sent_all(&self) -> bool {
        self.unsent.is_empty() && self.answers.is_empty() && self.endpoint.has_sent_all()
    }

    /// Takes what has arrived. Each job must be given to [`Server::finish`], [`Server::put_aside`],
    /// [`Server::give_up`] or [`Server::discard`].
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
        self.refuse_denied(now);
        self.flush();
        let greeting_max = self.patience.greeting_max;
        let is_stranger = |since: &Duration| now.saturating_sub(*since) >= greeting_max;
        let late = self.strangers.iter().filter(|(_, since)| is_stranger(since));
        let mut late: Vec<Peer> = late.map(|(peer, _)| *peer).collect();
        if self.unsent.len() * 2 > self.slots - SPARE {
            let unread = self.unsent.iter().map(|(peer, ..)| *peer);
            late.extend(unread.filter(|peer| self.endpoint.takes_nothing(*peer, UNREAD_MAX)));
        }
        late.sort();
        late.dedup();
        for peer in late {
            self.send_away(peer);
            host.left(peer);
        }
    }

    /// Ends a peer's connection. Its client may come back over another one.
    pub fn send_away(&mut self, peer: Peer) {
        self.endpoint.leave(peer);
        self.forget(peer);
        // What waits for it is lost with it, which frees its slots.
        self.flush();
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
                    self.denied.insert(peer, (now + self.patience.denial_delay, head));
                    return self.endpoint.post(slot);
                }
                match self.cache.greet(now, peer, &hello, len_max) {
                    Ok((session, welcome)) => {
                        self.strangers.remove(&peer);
                        let address = hello.address.to_vec();
                        self.endpoint.set_datagrams_to(peer, &address);
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
                        let (by_datagram, message) = (request.by_datagram, Place::Slot(slot, len));
                        jobs.push(Job { peer, head, is_write, by_datagram, message });
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
            // A datagram that is damaged is asked for again. A connection that brings something else has another end
            // than a client.
            Ok(_) | Err(_) => {
                self.endpoint.post(slot);
                if self.endpoint.limits().reliable {
                    self.send_away(peer);
                    host.left(peer);
                }
                return;
            }
        }
        self.send(peer, slot);
    }

    /// The operations of a job.
    pub fn operations<'a>(&'a mut self, job: &'a Job) -> Operations<'a> {
        let bytes = match &job.message {
            Place::Slot(slot, len) => &self.endpoint.slab().bytes(slot)[..*len],
            Place::Own(bytes) => bytes,
        };
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
        let by_datagram = job.by_datagram && !self.cache.is_asked_again(&job.head);
        if self.cache.finish(&job.head, job.is_write, &self.out) {
            // A client that has come back meanwhile waits there: a copy of its write was dropped.
            let peer = self.cache.peer(&job.head).filter(|_| job.is_write);
            let peer = peer.unwrap_or(job.peer);
            // The only copy of a reply must not be lost: the fate of its write would be unknown.
            let by_datagram = by_datagram && (!job.is_write || self.cache.keeps(&job.head));
            match job.message {
                Place::Slot(slot, _) if by_datagram => self.send_datagram(peer, slot),
                Place::Slot(slot, _) => self.send(peer, slot),
                Place::Own(_) => {
                    self.answers.push_back((peer, self.out.clone()));
                    self.flush();
                }
            }
        } else {
            self.give_up(job);
        }
    }

    /// Ends a job that must not be run, or whose answer must not be told. A client whose session is over is told that.
    pub fn give_up(&mut self, job: Job) {
        self.tell_over(job.peer, &job.head);
        self.discard(job);
    }

    /// Ends a job that was put aside. A client whose session is over is told that.
    pub fn give_up_wait(&mut self, wait: Wait) {
        self.tell_over(wait.peer, &wait.head);
    }

    fn tell_over(&mut self, peer: Peer, head: &Head) {
        if self.cache.is_over(head) {
            let head = Head { term: self.cache.term(), ..*head };
            Message::Refusal(head, Refusal::SessionOver).write(&mut self.out);
            self.answers.push_back((peer, self.out.clone()));
            self.flush();
        }
    }

    /// Whether a job that was held back must still be run. If not, it must be given up: its client waits for it no
    /// longer, or its term is over.
    pub fn is_wanted(&self, job: &Job) -> bool {
        self.cache.is_wanted(job.peer, &job.head, job.is_write)
    }

    /// Holds a job back: gives its slot to others.
    pub fn hold(&mut self, job: Job) -> Job {
        let Place::Slot(slot, len) = job.message else { return job };
        let message = Place::Own(self.endpoint.slab().bytes(&slot)[..len].into());
        self.endpoint.post(slot);
        Job { message, ..job }
    }

    /// Ends a job without an answer, as its effect is undone or nothing can be told of it.
    pub fn discard(&mut self, job: Job) {
        if let Place::Slot(slot, _) = job.message {
            self.endpoint.post(slot);
        }
    }

    /// Puts a job aside that waits for a change, and gives its slot back. Such a job has one operation and writes
    /// nothing.
    pub fn put_aside(&mut self, job: Job) -> Wait {
        debug_assert!(!job.is_write, "the reply of a write is kept by its job");
        let wait = Wait { peer: job.peer, head: job.head };
        self.discard(job);
        wait
    }

    /// Whether the client still waits. If not, the wait can be dropped.
    pub fn is_awaited(&self, wait: &Wait) -> bool {
        self.cache.is_awaited(wait.peer, &wait.head)
    }

    /// Sends the answer of a job that was put aside.
    pub fn answer(&mut self, wait: Wait, answer: &Answer<'_>) {
        if !self.is_awaited(&wait) {
            return self.give_up_wait(wait);
        }
        if self.write_reply(&wait.head, std::slice::from_ref(answer)) {
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
        // Copies, as the keys lie in a slot that stays borrowed otherwise.
        let short: Vec<_> = self
            .operations(job)
            .iter()
            .map(|one| (!one.is_write()).then(|| one.key().to_vec()))
            .collect();
        let pairs = short.iter().zip(answers);
        let shorten = pairs.map(|(key, answer)| match key {
            None => *answer,
            Some(key) => Answer::new(key, Status::Failed, answer.version, text),
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

    /// Sends a reply that may be lost, or as any other if it fits into no datagram.
    fn send_datagram(&mut self, peer: Peer, slot: Slot) {
        let len = self.out.len();
        self.endpoint.slab().bytes_mut(&slot)[..len].copy_from_slice(&self.out);
        if let Err(slot) = self.endpoint.send_datagram(peer, slot, len) {
            self.send(peer, slot);
        }
    }

    fn flush(&mut self) {
        self.flush_answers();
        for _ in 0..self.unsent.len() {
            let Some((peer, slot, len)) = self.unsent.pop_front() else { return };
            // Another peer may have room.
            if let Err(slot) = self.endpoint.send(peer, slot, len) {
                self.unsent.push_back((peer, slot, len));
            }
        }
    }

    /// Sends the answers that have no slot. One that its peer does not take keeps none, as others need it.
    fn flush_answers(&mut self) {
        let mut stuck: Vec<Peer> = Vec::new();
        for _ in 0..self.answers.len() {
            let Some((peer, bytes)) = self.answers.pop_front() else { return };
            if !stuck.contains(&peer) {
                let Some(slot) = self.endpoint.slab().take() else {
                    self.answers.push_front((peer, bytes));
                    return;
                };
                self.endpoint.slab().bytes_mut(&slot)[..bytes.len()].copy_from_slice(&bytes);
                match self.endpoint.send(peer, slot, bytes.len()) {
                    Ok(()) => continue,
                    Err(slot) => self.endpoint.slab().give(slot),
                }
                stuck.push(peer);
            }
            self.answers.push_back((peer, bytes));
        }
    }
}
