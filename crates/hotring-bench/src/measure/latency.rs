//! Latencies of single reads while other threads work.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Result, ensure};
use hdrhistogram::Histogram;

use super::rounds::check;
use crate::machine;
use crate::targets::{Mode, Tally, Target};
use crate::workload::operations::{Kind, Op, Stream};
use crate::workload::streams::Streams;

/// A histogram of nanoseconds with three significant digits.
pub type Latencies = Histogram<u64>;

/// Operations of the other threads between two checks of `stop`.
const CHUNK: usize = 256;
/// The maximum, in nanoseconds. Longer latencies count as this.
const LONGEST: u64 = 60_000_000_000;

/// An empty histogram.
pub fn none() -> Latencies {
    Histogram::new_with_bounds(1, LONGEST, 3).expect("the bounds and the precision are valid ones")
}

/// The time to read the clock, which is part of each latency.
pub fn of_clock() -> Latencies {
    let mut latencies = none();
    for _ in 0..100_000 {
        let start = Instant::now();
        note(&mut latencies, start.elapsed().as_nanos() as u64);
    }
    latencies
}

/// Times the reads of the first thread, which runs its stream once. Meanwhile the other threads repeat their
/// streams, or run them once if they insert.
pub fn of_reads(target: &dyn Target, streams: &Streams) -> Result<Latencies> {
    let streams_of_keys = streams.of_keys(target.keys());
    let Some((timed, others)) = streams_of_keys.split_first() else { return Ok(none()) };
    let (barrier, stop) = (Barrier::new(streams.threads()), AtomicBool::new(false));
    let (latencies, tally) = std::thread::scope(|scope| {
        let (barrier, stop) = (&barrier, &stop);
        let others = others.iter().enumerate();
        let handles: Vec<_> = others
            .map(|(n, ops)| {
                scope.spawn(move || {
                    let pinned = machine::pin(n + 1);
                    barrier.wait();
                    pinned.map(|()| background_load(target, ops, stop))
                })
            })
            .collect();
        let first = scope.spawn(move || {
            let pinned = machine::pin(0);
            let (mut worker, mut latencies) = (target.worker(), none());
            barrier.wait();
            let tally = worker.time(timed, &mut |nanoseconds| note(&mut latencies, nanoseconds));
            // ORDERING: Relaxed, the flag only says when to stop and publishes no other data.
            stop.store(true, Ordering::Relaxed);
            pinned.map(|()| (latencies, tally))
        });
        let (latencies, mut tally) = first.join().expect("a measuring thread panicked")?;
        for handle in handles {
            tally.add(handle.join().expect("a measuring thread panicked")?);
        }
        anyhow::Ok((latencies, tally))
    })?;
    check(target, &tally, streams.present)?;
    ensure!(!latencies.is_empty(), "no read in the stream that is timed");
    streams_of_keys.iter().for_each(|ops| target.worker().undo(ops));
    Ok(latencies)
}

fn background_load(target: &dyn Target, ops: &[Op], stop: &AtomicBool) -> Tally {
    let (mut worker, mut tally) = (target.worker(), Tally::default());
    let inserts = ops.iter().any(|op| op.kind() == Kind::Insert);
    loop {
        for chunk in ops.chunks(CHUNK) {
            tally.add(worker.run(Stream::of(chunk), Mode::Scalar));
            // ORDERING: Relaxed, for the reason at the store of `stop`.
            if stop.load(Ordering::Relaxed) {
                return tally;
            }
        }
        if inserts {
            return tally;
        }
    }
}

fn note(latencies: &mut Latencies, nanoseconds: u64) {
    latencies.saturating_record(nanoseconds.max(1));
}
