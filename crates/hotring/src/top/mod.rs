//! `hotring top`: a screen that shows, every second, how a running server is doing.
//!
//! It uses only INFO, CLIENT LIST and CLUSTER NODES, so it works over any connection. `screen` makes the lines
//! from two samples; this file polls, draws and reads keys.

mod cluster;
mod sample;
mod screen;

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use console::{Key, Term};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};

use crate::client::{Client, Error, address_args, address_name, connect};
use sample::Sample;
use screen::{Size, screen};

/// The size without a terminal.
const PLAIN: Size = Size { rows: 1_000, columns: 120 };
/// Switch to the alternate screen without a cursor, and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// The subcommand and its flags.
pub(crate) fn cli() -> Command {
    let interval = Arg::new("interval")
        .long("interval")
        .value_name("SECONDS")
        .default_value("1")
        .value_parser(value_parser!(u64).range(1..=3600))
        .help("Time between two samples");
    let once = Arg::new("once")
        .long("once")
        .action(ArgAction::SetTrue)
        .help("Print one interval and exit; the default without a terminal");
    Command::new("top")
        .about("Show rates, latency, memory, hot keys and clients of a running server; q quits")
        .args(address_args())
        .args([interval, once])
}

/// Shows the screen until q is pressed or the server is gone.
pub(crate) fn run(flags: &ArgMatches) -> ExitCode {
    let interval = Duration::from_secs(*flags.get_one("interval").expect("it has a default"));
    let name = address_name(flags);
    let shown = connect(flags).and_then(|mut client| {
        if flags.get_flag("once") || !std::io::stdout().is_terminal() {
            once(&mut client, name, interval)
        } else {
            watch(&mut client, name, interval)
        }
    });
    match shown {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hotring top: {error}");
            ExitCode::FAILURE
        }
    }
}

fn once(client: &mut Client, name: &str, interval: Duration) -> Result<(), Error> {
    let before = Sample::take(client)?;
    std::thread::sleep(interval);
    let after = Sample::take(client)?;
    for line in screen(name, &before, &after, PLAIN) {
        println!("{line}");
    }
    Ok(())
}

fn watch(client: &mut Client, name: &str, interval: Duration) -> Result<(), Error> {
    let mut before = Sample::take(client)?;
    let _screen = Screen::enter();
    let keys = keys();
    loop {
        let after = Sample::take(client)?;
        draw(&screen(name, &before, &after, size()))?;
        before = after;
        match keys.recv_timeout(interval) {
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

/// Owns the terminal, and must restore it on drop: while a key is awaited, echo and line endings
/// are off.
struct Screen {
    before: Option<Termios>,
}

impl Screen {
    fn enter() -> Self {
        print!("{ENTER}");
        Screen { before: tcgetattr(std::io::stdout()).ok() }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        print!("{LEAVE}");
        // If the terminal is gone there is nothing to report to.
        let _ = std::io::stdout().flush();
        if let Some(before) = &self.before {
            let _ = tcsetattr(std::io::stdout(), OptionalActions::Now, before);
        }
    }
}

/// Returns a channel that receives a message when the user wants to leave.
fn keys() -> Receiver<()> {
    let (sender, receiver) = channel();
    // It ends with the process, as reading a key cannot be cancelled.
    std::thread::spawn(move || {
        let term = Term::stdout();
        loop {
            match term.read_key_raw() {
                Ok(Key::Char('q' | 'Q' | '\u{3}') | Key::Escape | Key::CtrlC) | Err(_) => {
                    // The receiver is gone once the screen has ended.
                    let _ = sender.send(());
                    return;
                }
                Ok(_) => {}
            }
        }
    });
    receiver
}

fn size() -> Size {
    let (rows, columns) = Term::stdout().size();
    Size { rows: rows.into(), columns: columns.into() }
}

/// Overwrites the screen instead of clearing it, to avoid flicker.
fn draw(lines: &[String]) -> std::io::Result<()> {
    let mut frame = String::from("\x1b[H");
    frame.push_str(&lines.join("\x1b[K\r\n"));
    frame.push_str("\x1b[K\x1b[J");
    let mut out = std::io::stdout().lock();
    out.write_all(frame.as_bytes())?;
    out.flush()
}
