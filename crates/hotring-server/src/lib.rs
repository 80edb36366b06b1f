//! The server around the HotRing store, for clients of Redis and of memcached.
//!
//! Bytes flow one way: `socket` reads them, `executor` cuts them into requests and runs these by
//! `commands`, which ask the store and write replies; `socket` sends the replies. One OS thread per
//! core does all of that for its own connections (`worker`), and any thread serves any key.
//! `listen` accepts, `expirer` removes what has expired, `background` does the other work that no client waits
//! for, `admin` tells by HTTP how it goes, `run` builds and ends everything. `clock` is the only reader of time, `settings` the only list of settings. `memcached` is the
//! other protocol.
//!
//! ```no_run
//! let config = hotring_server::Config { port: 0, ..Default::default() };
//! let running = hotring_server::start(config)?;
//! println!("redis-cli -p {}", running.addresses()[0].port());
//! running.stop();
//! running.wait().unwrap();
//! # Ok::<(), hotring_server::StartError>(())
//! ```
#![forbid(unsafe_code)]

mod admin;
mod net;
mod run;
mod tasks;

pub use admin::markdown as metrics_markdown;
#[cfg(fuzzing)]
pub use hotring_commands::fuzzing;
pub use hotring_commands::host::files::{NewFile, Special};
pub use hotring_commands::host::start_error::StartError;
pub use hotring_commands::settings::config::{
    AuthClients, Config, LogFormat, LogLevel, LogSettings, MemcachedSettings, OnError, Protocols,
    SavePoint, Secret, SnapshotSettings, TlsSettings,
};
pub use hotring_commands::settings::guard::Guard;
pub use hotring_commands::settings::{
    Change, Counterpart, Setting, counterpart, find as find_setting, is_for_research, settings,
    toml_value,
};
pub use run::{Running, run, start};
