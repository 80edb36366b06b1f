//! Fuzzing: runs each target of `fuzz/` for some time, starting with the committed corpus. A
//! finding is kept in the target folder, is named, and makes the task fail.
//!
//! The targets are built by the pinned compiler: its LLVM has the pass for coverage marks, and code
//! without `unsafe` needs no sanitizer. Lua itself, which is C, has no marks: for scripts, only our
//! side of the boundary is covered.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};

use crate::process;
use crate::suite::{Done, Suite};
use crate::workspace::{cargo, root, target};

/// The targets: each is a file or folder in `fuzz/targets` and a folder in `fuzz/corpus`.
pub const TARGETS: &[&str] = &[
    "resp",
    "memcached",
    "script",
    "restore",
    "log",
    "snapshot",
    "link",
    "records",
    "coordinator",
    "import",
    "messages",
];

/// The default duration per target.
pub const SECONDS: u64 = 600;

/// Coverage marks as libFuzzer expects them.
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1";

/// `cargo xtask fuzz [NAME...] [--seconds N] [--together]`
pub fn fuzz(words: &[&str]) -> Result<ExitCode> {
    let (mut names, mut seconds, mut together) = (Vec::new(), SECONDS, false);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match *word {
            "--seconds" => {
                let number = words.next().context("--seconds needs a number")?;
                seconds = number.parse().context("--seconds needs a number")?;
            }
            "--together" => together = true,
            name => names.push(name),
        }
    }
    if let Some(name) = names.iter().find(|name| !TARGETS.contains(name)) {
        bail!("no target is called {name}; there are {}", TARGETS.join(", "));
    }
    let mut suite = Suite::new();
    if together {
        ensure!(names.is_empty(), "--together cannot be combined with names");
        suite.step("fuzzing", || side_by_side(TARGETS, seconds));
        return Ok(suite.finish());
    }
    for name in TARGETS.iter().copied().filter(|name| names.is_empty() || names.contains(name)) {
        suite.step(name, || run(name, seconds));
    }
    Ok(suite.finish())
}

/// Runs targets for `seconds`, side by side.
pub fn side_by_side(names: &'static [&'static str], seconds: u64) -> Result<Done> {
    build(names)?;
    std::thread::scope(|scope| {
        let start = |name: &&'static str| {
            let name = *name;
            scope.spawn(move || fuzz_for(name, seconds))
        };
        let running: Vec<_> = names.iter().map(start).collect();
        running.into_iter().try_for_each(|run| run.join().expect("a fuzzing thread panicked"))
    })?;
    Ok(Done::Passed(names.len()))
}

/// Builds one target and runs it for `seconds`.
fn run(name: &str, seconds: u64) -> Result<Done> {
    build(&[name])?;
    fuzz_for(name, seconds)?;
    Ok(Done::Passed(1))
}

/// Builds all targets. A failure is repeated and reported by the step that runs the target.
pub fn build_ahead() {
    drop(build(TARGETS));
}

/// Builds these targets at once: for each alone, cargo would build again what gets other features by its dependencies.
fn build(names: &[&str]) -> Result<()> {
    let mut build = cargo();
    build.env("RUSTFLAGS", FLAGS).env("CARGO_TARGET_DIR", folder());
    build.env_remove("CARGO_ENCODED_RUSTFLAGS");
    // With an explicit target the flags do not apply to build scripts.
    build.args(["build", "--quiet", "--release", "--locked", "--target", &host()?]);
    build.args(names.iter().flat_map(|name| ["--bin", name]));
    build.args(["--features", &names.join(",")]);
    process::run(build.arg("--manifest-path").arg(root().join("fuzz/Cargo.toml")))
}

fn fuzz_for(name: &str, seconds: u64) -> Result<()> {
    // New inputs go to a separate folder; the committed corpus is only read.
    let found = made(folder().join("corpus").join(name))?;
    let artifacts = made(folder().join("artifacts").join(name))?;
    let mut fuzzer = process::command(folder().join(host()?).join("release").join(name));
    fuzzer.arg(found).arg(root().join("fuzz/corpus").join(name));
    fuzzer.arg(format!("-artifact_prefix={}/", artifacts.display()));
    fuzzer.args([format!("-max_total_time={seconds}"), "-max_len=8192".into()]);
    fuzzer.args(["-timeout=30", "-rss_limit_mb=2048", "-verbosity=0", "-print_final_stats=1"]);
    let why = || format!("found a fault; its input is in {}", artifacts.display());
    process::run(&mut fuzzer).with_context(why)
}

fn folder() -> PathBuf {
    target().join("fuzz")
}

fn made(folder: PathBuf) -> Result<PathBuf> {
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder)
}

/// The compiler's host target.
fn host() -> Result<String> {
    let about = process::output(process::command("rustc").arg("-vV"))?;
    let host = about.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host.context("rustc -vV names its host")?;
    ensure!(!host.is_empty(), "rustc -vV names its host");
    Ok(host.to_string())
}
