//! A request on its way to a node.

use std::rc::Rc;
use std::time::Instant;

use hotring_cluster::Slot;

use crate::foreign::translation::Translation;
use crate::link::Protocol;
use crate::mirror::Keeps;
use crate::replies::Replies;
use crate::reply::Form;

/// Which node a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// The primary of a slot.
    Slot(Slot),
    /// Any primary.
    Any,
}

impl Target {
    /// The slot, if it is one.
    pub(crate) fn slot(self) -> Option<Slot> {
        match self {
            Target::Slot(slot) => Some(slot),
            Target::Any => None,
        }
    }
}

/// Where a reply belongs.
#[derive(Debug)]
pub(crate) struct Ticket {
    pub replies: Rc<Replies>,
    pub number: u64,
    pub part: usize,
}

/// A request on its way to a node. Its bytes are elsewhere.
#[derive(Debug)]
pub(crate) struct Request {
    pub target: Target,
    pub ticket: Ticket,
    /// Other clients that have asked the same and get the same reply.
    pub merged: Vec<Ticket>,
    /// It may change something: once it was sent whole, it must not be sent again.
    pub writes: bool,
    /// The form of its replies.
    pub form: Form,
    /// In a pool, what its bytes are in.
    pub speaks: Option<Protocol>,
    /// How its reply becomes the client's, if that has asked in another protocol.
    pub translation: Option<Box<Translation>>,
    /// It is a script, whose refusal by a node may come in its middle.
    pub is_script: bool,
    /// The replies that a node gives to it; only the last one is the client's.
    pub n_replies: usize,
    /// Those that are missing.
    pub missing: usize,
    /// How many of them were errors.
    pub errors: usize,
    /// The first error among the replies that are not the client's.
    pub error: Option<Vec<u8>>,
    /// A transaction: the replies before the one to MULTI.
    pub before_multi: Option<usize>,
    /// The node has refused MULTI.
    pub lacks_multi: bool,
    /// It is tried again until then.
    pub until: Instant,
    /// How often a connection has ended while the node owed its reply next.
    pub losses: u32,
    /// The node that has refused it, and its error, if only another one may get it.
    pub refused_by: Option<(usize, Vec<u8>)>,
    /// How often it was sent elsewhere.
    pub redirects: u32,
    /// Its reply may be kept for others.
    pub keeps: Option<Box<Keeps>>,
    /// It is none of a client's.
    pub aside: Option<Aside>,
}

/// A request of the proxy's own, about mirrors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aside {
    /// The question of this number.
    Ask(u64),
    /// A key was dropped.
    Dropped,
}

impl Request {
    /// A request with one reply.
    pub(crate) fn new(target: Target, ticket: Ticket, writes: bool, until: Instant) -> Self {
        if writes {
            ticket.replies.begin_write();
        }
        Request {
            target,
            ticket,
            merged: Vec::new(),
            writes,
            form: Form::Resp,
            speaks: None,
            translation: None,
            is_script: false,
            n_replies: 1,
            missing: 1,
            errors: 0,
            error: None,
            before_multi: None,
            lacks_multi: false,
            until,
            losses: 0,
            refused_by: None,
            redirects: 0,
            keeps: None,
            aside: None,
        }
    }

    /// A request of the proxy's own.
    pub(crate) fn aside(aside: Aside, now: Instant) -> Self {
        let ticket = Ticket { replies: Rc::default(), number: 0, part: 0 };
        Request { aside: Some(aside), ..Request::new(Target::Any, ticket, false, now) }
    }

    /// The same as a transaction of this many commands, MULTI and EXEC included.
    pub(crate) fn of_transaction(self, n: usize) -> Self {
        Request { n_replies: n, missing: n, before_multi: Some(0), ..self }
    }

    /// Counts a reply. True: it is the last one, and the client's.
    pub(crate) fn count(&mut self, reply: &[u8]) -> bool {
        let is_error = self.form.is_error(reply);
        self.lacks_multi |= is_error && self.before_multi == Some(self.n_replies - self.missing);
        self.missing -= 1;
        self.errors += usize::from(is_error);
        if self.missing > 0 {
            if let Some(translation) = &mut self.translation {
                translation.before.extend_from_slice(reply);
            }
            if is_error && self.error.is_none() {
                self.error = Some(reply.to_vec());
            }
        }
        self.missing == 0
    }

    /// Counts the reply to ASKING, which is sent before it from now on.
    pub(crate) fn asks(&mut self) {
        self.n_replies += 1;
        self.before_multi = self.before_multi.map(|n| n + 1);
    }

    /// Expects all replies once more.
    pub(crate) fn begin_again(&mut self) {
        (self.missing, self.errors, self.error) = (self.n_replies, 0, None);
        self.lacks_multi = false;
        if let Some(translation) = &mut self.translation {
            translation.before.clear();
        }
    }

    /// Whether it was to be a transaction, and its node has refused MULTI but not all the rest.
    pub(crate) fn is_torn(&self) -> bool {
        self.lacks_multi && self.errors < self.n_replies
    }

    /// Whether those who wait for it have sent nothing behind it.
    pub(crate) fn is_last(&self) -> bool {
        self.tickets().all(|ticket| ticket.replies.is_last(ticket.number))
    }

    /// All who wait for its reply.
    pub(crate) fn tickets(&self) -> impl Iterator<Item = &Ticket> {
        std::iter::once(&self.ticket).chain(&self.merged)
    }

    /// Gives all an error of the proxy.
    pub(crate) fn refuse(self, text: &str) {
        let form = self.translation.as_ref().map_or(self.form, |translation| translation.client);
        self.answer(&form.error(text));
    }

    /// Gives all the reply of a node.
    pub(crate) fn finish(self, reply: &[u8]) {
        match &self.translation {
            Some(translation) => self.answer(&translation.reply(reply)),
            None => self.answer(self.form.of_client(reply)),
        }
    }

    /// Gives all a reply in the client's form.
    pub(crate) fn answer(&self, reply: &[u8]) {
        if self.writes {
            self.ticket.replies.end_write();
        }
        self.tickets().for_each(|ticket| ticket.replies.fill(ticket.number, ticket.part, reply));
    }
}
