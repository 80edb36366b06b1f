//! `hotring ping`: asks a server whether it answers, for health checks where there is no other program.

use std::process::ExitCode;

use clap::{ArgMatches, Command};

use crate::client::{Error, Reply, connect, place};

/// The subcommand and its flags.
pub(crate) fn cli() -> Command {
    Command::new("ping")
        .about("Ask a running server for a PONG")
        .after_help("Exit codes: 0 if it answers, or asks for a password; 1 if it does not")
        .args(place())
}

/// Asks once.
pub(crate) fn run(flags: &ArgMatches) -> ExitCode {
    match connect(flags).and_then(|mut client| client.ask("PING")) {
        Ok(Reply::Text(text)) if text == "PONG" => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        // It lives, and a health check need not know the password.
        Err(Error::Refused(text)) if text.starts_with("NOAUTH ") => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Ok(other) => {
            eprintln!("hotring ping: the server answers {other:?}");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("hotring ping: {error}");
            ExitCode::FAILURE
        }
    }
}
