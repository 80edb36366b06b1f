//! Commands that wait for an element of a list or of a sorted set: BLPOP and its kin.
//!
//! Such a command holds its keys and looks at them in order. Where one has an element it takes that, as the command
//! without the B does. Otherwise the client waits in the lines of all its keys ([`hotring_store::Taker`]), and its
//! connection's task goes on with the wait as with any other. Whatever stores a value under a key with a line serves
//! the line before its reply ([`serve_ready`]); a whole transaction or script does so at its end.

mod element;
mod request;
mod serve;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hotring_store::{StoreError, Taker};

use super::key::type_name;
use crate::state::blocked::{Blocked, Want};
use crate::state::client::Wait;
use crate::state::context::Context;
use crate::state::failure::{Failure, Outcome};
use crate::table::resolve;
pub(crate) use request::{blmove, blmpop, blpop, brpop, brpoplpush, bzmpop, bzpopmax, bzpopmin};
pub(crate) use serve::serve_ready;

/// Memory of a place in a line beyond the key's bytes.
const PLACE_MEMORY: usize = 160;

/// The result of a look at the keys.
enum Looked {
    /// The reply is written.
    Taken,
    /// None of them has an element.
    Nothing,
    /// This one has an element, and others who came before wait for it.
    Behind(usize),
}

/// Takes the requested elements from the first of the keys that has one, or has the client wait for one.
fn take_or_wait(
    c: &mut Context<'_>,
    want: &Want,
    keys: &[&[u8]],
    limit: Option<Duration>,
) -> Outcome {
    if want.destination().is_some() {
        // Before the hold, within which nothing is evicted.
        c.store.admit()?;
    }
    let is_there = |key: &&[u8]| c.store.peek_value(key, c.now, |_| ()).is_some();
    if c.client.may_wait() && !keys.iter().any(is_there) && wait_behind(c, want, keys, limit)? {
        return Ok(());
    }
    let held: Vec<&[u8]> = keys.iter().copied().chain(want.destination()).collect();
    loop {
        let looked = c.alone(&held, |c| {
            let looked = look(c, want, keys)?;
            match looked {
                Looked::Nothing if c.client.may_wait() => wait(c, want, keys, limit),
                Looked::Nothing if want.destination().is_some() => c.reply.null(),
                Looked::Nothing => c.reply.null_array(),
                Looked::Taken | Looked::Behind(_) => {}
            }
            Ok::<_, Failure>(looked)
        })?;
        match looked {
            Looked::Taken | Looked::Nothing => return Ok(()),
            Looked::Behind(i) => serve::serve(keys[i], c),
        }
    }
}

fn look(c: &mut Context<'_>, want: &Want, keys: &[&[u8]]) -> Result<Looked, Failure> {
    for (i, key) in keys.iter().enumerate() {
        match c.store.peek_value(key, c.now, type_name) {
            None => c.miss(),
            Some(name) if name != want.type_name() => return Err(StoreError::WrongType.into()),
            // A transaction or script comes to its end before anyone is served.
            Some(_) if c.client.may_wait() && is_wanted(c, want, key) => {
                return Ok(Looked::Behind(i));
            }
            Some(_) => {
                c.hit();
                element::take(c, want, key)?;
                return Ok(Looked::Taken);
            }
        }
    }
    Ok(Looked::Nothing)
}

/// Whether another client waits for an element of the same type.
fn is_wanted(c: &Context<'_>, want: &Want, key: &[u8]) -> bool {
    let is_other = |taker: &Arc<dyn Taker>| match Blocked::of(&**taker).want.type_name() {
        name if name == want.type_name() => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    c.store.walk_line(key, is_other).is_break()
}

/// Has the client wait. It holds the keys, so that none serves it before its wait has begun.
fn wait(c: &mut Context<'_>, want: &Want, keys: &[&[u8]], limit: Option<Duration>) {
    line_up(c, want, keys, &[], limit).expect("a line begins for keys that are held");
}

/// Has the client wait for keys that it holds and for others. None if one of the others has no line.
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
    let place = c.store.line_up(held, others, &taker);
    if place.is_none() && c.client.shared.withdraw() {
        return None;
    }
    c.client.begin_wait(Wait::Element { blocked: blocked.clone(), place, limit });
    let memory = held.iter().chain(others).map(|key| key.len() + PLACE_MEMORY).sum();
    // ORDERING: Relaxed, a figure.
    c.client.shared.queued_len.store(memory, Ordering::Relaxed);
    Some(blocked)
}

fn blocked(c: &Context<'_>, want: &Want) -> Arc<Blocked> {
    let spec = resolve(c.args).expect("it was resolved before it ran");
    Arc::new(Blocked::new(c.client.shared.clone(), c.client.version, spec, want.clone()))
}

/// Has the client wait, and holds only the keys that none waits for; false if these have a value, or a line is gone.
/// Thousands of clients that come for one key need not hold it then, one after the other.
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
            let is_there = |key: &&[u8]| c.store.peek_value(key, c.now, |_| ()).is_some();
            let is_free = !held.iter().any(is_there);
            is_free.then(|| line_up(c, want, &held, &others, limit)).flatten()
        }),
    };
    let Some(blocked) = waiting else { return Ok(false) };
    for key in others {
        match c.store.peek_value(key, c.now, type_name) {
            None => {}
            Some(name) if name == want.type_name() => serve::serve(key, c),
            // The failure ends the wait, if nothing else has.
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
    Ok(true)
}

/// Seconds, with a fraction; 0 for no limit. The texts are Redis's.
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

/// Redis adds the time to the present one, in milliseconds.
const LIMIT_MS_MAX: f64 = i64::MAX as f64;
