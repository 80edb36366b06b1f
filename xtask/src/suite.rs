//! A run of several steps: each is timed, a failed step does not keep the others from running, and
//! a table summarizes them.

use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;

/// The result of a step that did not fail.
#[derive(Debug)]
pub enum Done {
    /// The number of checks that passed.
    Passed(usize),
    /// A prerequisite is missing; the text says which and how to get it.
    Skipped(String),
}

#[derive(Debug)]
enum End {
    Passed(usize),
    Skipped(String),
    Failed(String),
}

struct Step {
    name: &'static str,
    time: Duration,
    end: End,
}

/// The steps so far.
pub struct Suite {
    started: Instant,
    steps: Vec<Step>,
    /// Whether a skipped step counts as a failure.
    strict: bool,
}

impl Suite {
    /// A suite without steps. In CI nothing may be skipped.
    pub fn new() -> Self {
        let strict = std::env::var("CI").is_ok_and(|v| !v.is_empty() && v != "false" && v != "0");
        Suite { started: Instant::now(), steps: Vec::new(), strict }
    }

    /// Runs one step and returns whether it passed.
    pub fn step(&mut self, name: &'static str, run: impl FnOnce() -> Result<Done>) -> bool {
        println!("\n== {name}");
        let started = Instant::now();
        let end = match run() {
            Ok(Done::Passed(n)) => End::Passed(n),
            Ok(Done::Skipped(why)) if self.strict => {
                End::Failed(format!("{why} (CI skips nothing)"))
            }
            Ok(Done::Skipped(why)) => End::Skipped(why),
            Err(error) => End::Failed(format!("{error:#}")),
        };
        match &end {
            End::Passed(_) => {}
            End::Skipped(why) => println!("skipped: {why}"),
            End::Failed(why) => println!("FAILED: {name}: {why}"),
        }
        // Lets the reader of a pipe see which step is running.
        let _ = std::io::stdout().flush();
        let passed = matches!(end, End::Passed(_));
        self.steps.push(Step { name, time: started.elapsed(), end });
        passed
    }

    /// Prints the table; the last line counts checks: tests, files, client steps.
    pub fn finish(self) -> ExitCode {
        println!("\n{:<22}{:>8}{:>9}  result", "step", "checks", "time");
        let (mut passed, mut failed) = (0, 0);
        for step in &self.steps {
            let (checks, result) = match &step.end {
                End::Passed(n) => (n.to_string(), "ok".to_string()),
                End::Skipped(why) => ("-".to_string(), format!("skipped: {why}")),
                End::Failed(why) => {
                    ("-".to_string(), format!("FAILED: {}", why.lines().next().unwrap_or_default()))
                }
            };
            println!("{:<22}{checks:>8}{:>7.1} s  {result}", step.name, step.time.as_secs_f64());
            match step.end {
                End::Passed(n) => passed += n,
                End::Failed(_) => failed += 1,
                End::Skipped(_) => {}
            }
        }
        let minutes = self.started.elapsed().as_secs_f64() / 60.0;
        println!("{:<22}{:>8}{minutes:>7.1} min", "all", "");
        println!("\n{passed} passed, {failed} failed");
        if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_step_fails_the_suite_and_a_skipped_one_does_not() {
        let mut suite = Suite { started: Instant::now(), steps: Vec::new(), strict: false };
        assert!(suite.step("passes", || Ok(Done::Passed(2))));
        assert!(!suite.step("is skipped", || Ok(Done::Skipped("no tool".into()))));
        assert_eq!(suite.finish(), ExitCode::SUCCESS);
        let mut suite = Suite { started: Instant::now(), steps: Vec::new(), strict: false };
        suite.step("fails", || anyhow::bail!("wrong"));
        assert_eq!(suite.finish(), ExitCode::FAILURE);
    }

    #[test]
    fn nothing_may_be_skipped_in_ci() {
        let mut suite = Suite { started: Instant::now(), steps: Vec::new(), strict: true };
        suite.step("is skipped", || Ok(Done::Skipped("no tool".into())));
        assert_eq!(suite.finish(), ExitCode::FAILURE);
    }
}
