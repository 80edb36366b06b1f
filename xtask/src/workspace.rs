//! Locations: the root of the clone, cargo's target folder, the package graph.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::process;

/// Selects the product's packages for cargo, and xtask: without what measures. The steps that share builds must all
/// select these, as other packages have dependencies built with other features.
pub const PRODUCT: &[&str] =
    &["--workspace", "--exclude", "hotring-bench", "--exclude", "hotring-cpp-peers"];

/// The root of the clone from which cargo runs this program; it may have been built for another
/// clone that shares the target folder.
pub fn root() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| {
        let here = std::env::var_os("CARGO_MANIFEST_DIR");
        let here = here.unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
        Path::new(&here).parent().expect("xtask lies in the root's folder").to_owned()
    })
}

/// Cargo's target folder.
pub fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        // Cargo resolves a relative path against the folder that it was started in.
        Some(path) => std::path::absolute(&path).unwrap_or_else(|_| path.into()),
        None => root().join("target"),
    }
}

/// The folder of programs that xtask installs for its own use.
pub fn tools() -> PathBuf {
    target().join("tools/bin")
}

/// The cargo that started this program.
pub fn cargo() -> Command {
    let mut command = process::command(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // Cargo's variables about xtask are wrong for the packages that xtask builds, and build scripts that look at them
    // would run again whenever a developer calls cargo directly.
    let about_xtask = ["CARGO_PKG_", "CARGO_MANIFEST_"];
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|n| about_xtask.iter().any(|start| n.starts_with(start))) {
            command.env_remove(name);
        }
    }
    command
}

/// The packages of this workspace, as `cargo metadata` describes them.
pub fn packages() -> Result<Vec<Value>> {
    let mut command = cargo();
    command.args(["metadata", "--format-version=1", "--no-deps", "--locked"]);
    let text = process::output(&mut command)?;
    let metadata: Value = serde_json::from_str(&text).context("cargo metadata prints JSON")?;
    Ok(metadata["packages"].as_array().context("cargo metadata lists packages")?.clone())
}
