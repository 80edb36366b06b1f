//! The sources of the server's configuration: files, environment variables, and CONFIG SET.
//!
//! Later sources win: defaults, then `HOTRING_DEFAULT_...` variables, which are the defaults of a container image, then
//! a redis.conf, if one is given (`redis_conf`), then the TOML file of `--config` (`file`), then `HOTRING_...`
//! variables, then flags. All sources use the same names, which are also those of CONFIG GET and CONFIG SET. An unknown
//! name must be refused in every source: no server is better than one that does not do what it was asked for.

mod file;
mod redis_conf;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::path::Path;

use super::setting::Change;
use super::values::in_redis_words;
use super::{find, passive, settings};
use crate::host::start_error::StartError;
use crate::settings::config::Config;
use crate::table::quoted;

pub(crate) use file::rewrite as rewrite_file;
pub use file::toml_value;
pub use redis_conf::{Counterpart, counterpart};

/// The prefix of variables that replace defaults.
const DEFAULTS: &str = "HOTRING_DEFAULT_";

impl Config {
    /// Sets one setting by name. `from` describes the source in errors.
    pub fn set(&mut self, name: &str, value: &str, from: &str) -> Result<(), StartError> {
        let Some(setting) = find(name) else {
            let hint = nearest(name).map(|n| format!("; did you mean '{n}'?")).unwrap_or_default();
            return Err(StartError::new(format!("{from}: there is no setting '{name}'{hint}")));
        };
        (setting.set)(self, value).map_err(|why| {
            let name = setting.name;
            // Some errors are complete sentences from Redis.
            StartError::new(match why.starts_with(char::is_uppercase) {
                true => format!("{from}: {name} '{value}': {why}"),
                false => format!("{from}: {name} {why}, not '{value}'"),
            })
        })
    }

    /// Reads a TOML file of settings.
    pub fn read_file(&mut self, path: &Path) -> Result<(), StartError> {
        let text = read_to_string(path)?;
        file::read(self, &text, &path.display().to_string())?;
        // The path must be absolute: the working folder may have changed when the file is rewritten.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        self.file = Some(path);
        Ok(())
    }

    /// Reads a redis.conf; returns a message for each line without effect here.
    pub fn read_redis_conf(&mut self, path: &Path) -> Result<Vec<String>, StartError> {
        redis_conf::read_file(self, path)
    }

    /// Takes settings from `HOTRING_...` variables.
    pub fn read_environment(
        &mut self,
        variables: impl Iterator<Item = (OsString, OsString)>,
    ) -> Result<(), StartError> {
        self.read_variables(variables, |variable| match variable.strip_prefix(DEFAULTS) {
            Some(_) => None,
            None => variable.strip_prefix("HOTRING_"),
        })
    }

    /// Reads defaults, weaker than all other sources, from `HOTRING_DEFAULT_...` variables. A container image needs
    /// them: its server must be reachable from outside, and the user's files must override that.
    pub fn read_default_environment(
        &mut self,
        variables: impl Iterator<Item = (OsString, OsString)>,
    ) -> Result<(), StartError> {
        self.read_variables(variables, |variable| variable.strip_prefix(DEFAULTS))
    }

    fn read_variables(
        &mut self,
        variables: impl Iterator<Item = (OsString, OsString)>,
        setting_name: fn(&str) -> Option<&str>,
    ) -> Result<(), StartError> {
        let named: Vec<(String, String, OsString)> = variables
            .filter_map(|(variable, value)| {
                let variable = variable.to_string_lossy().into_owned();
                let name = setting_name(&variable)?;
                Some((name.to_ascii_lowercase().replace('_', "-"), variable, value))
            })
            .collect();
        self.forget_addresses(named.iter().map(|(name, ..)| name.as_str()));
        for (name, variable, value) in named {
            let from = format!("environment variable {variable}");
            // The value may be a password: a server that ignored it would be open.
            let Ok(value) = value.into_string() else {
                return Err(StartError::new(format!("{from}: its value is not UTF-8")));
            };
            self.set(&name, &value, &from)?;
        }
        Ok(())
    }

    /// Removes the addresses of weaker sources, before a source sets `names`: the strongest source alone decides on the
    /// addresses. Within one source, `listen` overrides `bind` and `port`.
    pub fn forget_addresses<'a>(&mut self, names: impl IntoIterator<Item = &'a str>) {
        for setting in names.into_iter().filter_map(find) {
            match setting.name {
                "listen" | "bind" | "port" => self.listen.clear(),
                "tls-listen" | "tls-port" => self.tls.listen.clear(),
                "fabric" => self.fabric.listen.clear(),
                _ => {}
            }
        }
    }
}

/// Applies CONFIG SET from a connection with the address `peer`: all of `changes` or none. The error text is Redis's.
pub(crate) fn change_running(
    config: &Config,
    changes: &[(String, String)],
    peer: &str,
) -> Result<Config, String> {
    let mut changed = config.clone();
    let mut seen: Vec<&'static str> = Vec::new();
    for (name, value) in changes {
        let failed = |why: &str| {
            format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {why}")
        };
        let by_name = (find(name), passive::find(name));
        let (known, change) = match by_name {
            (Some(setting), _) => (setting.name, setting.change),
            (None, Some(passive)) => (passive.name, passive.change),
            (None, None) => {
                return Err(format!(
                    "ERR Unknown option or number of arguments for CONFIG SET - '{}'",
                    quoted(name.as_bytes())
                ));
            }
        };
        if seen.contains(&known) {
            return Err(failed("duplicate parameter"));
        }
        seen.push(known);
        if change == Change::Start {
            return Err(failed("can't set immutable config"));
        }
        if change == Change::Protected && !config.enable_protected_configs.allows(peer) {
            return Err(failed("can't set protected config"));
        }
        let set = match by_name {
            (Some(setting), _) => (setting.set)(&mut changed, value),
            (None, Some(passive)) => changed.passive.set(passive, value),
            (None, None) => Ok(()),
        };
        set.map_err(|why| failed(&in_redis_words(&why)))?;
        if by_name.0.is_some() {
            changed.changed.insert(known);
        }
    }
    Ok(changed)
}

fn read_to_string(path: &Path) -> Result<String, StartError> {
    std::fs::read_to_string(path)
        .map_err(|e| StartError::new(format!("cannot read {}: {e}", path.display())))
}

/// The name of the setting that is nearest to a mistyped name, if the distance is at most 2.
fn nearest(name: &str) -> Option<&'static str> {
    let lower = name.to_ascii_lowercase();
    let closest = settings().map(|s| (distance(&lower, s.name), s.name)).min()?;
    (closest.0 <= 2).then_some(closest.1)
}

/// Levenshtein distance.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
