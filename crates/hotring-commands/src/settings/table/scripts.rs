//! Settings of scripts: how long, how much, how many.

use crate::settings::setting::{Change, Setting};
use crate::settings::values::{number, size};

pub(super) static SCRIPTS: &[Setting] = &[
    Setting {
        name: "lua-time-limit",
        alias: "",
        placeholder: "MILLISECONDS",
        help: "End a script that runs for this long with an error; what it has written stays; 0 never \
               does",
        change: Change::Running,
        get: |c| c.lua_time_ms.to_string(),
        set: |c, v| number(v, 0, i32::MAX as u64).map(|n| c.lua_time_ms = n),
    },
    Setting {
        name: "busy-reply-threshold",
        alias: "",
        placeholder: "MILLISECONDS",
        help: "Answer -BUSY to requests that need keys that a script has held for this long; 0 lets them wait",
        change: Change::Running,
        get: |c| c.busy_reply_ms.to_string(),
        set: |c, v| number(v, 0, i32::MAX as u64).map(|n| c.busy_reply_ms = n),
    },
    Setting {
        name: "lua-instruction-limit",
        alias: "",
        placeholder: "N",
        help: "End a script that has run through this many instructions of Lua; 0 never does",
        change: Change::Running,
        get: |c| c.lua_steps_max.to_string(),
        set: |c, v| number(v, 0, u64::MAX).map(|n| c.lua_steps_max = n),
    },
    Setting {
        name: "lua-log-limit",
        alias: "",
        placeholder: "N",
        help: "Lines that scripts may write into the log in a second, by redis.log; the others are counted; 0 for \
               no limit",
        change: Change::Running,
        get: |c| c.lua_log_max.to_string(),
        set: |c, v| number(v, 0, u64::MAX).map(|n| c.lua_log_max = n),
    },
    Setting {
        name: "lua-memory-limit",
        alias: "",
        placeholder: "SIZE",
        help: "Memory that the scripts of each thread may take; one that needs more ends with an error",
        change: Change::Running,
        get: |c| c.lua_memory_max.to_string(),
        set: |c, v| size(v, 1 << 20).map(|n| c.lua_memory_max = n),
    },
    Setting {
        name: "script-cache-limit",
        alias: "",
        placeholder: "SIZE",
        help: "Memory that the texts of scripts may take; those that came by EVAL make room, the longest \
               unused first",
        change: Change::Running,
        get: |c| c.script_cache_max.to_string(),
        set: |c, v| size(v, 64 << 10).map(|n| c.script_cache_max = n),
    },
];
