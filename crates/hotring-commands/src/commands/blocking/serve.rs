//! Serves clients that wait for elements of a key.

use std::ops::ControlFlow;
use std::sync::Arc;

use hotring_protocol::{ArgsView, Writer};
use hotring_store::{Origin, Session, Standing, Taker, Turn};

use super::element;
use crate::commands::key::type_name;
use crate::host::fiber;
use crate::state::blocked::{Blocked, Served};
use crate::state::context::Context;
use crate::state::notify;
use crate::table::Spec;

/// Most clients that are served in one hold. Other sessions' operations on the key wait for that long.
const TURN: usize = 32;

/// Serves the clients that wait for keys under which a command, transaction or script has stored values. Serving may
/// move elements to other keys; then serves the clients that wait for these. All of them are served before the
/// command's reply is sent.
#[cold]
pub(crate) fn serve_ready(spec: &'static Spec, c: &mut Context<'_>) {
    notify_changes(spec, c);
    let home = c.store.database_id();
    while let Some((database_id, key)) = c.store.next_ready() {
        c.store.go_to(database_id);
        serve(&key, c);
    }
    c.store.go_to(home);
}

/// Publishes the changes of one command; must run before the next command makes any.
fn notify_changes(spec: &'static Spec, c: &mut Context<'_>) {
    if c.store.origin().records_changes {
        notify::notify_changes(spec, c.store, c.server, &c.server.settings.config());
    }
}

/// Serves the clients that wait for elements of the key, first come first served, until the elements run out.
pub(super) fn serve(key: &[u8], c: &mut Context<'_>) {
    let before = c.store.origin();
    while serve_turn(key, c) {}
    c.store.act(before);
}

/// Serves up to [`TURN`] clients in one hold; true if more may remain.
fn serve_turn(key: &[u8], c: &mut Context<'_>) -> bool {
    let Some(name) = c.store.peek_value(key, c.now, type_name) else { return false };
    let line = first_in_line(c.store, key, name);
    if line.is_empty() {
        return false;
    }
    let destinations = line.iter().filter_map(|taker| Blocked::of(&**taker).want.destination());
    let held: Vec<&[u8]> = std::iter::once(key).chain(destinations).collect();
    let mut served = Vec::new();
    let outcome = c.alone_here(&held, |c| {
        if let Some(outcome) = barred(key, c) {
            return Some(outcome);
        }
        let mut turns = (0..TURN).map(|_| serve_first(key, &held, c, &mut served));
        turns.find(|turned| *turned != ServeOutcome::Served)
    });
    if outcome == Some(ServeOutcome::MustWait) {
        fiber::give_turn();
    }
    // The log has the records of a hold only once the hold has ended.
    let logged = c.store.last_logged();
    for (taker, reply) in served {
        Blocked::of(&*taker).serve(Served { reply, logged });
    }
    outcome != Some(ServeOutcome::Over)
}

/// The outcome of serving one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServeOutcome {
    /// The client has its reply.
    Served,
    /// The client's element moves to a key that is not held.
    MustHold,
    /// The key is about to move to another node of the cluster, and may stay here all the same.
    MustWait,
    /// The key has no element, or no client waits for one, or it is another node's by now.
    Over,
}

/// The outcome if this node must not take elements from the key, though it has just stored some. Clients that wait for
/// a key of another node are told so by whoever gave it away.
fn barred(key: &[u8], c: &Context<'_>) -> Option<ServeOutcome> {
    if !c.store.is_displaced() {
        return None;
    }
    match c.store.grounds()?.standing(key) {
        Standing::Open => None,
        Standing::Held => Some(ServeOutcome::MustWait),
        Standing::Hidden | Standing::Importing => Some(ServeOutcome::Over),
    }
}

/// The first [`TURN`] clients that wait for a value of this type.
fn first_in_line(store: &Session, key: &[u8], name: &str) -> Vec<Arc<dyn Taker>> {
    let mut line = Vec::new();
    _ = store.walk_line(key, |taker| {
        if Blocked::of(&**taker).want.type_name() == name {
            line.push(taker.clone());
        }
        if line.len() < TURN { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    line
}

/// Claims the first client that waits for an element of the key's type, and takes the element for it.
fn serve_first(
    key: &[u8],
    held: &[&[u8]],
    c: &mut Context<'_>,
    served: &mut Vec<(Arc<dyn Taker>, Vec<u8>)>,
) -> ServeOutcome {
    let Some(name) = c.store.peek_value(key, c.now, type_name) else { return ServeOutcome::Over };
    let mut must_hold = false;
    let claimed = c.store.claim_first(key, |taker| {
        let want = &Blocked::of(&**taker).want;
        if want.type_name() != name {
            return Turn::Passes;
        }
        must_hold = want.destination().is_some_and(|destination| !held.contains(&destination));
        if must_hold { Turn::Stops } else { Turn::Takes }
    });
    let Some(taker) = claimed else {
        return if must_hold { ServeOutcome::MustHold } else { ServeOutcome::Over };
    };
    let reply = take_for(Blocked::of(&*taker), key, c);
    served.push((taker, reply));
    ServeOutcome::Served
}

/// Takes elements from the key on behalf of the waiting client, and returns that client's reply.
fn take_for(blocked: &Blocked, key: &[u8], c: &mut Context<'_>) -> Vec<u8> {
    let actor = blocked.client.id;
    c.store.act(Origin { actor, ..c.store.origin() });
    let mut bytes = Vec::new();
    // The waiting client's own limit applies, not the remainder of the serving client's.
    let len_max = match c.server.settings.config().output_hard_max {
        0 => usize::MAX,
        max => max.saturating_add(c.locals.long_values.len),
    };
    let inner = &mut c.inner(ArgsView::default(), &mut bytes, blocked.version, len_max);
    if let Err(failure) = element::take(inner, &blocked.want, key) {
        let message = failure.message();
        c.counters.by_command.fail(blocked.spec.id as usize);
        c.counters.error(&message);
        bytes.clear();
        Writer::new(&mut bytes, blocked.version).error(message.as_bytes());
    }
    notify_changes(blocked.spec, c);
    bytes
}
