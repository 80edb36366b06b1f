//! The steps of `cargo xtask check` and of `cargo xtask test`, in the order of their cost.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use anyhow::Result;

use crate::lanes::passed_tests;
use crate::suite::{Done, Suite};
use crate::workspace::{cargo, target};
use crate::{docs, instructions, lanes, process, tidy, tools};

/// The crate whose tests run in two profiles.
const INDEX: &str = "hotring-index";

/// The quick round.
pub fn check() -> Result<ExitCode> {
    let mut suite = Suite::new();
    suite.step("formatting", formatting);
    suite.step("tidy", tidy::run);
    suite.step("clippy", || clippy(&[]).map(|()| Done::Passed(1)));
    suite.step("unit tests", || lanes::run(&lanes::build(&["--lib", "--bins"])?));
    Ok(suite.finish())
}

/// Installs only the tools.
pub fn tools() -> Result<ExitCode> {
    let mut suite = Suite::new();
    suite.step("tools of the tests", tools::prepare_tests);
    suite.step("tools of the proofs", tools::prepare_proofs);
    Ok(suite.finish())
}

/// All tests, and the checks that are as quick. Lints and rustdoc compile every dependency once more, so they are among
/// the proofs.
pub fn test() -> Result<ExitCode> {
    let mut suite = Suite::new();
    suite.step("tools of the tests", tools::prepare_tests);
    suite.step("formatting", formatting);
    suite.step("tidy", tidy::run);
    let mut programs = Vec::new();
    suite.step("tests, built", || {
        programs = lanes::build(&["--all-targets", "--exclude", INDEX])?;
        Ok(Done::Passed(programs.len()))
    });
    // Tests wait for sockets and clocks; meanwhile the processor can build for later steps.
    let ahead = std::thread::spawn(build_ahead);
    suite.step("tests", || lanes::run(&programs));
    suite.step("index, unoptimised", index_tests);
    suite.step("doc tests", doc_tests);
    suite.step("generated pages", docs::check);
    let _ = ahead.join();
    suite.step("tests, optimised", optimised_tests);
    suite.step("instructions", instructions::check);
    Ok(suite.finish())
}

/// The index's tests, optimised.
const OPTIMISED: &[&str] = &["--profile", "tested", "--locked", "-p", INDEX, "--test", "it"];

/// The tests of the index's internals.
const UNOPTIMISED: &[&str] = &["--locked", "--quiet", "-p", INDEX, "--lib", "--test", "forced"];

/// Builds the programs of later steps, while the tests run.
fn build_ahead() {
    for words in [OPTIMISED, UNOPTIMISED] {
        build_quietly(&[&["test", "--no-run"], words].concat());
    }
    build_quietly(instructions::BUILD);
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

/// The lints, rustdoc's among them. Features of the bench compile a dozen other stores.
pub fn lints() -> Result<Done> {
    clippy(&[])?;
    clippy(&["--all-features"])?;
    let words = ["doc", "--workspace", "--no-deps", "--locked", "--quiet"];
    process::run(cargo().args(words).env("RUSTDOCFLAGS", "-D warnings"))?;
    Ok(Done::Passed(3))
}

fn clippy(features: &[&str]) -> Result<()> {
    let lints = ["clippy", "--workspace", "--all-targets", "--locked", "--quiet"];
    process::run(cargo().args(lints).args(features).args(["--", "-D", "warnings"]))
}

fn doc_tests() -> Result<Done> {
    count_tests(cargo().args([
        "test",
        "--workspace",
        "--locked",
        "--quiet",
        "--no-fail-fast",
        "--doc",
    ]))
}

/// Tests of the index's internals, with checks that only unoptimised code has.
fn index_tests() -> Result<Done> {
    count_tests(cargo().args(["test", "--no-fail-fast"]).args(UNOPTIMISED))
}

/// Runs the index's tests optimised: races show in optimised code, and the checks take four times
/// as long otherwise. (`torture` covers the store in optimised code.) Prints how many tests each
/// engine has passed.
fn optimised_tests() -> Result<Done> {
    let mut passed = 0;
    let mut engines: BTreeMap<String, usize> = BTreeMap::new();
    process::run_lines(cargo().arg("test").args(OPTIMISED), |line| {
        passed += passed_tests(line);
        if let Some(engine) = engine_of(line) {
            *engines.entry(engine.to_string()).or_default() += 1;
        }
    })?;
    let counts: Vec<String> = engines.iter().map(|(name, n)| format!("{name} {n}")).collect();
    println!("  tests passed by each engine: {}", counts.join(", "));
    Ok(Done::Passed(passed))
}

/// The engine in the name of a passed test, `module::test::engine`.
fn engine_of(line: &str) -> Option<&str> {
    let name = line.strip_prefix("test ")?.strip_suffix(" ... ok")?;
    let engine = name.rsplit("::").next()?;
    ["hotring", "chaining", "mercury", "gcuckoo", "lines"].contains(&engine).then_some(engine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engine_of_a_test_is_in_its_name() {
        assert_eq!(engine_of("test model_u64s::answers::mercury ... ok"), Some("mercury"));
        assert_eq!(engine_of("test model_u64s::answers::mercury ... FAILED"), None);
        assert_eq!(engine_of("test mercury::readers_go_on ... ok"), None);
    }
}
