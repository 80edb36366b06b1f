//! Settings of limits: connections, buffers, requests, memory and eviction.

use super::output_limits;
use crate::settings::eviction::{parse_policy, policy_name};
use crate::settings::setting::{Change, Setting};
use crate::settings::values::{number, size};

pub(super) static LIMITS: &[Setting] = &[
    Setting {
        name: "maxclients",
        alias: "",
        placeholder: "N",
        help: "Most connections at a time; more are refused with an error",
        change: Change::Running,
        get: |c| c.maxclients.to_string(),
        set: |c, v| number(v, 1, usize::MAX).map(|n| c.maxclients = n),
    },
    Setting {
        name: "max-waiting-clients",
        alias: "",
        placeholder: "N",
        help: "Most connections that wait in WAITKEY at a time; more get an error",
        change: Change::Running,
        get: |c| c.waiting_max.to_string(),
        set: |c, v| number(v, 0, u64::MAX).map(|n| c.waiting_max = n),
    },
    Setting {
        name: "max-watched-keys",
        alias: "",
        placeholder: "N",
        help: "Most keys that a connection may WATCH at a time; more get an error",
        change: Change::Running,
        get: |c| c.watched_max.to_string(),
        set: |c, v| number(v, 0, usize::MAX).map(|n| c.watched_max = n),
    },
    Setting {
        name: "timeout",
        alias: "",
        placeholder: "SECONDS",
        help: "Close a connection that has been idle for this long, unless it waits in a command; 0: never",
        change: Change::Running,
        get: |c| c.timeout_s.to_string(),
        set: |c, v| number(v, 0, i32::MAX as u64).map(|n| c.timeout_s = n),
    },
    Setting {
        name: "handshake-timeout",
        alias: "",
        placeholder: "SECONDS",
        help: "Close a connection that has not completed its TLS handshake and required authentication within this \
               time; 0: never",
        change: Change::Running,
        get: |c| c.handshake_timeout_s.to_string(),
        set: |c, v| number(v, 0, i32::MAX as u64).map(|n| c.handshake_timeout_s = n),
    },
    Setting {
        name: "request-timeout",
        alias: "",
        placeholder: "SECONDS",
        help: "Close a connection whose request stays incomplete for this long, plus a second per 64 KiB of it; 0: \
               never",
        change: Change::Running,
        get: |c| c.request_timeout_s.to_string(),
        set: |c, v| number(v, 0, i32::MAX as u64).map(|n| c.request_timeout_s = n),
    },
    Setting {
        name: "client-query-buffer-limit",
        alias: "",
        placeholder: "SIZE",
        help: "Close a connection whose incomplete request is larger than this",
        change: Change::Running,
        get: |c| c.query_buffer_max.to_string(),
        set: |c, v| size(v, 1 << 20).map(|n| c.query_buffer_max = n),
    },
    Setting {
        name: "output-buffer-soft-limit",
        alias: "",
        placeholder: "SIZE",
        help: "Stop reading from a connection while its unsent replies exceed this",
        change: Change::Running,
        get: |c| c.output_soft_max.to_string(),
        set: |c, v| size(v, 1 << 10).map(|n| c.output_soft_max = n),
    },
    Setting {
        name: "output-buffer-soft-seconds",
        alias: "",
        placeholder: "SECONDS",
        help: "Close a connection whose unsent replies have exceeded output-buffer-soft-limit for this long without \
               progress; 0: never",
        change: Change::Running,
        get: |c| c.output_soft_s.to_string(),
        set: |c, v| number(v, 0, i32::MAX as u64).map(|n| c.output_soft_s = n),
    },
    Setting {
        name: "output-buffer-hard-limit",
        alias: "",
        placeholder: "SIZE",
        help: "Close a connection whose unsent replies exceed this; 0: never",
        change: Change::Running,
        get: |c| c.output_hard_max.to_string(),
        set: |c, v| size(v, 0).map(|n| c.output_hard_max = n),
    },
    Setting {
        name: "client-output-buffer-limit",
        alias: "",
        placeholder: "CLASS HARD SOFT SECONDS ...",
        help: "Redis's name for output-buffer-hard-limit (class normal) and subscriber-output-buffer-limit (class \
               pubsub); the soft limits and class replica have no effect",
        change: Change::Running,
        get: output_limits::text,
        set: output_limits::set,
    },
    Setting {
        name: "subscriber-output-buffer-limit",
        alias: "",
        placeholder: "SIZE",
        help: "Close a subscriber's connection when a message arrives while more than this is unsent; 0: never",
        change: Change::Running,
        get: |c| c.subscriber_output_max.to_string(),
        set: |c, v| size(v, 0).map(|n| c.subscriber_output_max = n),
    },
    Setting {
        name: "maxmemory-clients",
        alias: "",
        placeholder: "SIZE",
        help: "Memory limit for all client buffers and subscriptions together; above it the largest clients are \
               closed; 0: half of maxmemory",
        change: Change::Running,
        get: |c| c.client_memory_max.to_string(),
        set: |c, v| size(v, 0).map(|n| c.client_memory_max = n),
    },
    Setting {
        name: "max-subscriptions",
        alias: "",
        placeholder: "N",
        help: "Most channels and patterns that a connection may subscribe to; more get an error",
        change: Change::Running,
        get: |c| c.subscriptions_max.to_string(),
        set: |c, v| number(v, 0, usize::MAX).map(|n| c.subscriptions_max = n),
    },
    Setting {
        name: "tracking-table-max-keys",
        alias: "",
        placeholder: "N",
        help: "Most keys remembered for CLIENT TRACKING; above it some are invalidated early; 0: no limit",
        change: Change::Running,
        get: |c| c.tracking_keys_max.to_string(),
        set: |c, v| number(v, 0, usize::MAX).map(|n| c.tracking_keys_max = n),
    },
    Setting {
        name: "tracking-table-max-memory",
        alias: "",
        placeholder: "SIZE",
        help: "Memory limit for those keys and their readers: the key and about 100 bytes, plus 8 per connection; \
               above it some are invalidated early; 0: no limit",
        change: Change::Running,
        get: |c| c.tracking_memory_max.to_string(),
        set: |c, v| size(v, 0).map(|n| c.tracking_memory_max = n),
    },
    Setting {
        name: "maxmemory",
        alias: "",
        placeholder: "SIZE",
        help: "Memory limit for keys, values, the table, client buffers and scripts together; maxmemory-policy \
               applies above it; 0: no limit",
        change: Change::Running,
        get: |c| c.memory_max.to_string(),
        set: |c, v| size(v, 0).map(|n| c.memory_max = n),
    },
    Setting {
        name: "maxmemory-policy",
        alias: "",
        placeholder: "POLICY",
        help: "Eviction above maxmemory: noeviction (refuse writes with -OOM; the default with a log), heat (keys \
               unlikely to be used again), allkeys-lru, allkeys-lfu, allkeys-random; among keys with an expiry \
               volatile-lru, volatile-lfu, volatile-random, volatile-ttl",
        change: Change::Running,
        get: |c| policy_name(c.eviction.policy).to_string(),
        set: |c, v| {
            c.eviction.policy = parse_policy(v)?;
            c.policy_is_chosen = true;
            Ok(())
        },
    },
    Setting {
        name: "maxmemory-samples",
        alias: "",
        placeholder: "N",
        help: "Keys that Redis's policies compare per eviction, 1 to 64; more is more exact and slower",
        change: Change::Running,
        get: |c| c.eviction.samples.to_string(),
        set: |c, v| number(v, 1, 64).map(|n| c.eviction.samples = n),
    },
    Setting {
        name: "lfu-log-factor",
        alias: "",
        placeholder: "N",
        help: "Higher values make the access counters of the lfu policies grow more slowly",
        change: Change::Running,
        get: |c| c.eviction.frequency_log_factor.to_string(),
        set: |c, v| number(v, 0, u16::MAX).map(|n| c.eviction.frequency_log_factor = n),
    },
    Setting {
        name: "lfu-decay-time",
        alias: "",
        placeholder: "MINUTES",
        help: "Minutes after which each lfu access counter is reduced by one; 0: never",
        change: Change::Running,
        get: |c| c.lfu_decay_min.to_string(),
        set: |c, v| number(v, 0, 1_000_000).map(|n| c.lfu_decay_min = n),
    },
    Setting {
        name: "maxmemory-pinned",
        alias: "",
        placeholder: "PERCENT",
        help: "Percentage of maxmemory that keys pinned by PIN may take, 0 to 90",
        change: Change::Running,
        get: |c| c.pinned_percent.to_string(),
        set: |c, v| number(v, 0, 90).map(|n| c.pinned_percent = n),
    },
    Setting {
        name: "unreclaimed-limit",
        alias: "",
        placeholder: "SIZE",
        help: "Refuse writes (-OOM) while a stuck command keeps more removed memory than this from being freed; 0: \
               never",
        change: Change::Running,
        get: |c| c.unreclaimed_max.to_string(),
        set: |c, v| {
            let n = size(v, 0)?;
            if n > 0 && n < UNRECLAIMED_LEAST {
                return Err(format!("must be 0 or at least {UNRECLAIMED_LEAST} bytes"));
            }
            c.unreclaimed_max = n;
            Ok(())
        },
    },
    Setting {
        name: "max-key-len",
        alias: "",
        placeholder: "SIZE",
        help: "Longest key; longer ones get an error",
        change: Change::Start,
        get: |c| c.key_len_max.to_string(),
        set: |c, v| {
            let n = size(v, 1)?;
            if n > BULK_LEN_LIMIT {
                return Err("must be at most 512mb".to_string());
            }
            c.key_len_max = n;
            Ok(())
        },
    },
    Setting {
        name: "proto-max-bulk-len",
        alias: "",
        placeholder: "SIZE",
        help: "Longest argument of a request, and so the longest value",
        change: Change::Start,
        get: |c| c.bulk_len_max.to_string(),
        set: |c, v| {
            let n = size(v, 1 << 20)?;
            if n > BULK_LEN_LIMIT {
                return Err("must be at most 512mb".to_string());
            }
            c.bulk_len_max = n;
            Ok(())
        },
    },
    Setting {
        name: "proto-max-args",
        alias: "",
        placeholder: "N",
        help: "Most arguments of a request",
        change: Change::Running,
        get: |c| c.args_max.to_string(),
        set: |c, v| number(v, 16, i32::MAX as usize).map(|n| c.args_max = n),
    },
    Setting {
        name: "proto-inline-max-len",
        alias: "",
        placeholder: "SIZE",
        help: "Longest line of an inline (telnet) request",
        change: Change::Running,
        get: |c| c.inline_len_max.to_string(),
        set: |c, v| size(v, 64).map(|n| c.inline_len_max = n),
    },
];

/// A lower limit would be reached even without a stalled thread: a busy thread holds 256 KiB of removed values at a
/// time.
const UNRECLAIMED_LEAST: usize = 1 << 20;

/// The store's own limit for one value.
const BULK_LEN_LIMIT: usize = 512 << 20;
