//! Runs the index's tests under AddressSanitizer and ThreadSanitizer.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use super::{Form, count_some, default, index_tests};
use crate::suite::Done;
use crate::workspace::target;

/// Skips tests that compare a single thread with a map, because the plain tests run them.
const NO_MODELS: [&str; 6] =
    ["--skip", "model_bytes", "--skip", "model_u64s", "--skip", "metamorphic"];

/// AddressSanitizer, with a separate allocation per item, and leak detection at the end.
pub fn asan(form: Form) -> Result<Done> {
    let mut command = match sanitized("asan", "address", form)? {
        Ok(command) => command,
        Err(skipped) => return Ok(skipped),
    };
    if form == Form::Quick {
        command.arg("--").args(NO_MODELS);
    }
    let folder = target().join("asan");
    let log = fresh_log(&folder)?;
    let options = "detect_stack_use_after_return=1:exitcode=99";
    let done = count_some(command.env("ASAN_OPTIONS", format!("detect_leaks=1:{options}:{log}")));
    let report = reports(&folder)?.iter().flat_map(std::fs::read_to_string).collect::<String>();
    if done.is_err() && report.contains("LeakSanitizer has encountered a fatal error") {
        println!(
            "  leak detection is impossible here, as ptrace is forbidden; running again without it"
        );
        return count_some(command.env("ASAN_OPTIONS", format!("detect_leaks=0:{options}")));
    }
    print!("{report}");
    done
}

/// Runs multi-threaded tests under ThreadSanitizer. The compiler's std is not instrumented, so the
/// orderings of its locks and of `Arc` are invisible, and much of std and of the tests is reported.
/// Only a race between two accesses by the index's own code counts.
pub fn tsan(form: Form) -> Result<Done> {
    let folder = target().join("tsan");
    let options = format!("halt_on_error=0:exitcode=0:{}", fresh_log(&folder)?);
    let mut command = match sanitized("tsan", "thread", form)? {
        Ok(command) => command,
        Err(skipped) => return Ok(skipped),
    };
    command.env("TSAN_OPTIONS", options).args([
        "--",
        "linearizability",
        "objects",
        "shrink",
        "stalled",
        "--skip",
        LANES,
    ]);
    let done = count_some(&mut command)?;
    let mut seen = 0;
    for path in reports(&folder)? {
        let text = std::fs::read_to_string(&path)?;
        for report in text.split("WARNING: ThreadSanitizer: ").skip(1) {
            seen += 1;
            if is_of_the_index(report) {
                bail!("in the index ({}): {report}", path.display());
            }
        }
    }
    println!("  {seen} reports, none of two accesses by the index's own lines");
    Ok(done)
}

/// The engine whose lanes are accessed by instructions that ThreadSanitizer cannot see: it takes each item that is
/// found through a lane for unpublished. Loom checks the orderings of these accesses.
const LANES: &str = "::lines";

/// Deletes a sanitizer's earlier reports, and returns the option that sets the folder.
fn fresh_log(folder: &Path) -> Result<String> {
    std::fs::create_dir_all(folder)?;
    for report in reports(folder)? {
        std::fs::remove_file(report)?;
    }
    Ok(format!("log_path={}", folder.join("report").display()))
}

/// The reports of a sanitizer.
fn reports(folder: &Path) -> Result<Vec<PathBuf>> {
    let files = std::fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path()));
    let is_report = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("report."))
    };
    Ok(files.filter(is_report).collect())
}

/// Whether both accesses are by the index: the innermost frames outside of the standard library.
/// The last owner of an `Arc` drops the content behind a fence of std, which is invisible, so that
/// drop does not count. The index's locks are visible (`sync::instrumented`).
fn is_of_the_index(report: &str) -> bool {
    let mut stacks = report.split("\n\n").take(2).map(|stack| {
        let frames = stack.lines().filter(|line| line.trim_start().starts_with('#'));
        let own = frames.into_iter().find(|frame| !frame.contains(" /rustc/"));
        (own.unwrap_or_default(), stack.contains(LAST_OWNER))
    });
    stacks.all(|(frame, is_last_owner)| {
        let is_ours = OWN.iter().any(|folder| frame.contains(folder));
        is_ours && !is_last_owner
    })
}

/// The function that drops the content of an `Arc`.
const LAST_OWNER: &str = ">>::drop_slow ";

/// The folders whose races count: the index and the other engines.
const OWN: &[&str] = &["hotring-index/src/", "hotring-engines/src/"];

/// The command that runs the tests under a sanitizer, or the reason to skip them.
fn sanitized(folder: &str, sanitizer: &str, form: Form) -> Result<Result<Command, Done>> {
    if !cfg!(all(target_os = "linux", target_env = "gnu")) {
        return Ok(Err(Done::Skipped("the sanitizers are for Linux with glibc".into())));
    }
    let machine = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    // The prebuilt std is not instrumented; mixing is intended.
    let mixed = "-Cunsafe-allow-abi-mismatch=sanitizer";
    let flags = format!("-Zsanitizer={sanitizer} {mixed} --cfg hotring_plain_arena");
    // An explicit target keeps the flags away from build scripts and macros. Optimised, as the
    // plain tests have the debug assertions already.
    let which = ["--target", &machine, "--profile", "tested", "--test", "it"];
    let mut command = index_tests(folder, &flags, &which);
    // Allows the sanitizers on a stable compiler.
    command.env("RUSTC_BOOTSTRAP", "1");
    let rounds = if form == Form::Long { "20000" } else { "100" };
    default(&mut command, "HOTRING_ROUNDS", rounds);
    Ok(Ok(command))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(first: &str, second: &str) -> String {
        let std = "#0 read /rustc/1/library/core/src/ptr.rs:1";
        format!(
            " (pid=1)\n  Read of size 8:\n    {std}\n    #1 {first}\n\n  Previous write of size 8:\n    #0 {second}\n\n  Location is heap\n"
        )
    }

    #[test]
    fn races_of_the_index_are_distinguished_from_those_of_std() {
        let own = "is /x/hotring-index/src/u64s.rs:1";
        assert!(is_of_the_index(&report(own, "make /x/hotring-index/src/u64s.rs:2")));
        assert!(is_of_the_index(&report(own, "make /x/hotring-engines/src/chaining/mod.rs:2")));
        assert!(!is_of_the_index(&report(own, "main /x/hotring-index/tests/it/main.rs:2")));
        let last =
            format!("{own}\n    #2 <alloc::sync::Arc<Collector>>::drop_slow /rustc/1/sync.rs:1");
        assert!(!is_of_the_index(&report(&last, own)));
    }
}
