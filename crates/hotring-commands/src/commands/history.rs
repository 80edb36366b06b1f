//! Earlier values of a key: HISTORY, ROLLBACK. Both are extensions of hotring.

use hotring_protocol::{ArgsView, parse_i64};

use crate::state::context::Context;
use crate::state::failure::{Failure, Outcome};

/// Replies with an array of `[version, Unix milliseconds of its replacement, value]`, newest first.
pub(crate) fn history(c: &mut Context<'_>) -> Outcome {
    let count = count(c.args.tail(2))?;
    let reply_len_max = c.reply_len_max;
    let found = c.store.history(&c.args[1], c.now, |history| {
        c.reply.body_first(
            |reply| {
                let mut n_written = 0;
                for earlier in history.earlier().take(count) {
                    if reply.written() > reply_len_max {
                        break;
                    }
                    reply.array(3);
                    reply.int(earlier.version as i64);
                    reply.int(earlier.replaced_at as i64);
                    reply.bulk(earlier.value);
                    n_written += 1;
                }
                n_written
            },
            |reply, n_written| reply.array(n_written),
        );
    });
    match found {
        Some(()) => c.hit(),
        None => {
            c.miss();
            c.reply.null_array();
        }
    }
    c.check_reply_len()
}

fn count(options: ArgsView<'_>) -> Result<usize, Failure> {
    match options.len() {
        0 => Ok(usize::MAX),
        2 if options.at(0).eq_ignore_ascii_case(b"count") => {
            let count = parse_i64(options.at(1)).ok_or(Failure::NotAnInteger)?;
            match usize::try_from(count) {
                Ok(count) if count > 0 => Ok(count),
                _ => Err(Failure::text("ERR COUNT should be greater than 0")),
            }
        }
        _ => Err(Failure::Syntax),
    }
}

pub(crate) fn rollback(c: &mut Context<'_>) -> Outcome {
    let version = parse_i64(&c.args[2]).ok_or(Failure::NotAnInteger)?;
    // A version below 1 matches no value.
    let version = u64::try_from(version).unwrap_or(0);
    match c.store.roll_back(&c.args[1], version, c.now)? {
        true => c.reply.ok(),
        false => c.reply.null(),
    }
    Ok(())
}
