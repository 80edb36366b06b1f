//! INFO fields of Redis for features that hotring does not have; their values are constants.

/// There are no functions and no cluster nodes, and nothing that matches Redis's active defragmentation and lazy
/// freeing: the threads that use removed memory free it.
pub(super) const NO_MEMORY: &[&str] = &[
    "number_of_functions",
    "number_of_libraries",
    "used_memory_vm_functions",
    "used_memory_functions",
    "mem_not_counted_for_evict",
    "mem_total_replication_buffers",
    "mem_clients_slaves",
    "mem_cluster_links",
    "active_defrag_running",
    "lazyfree_pending_objects",
    "lazyfreed_objects",
];

/// Snapshots are written without fork, and replace the rewriting of the log.
pub(super) const NO_FORK: &[&str] = &[
    "current_cow_peak",
    "current_cow_size",
    "current_cow_size_age",
    "rdb_last_cow_size",
    "aof_rewrite_scheduled",
    "aof_rewrites",
    "aof_rewrites_consecutive_failures",
    "aof_last_cow_size",
    "module_fork_in_progress",
    "module_fork_last_cow_size",
];
pub(super) const NO_FORK_TEXTS: &[(&str, &str)] = &[
    ("current_fork_perc", "0.00"),
    ("aof_last_rewrite_time_sec", "-1"),
    ("aof_current_rewrite_time_sec", "-1"),
    ("aof_last_bgrewrite_status", "ok"),
];

/// Keys expire on time, links are not counted apart, and nothing is forked.
pub(super) const NO_STATS: &[&str] = &[
    "expired_time_cap_reached_count",
    "total_net_repl_input_bytes",
    "total_net_repl_output_bytes",
    "sync_partial_err",
    "latest_fork_usec",
    "total_forks",
    "migrate_cached_sockets",
    "slave_expires_tracked_keys",
    "active_defrag_hits",
    "active_defrag_misses",
    "active_defrag_key_hits",
    "active_defrag_key_misses",
    "total_active_defrag_time",
    "current_active_defrag_time",
    "unexpected_error_replies",
    "dump_payload_sanitizations",
];
pub(super) const NO_STATS_TEXTS: &[(&str, &str)] = &[
    ("instantaneous_input_repl_kbps", "0.00"),
    ("instantaneous_output_repl_kbps", "0.00"),
    ("expired_stale_perc", "0.00"),
];
