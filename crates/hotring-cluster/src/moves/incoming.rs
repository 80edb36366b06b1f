//! The target's side of a move.

use super::{Ask, Attempt, Outcome, Owner, ToSource, ToTarget, View};
use crate::ids::{Epoch, Lsn};

/// What the target must do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Send this to the source.
    Send(ToSource),
    /// Ask the coordinator.
    Ask(Ask),
    /// Mark this attempt's import in the stream, and say when the in-sync replicas have the mark.
    Begin(Attempt),
    /// Remove the keys of the import and its mark.
    Drop(Attempt),
    /// The slots are this shard's: show the keys of the import, and serve them.
    Show(Attempt),
}

/// An import of which the mark is in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Import {
    attempt: Attempt,
    /// The change that the in-sync replicas must have before the source may go on.
    mark: Option<Lsn>,
}

/// A move, at the primary that gets the slots.
#[derive(Debug)]
pub struct Incoming {
    epoch: Epoch,
    import: Option<Import>,
    /// An attempt that begins once it is known that the present import may be given up.
    next: Option<Attempt>,
    /// The present import ends unless the slots turn out to be this shard's.
    is_aborted: bool,
    /// The number of the request under way; an outcome with another number is of no use.
    reading: Option<u64>,
    asked: u64,
    acts: Vec<Act>,
}

impl Incoming {
    /// A primary that begins in this epoch, with the import whose mark it has, if any.
    pub fn new(epoch: Epoch, marked: Option<Attempt>) -> Self {
        let mut incoming = Incoming {
            epoch,
            import: marked.map(|attempt| Import { attempt, mark: None }),
            next: None,
            // Changes that the earlier primary had may be missing here.
            is_aborted: marked.is_some(),
            reading: None,
            asked: 0,
            acts: Vec::new(),
        };
        match marked {
            Some(attempt) if wrong!(DropUnread) => incoming.drop_import(attempt),
            Some(_) => incoming.read(),
            None => {}
        }
        incoming
    }

    /// The attempt whose changes may be applied.
    pub fn importing(&self) -> Option<Attempt> {
        self.import.map(|import| import.attempt).filter(|_| !self.is_aborted)
    }

    /// What the node must do, in this order.
    pub fn acts(&mut self) -> Vec<Act> {
        std::mem::take(&mut self.acts)
    }

    /// A message of the source. `is_ready` if no key of the slots is left from before they were given away, no move
    /// that gives them away is under way here, and the log can be written.
    pub fn receive(&mut self, message: ToTarget, is_ready: bool) {
        let present = self.import.map(|import| import.attempt);
        match message {
            ToTarget::Open(attempt) if present.is_none_or(|present| attempt > present) => {
                if !is_ready && !wrong!(OpenUnclean) {
                    return self.acts.push(Act::Send(ToSource::NotReady(attempt)));
                }
                self.next = self.next.max(Some(attempt));
                if wrong!(OpenUnread) {
                    return self.begin_next(Some(attempt));
                }
                self.read();
            }
            ToTarget::Mark(attempt, last) if self.importing() == Some(attempt) => {
                self.import = Some(Import { attempt, mark: Some(last) });
                wrong!(ShowEarly => self.show(attempt));
            }
            ToTarget::Committed(attempt) if present == Some(attempt) => self.read(),
            ToTarget::Abort(attempt) if present == Some(attempt) => {
                self.is_aborted = true;
                self.read();
            }
            _ => {}
        }
    }

    /// A watch has seen a change of the table.
    pub fn table_changed(&mut self) {
        if self.import.is_some() && self.reading.is_none() {
            self.read();
        }
    }

    /// A watch has seen that the move has no record any more. No transaction of a present attempt can still take
    /// effect: it expects that record.
    pub fn record_gone(&mut self) {
        self.refuse();
    }

    /// The log can never sync the import: if the power goes, its keys do.
    pub fn log_failed(&mut self) {
        self.refuse();
    }

    fn refuse(&mut self) {
        if let Some(attempt) = self.importing() {
            self.acts.push(Act::Send(ToSource::NotReady(attempt)));
            self.receive(ToTarget::Abort(attempt), true);
        }
    }

    /// The in-sync replicas have the mark of this attempt.
    pub fn begun(&mut self, attempt: Attempt) {
        if self.importing() == Some(attempt) {
            self.acts.push(Act::Send(ToSource::Opened(attempt, self.epoch)));
        }
    }

    /// The log has synced what had come of this attempt when the source asked.
    pub fn synced(&mut self, attempt: Attempt) {
        if self.importing() == Some(attempt) {
            self.acts.push(Act::Send(ToSource::Synced(attempt)));
        }
    }

    /// The in-sync replicas have the import's changes up to this one.
    pub fn has(&mut self, upto: Lsn) {
        let Some(Import { attempt, mark: Some(mark) }) = self.import else { return };
        if upto >= mark && !self.is_aborted {
            self.import = Some(Import { attempt, mark: None });
            self.acts.push(Act::Send(ToSource::Has(attempt, mark)));
        }
    }

    /// What became of the request with this number.
    pub fn outcome(&mut self, number: u64, outcome: Outcome) {
        if self.reading != Some(number) {
            return;
        }
        match outcome {
            Outcome::Read(view) => {
                self.reading = None;
                self.decide(view);
            }
            _ => self.read(),
        }
    }

    /// Goes on with what was read, after the import began.
    fn decide(&mut self, view: View) {
        let next = self.next.take();
        if view.owner == Owner::Target {
            if let Some(Import { attempt, .. }) = self.import {
                self.show(attempt);
            }
            return;
        }
        // An attempt of a source that has been replaced can never be through.
        let may_begin = |next: &Attempt| {
            view.owner == Owner::Source && view.source.1 == next.epoch && view.record.is_some()
        };
        let refused = next.filter(|next| !may_begin(next));
        self.acts.extend(refused.map(|next| Act::Send(ToSource::NotReady(next))));
        self.begin_next(next.filter(may_begin));
    }

    /// Gives the present import up if it is aborted or another attempt begins.
    fn begin_next(&mut self, next: Option<Attempt>) {
        if let Some(Import { attempt, .. }) = self.import
            && (self.is_aborted || next.is_some())
            && !wrong!(KeepOld)
        {
            self.drop_import(attempt);
        }
        if let Some(attempt) = next {
            self.is_aborted = false;
            self.import = Some(Import { attempt, mark: None });
            self.acts.push(Act::Begin(attempt));
        }
    }

    fn show(&mut self, attempt: Attempt) {
        self.import = None;
        self.is_aborted = false;
        self.acts.push(Act::Show(attempt));
    }

    fn drop_import(&mut self, attempt: Attempt) {
        self.import = None;
        self.is_aborted = false;
        self.acts.push(Act::Drop(attempt));
    }

    /// Reads the records from now on: what an earlier request shows may be from before.
    fn read(&mut self) {
        self.asked += 1;
        self.reading = Some(self.asked);
        self.acts.push(Act::Ask(Ask::Read(self.asked)));
    }
}
