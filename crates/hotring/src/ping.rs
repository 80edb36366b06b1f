//! `hotring ping`: checks that a server answers, for health checks where no other client is
//! installed.

use std::process::ExitCode;

use clap::{ArgMatches, Command};

use crate::client::{Answer, Error, address_args, connect};

/// The subcommand and its flags.
pub(crate) fn cli() -> Command {
    Command::new("ping")
        .about("Ask a running server for a PONG")
        .after_help("Exit codes: 0 if it answers, or asks for a password; 1 if it does not")
        .args(address_args())
}

/// Sends one PING.
pub(crate) fn run(flags: &ArgMatches) -> ExitCode {
    match connect(flags).and_then(|mut client| client.ask("PING")) {
        Ok(Answer::Text(text)) if text == "PONG" => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        // The server is alive; a health check need not know the password.
        Err(Error::Refused(text)) if text.starts_with("NOAUTH ") => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Ok(other) => {
            eprintln!("hotring ping: the server replied {other:?}");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("hotring ping: {error}");
            ExitCode::FAILURE
        }
    }
}
