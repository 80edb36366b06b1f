//! Settings: their values, the table that names and explains each setting, and the sources of the values.

pub mod config;
pub(crate) mod engine;
mod eviction;
pub mod guard;
pub(crate) mod passive;
mod setting;
mod sources;
mod table;
mod values;

pub use eviction::policy_name;
pub use setting::{Change, Setting};
pub use sources::{Counterpart, counterpart, toml_value};
pub(crate) use sources::{change_running, rewrite_file};
pub use table::{find, is_for_research, settings};
