//! INFO: the state of the server as text, with the fields that tools for Redis read.
//!
//! Fields of Redis that do not apply are absent, except where a constant is true: for example, there are no replicas,
//! forks or modules (`constants`).

mod absent;
mod cluster;
mod replication;

use std::fmt::Write;
use std::sync::atomic::Ordering;

use self::absent::*;
use self::cluster::cluster;
use self::replication::replication;
use super::connection::REDIS_VERSION;
use crate::acl::Reason;
use crate::host::clock;
use crate::settings::policy_name;
use crate::state::client::ClientShared;
use crate::state::context::Context;
use crate::state::facts::{
    Facts, cpu_seconds, human, main_thread_seconds, rss_bytes, system_memory,
};
use crate::state::failure::Outcome;
use crate::state::hot_keys::{SPANS, hottest, notes};
use crate::state::loading::{LoadingStatus, Stage};

/// The name of a section and its writer.
type Section = (&'static str, fn(&Facts<'_>, &mut String));

/// All sections, in Redis's order; `Index` and `Checksums` are extensions of hotring.
const SECTIONS: &[Section] = &[
    ("Server", server),
    ("Clients", clients),
    ("Memory", memory),
    ("Persistence", persistence),
    ("Stats", stats),
    ("Replication", replication),
    ("CPU", cpu),
    ("Commandstats", commandstats),
    ("Errorstats", errorstats),
    ("Latencystats", latencystats),
    ("Cluster", cluster),
    ("Index", index),
    ("Checksums", checksums),
    ("Keyspace", keyspace),
];

/// Long sections, shown only if a request names them or asks for `all` or `everything`.
const LONG: &[&str] = &["Commandstats", "Latencystats"];

/// Number of keys in the section `hotkeys`.
const HOT_KEYS_SHOWN: usize = 16;

pub(crate) fn info(c: &mut Context<'_>) -> Outcome {
    let wanted: Vec<Vec<u8>> = c.args.tail(1).iter().map(<[u8]>::to_ascii_lowercase).collect();
    let says = |words: &[&[u8]]| wanted.iter().any(|word| words.contains(&word.as_slice()));
    let all = says(&[b"all", b"everything"]);
    let default = all || wanted.is_empty() || says(&[b"default"]);
    let facts = Facts::collect(c.server, c.now);
    let mut text = String::new();
    for (name, write_section) in SECTIONS {
        let asked = if LONG.contains(name) { all } else { default };
        if asked || says(&[name.to_ascii_lowercase().as_bytes()]) {
            if !text.is_empty() {
                text.push_str("\r\n");
            }
            line(&mut text, format_args!("# {name}"));
            write_section(&facts, &mut text);
        }
    }
    // Key names are shown only to users who ask for them and may read the values.
    if says(&[b"hotkeys"]) {
        hot_keys(c, &mut text);
    }
    c.reply.verbatim("txt", &text);
    Ok(())
}

fn line(text: &mut String, content: std::fmt::Arguments<'_>) {
    write!(text, "{content}\r\n").expect("writing to a string cannot fail");
}

fn field(text: &mut String, name: &str, value: impl std::fmt::Display) {
    line(text, format_args!("{name}:{value}"));
}

/// Writes fields with constant values.
fn constants(text: &mut String, zeros: &[&str], others: &[(&str, &str)]) {
    zeros.iter().for_each(|name| field(text, name, 0));
    others.iter().for_each(|(name, value)| field(text, name, value));
}

fn counters(f: &Facts<'_>, section: &str, text: &mut String) {
    f.totals.info(section).into_iter().for_each(|(name, value)| field(text, name, value));
}

fn server(f: &Facts<'_>, text: &mut String) {
    let uptime = f.server.process.started.elapsed().as_secs();
    let system = rustix::system::uname();
    field(text, "redis_version", REDIS_VERSION);
    field(text, "hotring_version", env!("CARGO_PKG_VERSION"));
    constants(text, &["redis_git_dirty"], &[("redis_git_sha1", "00000000")]);
    field(text, "redis_mode", f.server.mode());
    line(
        text,
        format_args!(
            "os:{} {} {}",
            system.sysname().to_string_lossy(),
            system.release().to_string_lossy(),
            system.machine().to_string_lossy()
        ),
    );
    field(text, "arch_bits", usize::BITS);
    field(text, "monotonic_clock", "POSIX clock_gettime");
    field(text, "multiplexing_api", "epoll");
    field(text, "process_id", std::process::id());
    field(text, "run_id", &f.server.process.run_id);
    field(text, "tcp_port", f.config.port);
    field(text, "server_time_usec", f.now.saturating_mul(1000));
    field(text, "uptime_in_seconds", uptime);
    field(text, "uptime_in_days", uptime / 86_400);
    // Redis's 24-bit clock, in seconds.
    field(text, "lru_clock", (f.now / 1000) & 0xff_ffff);
    let program = std::env::current_exe().unwrap_or_default();
    field(text, "executable", program.display());
    let file = f.config.file.as_ref();
    field(text, "config_file", file.map(|p| p.display().to_string()).unwrap_or_default());
    field(text, "io_threads", f.server.threads.len());
    field(text, "io_threads_active", u8::from(f.server.threads.len() > 1));
    for address in &f.server.process.addresses {
        line(text, format_args!("listener:name=tcp,bind={},port={}", address.ip(), address.port()));
    }
    for address in f.config.tls.listen.iter().filter_map(|a| a.parse::<std::net::SocketAddr>().ok())
    {
        line(text, format_args!("listener:name=tls,bind={},port={}", address.ip(), address.port()));
    }
    if let Some(path) = &f.server.process.unix_path {
        line(text, format_args!("listener:name=unix,bind={}", path.display()));
    }
}

fn clients(f: &Facts<'_>, text: &mut String) {
    field(text, "connected_clients", f.server.clients.len());
    field(text, "cluster_connections", 0);
    field(text, "maxclients", f.config.maxclients);
    let clients = f.server.clients.all();
    let largest = |of: fn(&ClientShared) -> usize| clients.iter().map(|c| of(c)).max().unwrap_or(0);
    // ORDERING: Relaxed for both, figures.
    let input = |c: &ClientShared| {
        c.input_len.load(Ordering::Relaxed) + c.input_free.load(Ordering::Relaxed)
    };
    let output = |c: &ClientShared| c.output_memory.load(Ordering::Relaxed);
    field(text, "client_recent_max_input_buffer", largest(input));
    field(text, "client_recent_max_output_buffer", largest(output));
    let count = |is_so: fn(&ClientShared) -> bool| clients.iter().filter(|c| is_so(c)).count();
    // Waiting clients of every kind, including those held by CLIENT PAUSE, as in Redis; then those that wait for a
    // key, and their limit.
    field(text, "blocked_clients", f.server.clients.blocked());
    field(text, "waiting_clients", f.store.watches);
    field(text, "waiting_clients_limit", f.config.waiting_max);
    field(text, "watching_clients", count(|client| client.watched_len() > 0));
    // A key counts once per connection that watches it.
    field(text, "total_watched_keys", clients.iter().map(|c| c.watched_len()).sum::<usize>());
    field(text, "pubsub_clients", count(ClientShared::listens));
    field(text, "tracking_clients", f.server.push.tracking.counts().clients);
    field(text, "mem_clients_normal", f.server.clients.buffers_memory());
    counters(f, "Clients", text);
}

fn memory(f: &Facts<'_>, text: &mut String) {
    let (used, dataset) = (f.used_bytes(), f.dataset_bytes());
    field(text, "used_memory", used);
    field(text, "used_memory_human", human(used));
    let rss = rss_bytes();
    field(text, "used_memory_rss", rss);
    field(text, "used_memory_rss_human", human(rss));
    let (first, peak) = f.server.tasks.bound.first_and_peak(used);
    field(text, "used_memory_peak", peak);
    field(text, "used_memory_peak_human", human(peak));
    let percent = |part: u64, whole: u64| part as f64 * 100.0 / whole.max(1) as f64;
    line(text, format_args!("used_memory_peak_perc:{:.2}%", percent(used, peak)));
    field(text, "used_memory_startup", first);
    field(text, "used_memory_dataset", dataset);
    let since_start = used.saturating_sub(first).max(dataset);
    line(text, format_args!("used_memory_dataset_perc:{:.2}%", percent(dataset, since_start)));
    field(text, "used_memory_overhead", used - dataset);
    let system = system_memory();
    field(text, "total_system_memory", system);
    field(text, "total_system_memory_human", human(system));
    let index = &f.store.index;
    field(text, "allocator_allocated", index.bytes);
    field(text, "allocator_active", index.held_bytes);
    field(text, "allocator_resident", index.held_bytes);
    line(text, format_args!("allocator_frag_ratio:{:.2}", index.fragmentation()));
    field(text, "allocator_frag_bytes", index.held_bytes.saturating_sub(index.bytes));
    // All held memory is resident.
    constants(text, &["allocator_rss_bytes"], &[("allocator_rss_ratio", "1.00")]);
    let overhead = rss as f64 / index.held_bytes.max(1) as f64;
    line(text, format_args!("rss_overhead_ratio:{overhead:.2}"));
    field(text, "rss_overhead_bytes", rss as i64 - index.held_bytes as i64);
    line(text, format_args!("mem_fragmentation_ratio:{:.2}", rss as f64 / used.max(1) as f64));
    field(text, "mem_fragmentation_bytes", rss as i64 - used as i64);
    field(text, "mem_allocator", "hotring");
    let (scripts, scripts_len) = f.server.scripts.counts();
    field(text, "number_of_cached_scripts", scripts);
    field(text, "used_memory_scripts", scripts_len);
    field(text, "used_memory_scripts_eval", scripts_len);
    field(text, "used_memory_scripts_human", human(scripts_len as u64));
    let lua = f.server.scripts.interpreters();
    for name in ["used_memory_lua", "used_memory_vm_eval", "used_memory_vm_total"] {
        field(text, name, lua);
    }
    for name in ["used_memory_lua_human", "used_memory_vm_total_human"] {
        field(text, name, human(lua as u64));
    }
    constants(text, NO_MEMORY, &[]);
    let log = f.server.persist.durability.log();
    let backlog = f.server.persist.durability.backlog();
    field(text, "mem_replication_backlog", backlog.map_or(0, |backlog| backlog.status().bytes));
    field(text, "mem_aof_buffer", log.map_or(0, |log| log.unwritten()));
    field(text, "used_memory_tracking", f.server.push.tracking.counts().table.memory);
    field(text, "used_memory_clients", f.server.clients.memory_outside_store());
    // The part of client memory that holds messages which clients have not fetched.
    field(text, "used_memory_messages", f.server.clients.messages_memory());
    field(text, "used_memory_table", index.table_bytes);
    field(text, "used_memory_eviction", f.store.eviction_bytes);
    field(text, "used_memory_expiry", f.store.expiry_bytes);
    // Free memory between items that counts against the limit, and memory that no other field explains.
    field(text, "used_memory_free", f.server.tasks.bound.waste());
    field(text, "used_memory_unexplained", f.server.tasks.bound.unexplained());
    field(text, "maxmemory", f.config.memory_max);
    field(text, "maxmemory_human", human(f.config.memory_max as u64));
    field(text, "maxmemory_policy", policy_name(f.config.eviction.policy));
    let pinned = f.store.pinned;
    field(text, "pinned_keys", pinned.keys);
    field(text, "used_memory_pinned", pinned.bytes);
    field(text, "history_enabled", u8::from(f.config.history > 0));
    field(text, "history_values_per_key", f.config.history);
    field(text, "history_bytes_per_key", f.config.history_bytes_max);
}

fn persistence(f: &Facts<'_>, text: &mut String) {
    loading(f, text);
    super::save::add_status(f, text);
    constants(text, NO_FORK, NO_FORK_TEXTS);
    let log = f.server.persist.durability.log();
    field(text, "aof_enabled", u8::from(log.is_some()));
    let Some(log) = log else {
        field(text, "aof_last_write_status", "ok");
        return;
    };
    let status = if log.error().is_none() { "ok" } else { "err" };
    field(text, "aof_last_write_status", status);
    field(text, "aof_buffer_length", log.unwritten());
    field(text, "log_mode", f.config.log.name());
    field(text, "log_last_record", log.handed());
    field(text, "log_last_written", log.written());
    field(text, "log_last_synced", log.synced());
    field(text, "log_syncs", log.syncs());
    field(text, "log_abandoned", u8::from(f.server.persist.durability.is_abandoned()));
}

/// The progress of loading.
fn loading(f: &Facts<'_>, text: &mut String) {
    let status = f.server.persist.loading.status();
    let LoadingStatus { stage, since, total, read, records } = status;
    field(text, "loading", u8::from(stage != Stage::All));
    field(text, "async_loading", 0);
    if stage == Stage::All {
        return;
    }
    let seconds = clock::unix_ms().saturating_sub(since) as f64 / 1000.0;
    let rest = total.saturating_sub(read) as f64;
    field(text, "loading_hot_ready", u8::from(stage == Stage::Hot));
    field(text, "loading_start_time", since / 1000);
    field(text, "loading_total_bytes", total);
    field(text, "loading_loaded_bytes", read);
    line(text, format_args!("loading_loaded_perc:{:.2}", status.percent()));
    field(text, "loading_eta_seconds", (rest * seconds / read.max(1) as f64) as u64);
    field(text, "loading_log_records", records);
}

fn stats(f: &Facts<'_>, text: &mut String) {
    counters(f, "Stats", text);
    let rate = f.server.observe.rates.last();
    line(text, format_args!("instantaneous_ops_per_sec:{:.0}", rate.commands));
    line(text, format_args!("instantaneous_input_kbps:{:.2}", rate.input_bytes / 1024.0));
    line(text, format_args!("instantaneous_output_kbps:{:.2}", rate.output_bytes / 1024.0));
    for (name, q) in [("p50", 0.5), ("p99", 0.99)] {
        let lag = f.totals.expire_lag.quantile_us(q) / 1000.0;
        line(text, format_args!("expired_lag_{name}_ms:{lag:.3}"));
    }
    let longest = f.server.tasks.expirer.lag_max().as_secs_f64() * 1000.0;
    line(text, format_args!("expired_lag_max_ms:{longest:.3}"));
    let listened = f.server.push.pubsub.counts();
    field(text, "pubsub_channels", listened.channels);
    field(text, "pubsub_patterns", listened.patterns);
    field(text, "pubsubshard_channels", listened.shards);
    let counts = &f.server.replication.counts;
    // ORDERING: Relaxed, figures.
    field(text, "sync_full", counts.full.load(Ordering::Relaxed));
    field(text, "sync_partial_ok", counts.partial.load(Ordering::Relaxed));
    constants(text, NO_STATS, NO_STATS_TEXTS);
    let tracking = f.server.push.tracking.counts();
    field(text, "tracking_total_keys", tracking.table.keys);
    field(text, "tracking_total_items", tracking.table.pairs);
    field(text, "tracking_table_memory", tracking.table.memory);
    field(text, "tracking_total_prefixes", tracking.prefixes);
    for (name, reason) in [("auth", Reason::Auth), ("cmd", Reason::Command), ("key", Reason::Key)] {
        field(text, &format!("acl_access_denied_{name}"), f.server.acl.log.count(reason));
    }
    field(text, "acl_access_denied_channel", f.server.acl.log.count(Reason::Channel));
}

fn cpu(_: &Facts<'_>, text: &mut String) {
    if let Some((user, system)) = cpu_seconds() {
        line(text, format_args!("used_cpu_sys:{system:.6}"));
        line(text, format_args!("used_cpu_user:{user:.6}"));
    }
    let children = "0.000000";
    let children = [("used_cpu_sys_children", children), ("used_cpu_user_children", children)];
    constants(text, &[], &children);
    if let Some((user, system)) = main_thread_seconds() {
        line(text, format_args!("used_cpu_sys_main_thread:{system:.6}"));
        line(text, format_args!("used_cpu_user_main_thread:{user:.6}"));
    }
}

/// Totals per command. For a command that is timed by samples, the other calls are assumed to take as long.
fn commandstats(f: &Facts<'_>, text: &mut String) {
    for (spec, totals) in f.server.command_totals() {
        if totals.is_used() {
            let per_call = totals.times.mean_us();
            line(
                text,
                format_args!(
                    "cmdstat_{}:calls={},usec={:.0},usec_per_call={per_call:.2},rejected_calls={},failed_calls={}",
                    spec.name,
                    totals.calls,
                    per_call * totals.calls as f64,
                    totals.rejected,
                    totals.failed,
                ),
            );
        }
    }
}

fn errorstats(f: &Facts<'_>, text: &mut String) {
    for (kind, count) in f.server.error_kinds() {
        line(text, format_args!("errorstat_{kind}:count={count}"));
    }
}

fn latencystats(f: &Facts<'_>, text: &mut String) {
    for (spec, totals) in f.server.command_totals() {
        if totals.times.count() > 0 {
            let [half, most, nearly_all] = [0.5, 0.99, 0.999].map(|q| totals.times.quantile_us(q));
            line(
                text,
                format_args!(
                    "latency_percentiles_usec_{}:p50={half:.3},p99={most:.3},p99.9={nearly_all:.3}",
                    spec.name
                ),
            );
        }
    }
}

/// Appends the section `hotkeys`: the keys that requests name most often, each with its share of all requests in
/// percent, estimated from samples.
fn hot_keys(c: &Context<'_>, text: &mut String) {
    if !text.is_empty() {
        text.push_str("\r\n");
    }
    line(text, format_args!("# Hotkeys"));
    let user = c.client.access().user();
    let is_shown = c.server.shows();
    let may_read = |key: &[u8]| user.may_read(key) && is_shown(key);
    field(text, "hotkeys_seconds", SPANS);
    field(text, "hotkeys_notes", notes(&c.server.threads, c.now));
    for (i, hot) in hottest(&c.server.threads, c.now, HOT_KEYS_SHOWN, may_read).iter().enumerate() {
        let [percent, low, high] = [hot.share, hot.low, hot.high].map(|share| share * 100.0);
        let (notes, key) = (hot.notes, hot.key.escape_ascii());
        let figures = format!("percent={percent:.3},low={low:.3},high={high:.3},notes={notes}");
        match hot.database {
            0 => line(text, format_args!("hotkey_{i}:{figures},key={key}")),
            number => line(text, format_args!("hotkey_{i}:{figures},db={number},key={key}")),
        }
    }
}

/// Figures that show how quickly the index finds items.
fn index(f: &Facts<'_>, text: &mut String) {
    let s = &f.store.index;
    field(text, "index_engine", f.server.store.engine());
    field(text, "index_items", s.items);
    field(text, "index_item_bytes", s.bytes);
    field(text, "index_slots", s.slots);
    field(text, "index_held_bytes", s.held_bytes);
    field(text, "index_table_bytes", s.table_bytes);
    field(text, "index_unreclaimed_bytes", s.limbo_bytes);
    field(text, "index_unreclaimed_limit", f.config.unreclaimed_max);
    // The session that prevents reclamation, and the memory removed since.
    let (name, bytes) = f.stalled.as_ref().map_or(("none", 0), |s| (&s.session, s.held_bytes));
    field(text, "index_stalled_session", name);
    field(text, "index_stalled_bytes", bytes);
    field(text, "index_items_expiring", s.expiring);
    field(text, "expiry_entries", f.store.expiry_entries);
    let visits = s.visits_sampled as f64 / s.lookups_sampled.max(1) as f64;
    line(text, format_args!("index_visits_per_lookup:{visits:.3}"));
    field(text, "index_lookups_sampled", s.lookups_sampled);
    field(text, "index_head_moves", s.head_moves);
    field(text, "index_sampling_rounds", s.sampling_rounds);
    for (name, value) in s.engine.fields() {
        line(text, format_args!("index_{name}:{value}"));
    }
    field(text, "store_exclusions", f.store.exclusions);
}

fn checksums(f: &Facts<'_>, text: &mut String) {
    let status = f.server.tasks.scrubber.status();
    field(text, "checksum", f.server.store.checksum().name());
    counters(f, "Checksums", text);
    field(text, "scrub_state", status.phase.name());
    line(text, format_args!("scrub_progress_percent:{:.1}", status.progress * 100.0));
    for (name, number) in super::scrub::numbers(&status) {
        line(text, format_args!("scrub_{name}:{number}"));
    }
}

fn keyspace(f: &Facts<'_>, text: &mut String) {
    for (number, keys, expires) in f.server.store.keyspaces() {
        line(text, format_args!("db{number}:keys={keys},expires={expires},avg_ttl=0"));
    }
}

#[cfg(test)]
mod tests {

    #[test]
    fn removed_items_count_once_until_their_memory_is_free() {
        use crate::exec::dialogue::Dialogue;

        let mut dialogue = Dialogue::new(hotring_protocol::Version::Resp2);
        for i in 0..3 {
            dialogue.say(&format!("SET k {}{i}", "v".repeat(50_000)));
        }
        let info = dialogue.say("INFO memory index");
        let number = |name: &str| -> u64 {
            let mut fields = info.split('¶').filter_map(|line| line.split_once(':'));
            fields.find(|(n, _)| *n == name).unwrap().1.parse().unwrap()
        };
        let (bytes, table) = (number("index_item_bytes"), number("index_table_bytes"));
        let removed = number("index_unreclaimed_bytes");
        assert!(removed >= 50_000 && bytes >= removed, "{info}");
        assert_eq!(number("used_memory"), bytes + table);
        assert_eq!(number("used_memory_dataset"), bytes - removed);
        assert_eq!(number("used_memory_overhead"), table + removed);
    }

    /// Exporters and clients once missed them.
    #[test]
    fn the_fields_of_redis_are_there_once() {
        use crate::exec::dialogue::Dialogue;

        let mut dialogue = Dialogue::new(hotring_protocol::Version::Resp2);
        let info = dialogue.say("INFO everything");
        let number = |name: &str| -> u64 {
            let mut fields = info.split('¶').filter_map(|line| line.split_once(':'));
            let found = fields.find(|(n, _)| *n == name).unwrap_or_else(|| panic!("{name}")).1;
            found.parse().unwrap()
        };
        assert_eq!(number("lazyfree_pending_objects") + number("lazyfreed_objects"), 0);
        assert_eq!(number("master_repl_offset"), 0);
        assert!(number("used_memory_peak") >= number("used_memory"));
        assert!(number("total_system_memory") > number("used_memory_startup"));
        let mut names: Vec<_> =
            info.split('¶').filter_map(|line| Some(line.split_once(':')?.0)).collect();
        names.sort_unstable();
        let twice = names.windows(2).find(|two| two[0] == two[1] && two[0] != "listener");
        assert_eq!(twice, None);
    }

    #[test]
    fn hot_keys_are_shown_to_users_who_may_read_them() {
        use crate::exec::dialogue::Dialogue;

        let mut dialogue = Dialogue::new(hotring_protocol::Version::Resp2);
        for _ in 0..200 {
            dialogue.ask(b"GET secret\r\nGET secret\r\nGET secret\r\nPING\r\n");
            dialogue.ask(b"*2\r\n$3\r\nGET\r\n$4\r\na,\r\n\r\n");
        }
        let hot = |text: &str| -> Vec<(f64, String)> {
            let values = text.split('¶').filter_map(|line| line.split_once(":percent="));
            let pairs = values.map(|(_, value)| value.split_once(",key=").unwrap());
            let percent = |figures: &str| figures.split(',').next().unwrap().parse().unwrap();
            pairs.map(|(figures, key)| (percent(figures), key.to_string())).collect()
        };
        let all = dialogue.say("INFO hotkeys");
        let start =
            "¶# Hotkeys¶hotkeys_seconds:10¶hotkeys_notes:1000¶hotkey_0:percent=60.000,low=56.902,";
        assert!(all.contains(start), "{all}");
        assert!(all.contains(",high=63.098,notes=600,key=secret¶"), "{all}");
        let found = hot(&all);
        let [(most, secret), (least, other)] = &found[..] else { panic!("{all}") };
        assert_eq!((secret.as_str(), other.as_str()), ("secret", "a,\\r\\n"));
        // Of five requests three name the first key, one names the second, and one names none. INFO counts
        // once it has run.
        assert_eq!((*most, *least), (60.0, 20.0), "{all}");
        assert!(!dialogue.say("INFO everything").contains("secret"));
        dialogue.say("ACL SETUSER default resetkeys ~a*");
        let own = dialogue.say("INFO server hotkeys");
        assert!(!own.contains("secret") && own.contains("¶hotkey_0:percent="), "{own}");
        // A user who may run no reading command must not see key names.
        dialogue.say("ACL SETUSER default allkeys -@all +info +exists");
        assert_eq!(hot(&dialogue.say("INFO hotkeys")), []);
    }

    #[test]
    fn figures_of_commands_are_shown_on_request() {
        use crate::exec::dialogue::Dialogue;

        let mut dialogue = Dialogue::new(hotring_protocol::Version::Resp2);
        dialogue.say("SET a 1");
        dialogue.say("APPEND a");
        dialogue.say("HKEYS a");
        dialogue.say("MULTI\r\nNONSENSE\r\nEXEC");
        let short = dialogue.say("INFO");
        assert!(!short.contains("cmdstat_") && !short.contains("latency_percentiles"), "{short}");
        let errors =
            "errorstat_ERR:count=2¶errorstat_EXECABORT:count=1¶errorstat_WRONGTYPE:count=1¶";
        assert!(short.contains(&format!("# Errorstats¶{errors}")), "{short}");
        let mut other = dialogue.with_version(hotring_protocol::Version::Resp2);
        other.say("CONFIG RESETSTAT");
        assert!(!other.say("INFO errorstats").contains("errorstat_"));
        dialogue.say("SET a 1\r\nAPPEND a\r\nHKEYS a");
        let names = |text: String| -> Vec<String> {
            let lines = text.split('¶').filter_map(|line| line.split_once(':'));
            lines.map(|(name, _)| name.to_string()).collect()
        };
        let commands = dialogue.say("INFO CommandStats");
        assert!(commands.contains("cmdstat_set:calls=1,usec="), "{commands}");
        let append =
            "cmdstat_append:calls=0,usec=0,usec_per_call=0.00,rejected_calls=1,failed_calls=0¶";
        assert!(commands.contains(append), "{commands}");
        assert!(commands.contains(",rejected_calls=0,failed_calls=1¶"), "{commands}");
        let seen = names(dialogue.say("INFO all"));
        for name in ["cmdstat_hkeys", "latency_percentiles_usec_hkeys", "cmdstat_info", "run_id"] {
            assert!(seen.iter().any(|n| n == name), "{name} in {seen:?}");
        }
        assert!(!seen.iter().any(|name| name == "latency_percentiles_usec_append"), "{seen:?}");
    }
}
