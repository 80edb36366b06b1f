//! `fall`: removes nine tenths of the values in random order, then checks that memory returns to the system.
//! While a few hundred requests a second continue, the process must shrink until it is hardly larger than a fresh
//! one with the remaining keys.

use std::time::{Duration, Instant};

use anyhow::Result;
use fastrand::Rng;

use super::measure::{Measure, mib};
use super::values::{self, Values};
use super::{BoundsArgs, Scenario};
use crate::workload::scramble::Scramble;

/// The fraction of values that stay: one in this number.
const KEPT_ONE_IN: u64 = 10;
/// Time between two requests after the removals.
const PAUSE: Duration = Duration::from_millis(3);
/// Seconds between two rows.
const LOOK: u64 = 5;
/// The permitted size of the process at the end, as a multiple of a server loaded with the remaining keys alone.
const PROMISE: f64 = 1.3;
const THREADS: usize = 2;

pub fn measure(args: &BoundsArgs) -> Result<Vec<Measure>> {
    let values = Values::of_version(1);
    let count = values.count(args.data);
    let (kept, order) = (count / KEPT_ONE_IN, Scramble::new(count, 1));
    let key = |nth: u64| order.key(nth);

    let aim = size_of_rest(args, &values, kept, key)?;
    let subject = args.start(THREADS)?;
    let mut clients = subject.connect_all()?;
    let set = |client: &mut _, n| values.set(client, n);
    values::by_all(&mut clients, count, "load", set, values::is_ok)?;
    let of = |case: &str, figure, value| Measure::new(Scenario::Fall, case, figure, value);
    let loaded = subject.resident()?;
    let alone = "the rest alone, in a fresh server";
    let mut measures = vec![
        of(alone, "keys", kept as f64),
        of(alone, "resident MiB", mib(aim)),
        of(alone, "times the rest alone", 1.0),
        of("loaded", "keys", count as f64),
        of("loaded", "resident MiB", mib(loaded)),
        of("loaded", "times the rest alone", loaded as f64 / aim as f64),
    ];
    let del = |client: &mut _, nth| values::del(client, key(kept + nth));
    values::by_all(&mut clients, count - kept, "remove", del, values::is_one)?;
    let begun = Instant::now();
    let mut client = subject.connect()?;
    let mut random = Rng::with_seed(2);
    for second in 0..=args.seconds {
        while begun.elapsed() < Duration::from_secs(second) {
            values.check(&mut client, key(random.u64(..kept)))?;
            std::thread::sleep(PAUSE);
        }
        let resident = subject.resident()?;
        let times = resident as f64 / aim as f64;
        let ends = second == args.seconds || args.stop_when_kept && times <= PROMISE;
        if ends || second.is_multiple_of(LOOK) {
            let case = format!("{second} s after the removals");
            let ratio = of(&case, "times the rest alone", times);
            measures.push(of(&case, "keys", kept as f64));
            measures.push(of(&case, "resident MiB", mib(resident)));
            measures.push(if ends { ratio.at_most(PROMISE) } else { ratio });
        }
        if ends {
            break;
        }
    }
    (0..kept).try_for_each(|nth| values.check(&mut client, key(nth)))?;
    Ok(measures)
}

/// The size of a fresh server with the remaining keys alone.
fn size_of_rest(
    args: &BoundsArgs,
    values: &Values,
    kept: u64,
    key: impl Fn(u64) -> u64 + Sync,
) -> Result<i64> {
    let mut fresh = args.start(THREADS)?;
    let mut clients = fresh.connect_all()?;
    let set = |client: &mut _, nth| values.set(client, key(nth));
    values::by_all(&mut clients, kept, "load the rest alone", set, values::is_ok)?;
    Ok(fresh.rested()?.resident)
}
