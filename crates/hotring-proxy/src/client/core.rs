//! What a client of any protocol has: its replies, its connections to nodes, and the order of its requests.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Instant;

use hotring_cluster::Slot;
use hotring_commands::table::Spec;
use hotring_protocol::{ArgsView, Version};

use crate::combine::Combine;
use crate::foreign::server::Kind;
use crate::link::Login;
use crate::mirror::Keeps;
use crate::plan::{Plan, plan, within_pool};
use crate::replies::Replies;
use crate::reply::Form;
use crate::request::{Request, Target, Ticket};
use crate::thread::Thread;
use crate::upstream::Upstream;
use crate::upstreams::Upstreams;

/// Why a request is refused whose keys have not come over in time.
pub(super) const LATE: &str = "TRYAGAIN The key is still at a server that the pool has moved it from, which does not give it away in time: try again, and see what INFO says about the servers and the copy";

/// The common state of a client.
pub(super) struct Core {
    pub thread: Rc<Thread>,
    pub replies: Rc<Replies>,
    pub upstreams: Rc<Upstreams>,
    /// The routes by which its unanswered requests were sent.
    version: u64,
    /// The connection that has no room for the next request.
    full: Option<Rc<Upstream>>,
    /// Brings the keys of the next request to their new servers, and tells whether they came in time.
    bringing: Option<Pin<Box<dyn Future<Output = bool>>>>,
    /// Whether the keys of the next request have not come in time.
    is_late: bool,
    /// A request that the proxy writes.
    pub scratch: Vec<u8>,
}

/// What became of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Flow {
    /// It was answered, or is on its way.
    Done,
    /// It must wait until there is room for it.
    Full,
    /// It must wait for the replies to all before it, and is then served by itself.
    Alone,
}

impl Core {
    pub(super) fn new(thread: Rc<Thread>, login: &Login) -> Self {
        Core {
            replies: Rc::default(),
            upstreams: thread.upstreams(login),
            version: thread.version(),
            thread,
            full: None,
            bringing: None,
            is_late: false,
            scratch: Vec::new(),
        }
    }

    /// Sends requests over other connections from now on. All replies have come.
    pub(super) fn use_upstreams(&mut self, upstreams: Rc<Upstreams>) {
        self.upstreams = upstreams;
        // WAIT would ask connections that have not written.
        self.replies.forget_written();
    }

    /// Whether the client may send another request.
    pub(super) fn may_take(&mut self) -> bool {
        let waiting = self.replies.waiting();
        if self.version != self.thread.version() {
            // What was sent by other routes must be answered first: its later requests could be quicker.
            if waiting > 0 {
                return false;
            }
            self.version = self.thread.version();
        }
        waiting < self.thread.shared.settings.pipeline_max && !self.replies.awaits_retry()
    }

    /// Whether the node that the client waits for has room again.
    pub(super) fn has_room(&mut self, cx: &mut Context<'_>) -> bool {
        if let Some(bringing) = &mut self.bringing {
            let Poll::Ready(is_in_time) = bringing.as_mut().poll(cx) else { return false };
            self.is_late = !is_in_time;
            self.bringing = None;
        }
        let full = self.full.take();
        let has_room = full.as_ref().is_none_or(|upstream| upstream.has_room(Some(cx)));
        self.full = full.filter(|_| !has_room);
        has_room
    }

    /// Whether the next request must wait until its keys have come over from their old servers. If they have not come
    /// in time, it must not, and is refused.
    pub(super) fn awaits_keys<'k>(&mut self, keys: impl Iterator<Item = &'k [u8]> + Clone) -> bool {
        let was_late = std::mem::take(&mut self.is_late);
        let Some(copying) = self.thread.copying() else { return false };
        if !copying.lacks(keys.clone()) {
            return false;
        }
        if was_late {
            self.is_late = true;
            return false;
        }
        let time = self.thread.shared.settings.retry_for;
        self.bringing = Some(Box::pin(copying.bring(keys.map(<[u8]>::to_vec).collect(), time)));
        true
    }

    /// What to do with a request of Redis's protocol.
    pub(super) fn plan(
        &self,
        spec: &'static Spec,
        args: ArgsView<'_>,
        takes_one_key: impl Fn(Slot) -> bool,
    ) -> Plan {
        let planned = plan(spec, args, takes_one_key);
        if self.thread.is_pool() { within_pool(spec, planned) } else { planned }
    }

    /// Whether the request must be refused, since its keys have not come in time.
    pub(super) fn is_late(&self) -> bool {
        self.is_late
    }

    /// Whether the server of a slot takes one key in a request.
    pub(super) fn takes_one_key(&self, slot: Slot) -> bool {
        let server = self.thread.node_for(Target::Slot(slot)).and_then(|at| self.thread.server(at));
        server.is_some_and(|server| server.kind == Kind::Memcached)
    }

    /// A request for a place of this client.
    pub(super) fn request(
        &self,
        target: Target,
        ticket: Ticket,
        writes: bool,
        now: Instant,
    ) -> Request {
        Request::new(target, ticket, writes, now + self.thread.shared.settings.retry_for)
    }

    pub(super) fn ticket(&self, number: u64, part: usize) -> Ticket {
        Ticket { replies: self.replies.clone(), number, part }
    }

    /// The connection to the node of this target, if it has room. Without a node the request will wait for one.
    pub(super) fn find_room(&mut self, target: Target) -> Result<Option<Rc<Upstream>>, Flow> {
        let Some(node) = self.thread.node_for(target) else { return Ok(None) };
        let upstream = self.upstreams.upstream(&self.thread, node);
        if upstream.has_room(None) {
            return Ok(Some(upstream));
        }
        self.full = Some(upstream);
        Err(Flow::Full)
    }

    /// Queues a request at the connection to its node, or has it wait for a node.
    pub(super) fn queue(
        &mut self,
        upstream: Option<Rc<Upstream>>,
        bytes: &[u8],
        mut request: Request,
        now: Instant,
    ) {
        match upstream {
            Some(upstream) => match self.prepare(&upstream, bytes, &mut request) {
                Ok(Some(bytes)) => upstream.queue(&bytes, request, now),
                Ok(None) => upstream.queue(bytes, request, now),
                Err(reply) => request.answer(&reply),
            },
            // An ejected server is not waited for.
            None if self.thread.is_pool() => {
                let refusal = self.thread.refusal(request.target);
                request.refuse(&refusal);
            }
            None => self.thread.retry(&self.upstreams, request, bytes.to_vec()),
        }
    }

    /// Puts a request into the protocol of its server, or gives the error for the client.
    fn prepare(
        &self,
        upstream: &Upstream,
        bytes: &[u8],
        request: &mut Request,
    ) -> Result<Option<Vec<u8>>, Vec<u8>> {
        if self.is_late {
            return Err(request.form.error(LATE));
        }
        self.thread.prepare(upstream.node, self.upstreams.login.protocol, bytes, request)
    }

    /// Sends a request for each of these slots, and makes one reply of theirs.
    pub(super) fn send_all(
        &mut self,
        slots: &[Slot],
        (combine, version): (Combine, Version),
        write: impl Fn(usize, &mut Vec<u8>),
        request: impl Fn(&Core, Slot, Ticket, Instant) -> Request,
    ) -> Flow {
        let mut upstreams = Vec::with_capacity(slots.len());
        for slot in slots {
            match self.find_room(Target::Slot(*slot)) {
                Ok(upstream) => upstreams.push(upstream),
                Err(flow) => return flow,
            }
        }
        let now = Instant::now();
        let number = self.replies.expect_parts(slots.len(), combine, version);
        for (part, (slot, upstream)) in slots.iter().zip(upstreams).enumerate() {
            let request = request(self, *slot, self.ticket(number, part), now);
            let mut bytes = std::mem::take(&mut self.scratch);
            bytes.clear();
            write(part, &mut bytes);
            self.queue(upstream, &bytes, request, now);
            self.scratch = bytes;
        }
        Flow::Done
    }

    /// Answers a read of Redis's protocol from a mirror of its key, or sends it.
    pub(super) fn read(
        &mut self,
        upstream: &Upstream,
        (slot, key): (Slot, Option<&[u8]>),
        bytes: &[u8],
        now: Instant,
    ) {
        // Behind others of the same client the answer could be older than theirs. A client that tracks must read at the
        // node, which would not tell it of changes otherwise.
        let may_mirror = self.replies.waiting() == 0
            && !self.thread.is_pool()
            && self.upstreams.tracking.is_none();
        let key = key.filter(|_| may_mirror);
        let read = key
            .map(|key| upstream.read_mirror(key, bytes, now, |reply| self.replies.answer(reply)));
        match read {
            Some(None) => _ = self.thread.shared.counters.mirrored.add(1),
            read => {
                self.send_read(upstream, slot, bytes, (Form::Resp, read.flatten().flatten()), now)
            }
        }
    }

    /// Sends a read, or joins one of the same that is not sent yet.
    pub(super) fn send_read(
        &mut self,
        upstream: &Upstream,
        slot: Slot,
        bytes: &[u8],
        (form, keeps): (Form, Option<Box<Keeps>>),
        now: Instant,
    ) {
        let ticket = self.ticket(self.replies.expect(Some(slot)), 0);
        let request = self.request(Target::Slot(slot), ticket, false, now);
        let mut request = Request { form, keeps, ..request };
        let translated = match self.prepare(upstream, bytes, &mut request) {
            Ok(translated) => translated,
            Err(reply) => return request.answer(&reply),
        };
        let bytes = translated.as_deref().unwrap_or(bytes);
        // Behind others of the same client it would go back in time.
        if self.replies.waiting() == 1 {
            match upstream.join(slot, bytes, request) {
                Ok(()) => {
                    self.thread.shared.counters.merged.add(1);
                    return;
                }
                Err(back) => request = *back,
            }
        }
        upstream.queue_joinable(slot, bytes, request, now);
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        self.replies.close();
    }
}
