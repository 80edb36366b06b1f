//! Runs real client libraries and tools against the server, built with its assertions; the programs
//! are in `tests/clients`.
//!
//! Each library comes from its own registry, into the target folder or beside its program. `own`
//! runs the libraries' own tests, `redis_cli` tests the modes of redis-cli.

mod memcached;
mod own;
mod redis_cli;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Result, bail, ensure};

use crate::process;
use crate::server::Server;
use crate::suite::{Done, Suite};
use crate::test::{binary, built};
use crate::tools;
use crate::workspace::{cargo, root, target};

/// A check of one client with this server.
type Check = fn(&Path) -> Result<Done>;

/// The clients by name, with the programs that they need.
const CLIENTS: &[(&str, &[&str], Check)] = &[
    ("redis-cli", &["redis-cli"], redis_cli::check),
    ("redis-py", &["python3"], python),
    ("go-redis", &["go"], go),
    ("ioredis", &["node", "npm"], node),
    ("jedis", &[], java),
    ("redis-rs", &[], rust),
    ("pymemcache", &["python3"], memcached::pymemcache),
    ("memccapable", &["memccapable"], memcached::memccapable),
    ("applications", &["python3"], applications),
    ("redis-py-own", &["python3"], own::redis_py),
    ("go-redis-own", &["go"], own::go_redis),
    ("pymemcache-own", &["python3"], own::pymemcache),
];

/// Runs the named clients, or all.
pub fn run(names: &[&str]) -> Result<ExitCode> {
    let known = |name: &&str| CLIENTS.iter().any(|(known, ..)| known == name);
    if let Some(name) = names.iter().find(|name| !known(name)) {
        let all: Vec<&str> = CLIENTS.iter().map(|(name, ..)| *name).collect();
        bail!("no such client: {name}; there are {}", all.join(", "));
    }
    let mut suite = Suite::new();
    if suite.step("server", || built(&["-p", "hotring"])) {
        steps(&mut suite, names, &binary("debug", "hotring"));
    }
    Ok(suite.finish())
}

/// Adds a step for each named client, or for all.
pub fn steps(suite: &mut Suite, names: &[&str], hotring: &Path) {
    for (name, needs, check) in CLIENTS {
        if names.is_empty() || names.contains(name) {
            suite.step(name, || match tools::missing(needs) {
                Some(what) => Ok(Done::Skipped(what)),
                None => check(hotring),
            });
        }
    }
}

/// Checks redis-py, in its own environment.
fn python(hotring: &Path) -> Result<Done> {
    let folder = root().join("tests/clients/python");
    match install_python("venv", &folder.join("requirements.txt")) {
        Ok(python) => {
            against_server(hotring, process::command(python).arg(folder.join("check.py")))
        }
        Err(error) => Ok(Done::Skipped(format!("redis-py cannot be installed: {error:#}"))),
    }
}

/// Has applications do real work: task queues with their workers, caches, rate limits, leaderboards.
fn applications(hotring: &Path) -> Result<Done> {
    let folder = root().join("tests/clients/applications");
    match install_python("applications", &folder.join("requirements.txt")) {
        Ok(python) => {
            against_server(hotring, process::command(python).arg(folder.join("check.py")))
        }
        Err(error) => Ok(Done::Skipped(format!("the applications cannot be installed: {error:#}"))),
    }
}

/// Installs a requirements file into an environment of this name; returns the Python of it.
fn install_python(environment: &str, requirements: &Path) -> Result<PathBuf> {
    let venv = target().join("clients").join(environment);
    let python = venv.join("bin/python");
    process::run(process::command("python3").args(["-m", "venv"]).arg(&venv))?;
    let mut pip = process::command(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"]);
    process::run(pip.arg(requirements))?;
    Ok(python)
}

/// Checks go-redis; go downloads the modules.
fn go(hotring: &Path) -> Result<Done> {
    let folder = root().join("tests/clients/go");
    let program: PathBuf = target().join("clients/go-redis");
    let mut build = process::command("go");
    build.current_dir(&folder).args(["build", "-o"]).arg(&program).arg(".");
    let mut fetch = process::command("go");
    fetch.current_dir(&folder).args(["mod", "download"]);
    if let Err(error) = process::run(&mut fetch) {
        let why = "go is older than go.mod says, or go-redis cannot be downloaded";
        return Ok(Done::Skipped(format!("{why}: {error:#}")));
    }
    process::run(&mut build)?;
    against_server(hotring, &mut process::command(program))
}

/// Checks ioredis.
fn node(hotring: &Path) -> Result<Done> {
    let folder = root().join("tests/clients/node");
    let mut install = process::command("npm");
    install.current_dir(&folder).args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]);
    if let Err(error) = process::run(&mut install) {
        return Ok(Done::Skipped(format!("ioredis cannot be installed: {error:#}")));
    }
    against_server(hotring, process::command("node").arg(folder.join("check.js")))
}

/// Checks Jedis; Maven downloads it and its dependencies.
fn java(hotring: &Path) -> Result<Done> {
    for program in ["java", "mvn"] {
        if !process::succeeds(process::command(program).arg("--version")) {
            let how = "apt-get install default-jdk-headless maven";
            return Ok(Done::Skipped(format!("{program} is missing; install it with: {how}")));
        }
    }
    let folder = root().join("tests/clients/java");
    let jars = target().join("clients/jedis");
    let mut copy = process::command("mvn");
    copy.args(["--quiet", "--batch-mode", "--file"]).arg(folder.join("pom.xml"));
    copy.arg("dependency:copy-dependencies");
    copy.arg(format!("-DoutputDirectory={}", jars.display()));
    if let Err(error) = process::run(&mut copy) {
        return Ok(Done::Skipped(format!("Jedis cannot be downloaded: {error:#}")));
    }
    let mut check = process::command("java");
    check.arg("-cp").arg(jars.join("*")).arg(folder.join("Check.java"));
    against_server(hotring, &mut check)
}

/// Checks redis-rs; cargo downloads it.
fn rust(hotring: &Path) -> Result<Done> {
    let manifest = root().join("tests/clients/rust/Cargo.toml");
    let mut fetch = cargo();
    fetch.args(["fetch", "--locked", "--manifest-path"]).arg(&manifest);
    if let Err(error) = process::run(&mut fetch) {
        return Ok(Done::Skipped(format!("redis-rs cannot be downloaded: {error:#}")));
    }
    let mut check = cargo();
    check.args(["run", "--quiet", "--locked", "--manifest-path"]).arg(&manifest);
    check.env("CARGO_TARGET_DIR", target().join("clients/redis-rs")).arg("--");
    against_server(hotring, &mut check)
}

/// Runs a program with the port of a fresh server; each line "ok: ..." is a check.
fn against_server(hotring: &Path, program: &mut Command) -> Result<Done> {
    let server = Server::start(hotring)?;
    let mut checks = 0;
    process::run_lines(program.arg(server.port.to_string()), |line| {
        checks += usize::from(line.starts_with("ok: "));
    })?;
    let status = server.interrupt()?;
    ensure!(status.success(), "Ctrl-C ends the server with {status}, not 0");
    ensure!(checks > 0, "the program checked nothing");
    Ok(Done::Passed(checks))
}
