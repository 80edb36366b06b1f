//! Real client libraries against the release build; the programs are in `tests/clients`.
//!
//! Each library comes from its own registry, into the target folder or beside its program.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};

use crate::process;
use crate::server::Server;
use crate::suite::Done;
use crate::workspace::{root, target};

/// redis-py, in an environment of its own.
pub fn python(hotring: &Path) -> Result<Done> {
    let folder = root().join("tests/clients/python");
    let venv = target().join("clients/venv");
    let python = venv.join("bin/python");
    let mut pip = process::command(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"]);
    pip.arg(folder.join("requirements.txt"));
    let mut create = process::command("python3");
    create.args(["-m", "venv"]).arg(&venv);
    let installed = process::run(&mut create).and_then(|()| process::run(&mut pip));
    if let Err(error) = installed {
        return Ok(Done::Skipped(format!("redis-py cannot be installed: {error:#}")));
    }
    against_server(hotring, process::command(python).arg(folder.join("check.py")))
}

/// go-redis; go gets its modules itself.
pub fn go(hotring: &Path) -> Result<Done> {
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

/// ioredis.
pub fn node(hotring: &Path) -> Result<Done> {
    let folder = root().join("tests/clients/node");
    let mut install = process::command("npm");
    install.current_dir(&folder).args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]);
    if let Err(error) = process::run(&mut install) {
        return Ok(Done::Skipped(format!("ioredis cannot be installed: {error:#}")));
    }
    against_server(hotring, process::command("node").arg(folder.join("check.js")))
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
