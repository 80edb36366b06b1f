//! Settings for operating the server: the admin listener, the watchdog, the shutdown and the log format.

use crate::settings::config::LogFormat;
use crate::settings::setting::{Change, Setting};
use crate::settings::values::number;

pub(super) static OPERATIONS: &[Setting] = &[
    Setting {
        name: "admin",
        alias: "",
        placeholder: "ADDR:PORT",
        help: "Address for metrics, health checks and a status page by HTTP, without authentication",
        change: Change::Start,
        get: |c| c.admin.clone().unwrap_or_default(),
        set: |c, v| {
            c.admin = (!v.is_empty()).then(|| v.to_string());
            Ok(())
        },
    },
    Setting {
        name: "watchdog-period",
        alias: "",
        placeholder: "MILLISECONDS",
        help: "Report a thread as stuck, in the log and at /healthz, when it has served no client for this long; 0: \
               never",
        change: Change::Running,
        get: |c| c.watchdog_ms.to_string(),
        set: |c, v| {
            let n = number(v, 0, i32::MAX as u64)?;
            if n > 0 && n < WATCHDOG_LEAST_MS {
                return Err(format!("must be 0 or at least {WATCHDOG_LEAST_MS}"));
            }
            c.watchdog_ms = n;
            Ok(())
        },
    },
    Setting {
        name: "shutdown-timeout",
        alias: "",
        placeholder: "SECONDS",
        help: "After a request to shut down, wait at most this long for stuck threads; 0: for ever",
        change: Change::Running,
        get: |c| c.shutdown_timeout_s.to_string(),
        set: |c, v| number(v, 0, i32::MAX as u64).map(|n| c.shutdown_timeout_s = n),
    },
    Setting {
        name: "log-format",
        alias: "",
        placeholder: "human|json",
        help: "Format of log messages: human, or json with one object per line",
        change: Change::Start,
        get: |c| if c.log_format == LogFormat::Json { "json" } else { "human" }.to_string(),
        set: |c, v| {
            c.log_format = match v.to_ascii_lowercase().as_str() {
                "human" => LogFormat::Human,
                "json" => LogFormat::Json,
                _ => return Err("must be 'human' or 'json'".to_string()),
            };
            Ok(())
        },
    },
];

/// The minimum of `watchdog-period`, five times the interval between two beats of a running thread.
const WATCHDOG_LEAST_MS: u64 = 500;
