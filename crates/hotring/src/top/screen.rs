//! Renders the lines of the screen from two samples.

use super::cluster::cluster;
use super::sample::{CommandFigures, Sample};

/// Most commands, keys and replicas shown.
const COMMANDS_SHOWN: usize = 12;
const KEYS_SHOWN: usize = 8;
const REPLICAS_SHOWN: usize = 8;

/// The available space.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub rows: usize,
    pub columns: usize,
}

/// The screen, cut to its size.
pub(super) fn screen(name: &str, before: &Sample, after: &Sample, size: Size) -> Vec<String> {
    let mut lines = head(name, after);
    lines.extend(figures(before, after));
    lines.extend(cluster(after));
    lines.extend(replication(after));
    lines.push(String::new());
    lines.extend(commands(before, after));
    lines.push(String::new());
    lines.extend(hot_keys(after));
    lines.extend(clients(after));
    lines.truncate(size.rows);
    lines.iter().map(|line| line.chars().take(size.columns).collect()).collect()
}

fn head(name: &str, after: &Sample) -> Vec<String> {
    let version = after.text("hotring_version");
    let uptime = duration(after.number("uptime_in_seconds"));
    let threads = after.text("io_threads");
    vec![
        format!("hotring {version}   {name}   up {uptime}   {threads} threads   q quits"),
        String::new(),
    ]
}

/// Growth per second of a counter of INFO.
fn rate(name: &str, before: &Sample, after: &Sample) -> f64 {
    per_second(after.number(name) - before.number(name), before, after)
}

fn per_second(grown: f64, before: &Sample, after: &Sample) -> f64 {
    let seconds = after.at.duration_since(before.at).as_secs_f64();
    // A counter that was reset has not grown.
    if seconds > 0.0 { grown.max(0.0) / seconds } else { 0.0 }
}

fn figures(before: &Sample, after: &Sample) -> Vec<String> {
    let rate = |name: &str| rate(name, before, after);
    let (hits, misses) = (rate("keyspace_hits"), rate("keyspace_misses"));
    let ratio = match hits + misses {
        0.0 => "-".to_string(),
        lookups => format!("{:.1} %", 100.0 * hits / lookups),
    };
    let memory = |name: &str| bytes(after.number(name));
    vec![
        format!(
            "rates      {} commands/s   hits {ratio}   {} errors/s   {} connections/s",
            count(rate("total_commands_processed")),
            count(rate("total_error_replies")),
            count(rate("total_connections_received")),
        ),
        format!(
            "network    {}/s in   {}/s out",
            bytes(rate("total_net_input_bytes")),
            bytes(rate("total_net_output_bytes")),
        ),
        format!(
            "processor  {:.0} % user   {:.0} % system",
            100.0 * rate("used_cpu_user"),
            100.0 * rate("used_cpu_sys"),
        ),
        format!(
            "memory     {} used   {} items   {} not free yet   {} resident",
            memory("used_memory"),
            memory("used_memory_dataset"),
            memory("index_unreclaimed_bytes"),
            memory("used_memory_rss"),
        ),
        format!(
            "keys       {}   {} with an expiry   {} expired/s",
            after.keyspace("keys"),
            after.keyspace("expires"),
            count(rate("expired_keys")),
        ),
        format!(
            "index      {} items visited per lookup   {} hot items moved/s",
            after.text("index_visits_per_lookup"),
            count(rate("index_head_moves")),
        ),
        format!(
            "clients    {} of {}   {} waiting   {} refused",
            after.text("connected_clients"),
            after.text("maxclients"),
            after.text("blocked_clients"),
            after.text("rejected_connections"),
        ),
    ]
}

/// The role with its link or replicas.
fn replication(after: &Sample) -> Vec<String> {
    if after.text("role") == "slave" {
        let (host, port) = (after.text("master_host"), after.text("master_port"));
        return vec![format!("role       replica of {host}:{port}   {}", link(after))];
    }
    let replicas = after.replicas();
    let mut lines = vec![format!(
        "role       primary   replicas: {}   in sync: {}",
        replicas.len(),
        after.number("in_sync_replicas"),
    )];
    lines.extend(replicas.iter().take(REPLICAS_SHOWN).map(|replica| {
        let field = |name: &str| replica.get(name).map_or("", String::as_str);
        let size = |name: &str| bytes(field(name).parse().unwrap_or(0.0));
        format!(
            "replica    {}:{}   {}   {} s and {} behind   {} copied",
            field("ip"),
            field("port"),
            field("state"),
            field("lag"),
            size("lag_bytes"),
            size("copied_bytes"),
        )
    }));
    lines
}

/// The state of the link of a replica.
fn link(after: &Sample) -> String {
    if after.text("master_sync_in_progress") == "1" {
        return format!(
            "full copy {} %   {} keys   {}",
            after.text("master_sync_perc"),
            count(after.number("master_sync_read_keys")),
            bytes(after.number("master_sync_read_bytes")),
        );
    }
    match after.text("master_link_status") {
        "up" => format!("link up   last bytes {} s ago", after.text("master_last_io_seconds_ago")),
        _ => format!(
            "link down for {} s   {}",
            after.text("master_link_down_since_seconds"),
            after.text("master_link_error"),
        ),
    }
}

/// The commands with the highest rates.
fn commands(before: &Sample, after: &Sample) -> Vec<String> {
    let earlier = before.commands();
    let mut rates: Vec<(&str, f64, CommandFigures)> = after
        .commands()
        .into_iter()
        .map(|(name, now)| {
            let calls = earlier.get(name).map_or(0.0, |then| then.calls);
            (name, per_second(now.calls - calls, before, after), now)
        })
        .collect();
    rates.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(b.0)));
    let all: f64 = rates.iter().map(|(_, rate, _)| rate).sum();
    let us = |us: Option<f64>| us.map_or("-".to_string(), |us| format!("{us:.1}"));
    let mut lines = vec![format!(
        "{:<18}{:>12}{:>8}{:>14}{:>12}{:>12}{:>12}",
        "COMMAND", "calls/s", "%", "calls", "mean µs", "50 % µs", "99 % µs"
    )];
    for (name, rate, figures) in rates.iter().take(COMMANDS_SHOWN) {
        lines.push(format!(
            "{:<18}{:>12}{:>8.1}{:>14}{:>12.1}{:>12}{:>12}",
            name.to_ascii_uppercase().replace('|', " "),
            count(*rate),
            if all > 0.0 { 100.0 * rate / all } else { 0.0 },
            figures.calls,
            figures.us_per_call,
            us(figures.p50),
            us(figures.p99),
        ));
    }
    lines
}

/// The hottest keys, as far as the server knows.
fn hot_keys(after: &Sample) -> Vec<String> {
    let keys = after.hot_keys();
    if keys.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![format!("{:>10}  KEY", "REQUESTS")];
    let shown = keys.iter().take(KEYS_SHOWN);
    lines.extend(shown.map(|(percent, key)| format!("{percent:>8.2} %  {key}")));
    lines.push(String::new());
    lines
}

/// The most recently active clients.
fn clients(after: &Sample) -> Vec<String> {
    let mut clients: Vec<_> = after.clients.iter().collect();
    let number = |text: Option<&String>| text.and_then(|t| t.parse::<u64>().ok()).unwrap_or(0);
    clients.sort_by_key(|client| number(client.get("idle")));
    let mut lines = vec![format!(
        "{:<8}{:<24}{:<16}{:<20}{:>8}{:>8}{:>10}  {}",
        "CLIENT", "address", "name", "library", "age", "idle", "unsent", "command"
    )];
    for client in clients {
        let field = |name: &str| client.get(name).map_or("", String::as_str);
        lines.push(format!(
            "{:<8}{:<24}{:<16}{:<20}{:>8}{:>8}{:>10}  {}",
            field("id"),
            field("addr"),
            field("name"),
            field("lib-name"),
            field("age"),
            field("idle"),
            bytes(number(client.get("omem")) as f64),
            field("cmd"),
        ));
    }
    lines
}

/// Formats a rate, as `1.2M`.
pub(super) fn count(n: f64) -> String {
    match n {
        n if n >= 1e6 => format!("{:.2}M", n / 1e6),
        n if n >= 1e4 => format!("{:.1}k", n / 1e3),
        n => format!("{n:.0}"),
    }
}

/// Formats bytes in units of 1024, as `1.5M`.
pub(super) fn bytes(n: f64) -> String {
    let units = ["B", "K", "M", "G", "T"];
    let steps = units.iter().take(4).scan(n, |rest, _| {
        let large = *rest >= 1024.0;
        *rest /= 1024.0;
        large.then_some(())
    });
    let unit = steps.count();
    let size = n / 1024f64.powi(unit as i32);
    if unit == 0 { format!("{n:.0}B") } else { format!("{size:.2}{}", units[unit]) }
}

/// Formats a duration, as `3d 04:05:06`.
fn duration(seconds: f64) -> String {
    let seconds = seconds as u64;
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let time = format!("{:02}:{:02}:{:02}", rest / 3600, rest / 60 % 60, rest % 60);
    if days > 0 { format!("{days}d {time}") } else { time }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    const INFO: &str = "# Server\r\nhotring_version:0.1.0\r\nuptime_in_seconds:90061\r\n\
        io_threads:2\r\nused_memory:1572864\r\nkeyspace_hits:HITS\r\nkeyspace_misses:10\r\n\
        total_commands_processed:CALLS\r\ntotal_net_input_bytes:CALLS\r\n\
        db0:keys=5,expires=2,avg_ttl=0\r\nconnected_clients:2\r\nmaxclients:100\r\n\
        cmdstat_get:calls=CALLS,usec=10,usec_per_call=2.50,rejected_calls=0,failed_calls=0\r\n\
        cmdstat_client|list:calls=7,usec=10,usec_per_call=1.00,rejected_calls=0,failed_calls=0\r\n\
        latency_percentiles_usec_get:p50=1.003,p99=20.250,p99.9=30.000\r\n\
        # Hotkeys\r\nhotkeys_notes:900\r\n\
        hotkey_0:percent=41.500,low=40,high=43,notes=8,key=a,key=b:c\r\nhotkey_1:percent=0.250,key=d\r\n";
    const CLIENTS: &str = "id=7 addr=127.0.0.1:5 name=worker age=100 idle=50 cmd=get omem=0\n\
        id=8 addr=127.0.0.1:6 name= age=9 idle=1 cmd=client|list omem=2048 lib-name=x\n";

    fn sample(at: Instant, hits: &str, calls: &str) -> Sample {
        let info = INFO.replace("HITS", hits).replace("CALLS", calls);
        Sample::read(at, &info, CLIENTS)
    }

    #[test]
    fn two_samples_make_rates() {
        let start = Instant::now();
        let before = sample(start, "100", "50000");
        let after = sample(start + Duration::from_secs(2), "400", "100000");
        let lines = screen("here:1", &before, &after, Size { rows: 100, columns: 200 });
        let text = lines.join("\n");
        assert!(lines[0].starts_with("hotring 0.1.0   here:1   up 1d 01:01:01"), "{text}");
        assert!(text.contains("25.0k commands/s   hits 100.0 %"), "{text}");
        assert!(text.contains("24.41K/s in"), "{text}");
        assert!(text.contains("1.50M used"), "{text}");
        assert!(text.contains("5   2 with an expiry"), "{text}");
        let get = lines.iter().find(|line| line.starts_with("GET ")).unwrap();
        let words: Vec<&str> = get.split_whitespace().collect();
        assert_eq!(words, ["GET", "25.0k", "100.0", "100000", "2.5", "1.0", "20.2"]);
        assert!(text.contains("CLIENT LIST "), "{text}");
        let hot = lines.iter().position(|line| line == "  REQUESTS  KEY").expect("hot keys");
        assert_eq!(lines[hot + 1..hot + 3], ["   41.50 %  a,key=b:c", "    0.25 %  d"]);
        let at = |start: &str| lines.iter().position(|line| line.starts_with(start)).unwrap();
        assert!(at("8 ") < at("7 "), "the most recently active client is first: {text}");
    }

    #[test]
    fn the_role_is_shown_with_its_link_or_replicas() {
        let lines = |info: &str| replication(&Sample::read(Instant::now(), info, ""));
        assert_eq!(
            lines(
                "role:master\r\nconnected_slaves:1\r\nslave0:ip=::1,port=7,state=online,offset=9,lag=2,\
                 lag_bytes=2048,copied_bytes=10\r\nin_sync_replicas:1\r\n"
            ),
            [
                "role       primary   replicas: 1   in sync: 1",
                "replica    ::1:7   online   2 s and 2.00K behind   10B copied",
            ]
        );
        let link = |more: &str| {
            lines(&format!("role:slave\r\nmaster_host:h\r\nmaster_port:7\r\n{more}")).join("\n")
        };
        assert_eq!(
            link("master_link_status:up\r\nmaster_last_io_seconds_ago:0\r\n"),
            "role       replica of h:7   link up   last bytes 0 s ago"
        );
        assert_eq!(
            link(
                "master_sync_in_progress:1\r\nmaster_sync_perc:25.00\r\nmaster_sync_read_keys:5\r\n\
                 master_sync_read_bytes:1024\r\n"
            ),
            "role       replica of h:7   full copy 25.00 %   5 keys   1.00K"
        );
        assert_eq!(
            link(
                "master_link_status:down\r\nmaster_link_down_since_seconds:3\r\nmaster_link_error:cut: x\r\n"
            ),
            "role       replica of h:7   link down for 3 s   cut: x"
        );
    }

    #[test]
    fn the_screen_is_cut_to_its_size() {
        let now = Instant::now();
        let (before, after) = (sample(now, "1", "1"), sample(now, "1", "1"));
        let lines = screen("here:1", &before, &after, Size { rows: 5, columns: 30 });
        assert_eq!(lines.len(), 5);
        assert!(lines.iter().all(|line| line.chars().count() <= 30), "{lines:?}");
        // A server of another kind.
        let empty = Sample::read(now, "", "");
        assert!(screen("x", &empty, &empty, Size { rows: 99, columns: 99 }).len() > 5);
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!([0.0, 1023.0, 1536.0, 3e12].map(bytes), ["0B", "1023B", "1.50K", "2.73T"]);
    }
}
