//! Settings that clients and tools ask for, but that have only one value here.

use crate::settings::config::Config;
use crate::settings::setting::{Change, Setting};

pub(super) static FIXED: &[Setting] = &[fixed(
    "cluster-enabled",
    "no",
    "Whether the server is a node of a cluster; its start decides",
    |config| enabled(config).into(),
    |config, value| only(value, enabled(config)),
)];

fn enabled(config: &Config) -> &'static str {
    if config.clustered { "yes" } else { "no" }
}

const fn fixed(
    name: &'static str,
    placeholder: &'static str,
    help: &'static str,
    get: fn(&Config) -> String,
    set: fn(&mut Config, &str) -> Result<(), String>,
) -> Setting {
    Setting { name, alias: "", placeholder, help, change: Change::Fixed, get, set }
}

fn only(value: &str, allowed: &str) -> Result<(), String> {
    if value.eq_ignore_ascii_case(allowed) {
        Ok(())
    } else {
        Err(format!("can only be '{allowed}' in this version"))
    }
}
