//! The tool as its users meet it: through its command line.

mod bounds;
mod compare;
mod containers;
mod crash;
mod durability;
mod evict;
mod gcuckoo;
mod measures;
mod moves;
mod process;
mod proxy;
mod replay;
mod servers;
mod torture;

use std::process::{Command, Output};

use hotring_server::{Config, Running};

/// Runs the tool. It must end well.
fn bench(args: &[&str]) -> String {
    let output = run(args);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "hotring-bench {args:?} failed: {errors}");
    String::from_utf8(output.stdout).expect("results are text")
}

/// Runs the tool, which must refuse; returns its message.
fn refused(args: &[&str]) -> String {
    let output = run(args);
    assert!(!output.status.success(), "hotring-bench {args:?} should have failed");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn run(args: &[&str]) -> Output {
    let tool = Command::new(env!("CARGO_BIN_EXE_hotring-bench")).args(args).output();
    tool.expect("the tool was built for this test")
}

/// The number on the line `name number`.
fn number(text: &str, name: &str) -> f64 {
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let value = value.unwrap_or_else(|| panic!("no line {name:?} in:\n{text}"));
    value.parse().unwrap_or_else(|_| panic!("{name} is {value:?}"))
}

/// A server on a port of the system's choice, stopped at the end of the test.
struct Server(Option<Running>);

impl Server {
    fn start() -> Self {
        let config = Config { port: 0, threads: 2, ..Config::default() };
        Server(Some(hotring_server::start(config).expect("loopback has a free port")))
    }

    fn address(&self) -> String {
        let running = self.0.as_ref().expect("taken only by drop");
        format!("redis://127.0.0.1:{}", running.addresses()[0].port())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(running) = self.0.take() {
            running.stop();
            running.wait().unwrap();
        }
    }
}
