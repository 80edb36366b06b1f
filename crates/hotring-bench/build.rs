//! Notes the compiler and the commit that the tool is built from, for its reports.

use std::process::Command;

fn main() {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    println!("cargo::rustc-env=BENCH_RUSTC={}", first_line(&rustc, &["--version"]));
    println!("cargo::rustc-env=BENCH_COMMIT={}", commit());
    println!("cargo::rustc-env=BENCH_PROFILE={}", std::env::var("PROFILE").unwrap_or_default());
    // The log of HEAD changes with every commit; without one (a source archive) the note is empty.
    let log = first_line("git", &["rev-parse", "--git-path", "logs/HEAD"]);
    if std::path::Path::new(&log).exists() {
        println!("cargo::rerun-if-changed={log}");
    }
    println!("cargo::rerun-if-changed=build.rs");
}

fn commit() -> String {
    let commit = first_line("git", &["rev-parse", "--short=12", "HEAD"]);
    let sources = ["status", "--porcelain", "--untracked-files=no", "..", "../../Cargo.lock"];
    let changed = !first_line("git", &sources).is_empty();
    if changed { format!("{commit} with changes") } else { commit }
}

/// The first line that the command prints, or nothing if it can't be run.
fn first_line(program: &str, args: &[&str]) -> String {
    let Ok(output) = Command::new(program).args(args).output() else { return String::new() };
    String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_owned()
}
