//! Settings of logs, metrics and the status page.

use crate::settings::config::LogLevel;
use crate::settings::config::Notify;
use crate::settings::guard::Guard;
use crate::settings::setting::{Change, Setting};
use crate::settings::values::number;

pub(super) static DIAGNOSIS: &[Setting] = &[
    Setting {
        name: "slowlog-log-slower-than",
        alias: "",
        placeholder: "MICROSECONDS",
        help: "SLOWLOG keeps timed requests that take at least this long; -1: none",
        change: Change::Running,
        get: |c| c.slowlog_threshold_us.to_string(),
        set: |c, v| number(v, -1, i64::MAX).map(|n| c.slowlog_threshold_us = n),
    },
    Setting {
        name: "slowlog-max-len",
        alias: "",
        placeholder: "N",
        help: "Requests kept by SLOWLOG, up to 8 KiB each; the oldest go first",
        change: Change::Running,
        get: |c| c.slowlog_len_max.to_string(),
        set: |c, v| number(v, 0, 1 << 20).map(|n| c.slowlog_len_max = n),
    },
    Setting {
        name: "latency-monitor-threshold",
        alias: "",
        placeholder: "MILLISECONDS",
        help: "LATENCY keeps timed events that take at least this long; 0: none",
        change: Change::Running,
        get: |c| c.latency_threshold_ms.to_string(),
        set: |c, v| number(v, 0, i64::MAX as u64).map(|n| c.latency_threshold_ms = n),
    },
    Setting {
        name: "enable-debug-command",
        alias: "",
        placeholder: "no|yes|local",
        help: "Whether DEBUG, which can block a thread, works; local: only for clients on this machine",
        change: Change::Start,
        get: |c| c.debug_command.name().to_string(),
        set: |c, v| Guard::parse(v).map(|allow| c.debug_command = allow),
    },
    Setting {
        name: "notify-keyspace-events",
        alias: "",
        placeholder: "CLASSES",
        help: "Classes of keyspace notifications, in Redis's letters, such as KEA for all; empty: none",
        change: Change::Running,
        get: |c| c.notify.text(),
        set: |c, v| Notify::parse(v).map(|notify| c.notify = notify),
    },
    Setting {
        name: "loglevel",
        alias: "log-level",
        placeholder: "LEVEL",
        help: "error, warning, notice, verbose, debug or nothing",
        change: Change::Running,
        get: |c| c.log_level.name().to_string(),
        set: |c, v| LogLevel::parse(v).map(|l| c.log_level = l),
    },
];
