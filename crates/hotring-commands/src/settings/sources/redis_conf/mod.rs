//! Reads settings from a `redis.conf`.
//!
//! Lines with a counterpart here take effect. Lines that only tune a component that works differently here are reported
//! and ignored. Lines that ask for a missing feature prevent the start: the server must not run without a feature that
//! the file asks for. For directives that are not in the file, Redis's defaults must apply: a server that kept less or
//! evicted more than Redis would lose data silently.
//!
//! Lines are split into words as in Redis, by the rules for inline requests.

use std::path::{Path, PathBuf};

use hotring_log::AckWhen;
use hotring_protocol::{Args, Decoded, Decoder, Limits};

use super::super::setting::Setting;
use super::super::{find, passive};
use crate::host::start_error::StartError;
use crate::settings::config::Config;

/// The depth limit of `include`.
const INCLUDES_MAX: usize = 8;

/// The directive for the limits of unsent replies by class of client.
const OUTPUT_LIMIT: &str = "client-output-buffer-limit";

/// The defaults of Redis that differ from those of this server.
const DEFAULTS: &[(&str, &str)] = &[
    ("bind", "* -::*"),
    ("lua-time-limit", "0"),
    ("maxmemory-clients", "0"),
    ("maxmemory-policy", "noeviction"),
    ("save", "3600 1 300 100 60 10000"),
];

/// Redis's older names of directives that name a different setting here: `lua-time-limit` ends a script here, which
/// Redis never does by itself.
const RENAMED: &[(&str, &str)] = &[("lua-time-limit", "busy-reply-threshold")];

/// The data files of Redis: the directive that names each file, its default, and the way to import the file.
const REDIS_FILES: &[(&str, &str, &str)] = &[
    ("dbfilename", "dump.rdb", "import its keys with: hotring import FILE"),
    (
        "appenddirname",
        "appendonlydir",
        "let Redis write its keys to an RDB file with SAVE, and import that file with hotring import",
    ),
];

/// The counterpart of a redis.conf directive.
#[derive(Clone, Copy, Debug)]
pub enum Counterpart {
    /// A setting of this server.
    Setting(&'static Setting),
    /// Settings of this server, for the described part of the directive only.
    Partly(&'static str),
    /// Nothing: the directive tunes a component of Redis that does not exist here.
    WithoutEffect,
    /// An error: the directive asks for a missing feature.
    Missing {
        /// The feature.
        feature: &'static str,
        /// Values with which the directive does not ask for the feature, and has no effect.
        harmless: &'static [&'static str],
    },
    /// An error: there is no setting of this name.
    Unknown,
}

/// The counterpart of a directive.
pub fn counterpart(directive: &str) -> Counterpart {
    let name = directive.to_ascii_lowercase();
    match passive::find(&name).map(|passive| passive.missing) {
        Some(Some((feature, harmless))) => return Counterpart::Missing { feature, harmless },
        Some(None) => return Counterpart::WithoutEffect,
        None => {}
    }
    match find(&name) {
        Some(_) if name == OUTPUT_LIMIT => {
            Counterpart::Partly("the hard limits of normal and pubsub clients")
        }
        Some(setting) => Counterpart::Setting(setting),
        None => Counterpart::Unknown,
    }
}

/// A line that is not a comment.
struct Line {
    /// The file and line number, for errors.
    from: String,
    /// The directive in lower case.
    name: String,
    values: Vec<String>,
}

/// Applies the settings of a redis.conf; returns a message for each line without effect here.
pub(super) fn read_file(config: &mut Config, path: &Path) -> Result<Vec<String>, StartError> {
    let mut lines = Vec::new();
    read_included(path, INCLUDES_MAX, &mut lines)?;
    config.forget_addresses(lines.iter().map(|line| line.name.as_str()));
    let source = path.display().to_string();
    for (name, value) in DEFAULTS.iter().filter(|(name, _)| last_line(&lines, name).is_none()) {
        config.set(name, value, &source)?;
    }
    let mut notes = Vec::new();
    for line in &lines {
        notes.extend(apply(config, line)?);
    }
    if last_line(&lines, "log").is_none() {
        notes.extend(keep_snapshots(config, &source));
    }
    notes.extend(files_of_redis(config, &lines));
    Ok(notes)
}

/// The last line with this directive, by any of its names.
fn last_line<'a>(lines: &'a [Line], name: &str) -> Option<&'a Line> {
    let is_setting = |line: &&Line| find(&line.name).is_some_and(|s| s.name == name);
    lines.iter().rev().find(|line| line.name == name || is_setting(line))
}

/// Turns on the log if the file asks for snapshots, and returns a message. Redis writes snapshots without a log, even
/// by default. Here snapshots need a log, which is then written in the cheapest mode.
fn keep_snapshots(config: &mut Config, source: &str) -> Option<String> {
    if config.log.is_on || config.log.snapshots.points.is_empty() {
        return None;
    }
    config.log.is_on = true;
    config.log.when = AckWhen::Handed;
    Some(format!(
        "{source}: Redis keeps snapshots with these settings (save); this server keeps them with a log of all \
         writes (log async) in {}. To keep no data on disk, set save \"\" in the file, or --log off",
        config.log.data.display()
    ))
}

/// Messages about Redis's data files in the data folder of this server.
fn files_of_redis(config: &Config, lines: &[Line]) -> Vec<String> {
    let found = REDIS_FILES.iter().filter_map(|(directive, default, advice)| {
        let line = lines.iter().rev().find(|line| line.name == *directive);
        let name = line.and_then(|line| line.values.first()).map_or(*default, String::as_str);
        let path = config.log.data.join(name);
        path.exists().then(|| {
            let path = path.display().to_string();
            format!("{path} belongs to Redis and is not loaded; {}", advice.replace("FILE", &path))
        })
    });
    if config.log.is_on { found.collect() } else { Vec::new() }
}

/// Collects the lines of a file and of the files that it includes, in order.
fn read_included(path: &Path, depth: usize, lines: &mut Vec<Line>) -> Result<(), StartError> {
    let text = super::read_to_string(path)?;
    for (i, line) in text.lines().enumerate() {
        let from = format!("{}, line {}", path.display(), i + 1);
        let words = words(line).map_err(|why| StartError::new(format!("{from}: {why}")))?;
        match words.split_first() {
            None => {}
            Some((name, [file])) if name.eq_ignore_ascii_case("include") => {
                if depth == 0 {
                    return Err(StartError::new(format!("{from}: includes are nested too deeply")));
                }
                read_included(&relative_to(path, file), depth - 1, lines)?;
            }
            Some((name, values)) => {
                let (name, values) = (name.to_ascii_lowercase(), values.to_vec());
                let renamed = RENAMED.iter().find(|(old, _)| *old == name);
                let name = renamed.map_or(name, |(_, new)| new.to_string());
                lines.push(Line { from, name, values });
            }
        }
    }
    Ok(())
}

/// Resolves a path in a file relative to the folder of that file, regardless of the working folder.
fn relative_to(path: &Path, file: &str) -> PathBuf {
    path.parent().unwrap_or(Path::new(".")).join(file)
}

/// The words of a line; empty for a comment.
fn words(line: &str) -> Result<Vec<String>, String> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(Vec::new());
    }
    let limits = Limits { inline_len_max: line.len() + 1, ..Limits::default() };
    let mut args = Args::new();
    let input = format!("{line}\n");
    match Decoder::new().decode(input.as_bytes(), &limits, &mut args) {
        Ok(Decoded::Request { .. }) => {
            let words = args.view(input.as_bytes()).iter();
            // `\x` may stand for bytes that are not UTF-8. They must not be replaced, because the word may be a
            // password.
            let texts = words.map(|word| String::from_utf8(word.to_vec()));
            texts.collect::<Result<_, _>>().map_err(|_| "a value is not UTF-8".to_string())
        }
        Ok(Decoded::Incomplete) => Err("this is not a line of a redis.conf".to_string()),
        Err(error) => Err(error.to_string()),
    }
}

/// Applies one line; returns a message if the line has no effect.
fn apply(config: &mut Config, line: &Line) -> Result<Option<String>, StartError> {
    let Line { from, name, values } = line;
    let value = values.join(" ");
    let is_value = |text: &&str| text.eq_ignore_ascii_case(&value);
    match counterpart(name) {
        Counterpart::WithoutEffect => Ok(Some(without_effect(config, line, &value))),
        Counterpart::Missing { harmless, .. } if harmless.iter().any(is_value) => {
            Ok(Some(without_effect(config, line, &value)))
        }
        Counterpart::Missing { feature, .. } => Err(StartError::new(format!(
            "{from}: {name} asks for {feature}, which this server does not have; remove the line to \
             start without it"
        ))),
        Counterpart::Partly(_) => apply_output_limit(config, line),
        // Each line adds to the previous ones, and an empty line removes them.
        Counterpart::Setting(setting) if setting.name == "save" && !value.is_empty() => {
            let all = format!("{} {value}", (setting.get)(config));
            config.set(name, &all, from).map(|()| None)
        }
        Counterpart::Setting(_) | Counterpart::Unknown => {
            config.set(name, &value, from).map(|()| None)
        }
    }
}

/// Keeps the value for CONFIG GET, if Redis would accept it; returns a message.
fn without_effect(config: &mut Config, Line { from, name, .. }: &Line, value: &str) -> String {
    let passive = passive::find(name).expect("it has been found");
    match config.passive.set(passive, value) {
        Ok(()) => format!("{from}: {name} has no effect here"),
        Err(_) => {
            format!("{from}: {name} has no effect here, and '{value}' is invalid for it in Redis")
        }
    }
}

/// Applies `client-output-buffer-limit CLASS HARD SOFT SECONDS ...`, of which the hard limits of the classes `normal`
/// and `pubsub` have an effect; returns a message if a soft limit has none.
fn apply_output_limit(config: &mut Config, line: &Line) -> Result<Option<String>, StartError> {
    let Line { from, name, values } = line;
    config.set(name, &values.join(" "), from)?;
    let has_effect = |class: &str| ["normal", "pubsub"].contains(&class);
    let soft =
        values.chunks(4).find(|class| has_effect(&class[0].to_lowercase()) && class[2] != "0");
    Ok(soft.map(|class| format!("{from}: the soft limit of {} has no effect here", class[0])))
}

#[cfg(test)]
mod tests;
