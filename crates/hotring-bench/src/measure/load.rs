//! Loading targets, if there is memory for them, and what each of them takes.

use anyhow::{Result, ensure};

use crate::machine::{memory_available, resident};
use crate::report;
use crate::targets::{Plan, Target};

/// A target, loaded, with what it took.
pub struct Loaded {
    /// The target.
    pub target: Box<dyn Target>,
    /// How it was built.
    pub plan: Plan,
    /// Growth of the process while it was built and loaded.
    pub bytes_per_key: f64,
    /// Bytes of the index alone, where the target counts them.
    pub index_bytes_per_key: Option<f64>,
}

impl Loaded {
    /// Builds a target and puts the keys numbered `0..keys`, unless memory will not do for it.
    pub fn new(plan: &Plan, keys: u64) -> Result<Self> {
        check_memory(std::slice::from_ref(plan), keys, 0, memory_available()?)?;
        let bar = report::progress(keys, &format!("load {}", plan.name()));
        let before = resident()?;
        let target = plan.build()?;
        target.load(keys, &bar);
        let grown = resident()?.saturating_sub(before);
        bar.finish_and_clear();
        let per_key = |bytes: u64| bytes as f64 / keys as f64;
        let index_bytes_per_key = target.index_bytes().map(per_key);
        Ok(Loaded {
            target,
            plan: plan.clone(),
            bytes_per_key: per_key(grown),
            index_bytes_per_key,
        })
    }

    /// All of them side by side, unless memory will not do for them and for `streams` operations.
    pub fn all(plans: &[Plan], keys: u64, streams: u64) -> Result<Vec<Self>> {
        ensure!(!plans.is_empty(), "nothing to measure");
        check_memory(plans, keys, streams, memory_available()?)?;
        plans.iter().map(|plan| Self::new(plan, keys)).collect()
    }
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
    use crate::targets::TargetName;

    #[test]
    fn what_is_missing_is_said() {
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
