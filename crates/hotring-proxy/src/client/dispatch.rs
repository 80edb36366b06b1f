//! Sends the requests of a client to the nodes that serve them.

use std::rc::Rc;
use std::task::Context;
use std::time::Instant;

use hotring_cluster::Slot;
use hotring_commands::table::{Flags, Group, Spec, resolve};
use hotring_protocol::ArgsView;

use super::Session;
use crate::combine::Combine;
use crate::plan::{Part, Plan, plan, write_part, write_request};
use crate::request::{Request, Target, Ticket};
use crate::upstream::Upstream;

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

impl Session {
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
    pub(super) fn has_room(&mut self, cx: &Context<'_>) -> bool {
        let full = self.full.take();
        let has_room = full.as_ref().is_none_or(|upstream| upstream.has_room(Some(cx)));
        self.full = full.filter(|_| !has_room);
        has_room
    }

    /// Takes a request with the bytes in which it arrived. The command is known unless the request is faulty.
    pub(super) fn take(
        &mut self,
        spec: Option<&'static Spec>,
        args: ArgsView<'_>,
        bytes: &[u8],
    ) -> Flow {
        if args.is_empty() {
            return Flow::Done;
        }
        let Some(spec) = spec.or_else(|| resolve(args).ok()) else {
            return self.refuse_unknown(args);
        };
        if let Some(flow) = self.check_subscribed(spec) {
            return flow;
        }
        if self.transaction.is_some() {
            return self.take_in_transaction(spec, args);
        }
        let plan = plan(spec, args);
        let flow = self.carry_out(spec, args, bytes, plan);
        if flow == Flow::Done {
            self.thread.shared.counters.requests.add(1);
        }
        flow
    }

    fn refuse_unknown(&mut self, args: ArgsView<'_>) -> Flow {
        // ROUTE is no command of a single node.
        if args.at(0).eq_ignore_ascii_case(b"ROUTE") {
            return self.route(args);
        }
        if let Err(error) = resolve(args) {
            self.spoil_transaction();
            self.answer(|writer| writer.error_fmt(format_args!("{error}")));
        }
        Flow::Done
    }

    fn carry_out(
        &mut self,
        spec: &'static Spec,
        args: ArgsView<'_>,
        bytes: &[u8],
        plan: Plan,
    ) -> Flow {
        match plan {
            Plan::Slot(slot) => self.send_one(spec, Target::Slot(slot), args, bytes),
            Plan::Anywhere => self.send_one(spec, Target::Any, args, bytes),
            Plan::Split(parts, combine) => self.send_parts(spec, args, &parts, combine),
            Plan::Everywhere(combine) => self.send_everywhere(spec, args, combine),
            Plan::ScanFirst => match self.thread.layout().first() {
                Some(slot) => self.send_scan(spec, args, slot, 0),
                None => self.send_one(spec, Target::Slot(0), args, bytes),
            },
            Plan::Scan(slot, cursor) => self.send_scan(spec, args, slot, cursor),
            Plan::Here => self.answer_here(spec, args),
            Plan::Alone => Flow::Alone,
            Plan::Refused(refusal) => {
                self.answer(|writer| writer.error_fmt(format_args!("{refusal}")));
                Flow::Done
            }
        }
    }

    /// A request for a place of this client.
    pub(super) fn request(
        &self,
        spec: &Spec,
        target: Target,
        ticket: Ticket,
        now: Instant,
    ) -> Request {
        let writes = !spec.flags.contains(Flags::READONLY);
        let until = now + self.thread.shared.settings.retry_for;
        let mut request = Request::new(target, ticket, writes, until);
        request.is_script = spec.group == Group::Scripting;
        request
    }

    pub(super) fn ticket(&self, number: u64, part: usize) -> Ticket {
        Ticket { replies: self.replies.clone(), number, part }
    }

    /// The connection to the node of this target, if it has room. Without a node the request will wait for one.
    pub(super) fn find_room(&mut self, target: Target) -> Result<Option<Rc<Upstream>>, Flow> {
        let Some(node) = self.thread.node_for(target) else { return Ok(None) };
        let upstream = self.pool.upstream(&self.thread, node);
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
        request: Request,
        now: Instant,
    ) {
        match upstream {
            Some(upstream) => {
                if request.writes {
                    self.written.insert(upstream.node);
                }
                upstream.queue(bytes, request, now);
            }
            None => self.thread.retry(&self.pool, request, bytes.to_vec()),
        }
    }

    fn send_one(
        &mut self,
        spec: &'static Spec,
        target: Target,
        args: ArgsView<'_>,
        bytes: &[u8],
    ) -> Flow {
        let upstream = match self.find_room(target) {
            Ok(upstream) => upstream,
            Err(flow) => return flow,
        };
        let now = Instant::now();
        let mut written = std::mem::take(&mut self.scratch);
        // A line that a person has typed.
        let bytes = match bytes[0] {
            b'*' => bytes,
            _ => {
                written.clear();
                write_request(args.iter(), &mut written);
                &written
            }
        };
        match (upstream, target) {
            (Some(upstream), Target::Slot(slot)) if may_merge(spec) => {
                self.send_read(spec, &upstream, slot, bytes, now);
            }
            (upstream, _) => {
                let ticket = self.ticket(self.replies.expect(), 0);
                let request = self.request(spec, target, ticket, now);
                self.queue(upstream, bytes, request, now);
            }
        }
        self.scratch = written;
        Flow::Done
    }

    /// Sends a read, or joins one of the same that is not sent yet.
    fn send_read(
        &mut self,
        spec: &'static Spec,
        upstream: &Upstream,
        slot: Slot,
        bytes: &[u8],
        now: Instant,
    ) {
        let mut ticket = self.ticket(self.replies.expect(), 0);
        // A read must not overtake the client's own writes.
        if !self.replies.awaits_write() {
            match upstream.join(slot, bytes, ticket) {
                Ok(()) => return self.thread.shared.counters.merged.add(1),
                Err(back) => ticket = back,
            }
        }
        let request = self.request(spec, Target::Slot(slot), ticket, now);
        upstream.queue_joinable(slot, bytes, request, now);
    }

    /// Sends each part, a request of its own, to the shard of its slot.
    fn send_parts(
        &mut self,
        spec: &'static Spec,
        args: ArgsView<'_>,
        parts: &[Part],
        combine: Combine,
    ) -> Flow {
        let slots: Vec<Slot> = parts.iter().map(|part| part.slot).collect();
        self.send_all(spec, &slots, combine, |i, out| write_part(spec, args, &parts[i], out))
    }

    /// Sends the request to every shard.
    fn send_everywhere(
        &mut self,
        spec: &'static Spec,
        args: ArgsView<'_>,
        combine: Combine,
    ) -> Flow {
        let layout = self.thread.layout();
        let mut slots: Vec<Slot> = layout.first().into_iter().collect();
        while let Some(next) = slots.last().and_then(|last| layout.after(*last)) {
            slots.push(next);
        }
        if slots.is_empty() {
            slots.push(0);
        }
        self.send_all(spec, &slots, combine, |_, out| write_request(args.iter(), out))
    }

    fn send_scan(
        &mut self,
        spec: &'static Spec,
        args: ArgsView<'_>,
        slot: Slot,
        cursor: u64,
    ) -> Flow {
        let next = self.thread.layout().after(slot);
        let cursor = cursor.to_string();
        self.send_all(spec, &[slot], Combine::Page { slot, next }, |_, out| {
            let words = args.iter().enumerate();
            let words: Vec<&[u8]> =
                words.map(|(at, word)| if at == 1 { cursor.as_bytes() } else { word }).collect();
            write_request(words.into_iter(), out);
        })
    }

    fn send_all(
        &mut self,
        spec: &'static Spec,
        slots: &[Slot],
        combine: Combine,
        write: impl Fn(usize, &mut Vec<u8>),
    ) -> Flow {
        let mut upstreams = Vec::with_capacity(slots.len());
        for slot in slots {
            match self.find_room(Target::Slot(*slot)) {
                Ok(upstream) => upstreams.push(upstream),
                Err(flow) => return flow,
            }
        }
        let now = Instant::now();
        let number = self.replies.expect_parts(slots.len(), combine, self.protocol());
        for (part, (slot, upstream)) in slots.iter().zip(upstreams).enumerate() {
            let ticket = self.ticket(number, part);
            let request = self.request(spec, Target::Slot(*slot), ticket, now);
            let mut bytes = std::mem::take(&mut self.scratch);
            bytes.clear();
            write(part, &mut bytes);
            self.queue(upstream, &bytes, request, now);
            self.scratch = bytes;
        }
        Flow::Done
    }
}

/// Whether several requests for the same may share one reply.
fn may_merge(spec: &Spec) -> bool {
    spec.flags.contains(Flags::READONLY)
        && spec.sole_key().is_some()
        && !spec.tips.contains(&"nondeterministic_output")
}
