//! Prints the page of documentation that lists all settings of the server; with `--file`, a
//! configuration file that holds them all.

use hotring_server::{Change, Setting, settings};

const HEAD: &str = "\
# Configuration

Generated from the table of settings in `crates/hotring-server/src/settings/` by
`cargo xtask docs`; change it there.

A setting can stand in four places. Later ones win:

1. its default;
2. the file of `--config`, one `name value` a line, `#` before a comment;
3. an environment variable: `HOTRING_` and the name in capitals, `-` as `_`;
4. a flag of `hotring serve`: `--name value`.

`CONFIG GET name` shows the value that holds. `CONFIG SET name value` changes those settings that
the tables mark as changeable while the server runs; it is not written back to the file.

Names and units are Redis's: `kb` is 1024 bytes, `k` is 1000, likewise `mb`, `m`, `gb`, `g`.
[hotring.conf](hotring.conf) is a file with every setting at its default.
";

const FIXED: &str = "
## Fixed settings

Redis's tools and configuration files name these. They can be read, and set to the value that they
have; another value is refused, because what it asks for is not there.

| name | value | why |
| --- | --- | --- |
";

const FILE_HEAD: &str = "\
# Every setting of `hotring serve` at its default, for `hotring serve --config`.
# Written by `cargo xtask docs` from the server's table of settings.
";

fn main() {
    if std::env::args().nth(1).as_deref() == Some("--file") { file() } else { page() }
}

fn file() {
    print!("{FILE_HEAD}");
    for setting in settings().filter(|s| s.change != Change::Fixed) {
        println!("\n# {} ({})", setting.help, setting.placeholder);
        match setting.default_text().as_str() {
            "" => println!("# {}", setting.name),
            default => println!("{} {default}", setting.name),
        }
    }
}

fn page() {
    print!("{HEAD}");
    print!("\n## Settings\n\n| name | value | default | changeable | what it does |\n");
    println!("| --- | --- | --- | --- | --- |");
    settings().filter(|s| s.change != Change::Fixed).for_each(row);
    print!("{FIXED}");
    for setting in settings().filter(|s| s.change == Change::Fixed) {
        println!("| `{}` | {} | {} |", setting.name, code(&setting.default_text()), setting.help);
    }
}

fn row(setting: &Setting) {
    let alias = match setting.alias {
        "" => String::new(),
        alias => format!(", `{alias}`"),
    };
    println!(
        "| `{}`{alias} | {} | {} | {} | {} |",
        setting.name,
        code(setting.placeholder),
        code(&setting.default_text()),
        match setting.change {
            Change::Running => "running",
            Change::Protected => "running, guarded",
            Change::Start | Change::Fixed => "at start",
        },
        setting.help
    );
}

/// Text as code in a cell; nothing is said as such.
fn code(text: &str) -> String {
    match text {
        "" => "none".to_string(),
        text => format!("`{}`", text.replace('|', "\\|")),
    }
}
