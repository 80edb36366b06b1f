//! `limit`: connections write more than three times as much as `maxmemory` allows, and the process must not
//! exceed the limit by more than a small margin. Only under `noeviction` does the server refuse writes, with the
//! error text of Redis, and it must still answer reads.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use anyhow::{Result, ensure};

use super::measure::{Measure, mib};
use super::subject::Subject;
use super::values::{self, Values};
use super::{BoundsArgs, Scenario};
use crate::resp::Reply;

const POLICIES: [&str; 3] = ["heat", "allkeys-lru", NOEVICTION];
const NOEVICTION: &str = "noeviction";
/// Bytes of values to write, as a multiple of `maxmemory`.
const TIMES: f64 = 3.2;
/// The permitted excess of the process, as a share of the limit. An arena is added.
const PROMISE: f64 = 0.01;
const ARENA: f64 = (2 << 20) as f64;
/// The error text of a refused write.
const REFUSAL: &str = "OOM command not allowed when used memory > 'maxmemory'.";
const THREADS: usize = 2;

pub fn measure(args: &BoundsArgs) -> Result<Vec<Measure>> {
    let mut measures = Vec::new();
    for policy in POLICIES {
        measures.extend(under(args, policy)?);
    }
    Ok(measures)
}

fn under(args: &BoundsArgs, policy: &str) -> Result<Vec<Measure>> {
    let mut subject = args.start(THREADS)?;
    let max = args.maxmemory as i64;
    subject.config("maxmemory-policy", policy)?;
    subject.config("maxmemory", &max.to_string())?;
    let values = Values::of_version(1);
    let count = values.count((args.maxmemory as f64 * TIMES) as u64);
    let refused = AtomicU64::new(0);
    let mut clients = subject.connect_all()?;
    subject.reset_peak()?;
    let set = |client: &mut _, n| values.set(client, n);
    let see = |reply: Result<Reply<'_>>| match reply {
        Err(error) if error.to_string().ends_with(REFUSAL) => {
            // ORDERING: Relaxed, the sum is read only after the threads have been joined.
            refused.fetch_add(1, Relaxed);
            Ok(())
        }
        reply => values::is_ok(reply),
    };
    values::by_all(&mut clients, count, policy, set, see)?;
    // ORDERING: Relaxed, the threads have been joined, which orders their additions before this read.
    let refused = refused.load(Relaxed);
    let stays = reads_go_on(&subject, &values, policy, refused)?;
    let peak = subject.peak()? - subject.empty.resident;
    let available = max - subject.empty.used;
    let over = (peak - available) as f64 / (max as f64 * PROMISE + ARENA);
    let now = subject.rested()?;
    let of = |figure, value| Measure::new(Scenario::Limit, policy, figure, value);
    let refusals = of("writes refused", refused as f64);
    Ok(vec![
        of("values written MiB", args.maxmemory as f64 * TIMES / f64::from(1 << 20)),
        if policy == NOEVICTION { refusals } else { refusals.at_most(0.0) },
        of("keys in the end", stays as f64),
        of("maxmemory - empty, MiB", mib(available)),
        of("growth at most MiB", mib(peak)),
        of("over MiB", mib(peak - available)),
        of("over, of 1 % and an arena", over).at_most(1.0),
        of("growth in the end MiB", mib(now.resident - subject.empty.resident)),
        of("used_memory in the end MiB", mib(now.used)),
    ])
}

/// Checks that the first values are still there unchanged where writes were refused. Gives the number of keys.
fn reads_go_on(subject: &Subject, values: &Values, policy: &str, refused: u64) -> Result<u64> {
    let mut client = subject.connect()?;
    if policy == NOEVICTION {
        ensure!(refused > 0, "no write beyond maxmemory was refused");
        (0..1000).try_for_each(|n| values.check(&mut client, n))?;
    }
    match client.call(&[b"DBSIZE"])? {
        Reply::Integer(keys) if keys > 0 => Ok(keys.unsigned_abs()),
        other => anyhow::bail!("DBSIZE answers {other:?}"),
    }
}
