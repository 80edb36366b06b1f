//! Runs one command and writes its reply, for the executor, a transaction or a script.

use hotring_protocol::ArgsView;
use hotring_store::StoreError;

use crate::acl::{Denial, Denied, Origin, Reason};
use crate::commands;
use crate::host::clock;
use crate::state::client::{Client, Closing};
use crate::state::context::Context;
use crate::state::failure::Failure;
use crate::state::server::Server;
use crate::table::{CommandId, Spec};

/// Runs a command. A failure becomes its reply.
#[inline(always)]
pub(crate) fn answer(spec: &'static Spec, c: &mut Context<'_>) {
    c.client.last = Some(spec.id);
    c.counters.by_command.call(spec.id as usize);
    let start = c.reply.written();
    let mut outcome = match spec.is_timed(c.args.len()) {
        true => commands::run_timed(spec.id, c),
        false => commands::run(spec.id, c),
    };
    if let Some(damaged) = c.store.take_damage() {
        // The command treated the damaged key as absent, so its reply must be replaced.
        let key = damaged.key.unwrap_or_default();
        c.counters.damaged_reads.add(1);
        c.server.observe.warnings.damage(&key, c.now);
        outcome = Err(Failure::Damaged(key));
    }
    if let Err(failure) = outcome {
        fail(spec, c, start, &failure);
    }
}

/// Replaces everything that the command has written since `start` by an error. A command that has done nothing because
/// its keys are about to move runs again instead; in a script, its error tells.
fn fail(spec: &Spec, c: &mut Context<'_>, start: usize, failure: &Failure) {
    if matches!(failure, Failure::Store(StoreError::Displaced)) && !c.client.runs_script {
        c.reply.buffer().truncate(start);
        c.locals.long_values.cut(start);
        if c.client.wait().is_some() {
            c.client.end_wait(c.now);
        }
        let version = c.locals.routes.as_ref().map_or(0, |routes| routes.version());
        return c.client.wait_for_move(version, c.now);
    }
    let message = failure.message();
    match failure {
        // As in Redis, a command refused for lack of memory counts as rejected, not as failed.
        Failure::Store(StoreError::OutOfMemory(_) | StoreError::Stalled(_))
        | Failure::Refused(_) => {
            c.counters.by_command.refuse(spec.id as usize);
        }
        _ => c.counters.by_command.fail(spec.id as usize),
    }
    if !matches!(failure, Failure::Counted(_)) {
        c.counters.error(&message);
    }
    note_refusal(c, failure);
    c.client.note_failure();
    // A command that fails halfway must not leave a partial reply or a pending wait.
    c.reply.buffer().truncate(start);
    c.locals.long_values.cut(start);
    if c.client.wait().is_some() {
        c.client.end_wait(c.now);
    }
    if matches!(failure, Failure::ReplyTooLong) {
        c.client.closing = Some(Closing::OutputLimit);
    } else {
        c.reply.error(message.as_bytes());
    }
}

/// Counts a refusal for lack of memory, and logs a warning.
pub(crate) fn note_refusal(c: &Context<'_>, failure: &Failure) {
    match failure {
        Failure::Store(StoreError::Stalled(stalled)) => {
            c.counters.rejected_stalled.add(1);
            c.server.observe.warnings.stalled(stalled, &c.server.settings, c.now);
        }
        Failure::Store(StoreError::OutOfMemory(full)) => {
            c.counters.rejected_maxmemory.add(1);
            c.server.observe.warnings.maxmemory(full, &c.server.settings, c.now);
        }
        _ => {}
    }
}

/// Records that an access rule denied a request, and returns the error.
#[cold]
pub(crate) fn deny(
    denied: Denied,
    spec: &Spec,
    args: ArgsView<'_>,
    client: &Client,
    server: &Server,
    origin: Origin,
) -> String {
    let user = client.access().user();
    let (reason, object) = match denied {
        // Before authentication there is no user to name.
        Denied::Unauthenticated => return denied.message(user, spec),
        // A proxy asks for each of its users; none of them has tried anything.
        Denied::Command if spec.id == CommandId::HotringMirror => {
            return denied.message(user, spec);
        }
        Denied::Command => (Reason::Command, spec.name.as_bytes()),
        Denied::Key(position) => (Reason::Key, args.at(position)),
        Denied::Channel(position) => (Reason::Channel, args.at(position)),
    };
    note_denial(client, server, origin, reason, object, &user.name);
    denied.message(user, spec)
}

/// Adds a denial to the ACL LOG.
pub(crate) fn note_denial(
    client: &Client,
    server: &Server,
    origin: Origin,
    reason: Reason,
    object: &[u8],
    user: &[u8],
) {
    let now = clock::unix_ms();
    let described = commands::client::line(&client.shared, now);
    let denial = Denial { reason, origin, object, user, now, client: described };
    server.acl.log.add(denial, server.settings.config().acllog_len_max);
}
