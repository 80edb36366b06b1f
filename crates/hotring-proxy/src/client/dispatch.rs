//! Sends the requests of a client to the nodes that serve them.

use std::time::Instant;

use hotring_cluster::Slot;
use hotring_commands::table::{Flags, Group, Spec, resolve};
use hotring_protocol::ArgsView;

use super::Session;
use super::core::{Core, Flow, LATE};
use crate::combine::Combine;
use crate::plan::{Part, Plan, write_part, write_request};
use crate::request::{Request, Target, Ticket};

impl Session {
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
        if self.core.thread.is_pool() {
            if let Some(error) = self.pool_error(spec) {
                self.spoil_transaction();
                self.answer(|writer| writer.error(error));
                return Flow::Done;
            }
            if self.core.awaits_keys(spec.routing_keys_of(args)) {
                return Flow::Full;
            }
            if self.core.is_late() {
                self.spoil_transaction();
                self.answer(|writer| writer.error(LATE));
                return Flow::Done;
            }
        }
        if self.transaction.is_some() {
            return self.take_in_transaction(spec, args);
        }
        let plan = self.core.plan(spec, args, |slot| self.core.takes_one_key(slot));
        let flow = self.carry_out(spec, args, bytes, plan);
        if flow == Flow::Done {
            self.core.thread.shared.counters.requests.add(1);
        }
        flow
    }

    fn refuse_unknown(&mut self, args: ArgsView<'_>) -> Flow {
        // ROUTE is no command of a single node.
        if args.at(0).eq_ignore_ascii_case(b"ROUTE") {
            return self.route(args);
        }
        if args.at(0).eq_ignore_ascii_case(b"POOL") && self.core.thread.is_pool() {
            return self.change_pool(args);
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
            Plan::ScanFirst => match self.core.thread.layout().first() {
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

    fn send_one(
        &mut self,
        spec: &'static Spec,
        target: Target,
        args: ArgsView<'_>,
        bytes: &[u8],
    ) -> Flow {
        let upstream = match self.core.find_room(target) {
            Ok(upstream) => upstream,
            Err(flow) => return flow,
        };
        let now = Instant::now();
        let mut written = std::mem::take(&mut self.core.scratch);
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
                let key = spec.sole_key().filter(|_| may_mirror(spec)).map(|at| args.at(at));
                self.core.read(&upstream, (slot, key), bytes, now);
            }
            (upstream, _) => {
                let ticket = self.core.ticket(self.core.replies.expect(target.slot()), 0);
                let request = request(&self.core, spec, target, ticket, now);
                self.core.queue(upstream, bytes, request, now);
            }
        }
        self.core.scratch = written;
        Flow::Done
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
        let slots = self.core.thread.slots_of_primaries();
        self.send_all(spec, &slots, combine, |_, out| write_request(args.iter(), out))
    }

    fn send_scan(
        &mut self,
        spec: &'static Spec,
        args: ArgsView<'_>,
        slot: Slot,
        cursor: u64,
    ) -> Flow {
        let next = self.core.thread.layout().after(slot);
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
        let version = self.protocol();
        self.core.send_all(slots, (combine, version), write, |core, slot, ticket, now| {
            request(core, spec, Target::Slot(slot), ticket, now)
        })
    }
}

/// A request of a command for a place of this client.
fn request(core: &Core, spec: &Spec, target: Target, ticket: Ticket, now: Instant) -> Request {
    let writes = !spec.flags.contains(Flags::READONLY);
    let request = core.request(target, ticket, writes, now);
    Request { is_script: spec.group == Group::Scripting, ..request }
}

/// Whether a mirror may answer. Replies about the use of a key (`OBJECT FREQ`, `MEMORY USAGE`) change without a write.
fn may_mirror(spec: &Spec) -> bool {
    spec.sole_key() == Some(1)
}

/// Whether several requests for the same may share one reply.
fn may_merge(spec: &Spec) -> bool {
    spec.flags.contains(Flags::READONLY)
        && spec.sole_key().is_some()
        && !spec.tips.contains(&"nondeterministic_output")
}
