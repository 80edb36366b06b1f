//! The plain map whose hit count every target must reproduce.

use std::collections::HashMap;
use std::time::Instant;

use super::{Job, Outcome, Tally};
use crate::report::Strides;

/// Replays against a `HashMap`, one access after the other, whatever the number of threads of the job.
pub fn replay(job: &Job<'_>) -> Outcome {
    let mut map: HashMap<Vec<u8>, Vec<u8>> = HashMap::new();
    let mut tally = Tally::new();
    let mut key = Vec::new();
    let mut strides = Strides::on(job.bar);
    let start = Instant::now();
    for &number in job.trace.accesses() {
        let before = Instant::now();
        job.key(number, &mut key);
        if map.contains_key(&key) {
            tally.hits += 1;
        } else {
            let mut value = Vec::new();
            job.value_size.fill(&key, &mut value);
            map.insert(key.clone(), value);
            tally.misses += 1;
        }
        tally.record(before.elapsed());
        strides.add(1);
    }
    Outcome { tally, elapsed: start.elapsed(), visits: None }
}
