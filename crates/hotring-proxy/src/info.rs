//! What INFO says about the proxy.

use std::fmt::Write;
use std::sync::atomic::Ordering;

use crate::foreign::pool::Foreign;
use crate::layout::Layout;
use crate::thread::Thread;

/// The version of Redis whose clients' features the proxy has.
pub(crate) use hotring_commands::commands::REDIS_VERSION;

/// What `stats` says.
pub(crate) fn memcached_stats(thread: &Thread) -> String {
    let shared = &thread.shared;
    // ORDERING: Relaxed, a number for people.
    let clients = shared.clients.load(Ordering::Relaxed);
    let lines = [
        ("pid", std::process::id().to_string()),
        ("uptime", shared.started.elapsed().as_secs().to_string()),
        ("version", hotring_commands::memcached::VERSION.to_string()),
        ("curr_connections", clients.to_string()),
        ("total_connections", shared.counters.accepted.value().to_string()),
        ("proxy_requests", shared.counters.requests.value().to_string()),
        ("proxy_merged_reads", shared.counters.merged.value().to_string()),
        ("threads", shared.settings.threads.to_string()),
    ];
    let lines = lines.iter().map(|(name, value)| format!("STAT {name} {value}\r\n"));
    lines.chain(["END\r\n".to_string()]).collect()
}

/// The text of INFO.
pub(crate) fn text(thread: &Thread) -> String {
    let shared = &thread.shared;
    let counters = &shared.counters;
    let mut out = String::new();
    let mut section = |name: &str, lines: &[(&str, String)]| {
        let gap = if out.is_empty() { "" } else { "\r\n" };
        _ = write!(out, "{gap}# {name}\r\n");
        for (field, value) in lines {
            _ = write!(out, "{field}:{value}\r\n");
        }
    };
    let number = |counter: &crate::counter::Counter| counter.value().to_string();
    section(
        "Server",
        &[
            ("redis_version", REDIS_VERSION.to_string()),
            ("hotring_version", env!("CARGO_PKG_VERSION").to_string()),
            ("redis_mode", "standalone".to_string()),
            ("process_id", std::process::id().to_string()),
            ("uptime_in_seconds", shared.started.elapsed().as_secs().to_string()),
        ],
    );
    // ORDERING: Relaxed, a number for people.
    let clients = shared.clients.load(Ordering::Relaxed);
    section(
        "Clients",
        &[
            ("connected_clients", clients.to_string()),
            ("maxclients", shared.settings.clients_max.to_string()),
        ],
    );
    section(
        "Stats",
        &[
            ("total_connections_received", number(&counters.accepted)),
            ("rejected_connections", number(&counters.refused)),
            ("total_commands_processed", number(&counters.requests)),
        ],
    );
    section(
        "Proxy",
        &[
            ("proxy_merged_reads", number(&counters.merged)),
            ("proxy_mirrored_reads", number(&counters.mirrored)),
            ("proxy_redirects", number(&counters.redirected)),
            ("proxy_retries", number(&counters.retried)),
            ("proxy_unknown_writes", number(&counters.unknown)),
            ("proxy_connections_made", number(&counters.dialled)),
            ("proxy_connections_failed", number(&counters.unreachable)),
            ("proxy_connections_of_thread", thread.connections().to_string()),
        ],
    );
    if let Some(pool) = &shared.foreign {
        let lines = pool_lines(pool, &thread.layout());
        let lines: Vec<_> =
            lines.iter().map(|(name, line)| (name.as_str(), line.clone())).collect();
        section("Pool", &lines);
        section("Keyspace", &[]);
        return out;
    }
    let layout = thread.layout();
    let line = |(i, shard): (usize, &crate::layout::Shard)| {
        (
            format!("shard{i}"),
            format!("primary={},replicas={}", shard.primary, shard.replicas.join(" ")),
        )
    };
    let shards: Vec<_> = layout.shards().iter().enumerate().map(line).collect();
    let shards: Vec<_> = shards.iter().map(|(name, line)| (name.as_str(), line.clone())).collect();
    section("Cluster", &shards);
    section("Keyspace", &[]);
    out
}

/// A line for each server of a pool, and one for the copy.
fn pool_lines(pool: &Foreign, layout: &Layout) -> Vec<(String, String)> {
    let servers = pool.servers();
    let mut lines: Vec<_> = servers
        .iter()
        .map(|server| {
            let health = &server.health;
            let (since, why) = health.since();
            let (state, why) = match health.is_ejected() {
                true => ("ejected", format!(",why={}", why.replace(['\r', '\n', ','], " "))),
                false => ("up", String::new()),
            };
            let line = format!(
                "address={},protocol={},weight={},slots={},state={state},state_seconds={},requests={},errors={},failures={},ejections={},probe_usec={}{why}",
                server.address,
                server.kind.name(),
                server.weight,
                layout.slots_of(&server.address),
                since.as_secs(),
                health.requests.value(),
                health.errors.value(),
                health.failures.value(),
                health.ejections.value(),
                health.probe_us(),
            );
            (format!("server_{}", server.name), line)
        })
        .collect();
    let copy = match pool.copying() {
        Some(copying) => {
            let (copied, cold) = (copying.copied.value(), copying.cold.value());
            format!("running,copied={copied},cold={cold}")
        }
        None => pool.last_copy(),
    };
    lines.push(("copy".to_string(), copy));
    lines
}
