//! Prints the page of documentation with all settings of the server; with `--file`, a configuration
//! file with all of them.

use hotring_server::{Change, Setting, is_for_research, settings, toml_value};

const HEAD: &str = "\
# Configuration

Generated from the table of settings in `crates/hotring-commands/src/settings/` by
`cargo xtask docs`; change it there.

A setting can stand in these places. Later ones win:

1. its default; a variable `HOTRING_DEFAULT_` and the name in capitals is another one, as images of containers have them;
2. a `redis.conf`, given by `--redis-conf FILE`: lines that have a counterpart here are taken, lines that
   only tune Redis's own parts are told and left out, lines that ask for what is not here (a replica) are
   refused. Where it is silent, Redis's defaults hold, those of `save`, `maxmemory-policy` and `bind` among them;
3. the TOML file of `--config FILE`: `name = value`, a list as `[\"a\", \"b\"]`, sizes with a unit as strings.
   [hotring.toml](hotring.toml) is one that has every setting with its default, as comments;
4. an environment variable: `HOTRING_` and the name in capitals, `-` as `_`;
5. a flag of `hotring serve`: `--name value`.

The names are the same everywhere. A name that is no setting is refused, with the nearest one that is. That holds
for variables too: in Kubernetes a service called `hotring` makes variables such as `HOTRING_PORT` for all
pods; switch that off by `enableServiceLinks: false`, or call the service something else.

`CONFIG GET name` shows the value that holds. `CONFIG SET name value` changes those settings that
the tables mark as changeable while the server runs, `CONFIG REWRITE` writes what was changed into the file of
`--config` and leaves the rest of it as it is.

Names and units are Redis's: `kb` is 1024 bytes, `k` is 1000, likewise `mb`, `m`, `gb`, `g`.
";

const FIXED: &str = "
## Fixed settings

Redis's tools and configuration files name these. They can be read, and set to the value that they
have; another value is refused, because what it asks for is not there.

| name | value | why |
| --- | --- | --- |
";

const TABLE: &str = "\
| name | value | default | changeable | what it does |
| --- | --- | --- | --- | --- |
";

const RESEARCH: &str = "
## Research engines

A server in production needs none of these. They choose another engine than the default, or tune the
default as a paper does; [engines](engines/README.md) compares them.

";

const FILE_HEAD: &str = "\
# Settings for `hotring serve --config`: each of them with its default. Take the # away from those that are to
# have another value. Written by `cargo xtask docs` from the server's table of settings.
";

fn main() {
    if std::env::args().nth(1).as_deref() == Some("--file") { file() } else { page() }
}

fn file() {
    print!("{FILE_HEAD}");
    settings().filter(|s| is_usual(s)).for_each(line);
    print!("\n# Research engines: a server in production needs none of these.\n");
    settings().filter(|s| is_for_research(s)).for_each(line);
}

fn line(setting: &Setting) {
    println!("\n# {} ({})", setting.help, setting.placeholder);
    println!("#{} = {}", setting.name, toml_value(&setting.default_text()));
}

/// Neither fixed nor for research.
fn is_usual(setting: &Setting) -> bool {
    setting.change != Change::Fixed && !is_for_research(setting)
}

fn page() {
    print!("{HEAD}");
    print!("\n## Settings\n\n{TABLE}");
    settings().filter(|s| is_usual(s)).for_each(row);
    print!("{FIXED}");
    for setting in settings().filter(|s| s.change == Change::Fixed) {
        println!("| `{}` | {} | {} |", setting.name, code(&setting.default_text()), setting.help);
    }
    print!("{RESEARCH}{TABLE}");
    settings().filter(|s| is_for_research(s)).for_each(row);
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

/// Text as code in a table cell; an empty text stays empty.
fn code(text: &str) -> String {
    match text {
        "" => "none".to_string(),
        text => format!("`{}`", text.replace('|', "\\|")),
    }
}
