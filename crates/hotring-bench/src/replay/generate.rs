//! `generate`: writes a trace drawn by our own Zipf generator.

use std::fs::File;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::workload::trace::{Format, Recipe};

/// Write an access trace drawn from a Zipf distribution
#[derive(Debug, Args)]
pub struct GenerateArgs {
    /// The file to write
    file: PathBuf,
    /// Format of the file
    #[arg(long, value_enum, default_value = "u32le")]
    format: Format,
    /// Number of distinct keys
    #[arg(long, value_parser = crate::count::count, default_value = "100k")]
    keys: u64,
    /// Number of accesses
    #[arg(long, value_parser = crate::count::count, default_value = "1M")]
    accesses: u64,
    /// The Zipf exponent: 0 is uniform, 0.99 typical, 1.22 very skewed
    #[arg(long, default_value_t = 0.99)]
    theta: f64,
    /// Seed of the trace
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl GenerateArgs {
    /// Writes the trace.
    pub fn run(&self) -> Result<()> {
        let &GenerateArgs { keys, accesses, theta, seed, .. } = self;
        ensure!((0.0..=10.0).contains(&theta), "--theta is 0 to 10");
        let context = || format!("cannot write {}", self.file.display());
        let file = File::create(&self.file).with_context(context)?;
        Recipe { keys, theta, accesses, seed }.write(self.format, file).with_context(context)
    }
}
