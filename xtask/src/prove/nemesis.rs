//! The program of `tests/nemesis`: a cluster of six nodes and an etcd in network namespaces, beside clients.

use std::process::Command;

use anyhow::{Result, anyhow, bail};

use super::{Form, server};
use crate::suite::Done;
use crate::workspace::{root, target};
use crate::{clients, process, tools};

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
    run(process::command(program), form)
}

/// Systems, rounds of faults, and rounds in which a node dies at a step of a move. The short form has other steps each
/// time.
fn plan(form: Form) -> (&'static str, usize, usize) {
    match form {
        Form::Quick => ("hotring", 16, 6),
        Form::Long => ("hotring,redis", 144, 66),
    }
}

/// Clients of other languages beside those of the program. One that cannot be installed is left out.
fn others(form: Form) -> Vec<String> {
    let program = |name| root().join("tests/nemesis").join(name).display().to_string();
    let mut all = vec![(
        "redis-py",
        clients::redis_py().map(|python| format!("{} {}", python.display(), program("clients.py"))),
    )];
    if form == Form::Long {
        let jars = match tools::missing(&["java", "mvn"]) {
            Some(missing) => Err(anyhow!(missing)),
            None => clients::jedis(),
        };
        all.push((
            "jedis",
            jars.map(|jars| format!("java -cp {jars} {}", program("Clients.java"))),
        ));
    }
    let named = all.into_iter().filter_map(|(name, command)| match command {
        Ok(command) => Some(format!("{name}={command}")),
        Err(error) => {
            println!("  without {name}: {error:#}");
            None
        }
    });
    named.collect()
}

fn run(mut command: Command, form: Form) -> Result<Done> {
    let (systems, rounds, deaths) = plan(form);
    command.args(["--systems", systems, "--rounds", &rounds.to_string()]);
    command.args(["--deaths", &deaths.to_string()]);
    command.args(others(form).iter().flat_map(|other| ["--beside", other]));
    command.arg("--hotring").arg(server()?);
    let report = target().join("nemesis.json");
    println!("  $ {}; all figures: {}", process::shown(&command), report.display());
    match command.arg("--report").arg(report).status()?.code() {
        Some(0) => Ok(Done::Passed(rounds + deaths)),
        // The program has said so.
        Some(CANNOT_TRY) => Ok(Done::Passed(0)),
        _ => bail!(
            "the program could not go on, acknowledged writes were lost, or a history is not \
             linearizable"
        ),
    }
}
