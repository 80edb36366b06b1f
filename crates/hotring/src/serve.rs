//! `hotring serve`: builds the settings from flags, environment and files, and runs the server.

use std::path::Path;
use std::process::ExitCode;

use clap::builder::NonEmptyStringValueParser;
use clap::{Arg, ArgAction, ArgMatches, Command};
use hotring_server::{Change, Config, Setting, StartError, is_for_research};

const EXAMPLES: &str = "\
Every setting can also stand in the TOML file of --config (maxclients = 100) or in an environment \
variable (HOTRING_MAXCLIENTS=100). Flags win over variables, variables over the file, the file over \
a redis.conf.

Examples:
  hotring serve
  hotring serve --listen 127.0.0.1:7000 --threads 2
  hotring serve --config /etc/hotring/hotring.toml --loglevel verbose
  hotring serve --redis-conf /etc/redis/redis.conf --port 7000
  hotring serve --unixsocket /run/hotring.sock

Exit codes: 0 after Ctrl-C, SIGTERM or SHUTDOWN; 1 if it cannot start; 2 for a wrong command line";

/// The subcommand and its flags, one for each setting.
pub(crate) fn cli() -> Command {
    let file = |name: &'static str, help: &'static str| {
        Arg::new(name)
            .long(name)
            .value_name("FILE")
            .value_parser(NonEmptyStringValueParser::new())
            .help(help)
    };
    Command::new("serve")
        .about("Run a server for Redis and memcached clients")
        .after_help(EXAMPLES)
        .arg(file("config", "Read settings from this TOML file"))
        .arg(file(
            "redis-conf",
            "Read directives from this redis.conf first; those without a counterpart are reported",
        ))
        .args(hotring_server::settings().map(flag))
}

fn flag(setting: &'static Setting) -> Arg {
    let default = match setting.default_text() {
        text if text.is_empty() => String::new(),
        text => format!(" [default: {text}]"),
    };
    let mut arg = Arg::new(setting.name)
        .long(setting.name)
        .value_name(setting.placeholder)
        .help(format!("{}{default}", setting.help))
        .action(ArgAction::Append)
        // Flags of Redis that have no effect here are accepted but not listed.
        .hide(setting.change == Change::Fixed);
    if !setting.alias.is_empty() {
        arg = arg.alias(setting.alias);
    }
    if setting.name == "replicaof" {
        // The server finds out by itself whether its source is a Redis.
        arg = arg.visible_alias("replicaof-redis");
    }
    if is_for_research(setting) {
        arg = arg.help_heading("Research engines").hide_short_help(true);
    }
    arg
}

/// Runs the server until it is stopped.
pub(crate) fn run(flags: &ArgMatches) -> ExitCode {
    match settings(flags).and_then(|(config, notes)| hotring_server::run(config, &notes)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hotring: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The settings, and a note for each directive of a redis.conf that has no effect.
fn settings(flags: &ArgMatches) -> Result<(Config, Vec<String>), StartError> {
    let mut config = Config::default();
    config.read_default_environment(std::env::vars_os())?;
    let mut notes = Vec::new();
    if let Some(path) = flags.get_one::<String>("redis-conf") {
        notes = config.read_redis_conf(Path::new(path))?;
    }
    if let Some(path) = flags.get_one::<String>("config") {
        config.read_file(Path::new(path))?;
    }
    config.read_environment(std::env::vars_os())?;
    let given = || hotring_server::settings().filter(|s| flags.contains_id(s.name));
    config.forget_addresses(given().map(|setting| setting.name));
    for setting in given() {
        for value in flags.get_many::<String>(setting.name).into_iter().flatten() {
            config.set(setting.name, value, &format!("--{}", setting.name))?;
        }
    }
    Ok((config, notes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<Config, StartError> {
        let args = std::iter::once("serve").chain(args.iter().copied());
        settings(&cli().try_get_matches_from(args).unwrap()).map(|(config, _)| config)
    }

    #[test]
    fn flags_set_their_settings() {
        let config = parse(&["--listen", "127.0.0.1:1", "--listen", "[::1]:2", "--threads", "3"]);
        let config = config.unwrap();
        assert_eq!(config.listen, ["127.0.0.1:1", "[::1]:2"]);
        assert_eq!(config.threads, 3);
        assert_eq!(parse(&["--log-level", "debug"]).unwrap().log_level.name(), "debug");
        assert_eq!(parse(&["--save", "", "--appendonly", "no"]).unwrap(), Config::default());
    }

    #[test]
    fn settings_for_research_stand_apart() {
        let (short, long) = (cli().render_help().to_string(), cli().render_long_help().to_string());
        assert!(short.contains("--port") && !short.contains("--index"), "{short}");
        let (usual, rest) = long.split_once("\nResearch engines:\n").expect("a heading");
        let (research, _examples) = rest.split_once("\nEvery setting").expect("an end");
        assert!(usual.contains("--port") && !usual.contains("--index"), "{usual}");
        let names = ["--index <", "--index-period", "--mercury-locking", "--gcuckoo-slots"];
        assert!(names.iter().all(|name| research.contains(name)), "{research}");
        assert!(!research.contains("--port"), "{research}");
        assert_eq!(parse(&["--index", "mercury"]).unwrap().index.engine.to_string(), "mercury");
    }

    #[test]
    fn flags_replace_the_addresses_of_a_file() {
        let path = std::env::temp_dir().join(format!("hotring-serve-{}.toml", std::process::id()));
        std::fs::write(&path, "listen = '127.0.0.1:1'\ntls-listen = '127.0.0.1:2'\n").unwrap();
        let file = path.display().to_string();
        for (flags, plain, tls) in [
            (&[][..], "127.0.0.1:1", "127.0.0.1:2"),
            (&["--listen", "[::1]:3"], "[::1]:3", "127.0.0.1:2"),
            (&["--port", "3"], "", "127.0.0.1:2"),
            (&["--tls-listen", "[::1]:3"], "127.0.0.1:1", "[::1]:3"),
            (&["--tls-port", "3"], "127.0.0.1:1", ""),
        ] {
            let config = parse(&[&["--config", &file], flags].concat()).unwrap();
            assert_eq!(config.listen.join(" "), plain, "{flags:?}");
            assert_eq!(config.tls.listen.join(" "), tls, "{flags:?}");
        }
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_wrong_value_names_its_flag() {
        let error = parse(&["--maxclients", "none"]).unwrap_err().to_string();
        assert!(error.starts_with("--maxclients: maxclients must be a whole number"), "{error}");
        assert!(parse(&["--appendonly", "perhaps"]).is_err());
    }
}
