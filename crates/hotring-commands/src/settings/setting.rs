//! The description of a setting.

use crate::settings::config::Config;

/// When a setting may be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Only before the start.
    Start,
    /// Also by CONFIG SET while the server runs.
    Running,
    /// Also while it runs, but only for those whom `enable-protected-configs` allows: it names a file.
    Protected,
    /// Never: it describes this server.
    Fixed,
}

/// One setting.
#[derive(Debug)]
pub struct Setting {
    /// Its name in the configuration file, in CONFIG GET, and after `--` on the command line.
    pub name: &'static str,
    /// A second spelling for the command line and the file, or "".
    pub alias: &'static str,
    /// The placeholder of the value in the help text.
    pub placeholder: &'static str,
    /// Its help, one sentence.
    pub help: &'static str,
    /// When it may be changed.
    pub change: Change,
    pub(crate) get: fn(&Config) -> String,
    pub(crate) set: fn(&mut Config, &str) -> Result<(), String>,
}

impl Setting {
    /// The default.
    pub fn default_text(&self) -> String {
        (self.get)(&Config::default())
    }

    /// The environment variable that sets it: `HOTRING_` and the name in capitals.
    pub fn variable(&self) -> String {
        format!("HOTRING_{}", self.name.replace('-', "_").to_ascii_uppercase())
    }
}
