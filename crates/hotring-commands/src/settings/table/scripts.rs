//! Settings of scripts: limits of time, memory and log lines.

use crate::settings::setting::{Change, Setting};
use crate::settings::values::{number, size};

pub(super) static SCRIPTS: &[Setting] = &[
    Setting {
        name: "lua-time-limit",
        alias: "",
        placeholder: "MILLISECONDS",
        help: "End a script with an error after this time; its writes so far stay; 0: never",
        change: Change::Running,
        get: |c| c.lua_time_ms.to_string(),
        set: |c, v| number(v, 0, i32::MAX as u64).map(|n| c.lua_time_ms = n),
    },
    Setting {
        name: "busy-reply-threshold",
        alias: "",
        placeholder: "MILLISECONDS",
        help: "Answer -BUSY to requests for keys that a script has held for this long; 0: let them wait",
        change: Change::Running,
        get: |c| c.busy_reply_ms.to_string(),
        set: |c, v| number(v, 0, i32::MAX as u64).map(|n| c.busy_reply_ms = n),
    },
    Setting {
        name: "lua-instruction-limit",
        alias: "",
        placeholder: "N",
        help: "End a script with an error after this many Lua instructions; 0: never",
        change: Change::Running,
        get: |c| c.lua_steps_max.to_string(),
        set: |c, v| number(v, 0, u64::MAX).map(|n| c.lua_steps_max = n),
    },
    Setting {
        name: "lua-log-limit",
        alias: "",
        placeholder: "N",
        help: "Lines per second that scripts may log by redis.log; more are only counted; 0: no limit",
        change: Change::Running,
        get: |c| c.lua_log_max.to_string(),
        set: |c, v| number(v, 0, u64::MAX).map(|n| c.lua_log_max = n),
    },
    Setting {
        name: "lua-memory-limit",
        alias: "",
        placeholder: "SIZE",
        help: "Memory limit for the scripts of each thread; a script above it ends with an error",
        change: Change::Running,
        get: |c| c.lua_memory_max.to_string(),
        set: |c, v| size(v, 1 << 20).map(|n| c.lua_memory_max = n),
    },
    Setting {
        name: "script-cache-limit",
        alias: "",
        placeholder: "SIZE",
        help: "Memory limit for cached scripts; above it scripts loaded by EVAL go, the least recently used first",
        change: Change::Running,
        get: |c| c.script_cache_max.to_string(),
        set: |c, v| size(v, 64 << 10).map(|n| c.script_cache_max = n),
    },
];
