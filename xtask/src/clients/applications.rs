//! Runs applications that do real work against the server: queues with their workers, sessions, caches, locks, rate
//! limits.
//!
//! Each is one program in `tests/clients/applications`, in the folder of its language, and gets a
//! server of its own. Their packages come from the language's registry, Ruby's and PHP's from Debian.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::{against_server, copy_jars, install_python};
use crate::process;
use crate::suite::Done;
use crate::tools;
use crate::workspace::{root, target};

/// Seconds after which a program and its workers are killed: a lost wake-up must not hang the run.
const LIMIT: &str = "180";

/// An application: its name, the programs that it needs, and its own program.
type Application = (&'static str, &'static [&'static str], &'static str);

/// All applications.
const APPLICATIONS: &[Application] = &[
    ("applications", &["python3"], "python/check.py"),
    ("arq", &["python3"], "python/arq_jobs.py"),
    ("flask-limiter", &["python3"], "python/flask_limits.py"),
    ("cacheops", &["python3"], "python/cached_queries.py"),
    ("python-locks", &["python3"], "python/locks.py"),
    ("bee-queue", &["node", "npm"], "node/bee-queue.js"),
    ("redlock", &["node", "npm"], "node/redlock.js"),
    ("express-session", &["node", "npm"], "node/express-session.js"),
    ("rate-limiter-flexible", &["node", "npm"], "node/rate-limiter-flexible.js"),
    ("node-redis", &["node", "npm"], "node/node-redis.js"),
    ("asynq", &["go"], "go/asynq"),
    ("redis_rate", &["go"], "go/redis_rate"),
    ("redsync", &["go"], "go/redsync"),
    ("redisson", &["java", "mvn"], "java/RedissonCheck.java"),
    ("spring-session", &["java", "mvn"], "java/SpringSessionCheck.java"),
    ("bucket4j", &["java", "mvn"], "java/Bucket4jCheck.java"),
    ("sidekiq", &["sidekiq"], "ruby/sidekiq.rb"),
    ("ruby-redis", &["sidekiq"], "ruby/redis.rb"),
    ("phpredis", &["php"], "php/phpredis.php"),
    ("predis", &["php"], "php/predis.php"),
];

/// The names of all applications.
pub fn names() -> impl Iterator<Item = &'static str> {
    APPLICATIONS.iter().map(|(name, ..)| *name)
}

/// Runs the named application.
pub fn check(name: &str, hotring: &Path) -> Result<Done> {
    let (_, needs, program) =
        APPLICATIONS.iter().find(|(known, ..)| *known == name).context("no such application")?;
    if let Some(missing) = tools::missing(needs) {
        return Ok(Done::Skipped(missing));
    }
    match prepare(program) {
        Ok(words) => {
            let mut limited = process::command("timeout");
            limited.args(["--kill-after=5", LIMIT]).args(words);
            against_server(hotring, &mut limited)
        }
        Err(error) => Ok(Done::Skipped(format!("{name} cannot be installed: {error:#}"))),
    }
}

/// Installs the packages that a program needs; returns the command line that runs it.
fn prepare(program: &str) -> Result<Vec<String>> {
    let folder = root().join("tests/clients/applications");
    let path = folder.join(program);
    let text = |path: &Path| path.display().to_string();
    let (language, file) =
        program.split_once('/').context("a program has its language's folder")?;
    Ok(match language {
        "python" => {
            // Arq needs an older redis-py than the others.
            let (environment, requirements) = match file {
                "arq_jobs.py" => ("arq", "arq-requirements.txt"),
                _ => ("applications", "requirements.txt"),
            };
            let python = install_python(environment, &folder.join("python").join(requirements))?;
            vec![text(&python), text(&path)]
        }
        "node" => {
            install_node(&folder.join("node"))?;
            vec!["node".into(), text(&path)]
        }
        "go" => {
            let built = target().join("clients").join(file);
            let mut build = process::command("go");
            build.current_dir(folder.join("go")).args(["build", "-o"]).arg(&built);
            process::run(build.arg(format!("./{file}")))?;
            vec![text(&built)]
        }
        "java" => {
            let jars = copy_jars(&folder.join("java/pom.xml"), "java-applications")?;
            vec!["java".into(), "-cp".into(), jars, text(&path)]
        }
        interpreter => vec![interpreter.into(), text(&path)],
    })
}

/// Installs the packages of a folder's lock file into that folder.
pub fn install_node(folder: &Path) -> Result<()> {
    let mut install: Command = process::command("npm");
    install.current_dir(folder).args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]);
    process::run(&mut install)
}
