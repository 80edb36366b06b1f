//! Transactions: MULTI, EXEC, DISCARD, WATCH, UNWATCH.
//!
//! The executor queues the commands after MULTI. EXEC must hold the keys of all queued commands and all watched keys
//! exclusively ([`exclusive`](hotring_store::Session::exclusive)) while it checks whether a watched key has changed and
//! runs the queue. So no client on any thread sees an intermediate state, and none writes one of the keys between the
//! check and the end.

use std::sync::Arc;

use hotring_protocol::{ArgsView, Writer};
use hotring_store::{Key, KeyHash, KeyState, StoreError};

use crate::acl::{Denied, Origin};
use crate::commands::answer::{answer, deny, note_refusal};
use crate::state::client::Closing;
use crate::state::context::Context;
use crate::state::failure::{Failure, Outcome};
use crate::state::loading::LOADING;
use crate::state::monitors;
use crate::state::notify;
use crate::state::shown;
use crate::state::tracking;
use crate::state::transaction::{Queue, aborted};
use crate::table::{CommandId, Flags, Spec};

pub(crate) fn multi(c: &mut Context<'_>) -> Outcome {
    if c.client.transaction.is_open() {
        return Err(Failure::text("ERR MULTI calls can not be nested"));
    }
    let queue = c.locals.idle_queue.take().unwrap_or_default();
    c.client.transaction.begin(queue);
    c.client.publish_transaction();
    c.reply.ok();
    Ok(())
}

pub(crate) fn discard(c: &mut Context<'_>) -> Outcome {
    if !c.client.transaction.is_open() {
        return Err(Failure::text("ERR DISCARD without MULTI"));
    }
    c.client.end_transaction();
    c.reply.ok();
    Ok(())
}

pub(crate) fn watch(c: &mut Context<'_>) -> Outcome {
    if c.client.transaction.is_open() {
        return Err(Failure::text("ERR WATCH inside MULTI is not allowed"));
    }
    let outcome = watch_all(c);
    c.client.publish_watched();
    outcome?;
    c.reply.ok();
    Ok(())
}

fn watch_all(c: &mut Context<'_>) -> Outcome {
    let watched_max = c.server.settings.config().watched_max;
    for key in c.args.tail(1).iter() {
        let watched = &mut c.client.transaction.watched;
        // A key that is watched already keeps its first recorded state.
        let database_id = c.store.database_id();
        if watched.iter().any(|stamp| stamp.key() == key && stamp.database_id() == database_id) {
            continue;
        }
        if watched.len() >= watched_max {
            return Err(Failure::from(format!(
                "ERR {watched_max} keys are watched already (max-watched-keys)"
            )));
        }
        watched.push(Arc::new(c.store.key_state(key, c.now)?));
    }
    Ok(())
}

pub(crate) fn unwatch(c: &mut Context<'_>) -> Outcome {
    c.client.transaction.watched.clear();
    c.client.publish_watched();
    c.reply.ok();
    Ok(())
}

pub(crate) fn exec(c: &mut Context<'_>) -> Outcome {
    if !c.client.transaction.is_open() {
        // As in Redis, this error does not end the watches.
        return Err(Failure::text("ERR EXEC without MULTI"));
    }
    let (queue, watched) = c.client.end_transaction();
    let queue = queue.expect("an open transaction has a queue");
    if queue.refused {
        return Err(Failure::text("EXECABORT Transaction discarded because of previous errors."));
    }
    // They were queued while all keys were there.
    let loading = &c.server.persist.loading;
    if loading.is_on()
        && queue.commands().any(|(spec, args)| loading.refuses(spec, args, c.store, c.now))
    {
        return Err(aborted(LOADING).into());
    }
    // Lack of memory must refuse the entire transaction before any command runs.
    if queue.commands().any(|(spec, _)| spec.flags.contains(Flags::DENYOOM))
        && let Err(refusal) = c.store.admit().and_then(|()| c.store.admit_bytes(queue.memory()))
    {
        let refusal = Failure::from(refusal);
        note_refusal(c, &refusal);
        return Err(aborted(&refusal.message()).into());
    }
    let scope = scope(&queue, &watched, c);
    let ran = c.admitted(queue.memory(), |c| match &scope {
        Scope::Nothing => run(&queue, &watched, c),
        Scope::Keys(keys) => {
            c.store.prefetch(&mut keys.iter().map(|key| Key::from(*key)).collect::<Vec<_>>());
            c.alone(keys, |c| run(&queue, &watched, c))
        }
        Scope::Everything => c.alone(&[], |c| run(&queue, &watched, c)),
    });
    if !ran {
        c.client.begin_transaction_again(queue, watched);
        return Err(StoreError::Displaced.into());
    }
    if c.store.marks_writes() {
        match &scope {
            Scope::Nothing => shown::note(c.store, queue.commands()),
            Scope::Keys(keys) => shown::note_keys(c.store, keys.iter().copied()),
            Scope::Everything => shown::note_all(c.store),
        }
    }
    c.client.last = Some(CommandId::Exec);
    c.locals.idle_queue = queue.into_idle();
    Ok(())
}

/// The part of the store that a transaction must hold.
enum Scope<'a> {
    /// A single command is atomic by itself.
    Nothing,
    Keys(Vec<&'a [u8]>),
    Everything,
}

fn scope<'a>(queue: &'a Queue, watched: &'a [Arc<KeyState>], c: &Context<'_>) -> Scope<'a> {
    if watched.is_empty() && queue.len() <= 1 {
        return Scope::Nothing;
    }
    let home = c.store.database_id();
    let leaves = |(spec, args): (&Spec, ArgsView<'_>)| {
        spec.may_touch_any_key() || spec.may_leave_database(args.len())
    };
    if queue.commands().any(leaves) || watched.iter().any(|stamp| stamp.database_id() != home) {
        return Scope::Everything;
    }
    let keys = queue.commands().flat_map(|(spec, args)| spec.keys_of(args));
    let keys: Vec<_> = keys.chain(watched.iter().map(|stamp| stamp.key())).collect();
    if keys.is_empty() { Scope::Nothing } else { Scope::Keys(keys) }
}

/// Runs the queue unless a watched key has changed. False if it must run again from the beginning, because keys are
/// about to move.
fn run(queue: &Queue, watched: &[Arc<KeyState>], c: &mut Context<'_>) -> bool {
    if c.store.is_displaced() {
        return false;
    }
    if watched.iter().any(|stamp| has_changed(stamp, c)) {
        c.reply.null_array();
        return true;
    }
    c.counters.commands.add(queue.len() as u64);
    // Messages may be inserted before the reply and move it, so the positions in `long_values` would be wrong.
    let long_values = std::mem::take(&mut c.locals.long_values);
    let start = c.reply.written();
    c.client.begin_exec();
    c.reply.array(queue.len());
    for (spec, args) in queue.commands() {
        let mut inner = Context {
            key_hash: KeyHash::UNKNOWN,
            args,
            reply: Writer::new(c.reply.buffer(), c.client.version),
            reply_len_max: c.reply_len_max,
            now: c.now,
            store: c.store,
            counters: c.counters,
            locals: c.locals,
            client: c.client,
            server: c.server,
        };
        if is_still_allowed(spec, &mut inner) {
            tracking::before(spec, args, inner.client, &inner.server.push.tracking);
            answer(spec, &mut inner);
            if inner.client.must_run_again() {
                // It is the only one: a transaction of several holds their keys, and none can move.
                inner.client.end_wait(c.now);
                c.locals.long_values = long_values;
                c.client.end_exec(start, c.reply.buffer());
                return false;
            }
        }
        if inner.store.origin().records_changes {
            notify::notify_changes(
                spec,
                inner.store,
                inner.server,
                &inner.server.settings.config(),
            );
        }
        let from = monitors::From::Client(&inner.client.shared);
        inner.server.push.monitors.show(spec, args, from, &inner.server.settings);
        if inner.client.wait().is_some() {
            // A blocking command replies as after its timeout: no other client can change the keys during the
            // transaction.
            inner.client.end_wait(c.now);
            inner.reply.int(0);
        }
        if c.check_reply_len().is_err() || !c.client.check_before(c.reply_left()) {
            c.client.closing = Some(Closing::OutputLimit);
        }
        if c.client.closing == Some(Closing::OutputLimit) {
            // The remaining commands must still run, but without replies.
            c.reply.buffer().truncate(start);
        }
    }
    c.locals.long_values = long_values;
    c.client.end_exec(start, c.reply.buffer());
    true
}

/// Whether a watched key has changed, or is no longer served here, so that another node may have changed it.
fn has_changed(stamp: &KeyState, c: &mut Context<'_>) -> bool {
    // The table is known a little earlier than the store obeys it.
    !c.store.is_unchanged(stamp, c.now)
        || c.locals.routes.as_ref().is_some_and(|routes| !routes.has_key(stamp.key()))
        || c.store.grounds().is_some_and(|grounds| grounds.hides(stamp.key()))
}

/// Whether the client may still run a queued command; if not, replies with the error. Permissions may have changed
/// since the command was queued, and a command of the transaction may have changed the user.
fn is_still_allowed(spec: &Spec, c: &mut Context<'_>) -> bool {
    let Err(denied) = c.client.access().check(spec, c.args) else { return true };
    deny(denied, spec, c.args, c.client, c.server, Origin::Transaction);
    let reason = match denied {
        Denied::Unauthenticated => "authentication is required",
        Denied::Command => "no permission to execute the command or subcommand",
        Denied::Key(_) => "no permission to touch the specified keys",
        Denied::Channel(_) => {
            "no permission to access one of the channels used as argument to the command"
        }
    };
    let error = format!(
        "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC \
         call. This command is no longer allowed for the following reason: {reason}"
    );
    c.counters.error(&error);
    c.reply.error(error);
    false
}
