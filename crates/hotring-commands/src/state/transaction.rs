//! A connection's transaction: the queue of MULTI and the keys of WATCH. The commands are in
//! `commands/transaction.rs`.

use std::sync::Arc;

use hotring_protocol::{ArgsView, KeptArgs};
use hotring_store::KeyState;

use crate::table::{CommandId, Flags, Spec};

/// Queued commands and watched keys.
#[derive(Debug, Default)]
pub struct Transaction {
    queue: Option<Box<Queue>>,
    /// The states of the watched keys. Each change must be followed by
    /// [`publish_watched`](crate::state::client::Client::publish_watched).
    pub watched: Vec<Arc<KeyState>>,
}

/// The requests since MULTI.
#[derive(Debug, Default)]
pub struct Queue {
    requests: KeptArgs,
    specs: Vec<&'static Spec>,
    /// A command was refused: EXEC must be refused as well.
    pub refused: bool,
}

/// Bytes of memory that a thread's idle queue may keep: of a transaction of some tens of commands.
const IDLE_LEN_MAX: usize = 4 << 10;

/// The outcome of offering a request to the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queued {
    /// The request is queued.
    Yes,
    /// The request must run at once.
    Runs,
    /// The request must not be part of a transaction.
    Refused,
    /// The queue exceeds the memory limit of a connection's requests.
    TooMuch,
}

impl Queue {
    /// Number of commands.
    pub(crate) fn len(&self) -> usize {
        self.specs.len()
    }

    /// Bytes of memory.
    pub(crate) fn memory(&self) -> usize {
        self.requests.memory() + self.specs.capacity() * size_of::<&Spec>()
    }

    /// The queue without its commands, if its memory is worth keeping for the thread's next transaction.
    pub(crate) fn into_idle(mut self: Box<Self>) -> Option<Box<Queue>> {
        self.requests.clear();
        self.specs.clear();
        self.refused = false;
        (self.memory() <= IDLE_LEN_MAX).then_some(self)
    }

    /// The commands in order.
    pub(crate) fn commands(&self) -> impl Iterator<Item = (&'static Spec, ArgsView<'_>)> + Clone {
        self.specs.iter().copied().zip(self.requests.iter())
    }
}

impl Transaction {
    /// The queue; None outside of a transaction.
    pub(crate) fn queue(&self) -> Option<&Queue> {
        self.queue.as_deref()
    }

    /// Whether a transaction is open.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.queue.is_some()
    }

    /// Opens a transaction with an empty queue.
    pub(crate) fn begin(&mut self, queue: Box<Queue>) {
        self.queue = Some(queue);
    }

    /// Ends the transaction and the watches; returns the queue and the watched keys.
    pub(crate) fn take(&mut self) -> (Option<Box<Queue>>, Vec<Arc<KeyState>>) {
        (self.queue.take(), std::mem::take(&mut self.watched))
    }

    /// Takes back what [`take`](Self::take) has returned.
    pub(crate) fn put_back(&mut self, queue: Box<Queue>, watched: Vec<Arc<KeyState>>) {
        (self.queue, self.watched) = (Some(queue), watched);
    }

    /// Marks the transaction as failed: EXEC will be refused.
    pub(crate) fn refuse(&mut self) {
        if let Some(queue) = &mut self.queue {
            queue.refused = true;
        }
    }

    /// Queues a request; the queue's memory may grow to `memory_max`.
    pub(crate) fn queue_request(
        &mut self,
        spec: &'static Spec,
        args: ArgsView<'_>,
        memory_max: usize,
    ) -> Queued {
        use CommandId as Id;
        let Some(queue) = &mut self.queue else { return Queued::Runs };
        match spec.id {
            Id::Exec | Id::Discard | Id::Multi | Id::Watch | Id::Quit | Id::Reset => Queued::Runs,
            // Within EXEC it would drop some replies of the transaction, and the client would lose count.
            Id::ClientReply => Queued::Refused,
            _ if spec.flags.contains(Flags::NO_MULTI) => Queued::Refused,
            // As in Redis, nothing more is kept: EXEC will be refused.
            _ if queue.refused => Queued::Yes,
            _ => {
                queue.requests.push(args);
                queue.specs.push(spec);
                if queue.memory() > memory_max { Queued::TooMuch } else { Queued::Yes }
            }
        }
    }
}

/// The error of an EXEC that has run no command because of another error.
pub(crate) fn aborted(error: &str) -> String {
    let cause = error.strip_prefix("ERR ").unwrap_or(error);
    format!("EXECABORT Transaction discarded because of: {cause}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_queue_is_empty_and_small() {
        let mut queue = Box::<Queue>::default();
        queue.requests.add(b"GET");
        queue.requests.end();
        queue.refused = true;
        let mut queue = queue.into_idle().expect("a small one is kept");
        assert_eq!((queue.commands().count(), queue.len(), queue.refused), (0, 0, false));
        queue.requests.add(&[b'v'; IDLE_LEN_MAX + 1]);
        assert!(queue.into_idle().is_none());
    }
}
