//! The program of `tests/nemesis`: a cluster of six nodes and an etcd in network namespaces, beside clients.

use std::path::Path;

use anyhow::{Result, bail};

use super::{Form, server};
use crate::suite::Done;
use crate::workspace::{root, target};
use crate::{process, tools};

/// The program's exit code where it cannot make network namespaces.
const CANNOT_TRY: i32 = 3;

/// Faults of a cluster: each kind once, or many rounds beside Redis Cluster.
pub fn nemesis(form: Form) -> Result<Done> {
    if let Some(missing) = tools::missing(&["go", "redis-cli"]).or_else(tools::prepare_etcd) {
        return Ok(Done::Skipped(missing));
    }
    let folder = root().join("tests/nemesis");
    let program = target().join("nemesis");
    let mut fetch = process::command("go");
    if let Err(error) = process::run(fetch.current_dir(&folder).args(["mod", "download"])) {
        let why = "go is older than go.mod says, or its modules cannot be downloaded";
        return Ok(Done::Skipped(format!("{why}: {error:#}")));
    }
    let mut build = process::command("go");
    process::run(build.current_dir(&folder).args(["build", "-o"]).arg(&program).arg("."))?;
    let (systems, rounds) = match form {
        Form::Quick => ("hotring", "16"),
        Form::Long => ("hotring,redis", "128"),
    };
    run(&program, systems, rounds)
}

fn run(program: &Path, systems: &str, rounds: &str) -> Result<Done> {
    let mut command = process::command(program);
    command.args(["--systems", systems, "--rounds", rounds, "--hotring"]).arg(server()?);
    let report = target().join("nemesis.json");
    println!("  $ {}; all figures: {}", process::shown(&command), report.display());
    match command.arg("--report").arg(report).status()?.code() {
        Some(0) => Ok(Done::Passed(rounds.parse()?)),
        // The program has said so.
        Some(CANNOT_TRY) => Ok(Done::Passed(0)),
        _ => bail!("acknowledged writes were lost, or a history is not linearizable"),
    }
}
