//! The server log: lines on standard error, for people or for programs, at a level that CONFIG SET
//! can change.

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::prelude::*;
use tracing_subscriber::{fmt, reload};

use hotring_commands::settings::config::{LogFormat, LogLevel};

/// Writes the log of this process, of this level and above, to standard error.
pub fn log_to_stderr(level: LogLevel, format: LogFormat) {
    // The level stays as it is.
    drop(start(level, format));
}

/// Starts the server log of this process; returns a function that changes its level.
pub(crate) fn start(level: LogLevel, format: LogFormat) -> Box<dyn Fn(LogLevel) + Send + Sync> {
    let (filter, handle) = reload::Layer::new(filter(level));
    let lines = fmt::layer().with_writer(std::io::stderr).with_target(false);
    let colours = std::io::IsTerminal::is_terminal(&std::io::stderr());
    let lines = match format {
        LogFormat::Human => lines.with_ansi(colours).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    let subscriber = tracing_subscriber::registry().with(filter).with(lines);
    if tracing::subscriber::set_global_default(subscriber).is_err() {
        // The embedding process has its own logger and controls its levels.
        return Box::new(|_| {});
    }
    Box::new(move |level| {
        if let Err(error) = handle.reload(self::filter(level)) {
            tracing::warn!(%error, "cannot change the log level");
        }
    })
}

fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Nothing => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warning => LevelFilter::WARN,
        LogLevel::Notice => LevelFilter::INFO,
        LogLevel::Verbose => LevelFilter::DEBUG,
        LogLevel::Debug => LevelFilter::TRACE,
    }
}
