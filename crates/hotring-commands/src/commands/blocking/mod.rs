//! Blocking commands that wait for an element of a list or of a sorted set: BLPOP and its relatives.
//!
//! Such a command holds its keys and examines them in order. If one has an element, the command takes that element as
//! the command without the B does. Otherwise the client joins the line of waiting clients of each key
//! ([`hotring_store::Taker`]), and its connection's task waits. A command that stores a value under a key with a line
//! must serve that line before it replies ([`serve_ready`]). A transaction or script serves the lines once, at its end.

mod element;
mod request;
mod serve;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hotring_store::{Role, StoreError, Taker};

use super::key::type_name;
use crate::state::blocked::{Blocked, Want};
use crate::state::client::Wait;
use crate::state::context::Context;
use crate::state::failure::{Failure, Outcome};
use crate::table::resolve;
pub(crate) use request::{blmove, blmpop, blpop, brpop, brpoplpush, bzmpop, bzpopmax, bzpopmin};
pub(crate) use serve::serve_ready;

/// Bytes that one entry of a line takes in addition to the key.
const ENTRY_MEMORY: usize = 160;

/// Longest timeout. Redis adds the timeout to the current Unix time, in milliseconds as an `i64`.
const LIMIT_MS_MAX: f64 = i64::MAX as f64;

/// The result of examining the keys.
enum Examined {
    /// The reply is written.
    Taken,
    /// No key has an element.
    Nothing,
    /// The key at this index has an element, but other clients have waited for that key for longer.
    Queued(usize),
}

/// Takes the requested elements from the first key that has one, or makes the client wait.
fn take_or_wait(
    c: &mut Context<'_>,
    want: &Want,
    keys: &[&[u8]],
    limit: Option<Duration>,
) -> Outcome {
    if want.destination().is_some() {
        // Memory must be freed before the keys are held: a session that holds keys never evicts.
        c.store.admit()?;
    }
    let is_present = |key: &&[u8]| c.store.peek_value(key, c.now, |_| ()).is_some();
    if c.client.may_wait() && !keys.iter().any(is_present) && wait_behind(c, want, keys, limit)? {
        return Ok(());
    }
    let held: Vec<&[u8]> = keys.iter().copied().chain(want.destination()).collect();
    loop {
        let examined = c.alone(&held, |c| {
            if c.store.is_displaced() {
                return Err(StoreError::Displaced.into());
            }
            let examined = examine_keys(c, want, keys)?;
            match examined {
                Examined::Nothing if c.client.may_wait() => {
                    check_role(c)?;
                    wait(c, want, keys, limit);
                }
                Examined::Nothing if want.destination().is_some() => c.reply.null(),
                Examined::Nothing => c.reply.null_array(),
                Examined::Taken | Examined::Queued(_) => {}
            }
            Ok::<_, Failure>(examined)
        })?;
        match examined {
            Examined::Taken | Examined::Nothing => return Ok(()),
            Examined::Queued(i) => serve::serve(keys[i], c),
        }
    }
}

fn examine_keys(c: &mut Context<'_>, want: &Want, keys: &[&[u8]]) -> Result<Examined, Failure> {
    for (i, key) in keys.iter().enumerate() {
        match c.store.peek_value(key, c.now, type_name) {
            None => c.miss(),
            Some(name) if name != want.type_name() => return Err(StoreError::WrongType.into()),
            // A transaction or script takes the element itself: waiting clients are served only at its end.
            Some(_) if c.client.may_wait() && is_wanted(c, want, key) => {
                return Ok(Examined::Queued(i));
            }
            Some(_) => {
                c.hit();
                element::take(c, want, key)?;
                return Ok(Examined::Taken);
            }
        }
    }
    Ok(Examined::Nothing)
}

/// Whether another client waits for an element of the same type.
fn is_wanted(c: &Context<'_>, want: &Want, key: &[u8]) -> bool {
    let is_other = |taker: &Arc<dyn Taker>| match Blocked::of(&**taker).want.type_name() {
        name if name == want.type_name() => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    c.store.walk_line(key, is_other).is_break()
}

/// Makes the client wait. The client holds the keys, so that no command can serve it before its wait has begun.
fn wait(c: &mut Context<'_>, want: &Want, keys: &[&[u8]], limit: Option<Duration>) {
    line_up(c, want, keys, &[], limit).expect("a line begins for keys that are held");
}

/// Makes the client wait for the keys that it holds and for `others`. None if one of the others has no line.
fn line_up(
    c: &mut Context<'_>,
    want: &Want,
    held: &[&[u8]],
    others: &[&[u8]],
    limit: Option<Duration>,
) -> Option<Arc<Blocked>> {
    let blocked = blocked(c, want);
    let taker: Arc<dyn Taker> = blocked.clone();
    c.client.shared.await_element();
    let entry = c.store.line_up(held, others, &taker);
    if entry.is_none() && c.client.shared.withdraw() {
        return None;
    }
    c.client.begin_wait(Wait::Element { blocked: blocked.clone(), entry, limit });
    let memory = held.iter().chain(others).map(|key| key.len() + ENTRY_MEMORY).sum();
    // ORDERING: Relaxed, statistics.
    c.client.shared.queued_len.store(memory, Ordering::Relaxed);
    Some(blocked)
}

fn blocked(c: &Context<'_>, want: &Want) -> Arc<Blocked> {
    let spec = resolve(c.args).expect("it was resolved before it ran");
    Arc::new(Blocked::new(c.client.shared.clone(), c.client.version, spec, want.clone()))
}

/// Makes the client wait, and holds only the keys without a line. False if one of these has a value, or a line has
/// ended meanwhile.
///
/// Thousands of clients may wait for one key. This way they join its line without holding the key one after the other.
fn wait_behind(
    c: &mut Context<'_>,
    want: &Want,
    keys: &[&[u8]],
    limit: Option<Duration>,
) -> Result<bool, Failure> {
    let (others, held): (Vec<&[u8]>, Vec<_>) = keys.iter().partition(|key| c.store.has_line(key));
    let waiting = match held.is_empty() {
        true => line_up(c, want, &[], &others, limit),
        false => c.alone(&held, |c| {
            let is_present = |key: &&[u8]| c.store.peek_value(key, c.now, |_| ()).is_some();
            let is_free = !held.iter().any(is_present) && check_role(c).is_ok();
            is_free.then(|| line_up(c, want, &held, &others, limit)).flatten()
        }),
    };
    let Some(blocked) = waiting else { return Ok(false) };
    for key in others {
        match c.store.peek_value(key, c.now, type_name) {
            None => {}
            Some(name) if name == want.type_name() => serve::serve(key, c),
            // Report the type error only if nothing else has ended the wait.
            Some(_) if c.client.shared.withdraw() => return Err(StoreError::WrongType.into()),
            Some(_) => {}
        }
        if let Some(served) = blocked.served() {
            c.reply.buffer().extend_from_slice(&served.reply);
            if let Some(lsn) = served.logged {
                c.store.note_logged(lsn);
            }
            c.client.end_wait(c.now);
            break;
        }
    }
    match check_role(c) {
        Err(failure) if blocked.served().is_none() && c.client.shared.withdraw() => Err(failure),
        _ => Ok(true),
    }
}

/// No client waits at a replica. The caller holds the keys, or has read one since its wait began: if this server is a
/// primary still, a change of its role ends the wait.
fn check_role(c: &Context<'_>) -> Outcome {
    match c.store.role() {
        // A change of the slots that are served ends waits, too.
        Role::Primary if c.store.is_displaced() => Err(StoreError::Displaced.into()),
        Role::Primary => Ok(()),
        Role::Replica => Err(StoreError::ReadOnly.into()),
    }
}

/// Parses a timeout in seconds, possibly with a fraction; 0 means no limit. The errors are the same as in Redis.
fn limit(text: &[u8]) -> Result<Option<Duration>, Failure> {
    let no_float = || Failure::text("ERR timeout is not a float or out of range");
    let number = str::from_utf8(text).ok().and_then(|text| text.parse::<f64>().ok());
    let ms = (number.filter(|number| !number.is_nan()).ok_or_else(no_float)? * 1000.0).ceil();
    if ms > LIMIT_MS_MAX {
        return Err(Failure::text("ERR timeout is out of range"));
    }
    if ms < 0.0 {
        return Err(Failure::text("ERR timeout is negative"));
    }
    Ok((ms > 0.0).then(|| Duration::from_millis(ms as u64)))
}
