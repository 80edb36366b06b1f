//! SCRUB: finds items whose memory has changed since they were written. The command is an extension of hotring.
//! [`crate::state::scrub`] does the walk.

use hotring_protocol::{ArgsView, parse_i64};
use hotring_store::index::Checksum;

use crate::state::context::Context;
use crate::state::failure::{Failure, Outcome};
use crate::state::scrub::Status;

const NO_CHECKSUMS: Failure = Failure::text(
    "ERR items have no checksums: start the server with the setting 'checksum' at write or verify",
);

pub(crate) fn start(c: &mut Context<'_>) -> Outcome {
    let rate = rate(c.args.tail(2))?;
    if c.server.store.checksum() == Checksum::Off {
        return Err(NO_CHECKSUMS);
    }
    if !c.server.tasks.scrubber.start(rate, c.now) {
        return Err(Failure::text("ERR a scrub is running already; SCRUB STOP ends it"));
    }
    c.reply.ok();
    Ok(())
}

/// Parses the rate in items per second; 0 for no limit.
fn rate(options: ArgsView<'_>) -> Result<u64, Failure> {
    match options.len() {
        0 => Ok(0),
        2 if options.at(0).eq_ignore_ascii_case(b"rate") => {
            let rate = parse_i64(options.at(1)).ok_or(Failure::NotAnInteger)?;
            match u64::try_from(rate) {
                Ok(rate) if rate > 0 => Ok(rate),
                _ => Err(Failure::text("ERR RATE should be greater than 0")),
            }
        }
        _ => Err(Failure::Syntax),
    }
}

pub(crate) fn stop(c: &mut Context<'_>) -> Outcome {
    if !c.server.tasks.scrubber.stop(c.now) {
        return Err(Failure::text("ERR no scrub is running"));
    }
    c.reply.ok();
    Ok(())
}

pub(crate) fn status(c: &mut Context<'_>) -> Outcome {
    let status = c.server.tasks.scrubber.status();
    let numbers = numbers(&status);
    c.reply.map(numbers.len() + 3);
    c.reply.bulk(b"state");
    c.reply.bulk(status.phase.name().as_bytes());
    c.reply.bulk(b"progress_percent");
    c.reply.bulk_fmt(format_args!("{:.1}", status.progress * 100.0));
    for (name, number) in numbers {
        c.reply.bulk(name.as_bytes());
        c.reply.int(number as i64);
    }
    c.reply.bulk(b"damaged_keys");
    c.reply.array(status.keys.len());
    for key in &status.keys {
        c.reply.bulk(key.as_bytes());
    }
    Ok(())
}

/// The counters, under the names that SCRUB STATUS and INFO share.
pub(super) fn numbers(status: &Status) -> [(&'static str, u64); 7] {
    let counts = &status.counts;
    [
        ("items", counts.items),
        ("bytes", counts.bytes),
        ("items_without_checksum", counts.unchecked),
        ("damaged", counts.damaged),
        ("rate", status.rate),
        ("started_at_ms", status.started_at),
        ("ended_at_ms", status.ended_at),
    ]
}
