//! The checkers that look at the index's own code: loom, shuttle, the sanitizers. Each builds the
//! crate anew with its own flags, in a target folder of its own.

use std::process::{Command, ExitCode};

use anyhow::{Result, bail};

use crate::suite::{Done, Suite};
use crate::test::count_tests;
use crate::workspace::{cargo, target};

/// How long a checker may take.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Minutes, for every run of the tests.
    Quick,
    /// An hour or so.
    Long,
}

/// A checker: its name, and what it does.
type Checker = (&'static str, fn(Form) -> Result<Done>);

const CHECKERS: &[Checker] =
    &[("loom", loom), ("shuttle", shuttle), ("asan", asan), ("tsan", tsan)];

/// `cargo xtask prove`: the named checkers, or all.
pub fn prove(words: &[&str]) -> Result<ExitCode> {
    let form = if words.contains(&"--long") { Form::Long } else { Form::Quick };
    let names: Vec<&str> = words.iter().copied().filter(|word| *word != "--long").collect();
    if let Some(name) = names.iter().find(|name| CHECKERS.iter().all(|(n, _)| n != *name)) {
        bail!("no checker is called {name}; there are loom, shuttle, asan and tsan");
    }
    let mut suite = Suite::new();
    for (name, run) in CHECKERS {
        if names.is_empty() || names.contains(name) {
            suite.step(name, || run(form));
        }
    }
    Ok(suite.finish())
}

/// The tests of hotring-index, built with flags in a folder of their own.
fn tests(folder: &str, flags: &str, which: &[&str]) -> Command {
    let mut command = cargo();
    command.env("RUSTFLAGS", flags).env("CARGO_TARGET_DIR", target().join(folder));
    command.args(["test", "--locked", "--quiet", "-p", "hotring-index"]).args(which);
    command
}

/// Sets a variable where the caller's environment does not.
fn default(command: &mut Command, name: &str, value: &str) {
    if std::env::var_os(name).is_none() {
        command.env(name, value);
    }
}

/// Every order of the steps of small scenarios, and every wrong variant found.
pub fn loom(form: Form) -> Result<Done> {
    let mut command = tests("loom", "--cfg loom", &["--release", "--test", "loom"]);
    if form == Form::Long {
        // Three preemptions instead of two, as far as one gets in so many seconds a scenario.
        default(&mut command, "HOTRING_LOOM_LONG", "1");
        default(&mut command, "HOTRING_LOOM_PREEMPTIONS", "3");
        default(&mut command, "HOTRING_LOOM_SECONDS", "120");
    }
    count_tests(command.args(["--", "--nocapture"]))
}

/// Random orders of larger scenarios.
pub fn shuttle(form: Form) -> Result<Done> {
    let mut command = tests("shuttle", "--cfg shuttle", &["--release", "--test", "shuttle"]);
    if form == Form::Long {
        default(&mut command, "HOTRING_SHUTTLE_SECONDS", "600");
    }
    count_tests(command.args(["--", "--nocapture"]))
}

/// The index's tests under AddressSanitizer, each item an allocation of its own, leaks looked for
/// at the end.
pub fn asan(form: Form) -> Result<Done> {
    sanitized("asan", "address", form)
}

/// The same under ThreadSanitizer, which sees no fences: pins are exchanges instead.
pub fn tsan(form: Form) -> Result<Done> {
    sanitized("tsan", "thread", form)
}

fn sanitized(folder: &str, sanitizer: &str, form: Form) -> Result<Done> {
    if !cfg!(all(target_os = "linux", target_env = "gnu")) {
        return Ok(Done::Skipped("the sanitizers are for Linux with glibc".into()));
    }
    let machine = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let flags = format!("-Zsanitizer={sanitizer} --cfg hotring_plain_arena");
    // An explicit target keeps the flags away from build scripts and macros.
    let which = ["--target", &machine, "--test", "it"];
    let mut command = tests(folder, &flags, &which);
    // The sanitizers are there in a stable compiler, behind this.
    command.env("RUSTC_BOOTSTRAP", "1");
    default(&mut command, "ASAN_OPTIONS", "detect_leaks=1:detect_stack_use_after_return=1");
    default(&mut command, "TSAN_OPTIONS", "halt_on_error=1");
    let rounds = if form == Form::Long { "20000" } else { "300" };
    default(&mut command, "HOTRING_ROUNDS", rounds);
    count_tests(&mut command)
}
