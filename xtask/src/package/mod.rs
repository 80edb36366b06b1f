//! `cargo xtask package`: builds and tries everything that users install: the program from `cargo
//! install`, a static one, the Debian package, the systemd unit, and the program under the unit's restrictions.
//!
//! The results stay in the target folder, under `package`. Nothing but tools is installed on this
//! machine.

mod confined;
mod symbols;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};

use crate::process::{self, command};
use crate::server::Server;
use crate::suite::{Done, Suite};
use crate::tools;
use crate::workspace::{cargo, root, target};

/// The target whose C library is linked statically.
const STATIC_TARGET: &str = "x86_64-unknown-linux-musl";

/// The systemd units, and names under which they can be verified.
const UNITS: [(&str, &str); 2] =
    [("hotring.service", "hotring.service"), ("cluster/hotring@.service", "hotring@a.service")];

/// Files that the package must have, with permissions.
const FILES: &[(&str, &str)] = &[
    ("usr/bin/hotring", "-rwxr-xr-x"),
    ("etc/hotring/hotring.toml", "-rw-r--r--"),
    ("usr/lib/systemd/system/hotring.service", "-rw-r--r--"),
    ("usr/lib/systemd/system/hotring@.service", "-rw-r--r--"),
    ("usr/share/hotring/node.toml", "-rw-r--r--"),
    ("usr/lib/sysusers.d/hotring.conf", "-rw-r--r--"),
    ("usr/share/hotring/alerts.yml", "-rw-r--r--"),
    ("usr/share/hotring/dashboard.json", "-rw-r--r--"),
];

/// Builds and tries a package.
type Step = fn() -> Result<Done>;

/// Runs all steps, or the named ones.
pub fn run(names: &[&str]) -> Result<ExitCode> {
    let all: [(&str, Step); 5] = [
        ("install", install),
        ("static", static_build),
        ("deb", debian),
        ("unit", unit),
        ("confined", confined::check),
    ];
    let unknown = names.iter().find(|name| !all.iter().any(|(known, _)| known == *name));
    ensure!(unknown.is_none(), "no such package: {}", unknown.unwrap_or(&""));
    let mut suite = Suite::new();
    suite.step("tools", tools::prepare_packaging);
    for (name, step) in all {
        if names.is_empty() || names.contains(&name) {
            suite.step(name, step);
        }
    }
    Ok(suite.finish())
}

/// Runs `cargo install --path`, as a user with a clone does.
fn install() -> Result<Done> {
    let folder = fresh("install")?;
    let path = root().join("crates/hotring");
    let mut line = cargo();
    line.args(["install", "--quiet", "--locked", "--path"]).arg(path).arg("--root").arg(&folder);
    // Reuses the dependencies that are already built.
    process::run(line.env("CARGO_TARGET_DIR", target()))?;
    attempt(&folder.join("bin/hotring"), &[])
}

/// Builds a program that needs no libraries of the machine.
fn static_build() -> Result<Done> {
    if let Some(missing) = tools::missing(&["musl-gcc", "readelf", "objcopy"]) {
        return Ok(Done::Skipped(missing));
    }
    if let Err(error) = process::run(command("rustup").args(["target", "add", STATIC_TARGET])) {
        return Ok(Done::Skipped(format!("no standard library for it: {error:#}")));
    }
    let words = ["build", "--release", "--locked", "-p", "hotring", "--target", STATIC_TARGET];
    process::run(cargo().args(words))?;
    let built = target().join(STATIC_TARGET).join("release/hotring");
    let program = fresh("static")?.join("hotring");
    fs::copy(&built, &program).with_context(|| format!("cannot copy {}", built.display()))?;
    let tables = symbols::split(&program)?;
    symbols::check_stripped(&program)?;
    symbols::check_lines(&program, &tables, "crates/hotring")?;
    let headers = process::output(command("readelf").arg("--program-headers").arg(&program))?;
    ensure!(!headers.contains("INTERP"), "{} needs a dynamic linker", program.display());
    println!("  {}: {} KiB, needs no library", program.display(), symbols::kib(&program)?);
    println!("  {}: {} KiB of line tables", tables.display(), symbols::kib(&tables)?);
    attempt(&program, &[])
}

/// Builds the Debian package, unpacks it and runs the program. Its scripts do not run: they need a
/// real system.
fn debian() -> Result<Done> {
    if let Some(missing) = tools::missing(&["dpkg-deb"]) {
        return Ok(Done::Skipped(missing));
    }
    let folder = fresh("deb")?;
    let package = folder.join("hotring.deb");
    let mut line = cargo();
    line.args(["deb", "-p", "hotring", "--locked", "--dbgsym", "--output"]).arg(&package);
    process::run(&mut line)?;
    let fields = process::output(command("dpkg-deb").arg("--info").arg(&package))?;
    for wanted in [" Package: hotring", " Depends: ", "conffiles", "postinst", "prerm", "postrm"] {
        ensure!(fields.contains(wanted), "the package has no {wanted}: {fields}");
    }
    let files = process::output(command("dpkg-deb").arg("--contents").arg(&package))?;
    for (file, rights) in FILES {
        let line = files.lines().find(|line| line.ends_with(&format!(" ./{file}")));
        let line = line.with_context(|| format!("the package has no {file}: {files}"))?;
        ensure!(line.starts_with(rights), "{file} should have the rights {rights}: {line}");
    }
    let unpacked = folder.join("unpacked");
    process::run(command("dpkg-deb").arg("--extract").arg(&package).arg(&unpacked))?;
    let program = unpacked.join("usr/bin/hotring");
    symbols::check_stripped(&program)?;
    let tables = line_tables(&folder.join("hotring.ddeb"), &folder.join("unpacked-dbgsym"))?;
    symbols::check_lines(&tables, &tables, "crates/hotring")?;
    let config = unpacked.join("etc/hotring/hotring.toml");
    attempt(&program, &["--config", &config.to_string_lossy()])
}

/// Unpacks the package with the line tables, and returns their file.
fn line_tables(package: &Path, unpacked: &Path) -> Result<PathBuf> {
    process::run(command("dpkg-deb").arg("--extract").arg(package).arg(unpacked))?;
    let files = process::output(command("find").arg(unpacked).args(["-name", "*.debug"]))?;
    let file = files.lines().next().with_context(|| format!("no tables: {}", package.display()))?;
    Ok(PathBuf::from(file))
}

/// Verifies the systemd units, with the path of the built program, by `systemd-analyze`.
fn unit() -> Result<Done> {
    if let Some(missing) = tools::missing(&["systemd-analyze"]) {
        return Ok(Done::Skipped(missing));
    }
    process::run(cargo().args(["build", "--release", "--locked", "-p", "hotring"]))?;
    let program = target().join("release/hotring");
    let folder = fresh("unit")?;
    for (name, instance) in UNITS {
        let text = fs::read_to_string(root().join("packaging").join(name))?;
        let unit = folder.join(instance);
        fs::write(&unit, text.replace("/usr/bin/hotring", &program.to_string_lossy()))?;
        let verified = command("systemd-analyze")
            .args(["verify", "--recursive-errors=no"])
            .arg(&unit)
            .output()
            .context("cannot run systemd-analyze")?;
        let complaints = String::from_utf8_lossy(&verified.stderr);
        // Unknown lines cause only a warning, and success.
        ensure!(
            verified.status.success() && complaints.trim().is_empty(),
            "systemd-analyze: {complaints}"
        );
        println!("  systemd-analyze verify has no complaints about {name}");
    }
    Ok(Done::Passed(UNITS.len()))
}

/// Starts a server of this program, sends a request, and stops it.
fn attempt(program: &Path, flags: &[&str]) -> Result<Done> {
    let server = Server::start_with(program, flags)?;
    let address = format!("127.0.0.1:{}", server.port);
    let pong = process::output(command(program).args(["ping", "--address", &address]))?;
    ensure!(pong == "PONG\n", "ping says {pong:?}");
    let top = process::output(command(program).args(["top", "--once", "--address", &address]))?;
    ensure!(top.starts_with("hotring "), "top says {top:?}");
    let status = server.interrupt()?;
    ensure!(status.success(), "it ends with {status}");
    println!("  {}: serve, ping, top and Ctrl-C work", program.display());
    Ok(Done::Passed(4))
}

/// An empty folder of this name, under `package` in the target folder.
fn fresh(name: &str) -> Result<PathBuf> {
    let folder = target().join("package").join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    Ok(folder)
}
