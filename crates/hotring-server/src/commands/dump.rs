//! DUMP and RESTORE: values as bytes, to carry them to another server.

use hotring_protocol::parse_i64;

use crate::context::Context;
use crate::failure::{Failure, Outcome};

const BUSY: Failure = Failure::text("BUSYKEY Target key name already exists.");

pub(crate) fn dump(c: &mut Context<'_>) -> Outcome {
    match c.store.dump(&c.args[1], c.now) {
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
    let (mut has_idle, mut has_frequency) = (false, false);
    let options = c.args.tail(4);
    let mut i = 0;
    while let Some(option) = options.get(i) {
        let number = options.get(i + 1).map(parse_i64);
        i += 1;
        match (option.to_ascii_lowercase().as_slice(), number) {
            (b"replace", _) => replace = true,
            (b"absttl", _) => is_absolute = true,
            // When a key was used last, and how often, is not kept: read, and passed over.
            (b"idletime", Some(seconds)) if !has_frequency => {
                if seconds.ok_or(Failure::NotAnInteger)? < 0 {
                    return Err(Failure::text("ERR Invalid IDLETIME value, must be >= 0"));
                }
                (has_idle, i) = (true, i + 1);
            }
            (b"freq", Some(frequency)) if !has_idle => {
                if !(0..=255).contains(&frequency.ok_or(Failure::NotAnInteger)?) {
                    return Err(Failure::text("ERR Invalid FREQ value, must be >= 0 and <= 255"));
                }
                (has_frequency, i) = (true, i + 1);
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
    match c.store.restore(&c.args[1], &c.args[3], expire_at, replace, c.now)? {
        true => c.reply.ok(),
        false => return Err(BUSY),
    }
    Ok(())
}

#[cfg(test)]
mod tests;
