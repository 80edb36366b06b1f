//! DUMP and RESTORE: serialize a value and restore it, also between servers.

use hotring_protocol::parse_i64;
use hotring_store::{Accesses, StoreError};

use crate::rdb::dump::{PayloadError, dump as dumped, undump};
use crate::state::context::Context;
use crate::state::failure::{Failure, Outcome};

const BUSY: Failure = Failure::text("BUSYKEY Target key name already exists.");

pub(crate) fn dump(c: &mut Context<'_>) -> Outcome {
    match c.store.get(&c.args[1], c.now, dumped) {
        Some(payload) => {
            c.hit();
            c.reply.bulk(&payload);
        }
        None => {
            c.miss();
            c.reply.null();
        }
    }
    Ok(())
}

pub(crate) fn restore(c: &mut Context<'_>) -> Outcome {
    let (mut replace, mut is_absolute) = (false, false);
    let (mut idle_seconds, mut frequency) = (None, None);
    let options = c.args.tail(4);
    let mut i = 0;
    while let Some(option) = options.get(i) {
        let number = options.get(i + 1).map(parse_i64);
        i += 1;
        match (option.to_ascii_lowercase().as_slice(), number) {
            (b"replace", _) => replace = true,
            (b"absttl", _) => is_absolute = true,
            (b"idletime", Some(seconds)) if frequency.is_none() => {
                let seconds = u64::try_from(seconds.ok_or(Failure::NotAnInteger)?)
                    .map_err(|_| Failure::text("ERR Invalid IDLETIME value, must be >= 0"))?;
                (idle_seconds, i) = (Some(seconds), i + 1);
            }
            (b"freq", Some(number)) if idle_seconds.is_none() => {
                let number = u8::try_from(number.ok_or(Failure::NotAnInteger)?).map_err(|_| {
                    Failure::text("ERR Invalid FREQ value, must be >= 0 and <= 255")
                })?;
                (frequency, i) = (Some(number), i + 1);
            }
            _ => return Err(Failure::Syntax),
        }
    }
    if !replace && c.store.exists(&c.args[1], c.now) {
        return Err(BUSY);
    }
    let ttl = parse_i64(&c.args[2]).ok_or(Failure::NotAnInteger)?;
    let ttl =
        u64::try_from(ttl).map_err(|_| Failure::text("ERR Invalid TTL value, must be >= 0"))?;
    let base = if is_absolute { 0 } else { c.now };
    // No overflow: both are below 2^63.
    let expire_at = (ttl > 0).then_some(base + ttl);
    let content = undump(&c.args[3], c.store.value_len_max()).map_err(|why| refused(why, c))?;
    if !c.store.put_content(&c.args[1], content, expire_at, replace, c.now)? {
        return Err(BUSY);
    }
    if idle_seconds.is_some() || frequency.is_some() {
        set_accesses(c, idle_seconds, frequency);
    }
    c.reply.ok();
    Ok(())
}

/// Redis's error for an invalid payload.
fn refused(why: PayloadError, c: &Context<'_>) -> Failure {
    match why {
        PayloadError::Sum => Failure::text("ERR DUMP payload version or checksum are wrong"),
        PayloadError::Format => Failure::text("ERR Bad data format"),
        PayloadError::TooLong { len } => {
            StoreError::ValueTooLong { len, len_max: c.store.value_len_max() }.into()
        }
    }
}

/// Sets the idle time (IDLETIME) or the access frequency (FREQ) of the restored key. An option that the eviction policy
/// does not track has no effect, as in Redis.
fn set_accesses(c: &mut Context<'_>, idle_seconds: Option<u64>, frequency: Option<u8>) {
    let idle = idle_seconds.map(|seconds| seconds.saturating_mul(1000));
    c.server.observe.ages.note(|| c.server.store.tick(), c.now);
    let known = match c.store.accesses(&c.args[1], c.now) {
        Some(Accesses::Frequency(_)) => frequency.map(Accesses::Frequency),
        Some(Accesses::Age(_)) => {
            idle.map(|ms| Accesses::Age(c.server.observe.ages.age(ms, c.now)))
        }
        Some(Accesses::Idle(_)) => idle.map(Accesses::Idle),
        _ => None,
    };
    if let Some(known) = known {
        c.store.set_accesses(&c.args[1], known, c.now);
    }
}
