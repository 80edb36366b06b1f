//! Runs the test programs of the workspace side by side: most of them wait for sockets and clocks, and cargo would run
//! them one after another. Each program's output is printed in one piece, once it has ended.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::process::{self, SILENCE};
use crate::suite::Done;
use crate::workspace::{PRODUCT, cargo, target};

/// The crates whose integration tests take longest, in this order: they start first.
const LONGEST: &[&str] = &["hotring-server", "hotring-store", "hotring", "hotring-index"];

/// A test program that cargo has built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The folder of its package, in which cargo runs tests.
    folder: PathBuf,
    /// The name of the target in the package.
    target: String,
    is_integration: bool,
    path: PathBuf,
}

impl Program {
    /// Reads a line that cargo prints with `--message-format=json`; None if it is about something else.
    fn parse(line: &str) -> Option<Program> {
        let message: Value = serde_json::from_str(line).ok()?;
        if message["profile"]["test"] != true {
            return None;
        }
        let target = &message["target"];
        Some(Program {
            folder: Path::new(message["manifest_path"].as_str()?).parent()?.to_owned(),
            target: target["name"].as_str()?.to_owned(),
            is_integration: target["kind"].as_array()?.iter().any(|kind| kind == "test"),
            path: message["executable"].as_str()?.into(),
        })
    }

    fn package(&self) -> &str {
        self.folder.file_name().and_then(|name| name.to_str()).unwrap_or_default()
    }

    fn name(&self) -> String {
        let kind = if self.is_integration { "tests of" } else { "unit tests of" };
        format!("{kind} {} ({})", self.package(), self.target)
    }

    /// The place in the order of the programs.
    fn rank(&self) -> (bool, usize) {
        let place = LONGEST.iter().position(|package| *package == self.package());
        (!self.is_integration, place.unwrap_or(LONGEST.len()))
    }
}

/// Builds the test programs of the product that these arguments of `cargo test` select.
pub fn build(which: &[&str]) -> Result<Vec<Program>> {
    let mut command = cargo();
    command.args(["test", "--locked", "--quiet", "--no-run"]).args(PRODUCT).args(which);
    command.arg("--message-format=json-render-diagnostics");
    println!("  $ {}", process::shown(&command));
    let built = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
    ensure!(built.status.success(), "the tests cannot be built");
    let text = String::from_utf8(built.stdout).context("cargo prints JSON")?;
    let mut programs: Vec<Program> = text.lines().filter_map(Program::parse).collect();
    programs.sort_by_key(Program::rank);
    Ok(programs)
}

/// The end of a program.
struct End {
    name: String,
    output: String,
    time: Duration,
    failure: Option<String>,
}

/// Runs all programs, as many at once as there are processors, and counts the tests that passed.
pub fn run(programs: Vec<Program>) -> Result<Done> {
    ensure!(!programs.is_empty(), "no test was built");
    let lanes = std::thread::available_parallelism().map_or(1, usize::from);
    // Tests wait more than they compute, so two of a program per processor run at once.
    let threads = (2 * lanes).to_string();
    let outputs = target().join("test-outputs");
    std::fs::create_dir_all(&outputs)?;
    let waiting = Mutex::new(VecDeque::from(programs));
    let (ends, ended) = mpsc::channel();
    std::thread::scope(|scope| {
        for lane in 0..lanes {
            let output = outputs.join(format!("{lane}.txt"));
            let (waiting, threads, ends) = (&waiting, &threads, ends.clone());
            scope.spawn(move || run_lane(waiting, &output, threads, &ends));
        }
        drop(ends);
        report(&ended)
    })
}

/// Runs programs one after another, until none waits.
fn run_lane(waiting: &Mutex<VecDeque<Program>>, output: &Path, threads: &str, ends: &Sender<End>) {
    let next = || waiting.lock().expect("no lane panics while it holds this").pop_front();
    while let Some(program) = next() {
        let begun = Instant::now();
        let (output, failure) = run_one(&program, output, threads)
            .unwrap_or_else(|error| (String::new(), Some(format!("{error:#}"))));
        let end = End { name: program.name(), output, time: begun.elapsed(), failure };
        if ends.send(end).is_err() {
            return;
        }
    }
}

/// Runs one program as cargo would. Returns its output and, if it failed, how it ended.
fn run_one(program: &Program, output: &Path, threads: &str) -> Result<(String, Option<String>)> {
    // One file takes both streams in their order.
    let file = File::create(output)?;
    let mut command: Command = process::command(&program.path);
    command.current_dir(&program.folder).env("CARGO_MANIFEST_DIR", &program.folder);
    if std::env::var_os("RUST_TEST_THREADS").is_none() {
        command.env("RUST_TEST_THREADS", threads);
    }
    let errors = file.try_clone()?;
    let status = command.stdin(Stdio::null()).stdout(file).stderr(errors).status();
    let status = status.with_context(|| format!("cannot run {}", program.path.display()))?;
    let text = String::from_utf8_lossy(&std::fs::read(output)?).into_owned();
    Ok((text, (!status.success()).then(|| status.to_string())))
}

/// Prints each end as it comes, how many tests each engine has passed, and the name of what failed at last.
fn report(ended: &mpsc::Receiver<End>) -> Result<Done> {
    let (mut passed, mut programs, mut failures) = (0, 0, Vec::new());
    let mut engines: BTreeMap<String, usize> = BTreeMap::new();
    let begun = Instant::now();
    loop {
        let End { name, output, time, failure } = match ended.recv_timeout(SILENCE) {
            Ok(end) => end,
            Err(RecvTimeoutError::Timeout) => {
                println!("  ... {programs} programs done after {} s", begun.elapsed().as_secs());
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => break,
        };
        programs += 1;
        let count: usize = output.lines().map(passed_tests).sum();
        passed += count;
        println!("  {name}: {count} passed in {:.1} s", time.as_secs_f64());
        for engine in output.lines().filter_map(engine_of) {
            *engines.entry(engine.to_string()).or_default() += 1;
        }
        if failure.is_some() {
            output.lines().filter(|line| !line.ends_with(" ... ok")).for_each(|l| println!("{l}"));
        }
        failures.extend(failure.map(|why| format!("{name} ended with {why}")));
    }
    if !engines.is_empty() {
        let counts: Vec<String> = engines.iter().map(|(name, n)| format!("{name} {n}")).collect();
        println!("  tests passed by each engine: {}", counts.join(", "));
    }
    ensure!(failures.is_empty(), "{}", failures.join("; "));
    Ok(Done::Passed(passed))
}

/// The engine in the name of a passed test, `module::test::engine`.
fn engine_of(line: &str) -> Option<&str> {
    let name = line.strip_prefix("test ")?.strip_suffix(" ... ok")?;
    let engine = name.rsplit("::").next()?;
    ["hotring", "chaining", "mercury", "gcuckoo", "lines"].contains(&engine).then_some(engine)
}

/// The number of passed tests that this line of a test program states.
pub fn passed_tests(line: &str) -> usize {
    let count = line.strip_prefix("test result: ok. ").and_then(|l| l.split_once(" passed"));
    count.and_then(|(n, _)| n.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engine_of_a_test_is_in_its_name() {
        assert_eq!(engine_of("test model_u64s::answers::mercury ... ok"), Some("mercury"));
        assert_eq!(engine_of("test model_u64s::answers::mercury ... FAILED"), None);
        assert_eq!(engine_of("test mercury::readers_go_on ... ok"), None);
    }

    #[test]
    fn passed_tests_are_counted() {
        assert_eq!(passed_tests("test result: ok. 12 passed; 0 failed; 3 ignored;"), 12);
        assert_eq!(passed_tests("test result: FAILED. 1 passed; 1 failed;"), 0);
        assert_eq!(passed_tests("test a::b ... ok"), 0);
    }

    /// A line about a program, as cargo prints it, shortened.
    fn line(package: &str, kind: &str, is_test: bool) -> String {
        format!(
            "{{\"reason\":\"compiler-artifact\",\"manifest_path\":\"/w/crates/{package}/Cargo.toml\",\
             \"target\":{{\"kind\":[\"{kind}\"],\"name\":\"t\"}},\"profile\":{{\"test\":{is_test}}},\
             \"executable\":\"/bin/{package}\"}}"
        )
    }

    #[test]
    fn the_longest_integration_tests_start_first() {
        let kinds =
            [("a", "lib"), ("hotring-store", "test"), ("a", "test"), ("hotring-server", "test")];
        let mut programs: Vec<Program> = kinds
            .iter()
            .filter_map(|(package, kind)| Program::parse(&line(package, kind, true)))
            .collect();
        programs.sort_by_key(Program::rank);
        let names: Vec<String> = programs.iter().map(Program::name).collect();
        assert_eq!(
            names,
            [
                "tests of hotring-server (t)",
                "tests of hotring-store (t)",
                "tests of a (t)",
                "unit tests of a (t)",
            ]
        );
        assert_eq!(programs[0].folder, Path::new("/w/crates/hotring-server"));
        assert_eq!(Program::parse(&line("a", "bin", false)), None, "it holds no tests");
        assert_eq!(Program::parse("{\"reason\":\"build-finished\",\"success\":true}"), None);
    }

    /// A program without tests, which fails.
    fn failing() -> Program {
        let (folder, path) = (std::env::temp_dir(), PathBuf::from("/bin/false"));
        Program { folder, target: "t".into(), is_integration: true, path }
    }

    fn passing() -> Program {
        Program { path: "/bin/true".into(), ..failing() }
    }

    #[test]
    fn a_program_that_fails_fails_the_step() {
        let error = run(vec![failing(), passing()]).unwrap_err();
        assert!(error.to_string().contains("ended with exit status: 1"), "{error}");
        assert!(!error.to_string().contains("; "), "only one has failed: {error}");
        let missing = Program { path: "/nowhere".into(), ..failing() };
        assert!(run(vec![missing]).unwrap_err().to_string().contains("cannot run /nowhere"));
        assert!(run(Vec::new()).is_err());
        assert!(matches!(run(vec![passing()]), Ok(Done::Passed(0))));
    }
}
