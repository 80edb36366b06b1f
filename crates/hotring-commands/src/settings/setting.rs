//! The description of a setting: its names, help, and functions to read and set its value.

use crate::settings::config::Config;

/// When a setting may be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Only at the start.
    Start,
    /// Also by CONFIG SET while the server runs.
    Running,
    /// Also by CONFIG SET, but only for connections that `enable-protected-configs` allows: the setting names a file.
    Protected,
    /// Never: the value describes this server.
    Fixed,
}

/// One setting.
#[derive(Debug)]
pub struct Setting {
    /// The name in the configuration file, in CONFIG GET, and after `--` on the command line.
    pub name: &'static str,
    /// A second spelling for the command line and the file, or "".
    pub alias: &'static str,
    /// The placeholder of the value in the help text.
    pub placeholder: &'static str,
    /// The help text, one sentence.
    pub help: &'static str,
    /// When the setting may be changed.
    pub change: Change,
    pub(crate) get: fn(&Config) -> String,
    pub(crate) set: fn(&mut Config, &str) -> Result<(), String>,
}

impl Setting {
    /// The default value as text.
    pub fn default_text(&self) -> String {
        (self.get)(&Config::default())
    }

    /// The environment variable for the setting: `HOTRING_` and the name in capitals.
    pub fn variable(&self) -> String {
        format!("HOTRING_{}", self.name.replace('-', "_").to_ascii_uppercase())
    }
}
