//! Counts instructions per operation with callgrind and compares them with a baseline.
//!
//! Examples of some crates run short cases and print their names; callgrind writes a file of counts for each. The
//! baselines are files of this repository; `--renew` rewrites them. Counts come from one thread with fixed seeds, so
//! they are the same on a loaded machine.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::process;
use crate::suite::Done;
use crate::test::binary;
use crate::tools;
use crate::workspace::{cargo, root, target};

/// An example with cases.
pub struct Program {
    packages: &'static [&'static str],
    example: &'static str,
    profile: &'static str,
}

/// Operations of the index. The baseline of a program is in the folder of its first package.
pub const INDEX: Program =
    Program { packages: &["hotring-index"], example: "instructions", profile: "release" };

/// Requests. The profile and the packages are those of the proofs, so that only the program itself is built.
pub const COMMANDS: Program = Program {
    packages: &["hotring-bench", "hotring-cpp-peers"],
    example: "command_instructions",
    profile: "tested",
};

impl Program {
    /// The arguments of cargo that build it.
    pub fn build(&self) -> Vec<&'static str> {
        let mut words = vec!["build", "--locked", "--profile", self.profile];
        self.packages.iter().for_each(|package| words.extend(["-p", *package]));
        words.extend(["--example", self.example]);
        words
    }

    fn baseline(&self) -> PathBuf {
        root().join("crates").join(self.packages[0]).join("instructions.csv")
    }

    /// Builds it, and runs its cases under callgrind.
    fn count(&self) -> Result<Vec<Count>> {
        process::run(cargo().args(self.build()))?;
        let folder = target().join(self.example);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder)?;
        let mut command = process::command("valgrind");
        command.args(["--tool=callgrind", "--quiet"]);
        command.arg(format!("--toggle-collect={COUNTED}")).arg(format!("--dump-before={WRITTEN}"));
        command.arg(format!("--callgrind-out-file={}", folder.join("counts").display()));
        let program = binary(self.profile, &format!("examples/{}", self.example));
        let cases = process::output(command.arg(program))?;
        let lines = cases.lines().enumerate();
        lines.map(|(at, line)| case(line, &folder.join(format!("counts.{}", at + 1)))).collect()
    }
}

/// A larger increase over the baseline is a failure.
const TOLERANCE: f64 = 0.03;
/// The C library picks its functions by processor: this many instructions may differ.
const SLACK: f64 = 2.0;
/// Functions of the counted programs.
const COUNTED: &str = "*counting::counted*";
const WRITTEN: &str = "*counting::written*";

/// A case, `engine,operation`, and its instructions per operation.
#[derive(Clone, Debug, PartialEq)]
struct Count {
    case: String,
    instructions: f64,
}

/// Builds, counts and compares.
pub fn check(program: &Program) -> Result<Done> {
    if let Some(missing) = tools::missing(&["valgrind"]) {
        return Ok(Done::Skipped(missing));
    }
    let counts = program.count()?;
    let text = std::fs::read_to_string(program.baseline());
    let baseline = parse(&text.context("there is no baseline: use --renew")?)?;
    print!("{}", compare(&counts, &baseline)?);
    Ok(Done::Passed(counts.len()))
}

/// The subcommand: compares, or writes the baselines.
pub fn run(renew: bool) -> Result<()> {
    for program in [INDEX, COMMANDS] {
        if renew {
            let (counts, baseline) = (program.count()?, program.baseline());
            std::fs::write(&baseline, render(&counts)).context("cannot write the baseline")?;
            println!("{} holds {} counts now", baseline.display(), counts.len());
        } else if let Done::Skipped(why) = check(&program)? {
            bail!("{why}");
        }
    }
    Ok(())
}

/// One case: the line that the program printed, and the file of its counts.
fn case(line: &str, file: &Path) -> Result<Count> {
    let (case, operations) = line.rsplit_once(',').with_context(|| format!("a case: {line:?}"))?;
    let operations: f64 = operations.parse().with_context(|| format!("a number: {line:?}"))?;
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("{case}: callgrind wrote no {}", file.display()))?;
    let total = total(&text).with_context(|| format!("{case}: no total in {}", file.display()))?;
    ensure!(total > 0.0, "{case}: callgrind has not counted within `counted`");
    Ok(Count { case: case.to_owned(), instructions: total / operations })
}

fn total(text: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix("totals: "))?.trim().parse().ok()
}

const HEAD: &str = "engine,operation,instructions";

fn render(counts: &[Count]) -> String {
    let lines = counts.iter().map(|count| format!("{},{:.1}\n", count.case, count.instructions));
    format!("{HEAD}\n{}", lines.collect::<String>())
}

fn parse(text: &str) -> Result<Vec<Count>> {
    let count = |line: &str| -> Result<Count> {
        let (case, number) = line.rsplit_once(',').with_context(|| format!("a count: {line:?}"))?;
        let instructions = number.parse().with_context(|| format!("a number: {line:?}"))?;
        Ok(Count { case: case.to_owned(), instructions })
    };
    text.lines().skip(1).map(count).collect()
}

/// Describes the differences. An increase above the tolerance, or another set of cases, is an
/// error; a decrease is reported so that the baseline can be renewed.
fn compare(counts: &[Count], baseline: &[Count]) -> Result<String> {
    let names = |counts: &[Count]| counts.iter().map(|c| c.case.clone()).collect::<Vec<_>>();
    ensure!(
        names(counts) == names(baseline),
        "other cases than in the baseline: renew it by cargo xtask instructions --renew"
    );
    let (mut report, mut worse) = (String::new(), String::new());
    for (now, before) in counts.iter().zip(baseline) {
        let (is, was) = (now.instructions, before.instructions);
        let percent = 100.0 * (is / was - 1.0);
        let line = format!("{:<34} {is:>8.1}  {percent:+.1} %\n", now.case);
        report.push_str(&format!("  {line}"));
        if is > was * (1.0 + TOLERANCE) + SLACK {
            worse.push_str(&line);
        }
        if is < was * (1.0 - TOLERANCE) - SLACK {
            let _ = writeln!(report, "  ^ fewer: cargo xtask instructions --renew keeps it so");
        }
    }
    ensure!(
        worse.is_empty(),
        "more instructions an operation than in the baseline (if that is meant, cargo xtask \
         instructions --renew): {worse}"
    );
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(numbers: &[f64]) -> Vec<Count> {
        let count = |(at, &instructions)| Count { case: format!("ring,{at}"), instructions };
        numbers.iter().enumerate().map(count).collect()
    }

    #[test]
    fn more_instructions_than_the_tolerance_allows_are_found() {
        let baseline = counts(&[100.0, 1000.0]);
        assert!(compare(&counts(&[102.0, 1030.0]), &baseline).is_ok());
        let error = compare(&counts(&[100.0, 1040.0]), &baseline).unwrap_err().to_string();
        assert!(error.contains("ring,1") && !error.contains("ring,0"), "{error}");
        let fewer = compare(&counts(&[50.0, 1000.0]), &baseline).unwrap();
        assert!(fewer.contains("--renew"), "{fewer}");
    }

    #[test]
    fn cases_that_come_or_go_are_found() {
        let baseline = counts(&[100.0, 1000.0]);
        assert!(compare(&counts(&[100.0]), &baseline).is_err());
        assert!(compare(&counts(&[100.0, 1000.0, 1.0]), &baseline).is_err());
    }

    #[test]
    fn a_baseline_reads_back() {
        let written = counts(&[1.5, 20.0]);
        assert_eq!(parse(&render(&written)).unwrap(), written);
    }

    #[test]
    fn a_file_of_counts_has_its_total() {
        assert_eq!(
            total("events: Ir\nsummary: 7\n\nfn=(1)\n3 4\n\ntotals: 204800\n"),
            Some(204_800.0)
        );
        assert_eq!(total("events: Ir\n"), None);
    }
}
