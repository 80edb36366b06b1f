//! `info`: compares the memory that a server reports with the memory that its process takes, as growth since the
//! server was empty. It looks after a load, and after all keys got values of other lengths, some of them twice,
//! and some were removed.

use anyhow::Result;
use fastrand::Rng;

use super::measure::{Measure, mib};
use super::subject::{Memory, Subject};
use super::values::{self, Values};
use super::{BoundsArgs, Scenario};

/// The permitted difference between reported and measured growth, as a fraction of the measured one.
const PROMISE: f64 = 0.03;
/// The average number of writes per key, in random order.
const TURNS: u64 = 3;
/// The fraction of keys that are removed at the end: one in this number.
const REMOVED: u64 = 5;
const THREADS: usize = 2;

pub fn measure(args: &BoundsArgs) -> Result<Vec<Measure>> {
    let mut subject = args.start(THREADS)?;
    let mut clients = subject.connect_all()?;
    let values = Values::of_version(1);
    let count = values.count(args.data);
    let set = |client: &mut _, n| values.set(client, n);
    values::by_all(&mut clients, count, "load", set, values::is_ok)?;
    let mut measures = read_info(&mut subject, "after the load")?;

    let others: Vec<Values> = (2..2 + TURNS).map(Values::of_version).collect();
    let set = |client: &mut _, n: u64| {
        let number = Rng::with_seed(n).u64(..count);
        others[(n / count) as usize].set(client, number);
    };
    values::by_all(&mut clients, count * TURNS, "overwrite", set, values::is_ok)?;
    measures.extend(read_info(&mut subject, "after all were overwritten at random")?);

    let del = |client: &mut _, n| values::del(client, n * REMOVED);
    values::by_all(&mut clients, count / REMOVED, "remove", del, values::is_one)?;
    measures.extend(read_info(&mut subject, "after a fifth was removed")?);
    Ok(measures)
}

/// Compares the fields of INFO with the size of the process.
fn read_info(subject: &mut Subject, case: &str) -> Result<Vec<Measure>> {
    let now = subject.rested()?;
    let growth = |of: fn(&Memory) -> i64| of(&now) - of(&subject.empty);
    let resident = growth(|m| m.resident);
    let fields = [
        ("used_memory", growth(|m| m.used)),
        ("used_memory with allocator_active", growth(|m| m.used - m.allocated + m.active)),
        ("used_memory_rss", growth(|m| m.rss)),
    ];
    let mut measures = Vec::new();
    for (field, grown) in fields {
        let of =
            |figure, value| Measure::new(Scenario::Info, format!("{case}: {field}"), figure, value);
        let off = (grown - resident).unsigned_abs() as f64 / resident as f64;
        measures.push(of("growth told, MiB", mib(grown)));
        measures.push(of("growth of the process, MiB", mib(resident)));
        measures.push(of("off by, of the latter", off).at_most(PROMISE));
    }
    // This ratio of INFO is about the entire process, not its growth.
    let is = now.resident as f64 / now.used as f64;
    let field = format!("{case}: mem_fragmentation_ratio");
    let of = |figure, value| Measure::new(Scenario::Info, field.clone(), figure, value);
    measures.push(of("ratio told", now.fragmentation));
    measures.push(of("ratio of the process to used_memory", is));
    measures
        .push(of("off by, of the latter", (now.fragmentation / is - 1.0).abs()).at_most(PROMISE));
    Ok(measures)
}
