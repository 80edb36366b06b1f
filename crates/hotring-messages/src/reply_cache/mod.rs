//! The server's end without I/O: sessions of clients, and the replies to their writes, so that a write that comes
//! again is answered and not run again.
//!
//! 1. A session is made by a greeting alone, never by a request, and its number is never used again in this
//!    incarnation. So a request that comes late, after its session was forgotten, is refused.
//! 2. All sessions end with the term: what a failover has undone must not be answered as done, and what an earlier
//!    incarnation has run must not be run again.
//! 3. A write is known from when it begins to run until the floor of its client passes it. Below the floor nothing
//!    is run: the client has its answer, or has told that its fate is unknown.
//!
//! Several caches of one server, each of another thread, must begin with numbers that never meet. A client that comes
//! to another thread than before gets a new session, and its writes that are under way an unknown fate.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::endpoint::Peer;
use crate::message::{Head, Hello, Refusal, Request, Term, Welcome};

/// What the cache may hold.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Most clients.
    pub sessions_max: usize,
    /// A client that is silent for this long may be forgotten in favour of another one.
    pub idle: Duration,
    /// Most writes of a client whose replies are kept: a write's id must be less than this above the floor.
    pub window: u32,
    /// Most bytes of replies that are kept for a client. A reply that finds no room is forgotten, not its request.
    pub reply_bytes_max: usize,
}

/// What must be done with a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Admission<'a> {
    /// Run it, and tell [`ReplyCache::finish`].
    Run,
    /// Send this reply again.
    Again(&'a [u8]),
    /// Nothing: it is running, or its client waits for it no longer.
    Drop,
    /// Send this refusal.
    Refuse(Refusal),
}

/// The sessions of a server's clients.
#[derive(Debug)]
pub struct ReplyCache {
    term: Term,
    bounds: Bounds,
    first: u64,
    next: u64,
    sessions: BTreeMap<u64, Session>,
    /// The session of each client.
    clients: BTreeMap<u64, u64>,
}

#[derive(Debug)]
struct Session {
    client: u64,
    user: Box<[u8]>,
    /// None while the client's connection is broken.
    peer: Option<Peer>,
    message_len_max: u32,
    used: Duration,
    floor: u64,
    /// The writes from the floor on.
    writes: BTreeMap<u64, Write>,
    reply_bytes: usize,
}

#[derive(Debug)]
enum Write {
    Running {
        /// Whether a copy has come meanwhile.
        is_asked_again: bool,
    },
    Replied(Box<[u8]>),
    /// Its reply was too long to be kept.
    ReplyGone,
}

impl ReplyCache {
    /// No sessions yet; the first one gets the number `first`, above 0.
    pub fn new(term: Term, bounds: Bounds, first: u64) -> ReplyCache {
        let (sessions, clients) = (BTreeMap::new(), BTreeMap::new());
        ReplyCache { term, bounds, first, next: first, sessions, clients }
    }

    /// The present term.
    pub fn term(&self) -> Term {
        self.term
    }

    /// Begins a term: all sessions of the earlier one are over. Call it before anything is run in the new term.
    pub fn begin(&mut self, term: Term) {
        if term.incarnation != self.term.incarnation {
            self.next = self.first;
        } else if term == self.term || wrong!(KeepOverEpoch) {
            return;
        }
        self.term = term;
        self.sessions.clear();
        self.clients.clear();
    }

    /// Greets a client whose password was right: the number of its session and what it must keep to. A client that
    /// comes back goes on with its session, over another connection, too.
    pub fn greet(
        &mut self,
        now: Duration,
        peer: Peer,
        hello: &Hello<'_>,
        message_len_max: u32,
    ) -> Result<(u64, Welcome), Refusal> {
        let welcome = Welcome { window: self.bounds.window, message_len_max };
        if let Some(&number) = self.clients.get(&hello.client) {
            let session = self.sessions.get_mut(&number).expect("each client has a session");
            if *session.user != *hello.user {
                return Err(Refusal::Denied);
            }
            (session.peer, session.used) = (Some(peer), now);
            session.message_len_max = hello.message_len_max;
            if wrong!(EmptySession) {
                session.writes.clear();
            }
            return Ok((number, welcome));
        }
        if self.sessions.len() >= self.bounds.sessions_max {
            self.make_room(now)?;
        }
        let number = self.next;
        self.next += 1;
        if wrong!(SameSession) {
            self.next = self.first;
        }
        let session = Session {
            client: hello.client,
            user: hello.user.into(),
            peer: Some(peer),
            message_len_max: hello.message_len_max,
            used: now,
            floor: 0,
            writes: BTreeMap::new(),
            reply_bytes: 0,
        };
        self.sessions.insert(number, session);
        self.clients.insert(hello.client, number);
        Ok((number, welcome))
    }

    /// A connection is over. Its client may come back over another one.
    pub fn leave(&mut self, peer: Peer) {
        let gone = self.sessions.values_mut().filter(|session| session.peer == Some(peer));
        gone.for_each(|session| session.peer = None);
    }

    /// Where the client of a request is connected now.
    pub fn peer(&self, head: &Head) -> Option<Peer> {
        self.sessions.get(&head.session).filter(|_| self.is_of_term(head))?.peer
    }

    /// Whether the client still waits at this peer for the answer to a request.
    pub fn is_awaited(&self, peer: Peer, head: &Head) -> bool {
        self.peer(head) == Some(peer)
    }

    /// Whether the session of a request is over.
    pub fn is_over(&self, head: &Head) -> bool {
        !self.is_of_term(head) || !self.sessions.contains_key(&head.session)
    }

    /// Whether a request that was admitted must still be run, if that did not happen at once: its client waits for it.
    pub fn is_wanted(&self, peer: Peer, head: &Head, is_write: bool) -> bool {
        if !is_write {
            return self.is_awaited(peer, head);
        }
        let session = self.sessions.get(&head.session).filter(|_| self.is_of_term(head));
        session.is_some_and(|session| session.writes.contains_key(&head.id))
    }

    /// Forgets the clients that are gone and have been silent for long enough, with the replies that are kept for them.
    pub fn sweep(&mut self, now: Duration) {
        let idle = self.bounds.idle;
        let is_over = |_: &u64, session: &mut Session| {
            session.peer.is_none() && !session.runs() && now.saturating_sub(session.used) >= idle
        };
        for (_, session) in self.sessions.extract_if(.., is_over) {
            self.clients.remove(&session.client);
        }
    }

    /// Forgets a client that is gone, or else one that has been silent for long enough: the one that has been so for
    /// longest.
    fn make_room(&mut self, now: Duration) -> Result<(), Refusal> {
        let may_go = |session: &Session| {
            let is_idle = now.saturating_sub(session.used) >= self.bounds.idle;
            !session.runs() && (session.peer.is_none() || is_idle)
        };
        let all = self.sessions.iter().filter(|(_, session)| may_go(session));
        let first = all.min_by_key(|(_, session)| (session.peer.is_some(), session.used));
        let number = first.map(|(number, _)| *number);
        let session = number.and_then(|number| self.sessions.remove(&number));
        self.clients.remove(&session.ok_or(Refusal::Full)?.client);
        Ok(())
    }

    /// Decides about a request of a peer.
    pub fn admit(
        &mut self,
        now: Duration,
        peer: Peer,
        head: &Head,
        request: &Request<'_>,
    ) -> Admission<'_> {
        let is_present = self.is_of_term(head);
        let session = self.sessions.get_mut(&head.session);
        let Some(session) = session.filter(|session| is_present && session.peer == Some(peer))
        else {
            return Admission::Refuse(Refusal::SessionOver);
        };
        session.used = now;
        session.raise_floor(request.floor);
        if !request.operations.iter().any(|operation| operation.is_write()) || wrong!(NoReplyCache)
        {
            return Admission::Run;
        }
        if head.id < session.floor && !wrong!(RunBelowFloor) {
            return Admission::Drop;
        }
        if head.id >= session.floor.saturating_add(u64::from(self.bounds.window)) {
            return Admission::Refuse(Refusal::Misused);
        }
        match session.writes.get_mut(&head.id) {
            None => {}
            Some(Write::Running { .. }) if wrong!(RunTwice) => return Admission::Run,
            Some(Write::Running { is_asked_again }) => {
                *is_asked_again = true;
                return Admission::Drop;
            }
            // Looked up again, as the borrow of the first look would last for all arms.
            Some(Write::Replied(_)) => match &session.writes[&head.id] {
                Write::Replied(reply) => return Admission::Again(reply),
                _ => unreachable!("it was looked at just now"),
            },
            Some(Write::ReplyGone) => return Admission::Refuse(Refusal::ReplyGone),
        }
        session.writes.insert(head.id, Write::Running { is_asked_again: false });
        Admission::Run
    }

    /// Whether a copy of a write has come while it ran: its client does not count on the first answer any more.
    pub fn is_asked_again(&self, head: &Head) -> bool {
        let write = self.write(head);
        matches!(write, Some(Write::Running { is_asked_again: true })) && !wrong!(LoseTwice)
    }

    /// Takes the reply to a request that was run. False if it must not be sent: its session is over, and what was run
    /// may be undone; or its client waits for it no longer.
    #[must_use]
    pub fn finish(&mut self, head: &Head, is_write: bool, reply: &[u8]) -> bool {
        let is_present = self.is_of_term(head);
        let session = self.sessions.get_mut(&head.session).filter(|_| is_present);
        let Some(session) = session else { return false };
        if !is_write || wrong!(NoReplyCache) {
            return true;
        }
        let Some(write) = session.writes.get_mut(&head.id) else { return false };
        if session.reply_bytes + reply.len() <= self.bounds.reply_bytes_max {
            session.reply_bytes += reply.len();
            *write = Write::Replied(reply.into());
        } else if wrong!(ForgetLong) {
            session.writes.remove(&head.id);
        } else {
            *write = Write::ReplyGone;
        }
        true
    }

    /// Whether the reply to a write is kept.
    pub fn keeps(&self, head: &Head) -> bool {
        matches!(self.write(head), Some(Write::Replied(_)))
    }

    /// The longest message that the client of this request reads, in bytes; 0 if its session is over.
    pub fn message_len_max(&self, head: &Head) -> usize {
        self.session(head).map_or(0, |session| session.message_len_max as usize)
    }

    /// The session of a request, if that is not over.
    fn session(&self, head: &Head) -> Option<&Session> {
        self.sessions.get(&head.session).filter(|_| self.is_of_term(head))
    }

    fn write(&self, head: &Head) -> Option<&Write> {
        self.session(head)?.writes.get(&head.id)
    }

    fn is_of_term(&self, head: &Head) -> bool {
        if wrong!(KeepOverEpoch) {
            return head.term.incarnation == self.term.incarnation;
        }
        head.term == self.term || wrong!(AnyTerm)
    }
}

impl Session {
    fn runs(&self) -> bool {
        self.writes.values().any(|write| matches!(write, Write::Running { .. }))
    }

    fn raise_floor(&mut self, floor: u64) {
        if floor <= self.floor {
            return;
        }
        self.floor = floor;
        let above = self.writes.split_off(&(floor + u64::from(wrong!(ForgetFloor))));
        for write in std::mem::replace(&mut self.writes, above).into_values() {
            if let Write::Replied(reply) = write {
                self.reply_bytes -= reply.len();
            }
        }
    }
}

#[cfg(test)]
mod tests;
