//! `hotring commands`: prints the table of commands.

use std::io::Write;
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command};
use hotring_commands::table::{Spec, commands, markdown, subcommands};

/// The subcommand and its flags.
pub(crate) fn cli() -> Command {
    let as_markdown = Arg::new("markdown")
        .long("markdown")
        .action(ArgAction::SetTrue)
        .help("Print the page of the documentation");
    Command::new("commands").about("List the commands that the server understands").arg(as_markdown)
}

/// Prints the table.
pub(crate) fn run(flags: &ArgMatches) -> ExitCode {
    let text = if flags.get_flag("markdown") { markdown() } else { listing() };
    // A reader that closes the pipe early, such as head, is not a failure.
    let _ = std::io::stdout().write_all(text.as_bytes());
    ExitCode::SUCCESS
}

fn listing() -> String {
    let mut text = String::new();
    for spec in commands() {
        let mut parts = subcommands(spec.id).peekable();
        if parts.peek().is_none() {
            describe(spec, &mut text);
        }
        parts.for_each(|part| describe(part, &mut text));
    }
    text
}

fn describe(spec: &Spec, text: &mut String) {
    let name = spec.name.replace('|', " ").to_ascii_uppercase();
    text.push_str(format!("{name} {}", spec.syntax).trim_end());
    text.push_str(&format!("\n    {}\n", spec.summary));
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_command_is_listed_with_its_meaning() {
        let text = super::listing();
        assert!(text.contains("GET key\n    "));
        assert!(text.contains("CLIENT SETNAME connection-name\n    "));
    }
}
