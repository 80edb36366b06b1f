//! Loads targets if memory suffices, and measures the memory of each.

use std::time::Instant;

use anyhow::{Result, ensure};

use super::rounds;
use crate::machine::{memory_available, resident};
use crate::report;
use crate::targets::{Plan, Target};
use crate::workload::operations::{Kind, Op};

/// The most keys that are looked up after a load.
const CHECKED_MAX: u64 = 1 << 16;

/// A loaded target and its memory.
pub struct Loaded {
    /// The target.
    pub target: Box<dyn Target>,
    /// The plan that it was built by.
    pub plan: Plan,
    /// Growth of the process during build and load, per key.
    pub bytes_per_key: f64,
    /// Bytes of the index alone, where the target counts them.
    pub index_bytes_per_key: Option<f64>,
    /// Million keys loaded per second, growth of the table included.
    pub mops: f64,
}

impl Loaded {
    /// Builds a target and loads the keys numbered `0..keys`. Fails if memory does not suffice.
    pub fn new(plan: &Plan, keys: u64) -> Result<Self> {
        Self::check_memory(std::slice::from_ref(plan), keys, 0)?;
        let bar = report::progress(keys, &format!("load {}", plan.name()));
        let before = resident()?;
        let target = plan.build()?;
        let start = Instant::now();
        target.load(keys, &bar);
        let mops = keys as f64 / start.elapsed().as_secs_f64() / 1e6;
        let grown = resident()?.saturating_sub(before);
        bar.finish_and_clear();
        check_answers(&*target, keys)?;
        let per_key = |bytes: u64| bytes as f64 / keys as f64;
        let index_bytes_per_key = target.index_bytes().map(per_key);
        Ok(Loaded {
            target,
            plan: plan.clone(),
            bytes_per_key: per_key(grown),
            index_bytes_per_key,
            mops,
        })
    }

    /// Fails if memory does not suffice for all targets and for `streams` operations.
    pub fn check_memory(plans: &[Plan], keys: u64, streams: u64) -> Result<()> {
        check_memory(plans, keys, streams, memory_available()?)
    }

    /// Builds and loads all targets. Fails if memory does not suffice for them and for `streams` operations.
    pub fn all(plans: &[Plan], keys: u64, streams: u64) -> Result<Vec<Self>> {
        ensure!(!plans.is_empty(), "nothing to measure");
        Self::check_memory(plans, keys, streams)?;
        plans.iter().map(|plan| Self::new(plan, keys)).collect()
    }
}

/// Looks some keys up and compares each value with its key. Measured loops compare only sums, which cannot detect
/// two swapped values.
fn check_answers(target: &dyn Target, keys: u64) -> Result<()> {
    let step = keys.div_ceil(CHECKED_MAX).max(1);
    let key = |number| Op::new(Kind::Read, target.keys().key(number));
    let ops: Vec<Op> = (0..keys).step_by(step as usize).map(key).collect();
    let tally = target.worker().time(&ops, &mut |_| {});
    rounds::check(target, &tally, true)
}

fn check_memory(plans: &[Plan], keys: u64, streams: u64, available: u64) -> Result<()> {
    let targets: f64 = plans.iter().map(|plan| plan.bytes_per_key() * keys as f64).sum();
    let needed = targets + (streams * size_of::<u64>() as u64) as f64;
    let gib = |bytes: f64| bytes / f64::from(1 << 30);
    ensure!(
        needed <= available as f64,
        "{:.1} GiB of memory are missing: {keys} keys in {} targets side by side, with their streams, \
         take up to {:.1} GiB, and {:.1} GiB are available. Load fewer keys, or measure fewer targets \
         at a time",
        gib(needed - available as f64),
        plans.len(),
        gib(needed),
        gib(available as f64)
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::targets::{Engine, Session, TargetName, named};
    use crate::workload::operations::Keys;

    /// It has every key, with the value of its neighbour: all values together are right.
    struct Swapped(Vec<u64>);

    impl Engine for Swapped {
        type Session<'a> = &'a Swapped;

        fn session(&self) -> Self::Session<'_> {
            self
        }
    }

    impl Session for &Swapped {
        fn get(&mut self, key: u64) -> Option<u64> {
            let at = self.0.iter().position(|other| *other == key)?;
            Some(self.0[at ^ 1])
        }

        fn put(&mut self, _: u64, _: u64) {}

        fn remove(&mut self, _: u64) {}
    }

    #[test]
    fn swapped_values_are_noticed() {
        let keys = (0..8).map(|number| Keys::Scattered.key(number)).collect();
        let target = named("swapped", Swapped(keys));
        let error = check_answers(&*target, 8).unwrap_err().to_string();
        assert!(error.contains("8 reads with a wrong answer"), "{error}");
    }

    #[test]
    fn missing_fields_are_named() {
        let plans =
            [Plan::new(TargetName::Hotring, 1 << 28), Plan::new(TargetName::Oracle, 1 << 28)];
        let error = check_memory(&plans, 1 << 28, 1 << 27, 4 << 30).expect_err("14 GiB and 1");
        assert!(
            error.to_string().starts_with("11.0 GiB of memory are missing: 268435456"),
            "{error}"
        );
        assert!(check_memory(&plans, 1 << 28, 1 << 27, 15 << 30).is_ok());
    }
}
