//! The status page at `/`: rates, memory and clients, for people.
//!
//! It has no scripts and loads nothing from other servers; it refreshes every few seconds.

mod cluster;

use std::fmt::{self, Display, Write};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::admin::metrics::{CommandFigures, Figures};
use hotring_commands::host::clock;
use hotring_commands::observe::big_keys::{BigKey, shown};
use hotring_commands::observe::rates::Rate;
use hotring_commands::state::client::ClientShared;
use hotring_commands::state::facts::{human, rss_bytes};
use hotring_commands::state::hot_keys::{HotKey, SPANS, hottest, notes};
use hotring_commands::state::loading::Stage;
use hotring_commands::state::replication::attached::ReplicaStatus;
use hotring_commands::state::replication::link::{Copied, LinkStage, LinkStatus};
use hotring_commands::state::scrub::Phase;
use hotring_commands::state::snapshots::SnapshotStatus;

/// Connections listed.
const CLIENTS_SHOWN: usize = 50;

/// Hot keys listed.
const KEYS_SHOWN: usize = 10;

/// Size of the chart of the last two minutes.
const CHART: (f64, f64) = (720.0, 120.0);

const STYLE: &str = "\
body{font:15px/1.5 system-ui,sans-serif;margin:2em auto;max-width:60em;padding:0 1em;color:#222;background:#fff}\
h1{font-size:1.4em}h2{font-size:1.1em;margin:1.6em 0 .4em}\
table{border-collapse:collapse}td,th{padding:.15em 1.2em .15em 0;text-align:left;vertical-align:top}\
th{font-weight:600;border-bottom:1px solid #ccc}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}\
.warn{background:#fdd;padding:.5em}svg{background:#f4f4f4;max-width:100%}.dim{color:#666}\
@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}svg{background:#222}.warn{background:#622}}";

/// Text with HTML markup escaped.
struct Plain<'a>(&'a str);

impl Display for Plain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// A page under construction.
struct Html(String);

impl Html {
    fn add(&mut self, content: fmt::Arguments<'_>) {
        self.0.write_fmt(content).expect("writing to a string cannot fail");
    }

    fn heading(&mut self, text: &str) {
        self.add(format_args!("<h2>{}</h2>\n", Plain(text)));
    }

    /// Adds a table of names and values.
    fn facts(&mut self, rows: &[(&str, String)]) {
        self.add(format_args!("<table>\n"));
        for (name, value) in rows {
            self.add(format_args!("<tr><td>{name}<td>{}\n", Plain(value)));
        }
        self.add(format_args!("</table>\n"));
    }

    /// Adds a table with a header; columns whose names begin with `#` hold numbers.
    fn table(&mut self, head: &[&str], rows: &[Vec<String>]) {
        let class = |name: &str| if name.starts_with('#') { " class=n" } else { "" };
        self.add(format_args!("<table>\n<tr>"));
        for name in head {
            self.add(format_args!("<th{}>{}", class(name), name.trim_start_matches('#')));
        }
        for row in rows {
            self.add(format_args!("\n<tr>"));
            for (name, cell) in head.iter().zip(row) {
                self.add(format_args!("<td{}>{}", class(name), Plain(cell)));
            }
        }
        self.add(format_args!("\n</table>\n"));
    }
}

/// Renders the page.
pub(super) fn page(figures: &Figures<'_>, big_keys: &[BigKey]) -> String {
    let mut html = Html(String::new());
    html.add(format_args!(
        "<!doctype html>\n<html lang=en><meta charset=utf-8>\
         <meta name=viewport content=\"width=device-width\">\
         <meta http-equiv=refresh content=5><title>hotring</title><style>{STYLE}</style>\n\
         <h1>hotring {}</h1>\n",
        env!("CARGO_PKG_VERSION")
    ));
    warnings(figures, &mut html);
    server(figures, &mut html);
    rates(figures, &mut html);
    memory(figures, &mut html);
    durability(figures, &mut html);
    cluster::cluster(figures, &mut html);
    replication(figures, &mut html);
    commands(figures, &mut html);
    hot(figures, &mut html);
    large(big_keys, &mut html);
    clients(figures, &mut html);
    html.add(format_args!(
        "<p class=dim><a href=/metrics>metrics</a>, <a href=/healthz>healthz</a>, \
         <a href=/readyz>readyz</a>. This page refreshes every 5 seconds.\n"
    ));
    html.0
}

fn warnings(f: &Figures<'_>, html: &mut Html) {
    let loading = f.facts.server.persist.loading.status();
    if loading.stage != Stage::All {
        let percent = loading.percent() as u64;
        let text = match loading.stage {
            Stage::Nothing => "no key is served yet",
            _ => "loaded keys can be read",
        };
        html.add(format_args!("<p class=warn>The data is being loaded, {percent} %: {text}.\n"));
    }
    if let Some(error) = f.facts.server.persist.durability.log().and_then(|log| log.error()) {
        html.add(format_args!(
            "<p class=warn>The log cannot be written: {}.\n",
            Plain(&error.to_string())
        ));
    }
    if f.facts.server.process.is_stopping() {
        html.add(format_args!("<p class=warn>The server is shutting down.\n"));
    }
    if let Some(stalled) = &f.facts.stalled {
        html.add(format_args!(
            "<p class=warn>Thread {} is stuck in a command; {} of removed items cannot be \
             freed.\n",
            Plain(&stalled.session),
            human(stalled.held_bytes)
        ));
    }
    let damaged = f.totals.damaged_reads + f.facts.server.tasks.scrubber.status().counts.damaged;
    if damaged > 0 {
        html.add(format_args!("<p class=warn>Damaged items were found: see SCRUB.\n"));
    }
}

fn server(f: &Figures<'_>, html: &mut Html) {
    let server = &f.facts.server;
    let mut addresses: Vec<String> =
        server.process.addresses.iter().map(ToString::to_string).collect();
    addresses.extend(server.process.unix_path.iter().map(|path| path.display().to_string()));
    html.facts(&[
        ("uptime", duration(server.process.started.elapsed().as_secs())),
        ("process", std::process::id().to_string()),
        ("listening on", addresses.join(", ")),
        ("threads", server.threads.len().to_string()),
        ("index", server.store.engine().to_string()),
    ]);
}

fn rates(f: &Figures<'_>, html: &mut Html) {
    let last = f.facts.server.observe.rates.last();
    let all = f.facts.server.observe.rates.all();
    html.heading("Rates");
    html.facts(&[
        (
            "commands",
            format!("{} per second, {} in total", count(last.commands), f.totals.commands),
        ),
        ("hits", last.hit_ratio().map_or("-".to_string(), |r| format!("{:.1} %", r * 100.0))),
        ("received", format!("{} per second", human(last.input_bytes as u64))),
        ("sent", format!("{} per second", human(last.output_bytes as u64))),
        ("errors", format!("{} in total", f.totals.errors)),
    ]);
    chart(&all, html);
}

/// Draws commands per second over the time that is kept.
fn chart(rates: &[Rate], html: &mut Html) {
    let most = rates.iter().map(|rate| rate.commands).fold(1.0, f64::max);
    let (width, height) = CHART;
    html.add(format_args!(
        "<p><svg viewBox=\"0 0 {width} {height}\" width={width} height={height} role=img>\
         <title>Commands per second, last two minutes</title>\
         <polyline fill=none stroke=#c50 stroke-width=1.5 points=\""
    ));
    for (i, rate) in rates.iter().enumerate() {
        // The newest second is at the right edge. The width of a second does not depend on how many are kept.
        let x = width - (rates.len() - 1 - i) as f64 * width / 120.0;
        let y = height - 2.0 - rate.commands / most * (height - 20.0);
        html.add(format_args!("{x:.1},{y:.1} "));
    }
    html.add(format_args!(
        "\"/><text x=4 y=14 font-size=11 fill=#888>peak {} commands per second in two \
         minutes</text></svg>\n",
        count(most)
    ));
}

fn memory(f: &Figures<'_>, html: &mut Html) {
    let index = &f.facts.store.index;
    let status = f.facts.server.tasks.scrubber.status();
    html.heading("Memory and keys");
    let mut rows = vec![
        ("keys", format!("{}, {} of them with an expiry time", index.items, index.expiring)),
        ("items", human(f.facts.dataset_bytes())),
        ("table", human(index.table_bytes)),
        ("removed, not yet freed", human(index.limbo_bytes)),
        ("resident", human(rss_bytes())),
    ];
    if status.phase != Phase::Idle {
        let progress = status.progress * 100.0;
        let damaged = status.counts.damaged;
        let text = format!("{}, {progress:.1} %, {damaged} damaged", status.phase.name());
        rows.push(("scrub", text));
    }
    html.facts(&rows);
}

/// Shows the log and the snapshots if there are any.
fn durability(f: &Figures<'_>, html: &mut Html) {
    let durability = &f.facts.server.persist.durability;
    let (Some(log), Some(snapshots)) = (durability.log(), durability.snapshots()) else { return };
    let SnapshotStatus { running, progress, last, saved_at, changes, len, log_len } =
        snapshots.status();
    html.heading("Durability");
    let snapshot = match (running, saved_at) {
        (Some(_), _) => format!("being written, {:.1} %", progress * 100.0),
        (None, Some(at)) => {
            let ago = clock::unix_ms().saturating_sub(at) / 1000;
            format!("{} ago, {changes} changes since", duration(ago))
        }
        (None, None) => format!("none since the start, {changes} changes"),
    };
    let mut rows = vec![
        ("log", f.facts.config.log.name().to_string()),
        ("records", format!("{}, {} of them synced", log.handed(), log.synced())),
        ("queued for the log", human(log.unwritten())),
        ("log since last snapshot", human(log_len)),
        ("snapshot", snapshot),
        ("snapshot size", human(len)),
    ];
    if let Some(Err(why)) = last {
        rows.push(("last snapshot failed", why));
    }
    html.facts(&rows);
}

/// Shows the role with its link or replicas.
fn replication(f: &Figures<'_>, html: &mut Html) {
    let replication = &f.facts.server.replication;
    html.heading("Replication");
    let replicas = replication.replicas();
    if let Some(source) = replication.source() {
        let kind = if replication.redis.is_on() { "Redis at " } else { "" };
        let mut facts = vec![
            ("role", format!("replica of {kind}{source}")),
            ("link", link(&replication.link_status())),
        ];
        if !replicas.is_empty() {
            facts.push(("replicas of its own", replicas.len().to_string()));
        }
        html.facts(&facts);
        return replica_rows(&replicas, html);
    }
    let in_sync = replicas.iter().filter(|replica| replica.is_in_sync).count();
    let awaited = f.facts.config.replication.awaited().len();
    let writes =
        if replication.lacks_replicas() { "refused for lack of replicas" } else { "accepted" };
    html.facts(&[
        ("role", "primary".to_string()),
        ("replicas", replicas.len().to_string()),
        ("in sync", format!("{in_sync} of {awaited} for which replies wait")),
        ("writes", writes.to_string()),
    ]);
    replica_rows(&replicas, html);
}

/// The replicas that follow this server.
fn replica_rows(replicas: &[ReplicaStatus], html: &mut Html) {
    if replicas.is_empty() {
        return;
    }
    let row = |replica: &ReplicaStatus| {
        vec![
            replica.address(),
            replica.state().to_string(),
            if replica.is_in_sync { "yes" } else { "no" }.to_string(),
            format!("{:.1} s", replica.lag.as_secs_f64()),
            human(replica.lag_bytes),
            human(replica.copied),
        ]
    };
    let rows: Vec<Vec<String>> = replicas.iter().map(row).collect();
    html.table(&["replica", "state", "in sync", "#lag", "#bytes behind", "#copied"], &rows);
}

/// The state of the link of a replica in words.
fn link(status: &LinkStatus) -> String {
    let since = |time: Option<Duration>| duration(time.map_or(0, |time| time.as_secs()));
    match status.stage {
        LinkStage::Connected => format!("up, last bytes {} ago", since(status.silent)),
        LinkStage::Copying => {
            let Copied { bytes, keys, .. } = status.copied;
            let percent = 100.0 * status.copied.progress();
            format!("receiving a full copy: {percent:.1} %, {keys} keys, {}", human(bytes))
        }
        LinkStage::Connect | LinkStage::Connecting => {
            let why = status.failure.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
            format!("down for {}{why}", since(status.down))
        }
    }
}

fn commands(f: &Figures<'_>, html: &mut Html) {
    let mut used: Vec<_> = f.commands.iter().filter(|c| c.totals.calls > 0).collect();
    used.sort_by_key(|c| std::cmp::Reverse(c.totals.calls));
    html.heading("Commands");
    let us = |us: f64| if us > 0.0 { format!("{us:.1}") } else { "-".to_string() };
    let rows: Vec<Vec<String>> = used
        .iter()
        .map(|CommandFigures { name, protocol, totals }| {
            vec![
                name.to_ascii_uppercase().replace('|', " "),
                protocol.to_string(),
                totals.calls.to_string(),
                totals.failed.to_string(),
                us(totals.times.mean_us()),
                us(totals.times.quantile_us(0.5)),
                us(totals.times.quantile_us(0.99)),
            ]
        })
        .collect();
    html.table(&["command", "protocol", "#calls", "#failed", "#mean µs", "#50 %", "#99 %"], &rows);
}

fn hot(f: &Figures<'_>, html: &mut Html) {
    html.heading("Hottest keys");
    let server = f.facts.server;
    let hottest = hottest(&server.threads, f.facts.now, KEYS_SHOWN, server.shows());
    let row = |hot: &HotKey| {
        let percent = |share: f64| format!("{:.2} %", share * 100.0);
        vec![shown(&hot.name()), percent(hot.share), percent(hot.low), percent(hot.high)]
    };
    let titles = ["key", "#requests", "#at least", "#at most"];
    html.table(&titles, &hottest.iter().map(row).collect::<Vec<_>>());
    html.add(format_args!(
        "<p class=dim>Share of the requests of the last {SPANS} seconds that name the key, from a sample of {}.\n",
        notes(&f.facts.server.threads, f.facts.now),
    ));
}

fn large(big_keys: &[BigKey], html: &mut Html) {
    html.heading("Largest values");
    let row = |big: &BigKey| vec![shown(&big.key), human(big.bytes as u64)];
    let rows: Vec<Vec<String>> = big_keys.iter().map(row).collect();
    html.table(&["key", "#bytes"], &rows);
}

fn clients(f: &Figures<'_>, html: &mut Html) {
    let clients = f.facts.server.clients.all();
    html.heading("Clients");
    html.add(format_args!(
        "<p>{} connected (limit {}); {} waiting for a key, {} refused.\n",
        clients.len(),
        f.facts.config.maxclients,
        f.facts.store.watches,
        f.totals.rejected + f.totals.protected,
    ));
    let shown = clients.iter().take(CLIENTS_SHOWN);
    let rows: Vec<Vec<String>> = shown.map(|client| client_row(client, f.facts.now)).collect();
    html.table(&["id", "address", "name", "library", "#age", "#idle", "#unsent"], &rows);
    if clients.len() > CLIENTS_SHOWN {
        let more = clients.len() - CLIENTS_SHOWN;
        html.add(format_args!("<p class=dim>and {more} more; CLIENT LIST shows all.\n"));
    }
}

fn client_row(client: &ClientShared, now: u64) -> Vec<String> {
    let labels = client.labels();
    let since = |then: u64| duration(now.saturating_sub(then) / 1000);
    vec![
        client.id.to_string(),
        client.peer.to_string(),
        labels.name.to_string(),
        format!("{} {}", labels.lib_name, labels.lib_ver),
        since(client.connected_at),
        // ORDERING: Relaxed, here and below: only shown to people.
        since(client.active_at.load(Relaxed)),
        human(client.unsent_len.load(Relaxed) as u64),
    ]
}

/// Formats a rate, as `1.2M`.
fn count(n: f64) -> String {
    match n {
        n if n >= 1e6 => format!("{:.2}M", n / 1e6),
        n if n >= 1e4 => format!("{:.1}k", n / 1e3),
        n => format!("{n:.0}"),
    }
}

/// Formats a duration, as `3d 04:05:06`.
fn duration(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let time = format!("{:02}:{:02}:{:02}", rest / 3600, rest / 60 % 60, rest % 60);
    if days > 0 { format!("{days}d {time}") } else { time }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_clients_is_escaped() {
        assert_eq!(Plain("a<b>&\"c").to_string(), "a&lt;b&gt;&amp;&quot;c");
        let mut html = Html(String::new());
        large(&[BigKey { bytes: 1 << 20, key: (*b"<script>").into() }], &mut html);
        assert!(html.0.contains("<td>&lt;script&gt;<td class=n>1.00M"), "{}", html.0);
    }

    #[test]
    fn a_link_is_told_in_words() {
        let copied = Copied { bytes: 1 << 20, keys: 25, keys_total: 100, ..Copied::default() };
        let mut status = LinkStatus {
            stage: LinkStage::Copying,
            down: Some(Duration::from_secs(61)),
            silent: None,
            received: 0,
            copied,
            failure: Some("cut".to_string()),
            awaits_order: false,
        };
        assert_eq!(link(&status), "receiving a full copy: 25.0 %, 25 keys, 1.00M");
        status.stage = LinkStage::Connect;
        assert_eq!(link(&status), "down for 00:01:01: cut");
        status.stage = LinkStage::Connected;
        status.silent = Some(Duration::from_secs(2));
        assert_eq!(link(&status), "up, last bytes 00:00:02 ago");
    }

    #[test]
    fn times_and_counts_are_short() {
        assert_eq!(duration(3 * 86_400 + 3661), "3d 01:01:01");
        assert_eq!([9_999.0, 12_345.0, 1.5e6].map(count), ["9999", "12.3k", "1.50M"]);
    }
}
