//! The steps of `cargo xtask check` and of `cargo xtask test`, in the order of their cost.

use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use anyhow::Result;

use crate::lanes::passed_tests;
use crate::suite::{Done, Suite};
use crate::workspace::{PRODUCT, cargo, target};
use crate::{docs, instructions, lanes, process, tidy, tools};

/// The quick round.
pub fn check() -> Result<ExitCode> {
    let mut suite = Suite::new();
    suite.step("formatting", formatting);
    suite.step("tidy", tidy::run);
    suite.step("clippy", || clippy(&["--workspace"]).map(|()| Done::Passed(1)));
    suite.step("unit tests", || lanes::run(lanes::build(&["--lib", "--bins"])?));
    Ok(suite.finish())
}

/// Installs only the tools.
pub fn tools() -> Result<ExitCode> {
    let mut suite = Suite::new();
    suite.step("tools of the tests", tools::prepare_tests);
    suite.step("tools of the proofs", tools::prepare_proofs);
    Ok(suite.finish())
}

/// All tests of the product, and the checks that are as quick. Lints and rustdoc compile every dependency once more, so
/// they are among the proofs, as the tests of what measures.
pub fn test() -> Result<ExitCode> {
    let mut suite = Suite::new();
    suite.step("tools of the tests", tools::prepare_tests);
    suite.step("formatting", formatting);
    suite.step("tidy", tidy::run);
    let mut programs = Vec::new();
    suite.step("tests, built", || {
        programs = lanes::build(&["--lib", "--bins", "--tests"])?;
        Ok(Done::Passed(programs.len()))
    });
    suite.step("tests", || {
        std::thread::scope(|scope| {
            // Tests wait for sockets and clocks meanwhile.
            scope.spawn(|| {
                build_quietly(&docs::build());
                build_quietly(&instructions::INDEX.build());
            });
            lanes::run(programs)
        })
    });
    suite.step("doc tests", doc_tests);
    suite.step("generated pages", docs::check);
    suite.step("instructions", || instructions::check(&instructions::INDEX));
    Ok(suite.finish())
}

/// Builds without output. A failure is repeated and reported by the step that needs the build.
pub fn build_quietly(words: &[&str]) {
    let mut build = cargo();
    build.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let _ = build.status();
}

/// The release builds of the server and of the bench.
pub fn release_build() -> Result<()> {
    let words = ["build", "--release", "--locked", "-p", "hotring", "-p", "hotring-bench"];
    process::run(cargo().args(words))
}

/// A step that runs `cargo build` with these arguments.
pub fn built(words: &[&str]) -> Result<Done> {
    process::run(cargo().args(["build", "--locked", "--quiet"]).args(words))?;
    Ok(Done::Passed(1))
}

/// The path of a binary of a profile.
pub fn binary(profile: &str, name: &str) -> PathBuf {
    target().join(profile).join(name)
}

/// Runs tests and counts those that passed.
pub fn count_tests(command: &mut Command) -> Result<Done> {
    let mut passed = 0;
    process::run_lines(command, |line| passed += passed_tests(line))?;
    Ok(Done::Passed(passed))
}

fn formatting() -> Result<Done> {
    process::run(cargo().args(["fmt", "--all", "--check"]))?;
    Ok(Done::Passed(1))
}

/// The lints, rustdoc's among them. Only the bench has features that change code: they compile a dozen other stores.
pub fn lints() -> Result<Done> {
    clippy(&["--workspace"])?;
    clippy(&["-p", "hotring-bench", "-p", "hotring-cpp-peers", "--all-features"])?;
    let words = ["doc", "--workspace", "--no-deps", "--locked", "--quiet"];
    process::run(cargo().args(words).env("RUSTDOCFLAGS", "-D warnings"))?;
    Ok(Done::Passed(3))
}

fn clippy(which: &[&str]) -> Result<()> {
    let lints = ["clippy", "--all-targets", "--locked", "--quiet"];
    process::run(cargo().args(lints).args(which).args(["--", "-D", "warnings"]))
}

fn doc_tests() -> Result<Done> {
    let words = ["test", "--locked", "--quiet", "--no-fail-fast", "--doc"];
    count_tests(cargo().args(words).args(PRODUCT))
}
