//! One command, run and answered: alone by the executor, or as a part of a transaction.

use hotring_protocol::Spec;
use hotring_store::StoreError;

use crate::client::Closing;
use crate::commands;
use crate::context::Context;
use crate::failure::Failure;

/// Runs a command. What it fails with becomes its reply.
#[inline(always)]
pub(crate) fn answer(spec: &'static Spec, c: &mut Context<'_>) {
    c.client.last = Some(spec.id);
    let start = c.reply.written();
    let mut outcome = commands::run(spec.id, c);
    if let Some(damaged) = c.store.take_damage() {
        // Whatever was answered took the key for absent.
        let key = damaged.key.unwrap_or_default();
        c.counters.damaged_reads.add(1);
        c.server.warn_of_damage(&key, c.now);
        outcome = Err(Failure::Damaged(key));
    }
    if let Err(failure) = outcome {
        fail(c, start, &failure);
    }
}

/// Answers with an error in place of all that has been written since `start`.
fn fail(c: &mut Context<'_>, start: usize, failure: &Failure) {
    c.counters.errors.add(1);
    note_stalled(c, failure);
    // A command that fails half-way must not leave half a reply, nor wait for another one.
    c.reply.buffer().truncate(start);
    if c.client.wait().is_some() {
        c.client.end_wait(c.now);
    }
    if matches!(failure, Failure::ReplyTooLong) {
        c.client.closing = Some(Closing::OutputLimit);
    } else {
        c.reply.error(failure.message().as_bytes());
    }
}

/// Counts a refusal for want of memory, and says so in the log now and then.
pub(crate) fn note_stalled(c: &Context<'_>, failure: &Failure) {
    if let Failure::Store(StoreError::Stalled(stalled)) = failure {
        c.counters.rejected_stalled.add(1);
        c.server.warn_of_stalled(stalled, c.now);
    }
}
