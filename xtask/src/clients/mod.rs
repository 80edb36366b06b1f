//! Runs real client libraries and tools against the server, built with its assertions; the programs
//! are in `tests/clients`.
//!
//! Each library comes from its own registry, into the target folder or next to its program. `own`
//! runs the libraries' own tests, `redis_cli` tests the modes of redis-cli, `applications` has
//! applications do real work.

mod applications;
mod c;
mod cluster;
mod memcached;
mod own;
mod pool;
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
    ("jedis", &["java", "mvn"], java),
    ("redis-rs", &[], rust),
    ("c", &["cc", "c++"], c::check),
    ("pymemcache", &["python3"], memcached::pymemcache),
    ("memccapable", &["memccapable"], memcached::memccapable),
    ("redis-py-cluster", &["python3"], python_cluster),
    ("go-redis-cluster", &["go"], go_cluster),
    ("ioredis-cluster", &["node", "npm"], node_cluster),
    ("redis-py-proxy", &["python3"], python_proxy),
    ("pymemcache-proxy", &["python3"], memcached::pymemcache_proxy),
    ("memccapable-proxy", &["memccapable"], memcached::memccapable_proxy),
    ("pool", &["python3", "redis-server", "memcached"], pool::check),
    ("redis-py-own", &["python3"], own::redis_py),
    ("go-redis-own", &["go"], own::go_redis),
    ("pymemcache-own", &["python3"], own::pymemcache),
];

/// Runs the named clients, or all.
pub fn run(names: &[&str]) -> Result<ExitCode> {
    let all: Vec<&str> = CLIENTS.iter().map(|c| c.0).chain(applications::names()).collect();
    if let Some(name) = names.iter().find(|name| !all.contains(name)) {
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
    let is_named = |name: &str| names.is_empty() || names.contains(&name);
    for (name, needs, check) in CLIENTS.iter().filter(|(name, ..)| is_named(name)) {
        suite.step(name, || match tools::missing(needs) {
            Some(missing) => Ok(Done::Skipped(missing)),
            None => check(hotring),
        });
    }
    for name in applications::names().filter(|name| is_named(name)) {
        suite.step(name, || applications::check(name, hotring));
    }
}

/// Checks redis-py, in its own environment.
fn python(hotring: &Path) -> Result<Done> {
    match python_program("check.py") {
        Ok(mut program) => against_server(hotring, &mut program),
        Err(error) => Ok(Done::Skipped(format!("redis-py cannot be installed: {error:#}"))),
    }
}

/// Checks redis-py's client of clusters.
fn python_cluster(hotring: &Path) -> Result<Done> {
    match python_program("cluster.py") {
        Ok(mut program) => cluster::against_demo(hotring, &mut program),
        Err(error) => Ok(Done::Skipped(format!("redis-py cannot be installed: {error:#}"))),
    }
}

/// Checks redis-py's client of a single server before a cluster.
fn python_proxy(hotring: &Path) -> Result<Done> {
    match python_program("proxy.py") {
        Ok(mut program) => cluster::against_proxy(hotring, &mut program),
        Err(error) => Ok(Done::Skipped(format!("redis-py cannot be installed: {error:#}"))),
    }
}

/// A program of `tests/clients/python`, with redis-py installed.
fn python_program(name: &str) -> Result<Command> {
    let mut program = process::command(redis_py()?);
    program.arg(root().join("tests/clients/python").join(name));
    Ok(program)
}

/// A Python with redis-py.
pub fn redis_py() -> Result<PathBuf> {
    install_python("venv", &root().join("tests/clients/python/requirements.txt"))
}

/// Installs the packages of a requirements file into an environment of this name; returns its Python.
fn install_python(environment: &str, requirements: &Path) -> Result<PathBuf> {
    let venv = target().join("clients").join(environment);
    let python = venv.join("bin/python");
    process::run(process::command("python3").args(["-m", "venv"]).arg(&venv))?;
    let mut pip = process::command(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"]);
    process::run(pip.arg(requirements))?;
    Ok(python)
}

/// Checks go-redis.
fn go(hotring: &Path) -> Result<Done> {
    match go_program()? {
        Ok(mut program) => against_server(hotring, &mut program),
        Err(skipped) => Ok(skipped),
    }
}

/// Checks go-redis's client of clusters.
fn go_cluster(hotring: &Path) -> Result<Done> {
    match go_program()? {
        Ok(mut program) => cluster::against_demo(hotring, program.arg("cluster")),
        Err(skipped) => Ok(skipped),
    }
}

/// The program of `tests/clients/go`, or why it is left out; go downloads the modules.
fn go_program() -> Result<Result<Command, Done>> {
    let folder = root().join("tests/clients/go");
    let program: PathBuf = target().join("clients/go-redis");
    let mut build = process::command("go");
    build.current_dir(&folder).args(["build", "-o"]).arg(&program).arg(".");
    let mut fetch = process::command("go");
    fetch.current_dir(&folder).args(["mod", "download"]);
    if let Err(error) = process::run(&mut fetch) {
        let why = "go is older than go.mod says, or go-redis cannot be downloaded";
        return Ok(Err(Done::Skipped(format!("{why}: {error:#}"))));
    }
    process::run(&mut build)?;
    Ok(Ok(process::command(program)))
}

/// Checks ioredis.
fn node(hotring: &Path) -> Result<Done> {
    match node_program("check.js") {
        Ok(mut program) => against_server(hotring, &mut program),
        Err(error) => Ok(Done::Skipped(format!("ioredis cannot be installed: {error:#}"))),
    }
}

/// Checks ioredis's client of clusters.
fn node_cluster(hotring: &Path) -> Result<Done> {
    match node_program("cluster.js") {
        Ok(mut program) => cluster::against_demo(hotring, &mut program),
        Err(error) => Ok(Done::Skipped(format!("ioredis cannot be installed: {error:#}"))),
    }
}

/// A program of `tests/clients/node`, with ioredis installed.
fn node_program(name: &str) -> Result<Command> {
    let folder = root().join("tests/clients/node");
    applications::install_node(&folder)?;
    let mut program = process::command("node");
    program.arg(folder.join(name));
    Ok(program)
}

/// Checks Jedis; Maven downloads it and its dependencies.
fn java(hotring: &Path) -> Result<Done> {
    match jedis() {
        Ok(jars) => {
            let mut check = process::command("java");
            check.args(["-cp", &jars]).arg(root().join("tests/clients/java/Check.java"));
            against_server(hotring, &mut check)
        }
        Err(error) => Ok(Done::Skipped(format!("Jedis cannot be downloaded: {error:#}"))),
    }
}

/// The class path of Jedis.
pub fn jedis() -> Result<String> {
    copy_jars(&root().join("tests/clients/java/pom.xml"), "jedis")
}

/// Copies the jars that a `pom.xml` names into a folder of this name; returns its class path.
fn copy_jars(pom: &Path, folder: &str) -> Result<String> {
    let jars = target().join("clients").join(folder);
    let mut copy = process::command("mvn");
    copy.args(["--quiet", "--batch-mode", "--file"]).arg(pom);
    copy.arg("dependency:copy-dependencies");
    copy.arg(format!("-DoutputDirectory={}", jars.display()));
    process::run(&mut copy)?;
    Ok(jars.join("*").display().to_string())
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
