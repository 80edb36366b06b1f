//! MULTI, EXEC, DISCARD, WATCH. The proxy keeps the commands of a transaction until EXEC, and sends all of them at once
//! to the shard that has their keys, on the connection that all clients share: nothing comes between them. WATCH needs
//! a connection of its own, on which the transaction goes as well.

use std::time::Instant;

use hotring_cluster::Slot;
use hotring_commands::table::{CommandId, Flags, Spec};
use hotring_protocol::ArgsView;

use super::Session;
use super::core::Flow;
use crate::link::Link;
use crate::plan::{Plan, Refusal, is_subscribing, sole_slot, write_request};
use crate::request::{Request, Target};

/// A transaction whose commands are being collected.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    /// MULTI and the commands as they will be sent.
    bytes: Vec<u8>,
    n_commands: usize,
    slot: Option<Slot>,
    /// The routes at MULTI.
    version: u64,
    /// Why EXEC must fail.
    fault: Option<&'static str>,
}

/// Keys that are watched.
pub(super) struct Watch {
    pub slot: Slot,
    pub link: Link,
}

const ABORTED: &str = "EXECABORT Transaction discarded because of previous errors.";

impl Session {
    pub(super) fn begin_transaction(&mut self) {
        let version = self.core.thread.version();
        let mut transaction = Transaction { version, ..Transaction::default() };
        write_request([&b"MULTI"[..]].into_iter(), &mut transaction.bytes);
        self.transaction = Some(transaction);
        self.answer(|writer| writer.ok());
    }

    /// Lets EXEC fail.
    pub(super) fn spoil_transaction(&mut self) {
        if let Some(transaction) = &mut self.transaction {
            transaction.fault = Some(ABORTED);
        }
    }

    /// Takes a request after MULTI.
    pub(super) fn take_in_transaction(&mut self, spec: &'static Spec, args: ArgsView<'_>) -> Flow {
        match spec.id {
            CommandId::Exec if self.watch.is_some() => return Flow::Alone,
            CommandId::Exec => return self.execute(),
            CommandId::Quit | CommandId::Reset => return Flow::Alone,
            CommandId::Discard if self.watch.is_some() => return Flow::Alone,
            CommandId::Discard => {
                self.transaction = None;
                self.answer(|writer| writer.ok());
            }
            CommandId::Multi => {
                self.refuse_in_transaction("ERR MULTI calls can not be nested");
            }
            CommandId::Watch => {
                self.refuse_in_transaction("ERR WATCH inside MULTI is not allowed");
            }
            _ => self.add_to_transaction(spec, args),
        }
        Flow::Done
    }

    fn refuse_in_transaction(&mut self, error: &str) {
        self.spoil_transaction();
        self.answer(|writer| writer.error(error));
    }

    fn add_to_transaction(&mut self, spec: &'static Spec, args: ArgsView<'_>) {
        let planned = self.core.plan(spec, args, |_| false);
        let is_refused = spec.flags.contains(Flags::NO_MULTI) || is_subscribing(spec);
        let refusal = match planned {
            Plan::Refused(refusal) => Some(refusal),
            Plan::Split(..) => Some(Refusal::Across),
            Plan::Everywhere(_) | Plan::Scan(..) | Plan::ScanFirst => {
                Some(Refusal::Missing(spec.name))
            }
            // These would change the connection that all clients share.
            Plan::Here if !matches!(spec.id, CommandId::Ping | CommandId::Echo) => {
                Some(Refusal::Missing(spec.name))
            }
            Plan::Alone if !spec.flags.contains(Flags::BLOCKING) => {
                Some(Refusal::Missing(spec.name))
            }
            _ => is_refused.then_some(Refusal::Missing(spec.name)),
        };
        if let Some(refusal) = refusal {
            return self.refuse_in_transaction(&refusal.to_string());
        }
        let max = self.core.thread.shared.settings.request_len_max;
        let transaction = self.transaction.as_mut().expect("there is one");
        match (sole_slot(spec, args), transaction.slot) {
            (Some(Ok(slot)), Some(other)) if slot != other => {
                transaction.fault = Some("CROSSSLOT Keys in request don't hash to the same slot");
            }
            (Some(Ok(slot)), _) => transaction.slot = Some(slot),
            _ => {}
        }
        transaction.n_commands += 1;
        if transaction.bytes.len() > max {
            transaction.fault = Some("EXECABORT Transaction discarded because it is too long.");
        } else if transaction.fault.is_none() {
            write_request(args.iter(), &mut transaction.bytes);
        }
        self.answer(|writer| writer.simple("QUEUED"));
    }

    /// Sends the transaction, if nothing is watched.
    fn execute(&mut self) -> Flow {
        let has_changed = |it: &Transaction| it.version != self.core.thread.version();
        if self.core.thread.is_pool() && self.transaction.as_ref().is_some_and(has_changed) {
            self.transaction = None;
            // Its keys may be on their way.
            self.refuse("EXECABORT Transaction discarded because the pool has changed: try again");
            return Flow::Done;
        }
        let Some(transaction) = &self.transaction else { return Flow::Done };
        let target = transaction.slot.map_or(Target::Any, Target::Slot);
        let upstream = match self.core.find_room(target) {
            Ok(upstream) => upstream,
            Err(flow) => return flow,
        };
        let Some((bytes, n)) = self.end_transaction() else { return Flow::Done };
        let now = Instant::now();
        let until = now + self.core.thread.shared.settings.retry_for;
        let ticket = self.core.ticket(self.core.replies.expect(target.slot()), 0);
        let request = Request::new(target, ticket, true, until).of_transaction(n);
        self.core.queue(upstream, &bytes, request, now);
        Flow::Done
    }

    /// Ends the transaction: its bytes and the number of their replies. None: it has failed, and the client knows.
    pub(super) fn end_transaction(&mut self) -> Option<(Vec<u8>, usize)> {
        let mut transaction = self.transaction.take()?;
        if let Some(fault) = transaction.fault {
            self.answer(|writer| writer.error(fault));
            return None;
        }
        write_request([&b"EXEC"[..]].into_iter(), &mut transaction.bytes);
        Some((transaction.bytes, transaction.n_commands + 2))
    }

    /// The slot of the transaction's keys.
    pub(super) fn transaction_slot(&self) -> Option<Slot> {
        self.transaction.as_ref().and_then(|transaction| transaction.slot)
    }
}
