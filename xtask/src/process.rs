//! Runs other programs, with their output shown or captured.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::workspace::{root, tools};

/// Silence after which a line says that the program is still running.
pub const SILENCE: Duration = Duration::from_secs(15);

/// A command that starts in the root of the clone and finds the programs that `tools` installed.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(tools()).chain(std::env::split_paths(&path));
    let mut command = Command::new(program);
    command.current_dir(root());
    if let Ok(joined) = std::env::join_paths(folders) {
        command.env("PATH", joined);
    }
    command
}

/// The command line as a person would type it.
pub fn shown(command: &Command) -> String {
    let program = command.get_program().to_string_lossy().into_owned();
    let mut text = String::new();
    // Flags are part of the command; folders and the like are not.
    for (name, value) in command.get_envs() {
        let shown = name == "RUSTFLAGS" || name == "RUSTC_BOOTSTRAP";
        if let (true, Some(value)) = (shown, value) {
            let quote = if value.to_string_lossy().contains(' ') { "'" } else { "" };
            let (name, value) = (name.to_string_lossy(), value.to_string_lossy());
            text.push_str(&format!("{name}={quote}{value}{quote} "));
        }
    }
    text.push_str(program.rsplit('/').next().unwrap_or(&program));
    for arg in command.get_args() {
        let arg = arg.to_string_lossy();
        let plain = !arg.is_empty() && !arg.contains([' ', '"', '$', '*']);
        text.push_str(&if plain { format!(" {arg}") } else { format!(" '{arg}'") });
    }
    text
}

/// Runs a program with its output shown; anything but success is an error.
pub fn run(command: &mut Command) -> Result<()> {
    run_lines(command, |_| {})
}

/// As [`run`], and passes each line of standard output to `see`.
pub fn run_lines(command: &mut Command, mut see: impl FnMut(&str)) -> Result<()> {
    println!("  $ {}", shown(command));
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run {}", shown(command)))?;
    let lines = BufReader::new(child.stdout.take().expect("standard output is piped"));
    let (spoken, silent) = mpsc::channel();
    let watch = std::thread::spawn(move || break_silence(&silent));
    for line in lines.split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        see(&line);
        let _ = spoken.send(());
    }
    drop(spoken);
    let _ = watch.join();
    std::io::stdout().flush()?;
    let status = child.wait()?;
    ensure!(status.success(), "{} ended with {status}", shown(command));
    Ok(())
}

/// Prints how long a program has run whenever it has been silent for a while, until it ends.
fn break_silence(spoken: &Receiver<()>) {
    let started = Instant::now();
    loop {
        match spoken.recv_timeout(SILENCE) {
            Ok(()) => {}
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                println!("  ... still running after {} s", started.elapsed().as_secs());
                let _ = std::io::stdout().flush();
            }
        }
    }
}

/// Runs a program and returns its standard output.
pub fn output(command: &mut Command) -> Result<String> {
    let result = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {}", shown(command)))?;
    if !result.status.success() {
        let why = String::from_utf8_lossy(&result.stderr);
        bail!("{} ended with {}: {}", shown(command), result.status, why.trim());
    }
    String::from_utf8(result.stdout).context("the output is not UTF-8")
}

/// Whether a program runs and succeeds; its output is discarded.
pub fn succeeds(command: &mut Command) -> bool {
    let silent = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    silent.status().is_ok_and(|status| status.success())
}
