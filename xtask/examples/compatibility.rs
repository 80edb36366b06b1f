//! Prints docs/compatibility.md with its generated parts made from the tables of commands and
//! settings, and the rest unchanged. A generated part lies between two comment lines.

use std::collections::BTreeSet;
use std::path::Path;

use hotring_commands::table::{RedisCommand, commands, redis_commands, specs};
use hotring_server::{Change, Counterpart, counterpart};

const PAGE: &str = "../docs/compatibility.md";
const DIRECTIVES: &str = include_str!("redis-directives.txt");
const END: &str = "<!-- end -->";

fn main() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
    let page = std::fs::read_to_string(&path).expect("the page is in the repository");
    let page = with_part(&page, "<!-- begin commands -->", &command_table());
    print!("{}", with_part(&page, "<!-- begin directives -->", &directive_table()));
}

/// The page with `part` between the line `begin` and the next end.
fn with_part(page: &str, begin: &str, part: &str) -> String {
    let (before, rest) = page.split_once(begin).unwrap_or_else(|| panic!("no {begin}"));
    let (_, after) = rest.split_once(END).unwrap_or_else(|| panic!("no {END} behind {begin}"));
    format!("{before}{begin}\n{part}{END}{after}")
}

/// The subcommands that the server lacks.
fn missing_parts<'a>(command: &'a RedisCommand, here: &BTreeSet<&str>) -> Vec<&'a str> {
    let names = command.subcommands.iter().map(String::as_str);
    names.filter(|name| !here.contains(format!("{}|{name}", command.name).as_str())).collect()
}

/// The commands of Redis that the server lacks, completely or in part.
fn command_table() -> String {
    let here: BTreeSet<&str> = specs().map(|spec| spec.name).collect();
    let listed = redis_commands();
    let mut text = "| group | partly here | not here |\n| --- | --- | --- |\n".to_string();
    let mut groups: Vec<&str> = listed.iter().map(|listed| listed.group).collect();
    groups.dedup();
    for group in groups {
        let (mut partly, mut absent) = (Vec::new(), Vec::new());
        for command in listed.iter().filter(|listed| listed.group == group) {
            let name = shown(&command.name);
            if !here.contains(command.name.as_str()) {
                absent.push(name);
                continue;
            }
            let missing: Vec<String> =
                missing_parts(command, &here).into_iter().map(shown).collect();
            if !missing.is_empty() {
                partly.push(format!("{name} without {}", missing.join(", ")));
            }
        }
        if !partly.is_empty() || !absent.is_empty() {
            text.push_str(&format!(
                "| {group} | {} | {} |\n",
                partly.join(", "),
                absent.join(", ")
            ));
        }
    }
    let known: BTreeSet<&str> = listed.iter().map(|listed| listed.name.as_str()).collect();
    let own = commands().iter().filter(|spec| !known.contains(spec.name));
    let own: Vec<String> = own.map(|spec| shown(spec.name)).collect();
    text.push_str(&format!("\nHere and not in Redis: {}.\n", own.join(", ")));
    text
}

fn shown(name: &str) -> String {
    format!("`{}`", name.to_ascii_uppercase())
}

/// The table of Redis's directives and their effect here.
fn directive_table() -> String {
    let (mut taken, mut fixed, mut partly) = (Vec::new(), Vec::new(), Vec::new());
    let (mut idle, mut missing, mut unknown) = (0, Vec::new(), Vec::new());
    let names = DIRECTIVES.lines().filter(|line| !line.starts_with('#'));
    for name in names.flat_map(str::split_whitespace) {
        let code = format!("`{name}`");
        match counterpart(name) {
            Counterpart::Setting(setting) if setting.change == Change::Fixed => {
                fixed.push(format!("`{name} {}`", quoted(&setting.default_text())));
            }
            Counterpart::Setting(_) => taken.push(code),
            Counterpart::Partly(part) => partly.push(format!("{code}: {part}")),
            Counterpart::WithoutEffect => idle += 1,
            Counterpart::Missing { feature, harmless } => {
                missing.push(format!("{code} ({feature}{})", unless(harmless)));
            }
            Counterpart::Unknown => unknown.push(code),
        }
    }
    let rows = [
        ("taken", taken),
        ("taken in part", partly),
        ("may only have this value", fixed),
        ("stop the start: the feature is missing", missing),
        ("stop the start: unknown", unknown),
    ];
    let mut text = "| directives | which |\n| --- | --- |\n".to_string();
    for (what, names) in rows.into_iter().filter(|(_, names)| !names.is_empty()) {
        text.push_str(&format!("| {what} | {} |\n", names.join(", ")));
    }
    text.push_str(&format!("| passed over, with a line in the log | the other {idle} |\n"));
    text
}

/// The values with which a directive is ignored.
fn unless(harmless: &[&str]) -> String {
    let values: Vec<String> = harmless.iter().map(|value| format!("`{}`", quoted(value))).collect();
    match values.as_slice() {
        [] => String::new(),
        values => format!("; {} is passed over", values.join(" or ")),
    }
}

fn quoted(value: &str) -> &str {
    if value.is_empty() { "\"\"" } else { value }
}
