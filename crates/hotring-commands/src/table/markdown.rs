//! The table as a page of documentation.

use std::fmt::{self, Write};

use super::{Group, Spec, commands, subcommands};

/// The page that lists all commands, as Markdown.
pub fn markdown() -> String {
    let mut page = String::new();
    write_page(&mut page).expect("a String takes every write");
    page
}

fn write_page(page: &mut String) -> fmt::Result {
    page.push_str(
        "# Commands\n\n\
         Generated from the table of commands in `crates/hotring-commands/src/table/list.rs` by\n\
         `cargo run -p hotring-commands --example commands`; change it there.\n\n\
         Upper-case words stand for themselves, lower-case words for values. Brackets enclose\n\
         what may be left out, `<` and `>` what may not, bars separate alternatives, dots repeat. *Since* is the version\n\
         of Redis that a command first came with; `hotring` marks those that Redis does not have.\n",
    );
    let groups = [
        Group::String,
        Group::Bitmap,
        Group::Hash,
        Group::List,
        Group::Set,
        Group::SortedSet,
        Group::Geo,
        Group::HyperLogLog,
        Group::Generic,
        Group::Transactions,
        Group::PubSub,
        Group::Scripting,
        Group::Connection,
        Group::Server,
    ];
    for group in groups {
        let title = group.name();
        write!(page, "\n## {}{}\n\n", title[..1].to_ascii_uppercase(), &title[1..])?;
        page.push_str("| command | what it does | cost | flags | since |\n");
        page.push_str("| --- | --- | --- | --- | --- |\n");
        for spec in commands().iter().filter(|spec| spec.group == group) {
            // A command that only holds others cannot be called.
            if subcommands(spec.id).next().is_none() || spec.takes(1) {
                write_row(page, spec)?;
            }
            for sub in subcommands(spec.id) {
                write_row(page, sub)?;
            }
        }
    }
    Ok(())
}

fn write_row(page: &mut String, spec: &Spec) -> fmt::Result {
    let name = spec.name.to_ascii_uppercase().replace('|', " ");
    let space = if spec.syntax.is_empty() { "" } else { " " };
    let flags: Vec<_> = spec.flags.names().collect();
    writeln!(
        page,
        "| `{name}{space}{}` | {} | {} | {} | {} |",
        spec.syntax.replace('|', "\\|"),
        spec.summary,
        spec.complexity,
        flags.join(" "),
        spec.since
    )
}
