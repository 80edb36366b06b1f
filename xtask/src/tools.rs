//! Finds and installs the programs that the steps need besides cargo.
//!
//! The tests need `redis-tools`, memcached and valgrind, and use libfabric if it is there; the proofs
//! also need Python, Go, Node, `libmemcached-tools`, Prometheus's `promtool` and etcd. All come from
//! Debian or Ubuntu. Only missing ones are installed, only as root or where sudo needs no password, and
//! never a service: Debian's `redis-tools` contains the server's program under another name, so the
//! tests' `redis-server` is a link to it, and no Redis of the machine is started.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::process::{self, command};
use crate::suite::Done;
use crate::workspace::{cargo, target, tools};

const CARGO_DENY: &str = "cargo-deny@0.20.2";
const CARGO_DEB: &str = "cargo-deb@3.8.0";

/// A program, how to check that it works, and its package.
struct Tool {
    name: &'static str,
    probe: &'static [&'static str],
    package: &'static str,
}

/// Redis's tools, and the instruction counter.
const FOR_TESTS: &[Tool] = &[
    Tool { name: "redis-cli", probe: &["--version"], package: "redis-tools" },
    Tool { name: "redis-benchmark", probe: &["--version"], package: "redis-tools" },
    Tool { name: "valgrind", probe: &["--version"], package: "valgrind" },
];

/// libfabric, and its headers. Without them messages are not tried over it.
const FOR_FABRIC: &[Tool] = &[
    Tool { name: "fi_info", probe: &["--version"], package: "libfabric-bin" },
    Tool { name: "cc", probe: FABRIC_HEADERS, package: "libfabric-dev" },
];

/// Succeeds if the C compiler finds the headers of libfabric.
const FABRIC_HEADERS: &[&str] =
    &["-fsyntax-only", "-include", "rdma/fabric.h", "-x", "c", "/dev/null"];

/// The runtimes of client libraries in other languages, and memcached's checker for servers.
const FOR_PROOFS: &[Tool] = &[
    Tool { name: "python3", probe: &["-c", "import venv, ensurepip"], package: "python3-venv" },
    Tool { name: "go", probe: &["version"], package: "golang-go" },
    Tool { name: "node", probe: &["--version"], package: "nodejs" },
    Tool { name: "npm", probe: &["--version"], package: "npm" },
    Tool { name: "memccapable", probe: &["-?"], package: "libmemcached-tools" },
];

/// Succeeds if PHP has both of its client libraries.
const PHP_PROBE: &str =
    "exit((int) !(extension_loaded('redis') && @include 'Predis/autoload.php'));";

/// Programs that the applications in other languages need. They are not installed: a step reports a missing one.
const FOR_APPLICATIONS: &[Tool] = &[
    Tool { name: "java", probe: &["--version"], package: "default-jdk-headless" },
    Tool { name: "mvn", probe: &["--version"], package: "maven" },
    Tool { name: "sidekiq", probe: &["--version"], package: "ruby-sidekiq" },
    Tool { name: "php", probe: &["-r", PHP_PROBE], package: "php-cli php-redis php-predis" },
];

/// Programs to build and try packages.
const FOR_PACKAGES: &[Tool] = &[
    Tool { name: "musl-gcc", probe: &["--version"], package: "musl-tools" },
    Tool { name: "dpkg-deb", probe: &["--version"], package: "dpkg" },
    Tool { name: "readelf", probe: &["--version"], package: "binutils" },
    Tool { name: "objcopy", probe: &["--version"], package: "binutils" },
    Tool { name: "systemd-analyze", probe: &["--version"], package: "systemd" },
];

/// Installs the missing programs of the tests.
pub fn prepare_tests() -> Result<Done> {
    install_packages(FOR_TESTS);
    install_packages(FOR_FABRIC);
    link_redis_server()?;
    if let Err(error) = unpack("memcached", "memcached") {
        println!("  no memcached, so replies are not compared with its: {error:#}");
    }
    all_there(FOR_TESTS)
}

/// Installs the missing programs of the proofs. The proofs also need the programs of the tests.
pub fn prepare_proofs() -> Result<Done> {
    install_packages(FOR_PROOFS);
    all_there(FOR_PROOFS)
}

/// Installs `cargo deny` if it is missing.
pub fn prepare_deny() -> Result<()> {
    let has_deny = process::succeeds(command("cargo-deny").arg("--version"));
    if has_deny { Ok(()) } else { install(CARGO_DENY) }
}

/// Installs the missing programs for packaging. It does not fail for them: each step reports a missing one.
pub fn prepare_packaging() -> Result<Done> {
    install_packages(FOR_PACKAGES);
    if !process::succeeds(command("cargo-deb").arg("--version")) {
        install(CARGO_DEB)?;
    }
    Ok(Done::Passed(1))
}

/// How to get a missing program that a step needs; `None` if all are there.
pub fn missing(names: &[&str]) -> Option<String> {
    let all = FOR_TESTS.iter().chain(FOR_FABRIC).chain(FOR_PROOFS).chain(FOR_PACKAGES);
    let mut all = all.chain(FOR_APPLICATIONS);
    let tool = all.find(|t| names.contains(&t.name) && !works(t))?;
    Some(format!("{} is missing; install it with: apt-get install {}", tool.name, tool.package))
}

fn all_there(tools: &[Tool]) -> Result<Done> {
    let missing: Vec<&str> = tools.iter().filter(|t| !works(t)).map(|t| t.name).collect();
    match missing.is_empty() {
        true => Ok(Done::Passed(tools.len())),
        false => Ok(Done::Skipped(format!("missing: {}", missing.join(", ")))),
    }
}

fn works(tool: &Tool) -> bool {
    process::succeeds(command(tool.name).args(tool.probe))
}

fn install_packages(tools: &[Tool]) {
    let mut packages: Vec<&str> = tools.iter().filter(|t| !works(t)).map(|t| t.package).collect();
    packages.dedup();
    if packages.is_empty() {
        return println!("  nothing to install from the distribution");
    }
    let wanted = packages.join(" ");
    let Some(apt) = apt() else {
        return println!("  missing, and this user cannot install: apt-get install {wanted}");
    };
    println!("  installing from the distribution: {wanted}");
    let update = process::run(&mut apt(&["update", "-qq"]));
    for package in packages {
        // One at a time: an unavailable package must not keep the others away.
        let install = ["install", "-qq", "-y", "--no-install-recommends", package];
        if let Err(error) = process::run(&mut apt(&install)) {
            println!("  could not install: {error:#}");
        }
    }
    if let Err(error) = update {
        println!("  the list of packages may be old: {error:#}");
    }
}

/// A function that makes apt-get commands, if this user may run it.
fn apt() -> Option<impl Fn(&[&str]) -> Command> {
    let root = process::output(command("id").arg("-u")).is_ok_and(|id| id.trim() == "0");
    let sudo = !root && process::succeeds(command("sudo").args(["-n", "true"]));
    let apt = process::succeeds(command("apt-get").arg("--version"));
    (apt && (root || sudo)).then_some(move |words: &[&str]| {
        let mut line = if root { command("env") } else { command("sudo") };
        if sudo {
            line.args(["-n", "env"]);
        }
        line.args(["DEBIAN_FRONTEND=noninteractive", "apt-get"]).args(words);
        line
    })
}

/// Links `redis-server` to the program in `redis-tools`, which checks its own name.
fn link_redis_server() -> Result<()> {
    const INSIDE: &str = "/usr/bin/redis-check-rdb";
    if process::succeeds(command("redis-server").arg("--version")) || !Path::new(INSIDE).exists() {
        return Ok(());
    }
    let link = tools().join("redis-server");
    println!("  linking {} to {INSIDE}", link.display());
    std::fs::create_dir_all(tools())?;
    let _ = std::fs::remove_file(&link);
    std::os::unix::fs::symlink(INSIDE, &link).context("cannot make the link")
}

/// Takes a program out of its package, if it is missing: installing the package would start a service.
fn unpack(program: &str, package: &str) -> Result<()> {
    if process::succeeds(command(program).arg("--version")) {
        return Ok(());
    }
    let folder = target().join("tools").join(package);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder)?;
    std::fs::create_dir_all(tools())?;
    println!("  taking {program} out of the package {package}, into {}", tools().display());
    let mut download = command("apt-get");
    process::run(download.current_dir(&folder).args(["download", "-qq", package]))?;
    let file = std::fs::read_dir(&folder)?.next().context("apt-get left no package")??.path();
    process::run(command("dpkg-deb").arg("-x").arg(file).arg(folder.join("unpacked")))?;
    std::fs::copy(folder.join("unpacked/usr/bin").join(program), tools().join(program))
        .map(|_| ())
        .context("the package has no program")
}

/// Takes `etcd` out of its package if it is missing. Says why there is none.
pub fn prepare_etcd() -> Option<String> {
    let unpacked = unpack("etcd", "etcd-server").err();
    unpacked.map(|error| format!("no etcd, of the package etcd-server: {error:#}"))
}

/// Checks files with Prometheus's `promtool`. Without it the step is skipped.
pub fn promtool(checks: &[&[&str]]) -> Result<Done> {
    if let Err(error) = unpack("promtool", "prometheus") {
        return Ok(Done::Skipped(format!("no promtool, of the package prometheus: {error:#}")));
    }
    checks.iter().try_for_each(|words| process::run(command("promtool").args(*words)))?;
    Ok(Done::Passed(checks.len()))
}

/// Installs a program from crates.io, built without optimisation: that takes one minute instead of
/// ten.
fn install(program: &str) -> Result<()> {
    println!("  installing {program} into {} (about a minute)", tools().display());
    let mut install = cargo();
    install.args(["install", "--quiet", "--locked", "--debug", program, "--root"]);
    install.arg(tools().parent().expect("the folder of programs lies in another"));
    install.env("CARGO_TARGET_DIR", target().join("tools/build"));
    process::run(&mut install)
}
