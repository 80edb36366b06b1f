//! Settings of how the server is watched from outside.

use super::{Change, Setting};
use crate::config::LogFormat;

pub(super) static OPERATIONS: &[Setting] = &[
    Setting {
        name: "admin",
        alias: "",
        placeholder: "ADDR:PORT",
        help: "Serve metrics, health checks and a status page by HTTP here, to anybody who can reach it",
        change: Change::Start,
        get: |c| c.admin.clone().unwrap_or_default(),
        set: |c, v| {
            c.admin = (!v.is_empty()).then(|| v.to_string());
            Ok(())
        },
    },
    Setting {
        name: "log-format",
        alias: "",
        placeholder: "human|json",
        help: "Write the log for people or, one JSON object a line, for programs",
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
