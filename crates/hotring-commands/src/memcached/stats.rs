//! stats: counters and other figures under memcached's names, for its clients and for exporters of metrics.
//!
//! Figures that do not apply, such as those of LRU lists, are absent or 0 where tools require them. All items are in
//! slab class 1.

use std::sync::atomic::Ordering;

use hotring_protocol::memcached::{KEY_LEN_MAX, parse_u32};
use hotring_store::EvictionPolicy;

use super::VERSION;
use super::context::{Context, Outcome, Refusal};
use crate::state::memcached::{COUNT_NAMES, Count};

/// The slab class of all items, and the number of classes in memcached.
const CLASS: u32 = 1;
const CLASSES: u32 = 64;

/// Longest dump of keys in bytes, as in memcached.
const DUMP_LEN_MAX: usize = 2 << 20;

/// Number of keys read per step of a dump.
const SCAN_LEN: usize = 256;

pub(super) fn stats(c: &mut Context<'_>) -> Outcome {
    match c.args.get(1) {
        None => general(c),
        Some(b"settings") => settings(c),
        Some(b"items") => items(c),
        Some(b"slabs") => slabs(c),
        Some(b"conns") => conns(c),
        Some(b"cachedump") => cachedump(c)?,
        Some(b"sizes" | b"sizes_enable" | b"sizes_disable") => {
            c.reply.stat("sizes_status", "disabled");
        }
        Some(b"detail") => return detail(c),
        Some(b"reset") => {
            c.server.reset_totals();
            c.reply.line("RESET");
            return Ok(());
        }
        Some(_) => return Err(Refusal::ERROR),
    }
    c.reply.line("END");
    c.check_reply_len()
}

fn general(c: &mut Context<'_>) {
    let (server, config) = (c.server, c.config);
    let totals = server.totals();
    let sums = server.memcached.sums(&server.threads);
    let index = server.store.stats().index;
    let clients = server.clients.len();
    let reply = &mut c.reply;
    reply.stat("pid", std::process::id());
    reply.stat("uptime", server.process.started.elapsed().as_secs());
    reply.stat("time", c.now / 1000);
    reply.stat("version", VERSION);
    reply.stat("hotring_version", env!("CARGO_PKG_VERSION"));
    reply.stat("pointer_size", usize::BITS);
    if let Some((user, system)) = crate::state::facts::cpu_seconds() {
        reply.stat("rusage_user", format_args!("{user:.6}"));
        reply.stat("rusage_system", format_args!("{system:.6}"));
    }
    reply.stat("max_connections", config.maxclients);
    reply.stat("curr_connections", clients);
    reply.stat("total_connections", totals.accepted);
    reply.stat("rejected_connections", totals.rejected);
    reply.stat("connection_structures", clients);
    for (name, sum) in COUNT_NAMES.iter().zip(sums) {
        reply.stat(name, sum);
    }
    reply.stat("bytes_read", totals.input_bytes);
    reply.stat("bytes_written", totals.output_bytes);
    // 0 is no limit.
    reply.stat("limit_maxbytes", config.memory_max);
    reply.stat("accepting_conns", 1);
    reply.stat("threads", server.threads.len());
    reply.stat("hash_bytes", index.table_bytes);
    reply.stat("bytes", index.bytes.saturating_sub(index.limbo_bytes));
    reply.stat("curr_items", index.items);
    reply.stat("reclaimed", totals.expired_keys);
    reply.stat("evictions", totals.evicted_keys);
}

fn settings(c: &mut Context<'_>) {
    let config = c.config;
    let settings = &config.memcached;
    let address = c.server.memcached.addresses.first();
    let reply = &mut c.reply;
    reply.stat("maxbytes", config.memory_max);
    reply.stat("maxconns", config.maxclients);
    reply.stat("tcpport", address.map_or(0, |address| address.port()));
    reply.stat("udpport", 0);
    reply.stat("inter", address.map(|address| address.ip().to_string()).unwrap_or_default());
    reply.stat("verbosity", 0);
    reply.stat("oldest", 0);
    let evicts = config.eviction.policy != EvictionPolicy::NoEviction;
    reply.stat("evictions", if evicts { "on" } else { "off" });
    reply.stat("num_threads", c.server.threads.len());
    reply.stat("stat_key_prefix", ":");
    reply.stat("detail_enabled", yes_no(c.server.memcached.detail.is_on()));
    reply.stat("cas_enabled", "yes");
    reply.stat("tcp_backlog", config.tcp_backlog);
    reply.stat("auth_enabled_ascii", yes_no(c.server.memcached.users.is_some()));
    reply.stat("binding_protocol", "ascii");
    reply.stat("item_size_max", settings.value_len_max);
    reply.stat("idle_timeout", config.timeout_s);
    reply.stat("flush_enabled", "yes");
    reply.stat("dump_enabled", "no");
    reply.stat("lru_crawler", "no");
    reply.stat("lru_maintainer_thread", "no");
}

fn items(c: &mut Context<'_>) {
    let items = c.server.store.len();
    if items > 0 {
        c.reply.stat("items:1:number", items);
        for name in ["age", "evicted", "evicted_nonzero", "evicted_time", "outofmemory"] {
            c.reply.stat(&format!("items:1:{name}"), 0);
        }
    }
}

/// The counters that memcached has per slab class; there is one class here.
const COUNTS_OF_CLASS: [Count; 8] = [
    Count::GetHits,
    Count::CmdSet,
    Count::DeleteHits,
    Count::IncrHits,
    Count::DecrHits,
    Count::CasHits,
    Count::CasBadval,
    Count::TouchHits,
];

fn slabs(c: &mut Context<'_>) {
    let index = c.server.store.stats().index;
    let used = index.bytes.saturating_sub(index.limbo_bytes);
    if index.items > 0 {
        let sums = c.server.memcached.sums(&c.server.threads);
        for count in COUNTS_OF_CLASS.map(|count| count as usize) {
            c.reply.stat(&format!("1:{}", COUNT_NAMES[count]), sums[count]);
        }
        c.reply.stat("1:used_chunks", index.items);
        c.reply.stat("1:mem_requested", used);
    }
    c.reply.stat("active_slabs", u8::from(index.items > 0));
    c.reply.stat("total_malloced", index.held_bytes);
}

/// Describes the connections of both protocols, by connection ID.
fn conns(c: &mut Context<'_>) {
    let second = c.now / 1000;
    for client in c.server.clients.all() {
        // ORDERING: Relaxed, a figure for people.
        let idle = second.saturating_sub(client.active_at.load(Ordering::Relaxed) / 1000);
        let id = client.id;
        c.reply.stat(&format!("{id}:addr"), format_args!("tcp:{}", client.peer));
        c.reply.stat(&format!("{id}:listen_addr"), format_args!("tcp:{}", client.local));
        c.reply.stat(&format!("{id}:state"), "conn_read");
        c.reply.stat(&format!("{id}:secs_since_last_cmd"), idle);
    }
}

/// Dumps up to `count` keys of a slab class; 0 for as many as fit into the reply.
fn cachedump(c: &mut Context<'_>) -> Outcome {
    let (Some(class), Some(count)) = (c.args.get(2), c.args.get(3)) else {
        return Err("CLIENT_ERROR bad command line".into());
    };
    let (Some(class), Some(count)) = (parse_u32(class), parse_u32(count)) else {
        return Err(Refusal::BAD_LINE);
    };
    match class {
        CLASS => {}
        0..CLASSES => return Ok(()),
        _ => return Err("CLIENT_ERROR Illegal slab id".into()),
    }
    let count_max = if count == 0 { usize::MAX } else { count as usize };
    let len_max = c.reply.written().saturating_add(DUMP_LEN_MAX);
    let (mut cursor, mut shown) = (0, 0);
    loop {
        let mut keys: Vec<Vec<u8>> = Vec::new();
        cursor = c.store.scan(cursor, SCAN_LEN, c.now, |key, _| {
            // Skip keys that this protocol cannot name.
            if key.len() <= KEY_LEN_MAX && key.iter().all(u8::is_ascii_graphic) {
                keys.push(key.to_vec());
            }
        });
        for key in keys {
            if shown == count_max || c.reply.written() > len_max {
                return Ok(());
            }
            shown += usize::from(dump_item(c, &key));
        }
        if cursor == 0 {
            return Ok(());
        }
    }
}

/// Writes one line of a dump. False if the key has gone meanwhile, or its value is not a string.
fn dump_item(c: &mut Context<'_>, key: &[u8]) -> bool {
    let reply = &mut c.reply;
    let shown = c.store.item(key, c.now, |item| {
        if !item.value.is_string() {
            return false;
        }
        let end = item.expire_at.map_or(0, |at| at.div_ceil(1000));
        reply.text("ITEM ");
        reply.text(key);
        reply.line(format!(" [{} b; {end} s]", item.value.len()));
        true
    });
    shown.unwrap_or(false)
}

fn detail(c: &mut Context<'_>) -> Outcome {
    let detail = &c.server.memcached.detail;
    match c.args.get(2) {
        Some(b"on") => detail.turn(true),
        Some(b"off") => detail.turn(false),
        Some(b"dump") => {
            let text = detail.dump();
            c.reply.text(text);
            c.reply.line("END");
            return c.check_reply_len();
        }
        _ => return Err("CLIENT_ERROR usage: stats detail on|off|dump".into()),
    }
    c.reply.line("OK");
    Ok(())
}

fn yes_no(truth: bool) -> &'static str {
    if truth { "yes" } else { "no" }
}
